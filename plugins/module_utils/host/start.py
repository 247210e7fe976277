# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Start the program of the hosts' side, which lies on the host under the digest of its sources.

The controller sends this file as an argument of the host's Python, with: the folder of the programs, the digest, the
number of bytes of sources that stand before the question on standard input, and "keep" or "pass" for what to do with
them afterwards. Where the
program is not there and no sources came, it says so, and is started again with them. The program is not run where
others could have written it (Python checks nothing of what it imports).
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import time

# What only an installation needs is imported there: every call starts here.

ABSENT = "CLUSTER-COMPUTE-ABSENT"
DAMAGED = "CLUSTER-COMPUTE-DAMAGED"
UNKEPT = "CLUSTER-COMPUTE-UNKEPT "
REFUSED = "CLUSTER-COMPUTE-REFUSED "
MAIN = "ansible_collections.cluster_compute.session.plugins.module_utils.host.program"
MONTH = 30 * 86400
DAY = 86400
TIME = (1980, 1, 1, 0, 0, 0)
HEAD = 65
"""Bytes before the archive: the digest of its bytes, in hexadecimal, and a line's end."""


def tell(text: str) -> None:
    """Write a line for the controller, on a line of its own whatever stands before it."""
    sys.stdout.write(f"\n{text}\n")
    sys.stdout.flush()


def trusted(path: str) -> bool:
    """Tell whether *path* is there. Ends the process, saying why, where somebody else could have put it there."""
    for place in (os.path.dirname(os.path.dirname(path)), os.path.dirname(path), path):
        try:
            about = os.lstat(place)
        except OSError:
            return False
        why = ""
        if about.st_uid not in (0, os.geteuid()):
            why = f"it belongs to the user with the number {about.st_uid}"
        elif about.st_mode & 0o022 or about.st_mode & 0o170000 == 0o120000:
            why = f"others can change it (mode {about.st_mode & 0o7777:04o})"
        if why:
            tell(f"{REFUSED}{place} is not trusted: {why}. Look who put it there, then remove it.")
            raise SystemExit(0)
    return True


def whole(path: str) -> bool:
    """Tell whether a program is as it was written."""
    with open(path, "rb") as file:
        content = file.read()
    return content[: HEAD - 1] == hashlib.sha256(content[HEAD:]).hexdigest().encode()


def build(sources: bytes) -> bytes:
    """Return the program: an archive of the sources and, compiled for this Python, what it runs."""
    import io
    import marshal
    import zipfile

    stream = io.BytesIO(b" " * HEAD)
    stream.seek(HEAD)
    with zipfile.ZipFile(io.BytesIO(sources)) as given, zipfile.ZipFile(stream, "a") as made:
        for name in given.namelist():
            text = given.read(name)
            code = marshal.dumps(compile(text, name, "exec", dont_inherit=True))
            # PEP 552: checked by nobody, for the digest of the whole was.
            head = importlib.util.MAGIC_NUMBER + b"\x01\0\0\0" + importlib.util.source_hash(text)
            made.writestr(zipfile.ZipInfo(name, TIME), text)
            made.writestr(zipfile.ZipInfo(f"{name}c", TIME), head + code)
    content = stream.getvalue()
    return hashlib.sha256(content[HEAD:]).hexdigest().encode() + b"\n" + content[HEAD:]


def keep(path: str, content: bytes) -> str:
    """Write a program to its place, and remove those that nobody has used for a month; return why not, if not."""
    import tempfile

    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, 0o755, exist_ok=True)
        number, aside = tempfile.mkstemp(dir=folder)
        try:
            with os.fdopen(number, "wb") as file:
                file.write(content)
                os.fchmod(number, 0o644)
                file.flush()
                os.fsync(number)
            os.replace(aside, path)
        except BaseException:
            os.unlink(aside)
            raise
        for name in os.listdir(folder):
            other = os.path.join(folder, name)
            if other != path and os.lstat(other).st_mtime < time.time() - MONTH:
                os.unlink(other)
    except OSError as error:
        return str(error)
    return ""


def use(path: str) -> int:
    """Run the program."""
    sys.path.insert(0, path)
    return int(importlib.import_module(MAIN).main())


def main(folder: str, digest: str, size: str, how: str) -> int:
    """Run the program that is there, or the one that was sent."""
    if sys.version_info < (3, 9):  # noqa: UP036 - a host may have anything
        version = sys.version.split()[0]
        tell(
            f"{REFUSED}The Python of this host, {sys.executable}, is {version}; 3.9 or newer is needed. Name one in "
            "ansible_python_interpreter."
        )
        return 0
    path = os.path.join(folder, f"{digest}-{sys.implementation.cache_tag}.pyz")
    if size == "0":
        is_there = trusted(path)
        if not is_there or not whole(path):
            tell(DAMAGED if is_there else ABSENT)
            return 0
        if os.lstat(path).st_mtime < time.time() - DAY and os.access(path, os.W_OK):
            os.utime(path)
        return use(path)
    content = build(sys.stdin.buffer.read(int(size)))
    if how == "keep":
        why = keep(path, content)
        if not why:
            return use(path)
        tell(f"{UNKEPT}{why}")
    import tempfile

    with tempfile.TemporaryDirectory() as aside:
        path = os.path.join(aside, "host.pyz")
        with open(path, "wb") as file:
            file.write(content)
        return use(path)


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))

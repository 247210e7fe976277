# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Make the program of the hosts' side of its sources, and put it where `entry_point` finds it.

`entry_point` runs this file as it comes out of the sources, so it imports nothing of the collection.
"""

from __future__ import annotations

import io
import marshal
import os
import tempfile
import time
import zipfile

MONTH = 30 * 86400


def build(sources: bytes) -> bytes:
    """Return the program: what is in it, after the length of that, and then, end to end, codes and sources.

    What is in it: where the sources begin, and by the name of a module whether it is a package, and from where to where
    its code is. Compiled by the Python that runs it; its version is in the program's name.
    """
    modules = {}
    codes = b""
    with zipfile.ZipFile(io.BytesIO(sources)) as archive:
        for path in archive.namelist():
            name = path[: -len(".py")].replace("/", ".")
            is_package = name.endswith(".__init__")
            code = marshal.dumps(compile(archive.read(path), path, "exec", dont_inherit=True))
            modules[name[: -len(".__init__")] if is_package else name] = (
                is_package,
                len(codes),
                len(codes) + len(code),
            )
            codes += code
    known = marshal.dumps((len(codes), modules))
    return b"%08x" % len(known) + known + codes + sources


def keep(path: str, content: bytes) -> str:
    """Write a program to its place, and remove those that nobody has used for a month; return why not, if not."""
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

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Start the program for hosts, which is stored on the host under the digest of its sources.

The controller sends this file as an argument of the host's Python, with the directory of the programs, the digest, the
number of bytes of sources before the request on standard input, and "keep" or "pass" for what to do with them
afterwards. If the program is missing and no sources came, it reports this and is started again with them. The program
is not run if other users could have written it, because Python does not check what it imports.

Every call reads this file. Code that only an installation needs is in `install`, which comes with the sources.
"""

from __future__ import annotations

import gc
import importlib
import io
import marshal
import mmap
import os
import sys
import time
import zlib
from importlib.machinery import ModuleSpec
from types import ModuleType

ABSENT = "CLUSTER-COMPUTE-ABSENT"
DAMAGED = "CLUSTER-COMPUTE-DAMAGED"
UNKEPT = "CLUSTER-COMPUTE-UNKEPT "
REFUSED = "CLUSTER-COMPUTE-REFUSED "
HOST = "ansible_collections.cluster_compute.session.plugins.module_utils._internal.host"
DAY = 86400


def tell(text: str) -> None:
    """Write a line for the controller, on a separate line whatever comes before it."""
    sys.stdout.write(f"\n{text}\n")
    sys.stdout.flush()


def trusted(path: str) -> bool:
    """Return whether *path* exists. If another user could have created it, report this and end the process."""
    for place in (os.path.dirname(os.path.dirname(path)), os.path.dirname(path), path):
        try:
            status = os.lstat(place)
        except OSError:
            return False
        why = ""
        if status.st_uid not in (0, os.geteuid()):
            why = f"it belongs to the user with the number {status.st_uid}"
        elif status.st_mode & 0o022 or status.st_mode & 0o170000 == 0o120000:
            why = f"others can change it (mode {status.st_mode & 0o7777:04o})"
        if why:
            tell(f"{REFUSED}{place} is not trusted: {why}. Look who put it there, then remove it.")
            raise SystemExit(0)
    return True


class Program:
    """A finder and loader for the program's own modules (PEP 451), from one file that is read once."""

    def __init__(self, content: memoryview) -> None:
        """Take the output of `install.build`."""
        begin = 8 + int(bytes(content[:8]), 16)
        self.modules: dict[str, tuple[bool, int, int]]
        end, self.modules = marshal.loads(content[8:begin])
        self.codes, self.sources = content[begin : begin + end], content[begin + end :]

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return the spec of a module, None if it does not belong to the program."""
        if name not in self.modules:
            return None
        return ModuleSpec(name, self, is_package=self.modules[name][0])  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave this to Python."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's code."""
        _is_package, begin, end = self.modules[module.__name__]
        exec(marshal.loads(self.codes[begin:end]), module.__dict__)

    def get_source(self, name: str) -> str:
        """Return the source of a module, which is needed to build the program that runs at boot."""
        import zipfile

        end = "/__init__.py" if self.modules[name][0] else ".py"
        with zipfile.ZipFile(io.BytesIO(self.sources)) as archive:
            return archive.read(name.replace(".", "/") + end).decode()


def use(content: memoryview) -> int:
    """Run the program."""
    # A call ends soon and its imports stay, and garbage collection would take a tenth of the time.
    gc.set_threshold(100_000)
    sys.meta_path.insert(0, Program(content))
    code = int(importlib.import_module(f"{HOST}.program").main())
    gc.freeze()  # nor at the end
    return code


def main(folder: str, digest: str, size: str, how: str) -> int:
    """Run the stored program, or the one that was sent."""
    if sys.version_info < (3, 9):  # noqa: UP036 - a host may have anything
        version = sys.version.split()[0]
        tell(
            f"{REFUSED}The Python of this host, {sys.executable}, is {version}; 3.9 or newer is needed. Name one in "
            "ansible_python_interpreter."
        )
        return 0
    path = os.path.join(folder, f"{digest}-{sys.implementation.cache_tag}")
    if size == "0":
        if not trusted(path):
            tell(ABSENT)
            return 0
        whole = memoryview(b"")
        if os.path.getsize(path):  # an empty file cannot be mapped
            with open(path, "rb") as file:
                # Mapped instead of read, because most of it is not used.
                whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        if bytes(whole[:8]) != b"%08x" % zlib.crc32(whole[8:]):
            tell(DAMAGED)
            return 0
        if os.lstat(path).st_mtime < time.time() - DAY and os.access(path, os.W_OK):
            os.utime(path)
        return use(whole[8:])
    import zipfile

    sources = sys.stdin.buffer.read(int(size))
    install = ModuleType("install")
    with zipfile.ZipFile(io.BytesIO(sources)) as archive:
        exec(archive.read(f"{HOST.replace('.', '/')}/install.py"), install.__dict__)
    content = install.build(sources)
    if how == "keep":
        why = install.keep(path, b"%08x" % zlib.crc32(content) + content)
        if why:
            tell(f"{UNKEPT}{why}")
    return use(memoryview(content))


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))

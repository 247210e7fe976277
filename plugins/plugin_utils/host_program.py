# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The program for hosts as the controller sends it: its sources in one archive, named by their digest."""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import shlex
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..module_utils._internal.core.values import errors
from ..module_utils._internal.host import entry_point
from ..module_utils._internal.host.program import MARK

FOLDER = "/usr/local/lib/cluster-compute/programs"
"""Where a host keeps the programs of the controllers that use it."""
PACKAGES = ("core", "adapters", "host", "replica")
_PACKAGE = "ansible_collections/cluster_compute/session/plugins/module_utils/_internal"
_TIME = (1980, 1, 1, 0, 0, 0)
"""The earliest date that a zip archive can store."""


@dataclass(frozen=True)
class Program:
    """digest: of the sources, in hexadecimal. place: path of the archive of the sources in this run of Ansible.

    folder: where hosts store it.
    """

    digest: str
    place: Path
    folder: str = FOLDER

    @property
    def path(self) -> Path:
        """The archive of the sources, which is created when the first host needs the program."""
        made = self.place / "sources.zip"
        _make_once(made, lambda: archive(_sources()))
        return made

    def command(self, python: str, size: int = 0, keep: bool = True) -> str:
        """Return the command for a host's shell. size: bytes of sources before the request, 0 for none."""
        text = Path(entry_point.__file__).read_text(encoding="utf-8")
        argv = ["-I", "-c", text, self.folder, self.digest, str(size), "keep" if keep else "pass"]
        return f"{python} {shlex.join(argv)}"


def the_program(folder: str) -> Program:
    """Return the program of this collection. folder: directory of this run of Ansible, where it is created once."""
    place = Path(folder) / "cluster-compute-program"
    known = place / "digest"
    if not known.exists():
        place.mkdir(mode=0o700, exist_ok=True)
        _make_once(known, lambda: digest(_sources()).encode())
    return Program(known.read_text(encoding="ascii"), place)


def _make_once(path: Path, make: Callable[[], bytes]) -> None:
    """Write *path* unless it exists, as the forks of a run do this in parallel."""
    if path.exists():
        return
    with (path.parent / "lock").open("a", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            aside = path.with_name(f"{path.name}.new")
            aside.write_bytes(make())
            aside.rename(path)


def _sources() -> dict[str, bytes]:
    """Return every source that runs on hosts, by its path in the archive."""
    top = Path(errors.__file__).parents[2]
    found = {
        f"{_PACKAGE}/{path.relative_to(top)}": path.read_bytes()
        for package in PACKAGES
        for path in (top / package).rglob("*.py")
    }
    for name in list(found):
        for folder in Path(name).parents:
            if folder.name:
                found.setdefault(f"{folder}/__init__.py", b"")
    return found


def digest(sources: dict[str, bytes]) -> str:
    """Return the identifier of these sources: 32 hexadecimal digits."""
    parts = [hashlib.sha256(sources[name]).hexdigest() + name for name in sorted(sources)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def archive(sources: dict[str, bytes]) -> bytes:
    """Return the sources as a zip archive, packed."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as made:
        for name in sorted(sources):
            made.writestr(zipfile.ZipInfo(name, _TIME), sources[name], zipfile.ZIP_DEFLATED)
    return stream.getvalue()


def question(call: str, arguments: Mapping[str, Any], check_mode: bool) -> bytes:
    """Return the standard input of the program. It is packed, because a record repeats the same for each replica."""
    # Ansible may pass a text that is only decrypted when it is read.
    call_data = {"call": call, "arguments": arguments, "check_mode": check_mode}
    return zlib.compress(json.dumps(call_data, default=str).encode())


def answer_in(output: str) -> dict[str, Any] | None:
    """Return the answer in the output of a host. None if there is none."""
    for line in reversed(output.splitlines()):
        if line.startswith(MARK):
            found = json.loads(line[len(MARK) :])
            return found if isinstance(found, dict) else None
    return None


def text_behind(output: str, mark: str) -> str | None:
    """Return what follows one of the marks of `host/entry_point.py`. None if the mark is missing."""
    found = [line[len(mark) :] for line in output.splitlines() if line.startswith(mark)]
    return found[0] if found else None

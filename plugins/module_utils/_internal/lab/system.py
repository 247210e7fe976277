# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Small helpers around the operating system: commands, locks, and the one exception of the lab."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence

from ..adapters.locks import take_lock


class LabError(Exception):
    """The lab cannot do something. The message is a full sentence for the user."""


def run(argv: Sequence[str], *, stdin: str | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command without a shell and return its completed process.

    Raises LabError if the program is missing, or if it fails and `check` is true.
    """
    try:
        done = subprocess.run(  # pylint: disable=ansible-bad-function
            list(argv),
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise LabError(f"The program {argv[0]} is not installed on this machine; the lab needs it.") from error
    if check and done.returncode != 0:
        output = "\n".join((done.stdout + done.stderr).strip().splitlines()[-20:])
        raise LabError(f"The command '{' '.join(argv)}' failed with code {done.returncode}: {output}")
    return done


def need_root() -> None:
    """Raise LabError unless this process runs as root, which namespaces, mounts and links need."""
    if os.geteuid() != 0:
        raise LabError(
            "A lab's hosts have networks and disks of their own, which only root can make; run this as root."
        )


@contextlib.contextmanager
def locked(path: str, *, shared: bool = False, seconds: float = 1200.0) -> Iterator[int]:
    """Hold an advisory lock on `path` and yield its file descriptor.

    Forked children also hold the lock until they exec or exit, so the next holder finds nothing incomplete.
    Raises LabError after `seconds`.
    """
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not take_lock(descriptor, seconds, shared=shared):
            raise LabError(
                f"The lock {path} was not free within {seconds:.0f} seconds; another run of the lab holds it."
            )
        yield descriptor
    finally:
        os.close(descriptor)


def write_file(path: str, content: str, mode: int = 0o644) -> None:
    """Write a file atomically: write a temporary file, then move it into place."""
    aside = f"{path}.{os.getpid()}.new"
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(content)
    os.chmod(aside, mode)
    os.replace(aside, path)


def read_file(path: str) -> str | None:
    """Return the text of a file, or None if it does not exist."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            return stream.read()
    except (FileNotFoundError, NotADirectoryError):
        return None

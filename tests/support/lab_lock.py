# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""One run of tests at a time uses a lab of a name: another one, of this or of another checkout, would destroy it."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FOLDER = Path("/run/lock/cluster-compute-lab")


class LabInUse(RuntimeError):
    """Another run of tests has the lab; the message names it."""


@contextmanager
def only_user(lab: str, folder: Path = FOLDER) -> Iterator[None]:
    """Use a lab alone for the time of the block. Raises LabInUse at once where another process does."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{lab}.tests").open("a", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabInUse(
                f"Other tests use the lab {lab} on this machine at the moment. Wait until they have ended."
            ) from None
        yield

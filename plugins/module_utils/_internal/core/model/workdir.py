# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The working directory that a session takes along: a folder of the controller, as the packs that hosts get of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from ..values.deferred import dataclass
from ..values.errors import InvalidInput
from ..values.image_names import digest_of, is_image_id, is_pack
from ..values.parse import is_plain
from ..values.paths import is_below

WORK = "/work"
"""The path of the folder's files in each replica."""
LONGEST_PATH = 4096


@dataclass(frozen=True)
class Workdir:
    """A folder of the controller. Two are equal if they have the same content, wherever they are.

    path: there. packs: references of its parts, in the order in which replicas unpack them; none until it was read.
    size: bytes of its files.
    """

    path: str = field(compare=False)
    packs: tuple[str, ...] = ()
    size: int = field(default=0, compare=False)


def parse_workdir(variable: str, value: Any) -> Workdir:
    """Return a folder that is given as its path, or in its stored form. Raises InvalidInput."""
    if isinstance(value, str):
        text = value.strip()
        if not is_plain(text) or len(text) > LONGEST_PATH:
            raise InvalidInput.single(
                variable, value, "It must be the path of a folder of the controller, such as '.'."
            )
        return Workdir("".join(text))
    if not isinstance(value, Mapping) or set(value) != {"path", "packs", "size"}:
        raise InvalidInput.single(variable, value, "It must be the path of a folder, as text.")
    path, packs, size = value["path"], value["packs"], value["size"]
    known = isinstance(packs, (list, tuple)) and all(isinstance(pack, str) and _is_named(pack) for pack in packs)
    if not (isinstance(path, str) and known and isinstance(size, int) and size >= 0):
        raise InvalidInput.single(variable, value, "It is not in the form that the collection writes.")
    return Workdir(path, tuple(packs), size)


def _is_named(pack: str) -> bool:
    return is_pack(pack) and is_image_id(digest_of(pack))


def meets(path: str) -> bool:
    """Tell whether a path of a replica is that of the working directory, in it, or above it."""
    return is_below(path, WORK) or is_below(WORK, path)


def in_mib(size: int) -> str:
    """Return bytes in words, to a tenth of a MiB."""
    return f"{size / 1024**2:.1f} MiB"


def show_workdir(workdir: Workdir | None) -> str:
    """Return in words what a folder holds: its size, and what identifies its content; empty if there is none."""
    if workdir is None:
        return ""
    content = ", ".join(pack.partition(":")[2][:12] for pack in workdir.packs) or "not read"
    return f"{in_mib(workdir.size)}, {content}"

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Places that the text of a path refers to, links followed."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable

from .errors import SessionError, show


def is_below(path: str, root: str) -> bool:
    """Tell whether *path* is *root* or inside it, judging only by the text."""
    return path == root or path.startswith(root.rstrip("/") + "/")


MOST_LINKS = 40
"""Symbolic links that Linux follows on the way to one file (path_resolution(7))."""


def places_on(path: str, link_at: Callable[[str], str]) -> list[str]:
    """Return the places that the way to *path* passes, links followed, each without links; the last is its own.

    link_at: returns the target of the symbolic link at a place, empty if there is none. A place that does not exist yet
    is taken as it is written. Raises SessionError for a path with too many links, such as links that form a circle.
    """
    places = ["/"]
    left = path.split("/")[::-1]
    links = 0
    while left:
        name = left.pop()
        if name in ("", "."):
            continue
        if name == "..":
            places.append(posixpath.dirname(places[-1]))
            continue
        place = posixpath.join(places[-1], name)
        link = link_at(place)
        if not link:
            places.append(place)
            continue
        links += 1
        if links > MOST_LINKS:
            raise SessionError(f"More than {MOST_LINKS} symbolic links are on the way to {show(path)}.")
        left += link.split("/")[::-1]
        if link.startswith("/"):
            places.append("/")
    return places


def place_outside(path: str, mounted: Iterable[str], link_at: Callable[[str], str]) -> str | None:
    """Return the real place of *path*, links followed; None if it, or a place on the way, is *mounted* or below that.

    mounted: places without links.
    """
    places = places_on(path, link_at)
    roots = list(mounted)
    return None if any(is_below(place, root) for place in places for root in roots) else places[-1]

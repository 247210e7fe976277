# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Places of files on hosts and in replicas, and what the text of a path tells."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable

from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import SessionError, show

DIRECTORY = "/etc/cluster-compute"
"""Where the files of the environment lie in every replica."""
RUNTIME_ON_HOST = "/usr/local/lib/cluster-compute/ssh-runtime"
RUNTIME_MANIFEST = "manifest"
"""The file in it that is there when all others are."""


def is_below(path: str, root: str) -> bool:
    """Tell whether *path* is *root* or in it, as far as the text says."""
    return path == root or path.startswith(root.rstrip("/") + "/")


MOST_LINKS = 40
"""Symbolic links that Linux follows on the way to one file (path_resolution(7))."""


def places_on(path: str, link_at: Callable[[str], str]) -> list[str]:
    """Return the places that the way to *path* leads over, links followed, each without links; the last is its own.

    link_at: returns what the symbolic link at a place says, empty where there is none. What is not there yet is taken
    for what it reads. Raises SessionError for a path of too many links, as of those that lead to each other.
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
    """Return the place that *path* is, links followed; None where it, or one on the way to it, is *mounted* or below.

    mounted: places without links.
    """
    places = places_on(path, link_at)
    roots = list(mounted)
    return None if any(is_below(place, root) for place in places for root in roots) else places[-1]

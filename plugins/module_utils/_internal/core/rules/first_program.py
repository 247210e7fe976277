# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Programs that run in front of a replica's command: the engine's init and an entrypoint."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from ..values.errors import show

_FIRST = ("init", "systemd", "s6-svscan", "runit", "runit-init")
"""Programs that work only as the first process."""


def in_front(entrypoint: Sequence[str], command: Sequence[str], has_init: bool, is_own: bool) -> str:
    """Return in a sentence what ran in front of a container's command if that may be why it ended; else nothing.

    has_init: whether the engine's init was first. is_own: whether the request named the entrypoint. Only the program of
    an entrypoint is shown: its arguments may hold secrets.
    """
    program = next(iter((*entrypoint, *command)), "")
    wants_to_be_first = posixpath.basename(program) in _FIRST
    if not entrypoint and not (has_init and wants_to_be_first):
        return ""
    whose = "session_entrypoint" if is_own else "the image's entrypoint"
    put = ["Docker's init"] if has_init else []
    ways = ["session_init=false leaves out Docker's init, for an image that brings its own"] if has_init else []
    if entrypoint:
        put.append(f"{whose} {show(entrypoint[0])}")
        ways += [] if is_own else ["session_entrypoint takes the place of the image's"]
    return f"In front of its command ran {' and '.join(put)}{': ' if ways else ''}{'; '.join(ways)}."

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The order in which the roles of a session are started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

MAXIMUM_WAVES = 16
"""How often a launch may start roles and wait until they are ready: each wave is a round of calls to all its hosts."""


def start_waves(after: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    """Return the roles by wave: each role as early as possible, in a wave after the roles that it comes after.

    after: by role, the roles that have to be ready before it is started; all of them are keys.
    Raises ValueError, with the roles that are left, if some wait for each other in a circle.
    """
    waves: list[tuple[str, ...]] = []
    left = {role: set(earlier) for role, earlier in after.items()}
    while left:
        wave = tuple(role for role, earlier in left.items() if not earlier & left.keys())
        if not wave:
            raise ValueError(", ".join(left))
        waves.append(wave)
        left = {role: earlier for role, earlier in left.items() if role not in wave}
    return waves

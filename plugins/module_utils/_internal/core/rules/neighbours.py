# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Number of neighbours that a host's kernel has to know for all replicas: network namespaces share one table."""

from __future__ import annotations

from ..values.parse import is_given, parse_integer

MAX_REPLICAS = "cluster_compute_max_replicas"
UNLIMITED = 256
"""Replicas that a host without a limit is expected to have."""
PEERS = 256
"""Replicas of other hosts, or of its own, that each replica can talk to at the same time."""
LEAST, MOST = 1024, 2**20
"""Entries: the kernel's default (ip-sysctl: neigh/default/gc_thresh3), and some 500 MB of memory."""


def parse_max_replicas(value: object) -> int | None:
    """Return the most replicas of a host, None for no limit. Raises InvalidInput."""
    return parse_integer(MAX_REPLICAS, value, 0, 1_000_000) if is_given(value) else None


def neighbour_limits(max_replicas: int | None) -> dict[str, int]:
    """Return the least values of the kernel's settings, in the same proportion as the kernel's defaults.

    Above the third no neighbour is added, above the second old ones are removed soon, below the first all stay.
    """
    replicas = UNLIMITED if max_replicas is None else max_replicas
    entries = min(MOST, max(LEAST, replicas * max(replicas, PEERS)))
    return {
        f"net.{family}.neigh.default.gc_thresh{number}": entries // part
        for family in ("ipv4", "ipv6")
        for number, part in ((1, 8), (2, 2), (3, 1))
    }

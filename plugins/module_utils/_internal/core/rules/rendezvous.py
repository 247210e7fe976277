# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The hosts that know a session by its name, whether they carry replicas of it or not.

A name means one session in a resource group, even while the hosts of that session are switched off, and even if two
launches of the name begin at once and find places on different hosts. So some hosts that depend only on the name store
it as well: everything that asks for the name asks them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

NAME_HOSTS = 3
"""Number of these hosts: the name is free only when all of them, and the session's own, are lost."""


def name_hosts(session_name: str, known: Iterable[str], identities: Mapping[str, str]) -> list[str]:
    """Return the hosts that know the name, of all *known* of the resource group, the first one first.

    identities: by host its own identity, if it has one and answers, so that inventories with other names for the hosts
    find the same ones; the others count by their names. A host that joins or leaves the group, or becomes unreachable,
    changes one of them at most (rendezvous hashing, Thaler and Ravishankar 1998).
    """

    def weight(host: str) -> bytes:
        return hashlib.sha256(f"{session_name} {identities.get(host) or host}".encode()).digest()

    return sorted(known, key=weight)[:NAME_HOSTS]

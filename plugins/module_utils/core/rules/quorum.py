# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Who decides that a session goes on without a host: most of its witnesses, whoever is cut off from whom.

Witnesses are the hosts that know the session's name, written down when it was launched, so that two controllers that
reach different hosts count the same ones. Of two majorities one host is part of both, and a host agrees to one content
of a revision alone: so of two changes at the same moment one is decided.

A record of an earlier release names no witnesses. Its own hosts decide then, and of two halves that with main1.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.record import Record


def electors(record: Record) -> tuple[str, ...]:
    """Return the hosts most of which have to agree to a change of a session that has lost a host."""
    return record.witnesses or record.hosts


def main_host(record: Record) -> str:
    """Return the host of main1; empty where the record does not say, as in a stub."""
    return record.replicas[0].host if record.replicas else ""


def is_quorum(agreeing: Collection[str], of: Collection[str], main: str) -> bool:
    """Tell whether hosts are most of the electors. main: the host of main1, whose half counts as the larger one."""
    votes = {*agreeing} & {*of}
    return 2 * len(votes) + (main in votes) > len({*of})

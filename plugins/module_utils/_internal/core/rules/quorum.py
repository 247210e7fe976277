# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The decision that a session continues without a host: most of its witnesses, whichever are cut off.

Witnesses are the hosts that know the session's name. They are recorded when it is launched, so that two controllers
that reach different hosts count the same ones. Two majorities have at least one host in common, and a host agrees to
only one content of a revision: so of two changes at the same moment only one is decided.

A record of an earlier release names no witnesses. Then its own hosts decide, and of two halves the one with main1.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..model.record import Record


def electors(record: Record) -> tuple[str, ...]:
    """Return the hosts of which most have to agree to a change of a session that has lost a host."""
    return record.witnesses or record.hosts


def main_host(record: Record) -> str:
    """Return the host of main1; empty if the record does not contain it, as in a stub."""
    return record.replicas[0].host if record.replicas else ""


def is_quorum(agreeing: Collection[str], of: Collection[str], main: str) -> bool:
    """Tell whether hosts are most of the electors. main: the host of main1, whose half counts as the larger one."""
    votes = {*agreeing} & {*of}
    return 2 * len(votes) + (main in votes) > len({*of})

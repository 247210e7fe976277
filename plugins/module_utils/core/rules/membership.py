# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Whether a host still carries its part of a session, by what the session's other hosts answer to a question.

The question is a datagram to the port of the session's tunnel, which no tunnel takes; the firewall rules of the other
hosts answer it (`rules.isolation.Door`) with one ICMP message to a host of the session, and with another one to a host
whose replicas were given to others. Both come from rules of the session alone and quote the datagram, with a number
that nobody can guess who did not see it. Everything else, silence and what other firewalls say included, is no answer.

By another question hosts that wait for each other at a session's start ask whether one has given up, which its rules
answer with that no until the session is removed there.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.plan import Plan

MEMBER = "member"
GIVEN_AWAY = "given away"
UNKNOWN = "unknown"
"""The membership of a host in a session: it carries its part; its part was given to others; nobody says so or so."""

QUESTION = 0x08000001
"""Flags and reserved bits before the identifier. VXLAN drops what has unknown bits (Linux, vxlan_rcv), WireGuard what
is of no known type (its protocol, 5.4), so a host without the rules takes it for nothing."""

WAITING = 0x08000002
"""The same for the question of a host that waits for another one to start the session."""

NONCE_SIZE = 16
"""Bytes behind the header, by which an answer is known for one."""

_UNREACHABLE = {4: 3, 6: 1}
_YES = {4: 2, 6: 5}
_NO = {4: 9, 6: 6}
"""ICMP type "destination unreachable" and its codes (RFC 792, RFC 1812, RFC 4443): what `rules.isolation.YES` and
`rules.isolation.NO` call by name."""


def holds_back(plan: Plan) -> bool:
    """Tell whether a host that does not know its membership starts nothing of the session by itself."""
    return bool(plan.request.get("on_host_loss") == "replace")


def question(flags: int, vni: int, nonce: bytes) -> bytes:
    """Return the datagram: a VXLAN header with unknown bits (RFC 7348, 5), and what tells its answer from others.

    flags: QUESTION or WAITING.
    """
    return struct.pack("!II", flags, vni << 8) + nonce


def read_answer(version: int, icmp_type: int, code: int) -> bool | None:
    """Return what an ICMP message of IP *version* says: yes, no, or nothing."""
    if icmp_type != _UNREACHABLE[version]:
        return None
    return {_YES[version]: True, _NO[version]: False}.get(code)


def judge(others: Collection[str], answers: Mapping[str, bool]) -> str:
    """Return the membership of a host.

    others: the other hosts of its plan. answers: what those that answered say. A host whose part was given away while
    most of the others agreed to it never has most of them for itself; where a few still know the plan of before, they
    do not outvote it, and where it is even nothing is started and nothing removed.
    """
    yes = sum(answers.get(host) is True for host in others)
    no = sum(answers.get(host) is False for host in others)
    if no > yes:
        return GIVEN_AWAY
    return MEMBER if no == 0 and 2 * yes > len(others) else UNKNOWN

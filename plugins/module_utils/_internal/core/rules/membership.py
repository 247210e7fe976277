# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Whether a host still carries its part of a session, according to the session's other hosts.

The question is a datagram to the port of the session's tunnel, which tunnels ignore. The firewall rules of the other
hosts answer it (`rules.isolation.Door`): with one ICMP message to a host of the session, and with another to a host
whose replicas were given to others. Both come only from the session's rules and quote the datagram, which contains a
number that nobody can guess without having seen it. Everything else, including silence and the answers of other
firewalls, is not an answer.

A second question is for hosts that wait for each other when a session starts. It asks whether a host has given up; the
host's rules answer it with that same no until the session is removed there.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..model.plan import Plan

MEMBER = "member"
GIVEN_AWAY = "given away"
UNKNOWN = "unknown"
"""The membership of a host in a session: it carries its part; its part was given to others; not known."""

QUESTION = 0x08000001
"""Flags and reserved bits before the identifier. VXLAN drops packets with unknown bits (Linux, vxlan_rcv), WireGuard
packets of an unknown type (its protocol, 5.4), so a host without the rules ignores the question."""

WAITING = 0x08000002
"""The same for the question of a host that waits for another one to start the session."""

NONCE_SIZE = 16
"""Bytes after the header, by which an answer is recognised."""

_UNREACHABLE = {4: 3, 6: 1}
_YES = {4: 2, 6: 5}
_NO = {4: 9, 6: 6}
"""ICMP type "destination unreachable" and its codes (RFC 792, RFC 1812, RFC 4443), which `rules.isolation.YES` and
`rules.isolation.NO` call by name."""


def holds_back(plan: Plan) -> bool:
    """Tell whether a host that does not know its membership starts nothing of the session by itself."""
    return bool(plan.request.get("on_host_loss") == "replace")


def question(flags: int, vni: int, nonce: bytes) -> bytes:
    """Return the datagram: a VXLAN header with unknown bits (RFC 7348, 5), and bytes that identify its answer.

    flags: QUESTION or WAITING.
    """
    return struct.pack("!II", flags, vni << 8) + nonce


def read_answer(version: int, icmp_type: int, code: int) -> bool | None:
    """Return the meaning of an ICMP message of IP *version*: yes, no, or nothing."""
    if icmp_type != _UNREACHABLE[version]:
        return None
    return {_YES[version]: True, _NO[version]: False}.get(code)


def judge(others: Collection[str], answers: Mapping[str, bool]) -> str:
    """Return the membership of a host.

    others: the other hosts of its plan. answers: by host, of those that answered. If a host's part was given away and
    most of the others agreed to that, it can never have most of them on its side. A few hosts that still know the
    earlier plan do not outvote it, and if the answers are even, nothing is started and nothing removed.
    """
    yes = sum(answers.get(host) is True for host in others)
    no = sum(answers.get(host) is False for host in others)
    if no > yes:
        return GIVEN_AWAY
    return MEMBER if no == 0 and 2 * yes > len(others) else UNKNOWN

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The calls by which hosts reserve their parts of a session, and release them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ...model.claims import ClaimAnswer
from ...rules.ledger import turns_seconds
from ..verb import PLACE, Call, call
from .launch import Launch

LEASE = ("lease_seconds", *PLACE)


def held(launch: Launch, hosts: Iterable[str], turns: Mapping[str, int], of_role: Sequence[str] = ()) -> Call:
    """Return the call by which hosts lease their parts. turns: of `turns`. of_role: beyond those of a lease."""
    state = launch.state
    own = {host: {**vars(state.claims[host]), "host": host, "recorded": state.recorded[host]} for host in hosts}
    return call("session_host", own, {"state": "held", **turns}, ["record", "lease_owner"], (*LEASE, *of_role))


def released(launch: Launch, hosts: Iterable[str]) -> Call:
    """Return the call by which hosts release what they hold, and the files they wrote to prove folders."""
    own = {host: {"claim": launch.state.claims[host].claim, "host": host} for host in hosts}
    return call("session_host", own, {"state": "released"}, ["record", "lease_owner"], PLACE)


def named(launch: Launch, hosts: Iterable[str], turns: Mapping[str, int]) -> Call:
    """Return the call by which hosts lease the name alone.

    If two launches run at the same moment, only one gets it, whatever places they find.
    """
    arguments = {"state": "named", "claim": launch.state.name_claim, **turns}
    return call("session_host", list(hosts), arguments, ["lease_owner"], LEASE)


def name_released(launch: Launch, hosts: Iterable[str]) -> Call:
    """Return the call by which hosts release the name."""
    arguments = {"state": "released", "claim": launch.state.name_claim}
    return call("session_host", list(hosts), arguments, ["lease_owner"], PLACE)


def turns(launch: Launch, hosts: Collection[str]) -> dict[str, int]:
    """Return how much longer hosts hold their parts; empty if all are called at once, so that calls stay small."""
    seconds = turns_seconds(len(hosts), launch.outside.forks)
    return {"turns_seconds": seconds} if seconds else {}


def reasons_of(answers: Mapping[str, ClaimAnswer]) -> list[str]:
    """Return why hosts have not granted a claim."""
    return [f"{host}: {reason}" for host, answer in answers.items() for reason in answer.reasons]

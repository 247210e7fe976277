# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The calls by which hosts reserve their parts of a session, and release them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ...model.calls import Hold, HoldName, Release
from ...model.claims import Claim, ClaimAnswer
from ...model.verb_state import StepCall
from ...rules.ledger import turns_seconds
from ..verb import PLACE
from .launch import Launch

LEASE = ("lease_seconds", *PLACE)


def held(launch: Launch, hosts: Iterable[str], turns: int, of_role: Sequence[str] = ()) -> StepCall:
    """Return the call by which hosts lease their parts. turns: of `turns`. of_role: beyond those of a lease."""
    state, record = launch.state, launch.record
    own = {
        host: Hold(
            state.claims[host].claim,
            state.claims[host].allocatable,
            state.lease_owner,
            record,
            host,
            turns_seconds=turns,
            **launch.knew(host),
        )
        for host in hosts
    }
    return launch.call(own, (*LEASE, *of_role))


def released(launch: Launch, hosts: Iterable[str]) -> StepCall:
    """Return the call by which hosts release what they hold, and the files they wrote to prove folders."""
    state, record = launch.state, launch.record
    return launch.call({host: Release(state.claims[host].claim, state.lease_owner, record) for host in hosts})


def named(launch: Launch, hosts: Iterable[str], turns: int) -> StepCall:
    """Return the call by which hosts lease the name alone.

    If two launches run at the same moment, only one gets it, whatever places they find.
    """
    request = HoldName(_name_claim(launch), launch.state.lease_owner, turns_seconds=turns)
    return launch.call(dict.fromkeys(hosts, request), LEASE)


def name_released(launch: Launch, hosts: Iterable[str]) -> StepCall:
    """Return the call by which hosts release the name."""
    return launch.call(dict.fromkeys(hosts, Release(_name_claim(launch), launch.state.lease_owner)))


def _name_claim(launch: Launch) -> Claim:
    if launch.state.name_claim is None:
        raise ValueError("This step needs a name to hold.")
    return launch.state.name_claim


def turns(launch: Launch, hosts: Collection[str]) -> int:
    """Return for how many seconds longer hosts hold their parts, because not all are called at once."""
    return turns_seconds(len(hosts), launch.outside.forks)


def reasons_of(answers: Mapping[str, ClaimAnswer]) -> list[str]:
    """Return why hosts have not granted a claim."""
    return [f"{host}: {reason}" for host, answer in answers.items() for reason in answer.reasons]

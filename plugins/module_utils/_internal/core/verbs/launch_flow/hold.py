# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reserve the place of a session on all hosts of its plan, and its name, or on none."""

from __future__ import annotations

from collections.abc import Mapping

from ...model.answers import SessionAnswer
from ...model.claims import ClaimAnswer
from ...model.launch_state import LaunchState
from ...model.record import PENDING
from ...rules.ledger import ASK_AGAIN, GRANTED, resolve_reservations
from . import change, claims, queue, start, undo
from .launch import Launch, failures_of

KEYS = ("deadline_seconds", "regenerate_keys")


def begin(launch: Launch) -> LaunchState:
    """Reserve the place, except if the session runs, holds it already, and has all of its keys."""
    state = launch.state
    if state.change:
        state.changes = launch.record.id
        return change.begin(launch)
    if state.public_keys:
        return start.begin(launch)
    turns = claims.turns(launch, state.hosts)
    calls = [claims.held(launch, state.hosts, turns, KEYS)]
    if not state.fresh:
        return launch.step("hold", "Hold what it has", calls)
    if named := [host for host in state.name_hosts if host in state.stub_hosts]:
        calls.append(claims.named(launch, named, turns))
    return launch.step("hold", "Hold the place on every host of the plan, and make the keys", calls)


def after_hold(launch: Launch) -> LaunchState:
    """Start the session if its place is held; else ask again, or release what is held."""
    state = launch.state
    given = _given(launch)
    broken = _broken(launch, given)
    answers = {host: answer.to_claim for host, answer in given.items()}
    reasons = claims.reasons_of(answers)
    outcome = resolve_reservations(launch.record.id, answers)
    if outcome == GRANTED:
        return _held(launch)
    # If a host is broken, its answer is not tentative.
    if outcome == ASK_AGAIN and not launch.is_last:
        state.attempt += 1
        return launch.after_pause(begin(launch))
    state.again = not launch.is_last and not broken
    if not state.fresh:
        # It runs, and has no other place to go to; it only waits for a run that will have decided soon.
        state.again = state.again and _is_passing(launch, answers)
        broken = [] if state.again else broken or list(answers)
    name = state.session_name
    state.refused = reasons if broken else []
    status = "cannot be launched now" if launch.only_now else f"is {PENDING}"
    state.report = [f"Session {name} {status}: concurrent launches took the capacity.", *reasons]
    calls = [claims.released(launch, state.hosts)]
    if named := [host for host in launch.answers if host not in state.hosts]:
        calls.append(claims.name_released(launch, named))
    return launch.step("release", "Roll back what was held", calls)


def _given(launch: Launch) -> dict[str, SessionAnswer]:
    """Return the answers that count.

    An unreachable name host only means one host less that knows the name: the others are asked as well.
    """
    own = launch.state.hosts
    return {host: answer for host, answer in launch.answers.items() if host in own or answer.granted is not None}


def _broken(launch: Launch, given: Mapping[str, SessionAnswer]) -> list[str]:
    """Return the hosts that could not hold their part for a reason that another attempt does not change."""
    sick = launch.sick_hosts() if launch.state.fresh and not launch.is_last else {}
    silent = [host for host, answer in given.items() if answer.granted is None and not answer.unreachable]
    return [host for host in silent if host not in sick]


def _is_passing(launch: Launch, answers: Mapping[str, ClaimAnswer]) -> bool:
    """Tell whether every host that refused may agree soon."""
    return all(
        answer.granted or answer.tentative or launch.answers[host].unreachable for host, answer in answers.items()
    )


def _held(launch: Launch) -> LaunchState:
    """Start the session whose place is held, with the keys that its hosts made."""
    state = launch.state
    own = {host: launch.answers[host] for host in state.hosts}
    failures, unreachable = failures_of(own, lambda answer: answer.public_keys)
    if failures:
        return undo.failed(launch, failures, unreachable)
    state.public_keys = {name: key for answer in own.values() for name, key in (answer.public_keys or {}).items()}
    return start.begin(launch)


def after_release(launch: Launch) -> LaunchState:
    """Fail if another attempt would not help; else collect facts again, or keep the request in the queue."""
    state = launch.state
    if state.refused and not state.from_queue:
        return launch.not_held(state.refused)
    return launch.look_again(pause=True) if state.again else queue.keep(launch, state.report)

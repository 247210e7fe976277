# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Start the session, wave after wave of its roles, prove that replicas find each other, and start the batch command."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...model.answers import JobAnswer, SessionAnswer, read_answers
from ...model.calls import KeepStub, Start, StartJob, Verify
from ...model.decode import encode
from ...model.launch_state import LaunchState
from ...model.record import Record
from ...model.verb_state import StepCall
from ...rules.output import batch_job
from ...values.start_order import start_waves
from ..verb import PLACE
from . import claims, queue, undo
from .launch import SAY, Launch, failures_of

PATIENCE = 10
"""Seconds for which a host that has started its part looks for peers; later peers are found in a step of its own."""

STARTS = ("deadline_seconds", "timeout", *PLACE)


def begin(launch: Launch) -> LaunchState:
    """Start the session, beginning with the roles that others come after; a running session has them all."""
    state = launch.state
    waves = start_waves({role["name"]: role.get("after", ()) for role in launch.record.request["roles"]})
    is_last = not state.fresh or launch.outside.check_mode or state.wave >= len(waves) - 1
    roles, turns = None, 0
    if not is_last:
        state.begun_roles = [role for wave in waves[: state.wave + 1] for role in wave]
        # The first host that is called now is called again when all have had their turn.
        roles, turns = tuple(state.begun_roles), claims.turns(launch, state.hosts)
    common = Start(
        launch.record,
        "",
        state.lease_owner,
        state.public_keys,
        turns_seconds=turns,
        patience=patience(launch, state.hosts),
        roles=roles,
    )
    own = {host: replace(common, host=host, **launch.knew(host)) for host in state.hosts}
    calls = [launch.call(own, STARTS)]
    if state.stub_hosts and not state.wave:
        # At once: the name hosts' lease of the name may run out while roles wait for each other.
        calls.append(stubbed(launch, state.stub_hosts, launch.record))
    if not is_last:
        return launch.step("begin", f"Start {', '.join(waves[state.wave])}, and wait until that is ready", calls)
    state.promised = launch.running if state.hands_on else None
    return launch.step("start", "Start the session, and check that it runs", calls, SAY)


def patience(launch: Launch, hosts: Sequence[str]) -> int:
    """Return for how many seconds a host looks for peers that start in the same step.

    It cannot wait for hosts that have to wait for their turn, nor for those that get ready only after this step.
    """
    return PATIENCE if len(hosts) <= launch.outside.forks else 0


def after_begin(launch: Launch) -> LaunchState:
    """Start the next wave of roles; first wait for hosts whose replicas are not ready yet."""
    late = _late(launch)
    if not_started := _not_started(launch, late, lambda answer: answer.begun):
        return not_started
    if late:
        calls = [verified(launch, late, launch.state.begun_roles)]
        return launch.step("ready", "Wait until what this host has started is ready", calls)
    return _next_wave(launch)


def after_ready(launch: Launch) -> LaunchState:
    """Start the next wave of roles, or undo the launch if replicas did not get ready."""
    failures, unreachable = failures_of(launch.answers, lambda answer: answer.begun)
    return undo.failed(launch, failures, unreachable) if failures else _next_wave(launch)


def _next_wave(launch: Launch) -> LaunchState:
    launch.state.wave += 1
    return begin(launch)


def after_start(launch: Launch) -> LaunchState:
    """Finish the launch, after hosts that could not wait for their peers have proven that they reach them."""
    state, late = launch.state, _late(launch)
    if not_started := _not_started(launch, late, lambda answer: answer.replicas):
        return not_started
    state.replicas = replicas_of(launch.answers)
    if late:
        # Hosts that have seen all their peers do not look again.
        return launch.step(
            "meet", "Prove that the replicas of this host reach the others", [verified(launch, late)], SAY
        )
    return _started(launch)


def after_meet(launch: Launch) -> LaunchState:
    """Finish the launch, or undo it if replicas do not reach each other."""
    failures, unreachable = failures_of(launch.answers, lambda answer: answer.replicas)
    if failures:
        return undo.failed(launch, failures, unreachable)
    launch.state.replicas = [*launch.state.replicas, *replicas_of(launch.answers)]
    return _started(launch)


def _late(launch: Launch) -> list[str]:
    """Return the hosts that have done their part and could not wait for others."""
    return [host for host in launch.state.hosts if launch.answers[host].unproven]


def stubbed(launch: Launch, hosts: Iterable[str], record: Record) -> StepCall:
    """Return the call by which hosts without a replica keep a stub of the record."""
    return launch.call({host: KeepStub(record, launch.state.lease_owner, **launch.knew(host)) for host in hosts})


def verified(launch: Launch, hosts: Iterable[str], roles: Sequence[str] | None = None) -> StepCall:
    """Return the call by which hosts prove that what they have started works. roles: that only these are ready."""
    record, some = launch.record, None if roles is None else tuple(roles)
    return launch.call({host: Verify(record, host, roles=some) for host in hosts}, ("timeout", *PLACE))


def replicas_of(answers: Mapping[str, SessionAnswer]) -> list[dict[str, Any]]:
    """Return the replicas that hosts have started or proven."""
    return [
        encode(replace(replica, host=host)) for host, answer in answers.items() for replica in answer.replicas or ()
    ]


def _not_started(launch: Launch, late: Sequence[str], part: Callable[[SessionAnswer], object]) -> LaunchState | None:
    """Return what follows if hosts have not done their part, else None. late: hosts that lack only peers."""
    state = launch.state
    unreachable = [host for host in state.hosts if (own := launch.answers.get(host)) and own.unreachable]
    failures = []
    needed = {
        host: answer
        for host, answer in launch.answers.items()
        if host in state.hosts or not _may_fail(launch, host, answer)
    }
    for host, answer in needed.items():
        done = part(answer) if host in state.hosts and host not in late else answer.actions
        if answer.unwritten:
            state.warnings.append(f"{host} could not write the session down: {answer.unwritten}")
        if done is None:
            failures.append(f"{host}: {answer.why_not}")
    if failures and len(failures) == len(unreachable) and state.asked_again < state.attempt:
        # A connection that was lost for a moment does not cost the place; what runs already is only checked.
        state.asked_again = state.attempt
        return launch.after_pause(begin(launch))
    return undo.failed(launch, failures, unreachable) if failures else None


def _may_fail(launch: Launch, host: str, answer: SessionAnswer) -> bool:
    """Tell whether the answer of a host without replicas holds up nothing; if it lacks its stub, that is a warning.

    An unreachable one does not; a reachable one has to keep its containers out.
    """
    if answer.unreachable:
        return True
    if host in launch.state.kept_out and answer.actions is None:
        launch.state.warnings.append(f"{host} could not write the session down: {answer.why_not}")
        return True
    return False


def _started(launch: Launch) -> LaunchState:
    state = launch.state
    state.replicas.sort(key=lambda replica: int(replica["rank"]))
    if state.grows_later:
        return queue.await_room(launch)
    if launch.record.request["batch_command"] is None:
        return launch.over(launch.running, state.report)
    return batch(launch)


def batch(launch: Launch) -> LaunchState:
    """Start the batch command, once in the session's life."""
    record = launch.record
    host = record.replicas[0].host
    command = tuple(record.request["batch_command"])
    job = StartJob(record.id, batch_job(record.id), {"main1": host}, host, command, once=True)
    calls = [launch.call({host: job}, ("output_size", *PLACE))]
    return launch.step("batch", "Start the batch command in main1", calls, SAY)


def after_batch(launch: Launch) -> LaunchState:
    """End the launch; undo it if the batch command did not start, except after a change."""
    failures, unreachable = failures_of(read_answers(JobAnswer, launch.results), lambda answer: answer.started)
    if not failures:
        return launch.over(launch.running, launch.state.report)
    if launch.state.change:
        return launch.not_changed(
            "All replicas run, but the batch command could not be started in main1. Launch the session again.",
            *failures,
        )
    return undo.failed(launch, failures, unreachable)

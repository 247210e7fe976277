# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Keep a request under its name until there is capacity for it, and wait for that on request."""

from __future__ import annotations

from collections.abc import Sequence

from ...model.answers import ImagesAnswer, read_answers
from ...model.calls import ImageTransfer, Load, Watch
from ...model.claims import Claim
from ...model.fields import WAIT
from ...model.launch_state import LaunchState
from ...model.record import PENDING
from ...rules.images import CONTROLLER, MOST_TRIES
from ...rules.ledger import ASK_AGAIN, GRANTED, resolve_reservations
from ...values.image_names import digest_of
from . import claims
from .distribution import source_of
from .launch import DECIDE, SAY, Launch, failures_of, look_call, placed


def keep(launch: Launch, report: Sequence[str]) -> LaunchState:
    """Keep the request on every host until there is room; some requests are not kept."""
    state = launch.state
    state.report = list(report)
    if launch.only_now:
        return launch.refuse(*report)
    if state.pending is None:
        return launch.over("CANCELLED" if state.status == "CANCELLED" else PENDING, report)
    if state.hands_on:
        state.promised = PENDING
    pending = state.pending
    knows = [pending.id in ids for ids in state.recorded.values()]
    if state.rounds and pending == state.waits and all(knows) and not state.brings:
        return after_queue(launch)
    if not any(knows) and state.named != pending.id and not launch.outside.check_mode:
        return _name(launch)
    if state.brings and not launch.outside.check_mode:
        return _bring(launch)
    calls = launch.to_record(pending, state.lease_owner)
    title = "Keep the request on every host until there is room"
    return launch.step("queue", title, calls, DECIDE if _waits(launch) else SAY)


def _bring(launch: Launch) -> LaunchState:
    """Bring a pack to a host that will know the session: the run that launches it may not have the folder."""
    state = launch.state
    pack, host = state.brings[0], _homes(launch)[state.bring_tries]
    transfer = ImageTransfer(pack, str(digest_of(pack)), CONTROLLER, host)
    title = "Bring the working directory to one host, where it waits as well"
    return launch.step("bring", title, [launch.call({host: Load(transfer, *source_of(state, pack))})])


def _homes(launch: Launch) -> list[str]:
    """Return the hosts that may keep the working directory of a session that waits."""
    return list(dict.fromkeys([*launch.state.name_hosts, *launch.state.reachable]))[:MOST_TRIES]


def after_bring(launch: Launch) -> LaunchState:
    """Bring the next pack, or this one to another host if the first could not take it."""
    state = launch.state
    if failures := failures_of(read_answers(ImagesAnswer, launch.results), lambda answer: answer.bytes)[0]:
        state.bring_tries += 1
        if state.bring_tries >= len(_homes(launch)):
            state.again, state.refused, state.bring_tries = False, failures, 0
            return launch.step("release", "Roll back what was held", [claims.name_released(launch, state.name_hosts)])
    else:
        state.brings = state.brings[1:]
    return keep(launch, state.report)


def _name(launch: Launch) -> LaunchState:
    """Hold the name before the request is kept under it: of concurrent launches only one waits."""
    state = launch.state
    state.name_claim = Claim(placed(state.pending).id, state.session_name)
    calls = [claims.named(launch, state.name_hosts, 0)]
    return launch.step("name", "Hold the name under which it waits", calls)


def after_name(launch: Launch) -> LaunchState:
    """Keep the request if its name is held; else ask again, or release the name."""
    state = launch.state
    # An unreachable name host only means one host less that knows the name.
    answers = {host: answer.to_claim for host, answer in launch.answers.items() if answer.granted is not None}
    session_id = placed(state.pending).id
    outcome = resolve_reservations(session_id, answers)
    if outcome == GRANTED:
        state.named = session_id
        return keep(launch, state.report)
    if outcome == ASK_AGAIN and not launch.is_last:
        state.attempt += 1
        return launch.after_pause(_name(launch))
    state.again, state.refused = not launch.is_last, claims.reasons_of(answers) if launch.is_last else []
    return launch.step("release", "Roll back what was held", [claims.name_released(launch, answers)])


def await_room(launch: Launch) -> LaunchState:
    """Wait until a running session can grow, if the launch is to wait for that; its hosts have recorded it."""
    if launch.only_now:
        return launch.refuse(*launch.state.report)
    launch.state.pending = launch.state.record
    return after_queue(launch)


def _waits(launch: Launch) -> bool:
    return launch.state.request.on_no_capacity == WAIT and not launch.outside.check_mode


def after_queue(launch: Launch) -> LaunchState:
    """End, or wait for capacity if the request asks for it; fail if no host has recorded it or its time is over."""
    state, request, now = launch.state, launch.state.request, launch.outside.now
    if state.step == "queue":
        missing = {host: answer for host, answer in launch.answers.items() if answer.actions is None}
        reasons = [f"{host} could not write the session down: {answer.why_not}" for host, answer in missing.items()]
        if len(missing) == len(launch.answers) and not state.from_queue:
            return launch.refuse(*reasons)
        state.warnings = reasons
    if not _waits(launch):
        return launch.over(PENDING if state.grows_later else placed(state.pending).status, state.report)
    if state.wait_until <= now:
        state.hands_on = False  # the result for the workflow is right: it waits
        return launch.fail(
            f"Session {state.session_name} got no room within {request.wait_seconds} seconds "
            "(session_wait_seconds); it stays in the queue.",
            *state.report,
        )
    # The steps of rounds include each other, one or two a round, and Ansible supports only some hundred nested
    # includes: the pauses between rounds grow, so that a hundred of them fill the whole time.
    state.attempt, state.asked_again, state.sick, state.bring_tries = 0, 0, {}, 0
    state.rounds, state.waits = state.rounds + 1, state.pending
    pause, seconds = request.wait_seconds * state.rounds / 5000, max(state.wait_until - now, 1)
    own = {
        host: Watch(state.session_name, state.signatures[host], state.lease_owner, seconds, pause)
        for host in state.reachable
    }
    calls = [launch.call(own), look_call(request, state.reachable)]
    return launch.step("wait", f"Wait until a session gives room back: {state.report[0]}", calls)

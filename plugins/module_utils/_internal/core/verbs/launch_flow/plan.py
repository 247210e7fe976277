# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Collect facts, and plan the session: where it goes, what is to be done first, or why it has no place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...cluster.group import GroupFacts
from ...cluster.state import RULES
from ...model.answers import FactsAnswer, SeveralAnswers, read_answers
from ...model.claims import COMMITTED
from ...model.decode import encode
from ...model.facts import HostFacts
from ...model.launch_state import ImageFacts, LaunchState
from ...model.record import RUNNING, Record, is_stub, says_the_same
from ...model.request import Request
from ...planning.launch import decide, undetected, warnings_of
from ...planning.planner import Order, Planner, Wish
from ...rules.access import ADMIN
from ...rules.isolation import is_kept_out
from ...rules.site import Settings
from ...values.errors import CoreError
from .. import cleanup
from . import change, images, queue, takeover
from .launch import Launch


def after_look(launch: Launch) -> LaunchState:
    """Plan the session with the facts of the hosts."""
    return _plan(launch, read_answers(FactsAnswer, launch.results))


def after_wait(launch: Launch) -> LaunchState:
    """Plan with the facts collected after the wait; collect them again if a host returned none."""
    several = read_answers(SeveralAnswers, launch.results)
    looks = read_answers(FactsAnswer, {host: answer.results[-1] for host, answer in several.items() if answer.results})
    if len(looks) < len(launch.state.known) or any(look.host is None for look in looks.values()):
        return launch.look_again()
    return _plan(launch, looks)


def after_cleanup(launch: Launch) -> LaunchState:
    """Collect facts again after the cleanup; what could not be cleaned up becomes warnings."""
    launch.state.cleaned_up = True
    launch.state.warnings = cleanup.problems_of(launch.answers)
    return launch.look_again()


def _plan(launch: Launch, answers: Mapping[str, FactsAnswer]) -> LaunchState:
    state = launch.state
    try:
        planner = _planner(launch, answers)
        group = planner.group
        # Losses of other sessions are replaced after this launch, by a play of its own.
        # Ansible takes a result with the key unreachable for that of an unreachable host.
        state.losses = group.losses(planner.cluster, planner.request.name)
        state.unreachable_hosts = group.unreachable
        if planner.asks_peers and not state.peers_heard:
            return launch.look_again(peers_of=planner.asks_peers)
        if {*planner.alone} - {*state.alone}:
            # A name that is held by remains of another session; collecting facts again shows whether it is.
            state.alone = planner.alone
            return launch.look_again(pause=True)
        found = decide(planner, state.waits, state.from_queue, state.cleaned_up)
    except CoreError as error:
        return _no_plan(launch, answers, str(error))
    state.diff = found.get("diff")
    if found["status"] == "DIFFERENT":
        return launch.fail(found["failure"])
    state.take(found)
    state.cleaned_up = False
    state.warnings = warnings_of(found, group, planner.problems) + undetected(answers)
    state.recorded, state.looked, state.host_names = group.recorded, group.looked, group.host_names
    state.signatures = {name: facts.signature for name, facts in group.facts.items()}
    if work := found["cleanup"]:
        return launch.step(*cleanup.STEP, cleanup.calls_for(work))
    if takes_over := takeover.take_over_change(launch):
        return takes_over
    state.attempt += 1
    state.again = False
    return _placed(launch, group) if state.status == "SCHEDULED" else _not_placed(launch, group.unreachable)


def _no_plan(launch: Launch, answers: Mapping[str, FactsAnswer], error: str) -> LaunchState:
    """Follow a request, or facts of hosts, that allow no plan."""
    if launch.state.before_loss:
        return change.restore(launch, error.splitlines())
    if launch.state.restores:
        return change.unfinished(launch, error.splitlines())
    why = undetected(answers) if "session_accelerators" in error else []
    return launch.refuse(error, *why, *launch.sick_lines())


def _planner(launch: Launch, answers: Mapping[str, FactsAnswer]) -> Planner:
    """Return the planner of the session. Raises CoreError if the request, or facts of hosts, do not allow it."""
    state, outside, given = launch.state, launch.outside, launch.state.request
    request = Request.from_dict(given.request)
    scope = replace(outside.scope, group=request.resource_group if outside.scope.group else "")
    group = GroupFacts.read(answers, outside.inventory, state.sick, scope)
    if not state.from_queue:
        group.require({*request.hosts} - {*request.excluded_hosts, *state.sick})
    wish = Wish(
        given.min_size,
        given.replaces,
        state.displaced,
        tuple(state.avoid),
        tuple(state.given_up),
        state.changes,
        given.on_no_capacity,
        encode(state.restores),
        given.without_retired,
    )
    asker = ADMIN if state.from_queue else outside.asker
    return Planner(
        Order(request, given.owner, given.recreate, given.shared_with, asker, wish),
        group,
        Settings.from_variables(outside.site),
        draw=outside.draw,
        read_archive=outside.read_archive,
        run=outside.run,
        alone=state.alone,
    )


def _placed(launch: Launch, group: GroupFacts) -> LaunchState:
    """Follow a plan that has a place for the session."""
    state, record = launch.state, launch.record
    state.wave = 0
    state.image_facts = _image_facts(group) if state.fetches else {}
    state.stub_hosts = [name for name, facts in group.facts.items() if _lacks_stub(state, record, name, facts)]
    state.kept_out = [name for name, facts in group.facts.items() if is_kept_out(facts, record)]
    if state.change:
        leaving = state.change.leaving
        state.stub_hosts = [host for host in state.stub_hosts if host not in leaving]
        state.statuses = _statuses_of(group, record)
        state.public_keys = group.public_keys(record)
    else:
        state.public_keys = {} if state.fresh or state.regenerate_keys else _keys_of(group, record)
    return images.begin(launch)


def _not_placed(launch: Launch, silent: list[str]) -> LaunchState:
    """Follow a plan that has no place for the session."""
    state, status = launch.state, launch.state.status
    is_new = not (state.from_queue or state.rounds)
    if state.grows_later and not state.from_queue:
        return queue.await_room(launch)
    if state.restores:
        return change.unfinished(launch, state.report)
    if state.before_loss and status == "PENDING":
        return change.restore(launch, state.report)
    if state.launchers and not state.from_queue:
        return takeover.await_launch(launch)
    if status == "WAITING" and not launch.is_last:
        return launch.look_again(pause=True)
    if status in ("CANCELLED", "REFUSED") and not state.from_queue:
        return launch.refuse(*state.report)
    return _not_yet(launch, silent) if status == "PENDING" and is_new else queue.keep(launch, state.report)


def _not_yet(launch: Launch, silent: list[str]) -> LaunchState:
    """Follow the first plan of a session that has to wait for room."""
    state = launch.state
    if set(silent) - {*state.silent, *state.left_out}:
        # It may be unreachable only for a moment, and a waiting session keeps others from the place reserved for it.
        state.silent = silent
        return launch.look_again(pause=True)
    return launch.not_held(launch.sick_lines()) if state.sick else queue.keep(launch, state.report)


def _image_facts(group: GroupFacts) -> dict[str, ImageFacts]:
    """Return the facts of each host that the distribution of images needs."""
    return {host: ImageFacts(encode(facts.images), encode(facts.underlay)) for host, facts in group.facts.items()}


def _lacks_stub(state: LaunchState, record: Record, host: str, facts: HostFacts) -> bool:
    """Tell whether a host needs a stub of the session although it carries no replica of it."""
    if host in state.hosts or _has_stub(facts, record):
        return False
    knows = any(copy.id == record.id for copy in facts.records)
    return knows or host in state.name_hosts or not is_kept_out(facts, record)


def _has_stub(facts: HostFacts, record: Record) -> bool:
    """Tell whether a host without replicas has all that it keeps of a running session."""
    if record.status != RUNNING:
        return False
    for copy in facts.records:
        if copy.id == record.id and is_stub(copy):
            has_rules = RULES in (facts.objects[copy.id].kinds if copy.id in facts.objects else ())
            is_apart = has_rules or copy.tunnel is None or is_kept_out(facts, copy)
            return is_apart and says_the_same(copy, record)
    return False


def _keys_of(group: GroupFacts, record: Record) -> dict[str, Any]:
    """Return all public keys of a session that runs and holds its place; else nothing."""
    for host in record.hosts:
        held = [held for held in group.facts[host].reservations if held.claim.session_id == record.id]
        if not held or held[0].stage != COMMITTED:
            return {}
    found = group.public_keys(record)
    return found if len(found) == len(record.replicas) else {}


def _statuses_of(group: GroupFacts, record: Record) -> list[dict[str, Any]]:
    """Return the state of the replicas of a session as hosts have seen it."""
    return [
        {"name": container.replica, "host": host, "rank": 0, "status": container.state.upper()}
        for host, facts in group.facts.items()
        for container in facts.containers
        if container.session_id == record.id
    ]

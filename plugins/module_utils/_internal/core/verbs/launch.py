# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Launch: find a place for a session, reserve it on all hosts or on none, start it there, and prove that it runs.

| step | what hosts do | what follows |
|---|---|---|
| look | every host reports its facts | plan: cleanup, images, offer, replace, hold, start, queue, again, or the end |
| takeover | reservations of a run that was stopped are rolled back | look |
| cleanup | each records what became of sessions, and removes what no session owns | look |
| ask, pull, load, serve, receive | images go where they are missing (see images) | the next, stop, look, or on |
| stop | hosts stop serving images that are not needed | offer, replace, hold, look, or the end |
| offer, compare, withdraw | shared folders of a session that is to replace one are tested | replace, or the end |
| replace | every host removes the session that is replaced | remember, hold, or the end |
| remember | hosts set tombstones for those that could not remove | hold, or what follows an undoing |
| hold | each leases its part and makes its keys under it; name hosts the name | begin, start, hold, release, undo |
| release | each rolls back what this launch holds there, and its keys | look, queue, or the end |
| reserve, withhold, free, part, fence, agree | a running session is about to change | apply, look, the end |
| apply, again, join, clear | it changes | look, batch, the end |
| begin | each confirms its lease, makes its part except for roles that come later | ready, begin, start, undo |
| ready | hosts that did not wait for their replicas, because others had to be called first, wait | begin, start, undo |
| start | each confirms its lease, makes its part, finds its peers; others keep a stub | start, meet, batch, undo, end |
| meet | hosts whose peers were late look for them again | batch, undo, the end |
| batch | main1's host starts the batch command | undo, or the end |
| undo | hosts keep the outcome of a session from the queue, and remove what was made | remember, look, or the end |
| keep | every host keeps the outcome of a session from the queue | look, or the end |
| bring | one host gets the working directory of a session that is to wait | bring, queue, name, or the end |
| name | name hosts hold the name of a session that is to wait | queue, name, release |
| queue | every host keeps the request | wait, or the end |
| wait | every host waits until another session frees capacity, and reports its facts | as after look, or look |
| tell | nothing: the result for the workflow is corrected | the end |

The usual order is look, hold, start; a session that already runs as requested goes from look to start. If roles come
after others, there is a begin for each wave except the last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..model.given import LaunchGiven, Wanted, read_given
from ..model.launch_state import LaunchState
from ..model.request import Request
from ..rules.images import REGISTRIES, parse_registries
from ..show.launch import PLACED, Artifact, artifact, table_of
from .launch_flow import change, hold, images, plan, queue, replacement, start, undo
from .launch_flow.launch import LOOK, PLAN, Launch, look_call
from .launch_flow.launch import SAY as LAST_TITLE
from .verb import Answers, Outside, State

REFUSED, SAY = Launch.REFUSED, LAST_TITLE
AFTER: dict[str, Callable[[Launch], LaunchState]] = {
    "look": plan.after_look,
    "takeover": Launch.look_again,
    "cleanup": plan.after_cleanup,
    "ask": images.after_ask,
    "pull": images.after_pull,
    "load": images.after_load,
    "serve": images.after_serve,
    "receive": images.after_receive,
    "stop": images.after_stop,
    "offer": replacement.after_offer,
    "compare": replacement.after_compare,
    "withdraw": replacement.after_withdraw,
    "replace": replacement.after_replace,
    "remember": replacement.after_remember,
    "hold": hold.after_hold,
    "release": hold.after_release,
    "reserve": change.after_reserve,
    "withhold": change.after_withhold,
    "part": change.after_part,
    "fence": change.after_fence,
    "agree": change.after_agree,
    "free": Launch.look_again,
    "apply": change.after_apply,
    "again": change.after_again,
    "join": change.after_join,
    "clear": change.after_clear,
    "begin": start.after_begin,
    "ready": start.after_ready,
    "start": start.after_start,
    "meet": start.after_meet,
    "batch": start.after_batch,
    "undo": undo.after_undo,
    "keep": undo.undone,
    "bring": queue.after_bring,
    "name": queue.after_name,
    "queue": queue.after_queue,
    "wait": plan.after_wait,
    "tell": Launch.end,
}
"""The functions that evaluate the answers to each step, in the order of the table above."""
MAKING = ("replace", "hold", "begin", "start", *change.STEPS)
"""Steps whose actions are reported with what was, or would be, made."""


def launch_request(
    request: Request,
    owner: str,
    shared_with: Sequence[str] = (),
    **wishes: Any,
) -> Wanted:
    """Return the data of a request that the steps of a launch need. wishes: other fields of `Wanted`."""
    return Wanted(
        session_name=request.name,
        resource_group=request.resource_group,
        images=sorted({*request.packs, *(role.image for role in request.roles)}),
        paths=sorted({mount.source for mount in request.mounts if mount.source is not None}),
        only_hosts=list(request.hosts),
        excluded_hosts=list(request.excluded_hosts),
        volumes=sorted({mount.volume for mount in request.mounts if mount.volume is not None}),
        request=request.to_dict(),
        encrypted=request.encrypted,
        owner=owner,
        shared_with=list(shared_with),
        **wishes,
    )


def begin(given: Mapping[str, Any], hosts: Sequence[str], outside: Outside) -> State:
    """Return the first state. given: of `LaunchGiven`. Raises CoreError."""
    parse_registries(outside.inventory.get(hosts[0], {}).get(REGISTRIES))
    begun = read_given(LaunchGiven, given, "launch")
    wanted = begun.request
    state = LaunchState(
        **vars(begun),
        known=list(hosts),
        known_unreachable=wanted.known_unreachable,
        wait_until=outside.now + wanted.wait_seconds,
        silent_registries=wanted.silent_registries,
        waits=wanted.waits,
        displaced=wanted.displaced,
        avoid=sorted(set(wanted.displaced.values())),
        changes=wanted.changes,
        peers_heard=bool(wanted.peers_of),
    )
    asked = [host for host in hosts if host not in wanted.known_unreachable]
    return state.follow(*LOOK, PLAN, [look_call(wanted, asked, wanted.peers_of)])


def advance(state: State, answers: Answers, outside: Outside) -> State:
    """Return the state that follows from the answers to the state's step.

    Besides the keys of every state it has ``play_hosts``, hosts with something to do in the usual plays, at least one;
    and ``left``, hosts with something to do in rare steps.
    """
    launch = Launch(state, answers, outside)
    if state["step"] in MAKING:
        for host, answer in launch.answers.items():
            launch.state.done.setdefault(host, []).extend(answer.actions or ())
    following = AFTER[state["step"]](launch)
    # Only a host that has answered: a host that failed is left out of the plays that follow.
    own = (following.reachable or following.known)[:1]
    if following.step in ("hold", "begin", "start"):
        called = [host for step_call in following.calls for host in step_call.hosts]
        own = list(dict.fromkeys([*called, *following.stub_hosts]))
    return {**following.plain(), "play_hosts": own, "left": following.known if following.step else []}


def handed_on(state: State) -> Artifact | None:
    """Return the data that is passed on in a workflow, as far as it is known; None while nothing is."""
    if not state["hands_on"] or state["promised"] is None:
        return None
    return artifact(state, state["promised"], _report_of(state))


def closing_lines(state: State) -> list[str]:
    """Return the lines that people see at the end."""
    placed = state["outcome"]["status"] in PLACED
    return [*state["outcome"]["report"], *(table_of(state["record"], state["replicas"]) if placed else ())]


def _report_of(state: State) -> list[str]:
    return list((state.get("outcome") or {}).get("report") or state.get("report") or ())

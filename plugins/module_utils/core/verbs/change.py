# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Change: carry a session that runs over to another plan, as a part of a launch of its name.

| step | what hosts do | what follows |
|---|---|---|
| reserve | those that get replicas hold what is new, make keys; the first holds the change | part, fence, apply |
| withhold | each gives back what it holds of a change that cannot be | refused |
| part | those that carry what goes let it end, while all others still reach it | fence, apply, failed |
| fence | all that stay let go of hosts that go | apply, failed |
| apply | those that get replicas start and prove them; of a resize those that stay learn of it | join, clear, the end |
| again | hosts that had another copy than expected are told the whole | what the step before led to |
| join | those whose peers were late look for them once more | clear, done, failed |
| clear | hosts that carry nothing of it any more keep a stub alone; what proved that folders are shared goes | done |

The launch that a change belongs to sees how it went from ``change_result`` (status and reasons): DONE, REFUSED (nothing
was changed), FAILED (the record says what is wanted; ``displaced`` names replicas whose host failed them).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.answers import (
    SessionAnswer,
    read_answers,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.patch import difference, digest
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.record import (
    RESIZE,
    read_record,
    stub_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.data import WRITES
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.ledger import (
    ASK_AGAIN,
    GRANTED,
    resolve_reservations,
    turns_seconds,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.ledger import Answer as Claimed
from ansible_collections.cluster_compute.session.plugins.module_utils.core.verbs.verb import (
    Call,
    Outside,
    State,
    call,
    step,
)

STEPS = ("reserve", "withhold", "part", "fence", "apply", "again", "join", "clear")
DONE, REFUSED, FAILED = "done", "refused", "failed"
DECIDE = "Decide what follows"
STATE_DIRECTORY = {"state_directory": "launch_state_directory"}
OUTPUT = {
    "output_size": "launch_output_size",
    "output_days": "launch_output_days",
    "output_sessions": "launch_output_sessions",
}
Answers = Mapping[str, SessionAnswer]
PATIENCE = 10
"""Seconds for which a host that has started its part looks for peers; who is later is met in a step of its own."""


def begin(state: State, outside: Outside) -> State:
    """Return the first step of a change. state: that of a launch, with ``change`` and the record that is wanted."""
    state["change"] = {**state["change"], "made": {}, "changed": []}
    return _reserve(state, outside)


def advance(state: State, answers: Answers, outside: Outside) -> State:
    """Return what follows from the answers to a step of a change; it is over where the step is empty."""
    following: State = {
        "reserve": _after_reserve,
        "withhold": _after_withhold,
        "part": _after_part,
        "fence": _after_fence,
        "apply": _after_apply,
        "again": _after_again,
        "join": _after_join,
        "clear": _after_clear,
    }[state["step"]](state, answers, outside)
    return following


def _over(
    state: State, status: str, reasons: list[str], displaced: Mapping[str, str] | None = None, sick: Iterable[str] = ()
) -> State:
    result = {"status": status, "reasons": reasons, "displaced": dict(displaced or {}), "sick": list(sick)}
    return {**state, **step("", "", ""), "change_result": result}


def _missing(answers: Answers, part: Callable[[SessionAnswer], object]) -> dict[str, str]:
    """Return which hosts have not answered what they should have, and why."""
    return {host: answer.why_not for host, answer in answers.items() if part(answer) is None}


def _actions(answer: SessionAnswer) -> object:
    return answer.actions


# ---- holding -------------------------------------------------------------------------------------------------------


def _reserve(state: State, outside: Outside) -> State:
    change = state["change"]
    own = {
        host: {**state["claims"][host], "host": host, "recorded": state["recorded"][host]} for host in change["holding"]
    }
    variables = {"lease_seconds": "launch_lease_seconds", **STATE_DIRECTORY}
    # Until a host that stays has the next record this is all that keeps others from a change of their own.
    concerned = {*change["holding"], *change["staying"], *change["leaving"]}
    seconds = turns_seconds(len(concerned), outside.forks)
    arguments = {"state": "held", **({"turns_seconds": seconds} if seconds else {})}
    calls = [call("session_host", own, arguments, ["record", "lease_owner"], variables)]
    return {**state, **step("reserve", "Hold what the session is to have beyond what it has", DECIDE, calls)}


def _after_reserve(state: State, answers: Answers, outside: Outside) -> State:
    change = state["change"]
    # Who was granted a lease and could make no keys, or finds the session changed or gone, has given it back.
    given = {
        host: answer.to_claim
        if answer.public_keys is not None or not answer.granted
        else Claimed(False, (answer.why_not,))
        for host, answer in answers.items()
    }
    outcome = resolve_reservations(change["id"], given)
    if outcome == GRANTED:
        made = {name: keys for answer in answers.values() for name, keys in (answer.public_keys or {}).items()}
        state["change"] = {**change, "made": {name: made[name] for name in change["places"] if name in made}}
        state["public_keys"] = {**state["public_keys"], **made}
        return _apply(state, outside) if outside.check_mode else _part(state, outside)
    if outcome == ASK_AGAIN and state["attempt"] < state["attempts"]:
        state["attempt"] += 1
        return {**_reserve(state, outside), "pause": True}
    sick = [host for host, answer in answers.items() if answer.sick]
    state["change"] = {**change, "sick": sick}
    state["refused"] = [f"{host}: {reason}" for host, claimed in given.items() for reason in claimed.reasons]
    return {**state, **step("withhold", "Roll back what was held", DECIDE, [_released(state, change["holding"])])}


def _after_withhold(state: State, _answers: Answers, _outside: Outside) -> State:
    return _over(state, REFUSED, state["refused"], sick=state["change"]["sick"])


# ---- changing ------------------------------------------------------------------------------------------------------


def _amended(state: State, hosts: Mapping[str, Mapping[str, Any]], whole: bool, **arguments: Any) -> Call:
    """Return the call by which hosts take over the record. whole: whether they are told all of it, and all keys.

    Others have the record before this one, or this one already, and are told the difference.
    """
    change = state["change"]
    known, record = change["before"], state["record"]
    # Once for all hosts: of thousands of replicas it takes a while.
    patch = nothing = {}
    if not whole:
        patch = {**_made_for(known), "changes": difference(known, record)}
        nothing = {**_made_for(record), "changes": {}}
    variables = {"timeout": "launch_ready_timeout", **STATE_DIRECTORY, **OUTPUT}
    own = {}
    for host, given in hosts.items():
        own[host] = {
            **given,
            "host": host,
            "recorded": state["recorded"][host],
            "allocatable": change["allocatable"][host],
            **({"change_id": change["id"]} if host in change["holding"] else {}),
        }
        if not whole:
            own[host]["patch"] = nothing if host in change["changed"] else patch
            own[host]["public_keys"] = change["made"]
    of_state = ["lease_owner", *(["record", "public_keys"] if whole else [])]
    return call("session_host", own, {"state": "amended", **arguments}, of_state, variables)


def _made_for(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return by what a host tells whether its copy is the one that a patch was made for."""
    return {"id": record["id"], "from": record["revision"], "digest": digest(record)}


def _takes_patches(state: State) -> bool:
    """Tell whether hosts know the session's record by the names that it has here."""
    return not (state.get("host_names") or {}).get(state["record"]["id"])


def _part(state: State, outside: Outside) -> State:
    """Let replicas that go end with their network as it is: programs hand over what they have, and say good-bye."""
    change = state["change"]
    after = {replica["name"]: replica["host"] for replica in state["record"]["plan"]["replicas"]}
    losing = {
        replica["host"]
        for replica in change["before"]["plan"]["replicas"]
        if after.get(replica["name"]) != replica["host"]
    }
    hosts = {host: {"containers": host not in change["receiving"]} for host in change["staying"] if host in losing}
    calls = [_amended(state, hosts, not _takes_patches(state))] if hosts else []
    if change["leaving"]:
        # Their record stays as it is: that of the session, until one that stays has the next.
        judged = {"judged_revision": change["before"]["revision"], "unless_reserved": True}
        calls.append(_given_up(state, change_id=change["id"], **judged))
    if not calls:
        return _fence(state, outside)
    return {**state, **step("part", "Let the replicas end that go", DECIDE, calls)}


def _after_part(state: State, answers: Answers, outside: Outside) -> State:
    return _unless_stale(state, answers, outside, _parted)


def _parted(state: State, answers: Answers, outside: Outside) -> State:
    return _unless_missing(state, answers, outside, _fence)


def _unless_missing(state: State, answers: Answers, outside: Outside, follow: Any) -> State:
    """End the change where a host has not done its part; else note who has the record by now, and go on."""
    missing = _missing(answers, _actions)
    if missing:
        return _over(state, FAILED, [f"{host}: {why}" for host, why in missing.items()])
    change = state["change"]
    staying = [host for host in answers if host in change["staying"]]
    state["change"] = {**change, "changed": [*change["changed"], *staying]}
    return follow(state, outside)  # type: ignore[no-any-return]


def _fence(state: State, outside: Outside) -> State:
    """Let all that stay know where replicas will be, and let go of lost hosts, before anything starts elsewhere."""
    change = state["change"]
    hosts = {
        host: {"containers": host not in change["receiving"]}
        for host in change["staying"]
        if host not in change["changed"]
    }
    if change["kind"] == RESIZE or not hosts:
        return _apply(state, outside)
    calls = [_amended(state, hosts, not _takes_patches(state))]
    return {**state, **step("fence", "Let go of what is lost", DECIDE, calls)}


def _after_fence(state: State, answers: Answers, outside: Outside) -> State:
    return _unless_stale(state, answers, outside, _fenced)


def _fenced(state: State, answers: Answers, outside: Outside) -> State:
    return _unless_missing(state, answers, outside, _apply)


def _apply(state: State, outside: Outside) -> State:
    change = state["change"]
    patience = PATIENCE if len(change["receiving"]) <= outside.forks else 0
    starts = {"prove": True, "patience": patience, "ran": change["ran"]}
    new = {host: starts for host in change["receiving"] if host not in change["staying"]}
    old = {host: starts for host in change["receiving"] if host in change["staying"]}
    old.update({host: {} for host in change["staying"] if host not in [*old, *change["changed"]]})
    calls = [_amended(state, new, True)] if new else []
    if old:
        calls.append(_amended(state, old, not _takes_patches(state)))
    stubs = {
        host: {"recorded": state["recorded"][host]} for host in state["stub_hosts"] if host not in change["leaving"]
    }
    if stubs:
        stub = encode(stub_of(read_record(state["record"])))
        calls.append(call("session_host", stubs, {"state": "stub", "record": stub}, ["lease_owner"], STATE_DIRECTORY))
    if not calls:
        return _applied(state, {}, outside)
    title = "Start what is new, and prove that it works" if change["receiving"] else "Let go of the replicas that go"
    return {**state, **step("apply", title, DECIDE, calls)}


def _after_apply(state: State, answers: Answers, outside: Outside) -> State:
    return _unless_stale(state, answers, outside, _applied)


def _unless_stale(state: State, answers: Answers, outside: Outside, follow: Any) -> State:
    """Tell hosts the whole that had another copy than was expected; else go on."""
    stale = [host for host, answer in answers.items() if answer.stale]
    if not stale:
        return follow(state, answers, outside)  # type: ignore[no-any-return]
    change = state["change"]
    told = {
        host: {key: given[key] for key in ("containers", "ran", "prove", "patience") if key in given}
        for step_call in state["calls"]
        for host, given in step_call["hosts"].items()
        if host in stale
    }
    state["change"] = {
        **change,
        "after": state["step"],
        "answers": encode({host: answer for host, answer in answers.items() if host not in stale}),
    }
    return {
        **state,
        **step("again", "Tell the whole to hosts that had another copy", DECIDE, [_amended(state, told, True)]),
    }


def _after_again(state: State, answers: Answers, outside: Outside) -> State:
    all_answers = {**read_answers(SessionAnswer, state["change"]["answers"]), **answers}
    follow = {"part": _parted, "fence": _fenced, "apply": _applied}[state["change"]["after"]]
    return follow(state, all_answers, outside)


def _applied(state: State, answers: Answers, outside: Outside) -> State:
    change = state["change"]
    amended = {host: result for host, result in answers.items() if host in state["record"]["hosts"]}
    missing = _missing(amended, _actions)
    state["replicas"] = _replicas(amended)
    if missing:
        displaced = {
            name: host
            for host in missing
            for replica in state["record"]["plan"]["replicas"]
            if replica["host"] == host and (name := replica["name"]) in change["places"]
        }
        return _over(state, FAILED, [f"{host}: {why}" for host, why in missing.items()], displaced)
    late = [host for host, answer in amended.items() if answer.unproven]
    if late:
        own = {host: {"host": host} for host in late}
        variables = {"timeout": "launch_ready_timeout", **STATE_DIRECTORY}
        calls = [call("session_host", own, {"state": "verified"}, ["record"], variables)]
        return {**state, **step("join", "Prove that the new replicas reach the others", DECIDE, calls)}
    return _clear(state, outside)


def _replicas(answers: Answers) -> list[dict[str, Any]]:
    return [{**replica, "host": host} for host, answer in answers.items() for replica in answer.replicas or ()]


def _after_join(state: State, answers: Answers, outside: Outside) -> State:
    missing = _missing(answers, lambda answer: answer.replicas)
    if missing:
        return _over(state, FAILED, [f"{host}: {why}" for host, why in missing.items()])
    state["replicas"] = [*state["replicas"], *_replicas(answers)]
    return _clear(state, outside)


def _clear(state: State, outside: Outside) -> State:
    change, hosts = state["change"], state["record"]["plan"]["hosts"]
    stub = encode(stub_of(read_record(state["record"])))
    calls = [_given_up(state, record=stub)] if change["leaving"] else []
    # Who is proven with its new replicas has removed by then what it wrote into shared folders.
    writers = [
        host
        for host in change["holding"]
        if host in hosts
        and host not in change["receiving"]
        and any(folder["proof"] == WRITES for folder in hosts[host]["data"].values())
    ]
    if writers and not outside.check_mode:
        calls.append(_released(state, writers))
    if not calls:
        return _over(state, DONE, [])
    return {**state, **step("clear", "Remove what nobody needs any more", DECIDE, calls)}


def _released(state: State, hosts: Iterable[str]) -> Call:
    """Return the call by which hosts give back what they hold of a change, and what they wrote to prove folders."""
    own = {host: {"claim": state["claims"][host]["claim"], "host": host} for host in hosts}
    return call("session_host", own, {"state": "released"}, ["record", "lease_owner"], STATE_DIRECTORY)


def _given_up(state: State, **record: Any) -> Call:
    """Return the call by which hosts give up what they have of the session but the record, or a stub in its place."""
    arguments = {"state": "absent", "session_id": state["record"]["id"], "keep_record": True, **record}
    own = {host: {"recorded": state["recorded"][host]} for host in state["change"]["leaving"]}
    return call("session_host", own, arguments, (), {**STATE_DIRECTORY, **OUTPUT})


def _after_clear(state: State, answers: Answers, _outside: Outside) -> State:
    # What stays there is removed by whatever runs next: the newest record says that the session runs elsewhere.
    warnings = [f"{host} could not be cleaned: {why}" for host, why in _missing(answers, _actions).items()]
    return {**_over(state, DONE, []), "warnings": [*state["warnings"], *warnings]}

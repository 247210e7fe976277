# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Check pairs: test pairs of hosts in one real session, and name the slow or broken host.

| step | what hosts do | what follows |
|---|---|---|
| look | every host reports its facts | launch, or the end if fewer than two can take part |
| launch | the playbook launches a session with one replica on each of them | find |
| find | each reports which replica it has | work |
| work | in a round each works with one other at most | work, until no round could show more; prove |
| prove | each reports which replica it has: if one is gone, the results prove nothing | remember, if a host is named |
| remember | a host that is named is suspect from now on | the end |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..cluster.group import GroupFacts
from ..model.answers import FactsAnswer, TransferAnswer, read_answers
from ..model.calls import LookAtHost, Suspect, Transfer
from ..model.decode import encode
from ..model.given import PairsGiven, read_given
from ..model.verb_state import PairsState, PairTest, StepCall, read_state
from ..preflight.pair_check import Pair, judge, next_round
from ..rules.capacity import hosts_from_facts
from ..values.errors import CoreError
from .verb import OF_HOST, Answers, Outside, State, call

REFUSED = "Pairs of hosts cannot be checked; no host was touched."
SESSION = "check-pairs"
"""Name of the session in which pairs are tested; the playbook launches and removes it."""
SECONDS = 120
"""Time limit for the work of a pair; a pair that takes longer counts as broken."""


def begin(given: Mapping[str, Any], hosts: Sequence[str], _outside: Outside) -> State:
    """Return the first state. given: of `PairsGiven`. Raises InvalidInput."""
    wanted = read_given(PairsGiven, given, "check_pairs")
    state = PairsState(known=list(hosts), cpus=wanted.cpus, memory=wanted.memory, size=wanted.size)
    calls = [call(dict.fromkeys(hosts, LookAtHost(underlay_address="")), OF_HOST)]
    return state.follow("look", "Collect facts of the hosts", "Choose the hosts that take part", calls)


def advance(state: State, answers: Answers, outside: Outside) -> State:
    """Return the state that follows from the answers to the state's step."""
    after = {"look": _chosen, "launch": _find, "find": _found, "work": _worked, "prove": _proven, "remember": _over}
    return after[state["step"]](read_state(PairsState, state), answers, outside)


def _chosen(state: PairsState, answers: Answers, outside: Outside) -> State:
    try:
        group = GroupFacts.read(read_answers(FactsAnswer, answers), outside.inventory)
        hosts = hosts_from_facts(group.facts, group.inventory, SESSION)
    except CoreError as error:
        return state.over(f"{REFUSED}\n{error}")
    left_out = {host: group.why_missing[host] for host in group.missing}
    for host in hosts:
        drain = group.facts[host.name].drained
        if drain is not None:
            left_out[host.name] = str(drain)
        elif host.free.cpus < state.cpus or host.free.memory < state.memory or host.max_replicas == 0:
            left_out[host.name] = "It has no room for a replica of the check."
    state.left_out_because, state.chosen = left_out, [host for host in state.known if host not in left_out]
    if len(state.chosen) < 2:
        return _with_report(state)
    return state.follow("launch", "Launch a session on the chosen hosts", "Learn which replica is where")


def _find(state: PairsState, _answers: Answers, _outside: Outside) -> State:
    return state.follow("find", "Report which replica is here", "Pair the hosts", [_ask(state.chosen)])


def _ask(hosts: Sequence[str]) -> StepCall:
    return call(dict.fromkeys(hosts, Transfer(SESSION)), ())


def _found(state: PairsState, answers: Answers, _outside: Outside) -> State:
    found = read_answers(TransferAnswer, answers)
    replicas = {host: found[host].replica for host in state.chosen if found[host].replica}
    state.replicas, state.containers = replicas, {host: found[host].container for host in replicas}
    state.left_out_because.update({host: found[host].why_not for host in state.chosen if host not in replicas})
    return _work(state)


def _work(state: PairsState) -> State:
    hosts, rounds = list(state.replicas), _rounds(state)
    pairs = next_round(hosts, rounds)
    if not pairs:
        return _judged(state)
    own = {host: Transfer(SESSION, state.replicas[other], state.size, SECONDS) for host, other in pairs}
    title = f"Test pairs of hosts, round {len(rounds) + 1}"
    state.pairs = [list(pair) for pair in pairs]
    return state.follow("work", title, "Find slow hosts", [call(own, ())])


def _worked(state: PairsState, answers: Answers, _outside: Outside) -> State:
    done = []
    found = read_answers(TransferAnswer, answers)
    for host, other in state.pairs:
        took = found[host].took
        done.append(PairTest([host, other], took, "" if took is not None else found[host].why_not))
    state.rounds.append(done)
    return _work(state)


def _rounds(state: PairsState) -> list[dict[Pair, Any]]:
    return [{(entry.pair[0], entry.pair[1]): entry.took for entry in done} for done in state.rounds]


def _judged(state: PairsState) -> State:
    judgement = judge(list(state.replicas), _rounds(state))
    lines = {
        (entry.pair[0], entry.pair[1]): _line(number, entry)
        for number, done in enumerate(state.rounds, 1)
        for entry in done
    }
    state.named = {host: [lines[pair] for pair in pairs] for host, pairs in judgement.named.items()}
    state.unclear = [lines[pair] for pair in judgement.unclear]
    if not judgement.named:
        return _with_report(state)
    title = "Report which replica is still here"
    return state.follow("prove", title, "Check that the session existed all the time", [_ask(list(state.replicas))])


def _proven(state: PairsState, answers: Answers, _outside: Outside) -> State:
    """Name no host if the session, or a part of it, was removed while pairs were tested."""
    found = read_answers(TransferAnswer, answers)
    gone = [
        host
        for host, container in state.containers.items()
        if not found[host].unreachable and found[host].container != container
    ]
    if gone:
        state.named, state.unclear, state.gone = {}, [], gone
        return _with_report(state)
    own = {
        host: Suspect(f"check_pairs: slow or broken with {len(lines)} other hosts.")
        for host, lines in state.named.items()
    }
    remember = call(own)
    return state.follow("remember", "Get new sessions only if no other host has room", "Report the result", [remember])


def _line(number: int, entry: PairTest) -> str:
    took = f"{entry.took:.1f} s" if entry.took is not None else entry.problem
    return f"round {number}: {entry.pair[0]} with {entry.pair[1]}: {took}"


def _over(state: PairsState, _answers: Answers, _outside: Outside) -> State:
    return _with_report(state)


def _with_report(state: PairsState) -> State:
    """Return the last state: table, for people; answer, for programs; problems, for which the check fails."""
    named, unclear = state.named, state.unclear
    problems = [f"{host} is slow or broken. {'; '.join(lines)}." for host, lines in named.items()]
    if unclear:
        problems.append(f"Of these pairs it is not clear which host it is: {'; '.join(unclear)}.")
    if state.gone:
        problems.append(
            f"The replica of the check went on {', '.join(state.gone)} while pairs worked, so nothing is known. See "
            "whether somebody else checks pairs, and check again."
        )
    if len(state.replicas) < 2:
        problems.append("Fewer than two hosts took part, so there is nothing to compare.")
    every = [_line(number, entry) for number, done in enumerate(state.rounds, 1) for entry in done]
    missing = [f"{host} is left out. {why}" for host, why in state.left_out_because.items()]
    state.answer = {
        "hosts": list(state.replicas),
        "left_out": dict(state.left_out_because),
        "named": named,
        "unclear": unclear,
        "rounds": encode(state.rounds),
    }
    state.table, state.problems = [*every, *missing], problems
    return state.over()

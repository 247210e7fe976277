# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Preflight: hosts check themselves and test each other, and the results are evaluated.

| step | what hosts do | what follows |
|---|---|---|
| examine | every host checks itself | listen, or remember if no two can test each other |
| listen | hosts of the probe plan hold a link as sessions have it, and listen | reach |
| reach | hosts that listen send to the others | measure, or hear |
| measure | in a round of the matrix, each is in one pair at most | measure, until no round is left; hear |
| hear | hosts that listen report what arrived, and end | remember |
| remember | every host stores its problem, or that it has none | the end |

Processes that hosts start here end by themselves, even if the controller does not reach the last step.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields, replace
from typing import Any

from ..cluster.group import pick
from ..model.answers import PreflightAnswer, read_answers
from ..model.calls import EndListening, Examine, Listen, Measure, ProbeTask, Reach, Suspect
from ..model.given import PreflightGiven, read_given
from ..model.verb_state import MeasuredPair, PreflightState, read_state
from ..preflight.checks import REQUEST_VARIABLES, Options, Results, judge, plan_probe, storage_probes
from ..preflight.findings import ERROR
from ..preflight.matrix import read_measured
from ..preflight.probe_plan import read_probe, rounds
from ..preflight.report import answer_of, problems_of, report
from ..rules.addressing import parse_port_pool
from ..rules.data import Inventory, inventory_for, of_site, roots_of
from ..rules.site import HOST_VARIABLES, Settings
from ..values.errors import InvalidInput
from ..values.parse import Reader
from .verb import OF_HOST, Answers, Outside, State, call

REFUSED = "Preflight cannot begin; no host was touched."
ANSWERED = {"examine": "examined", "listen": "listening", "reach": "reached", "hear": "heard"}
"""By step the field of the state that has the answers to it."""
KEPT = tuple(item.name for item in fields(PreflightAnswer) if item.name != "warnings")
"""The parts of an answer that the state keeps. Ansible stores warnings as objects."""
REMEMBER = "Store the problem of a host, or that it has none"
TOKEN = ("token",)
"""Secret by which senders authenticate to the hosts' processes; no state contains it."""


def begin(given: Mapping[str, Any], hosts: Sequence[str], outside: Outside) -> State:
    """Return the first state. given: of `PreflightGiven`. Raises InvalidInput."""
    state = PreflightState(hosts=list(hosts))
    reader = Reader()
    state.settings = read_given(PreflightGiven, given, "preflight", reader)
    reader.attempt(lambda: _read(state, outside), None)
    reader.finish(None)
    options, _settings, _inventory = _read(state, outside)
    examine = Examine(
        tuple(options.images), tuple(options.paths), tuple(options.volumes), encryption=options.request.encrypted
    )
    own = {host: replace(examine, roots=of_site(_roots(outside.inventory, host))) for host in hosts}
    return state.follow("examine", "Examine every host", "Decide which hosts test each other", [call(own, OF_HOST)])


def advance(state: State, answers: Answers, outside: Outside) -> State:
    """Return the state that follows from the answers to the state's step."""
    return _advance(read_state(PreflightState, state), answers, outside)


def _advance(state: PreflightState, answers: Answers, outside: Outside) -> State:
    name = state.step
    if name == "remember":
        return state.over()
    if name == "measure":
        found = read_answers(PreflightAnswer, answers)
        called = [(pair, found[pair.source]) for pair in state.rounds.pop(0) if pair.source in found]
        state.measured += [replace(pair, measured=own.measured, problem=own.why_not) for pair, own in called]
    else:
        setattr(state, ANSWERED[name], {host: pick(answer, KEPT) for host, answer in answers.items()})
    if name == "examine":
        _plan(state, outside)
    if name == "hear" or len(state.ahead) == 1:
        return _judged(state, outside)
    if name == "examine":
        return _listen(state, outside)
    return _reach(state, outside) if name == "listen" else _measure(state)


def _read(state: PreflightState, outside: Outside) -> tuple[Options, Settings, Inventory]:
    """Return the options, the site's settings, and the inventory variables of each host. Raises InvalidInput.

    The request's variables are read again each time: they may hold secrets, and a state is shown.
    """
    first, *_others = state.hosts
    options = Options.from_variables(state.settings, pick(outside.inventory[first], REQUEST_VARIABLES))
    inventory: Inventory = {host: pick(outside.inventory[host], HOST_VARIABLES) for host in state.hosts}
    with suppress(InvalidInput):  # a finding reports it
        inventory = inventory_for(inventory, outside.asker.name)
    return options, Settings.from_variables(outside.site), inventory


def _roots(inventory: Mapping[str, Any], host: str) -> tuple[str, ...]:
    try:
        return tuple(roots_of(inventory, host))
    except InvalidInput:  # a finding reports it
        return ()


def _results(state: PreflightState, inventory: Inventory) -> Results:
    """Return what the hosts observed of themselves."""
    observed, unreachable = {}, {}
    for host, answer in read_answers(PreflightAnswer, state.examined).items():
        if answer.observed:
            observed[host] = answer.observed
        else:
            begin = "It cannot be reached: " if answer.unreachable else ""
            unreachable[host] = begin + answer.why_not.splitlines()[-1]
    return Results(known=state.hosts, unreachable=unreachable, observed=observed, inventory=inventory)


def _plan(state: PreflightState, outside: Outside) -> None:
    """Add the plan, and the titles of the steps that are ahead: none if no two hosts can test each other."""
    options, settings, inventory = _read(state, outside)
    given = options.given
    results = _results(state, inventory)
    plan = plan_probe(results.observed, settings, given.peers, uuid.UUID(outside.draw()).int)
    names = list(plan.hosts)
    measured = rounds(len(names), given.matrix_rounds) if given.matrix else []
    of_matrix = [f"Measure pairs, round {number + 1} of {len(measured)}" for number in range(len(measured))]
    titles = ["Set up a link like that of a session, and listen", "Send to the other hosts", *of_matrix]
    of_link = {
        "port": settings.vxlan_port,
        "ports": list(settings.image_ports),
        "encrypted": list(parse_port_pool(settings.encrypted_ports)) if options.request.encrypted else None,
        "seconds": given.matrix_seconds,
        "size": given.matrix_bytes,
        "probe_id": outside.draw(),
    }
    state.plan = ProbeTask(asdict(plan), of_link, storage_probes(options, results, plan))
    state.rounds = [[MeasuredPair(names[source], names[other]) for source, other in pairs] for pairs in measured]
    state.ahead = [*([*titles, "Report what arrived, and end"] if len(names) > 1 else []), REMEMBER]


def _listen(state: PreflightState, outside: Outside) -> State:
    _options, _settings, inventory = _read(state, outside)
    plan = state.plan
    hosts = {host: Listen(plan, "", host, _roots(inventory, host)) for host in plan.probe["hosts"]}
    return state.follow("listen", state.ahead[0], "Learn where each listens", [call(hosts, TOKEN)])


def _listening(state: PreflightState) -> dict[str, PreflightAnswer]:
    """Return the answers of the hosts that listen."""
    return {host: answer for host, answer in read_answers(PreflightAnswer, state.listening).items() if answer.server}


def _reach(state: PreflightState, outside: Outside) -> State:
    _options, _settings, inventory = _read(state, outside)
    listening = _listening(state)
    reach_all = Reach(
        state.plan,
        "",
        ports={host: answer.port for host, answer in listening.items()},
        udp_ports={host: answer.udp for host, answer in listening.items()},
    )
    hosts = {
        host: replace(reach_all, host=host, roots=_roots(inventory, host), server=answer.server or {})
        for host, answer in listening.items()
    }
    return state.follow("reach", state.ahead[1], "Check which hosts were reached", [call(hosts, TOKEN)])


def _measure(state: PreflightState) -> State:
    """Return the next round of the measurement, or the step that ends the probe if none is left."""
    listening = _listening(state)
    if not state.rounds:
        hear = {host: EndListening("", answer.server or {}) for host, answer in listening.items()}
        return state.follow("hear", state.ahead[-2], "Judge", [call(hear, TOKEN)])
    ports: dict[str, int | None] = {host: answer.port for host, answer in listening.items() if answer.port}
    pairs = [pair for pair in state.rounds[0] if pair.source in ports and pair.target in ports]
    plan = state.plan
    measure = call({pair.source: Measure(plan, "", pair.source, pair.target, ports) for pair in pairs}, TOKEN)
    title = state.ahead[-2 - len(state.rounds)]
    return state.follow("measure", title, "Keep what was measured", [measure])


def _judged(state: PreflightState, outside: Outside) -> State:
    """Return the findings: answer, for programs; table, for people; problems, for which preflight fails.

    The step left to do is that each host stores whether it has a problem.
    """
    options, settings, inventory = _read(state, outside)
    results = _results(state, inventory)
    plan = results.plan = read_probe(state.plan.probe)
    results.failed = dict(plan.left_out)
    if len(state.ahead) > 1:
        _add_probe(results, list(plan.hosts), state)
    examined = read_answers(PreflightAnswer, state.examined)
    clocks = {host: _clock(answer) for host, answer in examined.items() if answer.times}
    findings = judge(options, settings, results, clocks)
    # A problem between two hosts is not held against either of them.
    errors = [finding for finding in findings if finding.severity == ERROR]
    reasons = {host: f"{finding.check}: {finding.found}" for finding in reversed(errors) for host in finding.hosts}
    own = {host: Suspect(reasons.get(host, "")) for host in results.observed}
    last = PreflightState(
        hosts=state.hosts,
        ahead=state.ahead,
        left_out=state.left_out,
        answer=answer_of(findings, results, clocks),
        table=report(findings, results),
        problems=problems_of(findings, results, options.given.strict),
    )
    return last.follow("remember", REMEMBER, "Report what was found", [call(own)])


def _add_probe(results: Results, names: list[str], state: PreflightState) -> None:
    """Add what the hosts found when they tested each other. names: the hosts by their numbers."""
    nothing = PreflightAnswer()
    steps = [read_answers(PreflightAnswer, found) for found in (state.listening, state.reached, state.heard)]
    for host in names:
        listening, reached, heard = (answers.get(host, nothing) for answers in steps)
        if not listening.server or reached.peers is None:
            results.failed[host] = (reached if listening.server else listening).why_not
            continue
        results.probed[host] = {names[int(number)]: result for number, result in reached.peers.items()}
        _add_places(results, host, listening, reached)
        _add_heard(results, names, host, heard)
    results.unmeasured.update(
        {(pair.source, pair.target): pair.problem for pair in state.measured if not pair.measured}
    )
    results.measured = read_measured(pair.measured for pair in state.measured if pair.measured)


def _add_places(results: Results, host: str, listening: PreflightAnswer, reached: PreflightAnswer) -> None:
    """Add where a host listens, where it could not write, and which folders it shares with others."""
    results.ports[host], results.udp_ports[host] = listening.port or 0, listening.udp or 0
    results.unwritten.update({path: (host, why) for path, why in (listening.problems or {}).items()})
    results.shared[host] = reached.shared or {}


def _add_heard(results: Results, names: list[str], host: str, answer: PreflightAnswer) -> None:
    """Add what arrived at a host."""
    if answer.heard is None:
        results.failed[host] = f"What arrived there is not known: {answer.why_not}"
        return
    results.heard[host] = {names[int(number)]: size for number, size in answer.heard.tunnel.items()}
    results.heard_plain[host] = [names[int(number)] for number in answer.heard.plain]


def _clock(answer: PreflightAnswer) -> tuple[float, float]:
    """Return by how many seconds, at least and at most, a host's clock is ahead of the controller's."""
    before, after = answer.controller
    begin, end = answer.times
    return end - after, begin - before

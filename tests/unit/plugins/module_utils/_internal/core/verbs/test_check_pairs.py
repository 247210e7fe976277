# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A check of pairs from the look at the hosts to what people are told, driven by answers."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs import check_pairs
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.verb import Outside, State
from ansible_collections.cluster_compute.session.tests.support.core.verbs.group import facts

GIVEN = {"cpus": 1, "memory": "64m", "size": "1m"}
HOSTS = [f"h{number}" for number in range(1, 9)]
OUTSIDE = Outside(now=0.0, draw=lambda: "", inventory={host: {} for host in HOSTS})


def looked(**more: Any) -> State:
    """Return the state after the look at eight hosts. more: what differs in the answers, by host."""
    state = check_pairs.begin(GIVEN, HOSTS, OUTSIDE)
    answers = {host: more.get(host, {"host": facts()}) for host in HOSTS}
    return check_pairs.advance(state, answers, OUTSIDE)


def rounds_of(state: State, slow: str, answer: dict[str, Any]) -> State:
    """Go through the rounds with a host that is slow or broken; return the state after them."""
    state = check_pairs.advance(state, {}, OUTSIDE)
    assert state["step"] == "find"
    replica = {host: "main1" if host == "h1" else f"sub{number}" for number, host in enumerate(HOSTS)}
    state = check_pairs.advance(state, {host: {"replica": replica[host], "container": host} for host in HOSTS}, OUTSIDE)
    while state["step"] == "work":
        (work,) = state["calls"]
        for host, other in state["pairs"]:
            assert work["hosts"][host] == {"peer": replica[other]}
        answers = {pair[0]: answer if slow in pair else {"took": 1.0} for pair in state["pairs"]}
        state = check_pairs.advance(state, answers, OUTSIDE)
    return state


@pytest.mark.parametrize("answer", [{"took": 30.0}, {"failed": True, "msg": "main1 and sub1 do not work together."}])
def test_the_slow_host_is_named_and_suspect_from_then_on(answer: dict[str, Any]) -> None:
    state = rounds_of(looked(), "h3", answer)
    assert state["step"] == "prove"
    state = check_pairs.advance(state, {host: {"container": host} for host in HOSTS}, OUTSIDE)
    assert state["step"] == "remember"
    assert len(state["rounds"]) <= 4
    (remember,) = state["calls"]
    assert remember["module"] == "host_suspect"
    assert list(remember["hosts"]) == ["h3"]
    state = check_pairs.advance(state, {}, OUTSIDE)
    assert state["step"] == ""
    (problem,) = state["problems"]
    assert problem.startswith("h3 is slow or broken. round 1: h3 with h4: ")
    assert list(state["answer"]["named"]) == ["h3"]


def test_nobody_is_named_where_the_session_went_meanwhile() -> None:
    state = rounds_of(looked(), "h3", {"failed": True, "msg": "0 replicas run here."})
    still = {host: {"container": host} for host in HOSTS}
    recreated: dict[str, dict[str, Any]] = {
        **still,
        "h5": {"container": "another"},
        "h6": {"failed": True, "msg": "0 replicas run here."},
    }
    state = check_pairs.advance(state, recreated, OUTSIDE)
    assert (state["step"], state["answer"]["named"]) == ("", {})
    (problem,) = state["problems"]
    assert "went on h5, h6 while pairs worked" in problem


def test_who_cannot_be_reached_at_the_end_is_named_all_the_same() -> None:
    state = rounds_of(looked(), "h3", {"unreachable": True, "msg": "no route"})
    answers = {host: {"container": host} for host in HOSTS} | {"h3": {"unreachable": True, "msg": "no route"}}
    assert list(check_pairs.advance(state, answers, OUTSIDE)["named"]) == ["h3"]


def test_nobody_is_named_where_all_is_well() -> None:
    state = rounds_of(looked(), "", {})
    assert (state["step"], state["problems"], len(state["rounds"])) == ("", [], 1)
    assert len(state["table"]) == 4


def test_who_cannot_take_part_is_told() -> None:
    drained = facts()
    drained["drained"] = {"reason": "new memory", "by": "bob", "since": "2026-01-01T00:00:00Z"}
    state = looked(h2={"host": drained}, h5={"unreachable": True, "msg": "no route"})
    assert state["step"] == "launch"
    assert state["chosen"] == [host for host in HOSTS if host not in ("h2", "h5")]
    assert "It is drained" in state["left_out_because"]["h2"]
    assert "h5" in state["left_out_because"]


def test_a_host_without_a_replica_is_told_with_the_reason() -> None:
    state = check_pairs.advance(looked(), {}, OUTSIDE)
    found: dict[str, Any] = {host: {"replica": host, "container": host} for host in HOSTS}
    found["h4"] = {"failed": True, "msg": "0 replicas run here."}
    state = check_pairs.advance(state, found, OUTSIDE)
    assert state["step"] == "work"
    assert "h4" not in state["replicas"]
    assert state["left_out_because"] == {"h4": "0 replicas run here."}


def test_without_two_hosts_there_is_nothing_to_compare() -> None:
    away = {"unreachable": True, "msg": "no route"}
    state = looked(**dict.fromkeys(HOSTS[1:], away))
    assert state["step"] == ""
    assert state["problems"] == ["Fewer than two hosts took part, so there is nothing to compare."]
    waits = check_pairs.advance(looked(), {}, OUTSIDE)
    state = check_pairs.advance(
        waits, {host: {"failed": True, "msg": "0 replicas run here."} for host in HOSTS}, OUTSIDE
    )
    assert state["problems"] == ["Fewer than two hosts took part, so there is nothing to compare."]


def test_bad_input_is_refused_by_name() -> None:
    for name, value in (("size", "1k"), ("cpus", "many"), ("memory", "-1")):
        with pytest.raises(InvalidInput, match=f"check_pairs_{name}"):
            check_pairs.begin({**GIVEN, name: value}, HOSTS, OUTSIDE)


def test_a_state_is_plain_data() -> None:
    state = rounds_of(looked(), "h3", {"took": 30.0})
    assert encode(state) == state

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight, driven by answers: who is called in which step, and what is made of what hosts say."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.preflight.probe_plan import (
    read_probe,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs import preflight
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.verb import (
    Outside,
    State,
    calls_of,
    hosts_of,
)
from ansible_collections.cluster_compute.session.tests.support.core.preflight.observations import (
    SITE,
    observation,
)

AWAY = {"unreachable": True, "msg": "Connection timed out"}


class Preflight:
    """A preflight of some hosts that all do what they are told, but for what a test says."""

    def __init__(self, hosts: int = 3, request: dict[str, Any] | None = None, **settings: Any) -> None:
        numbers = count(1)
        names = [f"n{number}" for number in range(hosts)]
        self.outside = Outside(
            now=0.0,
            draw=lambda: f"00000000-0000-4000-8000-{next(numbers):012}",
            inventory={name: {**SITE, **(request or {})} for name in names},
        )
        self.steps: list[str] = []
        self.calls: dict[str, dict[str, Any]] = {}
        self.state: State = preflight.begin(settings, names, self.outside)

    def good_answer(self, host: str) -> dict[str, Any]:
        """Return what a host answers where all is well."""
        ((module, arguments, _variables),) = calls_of(self.state, host)
        assert module == ("host_suspect" if self.state["step"] == "remember" else "host_preflight")
        self.calls.setdefault(self.state["step"], {})[host] = arguments
        if self.state["step"] == "remember":
            return {"changed": False}
        if self.state["step"] == "examine":
            return {"observed": observation(int(host[1:])), "times": [5.0, 6.0], "controller": [5.0, 6.0]}
        if self.state["step"] == "listen":
            return {"server": {"pid": 1}, "port": 8480, "udp": 61000, "wrote": [], "problems": {}}
        if self.state["step"] == "measure":
            return {"measured": {"from": host, "to": arguments["target"], "delay": 0.001, "there": 1e9, "back": 1e9}}
        probe = read_probe(self.state["plan"]["probe"])
        numbers = [str(place.number) for place in probe.places(host)]
        if self.state["step"] == "reach":
            peers = {number: {"problem": "", "mtu": 1500} for number in numbers}
            return {"peers": peers, "shared": dict.fromkeys(self.state["plan"]["storage"].get(host, ()), True)}
        sizes = {str(place.number): place.size for place in probe.places(host)}
        return {"heard": {"tunnel": sizes, "plain": dict.fromkeys(sizes, 100)}}

    def until(self, last: str, **others: dict[str, Any]) -> Preflight:
        """Go on until a step is to be answered, "" for the end. others: by step and host, what is answered instead."""
        while self.state["step"] != last:
            name = self.state["step"]
            self.steps.append(name)
            answers = {host: others.get(name, {}).get(host, self.good_answer(host)) for host in hosts_of(self.state)}
            self.state = preflight.advance(self.state, answers, self.outside)
        return self

    def found(self) -> list[tuple[str, str]]:
        """Return severity and check of what is found, what is well left out."""
        return [
            (finding["severity"], finding["check"])
            for finding in self.state["answer"]["findings"]
            if finding["severity"] != "ok"
        ]


def test_hosts_that_are_well_go_through_all_steps_and_nothing_is_found() -> None:
    request = {"session_image": "train:1", "session_mounts": ["/srv/shared:/data"], "session_encrypted": True}
    run = Preflight(request=request, matrix=True, matrix_rounds=2).until("")
    assert run.steps == ["examine", "listen", "reach", "measure", "measure", "hear", "remember"]
    assert run.calls["remember"] == {host: {} for host in ("n0", "n1", "n2")}
    assert run.found() == []
    assert run.state["problems"] == []
    assert run.calls["examine"]["n1"]["images"] == ["train:1"]
    assert run.calls["examine"]["n1"]["roots"] == run.calls["reach"]["n1"]["roots"] == ["/srv"]
    own = Preflight(request={**request, "cluster_compute_mount_roots": ["/srv", "/home/{owner}"]}).until("")
    assert own.calls["examine"]["n1"]["roots"] == ["/home", "/srv"], "whoever runs it"
    assert own.calls["reach"]["n1"]["roots"] == ["/home/root", "/srv"], "as sessions of who runs it have it"
    assert run.calls["reach"]["n2"]["ports"] == dict.fromkeys(("n0", "n1", "n2"), 8480)
    assert run.calls["hear"]["n0"]["server"] == {"pid": 1}
    answer = run.state["answer"]
    assert (answer["pairs_tried"], answer["pairs"], len(answer["matrix"])) == (6, 6, 4)
    assert answer["hosts"]["n0"]["clock_ahead_seconds"] == [0.0, 0.0]
    assert not {"examined", "listening", "reached", "heard"} & run.state.keys()


def test_a_round_of_the_matrix_neither_reads_nor_copies_what_hosts_answered_before() -> None:
    """That would take ten seconds for a thousand hosts, in each round."""
    run = Preflight(matrix=True).until("reach")
    answers = {host: {**run.good_answer(host), "warnings": ["It is slow."]} for host in hosts_of(run.state)}
    run.state = preflight.advance(run.state, answers, run.outside)
    run.state = preflight.advance(run.state, {}, run.outside)
    assert run.state["step"] == "measure"
    assert [run.state["reached"][host]["peers"] is answers[host]["peers"] for host in answers] == [True] * 3
    assert [host for host in answers if "warnings" in run.state["reached"][host]] == [], "Ansible stores objects there"


def test_every_title_that_was_announced_is_that_of_a_step() -> None:
    run = Preflight(matrix=True).until("listen")
    titles = []
    while run.state["step"]:
        titles.append(run.state["title"])
        run.state = preflight.advance(
            run.state, {host: run.good_answer(host) for host in hosts_of(run.state)}, run.outside
        )
    assert titles == run.state["ahead"]
    assert titles[2:-2] == ["Measure pairs, round 1 of 3", "Measure pairs, round 2 of 3", "Measure pairs, round 3 of 3"]


@pytest.mark.parametrize("hosts", [1, 2])
def test_a_host_that_nobody_else_can_try_is_judged_by_itself(hosts: int) -> None:
    run = Preflight(hosts).until("", examine={"n1": AWAY})
    assert run.steps == ["examine", "remember"]
    assert run.state["ahead"] == [preflight.REMEMBER]
    assert set(run.calls["remember"]) == {"n0"}
    assert run.found() == [("error", "reach")] * (hosts - 1)


def test_a_host_that_is_away_is_told_and_the_others_try_each_other() -> None:
    run = Preflight().until("", examine={"n2": AWAY})
    assert run.found() == [("error", "reach")]
    assert run.state["problems"][0].startswith("error: reach: n2: It cannot be reached: Connection timed out.")
    assert set(run.calls["listen"]) == {"n0", "n1"}


def test_a_host_that_cannot_listen_is_not_spoken_to_and_named_once() -> None:
    run = Preflight(matrix=True).until("", listen={"n1": {"failed": True, "msg": "No link."}})
    assert run.found() == [("error", "tunnel")]
    for step in ("reach", "measure", "hear"):
        assert "n1" not in run.calls[step]
    assert "n1" not in run.calls["reach"]["n0"]["ports"]
    assert {call["target"] for call in run.calls["measure"].values()} <= {"n0", "n2"}
    assert run.state["answer"]["pairs_tried"] == 2


@pytest.mark.parametrize(
    ("step", "answer", "words"),
    [
        ("reach", {"failed": True, "msg": "No channel."}, "No channel."),
        ("reach", {}, "It did not answer."),
        ("hear", {"heard": None}, "What arrived there is not known: It did not answer."),
    ],
)
def test_a_host_that_fails_later_is_told_with_its_reason(step: str, answer: dict[str, Any], words: str) -> None:
    run = Preflight().until("", **{step: {"n1": answer}})
    assert run.found() == [("error", "tunnel")]
    assert words in run.state["problems"][0]
    assert {host: given.get("reason", "") for host, given in run.calls["remember"].items()} == {
        "n0": "",
        "n1": f"tunnel: {words}",
        "n2": "",
    }


def test_a_pair_that_could_not_be_measured_is_named() -> None:
    failed = {"failed": True, "msg": "Connection reset."}
    run = Preflight(2, matrix=True).until("measure")
    (host,) = hosts_of(run.state)
    run.until("", measure={host: failed})
    assert run.found() == [("error", "matrix")]
    assert "Connection reset." in run.state["problems"][0]


def test_folders_that_are_not_the_same_are_found_by_the_probe() -> None:
    run = Preflight(request={"session_mounts": ["/srv/shared:/data"]}).until("reach")
    good = run.good_answer("n1")
    assert run.state["plan"]["storage"]["n1"] == {"/srv/shared": "reads"}
    run.until("", reach={"n1": {**good, "shared": {"/srv/shared": False}}})
    assert run.found() == [("error", "data")]


def test_warnings_are_problems_where_that_is_asked_for() -> None:
    for strict in (False, True):
        unsynchronized = observation(1)
        unsynchronized["clock"]["unsynchronized"] = True
        answer = {"observed": unsynchronized, "times": [5.0, 6.0], "controller": [5.0, 6.0]}
        run = Preflight(strict=strict).until("", examine={"n1": answer})
        assert run.found() == [("warning", "clock")]
        assert len(run.state["problems"]) == strict


def test_bad_variables_are_refused_before_any_host_is_called() -> None:
    with pytest.raises(InvalidInput, match=r"preflight_matrix_seconds is 100: It must be a whole number from 1 to 60"):
        Preflight(matrix_seconds=100)


def test_no_secret_of_the_request_is_in_a_state() -> None:
    roles = [{"name": "main", "image": "train:1", "env": {"PASSWORD": "hush-hush"}}]
    for step in ("examine", "reach", ""):
        assert "hush-hush" not in str(Preflight(request={"session_roles": roles}).until(step).state)


def test_all_that_is_wrong_with_the_variables_is_told() -> None:
    wrong: dict[str, Any] = {
        "clock_seconds": 0,
        "disk_free": "much",
        "matrix": "perhaps",
        "shared_folders": ["relative"],
    }
    with pytest.raises(InvalidInput) as error:
        Preflight(request={"session_image": "a b"}, **wrong)
    for name in ("preflight_clock_seconds is 0", "preflight_disk_free is 'much'", "preflight_matrix is 'perhaps'"):
        assert name in str(error.value)
    assert "relative" in str(error.value)
    assert "session_image is 'a b'" in str(error.value)

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the states of a run are, which tasks they hang on, and how they are counted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.cluster_compute.session.plugins.plugin_utils.progress import (
    COLLECTION,
    DONE,
    FAILED,
    READY,
    SKIPPED,
    STATES,
    STEPS,
    Progress,
    State,
    state_of,
)
from ansible_collections.cluster_compute.session.plugins.plugin_utils.verbs import VERBS
from ansible_collections.cluster_compute.session.tests.support.core.verbs.group import Launch

CHECKOUT = Path(__file__).resolve().parents[4]
LOOK = STATES[("host_info", "")]
PULL = STEPS["pull"]
RESERVE = STEPS["hold"]
START = STEPS["start"]


class Loader(yaml.SafeLoader):
    """Takes text that Ansible does not template for what it is."""


def untemplated(loader: Loader, node: yaml.ScalarNode) -> Any:
    return loader.construct_scalar(node)


Loader.add_constructor("!unsafe", untemplated)


def tasks_of(role: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give module and arguments of each task of the collection's own modules in a role."""
    for path in sorted((CHECKOUT / "roles" / role / "tasks").glob("*.yml")):
        for task in yaml.load(path.read_text(encoding="utf-8"), Loader):  # noqa: S506 - a safe one
            yield from ((name, task[name] or {}) for name in task if name.startswith(COLLECTION))


def states_of(role: str) -> set[str]:
    found = (state_of(action, arguments) for action, arguments in tasks_of(role))
    return {state.name for state in found if state is not None}


def module_text(name: str) -> str:
    return (CHECKOUT / "plugins" / "modules" / f"{name}.py").read_text(encoding="utf-8")


def test_the_plain_way_of_a_verb_goes_through_the_states_that_are_promised() -> None:
    assert states_of("launch") == {"look", "reserve", "start"}
    assert states_of("teardown") == {"remove"}
    assert states_of("repair") == {"look", "repair"}


def test_every_step_that_has_a_state_is_one_of_a_verb() -> None:
    known = {
        name
        for verb in VERBS.values()
        for names in re.findall(r"^\| ([a-z, ]+) \|", str(verb.__doc__), re.MULTILINE)
        for name in names.split(", ")
    } - {"step"}
    assert set(STEPS) <= known
    of_other_verbs = {
        "examine",
        "find",
        "work",
        "prove",
        "listen",
        "reach",
        "measure",
        "hear",
        "read",
        "run",
        "abort",
        "end",
    }
    silent = {"remember", "keep", "name", "queue", "batch", "tell", "launch", "remove", "requeue"}
    assert known - set(STEPS) == silent | of_other_verbs
    for verb in ("preflight", "logs", "run_job"):
        steps = set(re.findall(r"^\| ([a-z]+) \|", str(VERBS[verb].__doc__), re.MULTILINE)) - {"step"}
        assert steps & set(STEPS) <= {"look"}


@pytest.mark.parametrize("key", [key for key, state in STATES.items() if state.expected_key])
def test_what_proves_a_state_is_what_the_module_returns(key: tuple[str, str]) -> None:
    returned = yaml.safe_load(module_text(key[0]).split('RETURN = r"""')[1].split('"""')[0])
    assert STATES[key].expected_key in returned


def test_who_does_not_belong_to_the_collection_has_no_state() -> None:
    assert state_of("ansible.builtin.file", {"state": "absent"}) is None
    assert state_of("other.session.session_host", {"state": "absent"}) is None
    assert state_of(f"{COLLECTION}session_host", {}) is None
    assert state_of(f"{COLLECTION}session_step", {"step": "start"}, "hold") == START
    assert state_of(f"{COLLECTION}session_step", {}, "serve") == PULL


def run(progress: Progress, state: State, results: dict[str, dict[str, Any]], begin: float, end: float) -> None:
    """Let hosts do their part of a state side by side."""
    progress.task(state, once=False)
    for host in results:
        progress.begin(state, host, begin)
    for host, result in results.items():
        progress.end(state, host, DONE, result, end)


def test_the_line_counts_hosts_and_seconds() -> None:
    progress = Progress()
    assert progress.line(0.0) == ""
    progress.play(3)
    progress.task(RESERVE, once=False)
    progress.begin(RESERVE, "h1", 10.0)
    assert progress.line(10.0) == "reserve 0/3 hosts, 0 s"
    progress.begin(RESERVE, "h2", 10.0)
    progress.end(RESERVE, "h1", DONE, {"granted": True}, 12.0)
    assert progress.line(14.9) == "reserve 1/3 hosts, 4 s"
    progress.begin(RESERVE, "h3", 15.0)
    progress.end(RESERVE, "h3", SKIPPED, {}, 15.0)
    assert progress.line(16.0) == "reserve 1/2 hosts, 6 s"
    progress.end(RESERVE, "h2", DONE, {"granted": False}, 20.0)
    assert progress.line(21.0) == ""
    assert progress.summary(99.0) == ["reserve  1/2 hosts, 1 failed    10.0 s"]


def test_a_host_that_hides_its_failure_has_failed_all_the_same_and_may_do_better() -> None:
    progress = Progress()
    progress.play(2)
    run(progress, LOOK, {"h1": {"host": {}}, "h2": {"msg": "No engine."}}, 0.0, 1.0)
    assert progress.summary(5.0) == ["look  1/2 hosts, 1 failed     1.0 s"]
    run(progress, LOOK, {"h1": {"host": {}}, "h2": {"host": {}}}, 5.0, 7.0)
    assert progress.summary(9.0) == ["look  2/2 hosts     3.0 s"]
    progress.begin(LOOK, "h2", 9.0)
    progress.end(LOOK, "h2", FAILED, {}, 10.0)
    assert "1 failed" in progress.summary(10.0)[0]


def plan(replicas: dict[str, int], fetches: list[str]) -> dict[str, Any]:
    members = [{"host": host} for host, count in replicas.items() for _number in range(count)]
    return {"record": {"plan": {"replicas": members}}, "fetches": fetches}


def test_replicas_are_counted_where_they_are_made_and_the_network_apart() -> None:
    progress = Progress()
    progress.play(3)
    progress.learn(plan({"h1": 3, "h2": 1}, []))
    progress.task(START, once=False)
    for host in ("h1", "h2"):
        progress.begin(START, host, 0.0)
    progress.end(START, "h1", DONE, {"actions": [], "seconds": {"network": 0.5, "start": 1.0}}, 2.0)
    assert progress.line(3.0) == "network, start 1/3 hosts, 3/4 replicas, 3 s"
    taken = {"network": 1.5, "start": 1.0, "ready": 0.5}
    progress.end(START, "h2", DONE, {"actions": [], "seconds": taken, "unproven": "h1 is late."}, 4.0)
    run(progress, READY, {"h1": {"replicas": []}, "h2": {"msg": "no"}}, 4.0, 5.0)
    assert progress.summary(5.0) == [
        "network  2/2 hosts                             1.5 s",
        "start    2/2 hosts, 4/4 replicas               2.0 s",
        "ready    1/2 hosts, 1 failed, 3/4 replicas     1.5 s",
    ]


def test_a_host_that_only_keeps_a_stub_has_done_its_part_of_what_comes_first() -> None:
    progress = Progress()
    progress.play(3)
    results: dict[str, dict[str, Any]] = {"h1": {"actions": [], "begun": []}, "h2": {"actions": []}, "h3": {"msg": ""}}
    run(progress, STEPS["begin"], results, 0.0, 2.0)
    assert progress.summary(2.0) == ["begin  2/3 hosts, 1 failed     2.0 s"]


def test_images_are_counted_by_the_hosts_that_lacked_them() -> None:
    launch = Launch()
    for host in ("h1", "h2"):
        launch.hosts[host]["images"] = {"busybox": None}
    launch.until("serve")
    progress = Progress()
    progress.play(3)
    progress.learn(launch.state)
    progress.task(PULL, once=False)
    progress.begin(PULL, "h1", 0.0)
    assert progress.line(1.0) == "pull 0/2 hosts, 1 s"
    progress.end(PULL, "h1", DONE, {}, 2.0)
    launch.answer(h3={"port": 8480, "fingerprint": "f", "server": {"pid": 1, "start": 2}})
    launch.answer(h1={"bytes": 1, "seconds": 1.0})
    progress.learn(launch.state)
    assert progress.summary(5.0) == ["pull  1/2 hosts     2.0 s"]


def test_hosts_in_different_states_are_told_side_by_side() -> None:
    progress = Progress()
    progress.play(2)
    progress.begin(RESERVE, "h1", 0.0)
    progress.begin(READY, "h2", 0.0)
    assert progress.line(1.0) == "reserve 0/1 hosts, 1 s; ready 0/1 hosts, 1 s"


def test_a_state_that_every_host_skipped_is_not_told() -> None:
    progress = Progress()
    progress.play(1)
    progress.task(PULL, once=False)
    progress.begin(PULL, "h1", 0.0)
    progress.end(PULL, "h1", SKIPPED, {}, 0.1)
    assert progress.summary(1.0) == []


def test_the_last_decision_takes_nothing_of_what_is_known_away() -> None:
    progress = Progress()
    progress.play(1)
    progress.learn(plan({"h1": 3}, []))
    start = state_of(f"{COLLECTION}session_step", {"step": "start"})
    assert start is not None
    run(progress, start, {"h1": {"actions": ["create"]}}, 0.0, 1.0)
    progress.learn({"msg": ["Session demo"]})
    assert "3/3 replicas" in "".join(progress.summary(2.0))

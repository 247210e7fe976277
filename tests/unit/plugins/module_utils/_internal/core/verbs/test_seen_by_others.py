# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What verbs show of somebody else's sessions: names, owners, places and amounts, and nothing that they run or say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.action.session_decide import SPOKEN
from ansible_collections.cluster_compute.session.plugins.filter.queue_table import queue_table
from ansible_collections.cluster_compute.session.plugins.filter.scrape_targets import scrape_targets
from ansible_collections.cluster_compute.session.plugins.filter.status_table import status_table
from ansible_collections.cluster_compute.session.plugins.inventory.sessions import OF_REPLICA, OF_SESSION
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import Allocatable
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.fields import FIELDS, LAUNCH
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.plan import read_plan
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import ERROR, PENDING
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.access import (
    ADMIN,
    EVERYBODY,
    SEEN_BY_ALL,
    Asker,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.show import events
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.show.metrics import (
    Counted,
    HostLook,
    state_text,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.show.preview import preview
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import OUTPUT
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs import (
    launch,
    repair,
    schedule,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.verb import (
    Outside,
    State,
    calls_of,
)
from ansible_collections.cluster_compute.session.plugins.plugin_utils.group_overview import read_overview
from ansible_collections.cluster_compute.session.plugins.plugin_utils.status_page import render
from ansible_collections.cluster_compute.session.tests.support.core.verbs.begun import begun
from ansible_collections.cluster_compute.session.tests.support.core.verbs.group import (
    request,
)
from ansible_collections.cluster_compute.session.tests.support.hosts_in_memory import World, in_memory

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAID0D3s8E9JWn04xEIs9iqqoeVlWJbCLHvqIY+zMlCfIT"
SECRET = {"command": ["c0mmand"], "env": {"TOKEN": "v4lue"}, "authorized_keys": f"{KEY} c0mment"}
THEIRS = ("c0mmand", "b4tch", "c0mment", "0utput", "n3wer")
"""What is shown to those who may read a session."""
NOBODYS = ("v4lue", "pa55")
"""What is shown to nobody."""
EVE = Asker("eve", is_admin=False)
READERS = {"owner": Asker("alice", False), "shared with": Asker("bob", False), "admin": ADMIN}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Give hosts with a session that runs, one with a batch command that waits, and one that has failed."""
    with in_memory() as worlds:
        world = World(tmp_path_factory.mktemp("seen"))
        worlds.append(world)
        world.site = {"cluster_compute_volume_drivers": ["local:cifs"]}
        share = {"volume": "share", "target": "/data", "driver_options": {"type": "cifs", "o": "password=pa55"}}
        ran = request(name="ash", cpus="2", mounts=[share], **SECRET)
        waits = request(name="birch", cpus="2", batch_command=["b4tch"], env={"TOKEN": "v4lue"})
        state = world.launch(ran)
        assert "outcome" in state, state["failure"]
        assert world.launch(waits)["outcome"]["status"] == PENDING
        for host in world.hosts.values():
            directory = StateDirectory(str(host.root))
            for record in directory.records()[0]:
                if record.name == "ash":
                    report = ("It is as follows.", f"Its last output:\n{OUTPUT}0utput")
                    newer = None if record.request is None else {**record.request, "n3w": "n3wer"}
                    changed = replace(record, report=report, request=newer, shared_with=("bob",))
                    directory.session(record.id).write_record(changed)
        yield world


def overview(world: World, asker: Asker) -> dict[str, Any]:
    """Return what session_info returns."""
    answers = {name: {"host": host.host_info(whole_records=True)} for name, host in world.hosts.items()}
    hostvars: dict[str, Any] = {name: {} for name in world.hosts}
    return dict(encode(read_overview("g", answers, hostvars, {}, {}, asker)))


def told(*found: Any) -> list[str]:
    """Return which of what not everybody may see is in what is shown."""
    text = "\n".join(one if isinstance(one, str) else json.dumps(one) for one in found)
    assert "ash" in text or "birch" in text
    return [word for word in (*THEIRS, *NOBODYS) if word in text]


def spoken(state: dict[str, Any]) -> list[Any]:
    """Return what roles and playbooks show of a state, and the event."""
    return [state.get(key) for key in SPOKEN] + [state.get("queue"), state.get("elsewhere"), state.get("outcomes")]


@pytest.mark.parametrize("asker", [EVE, EVERYBODY], ids=["somebody else", "everybody"])
def test_data_table_page_and_targets_show_everybody_names_places_and_amounts(world: World, asker: Asker) -> None:
    found = overview(world, asker)
    assert told(found, status_table(found), render(found), scrape_targets(found)) == []
    ran, waits = found["sessions"]
    assert (ran["readable"], waits["readable"]) == (False, False)
    assert [role["command"] for role in ran["request"]["roles"]] == [[]] * len(ran["request"]["roles"])
    assert (waits["request"]["batch_command"], ran["request"]["authorized_keys"], ran["request"]["n3w"]) == (
        [],
        [],
        None,
    )
    assert [role["env"] for role in ran["request"]["roles"]] == [["TOKEN"]] * len(ran["request"]["roles"])
    assert ran["report"] == ["It is as follows.", "Its last output:"]
    assert (ran["owner"], ran["hosts"], len(ran["replicas"])) == ("alice", ["h1", "h2", "h3"], 3)
    assert [replica["resources"]["cpus"] for replica in ran["replicas"]] == [2000] * 3


@pytest.mark.parametrize("who", [*READERS])
def test_who_may_read_a_session_sees_what_it_runs_and_no_secret(world: World, who: str) -> None:
    found = overview(world, READERS[who])
    ran, waits = found["sessions"]
    assert set(told(ran)) == {"c0mmand", "c0mment", "0utput", "n3wer"}
    # birch is not shared.
    assert told(waits) == ([] if who == "shared with" else ["b4tch"])
    assert "c0mmand" in render(found)


@pytest.mark.parametrize("check_mode", [False, True])
def test_runs_for_all_sessions_show_nothing_that_others_may_not_read(world: World, check_mode: bool) -> None:
    for verb, first in ((schedule, begun(schedule, world.known)), (repair, begun(repair, world.known, leaks=True))):
        state = world.run(verb, first, None, None)
        name = verb.__name__.rpartition(".")[2]
        assert told("ash", *spoken(state), encode(events.happened(name, state))) == []
    assert told(*queue_table(world.queue()["queue"])) == []


def test_the_outcome_of_a_session_from_the_queue_is_shown_without_its_output_to_others(world: World) -> None:
    state = {
        **begun(schedule, world.known),
        "step": "launch",
        "launchable": encode([launch.launch_request(request(name="ash"), "alice", ["bob"])] * 2),
        "only_lost": True,
    }
    outcome = {"session_name": "ash", "status": ERROR, "report": [f"h1: It ended.\n{OUTPUT}0utput"]}
    for asker, expected in ((EVE, []), (READERS["shared with"], ["0utput"])):
        found = schedule.advance(state, {"launch": outcome}, outside_of(world, asker))
        assert told(found["outcomes"]) == expected
        assert told("ash", encode(events.happened("schedule", {**found, "step": ""}))) == []


def outside_of(world: World, asker: Asker) -> Outside:
    """Return what lies outside of a verb that somebody runs."""
    return Outside(world.now, str, inventory={name: {} for name in world.known}, asker=asker, check_mode=True)


@pytest.mark.parametrize("change", [{}, {"size": 2}, {"command": ["other"]}])
def test_a_plan_for_a_name_of_somebody_else_is_refused_without_what_differs(world: World, change: Any) -> None:
    wanted = request(**{"name": "ash", "cpus": "2", **SECRET, **change})
    given = launch.launch_request(wanted, "eve", recreate=True)
    state = begun(launch, world.known, world.now, request=given)
    answers = {name: {"host": host.host_info(**arguments(state, name))} for name, host in world.hosts.items()}
    state = launch.advance(state, answers, outside_of(world, EVE))
    assert "It belongs to alice" in state["failure"]
    assert told(state["failure"], *spoken(state)) == []


def test_a_teardown_by_somebody_else_says_whose_it_is_and_nothing_more(world: World) -> None:
    state = world.teardown("ash", asker="eve")
    shown = [*spoken(state), state.get("failure"), encode(events.happened("teardown", state))]
    assert "It belongs to alice" in json.dumps(shown)
    assert told("ash", *shown) == []
    assert len(overview(world, ADMIN)["sessions"][0]["replicas"]) == 3, "it runs on"


def arguments(state: State, host: str) -> dict[str, Any]:
    """Return what a host is asked for in a state's step."""
    ((_module, found, _variables),) = calls_of(state, host)
    return found


def test_a_plan_of_a_free_name_shows_nothing_of_other_sessions(world: World) -> None:
    given = launch.launch_request(request(name="cedar", cpus="2", size=1), "eve")
    state = begun(launch, world.known, world.now, request=given)
    answers = {name: {"host": host.host_info(**arguments(state, name))} for name, host in world.hosts.items()}
    with suppress(KeyError):
        state = launch.advance(state, answers, outside_of(world, EVE))
    assert told("ash", *spoken(state), encode(preview(state, state["report"], {}))) == []


def test_metrics_and_the_inventory_of_sessions_have_names_and_places(world: World, tmp_path: Path) -> None:
    for host in world.hosts.values():
        records = StateDirectory(str(host.root)).records()[0]
        look = HostLook(Allocatable(2000, 1 << 30), records, {record.id: host.name for record in records})
        assert told(state_text(look, Counted())) == []
    assert {*OF_SESSION.values()} <= SEEN_BY_ALL | {"id", "size"}
    assert {*OF_REPLICA.values()} <= SEEN_BY_ALL | {"status"}


def test_each_variable_is_for_all_to_see_or_for_those_who_may_read_the_session(world: World) -> None:
    """A new one is for the latter until somebody decides."""
    theirs = {"command", "entrypoint", "batch_command", "authorized_keys", "image_archive", "workdir"}
    apart = {field.name for field in FIELDS if field.of == LAUNCH} | {"size", "cpus", "memory", "shm_size"}
    apart |= {"accelerators", "pin_cpus"}
    assert {field.name for field in FIELDS} - apart - SEEN_BY_ALL == theirs
    (record,) = [copy for copy in StateDirectory(str(world.hosts["h1"].root)).records()[0] if copy.name == "ash"]
    keys = {key for replica in encode(read_plan(record.plan).replicas) for key in replica}
    assert keys - SEEN_BY_ALL == {"command"}

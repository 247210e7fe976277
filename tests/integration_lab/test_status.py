# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What people see of real sessions: status as table, data and page; plan_cluster says what a launch would do."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.environment import (
    ADVICE_NAMES,
    NO_SINGLE_COPY,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.environment_names import (
    CONTRACT_NAMES,
)
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    BUSYBOX,
    HOSTS,
    Replica,
    Run,
    clear,
    differences,
    in_parallel,
    launch,
    on,
    play,
    record,
    replicas,
    snapshot,
)

BUSY = ["sh", "-c", "while [ ! -e /end ]; do :; done; exit 3"]
"""Takes all the CPU it is given until it is told to fail."""
BASE: dict[str, Any] = {
    "session_image": BUSYBOX,
    "session_memory": "32m",
    "session_shm_size": "1m",
    "session_command": "sleep 1000000",
}
SHOWN: dict[str, Any] = {
    **BASE,
    "session_name": "shown",
    "session_size": 3,
    "session_max_replicas_per_host": 2,
    "session_cpus": "0.1",
    "session_command": BUSY,
    "session_env": {"TOKEN": "s3cret"},
    "session_ports": "18080:80",
    "session_failure_policy": "keep",
    "session_owner": "alice",
}
LARGE: dict[str, Any] = {
    **BASE,
    "session_name": "large",
    "session_size": 9,
    "session_cpus": 1,
    "session_on_no_capacity": "wait",
}
NEW: dict[str, Any] = {**BASE, "session_name": "new", "session_size": 2, "session_max_replicas_per_host": 1}
DRAWN = (
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID"),
    (r"\b(cc-|ccx)[0-9a-f]{8}", r"\1ID"),
    (r"\b10\.213\.\d+\.\d+", "ADDRESS"),
    (r"\b02:42(:[0-9a-f]{2}){4}\b", "MAC"),
    (r"\b(vxlan|VXLAN|vni|VNI) \d+", r"\1 NUMBER"),
)
"""What a launch of a new session draws by its new id, and what stands for it here."""


def compared(lines: Any) -> str:
    """Return text in which whatever follows from a new id is the same for all of them."""
    text = json.dumps(lines, sort_keys=True)  # hosts answer in any order
    for pattern, name in DRAWN:
        text = re.sub(pattern, name, text)
    return text


@pytest.fixture(scope="module")
def shown() -> Iterator[dict[str, Replica]]:
    """Launch a session of which one replica fails, and one that has to wait; give the replicas of the first."""
    try:
        launch(SHOWN).ok()
        found = replicas("shown")
        launch({**LARGE, "session_on_no_capacity": "queue"}).ok()
        found["sub2"].run("touch", "/end")
        deadline = time.monotonic() + 60
        while replicas("shown")["sub2"].inspected["State"]["Status"] != "exited":
            assert time.monotonic() < deadline
            time.sleep(0.2)
        yield found
    finally:
        clear("shown", "large", "new")


@pytest.fixture(scope="module")
def look(shown: dict[str, Replica], tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, dict[str, Any], str]:
    """Run status once; give the run, the data and the page."""
    folder = tmp_path_factory.mktemp("status")
    before = snapshot()
    files = {"status_page": str(folder / "page.html"), "status_json": str(folder / "data.json")}
    run = play("status", files).ok()
    assert differences(before, snapshot()) == []
    data = json.loads((folder / "data.json").read_text(encoding="utf-8"))
    return run, data, (folder / "page.html").read_text(encoding="utf-8")


def lines_of(run: Run, task: str = "Show the sessions") -> list[str]:
    """Return the lines that a run ends with."""
    (result,) = run.of(task)
    return list(result["values"]["msg"])


def words(line: str) -> list[str]:
    """Return the cells of a line of a table."""
    return re.split(r" {2,}", line)


def test_the_table_tells_what_the_engines_tell(
    shown: dict[str, Replica], look: tuple[Run, dict[str, Any], str]
) -> None:
    lines = lines_of(look[0])
    assert lines[0] == "Resource group cluster_compute_hosts: 3 hosts, 1 session, 1 waiting."
    rows = {tuple(words(line)[:2]): words(line) for line in lines if line}
    assert rows["shown", "RUNNING"][2:4] == ["multi-node", "2/3"]
    assert rows["shown", "RUNNING"][-1] == "alice"
    for name, replica in shown.items():
        row = rows["shown", name]
        (address,) = [
            network["IPAMConfig"]["IPv4Address"] for network in replica.networks.values() if network["IPAMConfig"]
        ]
        assert row[2:4] == [replica.host, address]
        assert row[5:7] == (["FAILED", "3"] if name == "sub2" else ["RUNNING", "-"])
    assert rows["shown", "main1"][-1] == "0.0.0.0:18080->80/tcp"
    assert any(line.startswith("1. large of ") for line in lines)
    assert any("9 replicas asked" in line for line in lines)


def test_the_data_has_the_use_that_is_measured_now(look: tuple[Run, dict[str, Any], str]) -> None:
    _run, data, _page = look
    (session,) = [session for session in data["sessions"] if session["name"] == "shown"]
    for replica in session["replicas"]:
        if replica["name"] == "sub2":
            assert replica["usage"] is None
        else:
            assert 1 <= replica["usage"]["cpus"] <= 150, "it may use 100 and tries to"
            assert 4096 <= replica["usage"]["memory"] <= 32 * 1024**2
    assert "s3cret" not in json.dumps(data)
    held = {host["name"]: host["held"]["cpus"] for host in data["hosts"]}
    assert sum(held.values()) == 300
    assert {host for host, cpus in held.items() if cpus} == set(session["hosts"])


class Reader(HTMLParser):
    """The text of a page, and where it leads."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.links: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [str(value) for name, value in attrs if name in ("href", "src")]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_page_shows_the_same_and_leads_nowhere(
    shown: dict[str, Replica], look: tuple[Run, dict[str, Any], str]
) -> None:
    _run, data, page = look
    read = Reader(page)
    for text in (*HOSTS, *shown, "shown", "large", "FAILED", "PENDING", BUSYBOX):
        assert text in read.texts or any(text in shown_text for shown_text in read.texts), text
    assert all(link.startswith(("#", "data:")) for link in read.links)
    assert any(text.startswith("As of ") for text in read.texts)
    assert "s3cret" not in page
    (session,) = [session for session in data["sessions"] if session["name"] == "shown"]
    assert any(session["network"]["subnet"] in text for text in read.texts)


@pytest.mark.parametrize("host", ["", "n2"])
def test_without_figures_the_page_is_written_only_when_something_is_new(
    host: str, shown: dict[str, Replica], tmp_path: Path
) -> None:
    path = "/srv/sessions.html" if host else str(tmp_path / "page.html")
    variables = {"status_page": path, "status_host": host, "status_usage": "false"}
    first, second = [play("status", variables).ok() for _time in range(2)]
    assert first.changed_hosts != set()
    assert second.changed_hosts == set()
    page = on(host, "cat", path) if host else Path(path).read_text(encoding="utf-8")
    if host:
        on(host, "rm", path)
    assert "sub1" in page
    assert "measured" not in page


@pytest.mark.parametrize(("host", "path"), [("web9", "/srv/sessions.html"), ("n2", "sessions.html")])
def test_where_a_page_cannot_be_written_is_said_before_hosts_are_asked(host: str, path: str) -> None:
    run = play("status", {"status_page": path, "status_host": host})
    assert run.code != 0
    assert f"status_host is '{host}'. Files on another host need a host of the inventory" in run.output
    assert not run.of("Show the sessions")


@pytest.fixture(scope="module")
def plans(shown: dict[str, Replica]) -> dict[str, Run]:
    """Plan a session that is new, one that has no room and one that runs; launch the new one in check mode as well.

    The one without room is asked to wait for it, which a plan does not.
    """
    before = snapshot()
    cases = [
        ("plan_cluster", {**NEW, "session_wait_seconds": 600}, []),
        ("plan_cluster", {**LARGE, "session_wait_seconds": 600}, []),
        ("plan_cluster", {**SHOWN, "session_wait_seconds": 600}, []),
        ("launch_cluster", NEW, ["--check"]),
    ]
    runs = in_parallel(lambda case: play(case[0], case[1], *case[2]), cases)
    assert differences(before, snapshot()) == []
    return {name: run.ok() for name, run in zip(("new", "large", "shown", "dry"), runs)}


def preview(run: Run) -> dict[str, Any]:
    """Return the data of a plan."""
    (answer,) = run.of("Combine what the launch would do")
    data = dict(answer["values"]["ansible_facts"]["cluster_compute_preview"])
    lines = lines_of(run, "Report what would be done, or why the session would wait")
    assert lines[: len(data["report"])] == data["report"]
    assert "s3cret" not in json.dumps(data)
    return data


def test_a_plan_is_what_a_launch_in_check_mode_answers(plans: dict[str, Run]) -> None:
    data, dry = preview(plans["new"]), plans["dry"]
    assert compared(dry.said[: len(data["report"])]) == compared(data["report"])
    assert {replica["name"]: replica["host"] for replica in data["replicas"]} == dry.placed
    assert compared({host["name"]: host["changes"] for host in data["hosts"] if host["changes"]}) == compared(
        dry.actions()
    )


def test_a_plan_of_one_that_has_no_room_says_what_would_fit(plans: dict[str, Run]) -> None:
    data = preview(plans["large"])
    assert data["replicas"] == []
    lines = lines_of(plans["large"], "Report what would be done, or why the session would wait")
    assert lines[0].startswith("Session large is PENDING")
    assert any(line.startswith("Largest size that fits now in mode multi-node: ") for line in lines)


def test_a_plan_of_one_that_runs_is_what_runs(shown: dict[str, Replica], plans: dict[str, Run]) -> None:
    data = preview(plans["shown"])
    assert [host["name"] for host in data["hosts"] if host["changes"]] == []
    assert {replica["name"]: replica["host"] for replica in data["replicas"]} == {
        name: replica.host for name, replica in shown.items()
    }
    main = shown["main1"]
    (planned,) = [replica for replica in data["replicas"] if replica["name"] == "main1"]
    known = CONTRACT_NAMES | ADVICE_NAMES - NO_SINGLE_COPY.keys()  # whether a host permits that, only the host knows
    real = {name: value for name, value in main.environment().items() if name in known}
    assert planned["environment"] == real
    assert planned["own_variables"] == ["TOKEN"]
    assert planned["address"] in main.run("ip", "-4", "addr", "show", data["network"]["interface"])


def test_a_launch_does_what_was_planned(shown: dict[str, Replica], plans: dict[str, Run]) -> None:
    data = preview(plans["new"])
    done = launch(NEW).ok()
    planned = {host["name"]: host["changes"] for host in data["hosts"]}
    assert compared(planned) == compared(done.actions())
    assert {replica["name"]: replica["host"] for replica in data["replicas"]} == done.placed
    real = record("new")["plan"]["replicas"]
    keys = ("name", "host", "rank", "local_rank", "node_rank", "address", "image", "resources", "ports")
    assert compared([[replica[key] for key in keys] for replica in data["replicas"]]) == compared(
        [[entry[key] for key in keys] for entry in real]
    )

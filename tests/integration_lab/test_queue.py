# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sessions that wait, through one life of a queue: kept by every host, launched in order, cancelled.

Only a lab shows that all of it is still known when hosts lose what they knew, and that a launch waits in its terminal.
Who goes before whom, and what a head keeps, are rules of the core (unit: test_queue, test_model_in_small_steps).
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.tests.support.integration_lab.documents import blocks
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    CHECKOUT,
    HOSTS,
    ON_EACH,
    STATE,
    Run,
    Snapshot,
    clear,
    clock_ahead,
    differences,
    in_parallel,
    launch,
    on,
    play,
    replicas,
    script,
    snapshot,
    teardown,
)
from ansible_collections.cluster_compute.session.tests.support.integration_lab.monitoring import (
    DIRECTORY,
    exporters,
    program,
    prometheus,
    tell_metrics,
)

BASE: dict[str, Any] = {**ON_EACH}
REQUESTS: dict[str, dict[str, Any]] = {
    "holder": {"session_cpus": "2"},
    "first": {"session_cpus": "1", "session_owner": "alice", "session_env": {"GREETING": "hello"}},
    "urgent": {"session_cpus": "0.5", "session_priority": 5},
    "doomed": {"session_cpus": "0.5", "session_command": ["no-such-program"]},
    "late": {"session_cpus": "1", "session_owner": "bob", "session_on_no_capacity": "wait", "session_wait_seconds": 3},
    "patient": {"session_cpus": "1", "session_on_no_capacity": "wait", "session_wait_seconds": 240},
}
"""Each wants a place on each host, which has two CPUs: `urgent`, `first` and `doomed` fit beside each other."""


@pytest.fixture(scope="module", autouse=True)
def nothing_stays(untouched_lab: Snapshot) -> Iterator[None]:
    """Tear all sessions down at the end; then the hosts are what they were before."""
    yield
    clear(*REQUESTS)
    tell_metrics("")
    assert differences(untouched_lab, snapshot()) == []


def ask(name: str, *options: str) -> Run:
    """Launch one of the sessions."""
    return launch({**BASE, **REQUESTS[name], "session_name": name}, *options)


def kept(name: str) -> dict[str, dict[str, Any]]:
    """Return the copies of a session's record, by host."""
    found = {}
    for host in HOSTS:
        for line in script(host, f"cat {STATE}/sessions/*/record.json 2>/dev/null || true").splitlines():
            record = json.loads(line)
            if record["name"] == name:
                found[host] = record
    return found


def schedule(*options: str) -> Run:
    """Run schedule_pending, which launches several sessions one after the other."""
    return play("schedule_pending", {}, *options, seconds=600)


def shown(run: Run) -> list[str]:
    """Return the lines that schedule_pending ends with."""
    return [
        line for result in run.of("Report what was launched and what still waits") for line in result["values"]["msg"]
    ]


def in_queue(run: Run) -> list[str]:
    """Return the names of the sessions that wait on, in order."""
    return [line.split()[1] for line in shown(run) if line[0].isdigit()]


@pytest.fixture(scope="module")
def queue(nothing_stays: None) -> dict[str, Run]:
    """Let four sessions wait for the room of a fifth, while the programs of n2 are told a time five hours later."""
    tell_metrics(DIRECTORY)
    with clock_ahead("n2", 5 * 3600):
        ask("holder").ok()
        runs = {"dry run": ask("first", "--check").ok()}
        assert kept("first") == {}
        runs |= {name: ask(name) for name in ("first", "urgent", "doomed", "late")}
        runs["in order"] = schedule().ok()
        runs["by share"] = _by_share()
    return runs


def _by_share() -> Run:
    """Have hosts count who uses them, as the timer does that the lab's hosts have not, and look at the queue."""
    settings = f"{STATE}-settings.json"
    count = "/usr/local/lib/cluster-compute/host.pyz --disks"
    commands = f"""cp {settings} {settings}.before
sed -i 's/"share_half_life": null/"share_half_life": 86400/' {settings}
{count}; sleep 1; {count}"""
    try:
        in_parallel(lambda host: script(host, commands), HOSTS)
        return play(
            "schedule_pending",
            {},
            "--check",
            hosts={host: {"cluster_compute_fair_share": {"half_life": "1d"}} for host in HOSTS},
        )
    finally:
        in_parallel(lambda host: script(host, f"mv {settings}.before {settings}; rm -f {STATE}/use.json"), HOSTS)


def test_a_session_without_room_waits_on_every_host(queue: dict[str, Run]) -> None:
    run = queue["first"].ok()
    assert queue["dry run"].said[0] == run.said[0] == "Session first is PENDING, position 1 in the queue."
    assert any(line.split()[:4] == ["n2", "cpus", "1", "0"] for line in run.said), run.said
    copies = kept("first")
    assert set(copies) == set(HOSTS)
    assert len({json.dumps(copy, sort_keys=True) for copy in copies.values()}) == 1
    assert copies["n1"]["status"] == "PENDING"
    assert ask("first").ok().changed_hosts == set()


def test_the_order_is_priority_then_age_whatever_the_clocks_say(queue: dict[str, Run]) -> None:
    assert queue["urgent"].ok().said[0] == "Session urgent is PENDING, position 1 in the queue."
    run = queue["in order"]
    assert in_queue(run) == ["urgent", "first", "doomed", "late"]
    assert any("cpus" in line for line in shown(run))
    assert run.changed_hosts == set(), "where nothing can start nothing changes"


def test_of_equal_priority_who_has_used_least_is_next(queue: dict[str, Run]) -> None:
    run = queue["by share"].ok()
    # All that runs is of the owner of `urgent` and `doomed`.
    assert in_queue(run) == ["urgent", "first", "late", "doomed"]
    assert shown(run)[0].startswith("1. urgent of root (100 % of use)")


def test_a_launch_that_waited_in_vain_says_so_and_stays_in_the_queue(queue: dict[str, Run]) -> None:
    assert queue["late"].code != 0
    assert "got no room within 3 seconds" in queue["late"].failures
    assert set(kept("late")) == set(HOSTS)


def test_a_site_asks_prometheus_about_a_session_its_lost_replica_and_the_queue(queue: dict[str, Run]) -> None:
    on("n3", "docker", "rm", "--force", "holder-sub2")
    look = "/usr/local/lib/cluster-compute/host.pyz --disks"
    in_parallel(lambda host: script(host, look), HOSTS)
    for host in HOSTS:
        text = script(host, f"cat {DIRECTORY}/cluster_compute*.prom")
        check = [program("promtool"), "check", "metrics"]
        checked = subprocess.run(check, input=text, capture_output=True, text=True, check=False)
        assert (checked.returncode, checked.stdout + checked.stderr) == (0, ""), text
    documented = blocks((CHECKOUT / "docs/monitoring.md").read_text(encoding="utf-8"), "promql")
    running, lost, missing, length, age, free, use, phases, failures = documented
    with exporters(), prometheus() as site:
        site.until("count(cluster_compute_engine_up == 1)", lambda found: found == {"": 3})
        assert site.query(running) == {"": 1}
        assert site.query(lost) == {"instance=n3,replica=sub2,session=holder": 0}
        assert site.query(missing) == {"instance=n3": 1}
        assert site.query(length) == {"": 4}
        assert site.query(free) == {"": 0}
        ages = site.query(age)
        assert list(ages) == ["session=urgent"]
        assert 0 < ages["session=urgent"] < 600
        counts = site.query("sum by (phase) (cluster_compute_launch_phase_duration_seconds_count)")
        assert counts == {"phase=hold": 3, "phase=network": 3, "phase=start": 3, "phase=ready": 3}
        assert set(site.query("count by (session, replica) (cluster_compute_replica_memory_bytes > 0)")) == {
            "replica=main1,session=holder",
            "replica=sub1,session=holder",
        }
        series = site.query('max(count by (replica) ({__name__=~"cluster_compute_.*", replica!=""}))')
        assert 5 <= series[""] <= 20
        alerts = site.until("ALERTS", lambda found: found)
        assert [key for key in alerts if "ClusterComputeReplicaDown" in key]
        for expression in (use, phases, failures, *dashboard()):
            site.query(expression)


def dashboard() -> list[str]:
    """Return the queries of the dashboard, for all hosts and sessions."""
    found = json.loads((CHECKOUT / "extensions/monitoring/grafana_dashboard.json").read_text(encoding="utf-8"))
    queries = [target["expr"] for panel in found["panels"] for target in panel["targets"]]
    assert len(queries) > 20
    return [re.sub(r"\$(host|session)", ".*", query) for query in queries]


def test_one_host_is_enough_to_know_the_queue_and_one_that_cannot_be_started_leaves_it(queue: dict[str, Run]) -> None:
    before = kept("first")["n1"]
    # Two of three hosts lose all they know, and the controller never knew anything.
    for host in ("n1", "n3"):
        script(host, f"rm -r {STATE}/sessions/{before['id']}")
    teardown("holder").ok()
    schedule("--check")
    assert replicas("first") == {}
    run = schedule()
    assert in_queue(run) == ["late"]
    assert len(replicas("urgent")) == 3
    found = replicas("first")
    assert len(found) == 3
    assert found["sub1"].environment()["GREETING"] == "hello"
    record = kept("first")["n1"]
    assert (record["id"], record["status"]) == (before["id"], "RUNNING")
    assert [entry["status"] for entry in record["history"]] == ["PENDING", "PREPARING", "RUNNING"]
    assert run.code != 0
    assert "doomed" in run.failures
    assert [text for text in ("doomed-main1", "n1", "no-such-program") if text not in "\n".join(shown(run))] == []
    assert {copy["status"] for copy in kept("doomed").values()} == {"ERROR"}
    assert len(kept("doomed")) == len(HOSTS)
    assert replicas("doomed") == {}


def test_cancelling_is_teardown_and_a_launch_that_waits_starts_when_there_is_room(queue: dict[str, Run]) -> None:
    found: list[Run] = []
    waiter = threading.Thread(target=lambda: found.append(ask("patient")))
    waiter.start()
    try:
        script("n3", f"until grep -qs patient {STATE}/sessions/*/record.json; do sleep 0.2; done")
        cancelled = teardown("late").ok()
        assert cancelled.changed_hosts == set(HOSTS)
        assert kept("late") == {}
        assert replicas("patient") == {}
        teardown("first").ok()
    finally:
        waiter.join()
    run = found[0].ok()
    assert [row["status"] for row in run.table.values()] == ["RUNNING"] * 3
    assert any("Wait until" in task for task in run.tasks)

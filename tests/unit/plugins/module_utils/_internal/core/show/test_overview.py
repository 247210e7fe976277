# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The overview: what it says of hosts, sessions and replicas, in which order, and what it never says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.cluster.group import GroupFacts
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.cluster.state import cluster_state
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import (
    COMMITTED,
    Reservation,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    PENDING,
    QueueTicket,
    Record,
    advance,
    new_record,
    prepared,
    started,
    stub_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import (
    Request,
    parse_request,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.build import (
    PlanInputs,
    build_plan,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.capacity import (
    hosts_from_facts,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.ledger import claims_of
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.placement import (
    Placement,
    place,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.queue import (
    Waiting,
    schedule_queue,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.site import Settings
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.show.overview import overview
from ansible_collections.cluster_compute.session.tests.support.host_facts import typed

A = "aaaaaaaa-0e04-4a3c-9d2a-53a1f7b2c8aa"
B = "bbbbbbbb-0e04-4a3c-9d2a-53a1f7b2c8aa"
GIB = 1024**3
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAID0D3s8E9JWn04xEIs9iqqoeVlWJbCLHvqIY+zMlCfIT"
SHARE = {"volume": "share", "target": "/data", "driver_options": {"type": "cifs", "o": "user=me,password=t0p"}}
"""A volume whose options hold a password."""
Facts = dict[str, dict[str, Any]]
INVENTORY = {
    "h2": {"cluster_compute_labels": {"rack": "r2"}, "cluster_compute_accelerators": {"gpu": ["/dev/a", "/dev/b"]}}
}


def make_request(**values: Any) -> Request:
    given = {"name": "train", "image": "debian:12", "env": {"TOKEN": "s3cret"}, **values}
    return parse_request({f"session_{key}": value for key, value in given.items()})


def idle_facts(*names: str) -> Facts:
    return {
        name: {
            "usable": True,
            "problem": "",
            "engine": {"version": "20.10.24", "architecture": "x86_64"},
            "capacity": {"cpus": 4000, "memory": 16 * GIB},
            "underlay": {"address": f"192.0.2.{number}", "interface": "eth0", "mtu": 1500},
            "containers": [],
            "reservations": [],
            "records": [],
            "objects": {},
            "tombstones": [],
            "damaged": [],
        }
        for number, name in enumerate(names, 1)
    }


def launched(facts: Facts, request: Request, session_id: str = A, ended: tuple[str, ...] = ()) -> Record:
    """Put a session on the hosts; replicas in *ended* have failed."""
    hosts = hosts_from_facts(typed(facts), INVENTORY)
    placement = place(request, hosts)
    assert isinstance(placement, Placement)
    free = {host.name: host.free_devices for host in hosts}
    plan = build_plan(request, placement, session_id, PlanInputs(typed(facts), Settings(), free))
    record = started(prepared(new_record(session_id, "alice", request.to_dict()), encode(plan)))
    claims = claims_of(plan)
    for name, reported in facts.items():
        reported["records"].append(encode(record if name in plan.hosts else stub_of(record)))
        if name in claims:
            reported["reservations"].append(Reservation(claims[name], COMMITTED, "boot", None).to_dict())
            reported["objects"][session_id] = {"name": request.name, "kinds": ["container"]}
    for replica in encode(plan.replicas):
        failed = replica["name"] in ended
        facts[replica["host"]]["containers"].append(
            {
                "name": replica["container"],
                "session_id": session_id,
                "session_name": request.name,
                "replica": replica["name"],
                "cpus": replica["resources"]["cpus"],
                "memory": replica["resources"]["memory"],
                "devices": replica["devices"],
                "state": "exited" if failed else "running",
                "exit_code": 3 if failed else None,
                "failure": {"exit_code": 3, "oom_killed": False, "finished": "2026-01-01T00:00:00Z", "restarts": 1}
                if failed
                else None,
            }
        )
    return record


def look(facts: Facts, unreachable: tuple[str, ...] = (), known: tuple[str, ...] = ()) -> dict[str, Any]:
    cluster = cluster_state(typed(facts), unreachable)
    waiting = [
        Waiting(record.id, Request.from_dict(record.request), record.queue_number) for record in cluster.pending()
    ]
    hosts = hosts_from_facts(typed(facts), INVENTORY)
    names = known or (*facts, *unreachable)
    entries = schedule_queue(waiting, hosts, (), names)
    why = dict.fromkeys(unreachable, "It could not be reached.")
    group = GroupFacts(typed(facts), why, [*names], [*unreachable], INVENTORY)
    found: dict[str, Any] = encode(overview("gpu_hosts", group, cluster, entries))
    assert json.loads(json.dumps(found)) == found
    return found


def test_a_host_tells_what_it_has_what_is_used_and_what_is_free() -> None:
    facts = idle_facts("h2", "h1")
    launched(facts, make_request(size=2, cpus=1, memory="2g", accelerators={"gpu": 1}))
    second, first = look(facts)["hosts"]
    assert (second["name"], first["name"]) == ("h2", "h1"), "the order is the inventory's"
    assert second["labels"] == {"rack": "r2"}
    assert second["capacity"]["accelerators"] == {"gpu": ["/dev/a", "/dev/b"]}
    assert second["held"] == {
        "cpus": 2000,
        "memory": 4 * GIB,
        "replicas": 2,
        "accelerators": {"gpu": ["/dev/a", "/dev/b"]},
        "pinned_cpus": [],
    }
    assert (second["free"]["cpus"], second["free"]["memory"]) == (2000, 12 * GIB)
    assert second["free"]["accelerators"] == {"gpu": []}
    assert second["sessions"] == ["train"]
    assert (first["held"]["cpus"], first["sessions"]) == (0, [])
    assert first["capacity"]["replicas"] is first["free"]["replicas"] is None
    assert (first["reachable"], first["usable"], first["problem"]) == (True, True, "")


def test_a_host_that_is_away_and_one_whose_variables_are_wrong_are_told() -> None:
    facts = idle_facts("h1")
    variables = {"h1": {"cluster_compute_cpus": "many"}}
    group = GroupFacts(typed(facts), {"h3": "It could not be reached."}, ["h1", "h3"], ["h3"], variables)
    found = encode(overview("g", group, cluster_state(typed(facts), ["h3"]), []))
    wrong, unreachable = found["hosts"]
    assert (wrong["usable"], wrong["capacity"]) == (True, None)
    assert "cluster_compute_cpus" in wrong["problem"]
    assert (unreachable["reachable"], unreachable["usable"], unreachable["problem"]) == (
        False,
        False,
        "It could not be reached.",
    )
    assert any("cluster_compute_cpus" in line for line in found["findings"])
    assert "h3: no facts could be collected: It could not be reached." in found["findings"]


def test_a_session_tells_everything_but_its_secrets() -> None:
    facts = idle_facts("h1", "h2")
    roles = [{"name": "main"}, {"name": "worker", "replicas": 2, "env": {"PASSWORD": "hunter2"}}]
    request = make_request(roles=roles, cpus=2, memory="1g", ports=["8080:80"], priority=7, mounts=[SHARE])
    launched(facts, request)
    found = look(facts)
    assert not any(secret in json.dumps(found) for secret in ("s3cret", "hunter2", "t0p"))
    (session,) = found["sessions"]
    for mounts in (session["request"]["mounts"], *(replica["mounts"] for replica in session["replicas"])):
        assert [(mount["volume"], mount["driver_options"]) for mount in mounts] == [("share", ["o", "type"])]
    assert (session["id"], session["name"], session["owner"], session["status"]) == (A, "train", "alice", "RUNNING")
    assert (session["mode"], session["size"], session["priority"]) == ("multi-node", 3, 7)
    assert session["request"]["roles"][1]["env"] == ["PASSWORD", "TOKEN"]
    assert [entry["status"] for entry in session["history"]] == ["PREPARING", "RUNNING"]
    assert [
        (replica["name"], replica["role"], replica["rank"], replica["status"]) for replica in session["replicas"]
    ] == [
        ("main1", "main", 0, "RUNNING"),
        ("worker1", "worker", 1, "RUNNING"),
        ("worker2", "worker", 2, "RUNNING"),
    ]
    assert all(replica["address"].startswith("10.213.") for replica in session["replicas"])
    assert session["ports"] == [
        {
            "replica": "main1",
            "host": session["replicas"][0]["host"],
            "host_ip": "0.0.0.0",
            "host_port": 8080,
            "container_port": 80,
            "protocol": "tcp",
        }
    ]
    assert session["failures"] == []


def test_a_session_tells_how_its_owner_gets_in_and_what_its_images_are() -> None:
    facts = idle_facts("h1", "h2")
    launched(facts, make_request(size=2, cpus=3, authorized_keys=[KEY], ssh_port=40022))
    for host in facts.values():
        pinned = host["records"][0]["plan"]["images"]["debian:12"]
        pinned["digest"] = "debian@sha256:dd"
        pinned["ids"] = {name: f"sha256:{name}" for name in pinned["ids"]}
    (session,) = look(facts)["sessions"]
    assert session["ssh_port"] == 40022
    assert [(replica["image_id"], replica["image_digest"]) for replica in session["replicas"]] == [
        (f"sha256:{replica['host']}", "debian@sha256:dd") for replica in session["replicas"]
    ]


@pytest.mark.parametrize(("what", "status"), [("ended", "FAILED"), ("gone", "MISSING"), ("away", "UNKNOWN")])
def test_a_replica_that_does_not_run_says_why(what: str, status: str) -> None:
    facts = idle_facts("h1", "h2")
    record = launched(facts, make_request(size=2, cpus=3), ended=("sub1",) if what == "ended" else ())
    host = record.plan["replicas"][1]["host"]
    unreachable: tuple[str, ...] = ()
    if what == "gone":
        facts[host]["containers"] = []
    if what == "away":
        del facts[host]
        unreachable = (host,)
    (session,) = look(facts, unreachable)["sessions"]
    main, sub = session["replicas"]
    assert (main["status"], main["exit_code"], sub["status"]) == ("RUNNING", None, status)
    if what == "ended":
        assert (sub["exit_code"], sub["restarts"]) == (3, 1)
        assert [(failure["replica"], failure["host"], failure["exit_code"]) for failure in session["failures"]] == [
            ("sub1", host, 3)
        ]
        assert session["failures"][0]["message"].startswith(f"Replica sub1 on {host} ended with exit code 3")
    else:
        assert sub["exit_code"] is None


@pytest.mark.parametrize(
    ("count", "found"),
    [
        (0, ""),
        (1, ""),
        (2, "changed 2 times since it was started at 2026-01-01T00:00:00Z; they were put back."),
        (5, "changed 5 times since it was started at 2026-01-01T00:00:00Z; they are not put back any more."),
    ],
)
def test_who_goes_on_changing_names_of_a_session_is_told_to_all(count: int, found: str) -> None:
    facts = idle_facts("h1")
    launched(facts, make_request())
    (container,) = facts["h1"]["containers"]
    container["corrections"] = {"since": "2026-01-01T00:00:00Z", "count": count} if count else None
    said = [finding for finding in look(facts)["findings"] if found and found in finding]
    assert [finding.partition(": ")[0] for finding in said] == ["h1"] * bool(found)
    assert len(look(facts)["findings"]) == len(said)


@pytest.mark.parametrize("status", ["ERROR", "TERMINATED"])
def test_a_session_that_has_ended_has_no_replicas(status: str) -> None:
    facts = idle_facts("h1", "h2")
    record = advance(launched(facts, make_request(size=2, cpus=3)), status, "It has ended.", report=("It has ended.",))
    for host in facts.values():
        host.update(containers=[], records=[encode(record)])
    (session,) = look(facts)["sessions"]
    assert (session["status"], session["report"], session["replicas"]) == (status, ["It has ended."], [])


def test_only_notes_of_a_session_are_known_while_its_hosts_are_away() -> None:
    facts = idle_facts("h1", "h2")
    record = launched(facts, make_request(size=1))
    home = record.hosts[0]
    del facts[home]
    (session,) = look(facts, (home,))["sessions"]
    assert (session["status"], session["hosts"], session["replicas"]) == ("RUNNING", [home], [])
    assert session["request"] is session["mode"] is session["size"] is session["ssh_port"] is None


def test_who_waits_is_told_in_the_order_of_the_queue_with_the_reason() -> None:
    facts = idle_facts("h1")
    for number, (session_id, name, priority) in enumerate([(A, "later", 0), (B, "first", 5)], 1):
        request = make_request(name=name, cpus=3, size=2, priority=priority)
        record = advance(
            new_record(session_id, "alice", request.to_dict()), PENDING, "No room.", queue=QueueTicket(number)
        )
        facts["h1"]["records"].append(encode(record))
    found = look(facts)
    assert [(entry["position"], entry["session_name"], entry["fits"]) for entry in found["pending"]] == [
        (1, "first", False),
        (2, "later", False),
    ]
    assert any(line.startswith("Largest size that fits now") for line in found["pending"][0]["reason"])
    assert [session["name"] for session in found["sessions"]] == ["first", "later"]


def test_what_is_told_of_a_suspect_host_does_not_change_with_the_time_that_is_left() -> None:
    shown = []
    for left in (900, 899):
        facts = idle_facts("h1")
        facts["h1"]["suspect"] = {"reason": "The engine has gone.", "left": left}
        shown.append(look(facts))
    assert shown[0] == shown[1]
    assert shown[0]["hosts"][0]["suspect"] == {"reason": "The engine has gone."}


def test_a_session_whose_time_is_kept_tells_when_it_ends_and_how_far_it_is() -> None:
    facts = idle_facts("h1", "h2")
    launched(facts, make_request(size=2, max_replicas_per_host=1, max_idle="1h"))
    (session,) = look(facts)["sessions"]
    wanted = {"max_duration": None, "max_idle": 3600, "end_warning": None}
    assert session["times"] == {**wanted, "ran": None, "idle": None, "message": "after 1h without use"}
    facts["h1"]["times"] = {A: {"ran": 7200, "idle": 60}}
    facts["h2"]["times"] = {A: {"ran": 7190, "idle": 1800}}
    (session,) = look(facts)["sessions"]
    message = "after 1h without use; it has run for 2h; not used for 1m"
    assert session["times"] == {**wanted, "ran": 7200, "idle": 60, "message": message}
    assert look(idle_facts("h1"))["sessions"] == []

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a working directory comes to the hosts of a session: by the way of images, at once or when there is room."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.plan import read_plan
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    PENDING,
    QueueTicket,
    advance,
    new_record,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.verb import hosts_of
from ansible_collections.cluster_compute.session.tests.support.core.verbs.group import (
    AWAY,
    Launch,
    request,
)

DIGESTS = ["sha256:" + "1" * 64, "sha256:" + "2" * 64]
PACKS = [f"/work@{digest}" for digest in DIGESTS]
WORKDIR = {"path": "/home/ada/code", "packs": PACKS, "size": 3}
BROUGHT = {"bytes": 10, "seconds": 0.1}
SERVER = {"port": 8480, "fingerprint": "f", "server": {"pid": 5, "start": 7}}


def launch_of(number: int, *having: str, **options: Any) -> Launch:
    """Return a launch with a working directory, of which some hosts have all parts."""
    wanted = request(size=number, max_replicas_per_host=1, workdir=WORKDIR)
    run = Launch(wanted, **options)
    for host in run.hosts:
        run.hosts[host]["images"] |= dict.fromkeys(PACKS)
    for host in having:
        has(run, host, *PACKS)
    return run


def has(run: Launch, host: str, *packs: str) -> None:
    run.hosts[host]["images"] |= {
        pack: {"id": pack.partition("@")[2], "digests": [], "architecture": ""} for pack in packs
    }


def bring(run: Launch) -> dict[str, set[str]]:
    """Let images go where they are missing, and return by pack which hosts got it from which."""
    ways: dict[str, set[str]] = {}
    while run.step in ("load", "serve", "receive"):
        for host in hosts_of(run.state) if run.step != "serve" else ():
            transfer = run.sent(host)["transfer"]
            ways.setdefault(transfer["reference"], set()).add(f"{transfer['sender']} {host}")
        run.answer(dict.fromkeys(hosts_of(run.state), SERVER if run.step == "serve" else BROUGHT))
    return ways


def test_one_host_gets_it_from_the_controller_and_the_others_from_that() -> None:
    run = launch_of(3).until("load")
    sent = run.sent(hosts_of(run.state)[0])
    assert (sent["state"], sent["archive"], sent["transfer"]["reference"]) == ("loaded", "/home/ada/code", PACKS[0])
    ways = bring(run)
    for pack in PACKS:
        assert len(ways[pack]) == 3
        assert sum(way.startswith("the controller ") for way in ways[pack]) == 1
    plan = read_plan(run.until("").record.plan)
    assert run.state["outcome"]["status"] == "RUNNING"
    assert [(replica.packs, replica.directory) for replica in plan.replicas] == [(tuple(PACKS), "/work")] * 3
    assert plan.images[PACKS[1]].ids == dict.fromkeys(("h1", "h2", "h3"), DIGESTS[1])


def test_what_hosts_have_already_is_not_sent() -> None:
    assert "load" not in launch_of(3, "h1", "h2", "h3").until("").steps
    run = launch_of(3, "h2")
    has(run, "h1", PACKS[0])
    run.until("serve")
    ways = bring(run)
    assert [sorted(way.split()[1] for way in ways[pack]) for pack in PACKS] == [["h3"], ["h1", "h3"]]
    assert not {"load", "ask", "pull"} & {*run.steps}


def test_a_host_with_another_store_gives_it_as_well() -> None:
    run = launch_of(3, "h2")
    run.hosts["h2"]["engine"] |= {"image_store": "overlayfs"}
    run.until("serve")
    assert {way.split()[1] for way in bring(run)[PACKS[0]]} == {"h1", "h3"}
    assert run.until("").state["outcome"]["status"] == "RUNNING"


def test_a_session_that_waits_leaves_it_with_one_host() -> None:
    run = launch_of(9, hosts=3).until("bring")
    assert run.steps == ["look", "name"]  # of several launches of this name, one brings it
    (host,) = hosts_of(run.state)
    assert run.sent(host)["transfer"]["reference"] == PACKS[0]
    run.answer({host: BROUGHT})
    assert (run.step, run.sent(host)["transfer"]["reference"]) == ("bring", PACKS[1])
    run.answer({host: {"failed": True, "msg": "The disk is full."}})
    (other,) = hosts_of(run.state)
    assert (run.step, other != host, run.sent(other)["transfer"]["reference"]) == ("bring", True, PACKS[1])
    run.answer({other: BROUGHT})
    assert run.step == "queue"
    run.until("")
    assert run.state["outcome"]["status"] == PENDING
    assert "bring" not in launch_of(9, "h3", hosts=3).until("").steps


@pytest.mark.parametrize("answer", [{"failed": True, "msg": "The disk is full."}, AWAY])
def test_where_no_host_can_keep_it_the_launch_is_refused(answer: dict[str, Any]) -> None:
    run = launch_of(9, hosts=2).until("bring")
    for _host in run.hosts:
        run.answer(dict.fromkeys(hosts_of(run.state), answer))
    assert (run.step, run.sent()["state"]) == ("release", "released")
    assert "could not be launched" in run.until("").state["failure"]


def test_the_queue_takes_it_from_hosts_and_never_from_the_controller() -> None:
    run = launch_of(3, "h2", from_queue=True).until("serve")
    bring(run)
    assert run.until("").state["outcome"]["status"] == "RUNNING"
    wanted = request(size=3, max_replicas_per_host=1, workdir=WORKDIR)
    record = new_record("aaaaaaaa-0000-4000-8000-000000000000", "alice", wanted.to_dict())
    waits = advance(record, PENDING, "No room.", queue=QueueTicket(1))
    lost = launch_of(3, from_queue=True, waits=waits)
    lost.hosts = {host: {**own, "records": encode([waits])} for host, own in lost.hosts.items()}
    lost.until("")
    assert lost.state["outcome"]["status"] == PENDING  # who has it may be away for a moment
    report = "\n".join(lost.state["outcome"]["report"])
    assert "No host of the group has this part of session_workdir any more." in report
    assert "load" not in {*run.steps, *lost.steps}


def test_a_folder_that_cannot_be_sent_is_told_as_it_is() -> None:
    run = launch_of(3).until("load")
    why = "session_workdir is '/home/ada/code': It was changed while the session was launched."
    for _pack in PACKS:
        run.answer({host: {"failed": True, "msg": why} for host in hosts_of(run.state)})
    run.until("")
    assert run.state["failure"].startswith("The session cannot be launched")
    assert why in run.state["failure"]
    assert "session_image" not in run.state["failure"]


def test_check_mode_brings_nothing() -> None:
    run = launch_of(9, hosts=3, check_mode=True).until("")
    assert "bring" not in run.steps

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Accelerators and pinned CPUs: certain ones, and none of them twice.

Who gets which, and what is refused, is tried by recorded answers of hosts
(tests/unit/plugins/action/test_launch_decisions.py), what the engine is told of it in
tests/unit/plugins/module_utils/_internal/host/test_devices.py.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    BUSYBOX,
    HOSTS,
    STATE,
    Snapshot,
    clear,
    in_parallel,
    launch,
    on,
    play,
    replicas,
    script,
    teardown,
    try_on,
)

CARDS = ("/dev/cc-a", "/dev/cc-b")
SITE = {host: {"cluster_compute_cpus": 2, "cluster_compute_accelerators": {"card": list(CARDS)}} for host in HOSTS}
CARD: dict[str, Any] = {
    "session_hosts": ["n2"],
    "session_image": BUSYBOX,
    "session_memory": "16m",
    "session_shm_size": "1m",
    "session_command": "sleep 8888",
    "session_accelerators": {"card": 1},
    "session_pin_cpus": True,
}
NAMES = ("first", "second", "third")


@pytest.fixture(scope="module")
def cards(untouched_lab: Snapshot) -> Iterator[None]:
    """Make two devices on every host: files of the kernel's null device, by names of their own."""
    for host in HOSTS:
        script(host, f"for card in {' '.join(CARDS)}; do mknod -m 666 $card c 1 3; done")
    yield
    clear(*NAMES, "floating", "other")
    for host in HOSTS:
        script(host, f"rm {' '.join(CARDS)}")


def held(session: str) -> tuple[set[str], str]:
    """Return the cards and the CPUs that the main replica of a session really has; its memory is of their node."""
    main = replicas(session)["main1"]
    shown = main.run("sh", "-c", "ls /dev/cc-*; echo lost >$(ls /dev/cc-*)").split()
    status = dict(line.split(":\t", 1) for line in main.run("cat", "/proc/self/status").splitlines() if ":\t" in line)
    if main.inspected["HostConfig"]["CpusetCpus"]:
        assert status["Cpus_allowed_list"] == main.inspected["HostConfig"]["CpusetCpus"]
        assert status["Mems_allowed_list"] == main.inspected["HostConfig"]["CpusetMems"] == "0"
        assert main.inspected["HostConfig"]["CpuQuota"] == 100_000
    return set(shown), status["Cpus_allowed_list"]


def test_of_three_launches_at_once_two_get_a_card_and_a_cpu_each(cards: None) -> None:
    runs = in_parallel(lambda name: launch({**CARD, "session_name": name}, hosts=SITE), NAMES)
    for run in runs:
        run.ok()
    running = [name for name, run in zip(NAMES, runs) if run.table]
    (waiting,) = set(NAMES) - set(running)
    found = [held(name) for name in running]
    assert Counter(card for some, _cpus in found for card in some) == Counter(CARDS)
    assert len({cpus for _some, cpus in found}) == 2
    assert all(cpus.isdigit() for _some, cpus in found)
    # The one that waits says what it lacks; whoever goes makes room for it, also where the ledger was lost.
    (report,) = [run.said for name, run in zip(NAMES, runs) if name == waiting]
    assert any(line.split()[1:2] == ["card"] for line in report), report
    assert any("pinned CPU" in line for line in report), report
    on("n2", "rm", f"{STATE}/ledger.json")
    # A session that has the choice gets the first device, so the first one stays taken.
    (last,) = [number for number, (some, _cpus) in enumerate(found) if some == {CARDS[1]}]
    teardown(running[last]).ok()
    play("schedule_pending", hosts=SITE).ok()
    assert held(waiting) == found[last]
    play("repair", hosts=SITE).ok()
    ledger = json.loads(on("n2", "cat", f"{STATE}/ledger.json"))
    taken = [
        name
        for reservation in ledger["reservations"]
        for names in reservation["claim"]["devices"].values()
        for name in names
    ]
    assert sorted(taken) == sorted([*CARDS, *(cpus for _some, cpus in found)])


def test_a_device_that_is_not_there_is_named_and_nothing_stays(cards: None) -> None:
    """On a third host."""
    on("n3", "rm", CARDS[0])
    run = launch({**CARD, "session_hosts": ["n3"], "session_name": "missing"}, hosts=SITE)
    on("n3", "mknod", "-m", "666", CARDS[0], "c", "1", "3")
    assert run.code != 0
    assert "n3" in run.failures
    assert CARDS[0] in run.failures
    assert replicas("missing") == {}


def test_repair_takes_no_device_from_others(cards: None) -> None:
    """On another host than the other test, whose sessions run on."""
    free = {**CARD, "session_hosts": ["n1"], "session_cpus": "0.5", "session_pin_cpus": False}
    floating = {**free, "session_name": "floating", "session_size": 2}
    launch(floating, hosts=SITE).ok()
    script("n1", f"rm {STATE}/ledger.json; docker rm -f floating-sub1")
    launch({**free, "session_name": "other"}, hosts=SITE).ok()
    assert held("other")[0] == {CARDS[1]}
    taken = f"The card {CARDS[1]} is taken by session other"
    run = play("repair", hosts=SITE)
    assert run.code != 0
    assert taken in run.failures
    # The program at boot knows nothing of the inventory, and takes nothing either.
    alone = try_on("n1", ["/usr/local/lib/cluster-compute/host.pyz"])
    assert alone.returncode == 1
    assert taken in alone.stdout
    again = launch(floating, hosts=SITE)
    assert again.code != 0
    assert taken in again.failures
    assert set(replicas("floating")) == {"main1"}
    assert held("other")[0] == {CARDS[1]}


def test_a_replica_without_amounts_gets_its_share_of_the_host_and_keeps_it(cards: None) -> None:
    """On a host whose memory the site changes meanwhile."""
    memory = {host: {**SITE[host], "cluster_compute_memory": "150m"} for host in HOSTS}
    asked = {key: CARD[key] for key in ("session_image", "session_shm_size", "session_command", "session_accelerators")}
    share = {**asked, "session_hosts": ["n3"], "session_name": "share", "session_size": 2}
    try:
        run = launch(share, hosts=memory).ok()
        assert "Each replica of main: 1 CPU (the share of a host), 75MiB of memory (the share of a host)." in run.said
        for replica in replicas("share").values():
            limits = replica.inspected["HostConfig"]
            assert (limits["CpuQuota"], limits["Memory"]) == (100_000, 75 * 1024**2)
        less = {**memory, "n3": {**memory["n3"], "cluster_compute_memory": "200m"}}
        assert launch(share, hosts=less).ok().changed_hosts == set()
        whole = launch({**share, "session_cpus": "all"}, hosts=less)
        assert "roles.main.of_host.cpus: share -> all" in whole.failures
    finally:
        clear("share")

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Controllers that are killed, hosts that vanish, disks that are full, images that differ, clocks that are wrong."""

from __future__ import annotations

import json
import shlex
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.tests.integration_lab.driver import (
    ADDRESSES,
    BUSYBOX,
    HOSTS,
    STATE,
    Run,
    Snapshot,
    clear,
    differences,
    kill_a_launch,
    launch,
    on,
    play,
    replicas,
    script,
    snapshot,
    teardown,
    try_on,
)

BASE: dict[str, Any] = {
    "session_name": "half",
    "session_size": 3,
    "session_max_replicas_per_host": 1,
    "session_image": BUSYBOX,
    "session_cpus": "1.5",
    "session_memory": "64m",
    "session_command": "sleep 8888",
}
SESSION = "4f8c2a10-1111-4222-8333-444455556666"
PROGRAM = "/usr/local/lib/cluster-compute/host.pyz"
SHORT = {"cluster_compute_lease_seconds": 8, "cluster_compute_deadline_seconds": 8}


@pytest.fixture
def restored(untouched_lab: Snapshot) -> Iterator[Snapshot]:
    """Compare the hosts after a test with what they were before."""
    yield untouched_lab
    clear("half", "other")
    if differences(untouched_lab, snapshot()):
        # What the first removes, the second forgets.
        play("gc").ok()
        play("gc").ok()
    assert differences(untouched_lab, snapshot()) == []


@contextmanager
def engine_stands_still(host: str, moment: str) -> Iterator[None]:
    """Stop the engine of *host*, as if it were very slow, as soon as *moment*, a shell command, succeeds there."""
    wait = shlex.quote(f"until {moment}; do sleep 0.01; done >/dev/null 2>&1")
    text = f"timeout 50 sh -c {wait} && pkill -STOP -x dockerd"
    stopping = threading.Thread(target=lambda: script(host, text))
    stopping.start()
    try:
        yield
    finally:
        stopping.join()
        script(host, "pkill -CONT -x dockerd")


LEFT = f"""
import json, time
try:
    with open("{STATE}/ledger.json") as file:
        ends = [one["expires"] for one in json.load(file)["reservations"] if one["expires"] is not None]
except FileNotFoundError:
    ends = []
print(max((end - time.clock_gettime(time.CLOCK_BOOTTIME) for end in ends), default=0))
"""


def wait_for_the_lease() -> None:
    """Wait until what the killed launch holds is free again: its lease is some seconds."""
    left = [float(on(host, "python3", "-", stdin=LEFT)) for host in HOSTS]
    assert max(left) <= SHORT["cluster_compute_deadline_seconds"]
    time.sleep(max(0.0, *left) + 0.2)


KEYS = f"ls {STATE}/sessions/*/replicas/*/ssh/*.pub"
DONE = f"grep -qs RUNNING {STATE}/sessions/*/record.json"
NETWORK = "docker network ls | grep -q ' cc-'"
STILL = "ps -o stat= -C dockerd | grep -q T"
MOMENTS: dict[str, tuple[str, dict[str, str]]] = {
    "after reserve": ("", {"n1": f"test -e {STATE}/ledger.json"}),
    "after network": (NETWORK, {"n1": STILL}),
    "between two replicas": (KEYS, {"n1": STILL, "n2": DONE, "n3": DONE}),
}
"""When n1's engine stands still from then on, and what has to be true when the controller is killed."""


@pytest.mark.parametrize("moment", MOMENTS)
def test_whoever_runs_next_undoes_a_killed_launch(moment: str, restored: Snapshot, tmp_path: Path) -> None:
    still, moments = MOMENTS[moment]
    with engine_stands_still("n1", still) if still else nullcontext():
        kill_a_launch({**BASE, **SHORT, "session_mounts": ["it-left:/data"]}, moments, tmp_path)
    assert differences(restored, snapshot()) != []
    assert "main1" not in replicas("half")
    if moment == "between two replicas":
        replicas("half")["sub2"].run("sh", "-c", "echo kept >/data/file")
    wait_for_the_lease()
    # It wants what the killed one held.
    run = launch({**BASE, "session_name": "other"}).ok()
    assert len(run.table) == 3, run.said
    assert replicas("half") == {}
    teardown("other").ok()
    if moment == "between two replicas":
        assert script("n3", "cat $(docker volume inspect -f '{{.Mountpoint}}' it-left)/file") == "kept\n"
        on("n3", "docker", "volume", "rm", "it-left")
    assert differences(restored, snapshot()) == []


def test_whoever_runs_next_finishes_a_launch_that_only_lacks_the_commit(restored: Snapshot, tmp_path: Path) -> None:
    # Commit is the last step, and needs the lock of the host's ledger, which somebody else holds.
    lock = f"timeout 50 sh -c 'until {KEYS}; do sleep 0.01; done >/dev/null 2>&1' && flock {STATE} sleep 15"
    holding = threading.Thread(target=lambda: script("n1", lock))
    holding.start()
    try:
        kill_a_launch({**BASE, **SHORT}, dict.fromkeys(HOSTS, DONE), tmp_path)
    finally:
        holding.join()
    assert '"stage":"confirmed"' in on("n1", "cat", f"{STATE}/ledger.json")
    assert len(replicas("half")) == 3
    run = launch({**BASE, "session_name": "other"}).ok()
    assert run.said[0].startswith("Session other is PENDING"), run.said
    audit = play("audit", {}, "--check")
    assert "n1: session half: commit reservation half" in audit.failures
    play("repair").ok()
    assert '"stage":"committed"' in on("n1", "cat", f"{STATE}/ledger.json")
    assert launch(BASE).ok().changed_hosts == set()


def test_a_queued_session_whose_launch_was_killed_goes_back_into_the_queue(restored: Snapshot, tmp_path: Path) -> None:
    launch({**BASE, "session_name": "other"}).ok()
    launch(BASE).ok()
    before = json.loads(script("n1", f"cat $(grep -l '\"half\"' {STATE}/sessions/*/record.json)"))
    teardown("other").ok()
    with engine_stands_still("n1", KEYS):
        kill_a_launch({**BASE, **SHORT}, {"n1": STILL, "n2": DONE, "n3": DONE}, tmp_path)
    wait_for_the_lease()
    play("gc").ok()
    after = json.loads(script("n2", f"cat $(grep -l '\"half\"' {STATE}/sessions/*/record.json)"))
    assert (after["status"], after["id"], after["queue"]) == ("PENDING", before["id"], before["queue"])
    assert replicas("half") == {}
    play("schedule_pending").ok()
    assert len(replicas("half")) == 3


def launch_and_cut(host: str, request: dict[str, Any]) -> Run:
    """Launch, and cut the power of *host* as soon as it holds its part."""
    found: list[Run] = []
    launching = threading.Thread(target=lambda: found.append(launch(request)))
    launching.start()
    script(host, f"until test -e {STATE}/ledger.json; do sleep 0.05; done")
    play("lab_power_cut", {"lab_host": host}).ok()
    launching.join()
    return found[0]


def test_a_host_that_vanishes_during_a_launch_is_done_without(restored: Snapshot) -> None:
    try:
        # n1 and n3 are in one rack.
        run = launch_and_cut("n3", {**BASE, "session_size": 2}).ok()
        assert run.placed == {"main1": "n1", "sub1": "n2"}
        assert "n3" in run.output
    finally:
        play("lab_boot", {"lab_host": "n3"}).ok()


def test_where_there_is_no_other_host_the_session_waits(restored: Snapshot) -> None:
    try:
        run = launch_and_cut("n2", BASE)
        assert run.said[0] == "Session half is PENDING, position 1 in the queue.", run.output
        assert "n2" in run.output
        for host in ("n1", "n3"):
            assert on(host, "docker", "ps", "-aq").split() == []
    finally:
        play("lab_boot", {"lab_host": "n2"}).ok()
    play("schedule_pending").ok()
    assert len(replicas("half")) == 3


def test_a_host_that_is_away_during_teardown_is_cleaned_when_it_is_back(restored: Snapshot) -> None:
    launch(BASE).ok()
    play("lab_power_cut", {"lab_host": "n3"}).ok()
    try:
        run = teardown("half")
        assert run.code != 0
        assert "n3 could not be reached and will be cleaned when back" in run.failures
        for host in ("n1", "n2"):
            assert on(host, "docker", "ps", "-aq").split() == []
            assert len(on(host, "ls", f"{STATE}/tombstones").split()) == 1
        assert teardown("half").code != 0
    finally:
        play("lab_boot", {"lab_host": "n3"}).ok()
    assert list(replicas("half")) == ["sub2"]
    run = launch({**BASE, "session_name": "other"}).ok()
    assert len(run.table) == 3
    assert replicas("half") == {}
    teardown("other").ok()
    play("gc").ok()
    assert differences(restored, snapshot()) == []


def test_a_full_disk_is_named_and_nothing_stays(restored: Snapshot) -> None:
    script("n2", f"mount -t tmpfs -o size=64k tmpfs {STATE}; dd if=/dev/zero of={STATE}/full bs=1k 2>/dev/null || true")
    try:
        run = launch(BASE)
        assert run.code != 0
        assert "n2" in run.failures
        assert "No space left on device" in run.failures
    finally:
        script("n2", f"umount {STATE}")
    assert differences(restored, snapshot()) == []


def test_an_image_that_differs_between_hosts_is_refused(restored: Snapshot) -> None:
    """The same name for another image on one host, and for one of another architecture."""
    tag = "cluster-compute/other:latest"
    for host in HOSTS:
        on(host, "docker", "tag", BUSYBOX, tag)
    try:
        on("n2", "docker", "rmi", tag)
        script("n2", f"docker run --name made {BUSYBOX} touch /new; docker commit made {tag}; docker rm made")
        run = launch({**BASE, "session_image": tag})
        assert run.code != 0
        assert "session_image is 'cluster-compute/other:latest'" in run.failures
        assert "n2" in run.failures
        on("n2", "docker", "rmi", tag)
        script(
            "n2",
            f"mkdir /tmp/foreign; docker save {BUSYBOX} | tar -C /tmp/foreign -x; cd /tmp/foreign; "
            "python3 - <<'END'\n"
            "import hashlib, json, os\n"
            "manifest = json.load(open('manifest.json'))\n"
            "config = json.load(open(manifest[0]['Config']))\n"
            "config['architecture'] = 's390x'\n"
            "text = json.dumps(config)\n"
            "name = hashlib.sha256(text.encode()).hexdigest() + '.json'\n"
            "open(name, 'w').write(text)\n"
            f"manifest[0].update(Config=name, RepoTags=['{tag}'])\n"
            "json.dump(manifest, open('manifest.json', 'w'))\n"
            "END\n"
            "rm -f repositories index.json; tar -c . | docker load; rm -r /tmp/foreign",
        )
        run = launch({**BASE, "session_image": tag})
        assert run.code != 0
        assert "s390x" in run.failures
        assert "n2" in run.failures
    finally:
        for host in HOSTS:
            script(host, f"docker rmi {tag} || true")
    assert differences(restored, snapshot()) == []


MAKE_A_LINK = f"""
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters import link
alias = link.session_alias("{SESSION}", "half")
link.create_vxlan(link.Vxlan("ccx4f8c2a10", 4242, "{ADDRESSES["n2"]}", 4789, 1400, alias))
"""


def test_a_link_has_an_owner_when_who_made_it_is_killed(restored: Snapshot) -> None:
    """After the first program that it ran."""
    script(
        "n2",
        "mkdir /run/killing; real=$(command -v ip); cd /run/killing; "
        "printf '#!/bin/sh\\n%s \"$@\"; kill -KILL $PPID\\n' $real >ip; chmod 755 ip",
    )
    try:
        way = ["env", "PATH=/run/killing:/usr/sbin:/usr/bin:/sbin:/bin", f"PYTHONPATH={PROGRAM}"]
        killed = try_on("n2", [*way, "python3", "-c", MAKE_A_LINK])
    finally:
        script("n2", "rm -r /run/killing")
    assert killed.returncode != 0
    assert "ccx4f8c2a10" in on("n2", "ip", "link", "show")
    assert "n2: leak: session half: No host has a record" in play("audit", {}, "--check").failures
    play("gc").ok()
    assert differences(restored, snapshot()) == []


def test_a_wrong_clock_changes_neither_leases_nor_order(restored: Snapshot, tmp_path: Path) -> None:
    """The hosts of a lab share one clock, so the programs of one of them are told another time."""
    # Not sitecustomize.py: Debian has one of its own, which comes first.
    late = "/usr/lib/python3/dist-packages/usercustomize.py"
    wrong = "import time\\nright = time.time\\ntime.time = lambda: right() + 5 * 3600\\n"
    script("n2", f"printf '{wrong}' >{late}")
    try:
        told = float(on("n2", "python3", "-c", "import time; print(time.time())"))
        assert told > time.time() + 4 * 3600
        launch({**BASE, "session_name": "other"}).ok()
        launch({**BASE, "session_name": "first"}).ok()
        launch({**BASE, "session_name": "second"}).ok()
        queue = play("schedule_pending").ok()
        said = [line for one in queue.of("Say what was launched and who waits on") for line in one["values"]["msg"]]
        assert [line.split()[1] for line in said if line[0].isdigit()] == ["first", "second"]
        clear("other", "first", "second")
        script("n2", f"rm {late}")
        alone = {**BASE, "session_size": 1, "session_hosts": ["n2"]}
        lease = {"cluster_compute_lease_seconds": 15, "cluster_compute_deadline_seconds": 15}
        kill_a_launch({**alone, **lease}, {"n2": f"test -e {STATE}/ledger.json"}, tmp_path)
        begin = time.monotonic()
        script("n2", f"printf '{wrong}' >{late}")
        # Five hours later by the calendar, and the lease still holds.
        assert "session half" not in play("audit", {}, "--check").output
        time.sleep(max(0.0, begin + 16 - time.monotonic()))
        assert "n2: leak: session half: No host has a record" in play("audit", {}, "--check").failures
        assert len(launch({**BASE, "session_name": "other"}).ok().table) == 3
    finally:
        script("n2", f"rm -f {late}")
        clear("first", "second")

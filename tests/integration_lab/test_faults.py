# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Controllers that are killed, hosts that vanish, disks that are full, clocks that are wrong.

Only a lab shows real processes that are killed and real hosts that lose their power: three kills and two losses. What
any verb does after a launch that was killed anywhere else is shown by tests/unit, test_model_in_small_steps.
"""

from __future__ import annotations

import json
import shlex
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    ADDRESSES,
    BUSYBOX,
    HOSTS,
    ON_EACH,
    STATE,
    Run,
    Snapshot,
    clear,
    clock_ahead,
    differences,
    interrupt_a_launch,
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

BASE: dict[str, Any] = {**ON_EACH, "session_name": "half", "session_cpus": "1.5"}
SESSION = "4f8c2a10-1111-4222-8333-444455556666"
PROGRAM = "/usr/local/lib/cluster-compute/host.pyz"
SHORT = {"cluster_compute_lease_seconds": 20, "cluster_compute_deadline_seconds": 20}
"""Longer than a busy machine takes from the lease to the last record."""


@pytest.fixture
def restored(untouched_lab: Snapshot) -> Iterator[Snapshot]:
    """Compare the hosts after a test with what they were before."""
    yield untouched_lab
    clear("half", "other")
    for _twice in range(2):
        # What the first removes, the second forgets.
        if differences(untouched_lab, snapshot()):
            play("gc").ok()
    assert differences(untouched_lab, snapshot()) == []


ENGINE, CALLS = "-x dockerd", "-f '[c]luster-compute/programs'"
"""Options by which pgrep and pkill find the engine of a host, and the programs of calls to it."""


@contextmanager
def stands_still(host: str, which: str, moment: str) -> Iterator[None]:
    """Stop processes of *host*, as if they were very slow, as soon as *moment*, a shell command, succeeds there."""
    wait = shlex.quote(f"until {moment}; do sleep 0.01; done >/dev/null 2>&1")
    text = f"timeout 110 sh -c {wait} && pkill -STOP {which}"
    stopping = threading.Thread(target=lambda: script(host, text))
    stopping.start()
    try:
        yield
    finally:
        stopping.join()
        script(host, f"pkill -CONT {which} || true")


LEFT = f"""
import json, time
try:
    with open("{STATE}/ledger.json") as file:
        ends = [held["expires"] for held in json.load(file)["reservations"] if held["expires"] is not None]
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
MADE = "docker ps -aq --filter label=cluster-compute.session-name=half | grep -q ."
DONE = f"grep -qs RUNNING {STATE}/sessions/*/record.json"
STILL = "ps -eo stat=,comm= | grep -q '^T.* {}$'"
"""A program stands still."""


def kept(host: str, name: str) -> dict[str, Any]:
    """Return a host's copy of a session's record."""
    found: dict[str, Any] = json.loads(script(host, f"cat $(grep -l '\"{name}\"' {STATE}/sessions/*/record.json)"))
    return found


def test_a_killed_launch_is_finished_where_it_can_be_and_waits_again_where_not(
    restored: Snapshot, tmp_path: Path
) -> None:
    """The controller is killed when only the commit is lacking, then, starting from the queue, between two replicas."""
    # Commit is the last step, and needs the lock of the host's ledger, which somebody else holds.
    made = f"timeout 110 sh -c 'until {MADE}; do sleep 0.01; done >/dev/null 2>&1'"
    held = f"flock {STATE} timeout 25 sh -c 'while test -e /run/held; do sleep 0.1; done'"
    on("n1", "touch", "/run/held")
    holding = threading.Thread(target=lambda: script("n1", f"{made} && {held}"))
    holding.start()
    try:
        kill_a_launch({**BASE, **SHORT}, dict.fromkeys(HOSTS, DONE), tmp_path)
    finally:
        on("n1", "rm", "-f", "/run/held")
        holding.join()
    assert '"stage":"confirmed"' in on("n1", "cat", f"{STATE}/ledger.json")
    assert len(replicas("half")) == 3
    other = {**BASE, "session_name": "other", "session_mounts": ["it-left:/data"]}
    run = launch(other).ok()
    assert run.said[0].startswith("Session other is PENDING"), run.said
    # Audit says the same, as test_repair shows.
    (done,) = play("repair").ok().of("Report what was restored")
    assert "n1: session half: commit reservation half" in "\n".join(done["values"]["msg"])
    assert '"stage":"committed"' in on("n1", "cat", f"{STATE}/ledger.json")
    teardown("half").ok()

    before = kept("n1", "other")
    try:
        with stands_still("n1", ENGINE, KEYS):
            moments = {"n1": STILL.format("dockerd"), "n2": DONE, "n3": DONE}
            kill_a_launch({**other, **SHORT}, moments, tmp_path)
        assert list(replicas("other")) == ["sub1", "sub2"]
        replicas("other")["sub2"].run("sh", "-c", "echo kept >/data/file")
        wait_for_the_lease()
        play("schedule_pending").ok()
        after = kept("n2", "other")
        assert (after["status"], after["id"], after["queue"]) == ("RUNNING", before["id"], before["queue"])
        statuses = [entry["status"] for entry in after["history"]]
        # What the killed launch wrote on some hosts need not be among it: the copy of who had not begun is enough.
        assert (statuses[0], statuses[-2:]) == ("PENDING", ["PREPARING", "RUNNING"])
        found = replicas("other")
        assert len(found) == 3
        assert found["sub2"].run("cat", "/data/file") == "kept\n"
    finally:
        clear("other")
        for host in HOSTS:
            script(host, "docker volume rm it-left || true")
    assert differences(restored, snapshot()) == []


HELD = f"test -e {STATE}/ledger.json"


def test_an_interrupted_launch_gives_back_what_it_holds_before_it_ends(restored: Snapshot, tmp_path: Path) -> None:
    """Ctrl-C while the place is held, and SIGTERM while one host starts its part and another has done so."""
    code, output = interrupt_a_launch(BASE, {"n2": HELD}, tmp_path, signal.SIGINT)
    assert "what the launch of session half holds is given back" in output
    assert (code, "User interrupted execution" in output) == (99, True), output
    assert differences(restored, snapshot()) == []

    # A host's program goes on when its controller ends; this one is waited for, and what it has begun then goes.
    released = f"timeout 100 sh -c 'while grep -q half {STATE}/ledger.json; do sleep 0.1; done'"
    with stands_still("n1", CALLS, MADE), ThreadPoolExecutor(1) as pool:
        moments = {"n1": STILL.format("python3"), "n2": MADE}
        interrupted = pool.submit(interrupt_a_launch, BASE, moments, tmp_path, signal.SIGTERM)
        script("n1", f'timeout 100 sh -c "until {moments["n1"]}; do sleep 0.1; done"')
        on("n1", "sh", "-eu", stdin=f"{released}; pkill -CONT {CALLS}", seconds=120)
        code, output = interrupted.result(120)
    assert code == -signal.SIGTERM, output
    assert "what the launch of session half holds is given back" in output
    assert differences(restored, snapshot()) == []


def launch_and_cut(host: str, request: dict[str, Any]) -> Run:
    """Launch, and cut the power of *host* as soon as it holds its part."""
    found: list[Run] = []
    launching = threading.Thread(target=lambda: found.append(launch(request)))
    launching.start()
    script(host, f"until grep -qs {request['session_name']} {STATE}/ledger.json; do sleep 0.05; done")
    play("lab_power_cut", {"lab_host": host}).ok()
    launching.join()
    return found[0]


def test_what_runs_and_what_waits_outlives_the_loss_of_a_host(restored: Snapshot) -> None:
    """A host vanishes while it holds its part of a launch; while it is away, another session is torn down."""
    launch({**BASE, "session_name": "other", "session_cpus": "0.2"}).ok()
    try:
        run = launch_and_cut("n2", BASE)
        assert run.said[0] == "Session half is PENDING, position 1 in the queue.", run.output
        assert "n2" in run.output
        for host in ("n1", "n3"):
            assert len(on(host, "docker", "ps", "-aq").split()) == 1, "of the other session"
        run = teardown("other")
        assert run.code != 0
        assert "n2 could not be reached and will be cleaned when back" in run.failures
        for host in ("n1", "n3"):
            assert on(host, "docker", "ps", "-aq").split() == []
            assert len(script(host, f"grep -l other {STATE}/tombstones/*").split()) == 1
    finally:
        play("lab_boot", {"lab_host": "n2"}).ok()
    assert list(replicas("other")) == ["sub1"]
    play("schedule_pending").ok()
    assert replicas("other") == {}
    assert len(replicas("half")) == 3
    teardown("half").ok()
    play("gc").ok()
    assert differences(restored, snapshot()) == []


def test_a_full_disk_is_named_and_nothing_stays(restored: Snapshot) -> None:
    script("n2", f"mount -t tmpfs -o size=64k tmpfs {STATE}; dd if=/dev/zero of={STATE}/full bs=1k 2>/dev/null || true")
    try:
        run = launch({**BASE, "session_size": 2}).ok()
        assert set(run.placed.values()) == {"n1", "n3"}
        printed = " ".join(run.output.split())
        assert "No space left on device" in printed
        named = ("n2 could not write the session down: ", "Hosts that cannot be used are left out: n2.")
        assert any(line in printed for line in named), printed
        teardown(BASE["session_name"]).ok()
    finally:
        script("n2", f"umount {STATE}")
    assert differences(restored, snapshot()) == []


def test_an_image_of_another_architecture_is_refused(restored: Snapshot) -> None:
    """The same name for another image on one host: its engine says for which machine it is."""
    tag = "cluster-compute/other:latest"
    for host in HOSTS:
        on(host, "docker", "tag", BUSYBOX, tag)
    try:
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
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import link
alias = link.session_alias("{SESSION}", "linked")
link.create_vxlan(link.Vxlan("ccx4f8c2a10", 4242, "{ADDRESSES["n2"]}", 4789, 1400, alias))
"""


LEDGER = f"""
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.ledger import LedgerFile
print(*(held.stage for held in LedgerFile("{STATE}").read().values()))
"""


def test_a_lease_lasts_whatever_the_calendar_and_what_is_left_of_it_is_named(
    restored: Snapshot, tmp_path: Path
) -> None:
    """The controller is killed as soon as a host holds its part; a link's maker after the first program that it ran."""
    alone = {**BASE, "session_size": 1, "session_hosts": ["n2"]}
    lease = {"cluster_compute_lease_seconds": 20, "cluster_compute_deadline_seconds": 20}
    kill_a_launch({**alone, **lease}, {"n2": f"test -e {STATE}/ledger.json"}, tmp_path)
    begin = time.monotonic()
    with clock_ahead("n2", 5 * 3600):
        # Five hours later by the calendar, and the lease still holds.
        assert on("n2", "env", f"PYTHONPATH={PROGRAM}", "python3", "-c", LEDGER).split() == ["leased"]
        assert time.monotonic() < begin + 20
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
        time.sleep(max(0.0, begin + 21 - time.monotonic()))
        (run,) = play("gc").ok().of("Report what was found")
        found = "\n".join(run["values"]["msg"])
        assert "n2: leak: session linked: No host has a record" in found
        # The record comes with the lease, in the same call: it was killed before that was written, or after.
        named = (
            "n2: leak: session half: No host has a record",
            "n2: abandoned: session half: Its launch was not finished",
        )
        assert any(line in found for line in named), found

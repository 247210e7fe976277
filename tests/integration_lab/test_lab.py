# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab itself: hosts like real ones, several labs, lost power, killed runs.

What judges nothing but the lab is marked so, and runs where its sources have changed.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.boot_install import PATH as PROGRAM
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    ADDRESSES,
    BUSYBOX,
    CHECKOUT,
    DIRECTORY,
    HOSTS,
    INVENTORY,
    LAB,
    NETWORK,
    Snapshot,
    command,
    differences,
    environment,
    launch,
    on,
    play,
    replicas,
    run_here,
    script,
    snapshot,
    ssh_options,
    teardown,
    try_on,
)

LABS = DIRECTORY.parent
SECOND = f"{LAB}-two"
KILLED = f"{LAB}-killed"


def _inventory(folder: Path, lab: str, subnet: int, *hosts: str) -> Path:
    """Write an inventory of another lab with the settings of the tests' own."""
    settings: dict[str, Any] = yaml.safe_load((INVENTORY / "group_vars" / "all.yml").read_text(encoding="utf-8"))
    settings.update(lab_name=lab, lab_subnet=f"{NETWORK}.{subnet}.0/24", lab_release="bookworm")
    members = {name: {"ansible_host": f"{NETWORK}.{subnet}.{number}"} for number, name in enumerate(hosts, 11)}
    groups = {"lab": {"hosts": members}, "cluster_compute_hosts": {"children": {"lab": {}}}}
    path = folder / f"{lab}.json"
    path.write_text(json.dumps({"all": {"vars": settings, "children": groups}}), encoding="utf-8")
    return path


def _remains(lab: str) -> list[str]:
    """Return everything on this machine that bears a lab's name, whatever kind it is of."""
    found = [f"namespace {name}" for name in os.listdir("/run/netns") if name.startswith(f"cclab.{lab}.")]
    links = json.loads(subprocess.run(["ip", "-j", "link"], stdout=subprocess.PIPE, check=True).stdout)
    found += [
        f"link {link['ifname']}"
        for link in links
        if link["ifname"] == f"br-{lab}"
        or link.get("ifalias", "").startswith((f"cclab.{lab}.", f"cluster-compute-lab {lab}"))
    ]
    rules = subprocess.run(["iptables-save"], stdout=subprocess.PIPE, text=True, check=True).stdout
    found += [rule for rule in rules.splitlines() if f'"cluster-compute-lab {lab}"' in rule or f"br-{lab} " in rule]
    for pid in (name for name in os.listdir("/proc") if name.isdigit()):
        try:
            mounts = Path(f"/proc/{pid}/mountinfo").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if f"{LABS}/{lab}/" in mounts:
            found.append(f"process or mount of {pid}")
    found += [f"control group {path}" for path in Path("/sys/fs/cgroup").glob(f"**/cluster-compute-lab/{lab}")]
    if (LABS / lab).exists():
        found.append(f"directory {LABS / lab}")
    return found


class TestHosts:
    """What a host of the lab is."""

    def test_each_has_its_own_name_disk_and_first_process(self, untouched_lab: Snapshot) -> None:
        for host in HOSTS:
            assert on(host, "hostname").strip() == host
            assert on(host, "cat", "/proc/1/comm").strip() == "init"
            on(host, "tee", "/root/whose", stdin=host)
        assert [on(host, "cat", "/root/whose") for host in HOSTS] == list(HOSTS)
        for host in HOSTS:
            on(host, "rm", "/root/whose")
        releases = [on(host, "sh", "-c", ". /etc/os-release; echo $VERSION_CODENAME").strip() for host in HOSTS]
        assert releases == ["bookworm", "bookworm", "trixie"]

    def test_nothing_of_the_controller_is_on_them(self, untouched_lab: Snapshot, tmp_path: Path) -> None:
        (tmp_path / "marker").touch()
        for path in (tmp_path / "marker", CHECKOUT, LABS, Path("/var/cache/cluster-compute-lab")):
            assert path.exists()
            assert [host for host in HOSTS if try_on(host, ["test", "-e", str(path)]).returncode != 1] == []

    def test_nobody_sees_the_processes_of_another(self, untouched_lab: Snapshot) -> None:
        here = subprocess.Popen(["sleep", "76543"])
        try:
            on("n1", "sh", "-c", "nohup sleep 76542 >/dev/null 2>&1 &")
            seen = {host: on(host, "ps", "-eo", "args") for host in HOSTS}
        finally:
            here.kill()
            here.wait()
            on("n1", "pkill", "-f", "sleep 76542")
        assert "sleep 76542" in seen["n1"]
        assert [host for host in HOSTS if "sleep 76543" in seen[host]] == []
        assert [host for host in ("n2", "n3") if "sleep 76542" in seen[host]] == []

    def test_a_shared_folder_is_shared_and_others_are_not(self, untouched_lab: Snapshot) -> None:
        on("n1", "sh", "-c", "echo one >/srv/shared/seen; echo one >/srv/unshared")
        try:
            assert on("n3", "cat", "/srv/shared/seen") == "one\n"
            assert try_on("n3", ["test", "-e", "/srv/unshared"]).returncode == 1
        finally:
            on("n1", "rm", "/srv/shared/seen", "/srv/unshared")

    def test_plain_ansible_reaches_them(self, untouched_lab: Snapshot) -> None:
        printed = run_here("ansible", "-i", str(INVENTORY), "lab", "-m", "ansible.builtin.ping", "--one-line")
        assert sorted(line.split()[0] for line in printed.splitlines() if "pong" in line) == list(HOSTS)

    @pytest.mark.stamped("lab")
    @pytest.mark.parametrize("mode", [[], ["--check", "--diff"]], ids=["real", "check"])
    @pytest.mark.parametrize("playbook", ["lab_up", "prepare_hosts", "lab_images"])
    def test_what_is_there_is_not_made_again(self, playbook: str, mode: list[str], untouched_lab: Snapshot) -> None:
        run = play(playbook, None, *mode).ok()
        assert set(run.recap) >= set(HOSTS)
        assert run.changed_hosts == set()
        assert differences(untouched_lab, snapshot()) == []

    @pytest.mark.stamped("lab")
    def test_check_mode_of_lab_down_tells_and_touches_nothing(self, untouched_lab: Snapshot) -> None:
        run = play("lab_down", None, "--check", "--diff").ok()
        assert run.changed_hosts == {"localhost"}
        assert f"br-{LAB}" in run.differences()
        assert differences(untouched_lab, snapshot()) == []


class TestPower:
    """One host loses its power and comes back."""

    def test_the_disk_stays_and_a_launch_repairs_the_session(self, untouched_lab: Snapshot) -> None:
        request = {
            "session_name": "power",
            "session_size": 2,
            "session_max_replicas_per_host": 1,
            "session_image": BUSYBOX,
            "session_memory": "64m",
            "session_capabilities": "NET_RAW",  # for ping
            "session_command": "sleep 8888",
        }
        try:
            launch(request).ok()
            assert {name: replica.host for name, replica in replicas("power").items()} == {"main1": "n1", "sub1": "n3"}
            before = on("n1", "docker", "inspect", "-f", "{{.State.StartedAt}}", "power-main1")
            # Without the program that runs at boot, so that the launch is what repairs.
            on("n3", "mv", PROGRAM, f"{PROGRAM}.aside")
            on("n3", "sh", "-c", "echo kept >/root/kept; sync")
            _hang_up("n3")
            assert play("lab_power_cut", {"lab_host": "n3"}).ok().changed_hosts == {"n3"}
            with pytest.raises(OSError, match=r"timed out|No route|unreachable"):
                socket.create_connection((ADDRESSES["n3"], 22), timeout=2)
            assert play("lab_boot", {"lab_host": "n3"}).ok().changed_hosts == {"n3"}
            assert on("n3", "cat", "/root/kept") == "kept\n"
            _wait_for_engine("n3")
            assert on("n3", "docker", "ps", "-q") == ""
            assert launch(request).ok().changed_hosts == {"n3"}
            assert on("n1", "docker", "inspect", "-f", "{{.State.StartedAt}}", "power-main1") == before
            for replica in replicas("power").values():
                replica.run("sh", "-ec", "ping -c 1 -W 3 main1; ping -c 1 -W 3 sub1")
        finally:
            if try_on("n3", ["true"]).returncode != 0:
                play("lab_boot", {"lab_host": "n3"}).ok()
            script("n3", f"rm -f /root/kept; [ ! -e {PROGRAM}.aside ] || mv {PROGRAM}.aside {PROGRAM}")
            teardown("power").ok()

    @pytest.mark.stamped("lab")
    def test_it_is_cut_once_and_comes_back_once(self, untouched_lab: Snapshot) -> None:
        try:
            assert play("lab_power_cut", {"lab_host": "n3"}, "--check").ok().changed_hosts == {"n3"}
            assert on("n3", "hostname").strip() == "n3"
            _hang_up("n3")
            for changed in ({"n3"}, set()):
                assert play("lab_power_cut", {"lab_host": "n3"}).ok().changed_hosts == changed
        finally:
            for changed in ({"n3"}, set()):
                assert play("lab_boot", {"lab_host": "n3"}).ok().changed_hosts == changed
        _wait_for_engine("n3")


def _hang_up(host: str) -> None:
    """End the connection that is kept for the next command: without power nobody would tell that it is dead."""
    subprocess.run(["ssh", "-O", "exit", *ssh_options(), f"root@{ADDRESSES[host]}"], capture_output=True, check=True)


def _wait_for_engine(host: str) -> None:
    """Wait until the engine of a host that was booted answers."""
    deadline = time.monotonic() + 60
    while try_on(host, ["docker", "info"]).returncode != 0:
        assert time.monotonic() < deadline, "the engine did not start with its host"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory, untouched_lab: Snapshot) -> Iterator[Path]:
    """Give the inventory of a second lab, of one host; it is gone at the end."""
    inventory = _inventory(tmp_path_factory.mktemp("second"), SECOND, 100, "m1")
    play("lab_down", inventory=inventory).ok()
    try:
        yield inventory
    finally:
        play("lab_down", inventory=inventory).ok()
        assert _remains(SECOND) == []


@pytest.mark.stamped("lab")
class TestSecondLab:
    """A lab beside the first one, from nothing to nothing. The tests run in this order."""

    def test_check_mode_makes_nothing(self, second: Path) -> None:
        run = play("lab_up", None, "--check", "--diff", inventory=second).ok()
        assert run.changed_hosts == {"localhost", "m1"}
        assert _remains(SECOND) == []

    def test_a_bare_host_comes_up(self, second: Path) -> None:
        run = play("lab_up", inventory=second).ok()
        assert run.changed_hosts == {"localhost", "m1"}
        assert play("lab_up", inventory=second).ok().changed_hosts == set()
        for program in ("dockerd", "docker", "iptables"):
            assert _on_second(second, f"command -v {program}").returncode != 0
        assert _on_second(second, "python3 -c 'import cryptography'").returncode != 0

    def test_a_bare_host_is_refused_until_it_is_prepared(self, second: Path) -> None:
        run = launch({"session_name": "early", "session_image": BUSYBOX}, inventory=second)
        assert run.code != 0
        assert "m1" in run.failures
        assert "prepare_hosts" in run.failures

    def test_preparing_it_in_check_mode_installs_nothing(self, second: Path) -> None:
        run = play("prepare_hosts", None, "--check", "--diff", inventory=second).ok()
        assert run.changed_hosts == {"m1"}
        assert _on_second(second, "command -v dockerd").returncode != 0
        assert _on_second(second, "test -e /var/lib/cluster-compute").returncode != 0

    def test_the_first_lab_does_not_notice(self, second: Path, untouched_lab: Snapshot) -> None:
        assert _on_second(second, f"ping -n -c 1 -W 1 {ADDRESSES['n1']}").returncode != 0
        assert play("lab_down", None, "--check", inventory=second).ok().changed_hosts == {"localhost"}
        assert _on_second(second, "hostname").stdout.strip() == "m1"
        assert play("lab_down", inventory=second).ok().changed_hosts == {"localhost"}
        assert _remains(SECOND) == []
        assert _remains(LAB) != []
        assert play("lab_down", inventory=second).ok().changed_hosts == set()
        assert differences(untouched_lab, snapshot()) == []


def _on_second(inventory: Path, words: str) -> subprocess.CompletedProcess[str]:
    """Run a shell command on the host of the second lab."""
    ssh = LABS / SECOND / "ssh"
    return subprocess.run(
        [
            *("ssh", "-i", str(ssh / "id_ed25519"), "-o", f"UserKnownHostsFile={ssh}/known_hosts"),
            *("-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", f"root@{NETWORK}.100.11", words),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.stamped("lab")
@pytest.mark.parametrize("moment", ["namespace", "process"])
def test_lab_down_clears_what_a_killed_lab_up_left(moment: str, untouched_lab: Snapshot, tmp_path: Path) -> None:
    inventory = _inventory(tmp_path, KILLED, 101, "k1", "k2")
    variables = tmp_path / "variables.json"
    variables.write_text("{}", encoding="utf-8")
    try:
        started = subprocess.Popen(
            command("lab_up", variables, inventory=inventory),
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + 60
        while not any(left.startswith(moment) for left in _remains(KILLED)):
            assert started.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < deadline
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()
    finally:
        down = play("lab_down", inventory=inventory)
    assert down.ok().changed_hosts == {"localhost"}
    assert _remains(KILLED) == []
    assert play("lab_down", inventory=inventory).ok().changed_hosts == set()

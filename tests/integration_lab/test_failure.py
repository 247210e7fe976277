# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Launches that fail in the middle, launches that are killed, sessions that are half there: nothing stays behind."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    ADDRESSES,
    BUSYBOX,
    DEMO,
    HOSTS,
    ON_EACH,
    STATE,
    Snapshot,
    clear,
    command,
    differences,
    environment,
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

BASE: dict[str, Any] = {**ON_EACH, "session_name": "half", "session_cpus": "0.5"}
DOOMED = [
    {"name": "main"},
    {
        "name": "sub",
        "replicas": 2,
        "command": ["sh", "-c", 'echo "this is the end of $BACKENDAI_CLUSTER_HOST"; exit 7'],
    },
]


def test_a_failed_launch_leaves_nothing_and_says_where_and_why(untouched_lab: Snapshot) -> None:
    run = launch({**BASE, "session_size": "", "session_roles": DOOMED})
    assert run.code != 0, run.output
    wanted = ["sub1", "n2", "exit code 7", "this is the end of sub1", "sub2", "n3"]
    assert [text for text in wanted if text not in run.failures] == [], run.failures
    assert "Traceback" not in run.output
    assert differences(untouched_lab, snapshot()) == []


def test_a_host_that_cannot_keep_its_containers_out_is_named(untouched_lab: Snapshot) -> None:
    """n2 carries no replica, and a container there could send into the tunnel: somebody removed what keeps it out."""
    broken = "/usr/local/sbin/iptables-restore"
    script("n2", "iptables-save | grep -v cluster-compute | iptables-restore")
    script("n2", f"printf '#!/bin/sh\\necho no such table >&2; exit 3\\n' >{broken}; chmod 755 {broken}")
    try:
        run = launch({**BASE, "session_size": 2, "session_hosts": ["n1", "n3"]})
        assert run.code != 0
        assert "n2: Could not update firewall rules standing: 'iptables-restore" in run.failures
        assert "no such table" in run.failures
    finally:
        script("n2", f"rm {broken}")
        assert "firewall rules standing" in on("n2", "/usr/local/lib/cluster-compute/host.pyz")
    assert differences(untouched_lab, snapshot()) == []


def probes() -> str:
    """Return the files by which hosts prove to each other that a folder is shared."""
    return "".join(script(host, "find /srv -name '.cluster-compute-*'") for host in HOSTS)


def test_a_killed_launch_is_removed_by_teardown(untouched_lab: Snapshot, tmp_path: Path) -> None:
    """The controller alone is killed; what runs on the hosts at that moment goes on to its end."""
    request = {**BASE, "session_image": DEMO, "session_mounts": ["/srv/shared:/shared"]}
    # Whoever starts removes the probes when all is well, so it is killed while hosts hold their parts.
    held = "find /srv/shared -name '.cluster-compute-*' | grep -q ."
    kill_a_launch(request, {"n1": held}, tmp_path, let_modules_end=True)
    assert differences(untouched_lab, snapshot()) != []
    assert probes() != ""
    run = teardown("half").ok()
    assert run.changed_hosts
    assert probes() == ""
    assert differences(untouched_lab, snapshot()) == []


SOMEBODY = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def amid_others(untouched_lab: Snapshot) -> Iterator[None]:
    """Have things on n3 that only look like a session's: anybody may write labels, and images hand them on."""
    label = "--label cluster-compute.session-id"
    files = "-v /tmp:/etc/cluster-compute"
    labels = f"{label}={SOMEBODY} --label cluster-compute.millicpus=lots"
    script("n3", f"docker create --name no-id {label}=x {files} {BUSYBOX} true")
    script("n3", f"docker create --name no-number {labels} {files} {BUSYBOX} true")
    script("n3", f"docker network create {label}={SOMEBODY} no-name")
    try:
        yield
    finally:
        clear("half")
        script("n2", "docker rm -f mine || true; docker rmi copy:1 || true")
        script("n3", "docker rm -f no-id no-number || true; docker network rm no-name || true")
    assert differences(untouched_lab, snapshot()) == []


class TestHalf:
    """A session launched on a busy host, amid what only looks like a session's; its tests run in this order."""

    def test_a_host_that_is_too_busy_to_let_everybody_in_is_asked_again(
        self, amid_others: None, tmp_path: Path
    ) -> None:
        """An SSH server closes new connections while too many wait for their login (sshd_config(5), MaxStartups)."""
        assert {replica.host for replica in replicas("half").values()} == set()
        few = "/etc/ssh/sshd_config.d/few.conf"
        output = tmp_path / "output"
        variables = tmp_path / "variables.json"
        # A folder of its own: no connection that is open already helps.
        variables.write_text(json.dumps({**BASE, "ansible_control_path_dir": str(tmp_path)}), encoding="utf-8")
        script("n2", f"echo MaxStartups 1 >{few}; service ssh reload; sleep 1")
        try:
            with socket.create_connection((ADDRESSES["n2"], 22), timeout=10) as stranger:
                assert stranger.recv(4) == b"SSH-"
                assert "exchange_identification: " in try_on("n2", ["true"], options=["-o", "ControlPath=none"]).stderr
                with output.open("wb") as file:
                    argv = command("launch_cluster", variables, "-v")
                    launching = subprocess.Popen(
                        argv, env=environment(), stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT
                    )
                deadline = time.monotonic() + 120
                while "turned the connection away" not in output.read_text(encoding="utf-8"):
                    assert launching.poll() is None, output.read_text(encoding="utf-8")
                    assert time.monotonic() < deadline
                    time.sleep(0.1)
            assert launching.wait(120) == 0, output.read_text(encoding="utf-8")
        finally:
            script("n2", f"rm {few}; service ssh reload")
        assert sorted(replica.host for replica in replicas("half").values()) == sorted(HOSTS)

    def test_what_only_looks_like_a_session_s_is_in_nobody_s_way(self, amid_others: None) -> None:
        script("n2", "docker commit half-sub1 copy:1; docker run -d --name mine copy:1")
        on("n3", "docker", "rm", "no-number")
        play("gc").ok()
        assert "no-name" not in on("n3", "docker", "network", "ls", "--format", "{{.Name}}").split()
        assert play("audit", {}, "--check").ok()
        on("n2", "docker", "rm", "-f", "half-sub1")
        assert play("repair").ok().actions()["n2"] == ["create container half-sub1"]

    def test_a_session_that_is_half_there_is_removed_wholly(self, amid_others: None) -> None:
        assert set(replicas("half")) >= {"main1", "sub1", "sub2"}
        on("n1", "docker", "rm", "-f", "half-main1")
        script("n1", f"echo '{{damaged' >$(ls {STATE}/sessions/*/record.json)")
        script("n2", "ip link delete $(ls /sys/class/net | grep ^ccx)")
        script("n2", f"rm -r {STATE}/sessions/*/replicas")
        script(
            "n3",
            f"docker rm -f half-sub2; rm -r {STATE}/sessions; docker network rm $(docker network ls -q -f name=cc-)",
        )
        run = teardown("half").ok()
        assert run.changed_hosts == set(HOSTS)
        assert on("n2", "docker", "inspect", "-f", "{{.State.Running}}", "mine").strip() == "true"
        assert on("n3", "docker", "inspect", "-f", "{{.Name}}", "no-id").strip() == "/no-id"

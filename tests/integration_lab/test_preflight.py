# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Preflight names what is broken on which host, and nothing else; beside a session it disturbs nothing."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.calls import (
    Listen,
    ProbeTask,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.verb_state import plain_calls
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.verb import call
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    ADDRESSES,
    BUSYBOX,
    HOSTS,
    INVENTORY,
    ON_EACH,
    STATE,
    WRONG_CLOCK,
    Run,
    Snapshot,
    clear,
    differences,
    in_parallel,
    launch,
    play,
    replicas,
    run_here,
    script,
    snapshot,
    wrong_clock,
)

TAG = "cluster-compute/other:latest"
CARDS = ["/dev/cc-a", "/dev/cc-b"]
SITE = {
    "n1": {"cluster_compute_accelerators": {"card": CARDS, "gpu": "nvidia"}},
    "n2": {"cluster_compute_accelerators": {"card": CARDS[:1], "gpu": "nvidia"}},
}
SMART = """#!/bin/sh
case "$1" in
-L) echo 'GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-05c89852-d268-c3f3-1b07-005d5ae1dc3f)' ;;
*) echo 'NVIDIA A100-SXM4-80GB, {driver}' ;;
esac
"""
BREAK = {
    "n1": f"mkdir /srv/own; docker tag {BUSYBOX} {TAG}",
    "n2": f"mkdir /srv/own; docker run --name made {BUSYBOX} touch /new; docker commit made {TAG}; docker rm made\n"
    f"iptables -I INPUT -s {ADDRESSES['n1']} -p udp --dport 4789 -j DROP\n"
    f"iptables -I INPUT -s {ADDRESSES['n3']} -p udp --dport 61000:61999 -j DROP\n"
    f"echo '{wrong_clock(5 * 3600).strip()}' >{WRONG_CLOCK}",
    "n3": f"mkdir /srv/own; mount -t tmpfs -o size=64k tmpfs {STATE}; service docker stop >/dev/null\n"
    f"iptables -I INPUT -s {ADDRESSES['n1']} -p udp --dport 4789 -m length --length 1401: -j DROP\n"
    f"iptables -I INPUT -s {ADDRESSES['n2']} -p tcp --dport 8480:8489 -j REJECT",
}
MEND = {
    "n1": f"docker rmi {TAG}",
    "n2": f"docker rm made; docker rmi {TAG}; iptables -D INPUT -s {ADDRESSES['n1']} -p udp --dport 4789 -j DROP\n"
    f"iptables -D INPUT -s {ADDRESSES['n3']} -p udp --dport 61000:61999 -j DROP\n"
    f"rm {WRONG_CLOCK}",
    "n3": f"umount {STATE}; service docker start; until docker info; do sleep 0.2; done\n"
    f"iptables -D INPUT -s {ADDRESSES['n1']} -p udp --dport 4789 -m length --length 1401: -j DROP\n"
    f"iptables -D INPUT -s {ADDRESSES['n2']} -p tcp --dport 8480:8489 -j REJECT",
}


def _answer(run: Run, path: Path) -> dict[str, Any]:
    """Return what preflight wrote for programs."""
    assert path.exists(), run.output
    return dict(json.loads(path.read_text(encoding="utf-8")))


def _left() -> list[str]:
    """Return what preflight could leave on the hosts besides what a session could."""
    look = (
        "pgrep -x cc-preflight || true; ls /srv/shared/.cluster-compute-* /srv/own/.c* 2>/dev/null || true; "
        "ss -Hlun 'sport = 4789'; ls /run/netns 2>/dev/null || true"
    )
    return [line for listing in in_parallel(lambda host: script(host, look), HOSTS) for line in listing.splitlines()]


@pytest.fixture
def broken(untouched_lab: Snapshot) -> Iterator[None]:
    """Break something else on each host."""
    tool = "cat >/usr/local/bin/nvidia-smi <<'END'\n{}END\nchmod 755 /usr/local/bin/nvidia-smi"
    try:
        for host, driver in (("n1", "535.104.05"), ("n2", "550.54.15")):
            script(host, tool.format(SMART.replace("{driver}", driver)))
        in_parallel(lambda host: script(host, BREAK[host]), HOSTS)
        yield
    finally:
        lenient = "set +e\nexec >/dev/null 2>&1\n{}\nrmdir /srv/own; rm -f /usr/local/bin/nvidia-smi; true"
        in_parallel(lambda host: script(host, lenient.format(MEND[host])), HOSTS)
    assert differences(untouched_lab, snapshot()) == []


def test_what_is_broken_is_named_and_nothing_else(broken: None, tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    variables = {
        "session_resource_group": "all",
        "session_image": TAG,
        "session_encrypted": True,
        "preflight_shared_folders": ["/srv/shared", "/srv/own"],
        "preflight_disk_free": "8m",
        "preflight_json": str(path),
    }
    run = play("preflight", variables, hosts=SITE)
    assert run.code != 0
    answer = _answer(run, path)
    found = [finding for finding in answer["findings"] if finding["severity"] != "ok"]
    # Nothing keeps the clock of the machine that all hosts of the lab share.
    kept = [finding for finding in found if "the kernel reports that it is not synchronized" not in finding["found"]]
    assert sorted(
        [finding["severity"], finding["check"], *finding["hosts"], *map(tuple, finding["pairs"])] for finding in kept
    ) == [
        ["error", "clock", "n2"],
        ["error", "data", "n2"],
        ["error", "disk", "n3"],
        ["error", "encrypted UDP", ("n3", "n2")],
        ["error", "encryption", "n1", "n2", "n3"],
        ["error", "engine", "n3"],
        ["error", "image", "n2"],
        ["error", "path MTU", ("n1", "n3")],
        ["error", "reach", "gone"],
        ["error", "tunnel", ("n1", "n2")],
        ["warning", "accelerators", "n2"],
        ["warning", "accelerators", "n2"],
        ["warning", "image ports", ("n2", "n3")],
    ], run.output
    text = "\n".join(f"{result['check']}: {result['found']} {result['expected']} {result['advice']}" for result in kept)
    for words in (
        "clock: Its clock is 5.0 h ahead of the controller's.",
        "data: /srv/own is not the folder",
        f"disk: {STATE} (state of sessions) has ",
        "engine: Docker Engine cannot be reached on this host",
        f"image: session_image is '{TAG}'",
        "path MTU: Packets of 1400 bytes arrive, and none of 1500.",
        "encrypted UDP: Nothing arrived at UDP port 61000.",
        "encryption: Its kernel has no WireGuard",
        "tunnel: No VXLAN packet to UDP port 4789 arrived.",
        "accelerators: It has 1 of card. 2, as most",
        "accelerators: Its NVIDIA driver is 550.54.15. 535.104.05, as most",
        "image ports: TCP port 8480 does not answer: Connection refused.",
    ):
        assert words in text, text
    # What is told to people says the same, and the failure names the errors.
    (shown,) = run.of("Show the results")
    assert any(line.split()[:3] == ["error", "tunnel", "n1"] for line in shown["values"]["msg"]), run.output
    assert run.failures.count("error: ") == 10
    assert "warning: " not in run.failures
    assert _left() == []


def _start(storage: dict[str, str]) -> None:
    """Start on n1 what preflight starts there, without anything that would end it soon."""
    hosts = {host: {"address": ADDRESSES[host], "mtu": 1500, "session_mtu": 1450} for host in ("n1", "n2")}
    settings = {"port": 4789, "ports": [8480, 8489], "encrypted": None, "probe_id": str(uuid.uuid4())}
    probe = {"hosts": hosts, "vni": 77, "offsets": [1], "left_out": {}}
    request = Listen(ProbeTask(probe, settings, {"n1": storage}), "t" * 64, "n1", ("/srv",))
    state = {"step": "listen", "calls": plain_calls([call({"n1": request}, ())])}
    argv = ["ansible", "-i", str(INVENTORY), "n1", "-m", "cluster_compute.session.session_step", "-a", "verb=preflight"]
    run_here(*argv, "-e", json.dumps({"preflight_state": state}))


@pytest.mark.parametrize(("number", "storage"), [("KILL", {}), ("TERM", {"/srv/shared": "writes"})])
def test_whatever_ends_the_process_nothing_stays(number: str, storage: dict[str, str], untouched_lab: Snapshot) -> None:
    _start(storage)
    (process, *rest) = _left()
    assert any(":4789" in line for line in rest), rest
    assert len(rest) == 1 + 3 * len(storage)
    # The link is not among those of the host, where it could be in somebody's way.
    assert {name: state["links"] for name, state in snapshot().items()} == {
        name: state["links"] for name, state in untouched_lab.items()
    }
    script("n1", f"kill -{number} {process}; while test -e /proc/{process}; do sleep 0.05; done; sleep 0.5")
    assert _left() == []


@pytest.fixture(scope="module")
def session(untouched_lab: Snapshot) -> Iterator[None]:
    """Launch a session with a replica on each host."""
    request = {**ON_EACH, "session_name": "beside", "session_cpus": "0.2", "session_memory": "16m"}
    try:
        launch(request).ok()
        yield
    finally:
        clear("beside")


SLOW = """
device=$(ip -o route get {other} | sed 's/.* dev \\([^ ]*\\).*/\\1/')
tc qdisc add dev $device root tbf rate 20mbit burst 64k latency 100ms
echo $device
"""


def test_beside_a_session_all_is_well_and_a_slow_way_is_named(session: None, tmp_path: Path) -> None:
    before = snapshot()
    main = replicas("beside")["main1"]
    path = tmp_path / "answer.json"
    device = script("n1", SLOW.format(other=ADDRESSES["n2"])).strip()
    try:
        variables = {
            "session_image": BUSYBOX,
            "session_mounts": ["/srv/shared:/data"],
            "preflight_matrix": True,
            "preflight_matrix_ratio": 5,
            "preflight_disk_free": "8m",
            "preflight_json": str(path),
        }
        run = play("preflight", variables, "--check").ok()
    finally:
        script("n1", f"tc qdisc del dev {device} root")
    answer = _answer(run, path)
    assert answer["counts"]["error"] == 0
    assert {finding["check"] for finding in answer["findings"]} >= {
        "tunnel",
        "path MTU",
        "image ports",
        "image",
        "data",
    }
    pairs = {(measured["from"], measured["to"]): measured["bits_per_second"] for measured in answer["matrix"]}
    assert set(pairs) == {(host, other) for host in HOSTS for other in HOSTS if host != other}
    limited = {("n1", "n2"), ("n1", "n3")}
    assert max(pairs[pair] for pair in limited) < 40e6 < min(pairs[pair] for pair in set(pairs) - limited) / 5
    slow = [
        finding for finding in answer["findings"] if finding["check"] == "matrix" and " Mbit/s, 1/" in finding["found"]
    ]
    assert {tuple(pair) for entry in slow for pair in entry["pairs"]} == limited
    assert {finding["severity"] for finding in slow} == {"warning"}
    assert all(measured["round_trip_seconds"] > 0 for measured in answer["matrix"])
    # The session works on as it did, with nothing new on its hosts.
    assert differences(before, snapshot()) == []
    assert len(_left()) == len([line for line in _left() if ":4789" in line]) > 0
    for other in ("sub1", "sub2"):
        main.run("/opt/cluster-compute/bin/ssh", other, "true")


def test_wrong_variables_are_named_before_any_host_is_touched() -> None:
    run = play("preflight", {"preflight_matrix_seconds": 100, "preflight_disk_free": "much"})
    assert run.code != 0
    assert "preflight_matrix_seconds is 100: It must be a whole number from 1 to 60." in run.failures
    assert "preflight_disk_free is 'much'" in run.failures
    assert not run.of("Examine every host")


def test_a_host_of_another_distribution_is_prepared_without_its_packages(untouched_lab: Snapshot) -> None:
    limit, without, before = ("--limit", "n3"), {"prepare_hosts_install": False}, snapshot()
    script("n3", 'printf \'NAME="Void"\\nID="void"\\n\' >/run/void; mount --bind /run/void /etc/os-release')
    try:
        rejected = play("prepare_hosts", {}, *limit)
        assert rejected.code != 0
        assert "n3 runs Void, whose packages this role does not know. Install dockerd, docker, ip," in rejected.failures
        assert play("prepare_hosts", without, *limit).ok().changed_hosts == set()
        script("n3", "mv /usr/bin/patchelf /usr/bin/patchelf-aside")
        lacking = play("prepare_hosts", without, *limit)
        assert lacking.code != 0
        assert "n3 lacks patchelf. Install this there, or set prepare_hosts_install to true." in lacking.failures
    finally:
        script("n3", "umount /etc/os-release; rm /run/void; mv /usr/bin/patchelf-aside /usr/bin/patchelf || true")
    assert differences(before, snapshot()) == []

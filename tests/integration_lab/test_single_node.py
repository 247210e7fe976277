# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sessions on one host, of one replica, and of roles that differ: three that run beside each other.

That a session which is to be on one host is placed as one that may be on several and fits one is decided by recorded
answers of hosts (tests/unit/plugins/action/test_launch_decisions.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    BUSYBOX,
    DEMO,
    Replica,
    Run,
    Snapshot,
    clear,
    launch,
    on,
    record,
    replicas,
    try_on,
)

NAMES = ("pair", "alone", "uneven")


@pytest.fixture(scope="module")
def cleared(untouched_lab: Snapshot) -> Iterator[None]:
    """Leave nothing of the sessions of this file, which run beside each other and are only looked at."""
    yield
    clear(*NAMES)


@pytest.fixture(scope="module")
def pair(cleared: None) -> tuple[Run, dict[str, Replica]]:
    """Launch two replicas that fit one host; they may be on several."""
    request = {
        "session_name": "pair",
        "session_mode": "multi-node",
        "session_size": 2,
        "session_image": DEMO,
        "session_cpus": "0.5",
        "session_memory": "128m",
        "session_ports": "127.0.0.1:7000:7001/udp",
    }
    run = launch(request).ok()
    return run, replicas("pair")


class TestPair:
    """A private bridge on one host, whatever mode was asked for."""

    def test_both_replicas_are_on_one_host_and_the_mode_says_so(self, pair: tuple[Run, dict[str, Replica]]) -> None:
        run, found = pair
        assert list(found) == ["main1", "sub1"]
        assert len({replica.host for replica in found.values()}) == 1
        for part in found.values():
            assert part.environment()["BACKENDAI_CLUSTER_MODE"] == "single-node"
            assert part.environment()["LOCAL_RANK"] == ("0" if part.name == "main1" else "1")
            assert part.environment()["NODE_RANK"] == "0"
        assert "single-node" in run.said[0]

    def test_the_network_is_a_private_bridge(self, pair: tuple[Run, dict[str, Replica]]) -> None:
        _run, found = pair
        host = found["main1"].host
        assert json.loads(on(host, "ip", "-j", "link", "show", "type", "vxlan") or "[]") == []
        networks = json.loads(on(host, "docker", "network", "inspect", *found["main1"].networks))
        assert sorted((network["Driver"], network["Internal"]) for network in networks) == [
            ("bridge", False),
            ("bridge", True),
        ]
        for replica in found.values():
            assert [line["dev"] for line in json.loads(replica.run("ip", "-j", "route", "show", "default"))] == ["eth0"]
            address = json.loads(replica.run("ip", "-j", "-4", "address", "show", "eth1"))[0]["addr_info"][0]["local"]
            for other in found.values():
                lines = other.run("getent", "ahosts", replica.name).splitlines()
                assert {line.split()[0] for line in lines} == {address}

    def test_the_host_is_no_member_of_the_private_network(self, pair: tuple[Run, dict[str, Replica]]) -> None:
        _run, found = pair
        address = found["sub1"].run("getent", "hosts", "sub1").split()[0]
        assert try_on(found["sub1"].host, ["ping", "-n", "-c", "1", "-W", "1", address]).returncode != 0

    def test_ssh_works_both_ways(self, pair: tuple[Run, dict[str, Replica]]) -> None:
        _run, found = pair
        assert found["main1"].run("ssh", "sub1", "hostname; id -un").split() == ["sub1", "work"]
        assert found["sub1"].run("ssh", "main1", "hostname; id -un").split() == ["main1", "work"]

    def test_the_port_is_published_where_it_was_asked(self, pair: tuple[Run, dict[str, Replica]]) -> None:
        _run, found = pair
        assert found["main1"].inspected["HostConfig"]["PortBindings"] == {
            "7001/udp": [{"HostIp": "127.0.0.1", "HostPort": "7000"}]
        }
        assert not found["sub1"].inspected["HostConfig"]["PortBindings"]


class TestLimits:
    """What holds for every replica, whatever its image is."""

    def test_nothing_gains_rights(self, pair: tuple[Run, dict[str, Replica]]) -> None:
        for replica in pair[1].values():
            assert "NoNewPrivs:\t1\n" in replica.run("cat", "/proc/1/status")
            assert "Seccomp:\t2\n" in replica.run("cat", "/proc/1/status")
            # A copy of a shell that belongs to root and would make whoever runs it root.
            replica.run("sh", "-c", "cp /bin/dash /tmp/root; chmod 4755 /tmp/root", user="root")
            assert replica.run("/tmp/root", "-p", "-c", "id -u").strip() == replica.run("id", "-u").strip() != "0"

    def test_processes_are_bounded(self, pair: tuple[Run, dict[str, Replica]]) -> None:
        limit = "cat /sys/fs/cgroup/pids/pids.max 2>/dev/null || cat /sys/fs/cgroup/pids.max"
        assert pair[1]["sub1"].run("sh", "-c", limit).strip() == "16384"


@pytest.fixture(scope="module")
def alone(cleared: None) -> tuple[Run, Replica]:
    """Launch a session of one replica."""
    run = launch({"session_name": "alone", "session_image": DEMO, "session_memory": "128m", "session_ports": 7100}).ok()
    found = replicas("alone")
    assert list(found) == ["main1"]
    return run, found["main1"]


class TestAlone:
    """One replica is an ordinary session."""

    def test_it_has_every_variable(self, alone: tuple[Run, Replica]) -> None:
        _run, replica = alone
        found = replica.environment()
        session = found.pop("BACKENDAI_SESSION_ID")
        assert found.pop("BACKENDAI_KERNEL_ID") == session
        wanted = {
            "BACKENDAI_CLUSTER_SIZE": "1",
            "BACKENDAI_CLUSTER_HOSTS": "main1",
            "BACKENDAI_CLUSTER_REPLICAS": "main:1",
            "BACKENDAI_CLUSTER_HOST": "main1",
            "BACKENDAI_CLUSTER_IDX": "1",
            "BACKENDAI_CLUSTER_MODE": "single-node",
            "BACKENDAI_CLUSTER_ROLE": "main",
            "BACKENDAI_CLUSTER_LOCAL_RANK": "0",
            "WORLD_SIZE": "1",
            "WORLD_RANK": "0",
            "LOCAL_RANK": "0",
            "MASTER_ADDR": "main1",
            "MASTER_PORT": "12345",
            "TF_CONFIG": '{"cluster": {"worker": ["main1:12345"]}, "task": {"type": "worker", "index": 0}}',
            "RANK": "0",
            "NODE_RANK": "0",
        }
        assert {name: found.get(name) for name in wanted} == wanted
        assert not [name for name, value in found.items() if value == "eth1"]

    def test_it_has_no_cluster_network_and_its_name_one_address(self, alone: tuple[Run, Replica]) -> None:
        _run, replica = alone
        assert len(replica.networks) == 1
        links = {link["ifname"] for link in json.loads(replica.run("ip", "-j", "link"))}
        assert links == {"lo", "eth0"}
        addresses = {line.split()[0] for line in replica.run("getent", "ahosts", "main1").splitlines()}
        assert addresses == {replica.networks[next(iter(replica.networks))]["IPAddress"]}
        assert record("alone")["plan"]["network"] is None

    def test_it_is_in_the_table(self, alone: tuple[Run, Replica]) -> None:
        run, replica = alone
        assert run.placed == {"main1": replica.host}

    def test_an_mpi_job_runs_in_it(self, alone: tuple[Run, Replica]) -> None:
        _run, replica = alone
        assert replica.run("mpirun", "-n", "1", "hostname").strip() == "main1"


TALK = "head -c 80000000 /dev/zero | tr '\\0' x | fold -w 1000; echo the end; touch /tmp/said; exec sleep 7777"


@pytest.fixture(scope="module")
def uneven(pair: object, alone: object) -> tuple[Run, dict[str, Replica]]:
    """Launch two roles on hosts with room for six and four CPUs; what is there already has two of the first host's."""
    request = {
        "session_name": "uneven",
        "session_image": BUSYBOX,
        "session_memory": "64m",
        "session_excluded_hosts": "n3",
        "session_capabilities": "NET_RAW",  # for ping
        "session_env": {"COMMON": "1"},
        "session_roles": [
            {"name": "sub", "replicas": 1, "cpus": 6, "command": ["sh", "-c", TALK], "env": {"OWN": "sub"}},
            {"name": "main", "cpus": "4", "command": "sleep 8888"},
        ],
    }
    sizes = {"n1": {"cluster_compute_cpus": 8}, "n2": {"cluster_compute_cpus": 4}}
    run = launch(request, hosts=sizes).ok()
    return run, replicas("uneven")


class TestRoles:
    """Roles of their own size, command and variables, placed where a greedy choice would fail."""

    def test_main_goes_where_it_leaves_room_for_sub(self, uneven: tuple[Run, dict[str, Replica]]) -> None:
        run, found = uneven
        assert run.placed == {name: replica.host for name, replica in found.items()} == {"main1": "n2", "sub1": "n1"}
        assert found["main1"].inspected["HostConfig"]["CpuQuota"] == 400_000
        assert found["sub1"].inspected["HostConfig"]["CpuQuota"] == 600_000
        assert found["main1"].inspected["Config"]["Cmd"] == ["sleep", "8888"]
        assert found["sub1"].inspected["Config"]["Cmd"] == ["sh", "-c", TALK]
        environments = {name: replica.environment() for name, replica in found.items()}
        assert environments["sub1"]["BACKENDAI_CLUSTER_REPLICAS"] == "main:1,sub:1"
        assert environments["sub1"]["OWN"] == "sub"
        assert "OWN" not in environments["main1"]
        assert {environment["COMMON"] for environment in environments.values()} == {"1"}
        assert found["main1"].run("cat", "/etc/cluster-compute/hostfile") == "main1 slots=4\nsub1 slots=6\n"
        # The image holds busybox alone: no SSH, no glibc, no Python. Names and network work all the same.
        found["sub1"].run("ping", "-c", "1", "-W", "3", "main1")
        found["main1"].run("ping", "-c", "1", "-W", "3", "sub1")

    def test_of_the_output_the_end_is_kept(self, uneven: tuple[Run, dict[str, Replica]]) -> None:
        replica = uneven[1]["sub1"]
        replica.run("sh", "-c", "until [ -e /tmp/said ]; do sleep 0.2; done")
        folder = f"/var/lib/docker/containers/{replica.inspected['Id']}"
        sizes = [int(size) for size in on(replica.host, "sh", "-c", f"stat -c %s {folder}/*-json.log*").split()]
        assert len(sizes) == 3
        assert 16_000_000 < sum(sizes) < 3 * 17_000_000
        assert on(replica.host, "docker", "logs", "--tail", "1", replica.container).endswith("the end\n")

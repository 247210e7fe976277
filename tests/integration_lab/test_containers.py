# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a replica may do: capabilities, memory locks, system calls, and where its ports are bound."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    ADDRESSES,
    DEMO,
    Replica,
    Snapshot,
    launch,
    on,
    replicas,
    script,
    teardown,
    try_on,
)

IMAGES = {"n1": "cluster-compute/first:test", "n3": "cluster-compute/third:test"}
"""The demo image as root, which is who has capabilities, on an engine of each generation; each of its own making."""
PORT = 7300
BITS = {
    "CHOWN": 0,
    "DAC_OVERRIDE": 1,
    "FOWNER": 3,
    "FSETID": 4,
    "KILL": 5,
    "SETGID": 6,
    "SETUID": 7,
    "SETPCAP": 8,
    "NET_BIND_SERVICE": 10,
    "IPC_LOCK": 14,
    "SYS_CHROOT": 18,
    "SYS_NICE": 23,
    "AUDIT_WRITE": 29,
}
"""Numbers of capabilities (linux/capability.h)."""
ADDED = {"IPC_LOCK", "SYS_NICE"}
DEFAULT = set(BITS) - ADDED
LOCK = """import ctypes, mmap, sys
libc = ctypes.CDLL(None, use_errno=True)
size = int(sys.argv[1])
memory = mmap.mmap(-1, size)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
sys.exit(ctypes.get_errno() if libc.mlock(ctypes.c_void_p(address), ctypes.c_size_t(size)) else 0)
"""
ADD_KEY = """import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall(248, b"user", b"name", b"value", 5, -2), ctypes.get_errno())
"""
SERVER = f"import http.server as s; s.HTTPServer(('', {PORT}), s.SimpleHTTPRequestHandler).serve_forever()"


@pytest.fixture(scope="module")
def images(untouched_lab: Snapshot) -> Iterator[None]:
    """Make an image that runs as root on each host."""
    try:
        for host, name in IMAGES.items():
            make = f"docker create --name made {DEMO} >/dev/null; docker commit --change 'USER root' made {name}"
            script(host, f"{make} >/dev/null; docker rm made >/dev/null")
        yield
    finally:
        for host, name in IMAGES.items():
            try_on(host, ["docker", "rmi", "-f", name])


@pytest.fixture(scope="module")
def held(images: None) -> Iterator[dict[str, Replica]]:
    """Launch two replicas: one is given more than the default, the other is not."""
    request = {
        "session_name": "held",
        "session_hosts": list(IMAGES),
        "session_max_replicas_per_host": 1,
        "session_policy": "inventory",
        "session_memory": "64m",
        "session_memlock": "64k",
        "session_ports": f"{ADDRESSES['n1']}:{PORT}:{PORT}",
        "session_command": "sleep 8888",
        "session_roles": [
            {"name": "main", "image": IMAGES["n1"], "capabilities": "cap_sys_nice, IPC_LOCK"},
            {"name": "sub", "image": IMAGES["n3"], "replicas": 1},
        ],
    }
    try:
        launch(request).ok()
        assert launch(request).ok().changed_hosts == set()
        found = replicas("held")
        assert {name: replica.host for name, replica in found.items()} == {"main1": "n1", "sub1": "n3"}
        yield found
    finally:
        teardown("held").ok()


def _status(replica: Replica, process: str) -> dict[str, str]:
    lines = replica.run("cat", f"/proc/{process}/status").splitlines()
    return {name: value.strip() for name, _colon, value in (line.partition(":") for line in lines)}


def _names(mask: str) -> set[str]:
    bits = int(mask, 16)
    assert bits < 2**41
    return {name for name, bit in BITS.items() if bits >> bit & 1} | {
        str(bit) for bit in range(41) if bits >> bit & 1 and bit not in BITS.values()
    }


class TestRights:
    """Root in a replica has what it was given, and nothing else of what root has."""

    def test_the_capabilities_are_exactly_those(self, held: dict[str, Replica]) -> None:
        for name, wanted in (("main1", DEFAULT | ADDED), ("sub1", DEFAULT)):
            for process in ("1", "self"):
                status = _status(held[name], process)
                assert _names(status["CapBnd"]) == _names(status["CapEff"]) == wanted
                assert _names(status["CapAmb"]) == set()
                assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")

    def test_an_ssh_login_has_the_same_ones(self, held: dict[str, Replica]) -> None:
        status = held["sub1"].run("ssh", "main1", "id -u; grep CapBnd /proc/self/status").split()
        assert status[0] == "0"
        assert _names(status[2]) == DEFAULT | ADDED

    def test_no_device_and_no_raw_packet_is_made(self, held: dict[str, Replica]) -> None:
        for replica in held.values():
            refused = replica.attempt("mknod", "/tmp/zero", "c", "1", "5")
            assert refused.returncode != 0
            assert "Operation not permitted" in refused.stderr
            raw = replica.attempt("python3", "-c", "import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)")
            assert "PermissionError" in raw.stderr

    def test_docker_s_filter_of_system_calls_is_on(self, held: dict[str, Replica]) -> None:
        # Anybody may call add_key(2), which is number 248 on amd64; the filter alone refuses it, with EPERM.
        for replica in held.values():
            assert replica.run("python3", "-c", ADD_KEY).split() == ["-1", "1"]

    def test_the_first_process_is_an_init_that_reaps(self, held: dict[str, Replica]) -> None:
        for replica in held.values():
            assert replica.run("cat", "/proc/1/cmdline").split("\0")[0] == "/sbin/docker-init"
            replica.run("sh", "-c", "(sh -c 'exit 3' &) ; sleep 0.3")
            assert not [line for line in replica.run("ps", "-eo", "stat=,comm=").splitlines() if line.startswith("Z")]


class TestOptions:
    """What HPC asks for."""

    def test_who_may_be_nicer_to_itself(self, held: dict[str, Replica]) -> None:
        assert held["main1"].run("nice", "-n", "-5", "nice").strip() == "-5"
        refused = held["sub1"].attempt("nice", "-n", "-5", "nice")
        assert "cannot set niceness" in refused.stderr

    def test_memory_is_locked_up_to_the_limit_and_with_ipc_lock_beyond_it(self, held: dict[str, Replica]) -> None:
        for name, below, above in (("main1", 0, 0), ("sub1", 0, 12)):
            replica = held[name]
            assert replica.run("sh", "-c", "ulimit -S -l; ulimit -H -l").split() == ["64", "64"]
            assert replica.attempt("python3", "-c", LOCK, "32768").returncode == below
            assert replica.attempt("python3", "-c", LOCK, "1048576").returncode == above  # 12 is ENOMEM


def _answers(host: str, address: str) -> bool:
    words = f"import socket; socket.create_connection(({address!r}, {PORT}), timeout=3)"
    return try_on(host, ["python3", "-c", words]).returncode == 0


class TestPorts:
    """A port of main1 is open at the address that was asked for, and nowhere else."""

    def test_it_answers_there_alone(self, held: dict[str, Replica]) -> None:
        for replica in held.values():
            on(replica.host, "docker", "exec", "-d", replica.container, "python3", "-c", SERVER)
        here = (
            f"until python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {PORT}))'; do sleep 0.1; done"
        )
        for replica in held.values():
            replica.run("timeout", "20", "sh", "-c", f"{here} 2>/dev/null", seconds=30)
        assert _answers("n1", ADDRESSES["n1"])
        assert _answers("n2", ADDRESSES["n1"])
        with socket.create_connection((ADDRESSES["n1"], PORT), timeout=3):
            pass
        assert not _answers("n1", "127.0.0.1")
        (gateway,) = {network["Gateway"] for network in held["main1"].networks.values() if network["Gateway"]}
        assert not _answers("n1", gateway)
        assert not _answers("n3", "127.0.0.1")
        assert not _answers("n3", ADDRESSES["n3"])

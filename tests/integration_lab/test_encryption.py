# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Encrypted sessions: on hosts whose kernel has WireGuard they are, on others they are refused and nothing is touched.

Which of both is tried depends on the kernel that the lab runs on, and that is found out without the collection.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    ADDRESSES,
    DEMO,
    HOSTS,
    ON_EACH,
    STATE,
    Snapshot,
    clear,
    differences,
    launch,
    on,
    play,
    record,
    replicas,
    script,
    snapshot,
    teardown,
    try_on,
)

NAME = "sealed"
REQUEST = {
    **ON_EACH,
    "session_name": NAME,
    "session_image": DEMO,
    "session_cpus": "0.1",
    "session_command": "sleep infinity",
    "session_encrypted": True,
}
MARK = "c1a551f1ed5ec2e7c1a551f1ed5ec2e7"
"""What is sent from replica to replica, in hexadecimal, to be looked for on the way."""
MTU = 1500 - 60 - 70

SPY = """
import json, socket, sys, time
interface, mark, seconds = sys.argv[1], bytes.fromhex(sys.argv[2]), float(sys.argv[3])
spy = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
spy.bind((interface, 0))
spy.settimeout(0.1)
ports, marked, end = {}, 0, time.time() + seconds
while time.time() < end:
    try:
        frame = spy.recv(65536)
    except OSError:
        continue
    marked += mark in frame
    if frame[12:14] == b"\\x08\\x00" and frame[23] == 17:
        port = str(int.from_bytes(frame[36:38], "big"))
        ports[port] = ports.get(port, 0) + 1
print(json.dumps([marked, ports]))
"""
"""Listens on an interface: how many frames hold the mark, and how many UDP packets went to which port."""

FORGE = """
import socket, sys
port, vni, mac, mark = int(sys.argv[1]), int(sys.argv[2]), bytes.fromhex(sys.argv[3]), bytes.fromhex(sys.argv[4])
frame = bytes([8, 0, 0, 0]) + (vni << 8).to_bytes(4, "big")
frame += mac + bytes([2, 66, 0, 0, 0, 1]) + b"\\x88\\xb5" + mark * 4
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
    for host in sys.argv[5:]:
        channel.sendto(frame, (host, port))
"""
"""Sends a VXLAN packet in plain to hosts; the frame in it is of the type for experiments (IEEE 802, 0x88B5)."""


def kernel_can() -> bool:
    """Tell whether the kernel of the lab makes WireGuard links."""
    tried = [try_on(host, ["unshare", "--net", "ip", "link", "add", "probe", "type", "wireguard"]) for host in HOSTS]
    codes = {done.returncode == 0 for done in tried}
    assert len(codes) == 1, "the hosts of the lab share a kernel"
    return codes.pop()


@pytest.fixture(autouse=True)
def nothing_stays(untouched_lab: Snapshot) -> Iterator[None]:
    """Compare the hosts from before with those from after."""
    yield
    clear(NAME)
    assert differences(untouched_lab, snapshot()) == []


def test_an_encrypted_session_is_encrypted_or_refused(untouched_lab: Snapshot) -> None:
    if kernel_can():
        _is_encrypted()
    else:
        _is_refused(untouched_lab)


def _is_refused(untouched: Snapshot) -> None:
    run = launch(REQUEST)
    assert run.code != 0
    assert "The session cannot be launched." in run.failures
    for host in HOSTS:
        why = f"session_encrypted is True: Host {host} cannot do it: Its kernel has no WireGuard"
        assert why in run.failures, run.failures
    assert run.changed_hosts == set()
    assert differences(untouched, snapshot()) == []


def _is_encrypted() -> None:
    run = launch(REQUEST, "-vvv").ok()
    assert set(run.placed.values()) == set(HOSTS)
    network = record(NAME)["plan"]["network"]
    assert network["mtu"] == MTU
    _works(network)
    _lets_nothing_in(network)
    _tells_no_key(run.output)
    assert launch(REQUEST).ok().changed_hosts == set()

    # Lost links come back by the host alone, before the engine would start, and the rest by the program at boot.
    found = replicas(NAME)
    tunnel = network["tunnel"]["link"]
    on(found["sub1"].host, "ip", "link", "delete", "dev", tunnel)
    made = on(found["sub1"].host, "/usr/local/lib/cluster-compute/host.pyz", "--links")
    assert [line.split(" ", 2)[2].split(" of ")[0] for line in made.splitlines()] == [
        f"create link {tunnel}",
        f"create link {network['link']}",
        "update peers",
    ]
    on(found["sub1"].host, "/usr/local/lib/cluster-compute/host.pyz")
    _works(network)

    # A key that is lost is made anew, and everybody is told.
    on(found["sub2"].host, "sh", "-c", f"rm {STATE}/sessions/*/tunnel.key")
    assert "create key tunnel.key" in play("repair").ok().actions()[found["sub2"].host]
    _works(network)
    before = _public_keys()
    launch({**REQUEST, "session_regenerate_keys": True}).ok()
    assert not before & _public_keys()
    _works(network)

    script(found["main1"].host, f"ip link delete dev {network['link']}; rm {STATE}/sessions/*/record.json")
    teardown(NAME).ok()
    assert replicas(NAME) == {}


def _works(network: dict[str, Any]) -> None:
    """Prove that packets of the full size reach every replica from main1, and nobody between reads them."""
    found = replicas(NAME)
    main, sub1 = found["main1"], found["sub1"]
    addresses = {replica["name"]: replica["address"] for replica in record(NAME)["plan"]["replicas"]}
    ping = ["ping", "-n", "-q", "-c", "2", "-w", "30", "-p", MARK]
    inside = ["nsenter", f"--net=/proc/{main.inspected['State']['Pid']}/ns/net"]
    with ThreadPoolExecutor(1) as pool:
        spy = pool.submit(_spy, sub1.host, _underlay(sub1.host), 6)
        time.sleep(1.5)
        for name in ("sub1", "sub2"):
            on(main.host, *inside, *ping, "-M", "do", "-s", str(network["mtu"] - 28), addresses[name])
        assert main.run("ssh", "sub1", "hostname").strip() == "sub1"
        marked, ports = spy.result()
    assert marked == 0
    assert set(ports) & {str(network["port"]), str(network["tunnel"]["vxlan_port"])} == {str(network["port"])}
    # The spy does see what goes in plain.
    with ThreadPoolExecutor(1) as pool:
        spy = pool.submit(_spy, sub1.host, _underlay(sub1.host), 4)
        time.sleep(1.5)
        on(main.host, *ping, ADDRESSES[sub1.host])
        assert spy.result()[0] > 0


def _underlay(host: str) -> str:
    """Return the interface by which the other hosts reach a host."""
    (link,) = [entry for entry in json.loads(on(host, "ip", "-j", "address", "show", "to", ADDRESSES[host])) if entry]
    return str(link["ifname"])


def _spy(host: str, interface: str, seconds: int, pid: int | str = "self") -> tuple[int, dict[str, int]]:
    """Listen on an interface in the network of a process; return marked frames, and UDP packets by port."""
    argv = ["nsenter", f"--net=/proc/{pid}/ns/net", "python3", "-", interface, MARK, str(seconds)]
    marked, ports = json.loads(on(host, *argv, stdin=SPY))
    return marked, ports


def _lets_nothing_in(network: dict[str, Any]) -> None:
    """Prove that VXLAN packets in plain, from a host of the session itself, end nowhere."""
    found = replicas(NAME)
    target = found["sub1"]
    mac = next(replica for replica in record(NAME)["plan"]["replicas"] if replica["name"] == "sub1")["mac"].replace(
        ":", ""
    )
    pid = target.inspected["State"]["Pid"]
    with ThreadPoolExecutor(1) as pool:
        spy = pool.submit(_spy, target.host, network["interface"], 4, pid)
        time.sleep(1.5)
        for port in (network["port"], network["tunnel"]["vxlan_port"]):
            argv = ["python3", "-", str(port), str(network["vni"]), mac, MARK, ADDRESSES[target.host]]
            on(found["main1"].host, *argv, stdin=FORGE)
        assert spy.result()[0] == 0


def _public_keys() -> set[str]:
    texts = [script(host, f"cat {STATE}/sessions/*/public_keys.json") for host in HOSTS]
    assert len(set(texts)) == 1
    return {keys["tunnel"] for keys in json.loads(texts[0]).values()}


def _tells_no_key(output: str) -> None:
    """Prove that no private key has left its host, nor is read by others than root there."""
    for host in HOSTS:
        key = script(host, f"cat {STATE}/sessions/*/tunnel.key").strip()
        assert len(key) == 44
        assert script(host, f"stat -c %a:%u {STATE}/sessions/*/tunnel.key").strip() == "600:0"
        assert key not in output
        assert key not in script(host, f"cat {STATE}/sessions/*/*.json; docker inspect $(docker ps -aq)")
        assert all(key not in script(other, f"cat {STATE}/sessions/*/tunnel.key") for other in HOSTS if other != host)


def test_a_host_that_lies_about_what_it_can_do_gets_nothing_in_plain() -> None:
    can = kernel_can()
    lie = "#!/bin/sh\necho 'Cannot do that.' >&2\nexit 1\n" if can else "#!/bin/sh\nexit 0\n"
    for host in HOSTS:
        on(host, "tee", "/usr/local/bin/unshare", stdin=lie)
        on(host, "chmod", "755", "/usr/local/bin/unshare")
    try:
        run = launch(REQUEST)
    finally:
        for host in HOSTS:
            on(host, "rm", "/usr/local/bin/unshare")
    assert run.code != 0
    if can:
        assert all(f"Host {host} cannot do it: Its kernel cannot" in run.failures for host in HOSTS), run.failures
    else:
        assert "Could not create link cct" in run.failures, run.failures
        assert "Unknown device type" in run.failures
    done = [action for actions in run.actions().values() for action in actions]
    assert not [action for action in done if action.startswith(("create container", "create link"))]
    assert replicas(NAME) == {}

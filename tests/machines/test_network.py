# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ways between machines that lose and delay packets, have IPv6 alone, or pass a firewall that closes all ports."""

from __future__ import annotations

from typing import Any

from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    DEMO,
    HOSTS,
    ON_EACH,
    launch,
    on,
    play,
    record,
    replicas,
    script,
    teardown,
)
from ansible_collections.cluster_compute.session.tests.support.machines.machine import IPV6, Machine

REQUEST: dict[str, Any] = {
    **ON_EACH,
    "session_name": "ways",
    "session_image": DEMO,
    "session_capabilities": "NET_RAW",  # for ping
}
REACH = "for name in main1 sub1 sub2; do ssh $name hostname; done"
ALL = ["main1", "sub1", "sub2"]
PAIRS = {
    "session_image": DEMO,
    "check_pairs_size": "4m",
    "check_pairs_cpus": "0.5",
    "check_pairs_memory": "64m",
}

LOSSY = """
tc qdisc add dev eth0 root handle 1: prio
tc qdisc add dev eth0 parent 1:3 handle 3: netem delay 60ms loss 20%
tc filter add dev eth0 parent 1: protocol ip u32 match ip protocol 17 0xff match ip dport 4789 0xffff flowid 1:3
"""


def test_a_host_whose_way_loses_packets_is_named() -> None:
    # Those of the session alone: the host itself has to stay within reach.
    script("n3", LOSSY)
    run = play("check_pairs", PAIRS, seconds=600)
    assert list(run.artifacts["cluster_compute_pairs"]["named"]) == ["n3"], run.output


def test_an_underlay_of_ipv6_alone(machines: dict[str, Machine]) -> None:
    hosts = {name: {"cluster_compute_underlay_address": machine.ipv6} for name, machine in machines.items()}
    for host in HOSTS:
        script(host, "iptables -I OUTPUT -p udp --dport 4789 -j DROP")
    launch(REQUEST, hosts=hosts).ok()
    assert all(str(address).startswith(IPV6) for address in underlay())
    found = replicas("ways")
    for replica in found.values():
        assert replica.run("sh", "-ec", REACH).split() == ALL
    assert launch(REQUEST, hosts=hosts).ok().changed_hosts == set()
    teardown("ways", hosts=hosts).ok()


def underlay() -> list[str]:
    """Return the addresses between which the session's tunnels go."""
    return [str(host["underlay_address"]) for host in record("ways")["plan"]["hosts"].values()]


def test_firewalls_that_close_all_ports_are_opened_and_closed_again() -> None:
    """ufw on one machine, firewalld on another, as their distributions have them."""
    script("n2", "DEBIAN_FRONTEND=noninteractive apt-get install -qy ufw; ufw allow 22/tcp; ufw --force enable")
    script("n3", "DEBIAN_FRONTEND=noninteractive apt-get install -qy firewalld; systemctl start firewalld")
    before = {"n2": on("n2", "ufw", "status"), "n3": on("n3", "firewall-cmd", "--list-rich-rules")}
    opened = {"prepare_hosts_firewall": ["10.205.0.0/24"]}
    play("prepare_hosts", opened).ok()
    assert play("prepare_hosts", opened).ok().changed_hosts == set()
    launch(REQUEST).ok()
    for replica in replicas("ways").values():
        assert replica.run("sh", "-ec", REACH).split() == ALL
    on("n2", "ufw", "reload")
    on("n3", "firewall-cmd", "--reload")
    play("repair").ok()
    for replica in replicas("ways").values():
        assert replica.run("sh", "-ec", REACH).split() == ALL
    teardown("ways").ok()
    play("prepare_hosts").ok()
    assert {"n2": on("n2", "ufw", "status"), "n3": on("n3", "firewall-cmd", "--list-rich-rules")} == before

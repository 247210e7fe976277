# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ends of tunnels that lie on a bond, a VLAN, a dummy interface or in a VRF, under the firewall rules of a session.

Needs root and a kernel that has all of these: `make other-kernel` runs this file under one, in a virtual machine.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters import firewall, link
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules import isolation
from ansible_collections.cluster_compute.session.tests.other_kernel.test_tunnel import inside, run

VNI, PORT = 7, 4789
TAGGED, ROUTED, FENCED = "10.7.0.{}", "10.9.0.{}", "10.3.0.{}"
"""Addresses on the VLAN of the bond, on a dummy interface behind it, and in a VRF."""
INSIDE = "198.51.100.{}"


@pytest.fixture(scope="module")
def hosts() -> Iterator[dict[str, int]]:
    """Make two hosts with two cables that are a bond, and a third in a VRF."""
    names = {"ua": 1, "ub": 2}
    try:
        run("ip netns add cct-ua; ip netns add cct-ub")
        for cable in ("e0", "e1", "e2"):
            run(f"ip link add name {cable} netns cct-ua type veth peer name {cable} netns cct-ub")
        for name, number in names.items():
            other = 3 - number
            run(
                f'i() {{ ip -n cct-{name} "$@"; }}\n'
                "i link set lo up\n"
                "i link add bond0 type bond mode active-backup miimon 100\n"
                "i link set e0 master bond0; i link set e1 master bond0; i link set bond0 up\n"
                "i link add link bond0 name bond0.7 mtu 1400 type vlan id 7; i link set bond0.7 up\n"
                f"i address add {TAGGED.format(number)}/24 dev bond0.7\n"
                "i link add underlay type dummy; i link set underlay up\n"
                f"i address add {ROUTED.format(number)}/32 dev underlay\n"
                f"i route add {ROUTED.format(other)}/32 via {TAGGED.format(other)}\n"
                "i link add blue type vrf table 10; i link set blue up; i link set e2 master blue; i link set e2 up\n"
                f"i address add {FENCED.format(number)}/24 dev e2"
            )
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", f"cct-{name}"], capture_output=True, check=False)


@pytest.mark.parametrize("where", [TAGGED, ROUTED], ids=["VLAN of a bond", "dummy"])
def test_packets_of_a_tunnel_pass_the_rules_of_a_session(where: str, hosts: dict[str, int]) -> None:
    ends = tuple(where.format(number) for number in hosts.values())
    for name, number in hosts.items():
        own, other, peer = where.format(number), where.format(3 - number), f"02:00:00:00:00:0{3 - number}"

        def make(own: str = own, other: str = other, number: int = number, peer: str = peer) -> None:
            assert link.underlay(own, link.details()) == {"address": own, "interface": "bond0.7", "mtu": 1400}
            ways = link.arrivals(own, [other])
            assert ways == ("bond0.7",) if where == TAGGED else ("bond0", "bond0.7")
            rules = isolation.iptables_rules(isolation.isolation_of_probe(VNI, PORT, ends, own, ways))
            firewall.put(firewall.IPTABLES, *isolation.PROBE, rules)
            alias = link.session_alias("3614fdf3-0e04-4a3c-8f3e-2b1d6c7a9e10", "train")
            link.create_vxlan(link.Vxlan("ccx0", VNI, own, PORT, 1350, alias))
            run(
                f"ip link set ccx0 address 02:00:00:00:00:0{number}; ip address add {INSIDE.format(number)}/24 dev ccx0"
            )
            link.change_peers("ccx0", (set(), {(peer, other)}), (set(), {(INSIDE.format(3 - number), peer)}))

        inside(name, make)
    try:
        run(f"ip netns exec cct-ua ping -n -q -c 2 -w 20 -M do -s 1322 {INSIDE.format(2)}")
    finally:
        for name in hosts:
            inside(name, lambda: link.delete_link("ccx0"))
            inside(name, lambda: firewall.remove(isolation.PROBE[0]))


def test_an_address_in_a_vrf_is_refused(hosts: dict[str, int]) -> None:
    with pytest.raises(link.LinkError, match=r"10\.3\.0\.1 of e2 is in the VRF blue"):
        inside("ua", lambda: link.underlay(FENCED.format(1), link.details()))

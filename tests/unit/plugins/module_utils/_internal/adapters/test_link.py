# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import link
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.link import (
    Link,
    LinkError,
    Way,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.host_parts import Underlay


def interface(name: str, address: str, *flags: str, mtu: int = 1500, **more: Any) -> dict[str, Any]:
    """Return what ``ip -j -d address`` prints of one interface. more: kind, master."""
    entry = {"local": address, "prefixlen": 24, "scope": "host" if address.startswith("127.") else "global"}
    kind = {"linkinfo": {"info_kind": more.pop("kind")}} if "kind" in more else {}
    return {"ifname": name, "flags": [*flags, "UP"], "mtu": mtu, "addr_info": [entry], **kind, **more}


LINKS = [
    interface("lo", "127.0.0.1", "LOOPBACK", mtu=65536),
    interface("eth0", "192.0.2.11"),
    interface("eth1", "198.51.100.11", mtu=9000),
    interface("docker0", "172.17.0.1"),
]


def underlay(wanted: str | None) -> Underlay:
    return link.underlay(wanted, link.details())


def here(
    monkeypatch: pytest.MonkeyPatch,
    *links: dict[str, Any],
    route: str = "",
    routes: Iterable[dict[str, Any]] = (),
    ways: Mapping[str, list[Way]] | None = None,
) -> None:
    """Let this host have these interfaces and routes, its default route on one of them, and these ways to others."""
    every = [*([{"dst": "default", "dev": route}] if route else []), *routes]

    def answer(argv: list[str]) -> list[dict[str, Any]]:
        shown = [entry for entry in every if "default" not in argv or entry["dst"] == "default"]
        return shown if "route" in argv else list(links)

    monkeypatch.setattr(link, "_json", answer)
    known = ways or {}
    monkeypatch.setattr(link, "ways", lambda peers, _local=None, _vrf="": {peer: known.get(peer, []) for peer in peers})


def test_the_underlay_is_what_the_site_says_else_where_the_default_route_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    here(monkeypatch, *LINKS, route="eth0")
    assert underlay(None) == Underlay("192.0.2.11", "eth0", 1500)
    assert underlay("198.51.100.11") == Underlay("198.51.100.11", "eth1", 9000)
    with pytest.raises(LinkError, match=r"has the address 192\.0\.2\.77; its addresses are: 192\.0\.2\.11, 198\.51"):
        underlay("192.0.2.77")
    with pytest.raises(LinkError, match="has the address eth1; its addresses are: "):
        underlay("eth1")


def test_without_a_default_route_only_one_address_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    here(monkeypatch, LINKS[0], LINKS[1], LINKS[3])
    assert underlay("").interface == "eth0"
    here(monkeypatch, *LINKS)
    with pytest.raises(
        LinkError, match=r"192\.0\.2\.11 \(eth0\), 198\.51\.100\.11 \(eth1\)\. Set cluster_compute_under"
    ):
        underlay(None)


# ---- by routing, in a VRF, beside another one -----------------------------------------------------------------------

UPLINKS = [interface("eth2", "10.1.0.1", mtu=9000), interface("eth3", "10.2.0.1", mtu=1600)]
FABRIC = {
    "dst": "10.9.0.0/24",
    "nexthops": [
        {"gateway": "10.1.0.2", "dev": "eth2"},
        {"via": {"family": "inet6", "host": "fe80::1"}, "dev": "eth3"},
    ],
}
DUMMY = interface("underlay", "10.9.0.1", kind="dummy", mtu=65000)
LOOPBACK = interface("lo", "10.9.0.1", "LOOPBACK", mtu=65536)


@pytest.mark.parametrize("carrier", [DUMMY, LOOPBACK], ids=["dummy", "lo"])
def test_an_address_that_routing_brings_has_the_least_mtu_of_all_ways(
    carrier: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    links = [*LINKS[1:], *UPLINKS, carrier]
    here(monkeypatch, *links, route="eth0", routes=[FABRIC])
    assert underlay("10.9.0.1") == Underlay("10.9.0.1", "eth2", 1600)
    here(monkeypatch, *links, routes=[{**FABRIC, "metrics": [{"mtu": 1400}]}])
    assert underlay("10.9.0.1").mtu == 1400
    default = {**FABRIC, "dst": "default", "prefsrc": "10.9.0.1"}
    here(monkeypatch, *links, routes=[default])
    assert underlay("10.9.0.1").mtu == 1600
    assert underlay(None).address == "10.9.0.1", "the one that packets go out with"
    here(monkeypatch, *links, routes=[{"dst": "10.9.0.2", "dev": "eth3"}])
    assert underlay("10.9.0.1").interface == "eth3", "a neighbour without a gateway between"
    here(
        monkeypatch,
        *links,
        routes=[{"dst": "10.1.0.1", "type": "local", "dev": "eth2"}, {"dst": "10.1.0.0/24", "dev": "eth2"}],
    )
    with pytest.raises(LinkError, match=rf"10\.9\.0\.1 is on {carrier['ifname']}, .* no route to them"):
        underlay("10.9.0.1")


def test_a_second_interface_in_the_same_subnet_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    second = interface("eth1", "192.0.2.12", mtu=9000)
    way = [Way("eth0")]
    here(monkeypatch, LINKS[1], second, ways={"192.0.2.1": way})
    assert underlay("192.0.2.12") == Underlay("192.0.2.12", "eth1", 1500)


BLUE = interface("blue", "10.4.0.1", kind="vrf", mtu=65575)
IN_BLUE = [interface("eth4", "10.3.0.1", master="blue"), interface("inner", "10.5.0.1", kind="dummy", master="blue")]
BLUE_ROUTES: list[dict[str, Any]] = [
    {"dst": "10.4.0.2", "gateway": "10.3.0.2", "dev": "eth4", "table": "10", "metrics": [{"mtu": 1480}]},
    {"dst": "10.4.0.1", "type": "local", "dev": "blue", "table": "10"},
    {"dst": "10.9.0.0/24", "gateway": "10.1.0.2", "dev": "eth2"},
]


@pytest.mark.parametrize(
    ("address", "mtu"), [("10.3.0.1", 1500), ("10.4.0.1", 1480), ("10.5.0.1", 1480)], ids=["port", "VRF", "dummy"]
)
def test_in_a_vrf_its_own_routes_count(address: str, mtu: int, monkeypatch: pytest.MonkeyPatch) -> None:
    here(monkeypatch, *LINKS, UPLINKS[0], BLUE, *IN_BLUE, DUMMY, route="eth0", routes=BLUE_ROUTES)
    assert underlay(address) == Underlay(address, "eth4", mtu)
    assert underlay("10.9.0.1").interface == "eth2", "outside of it those of the VRF do not count"
    assert link.vrf_of(address) == "blue"
    assert link.arrivals(address, ["10.3.0.2"]) == ("blue",)
    for other in ("10.9.0.1", "10.77.0.1", "", None):
        assert link.vrf_of(other) == ""


def test_ways_are_asked_for_in_the_vrf(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def answer(_argv: list[str], text: str = "") -> str:
        asked.append(text)
        return '[{"dst": "10.3.0.0/24", "dev": "eth4"}]\n'

    monkeypatch.setattr(link, "run", answer)
    assert link.ways(["10.3.0.2"], "10.3.0.1", "blue") == {"10.3.0.2": [Way("eth4")]}
    assert asked == ["route get fibmatch 10.3.0.2 from 10.3.0.1 vrf blue\n"]


@pytest.mark.parametrize(
    ("lower", "local", "holder"),
    [
        ("", "10.3.0.1", "the link flannel.1, a VXLAN outside of the VRF blue"),
        ("eth4", "192.0.2.11", "the link flannel.1, a VXLAN in the VRF blue"),
        ("blue", "192.0.2.11", "the link flannel.1, a VXLAN in the VRF blue"),
        ("blue", "10.3.0.1", ""),
        ("eth0", "192.0.2.11", ""),
        ("blue", "2001:db8::1", ""),
    ],
)
def test_a_vxlan_in_a_vrf_and_one_outside_exclude_each_other(lower: str, local: str, holder: str) -> None:
    data: dict[str, Any] = {"link": lower} if lower else {}
    other = vxlan("flannel.1", id=1, **data)
    found = link.port_holder(4789, [*map(link.read_link, [*LINKS, BLUE, *IN_BLUE]), other], local)
    assert found.startswith(holder) if holder else not found


def test_packets_come_by_the_ways_to_the_peers_and_where_the_address_is(monkeypatch: pytest.MonkeyPatch) -> None:
    by_eth0 = {"192.0.2.12": [Way("eth0")]}
    here(monkeypatch, *LINKS, ways=by_eth0)
    assert link.arrivals("192.0.2.11", ["192.0.2.12"]) == ("eth0",)
    assert link.arrivals("198.51.100.11", ["192.0.2.12"]) == ("eth0", "eth1")
    assert link.arrivals(None, ["192.0.2.12"]) == ("eth0",)
    assert link.arrivals("203.0.113.1", ["192.0.2.77"]) == ()


def test_by_any_port_where_routing_brings_them_also_by_one_that_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    bond = interface("bond0", "10.5.0.1", kind="bond")
    tagged = interface("bond0.7", "10.6.0.1", kind="vlan")
    member = interface("eth5", "10.7.0.1", master="bond0")
    veth = interface("veth1", "10.7.0.1", kind="veth", master="docker0")
    down = {**UPLINKS[1], "flags": []}
    here(
        monkeypatch,
        LOOPBACK,
        UPLINKS[0],
        down,
        bond,
        tagged,
        member,
        veth,
        interface("docker0", "172.17.0.1", kind="bridge"),
    )
    assert link.arrivals("10.9.0.1", ["10.9.0.2"]) == ("bond0", "bond0.7", "eth2", "eth3")
    assert link.arrivals("10.6.0.1", ["10.6.0.2"]) == ("bond0.7",)


# ---- who has the port -----------------------------------------------------------------------------------------------


def vxlan(name: str, port: int = 4789, *flags: str, **data: Any) -> Link:
    kind = {"info_kind": "vxlan", "info_data": {"port": port, **data}}
    return link.read_link({"ifname": name, "flags": list(flags or ("UP",)), "linkinfo": kind})


@pytest.mark.parametrize(
    ("links", "listens", "holder"),
    [
        ([], False, ""),
        ([vxlan("ccx1", id=7)], True, ""),
        ([vxlan("flannel.1", id=1, learning=False)], True, ""),
        ([vxlan("vxlan.calico", 4789, "BROADCAST", external=True)], False, ""),
        ([vxlan("cilium_vxlan", 8472, external=True)], False, ""),
        ([vxlan("ccx1", id=7), vxlan("vxlan_sys_4789", external=True)], True, "the link vxlan_sys_4789"),
        ([vxlan("policy", gbp=True)], True, "the link policy"),
        ([], True, "something else than a program"),
    ],
    ids=["nobody", "own", "alike", "down", "another port", "Open vSwitch", "group policy", "no link"],
)
def test_a_vxlan_of_another_kind_holds_the_port(
    links: list[Link], listens: bool, holder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = {("0.0.0.0", 4789, "udp")} if listens else set()
    monkeypatch.setattr(link, "listening_ports", lambda: taken)
    monkeypatch.setattr(link, "_program_at", lambda _port: "")
    monkeypatch.setattr(link, "details", lambda: links)
    why = link.why_no_port(4789, links)
    assert ("UDP port 4789, " in why and f"is held by {holder}" in why) if holder else not why


@pytest.mark.parametrize(
    "moments",
    [
        [(True, [vxlan("ccx1", id=7)])],
        [(True, [vxlan("ccx1", 4789, "BROADCAST", id=7)]), (True, [vxlan("ccx1", id=7)])],
        [(False, [])],
        [(True, []), (True, []), (False, [])],
    ],
    ids=["came since", "comes up", "went since", "goes"],
)
def test_an_overlay_that_comes_or_goes_meanwhile_is_nobody_else_s(
    moments: list[tuple[bool, list[Link]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the moments after the first, in which the port is held and no link is there: is it held, which links."""
    left = [(True, []), *moments]
    taken = ("0.0.0.0", 4789, "udp")

    def later() -> list[Link]:
        del left[0]
        return left[0][1]

    monkeypatch.setattr(link, "details", later)
    monkeypatch.setattr(link, "listening_ports", lambda: {taken} if left[0][0] else [])
    monkeypatch.setattr(link, "_program_at", lambda _port: "")
    monkeypatch.setattr(link, "PAUSES", (0.0, 0.0, 0.0))
    assert link.why_no_port(4789, []) == ""
    assert len(left) == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"eth0": "10.0.0.2", "eth2": "10.0.1.2"}, {"eth0": "10.0.0.2", "eth1": "10.0.1.2"}),
        ({"eth1": "10.0.0.2", "eth0": "10.0.1.2"}, {"eth0": "10.0.0.2", "eth1": "10.0.1.2"}),
        ({"eth0": "10.0.0.2", "eth1": "10.0.1.2"}, {"eth0": "10.0.0.2", "eth1": "10.0.1.2"}),
    ],
)
def test_an_interface_gets_its_name_whoever_has_it(
    before: dict[str, str], after: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names, macs = dict(before), dict.fromkeys(before, "old")
    down: set[str] = set()

    def run(_pid: int, command: list[str]) -> str:
        if command[:2] == ["ip", "-j"]:
            return json.dumps([{**interface(name, names[name]), "address": macs[name]} for name in names])
        name, *settings = command[4:]
        if settings[0] == "name":
            assert name in down
            assert settings[1] == name or settings[1] not in names, "File exists"
            names[settings[1]], macs[settings[1]] = names.pop(name), macs.pop(name)
            down.remove(name)
            down.add(settings[1])
        elif settings[0] == "address":
            macs[name] = settings[1]
        if settings[-1] == "down":
            down.add(name)
        elif settings[-1] == "up":
            down.remove(name)
        return ""

    monkeypatch.setattr(link, "run_in_network_of", run)
    link.ensure_interface(7, "10.0.1.2", "eth1", "new")
    assert (names, macs["eth1"], macs["eth0"], down) == (after, "new", "old", set())

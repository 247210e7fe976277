# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import decode, encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.facts import HostFacts
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.overlays import Overlays
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    OverlayTunnel,
    new_record,
    prepared,
    stub_of,
    tunnel_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules import isolation
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.isolation import (
    STANDING,
    Door,
    Isolation,
    PublishedPort,
    Rules,
    Tunnel,
    digest,
    iptables_comment,
    iptables_rules,
    is_kept_out,
    nft_rules,
    nft_table,
    read_comment,
    read_table_name,
    standing_iptables_rules,
    standing_nft_rules,
    table_name,
    tunnel_on_host,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.membership import (
    QUESTION,
    WAITING,
)
from ansible_collections.cluster_compute.session.tests.support.plans import typed_plan

SESSION = "4f8c2a10-1111-4222-8333-444455556666"
ENDPOINTS = ("192.0.2.1", "192.0.2.2")
RECORD = new_record(SESSION, "alice", {"name": "train"})
NETWORK: dict[str, Any] = {"link": "ccx4f8c2a10", "vni": 5000, "port": 4789, "tunnel": None}


def plan(ports: list[dict[str, Any]], network: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "session": {"id": SESSION, "name": "train"},
        "request": {},
        "network": network,
        "egress": {"name": "cc-4f8c2a10-egress", "subnet": "10.213.4.0/28"},
        "hosts": {
            "h1": {"underlay_address": "192.0.2.1", "underlay_interface": "eth0"},
            "h2": {"underlay_address": "192.0.2.2", "underlay_interface": "eth7"},
        },
        "replicas": [{"host": "h1", "ports": ports}, {"host": "h2", "ports": []}],
    }


def isolation_of(plain: dict[str, Any], host: str, *, gave_up: bool = False) -> Isolation:
    return isolation.isolation_of(typed_plan(plain), host, tunnel_of(plain), gave_up=gave_up)


def port(host_ip: str, protocol: str = "tcp") -> dict[str, Any]:
    return {"host_ip": host_ip, "host_port": 8080, "container_port": 80, "protocol": protocol}


@pytest.mark.parametrize(
    ("host_ip", "published", "closed"),
    [
        ("", (PublishedPort("tcp", 8080, 80, None),), ()),
        ("0.0.0.0", (PublishedPort("tcp", 8080, 80, None),), ()),
        ("192.0.2.1", (PublishedPort("tcp", 8080, 80, "192.0.2.1"),), ()),
        ("127.0.0.1", (), (("tcp", "127.0.0.1", 8080),)),
        ("127.8.0.1", (), (("tcp", "127.8.0.1", 8080),)),
        ("::1", (), ()),
    ],
)
def test_a_port_is_open_at_the_address_it_was_asked_for(host_ip: str, published: Any, closed: Any) -> None:
    found = isolation_of(plan([port(host_ip)], NETWORK), "h1")
    assert (found.published, found.closed) == (published, closed)
    elsewhere = isolation_of(plan([port(host_ip)], NETWORK), "h2")
    assert (elsewhere.published, elsewhere.closed) == ((), ())


def test_the_network_decides_which_interfaces_are_guarded() -> None:
    assert isolation_of(plan([]), "h1").inner is None
    bridge = isolation_of(plan([], {"link": None, "vni": None, "port": None}), "h1")
    assert (bridge.inner, bridge.tunnel) == ("ccb4f8c2a10", None)
    overlay = isolation_of(plan([], NETWORK), "h2")
    assert overlay.inner == "ccx4f8c2a10"
    encrypted = isolation_of(plan([], {**NETWORK, "tunnel": {"link": "ccw4f8c2a10"}}), "h2")
    assert (encrypted.inner, encrypted.tunnel) == ("ccx4f8c2a10", None)
    assert overlay.tunnel == Tunnel(5000, 4789, ("192.0.2.1", "192.0.2.2"), ("eth7",), "192.0.2.2")
    assert overlay.tunnel.peers == ("192.0.2.1",)


def test_a_plan_that_is_read_back_asks_for_the_same_rules() -> None:
    made = plan([], NETWORK)
    made["hosts"]["h0"] = {"underlay_address": "192.0.2.3", "underlay_interface": "eth0"}
    made["request"]["on_host_loss"] = "replace"
    kept = json.loads(json.dumps(made, sort_keys=True))
    assert list(kept["hosts"]) != list(made["hosts"])
    assert isolation_of(made, "h1") == isolation_of(kept, "h1")
    assert isolation_of(made, "h1").doors == isolation_of(kept, "h1").doors
    assert isolation_of(made, "h1").doors


def test_a_note_holds_what_a_host_without_replicas_guards() -> None:
    stub = stub_of(prepared(RECORD, plan([], NETWORK)))
    assert stub.tunnel == OverlayTunnel(5000, 4789, ENDPOINTS)
    assert stub_of(stub).tunnel == stub.tunnel
    assert tunnel_of(plan([])) is None
    found = Isolation(SESSION, "train", tunnel_on_host(stub.tunnel, ("eth0",)))
    rules = iptables_rules(found)
    assert set(rules) == {"DOCKER-USER", "cc-4f8c2a10"}
    assert [rule.split(" ")[1] for rule in rules["cc-4f8c2a10"]] == ["192.0.2.1", "192.0.2.2"]
    assert set(nft_rules(found)) == {"forward"}


def all_rules(rules: Rules) -> list[str]:
    return [rule for some in rules.values() for rule in some]


@pytest.mark.parametrize("rules", [iptables_rules, nft_rules], ids=["iptables", "nft"])
def test_what_is_not_let_through_is_dropped_last(rules: Any) -> None:
    found = rules(isolation_of(plan([port("192.0.2.1", "udp")], NETWORK), "h1"))
    egress = [rule for rule in found.get("cc-4f8c2a10") or found["forward"] if "cce4f8c2a10" in rule]
    assert "drop" in egress[-1].lower()
    assert "192.0.2.1" in egress[-2]
    assert "8080" in egress[-2]
    incoming = found.get("cc-4f8c2a10-in") or found["input"]
    assert "192.0.2.2" in incoming[0]
    assert "drop" in incoming[-1].lower()


def test_ipv6_underlays_are_guarded_by_ip6tables() -> None:
    found = Isolation(
        SESSION, "train", Tunnel(5000, 4789, ("fd00::1", "fd00::2"), ("eth0",), "fd00::1"), "10.213.4.0/28"
    )
    assert not [rule for rule in all_rules(iptables_rules(found)) if "4789" in rule]
    rules = iptables_rules(found, ipv6=True)
    assert not [rule for rule in all_rules(rules) if "10.213" in rule]
    # A header before that of UDP would move the identifier, so such packets go first.
    assert '! --u32 "3&0xFF=17" -j DROP' in rules["INPUT"][0]
    assert '--u32 "52>>8=5000"' in rules["INPUT"][1]
    assert "ip6 saddr { fd00::2 }" in nft_rules(found)["input"][0]


def test_no_ipv6_goes_in_or_out_whatever_the_underlay_is() -> None:
    found = iptables_rules(isolation_of(plan([port("192.0.2.1", "udp")], NETWORK), "h1"), ipv6=True)
    assert sorted(found) == ["DOCKER-USER", "cc-4f8c2a10"]
    for link in ("ccx4f8c2a10", "cce4f8c2a10"):
        assert [rule for rule in found["cc-4f8c2a10"] if link in rule] == [
            f"-i {link} -o {link} -j RETURN",
            f"-i {link} -j DROP",
            f"-o {link} -j DROP",
        ]
    # A host that carries no replica has no link of the session.
    assert iptables_rules(Isolation(SESSION, "train", Tunnel(5000, 4789, ("192.0.2.1",))), ipv6=True) == {}


def test_a_rule_and_a_table_tell_whose_they_are() -> None:
    comment = iptables_comment(SESSION, "train", "-j DROP")
    assert read_comment(comment) == (SESSION, "train", digest("-j DROP"))
    assert digest("-j DROP") != digest("-j ACCEPT")
    assert read_comment("cluster-compute-lab it") is None
    assert read_comment("cluster-compute x train 1") is None
    name = table_name(SESSION, "train-2")
    assert read_table_name(name) == (SESSION, "train-2")
    assert read_table_name("cluster-compute-other") is None
    assert read_table_name("filter") is None


def test_names_are_as_long_as_the_programs_take() -> None:
    longest = "x" * 40
    found = isolation_of(plan([port("")], NETWORK), "h1")
    assert max(map(len, iptables_rules(found))) <= 28
    assert len(iptables_comment(SESSION, longest, "")) <= 255
    assert len(table_name(SESSION, longest)) <= 255


def test_a_table_is_replaced_as_a_whole() -> None:
    text = nft_table("t", {"input": ["tcp dport 1 drop"]})
    assert text.splitlines()[:3] == ["table inet t", "delete table inet t", "table inet t {"]
    assert f'tcp dport 1 drop comment "{digest("tcp dport 1 drop")}"' in text


@pytest.mark.parametrize("ipv6", [False, True], ids=["IPv4", "IPv6"])
def test_packets_may_come_by_several_interfaces_and_by_no_other(ipv6: bool) -> None:
    ends = ("fd00::1", "fd00::2") if ipv6 else ENDPOINTS
    door = Door(5000, 4789, ("eth2", "eth3"), ends[0], (ends[1],), (), encrypted=False)
    found = Isolation(SESSION, "train", Tunnel(5000, 4789, ends, ("eth2", "eth3"), ends[0]), doors=(door,))
    rules = iptables_rules(found, ipv6)
    assert rules["DOCKER-USER"] == ["-p udp -m udp --dport 4789 -j cc-4f8c2a10-out"]
    out = rules["cc-4f8c2a10-out"]
    assert out[:2] == ["-i eth2 -j RETURN", "-i eth3 -j RETURN"]
    assert [rule.split(" ")[1] for rule in out[-2:]] == list(ends)
    assert all(rule.endswith("-j DROP") for rule in out[2:])
    incoming = rules["cc-4f8c2a10-in"]
    assert [rule.split(" ")[3] for rule in incoming[:2]] == ["eth2", "eth3"], "who asks is told first"
    accepted = f"-s {ends[1]} -d {ends[0]} -i"
    assert incoming[2:] == [f"{accepted} eth2 -j RETURN", f"{accepted} eth3 -j RETURN", "-j DROP"]
    table = nft_rules(found)
    assert table["forward"][0].startswith('iifname != { "eth2", "eth3" } ')
    assert all('iifname { "eth2", "eth3" } ' in rule for rule in table["input"][:-1])
    assert "cc-4f8c2a10" not in rules, "there is no egress here"


@pytest.mark.parametrize(("most", "allowed"), [(0, 0), (16, 1), (65536, 2048), (262144, 8192)])
def test_a_session_may_have_its_part_of_the_connections_of_a_host(most: int, allowed: int) -> None:
    assert isolation.connections_of(most) == allowed


def test_what_begins_a_connection_is_counted_wherever_it_goes() -> None:
    found = replace(isolation_of(plan([port("")], NETWORK), "h1"), connections=12000)
    begins = "-i cce4f8c2a10 -m conntrack --ctstate NEW -j cc-4f8c2a10-new"
    for rules in (iptables_rules(found), iptables_rules(found, ipv6=True)):
        assert rules["cc-4f8c2a10-new"] == [
            "-m connlimit --connlimit-above 12000 --connlimit-mask 0 -j DROP",
            "-m limit --limit 93/sec --limit-burst 10000 -j RETURN",
            "-j DROP",
        ]
        assert begins in rules["INPUT"], "to the host itself"
    own = iptables_rules(found)["cc-4f8c2a10"]
    assert own.index("! -s 10.213.4.0/28 -i cce4f8c2a10 -j DROP") < own.index(begins), "after what is forged"
    for chain in nft_rules(found).values():
        assert 'iifname "cce4f8c2a10" ct state new ct count over 12000 drop' in chain
        assert 'iifname "cce4f8c2a10" ct state new limit rate over 93/second burst 12000 packets drop' in chain
    for without in (replace(found, connections=0), replace(found, egress=None)):
        every = [*iptables_rules(without).values(), *nft_rules(without).values()]
        assert not [rule for chain in every for rule in chain if "NEW" in rule or "state new" in rule]


# ---- who asks for its membership ------------------------------------------------------------------------------------

FENCED = "192.0.2.9"


def test_without_a_policy_and_a_lost_host_nobody_is_told_anything() -> None:
    assert isolation_of(plan([], NETWORK), "h1").doors == ()
    assert isolation_of({**plan([], NETWORK), "request": {"on_host_loss": "end"}}, "h1").doors == ()
    assert isolation_of({**plan([]), "request": {"on_host_loss": "replace"}}, "h1").doors == ()
    assert isolation_of({**plan([], NETWORK), "request": {"on_host_loss": "replace"}}, "h1").doors
    assert isolation_of({**plan([], NETWORK), "fenced": [FENCED]}, "h1").doors


def test_a_host_that_was_let_go_of_gets_no_answer_before_most_witnesses_have_agreed() -> None:
    given = typed_plan({**plan([], NETWORK), "fenced": [FENCED]})
    told, silent = (
        isolation.isolation_of(given, "h1", None, is_undecided=is_undecided).doors for is_undecided in (False, True)
    )
    assert [door.fenced for door in (*told, *silent)] == [(FENCED,), ()]
    assert [door.members for door in silent] == [door.members for door in told]


def test_who_asks_is_told_before_the_tunnel_is_guarded_and_by_that_rule_alone() -> None:
    given = {**plan([], NETWORK), "request": {"on_host_loss": "replace"}, "fenced": [FENCED]}
    found, default = iptables_rules(isolation_of(given, "h1")), iptables_rules(isolation_of(plan([], NETWORK), "h1"))
    question = "0>>22&0x3C@8=0x8000001&&0>>22&0x3C@12>>8=5000"
    assert found.pop("cc-4f8c2a10-ask") == [
        "-s 192.0.2.2 -j REJECT --reject-with icmp-proto-unreachable",
        "-s 192.0.2.9 -j REJECT --reject-with icmp-net-prohibited",
        "-j DROP",
    ]
    assert found["cc-4f8c2a10-in"].pop(0) == (
        f'-d 192.0.2.1 -i eth0 -p udp -m udp --dport 4789 -m u32 --u32 "{question}" -j cc-4f8c2a10-ask'
    )
    assert found == default
    asks = 'iifname "eth0" ip daddr 192.0.2.1 udp dport 4789 @th,64,32 0x8000001 @th,96,24 5000'
    table = nft_rules(isolation_of(given, "h1"))
    assert table["input"][:3] == [
        f"ip saddr {{ 192.0.2.2 }} {asks} reject with icmp type prot-unreachable",
        f"ip saddr {{ 192.0.2.9 }} {asks} reject with icmp type net-prohibited",
        f"{asks} drop",
    ]
    assert {**table, "input": table["input"][3:]} == nft_rules(isolation_of(plan([], NETWORK), "h1"))


def test_hosts_of_an_encrypted_session_are_told_at_its_own_port() -> None:
    network = {**NETWORK, "port": 51900, "tunnel": {"link": "ccw4f8c2a10"}}
    found = iptables_rules(isolation_of({**plan([], network), "fenced": [FENCED]}, "h1"))
    assert len(found["INPUT"]) == 1
    assert "--dport 51900" in found["INPUT"][0]
    assert found["INPUT"][0].endswith("-j cc-4f8c2a10-ask")
    assert "cc-4f8c2a10-in" not in found


def test_ip6tables_answers_on_an_ipv6_underlay() -> None:
    door = Door(5000, 4789, ("eth0",), "fd00::1", ("fd00::2",), ("fd00::9",), encrypted=False)
    tunnel = Tunnel(5000, 4789, ("fd00::1", "fd00::2"), ("eth0",), "fd00::1")
    found = Isolation(SESSION, "train", tunnel, doors=(door,))
    assert "cc-4f8c2a10-ask" not in iptables_rules(found)
    rules = iptables_rules(found, ipv6=True)
    assert '"48=0x8000001&&52>>8=5000"' in rules["cc-4f8c2a10-in"][0]
    assert [rule.split(" ")[-1] for rule in rules["cc-4f8c2a10-ask"]] == [
        "icmp6-policy-fail",
        "icmp6-reject-route",
        "DROP",
    ]
    assert "reject with icmpv6 type reject-route" in nft_rules(found)["input"][1]


def test_a_host_that_was_given_replicas_again_is_no_lost_one() -> None:
    (door,) = isolation_of({**plan([], NETWORK), "fenced": ["192.0.2.1", "192.0.2.2", FENCED]}, "h1").doors
    assert (door.members, door.fenced) == (("192.0.2.2",), (FENCED,))


@pytest.mark.parametrize("policy", [None, "replace"])
def test_who_gave_up_says_so_to_those_that_wait_for_it(policy: str | None) -> None:
    made = {**plan([], NETWORK), "request": {"on_host_loss": policy}}
    before, found = isolation_of(made, "h1"), isolation_of(made, "h1", gave_up=True)
    last = found.doors[-1]
    assert replace(found, doors=found.doors[:-1]) == before, "all else is as before"
    assert (last.members, last.fenced, last.flags) == ((), ("192.0.2.2",), WAITING)
    for rules in (iptables_rules(found), nft_rules(found)):
        every = [rule for some in rules.values() for rule in some]
        assert [rule for rule in every if hex(WAITING) in rule]
        assert any(hex(QUESTION) in rule for rule in every) is (policy == "replace")
    assert isolation_of(plan([]), "h1", gave_up=True).doors == (), "nobody waits for it"
    alone = {**made, "hosts": {"h1": made["hosts"]["h1"]}}
    assert not [door for door in isolation_of(alone, "h1", gave_up=True).doors if door.flags == WAITING]


def test_an_overlay_on_one_host_alone_takes_packets_of_nobody() -> None:
    made = plan([], NETWORK)
    made["hosts"].pop("h2")
    found = nft_rules(isolation_of(made, "h1"))
    assert not [rule for some in found.values() for rule in some if "{  }" in rule], "nft takes no empty set"
    assert [rule for rule in found["input"] if rule.endswith("drop")]


# ---- all overlays of a site -----------------------------------------------------------------------------------------


def test_containers_are_kept_out_of_every_overlay_of_the_site() -> None:
    overlays = Overlays(4789, 4096, 5000, "eth7")
    to_port = "! -i eth7 ! -o ccb+ -p udp -m udp --dport 4789"
    assert standing_iptables_rules(overlays) == {
        "DOCKER-USER": [f'{to_port} -m u32 --u32 "0>>22&0x3C@12>>8=4096:5000" -j DROP']
    }
    assert standing_iptables_rules(overlays, ipv6=True) == {
        "DOCKER-USER": [
            f'{to_port} -m u32 ! --u32 "3&0xFF=17" -j DROP',
            f'{to_port} -m u32 --u32 "52>>8=4096:5000" -j DROP',
        ]
    }
    assert standing_nft_rules(overlays) == {
        "forward": ['iifname != "eth7" oifname != "ccb*" udp dport 4789 @th,96,24 4096-5000 drop']
    }
    anywhere = Overlays(4789, 4096, 5000)
    assert "-i" not in standing_iptables_rules(anywhere)["DOCKER-USER"][0].split()
    assert "iifname" not in standing_nft_rules(anywhere)["forward"][0]


@pytest.mark.parametrize(
    ("tunnel", "covered"),
    [
        (None, True),
        (OverlayTunnel(4096, 4789, ENDPOINTS), True),
        (OverlayTunnel(5000, 4789, ENDPOINTS), True),
        (OverlayTunnel(4095, 4789, ENDPOINTS), False),
        (OverlayTunnel(5001, 4789, ENDPOINTS), False),
        (OverlayTunnel(4500, 8472, ENDPOINTS), False),
    ],
)
def test_overlays_outside_of_the_pool_are_not_covered(tunnel: OverlayTunnel | None, covered: bool) -> None:
    overlays = Overlays(4789, 4096, 5000)
    assert overlays.cover(tunnel) is covered
    assert is_kept_out(HostFacts(overlays=overlays), replace(RECORD, tunnel=tunnel)) is covered
    assert not is_kept_out(HostFacts(), replace(RECORD, tunnel=tunnel))
    assert decode(Overlays, encode(overlays), "It") == overlays


def test_rules_of_no_session_are_told_from_those_of_sessions() -> None:
    assert read_comment(iptables_comment(*STANDING, "x")) == (*STANDING, digest("x"))
    assert read_table_name(table_name(*STANDING)) == STANDING

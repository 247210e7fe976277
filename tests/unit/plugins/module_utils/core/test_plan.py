# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan from end to end: facts in, plan out, slices, checks against hosts, and plans that are read back."""

from __future__ import annotations

import copy
import ipaddress
import json
import re
import uuid
from dataclasses import replace

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils.core.environment import environments
from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import (
    InvalidInput,
    InvalidPlan,
    PoolExhausted,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.failure import FAILURE_POLICIES
from ansible_collections.cluster_compute.session.plugins.module_utils.core.ledger import claims_of
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.mounts import Mount
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.request import Request, parse_request
from ansible_collections.cluster_compute.session.plugins.module_utils.core.placement import (
    Capacity,
    Host,
    Placement,
    Shortfall,
    place,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.plan import (
    SCHEMA,
    Settings,
    build_plan,
    check_request_against_hosts,
    hosts_from_facts,
    overlay_mtu,
    render_shortfall,
    validate_plan,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.resources import PINNED
from hypothesis import given, settings
from hypothesis import strategies as st

GIB = 1024**3
SESSION = "3614fdf3-0e04-4a3c-8f3e-2b1d6c7a9e10"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAID0D3s8E9JWn04xEIs9iqqoeVlWJbCLHvqIY+zMlCfIT"


def make_request(**given_values) -> Request:
    values = {"name": "demo", "image": "debian:12", **given_values}
    return parse_request({f"session_{key}": value for key, value in values.items()})


def topology(*cores, nodes=(), memory=None):
    """Return the facts of cores with these CPUs; nodes: the NUMA node of each core."""
    return {
        "cores": [{"node": node, "cpus": list(cpus)} for cpus, node in zip(cores, nodes or [0] * len(cores))],
        "memory": {"0": 16 * GIB} if memory is None else memory,
    }


def make_facts(number=3, cpus=4, memory=16, **changes):
    return {
        f"h{i}": {
            "usable": True,
            "problem": "",
            "capacity": {"cpus": cpus * 1000, "memory": memory * GIB},
            "containers": [],
            "underlay": {"address": f"192.0.2.{i}", "interface": "eth0", "mtu": 1500},
            "subnets": ["0.0.0.0/0", "192.0.2.0/24"],
            "vnis": [],
            "ports": [],
            "images": {},
            "paths": {},
            "volumes": {},
            "records": [],
            **copy.deepcopy(changes),
        }
        for i in range(1, number + 1)
    }


ALLOWED = {f"h{i}": {"cluster_compute_mount_roots": ["/a", "/srv"]} for i in range(1, 9)}


def about_path(path, **changes):
    """Return what a host reports of a folder that is there."""
    parts = path.split("/")
    return {
        "kind": "directory",
        "real": path,
        "ancestors": {one: one for one in ["/", *("/".join(parts[:n]) for n in range(2, len(parts) + 1))]},
        "parent": True,
        "owner": "0:0",
        "mode": "0755",
        "filesystem": "ext4",
        "origin": "/dev/vda1",
        "inode": 12,
        "read_only": False,
        **changes,
    }


def make_plan(request=None, facts=None, session_id=SESSION, current=None, site=None):
    request = make_request(size=4, cpus=2) if request is None else request
    facts = make_facts(paths={m.source: about_path(m.source) for m in request.mounts}) if facts is None else facts
    placement = place(request, hosts_from_facts(facts, {}, request.name))
    assert isinstance(placement, Placement)
    return build_plan(request, placement, session_id, facts, site or Settings(), current, inventory=ALLOWED)


def test_a_multi_node_plan():
    plan = make_plan()
    assert plan["schema"] == SCHEMA
    assert plan["session"] == {
        "id": SESSION,
        "name": "demo",
        "mode": "multi-node",
        "requested_mode": "multi-node",
        "size": 4,
        "resource_group": "cluster_compute_hosts",
    }
    subnet = plan["network"].pop("subnet")
    vni = plan["network"].pop("vni")
    assert plan["network"] == {
        "driver": "vxlan",
        "name": "cc-3614fdf3",
        "interface": "eth1",
        "mtu": 1450,
        "port": 4789,
        "link": "ccx3614fdf3",
        "tunnel": None,
    }
    assert 4096 <= vni <= 16777215
    network = ipaddress.ip_network(subnet)
    assert network.subnet_of(ipaddress.ip_network("10.213.0.0/16"))
    assert network.prefixlen == 28
    egress = ipaddress.ip_network(plan["egress"].pop("subnet"))
    assert plan["egress"] == {"name": "cc-3614fdf3-egress"}
    assert not egress.overlaps(network)
    assert plan["hosts"] == {
        f"h{number}": {
            "underlay_address": f"192.0.2.{number}",
            "underlay_interface": "eth0",
            "tunnel_address": None,
            "replicas": replicas,
            "mount_roots": [],
            "data": {},
        }
        for number, replicas in ((1, ["main1", "sub1"]), (2, ["sub2", "sub3"]))
    }
    assert [
        (r["name"], r["role"], r["index"], r["rank"], r["host"], r["local_rank"], r["node_rank"])
        for r in plan["replicas"]
    ] == [
        ("main1", "main", 1, 0, "h1", 0, 0),
        ("sub1", "sub", 1, 1, "h1", 1, 0),
        ("sub2", "sub", 2, 2, "h2", 0, 1),
        ("sub3", "sub", 3, 3, "h2", 1, 1),
    ]
    assert [r["address"] for r in plan["replicas"]] == [str(network[n]) for n in range(2, 6)]
    for replica in plan["replicas"]:
        packed = ipaddress.ip_address(replica["address"]).packed
        assert replica["mac"] == "02:42:" + packed.hex(":")
        assert replica["container"] == f"demo-{replica['name']}"
        assert replica["resources"] == {
            "cpus": 2000,
            "memory": GIB,
            "shm_size": 64 * 1024**2,
            "accelerators": {},
            "pin_cpus": False,
        }
        environment = environments(plan, replica["host"])[replica["name"]]
        assert environment["CLUSTER_COMPUTE_HOST"] == replica["host"]
        assert environment["LOCAL_RANK"] == str(replica["local_rank"])
        assert environment["NODE_RANK"] == str(replica["node_rank"])
        assert environment["RANK"] == environment["BACKENDAI_CLUSTER_LOCAL_RANK"] == str(replica["rank"])
        assert environment["BACKENDAI_KERNEL_ID"] == replica["kernel_id"]
        assert environment["BACKENDAI_CLUSTER_MODE"] == "multi-node"
    assert plan["replicas"][0]["kernel_id"] == SESSION
    assert plan["replicas"][1]["kernel_id"] == str(uuid.uuid5(uuid.UUID(SESSION), "sub1"))
    assert len({replica["kernel_id"] for replica in plan["replicas"]}) == 4


def test_the_plan_is_json_and_reads_back():
    plan = make_plan(make_request(size=4, cpus=2, ports="80", mounts="/a:/b:ro", env="A=x", command="sleep 9"))
    again = json.loads(json.dumps(plan))
    assert again == plan
    validate_plan(again)
    assert Request.from_dict(again["request"]).to_dict() == plan["request"]
    assert make_plan(Request.from_dict(again["request"])) == plan


def test_what_fits_one_host_gets_a_bridge_there():
    plan = make_plan(make_request(size=2, cpus=2))
    assert plan["session"]["mode"] == "single-node"
    assert plan["session"]["requested_mode"] == "multi-node"
    assert environments(plan, "h1")["sub1"]["BACKENDAI_CLUSTER_MODE"] == "single-node"
    assert list(plan["hosts"]) == ["h1"]
    network = plan["network"]
    assert (network["driver"], network["name"], network["interface"]) == ("bridge", "cc-3614fdf3", "eth1")
    assert [network[key] for key in ("mtu", "vni", "port", "link")] == [None] * 4
    validate_plan(plan)


def test_an_encrypted_session_has_a_tunnel_where_it_spans_hosts():
    request = make_request(size=4, cpus=2, encrypted=True, ports="8080:80,61004:9/udp")
    facts = make_facts(ports=[{"address": "192.0.2.9", "port": 61002, "protocol": "udp"}], encryption="")
    site = Settings(vxlan_port=8472, encrypted_ports="61002-61004")
    plan = make_plan(request, facts, site=site)
    assert plan["network"]["port"] == 61003
    # 1500 less WireGuard's 60 over IPv4, less VXLAN's 70 over IPv6.
    assert plan["network"]["mtu"] == 1370
    assert plan["network"]["tunnel"] == {"link": "cct3614fdf3", "mtu": 1440, "vxlan_port": 8472}
    assert [entry["tunnel_address"] for entry in plan["hosts"].values()] == ["fe80::1", "fe80::2"]
    validate_plan(json.loads(json.dumps(plan)))
    assert all(("0.0.0.0", 61003, "udp") in claim.ports for claim in claims_of(plan).values())
    other = make_plan(make_request(size=4, cpus=2, encrypted=True, ports="61003:9/udp"), facts, site=site)
    assert other["network"]["port"] == 61004
    with pytest.raises(PoolExhausted, match="has no free port left"):  # overlays in plain have it
        make_plan(request, facts, site=Settings(vxlan_port=61003, encrypted_ports="61003-61003"))
    again = build_plan(request, place(request, hosts_from_facts(facts, {})), SESSION, facts, Settings(), plan)
    assert again["network"]["port"] == 61003
    for change in ({"encryption": "Its kernel has no WireGuard."}, {"encryption": "x"}):
        facts["h2"].update(change)
        with pytest.raises(InvalidInput, match="Host h2 cannot do it: ") as error:
            check_request_against_hosts(request, facts, place(request, hosts_from_facts(facts, {})))
        assert [problem.variable for problem in error.value.problems] == ["session_encrypted"]
    del facts["h2"]["encryption"]  # who was not asked has not said that it can
    with pytest.raises(InvalidInput, match="Host h2 cannot do it: Nobody looked"):
        check_request_against_hosts(request, facts, place(request, hosts_from_facts(facts, {})))
    plain = make_request(size=4, cpus=2)
    check_request_against_hosts(plain, facts, place(plain, hosts_from_facts(facts, {})))
    with pytest.raises(PoolExhausted, match="cluster_compute_encrypted_ports 61002-61002 has no free port left"):
        make_plan(request, facts, site=Settings(encrypted_ports="61002-61002"))


def test_on_one_host_nothing_has_to_be_encrypted():
    facts = make_facts(encryption="Its kernel has no WireGuard.")
    request = make_request(size=2, cpus=2, encrypted=True)
    check_request_against_hosts(request, facts, place(request, hosts_from_facts(facts, {})))
    plan = make_plan(request, facts)
    assert plan["network"]["tunnel"] is None
    assert plan["hosts"]["h1"]["tunnel_address"] is None
    validate_plan(plan)
    assert claims_of(plan)["h1"].ports == ()


def test_one_replica_has_no_session_network():
    plan = make_plan(make_request())
    assert plan["network"] is None
    (main,) = plan["replicas"]
    assert (main["address"], main["mac"]) == (None, None)
    told = environments(plan, main["host"])["main1"]
    assert "NCCL_SOCKET_IFNAME" not in told
    assert told["BACKENDAI_CLUSTER_MODE"] == "single-node"
    assert plan["egress"]["subnet"].endswith("/28")
    validate_plan(plan)


def test_ports_are_on_main_only_and_mounts_everywhere():
    plan = make_plan(make_request(size=4, cpus=2, ports="8080:80", mounts="/srv/data:/data"))
    port = {"host_ip": "0.0.0.0", "host_port": 8080, "container_port": 80, "protocol": "tcp"}
    assert [replica["ports"] for replica in plan["replicas"]] == [[port], [], [], []]
    mount = Mount("/srv/data", "/data", False).to_dict()
    assert [replica["mounts"] for replica in plan["replicas"]] == [[mount]] * 4


def test_the_owner_s_port_is_published_by_main_alone():
    plan = make_plan(make_request(size=4, cpus=2, authorized_keys=KEY, ports="80"))
    port = plan["ssh_port"]
    assert 22000 <= port <= 22999
    published = {"host_ip": "0.0.0.0", "host_port": port, "container_port": 2201, "protocol": "tcp"}
    assert [one["ports"][1:] for one in plan["replicas"]] == [[published], [], [], []]
    host = plan["replicas"][0]["host"]
    assert ("0.0.0.0", port, "tcp") in claims_of(plan)[host].ports
    assert all(("0.0.0.0", port, "tcp") not in claim.ports for name, claim in claims_of(plan).items() if name != host)
    assert make_plan()["ssh_port"] is None
    assert make_plan(make_request(authorized_keys=KEY, ssh_port=5))["ssh_port"] == 5


def test_the_owner_s_port_is_free():
    request = make_request(authorized_keys=KEY)
    taken = make_facts(1, ports=[{"address": "192.0.2.1", "port": 22000, "protocol": "tcp"}])
    two = Settings(ssh_ports="22000-22001")
    assert make_plan(request, taken, site=two)["ssh_port"] == 22001
    published = make_request(authorized_keys=KEY, ports="22001:80")
    assert make_plan(published, make_facts(1), site=two)["ssh_port"] == 22000
    with pytest.raises(PoolExhausted, match="cluster_compute_ssh_ports 22000-22001 has no free port left"):
        make_plan(published, taken, site=two)
    # What the session to be replaced has published is free when it is gone.
    one = Settings(ssh_ports="22000-22000")
    first = make_plan(request, make_facts(1), site=one)
    assert make_plan(request, taken, str(uuid.uuid4()), first, one)["ssh_port"] == 22000
    # Others seldom choose the same at the same moment.
    ids = [str(uuid.UUID(int=number)) for number in range(20)]
    assert len({make_plan(request, session_id=chosen)["ssh_port"] for chosen in ids}) > 15


def test_roles_of_their_own():
    roles = [
        {"name": "main", "cpus": 4},
        {
            "name": "worker",
            "replicas": 2,
            "cpus": "500m",
            "image": "alpine:3",
            "env": {"X": "1"},
            "command": ["a", "b"],
        },
    ]
    plan = make_plan(make_request(roles=roles))
    main, first, second = plan["replicas"]
    assert (first["name"], second["name"], second["index"], second["rank"]) == ("worker1", "worker2", 2, 2)
    assert (main["image"], first["image"], first["command"], main["command"]) == (
        "debian:12",
        "alpine:3",
        ["a", "b"],
        None,
    )
    assert first["resources"]["cpus"] == 500
    told = {name: one for host in plan["hosts"] for name, one in environments(plan, host).items()}
    assert told["worker1"]["X"] == "1"
    assert "X" not in told["main1"]
    assert told["main1"]["BACKENDAI_CLUSTER_REPLICAS"] == "main:1,worker:2"
    validate_plan(plan)


def test_node_rank_zero_is_mains_host_wherever_it_is():
    facts = make_facts(2)
    facts["h2"]["capacity"]["cpus"] = 6000
    plan = make_plan(make_request(size=5, cpus=2), facts)
    assert list(plan["hosts"]) == ["h1", "h2"]
    assert {(replica["host"], replica["node_rank"]) for replica in plan["replicas"]} == {("h2", 0), ("h1", 1)}
    validate_plan(plan)
    validate_plan(json.loads(json.dumps(plan, sort_keys=True)))


def test_environments_are_told_to_the_host_that_needs_them_only():
    plan = make_plan()
    assert {host: list(environments(plan, host)) for host in ("h1", "h2", "h3")} == {
        "h1": ["main1", "sub1"],
        "h2": ["sub2", "sub3"],
        "h3": [],
    }


def test_subnets_and_identifiers_in_use_anywhere_are_avoided():
    first = make_plan()
    facts = make_facts()
    facts["h3"]["subnets"] += [first["network"]["subnet"], first["egress"]["subnet"]]
    facts["h3"]["vnis"] = [first["network"]["vni"]]
    second = make_plan(facts=facts)
    assert second["network"]["subnet"] not in (first["network"]["subnet"], first["egress"]["subnet"])
    assert second["egress"]["subnet"] not in (first["network"]["subnet"], first["egress"]["subnet"])
    assert second["network"]["vni"] != first["network"]["vni"]


def test_other_sessions_choose_other_numbers():
    first, second = make_plan(), make_plan(session_id=str(uuid.UUID(int=7)))
    assert first["network"]["subnet"] != second["network"]["subnet"]
    assert first["network"]["vni"] != second["network"]["vni"]


def test_a_session_that_runs_keeps_its_numbers():
    first = make_plan()
    facts = make_facts()
    network = ipaddress.ip_network(first["network"]["subnet"])
    for host in ("h1", "h2"):
        facts[host]["subnets"] += [str(network), f"{network[2]}/32", f"{network[1]}/28", first["egress"]["subnet"]]
        facts[host]["vnis"] = [first["network"]["vni"]]
    assert make_plan(facts=facts, current=first) == first
    assert make_plan(facts=facts)["network"] != first["network"]
    larger = make_plan(make_request(size=20, cpus="500m"), facts, current=first)
    assert larger["network"]["vni"] == first["network"]["vni"]
    assert larger["network"]["subnet"].endswith("/27"), "the old subnet has become too small"
    facts["h3"]["subnets"].append(f"{network[0] - 16}/27")
    facts["h3"]["subnets"].append(f"{network[0]}/27")
    moved = make_plan(facts=facts, current=first)
    assert moved["network"]["subnet"] != first["network"]["subnet"], "somebody else has taken a larger net around it"


def test_settings():
    assert Settings.from_variables({}) == Settings()
    read = Settings.from_variables(
        {
            "cluster_compute_subnet_pool": "10.99.0.0/20",
            "cluster_compute_vni_pool": "5-6",
            "cluster_compute_ssh_ports": " 30 - 40 ",
            "cluster_compute_vxlan_port": "8472",
            "cluster_compute_encrypted_ports": " 700 - 702 ",
            "cluster_compute_topology_keys": "room, rack",
        }
    )
    assert read == Settings("10.99.0.0/20", "5-6", 8472, "700-702", ("room", "rack"), "30-40")
    plan = make_plan(site=read)
    assert plan["network"]["vni"] in (5, 6)
    assert plan["network"]["port"] == 8472
    assert plan["network"]["subnet"].startswith("10.99.")
    assert Settings.from_variables({"cluster_compute_topology_keys": []}).topology_keys == ()
    with pytest.raises(InvalidInput) as error:
        Settings.from_variables(
            {
                "cluster_compute_subnet_pool": "x",
                "cluster_compute_vni_pool": 5,
                "cluster_compute_vxlan_port": 0,
                "cluster_compute_encrypted_ports": "61000-70000",
                "cluster_compute_topology_keys": ["rack", "rack"],
            }
        )
    assert [problem.variable for problem in error.value.problems] == [
        "cluster_compute_subnet_pool",
        "cluster_compute_vni_pool",
        "cluster_compute_vxlan_port",
        "cluster_compute_encrypted_ports",
        "cluster_compute_topology_keys",
    ]


def test_exhausted_pools():
    with pytest.raises(PoolExhausted, match="cluster_compute_subnet_pool"):
        make_plan(site=Settings(subnet_pool="10.213.0.0/28"))
    facts = make_facts(vnis=[5])
    with pytest.raises(PoolExhausted, match="cluster_compute_vni_pool"):
        make_plan(facts=facts, site=Settings(vni_pool="5-5"))


@pytest.mark.parametrize("session_id", ["", "x", SESSION.upper(), "{" + SESSION + "}", SESSION.replace("-", "")])
def test_ids_are_uuids_in_their_usual_form(session_id):
    with pytest.raises(ValueError, match=r"UUID|form"):
        make_plan(session_id=session_id)


# MTU.


def test_mtu_follows_the_least_underlay_of_the_used_hosts():
    facts = make_facts()
    facts["h2"]["underlay"]["mtu"] = 9000
    facts["h3"]["underlay"]["mtu"] = 1300
    assert make_plan(facts=facts)["network"]["mtu"] == 1450, "h3 is not used"
    facts["h1"]["underlay"]["mtu"] = 1400
    assert make_plan(facts=facts)["network"]["mtu"] == 1350


def test_mtu_over_ipv6():
    assert (
        overlay_mtu({"a": {"address": "2001:db8::1", "mtu": 1500}, "b": {"address": "2001:db8::2", "mtu": 9000}})
        == 1430
    )
    both = {"a": {"address": "2001:db8::1", "mtu": 1500}, "b": {"address": "2001:db8::2", "mtu": 9000}}
    assert overlay_mtu(both, encrypted=True) == 1500 - 80 - 70


def test_underlays_that_cannot_be():
    with pytest.raises(InvalidInput, match="must all have IPv4, or all IPv6"):
        overlay_mtu({"a": {"address": "2001:db8::1", "mtu": 1500}, "b": {"address": "192.0.2.1", "mtu": 1500}})
    with pytest.raises(InvalidInput, match="cluster_compute_underlay_address of host b is not given"):
        overlay_mtu({"a": {"address": "192.0.2.1", "mtu": 1500}, "b": {}})
    with pytest.raises(InvalidInput, match="MTU of eth0 on host a is 600: It leaves 550 bytes"):
        overlay_mtu({"a": {"address": "192.0.2.1", "mtu": 600, "interface": "eth0"}})
    assert overlay_mtu({"a": {"address": "192.0.2.1", "mtu": 1340, "interface": "eth0"}}, encrypted=True) == 1210
    with pytest.raises(InvalidInput, match=r"MTU of eth0 on host a is 1339: It leaves 1209 bytes .* at least 1210 are"):
        overlay_mtu({"a": {"address": "192.0.2.1", "mtu": 1339, "interface": "eth0"}}, encrypted=True)


# Facts.


def test_hosts_from_facts():
    facts = make_facts(4)
    facts["h1"]["containers"] = [
        {"name": "x-main1", "session_name": "x", "cpus": 1500, "memory": GIB, "state": "running"},
        {"name": "x-sub1", "session_name": "x", "cpus": 500, "memory": GIB, "state": "exited"},
        {"name": "demo-main1", "session_name": "demo", "cpus": 1000, "memory": GIB, "state": "running"},
    ]
    facts["h2"]["containers"] = [{"name": "y", "session_name": "y", "cpus": 99000, "memory": 99 * GIB}]
    facts["h3"]["usable"] = False
    inventory = {
        "h1": {
            "cluster_compute_reserved_cpus": "500m",
            "cluster_compute_reserved_memory": "2g",
            "cluster_compute_labels": {"rack": "r1", "zone": 1},
            "cluster_compute_max_replicas": "5",
            "cluster_compute_accelerators": {"gpu": ["/dev/a", "/dev/b"]},
        },
        "h2": {"cluster_compute_cpus": "2", "cluster_compute_memory": "4g", "cluster_compute_reserved_cpus": 1},
        "h4": {"cluster_compute_reserved_cpus": 64, "cluster_compute_cpus": ""},
    }
    h1, h2, h4 = hosts_from_facts(facts, inventory, "demo")
    assert h1 == Host(
        "h1",
        Capacity(3500, 14 * GIB, (("gpu", 2),)),
        Capacity(1500, 12 * GIB, (("gpu", 2),)),
        (("rack", "r1"), ("zone", "1")),
        3,
        5,
        (("gpu", ("/dev/a", "/dev/b")),),
        (("gpu", ("/dev/a", "/dev/b")),),
    )
    assert h2 == Host("h2", Capacity(2000, 4 * GIB), Capacity(0, 0)), "what is set is what sessions may use"
    assert h4 == Host("h4", Capacity(0, 16 * GIB), Capacity(0, 16 * GIB))
    assert hosts_from_facts(facts, inventory)[0].free.cpus == 500, "without a name everything counts"


def test_accelerators_in_use_are_not_free():
    facts = make_facts(1)
    held = {"gpu": ["/dev/b"], PINNED: ["3"]}
    facts["h1"]["containers"] = [{"name": "x", "session_name": "x", "cpus": 1, "memory": 1, "devices": held}]
    facts["h1"]["topology"] = topology([0], [2], [1], [3])
    inventory = {"cluster_compute_accelerators": {"gpu": ["/dev/a", "/dev/b", "/dev/c"]}, "cluster_compute_cpus": 3}
    (host,) = hosts_from_facts(facts, {"h1": inventory})
    assert host.free_devices == (("gpu", ("/dev/a", "/dev/c")), (PINNED, ("2", "1")))
    assert host.free.devices == (("gpu", 2), (PINNED, 2))
    assert host.allocatable.devices == (("gpu", 3), (PINNED, 3)), "the first CPU is kept back for the host"


def test_of_a_core_that_is_held_in_part_nothing_is_free():
    facts = make_facts(1)
    held = {PINNED: ["6"]}
    facts["h1"]["containers"] = [{"name": "x", "session_name": "x", "cpus": 1, "memory": 1, "devices": held}]
    facts["h1"]["topology"] = topology([0, 4], [1, 5], [2, 6], [3, 7])
    (host,) = hosts_from_facts(facts, {"h1": {"cluster_compute_cpus": 7}})
    assert host.threads == 2
    assert host.devices == ((PINNED, ("1", "5", "2", "6", "3", "7")),), "half a core is not given away"
    assert host.free_devices == ((PINNED, ("1", "5", "3", "7")),)
    assert (host.allocatable.devices, host.free.devices) == (((PINNED, 6),), ((PINNED, 4),))
    facts["h1"]["topology"] = topology([0, 4], [1, 5], [2], [3])
    (host,) = hosts_from_facts(facts, {"h1": {"cluster_compute_cpus": 6}})
    assert (host.threads, host.allocatable.devices) == (1, ((PINNED, 4),)), "every core counts as the least of them"


def test_pinned_replicas_get_whole_cores_and_the_memory_of_their_nodes():
    facts = make_facts(1, cpus=8)
    nodes = [0, 0, 1, 1]
    memory = {"0": 2 * GIB, "1": 2 * GIB}
    facts["h1"]["topology"] = topology([0, 4], [2, 6], [1, 5], [3, 7], nodes=nodes, memory=memory)
    roles = [{"name": "main", "cpus": 1}, {"name": "sub", "replicas": 1, "cpus": 3}]

    def planned(**more):
        request = make_request(roles=roles, pin_cpus=True, **more)
        hosts = hosts_from_facts(facts, {})
        found = place(request, hosts)
        plan = build_plan(request, found, SESSION, facts, Settings(), free_devices={"h1": hosts[0].free_devices})
        validate_plan(plan)
        assert sorted(name for _kind, names in claims_of(plan)["h1"].devices for name in names) == sorted(
            cpu for one in plan["replicas"] for cpu in one["devices"][PINNED]
        )
        return [(one["devices"][PINNED], one["memory_nodes"], one["resources"]["cpus"]) for one in plan["replicas"]]

    assert planned() == [(["1", "5"], [1], 1000), (["0", "2", "4", "6"], [0], 3000)]
    assert planned(memory="3g") == [(["1", "5"], [], 1000), (["0", "2", "4", "6"], [], 3000)]
    facts["h1"]["topology"]["cores"].pop()
    facts["h1"]["topology"]["cores"].pop(0)
    roles.pop()
    roles[0]["cpus"] = 3
    assert planned() == [(["1", "2", "5", "6"], [0, 1], 3000)]
    facts["h1"]["topology"]["memory"] = {"0": 4 * GIB}
    assert planned() == [(["1", "2", "5", "6"], [], 3000)], "a node without memory"
    request = make_request(roles=roles, pin_cpus=True)
    hosts = hosts_from_facts(facts, {})
    free = {"h1": hosts[0].free_devices}
    plan = build_plan(request, place(request, hosts), SESSION, facts, Settings(), free_devices=free)
    for key, value, problem in (
        ("devices", {PINNED: ["1", "5"]}, "There are 2 pinned CPUs of main1 where at least 3 are expected."),
        ("memory_nodes", ["0"], "The memory nodes of main1 are ['0'], where numbers are expected."),
        ("memory_nodes", None, "The memory nodes of main1 are not given"),
    ):
        broken = copy.deepcopy(plan)
        broken["replicas"][0][key] = value
        with pytest.raises(InvalidPlan, match=re.escape(problem)):
            validate_plan(broken)


def test_a_device_that_is_held_by_another_spelling_is_not_free():
    facts = make_facts(1)
    facts["h1"]["containers"] = [{"name": "x", "session_name": "x", "cpus": 1, "devices": {"gpu": ["/dev/r1"]}}]
    names = ["/dev/kfd+/dev/r1", "/dev/kfd+/dev/r2"]
    (host,) = hosts_from_facts(facts, {"h1": {"cluster_compute_accelerators": {"gpu": names}}})
    assert host.free_devices == (("gpu", ("/dev/kfd+/dev/r2",)),)


def test_replicas_get_certain_devices_in_rank_order():
    facts = make_facts(1)
    facts["h1"]["topology"] = topology([0], [2], [1], [3])
    request = make_request(size=3, accelerators="gpu=1", cpus=1, pin_cpus=True)
    names = ["/dev/a", "/dev/b+/dev/c", "GPU-1"]
    hosts = hosts_from_facts(facts, {"h1": {"cluster_compute_accelerators": {"gpu": names}, "cluster_compute_cpus": 3}})
    free = {"h1": hosts[0].free_devices}
    plan = build_plan(request, place(request, hosts), SESSION, facts, Settings(), free_devices=free)
    assert [one["devices"] for one in plan["replicas"]] == [
        {"gpu": ["/dev/a"], PINNED: ["2"]},
        {"gpu": ["/dev/b+/dev/c"], PINNED: ["1"]},
        {"gpu": ["GPU-1"], PINNED: ["3"]},
    ]
    validate_plan(plan)
    claim = claims_of(plan)["h1"]
    assert claim.devices == free["h1"]
    for devices, problem in (
        ({"gpu": ["/dev/b+/dev/c"], PINNED: ["2"]}, "The devices of the replicas on h1 are malformed"),
        ({"gpu": ["/dev/a"], PINNED: ["1"]}, "The pinned CPUs on h1 are"),
        ({"gpu": ["../a"], PINNED: ["2"]}, "The devices of the replicas on h1 are malformed"),
        ({"gpu": ["/dev/a"], PINNED: ["1-3"]}, "The pinned CPUs on h1 are"),
        ({"gpu": ["/dev/a"]}, "There are 0 pinned CPUs of main1 where at least 1 are expected."),
        ({"gpu": [], PINNED: ["2"]}, "There are 0 of gpu on the host where 1 are expected."),
        ({"gpu": ["/dev/a"], PINNED: ["2"], "tpu": ["/dev/t"]}, "replica main1"),
        ("all", "The devices of main1 are 'all'"),
    ):
        broken = copy.deepcopy(plan)
        broken["replicas"][0]["devices"] = devices
        with pytest.raises(InvalidPlan, match=re.escape(problem)):
            validate_plan(broken)


def test_bad_inventory_is_named_with_its_host():
    bad = {
        "cluster_compute_cpus": "many",
        "cluster_compute_memory": 0,
        "cluster_compute_reserved_cpus": -1,
        "cluster_compute_reserved_memory": "x",
        "cluster_compute_labels": ["rack"],
        "cluster_compute_max_replicas": -1,
        "cluster_compute_accelerators": "gpu",
    }
    with pytest.raises(InvalidInput) as error:
        hosts_from_facts(make_facts(2), {"h1": bad, "h2": {"cluster_compute_labels": {"rack": True}}})
    assert {problem.variable for problem in error.value.problems} == {
        *(f"{name} of host h1" for name in bad),
        "cluster_compute_labels of host h2",
    }


# The request against the hosts.


def test_mounts_that_are_missing_are_named_with_their_hosts():
    request = make_request(size=4, cpus=2, mounts="/srv/a:/a,/srv/b:/b")
    facts = make_facts(7, paths={"/srv/a": about_path("/srv/a"), "/srv/b": about_path("/srv/b", kind="file")})
    check_request_against_hosts(request, facts, inventory=ALLOWED)
    for host in ("h2", "h7"):
        facts[host]["paths"]["/srv/a"] = about_path("/srv/a", kind="missing")
    with pytest.raises(InvalidInput, match=r"session_mounts is '/srv/a': This source does not exist on h2, h7\."):
        check_request_against_hosts(request, facts, inventory=ALLOWED)
    check_request_against_hosts(make_request(mounts="/srv/a:/a", excluded_hosts="h2,h7"), facts, inventory=ALLOWED)
    check_request_against_hosts(make_request(mounts="/srv/a:/a", hosts="h1"), facts, inventory=ALLOWED)
    facts["h2"]["usable"] = facts["h7"]["usable"] = False
    check_request_against_hosts(request, facts, inventory=ALLOWED)


def test_with_a_placement_only_its_hosts_count():
    request = make_request(size=2, cpus=2, mounts="/srv/a:/a", ports="80")
    facts = make_facts(2, paths={"/srv/a": about_path("/srv/a")})
    placement = place(request, hosts_from_facts(facts, {}))
    assert placement.hosts == ("h1",)
    facts["h2"]["paths"]["/srv/a"] = about_path("/srv/a", kind="missing")
    facts["h2"]["ports"] = [{"address": "0.0.0.0", "port": 80, "protocol": "tcp"}]
    check_request_against_hosts(request, facts, placement, inventory=ALLOWED)


@pytest.mark.parametrize(
    ("port", "address", "protocol", "taken"),
    [
        ("80", "0.0.0.0", "tcp", True),
        ("80", "192.0.2.1", "tcp", True),
        ("80", "::", "tcp", True),
        ("80", "0.0.0.0", "udp", False),
        ("127.0.0.1:80:80", "192.0.2.1", "tcp", False),
        ("127.0.0.1:80:80", "127.0.0.1", "tcp", True),
        ("127.0.0.1:80:80", "0.0.0.0", "tcp", True),
        ("81:80", "0.0.0.0", "tcp", False),
    ],
)
def test_ports_that_are_taken(port, address, protocol, taken):
    request = make_request(ports=port)
    facts = make_facts(1, ports=[{"address": address, "port": 80, "protocol": protocol}])
    placement = place(request, hosts_from_facts(facts, {}))
    if not taken:
        check_request_against_hosts(request, facts, placement)
        return
    with pytest.raises(InvalidInput, match=r"session_ports is .*: This port is taken on h1, the host of main1\."):
        check_request_against_hosts(request, facts, placement)
    running = make_plan(request, make_facts(1))
    check_request_against_hosts(request, facts, placement, running)
    if address == "0.0.0.0":
        request = make_request(authorized_keys=KEY, ssh_port=80)
        with pytest.raises(InvalidInput, match=r"session_ssh_port is '0\.0\.0\.0:80/tcp': This port is taken on h1"):
            check_request_against_hosts(request, facts, placement)


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "127.0.0.1", "127.1.2.3", "192.0.2.1", "2001:db8::1"])
def test_addresses_that_the_host_has(address):
    request = make_request(ports=[{"host_ip": address, "container_port": 80}])
    facts = make_facts(2)
    facts["h1"]["addresses"] = ["192.0.2.1", "2001:db8::1"]
    check_request_against_hosts(request, facts)
    check_request_against_hosts(request, facts, place(request, hosts_from_facts(facts, {})))


@pytest.mark.parametrize("address", ["192.0.2.2", "::1"])
def test_an_address_that_the_host_does_not_have(address):
    request = make_request(ports=[{"host_ip": address, "container_port": 80}])
    facts = make_facts(2, addresses=["192.0.2.1"])
    named = rf"session_ports is '{address}:80/tcp': "
    with pytest.raises(InvalidInput, match=f"{named}None of h1, h2 has this address.$"):
        check_request_against_hosts(request, facts)
    facts["h2"]["addresses"] = [address]
    check_request_against_hosts(request, facts)
    placement = place(request, hosts_from_facts(facts, {}))
    assert placement.hosts == ("h1",)
    hint = "Hosts that have it: h2; name one in session_hosts."
    with pytest.raises(InvalidInput, match=f"{named}main1 would run on h1, which does not have this address. {hint}"):
        check_request_against_hosts(request, facts, placement)
    with pytest.raises(InvalidInput, match=f"{named}None of h1 has this address. {hint}"):
        check_request_against_hosts(replace(request, hosts=("h1",)), facts)


def test_a_container_name_that_another_session_has():
    request = make_request(name="a", roles=[{"name": "main"}, {"name": "b-sub", "replicas": 1}])
    facts = make_facts(1, containers=[{"name": "a-b-sub1", "session_name": "a-b", "cpus": 0, "memory": 0}])
    placement = place(request, hosts_from_facts(facts, {}))
    with pytest.raises(InvalidInput, match="would be a-b-sub1, which session a-b has on h1"):
        check_request_against_hosts(request, facts, placement)
    facts["h1"]["containers"][0]["session_name"] = "a"
    check_request_against_hosts(request, facts, placement)


def test_a_container_name_that_somebody_else_has():
    request = make_request(name="a", size=2)
    facts = make_facts(1, foreign_containers=["a-sub2", "a-other"])
    placement = place(request, hosts_from_facts(facts, {}))
    check_request_against_hosts(request, facts, placement)
    facts["h1"]["foreign_containers"].append("a-sub1")
    with pytest.raises(InvalidInput, match="would be a-sub1, which somebody else has on h1 already"):
        check_request_against_hosts(request, facts, placement)


# The shortfall for people.


def test_shortfall_table():
    facts = make_facts(2, cpus=4, memory=2)
    result = place(make_request(size=5, cpus=2), hosts_from_facts(facts, {}))
    assert isinstance(result, Shortfall)
    assert render_shortfall(result) == [
        "5 replicas asked, mode multi-node: not enough room now. Asked per host is one replica; the last rows compare "
        "the whole session with all hosts together.",
        "host       resource  asked  free  missing  replicas that fit",
        "h1         cpus      2      4     0        2",
        "h1         memory    1GiB   2GiB  0B",
        "h1         replicas  1      5     0",
        "h2         cpus      2      4     0        2",
        "h2         memory    1GiB   2GiB  0B",
        "h2         replicas  1      5     0",
        "all hosts  cpus      10     8     2",
        "all hosts  memory    5GiB   4GiB  1GiB",
        "all hosts  replicas  5      10    0",
        "Largest size that fits now in mode multi-node: 4.",
        "It would not fit if no other session held anything either: ask for less, or add hosts.",
    ]


def test_shortfall_where_nothing_fits():
    facts = make_facts(1)
    facts["h1"]["containers"] = [{"name": "x", "session_name": "x", "cpus": 4000, "memory": 0}]
    lines = render_shortfall(place(make_request(cpus=2), hosts_from_facts(facts, {})))
    assert lines[0].startswith("1 replica asked, mode single-node: not enough room now. Asked per host is the whole")
    assert lines[-1] == "Not even main1 fits now."


def test_shortfall_of_very_many_hosts_is_cut():
    lines = render_shortfall(place(make_request(size=9, mode="single-node"), hosts_from_facts(make_facts(300), {})))
    assert lines[1] == "Of 300 hosts the first 100 in inventory order are shown."
    assert len({line.split()[0] for line in lines if re.match(r"h\d", line)}) == 100
    assert any(line.startswith("all hosts") for line in lines)


# Plans that are read back.


def test_newer_schemas_are_refused_by_number():
    plan = {**make_plan(), "schema": SCHEMA + 1, "unheard": "of"}
    with pytest.raises(InvalidPlan, match="which a newer release of the collection wrote") as error:
        validate_plan(plan)
    assert error.value.schema == SCHEMA + 1
    assert f"schema {SCHEMA + 1}" in str(error.value)


@pytest.mark.parametrize("encrypted", [False, True])
def test_everything_that_is_changed_is_noticed(encrypted):
    """Every leaf of a plan, replaced by something else of its kind and of another."""
    more = {"ports": "80", "mounts": "/a:/b:ro", "env": "A=x", "command": "sleep 9", "encrypted": encrypted}
    plan = make_plan(make_request(size=4, cpus=2, authorized_keys=KEY, **more))

    def leaves(node, path=()):
        if isinstance(node, dict):
            for key, value in node.items():
                yield from leaves(value, (*path, key))
        elif isinstance(node, list):
            for position, value in enumerate(node):
                yield from leaves(value, (*path, position))
        else:
            yield path, node

    # Free to be anything of its kind: numbers chosen from pools, what hosts report, and user's own values.
    free = {("network", "vni"), ("network", "mtu"), ("network", "port"), ("egress", "subnet")}
    free |= {("request", "priority"), ("request", "master_port"), ("request", "restart_limit")}
    if encrypted:
        free |= {("network", "tunnel", "vxlan_port")}
        free -= {("network", "mtu")}  # it has to agree with the tunnel's
    tried = 0
    for path, value in leaves(plan):
        may_vary = path in free or "env" in path or path[-1] in ("underlay_address", "underlay_interface", "filesystem")
        kinds = [[], {}, object()] + ([] if value is None else [None])
        same_kind = value + 1 if isinstance(value, int) else f"{value}x" if isinstance(value, str) else "x"
        for other in kinds + ([] if may_vary else [same_kind]):
            broken = copy.deepcopy(plan)
            node = broken
            for key in path[:-1]:
                node = node[key]
            node[path[-1]] = other
            tried += 1
            try:
                validate_plan(broken)
            except InvalidPlan:
                continue
            pytest.fail(f"{path} may be {other!r} instead of {value!r}")
    assert tried > 300
    for policy in FAILURE_POLICIES:
        validate_plan({**plan, "request": {**plan["request"], "failure_policy": policy, "restart_limit": 0}})


def test_an_image_is_pinned_by_its_id_on_every_host_that_runs_it():
    plan = make_plan()
    pinned = plan["images"]["debian:12"]
    assert pinned == {"digest": None, "ids": dict.fromkeys(plan["hosts"])}
    image, digest = "sha256:" + "a" * 64, "debian@sha256:" + "b" * 64
    pinned["ids"] = dict.fromkeys(plan["hosts"], image)
    pinned["digest"] = digest
    validate_plan(plan)
    for change in (
        {"ids": {**pinned["ids"], "h1": "debian:12"}},
        {"ids": {**pinned["ids"], "h1": image[:-1]}},
        {"ids": {**pinned["ids"], "h9": image}},
        {"ids": {"h1": image}},
        {"digest": "other@sha256:" + "b" * 64},
    ):
        with pytest.raises(InvalidPlan, match=r"images\[debian:12\]"):
            validate_plan({**plan, "images": {"debian:12": {**pinned, **change}}})


@pytest.mark.parametrize(
    ("value", "ports"),
    [(9000, (9000, 9000)), ("9000", (9000, 9000)), (" 9000-9009 ", (9000, 9009)), ("", (8480, 8489))],
)
def test_ports_for_images(value, ports):
    assert Settings.from_variables({"cluster_compute_image_ports": value}).image_ports == ports


@pytest.mark.parametrize("value", [0, 65536, "9009-9000", "9000-", "a", True, [9000], "9000-70000"])
def test_bad_ports_for_images(value):
    with pytest.raises(InvalidInput, match="cluster_compute_image_ports is "):
        Settings.from_variables({"cluster_compute_image_ports": value})


def test_missing_and_unknown_keys_are_noticed():
    plan = make_plan()

    def mappings(node, path=()):
        if isinstance(node, dict):
            yield path
            for key, value in node.items():
                yield from mappings(value, (*path, key))
        elif isinstance(node, list):
            for position, value in enumerate(node):
                yield from mappings(value, (*path, position))

    def at(root, path):
        for key in path:
            root = root[key]
        return root

    for path in mappings(plan):
        if path[-1:] == ("env",) or path[-1:] in (("accelerators",), ("devices",)):
            continue
        for key in list(at(plan, path)):
            broken = copy.deepcopy(plan)
            del at(broken, path)[key]
            with pytest.raises(InvalidPlan):
                validate_plan(broken)
        broken = copy.deepcopy(plan)
        at(broken, path)["surplus"] = 1
        with pytest.raises(InvalidPlan):
            validate_plan(broken)


@settings(max_examples=200, derandomize=True)
@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=4)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(
                st.sampled_from(["schema", "session", "request", "network", "egress", "hosts", "replicas"]), inner
            ),
        ),
        max_leaves=8,
    )
)
def test_no_garbage_crashes_the_reader(garbage):
    with pytest.raises(InvalidPlan) as error:
        validate_plan(garbage)
    assert all(problem.endswith(".") for problem in error.value.problems)


class TaggedText(str):
    """Stands for the subclasses of text that Ansible hands over."""

    __slots__ = ()


def test_subclasses_of_plain_types_are_read():
    plan = make_plan()
    plan["session"]["name"] = TaggedText("demo")
    plan["replicas"][0]["host"] = TaggedText(plan["replicas"][0]["host"])
    validate_plan(plan)


def test_a_large_plan_is_made_in_bearable_time():
    facts = make_facts(64, cpus=64, memory=256)
    plan = make_plan(make_request(size=1000), facts)
    assert len(plan["replicas"]) == 1000
    assert plan["replicas"][999]["address"] == str(ipaddress.ip_network(plan["network"]["subnet"])[1001])

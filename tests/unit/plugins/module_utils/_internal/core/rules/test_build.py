# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan from end to end: facts in, plan out."""

from __future__ import annotations

import ipaddress
import json
import re
import uuid

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.host_parts import Underlay
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.mounts import Mount
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.plan import (
    Network,
    PlannedHost,
    PlannedSession,
    PublishedPort,
    Share,
    Tunnel,
    read_plan,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import Request
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.admission import (
    check_request_against_hosts,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.build import (
    SCHEMA,
    PlanInputs,
    build_plan,
    overlay_mtu,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.capacity import (
    hosts_from_facts,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.check import validate_plan
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.environment import (
    environments,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.ledger import claims_of
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.site import Settings
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import (
    InvalidInput,
    InvalidPlan,
    PoolExhausted,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.resources import PINNED
from ansible_collections.cluster_compute.session.tests.support.core.rules.examples import (
    GIB,
    KEY,
    SESSION,
    make_facts,
    make_plan,
    make_request,
    topology,
)
from ansible_collections.cluster_compute.session.tests.support.host_facts import typed
from ansible_collections.cluster_compute.session.tests.support.plans import placed


def test_a_multi_node_plan():
    plan = make_plan()
    assert plan.schema == SCHEMA
    assert plan.session == PlannedSession(SESSION, "demo", "multi-node", "multi-node", 4, "cluster_compute_hosts")
    assert plan.network is not None
    subnet, vni = plan.network.subnet, plan.network.vni
    assert plan.network == Network("vxlan", "cc-3614fdf3", subnet, "eth1", 1450, vni, 4789, "ccx3614fdf3", None)
    assert 4096 <= vni <= 16777215
    network = ipaddress.IPv4Network(subnet)
    assert network.subnet_of(ipaddress.IPv4Network("10.213.0.0/16"))
    assert network.prefixlen == 28
    egress = ipaddress.ip_network(plan.egress.subnet)
    assert plan.egress.name == "cc-3614fdf3-egress"
    assert not egress.overlaps(network)
    assert plan.hosts == {
        f"h{number}": PlannedHost(f"192.0.2.{number}", "eth0", None, replicas, (), {})
        for number, replicas in ((1, ("main1", "sub1")), (2, ("sub2", "sub3")))
    }
    assert [(r.name, r.role, r.index, r.rank, r.host, r.local_rank, r.node_rank) for r in plan.replicas] == [
        ("main1", "main", 1, 0, "h1", 0, 0),
        ("sub1", "sub", 1, 1, "h1", 1, 0),
        ("sub2", "sub", 2, 2, "h2", 0, 1),
        ("sub3", "sub", 3, 3, "h2", 1, 1),
    ]
    assert [r.address for r in plan.replicas] == [str(network[n]) for n in range(2, 6)]
    for replica in plan.replicas:
        packed = ipaddress.ip_address(replica.address).packed
        assert replica.mac == "02:42:" + packed.hex(":")
        assert replica.container == f"demo-{replica.name}"
        assert replica.resources == Share(2000, GIB, 64 * 1024**2, {}, False)
        environment = environments(plan, replica.host)[replica.name]
        assert environment["CLUSTER_COMPUTE_HOST"] == replica.host
        assert environment["LOCAL_RANK"] == str(replica.local_rank)
        assert environment["NODE_RANK"] == str(replica.node_rank)
        assert environment["RANK"] == environment["BACKENDAI_CLUSTER_LOCAL_RANK"] == str(replica.rank)
        assert environment["BACKENDAI_KERNEL_ID"] == replica.kernel_id
        assert environment["BACKENDAI_CLUSTER_MODE"] == "multi-node"
    assert plan.replicas[0].kernel_id == SESSION
    assert plan.replicas[1].kernel_id == str(uuid.uuid5(uuid.UUID(SESSION), "sub1"))
    assert len({replica.kernel_id for replica in plan.replicas}) == 4


def test_the_plan_is_json_and_reads_back():
    plan = make_plan(make_request(size=4, cpus=2, ports="80", mounts="/a:/b:ro", env="A=x", command="sleep 9"))
    text = json.dumps(encode(plan))
    again = json.loads(text)
    assert validate_plan(again) == plan
    assert json.dumps(encode(read_plan(again))) == text, "what lies on hosts is the same byte for byte"
    assert json.dumps(Request.from_dict(again["request"]).to_dict()) == json.dumps(again["request"])
    assert make_plan(Request.from_dict(again["request"])) == plan


def test_what_fits_one_host_gets_a_bridge_there():
    plan = make_plan(make_request(size=2, cpus=2))
    assert plan.session.mode == "single-node"
    assert plan.session.requested_mode == "multi-node"
    assert environments(plan, "h1")["sub1"]["BACKENDAI_CLUSTER_MODE"] == "single-node"
    assert list(plan.hosts) == ["h1"]
    network = plan.network
    assert (network.driver, network.name, network.interface) == ("bridge", "cc-3614fdf3", "eth1")
    assert (network.mtu, network.vni, network.port, network.link) == (None,) * 4
    validate_plan(encode(plan))


def test_one_that_may_grow_has_no_overlay_where_its_host_can_have_none():
    asked = make_request(size=2, cpus=1, max_size=4)
    assert make_plan(asked, make_facts(1)).network.driver == "vxlan"
    assert make_plan(asked, make_facts(1, no_overlay="UDP port 4789 is held.")).network.driver == "bridge"


def test_an_encrypted_session_has_a_tunnel_where_it_spans_hosts():
    request = make_request(size=4, cpus=2, encrypted=True, ports="8080:80,61004:9/udp")
    facts = make_facts(ports=[{"address": "192.0.2.9", "port": 61002, "protocol": "udp"}], encryption="")
    site = Settings(vxlan_port=8472, encrypted_ports="61002-61004")
    plan = make_plan(request, facts, site=site)
    assert plan.network.port == 61003
    # 1500 less WireGuard's 60 over IPv4, less VXLAN's 70 over IPv6.
    assert plan.network.mtu == 1370
    assert plan.network.tunnel == Tunnel("cct3614fdf3", 1440, 8472)
    assert [entry.tunnel_address for entry in plan.hosts.values()] == ["fe80::1", "fe80::2"]
    validate_plan(json.loads(json.dumps(encode(plan))))
    assert all(("0.0.0.0", 61003, "udp") in claim.ports for claim in claims_of(plan).values())
    other = make_plan(make_request(size=4, cpus=2, encrypted=True, ports="61003:9/udp"), facts, site=site)
    assert other.network.port == 61004
    with pytest.raises(PoolExhausted, match="has no free port left"):  # overlays in plain have it
        make_plan(request, facts, site=Settings(vxlan_port=61003, encrypted_ports="61003-61003"))
    again = build_plan(
        request,
        placed(request, hosts_from_facts(typed(facts), {})),
        SESSION,
        PlanInputs(typed(facts), Settings()),
        plan,
    )
    assert again.network is not None
    assert again.network.port == 61003
    for change in ({"encryption": "Its kernel has no WireGuard."}, {"encryption": "x"}):
        facts["h2"].update(change)
        with pytest.raises(InvalidInput, match="Host h2 cannot do it: ") as error:
            check_request_against_hosts(request, typed(facts), placed(request, hosts_from_facts(typed(facts), {})))
        assert [problem.variable for problem in error.value.problems] == ["session_encrypted"]
    del facts["h2"]["encryption"]  # who was not asked has not said that it can
    with pytest.raises(InvalidInput, match="Host h2 cannot do it: Nobody looked"):
        check_request_against_hosts(request, typed(facts), placed(request, hosts_from_facts(typed(facts), {})))
    plain = make_request(size=4, cpus=2)
    check_request_against_hosts(plain, typed(facts), placed(plain, hosts_from_facts(typed(facts), {})))
    with pytest.raises(PoolExhausted, match="cluster_compute_encrypted_ports 61002-61002 has no free port left"):
        make_plan(request, facts, site=Settings(encrypted_ports="61002-61002"))


def test_on_one_host_nothing_has_to_be_encrypted():
    facts = make_facts(encryption="Its kernel has no WireGuard.")
    request = make_request(size=2, cpus=2, encrypted=True)
    check_request_against_hosts(request, typed(facts), placed(request, hosts_from_facts(typed(facts), {})))
    plan = make_plan(request, facts)
    assert plan.network.tunnel is None
    assert plan.hosts["h1"].tunnel_address is None
    validate_plan(encode(plan))
    assert claims_of(plan)["h1"].ports == ()


def test_one_replica_has_no_session_network():
    plan = make_plan(make_request())
    assert plan.network is None
    (main,) = plan.replicas
    assert (main.address, main.mac) == (None, None)
    variables = environments(plan, main.host)["main1"]
    assert "NCCL_SOCKET_IFNAME" not in variables
    assert variables["BACKENDAI_CLUSTER_MODE"] == "single-node"
    assert plan.egress.subnet.endswith("/28")
    validate_plan(encode(plan))


def test_ports_are_on_main_only_and_mounts_everywhere():
    plan = make_plan(make_request(size=4, cpus=2, ports="8080:80", mounts="/srv/data:/data"))
    port = PublishedPort("0.0.0.0", 8080, 80, "tcp")
    assert [replica.ports for replica in plan.replicas] == [(port,), (), (), ()]
    mount = Mount("/srv/data", "/data", False)
    assert [replica.mounts for replica in plan.replicas] == [(mount,)] * 4


def test_the_owner_s_port_is_published_by_main_alone():
    plan = make_plan(make_request(size=4, cpus=2, authorized_keys=KEY, ports="80"))
    port = plan.ssh_port
    assert 22000 <= port <= 22999
    published = PublishedPort("0.0.0.0", port, 2201, "tcp")
    assert [replica.ports[1:] for replica in plan.replicas] == [(published,), (), (), ()]
    host = plan.replicas[0].host
    assert ("0.0.0.0", port, "tcp") in claims_of(plan)[host].ports
    assert all(("0.0.0.0", port, "tcp") not in claim.ports for name, claim in claims_of(plan).items() if name != host)
    assert make_plan().ssh_port is None
    assert make_plan(make_request(authorized_keys=KEY, ssh_port=5)).ssh_port == 5


def test_the_owner_s_port_is_free():
    request = make_request(authorized_keys=KEY)
    taken = make_facts(1, ports=[{"address": "192.0.2.1", "port": 22000, "protocol": "tcp"}])
    two = Settings(ssh_ports="22000-22001")
    assert make_plan(request, taken, site=two).ssh_port == 22001
    published = make_request(authorized_keys=KEY, ports="22001:80")
    assert make_plan(published, make_facts(1), site=two).ssh_port == 22000
    with pytest.raises(PoolExhausted, match="cluster_compute_ssh_ports 22000-22001 has no free port left"):
        make_plan(published, taken, site=two)
    # What the session to be replaced has published is free when it is gone.
    settings = Settings(ssh_ports="22000-22000")
    first = make_plan(request, make_facts(1), site=settings)
    assert make_plan(request, taken, str(uuid.uuid4()), first, settings).ssh_port == 22000
    # Others seldom choose the same at the same moment.
    ids = [str(uuid.UUID(int=number)) for number in range(20)]
    assert len({make_plan(request, session_id=chosen).ssh_port for chosen in ids}) > 15


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
    main, first, second = plan.replicas
    assert (first.name, second.name, second.index, second.rank) == ("worker1", "worker2", 2, 2)
    assert (main.image, first.image, first.command, main.command) == (
        "debian:12",
        "alpine:3",
        ("a", "b"),
        None,
    )
    assert first.resources.cpus == 500
    environment = {name: variables for host in plan.hosts for name, variables in environments(plan, host).items()}
    assert environment["worker1"]["X"] == "1"
    assert "X" not in environment["main1"]
    assert environment["main1"]["BACKENDAI_CLUSTER_REPLICAS"] == "main:1,worker:2"
    validate_plan(encode(plan))


def test_node_rank_zero_is_mains_host_wherever_it_is():
    facts = make_facts(2)
    facts["h2"]["capacity"]["cpus"] = 6000
    plan = make_plan(make_request(size=5, cpus=2), facts)
    assert list(plan.hosts) == ["h1", "h2"]
    assert {(replica.host, replica.node_rank) for replica in plan.replicas} == {("h2", 0), ("h1", 1)}
    validate_plan(encode(plan))
    validate_plan(json.loads(json.dumps(encode(plan), sort_keys=True)))


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
    facts["h3"]["subnets"] += [first.network.subnet, first.egress.subnet]
    facts["h3"]["vnis"] = [first.network.vni]
    second = make_plan(facts=facts)
    assert second.network.subnet not in (first.network.subnet, first.egress.subnet)
    assert second.egress.subnet not in (first.network.subnet, first.egress.subnet)
    assert second.network.vni != first.network.vni


def test_other_sessions_choose_other_numbers():
    first, second = make_plan(), make_plan(session_id=str(uuid.UUID(int=7)))
    assert first.network.subnet != second.network.subnet
    assert first.network.vni != second.network.vni


def test_a_session_that_runs_keeps_its_numbers():
    first = make_plan()
    facts = make_facts()
    network = ipaddress.ip_network(first.network.subnet)
    for host in ("h1", "h2"):
        facts[host]["subnets"] += [str(network), f"{network[2]}/32", f"{network[1]}/28", first.egress.subnet]
        facts[host]["vnis"] = [first.network.vni]
    assert make_plan(facts=facts, current=first) == first
    assert make_plan(facts=facts).network != first.network
    larger = make_plan(make_request(size=20, cpus="500m"), facts, current=first)
    assert larger.network.vni == first.network.vni
    assert larger.network.subnet.endswith("/27"), "the old subnet has become too small"
    facts["h3"]["subnets"].append(f"{network[0] - 16}/27")
    facts["h3"]["subnets"].append(f"{network[0]}/27")
    moved = make_plan(facts=facts, current=first)
    assert moved.network.subnet != first.network.subnet, "somebody else has taken a larger net around it"


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


def test_mtu_follows_the_least_underlay_of_the_used_hosts():
    facts = make_facts()
    facts["h2"]["underlay"]["mtu"] = 9000
    facts["h3"]["underlay"]["mtu"] = 1300
    assert make_plan(facts=facts).network.mtu == 1450, "h3 is not used"
    facts["h1"]["underlay"]["mtu"] = 1400
    assert make_plan(facts=facts).network.mtu == 1350


def test_mtu_over_ipv6():
    assert overlay_mtu({"a": Underlay("2001:db8::1", "eth0", 1500), "b": Underlay("2001:db8::2", "eth0", 9000)}) == 1430
    both = {"a": Underlay("2001:db8::1", "eth0", 1500), "b": Underlay("2001:db8::2", "eth0", 9000)}
    assert overlay_mtu(both, encrypted=True) == 1500 - 80 - 70


def test_underlays_that_cannot_be():
    with pytest.raises(InvalidInput, match="must all have IPv4, or all IPv6"):
        overlay_mtu({"a": Underlay("2001:db8::1", "eth0", 1500), "b": Underlay("192.0.2.1", "eth0", 1500)})
    with pytest.raises(InvalidInput, match="cluster_compute_underlay_address of host b is not given"):
        overlay_mtu({"a": Underlay("192.0.2.1", "eth0", 1500), "b": None})
    with pytest.raises(InvalidInput, match="MTU of eth0 on host a is 600: It leaves 550 bytes"):
        overlay_mtu({"a": Underlay("192.0.2.1", "eth0", 600)})
    assert overlay_mtu({"a": Underlay("192.0.2.1", "eth0", 1340)}, encrypted=True) == 1210
    with pytest.raises(InvalidInput, match=r"MTU of eth0 on host a is 1339: It leaves 1209 bytes .* at least 1210 are"):
        overlay_mtu({"a": Underlay("192.0.2.1", "eth0", 1339)}, encrypted=True)


def test_pinned_replicas_get_whole_cores_and_the_memory_of_their_nodes():
    facts = make_facts(1, cpus=8)
    nodes = [0, 0, 1, 1]
    memory = {"0": 2 * GIB, "1": 2 * GIB}
    facts["h1"]["topology"] = topology([0, 4], [2, 6], [1, 5], [3, 7], nodes=nodes, memory=memory)
    roles = [{"name": "main", "cpus": 1}, {"name": "sub", "replicas": 1, "cpus": 3}]

    def planned(**more):
        request = make_request(roles=roles, pin_cpus=True, **more)
        hosts = hosts_from_facts(typed(facts), {})
        found = placed(request, hosts)
        plan = build_plan(request, found, SESSION, PlanInputs(typed(facts), Settings(), {"h1": hosts[0].free_devices}))
        validate_plan(encode(plan))
        assert sorted(name for _kind, names in claims_of(plan)["h1"].devices for name in names) == sorted(
            cpu for replica in plan.replicas for cpu in replica.devices[PINNED]
        )
        return [(replica.devices[PINNED], replica.memory_nodes, replica.resources.cpus) for replica in plan.replicas]

    assert planned() == [
        (
            (
                "1",
                "5",
            ),
            (1,),
            1000,
        ),
        (
            (
                "0",
                "2",
                "4",
                "6",
            ),
            (0,),
            3000,
        ),
    ]
    assert planned(memory="3g") == [
        (
            (
                "1",
                "5",
            ),
            (),
            1000,
        ),
        (
            (
                "0",
                "2",
                "4",
                "6",
            ),
            (),
            3000,
        ),
    ]
    facts["h1"]["topology"]["cores"].pop()
    facts["h1"]["topology"]["cores"].pop(0)
    roles.pop()
    roles[0]["cpus"] = 3
    assert planned() == [
        (
            (
                "1",
                "2",
                "5",
                "6",
            ),
            (0, 1),
            3000,
        )
    ]
    facts["h1"]["topology"]["memory"] = {"0": 4 * GIB}
    assert planned() == [
        (
            (
                "1",
                "2",
                "5",
                "6",
            ),
            (),
            3000,
        )
    ], "a node without memory"
    request = make_request(roles=roles, pin_cpus=True)
    hosts = hosts_from_facts(typed(facts), {})
    free = {"h1": hosts[0].free_devices}
    plan = build_plan(request, placed(request, hosts), SESSION, PlanInputs(typed(facts), Settings(), free))
    for key, value, problem in (
        ("devices", {PINNED: ["1", "5"]}, "There are 2 pinned CPUs of main1 where at least 3 are expected."),
        ("memory_nodes", ["0"], "replicas[0].memory_nodes[0] is '0', where a whole number is expected."),
        ("memory_nodes", [-1], "The memory nodes of main1 are (-1,), where numbers are expected."),
        ("memory_nodes", None, "replicas[0].memory_nodes is not given, where a list is expected."),
    ):
        broken = encode(plan)
        broken["replicas"][0][key] = value
        with pytest.raises(InvalidPlan, match=re.escape(problem)):
            validate_plan(broken)


def test_replicas_get_certain_devices_in_rank_order():
    facts = make_facts(1)
    facts["h1"]["topology"] = topology([0], [2], [1], [3])
    request = make_request(size=3, accelerators="gpu=1", cpus=1, pin_cpus=True)
    names = ["/dev/a", "/dev/b+/dev/c", "GPU-1"]
    hosts = hosts_from_facts(
        typed(facts), {"h1": {"cluster_compute_accelerators": {"gpu": names}, "cluster_compute_cpus": 3}}
    )
    free = {"h1": hosts[0].free_devices}
    plan = build_plan(request, placed(request, hosts), SESSION, PlanInputs(typed(facts), Settings(), free))
    assert [replica.devices for replica in plan.replicas] == [
        {"gpu": ("/dev/a",), PINNED: ("2",)},
        {"gpu": ("/dev/b+/dev/c",), PINNED: ("1",)},
        {"gpu": ("GPU-1",), PINNED: ("3",)},
    ]
    validate_plan(encode(plan))
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
        ("all", "replicas[0].devices is 'all', where a mapping is expected."),
    ):
        broken = encode(plan)
        broken["replicas"][0]["devices"] = devices
        with pytest.raises(InvalidPlan, match=re.escape(problem)):
            validate_plan(broken)


def test_an_image_is_pinned_by_its_id_on_every_host_that_runs_it():
    plan = encode(make_plan())
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


def test_a_large_plan_is_made_in_bearable_time():
    facts = make_facts(64, cpus=64, memory=256)
    plan = make_plan(make_request(size=1000), facts)
    assert len(plan.replicas) == 1000
    assert plan.replicas[999].address == str(ipaddress.ip_network(plan.network.subnet)[1001])

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans of sessions that change while they run: what stays is the same to the letter, and every plan is a good one."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import Claim
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.plan import Plan
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    Growth,
    new_record,
    prepared,
    started,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import (
    Request,
    parse_request,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.build import PlanInputs
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.capacity import (
    hosts_from_facts,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.change import (
    changed_plan,
    claim_beyond,
    find_places,
    growth_of,
    refuse_growth,
    target_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.check import validate_plan
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.ledger import claims_of
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.obstacles import obstacles
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.placement import Shortfall
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.site import Settings
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput
from ansible_collections.cluster_compute.session.tests.support.core.rules.examples import (
    ALLOWED,
    GIB,
    KEY,
    make_facts,
    make_plan,
    make_request,
    path_facts,
)
from ansible_collections.cluster_compute.session.tests.support.host_facts import typed
from hypothesis import given, settings
from hypothesis import strategies as st

CHANGE = "00000000-0000-4000-8000-000000000001"


def facts_beside(facts, plan: Plan, without=()):
    """Return the facts of the hosts once the session of a plan runs there; without: hosts that are lost."""
    claims = claims_of(plan)
    found = {}
    for host, known in facts.items():
        if host in without:
            continue
        held = []
        if host in claims:
            held = [
                {
                    "claim": encode(claims[host]),
                    "stage": "committed",
                    "boot": "b",
                    "expires": None,
                    "holder": "",
                }
            ]
        found[host] = {**known, "reservations": held}
    return typed(found)


def change(plan: Plan, request: Request, facts, evicted=(), lost_hosts=(), keys=(), inventory=None) -> Plan:
    """Return the plan of a session that becomes what *request* says, by the facts of the hosts that are left."""
    target = target_of(plan, request, evicted)
    there = facts_beside(facts, plan, lost_hosts)
    homes: dict[str, str] | Shortfall = {}
    if target.homeless:
        hosts = hosts_from_facts(there, inventory or {})
        homes = find_places(plan, request, target, hosts, there, keys, list(facts))
    assert not isinstance(homes, Shortfall), homes
    free = {host.name: host.free_devices for host in hosts_from_facts(there, inventory or {})}
    fenced = [address for host in lost_hosts if (address := plan.hosts[host].underlay_address)]
    return changed_plan(plan, request, target, homes, PlanInputs(there, Settings(), free, inventory or {}), fenced)


def kept(before: Plan, after: Plan, moved=()) -> None:
    """See that replicas that stay are the same to the letter, and so are the networks."""
    old = {entry.name: entry for entry in before.replicas}
    assert (after.network, after.egress) == (before.network, before.egress)
    for entry in after.replicas:
        if entry.name in old and entry.name not in moved:
            assert entry == old[entry.name]
    again = json.loads(json.dumps(encode(after)))
    assert validate_plan(again) == after


def test_new_replicas_come_last_and_go_where_the_session_is():
    facts = make_facts(4)
    plan = make_plan(make_request(size=4, cpus=2), facts)  # two hosts, full
    more = change(plan, make_request(size=6, cpus=2), facts)
    kept(plan, more)
    assert [(entry.name, entry.host, entry.local_rank, entry.node_rank) for entry in more.replicas[4:]] == [
        ("sub4", "h3", 0, 2),
        ("sub5", "h3", 1, 2),
    ]
    assert change(more, make_request(size=4, cpus=2), facts) == plan
    fewer = change(more, make_request(size=1, cpus=2, mode="multi-node"), facts)
    kept(more, fewer)
    assert list(fewer.hosts) == ["h1"]
    assert fewer.network is not None
    assert fewer.network.driver == "vxlan"
    assert fewer.session.mode == "single-node"


def test_a_lost_replica_keeps_its_name_rank_and_address():
    facts = make_facts(4)
    plan = make_plan(make_request(size=4, cpus=2), facts)
    for lost_host, names in (("h2", ["sub2", "sub3"]), ("h1", ["main1", "sub1"])):
        after = change(plan, make_request(size=4, cpus=2), facts, names, [lost_host])
        kept(plan, after, names)
        assert lost_host not in after.hosts
        assert after.fenced == (plan.hosts[lost_host].underlay_address,)
        old = {entry.name: entry for entry in plan.replicas}
        for entry in after.replicas:
            same = ("name", "rank", "address", "mac", "kernel_id", "container", "ports", "resources")
            assert [getattr(entry, key) for key in same] == [getattr(old[entry.name], key) for key in same]
        assert {entry.host for entry in after.replicas if entry.name in names} == {"h3"}
    # A host that is taken again is not kept out any more.
    again = {"h3": {**facts["h3"], "underlay": facts["h1"]["underlay"]}, "h4": facts["h4"], "h2": facts["h2"]}
    back = change(after, make_request(size=6, cpus=2), again)
    kept(after, back)


def test_the_fence_falls_for_a_host_that_is_used_again():
    facts = make_facts(3)
    plan = make_plan(make_request(size=4, cpus=2), facts)
    after = change(plan, make_request(size=4, cpus=2), facts, ["sub2", "sub3"], ["h2"])
    again = change(after, make_request(size=6, cpus=2), facts)
    assert again.replicas[-1].host == "h2"
    assert again.fenced == ()
    kept(after, again)


def test_a_replica_that_stays_alone_keeps_its_local_rank():
    facts = make_facts(2)
    plan = make_plan(make_request(size=2, cpus=2, max_replicas_per_host=1), facts)
    wanted = make_request(size=2, cpus=2)
    moved = change(replace(plan, request=wanted.to_dict()), wanted, facts, ["main1"], ["h1"])
    assert [(entry.host, entry.local_rank) for entry in moved.replicas] == [("h2", 1), ("h2", 0)]
    alone = change(moved, make_request(size=1, cpus=2, mode="multi-node"), facts)
    kept(moved, alone)
    assert [(entry.host, entry.local_rank) for entry in alone.replicas] == [("h2", 1)]


def test_what_fits_on_none_of_its_own_hosts_goes_farther():
    facts = {**make_facts(3), **make_facts(1, cpus=2)}
    wanted = make_request(roles=[{"name": "main"}, {"name": "sub", "cpus": 4, "replicas": 1}], cpus=2)
    plan = make_plan(wanted, facts)
    assert [entry.host for entry in plan.replicas] == ["h1", "h2"]
    after = change(plan, wanted, facts, ["sub1"], ["h2"])
    assert after.replicas[1].host == "h3"
    kept(plan, after, ["sub1"])


def test_near_hosts_come_first():
    facts = make_facts(6)
    inventory = {
        f"h{n}": {"cluster_compute_labels": {"zone": "za" if n < 5 else "zb", "rack": f"r{n % 3}"}} for n in range(1, 7)
    }
    plan = make_plan(make_request(size=4, cpus=2), facts)  # h1 (r1), h2 (r2)
    after = change(plan, make_request(size=6, cpus=2), facts, keys=("zone", "rack"), inventory=inventory)
    assert after.replicas[-1].host == "h4"  # r1 of the same zone, before h3


def test_only_the_highest_ranks_go():
    roles = [{"name": "main"}, {"name": "a", "replicas": 2}, {"name": "b", "replicas": 2}]
    facts = make_facts(4)
    request = make_request(roles=roles, cpus=1)
    plan = make_plan(request, facts)
    roles[1] = {"name": "a", "replicas": 3}
    grown = change(plan, make_request(roles=roles, cpus=1), facts)
    kept(plan, grown)
    assert [entry.name for entry in grown.replicas] == ["main1", "a1", "a2", "b1", "b2", "a3"]
    roles[2] = {"name": "b", "replicas": 1}
    with pytest.raises(InvalidInput, match="b2 would go and a3 would stay"):
        target_of(grown, make_request(roles=roles, cpus=1), ())


def test_what_cannot_grow_says_why():
    facts = make_facts(2, cpus=32)
    alone = make_plan(make_request(size=1), facts)
    with pytest.raises(InvalidInput, match="without a network of its own"):
        refuse_growth(alone, 2)
    bridge = make_plan(make_request(size=4), facts)
    refuse_growth(bridge, 13)
    with pytest.raises(InvalidInput, match=r"has addresses for 13 replicas.*session_max_size"):
        refuse_growth(bridge, 14)
    large = make_plan(make_request(size=4, max_size=40), facts)
    refuse_growth(large, 40)
    assert large.network.driver == "vxlan"
    validate_plan(encode(large))
    single = make_plan(make_request(size=1, max_size=4), facts)
    assert single.network is not None
    kept(single, change(single, make_request(size=4, max_size=4), facts))


def test_a_bridge_does_not_leave_its_host():
    facts = make_facts(2)
    plan = make_plan(make_request(size=2, cpus=2), facts)
    with pytest.raises(AssertionError, match="Shortfall"):
        change(plan, make_request(size=3, cpus=2), facts)
    asked = make_request(size=3, cpus=2)
    found = list(obstacles(plan, asked, ["sub2"], facts, typed(facts)).values())
    assert len(found) == 1
    assert "The session's networks are on its host alone, which it cannot leave while it runs." in found[0]


def spread(**more):
    """Return a request for a replica on each of two hosts."""
    return make_request(**{"size": 2, "cpus": 2, "max_replicas_per_host": 1, **more})


@pytest.mark.parametrize(
    ("request_more", "changes", "why"),
    [
        ({}, {"underlay": None}, "it has none of that kind"),
        ({}, {"underlay": {"address": "192.0.2.3", "interface": "eth0", "mtu": 1400}}, "Its MTU of 1400 is too small"),
        ({"encrypted": True}, {"encryption": "Its kernel has no WireGuard."}, "The session is encrypted. Its kernel"),
        ({"encrypted": True}, {"ports": "tunnel"}, "that of the session's tunnel, is taken there."),
        ({"ports": ["8080:80"]}, {"ports": [("0.0.0.0", 8080, "tcp")]}, "Port 0.0.0.0:8080/tcp, which main1 publishes"),
        ({"ports": ["192.0.2.1:8080:80"]}, {}, "It does not have the address of 192.0.2.1:8080/tcp"),
        (
            {"ssh_port": 2222, "authorized_keys": [KEY]},
            {"ports": [("10.0.0.1", 2222, "tcp")]},
            "(session_ssh_port), is taken there.",
        ),
        ({"mounts": ["/srv:/data"]}, {"paths": {"/srv": path_facts("/srv", kind="file")}}, "/srv: It is not the same"),
        ({}, {"no_overlay": "UDP port 4789 is held by flannel."}, "is held by flannel."),
        (
            {},
            {"underlay": {"address": "192.0.2.2", "interface": "eth0", "mtu": 1500}},
            "192.0.2.2 is one that h2 has as well",
        ),
        ({}, {"foreign_containers": ["demo-main1"]}, "It has a container named demo-main1 already."),
    ],
)
def test_who_does_not_fit_to_what_a_session_has_gets_no_replica_of_it(request_more, changes, why):
    asked = spread(**request_more)
    paths = {mount.source: path_facts(mount.source) for mount in asked.mounts}
    facts = make_facts(3, encryption="", addresses=["192.0.2.1"], paths=paths, foreign_containers=[])
    plan = make_plan(asked, facts)
    if changes.get("ports") == "tunnel":
        changes = {"ports": [("0.0.0.0", plan.network.port, "udp")]}
    if "ports" in changes:
        changes = {"ports": [dict(zip(("address", "port", "protocol"), port)) for port in changes["ports"]]}
    facts["h3"].update({"addresses": [], **changes})
    there = facts_beside(facts, plan, ["h1"])
    found = obstacles(plan, asked, ["main1"], there, there)
    assert list(found) == ["h3"]
    assert why in found["h3"]
    only = hosts_from_facts({"h3": there["h3"]}, {})
    with pytest.raises(InvalidInput, match=r"session_size is 2: No host can take main1\. h3: "):
        find_places(plan, asked, target_of(plan, asked, ["main1"]), only, there)
    facts["h4"] = {**make_facts(4)["h4"], "encryption": "", "addresses": ["192.0.2.1"], "paths": paths}
    after = change(plan, asked, facts, ["main1"], ["h1"], inventory=ALLOWED)
    assert after.replicas[0].host == "h4"
    validate_plan(encode(after))


def growing(plan: Plan, before: Request, wanted: Request, facts):
    """Return what the queue is to place of a session that runs and waits to be as *wanted*."""
    record = started(prepared(new_record(plan.session.id, "alice", before.to_dict()), encode(plan)))
    return growth_of(replace(record, growth=Growth(wanted.to_dict(), 1)), facts_beside(facts, plan))


@pytest.mark.parametrize(
    ("request_more", "changes", "why"),
    [
        ({}, {"underlay": {"address": "192.0.2.3", "interface": "eth0", "mtu": 1400}}, "Its MTU of 1400 is too small"),
        ({"encrypted": True}, {"ports": "tunnel"}, "that of the session's tunnel, is taken there."),
        ({"ports": ["8080:80"]}, {"ports": [{"address": "0.0.0.0", "port": 8080, "protocol": "tcp"}]}, ""),
        # Only a launch asks for these.
        ({"encrypted": True}, {"encryption": None}, ""),
        ({"mounts": ["/srv:/data"]}, {"paths": {}}, ""),
    ],
)
def test_the_queue_knows_hosts_that_do_not_fit_as_far_as_they_were_asked(request_more, changes, why):
    asked = spread(**request_more)
    paths = {mount.source: path_facts(mount.source) for mount in asked.mounts}
    facts = make_facts(4, encryption="", paths=paths)
    plan = make_plan(asked, facts)
    if changes.get("ports") == "tunnel":
        changes = {"ports": [{"address": "0.0.0.0", "port": plan.network.port, "protocol": "udp"}]}
    facts["h3"].update(changes)
    wanted, slots, blocked = growing(plan, asked, spread(**request_more, size=4), facts)
    assert wanted.size == 2
    assert slots == {"h1": 0, "h2": 0, "h3": 0 if why else 1, "h4": 1}
    assert list(blocked) == (["h3"] if why else [])
    assert why in blocked.get("h3", "")


def test_the_queue_counts_what_a_session_has_on_a_host_already():
    facts = make_facts(4)
    asked = make_request(size=3, cpus=2, max_replicas_per_host=2)
    wanted, slots, blocked = growing(
        make_plan(asked, facts), asked, make_request(size=6, max_replicas_per_host=2), facts
    )
    assert (wanted.max_replicas_per_host, slots, blocked) == (None, {"h1": 0, "h2": 1, "h3": 2, "h4": 2}, {})


def test_the_queue_lets_no_session_leave_the_bridge_of_its_host():
    facts = make_facts(2)
    asked = make_request(size=2, cpus=1)
    _wanted, slots, blocked = growing(make_plan(asked, facts), asked, make_request(size=3, cpus=1), facts)
    assert (slots["h2"], list(blocked)) == (0, ["h2"])
    assert slots["h1"] > 0


def test_what_is_claimed_beyond():
    facts = make_facts(4)
    plan = make_plan(make_request(size=3, cpus=2), facts)
    more = change(plan, make_request(size=4, cpus=2), facts)
    old, new = claims_of(plan), claims_of(more)
    assert claim_beyond(new["h1"], old["h1"], CHANGE) is None
    beyond = claim_beyond(new["h2"], old["h2"], CHANGE)
    assert beyond == Claim(CHANGE, "demo+", replicas=1, cpus=2000, memory=GIB)
    more = change(more, make_request(size=5, cpus=2), facts)
    new = claims_of(more)
    fresh = claim_beyond(new["h3"], None, CHANGE)
    assert fresh is not None
    assert fresh.session_name == "demo+"
    assert (fresh.vni, fresh.subnets) == (new["h3"].vni, new["h3"].subnets)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_series_of_changes_is_a_series_of_good_plans(data):
    number = data.draw(st.integers(2, 5))
    facts = make_facts(number, cpus=data.draw(st.integers(2, 6)))
    capacity = sum(known["capacity"]["cpus"] // 2000 for known in facts.values())
    values = {"cpus": 2, "max_size": 13, "mode": "multi-node"}
    size = data.draw(st.integers(1, max(1, min(capacity, 13) - 1)))
    plan = make_plan(make_request(size=size, **values), facts)
    for _step in range(data.draw(st.integers(1, 5))):
        moved: tuple[str, ...] = ()
        lost_hosts: tuple[str, ...] = ()
        if data.draw(st.booleans()) and len(plan.hosts) > 1:
            lost_hosts = (data.draw(st.sampled_from(sorted(plan.hosts))),)
            moved = tuple(entry.name for entry in plan.on(lost_hosts[0]))
        else:
            size = data.draw(st.integers(1, 13))
        request = parse_request(
            {
                "session_name": "demo",
                "session_image": "debian:12",
                "session_size": size,
                **{f"session_{k}": v for k, v in values.items()},
            }
        )
        target = target_of(plan, request, moved)
        there = facts_beside(facts, plan, lost_hosts)
        hosts = hosts_from_facts(there, {})
        homes = find_places(plan, request, target, hosts, there) if target.homeless else {}
        if isinstance(homes, Shortfall):
            size = len(plan.replicas)
            continue
        fenced = [address for host in lost_hosts if (address := plan.hosts[host].underlay_address)]
        after = changed_plan(plan, request, target, homes, PlanInputs(there, Settings()), fenced)
        kept(plan, after, moved)
        used: dict[str, int] = {}
        for entry in after.replicas:
            used[entry.host] = used.get(entry.host, 0) + entry.resources.cpus
        assert all(amount <= facts[host]["capacity"]["cpus"] for host, amount in used.items())
        assert not {entry.host for entry in after.replicas} & {*lost_hosts}
        plan = after

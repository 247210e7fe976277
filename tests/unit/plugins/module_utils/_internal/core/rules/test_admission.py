# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests that the hosts cannot carry, and what people read of it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.admission import (
    check_request_against_hosts,
    check_request_against_site,
    render_shortfall,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.capacity import (
    hosts_from_facts,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.placement import (
    Shortfall,
    place,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.site import Settings
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput
from ansible_collections.cluster_compute.session.tests.support.core.rules.examples import (
    ALLOWED,
    KEY,
    make_facts,
    make_plan,
    make_request,
    path_facts,
)
from ansible_collections.cluster_compute.session.tests.support.host_facts import typed
from ansible_collections.cluster_compute.session.tests.support.plans import placed


def test_mounts_that_are_missing_are_named_with_their_hosts():
    request = make_request(size=4, cpus=2, mounts="/srv/a:/a,/srv/b:/b")
    facts = make_facts(7, paths={"/srv/a": path_facts("/srv/a"), "/srv/b": path_facts("/srv/b", kind="file")})
    check_request_against_hosts(request, typed(facts), inventory=ALLOWED)
    for host in ("h2", "h7"):
        facts[host]["paths"]["/srv/a"] = path_facts("/srv/a", kind="missing")
    with pytest.raises(InvalidInput, match=r"session_mounts is '/srv/a': This source does not exist on h2, h7\."):
        check_request_against_hosts(request, typed(facts), inventory=ALLOWED)
    check_request_against_hosts(
        make_request(mounts="/srv/a:/a", excluded_hosts="h2,h7"), typed(facts), inventory=ALLOWED
    )
    check_request_against_hosts(make_request(mounts="/srv/a:/a", hosts="h1"), typed(facts), inventory=ALLOWED)
    facts["h2"]["usable"] = facts["h7"]["usable"] = False
    check_request_against_hosts(request, typed(facts), inventory=ALLOWED)


def test_with_a_placement_only_its_hosts_count():
    request = make_request(size=2, cpus=2, mounts="/srv/a:/a", ports="80")
    facts = make_facts(2, paths={"/srv/a": path_facts("/srv/a")})
    placement = placed(request, hosts_from_facts(typed(facts), {}))
    assert placement.hosts == ("h1",)
    facts["h2"]["paths"]["/srv/a"] = path_facts("/srv/a", kind="missing")
    facts["h2"]["ports"] = [{"address": "0.0.0.0", "port": 80, "protocol": "tcp"}]
    check_request_against_hosts(request, typed(facts), placement, inventory=ALLOWED)


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
    placement = placed(request, hosts_from_facts(typed(facts), {}))
    if not taken:
        check_request_against_hosts(request, typed(facts), placement)
        return
    with pytest.raises(InvalidInput, match=r"session_ports is .*: This port is taken on h1, the host of main1\."):
        check_request_against_hosts(request, typed(facts), placement)
    running = make_plan(request, make_facts(1))
    check_request_against_hosts(request, typed(facts), placement, running)
    if address == "0.0.0.0":
        request = make_request(authorized_keys=KEY, ssh_port=80)
        with pytest.raises(InvalidInput, match=r"session_ssh_port is '0\.0\.0\.0:80/tcp': This port is taken on h1"):
            check_request_against_hosts(request, typed(facts), placement)


@pytest.mark.parametrize(
    ("port", "refused"),
    [
        ("4789:9/udp", "4789/udp is one of the site's own, for overlays (cluster_compute_vxlan_port)"),
        ("127.0.0.1:61000:9/udp", "61000/udp .* tunnels of encrypted sessions (cluster_compute_encrypted_ports)"),
        ("61999:9/udp", "61999/udp .* (cluster_compute_encrypted_ports)"),
        ("8489:9", "8489/tcp .* images on their way between hosts (cluster_compute_image_ports)"),
        ("22000:9", "22000/tcp .* logins of owners (cluster_compute_ssh_ports)"),
        ("4789:9/tcp", ""),
        ("61000:9/tcp", ""),
        ("8490:9", ""),
        ("8489:9/udp", ""),
        ("9:4789/udp", ""),
    ],
)
def test_the_ports_of_the_site_are_refused_by_name(port: str, refused: str) -> None:
    request = make_request(ports=port)
    if not refused:
        check_request_against_site(request, Settings())
        return
    expected = re.escape("session_ports is ") + ".*" + re.escape(refused).replace(r"\.\*", ".*")
    with pytest.raises(InvalidInput, match=expected):
        check_request_against_site(request, Settings())
    elsewhere = Settings(vxlan_port=1, encrypted_ports="2-2", image_ports=(3, 3), ssh_ports="4-4")
    check_request_against_site(request, elsewhere)


def test_a_login_may_have_a_port_that_is_for_logins_and_no_other_of_the_site() -> None:
    check_request_against_site(make_request(authorized_keys=KEY, ssh_port=22000), Settings())
    with pytest.raises(InvalidInput, match=r"session_ssh_port is '8480': Port 8480/tcp is one of the site's own"):
        check_request_against_site(make_request(authorized_keys=KEY, ssh_port=8480), Settings())


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "127.0.0.1", "127.1.2.3", "192.0.2.1", "2001:db8::1"])
def test_addresses_that_the_host_has(address):
    request = make_request(ports=[{"host_ip": address, "container_port": 80}])
    facts = make_facts(2)
    facts["h1"]["addresses"] = ["192.0.2.1", "2001:db8::1"]
    check_request_against_hosts(request, typed(facts))
    check_request_against_hosts(request, typed(facts), placed(request, hosts_from_facts(typed(facts), {})))


@pytest.mark.parametrize("address", ["192.0.2.2", "::1"])
def test_an_address_that_the_host_does_not_have(address):
    request = make_request(ports=[{"host_ip": address, "container_port": 80}])
    facts = make_facts(2, addresses=["192.0.2.1"])
    named = rf"session_ports is '{address}:80/tcp': "
    with pytest.raises(InvalidInput, match=f"{named}None of h1, h2 has this address.$"):
        check_request_against_hosts(request, typed(facts))
    facts["h2"]["addresses"] = [address]
    check_request_against_hosts(request, typed(facts))
    placement = placed(request, hosts_from_facts(typed(facts), {}))
    assert placement.hosts == ("h1",)
    hint = "Hosts that have it: h2; name one in session_hosts."
    with pytest.raises(InvalidInput, match=f"{named}main1 would run on h1, which does not have this address. {hint}"):
        check_request_against_hosts(request, typed(facts), placement)
    with pytest.raises(InvalidInput, match=f"{named}None of h1 has this address. {hint}"):
        check_request_against_hosts(replace(request, hosts=("h1",)), typed(facts))


def test_a_container_name_that_another_session_has():
    request = make_request(name="a", roles=[{"name": "main"}, {"name": "b-sub", "replicas": 1}])
    facts = make_facts(1, containers=[{"name": "a-b-sub1", "session_name": "a-b", "cpus": 0, "memory": 0}])
    placement = placed(request, hosts_from_facts(typed(facts), {}))
    with pytest.raises(InvalidInput, match="would be a-b-sub1, which session a-b has on h1"):
        check_request_against_hosts(request, typed(facts), placement)
    facts["h1"]["containers"][0]["session_name"] = "a"
    check_request_against_hosts(request, typed(facts), placement)


def test_a_container_name_that_somebody_else_has():
    request = make_request(name="a", size=2)
    facts = make_facts(1, foreign_containers=["a-sub2", "a-other"])
    placement = placed(request, hosts_from_facts(typed(facts), {}))
    check_request_against_hosts(request, typed(facts), placement)
    facts["h1"]["foreign_containers"].append("a-sub1")
    with pytest.raises(InvalidInput, match="would be a-sub1, which somebody else has on h1 already"):
        check_request_against_hosts(request, typed(facts), placement)


def test_shortfall_table():
    facts = make_facts(2, cpus=4, memory=2)
    result = place(make_request(size=5, cpus=2), hosts_from_facts(typed(facts), {}))
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
    result = place(make_request(cpus=2), hosts_from_facts(typed(facts), {}))
    assert isinstance(result, Shortfall)
    lines = render_shortfall(result)
    assert lines[0].startswith("1 replica asked, mode single-node: not enough room now. Asked per host is the whole")
    assert lines[-1] == "Not even main1 fits now."


def test_shortfall_of_very_many_hosts_is_cut():
    result = place(make_request(size=9, mode="single-node"), hosts_from_facts(typed(make_facts(300)), {}))
    assert isinstance(result, Shortfall)
    lines = render_shortfall(result)
    assert lines[1] == "Of 300 hosts the first 100 in inventory order are shown."
    assert len({line.split()[0] for line in lines if re.match(r"h\d", line)}) == 100
    assert any(line.startswith("all hosts") for line in lines)

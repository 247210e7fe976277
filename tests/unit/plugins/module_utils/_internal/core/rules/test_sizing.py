# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Amounts that follow from the hosts: all of one, or its share by accelerators."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import (
    Request,
    parse_request,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.placement import (
    Capacity,
    Host,
    Placement,
    place,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.sizing import (
    describe,
    sized,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.resources import (
    PINNED,
    format_cpus,
)
from hypothesis import given
from hypothesis import strategies as st

GIB = 1024**3


def request(**values: Any) -> Request:
    given = {"name": "train", "image": "busybox", **values}
    return parse_request({f"session_{key}": value for key, value in given.items()})


def host(name: str, cpus: float, memory: float, **counts: int) -> Host:
    amounts = Capacity(int(cpus * 1000), int(memory * GIB), tuple(sorted(counts.items())))
    folders = {"rdma": "/dev/infiniband/uverbs"}
    devices = {
        kind: tuple(f"{folders.get(kind, '/dev/card')}{number}" for number in range(count))
        for kind, count in counts.items()
    }
    return Host(name, amounts, amounts, devices=tuple(sorted(devices.items())))


def amounts(wanted: Request, *hosts: Host, before: Request | None = None, **how: bool) -> list[Any]:
    """Return CPUs and GiB of each role."""
    found = sized(wanted, hosts, () if before is None else [before], **how)
    return [(format_cpus(role.resources.cpus), role.resources.memory / GIB) for role in found.roles]


SERVER = host("server", 64, 503.5, gpu=8)
SMALL = host("small", 16, 62.7, gpu=2)


@pytest.mark.parametrize(
    ("values", "hosts", "cpus", "memory"),
    [
        ({"accelerators": "gpu=1"}, [SERVER], "8", 62),
        ({"accelerators": "gpu=1"}, [SERVER, SMALL], "8", 31),
        ({"accelerators": "gpu=4"}, [SERVER, SMALL], "32", 251),
        ({"accelerators": "gpu=1", "hosts": "server"}, [SERVER, SMALL], "8", 62),
        ({"accelerators": "gpu=1", "excluded_hosts": "small"}, [SERVER, SMALL], "8", 62),
        ({"accelerators": "gpu=1", "cpus": 2}, [SERVER], "2", 62),
        ({"accelerators": "gpu=1", "memory": "4g"}, [SERVER], "8", 4),
        ({"accelerators": "gpu=1", "cpus": 2, "memory": "4g"}, [SERVER], "2", 4),
        ({"accelerators": "gpu=1,tpu=1"}, [host("both", 16, 64, gpu=8, tpu=2)], "3", 12),
        ({"accelerators": "a100=1"}, [host("mixed", 64, 64, a100=4, h100=4)], "8", 8),
        ({"accelerators": "card=1"}, [host("helper", 18, 18, gpu=8, card=1)], "2", 2),
        ({"accelerators": "gpu=1,rdma=1"}, [host("joined", 64, 64, gpu=8, rdma=1)], "8", 8),
        ({"accelerators": "rdma=1"}, [host("joined", 64, 64, gpu=8, rdma=2)], "6", 6),
        ({"accelerators": "gpu=1", "cpus": "all", "memory": " ALL "}, [SERVER, SMALL], "16", 62),
        ({"cpus": "all"}, [SERVER, SMALL, host("desktop", 3.5, 15)], "3", 1),
        ({"memory": "all"}, [SERVER, host("desktop", 4, 15)], "1", 15),
        ({"accelerators": "gpu=1"}, [host("thin", 1, 0.5, gpu=4)], "0.25", 0.125),
        ({"accelerators": "gpu=1", "pin_cpus": True}, [host("thin", 6, 8, gpu=4)], "1", 2),
        ({"accelerators": "gpu=1", "pin_cpus": True}, [host("thin", 2, 8, gpu=4)], "1", 2),
        ({"accelerators": "gpu=9"}, [SERVER], "1", 1),
        ({}, [SERVER], "1", 1),
    ],
)
def test_an_amount_is_the_least_of_what_hosts_give(
    values: dict[str, Any], hosts: list[Host], cpus: str, memory: float
) -> None:
    assert amounts(request(**values), *hosts) == [(cpus, memory)]


def test_each_role_has_its_own() -> None:
    roles: list[dict[str, object]] = [{"name": "main"}, {"name": "learner", "replicas": 2, "accelerators": "gpu=2"}]
    roles += [{"name": "actor", "replicas": 1, "accelerators": "gpu=1", "cpus": 3}]
    roles += [{"name": "store", "replicas": 1, "memory": "all"}]
    found = amounts(request(roles=roles), SERVER)
    assert found == [("1", 1), ("16", 125), ("3", 62), ("1", 503)]
    # An amount for all roles applies to each role that has none of its own.
    assert amounts(request(roles=roles, cpus=2), SERVER) == [("2", 1), ("2", 125), ("3", 62), ("2", 503)]


@given(
    st.lists(st.tuples(st.integers(1, 300), st.integers(1, 2000), st.integers(1, 16)), min_size=1, max_size=4),
    st.integers(1, 16),
)
def test_shares_fill_the_accelerators_of_each_host(offers: list[tuple[int, int, int]], count: int) -> None:
    hosts = [
        host(f"h{number}", cpus, memory, gpu=gpus)
        for number, (cpus, memory, gpus) in enumerate(offers)
        if gpus >= count
    ]
    room = sum(dict(each.allocatable.devices)["gpu"] // count for each in hosts)
    if room:
        wanted = sized(request(size=room, mode="multi-node", accelerators=f"gpu={count}"), hosts)
        assert isinstance(place(wanted, hosts), Placement)


def test_what_replicas_get_is_told() -> None:
    roles = [{"name": "main"}, {"name": "learner", "replicas": 2, "accelerators": "gpu=2", "cpus": "all"}]
    found = sized(request(roles=roles), [SERVER])
    (line,) = describe(found)
    assert line == "Each replica of learner: 64 CPUs (all of a host), 125GiB of memory (the share of a host)."


def test_what_exists_keeps_what_it_found() -> None:
    wanted = request(accelerators="gpu=1", size=2)
    before = sized(wanted, [SERVER])
    assert sized(wanted, [SMALL], [before]) == before
    assert amounts(wanted, SMALL, before=before, recreate=True) == [("8", 62)] * 2, "nothing of it has changed"
    other = request(accelerators="gpu=1", size=2, image="alpine")
    assert amounts(other, SMALL, before=before) == [("8", 62)] * 2, "the refusal names the image alone"
    assert amounts(other, SMALL, before=before, recreate=True) == [("8", 31)] * 2
    larger = request(accelerators="gpu=1", size=3)
    assert amounts(larger, SMALL, before=before) == [("8", 62)] * 2
    assert amounts(larger, SMALL, before=before, recreate=True) == [("8", 31)] * 2, "it is made again"


def test_a_role_that_comes_gets_what_those_like_it_have() -> None:
    single = sized(request(accelerators="gpu=1", max_size=4), [SERVER])
    grown = request(accelerators="gpu=1", size=3, max_size=4)
    assert amounts(grown, SMALL, before=single) == [("8", 62)] * 2
    roles = [{"name": "main", "cpus": 1, "memory": "1g"}]
    before = sized(request(roles=roles), [SERVER])
    more = request(roles=[*roles, {"name": "learner", "replicas": 1, "accelerators": "gpu=2"}])
    first = sized(more, [SERVER], [before])
    assert amounts(first, SERVER)[1:] == [("16", 125)]
    # It waits for room, and another host came meanwhile.
    assert sized(more, [SERVER, SMALL], [before, first]) == first


def test_one_that_waits_for_hosts_that_went_takes_what_others_have() -> None:
    wanted = request(accelerators="gpu=2")
    before = sized(wanted, [SERVER])
    assert amounts(before, SERVER) == [("16", 125)]
    assert sized(wanted, [SMALL, SERVER], [before], waits=True) == before
    assert amounts(wanted, SMALL, before=before, waits=True) == [("16", 62)]
    assert sized(wanted, [SMALL], [before]) == before, "it runs"
    assert sized(wanted, [], [before], waits=True).roles[0].of_host == before.roles[0].of_host


def test_one_from_before_there_were_rules_is_as_it_was() -> None:
    old = request(accelerators="gpu=1", cpus=1, memory="1g")
    assert sized(request(accelerators="gpu=1"), [SERVER], [old]) == old
    assert sized(request(accelerators="gpu=1", cpus="all"), [SERVER], [old]) != old
    given = request(accelerators="gpu=1", cpus=4, memory="1g")
    assert amounts(request(accelerators="gpu=1"), SERVER, before=given) == [("8", 1)]


def test_pinned_shares_are_of_whole_cores() -> None:
    names = tuple(map(str, range(60)))
    offer = Capacity(60_000, 64 * GIB, (("gpu", 8), (PINNED, 60)))
    machine = Host("h", offer, offer, devices=(("gpu", tuple("01234567")), (PINNED, names)), threads=2)
    wanted = request(accelerators="gpu=1", pin_cpus=True, size=8, mode="multi-node")
    assert amounts(wanted, machine)[0] == ("6", 8)
    reserved = Capacity(63_000, 64 * GIB, ((PINNED, 62),))
    whole = Host("h", reserved, reserved, threads=2)
    assert amounts(request(cpus="all", pin_cpus=True), whole) == [("62", 1)]


@pytest.mark.parametrize(
    "values", [{"accelerators": "gpu=2"}, {"accelerators": "gpu=1", "cpus": "all", "memory": "all"}]
)
def test_what_asks_for_something_else_gets_something_else(values: dict[str, Any]) -> None:
    before = sized(request(accelerators="gpu=1"), [SERVER])
    found = sized(request(**values), [SERVER], [before])
    assert found == sized(request(**values), [SERVER]) != before


def test_a_record_keeps_amounts_and_rules() -> None:
    found = sized(request(accelerators="gpu=1", cpus="all"), [SERVER])
    stored = found.to_dict()
    (role,) = stored["roles"]
    assert (role["resources"]["cpus"], role["of_host"]) == (64000, {"cpus": "all", "memory": "share"})
    assert Request.from_dict(stored) == found
    assert Request.from_dict(stored) != Request.from_dict(
        {**stored, "roles": [{key: value for key, value in role.items() if key != "of_host"}]}
    )
    assert "of_host" not in request(cpus=2).to_dict()["roles"][0]


@pytest.mark.parametrize("rules", ["all", {"cpus": "half"}, {"disk": "all"}, {"cpus": ["all"]}, [1]])
def test_a_stored_rule_that_is_none_is_named(rules: Any) -> None:
    stored = request(accelerators="gpu=1").to_dict()
    stored["roles"][0]["of_host"] = rules
    with pytest.raises(InvalidInput, match=r"of_host is .*It must be a mapping of cpus, memory to all or share"):
        Request.from_dict(stored)


def test_nobody_gives_a_rule_but_the_word() -> None:
    with pytest.raises(InvalidInput, match="of_host"):
        request(roles=[{"name": "main", "of_host": {"cpus": "all"}}])
    with pytest.raises(InvalidInput, match=r"session_cpus is 'most': .* Or all, for what a host has"):
        request(cpus="most")

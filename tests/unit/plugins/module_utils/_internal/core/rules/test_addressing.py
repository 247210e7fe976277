# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Subnets, addresses and identifiers: never one in use, always one that is free, and quickly."""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules import addressing
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.addressing import (
    addresses,
    choose_port,
    choose_ssh_port,
    choose_subnets,
    choose_vni,
    is_free,
    mac_of,
    outside,
    parse_port_pool,
    parse_ssh_ports,
    parse_subnet_pool,
    parse_vni_pool,
    prefix_for,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import (
    InvalidInput,
    MissingLibrary,
    PoolExhausted,
)
from hypothesis import given, settings
from hypothesis import strategies as st

POOL = "10.213.0.0/16"
SEED = "3614fdf3-0e04-4a3c-8f3e-2b1d6c7a9e10"

bounded = settings(max_examples=200, derandomize=True)


@pytest.mark.parametrize(
    ("replicas", "prefix"),
    [(1, 28), (13, 28), (14, 27), (29, 27), (30, 26), (61, 26), (253, 24), (254, 23), (4096, 19)],
)
def test_prefix(replicas, prefix):
    assert prefix_for(replicas) == prefix


@bounded
@given(st.integers(1, 5000))
def test_the_prefix_is_the_longest_that_fits(replicas):
    size = 2 ** (32 - prefix_for(replicas))
    assert size >= replicas + 3
    assert size == 16 or size // 2 < replicas + 3


@st.composite
def busy_pools(draw):
    prefix = draw(st.integers(20, 28))
    pool = f"10.213.{draw(st.integers(0, 15)) * 16}.0/{prefix}"
    network = ipaddress.ip_network(pool)
    in_use = []
    for _number in range(draw(st.integers(0, 12))):
        length = draw(st.integers(prefix, 32))
        offset = draw(st.integers(0, network.num_addresses - 1))
        in_use.append(f"{network.network_address + offset}/{length}")
    in_use += draw(st.lists(st.sampled_from(["0.0.0.0/0", "192.168.0.0/16", "fe80::/64", "::/0", "10.212.0.0/16"])))
    return pool, in_use


@bounded
@given(busy_pools(), st.integers(1, 4), st.integers(1, 60), st.text(max_size=5))
def test_chosen_subnets_are_free_and_found_if_there_are_any(case, count, replicas, seed):
    pool, in_use = case
    prefix = prefix_for(replicas)
    pool_network = ipaddress.IPv4Network(pool)
    seen = [ipaddress.ip_network(text, strict=False) for text in in_use]
    taken = [network for network in seen if isinstance(network, ipaddress.IPv4Network) and network.prefixlen]
    candidates = list(pool_network.subnets(new_prefix=prefix)) if prefix >= pool_network.prefixlen else []
    free = [subnet for subnet in candidates if not any(subnet.overlaps(network) for network in taken)]
    if len(free) < count:
        with pytest.raises(PoolExhausted, match="cluster_compute_subnet_pool"):
            choose_subnets(pool, count, replicas, in_use, seed)
        return
    chosen = choose_subnets(pool, count, replicas, in_use, seed)
    assert len(chosen) == len(set(chosen)) == count
    assert all(ipaddress.ip_network(subnet) in free for subnet in chosen)
    assert chosen == choose_subnets(pool, count, replicas, list(reversed(in_use)), seed)
    assert all(is_free(pool, subnet, in_use) for subnet in chosen)


def test_other_seeds_choose_other_subnets():
    chosen = {choose_subnets(POOL, 1, 4, [], f"session {number}")[0] for number in range(50)}
    assert len(chosen) > 45


@contextmanager
def counted() -> Iterator[Callable[[], int]]:
    """Count the calls of functions during the block, which are as many on every machine."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        yield lambda: calls
    finally:
        sys.setprofile(None)


def test_in_use_by_thousands_takes_a_few_steps_each():
    in_use = [f"10.213.{i // 16}.{i % 16 * 16}/28" for i in range(4095)]
    in_use += [f"172.{16 + i // 4096}.{i // 16 % 256}.{i % 16 * 16}/28" for i in range(20_000)]
    with counted() as calls:
        assert choose_subnets(POOL, 1, 4, in_use, SEED) == ["10.213.255.240/28"]
    assert calls() < 100 * len(in_use)


def test_a_small_subnet_in_a_large_pool_passes_large_routes_in_one_step():
    with counted() as calls:
        assert choose_subnets("10.0.0.0/8", 1, 4, ["10.0.0.0/9", "10.128.0.0/10", "10.192.0.0/11"], SEED)
    assert calls() < 1000


@pytest.mark.parametrize("used", ["10.213.0.0/32", "10.213.0.15/32"])
def test_a_subnet_is_taken_from_its_first_to_its_last_address(used):
    assert choose_subnets("10.213.0.0/27", 1, 4, [used], SEED) == ["10.213.0.16/28"]


def test_exhaustion_says_what_is_in_the_way():
    with pytest.raises(PoolExhausted) as error:
        choose_subnets(POOL, 1, 4, ["10.0.0.0/8", "10.1.2.3/32"], SEED)
    assert error.value.variable == "cluster_compute_subnet_pool"
    assert "has no 1 free /28 subnets left. In use within it: 10.213.0.0/16." in str(error.value)
    with pytest.raises(PoolExhausted, match=r"4096 replicas need a /19 subnet, which is larger than the whole"):
        choose_subnets("10.213.0.0/20", 1, 4096, [], SEED)


@pytest.mark.parametrize(
    "pool",
    [
        "",
        "10.213.0.0",
        "10.213.0.1/16",
        "10.213.0.0/29",
        "10.0.0.0/7",
        "fd00::/64",
        "pool",
        None,
        5,
        [],
        "10.213.0.0/33",
        "10.213/16/5",
        "10.213.0.0/16; ls",
        "999.1.1.1/16",
    ],
)
def test_bad_subnet_pools(pool):
    with pytest.raises(InvalidInput, match="cluster_compute_subnet_pool is"):
        parse_subnet_pool(pool)


def test_a_host_that_reports_nonsense_is_named():
    with pytest.raises(InvalidInput, match="subnets is 'nonsense'"):
        choose_subnets(POOL, 1, 4, ["nonsense"], SEED)


def test_what_lies_in_a_sessions_own_networks_is_left_out():
    in_use = {"10.213.3.0/28", "10.213.3.1/28", "10.213.3.2/32", "10.213.4.0/28", "10.0.0.0/8"}
    assert outside(in_use, ["10.213.3.0/28"]) == {"10.213.4.0/28", "10.0.0.0/8"}
    assert not is_free(POOL, "10.213.3.0/28", ["10.213.3.5/32"])
    assert not is_free(POOL, "10.99.3.0/28", [])


def test_addresses_leave_the_first_to_the_gateway():
    assert addresses("10.213.3.0/28", 3) == ["10.213.3.2", "10.213.3.3", "10.213.3.4"]
    assert addresses("10.213.3.0/28", 13)[-1] == "10.213.3.14"
    assert addresses("10.213.0.0/16", 300)[-1] == "10.213.1.45"
    with pytest.raises(ValueError, match=r"The subnet 10\.213\.3\.0/28 is too small for 14 replicas\."):
        addresses("10.213.3.0/28", 14)


def test_mac():
    assert mac_of("10.213.3.2") == "02:42:0a:d5:03:02"
    assert mac_of("255.0.16.1") == "02:42:ff:00:10:01"


@bounded
@given(st.integers(1, 40), st.integers(0, 30), st.sets(st.integers(0, 80)), st.text(max_size=4))
def test_vni_is_free_and_of_the_pool(low, length, in_use, seed):
    pool = f"{low}-{low + length}"
    free = set(range(low, low + length + 1)) - in_use
    if free:
        assert choose_vni(pool, in_use, seed) in free
    else:
        with pytest.raises(PoolExhausted, match="cluster_compute_vni_pool"):
            choose_vni(pool, in_use, seed)


def test_the_search_for_a_vni_begins_anew_at_the_end_of_the_pool():
    assert {choose_vni("5-9", {6, 7, 8, 9}, f"session {number}") for number in range(20)} == {5}


@bounded
@given(
    st.sampled_from([(choose_port, "cluster_compute_encrypted_ports"), (choose_ssh_port, "cluster_compute_ssh_ports")]),
    st.integers(1, 65530),
    st.integers(0, 5),
    st.sets(st.integers(1, 65535)),
    st.text(max_size=5),
)
def test_a_port_is_free_and_in_its_pool(chooser, low, more, in_use, seed):
    choose, variable = chooser
    pool = f"{low}-{low + more}"
    free = set(range(low, low + more + 1)) - in_use
    if free:
        assert choose(pool, in_use, seed) in free
        assert choose(pool, in_use, seed) == choose(pool, in_use, seed)
    else:
        with pytest.raises(PoolExhausted, match=variable):
            choose(pool, in_use, seed)


def test_port_pools():
    assert parse_port_pool("61000-65535") == (61000, 65535)
    for pool in ("", "61000", "0-5", "1-65536", None, 61000):
        with pytest.raises(InvalidInput, match=r"cluster_compute_encrypted_ports is .* to 65535, such as 61000-"):
            parse_port_pool(pool)
        with pytest.raises(InvalidInput, match=r"cluster_compute_ssh_ports is .* to 65535, such as 22000-22999"):
            parse_ssh_ports(pool)


def test_vni_pools():
    assert parse_vni_pool(" 4096 - 16777215 ") == (4096, 16777215)
    for pool in ("", "5", "0-5", "5-4", "1-16777216", "a-b", "-5-10", None, 7, "1-2-3", "9" * 50 + "-1", "²-³"):
        with pytest.raises(InvalidInput, match="cluster_compute_vni_pool is"):
            parse_vni_pool(pool)


def test_without_netaddr_the_error_says_what_to_do(monkeypatch):
    monkeypatch.setattr(addressing, "netaddr", None)
    with pytest.raises(MissingLibrary, match="pip install netaddr"):
        parse_subnet_pool(POOL)
    assert addresses("10.0.0.0/28", 1) == ["10.0.0.2"], "hosts evaluate plans without it"

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections import Counter

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.rendezvous import (
    NAME_HOSTS,
    name_hosts,
)

HOSTS = [f"h{number}" for number in range(40)]


def test_they_follow_from_the_name_whatever_the_order_of_the_hosts() -> None:
    assert name_hosts("train", HOSTS, {}) == name_hosts("train", reversed(HOSTS), {})
    assert len(name_hosts("train", HOSTS, {})) == NAME_HOSTS
    assert sorted(name_hosts("train", ["b", "a"], {})) == ["a", "b"]


def test_a_host_that_comes_or_goes_changes_one_at_most() -> None:
    for name in ("train", "eval", "x" * 63):
        before = set(name_hosts(name, HOSTS, {}))
        for left in HOSTS:
            after = set(name_hosts(name, [host for host in HOSTS if host != left], {}))
            assert len(before - after) == (left in before)


def test_names_are_spread_over_all_hosts() -> None:
    found = Counter(host for number in range(400) for host in name_hosts(f"s{number}", HOSTS, {}))
    assert set(found) == set(HOSTS)
    assert max(found.values()) < 70


def test_inventories_that_call_hosts_otherwise_find_the_same_ones() -> None:
    identities = {host: f"identity of {host}" for host in HOSTS}
    renamed = {f"node{host}": identity for host, identity in identities.items()}
    for number in range(20):
        found = name_hosts(f"s{number}", HOSTS, identities)
        assert name_hosts(f"s{number}", list(renamed), renamed) == [f"node{host}" for host in found]


def test_a_host_that_does_not_say_who_it_is_changes_one_at_most() -> None:
    identities = {host: f"identity of {host}" for host in HOSTS}
    for number in range(20):
        before = set(name_hosts(f"s{number}", HOSTS, identities))
        for away in HOSTS:
            after = set(name_hosts(f"s{number}", HOSTS, {**identities, away: ""}))
            assert len(before - after) <= 1

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which sessions belong to a run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    DEFAULT_GROUP,
    ERROR,
    PENDING,
    RUNNING,
    QueueTicket,
    Record,
    advance,
    group_of,
    new_record,
    read_record,
    stub_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.scope import (
    EVERYTHING,
    Scope,
    is_left_alone,
)

GROUPS = {
    DEFAULT_GROUP: ["h1", "h2", "h3"],
    "a": ["h1", "h2"],
    "b": ["h2", "h3"],
    "empty": [],
    "all": ["h1", "h2", "h3", "web"],
}
ID = "3614fdf3-0e04-4a3c-9d2a-53a1f7b2c8aa"


def waiting(group: str, *hosts: str) -> Record:
    record = new_record(ID, "alice", {"name": "train", "resource_group": group})
    return replace(advance(record, PENDING, "No room.", queue=QueueTicket(1)), hosts=hosts, witnesses=hosts)


@pytest.mark.parametrize("group", ["a", "b", DEFAULT_GROUP, "gone", "empty"])
def test_a_session_belongs_to_runs_for_the_group_of_its_request(group: str) -> None:
    record = waiting(group)
    own = [name for name in GROUPS if Scope(name, GROUPS).is_own(record)]
    assert own == [name for name in GROUPS if name == group]
    assert EVERYTHING.is_own(record)
    assert Scope("b", GROUPS).has_group(record) == (group not in ("gone", "empty"))


@pytest.mark.parametrize("group", ["a", DEFAULT_GROUP])
def test_copies_without_a_request_keep_the_group(group: str) -> None:
    for copy in (replace(stub_of(waiting(group)), status=RUNNING), advance(waiting(group), ERROR, "It failed.")):
        kept = encode(copy)
        assert kept["request"] is None
        assert group_of(read_record(kept)) == group
    assert "resource_group" not in encode(waiting(group))


def test_a_copy_that_names_no_group_belongs_to_who_reaches_all_of_its_hosts() -> None:
    for hosts, owners in ((("h1",), [DEFAULT_GROUP, "a", "all"]), (("h1", "h3"), [DEFAULT_GROUP, "all"])):
        stub = replace(stub_of(waiting(DEFAULT_GROUP)), hosts=hosts, resource_group="")
        assert [name for name in GROUPS if GROUPS[name] and Scope(name, GROUPS).is_own(stub)] == owners


@pytest.mark.parametrize(
    ("group", "hosts", "expected"),
    [
        ("a", ["h1"], "a"),
        ("a", ["h3"], DEFAULT_GROUP),
        ("a", ["web"], "all"),
        ("gone", ["h3"], "b"),
        ("gone", ["elsewhere"], ""),
        ("", ["h1", "h2"], "a"),
    ],
)
def test_the_group_to_tear_a_session_down_with_has_all_who_know_it(group: str, hosts: list[str], expected: str) -> None:
    assert Scope("b", GROUPS).group_for(group, hosts) == expected
    ending = [name for name in GROUPS if name != group and GROUPS[name] and Scope(name, GROUPS).may_end(group, hosts)]
    assert (expected in ending) == (expected not in ("", group))
    assert all({*hosts, *GROUPS.get(group, ())} & {"h1", "h2", "h3", "web"} <= {*GROUPS[name]} for name in ending)


def test_a_teardown_by_name_leaves_what_is_not_its_own_or_has_hosts_outside() -> None:
    told = Scope("a", GROUPS).told
    assert told == {"group": "a", "elsewhere": ["h3", "web"]}
    assert [is_left_alone(told, waiting(*given)) for given in (("a", "h1"), ("b", "h2"), ("a", "h1", "h3"))] == [
        False,
        True,
        True,
    ]
    assert not is_left_alone(told, replace(stub_of(waiting("b", "h2")), resource_group=""))
    assert is_left_alone(told, stub_of(waiting(DEFAULT_GROUP, "h2")))
    assert is_left_alone(told, stub_of(waiting("b", "h2")))
    # Hosts that left the inventory do not keep anybody from a teardown.
    assert not is_left_alone(told, waiting("a", "h1", "h9"))
    assert not is_left_alone(EVERYTHING.told, waiting("b", "h3"))

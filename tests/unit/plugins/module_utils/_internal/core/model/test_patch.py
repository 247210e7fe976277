# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What differs between two records is small, and makes the one of the other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.patch import (
    InvalidPatch,
    difference,
    patched,
)
from hypothesis import given
from hypothesis import strategies as st

LEAVES = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 1.0, 0.5]) | st.text("ab", max_size=2)
DATA = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
    max_leaves=24,
)


def text(value: Any) -> str:
    """Return what tells values of every type from each other."""
    return json.dumps(value, sort_keys=True)


@given(DATA, DATA)
def test_the_difference_makes_the_new_of_the_old(old: Any, new: Any) -> None:
    before = text(old)
    changes = json.loads(json.dumps(difference(old, new)))
    assert text(patched(old, changes)) == text(new)
    assert text(old) == before, "the old stays as it is"
    assert (changes == {}) == (text(old) == text(new))


def record(size: int, host: str) -> dict[str, Any]:
    """Return something like the record of a session of so many replicas, the third of which is on a host."""
    replicas = [{"name": f"sub{number}", "rank": number, "host": "h1", "text": "x" * 300} for number in range(size)]
    replicas[2]["host"] = host
    history = [{"revision": number, "reason": f"It was changed for the {number}th time."} for number in range(50)]
    return {"plan": {"replicas": replicas, "hosts": {"h1": {"address": "192.0.2.1"}}}, "history": history}


def test_what_differs_of_a_large_record_is_small() -> None:
    old, new = record(64, "h2"), record(66, "h3")
    new["history"] = [*new["history"][1:], {"revision": 50, "reason": "It was changed for the 50th time."}]
    changes = difference(old, new)
    assert patched(old, changes) == new
    assert changes["in"]["plan"]["in"]["replicas"]["items"] == [
        2,
        {"in": {"host": {"value": "h3"}}},
        61,
        new["plan"]["replicas"][64:],
    ]
    assert changes["in"]["history"] == {"items": [-1, 49, new["history"][-1:]]}


@pytest.mark.parametrize(
    ("old", "changes"),
    [
        ({"a": 1}, {"gone": ["b"]}),
        ({"a": 1}, {"in": {"b": {"value": 1}}}),
        ([1], {"items": [2]}),
        ([1], {"items": [-2]}),
        ([1], {"items": []}),
        ([1], {"items": [1, {"value": 2}]}),
        ([1], {"gone": ["a"]}),
        (1, {"set": {"a": 1}}),
        ({"a": 1}, {"in": {"a": 5}}),
        ({"a": 1}, ["a"]),
    ],
)
def test_changes_of_other_data_are_refused(old: Any, changes: Any) -> None:
    with pytest.raises(InvalidPatch):
        patched(old, changes)

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans that are read back."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.build import SCHEMA
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.check import validate_plan
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidPlan
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.failure import (
    FAILURE_POLICIES,
)
from ansible_collections.cluster_compute.session.tests.support.core.rules.examples import (
    KEY,
    make_plan,
    make_request,
)
from hypothesis import given, settings
from hypothesis import strategies as st


def test_newer_schemas_are_refused_by_number():
    plan = {**encode(make_plan()), "schema": SCHEMA + 1, "unheard": "of"}
    with pytest.raises(InvalidPlan, match="which a newer release of the collection wrote") as error:
        validate_plan(plan)
    assert error.value.schema == SCHEMA + 1
    assert f"schema {SCHEMA + 1}" in str(error.value)


@pytest.mark.parametrize("encrypted", [False, True])
def test_everything_that_is_changed_is_noticed(encrypted):
    """Every leaf of a plan, replaced by something else of its kind and of another."""
    more = {"ports": "80", "mounts": "/a:/b:ro", "env": "A=x", "command": "sleep 9", "encrypted": encrypted}
    plan = encode(make_plan(make_request(size=4, cpus=2, authorized_keys=KEY, **more)))

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
    free: set[tuple[str, ...]] = {("network", "vni"), ("network", "mtu"), ("network", "port"), ("egress", "subnet")}
    free |= {("request", "priority"), ("request", "master_port"), ("request", "restart_limit")}
    if encrypted:
        free |= {("network", "tunnel", "vxlan_port")}
        free -= {("network", "mtu")}  # it has to agree with the tunnel's
    tried = 0
    for path, value in leaves(plan):
        may_vary = path in free or "env" in path or path[-1] in ("underlay_address", "underlay_interface", "filesystem")
        # Of replicas that came to a host while the session ran the numbers may have gaps.
        may_vary = may_vary or path[-1] == "local_rank"
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


def test_missing_and_unknown_keys_are_noticed():
    plan = encode(make_plan())

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
            if path[:1] == ("request",):
                continue  # of a request it has its default, which the rest may agree with
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
    plan = encode(make_plan())
    plan["session"]["name"] = TaggedText("demo")
    plan["replicas"][0]["host"] = TaggedText(plan["replicas"][0]["host"])
    validate_plan(plan)

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whatever somebody writes into a variable of a request, there is a request or an error that names the variable."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.fields import (
    FIELDS,
    ROLE_FIELDS,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import (
    Request,
    parse_request,
    read_variable,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput
from hypothesis import given, settings
from hypothesis import strategies as st

WORDS = (
    *(field.name for field in (*FIELDS, *ROLE_FIELDS)),
    *("replicas", "source", "target", "volume", "driver", "driver_options", "owner", "read_only", "shared"),
    *("container_port", "host_port", "host_ip", "protocol", "resources", "type", "o", "device", "main", "sub", "gpu"),
    *(
        "gpu=1",
        "/srv/a:/b",
        "data:/b:ro",
        "8080:80",
        "local",
        "nfs",
        "1g",
        "500m",
        "1h",
        "A=b",
        "[",
        "{",
        '"',
        "²",
        "٣",
    ),
    *("nan", "1e400", "0x10", "-1", "\ud800", "\0", "é" * 300, "9" * 5000, "[" * 5000, '{"a":' * 5000, "%s{}", "../.."),
)
SINGLE = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**63, -(2**63), 10**400])
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(WORDS)
)
KEYS = st.sampled_from(WORDS) | st.text(max_size=4)
VALUES = st.recursive(
    SINGLE, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=8
)
GOOD: dict[str, Any] = {"name": "train", "image": "debian:12"}


def deep(kind: str) -> Any:
    """Return lists or mappings in each other, far deeper than anything that goes into them by calling itself."""
    found: Any = 1
    for _turn in range(5_000):
        found = [found] if kind == "list" else {"a": found}
    return found


def read(values: dict[str, Any]) -> None:
    """Read a request; errors name variables of it and can be shown."""
    problems = None
    try:
        made = parse_request({f"session_{key}": value for key, value in values.items()})
    except InvalidInput as error:
        str(error).encode("utf-8")
        problems = error.problems
    if problems is None:
        stored = json.loads(json.dumps(made.to_dict()))
        assert Request.from_dict(stored) == made
    else:
        assert problems
        assert all(problem.variable.startswith("session_") for problem in problems)


@pytest.mark.parametrize("name", [field.name for field in FIELDS])
@settings(max_examples=15)
@given(data=st.data())
def test_any_value_of_a_variable_is_read_or_refused(name: str, data: st.DataObject) -> None:
    value = data.draw(VALUES)
    read({**GOOD, name: value})
    try:
        read_variable(name, {f"session_{name}": value})
    except InvalidInput as error:
        str(error).encode("utf-8")


@pytest.mark.parametrize("name", ["name", "replicas", *(field.name for field in (*FIELDS, *ROLE_FIELDS))])
@settings(max_examples=10)
@given(data=st.data())
def test_any_value_of_a_role_is_read_or_refused(name: str, data: st.DataObject) -> None:
    value = data.draw(VALUES)
    roles = [{"name": "main"}, {"name": "sub", "replicas": 1, name: value}]
    read({**GOOD, "roles": roles})
    read({**GOOD, "roles": json.dumps(roles)})


@settings(max_examples=100)
@given(st.dictionaries(st.sampled_from([field.name for field in FIELDS]), VALUES, max_size=4))
def test_any_values_together_are_read_or_refused(values: dict[str, Any]) -> None:
    read({**GOOD, **values})


@settings(max_examples=100)
@given(VALUES)
def test_any_stored_request_is_read_or_refused(value: Any) -> None:
    stored = parse_request({"session_name": "train", "session_image": "debian:12"}).to_dict()
    for broken in (value, *({**stored, key: value} for key in stored)):
        try:
            Request.from_dict(broken)
        except InvalidInput as error:
            str(error).encode("utf-8")


@pytest.mark.parametrize("value", ["[" * 5_000, '{"a":' * 5_000, "9" * 5000])
@pytest.mark.parametrize("name", [field.name for field in FIELDS])
def test_text_that_no_json_is_read_from_is_read_or_refused(name: str, value: str) -> None:
    read({**GOOD, name: value})


@pytest.mark.parametrize(
    ("after", "place"),
    [([1], "[0] is 1"), ([{}], "[0] is {}"), (["main", ["x"]], "[1] is ['x']"), ([None], "[0] is not given")],
)
def test_a_role_comes_after_names_of_roles(after: list[Any], place: str) -> None:
    roles = [{"name": "main"}, {"name": "sub", "replicas": 1, "after": after}]
    with pytest.raises(InvalidInput) as error:
        parse_request({"session_name": "train", "session_image": "debian:12", "session_roles": roles})
    assert str(error.value) == f"session_roles[1].after{place}: It must be the name of a role, such as main."


@pytest.mark.parametrize("kind", ["list", "mapping"])
@pytest.mark.parametrize("name", [field.name for field in FIELDS])
def test_what_is_nested_without_end_is_refused_by_name(name: str, kind: str) -> None:
    with pytest.raises(InvalidInput, match=f"session_{name}"):
        parse_request({f"session_{key}": value for key, value in {**GOOD, name: deep(kind)}.items()})

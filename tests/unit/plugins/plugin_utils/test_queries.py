# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Expressions of JMESPath: what they select, and what is said of wrong ones."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import (
    InvalidInput,
    MissingLibrary,
)
from ansible_collections.cluster_compute.session.plugins.plugin_utils import queries


class Tagged(str):
    """Text of a type that JMESPath does not know, as Ansible has them."""

    __slots__ = ()


DATA: dict[str, Any] = {
    "sessions": [
        {"name": Tagged("train"), "status": "RUNNING", "size": 4},
        {"name": "notebook", "status": "PENDING", "size": 1},
    ]
}


@pytest.mark.parametrize(
    ("expression", "selected"),
    [
        ("sessions[?status=='RUNNING'].name", ["train"]),
        ("sessions[?starts_with(name, 'tr')].{what: name, of: size}", [{"what": "train", "of": 4}]),
        ("sum(sessions[].size)", 5),
        ("sessions[?size > `2`] | [0].name", "train"),
        ("nothing.here", None),
    ],
)
def test_what_an_expression_selects(expression: str, selected: object) -> None:
    queries.check("status_query", expression)
    assert queries.select("status_query", expression, DATA) == selected


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("sessions[?status=RUNNING]", r"character 17, before '=RUNNING\]': Unknown token '='"),
        ("sessions]", r"character 9, before '\]': '\]' cannot stand here"),
        ("sessions[", "It ends too early, or a quote is not closed"),
        ("  ", "It ends too early"),
        ("length_of(sessions)", "JMESPath has no function length_of. It has: abs, "),
        ("sessions[?lenght(name) > `3`]", "JMESPath has no function lenght"),
    ],
)
def test_a_wrong_expression_is_named_with_its_place_before_there_is_data(expression: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=rf"^status_query is '.*'. .*{why}"):
        queries.check("status_query", expression)


def test_one_that_does_not_fit_the_data_is_named_with_its_function() -> None:
    with pytest.raises(InvalidInput, match=r"does not fit the data: In function sum\(\), invalid type"):
        queries.select("query", "sum(sessions)", DATA)


def test_without_the_library_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jmespath", None)
    with pytest.raises(MissingLibrary, match=r"^status_query needs .* pip install jmespath$"):
        queries.check("status_query", "sessions")

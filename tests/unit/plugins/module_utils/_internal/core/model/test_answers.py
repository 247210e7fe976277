# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is told of hosts that have not done their part."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.answers import (
    SILENCE,
    Answer,
    read_answers,
)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({}, SILENCE),
        ({"msg": ""}, SILENCE),
        ({"msg": " No route to host\n"}, "No route to host."),
        ({"msg": "Make sure that it can be reached:\n"}, "Make sure that it can be reached."),
        ({"msg": "It is full. Free some."}, "It is full. Free some."),
        ({"msg": "Its last output:\n| ok"}, "Its last output:\n| ok"),
    ],
)
def test_why_a_host_has_not_done_its_part(result: dict[str, Any], words: str) -> None:
    assert read_answers(Answer, {"h1": result})["h1"].why_not == words


@pytest.mark.parametrize("unreachable", [False, True])
def test_an_answer_that_cannot_be_read_is_that_of_a_host_that_failed(unreachable: bool) -> None:
    result = {"actions": 7, "unreachable": unreachable, "invocation": {}}
    answer = read_answers(Answer, {"h1": result})["h1"]
    assert (answer.failed, answer.unreachable, answer.actions) == (True, unreachable, None)
    assert answer.why_not == "Host h1's actions is 7, where a list is expected."

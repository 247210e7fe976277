# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every call ends, and none before the time that it was given."""

from __future__ import annotations

import math
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.call_limits import (
    GIVEN,
    LONG,
    READS,
    READS_SECONDS,
    SECONDS,
    seconds_for,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.job import LONGEST
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.arguments import ARGUMENTS


@pytest.mark.parametrize("call", ARGUMENTS)
def test_every_call_has_a_limit_beyond_what_it_may_wait(call: str) -> None:
    defaults = {name: option.get("default") for name, option in ARGUMENTS[call]["argument_spec"].items()}
    waits = sum(defaults.get(name) or 0 for name in GIVEN)
    assert waits + READS_SECONDS <= seconds_for(call, defaults) < math.inf


@pytest.mark.parametrize(
    ("call", "given", "seconds"),
    [
        ("host_info", {}, READS_SECONDS),
        ("session_host", {"timeout": 60, "deadline_seconds": 600, "session_name": "7"}, SECONDS + 660),
        ("session_output", {"follow_seconds": LONGEST, "tail": 9}, SECONDS + LONGEST),
        ("session_watch", {"seconds": -1, "wait": None}, SECONDS),
    ],
)
def test_what_a_call_is_given_comes_on_top(call: str, given: dict[str, Any], seconds: float) -> None:
    assert seconds_for(call, given) == seconds


def test_the_names_are_those_of_calls_and_arguments() -> None:
    assert {*READS, *LONG} <= ARGUMENTS.keys()
    assert {*GIVEN} <= {name for call in ARGUMENTS.values() for name in call["argument_spec"]}

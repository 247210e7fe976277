# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is told of modules that broke down."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.plugin_utils.broken_module import of_broken_module

MODULE = "cluster_compute.session.session_host"
TRACE = "Traceback (most recent call last):\n  File \"x.py\", line 1\nKeyError: 'plan'\n"


@pytest.mark.parametrize(
    ("result", "cause"),
    [
        ({"msg": "MODULE FAILURE", "module_stderr": TRACE, "exception": TRACE}, "KeyError: 'plan'."),
        ({"msg": "No start of json", "module_stderr": "sh: python3: not found\n\nhint\n"}, "sh: python3: not found."),
        ({"exception": SimpleNamespace(event=SimpleNamespace(msg="engine said no"))}, "engine said no."),
        ({"msg": "MODULE FAILURE", "module_stdout": "Killed"}, "Killed."),
    ],
)
def test_a_module_that_broke_down_is_told_in_words(result: dict[str, Any], cause: str) -> None:
    message = of_broken_module({"failed": True, **result}, MODULE)
    assert message.startswith(f"The module {MODULE} could not run to its end on this host: {cause} See ")
    assert "-vvv" in message


@pytest.mark.parametrize(
    "result",
    [
        {"changed": False},
        {"failed": True, "msg": "The host is full."},
        {"failed": True, "msg": "The host is full.", "exception": TRACE},
        {"failed": False, "module_stdout": "a"},
    ],
)
def test_what_a_module_says_itself_stays(result: dict[str, Any]) -> None:
    assert of_broken_module(result, MODULE) == ""

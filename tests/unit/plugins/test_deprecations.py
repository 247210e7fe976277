# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Playbooks print no deprecation warning. Hosts are played by a program that answers as theirs does.

Tests of the lab look for them in whatever they run; these run without one, with each core that is installed for them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.tests.support.core.verbs.group import facts
from ansible_collections.cluster_compute.session.tests.support.deprecations import SHOWN, deprecations
from ansible_collections.cluster_compute.session.tests.support.stand_in import play

REMOVED = {"changed": True, "actions": ["remove it"], "sessions": [], "tombstones": [], "warnings": ["Not all of it."]}


def printed(folder: Path, playbook: str, answer: dict[str, Any]) -> str:
    """Return what a playbook printed that ran on two hosts which give this answer to each call."""
    answers = {"h1": answer, "h2": answer}
    code, output = play(folder, playbook, answers, {"session_name": "demo"}, **SHOWN)
    assert code == 0, output
    return output


@pytest.mark.parametrize(
    ("playbook", "answer", "says"),
    [
        ("teardown_cluster", REMOVED, "Not all of it."),
        ("schedule_pending", {"changed": False, "host": facts()}, "The queue is empty."),
    ],
)
def test_a_playbook_prints_no_deprecation_warning(
    tmp_path: Path, playbook: str, answer: dict[str, Any], says: str
) -> None:
    output = printed(tmp_path, playbook, answer)
    assert says in output
    assert deprecations(output) == []


def test_a_deprecation_warning_is_found(tmp_path: Path) -> None:
    """What follows from a module's result, which every supported core prints alike."""
    deprecated = {"msg": "It goes away.", "version": "9.0.0", "collection_name": "cluster_compute.session"}
    output = printed(tmp_path, "teardown_cluster", {**REMOVED, "deprecations": [deprecated]})
    assert deprecations(output)
    assert deprecations(output.replace("It goes away.", "awx.awx goes away.")) == []

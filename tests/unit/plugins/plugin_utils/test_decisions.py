# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What callbacks learn of decisions that no result shows, in a run of Ansible."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.cluster_compute.session.tests.support.stand_in import play

CALLBACK = """
from ansible.plugins.callback import CallbackBase
from ansible_collections.cluster_compute.session.plugins.plugin_utils.decisions import Decisions

DOCUMENTATION = "name: learns\\ntype: aggregate\\nshort_description: Writes what it learns of decisions"


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "learns"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self):
        super().__init__()
        self.decisions = Decisions()

    def v2_playbook_on_play_start(self, play):
        self.decisions.in_play(play)

    def v2_playbook_on_task_start(self, task, is_conditional):
        self.write("read", self.decisions.read())

    def v2_runner_on_ok(self, result):
        self.write("shown", self.decisions.shown(result))

    def write(self, how, state):
        if state is not None:
            print(f"LEARNED {how} {state.get('verb')} {state.get('step')}")
"""


def test_a_callback_reads_what_is_not_shown_before_the_next_task_runs(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins/learns.py").write_text(CALLBACK, encoding="utf-8")
    own = {"ANSIBLE_CALLBACK_PLUGINS": str(tmp_path / "plugins"), "ANSIBLE_CALLBACKS_ENABLED": "learns"}
    _code, output = play(tmp_path, "preflight", {"h1": None}, {}, **own)
    learned = [line for line in output.splitlines() if line.startswith("LEARNED ")]
    assert learned[:1] == ["LEARNED read preflight examine"], output
    assert not any(" shown " in line for line in learned)

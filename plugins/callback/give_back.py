# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Release what a launch holds when it is interrupted, before the run ends."""

from __future__ import annotations

DOCUMENTATION = r"""
name: give_back
type: aggregate
short_description: Release the resources of an interrupted launch
version_added: 1.0.0
description:
  - Acts when a run is interrupted (Ctrl-C, or SIGTERM) while it holds resources for a session that is not yet known to
    run. The callback then stops Ansible's current work, runs the playbook C(cluster_compute.session.gc) with the same
    inventory and options, and shows its output. After that, the run ends.
  - Everything that the interrupted launch had started is removed, unless the whole session runs by then. A session that
    ran before is not changed, and a session from the queue waits again.
  - A second interruption also ends the clean-up. The resources are then held until their lease ends, as they are after
    SIGKILL, which no process can handle.
  - Without a running launch, and in check mode, this callback has no effect.
author: The cluster_compute.session authors (@cluster-compute)
requirements:
  - named in C(callbacks_enabled) of C(ansible.cfg), or in E(ANSIBLE_CALLBACKS_ENABLED)
"""

EXAMPLES = r"""
# In ansible.cfg:
# [defaults]
# callbacks_enabled = cluster_compute.session.give_back
"""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any

from ansible import context
from ansible.plugins.callback import CallbackBase
from ansible_collections.cluster_compute.session.plugins.plugin_utils.decisions import DECISION, Decisions
from ansible_collections.cluster_compute.session.plugins.plugin_utils.run_identity import INTERRUPTED, run_of

PLAYBOOK = "cluster_compute.session.gc"
HOLDING = ("hold", "release", "name", "begin", "ready", "start", "meet", "undo", "reserve", "withhold")
"""Steps of a launch before and in which it may hold resources that no other process would release."""
PATIENCE = 60
"""Seconds for the clean-up. A sender of SIGTERM often sends SIGKILL after 90 seconds."""
STDERR = 2
PARTIAL = ("--tags", "-t", "--skip-tags", "--start-at-task")
"""Options, with a value, by which a part of a playbook is run."""


class CallbackModule(CallbackBase):
    """Tracks what is held, and cleans up when the run is interrupted."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "cluster_compute.session.give_back"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *arguments: Any, **named: Any) -> None:
        """Begin with nothing held."""
        super().__init__(*arguments, **named)
        self._decisions = Decisions()
        self._held: dict[str, str] = {}
        self._process = os.getpid()
        self._before: dict[int, Any] = {}

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Note where a play keeps the registered results of its tasks."""
        self._decisions.in_play(play)

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        """Note what a launch is about to do."""
        self._learn(self._decisions.read())

    def v2_runner_on_ok(self, result: Any) -> None:
        """Note what a launch is about to do. A failed launch has undone what it did."""
        self._learn(self._decisions.shown(result))

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """Note that a launch is over."""
        if str(result._task.action) == DECISION:
            self._held.clear()

    def _learn(self, state: Mapping[str, Any] | None) -> None:
        if state is None:
            return
        request = state.get("request")
        holds = state.get("verb") == "launch" and state.get("step") in HOLDING and not context.CLIARGS.get("check")
        if holds and isinstance(request, Mapping):
            self._held = {"session_name": str(state["session_name"]), "group": str(request["resource_group"])}
            self._watch()
        else:
            self._held = {}

    def _watch(self) -> None:
        """Handle signals first. Ansible itself installs its handlers after it has created its callbacks."""
        for number in () if self._before else (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._interrupted)

    def _interrupted(self, number: int, _frame: FrameType | None) -> None:
        """Release what is held, and pass the signal on to the earlier handler."""
        while self._before:
            signal.signal(*self._before.popitem())
        # A worker is a fork with its own handlers, except for a moment after it starts.
        if os.getpid() == self._process and self._held:
            for worker in multiprocessing.active_children():
                worker.terminate()
            self._give_back()
        os.kill(os.getpid(), number)

    def _give_back(self) -> None:
        name, group = self._held["session_name"], self._held["group"]
        _say(f"Interrupted: what the launch of session {name} holds is given back. Interrupt again to leave that.")
        given = json.dumps({"session_resource_group": group, "session_name": ""})
        argv = gc_command(sys.argv, context.CLIARGS["args"], given)
        environment = {**os.environ, INTERRUPTED: run_of(self._process)}
        # Named, because Ansible does not pass its own standard streams to the processes that it starts.
        with subprocess.Popen(argv, env=environment, stdin=0, stdout=1, stderr=2) as cleaning:
            try:
                code = cleaning.wait(PATIENCE)
                why = f"That ended with {code}" if code else ""
            except KeyboardInterrupt:
                why = "Interrupted again"
            except subprocess.TimeoutExpired:
                why = f"That has not ended within {PATIENCE} s"
            if why:
                cleaning.terminate()
                _say(f"{why}: what is still held is held until its time is up.")


def gc_command(argv: Sequence[str], playbooks: Sequence[str], given: str) -> list[str]:
    """Return the command that cleans up with the inventory and the options of another.

    argv: the other command. playbooks: the playbooks that it runs. given: extra variables, which override those of
    *argv*.
    """
    command, options = argv[0], list(argv[1:])
    for playbook in reversed(playbooks):
        # Options have their values right behind them, so the last word of that name is the playbook.
        position = len(options) - 1 - options[::-1].index(playbook)
        del options[position]
    kept: list[str] = []
    words = iter(options)
    for word in words:
        if word in PARTIAL:
            next(words, None)
        elif word.partition("=")[0] not in PARTIAL and word != "--step":
            kept.append(word)
    return [sys.executable, command, *kept, PLAYBOOK, "-e", given]


def _say(text: str) -> None:
    """Write directly. Ansible's own output needs locks that the interrupted run may hold."""
    os.write(STDERR, f"\n{text}\n".encode())

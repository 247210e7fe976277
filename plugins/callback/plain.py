# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Write what a run does for people: a line for each play with its time, answers as they are, each error once."""

from __future__ import annotations

DOCUMENTATION = r"""
name: plain
type: stdout
short_description: Show each play with its time, answers as they are, and each error once
version_added: 1.0.0
description:
  - For each play that had hosts, a line with its name and how long it took. A play that runs longer than 30 seconds
    without a line shows its current task.
  - Messages of M(ansible.builtin.debug), and of the verbs, are shown line by line as they are, so lines can be copied
    whole.
  - A failure is shown once for all hosts that have the same, with their names if not all hosts of the play have it. A
    failure from which the play recovers is shown as a note.
  - Nothing else is shown. With C(-v) the output is that of the callback P(ansible.builtin.default#callback), whose
    options apply.
author: The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - default_callback
  - result_format_callback
options:
  artifacts:
    description:
      - File on the controller to which the artifacts of the run (M(ansible.builtin.set_stats)) are written, as JSON.
    type: path
    env:
      - name: CLUSTER_COMPUTE_ARTIFACTS
requirements:
  - named as C(stdout_callback) in C(ansible.cfg), or in E(ANSIBLE_STDOUT_CALLBACK)
"""

EXAMPLES = r"""
# In ansible.cfg:
# [defaults]
# stdout_callback = cluster_compute.session.plain
"""

import json
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from functools import wraps
from typing import Any, Callable, TypeVar

import yaml
from ansible.plugins.callback.default import CallbackModule as Default
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import printable
from ansible_collections.cluster_compute.session.plugins.plugin_utils.plain_lines import Problems, lines_of, step_line

QUIET_SECONDS = 30.0
"""After how many seconds without a line the current task is shown."""

Method = TypeVar("Method", bound=Callable[..., None])


def _unless_verbose(method: Method) -> Method:
    """Pass the event on to the callback of Ansible if -v was given."""

    @wraps(method)
    def chosen(self: CallbackModule, *arguments: Any, **named: Any) -> None:
        if self._display.verbosity:
            getattr(Default, method.__name__)(self, *arguments, **named)
        else:
            method(self, *arguments, **named)

    return chosen  # type: ignore[return-value]


class CallbackModule(Default):
    """The current play, and the failures of its current task."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "cluster_compute.session.plain"

    def __init__(self, *arguments: Any, **named: Any) -> None:
        """Begin before the first play."""
        super().__init__(*arguments, **named)
        self._name = ""
        self._began = 0.0
        self._hosts: set[str] = set()
        self._shown = ""
        self._has_failed = False
        self._task = ""
        self._problems = Problems()
        self._written = time.monotonic()
        self._ended = threading.Event()
        self._ticks: threading.Thread | None = None

    # ---- lines ----------------------------------------------------------------------------------------------------

    def _say(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._display.display(printable(line))
            self._written = time.monotonic()

    def _tick(self) -> None:
        """Show the current task of a play that takes long."""
        while not self._ended.wait(1.0):
            if self._hosts and time.monotonic() - self._written >= QUIET_SECONDS:
                self._say([f"  … {self._task}, {time.monotonic() - self._began:.0f} s"])

    def _end_step(self) -> None:
        """Show the line of the play, unless it was shown before its answer and nothing has failed since."""
        state = "failed" if self._has_failed else "ended"
        if self._hosts and self._shown not in (state, "failed"):
            seconds = time.monotonic() - self._began
            self._say([step_line(self._name, seconds, self._has_failed, sys.stdout.encoding or "ascii")])
            self._shown = state
        self._say(self._problems.lines(self._hosts))

    def _answer(self, message: object) -> None:
        self._end_step()
        self._say(lines_of(message))

    # ---- what Ansible tells ---------------------------------------------------------------------------------------

    @_unless_verbose
    def v2_playbook_on_play_start(self, play: Any) -> None:
        """End the play before, and begin another."""
        self._end_step()
        self._name, self._began = play.get_name().strip(), time.monotonic()
        self._hosts, self._shown, self._has_failed, self._task = set(), "", False, ""
        if self._ticks is None:
            self._ticks = threading.Thread(target=self._tick, name="plain", daemon=True)
            self._ticks.start()

    @_unless_verbose
    def v2_playbook_on_no_hosts_matched(self) -> None:
        """Say nothing: plays may be empty. Ansible itself warns of a pattern that matches no host."""

    @_unless_verbose
    def v2_playbook_on_no_hosts_remaining(self) -> None:
        """Say nothing: the failures have been shown."""

    @_unless_verbose
    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        """Note the task, for a play that takes long."""
        self._flush()
        self._task = task.get_name().rpartition(" : ")[2].strip()

    v2_playbook_on_cleanup_task_start = v2_playbook_on_task_start

    @_unless_verbose
    def v2_playbook_on_handler_task_start(self, task: Any) -> None:
        """Note the task of a handler."""
        self.v2_playbook_on_task_start(task, is_conditional=False)

    @_unless_verbose
    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        """Note that a host takes part in the play."""
        self._hosts.add(host.get_name())

    @_unless_verbose
    def v2_runner_on_ok(self, result: Any) -> None:
        """Show what a task reports."""
        self._handle_warnings(result._result)
        if self._reports(result) and "results" not in result._result:
            self._answer(result._result.get("msg", _shown_variable(result._result)))

    @_unless_verbose
    def v2_runner_item_on_ok(self, result: Any) -> None:
        """Show what one turn of a loop reports."""
        if self._reports(result):
            self._answer(result._result.get("msg", _shown_variable(result._result)))

    @_unless_verbose
    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """Note a failure."""
        self._handle_warnings(result._result)
        if not ignore_errors and not self._problems.has_items_of(result._host.get_name()):
            self._fail(result)

    @_unless_verbose
    def v2_runner_item_on_failed(self, result: Any) -> None:
        """Note the failure of one turn of a loop."""
        if not result._task.ignore_errors:
            self._fail(result, is_item=True)

    @_unless_verbose
    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Note a host that does not answer."""
        if not result._task.ignore_unreachable:
            self._fail(result)

    @_unless_verbose
    def v2_runner_on_skipped(self, result: Any) -> None:
        """Say nothing."""

    @_unless_verbose
    def v2_runner_item_on_skipped(self, result: Any) -> None:
        """Say nothing."""

    @_unless_verbose
    def v2_playbook_on_include(self, included_file: Any) -> None:
        """Say nothing."""

    @_unless_verbose
    def v2_runner_retry(self, result: Any) -> None:
        """Say nothing."""

    @_unless_verbose
    def v2_runner_on_async_poll(self, result: Any) -> None:
        """Say nothing."""

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """End the last play, and hand on what the run has set, also if -v was given."""
        if self._display.verbosity:
            super().v2_playbook_on_stats(stats)
        else:
            self._end_step()
        self._ended.set()
        path = self.get_option("artifacts")
        if path:
            with open(path, "w", encoding="utf-8") as file:
                json.dump(stats.custom.get("_run", {}), file, default=str)

    def _reports(self, result: Any) -> bool:
        """Tell whether a result is for people whatever the verbosity, as that of debug is."""
        return bool(self._run_is_verbose(result)) and not result._result.get("skipped")

    def _fail(self, result: Any, is_item: bool = False) -> None:
        handled = _is_rescued(result._task)
        self._has_failed = self._has_failed or not handled
        # Of a task that runs once, the host is chance.
        host = "" if result._task.run_once else result._host.get_name()
        self._problems.add(host, result._result, handled=handled, is_item=is_item)

    def _flush(self) -> None:
        """Show failures once their task has ended on all hosts."""
        if self._problems.are_any:
            self._end_step()


def _shown_variable(values: Mapping[str, Any]) -> object:
    """Return the value that ``debug`` with ``var`` shows, with its name."""
    shown = {name: value for name, value in values.items() if not name.startswith("_") and name != "changed"}
    return yaml.safe_dump(shown, allow_unicode=True, sort_keys=False) if shown else ""


def _is_rescued(task: Any) -> bool:
    """Tell whether a block around a task deals with its failures."""
    inner, block = task, task._parent
    while block is not None:
        # Each host gets copies of tasks and blocks, which keep their identifiers.
        if getattr(block, "rescue", None) and inner._uuid in {part._uuid for part in block.block}:
            return True
        inner, block = block, getattr(block, "_parent", None)
    return False

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Show the progress of a launch on the terminal, in addition to the callback that writes the results."""

from __future__ import annotations

DOCUMENTATION = r"""
name: progress
type: aggregate
short_description: Show the states of a launch with counts and times
version_added: 1.0.0
description:
  - During a launch, a teardown or a repair, one line on the terminal shows its state, how many hosts have finished
    their part, and how many seconds it has taken. The line is updated in place, at most four times a second. At the
    end, a line for each state is shown.
  - The states are C(look), C(pull), C(reserve), C(network), C(start), C(ready), and if they are needed C(data),
    C(release), C(remove), C(wait) and C(repair). C(network), C(start) and C(ready) run in one call on each host, which
    reports at its end how long each of them took.
  - All of this is written to standard error, and only if that is a terminal. The standard output callback still writes
    the results, so the output of C(ANSIBLE_STDOUT_CALLBACK=ansible.posix.json) can be piped to a program.
  - A terminal that cannot rewrite a line (E(TERM) is C(dumb) or not set) gets a line when a state begins, and then one
    every ten seconds. Colours are not used.
  - Nothing is shown under ansible-runner and therefore under AWX, although there is a terminal.
  - A fault in the display ends only the display.
author: The cluster_compute.session authors (@cluster-compute)
requirements:
  - named in C(callbacks_enabled) of C(ansible.cfg), or in E(ANSIBLE_CALLBACKS_ENABLED)
options:
  show:
    description:
      - Whether to show anything.
    type: bool
    default: true
    env:
      - name: CLUSTER_COMPUTE_PROGRESS
    ini:
      - section: callback_cluster_compute_progress
        key: show
"""

EXAMPLES = r"""
# In ansible.cfg:
# [defaults]
# callbacks_enabled = cluster_compute.session.progress
"""

import atexit
import os
import sys
import threading
import time
from functools import wraps
from typing import Any, Callable, TypeVar

from ansible.plugins.callback import CallbackBase
from ansible_collections.cluster_compute.session.plugins.plugin_utils.decisions import Decisions
from ansible_collections.cluster_compute.session.plugins.plugin_utils.progress import (
    DONE,
    FAILED,
    SKIPPED,
    Progress,
    State,
    state_of,
)

STDERR = 2
INTERVAL = 0.25
"""Seconds between two checks of the line, which is written again if it has changed."""
PLAIN_INTERVAL = 10.0
"""Seconds between two lines of the same state where a line cannot be rewritten."""
RUNNER = "AWX_ISOLATED_DATA_DIR"
"""Set by ansible-runner, which gives the run a terminal that no one sees, and records what is written to it."""
ERASE = "\r\x1b[K"
"""Back to the first column, and clear to the end of the line (ECMA-48, EL)."""

Method = TypeVar("Method", bound=Callable[..., None])


def _guarded(method: Method) -> Method:
    """Limit a fault of the display to the display, so that it never ends the run or affects other callbacks."""

    @wraps(method)
    def guarded(self: CallbackModule, *arguments: Any, **named: Any) -> None:
        if self.disabled:
            return
        try:
            with self.lock:
                method(self, *arguments, **named)
        except Exception:
            self.give_up()

    return guarded  # type: ignore[return-value]


class CallbackModule(CallbackBase):
    """The line, and the state of the run."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "cluster_compute.session.progress"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *arguments: Any, **named: Any) -> None:
        """Begin with nothing shown."""
        super().__init__(*arguments, **named)
        self.lock = threading.RLock()
        self.progress = Progress()
        self._decisions = Decisions()
        self._shown = ""
        self._words = ""
        self._when = 0.0
        self._plain = os.environ.get("TERM", "dumb") in ("", "dumb")
        self._process = os.getpid()
        self._original: Callable[..., None] | None = None
        self._ended = threading.Event()

    def set_options(self, *arguments: Any, **named: Any) -> None:
        """Read the option; Ansible does not call a callback that has disabled itself."""
        super().set_options(*arguments, **named)
        self.disabled = not self.get_option("show") or RUNNER in os.environ or not os.isatty(STDERR)

    # ---- the terminal ---------------------------------------------------------------------------------------------

    def _write(self, text: str) -> None:
        os.write(STDERR, text.encode())

    def _begin(self) -> None:
        """Share the terminal with all other output of Ansible, which goes through one object, and start to tick."""
        if self._original is None:
            original = self._original = self._display.display
            self._display.display = self._after_the_line(original)
            atexit.register(self._end)
            if not self._plain:
                threading.Thread(target=self._tick, name="progress", daemon=True).start()

    def _after_the_line(self, original: Callable[..., None]) -> Callable[..., None]:
        """Return a function that prints in place of the line, which comes back with the next tick."""

        def display(*arguments: Any, **named: Any) -> None:
            # A worker is a fork. It prints through its parent, and must not wait for its copy of a lock.
            if os.getpid() != self._process:
                return original(*arguments, **named)
            with self.lock:
                self._erase()
                return original(*arguments, **named)

        return display

    def _tick(self) -> None:
        while not self._ended.wait(INTERVAL):
            self._draw()

    @_guarded
    def _draw(self) -> None:
        """Show the line if it has changed. On a terminal where lines stay, print it again."""
        now = time.monotonic()
        text = self.progress.line(now)
        if self._plain:
            words = " ".join(word for word in text.split(" ") if word.isalpha())
            if text and (words != self._words or now - self._when >= PLAIN_INTERVAL):
                self._words, self._when = words, now
                self._write(f"{text}\n")
            return
        text = text[: max(1, _columns() - 1)]
        if text != self._shown and now - self._when >= INTERVAL / 2:
            self._write(f"{ERASE}{text}")
            self._shown, self._when = text, now

    def _erase(self) -> None:
        if self._shown:
            self._shown = ""
            try:
                self._write(ERASE)
            except OSError:
                self.give_up()

    def _end(self) -> None:
        """Restore the terminal to its earlier state."""
        self._ended.set()
        if self._original is not None:
            with self.lock:
                self._erase()
                self._display.display = self._original
                self._original = None

    def give_up(self) -> None:
        """Stop showing anything."""
        self.disabled = True
        self._shown = ""
        self._ended.set()

    # ---- what Ansible tells ---------------------------------------------------------------------------------------

    @_guarded
    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Count the hosts of a play, or of one of its batches."""
        self._decisions.in_play(play)
        inventory = play.get_variable_manager()._inventory
        self.progress.play(len(inventory.get_hosts(play.hosts)))

    @_guarded
    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        """Begin or continue a state."""
        self.progress.learn(self._decisions.read())
        state = self._state(task)
        if state is not None:
            self.progress.task(state, bool(task.run_once))

    @_guarded
    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        """Note that a host begins."""
        state = self._state(task)
        if state is not None:
            self._begin()
            self.progress.begin(state, host.get_name(), time.monotonic())
            self._draw()

    def v2_runner_on_ok(self, result: Any) -> None:
        """Note that a host has ended, successfully or with an ignored failure."""
        self._end_of_host(result, DONE)

    def v2_runner_on_skipped(self, result: Any) -> None:
        """Note that a host had nothing to do."""
        self._end_of_host(result, SKIPPED)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """Note that a host has failed."""
        self._end_of_host(result, FAILED)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Note that a host did not answer."""
        self._end_of_host(result, FAILED)

    @_guarded
    def _end_of_host(self, result: Any, outcome: str) -> None:
        task, values = result._task, result._result
        if outcome == DONE:
            self.progress.learn(self._decisions.shown(result))
        state = self._state(task)
        if state is not None:
            self.progress.end(state, result._host.get_name(), outcome, values, time.monotonic())
            self._draw()

    def _state(self, task: Any) -> State | None:
        """Return the state of a task, by the action name in the role. Ansible may resolve it to another action."""
        return state_of(str(task.action), task.args, self.progress.step)

    @_guarded
    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Report at the end how long each state took."""
        lines = self.progress.summary(time.monotonic())
        self._end()
        if lines:
            sys.stdout.flush()
            self._write("".join(f"{line[: max(1, _columns() - 1)]}\n" for line in ["PROGRESS", *lines]))


def _columns() -> int:
    """Return the width of the terminal, which may change at any time."""
    try:
        return os.get_terminal_size(STDERR).columns or 80
    except OSError:
        return 80

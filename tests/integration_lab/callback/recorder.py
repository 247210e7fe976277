# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write what each task did on each host to a file, one JSON object a line: tests need not parse the terminal."""

from __future__ import annotations

import json
import os
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: recorder
type: notification
short_description: Records results for the integration tests
description:
  - Appends one JSON object for each task and each result to the file that E(CLUSTER_COMPUTE_TEST_RECORD) names.
requirements: []
"""


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """The recorder."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "recorder"
    CALLBACK_NEEDS_ENABLED = True

    def _write(self, **entry: Any) -> None:
        with open(os.environ["CLUSTER_COMPUTE_TEST_RECORD"], "a", encoding="utf-8") as file:
            file.write(json.dumps(entry, default=str) + "\n")

    def _result(self, outcome: str, result: Any) -> None:
        values = result._result
        self._write(
            kind="result",
            outcome=outcome,
            host=result._host.get_name(),
            task=result._task.get_name(),
            action=result._task.action,
            changed=bool(values.get("changed")),
            values=values,
        )

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        """Record that a task begins."""
        self._write(kind="task", task=task.get_name())

    def v2_runner_on_ok(self, result: Any) -> None:
        """Record a success."""
        self._result("ok", result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """Record a failure."""
        self._result("failed", result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Record a host that did not answer."""
        self._result("unreachable", result)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Record the recap, and what was handed on for the whole run."""
        self._write(kind="artifacts", values=stats.custom.get("_run", {}))
        for host in sorted(stats.processed):
            self._write(kind="recap", host=host, **stats.summarize(host))

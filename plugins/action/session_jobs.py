# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Decide, on the controller, where a job runs, and judge what came of it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.cluster_compute.session.plugins.action.session_logs import chosen
from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import CoreError
from ansible_collections.cluster_compute.session.plugins.module_utils.core.job import (
    ENDED,
    LOST,
    UNKNOWN,
    describe,
    failure_of,
    parse_job_request,
    plan_job,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.record import RUNNING
from ansible_collections.cluster_compute.session.plugins.module_utils.core.output import (
    BATCH,
    batch_job,
    rank_order,
    shown,
)
from ansible_collections.cluster_compute.session.plugins.plugin_utils.request_variables import group_variables

PREFIX = "job_"
BEGUN = {"status": RUNNING, "exit_code": None, "timed_out": False, "stopped": False, "problem": ""}
"""What is known of a job in a replica as soon as it was started."""
LAST_LINES = 10
"""Lines of a replica in which the job failed that the failure shows."""


class ActionModule(ActionBase):
    """The action behind the module session_jobs."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what the step comes to."""
        super().run(tmp, task_vars)
        task_vars = task_vars or {}
        _result, arguments = self.validate_argument_spec(
            {
                "state": {"type": "str", "choices": ["checked", "planned", "judged"], "required": True},
                "results": {"type": "dict"},
                "session_name": {"type": "str"},
                "resource_group": {"type": "str"},
                "request": {"type": "dict"},
                "plan": {"type": "dict"},
                "waited": {"type": "bool", "default": True},
            },
            required_if=[
                ("state", "planned", ["results", "session_name", "resource_group", "request"]),
                ("state", "judged", ["results", "plan"]),
            ],
        )
        try:
            if arguments["state"] == "checked":
                return {"changed": False, "request": self._checked(task_vars)}
            if arguments["state"] == "planned":
                return {"changed": False, **_planned(arguments)}
            return {"changed": False, **judged(arguments["plan"], arguments["results"], arguments["waited"])}
        except CoreError as error:
            return {"failed": True, "msg": f"The job cannot be run; nothing was started.\n{error}"}

    def _checked(self, task_vars: Mapping[str, Any]) -> dict[str, Any]:
        _group, variables = group_variables(PREFIX, task_vars, self._templar.template)
        request = parse_job_request(variables).to_dict()
        del request["env"]  # its values are secret; whoever starts the job reads them by itself
        return request


def _planned(arguments: Mapping[str, Any]) -> dict[str, Any]:
    request, name, results = arguments["request"], arguments["session_name"], arguments["results"]
    asked = {"session_id": "", "replicas": [], "job": request["id"]}
    answer = chosen({**arguments, "request": asked}, "job_id")
    session_id = answer["session_id"]
    known = {
        host: one for host, result in results.items() for one in result.get("sessions") or () if one["id"] == session_id
    }
    if request["id"]:
        job = batch_job(session_id) if request["id"] == BATCH else request["id"]
        about = next(one["jobs"][job] for one in known.values() if job in one["jobs"])
        on, command = about["on"], about["command"]
    else:
        job, on, command = secrets.token_hex(6), plan_job(request["on"], name, known), request["command"]
    return {
        "session_id": session_id,
        "session_name": name,
        "job": job,
        "is_batch": job == batch_job(session_id),
        "on": on,
        "hosts": sorted(set(on.values())),
        "command": describe(command),
        "width": max(len(f"{replica}/{job}") for replica in on),
    }


def judged(plan: Mapping[str, Any], results: Mapping[str, Any], waited: bool = True) -> dict[str, Any]:
    """Return how a job ended in each of its replicas, as data and as text.

    results: registered results of session_output, by host. waited: False where nobody asked the hosts yet.
    """
    answers = {
        one["replica"]: one
        for result in results.values()
        for one in result.get("jobs") or ()
        if one["job"] == plan["job"]
    }
    lines = {one["replica"]: one["lines"] for result in results.values() for one in result.get("sources") or ()}
    replicas: dict[str, dict[str, Any]] = {}
    failures = []
    for name in sorted(plan["on"], key=rank_order):
        host = plan["on"][name]
        outcome = {
            "replica": name,
            "host": host,
            **answers.get(name, _unknown(results.get(host) or {}) if waited else BEGUN),
        }
        replicas[name] = {
            key: outcome[key] for key in ("host", "status", "exit_code", "timed_out", "stopped", "problem")
        }
        failure = failure_of(outcome)
        if failure:
            last = [shown(name, 0, stream, text) for _time, stream, text in lines.get(name, [])[-LAST_LINES:]]
            failures.append("\n".join([failure, *last]))
    found = [one["status"] for one in replicas.values()]
    status = next((one for one in (RUNNING, UNKNOWN, LOST) if one in found), ENDED)
    outcome = {"job": plan["job"], "session_id": plan["session_id"], "status": status}
    succeeded = status == ENDED and not failures
    report = [f"{name} on {one['host']}: {_in_words(one)}" for name, one in replicas.items()]
    if status in (RUNNING, UNKNOWN):
        report.append(f"Come back to it with run_job, job_id={plan['job']}.")
    return {
        "outcome": {**outcome, "succeeded": succeeded, "replicas": replicas},
        "report": [f"Job {plan['job']} of session {plan['session_name']}: {plan['command']}", *report],
        "failures": failures,
    }


def _unknown(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is said of a replica of which its host says nothing."""
    why = (
        "The host cannot be reached."
        if result.get("unreachable")
        else result.get("msg") or "The host has nothing of it."
    )
    nothing = {"exit_code": None, "timed_out": False, "stopped": False}
    return {"status": UNKNOWN, **nothing, "problem": f"How the job ended is not known. {why}"}


def _in_words(outcome: Mapping[str, Any]) -> str:
    """Return what can be said of a job in a replica in a few words."""
    if outcome["status"] != ENDED or outcome["exit_code"] is None:
        return str(outcome["status"])
    cause = " (timeout)" if outcome["timed_out"] else " (stopped)" if outcome["stopped"] else ""
    return f"exit code {outcome['exit_code']}{cause}"

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Put together, on the controller, what the replicas of a session wrote."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import CoreError, InvalidInput
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.record import ENDED, PENDING
from ansible_collections.cluster_compute.session.plugins.module_utils.core.output import (
    BATCH,
    NO_JOB,
    batch_job,
    merge,
    parse_logs_request,
    rank_order,
    shown,
    speaker,
    time_of,
)
from ansible_collections.cluster_compute.session.plugins.plugin_utils.request_variables import group_variables

PREFIX = "logs_"
MERGED = "merged"
"""Name of the file that holds the lines of all replicas; no replica has it, as its name has no number."""


class ActionModule(ActionBase):
    """The action behind the module session_logs."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what the step comes to."""
        super().run(tmp, task_vars)
        task_vars = task_vars or {}
        _result, arguments = self.validate_argument_spec(
            {
                "state": {"type": "str", "choices": ["checked", "chosen", "merged"], "required": True},
                "results": {"type": "dict"},
                "session_name": {"type": "str"},
                "resource_group": {"type": "str"},
                "request": {"type": "dict"},
                "chosen": {"type": "dict"},
            },
            required_if=[
                ("state", "chosen", ["results", "session_name", "resource_group", "request"]),
                ("state", "merged", ["results", "request", "chosen"]),
            ],
        )
        try:
            if arguments["state"] == "checked":
                return {"changed": False, "request": self._checked(task_vars)}
            if arguments["state"] == "chosen":
                return {"changed": False, **chosen(arguments)}
            return self._merged(arguments)
        except CoreError as error:
            return {"failed": True, "msg": f"There are no logs to show.\n{error}"}

    def _checked(self, task_vars: Mapping[str, Any]) -> dict[str, Any]:
        _group, variables = group_variables(PREFIX, task_vars, self._templar.template)
        return parse_logs_request(variables).to_dict()

    def _merged(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        request = arguments["request"]
        meant = {host: arguments["results"].get(host) or {} for host in arguments["chosen"]["hosts"]}
        sources = [source for result in meant.values() for source in result.get("sources") or ()]
        lines = merge(sources)
        if not request["follow_seconds"]:
            width = max((len(speaker(source)) for source in sources), default=0)
            for time, who, stream, text in lines:
                Display().display(shown(who, width, stream, text, time if request["timestamps"] else ""))
        notes = [*arguments["chosen"]["notes"], *_notes(meant, sources, request, arguments["chosen"]["members"])]
        files = _files(sources, lines) if request["directory"] else {}
        changed = False
        if files:
            changed = _save(os.path.abspath(os.path.expanduser(request["directory"])), files, self._task.check_mode)
        return {"changed": changed, "notes": notes, "files": sorted(files), "lines": len(lines)}


def chosen(arguments: Mapping[str, Any], job_variable: str = "logs_job") -> dict[str, Any]:
    """Return the session that is meant and the hosts that have anything of it.

    A job tells which session is meant, but a batch command does not: it is the one of the session that is meant without
    it. job_variable: what names the job. Raises InvalidInput where there is no such session or job.
    """
    results, request, name = arguments["results"], arguments["request"], arguments["session_name"]
    notes, known = [], {}
    for host, result in results.items():
        if "sessions" in result:
            known[host] = {one["id"]: one for one in result["sessions"]}
        else:
            why = "It could not be reached." if result.get("unreachable") else result.get("msg") or "It did not answer."
            notes.append(f"{host}: What its replicas wrote is missing. {why}")
    order: dict[str, tuple[bool, float]] = {}
    job = request["job"] if request["job"] not in (NO_JOB, BATCH) else ""
    jobs: dict[str, Any] = {}
    for found in known.values():
        for key, one in found.items():
            jobs.update(one["jobs"])
            if job and not any(job in some[key]["jobs"] for some in known.values() if key in some):
                continue
            place = (bool(one["status"]), float(one["ended"] or 0))
            order[key] = max(order.get(key, place), place)
    if job and not order and any(known.values()):
        listed = ", ".join(sorted(jobs)) or "none"
        raise InvalidInput.single(job_variable, job, f"Session {name} has no such job. It has {listed}.")
    if not order:
        said = " ".join(["", *notes]) if notes else ""
        raise InvalidInput.single(
            "logs_session_id" if request["session_id"] else "session_name",
            request["session_id"] or name,
            f"The resource group {arguments['resource_group']} has no such session, and keeps nothing of one that has "
            f"ended.{said}",
        )
    session_id = max(order, key=lambda key: (order[key], key))
    ends: dict[str, Any] = {}
    for found in known.values():
        ends.update(found.get(session_id, {}).get("replicas", {}))
    statuses = {found[session_id]["status"] for found in known.values() if session_id in found}
    if statuses <= {"", *ENDED} and order[session_id][1]:
        notes.insert(0, f"Session {name} ({session_id}) ended at {time_of(int(order[session_id][1]) * 10**9)[:19]}Z.")
    elif PENDING in statuses:
        notes.insert(0, f"Session {name} ({session_id}) waits in the queue, so nothing of it runs.")
    members = {name: host for host, found in known.items() for name in found.get(session_id, {}).get("members", ())}
    jobs = {key: one for found in known.values() for key, one in found.get(session_id, {}).get("jobs", {}).items()}
    if request["job"] == BATCH:
        job = batch_job(session_id)
        if job not in jobs:
            raise InvalidInput.single(job_variable, BATCH, " ".join([_no_batch(name, session_id, statuses), *notes]))
    shows_jobs = [job] if job else [] if request["job"] else list(jobs)
    names = [*ends, *members, *request["replicas"], "main1"]
    names += [f"{one}/{key}" for key in shows_jobs for one in jobs[key]["on"]]
    return {
        "session_id": session_id,
        "members": members,
        "hosts": [host for host, found in known.items() if session_id in found],
        "width": max(map(len, names)),
        "notes": notes + [_end(one, ends[one]) for one in sorted(ends, key=rank_order)],
    }


def _no_batch(name: str, session_id: str, statuses: set[str]) -> str:
    if PENDING in statuses:
        return f"The batch command of session {name} ({session_id}) is not started yet."
    return (
        f"No host that answered has started a batch command of session {name} ({session_id}). If it was asked for with "
        "session_batch_command, launch the session again."
    )


def _end(replica: str, end: Mapping[str, Any]) -> str:
    cause = ", killed for want of memory" if end.get("oom_killed") else ""
    return f"Replica {replica} was removed; it had ended with exit code {end.get('exit_code')}{cause}."


def _notes(
    meant: Mapping[str, Any], sources: list[dict[str, Any]], request: Mapping[str, Any], members: Mapping[str, str]
) -> list[str]:
    """Return what is missing of what was asked for."""
    notes = []
    for host, result in meant.items():
        if "sources" not in result:
            why = "It could not be reached." if result.get("unreachable") else result.get("msg") or "It did not answer."
            notes.append(f"{host}: What its replicas wrote is missing. {why}")
    for source in sorted(sources, key=lambda one: (rank_order(one["replica"]), one["job"])):
        if source["left_out"]:
            notes.append(
                f"{speaker(source)}: {source['left_out']} older lines are left out; logs_size allows {request['size']} "
                "bytes of a replica."
            )
    here = {source["replica"] for source in sources if not source["job"]}
    for one in sorted({*members, *request["replicas"]} - here, key=rank_order):
        if request["job"] in ("", NO_JOB) and (not request["replicas"] or one in request["replicas"]):
            where = members.get(one)
            if where is None:
                notes.append(f"Nothing is known of a replica {one} of this session.")
            elif "sources" in meant[where]:
                notes.append(f"Replica {one} on {where} has no container. Whatever it wrote went with the container.")
    return notes


def _files(sources: list[dict[str, Any]], lines: list[tuple[str, str, str, str]]) -> dict[str, str]:
    """Return the files to save: one of each replica and job, and one of all."""
    found: dict[str, list[str]] = {MERGED: [f"{time} {who} {stream} {text}" for time, who, stream, text in lines]}
    for source in sources:
        name = f"{source['replica']}.{source['job']}" if source["job"] else source["replica"]
        found.setdefault(name, []).extend(f"{time} {stream} {text}" for time, stream, text in source["lines"])
    return {f"{name}.log": "".join(f"{line}\n" for line in some) for name, some in found.items()}


def _save(directory: str, files: Mapping[str, str], check_mode: bool) -> bool:
    """Write the files and tell whether that changed anything. Raises InvalidInput where it cannot be done."""
    changed = False
    try:
        if not check_mode:
            os.makedirs(directory, mode=0o700, exist_ok=True)
        for name, text in files.items():
            path = os.path.join(directory, name)
            content = text.encode("utf-8", "backslashreplace")
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    if file.read() == content:
                        continue
            changed = True
            if not check_mode:
                handle, temporary = tempfile.mkstemp(dir=directory, prefix=f".{name}.")
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
                os.replace(temporary, path)
    except OSError as error:
        raise InvalidInput.single("logs_directory", directory, f"Nothing can be saved there: {error}.") from error
    return changed

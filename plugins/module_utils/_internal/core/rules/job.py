# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Jobs: commands that run in replicas of a running session; the request, where they run, and the outcome."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from ..model.output import JobOutcome, JobRequest, SessionCopy
from ..model.record import RUNNING
from ..values.errors import InvalidInput
from ..values.parse import Reader, Readers, is_given, is_plain, parse_bool, parse_env, shell_text
from .output import BATCH, JOB_ID, parse_since, rank_order, refuse_misspelt

ENDED, LOST, UNKNOWN = "ENDED", "LOST", "UNKNOWN"
"""States of a job in a replica besides RUNNING: its program ended; no process watches it any more; its host is
unreachable."""
TIMED_OUT = 124
"""Exit code of a command that was ended because its time was over, as in timeout(1)."""
STOPPED = 143
"""Exit code of a command that was stopped: 128 and the number of SIGTERM, as in shells."""
READY = "running"
LONGEST = 365 * 24 * 3600

ALL = "all"
_WORD = re.compile(r"[a-z][a-z0-9-]{0,30}")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}\$?(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})?")


def parse_job_request(variables: Mapping[str, Any]) -> JobRequest:
    """Return the request in the ``job_`` variables. Raises InvalidInput with all problems."""
    readers: Readers = {
        "command": _command,
        "on": _on,
        "env": parse_env,
        "directory": parse_directory,
        "user": _user,
        "timeout": _timeout,
        "detach": parse_bool,
        "id": _id,
        "stop": parse_bool,
        "warn_alone": parse_bool,
    }
    reader = Reader()
    refuse_misspelt(reader, variables, "job_", readers)
    found = reader.each("job_", readers, variables)
    named = {key for key in readers if is_given(variables.get(f"job_{key}"))}
    if "command" in named and "id" in named:
        reader.add("job_id", variables["job_id"], "It names a job that was started before; leave job_command out.")
    elif not {"command", "id"} & named:
        reader.add("job_command", None, "Give the command to run, or the job_id of one to come back to.")
    if "command" not in named:
        for key in sorted(named & {"on", "env", "directory", "user", "timeout"}):
            reader.add(f"job_{key}", "given", "It belongs to a job_command.")
    elif found.get("stop"):
        reader.add("job_stop", True, "It belongs to a job_id.")
    return reader.finish(JobRequest(**found))


def _command(variable: str, value: object) -> tuple[str, ...]:
    """Return the argv to run: text is for the shell, a list is run as it is."""
    argv: list[Any] = []
    if isinstance(value, str):
        argv = ["/bin/sh", "-c", shell_text(value)]
    elif isinstance(value, (list, tuple)) and value:
        argv = [str(int(word)) if isinstance(word, int) and not isinstance(word, bool) else word for word in value]
    if not argv or not all(isinstance(word, str) and is_plain(word, "\t\n\r") for word in argv):
        raise InvalidInput.single(
            variable, value, "It must be text for /bin/sh, or a list of words without control characters."
        )
    return tuple(argv)


def _on(variable: str, value: object) -> tuple[str, ...]:
    words = re.split(r"[\s,]+", value.strip()) if isinstance(value, str) else value
    if not isinstance(words, (list, tuple)) or not all(
        isinstance(word, str) and _WORD.fullmatch(word) for word in words
    ):
        raise InvalidInput.single(
            variable, value, "It must be main1, all, or a list of roles and replicas, such as sub or main1,sub2."
        )
    return tuple(words)


def parse_directory(variable: str, value: object) -> str:
    """Return a folder in replicas. Raises InvalidInput."""
    if not isinstance(value, str) or not is_plain(value) or not value.strip().startswith("/"):
        raise InvalidInput.single(variable, value, "It must be an absolute path in the replicas.")
    return value.strip()


def _user(variable: str, value: object) -> str:
    text = str(value).strip() if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
    if _USER.fullmatch(text) is None:
        raise InvalidInput.single(variable, value, "It must be the name or number of a user, with :group where meant.")
    return text


def _timeout(variable: str, value: object) -> int:
    try:
        seconds = int(parse_since(variable, value).seconds or 0)
    except InvalidInput:
        seconds = 0
    if not 1 <= seconds <= LONGEST:
        raise InvalidInput.single(
            variable, value, "It must be a span from one second to a year: 90s, 15m, 1h30m or 2d."
        )
    return seconds


def _id(variable: str, value: object) -> str:
    text = str(value).strip()
    if text != BATCH and JOB_ID.fullmatch(text) is None:
        why = (
            f"It must be the id of a job, twelve digits as run_job tells it, or {BATCH} for a session's batch command."
        )
        raise InvalidInput.single(variable, value, why)
    return text


def plan_job(on: Iterable[str], name: str, known: Mapping[str, SessionCopy]) -> dict[str, str]:
    """Return the replicas in which a command is to run, in rank order, with their hosts.

    on: words for the replicas. name: of the session. known: for each host that answered, its report of the session.
    Raises InvalidInput if it cannot run, with the reason.
    """
    status = next((copy.status for copy in known.values() if copy.members), "")
    status = status or next((copy.status for copy in known.values() if copy.status), "")
    if status != RUNNING:
        word = f"It is {status}" if status else "It has ended"
        raise InvalidInput.single("session_name", name, f"{word}; a job needs a session that runs.")
    hosts = sorted({host for copy in known.values() for host in copy.hosts})
    missing = [host for host in hosts if host not in known or not known[host].members]
    if missing:
        why = f"A job needs all of the session, and {', '.join(missing)} cannot be asked for its replicas."
        raise InvalidInput.single("session_name", name, why)
    host_of = {replica: host for host in hosts for replica in known[host].members}
    states = {replica: known[host].members[replica] for replica, host in host_of.items()}
    unready = [
        f"{replica} is {states[replica]}" for replica in sorted(states, key=rank_order) if states[replica] != READY
    ]
    if unready:
        why = f"Not all of its replicas are ready: {', '.join(unready)}. Run the repair playbook."
        raise InvalidInput.single("session_name", name, why)
    return {replica: host_of[replica] for replica in sorted(_chosen(on, host_of), key=rank_order)}


def _chosen(on: Iterable[str], replicas: Iterable[str]) -> set[str]:
    """Return the replicas that words mean: all, a replica, or a role. Raises InvalidInput for an unknown word."""
    names = set(replicas)
    found: set[str] = set()
    for word in on:
        meant = names if word == ALL else {name for name in names if name == word or re.fullmatch(rf"{word}\d+", name)}
        if not meant:
            known = ", ".join(sorted(names, key=rank_order)[:20])
            raise InvalidInput.single("job_on", word, f"The session has no such replica or role. It has {known}.")
        found |= meant
    return found


def describe(command: Iterable[str]) -> str:
    """Return a command in a form for people: the text for a shell, or the argv."""
    argv = list(command)
    return argv[2] if argv[:2] == ["/bin/sh", "-c"] and len(argv) == 3 else shlex.join(argv)


def failure_of(outcome: JobOutcome, host: str) -> str:
    """Return why a job did not succeed in a replica as a sentence; nothing if it did, or still runs."""
    where = f"{outcome.replica} on {host}"
    if outcome.problem:
        return f"{where}: {outcome.problem}"
    if outcome.status != ENDED or outcome.exit_code == 0:
        return ""
    cause = ", its time being over" if outcome.timed_out else ", having been stopped" if outcome.stopped else ""
    return f"{where} ended with exit code {outcome.exit_code}{cause}."

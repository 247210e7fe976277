# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of docs/reference for programs that run the playbooks: verbs, keys of their data, exit codes, what to avoid.

Names of keys are read from the sources, and so are their meanings where the sources have them. The other meanings are
here.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.cluster_compute.session.playbooks import ccs
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.preflight.findings import (
    SEVERITIES,
    Finding,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules import job as jobs
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.show.events import (
    DRAIN,
    UNDRAIN,
    VERBS,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.show.launch import (
    Artifact,
    ShownPort,
    ShownReplica,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.show.overview import (
    Overview,
    ShownHost,
    ShownSession,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.show.preview import (
    Preview,
    PreviewedHost,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.job import SHOWN
from ansible_collections.cluster_compute.session.plugins.plugin_utils.events import EVENT
from ansible_collections.cluster_compute.session.plugins.plugin_utils.verbs import HANDING
from ansible_collections.cluster_compute.session.tools import cheat_sheet
from ansible_collections.cluster_compute.session.tools.markdown_text import sentences, table
from ansible_collections.cluster_compute.session.tools.verb_facts import SESSION, Verb


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


COLLECTION = cheat_sheet.COLLECTION
CORE = Path("plugins/module_utils/_internal/core")
JOB, PLAN, INFO = "cluster_compute_job_outcome", "cluster_compute_plan", "cluster_compute_info"
FILES = {
    "session_info": "cluster_compute_info_file",
    "status": "status_json",
    "plan_cluster": "cluster_compute_plan_file",
    "preflight": "preflight_json",
}
"""Playbook: the variable that names a file for its data, as JSON."""
CALL = f"""\
CLUSTER_COMPUTE_ARTIFACTS=artifacts.json ANSIBLE_STDOUT_CALLBACK={COLLECTION}.plain \\
    ansible-playbook -i INVENTORY {COLLECTION}.launch_cluster -e @request.json"""
ADVICE = (
    "**Do not read the output.** Words of messages and columns of tables can change in any release; the data above "
    "[stays](../compatibility.md#what-is-public). Accept keys that you do not know: releases add some.",
    "**Do not take exit code 0 for a running session.** A launch also ends with 0 if the session waits: "
    "read `status`, or set `session_on_no_capacity=fail`.",
    "**Do not put secrets on the command line**, where others read them, nor values with blanks in `-e NAME=VALUE`, "
    "which Ansible cuts at the first blank. Write a file of JSON or YAML and pass it as `-e @FILE`.",
    "**Do not end a run with SIGKILL.** Send SIGINT or SIGTERM, and wait for its end: with the callback `give_back` it "
    "[frees its reservations](../recovery.md#interrupted-runs). Otherwise they stay until they expire.",
    "**Do not change by hand** containers, networks, firewall rules or files of a session. `teardown_cluster` removes "
    "a session, `repair` restores what is missing, and `gc` removes what no record explains.",
    "**Do not read or write the state directory of a host.** The format of its files is private.",
    "**Do not use private modules**, which [the list of modules](modules.md#private-modules) names.",
    "**Do not leave `localhost` out of `--limit`**: the request is checked there. Hosts that are left out count as "
    "unreachable.",
    "**Do not keep state of your own about sessions.** The hosts keep it, for all controllers: collect it with "
    "`session_info`. Repeat a launch after a failure: the same request completes what is missing.",
)
"""Kept by hand."""
REPORT = "Lines for people."
ARTIFACT = {
    "name": "Its name.",
    "status": "`RUNNING`, `PENDING` if it waits in the queue, `PLANNED` in check mode, `ERROR` if the launch failed; "
    "`TERMINATED` after a teardown.",
    "report": REPORT,
    "id": "Its UUID; null if it has none.",
    "owner": "The user who owns it.",
    "mode": "`single-node` or `multi-node`.",
    "size": "Number of replicas.",
    "hosts": "The hosts that carry it.",
    "replicas": "Its replicas in rank order, empty while it waits.",
    "ports": "Published ports of main1.",
    "ssh_port": "Port on the host of main1 at which its owner logs in, or null.",
}
REPLICA = {
    "name": "Its name, such as `sub1`.",
    "role": "Its role.",
    "rank": "Its rank, from 0.",
    "host": "Its host.",
    "address": "Its address in the session's network, or null.",
    "container": "Name of its container.",
    "image": "Its image, as requested.",
    "image_id": "Id of that image on its host, or null.",
    "status": "That of the session.",
}
PORT = {
    "host_ip": "Address of the host; empty for all.",
    "host_port": "Port of the host.",
    "container_port": "Port in the replica.",
    "protocol": "`tcp` or `udp`.",
    "replica": "The replica.",
    "host": "Its host.",
}
OUTCOME = {
    "job": "Its id, for `job_id`.",
    "session_id": "UUID of the session.",
    "status": f"`{jobs.ENDED}`, `RUNNING`, `{jobs.LOST}` or `{jobs.UNKNOWN}`.",
    "succeeded": "Whether it ended with exit code 0 in all of its replicas.",
    "replicas": "Its replicas by name.",
}
OUTCOME_REPLICA = {
    "host": "Its host.",
    "status": "As above, in this replica.",
    "exit_code": "Exit code, or null.",
    "timed_out": "Whether `job_timeout` ended it.",
    "stopped": "Whether it was stopped on request.",
    "alone": "Whether a process of it [works alone](../jobs.md#how-it-ends).",
    "problem": "Why nothing is known of it, or why it did not start.",
}
PREVIEW = {
    "session_name": "Name of the session.",
    "status": "`PLANNED`, or `PENDING` if it would wait.",
    "report": REPORT,
    "replaces": "Whether it would replace a session of this name.",
    "hosts": "The hosts on which something would be done.",
    "session_id": "UUID that it would have, random for a new session; null if it would wait.",
    "is_new": "Whether it would be a new session.",
    "mode": "`single-node` or `multi-node`.",
    "network": "The network of its replicas.",
    "egress": "Name and subnet of its default network.",
    "ssh_port": "Port on the host of main1 at which its owner would log in.",
    "ends": "When its time would be over, as text.",
    "replicas": "Its replicas in rank order, with the names of their variables.",
}
PREVIEWED_HOST = {
    "name": "Its name.",
    "replicas": "Names of its replicas.",
    "changes": "Lines about each change there.",
}
CHECKED = {
    "schema": "Version of this form.",
    "counts": f"Number of findings by severity: {_code(SEVERITIES)}.",
    "findings": f"Each with {_code(one.name for one in dataclasses.fields(Finding))}.",
    "hosts": "By name: whether it was reached, its engine, kernel, underlay, disks and clock.",
    "pairs_tried": "Number of directed pairs of hosts that were tried.",
    "pairs": "Number of all of them.",
    "matrix": "Throughput and round trips of pairs, with `preflight_matrix`.",
}
PAIRS = {
    "hosts": "Hosts that took part.",
    "left_out": "Other hosts, with the reason.",
    "named": "Slow or broken hosts, each with the lines that show it.",
    "unclear": "Slow pairs of which it is not clear which host it is.",
    "rounds": "The times of all pairs, round by round.",
}


def page(verbs: Mapping[str, Verb], purposes: Mapping[str, str], overview: Mapping[str, Any], root: Path) -> str:
    """Return the page.

    verbs: playbooks. purposes: what each is for, of those that are shown. overview: what session_info documents of its
    result. Raises ValueError if a key has no meaning, or a meaning no key.
    """
    lines = [
        "# For programs that run the playbooks",
        "",
        *_how_to_call(),
        *_verbs(verbs, purposes),
        *_data(overview, root),
    ]
    return "\n".join([*lines, *_exit_codes(), "## What not to do", "", *(f"- {line}" for line in ADVICE), ""])


def _how_to_call() -> list[str]:
    return [
        "Programs run the same playbooks as people do, and read their data: artifacts, or files of JSON. There is "
        "neither a server nor another interface.",
        "",
        "## Call",
        "",
        "```text",
        *CALL.splitlines(),
        "```",
        "",
        "- The request is a file of JSON or YAML with [variables](../request.md) such as `session_name`. "
        "[A schema](../assets/session.schema.json) checks session files; there `session_` may be left out.",
        "- The callback `plain` writes the run's artifacts (`set_stats`) to the file, an object with a key for each. "
        "AWX keeps them with the job.",
        "- Read an artifact after exit code 0. Those of `run_job`, `preflight` and `check_pairs` are also there if the "
        "playbook failed because of what it found, that of a drain always, and that of a launch which had to be "
        "undone, with status `ERROR`.",
        "- Runs of several controllers may overlap. `--check` changes nothing.",
        "- The site has these pages as Markdown, and lists them in `llms.txt`.",
        "",
    ]


def _verbs(verbs: Mapping[str, Verb], purposes: Mapping[str, str]) -> list[str]:
    """Return the table of the playbooks."""
    rows = []
    for name in sorted({*verbs} & {*purposes}):
        file = FILES.get(name)
        if file is not None and file not in verbs[name].reads:
            raise ValueError(f"The playbook {name} does not read {file}. Correct FILES in {Path(__file__).name}.")
        cells = (verbs[name].required, (file,) if file else (), verbs[name].artifacts)
        rows.append([f"[`{name}`](playbooks.md#{name})", purposes[name], *map(_code, cells)])
    sending = ", ".join(f"`{verb}`" for verb in (*(verb for verb in VERBS if verb not in HANDING), DRAIN, UNDRAIN))
    return [
        "## Verbs",
        "",
        f"Each is the playbook `{COLLECTION}.NAME`.",
        "",
        *table(["verb", "does", "requires", "file with its data", "artifacts"], rows),
        f"The verbs {sending} also provide `{EVENT}`, and [a receiver](../monitoring.md#events) gets those and the "
        "results of launches and teardowns as events. `run_job` takes `job_id` in place of `job_command`, and a launch "
        "needs no `session_image` if every role names one.",
        "",
    ]


# ---- data -----------------------------------------------------------------------------------------------------------


def _data(overview: Mapping[str, Any], root: Path) -> list[str]:
    """Return the tables of the keys."""
    verbs = root / CORE / "verbs"
    return [
        "## Keys of the data",
        "",
        "CPUs are in thousandths, amounts of memory in bytes. Keys and order are stable.",
        "",
        f"### State: `{INFO}`",
        "",
        "The data of `session_info`. That of `status` has the same keys, with what all users may see of a session.",
        "",
        *_keys("", Overview, documented(overview)),
        *_keys("hosts[]", ShownHost, documented(overview["hosts"]["contains"])),
        *_keys("sessions[]", ShownSession, documented(overview["sessions"]["contains"])),
        f"### Launch and teardown: `{SESSION}`",
        "",
        "A teardown has the first three keys only.",
        "",
        *_keys("", Artifact, ARTIFACT),
        *_keys("replicas[]", ShownReplica, REPLICA),
        *_keys("ports[]", ShownPort, PORT),
        f"### Job: `{JOB}`",
        "",
        *_keys("", keys_in(verbs / "job.py", "_judged"), OUTCOME),
        *_keys("replicas.NAME", ("host", *SHOWN), OUTCOME_REPLICA),
        f"### Plan: `{PLAN}`",
        "",
        "From `session_id` on it is only known if the session would not wait.",
        "",
        *_keys("", Preview, PREVIEW),
        *_keys("hosts[]", PreviewedHost, PREVIEWED_HOST),
        "### Checks: `cluster_compute_preflight`",
        "",
        *_keys("", keys_in(root / CORE / "preflight" / "report.py", "answer_of"), CHECKED),
        "### Checks: `cluster_compute_pairs`",
        "",
        *_keys("", keys_in(verbs / "check_pairs.py", "_with_report"), PAIRS),
    ]


def documented(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the meaning of each key in the documentation of a result."""
    return {name: " ".join(sentences(option["description"])) for name, option in options.items()}


def _keys(within: str, kind: type | Sequence[str], meanings: Mapping[str, str]) -> list[str]:
    """Return the table of the keys of a dataclass, or of these keys. within: the key that holds them."""
    names = [one.name for one in dataclasses.fields(kind)] if isinstance(kind, type) else list(kind)
    if {*names} != {*meanings}:
        wrong = ", ".join(sorted({*names} ^ {*meanings}))
        raise ValueError(f"Keys of {within or kind} and their meanings differ: {wrong}. Correct {Path(__file__).name}.")
    head = f"`{within}` has" if within else "key"
    return table([head, "meaning"], [[f"`{name}`", meanings[name]] for name in names])


def keys_in(path: Path, function: str) -> list[str]:
    """Return the keys of the mappings that a function of a file makes, those of mappings inside them left out."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and node.name == function:
            return list(_outer_keys(node))
    raise ValueError(f"{path} has no function {function}. Correct the call in {Path(__file__).name}.")


def _outer_keys(node: ast.AST) -> Iterable[str]:
    if isinstance(node, ast.DictComp):
        return
    if isinstance(node, ast.Dict):
        yield from (key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str))
        return
    for child in ast.iter_child_nodes(node):
        yield from _outer_keys(child)


# ---- exit codes -----------------------------------------------------------------------------------------------------


def _exit_codes() -> list[str]:
    rows = [
        ["`ansible-playbook`", "[Its codes](../operate.md#exit-codes): 0 if the verb succeeded, 2 if it failed."],
        ["`ccs run`, `ccs exec`", "That of the first program that failed, else that of `ansible-playbook`."],
        ["`ccs ssh`", "That of `ssh`, or of `ansible-playbook` if there is no login."],
        ["other commands of `ccs`", "That of `ansible-playbook`; after several runs the highest."],
        ["`ccs`, used in a wrong way", f"{ccs.WRONG_USE}, with the reason on standard error."],
    ]
    codes = [
        [str(jobs.TIMED_OUT), "`job_timeout` ended it."],
        [str(jobs.STOPPED), "`job_stop` ended it."],
        ["126, 127", "It could not be started."],
    ]
    return [
        "## Exit codes",
        "",
        *table(["program", "exit code"], rows),
        f"`exit_code` in `{JOB}` is that of the command itself, and distinguishes a failed command from a failed run.",
        "",
        *table(["exit code of a job", "meaning"], codes),
    ]

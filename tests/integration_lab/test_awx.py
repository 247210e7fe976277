# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every verb as a job of AWX: by ansible-runner, from a private data directory, with what a survey was answered.

What AWX does before and after ansible-runner is done here as its sources (release 24, tasks/jobs.py) have it: extra
variables whose text is never a template, the inventory as a script, the SSH key in an agent, a project that nothing can
be written to, and artifacts that are read back from the events and become extra variables of what follows.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.cluster_compute.session.tests.support.awx.server import TITLES, TOKEN, Awx, running
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    BUSYBOX,
    CHECKOUT,
    DEMO,
    DIRECTORY,
    Replica,
    clear,
    environment,
    listed_inventory,
    play,
    replicas,
)

SESSION = "awx"
WRITES = "Read-only file system"
WORKFLOW = "workflow"
ANSWERS: dict[str, dict[str, Any]] = {
    WORKFLOW: {
        "session_name": SESSION,
        "session_image": DEMO,
        "session_size": 3,
        "session_memory": "128m",
        "session_env": "GREETING={{ 'a' * 3 }}\r\nEPOCHS=3\r\n",
        "session_ports": "18080:8080",
        "session_mounts": "/srv/shared:/data:ro\r\n",
        "session_accelerators": "",
        "job_command": 'echo "rank $RANK of $WORLD_SIZE"\r\necho {{ braces }}\r\n',
        "job_on": "all",
        "job_env": "",
        "job_timeout": "5m",
    },
    "login": {"session_name": SESSION},
    "open_app": {"session_name": SESSION, "app": "page"},
    "close_app": {"session_name": SESSION, "app": "page"},
    "plan_cluster": {"session_name": "next", "session_image": BUSYBOX, "session_size": 2, "session_memory": "64m"},
    "status": {"session_name": ""},
    "session_info": {"session_name": SESSION},
    "schedule_pending": {},
    "repair": {"session_name": ""},
    "replace_lost": {"session_name": ""},
    "audit": {"session_name": ""},
    "gc": {},
    "preflight": {"session_mounts": "/srv/shared:/data:ro\r\n"},
    "check_pairs": {"session_image": BUSYBOX},
    "prepare_hosts": {},
    "drain_hosts": {"drain_hosts": "n1", "drain_reason": "new memory"},
    "undrain_hosts": {"drain_hosts": "n1"},
    "job_result": {},
    "quick_launch": {
        "session_name": "quick",
        "session_image": BUSYBOX,
        "session_size": 1,
        "session_command": "sleep 60",
    },
}
"""What users answer, by template; questions that are left out get their defaults."""
OF_OWNERS = ("launch_cluster", "login", "teardown_cluster")
"""Verbs that ask whose the session is, each in a place of its own: the core, the controller, and the hosts.

In the core are others as well (unit: test_job, test_logs).
"""
APPS = {"page": {"command": ["python3", "-m", "http.server", "--bind", "127.0.0.1", "{port}"], "without_token": True}}
"""The apps of the site: the image has none of those that are known without it."""
LATER = ("undrain_hosts", "check_pairs", "open_app", "close_app", "quick_launch")
"""Templates whose jobs are run one after the other, when the others have ended."""


@dataclass
class Job:
    """What became of a job. events: as the server stores them. artifacts: what it hands on."""

    status: str
    output: str
    events: list[dict[str, Any]]
    artifacts: dict[str, Any]

    def ok(self) -> Job:
        """Return the job itself; raises AssertionError unless it succeeded."""
        assert self.status == "successful", self.output
        return self


class _Unsafe(str):
    """Text that is never a template."""


class _Dumper(yaml.SafeDumper):
    """Writes extra variables as AWX does (its utils/safe_yaml.py)."""


_Dumper.add_representer(_Unsafe, lambda dumper, text: dumper.represent_scalar("!unsafe", str(text), style='"'))


def unsafe(value: Any) -> Any:
    """Return a value whose text is marked to be no template."""
    if isinstance(value, Mapping):
        return {key: unsafe(item) for key, item in value.items()}
    if isinstance(value, list):
        return [unsafe(item) for item in value]
    return _Unsafe(value) if isinstance(value, str) else value


@cache
def inventory() -> str:
    """Return a script that prints the hosts, as the server writes one for each job; keys are not in it."""
    hosts = listed_inventory()
    for variables in hosts["_meta"]["hostvars"].values():
        del variables["ansible_ssh_private_key_file"]
        # With it the agent would not be asked.
        variables["ansible_ssh_common_args"] = variables["ansible_ssh_common_args"].replace("-o IdentitiesOnly=yes", "")
    return f"#!/usr/bin/env python3\nprint({json.dumps(hosts)!r})\n"


def job(verb: str, variables: Mapping[str, Any], *options: str, **settings: str) -> Job:
    """Run a verb as a job; variables: what it is given. settings: variables of the environment, as of credentials."""
    # A short path: Ansible keeps sockets below the home, as in the container of a job.
    private = Path(tempfile.mkdtemp(prefix="awx-"))
    try:
        for folder in ("env", "inventory", "project", "home"):
            (private / folder).mkdir()
        given = {"awx_job_id": 7, "awx_user_name": "ada", "awx_job_launch_type": "manual", **variables}
        (private / "env" / "extravars").write_text(yaml.dump(unsafe(given), Dumper=_Dumper), encoding="utf-8")
        (private / "env" / "cmdline").write_text(shlex.join(["-u", "root", "--forks=50", *options]), encoding="utf-8")
        key = private / "env" / "ssh_key"
        key.write_text((DIRECTORY / "ssh" / "id_ed25519").read_text(encoding="utf-8"), encoding="utf-8")
        key.chmod(0o600)
        settings = {"ANSIBLE_RETRY_FILES_ENABLED": "False", "ANSIBLE_INVENTORY_UNPARSED_FAILED": "True", **settings}
        (private / "env" / "envvars").write_text(json.dumps(settings), encoding="utf-8")
        script = private / "inventory" / "hosts"
        script.write_text(inventory(), encoding="utf-8")
        script.chmod(0o700)
        project = shlex.quote(str(private / "project"))
        # In a mount namespace of its own, where the checkout cannot be written to.
        command = (
            f"mount --bind {shlex.quote(str(CHECKOUT))} {project} && mount -o remount,bind,ro {project} && "
            f"! touch {project}/written 2>/dev/null && exec ansible-runner run {shlex.quote(str(private))} "
            f"--ident job --playbook playbooks/{verb}.yml"
        )
        own = environment(HOME=str(private / "home"))
        for name in ("ANSIBLE_CONFIG", "SSH_AUTH_SOCK"):
            own.pop(name, None)  # the project's own settings, found in the folder of the job, and no key but the job's
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", command],
            env=own,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # without a terminal to reach for
            text=True,
            timeout=300,
            check=False,
        )
        artifacts = private / "artifacts" / "job"
        assert (artifacts / "status").exists(), done.stdout
        files = (artifacts / "job_events").glob("*.json")
        events = sorted((json.loads(path.read_text(encoding="utf-8")) for path in files), key=lambda e: e["counter"])
        stats = [event for event in events if event["event"] == "playbook_on_stats"]
        handed_on = stats[-1]["event_data"].get("artifact_data", {}) if stats else {}
        return Job((artifacts / "status").read_text(encoding="utf-8"), done.stdout, events, handed_on)
    finally:
        shutil.rmtree(private)


@pytest.fixture(scope="module")
def awx() -> Iterator[Awx]:
    """Give AWX as the playbook configure_awx makes it, by a job, from the hosts of the lab."""
    with running() as server:
        server.add("credentials", {"name": "key"})
        site = {"awx_execution_environment_image": "ee:1", "awx_credentials": ["key"]}
        done = job("configure_awx", site, CONTROLLER_HOST=server.url, CONTROLLER_OAUTH_TOKEN=TOKEN)
        done.ok()
        yield server
        clear("quick")


def answered(awx: Awx, template: str, kind: str = "job_templates") -> dict[str, Any]:
    """Return the variables that a template hands to its job, all answers accepted by its survey."""
    answers = dict(ANSWERS.get(template, {}))
    if template == WORKFLOW:
        key = DIRECTORY / "ssh" / "id_ed25519.pub"
        answers["session_authorized_keys"] = key.read_text(encoding="utf-8")
    return awx.variables_of(TITLES[template], answers, kind)


@dataclass
class Outcome:
    """What came of the workflow. nodes: its jobs in order. verbs: those of all other templates, run meanwhile.

    strangers: those of somebody who is not the owner, run before these. replicas: those of the session as the engines
    told then, and environment: of main1, before the teardown.
    """

    nodes: dict[str, Job]
    verbs: dict[str, Job]
    strangers: dict[str, Job]
    replicas: dict[str, Replica]
    environment: dict[str, str]


@pytest.fixture(scope="module")
def outcome(awx: Awx) -> Outcome:
    """Run the workflow as the server does: its links decide what follows, artifacts become extra variables.

    The variables of the workflow beat artifacts, and these the defaults of a job's own survey.
    """
    own = answered(awx, WORKFLOW, "workflow_job_templates")
    artifacts: dict[str, Any] = {}
    result = Outcome({}, {}, {}, {}, {})
    following = ["launch"]
    while following:
        (node,) = following
        number = awx.named("workflow_job_template_nodes", node)["unified_job_template"]
        title = awx.things["job_templates"][number]["name"]
        template = next(name for name, known in TITLES.items() if known == title)
        if node == "tear down":
            eve = {**artifacts, **own, "awx_user_name": "eve"}
            result.strangers = {verb: job(verb, {**answered(awx, verb), **eve}) for verb in OF_OWNERS}
            result.replicas = replicas(SESSION)
            result.environment = result.replicas["main1"].environment() if result.replicas else {}
            result.verbs = others(awx, artifacts)
        done = job(template, {**answered(awx, template), **artifacts, **own})
        result.nodes[node] = done
        artifacts.update(done.artifacts)
        ended = "success_nodes" if done.status == "successful" else "failure_nodes"
        following = sorted(
            name for link in (ended, "always_nodes") for name in awx.linked("workflow_job_template_nodes", node, link)
        )
    return result


def others(awx: Awx, artifacts: Mapping[str, Any]) -> dict[str, Job]:
    """Return a job of every template that is in no workflow."""
    verbs = sorted(set(ANSWERS) - {WORKFLOW, "job_result", *LATER})

    def run(verb: str) -> Job:
        check = ["--check"] if awx.named("job_templates", TITLES[verb])["job_type"] == "check" else []
        site = {"session_apps": APPS} if verb.endswith("_app") else {}
        playbook = Path(awx.named("job_templates", TITLES[verb])["playbook"]).stem
        return job(playbook, {**answered(awx, verb), **artifacts, **site}, *check)

    # More of them at a time are more than the lab's hosts answer in time on a machine of two cores.
    with ThreadPoolExecutor(2) as pool:
        done = dict(zip(verbs, pool.map(run, verbs)))
    # The check takes hosts that are not drained, and has a session of its own, which audit and the queue would tell of.
    return {**done, **{verb: run(verb) for verb in LATER}}


def test_the_choices_are_those_of_the_lab(awx: Awx) -> None:
    questions = awx.survey(TITLES["launch_cluster"])
    assert questions["session_resource_group"]["choices"] == ["cluster_compute_hosts", "lab", "small_pool"]
    images = questions["session_image"]["choices"]
    assert {DEMO, BUSYBOX} <= set(images)
    assert not [name for name in images if name.startswith("sha256:") or "<none>" in name]


def test_every_template_is_run(awx: Awx, outcome: Outcome) -> None:
    nodes = awx.things["workflow_job_template_nodes"].values()
    in_workflow = {awx.things["job_templates"][node["unified_job_template"]]["name"] for node in nodes}
    assert set(outcome.nodes) == {node["identifier"] for node in nodes}
    # The template configure_awx has been run to make all of them, and is there only where there is a credential for it.
    assert in_workflow | {TITLES[verb] for verb in outcome.verbs} == awx.names("job_templates")


def test_every_job_succeeds_and_writes_nothing_to_the_project(outcome: Outcome) -> None:
    every = {**outcome.nodes, **outcome.verbs}
    assert len(every) > 10
    failed = [f"{name}:\n{job.output[-3000:]}" for name, job in every.items() if job.status != "successful"]
    assert not failed, "\n".join(failed)
    for name, job in every.items():
        assert WRITES not in job.output, name
        assert job.events[-1]["event"] == "playbook_on_stats"


def test_a_survey_launches_a_session(outcome: Outcome) -> None:
    found = outcome.nodes["launch"].artifacts["cluster_compute_session"]
    assert (found["name"], found["status"], found["size"], found["owner"]) == (SESSION, "RUNNING", 3, "ada")
    assert [replica["name"] for replica in found["replicas"]] == list(outcome.replicas) == ["main1", "sub1", "sub2"]
    assert {replica["name"]: replica["host"] for replica in found["replicas"]} == {
        name: replica.host for name, replica in outcome.replicas.items()
    }
    assert [port["host_port"] for port in found["ports"] if port["container_port"] == 8080] == [18080]
    # An answer is never a template.
    assert outcome.environment["GREETING"] == "{{ 'a' * 3 }}"
    assert outcome.environment["EPOCHS"] == "3"
    main = outcome.replicas["main1"].inspected
    assert main["HostConfig"]["Memory"] == 128 * 2**20
    assert main["Config"]["Cmd"][-2:] == ["sleep", "infinity"]
    assert "/data" in {mount["Destination"] for mount in main["Mounts"]}


def test_the_workflow_runs_a_command_and_leaves_nothing(outcome: Outcome) -> None:
    assert list(outcome.nodes) == ["launch", "run", "collect", "tear down", "judge"]
    for rank in range(3):
        assert f"rank {rank} of 3" in outcome.nodes["run"].output
    assert "{{ braces }}" in outcome.nodes["run"].output
    assert outcome.nodes["run"].artifacts["cluster_compute_job_outcome"]["succeeded"] is True
    assert outcome.nodes["tear down"].artifacts["cluster_compute_session"]["status"] == "TERMINATED"
    assert replicas(SESSION) == {}


@pytest.mark.parametrize(
    ("artifacts", "reason"),
    [
        ({"cluster_compute_job_outcome": {"succeeded": False}}, "The command did not succeed"),
        ({}, "The session was not launched"),
    ],
)
def test_a_workflow_whose_command_failed_is_a_failure(artifacts: dict[str, Any], reason: str) -> None:
    judged = play("job_result", artifacts)
    assert judged.code != 0
    assert reason in judged.failures


def test_nobody_else_changes_enters_or_reads_it(outcome: Outcome) -> None:
    assert [replica.inspected["State"]["Running"] for replica in outcome.replicas.values()] == [True] * 3
    assert set(outcome.strangers) == set(OF_OWNERS)
    for verb, done in outcome.strangers.items():
        assert done.status == "failed", verb
        assert "It belongs to ada. You are eve." in done.output, verb
        assert not done.artifacts, verb


def test_what_jobs_say(outcome: Outcome) -> None:
    verbs = outcome.verbs
    assert "Everything is as recorded." in verbs["audit"].output
    assert "Nothing was missing." in verbs["repair"].output
    assert "No session has lost replicas that can be replaced now." in " ".join(verbs["replace_lost"].output.split())
    assert "The queue is empty." in verbs["schedule_pending"].output
    assert "There are no objects without an owner." in verbs["gc"].output
    assert f"Host {SESSION}.main1 main1" in verbs["login"].output
    assert "n1 is drained. Sessions that hold resources there: " in verbs["drain_hosts"].output
    assert "n1 is undrained. Sessions that hold resources there: " in verbs["undrain_hosts"].output
    event = verbs["drain_hosts"].artifacts["cluster_compute_event"]
    assert (event["verb"], list(event["hosts"])) == ("drain", ["n1"])
    assert re.search(rf"\b{SESSION} +RUNNING\b", verbs["status"].output), verbs["status"].output
    (found,) = verbs["session_info"].artifacts["cluster_compute_info"]["sessions"]
    assert (found["name"], len(found["replicas"])) == (SESSION, 3)
    assert verbs["preflight"].artifacts["cluster_compute_preflight"]["counts"]["error"] == 0
    assert verbs["check_pairs"].artifacts["cluster_compute_pairs"]["named"] == {}
    assert verbs["plan_cluster"].artifacts["cluster_compute_plan"]["status"] == "SCHEDULED"


def test_the_project_is_read_only() -> None:
    # Or the jobs above would have proven nothing.
    command = "mount --bind $1 $2 && mount -o remount,bind,ro $2 && touch $2/written"
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", command, "sh", str(CHECKOUT), folder],
            env=os.environ,
            capture_output=True,
            text=True,
            check=False,
        )
    assert WRITES in done.stderr
    assert not (CHECKOUT / "written").exists()

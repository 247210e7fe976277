# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests that cannot be are refused on the controller, with variable, value and what is allowed, in sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.cluster_compute.session.plugins.action import session_jobs, session_logs, session_request
from ansible_collections.cluster_compute.session.plugins.action.session_request import ActionModule
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.fields import KNOWN_VARIABLES
from ansible_collections.cluster_compute.session.tests.support.in_process import run_action

PLAYBOOKS = Path(__file__).resolve().parents[4] / "playbooks"
CANARY = "/tmp/cluster-compute-canary"
BASE = {"session_name": "bad", "session_image": "busybox", "session_memory": "64m", "session_command": "sleep 8888"}
WHOLE = "whole number from 1 to 4096"
GROUPS = {
    "all": ["n1", "n2", "n3"],
    "ungrouped": [],
    "cluster_compute_hosts": ["n1", "n2", "n3"],
    "small_pool": ["n2", "n3"],
    "empty_pool": [],
}

# What is asked, and what the message has to say.
REQUESTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "size zero": ({"session_size": 0}, ["session_size", "0", WHOLE]),
    "size below zero": ({"session_size": -1}, ["session_size", "-1", WHOLE]),
    "size no number": ({"session_size": "abc"}, ["session_size", "abc", WHOLE]),
    "size a fraction": ({"session_size": "3.5"}, ["session_size", "3.5", WHOLE]),
    "unknown mode": ({"session_mode": "dual-node"}, ["session_mode", "dual-node", "single-node, multi-node"]),
    "unknown policy": ({"session_policy": "random"}, ["session_policy", "random", "pack, spread, inventory"]),
    "cpus a word": ({"session_cpus": "two"}, ["session_cpus", "two", "4, 0.5 or 500m"]),
    "cpus zero": ({"session_cpus": 0}, ["session_cpus", "0", "least"]),
    "memory of unknown unit": ({"session_memory": "4q"}, ["session_memory", "4q", "4g, 512MiB or 1Gi"]),
    "memory a mess": ({"session_memory": "1e3x"}, ["session_memory", "1e3x", "4g, 512MiB or 1Gi"]),
    "shared memory a mess": (
        {"session_shm_size": "12 parsecs"},
        ["session_shm_size", "12 parsecs", "4g, 512MiB or 1Gi"],
    ),
    "name with capitals": ({"session_name": "Bad_Name"}, ["session_name", "Bad_Name", "RFC 1123"]),
    "name with a hyphen first": ({"session_name": "-bad"}, ["session_name", "-bad", "RFC 1123"]),
    "name too long": ({"session_name": "b" * 41}, ["session_name", "b" * 41, "at most 40"]),
    "name missing": ({"session_name": ""}, ["session_name", "needs a name"]),
    "name for a shell": ({"session_name": f"x; touch {CANARY}"}, ["session_name", "touch", "RFC 1123"]),
    "name with a substitution": ({"session_name": f"$(touch {CANARY})"}, ["session_name", "touch", "RFC 1123"]),
    "name with a line break": ({"session_name": "bad\ntouch"}, ["session_name", "RFC 1123"]),
    "a private key": (
        {"session_authorized_keys": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmU\n"},
        ["session_authorized_keys", "(value not shown)", "PRIVATE key", ".pub"],
    ),
    "no public key": (
        {"session_authorized_keys": "~/.ssh/id_ed25519.pub"},
        ["session_authorized_keys[0]", "as a file ending in .pub holds it", "ssh-ed25519"],
    ),
    "a port for nobody's key": ({"session_ssh_port": 22022}, ["session_ssh_port", "22022", "session_authorized_keys"]),
    "role names collide": (
        {"session_roles": [{"name": "main"}, {"name": "sub", "replicas": 1}, {"name": "sub", "replicas": 2}]},
        ["session_roles[2].name", "sub", "same name"],
    ),
    "replica names collide": (
        {"session_roles": [{"name": "main"}, {"name": "sub", "replicas": 11}, {"name": "sub1", "replicas": 1}]},
        ["session_roles", "sub11"],
    ),
    "no main": ({"session_roles": [{"name": "sub", "replicas": 2}]}, ["session_roles", "main"]),
    "image missing": ({"session_image": ""}, ["session_image", "needs an image"]),
    "image for a shell": ({"session_image": f"a; touch {CANARY}"}, ["session_image", "touch", "debian:12"]),
    "relative source": ({"session_mounts": "./data:/data"}, ["session_mounts[0].source", "./data", "absolute"]),
    "relative target": ({"session_mounts": "/srv/shared:data"}, ["session_mounts[0].target", "data", "absolute"]),
    "duplicated target": (
        {"session_mounts": ["/srv/shared:/data", "/srv:/data/"]},
        ["session_mounts[1].target", "/data", "same target"],
    ),
    "mount over the session's files": (
        {"session_mounts": "/srv/shared:/etc"},
        ["session_mounts[0].target", "/etc", "would hide"],
    ),
    "a variable of the contract": ({"session_env": {"WORLD_SIZE": "9"}}, ["session_env.WORLD_SIZE", "another name"]),
    "a variable of the contract in text": ({"session_env": "A=1\nRANK=1"}, ["session_env.RANK", "another name"]),
    "a variable with a bad name": ({"session_env": {"BAD-NAME": "9"}}, ["session_env", "BAD-NAME", "letters, digits"]),
    "port zero": ({"session_ports": [0]}, ["session_ports[0]", "0", "from 1 to 65535"]),
    "port too high": ({"session_ports": "80:70000"}, ["session_ports[0]", "70000", "from 1 to 65535"]),
    "host port too high": ({"session_ports": "70000:80"}, ["session_ports[0]", "70000", "from 1 to 65535"]),
    "port a word": ({"session_ports": "http"}, ["session_ports[0]", "http", "host_port:port"]),
    "port twice": ({"session_ports": "8080:80,8080:81"}, ["session_ports[1]", "8080", "published twice"]),
    "empty group": ({"session_resource_group": "empty_pool"}, ["session_resource_group", "empty_pool", "small_pool"]),
    "unknown group": ({"session_resource_group": "nowhere"}, ["session_resource_group", "nowhere", "small_pool"]),
    "group for a shell": ({"session_resource_group": f"x; touch {CANARY}"}, ["session_resource_group", "touch"]),
    "unknown variable": ({"session_sizes": 2}, ["session_sizes", "Did you mean session_size?"]),
    "master port too high": ({"session_master_port": 70000}, ["session_master_port", "70000", "from 1 to 65535"]),
    "recreate no truth value": ({"session_recreate": "perhaps"}, ["session_recreate", "perhaps", "true or false"]),
    "command with open quotes": ({"session_command": "echo 'open"}, ["session_command", "echo 'open", "quotes"]),
    "several faults at once": (
        {"session_size": 0, "session_mode": "x", "session_cpus": "two"},
        ["session_size", "session_mode", "session_cpus"],
    ),
}


def answer(variables: Mapping[str, Any], **arguments: Any) -> dict[str, Any]:
    """Return the result of the task for these variables, which every host of the inventory has as well."""
    hostvars = {host: dict(variables) for host in GROUPS["all"]}
    return run_action(ActionModule, arguments, {**variables, "groups": GROUPS, "hostvars": hostvars})


@pytest.mark.parametrize("case", REQUESTS)
def test_it_is_refused_with_variable_value_and_what_is_allowed(case: str) -> None:
    request, wanted = REQUESTS[case]
    result = answer({**BASE, **request})
    assert result["failed"]
    assert [text for text in wanted if text not in result["msg"]] == [], result["msg"]


@pytest.mark.parametrize("case", REQUESTS)
def test_a_refusal_is_in_full_sentences_of_no_programming_language(case: str) -> None:
    text = answer({**BASE, **REQUESTS[case][0]})["msg"]
    lines = text.splitlines()
    assert len(lines) > 1
    assert [line for line in lines if not line.endswith((".", ":", "?"))] == []
    assert not re.search(r"Traceback|<class|Error\(|\{'|is None\b", text), text


def test_no_shell_saw_any_of_them() -> None:
    for request, _wanted in REQUESTS.values():
        answer({**BASE, **request})
    assert not Path(CANARY).exists()


def test_what_the_inventory_says_of_the_group_s_hosts_is_refused_as_well() -> None:
    hostvars = {host: {**BASE, "session_size": "many"} for host in GROUPS["all"]}
    result = run_action(ActionModule, {}, {**BASE, "groups": GROUPS, "hostvars": hostvars})
    assert "session_size is 'many'" in result["msg"]


@pytest.mark.parametrize("name", ["Bad;name", "", "x" * 41, "-x"])
def test_verbs_that_need_a_name_alone_refuse_one_that_cannot_be(name: str) -> None:
    for only in ("name", "group") if name else ("name",):
        result = answer({"session_name": name}, only=only)
        assert result["failed"]
        assert "session_name" in result["msg"]
    assert answer({"session_name": "good"}, only="name") == {
        "changed": False,
        "session_name": "good",
        "resource_group": "cluster_compute_hosts",
    }


def test_a_name_that_may_be_left_out() -> None:
    assert answer({}, only="group")["session_name"] == ""


def test_of_the_session_of_a_playbook_others_variables_are_no_matter() -> None:
    user = {"session_name": "another;", "session_size": "many", "session_batch_command": "false"}
    site = {"session_image": "demo", "session_encrypted": True, "session_owner": ""}
    found = answer({**user, **site}, own={"session_name": "check-pairs", "session_size": 3})
    request = found["request"]
    roles = [(role["image"], role["replicas"]) for role in request["roles"]]
    assert (request["name"], roles, request["encrypted"], request["batch_command"]) == (
        "check-pairs",
        [("demo", 1), ("demo", 2)],
        True,
        None,
    )
    assert answer(user, only="name", own={"session_name": "check-pairs"})["session_name"] == "check-pairs"


VERBS = [
    path
    for path in sorted(PLAYBOOKS.glob("*.yml"))
    if re.search("cluster_compute_request|launch_checked", path.read_text(encoding="utf-8"))
]
ROLE = PLAYBOOKS.parent / "roles" / "launch"


@pytest.mark.parametrize("path", VERBS, ids=lambda path: path.stem)
def test_every_verb_of_sessions_begins_with_this_check_on_the_controller(path: Path) -> None:
    first = yaml.safe_load(path.read_text(encoding="utf-8"))[0]
    assert first["hosts"] in ("localhost", "{{ 'localhost' | cluster_compute.session.refuse_tags }}")
    task = first["tasks"][0]
    role = task.get("ansible.builtin.import_role", {})
    if (role.get("name"), role.get("tasks_from")) == ("cluster_compute.session.launch", "request"):
        (task,) = yaml.safe_load((ROLE / "tasks" / "request.yml").read_text(encoding="utf-8"))
    assert list(task)[1] == "cluster_compute.session.session_request"
    assert not {"ignore_errors", "failed_when"} & set(task)
    assert {"launch_cluster", "teardown_cluster", "demo_proof", "logs"} < {playbook.stem for playbook in VERBS}


def test_the_role_takes_every_variable_of_a_request_and_leaves_it_as_it_is() -> None:
    specs = yaml.safe_load((ROLE / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))["argument_specs"]
    options = specs["request"]["options"]
    assert list(options) == list(KNOWN_VARIABLES)
    # Whatever is wrong, this check says it, and all of it: Ansible's own would stop at the first, and at what is empty.
    assert {(option["type"], option.get("required", False)) for option in options.values()} == {("raw", False)}


@pytest.mark.parametrize("only", ["launch", "name", "group"])
def test_an_extra_variable_that_nothing_reads_is_refused_by_what_it_was_meant_to_be(
    monkeypatch: pytest.MonkeyPatch, only: str
) -> None:
    extra = {"sesion_memory": "8g", "cluster_size": 3, "drain_reson": "x", "team": "vision"}
    monkeypatch.setattr(session_request, "load_extra_vars", lambda _loader: extra)
    own = {"sesion_cpus": 4}  # of the inventory, which nobody looks at
    variables = {**BASE, **own, **extra}
    hostvars = {name: dict(variables) for name in GROUPS["all"]}
    found = run_action(ActionModule, {"only": only}, {**variables, "groups": GROUPS, "hostvars": hostvars})
    lines = [line for line in found["msg"].splitlines() if "Did you mean" in line]
    assert found["failed"]
    assert [line.partition(" is ")[0] for line in lines] == [
        *["cluster_size"] * (only == "launch"),
        "sesion_memory",
        "drain_reson",
    ]
    assert lines[-2].endswith("There is no such variable. Did you mean session_memory?")
    assert "8g" not in found["msg"]


@pytest.mark.parametrize("only", ["name", "group"])
def test_a_verb_that_needs_no_request_warns_of_what_a_launch_would_refuse(
    monkeypatch: pytest.MonkeyPatch, only: str
) -> None:
    monkeypatch.setattr(session_request, "load_extra_vars", lambda _loader: {"cluster_size": 3, "cluster_zone": "a"})
    hostvars: dict[str, dict[str, Any]] = {name: dict(BASE) for name in GROUPS["all"]}
    variables = {**BASE, "groups": GROUPS, "hostvars": hostvars}
    found = run_action(ActionModule, {"only": only}, variables)
    (warning,) = found["warnings"]
    assert warning.startswith("cluster_size is ")
    assert warning.endswith("Did you mean session_size?")
    for values in hostvars.values():
        values["session_size"] = 3  # it may come from there
    assert "warnings" not in run_action(ActionModule, {"only": only}, variables)


@pytest.mark.parametrize(
    ("module", "arguments", "slip", "meant"),
    [(session_jobs, {}, "jobs_timeout", "job_timeout"), (session_logs, {"state": "checked"}, "log_tail", "logs_tail")],
    ids=["run_job", "logs"],
)
def test_a_slip_of_a_verb_s_own_variable_is_refused(
    monkeypatch: pytest.MonkeyPatch, module: Any, arguments: dict[str, Any], slip: str, meant: str
) -> None:
    monkeypatch.setattr(module, "load_extra_vars", lambda _loader: {slip: "7", "team": "vision"})
    hostvars: dict[str, Any] = {name: {slip: "7", "job_command": "true"} for name in GROUPS["all"]}
    found = run_action(module.ActionModule, arguments, {"groups": GROUPS, "hostvars": hostvars})
    assert found["failed"]
    assert f"Did you mean {meant}?" in found["msg"]

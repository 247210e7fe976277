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
from ansible import context
from ansible_collections.cluster_compute.session.plugins.action import session_jobs, session_logs, session_request
from ansible_collections.cluster_compute.session.plugins.action.session_request import ActionModule
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.fields import KNOWN_VARIABLES
from ansible_collections.cluster_compute.session.tests.support.in_process import run_action

PLAYBOOKS = Path(__file__).resolve().parents[4] / "playbooks"
CANARY = "/tmp/cluster-compute-canary"
BASE = {"session_name": "bad", "session_image": "busybox", "session_memory": "64m", "session_command": "sleep 8888"}
GROUPS = {
    "all": ["n1", "n2", "n3"],
    "ungrouped": [],
    "cluster_compute_hosts": ["n1", "n2", "n3"],
    "small_pool": ["n2", "n3"],
    "empty_pool": [],
}

# What is asked, and what the message has to say. Each bad value by itself is tried in core/test_request.py.
REQUESTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "name for a shell": ({"session_name": f"x; touch {CANARY}"}, ["session_name", "touch", "RFC 1123"]),
    "name with a substitution": ({"session_name": f"$(touch {CANARY})"}, ["session_name", "touch", "RFC 1123"]),
    "image for a shell": ({"session_image": f"a; touch {CANARY}"}, ["session_image", "touch", "debian:12"]),
    "a private key": (
        {"session_authorized_keys": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmU\n"},
        ["session_authorized_keys", "(value not shown)", "PRIVATE key", ".pub"],
    ),
    "empty group": ({"session_resource_group": "empty_pool"}, ["session_resource_group", "empty_pool", "small_pool"]),
    "unknown group": ({"session_resource_group": "nowhere"}, ["session_resource_group", "nowhere", "small_pool"]),
    "group for a shell": ({"session_resource_group": f"x; touch {CANARY}"}, ["session_resource_group", "touch"]),
    "unknown variable": ({"session_sizes": 2}, ["session_sizes", "Did you mean session_size?"]),
    "recreate no truth value": ({"session_recreate": "perhaps"}, ["session_recreate", "perhaps", "true or false"]),
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


def test_small_defaults_beside_accelerators_are_warned_of() -> None:
    gpus = {**BASE, "session_accelerators": "gpu=1"}
    shm = "session_shm_size is 64MiB, the default, for main. Beside accelerators that is mostly too little."
    assert answer(gpus)["warnings"] == [shm]
    assert answer({**gpus, "session_memory": ""})["warnings"] == [shm], "it is the host's share"
    assert answer({**gpus, "session_memory": "1g"})["warnings"] == [
        "session_memory is 1GiB, the default, for main. Beside accelerators that is mostly too little.",
        shm,
    ]
    assert "warnings" not in answer({**gpus, "session_shm_size": "8g"})
    assert "warnings" not in answer(BASE)
    roles = [{"name": "main"}, {"name": "worker", "replicas": 2, "accelerators": "gpu=2", "memory": "8g"}]
    assert answer({**BASE, "session_roles": roles})["warnings"] == [shm.replace("main", "worker")]


def test_a_working_directory_is_read_on_the_controller_within_what_the_site_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project/train.py").write_text("x" * 3 * 1024**2, encoding="utf-8")
    monkeypatch.chdir(tmp_path / "project")
    request = {**BASE, "session_workdir": "."}
    workdir = answer(request)["request"]["workdir"]
    assert (workdir["path"], workdir["size"], len(workdir["packs"])) == (str(tmp_path / "project"), 3 * 1024**2, 1)
    refused = answer({**request, "cluster_compute_workdir_size": "2m"})
    assert "session_workdir is '.': It has 3.0 MiB" in refused["msg"]
    forged = {"path": ".", "packs": ["/work@sha256:" + "1" * 64], "size": 0}
    assert answer({**request, "session_workdir": forged})["request"]["workdir"] == workdir
    job = {**request, "awx_job_id": 5, "awx_user_name": "ada"}
    assert answer(job)["request"]["workdir"] == workdir
    outside = {**job, "session_workdir": str(tmp_path)}
    assert "A job of AWX can take along only folders of its project" in answer(outside)["msg"]


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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["session_command=sleep infinity"], ["session_command is '(value not shown)': It ends at the first blank."]),
        (
            ["session_name=demo session_env=A=b c d session_size=2 team=red team"],
            ["session_env is '(value not shown)': It ends", "team is '(value not shown)': It ends"],
        ),
        (
            ["session_command=torchrun --nproc_per_node=4 train.py"],
            ["session_command is '(value not shown)': It ends at the first blank."],
        ),
        (
            [" ", "demo", "@file", '{"a": "b c"}', "[]", ""],
            ["-e is '(value not shown)': It must be of the form NAME=VALUE"],
        ),
        (["session_command='sleep infinity'", 'session_command="a b"', "session_name=demo session_size=2"], []),
    ],
)
@pytest.mark.parametrize("only", ["launch", "group"])
def test_what_ansible_leaves_of_an_extra_variable_is_refused_with_the_quotes_it_needs(
    monkeypatch: pytest.MonkeyPatch, options: list[str], said: list[str], only: str
) -> None:
    monkeypatch.setattr(context, "CLIARGS", {"extra_vars": tuple(options)})
    monkeypatch.setattr(session_request, "load_extra_vars", lambda _loader: {})
    hostvars: dict[str, dict[str, Any]] = {name: dict(BASE) for name in GROUPS["all"]}
    found = run_action(ActionModule, {"only": only}, {**BASE, "groups": GROUPS, "hostvars": hostvars})
    assert found.get("failed", False) == bool(said)
    lines = found.get("msg", "").splitlines()
    assert [any(line.startswith(text) for line in lines) for text in said] == [True] * len(said), lines
    if options[0] == "session_command=sleep infinity":
        assert """Quote it twice: -e "session_command='…'", or -e '{"session_command": "…"}'.""" in found["msg"]
    assert "infinity" not in str(found)


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

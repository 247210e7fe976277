# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook configure_awx makes what it says in AWX, once, and changes what differs.

The server is a stand-in, see server.py; all else is real.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.cluster_compute.session.plugins.action.session_decide import ARTIFACT
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.show.awx import check_survey
from ansible_collections.cluster_compute.session.tests.support.awx.server import PREFIX, TITLES, TOKEN, Awx, running

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = TITLES["workflow"]
VERBS = {path.stem for path in (ROOT / "playbooks").glob("*.yml") if not path.stem.startswith(("lab_", "demo_"))}
# The first is for hosts that leave, one by one, which a template for a group is not; the second is the workflow.
VERBS -= {"unprepare_hosts", "run", "write_awx_project"}
QUICK, PAGE = "quick_launch", "status_page"
SITE: dict[str, Any] = {
    "awx_execution_environment_image": "registry.example.com/ee:1",
    "awx_credentials": ["key of the hosts"],
    "awx_refresh_credential": "this server",
    "awx_inventory_file": "inventories/site",
    "awx_sessions_inventory_file": "inventories/site.sessions.yml",
    "awx_images": ["debian:12", "train:1"],
    "awx_status_page": "/srv/www/html/sessions.html",
    "awx_status_host": "web",
    "awx_survey_defaults": {"session_memory": "4g", "session_image": "train:1"},
}
GROUPS: dict[str, Any] = {
    "cluster_compute_hosts": {"children": {"cpu_pool": {}, "gpu_pool": {}}},
    "cpu_pool": {"hosts": {"node1": {}, "node2": {}}},
    "gpu_pool": {"hosts": {"gpu1": {}}},
    "mixed": {"hosts": {"gpu1": {}, "web": {}}},
}
# Nothing listens there, and one of them is asked nothing: which images hosts have is for the tests on the lab.
NOBODY = {"ansible_host": "127.0.0.1", "ansible_port": 9}

Outcome = tuple[int, dict[str, Any], str]
Apply = Callable[..., Outcome]


@pytest.fixture(scope="module")
def awx() -> Iterator[Awx]:
    """Give a server with what a site has to have in it."""
    with running() as server:
        for name in ("key of the hosts", "this server"):
            server.add("credentials", {"name": name})
        yield server


@pytest.fixture(scope="module")
def apply(awx: Awx, tmp_path_factory: pytest.TempPathFactory) -> Apply:
    """Give a function that runs the playbook, and returns its exit code, what it counted, and its output."""
    inventory = tmp_path_factory.mktemp("site") / "hosts.json"
    of_hosts = {**NOBODY, "cluster_compute_limits": {"priority": 100}}

    def run(groups: dict[str, Any] | None = None, **settings: Any) -> Outcome:
        inventory.write_text(json.dumps({"all": {"children": groups or GROUPS, "vars": of_hosts}}), encoding="utf-8")
        done = subprocess.run(
            [
                "ansible-playbook",
                "-i",
                str(inventory),
                "playbooks/configure_awx.yml",
                "-e",
                json.dumps(SITE | settings),
            ],
            cwd=ROOT,
            env={
                **os.environ,
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
                "ANSIBLE_NOCOLOR": "1",
                "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default",  # for the recap
                "CONTROLLER_HOST": awx.url,
                "CONTROLLER_OAUTH_TOKEN": TOKEN,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        recap = re.search(r"^localhost .*$", done.stdout, re.MULTILINE)
        counted = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", recap[0] if recap else "")}
        return done.returncode, counted, done.stdout

    return run


@pytest.fixture(scope="module")
def configured(awx: Awx, apply: Apply) -> Awx:
    """Give the server after the first run."""
    code, counted, output = apply()
    assert code == 0, output
    assert counted["changed"] > 5
    return awx


def test_there_is_a_template_for_each_verb(configured: Awx) -> None:
    assert configured.names("job_templates") == {TITLES[verb] for verb in VERBS | {QUICK, PAGE}}
    project = configured.named("projects", "Cluster compute")["id"]
    inventory = configured.named("inventories", "Cluster compute")["id"]
    environment = configured.named("execution_environments", "Cluster compute")["id"]
    for verb in VERBS:
        template = configured.named("job_templates", TITLES[verb])
        assert template["playbook"] == f"playbooks/{verb}.yml"
        assert (ROOT / template["playbook"]).is_file()
        assert (template["project"], template["inventory"]) == (project, inventory)
        assert template["execution_environment"] == environment
        assert template["job_slice_count"] == 1
        assert template["ask_variables_on_launch"] is False
        wanted = {"key of the hosts"} | ({"this server"} if verb == "configure_awx" else set())
        assert configured.linked("job_templates", TITLES[verb], "credentials") == wanted
    assert configured.named("job_templates", TITLES["audit"])["job_type"] == "check"
    assert configured.named("job_templates", TITLES["schedule_pending"])["allow_simultaneous"] is False


def test_surveys_hold_the_choices_and_the_defaults_of_the_site(configured: Awx) -> None:
    questions = configured.survey(TITLES["launch_cluster"])
    assert questions["session_resource_group"]["choices"] == ["cluster_compute_hosts", "cpu_pool", "gpu_pool"]
    assert questions["session_image"]["choices"] == ["debian:12", "train:1"]
    assert questions["session_image"]["default"] == "train:1"
    assert questions["session_memory"]["default"] == "4g"
    assert questions["session_priority"]["max"] == 100, "what the site's limits allow"
    assert set(configured.survey(TITLES["teardown_cluster"])) == {"session_name", "session_resource_group"}
    # Two verbs have none, the workflow and the quick launch have one.
    assert len(configured.surveys) == len(VERBS) - 2 + 2
    assert [check_survey(survey) for survey in configured.surveys.values()] == [[]] * len(configured.surveys)


def test_a_launch_by_few_questions_has_what_the_site_says_for_the_others(configured: Awx) -> None:
    template = configured.named("job_templates", TITLES[QUICK])
    assert template["playbook"] == "playbooks/launch_cluster.yml"
    assert [*configured.survey(TITLES[QUICK])] == [
        "session_name",
        "session_resource_group",
        "session_image",
        "session_size",
        "session_accelerators",
        "session_command",
    ]
    assert json.loads(template["extra_vars"]) == {"session_memory": "4g", "session_image": "train:1"}


def test_the_workflow(configured: Awx) -> None:
    workflow = configured.named("workflow_job_templates", WORKFLOW)
    nodes = {node["identifier"]: node for node in configured.things["workflow_job_template_nodes"].values()}
    assert {node["workflow_job_template"] for node in nodes.values()} == {workflow["id"]}
    templates = configured.things["job_templates"]
    assert {name: templates[node["unified_job_template"]]["name"] for name, node in nodes.items()} == {
        "launch": TITLES["launch_cluster"],
        "run": TITLES["run_job"],
        "collect": TITLES["logs"],
        "tear down": TITLES["teardown_cluster"],
        "judge": TITLES["job_result"],
    }
    links = {
        (name, kind, to)
        for name in nodes
        for kind in ("success_nodes", "failure_nodes", "always_nodes")
        for to in configured.linked("workflow_job_template_nodes", name, kind)
    }
    assert links == {
        ("launch", "success_nodes", "run"),
        ("launch", "failure_nodes", "tear down"),
        ("run", "always_nodes", "collect"),
        ("collect", "always_nodes", "tear down"),
        ("tear down", "always_nodes", "judge"),
    }
    questions = configured.survey(WORKFLOW, "workflow_job_templates")
    assert {"session_mode", "session_image", "job_command"} <= set(questions)
    assert questions["session_command"]["default"] == "sleep infinity"
    assert questions["session_memory"]["default"] == "4g"
    assert json.loads(workflow["extra_vars"]) == {"session_on_no_capacity": "wait"}


def test_schedules(configured: Awx) -> None:
    groups = ("cluster_compute_hosts", "cpu_pool", "gpu_pool")
    queues = {f"{TITLES['schedule_pending']} of {group}" for group in groups}
    assert configured.names("schedules") == queues | {TITLES["audit"], TITLES["configure_awx"], TITLES[PAGE]}
    for schedule in configured.things["schedules"].values():
        (template,) = configured.find("unified_job_templates", {"id": str(schedule["unified_job_template"])})
        required = {
            variable
            for variable, question in (
                configured.survey(template["name"])
                if template["name"] not in (TITLES["configure_awx"], TITLES[PAGE])
                else {}
            ).items()
            if question["required"]
        }
        # The server refuses a schedule that leaves such a question open, whatever its default.
        assert set(schedule.get("extra_data", {})) == required
    assert configured.named("schedules", f"{TITLES['schedule_pending']} of gpu_pool")["extra_data"] == {
        "session_resource_group": "gpu_pool"
    }


def test_the_status_page_is_written_to_a_web_server(configured: Awx) -> None:
    template = configured.named("job_templates", TITLES[PAGE])
    assert template["playbook"] == "playbooks/status.yml"
    assert json.loads(template["extra_vars"]) == {
        "session_resource_group": "cluster_compute_hosts",
        "status_page": SITE["awx_status_page"],
        "status_host": "web",
    }


def test_inventories_come_from_the_project(configured: Awx) -> None:
    paths = {source["name"]: source["source_path"] for source in configured.things["inventory_sources"].values()}
    assert paths == {
        "Cluster compute from the project": "inventories/site",
        "Cluster compute sessions from the hosts": "inventories/site.sessions.yml",
    }
    kind = configured.named("credential_types", PREFIX + "SSH key of hosts")
    assert kind["injectors"] == {
        "file": {"template.key": "{{ ssh_key_data }}\n"},
        "env": {"ANSIBLE_PRIVATE_KEY_FILE": "{{ tower.filename.key }}"},
    }


def test_what_refreshes_it_knows_the_settings_of_the_site(configured: Awx) -> None:
    variables = json.loads(configured.named("job_templates", TITLES["configure_awx"])["extra_vars"])
    assert {name: variables[name] for name in SITE} == SITE
    assert variables["awx_project_url"] == configured.named("projects", "Cluster compute")["scm_url"]


def test_a_second_run_changes_nothing_and_a_third_what_differs(configured: Awx, apply: Apply) -> None:
    before = deepcopy(configured.things)
    surveys = deepcopy(configured.surveys)
    code, counted, output = apply()
    assert (code, counted["changed"]) == (0, 0), output
    assert configured.things == before
    assert configured.surveys == surveys

    groups = {**GROUPS, "big_pool": {"hosts": {"node2": {}, "gpu1": {}}}}
    code, counted, output = apply(groups, awx_images=["debian:12", "new:3", "train:1"])
    assert code == 0, output
    questions = configured.survey(TITLES["launch_cluster"])
    assert questions["session_resource_group"]["choices"] == [
        *("cluster_compute_hosts", "big_pool", "cpu_pool", "gpu_pool")
    ]
    assert questions["session_image"]["choices"] == ["debian:12", "new:3", "train:1"]
    assert configured.names("schedules") - {schedule["name"] for schedule in before["schedules"].values()} == {
        f"{TITLES['schedule_pending']} of big_pool"
    }
    for kind in ("projects", "inventories", "inventory_sources", "execution_environments", "credential_types"):
        assert configured.things[kind] == before[kind]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            {"awx_survey_defaults": {"session_memory": "4 gg"}},
            r"Launch a session.session_memory.default is '4 gg': A launch would reject it. Give an amount of memory",
        ),
        (
            {"awx_survey_defaults": {"session_size": "3"}},
            r"Launch a session.session_size.default is '3': It must be a whole number, and not text",
        ),
        (
            {"awx_survey_defaults": {"session_shm": "1g"}},
            r"Launch a session.session_shm.default is '\(value not shown\)': There is no such variable",
        ),
        ({"awx_queue_rrule": "RRULE:FREQ=DAILY;INTERVAL=1"}, r"awx_queue_rrule is 'RRULE.*': It must begin with one"),
        ({"awx_host_group": "lost"}, r"awx_host_group is 'lost': This group of the inventory has no hosts"),
        ({"awx_status_host": "lost"}, r"awx_status_host 'lost'. Files on another host need a"),
        ({"awx_status_page": "sessions.html"}, r"awx_status_page is 'sessions.html' and .* begin with / or ~/"),
        ({"awx_images": []}, r"No host of group cluster_compute_hosts has reported an image"),
    ],
)
def test_what_the_server_would_refuse_is_refused_before_anything_is_sent(
    awx: Awx, apply: Apply, settings: dict[str, Any], reason: str
) -> None:
    requests = len(awx.changes)
    code, _counted, output = apply(**settings)
    assert code != 0
    assert re.search(reason, re.sub(r"\s+", " ", output)), output
    assert len(awx.changes) == requests


def test_a_project_of_ones_own_has_all_that_templates_run(configured: Awx, tmp_path: Path) -> None:
    site = tmp_path / "site.yml"
    become = {"ansible_become": True, "ansible_become_exe": "/bin/false"}
    site.write_text(yaml.safe_dump({"all": {"vars": become}}), encoding="utf-8")
    settings = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "PWD": str(tmp_path)}
    line = ["ansible-playbook", "-i", str(site), str(ROOT / "playbooks" / "write_awx_project.yml")]
    line += ["-e", "awx_project_directory=own"]

    def write(*options: str) -> tuple[int, str]:
        done = subprocess.run(
            [*line, *options], cwd=tmp_path, env=settings, capture_output=True, text=True, timeout=300, check=False
        )
        return done.returncode, done.stdout

    assert write("--check")[0] == 0
    assert not (tmp_path / "own").exists()
    assert write()[0] == 0
    wrappers = sorted((tmp_path / "own" / "playbooks").iterdir())
    assert {path.stem for path in wrappers} == VERBS
    wanted = {Path(template["playbook"]).name for template in configured.things["job_templates"].values()}
    assert wanted == {path.name for path in wrappers}
    subprocess.run(["ansible-playbook", "--syntax-check", *wrappers], cwd=ROOT, env=settings, timeout=120, check=True)
    before = {path: path.stat().st_mtime_ns for path in wrappers}
    assert write()[0] == 0
    assert {path: path.stat().st_mtime_ns for path in wrappers} == before
    own = tmp_path / "own" / "playbooks" / "status.yml"
    own.write_text("---\n- hosts: web\n", encoding="utf-8")
    code, output = write()
    assert code != 0
    assert f"{own} is there already, and does not run cluster_compute.session.status. Rename it." in output
    assert own.read_text(encoding="utf-8") == "---\n- hosts: web\n"


class Lenient(yaml.SafeLoader):
    """Reads Ansible's own tags as plain text."""


Lenient.add_multi_constructor("!", lambda loader, _tag, node: loader.construct_scalar(node))


def texts(value: Any, key: str) -> list[Any]:
    """Return what *key* has anywhere in a document."""
    if isinstance(value, dict):
        return [found for name, item in value.items() for found in ([item] if name == key else []) + texts(item, key)]
    return [found for item in value for found in texts(item, key)] if isinstance(value, list) else []


def test_what_one_job_hands_on_hides_nothing_from_the_next() -> None:
    # A workflow makes artifacts extra variables, which beat all that a playbook registers or sets under the same name.
    files = [*(ROOT / "playbooks").glob("*.yml"), *(ROOT / "roles").glob("*/*/*.yml")]
    documents = [yaml.load(path.read_text(encoding="utf-8"), Loader=Lenient) for path in files]  # noqa: S506 safe
    handed_on = {
        name
        for document in documents
        for facts in texts(document, "ansible.builtin.set_stats")
        for name in facts["data"]
    }
    if any(
        name.endswith("_hands_on")
        for document in documents
        for variables in texts(document, "vars")
        for name in variables
    ):
        handed_on.add(ARTIFACT)
    own = {name for document in documents for name in texts(document, "register")}
    for key in ("ansible.builtin.set_fact", "vars"):
        own |= {name for document in documents for variables in texts(document, key) for name in variables}
    assert {ARTIFACT, "cluster_compute_plan"} <= handed_on
    assert handed_on & own == set()

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a site sets for all its playbooks (ansible.cfg, environment, AWX) changes nothing of what a verb does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.cluster_compute.session.tests.support.core.verbs.group import facts
from ansible_collections.cluster_compute.session.tests.support.stand_in import CHECKOUT, calls, play

PINNED: dict[str, Any] = {
    "strategy": "ansible.builtin.linear",
    "any_errors_fatal": False,
    "timeout": 0,
    "debugger": "never",
}
"""What a play takes from the site's settings unless it says so itself, and what the verbs need of it.

Where to log in and as whom is the site's, and so is what is shown of a run (no_log, diff, callbacks).
"""
PLAYBOOKS = sorted((CHECKOUT / "playbooks").glob("*.yml"))
TASK_FILES = sorted((CHECKOUT / "roles").glob("*/tasks/*.yml"))
SETTINGS: dict[str, dict[str, str]] = {
    "free": {"STRATEGY": "free"},
    "host_pinned": {"STRATEGY": "host_pinned"},
    "errors": {
        "ANY_ERRORS_FATAL": "True",
        "ENABLE_TASK_DEBUGGER": "True",
        "ERROR_ON_UNDEFINED_VARS": "False",
        "HOST_PATTERN_MISMATCH": "error",
        "FORCE_HANDLERS": "True",
        "DUPLICATE_YAML_DICT_KEY": "error",
    },
    "variables": {
        "HASH_BEHAVIOUR": "merge",
        "JINJA2_NATIVE": "True",
        "INJECT_FACT_VARS": "False",
        "GATHERING": "smart",
        "CACHE_PLUGIN": "jsonfile",
        "PRIVATE_ROLE_VARS": "True",
        "PRECEDENCE": "all_inventory,groups_inventory",
        "RUN_VARS_PLUGINS": "start",
        "NULL_REPRESENTATION": "",
        "ALLOW_EMBEDDED_TEMPLATES": "False",
        "FORKS": "1",
    },
    "shown": {
        "STDOUT_CALLBACK": "ansible.builtin.minimal",
        "DISPLAY_SKIPPED_HOSTS": "False",
        "DIFF_ALWAYS": "True",
        "NO_LOG": "True",
        "VERBOSITY": "2",
    },
}
"""By a word for them, settings that do not hide one another, without the prefix ANSIBLE_."""
TRAIN = {"id": "5d1a3f6e-0000-4000-8000-000000000001", "name": "train"}
REMOVED = {"changed": True, "actions": ["remove container train-main1"], "sessions": [TRAIN], "tombstones": []}


def entries_of(path: Path) -> list[dict[str, Any]]:
    """Return what a file of plays or tasks holds."""
    return list(yaml.safe_load(path.read_text(encoding="utf-8").replace("!unsafe", "")))


def plays(path: Path) -> list[dict[str, Any]]:
    """Return the plays of a playbook, without what it imports."""
    return [entry for entry in entries_of(path) if "hosts" in entry]


def tasks(entries: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Return the tasks of a list, those in its blocks included."""
    for entry in entries:
        yield entry
        for part in ("block", "rescue", "always"):
            yield from tasks(entry.get(part, []))


@pytest.mark.parametrize("path", PLAYBOOKS, ids=lambda path: path.stem)
def test_every_play_for_several_hosts_says_what_a_site_could_set_otherwise(path: Path) -> None:
    for entry in plays(path):
        assert entry["gather_facts"] is False, entry["name"]
        if entry["hosts"] not in ("localhost", "{{ 'localhost' | cluster_compute.session.refuse_tags }}"):
            assert {key: entry.get(key) for key in PINNED} == PINNED, entry["name"]


def test_a_host_that_is_away_ends_no_play_whoever_wrote_it() -> None:
    """Under any_errors_fatal it would, whatever the task says of hosts that cannot be reached."""
    found = [task for path in TASK_FILES for task in tasks(entries_of(path))]
    found += [task for path in PLAYBOOKS for entry in plays(path) for task in tasks(entry.get("tasks", []))]
    bearing = [task for task in found if task.get("ignore_unreachable")]
    assert len(bearing) > 20
    assert [task["name"] for task in bearing if task.get("any_errors_fatal") is not False] == []


def test_whatever_writes_on_the_controller_does_without_the_become_of_the_hosts() -> None:
    found = [task for path in TASK_FILES for task in tasks(entries_of(path))]
    found += [task for path in PLAYBOOKS for entry in plays(path) for task in tasks(entry.get("tasks", []))]
    delegated = [task for task in found if "localhost" in str(task.get("delegate_to", ""))]
    written = [task for task in delegated if "ansible.builtin.set_fact" not in task]
    assert len(written) > 5
    assert [task["name"] for task in written if task.get("vars", {}).get("ansible_become") is not False] == []


@pytest.mark.parametrize("word", SETTINGS)
def test_a_teardown_is_remembered_for_a_host_that_is_away_and_a_report_is_of_all(tmp_path: Path, word: str) -> None:
    environment = {f"ANSIBLE_{name}": value for name, value in SETTINGS[word].items()}
    environment["ANSIBLE_CACHE_PLUGIN_CONNECTION"] = str(tmp_path / "facts")
    answers = {"h1": REMOVED, "h2": None, "h3": {**REMOVED, "sessions": []}}
    code, output = play(tmp_path, "teardown_cluster", answers, {"session_name": "train"}, **environment)
    assert code == 2, output  # h2 has not removed it yet
    assert [calls(tmp_path, host) for host in ("h1", "h3")] == [2, 2], output

    known = {"h1": {"host": facts()}, "h2": None, "h3": {"host": facts(number=3)}}
    file = tmp_path / "found.json"
    code, output = play(tmp_path, "session_info", known, {"cluster_compute_info_file": str(file)}, **environment)
    assert code == 0, output
    hosts = yaml.safe_load(file.read_text(encoding="utf-8"))["hosts"]
    assert {host["name"]: host["usable"] for host in hosts} == {"h1": True, "h2": False, "h3": True}


def test_a_query_is_answered_by_status_and_info_and_a_wrong_one_refused_before_any_host(tmp_path: Path) -> None:
    known = {f"h{number}": {"host": facts(number=number)} for number in (1, 3)}
    query = "length(hosts[?usable])"
    code, output = play(tmp_path, "status", known, {"status_query": query})
    assert code == 0, output
    assert '"msg": 2' in output or "msg: 2" in output, output
    file = tmp_path / "found.json"
    own = {"cluster_compute_info_file": str(file), "cluster_compute_info_query": "hosts[].name"}
    site = tmp_path / "site.json"
    site.write_text(json.dumps({"all": {"vars": own}}), encoding="utf-8")
    for options in (["-e", json.dumps(own)], ["-i", str(site)]):
        code, output = play(tmp_path, "session_info", known, {}, *options)
        assert code == 0, output
        assert json.loads(file.read_text(encoding="utf-8")) == ["h1", "h3"]
        file.unlink()
    for playbook, variable in (("status", "status_query"), ("session_info", "cluster_compute_info_query")):
        code, output = play(tmp_path, playbook, known, {variable: "hosts[?usable"})
        assert code == 2
        assert f"{variable} is 'hosts[?usable': It ends too early" in output
        assert calls(tmp_path, "h1") == 0


@pytest.mark.parametrize("role", ["teardown", "info", "login"])
@pytest.mark.parametrize("strategy", ["free", "ansible.builtin.host_pinned"])
def test_a_role_in_a_play_of_a_site_refuses_hosts_that_do_not_wait_for_each_other(
    tmp_path: Path, strategy: str, role: str
) -> None:
    own = tmp_path / "own.yml"
    uses = {"ansible.builtin.import_role": {"name": f"cluster_compute.session.{role}"}}
    variables = {"teardown_session_name": "train", "login_session_name": "train", "login_resource_group": "all"}
    entry = {"hosts": "cluster_compute_hosts", "gather_facts": False, "strategy": strategy, "tasks": [uses]}
    own.write_text(yaml.safe_dump([entry]), encoding="utf-8")
    answers = {"h1": {**REMOVED, "host": facts()}, "h2": {**REMOVED, "host": facts(number=2)}}
    # With one fork a pinned host is through before the next one begins.
    code, output = play(tmp_path, str(own.with_suffix("")), answers, variables, ANSIBLE_FORKS="1")
    assert code != 0, output
    assert f"The strategy of this play is {strategy}" in output
    own.write_text(yaml.safe_dump([{**entry, "strategy": "linear"}]), encoding="utf-8")
    code, output = play(tmp_path, str(own.with_suffix("")), answers, variables)
    assert "The strategy of this play" not in output
    assert ("The hosts of the resource group all know no session of this name." in output) == (role == "login")
    assert (code == 0) == (role != "login"), output


def test_what_is_written_on_the_controller_is_written_as_who_runs_it(tmp_path: Path) -> None:
    """A variable of all hosts counts for localhost, too, and for more than the keyword become."""
    broken = tmp_path / "become"
    broken.write_text("#!/bin/sh\necho become was used >&2\nexit 1\n", encoding="utf-8")
    broken.chmod(0o755)
    everywhere = {"ansible_become": True, "ansible_become_user": "nobody", "ansible_become_exe": str(broken)}
    site = tmp_path / "site.json"
    own = {"h1": {"ansible_become": False}, "h2": {"ansible_become": False}}
    site.write_text(yaml.safe_dump({"all": {"vars": everywhere, "hosts": own}}), encoding="utf-8")
    known = {"h1": {"host": facts()}, "h2": {"host": facts(number=2)}}
    given = {name: str(tmp_path / name) for name in ("status_page", "status_json", "status_targets")}
    given["cluster_compute_info_file"] = str(tmp_path / "info")
    for playbook in ("session_info", "status"):
        code, output = play(tmp_path, playbook, known, given, "-i", str(site))
        assert code == 0, output
    assert all(Path(path).exists() for path in given.values())


TAGS = (
    {"ANSIBLE_RUN_TAGS": "deploy"},
    {"ANSIBLE_SKIP_TAGS": "untagged"},
    {"ANSIBLE_SKIP_TAGS": "all,always"},
    {"ANSIBLE_RUN_TAGS": "deploy", "ANSIBLE_SKIP_TAGS": "always"},
)


VERBS = [path for path in PLAYBOOKS if not path.stem.startswith("lab_")]


@pytest.mark.parametrize("path", VERBS, ids=lambda path: path.stem)
def test_every_playbook_refuses_tags_that_leave_it_out(path: Path) -> None:
    assert "| cluster_compute.session.refuse_tags }}" in plays(path)[0]["hosts"]


@pytest.mark.parametrize("tags", TAGS, ids=str)
@pytest.mark.parametrize("imports", [False, True])
def test_a_teardown_that_tags_leave_out_says_so_and_fails(tmp_path: Path, tags: dict[str, str], imports: bool) -> None:
    playbook = own_playbook(tmp_path) if imports else "teardown_cluster"
    code, output = play(tmp_path, playbook, {"h1": REMOVED}, {"session_name": "train"}, **tags)
    assert (code != 0, calls(tmp_path, "h1")) == (True, 0), output
    assert "nothing would be done. Run it without --tags" in " ".join(output.split()), output


@pytest.mark.parametrize("options", ["--skip-tags=always", "--skip-tags=tagged", "--tags=untagged"])
def test_tags_that_leave_nothing_out_are_taken(tmp_path: Path, options: str) -> None:
    code, output = play(tmp_path, "teardown_cluster", {"h1": REMOVED}, {"session_name": "train"}, options)
    assert (code, calls(tmp_path, "h1") > 0) == (0, True), output


@pytest.mark.parametrize(
    ("tags", "given", "called"),
    [([], "deploy", False), (["cleanup"], "deploy", False), (["cleanup"], "cleanup", True), ([], "all", True)],
)
def test_a_playbook_with_plays_of_its_own_chooses_by_tags(
    tmp_path: Path, tags: list[str], given: str, called: bool
) -> None:
    deploy = {
        "hosts": "localhost",
        "gather_facts": False,
        "tags": ["deploy"],
        "tasks": [{"debug": {"msg": "deployed"}}],
    }
    playbook = own_playbook(tmp_path, deploy, tags=tags)
    code, output = play(tmp_path, playbook, {"h1": REMOVED}, {"session_name": "train"}, "--tags", given)
    assert (code, calls(tmp_path, "h1") > 0) == (0, called), output
    assert ("deployed" in output) == (given != "cleanup")


def own_playbook(folder: Path, *own: dict[str, Any], tags: list[str] | None = None) -> str:
    """Return a playbook of a site that imports the teardown after plays of its own."""
    path = folder / "site.yml"
    entry = {"import_playbook": "cluster_compute.session.teardown_cluster", **({"tags": tags} if tags else {})}
    path.write_text(yaml.safe_dump([*own, entry]), encoding="utf-8")
    return str(path.with_suffix(""))

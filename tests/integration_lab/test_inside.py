# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Replicas as hosts of Ansible: groups, connections with and without Python, files, the cache; sessions as data."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    BUSYBOX,
    CHECKOUT,
    DEMO,
    HERE,
    HOSTS,
    INVENTORY,
    REPLICAS,
    Replica,
    Run,
    environment,
    launch,
    on,
    play,
    record,
    recorded,
    replicas,
    script,
    teardown,
)

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAID0D3s8E9JWn04xEIs9iqqoeVlWJbCLHvqIY+zMlCfIT"
REQUEST: dict[str, Any] = {
    "session_name": "inside",
    "session_roles": [
        {"name": "main", "image": DEMO},
        {"name": "work-er", "replicas": 1, "image": DEMO},
        {"name": "bare", "replicas": 1, "image": BUSYBOX, "command": ["sleep", "1000000"]},
    ],
    "session_max_replicas_per_host": 1,
    "session_cpus": "0.3",
    "session_memory": "128m",
    "session_env": {"TOKEN": "s3cret-value"},
    "session_ports": ["18080:80"],
    "session_authorized_keys": [KEY],
}
NAMES = ["inside-bare1", "inside-main1", "inside-work-er1"]
WITH_PYTHON = "session_inside:!role_bare"
NOTHING_MORE = '{"all": {}}'
LARGE = 33 * 1024**2
"""Bytes: more than are copied with one command."""


@pytest.fixture(scope="module")
def launched(untouched_lab: object) -> Iterator[Run]:
    """Launch the one session of this file."""
    try:
        yield launch(REQUEST).ok()
    finally:
        teardown("inside").ok()


@pytest.fixture(scope="module")
def parts(launched: Run) -> dict[str, Replica]:
    """Give the replicas of the session."""
    return replicas("inside")


@pytest.fixture(scope="module")
def cached(launched: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give an inventory that remembers what it was told; the site's is this lab's, with what a file may add."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "more.json").write_text(NOTHING_MORE, encoding="utf-8")
    return describe(
        folder / "my.sessions.yml",
        site=[str(INVENTORY), "more.json"],
        cache=True,
        cache_plugin="ansible.builtin.jsonfile",
        cache_connection=str(folder / "cache"),
    )


def describe(path: Path, **options: Any) -> Path:
    path.write_text(yaml.safe_dump({"plugin": "cluster_compute.session.sessions", **options}), encoding="utf-8")
    return path


def inside(inventory: Path, pattern: str, module: str, arguments: str = "", *options: str) -> Run:
    """Run one task in replicas."""
    argv = ["-a", arguments] if arguments else []
    return recorded(["ansible", "-i", str(inventory), pattern, "-m", f"ansible.builtin.{module}", *argv, *options])


def listing(inventory: Path, *options: str) -> tuple[dict[str, Any], str]:
    """Return what an inventory lists, and what was said about it."""
    done = subprocess.run(
        ["ansible-inventory", "-i", str(inventory), "--list", *options],
        cwd=CHECKOUT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return json.loads(done.stdout), done.stderr


def messages(run: Run) -> dict[str, str]:
    """Return the output of a command by replica."""
    return {result["host"]: result["values"]["stdout"].strip() for result in run.results}


def test_replicas_are_hosts_with_groups_and_variables(cached: Path, parts: dict[str, Replica]) -> None:
    found, warnings = listing(cached)
    assert warnings == ""
    assert sorted(found["cluster_compute_replicas"]["hosts"]) == NAMES
    assert sorted(found["session_inside"]["hosts"]) == NAMES
    assert found["role_work_er"]["hosts"] == ["inside-work-er1"]
    for replica in parts.values():
        assert found[f"host_{replica.host}"]["hosts"] == [f"inside-{replica.name}"]
        variables = found["_meta"]["hostvars"][f"inside-{replica.name}"]
        assert variables["cluster_compute_container"] == replica.container
        assert (variables["cluster_compute_host"], variables["cluster_compute_status"]) == (replica.host, "RUNNING")
        assert variables["cluster_compute_session_id"] == record("inside")["id"]
        assert variables["cluster_compute_address"] in replica.run("cat", "/etc/hosts")
    assert "s3cret-value" not in json.dumps(found)


def test_the_options_of_a_command_are_for_replicas_alone(launched: Run) -> None:
    """What the command line says reaches neither the hosts of the site nor the process that asks them."""
    options = ["-b", "--check", "-e", "ansible_python_interpreter=/usr/bin/python3 ansible_port=9", "-v"]
    run = inside(REPLICAS, WITH_PYTHON, "ping", "", *options).ok()
    assert {result["host"]: result["values"]["ping"] for result in run.results} == dict.fromkeys(NAMES[1:], "pong")
    assert len(run.results) == 2
    assert {result["task"] for result in run.results} == {"ansible.builtin.ping"}, "the recorder sees replicas alone"


def test_raw_runs_everywhere_its_exit_code_comes_back_and_another_user_may_be_named(cached: Path) -> None:
    command = 'cat /etc/hostname; id -u; echo "it\'s $((1+1))" >&2; exit 7'
    run = inside(cached, "all", "raw", command, "-e", "cluster_compute_user=65534:65534")
    assert {name: text.split() for name, text in messages(run).items()} == {
        name: [name.removeprefix("inside-"), "65534"] for name in NAMES
    }
    assert [result["values"]["stderr"].strip() for result in run.results] == ["it's 2"] * 3
    assert [result["values"]["rc"] for result in run.results] == [7] * 3


def test_a_playbook_copies_files_in_and_out(cached: Path, parts: dict[str, Replica], tmp_path: Path) -> None:
    content = bytes(range(256)) * (LARGE // 256) + b"\r\n\x00end"
    (tmp_path / "large").write_bytes(content)
    playbook = HERE / "playbooks" / "inside.yml"
    recorded(["ansible-playbook", "-i", str(cached), str(playbook), "-e", f"folder={tmp_path}"]).ok()
    for name, rank in (("main1", 0), ("work-er1", 1)):
        text = f"{name} {rank} {parts[name].host}"
        assert (tmp_path / f"inside-{name}").read_text(encoding="utf-8") == text
        assert parts[name].run("cat", "/tmp/made here") == text
        assert parts[name].run("stat", "-c", "%a %s", "/tmp/made here", "/tmp/empty").split() == [
            "640",
            str(len(text)),
            "600",
            "0",
        ]
    assert parts["main1"].run("stat", "-c", "%s", "/tmp/large").strip() == str(len(content))
    assert (tmp_path / "back").read_bytes() == content


def test_the_cache_answers_while_a_host_is_away(cached: Path, parts: dict[str, Replica]) -> None:
    away = parts["bare1"].host
    gone = "inside-bare1"
    more = cached.with_name("more.json")
    more.write_text(json.dumps({"all": {"hosts": {away: {"ansible_port": 1}}}}), encoding="utf-8")
    try:
        found, warnings = listing(cached)
        assert warnings == "", "nobody was asked"
        assert found["_meta"]["hostvars"][gone]["cluster_compute_status"] == "RUNNING"
        run = inside(cached, "all", "raw", "true")
        assert {result["host"]: result["outcome"] for result in run.results} == {
            name: "unreachable" if name == gone else "ok" for name in NAMES
        }
        found, warnings = listing(cached, "--flush-cache")
        assert f"Replicas on {away} may be missing: It could not be reached." in " ".join(warnings.split())
        assert sorted(found["cluster_compute_replicas"]["hosts"]) == NAMES, "its session's other hosts know"
        assert found["_meta"]["hostvars"][gone]["cluster_compute_status"] == "UNKNOWN"
    finally:
        more.write_text(NOTHING_MORE, encoding="utf-8")


def test_a_site_whose_users_are_not_root(cached: Path, parts: dict[str, Replica], tmp_path: Path) -> None:
    """Somebody logs in on the host who has to become root there by a password, for asking and for every command."""
    host = parts["bare1"].host
    login = {
        "ansible_user": "plain",
        "ansible_become": True,
        "ansible_become_method": "su",
        "ansible_become_password": "{{ 'not ' ~ word }}",
        "word": "secret {{ '{{' }}",
    }
    overlay = tmp_path / "more.json"
    overlay.write_text(json.dumps({"all": {"hosts": {host: login}}}), encoding="utf-8")
    inventory = describe(tmp_path / "plain.sessions.yml", site=[str(INVENTORY), str(overlay)])
    script(
        host,
        "useradd --create-home --shell /bin/sh plain; mkdir -p /home/plain/.ssh\n"
        "cp /root/.ssh/authorized_keys /home/plain/.ssh/; chown -R plain /home/plain/.ssh; usermod -p '*' plain\n"
        "echo 'root:not secret {{' | chpasswd",
    )
    try:
        run = inside(inventory, "all", "raw", "cat /etc/hostname").ok()
        assert messages(run) == {name: name.removeprefix("inside-") for name in NAMES}
        assert "may be missing" not in " ".join(run.output.split())
        overlay.write_text(json.dumps({"all": {"hosts": {host: {**login, "ansible_become": False}}}}), encoding="utf-8")
        _found, warnings = listing(inventory)
        assert f"Replicas on {host} may be missing: Ansible works on this host as uid" in " ".join(warnings.split())
    finally:
        script(host, "usermod -p '*' root; pkill -KILL -u plain || true; userdel --remove --force plain 2>/dev/null")


def test_an_inventory_that_cannot_be_read_says_what_is_wrong(tmp_path: Path) -> None:
    wrong: dict[str, dict[str, Any]] = {
        "There is no inventory": {"site": ["nowhere"]},
        "Groups that have hosts: all, cluster_compute_hosts": {"site": [str(INVENTORY)], "resource_group": "nobody"},
        "None of its hosts can be reached": {"site": [str(INVENTORY)], "resource_group": "lost_pool"},
    }
    first, *more = (
        describe(tmp_path / f"bad{number}.sessions.yml", **options) for number, options in enumerate(wrong.values())
    )
    _found, warnings = listing(first, *(word for path in more for word in ("-i", str(path))))
    assert [text for text in wrong if text not in " ".join(warnings.split())] == []


@pytest.fixture(scope="module")
def killed(parts: dict[str, Replica]) -> Iterator[Replica]:
    """Kill a replica for as long as tests look at it."""
    part = parts["bare1"]
    on(part.host, "docker", "kill", part.container)
    try:
        yield part
    finally:
        on(part.host, "docker", "start", part.container)


def test_sessions_are_data_and_artifacts(
    launched: Run, parts: dict[str, Replica], killed: Replica, tmp_path: Path
) -> None:
    file = tmp_path / "info.json"
    run = play("session_info", {"session_name": "inside", "cluster_compute_info_file": str(file)}).ok()
    found = json.loads(file.read_text(encoding="utf-8"))
    assert file.stat().st_mode & 0o777 == 0o600
    assert run.artifacts["cluster_compute_info"] == found
    assert [host["name"] for host in found["hosts"]] == list(HOSTS)
    assert all(host["held"]["cpus"] == 300 and host["free"]["cpus"] == 1700 for host in found["hosts"])
    (session,) = found["sessions"]
    whole = record("inside")
    assert (session["id"], session["status"], session["size"]) == (whole["id"], "RUNNING", 3)
    assert [
        (replica["name"], replica["host"], replica["container"], replica["status"]) for replica in session["replicas"]
    ] == [
        (name, part.host, part.container, "FAILED" if part is killed else "RUNNING")
        for name, part in ((name, parts[name]) for name in ("main1", "work-er1", "bare1"))
    ]
    assert [replica["exit_code"] for replica in session["replicas"]] == [None, None, 137]
    assert [(failure["replica"], failure["host"]) for failure in session["failures"]] == [("bare1", killed.host)]
    assert [replica["image_id"] for replica in session["replicas"]] == [
        parts[replica["name"]].inspected["Image"] for replica in session["replicas"]
    ]
    opened = {
        int(binding["HostPort"])
        for bindings in parts["main1"].inspected["NetworkSettings"]["Ports"].values()
        for binding in bindings or ()
    }
    artifact = launched.artifacts["cluster_compute_session"]
    assert {port["host_port"] for port in session["ports"]} == {18080, session["ssh_port"]} == opened
    assert artifact["ssh_port"] == session["ssh_port"]
    assert (artifact["name"], artifact["id"], artifact["status"]) == ("inside", whole["id"], "RUNNING")
    for replica in artifact["replicas"]:
        part = parts[replica["name"]]
        assert (replica["host"], replica["container"], replica["image_id"]) == (
            part.host,
            part.container,
            part.inspected["Image"],
        )
        assert replica["status"] == "RUNNING"
    assert "s3cret-value" not in json.dumps([found, launched.artifacts])


def test_a_replica_that_does_not_run_is_unreachable(killed: Replica) -> None:
    run = inside(REPLICAS, "inside-bare1", "raw", "true")
    (result,) = run.results
    assert result["outcome"] == "unreachable"
    assert f"The container {killed.container} does not run on {killed.host}" in result["values"]["msg"]

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests that cannot be: each is refused with its variable, its value and what is allowed, and no host is touched."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.tests.integration_lab.driver import (
    ADDRESSES,
    BUSYBOX,
    HOSTS,
    Run,
    Snapshot,
    differences,
    launch,
    on,
    play,
    replicas,
    script,
    snapshot,
    teardown,
    try_on,
)

CANARY = "/tmp/cluster-compute-canary"
BASE = {"session_name": "bad", "session_image": BUSYBOX, "session_memory": "64m", "session_command": "sleep 8888"}
WHOLE = "whole number from 1 to 4096"

# Refused by the controller alone: what is asked, and what the message has to say.
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

# Refused when the hosts have been looked at.
HOST_REQUESTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "more cpus than any host has": ({"session_cpus": 3}, ["session_cpus", "3", "2"]),
    "more memory than any host has": ({"session_memory": "3g"}, ["session_memory", "3", "2GiB"]),
    "a mount that is nowhere": (
        {"session_mounts": "/srv/nowhere:/data"},
        ["session_mounts", "/srv/nowhere", "n1, n2, n3"],
    ),
    "a mount that one host lacks": (
        {"session_mounts": "/srv/not-on-n3:/data", "session_size": 3, "session_max_replicas_per_host": 1},
        ["session_mounts", "/srv/not-on-n3", "n3"],
    ),
    "a mount named for a shell": (
        {"session_mounts": [{"source": f"/srv/$(touch {CANARY})", "target": "/data"}]},
        ["session_mounts", "touch", "does not exist"],
    ),
    "a port that is taken": ({"session_ports": "22:22"}, ["session_ports", "22", "taken on n1"]),
    "a host that does not exist": ({"session_hosts": "n1,n9"}, ["session_hosts", "n9"]),
    "all hosts excluded": ({"session_excluded_hosts": "n1,n2,n3"}, ["session_excluded_hosts"]),
    "a container of another session": ({"session_name": "taken"}, ["session_name", "taken", "taken-main1"]),
    "an image that is nowhere": (
        {"session_image": "cluster-compute/nowhere:1", "session_size": 3, "session_max_replicas_per_host": 1},
        ["session_image", "cluster-compute/nowhere:1"],
    ),
    "unreachable hosts only": ({"session_resource_group": "lost_pool"}, ["session_resource_group", "gone", "reached"]),
}


@pytest.fixture(scope="module")
def runs(untouched_lab: Snapshot) -> Iterator[dict[str, Run]]:
    """Run all bad requests, some side by side: none of them may do anything."""
    foreign = "--label=cluster-compute.session-id=5c7a1f0e-0000-4000-8000-000000000000"
    for host in HOSTS:
        name = "--label=cluster-compute.session-name=somebody"
        on(host, "docker", "create", "--name=taken-main1", foreign, name, BUSYBOX, "true")
    for host in ("n1", "n2"):
        on(host, "mkdir", "-p", "/srv/not-on-n3")
    everything = {**REQUESTS, **HOST_REQUESTS}
    try:
        before = snapshot()
        with ThreadPoolExecutor(4) as pool:
            done = pool.map(lambda case: launch({**BASE, **everything[case][0]}), everything)
            yield {**dict(zip(everything, done)), "differences": Run(0, "\n".join(differences(before, snapshot())))}
    finally:
        for host in HOSTS:
            script(host, "docker rm -f taken-main1 >/dev/null; rm -rf /srv/not-on-n3")


@pytest.mark.parametrize("case", [*REQUESTS, *HOST_REQUESTS])
def test_it_is_refused_with_variable_value_and_what_is_allowed(case: str, runs: dict[str, Run]) -> None:
    wanted = {**REQUESTS, **HOST_REQUESTS}[case][1]
    run = runs[case]
    assert run.code != 0, run.output
    assert [text for text in wanted if text not in run.failures] == [], run.failures
    assert run.changed_hosts == set()
    assert "Traceback" not in run.output
    if case in REQUESTS:
        # Nobody but the controller had a part in it.
        assert set(run.recap) == {"localhost"}


@pytest.mark.parametrize("case", [*REQUESTS, *HOST_REQUESTS])
def test_a_refusal_is_in_full_sentences_of_no_programming_language(case: str, runs: dict[str, Run]) -> None:
    lines = runs[case].failures.splitlines()
    assert len(lines) > 1
    assert [line for line in lines if not line.endswith((".", ":", "?"))] == []
    assert not re.search(r"Traceback|<class|Error\(|\{'|is None\b", runs[case].output), runs[case].output


def test_no_host_was_touched_by_any_of_them(runs: dict[str, Run]) -> None:
    assert len(runs) == len(REQUESTS) + len(HOST_REQUESTS) + 1
    assert runs["differences"].output == ""


def test_no_shell_saw_any_of_them(runs: dict[str, Run]) -> None:
    assert not Path(CANARY).exists()
    assert [host for host in HOSTS if try_on(host, ["test", "-e", CANARY]).returncode != 1] == []


@pytest.mark.parametrize("verb", ["teardown_cluster", "demo_proof"])
def test_other_verbs_refuse_a_name_that_cannot_be(verb: str, untouched_lab: Snapshot) -> None:
    for name in ("Bad;name", ""):
        run = play(verb, {"session_name": name})
        assert run.code != 0
        assert "session_name" in run.failures
        assert set(run.recap) == {"localhost"}


def test_a_proof_of_a_session_that_is_not_there_says_so(untouched_lab: Snapshot) -> None:
    run = play("demo_proof", {"session_name": "nobody"})
    assert run.code != 0
    assert "nobody" in run.failures


def test_an_unreachable_host_is_left_out_with_a_warning(untouched_lab: Snapshot) -> None:
    request = {**BASE, "session_resource_group": "leaky_pool", "session_size": 3}
    try:
        run = launch(request)
        assert run.code == 0, run.output
        assert "gone" in run.output.split("WARNING", 1)[1]
        assert set(run.placed.values()) == {"n1", "n2"}
        assert {one.host for one in replicas("bad").values()} == {"n1", "n2"}
    finally:
        teardown("bad").ok()


def _stop_engine() -> None:
    script("n3", "service docker stop >/dev/null 2>&1; while pgrep -x dockerd >/dev/null; do sleep 0.1; done")


def _start_engine() -> None:
    script("n3", "service docker start >/dev/null 2>&1; until docker info >/dev/null 2>&1; do sleep 0.1; done")


def _no_change() -> None:
    """Stand in for a preparation that a case does not need."""


def _add_user() -> None:
    script(
        "n3",
        "useradd --create-home --shell /bin/sh plain; mkdir -p /home/plain/.ssh\n"
        "cp /root/.ssh/authorized_keys /home/plain/.ssh/; chown -R plain /home/plain/.ssh; usermod -p '*' plain",
    )


def _remove_user() -> None:
    script("n3", "pkill -KILL -u plain || true; userdel --remove --force plain 2>/dev/null")


UNFIT: dict[str, tuple[Callable[[], None], Callable[[], None], dict[str, Any], list[str]]] = {
    "its engine does not run": (
        _stop_engine,
        _start_engine,
        {},
        ["n3", "Docker Engine cannot be reached", "prepare_hosts"],
    ),
    "its Python does not start": (
        _no_change,
        _no_change,
        {"ansible_python_interpreter": "/nowhere/python3"},
        ["n3", "host_info could not run to its end", "/nowhere/python3: ", "host's Python", "-vvv"],
    ),
    "no root": (_add_user, _remove_user, {"ansible_user": "plain"}, ["n3", "root", "ansible_become"]),
    "a label that is none": (
        _no_change,
        _no_change,
        {"cluster_compute_labels": "r1"},
        ["n3", "cluster_compute_labels", "rack"],
    ),
    "an underlay address it does not have": (
        _no_change,
        _no_change,
        {"cluster_compute_underlay_address": "192.0.2.77"},
        ["n3", "192.0.2.77", ADDRESSES["n3"]],
    ),
}


@pytest.mark.parametrize("case", UNFIT)
def test_a_host_that_cannot_carry_sessions_is_named_with_the_reason(case: str, untouched_lab: Snapshot) -> None:
    prepare, repair, variables, wanted = UNFIT[case]
    others = ("n1", "n2")
    before = snapshot(others)
    prepare()
    try:
        run = launch({**BASE, "session_size": 6}, hosts={"n3": variables})
        assert run.code != 0, run.output
        assert [text for text in wanted if text not in run.failures] == [], run.failures
        assert not re.search(r"Traceback|Error\(|Errno|json", run.output), run.output
        assert run.changed_hosts == set()
        assert differences(before, snapshot(others)) == []
    finally:
        repair()

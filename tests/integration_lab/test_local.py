# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""inventories/local: a machine with its own engine and no lab. A host of the lab plays the machine, with Ansible."""

from __future__ import annotations

import importlib.metadata
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    ADDRESSES,
    BUSYBOX,
    CHECKOUT,
    Snapshot,
    differences,
    environment,
    on,
    replicas,
    snapshot,
    ssh_options,
    try_on,
)

MACHINE = "n1"
FOLDER = "/opt/local"
PACKAGES = ("ansible-core", "jinja2", "markupsafe", "pyyaml", "packaging", "resolvelib", "netaddr")


@pytest.fixture(scope="module")
def machine(untouched_lab: Snapshot) -> Iterator[str]:
    """Put the checkout and the controller's Python packages on a host, as a user of that machine would have them."""
    on(MACHINE, "mkdir", "-p", FOLDER)
    try:
        for name in PACKAGES:
            package = importlib.metadata.distribution(name)
            parts = {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}
            assert parts
            _copy(Path(str(package.locate_file(""))), sorted(parts))
        checkout = ["ansible.cfg", ".collections", "galaxy.yml", "inventories", "meta", "playbooks", "plugins", "roles"]
        _copy(CHECKOUT, checkout)
        yield MACHINE
    finally:
        on(MACHINE, "rm", "-rf", FOLDER)


def _copy(folder: Path, names: list[str]) -> None:
    pack = ["tar", "-C", str(folder), "--exclude=__pycache__", "-cf", "-", *names]
    unpack = ["ssh", *ssh_options(), f"root@{ADDRESSES[MACHINE]}", f"tar -C {FOLDER} -xf -"]
    with subprocess.Popen(pack, stdout=subprocess.PIPE) as packing:
        assert subprocess.run(unpack, stdin=packing.stdout, check=False).returncode == 0
    assert packing.returncode == 0


def _play(playbook: str, *options: str) -> subprocess.CompletedProcess[str]:
    variables = ["PYTHONPATH=.", "ANSIBLE_CONFIG=ansible.cfg", "LC_ALL=C.UTF-8", "ANSIBLE_NOCOLOR=1"]
    argv = [
        "env",
        *variables,
        "python3",
        "-m",
        "ansible.cli.playbook",
        "-i",
        "inventories/local",
        f"playbooks/{playbook}.yml",
    ]
    return try_on(MACHINE, ["sh", "-c", f"cd {FOLDER} && {shlex.join([*argv, *options])}"], seconds=120)


REQUEST = ["-e", f"session_name=here session_size=2 session_image={BUSYBOX} session_memory=64m session_cpus=0.2"]
COMMAND = ["-e", "session_command='sleep 8888' session_capabilities=NET_RAW"]


def test_a_session_runs_on_the_machine_s_own_engine(machine: str, untouched_lab: Snapshot) -> None:
    before = snapshot([machine])
    launched = _play("launch_cluster", *REQUEST, *COMMAND)
    try:
        assert launched.returncode == 0, launched.stdout + launched.stderr
        found = replicas("here")
        assert {name: replica.host for name, replica in found.items()} == {"main1": machine, "sub1": machine}
        found["sub1"].run("ping", "-c", "1", "-W", "3", "main1")
        assert found["sub1"].environment()["BACKENDAI_CLUSTER_MODE"] == "single-node"
    finally:
        removed = _play("teardown_cluster", "-e", "session_name=here")
    assert removed.returncode == 0, removed.stdout + removed.stderr
    assert differences(before, snapshot([machine])) == []


@pytest.mark.parametrize("inventory", ["local", "example", "lab"])
def test_every_inventory_and_verb_is_well_formed(inventory: str) -> None:
    playbooks = [f"playbooks/{name}.yml" for name in ("launch_cluster", "teardown_cluster", "prepare_hosts")]
    argv = ["ansible-playbook", "-i", f"inventories/{inventory}", *playbooks, "--syntax-check"]
    done = subprocess.run(argv, cwd=CHECKOUT, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [name for name in playbooks if f"playbook: {name}" not in done.stdout] == []
    assert "no hosts matched" not in done.stdout
    assert "Could not match" not in done.stderr

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The execution environment is built by the engine of a host, and runs a verb as AWX would run it.

The definition is the one that users build, and so are all steps of ansible-builder. What a host of the lab cannot reach
lies in the base image instead: a Debian tree with a package repository of its own in place of Debian's, a folder of
wheels in place of PyPI, and awx.awx in place of Galaxy.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import ansible_collections.awx
import pytest
import yaml
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    ADDRESSES,
    CHECKOUT,
    DIRECTORY,
    HOSTS,
    listed_inventory,
    on,
    run_here,
    ssh_options,
)

pytestmark = pytest.mark.stamped("environment")

HOST = "n1"
FOLDER = "/srv/ee"
IMAGE = "ee-of-the-tests:1"
BASE = "ee-base-of-the-tests:1"
BASE_STEPS = """\
FROM scratch
ADD base.tar /
COPY wheels /wheels
COPY pip.conf /etc/pip.conf
COPY awx /usr/share/ansible/collections/ansible_collections/awx
"""


def send(folder: Path, name: str) -> None:
    """Copy a folder to the host that builds."""
    with subprocess.Popen(["tar", "-C", str(folder), "-cf", "-", "."], stdout=subprocess.PIPE) as packed:
        script = f"mkdir -p {FOLDER}/{name} && tar -C {FOLDER}/{name} -xf -"
        argv = ["ssh", *ssh_options(), f"root@{ADDRESSES[HOST]}", script]
        subprocess.run(argv, stdin=packed.stdout, timeout=120, check=True)
    assert packed.returncode == 0


def base(folder: Path) -> None:
    """Put together the base image in a folder."""
    arguments = {
        "cache": "/var/cache/cluster-compute-lab",
        "release": "bookworm",
        "packages": ["openssh-server"],
        "offered": ["python3", "python3-pip", "git"],
    }
    answer = run_here(
        "ansible", "localhost", "-m", "cluster_compute.session.lab_base_tree", "-a", json.dumps(arguments)
    )
    (tree,) = (line.split()[1] for line in answer.splitlines() if line.strip().startswith("path:"))
    subprocess.run(["tar", "-C", tree, "-cf", str(folder / "base.tar"), "."], check=True)
    definition = yaml.safe_load((CHECKOUT / "ee" / "execution-environment.yml").read_text(encoding="utf-8"))
    packages = [definition["dependencies"][name]["package_pip"] for name in ("ansible_core", "ansible_runner")]
    # What the definition leaves open, ansible-builder adds by itself.
    packages += ["-r", "requirements.txt", "bindep", "pyyaml", "packaging", "dumb-init==1.2.5"]
    target = ["--python-version", "3.11", "--only-binary", ":all:", "--dest", str(folder / "wheels")]
    run_here(sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--quiet", *target, *packages)
    (folder / "pip.conf").write_text("[global]\nno-index = true\nfind-links = /wheels\n", encoding="utf-8")
    shutil.copytree(next(iter(ansible_collections.awx.__path__)), folder / "awx")
    (folder / "Dockerfile").write_text(BASE_STEPS, encoding="utf-8")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Build the execution environment on a host and give its name."""
    folder = tmp_path_factory.mktemp("ee")
    for name in ("base", "definition"):
        (folder / name).mkdir()
    before = set(on(HOST, "docker", "images", "-aq", "--no-trunc").split())
    try:
        base(folder / "base")
        shutil.copy(CHECKOUT / "ee" / "execution-environment.yml", folder / "definition")
        run_here("ansible-galaxy", "collection", "build", "--output-path", str(folder / "definition"), ".")
        definition = str(folder / "definition" / "execution-environment.yml")
        context = str(folder / "context")
        run_here("ansible-builder", "create", "-f", definition, "-c", context, "--output-filename", "Dockerfile")
        for name in ("base", "context"):
            send(folder / name, name)
        build = ["docker", "build", "--quiet", "--network", "none"]
        on(HOST, *build, "--tag", BASE, f"{FOLDER}/base", seconds=300)
        arguments = [f"EE_BASE_IMAGE={BASE}", "ANSIBLE_GALAXY_CLI_COLLECTION_OPTS=--offline"]
        argv = [word for argument in arguments for word in ("--build-arg", argument)]
        on(HOST, *build, *argv, "--tag", IMAGE, f"{FOLDER}/context", seconds=1200)
        yield IMAGE
    finally:
        on(HOST, "rm", "-rf", FOLDER)
        on(HOST, "docker", "image", "rm", "--force", IMAGE, BASE)
        on(HOST, "docker", "image", "prune", "--force")
        assert set(on(HOST, "docker", "images", "-aq", "--no-trunc").split()) <= before


def test_it_holds_the_collection_and_what_it_needs(image: str) -> None:
    version = yaml.safe_load((CHECKOUT / "galaxy.yml").read_text(encoding="utf-8"))["version"]
    listed = on(HOST, "docker", "run", "--rm", "--network", "none", image, "ansible-galaxy", "collection", "list")
    found = dict(line.split()[:2] for line in listed.splitlines() if line.startswith(("cluster_compute.", "awx.")))
    assert found["cluster_compute.session"] == version
    assert "awx.awx" in found
    look = "import netaddr, ansible_runner, ansible; print(ansible.__version__)"
    inside = ["docker", "run", "--rm", "--network", "none", image]
    assert on(HOST, *inside, "python3", "-c", look).startswith("2.")
    assert on(HOST, *inside, "sh", "-c", "command -v ssh; command -v ssh-agent; command -v git").split() == [
        "/usr/bin/ssh",
        "/usr/bin/ssh-agent",
        "/usr/bin/git",
    ]
    assert on(HOST, *inside, "id", "-u").strip() == "1000"


def test_a_verb_runs_in_it(image: str) -> None:
    hosts = listed_inventory()
    known_hosts = (DIRECTORY / "ssh" / "known_hosts").read_text(encoding="utf-8")
    for variables in hosts["_meta"]["hostvars"].values():
        del variables["ansible_ssh_private_key_file"]
        variables["ansible_ssh_common_args"] = "-o UserKnownHostsFile=/runner/known_hosts -o StrictHostKeyChecking=yes"
    files = {
        "inventory/hosts": f"#!/usr/bin/env python3\nprint({json.dumps(hosts)!r})\n",
        "known_hosts": known_hosts,
        "env/ssh_key": (DIRECTORY / "ssh" / "id_ed25519").read_text(encoding="utf-8"),
        "env/extravars": json.dumps({"session_resource_group": "cluster_compute_hosts"}),
    }
    for path, text in files.items():
        on(HOST, "sh", "-ec", f"mkdir -p $(dirname {FOLDER}/run/{path}); cat > {FOLDER}/run/{path}", stdin=text)
    own = "mkdir project; chown -R 1000 .; chmod 600 env/ssh_key; chmod 700 inventory/hosts"
    on(HOST, "sh", "-ec", f"cd {FOLDER}/run; {own}")
    argv = ["docker", "run", "--rm", "--volume", f"{FOLDER}/run:/runner", image]
    output = on(HOST, *argv, "ansible-runner", "run", "/runner", "-p", "cluster_compute.session.status", seconds=180)
    answered = re.findall(r"^(\w+) +: ok=[1-9].*unreachable=0 +failed=0 .*ignored=0", output, re.MULTILINE)
    assert answered == ["localhost", *HOSTS], output

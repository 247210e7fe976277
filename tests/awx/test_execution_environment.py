# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""ansible-builder takes the definitions of the execution environment, and finds what the collection needs."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DEFINITIONS = {
    "execution-environment.yml": ("docker.io/library/debian:12", "/usr/bin/apt-get"),
    "execution-environment-rhel.yml": ("registry.redhat.io/ansible-automation-platform-25/", "/usr/bin/microdnf"),
}
"""Each definition, and what the steps to build it have to say."""


def run(*argv: str) -> str:
    """Run a tool of the checkout and return its output; it has to succeed."""
    done = subprocess.run(
        argv,
        cwd=ROOT,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with the definitions and the collection that was built beside them, as the guide has it."""
    made = tmp_path_factory.mktemp("ee")
    for path in (ROOT / "ee").glob("*.yml"):
        (made / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    run("ansible-galaxy", "collection", "build", "--output-path", str(made), str(ROOT))
    return made


def test_every_definition_is_tried() -> None:
    assert {path.name for path in (ROOT / "ee").glob("*.yml")} == set(DEFINITIONS)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_the_builder_takes_the_definition(name: str, folder: Path) -> None:
    context = folder / f"context of {name}"
    options = ["-f", str(folder / name), "-c", str(context), "--output-filename", "Containerfile"]
    run("ansible-builder", "create", *options)
    steps = (context / "Containerfile").read_text(encoding="utf-8")
    assert [text for text in DEFINITIONS[name] if text not in steps] == []
    if name == "execution-environment.yml":
        assert "ensurepip" not in steps
        assert "pip_install" not in steps
    wanted = yaml.safe_load((context / "_build" / "requirements.yml").read_text(encoding="utf-8"))["collections"]
    files = [entry["name"] for entry in wanted if entry.get("type") == "file"]
    assert len(files) == 1
    with tarfile.open(context / "_build" / files[0]) as collection:
        packed = set(collection.getnames())
    assert {
        "meta/execution-environment.yml",
        "requirements.txt",
        "bindep.txt",
        "playbooks/launch_cluster.yml",
    } <= packed


def test_the_builder_finds_what_the_collection_needs(folder: Path) -> None:
    (built,) = folder.glob("*.tar.gz")
    site = folder / "site"
    # Not by tarfile: its filters came with Python 3.11.4, and Debian 12 has 3.11.2. The checkout counts as installed.
    options = ["--force", "--offline", "--collections-path", str(site)]
    run("ansible-galaxy", "collection", "install", *options, str(built))
    found = yaml.safe_load(run("ansible-builder", "introspect", str(site)))
    assert [line.split()[0] for line in found["python"]] == ["jmespath>=1.0", "netaddr>=1.0"]
    assert {tuple(line.split()[:2]) for line in found["system"]} == {
        ("git", "[platform:dpkg]"),
        ("git", "[platform:rpm]"),
        ("openssh-client", "[platform:dpkg]"),
        ("openssh-clients", "[platform:rpm]"),
    }


def test_what_a_controller_is_tested_with_is_what_is_asked_for() -> None:
    pinned = (ROOT / "requirements" / "controller.txt").read_text(encoding="utf-8").split()
    command = [
        line for line in (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines() if line[:1].isalpha()
    ]
    assert [line.partition(">=")[0] for line in command] == ["jmespath", "netaddr"]
    assert {"jmespath", "netaddr"} <= {line.partition("==")[0] for line in pinned}

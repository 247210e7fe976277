# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Different people go from their beginning to their end, each by a script in tests/walks, which counts the effort.

They begin where they would: with the wheel, in a folder of their own, with no settings of the checkout. Only how SSH
reaches the hosts of the lab is given, and in place of an AWX its stand-in.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ansible_collections.awx
import pytest
import yaml
from ansible_collections.cluster_compute.session.tests.support.awx.server import TITLES, TOKEN, Awx, running
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    CHECKOUT,
    NETWORK,
    clear,
    forget_packs,
    ssh_options,
)

pytestmark = pytest.mark.stamped("walks")

WALKS = CHECKOUT / "tests" / "walks"
SESSIONS = ("train", "notebook", "simulation", "clicked")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give a home with the wheel among the downloads, and an empty virtual environment."""
    home = tmp_path_factory.mktemp("home")
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "--wheel-dir", f"{home}/Downloads", "."]
    subprocess.run(pip, cwd=CHECKOUT, timeout=300, check=True)
    subprocess.run([sys.executable, "-m", "venv", f"{home}/venv"], timeout=300, check=True)
    (home / ".ansible/collections/ansible_collections").mkdir(parents=True)
    (home / ".ansible/collections/ansible_collections/awx").symlink_to(next(iter(ansible_collections.awx.__path__)))
    yield home
    clear(*SESSIONS)
    forget_packs()


@pytest.fixture(scope="module")
def awx() -> Iterator[Awx]:
    """Give a server with what a site has in it beforehand."""
    with running() as server:
        server.add("credentials", {"name": "SSH key of the hosts"})
        yield server


def in_the_shell(home: Path, awx: Awx, folder: Path, line: str) -> str:
    """Run a line as a user would, and return what the terminal showed; it has to succeed."""
    variables = {
        "HOME": str(home),
        "PATH": f"{home}/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG": "C.UTF-8",
        "ANSIBLE_SSH_COMMON_ARGS": shlex.join(ssh_options()),
        "CONTROLLER_HOST": awx.url,
        "CONTROLLER_OAUTH_TOKEN": TOKEN,
        "PIP_CONSTRAINT": str(CHECKOUT / "requirements" / "controller.txt"),
        **{name: value for name, value in os.environ.items() if name.startswith("PIP_") and name != "PIP_CONSTRAINT"},
    }
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}"
    return done.stdout


def clicked(awx: Awx, name: str, answers: dict[str, Any]) -> str:
    """Return the line of the job that a template starts with these answers."""
    playbook = Path(awx.named("job_templates", TITLES[name])["playbook"]).stem
    variables = awx.variables_of(TITLES[name], answers)
    required = {variable for variable, question in awx.survey(TITLES[name]).items() if question["required"]}
    assert required <= {*variables}
    return f"ansible-playbook -i hosts.yml cluster_compute.session.{playbook} -e {shlex.quote(json.dumps(variables))}"


def values_in(found: Any) -> int:
    """Count the values that somebody had to think of; a list is one."""
    return sum(map(values_in, found.values())) if isinstance(found, dict) else 1


@pytest.mark.parametrize("who", ["engineer", "administrator", "laboratory", "operator"])
def test_a_walk(who: str, home: Path, awx: Awx, capsys: pytest.CaptureFixture[str]) -> None:
    """The engineer comes first: the others find the environment as that walk has left it."""
    walk = yaml.safe_load((WALKS / f"{who}.yml").read_text(encoding="utf-8"))
    folder = home / who
    folder.mkdir()
    for name, text in walk.get("given", {}).items():
        (folder / name).write_text(text, encoding="utf-8")
    counted, lines = dict.fromkeys(walk["counts"], 0), 0
    try:
        for step in walk["steps"]:
            if "file" in step:
                text = step["text"].replace("10.211.", f"{NETWORK}.")
                (folder / step["file"]).write_text(text, encoding="utf-8")
                counted["files"] += 1
                counted["variables"] += values_in(yaml.safe_load(text))
                continue
            if "survey" in step:
                line = clicked(awx, step["survey"], step["answers"])
                counted["questions"] += len(awx.survey(TITLES[step["survey"]]))
                counted["answers"] += len(step["answers"])
            else:
                line = step["command"]
                counted["commands"] += 1
            output = in_the_shell(home, awx, folder, line)
            lines += len(output.splitlines())
            missing = [words for words in step.get("shows", []) if words not in output]
            assert not missing, f"{line} does not show {missing}:\n{output}"
    finally:
        if "after" in walk:
            in_the_shell(home, awx, folder, walk["after"])
    with capsys.disabled():
        print(f"{who}: {counted}, {lines} lines read")
    assert counted == walk["counts"]
    assert lines <= walk["lines"]

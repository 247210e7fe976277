# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command that a host runs for a replica, as a shell reads it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.connection.replica import NOT_RUNNING, host_command


@pytest.fixture
def client(tmp_path: Path) -> dict[str, str]:
    """Return an environment whose docker writes down its arguments, and answers as STATE and CODE say."""
    program = tmp_path / "docker"
    program.write_text(
        '#!/bin/sh\n[ "$1" = container ] && { echo "$STATE"; exit 0; }\nprintf "%s\\n" "$@"\nexit "$CODE"\n',
        encoding="utf-8",
    )
    program.chmod(0o755)
    return {"PATH": f"{tmp_path}:{os.environ['PATH']}", "STATE": "true", "CODE": "0"}


def run(command: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True, check=False)


def test_the_command_gets_through_two_shells_as_it_is(client: dict[str, str]) -> None:
    done = run(host_command("train-main1", "echo 'a b' \"$HOME\"; exit 3", None, False), client)
    assert done.stdout.splitlines() == ["exec", "train-main1", "/bin/sh", "-c", "echo 'a b' \"$HOME\"; exit 3"]
    assert (done.returncode, done.stderr) == (0, "")


def test_input_and_another_user_are_asked_for_only_where_they_are_needed(client: dict[str, str]) -> None:
    done = run(host_command("c", "id", "1000:100", True), client)
    assert done.stdout.splitlines()[:5] == ["exec", "-i", "-u", "1000:100", "c"]


@pytest.mark.parametrize(("state", "message"), [("true", ""), ("false", NOT_RUNNING), ("", NOT_RUNNING)])
def test_a_failure_is_the_replicas_own_only_while_its_container_runs(
    state: str, message: str, client: dict[str, str]
) -> None:
    done = run(host_command("c", "false", None, False), {**client, "STATE": state, "CODE": "7"})
    assert (done.returncode, done.stderr.strip()) == (7, message)

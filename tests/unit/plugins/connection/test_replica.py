# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command that a host runs for a replica, as a shell reads it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible_collections.cluster_compute.session.plugins.connection import replica
from ansible_collections.cluster_compute.session.plugins.connection.replica import (
    NOT_RUNNING,
    host_command,
    replica_output,
)

LOGIN_SHELLS = ("sh", "bash", "fish", "tcsh", "mksh")
HOSTILE = "echo 'a b' \"$HOME\" \\\\ \\' !! !1 %self ~ {a,b} `x` * ? [x] ^a ^ #\n\techo é; exit 3"
"""What shells read in ways of their own."""


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


@pytest.fixture(params=LOGIN_SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(command: str, environment: dict[str, str], shell: str = "sh") -> subprocess.CompletedProcess[str]:
    """Return how a login shell of the host, started as sshd does, ended; output is the replica's."""
    done = subprocess.run([shell, "-c", command], env=environment, capture_output=True, text=True, check=False)
    out = replica_output(done.stdout.encode())
    assert out is not None, done
    return subprocess.CompletedProcess(done.args, done.returncode, out.decode(), done.stderr)


def test_the_command_gets_through_two_shells_as_it_is(client: dict[str, str], shell: str) -> None:
    done = run(host_command("train-main1", HOSTILE, None, None)[0], client, shell)
    assert done.stdout == f"exec\ntrain-main1\n/bin/sh\n-c\n{HOSTILE}\n"
    assert (done.returncode, done.stderr) == (0, "")


LARGE = "".join(f"echo 'é {number}' >/dev/null\\n" for number in range(12_000))
"""Some 300 KB, more than the kernel takes as one argument (execve(2), MAX_ARG_STRLEN)."""


@pytest.mark.parametrize("add", [0, replica.LONGEST - len(LARGE.encode()) - 20])
@pytest.mark.parametrize("content", [None, b"given\n\0"])
def test_a_command_may_be_longer_than_one_argument(tmp_path: Path, shell: str, content: bytes | None, add: int) -> None:
    program = tmp_path / "docker"  # it runs the command here
    program.write_text('#!/bin/sh\n[ "$2" = -i ] && shift || exec </dev/null\nshift 2\nexec "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    command = f"{LARGE}#{'x' * add}\necho $# $0; cat; exit 3"
    wrapped, given = host_command("c", command, None, content)
    done = subprocess.run(
        [shell, "-c", wrapped],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        input=given or b"",
        capture_output=True,
        check=False,
    )
    assert replica_output(done.stdout) == b"0 /bin/sh\n" + (content or b""), done.stderr
    assert done.returncode == 3


def test_a_command_that_no_host_takes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = object.__new__(replica.Connection)
    connection._connected = True
    options = {"container": "train-main1", "container_user": None, "host_variables": {"inventory_hostname": "h1"}}
    monkeypatch.setattr(connection, "get_option", options.__getitem__)
    with pytest.raises(AnsibleError, match=f"has {replica.LONGEST + 1} bytes, and .* {replica.LONGEST}. Copy it"):
        connection.exec_command("#" * (replica.LONGEST + 1))


def test_input_and_another_user_are_asked_for_only_where_they_are_needed(client: dict[str, str]) -> None:
    done = run(host_command("c", "id", "1000:100", b"x")[0], client)
    assert done.stdout.splitlines()[:5] == ["exec", "-i", "-u", "1000:100", "c"]


@pytest.mark.parametrize(("state", "message"), [("true", ""), ("false", NOT_RUNNING), ("", NOT_RUNNING)])
def test_a_failure_is_the_replicas_own_only_while_its_container_runs(
    state: str, message: str, client: dict[str, str], shell: str
) -> None:
    done = run(host_command("c", "false", None, None)[0], {**client, "STATE": state, "CODE": "7"}, shell)
    assert (done.returncode, done.stderr.strip()) == (7, message)


@pytest.mark.parametrize(
    ("written", "output"),
    [
        (f"Welcome!\nBECOME-SUCCESS-abc\n{replica.BEGINS}\n\0binary\n", "\0binary\n"),
        (f"{replica.BEGINS}\n", ""),
        ("This account is currently not available.\n", None),
        ("", None),
    ],
)
def test_what_the_login_shell_says_is_not_taken_for_output_of_the_replica(written: str, output: str | None) -> None:
    found = replica_output(written.encode())
    assert found == (None if output is None else output.encode())


@pytest.mark.parametrize(("code", "said"), [(0, b""), (1, b"This account is currently not available.\n")])
def test_a_login_shell_that_runs_nothing_is_no_success(monkeypatch: pytest.MonkeyPatch, code: int, said: bytes) -> None:
    connection = object.__new__(replica.Connection)
    connection._connected = True
    options = {"container": "train-main1", "container_user": None, "host_variables": {"inventory_hostname": "h1"}}
    monkeypatch.setattr(connection, "get_option", options.__getitem__)
    monkeypatch.setattr(connection, "_run_on_host", lambda _command, _given: (code, said, b""))
    with pytest.raises(AnsibleConnectionFailure, match=f"Nothing was run .* on h1 ended with code {code}"):
        connection.exec_command("exit 3")

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host hangs, and verbs go on with the others.

Only a lab shows what an SSH client says of a server that is stopped, and that whole playbooks end. What else can hang
is shown by tests/contract, test_hanging.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.call_limits import (
    ALIVE_SECONDS,
    ASK_AFTER,
)
from ansible_collections.cluster_compute.session.tests.support.contract import dead_filesystem
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    ADDRESSES,
    ON_EACH,
    STATE,
    Run,
    Snapshot,
    clear,
    differences,
    launch,
    play,
    script,
    snapshot,
    ssh_options,
    teardown,
)

BASE: dict[str, Any] = {**ON_EACH, "session_name": "ash", "session_size": 2, "session_cpus": "0.5"}


@contextmanager
def held(host: str, *argv: str) -> Iterator[None]:
    """Run a program on a host that has done its work when it writes a line, and undoes it when its input ends."""
    command = ["ssh", "-o", "ControlPath=none", *ssh_options(), f"root@{ADDRESSES[host]}", shlex.join(argv)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline()
            yield
        finally:
            process.stdin.close()
            process.wait(60)


def stopped_ssh(host: str) -> Any:
    """Let the SSH server of a host take connections, and do nothing with them."""
    server = "$(cat /run/sshd.pid)"
    return held(host, "sh", "-c", f"kill -STOP {server} && echo stopped && cat >/dev/null; kill -CONT {server}")


def dead(host: str, path: str) -> Any:
    """Let a directory of a host answer no more."""
    return held(host, "python3", "-c", Path(dead_filesystem.__file__).read_text(encoding="utf-8"), path)


@pytest.fixture
def restored(untouched_lab: Snapshot, monkeypatch: pytest.MonkeyPatch) -> Iterator[Snapshot]:
    """Compare the hosts after a test with what they were before. No hang is remembered."""
    # Where no connections are kept yet. Short, as a socket has to fit into it.
    home = tempfile.mkdtemp(prefix="cc-home-")
    monkeypatch.setenv("ANSIBLE_HOME", home)
    monkeypatch.setenv("ANSIBLE_SSH_CONTROL_PATH_DIR", home)
    yield untouched_lab
    script("n1", "rm -f /run/cluster-compute-suspect-*.json")
    clear("ash", "birch")
    shutil.rmtree(home)
    if differences(untouched_lab, snapshot()):
        play("gc").ok()
    assert differences(untouched_lab, snapshot()) == []


def words(run: Run) -> str:
    return " ".join(run.output.split())


def test_a_host_whose_ssh_server_or_state_directory_hangs_keeps_nobody_from_the_others(restored: Snapshot) -> None:
    with stopped_ssh("n1"):
        run = launch(BASE).ok()
        assert set(run.placed.values()) == {"n2", "n3"}
        assert "Hosts that could not be reached are left out: n1." in words(run)
    run = play("status").ok()
    assert "It is suspect, for half an hour at most: Its SSH server takes connections and says nothing." in words(run)

    with dead("n1", STATE):
        run = launch({**BASE, "session_name": "birch", "session_hosts": "n2,n3"}).ok()
        assert set(run.placed.values()) == {"n2", "n3"}
        reason = f"This host hangs: the file system of the state directory {STATE} did not answer within 20 seconds."
        assert reason in words(run)
        assert teardown("ash").code != 0, "it may have something of it on the host that hangs"
    script("n1", "rm -f /run/cluster-compute-suspect-*.json")

    # As with a dead root disk: the SSH server lives, and no program starts.
    libraries = script("n1", "python3 -c 'import encodings; print(encodings.__path__[0])'").strip()
    with dead("n1", libraries):
        begin = time.monotonic()
        run = launch({**BASE, "session_name": "birch", "session_hosts": "n2,n3"}).ok()
        assert set(run.placed.values()) == {"n2", "n3"}
        assert time.monotonic() - begin < 2 * (ASK_AFTER + ALIVE_SECONDS)
        assert "The host hangs: it did not answer within 60 seconds." in words(run)
    play("repair").ok()
    assert set(launch(BASE).ok().placed.values()) == {"n2", "n3"}, "n1 is used where no other host has room"

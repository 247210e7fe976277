# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sessions that take a folder of the controller along, over all hosts, and from the queue after the folder is gone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    DEMO,
    HOSTS,
    ON_EACH,
    Run,
    Snapshot,
    clear,
    forget_packs,
    launch,
    play,
    replicas,
    teardown,
)

REQUEST: dict[str, Any] = {**ON_EACH, "session_name": "coded", "session_image": DEMO, "session_cpus": "0.2"}
LARGE = 5 * 1024**2


@pytest.fixture(autouse=True)
def nothing_stays(untouched_lab: Snapshot) -> Iterator[None]:
    yield
    clear("coded", "waits")
    forget_packs()


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """Return a folder with a program, data, and what git ignores."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "run.sh").write_text("echo one $RANK\n")
    (folder / "data").write_bytes(b"x" * LARGE)
    (folder / ".gitignore").write_text("secret\n")
    (folder / "secret").write_text("password")
    return folder


def told(session: str) -> list[str]:
    """Return what the program in each replica prints."""
    run = "ls /work; pwd; wc -c <data; sh run.sh"
    return [replica.run("sh", "-ec", run) for replica in replicas(session).values()]


def sent(run: Run) -> list[tuple[str, str]]:
    """Return from whom which host got anything, in order."""
    lines = [line for result in run.of("Report who has got it from whom") for line in result["values"]["msg"]]
    assert all(" of session_workdir from " in line for line in lines), lines
    return [(line.split(" from ")[1].split(" (")[0], line.split()[0]) for line in lines]


def expected(word: str) -> list[str]:
    return [f"data\nrun.sh\n/work\n{LARGE}\n{word} {rank}\n" for rank in range(3)]


def test_it_is_sent_once_and_again_only_what_changed(code: Path) -> None:
    request = {**REQUEST, "session_workdir": str(code)}
    run = launch(request).ok()
    assert told("coded") == expected("one")
    ways = sent(run)
    assert sorted(host for _sender, host in ways) == sorted([*HOSTS, *HOSTS])
    assert [sender for sender, _host in ways].count("the controller") == 2
    assert launch(request).ok().changed_hosts == set()

    (code / "run.sh").write_text("echo two $RANK\n")
    refused = launch(request)
    assert refused.code != 0
    assert "workdir: 5.0 MiB, " in refused.output
    assert told("coded") == expected("one")
    run = launch({**request, "session_recreate": True}).ok()
    assert told("coded") == expected("two")
    assert len(sent(run)) == len(HOSTS)
    teardown("coded").ok()
    assert sent(launch(request).ok()) == []


def test_a_session_from_the_queue_has_it_although_the_folder_is_gone(code: Path) -> None:
    launch({**REQUEST, "session_cpus": "all"}).ok()
    waits = {**REQUEST, "session_name": "waits", "session_cpus": "all", "session_workdir": str(code)}
    assert "Session waits is PENDING" in launch(waits).ok().output
    shutil.rmtree(code)
    teardown("coded").ok()
    play("schedule_pending").ok()
    assert told("waits") == expected("one")


def test_a_folder_that_is_too_large_is_refused_before_any_host_is_asked(code: Path) -> None:
    run = launch({**REQUEST, "session_workdir": str(code), "cluster_compute_workdir_size": "4m"})
    assert run.code != 0
    assert "It has 5.0 MiB, 5.0 MiB of it in 'data', and cluster_compute_workdir_size is 4.0 MiB." in run.output
    assert "no host was touched" in run.output

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What replicas write outside their mounts: whoever writes too much is stopped, and nobody else."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import Engine
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import SessionDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import disk, timer
from ansible_collections.cluster_compute.session.tests.support.contract.on_host import (
    BUSYBOX,
    HERE,
    Host,
    Session,
    has_ended,
    output_of,
    until,
)

MIB = 1024**2
Look = Callable[..., dict[str, str]]


@pytest.fixture
def look(host: Host) -> Look:
    """Return what looks once at the disks of this host, and returns who was stopped for what."""

    def look_once(**measured: int) -> dict[str, str]:
        nothing = {"size": 100 * MIB, "free": 100 * MIB, "files": 0, "files_free": 0}
        given: dict[str, Any] = {"measure": lambda _path: {**nothing, **measured}} if measured else {}
        done, problems = disk.enforce_limits(host.engine, host.state, **given)
        assert problems == []
        assert all(until(partial(has_ended, name)) for name in done)
        return done

    return look_once


@pytest.fixture
def with_volume() -> Iterator[str]:
    """Return an image that asks for a volume at /scratch."""
    image = "cluster-compute/with-volume:latest"
    output_of("docker", "create", "--name", "for-the-image", BUSYBOX, "true")
    output_of("docker", "commit", "--change", "VOLUME /scratch", "for-the-image", image)
    output_of("docker", "rm", "for-the-image")
    yield image
    output_of("docker", "rmi", image)


def write(session: Session, replica: str, path: str, mebibytes: int) -> None:
    session.run_in(replica, "dd", "if=/dev/zero", f"of={path}", "bs=1048576", f"count={mebibytes}")


def is_held(session: Session, replica: str, place: str) -> bool:
    """Tell whether a replica holds its files open, of which it then writes a note into a folder."""
    return "held" in session.run_in(replica, "ls", place).split()


def failures(host: Host) -> dict[str, Any]:
    containers = host.call("host_info")["host"]["containers"]
    return {container["replica"]: container["failure"] for container in containers}


def test_who_is_above_its_own_limit_is_stopped_and_stays_so(host: Host, look: Look) -> None:
    session = host.launch(size=3, disk_size="8m")
    write(session, "main1", "/large", 20)
    session.run_in("sub1", "dd", "if=/dev/null", "of=/sparse", "bs=1048576", "seek=100000")
    write(session, "sub2", "/dev/shm/elsewhere", 1)
    actions = host.call("session_repair", True, host=HERE, allocatable=session.allocatable)["actions"]
    assert actions[0].startswith("stop container demo-main1: It has written")
    assert failures(host)["main1"] is None, "check mode stops nobody"
    stopped = look()
    assert list(stopped) == ["demo-main1"]
    assert stopped["demo-main1"].endswith("outside its mounts, and its session_disk_size is 8MiB.")
    assert look() == {}
    found = failures(host)
    assert found["main1"]["stopped"] == stopped["demo-main1"]
    assert found["sub1"] is None
    assert found["sub2"] is None
    assert session.repair()["actions"] == [], "its failure policy is restart, and it would go on where it was"
    output_of("docker", "start", "demo-main1")
    assert failures(host)["main1"] is None
    output_of("docker", "stop", "--time", "0", "demo-main1")
    assert until(lambda: has_ended("demo-main1"))
    assert failures(host)["main1"]["stopped"] == "", "what it was stopped for once is not why it ended now"


def test_what_the_engine_has_said_of_a_replica_is_asked_again_only_when_it_was_started_anew(
    host: Host, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = host.launch(size=2, disk_size="8m")
    questions: list[str] = []
    inspect = Engine.inspect

    def count_and_inspect(engine: Engine, name: str) -> Any:
        questions.append(name)
        return inspect(engine, name)

    monkeypatch.setattr(Engine, "inspect", count_and_inspect)
    for number in (2, 0, 0):
        assert look() == {}
        assert len(questions) == number
        questions.clear()
    output_of("docker", "restart", "--time", "0", "demo-sub1")
    assert look() == {}
    assert len(questions) == 1
    write(session, "sub1", "/large", 20)
    write(session, "main1", "/large", 20)
    assert sorted(look()) == ["demo-main1", "demo-sub1"]


def test_a_volume_that_the_image_asks_for_counts(with_volume: str, host: Host, look: Look) -> None:
    session = host.launch(image=with_volume, disk_size="8m")
    write(session, "main1", "/scratch/large", 6)
    assert look() == {}
    write(session, "main1", "/large", 6)
    assert list(look()) == ["demo-main1"]


def test_what_was_removed_and_is_held_open_counts(with_volume: str, host: Host, look: Look) -> None:
    fill = "dd if=/dev/zero bs=1048576 count=6"
    hold = f"{fill} of=$0/a; {fill} of=$0/b; exec 3<$0/a 4<$0/b 5<$0/b; rm $0/a $0/b; touch $0/held; exec sleep 8888"
    volume = {"source": "/srv", "target": "/elsewhere", "read_only": False}
    session = host.launch(size=4, image=with_volume, disk_size="8m", mounts=[volume], memory="64m", shm_size="16m")
    for replica, place in (("main1", "/"), ("sub1", "/scratch"), ("sub2", "/dev/shm"), ("sub3", "/elsewhere")):
        output_of("docker", "exec", "--detach", f"demo-{replica}", "sh", "-c", hold, place)
        assert until(partial(is_held, session, replica, place))
    try:
        stopped = look()
        assert sorted(stopped) == ["demo-main1", "demo-sub1"]
        assert "written 13MiB" in stopped["demo-main1"], "each file once, and what else is there"
    finally:
        Path("/srv/held").unlink()


def test_a_volume_of_the_image_counts_below_a_mount_as_well(host: Host, look: Look) -> None:
    image = "cluster-compute/with-inner-volume:latest"
    output_of("docker", "create", "--name", "for-the-image", BUSYBOX, "true")
    output_of("docker", "commit", "--change", "VOLUME /elsewhere/inner", "for-the-image", image)
    output_of("docker", "rm", "for-the-image")
    volume = {"source": "/srv", "target": "/elsewhere", "read_only": False}
    session = host.launch(size=2, image=image, disk_size="8m", mounts=[volume], memory="64m")
    hold = "dd if=/dev/zero bs=1048576 count=12 of=$0/a; exec 3<$0/a; rm $0/a; touch /held; exec sleep 8888"
    try:
        for replica, place in (("main1", "/elsewhere/inner"), ("sub1", "/elsewhere")):
            output_of("docker", "exec", "--detach", f"demo-{replica}", "sh", "-c", hold, place)
            assert until(partial(is_held, session, replica, "/"))
        assert list(look()) == ["demo-main1"]
    finally:
        session.remove()
        Path("/srv/inner").rmdir()
        output_of("docker", "rmi", image)


def test_who_has_too_much_open_to_be_looked_through_is_stopped_for_what_is_seen(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = host.launch(size=2, disk_size="8m")
    write(session, "main1", "/large", 20)
    monkeypatch.setattr(disk, "HELD_SECONDS", -1)
    done, problems = disk.enforce_limits(host.engine, host.state)
    assert list(done) == ["demo-main1"]
    assert [problem.split(":")[0] for problem in problems] == [
        f"What demo-{name} has removed and holds open is not known in full" for name in ("main1", "sub1")
    ]


def test_who_makes_the_count_take_longer_than_a_look_is_stopped_by_a_later_one(
    host: Host, look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The count goes on, so neither very many files nor a slow disk keep anybody from being measured."""
    (tmp_path / "bin").mkdir()
    du, gate = tmp_path / "bin" / "du", tmp_path / "gate"
    wait = f"until [ -e {gate} ]; do sleep 0.02; done"
    du.write_text(f'#!/bin/sh\n{wait}\nPATH=/usr/bin:/bin exec du "$@"\n', encoding="ascii")
    du.chmod(0o755)
    monkeypatch.setenv("PATH", f"{du.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(disk, "SECONDS", 0.2)
    session = host.launch(disk_size="8m")
    write(session, "main1", "/large", 20)
    for _look in range(2):
        done, problems = disk.enforce_limits(host.engine, host.state)
        assert done == {}
        assert problems[0].startswith("What demo-main1 has written is not known yet: du has not come to the end of ")
    gate.touch()
    monkeypatch.setattr(disk, "SECONDS", 60)
    assert list(look()) == ["demo-main1"]


def test_memory_that_looks_like_a_removed_file_is_no_disk(host: Host, look: Look) -> None:
    session = host.launch(disk_size="8m", memory="64m", size=2)
    # There is a Python in each replica, for session-run.
    start = session.run_in("main1", "sed", "-n", "s/^exec //; s/ -I .*//p", "/opt/cluster-compute/bin/session-run")
    hold = "import os, time; os.write(os.memfd_create('card'), bytes(20 << 20))"
    hold = f"{hold}; open('/held', 'w'); time.sleep(8888)"
    output_of("docker", "exec", "--detach", "demo-main1", *start.split(), "-I", "-S", "-c", hold)
    assert until(lambda: "held" in session.run_in("main1", "ls", "/").split())
    assert look() == {}


def test_a_file_of_the_engine_that_is_made_large_is_found_without_a_limit(host: Host, look: Look) -> None:
    session = host.launch(size=4)
    for replica, path in (("sub1", "/etc/hosts"), ("sub2", "/etc/hostname"), ("sub3", "/etc/resolv.conf")):
        write(session, replica, path, 20)
    stopped = look()
    assert sorted(stopped) == ["demo-sub1", "demo-sub2", "demo-sub3"]
    assert all("/etc/hosts" in why for why in stopped.values())


def test_on_a_full_disk_who_holds_half_of_it_is_stopped(host: Host, look: Look) -> None:
    session = host.launch(size=3)
    write(session, "main1", "/some", 40)
    write(session, "sub1", "/most", 60)
    assert look(free=6 * MIB) == {}
    stopped = look(free=4 * MIB)
    assert list(stopped) == ["demo-sub1"]
    assert "it had taken more than half" in stopped["demo-sub1"]
    assert look(free=4 * MIB) == {}
    assert failures(host)["main1"] is None


def test_inodes_run_out_as_well(host: Host, look: Look) -> None:
    session = host.launch(size=2)
    session.run_in("sub1", "sh", "-c", "mkdir /many && cd /many && seq 1 600 | xargs touch")
    stopped = look(files=1000, files_free=10)
    assert list(stopped) == ["demo-sub1"]
    assert "inodes" in stopped["demo-sub1"]


def test_it_is_stopped_where_why_cannot_be_written_down(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    session = host.launch(disk_size="8m")
    write(session, "main1", "/large", 20)

    def full(*_given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(SessionDirectory, "write_stop", full)
    done, problems = disk.enforce_limits(host.engine, host.state)
    assert done == {}
    assert "it is stopped, but the reason could not be recorded" in problems[0]
    assert not session.containers()["main1"]["State"]["Running"]


def test_what_the_timer_runs_says_what_it_did(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    session = host.launch(disk_size="8m")
    assert timer.look(host.state) == 0
    assert capsys.readouterr().out == ""
    write(session, "main1", "/large", 20)
    assert timer.look(host.state) == 0
    assert "stop container demo-main1: It has written" in capsys.readouterr().out

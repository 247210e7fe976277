# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Replicas that run as another user than the image's, with groups of the host and another working directory."""

from __future__ import annotations

import ctypes
import grp
import os
import pwd
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.bounded import bounded
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.output import batch_job
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import SessionError
from ansible_collections.cluster_compute.session.tests.support.contract.job import Job
from ansible_collections.cluster_compute.session.tests.support.contract.on_host import (
    BUSYBOX,
    HERE,
    INVENTORY,
    Host,
    output_of,
)

WHO = "id -u; id -g; id -G; pwd; echo $HOME"
OWNER = "somebody"
"""Who launches the sessions of these tests."""
CAPABILITIES_3 = 0x20080522
DAC_OVERRIDE, DAC_READ_SEARCH = 1, 2
TWO_SETS = 6


@pytest.fixture
def home() -> Iterator[Path]:
    """Give this host the user who launches, with a home that nobody else may enter."""
    home = Path("/srv/home") / OWNER
    home.parent.mkdir()
    output_of("useradd", "--uid=4242", "--user-group", "--groups=video", f"--home-dir={home}", "--create-home", OWNER)
    home.chmod(0o700)
    yield home
    output_of("userdel", OWNER)
    shutil.rmtree(home.parent)


def squashed(act: Callable[[], Any]) -> Any:
    """Do something as root without rights over the files of others, as on NFS with root_squash."""

    def work() -> Any:
        libc = ctypes.CDLL(None, use_errno=True)
        header = (ctypes.c_uint32 * 2)(CAPABILITIES_3, 0)
        sets = (ctypes.c_uint32 * TWO_SETS)()
        assert libc.capget(header, sets) == 0
        for number in range(3):
            sets[number] &= ~(1 << DAC_OVERRIDE | 1 << DAC_READ_SEARCH)
        assert libc.capset(header, sets) == 0
        return act()

    return bounded(work, "the test", 60)


def test_programs_commands_and_logins_run_as_the_user(host: Host) -> None:
    video = str(grp.getgrnam("video").gr_gid)
    session = host.launch(
        size=2,
        user="4321:8765",
        groups=["video", 77],
        directory="/tmp",
        command=["sh", "-c", f"({WHO}) >/tmp/first; exec sleep 8888"],
    )
    first = session.run_in("main1", "cat", "/tmp/first").splitlines()
    assert first[:2] == ["4321", "8765"]
    assert {video, "77"} <= set(first[2].split())
    assert first[3:] == ["/tmp", "/home/replica"]
    assert session.run_in("main1", "sh", "-c", WHO).splitlines() == first
    logged_in = session.run_in("main1", "ssh", "sub1", f"touch ~/mine; {WHO}").splitlines()
    assert logged_in == [*first[:3], "/home/replica", "/home/replica"]
    outcome = Job(session, batch_job(session.id)).start(WHO, once=True).end(120)["main1"]
    assert (outcome["exit_code"], [text for _stream, text in outcome["lines"]]) == (0, first)
    assert session.repair()["actions"] == []


def test_a_session_of_one_replica_has_the_home_as_well(host: Host) -> None:
    session = host.launch(user="4321:8765")
    assert session.run_in("main1", "sh", "-c", "id -un; touch ~/mine; echo ~").split() == ["replica", "/home/replica"]


def test_a_user_by_name_is_that_of_the_image(host: Host) -> None:
    image = with_files({"passwd": "root:x:0:0::/:/bin/sh\nguest:x:999:999::/guests:/bin/sh\n"})
    session = host.launch(size=2, user="guest", image=image)
    try:
        assert session.run_in("main1", "ssh", "sub1", "id -un; echo $HOME").split() == ["guest", "/guests"]
    finally:
        session.remove(undo=True)
        output_of("docker", "rmi", image)


def with_files(files: dict[str, str]) -> str:
    """Return an image with files in /etc."""
    output_of("docker", "create", "--name=for-users", BUSYBOX)
    folder = Path("/tmp/for-users/etc")
    folder.mkdir(parents=True)
    try:
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        output_of("docker", "cp", str(folder), "for-users:/")
        output_of("docker", "commit", "for-users", "for-users")
    finally:
        output_of("docker", "rm", "for-users")
        shutil.rmtree(folder.parent)
    return "for-users"


def test_me_is_who_launches_with_the_own_home_groups_and_files(host: Host, home: Path) -> None:
    """As on a home by NFS with root_squash: closed to root, and the code in it as well."""
    code = home / "code"
    code.mkdir(mode=0o700)
    for path in (home, code):
        os.chown(path, 4242, 4242)
    (code / "train.py").write_text("print()", encoding="utf-8")
    session = host.plan(size=2, user="me", mounts=[f"{code}:{code}:ro", f"{home}:/results"])
    squashed(lambda: session.bring("held"))
    session.bring("held")
    session.start()
    video = str(grp.getgrnam("video").gr_gid)
    who = session.run_in("main1", "ssh", "sub1", f"id -u; id -gn; id -G; echo $HOME; ls {code}; touch /results/weights")
    assert who.split() == ["4242", "4242", "4242", video, str(home), "train.py"]
    written = (home / "weights").stat()
    assert (written.st_uid, written.st_gid) == (4242, 4242)
    assert session.repair()["actions"] == []


def test_the_folder_of_the_owner_is_granted_again(host: Host, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a host that has lost its state, a label may be forged: what it mounts is compared with the inventory."""
    monkeypatch.setitem(INVENTORY, "cluster_compute_mount_roots", [str(home)])
    session = host.launch(size=2, user="me", mounts=[f"{home}:/results"])
    for granted, words in (("/srv/home/{owner}", ""), ("/srv/data/{owner}", f"mounts what is below '{home}'")):
        shutil.rmtree(session.files.path)
        (host.state.root / "ledger.json").unlink()
        try:
            session.repair(public_keys={}, mount_roots=[granted])
            found = ""
        except SessionError as error:
            found = str(error)
        assert (words in found) if words else not found
        assert session.files.path.exists() != bool(words)


def test_a_folder_that_the_user_may_not_use_is_named(host: Host, home: Path) -> None:
    for mounts, words in (
        (f"{home}:/home/x", rf"The user 4321:1 \(session_user\) may not write in {home}\. "),
        (f"{home}:/home/x:ro", rf"The user 4321:1 \(session_user\) may not read {home}\. "),
    ):
        session = host.plan(size=2, user="4321:1", mounts=[mounts])
        with pytest.raises(SessionError, match=words):
            session.bring("held")
    home.chmod(0o755)
    assert host.held(size=2, user="4321:1", mounts=[f"{home}:/home/x:ro"])


def test_a_folder_in_one_that_the_user_may_not_enter_is_refused(host: Host, home: Path) -> None:
    """Root could mount it past the closed one, and root_squash makes no difference."""
    inner = home / "project"
    inner.mkdir(mode=0o755)
    session = host.plan(size=2, user="4321:1", mounts=[f"{inner}:/x:ro"])
    words = rf"The user 4321:1 \(session_user\) may not enter every folder above {inner}\."
    with pytest.raises(SessionError, match=words):
        session.bring("held")
    with pytest.raises(SessionError, match=words):
        squashed(lambda: session.bring("held"))


def test_a_folder_is_made_as_the_user(host: Host, home: Path) -> None:
    os.chown(home, 4242, 4242)
    made = home / "results"
    session = host.plan(size=2, user="me", mounts=[{"source": str(made), "target": "/x", "mode": "0750"}])
    squashed(lambda: session.bring("held"))
    assert (made.stat().st_uid, made.stat().st_mode & 0o777) == (4242, 0o750)
    squashed(lambda: session.remove(undo=True))
    assert not made.exists()
    session = host.plan(
        size=2, user="4321:1", mounts=[{"source": str(made), "target": "/x", "owner": "4321:1", "mode": "0755"}]
    )
    with pytest.raises(SessionError, match=f"{home}"):
        session.bring("held")
    assert not made.exists()


def test_a_root_that_its_owner_could_replace_is_refused(host: Host, home: Path) -> None:
    os.chown(home, 4242, 4242)
    home.parent.chmod(0o1777)
    session = host.plan(size=2, user="me", mounts=[f"{home}:/x"])
    session.record.plan["hosts"][HERE]["mount_roots"] = [str(home)]
    with pytest.raises(SessionError, match=f"{home} cannot be a mount root: its owner may replace it"):
        session.bring("held")


def test_an_image_does_not_give_the_number_of_a_group_another_meaning(host: Host, home: Path) -> None:
    video = grp.getgrnam("video").gr_gid
    image = with_files({"group": f"root:x:0:\n{video}:x:0:\n"})
    try:
        session = host.plan(size=2, user="me", image=image)
        with pytest.raises(SessionError, match=rf"would get another group .* by '{video}:x:0:' in /etc/group"):
            session.start()
        session.remove(undo=True)
        session = host.plan(size=2, groups=[video], mounts=[f"{home}:/etc/group:ro"])
        with pytest.raises(SessionError, match=r"would get another group .* by '/etc/group' in /etc/group"):
            session.start()
    finally:
        host.clear()
        output_of("docker", "rmi", image)


def test_who_launches_has_to_be_known_and_not_root(host: Host) -> None:
    session = host.plan(size=2, user="me")
    with pytest.raises(SessionError, match=f"has no user '{OWNER}', who launches the session, and session_user is me"):
        session.bring("held")
    root = pwd.getpwuid(0).pw_name
    session.record = session.record.__class__(**{**vars(session.record), "owner": root})
    with pytest.raises(SessionError, match="'root', who launches the session, is root on "):
        session.bring("held")


def test_a_group_that_the_host_lacks_is_named_before_anything_is_made(host: Host) -> None:
    for user in ("", "1:1"):
        session = host.plan(size=2, groups=["no-such-group"], user=user)
        with pytest.raises(SessionError, match="has no group 'no-such-group', which session_groups names"):
            session.bring("held")
        assert session.id not in host.ledger.read()


def test_a_user_that_the_image_lacks_is_named(host: Host) -> None:
    session = host.held(size=2, user="nosuchuser")
    with pytest.raises(SessionError, match="nosuchuser"):
        session.bring("started")

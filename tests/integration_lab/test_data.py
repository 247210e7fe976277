# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Data of sessions: the same folder on every host, nothing outside of what the site allows, volumes that stay.

The kernel of the machine has no NFS client, so that options reach the driver is shown with a volume of type tmpfs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    HOSTS,
    ON_EACH,
    STATE,
    Replica,
    Run,
    Snapshot,
    clear,
    differences,
    in_parallel,
    launch,
    on,
    replicas,
    script,
    snapshot,
    teardown,
    try_on,
)

BOOT_PROGRAM = "/usr/local/lib/cluster-compute/host.pyz"
BIND_MOUNTS = "/run/cluster-compute-data"
BASE: dict[str, Any] = {**ON_EACH, "session_cpus": "0.1", "session_memory": "16m", "session_shm_size": "1m"}
SMALL = {"type": "tmpfs", "device": "tmpfs", "o": "size=1m,uid=1000"}
KEPT = {"volume": "it-kept", "owner": "1000:1001", "mode": "0750"}
DATA: dict[str, Any] = {
    **BASE,
    "session_name": "data",
    "session_mounts": [
        "/srv/shared:/shared",
        "/srv/shared/linked:/reference:ro",
        "/srv/apart:/apart:local",
        {"source": "/srv/shared/made", "target": "/made", "owner": "1234:1235", "mode": "2770"},
        {**KEPT, "target": "/kept"},
        {**KEPT, "target": "/kept-as-it-is", "read_only": True},
        {"volume": "it-small", "target": "/small", "driver_options": SMALL},
    ],
}
NAMES = ("data", "refused", "theirs")


@pytest.fixture(scope="module")
def folders(untouched_lab: Snapshot) -> Iterator[None]:
    """Make what the tests mount: below the shared folder, and on each host's own disk."""
    script(
        "n1",
        """
        mkdir -p /srv/shared/real/deeper; echo kept >/srv/shared/real/file; ln -s real /srv/shared/linked
        """,
    )
    for host in HOSTS:
        script(
            host,
            f"""
            mkdir -p /srv/apart/deeper; echo {host} >/srv/apart/name; ln -s /etc /srv/out
            mount -t tmpfs -o size=64k tmpfs /srv/shared/real/deeper
            echo deep >/srv/shared/real/deeper/file
            """,
        )
    yield
    clear(*NAMES)
    for host in HOSTS:
        script(
            host,
            "umount /srv/shared/real/deeper; rm -r /srv/apart /srv/out; docker volume rm it-kept >/dev/null || true",
        )
        script(host, "docker volume rm it-small it-others >/dev/null 2>&1 || true")
    script("n1", "rm -rf /srv/shared/real /srv/shared/linked /srv/shared/news; rmdir /srv/shared/made || true")


@pytest.fixture(scope="module")
def session(folders: None) -> Run:
    """Launch the session that most tests look at."""
    return launch(DATA).ok()


def everywhere(command: str) -> list[str]:
    """Return what a shell command writes in each replica of the session."""
    found = replicas("data").values()
    return in_parallel(lambda replica: replica.run("sh", "-ec", command), found)


def main() -> Replica:
    """Return main1 of the session."""
    return replicas("data")["main1"]


def probes() -> str:
    """Return the files of shared-storage probes that are left anywhere."""
    return "".join(in_parallel(lambda host: script(host, "find /srv -name '.cluster-compute-*'"), HOSTS))


def test_every_replica_has_the_same_data(session: Run) -> None:
    main().run("sh", "-c", "echo from main >/shared/news")
    assert everywhere("cat /shared/news") == ["from main\n"] * 3
    assert everywhere("cat /apart/name") == [f"{host}\n" for host in HOSTS], "said to be each host's own"
    assert everywhere("cat /reference/file") == ["kept\n"] * 3, "a link to a folder below the same root"
    assert probes() == ""


def test_read_only_is_read_only_all_the_way_down(session: Run) -> None:
    for replica in replicas("data").values():
        for place in ("/reference/file", "/reference/deeper/file", "/kept-as-it-is/file"):
            done = replica.attempt("sh", "-c", f"echo lost >{place}")
            assert done.returncode != 0
            assert "Read-only file system" in done.stderr
    assert script("n1", "cat /srv/shared/real/file /srv/shared/real/deeper/file") == "kept\ndeep\n"


def test_owner_mode_and_driver_options_are_those_asked_for(session: Run) -> None:
    assert everywhere("stat -c '%u:%g %a' /made") == ["1234:1235 2770\n"] * 3
    assert everywhere("stat -c '%u:%g %a' /kept") == ["1000:1001 750\n"] * 3
    assert everywhere("stat -c '%u' /small; df -k /small | tail -n 1 | awk '{print $2}'") == ["1000\n1024\n"] * 3
    full = main().attempt("dd", "if=/dev/zero", "of=/small/zeros", "bs=64k", "count=32")
    assert full.returncode != 0
    assert "No space left" in full.stderr


def test_a_folder_that_is_swapped_is_not_followed_and_data_that_was_lost_is_given_back(session: Run) -> None:
    """What was checked is mounted, whatever lies at its path when the container starts; or nothing, after a restart."""
    found = replicas("data")
    swap = "mv /srv/apart /srv/apart.moved; ln -s /etc /srv/apart"
    back = "rm /srv/apart; mv /srv/apart.moved /srv/apart"
    script("n1", f"docker stop -t 0 data-main1; {swap}; docker start data-main1")
    try:
        assert main().run("cat", "/apart/name") == "n1\n"
        assert main().attempt("ls", "/apart/shadow").returncode != 0
        # What would have to be mounted anew is not mounted.
        on("n1", "docker", "rm", "-f", "data-main1")
        run = launch(DATA)
        assert run.code != 0
        assert "The data of session data on n1: /srv/apart is really /etc, which is not below /srv" in run.failures
        assert "main1" not in replicas("data")
    finally:
        script("n1", back)
    script("n2", f"docker stop -t 0 data-sub1; umount -l {BIND_MOUNTS}/{session_id(found)}/*; docker start data-sub1")
    assert found["sub1"].attempt("cat", "/apart/name").returncode != 0
    run = launch(DATA).ok()
    assert run.changed_hosts == {"n1", "n2"}, "n3 has all that it is to have"
    assert "restart container data-sub1" in run.actions()["n2"]
    assert main().run("cat", "/apart/name") == "n1\n"
    assert found["sub1"].run("cat", "/apart/name") == "n2\n"


def test_at_boot_nothing_starts_without_its_data(session: Run) -> None:
    """As after a boot: nothing runs, nothing is bind-mounted, and a file system is not mounted, or a folder is gone."""
    script(
        "n2",
        f"docker rm -f data-sub1; docker volume rm it-small; umount -l {BIND_MOUNTS}/{session_id(replicas('data'))}/*",
    )
    script("n2", "mount -t tmpfs -o size=64k tmpfs /srv/shared; mkdir /srv/shared/linked /srv/shared/made")
    boots = [try_on("n2", [BOOT_PROGRAM])]
    script("n2", "umount /srv/shared; mv /srv/apart /srv/apart.moved")
    boots.append(try_on("n2", [BOOT_PROGRAM]))
    on("n2", "mv", "/srv/apart.moved", "/srv/apart")
    boots.append(try_on("n2", [BOOT_PROGRAM]))
    assert [boot.returncode for boot in boots] == [1, 1, 0], [boot.stdout + boot.stderr for boot in boots]
    assert "The data of session data on n2: /srv/shared" in boots[0].stdout
    assert "it seems not to be mounted" in boots[0].stdout
    assert "The data of session data on n2: /srv/apart does not exist." in boots[1].stdout
    assert everywhere("cat /shared/news") == ["from main\n"] * 3
    assert everywhere("stat -c '%u' /small") == ["1000\n"] * 3, "a volume that was lost is made again"


def session_id(found: Mapping[str, Replica]) -> str:
    """Return the id of the session that replicas belong to."""
    return found["sub1"].labels["cluster-compute.session-id"]


def test_a_session_runs_on_if_the_one_to_replace_it_has_no_such_folder(session: Run) -> None:
    before, found = snapshot(), replicas("data")
    new = {"source": "/srv/shared/new", "target": "/new", "owner": "7:7"}
    run = launch({**DATA, "session_mounts": ["/srv/apart:/apart", new], "session_recreate": True})
    assert run.code != 0
    for host in ("n2", "n3"):
        assert f"The folder /srv/apart on {host} is not the folder that n1 has there" in run.failures
    assert "the running one was not touched" in run.failures
    assert differences(before, snapshot()) == []
    assert {name: replica.inspected["State"]["StartedAt"] for name, replica in replicas("data").items()} == {
        name: replica.inspected["State"]["StartedAt"] for name, replica in found.items()
    }
    assert probes() == ""
    assert "new" not in script("n1", "ls /srv/shared").split()


def test_a_teardown_keeps_volumes_and_folders_and_nothing_else(session: Run, untouched_lab: Snapshot) -> None:
    main().run("sh", "-c", "echo for later >/kept/file")
    script("n2", f"rm {STATE}/sessions/*/record.json")  # a lost record does not keep anything from being removed
    teardown("data").ok()
    left = differences(untouched_lab, snapshot())
    kinds = {line.split(":")[0].split()[1] for line in left}
    assert kinds == {"volumes", "mounts"}, left
    assert not any(BIND_MOUNTS in line for line in left), left
    assert script("n1", "cat /srv/shared/news") == "from main\n"
    assert script("n1", "cat $(docker volume inspect -f '{{.Mountpoint}}' it-kept)/file") == "for later\n"


def test_what_is_not_the_same_folder_is_refused_by_the_name_of_the_host(folders: None) -> None:
    before = snapshot()
    run = launch(
        {
            **BASE,
            "session_name": "refused",
            "session_mounts": [
                "/srv/apart:/apart",
                "/srv/shared:/shared",
                {"source": "/srv/apart/new", "target": "/new", "owner": "7:7", "shared": False},
                "it-new:/volume",
            ],
        }
    )
    assert run.code != 0
    for host in ("n2", "n3"):
        assert f"The folder /srv/apart on {host} is not the folder that n1 has there" in run.failures
    assert "/srv/shared" not in run.failures
    assert probes() == ""
    assert differences(before, snapshot()) == []
    assert "new" not in script("n1", "ls /srv/apart")


WRONG_ON_HOSTS: list[tuple[Any, list[str]]] = [
    ("/etc:/x0", ["'/etc': On n1, n2, n3 the site allows only what is below /srv (cluster_compute_mount_roots)"]),
    ("/srv-other:/x1", ["'/srv-other': On n1, n2, n3 the site allows only what is below /srv"]),
    ("/srv/out:/x2", ["'/srv/out': On n1, n2, n3 it is really /etc, by a symbolic link"]),
    ("/srv/out/ssh:/x3", ["it is really /etc/ssh, by a symbolic link"]),
    (
        {"source": "/srv/apart", "target": "/x4", "owner": "5:5", "mode": "0700", "shared": False},
        ["owner 0:0 where 5:5 is asked and mode 0755 where 0700 is asked. What exists is not changed"],
    ),
    (
        {"source": "/srv/nowhere/new", "target": "/x5", "mode": "0700"},
        ["cannot be made on n1, n2, n3: the folder that"],
    ),
    ({"volume": "it-rest", "target": "/x6", "driver": "other"}, ["allows only volumes of local", "volume_drivers)"]),
    ("it-others:/x7", ["'it-others': On n3 there is", "not made by a session", "label cluster-compute.volume"]),
    (
        {"volume": "it-mine", "target": "/x8", "driver_options": SMALL},
        [
            "On n3 there is a volume of this name",
            "{'device': 'tmpfs', 'type': 'tmpfs'}",
            "'size=1m,uid=1000'",
            "What exists is not changed",
        ],
    ),
]


def test_no_way_out_and_no_change_of_what_exists(folders: None) -> None:
    script("n3", "docker volume create it-others")
    script("n3", "docker volume create --label cluster-compute.volume -o type=tmpfs -o device=tmpfs it-mine")
    before = snapshot()
    mounts = [mount for mount, _words in WRONG_ON_HOSTS]
    try:
        run = launch({**BASE, "session_name": "refused", "session_mounts": mounts})
        assert differences(before, snapshot()) == []
    finally:
        on("n3", "docker", "volume", "rm", "it-others", "it-mine")
    assert run.code != 0
    for words in (word for _mount, some in WRONG_ON_HOSTS for word in some):
        assert words in run.failures, run.failures


OWN = "/srv/shared/somebody"
THEIRS: dict[str, Any] = {
    **BASE,
    "session_name": "theirs",
    "session_user": "me",
    "session_mounts": [f"{OWN}:/data"],
    "awx_user_name": "somebody",
    "cluster_compute_mount_roots": ["/srv/shared/{owner}"],
    "cluster_compute_root_users": [],
}


@pytest.fixture
def somebody(folders: None) -> Iterator[None]:
    """Give the hosts a user with a shared folder that nobody else may enter."""
    for host in HOSTS:
        script(host, "useradd --uid 4242 --user-group --groups video somebody")
    script("n1", f"mkdir -m 700 {OWN}; chown somebody: {OWN}")
    yield
    clear("theirs")
    for host in HOSTS:
        script(host, "userdel somebody")
    script("n1", f"rm -r {OWN}")


def test_programs_run_as_who_launches_and_use_what_only_that_user_may(somebody: None) -> None:
    """Whose folders a site lets them mount: unit, core/planning/test_launch.py; what they may not use: contract."""
    run = launch({**THEIRS, "session_user": "1:1"})
    assert "session_user of the role main is '1:1': Nobody but its administrators may choose" in run.failures
    launch(THEIRS).ok()
    found = replicas("theirs")
    found["main1"].run("sh", "-c", "echo weights >/data/weights")
    for replica in found.values():
        assert replica.run("sh", "-c", "id -u; id -G; echo $HOME; cat /data/weights").split("\n")[:-1] == [
            *("4242", f"4242 {script(replica.host, 'getent group video | cut -d: -f3').strip()}"),
            *("/home/somebody", "weights"),
        ]
    assert script("n1", f"stat -c '%U %a' {OWN}/weights").split()[0] == "somebody"
    assert launch(THEIRS).ok().changed_hosts == set()


def test_where_root_may_not_write_the_owner_of_the_folder_proves_it(folders: None) -> None:
    """As on NFS with root_squash: root without its rights over files, in a folder that is a user's alone."""
    script("n1", "mkdir -m 700 /srv/apart/theirs; chown 4242:4242 /srv/apart/theirs")
    program = """
import os, sys
sys.path.insert(0, "/usr/local/lib/cluster-compute/host.pyz")
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import folders
with folders.opened("/srv/apart/theirs", ["/srv"]) as folder:
    folders.write_inside(folder, "proof", "secret")
    print(folders.read_inside(folder, "proof"), os.geteuid())
"""
    bare = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "python3", "-c", program]
    assert on("n1", *bare).split() == ["secret", "0"]
    assert script("n1", "stat -c %u /srv/apart/theirs/proof") == "4242\n"

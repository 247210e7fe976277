# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A launch proves real logins: what an image has for its own programs is not in the way, and what is gets named."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import ssh_server
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.environment import LOGIN_PORT
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import SessionError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.places import (
    LAUNCHERS,
    PROFILE,
    RUNTIME,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.ports import EVERY_ADDRESS
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import logins, ssh_runtime, verify
from ansible_collections.cluster_compute.session.tests.support.contract.on_host import BUSYBOX, Host, output_of

pytestmark = pytest.mark.usefixtures("ssh_runtime")

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAID0D3s8E9JWn04xEIs9iqqoeVlWJbCLHvqIY+zMlCfIT"

FOR_OTHERS = """
mkdir -p /etc/gss /etc/ssl /usr/lib/ssl /etc/ssh/ssh_config.d
echo 'ALL: ALL' >/etc/hosts.deny
echo 'sshd: ALL: DENY' >/etc/hosts.allow
echo 'Nobody logs in here.' >/etc/nologin
echo /lib/no-such-library.so >/etc/ld.so.preload
echo '} nonsense' >/usr/lib/ssl/openssl.cnf
echo 'nonsense 1.2.3 /lib/none.so' >/etc/gss/mech
echo 'Nonsense yes' | tee /etc/ssh/sshd_config /etc/ssh/ssh_config >/etc/environment
"""
"""What an image has in /etc that would keep the programs of a session from working, were it meant for them."""


@pytest.fixture
def image_with(host: Host) -> Iterator[Callable[..., str]]:
    """Return what makes an image by a script; it is removed after the test."""
    name = "cluster-compute/with:latest"

    def make(script: str, user: str = "0") -> str:
        output_of("docker", "run", "--name", "for-logins", "--network", "none", BUSYBOX, "sh", "-c", script)
        output_of("docker", "commit", "--change", f"USER {user}", "for-logins", name)
        output_of("docker", "rm", "for-logins")
        return name

    yield make
    host.clear()
    output_of("docker", "rmi", "-f", name)


def test_programs_of_a_session_are_in_one_of_a_single_replica_without_ssh(host: Host) -> None:
    session = host.launch(size=1)
    said = session.run_in("main1", "session-run", "-n", "2", "sh", "-c", "echo $RANK of $WORLD_SIZE on $MASTER_ADDR")
    assert sorted(said.splitlines()) == ["main1.0: 0 of 2 on main1", "main1.1: 1 of 2 on main1"]
    with pytest.raises(AssertionError, match="session-run: main1 ended with exit code 5"):
        session.run_in("main1", "session-run", "sh", "-c", "exit 5")
    # A login shell sets a PATH of its own before it reads these files.
    found = session.run_in(
        "main1", "env", "-i", "sh", "-c", f". {PROFILE}; command -v torchrun; command -v session-run"
    )
    assert found.split() == [f"{LAUNCHERS}/torchrun", f"{RUNTIME}/bin/session-run"]
    assert session.repair()["actions"] == []


@pytest.mark.parametrize("user", ["0", "1000"])
def test_what_an_image_has_for_its_own_programs_is_not_in_the_way(
    host: Host, image_with: Callable[..., str], user: str
) -> None:
    session = host.launch(size=2, image=image_with(FOR_OTHERS, user))
    assert session.run_in("main1", f"{RUNTIME}/bin/ssh", "sub1", "hostname").strip() == "sub1"
    said = session.run_in("sub1", f"{RUNTIME}/bin/session-run", "hostname")
    assert sorted(said.splitlines()) == ["main1: main1", "sub1: sub1"]


REFUSED = {
    "users": ("echo 'passwd: sss' >/etc/nsswitch.conf", "/etc/nsswitch.conf does not look in files for passwd"),
    "names": ("echo 'hosts: dns' >/etc/nsswitch.conf", "/etc/nsswitch.conf does not look in files for hosts"),
    "sshrc": ("mkdir -p /etc/ssh; echo 'sleep 1000' >/etc/ssh/sshrc", "/etc/ssh/sshrc is run at each login."),
    "rc": (
        "mkdir -p /.ssh /root/.ssh; echo 'yes' | tee /root/.ssh/rc >/.ssh/rc",
        "/.ssh/rc is run at each login.",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_launch_names_what_keeps_its_replicas_from_logging_in(
    host: Host, image_with: Callable[..., str], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logins, "SECONDS", 3.0)
    script, named = REFUSED[what]
    session = host.held(size=2, image=image_with(script))
    with pytest.raises(SessionError, match=r"SSH .*In the way in demo-(main1|sub1) may be: ") as failed:
        session.bring("started")
    assert named in str(failed.value)


def test_a_program_of_the_image_in_the_place_of_the_owner_s_server_is_noticed(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = host.launch(size=1, authorized_keys=KEY)
    monkeypatch.setattr(verify, "SERVER_SECONDS", 0.1)
    main = session.containers()["main1"]
    ssh_server.end(main["State"]["Pid"], EVERY_ADDRESS, LOGIN_PORT)
    session.run_in("main1", "httpd", "-p", str(LOGIN_PORT), "-h", "/tmp")
    with pytest.raises(SessionError, match=f"server of the replica main1 on here does not answer on port {LOGIN_PORT}"):
        session.bring("started")
    assert session.containers()["main1"]["State"]["Pid"] == main["State"]["Pid"], "it is left as it was"


def test_a_runtime_of_an_earlier_release_is_told_with_the_file(
    host: Host, image_with: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    image = image_with("echo 'ALL: ALL' >/etc/hosts.deny")
    session = host.launch(size=2, image=image)
    for name in session.containers():
        session.run_in(name, "sh", "-c", "echo 'passwd: sss' >/etc/nsswitch.conf")
    monkeypatch.setattr(ssh_runtime, "is_of_this_release", lambda: False)
    with pytest.raises(SessionError, match=r"/etc/hosts\.deny, which the SSH runtime of the host still reads"):
        session.bring("verified")

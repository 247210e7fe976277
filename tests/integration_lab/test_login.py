# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The owner's way in: from outside to main1 with a key of one's own, through it to the others, and no other way.

Outside is the machine around the lab, which the hosts reach and which is none of them. One session is of an image as
Alpine's are, with a program that is linked to musl; the other is of one replica, of a user that nobody knows.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    ADDRESSES,
    BUSYBOX,
    HOSTS,
    Replica,
    Run,
    clear,
    in_parallel,
    launch,
    on,
    own_playbook,
    play,
    record,
    replicas,
    script,
    try_on,
)

MUSL = "cluster-compute/musl:test"
NUMBER = "cluster-compute/number:test"
PORT = 21999
"""What the session of one replica asks for: not of the pool."""
NAMES = ["main1", "sub1", "sub2"]
BASE = {"session_cpus": "0.3", "session_memory": "64m"}
DENIED = "Permission denied (publickey)"
BARE = [
    "-F",
    "none",
    "-o",
    "StrictHostKeyChecking=no",
    "-o",
    "UserKnownHostsFile=/dev/null",
    "-o",
    "IdentitiesOnly=yes",
]
"""A client that trusts everybody, as that of somebody who wants in."""


@dataclass(frozen=True)
class Sessions:
    """Two sessions that run, and what their owner has on the machine outside.

    first: the launch of trio. foretold: what check mode said of its configuration, before it was written.
    """

    folder: Path
    first: Run
    foretold: Run
    requests: dict[str, dict[str, Any]]

    def key(self, name: str) -> str:
        """Return the path of one of the keys."""
        return str(self.folder / name)

    def public(self, name: str) -> str:
        """Return the public key of one of the keys."""
        return (self.folder / f"{name}.pub").read_text(encoding="utf-8").strip()

    def ssh(self, *argv: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run ssh outside, where nobody could answer a question."""
        return outside("ssh", "-o", "BatchMode=yes", *argv, stdin=stdin)

    def configured(self, *argv: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run ssh outside with the configuration that was written for the owner of trio."""
        return self.ssh("-F", str(self.folder / "trio/config"), *argv, stdin=stdin)


def outside(*argv: str, stdin: str | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a program on the machine around the lab."""
    return subprocess.run(
        argv,
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def login(sessions_folder: Path, session: str, *options: str) -> Run:
    """Run the playbook that writes the configuration."""
    variables = {
        "session_name": session,
        "login_directory": str(sessions_folder / session),
        "login_identity_file": str(sessions_folder / "owner"),
    }
    return play("login", variables, *options)


def port_of(session: str) -> int:
    """Return the port of main1's host at which the owner logs in."""
    return int(record(session)["plan"]["ssh_port"])


def is_open(address: str, port: int) -> bool:
    """Tell whether somebody answers from outside."""
    try:
        with socket.create_connection((address, port), timeout=1):
            return True
    except OSError:
        return False


@pytest.fixture(scope="module")
def sessions(untouched_lab: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sessions]:
    """Launch both sessions, and write the configuration for the owner of each."""
    folder = tmp_path_factory.mktemp("owner")
    for name, kind in (("owner", "ed25519"), ("laptop", "ecdsa"), ("stranger", "ed25519")):
        made = outside("ssh-keygen", "-q", "-t", kind, "-N", "", "-C", f"{name} at home", "-f", str(folder / name))
        assert made.returncode == 0, made.stderr
    owner = (folder / "owner.pub").read_text(encoding="utf-8")
    trio = {
        **BASE,
        "session_name": "trio",
        "session_image": MUSL,
        "session_size": 3,
        "session_max_replicas_per_host": 1,
        "session_policy": "inventory",
        "session_authorized_keys": [owner, owner],
    }
    alone = {
        **BASE,
        "session_name": "alone",
        "session_image": NUMBER,
        "session_hosts": ["n2"],
        "session_command": "sleep 8888",
        "session_authorized_keys": owner,
        "session_ssh_port": PORT,
    }
    try:
        play(own_playbook("musl_image")).ok()
        script(
            "n2",
            f"docker create --name made {BUSYBOX}; docker commit --change 'USER 4321' made {NUMBER}; docker rm made",
        )
        runs = in_parallel(lambda request: launch(request).ok(), [trio, alone])
        foretold = login(folder, "trio", "--check", "--diff").ok()
        assert not (folder / "trio").exists()
        in_parallel(lambda session: login(folder, session).ok(), ["trio", "alone"])
        yield Sessions(folder, runs[0], foretold, {"trio": trio, "alone": alone})
    finally:
        clear("trio", "alone")
        in_parallel(lambda host: try_on(host, ["docker", "rmi", "-f", MUSL, NUMBER]), HOSTS)


@pytest.fixture(scope="module")
def trio(sessions: Sessions) -> dict[str, Replica]:
    """Return the replicas of the larger session."""
    return replicas("trio")


class TestWayIn:
    """What the owner can do."""

    def test_the_launch_says_how(self, sessions: Sessions) -> None:
        last = sessions.first.said[-1]
        assert last.startswith(f"Log in with your key, port {port_of('trio')} of n1: ")
        assert last.endswith("cluster_compute.session.login -e session_name=trio")
        assert 22000 <= port_of("trio") <= 22999

    @pytest.mark.parametrize("name", NAMES)
    def test_every_replica_by_either_name(self, sessions: Sessions, name: str) -> None:
        for alias in (name, f"trio.{name}"):
            done = sessions.configured(alias, "echo $(hostname) $(id -un) $RANK $PATH")
            assert done.returncode == 0, done.stderr
            host, user, rank, path = done.stdout.split()
            assert (host, user, rank) == (name, "root", str(NAMES.index(name)))
            assert path.endswith(":/opt/cluster-compute/bin")
            assert done.stderr == ""

    def test_a_session_of_one_replica_and_a_user_without_a_name(self, sessions: Sessions) -> None:
        assert port_of("alone") == PORT
        done = sessions.ssh("-F", str(sessions.folder / "alone/config"), "main1", "hostname; id -u; echo $WORLD_SIZE")
        assert (done.returncode, done.stdout) == (0, "main1\n4321\n1\n"), done.stderr

    def test_several_sessions_in_one_configuration(self, sessions: Sessions) -> None:
        both = sessions.folder / "both"
        both.write_text("".join(f"Include {sessions.folder}/{session}/config\n" for session in ("alone", "trio")))
        for name, user in (("alone.main1", "4321"), ("trio.main1", "0"), ("trio.sub2", "0")):
            done = sessions.ssh("-F", str(both), name, "id -u")
            assert (done.returncode, done.stdout.strip()) == (0, user), done.stderr

    def test_files_are_copied_in_and_out(self, sessions: Sessions) -> None:
        options = ["-q", "-F", str(sessions.folder / "trio/config"), "-o", "BatchMode=yes"]
        sent, back = sessions.folder / "sent", sessions.folder / "back"
        sent.write_text("some data\n")
        for argv in (["scp", *options, str(sent), "sub1:/tmp/"], ["scp", "-O", *options, str(sent), "main1:/tmp/old"]):
            done = outside(*argv)
            assert done.returncode == 0, done.stderr
        done = outside("sftp", *options, "-b", "-", "sub1", stdin=f"get /tmp/sent {back}\n")
        assert done.returncode == 0, done.stderr
        assert back.read_text() == "some data\n"
        assert sessions.configured("main1", "cat /tmp/old").stdout == "some data\n"

    def test_a_port_of_main1_is_forwarded(self, sessions: Sessions) -> None:
        serve = "echo served >/tmp/page; busybox httpd -p 127.0.0.1:8888 -h /tmp"
        assert sessions.configured("main1", serve).returncode == 0
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            here = free.getsockname()[1]
        config = str(sessions.folder / "trio/config")
        argv = ["ssh", "-F", config, "-o", "ExitOnForwardFailure=yes", "-N", "-L", f"{here}:localhost:8888", "main1"]
        forward = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 20
            while not is_open("127.0.0.1", here):
                assert time.monotonic() < deadline
                time.sleep(0.1)
            with urllib.request.urlopen(f"http://127.0.0.1:{here}/page", timeout=10) as page:
                assert page.read() == b"served\n"
        finally:
            forward.terminate()
            forward.wait()
            sessions.configured("main1", "killall httpd")

    def test_it_is_written_once_and_for_the_owner_alone(self, sessions: Sessions) -> None:
        folder = sessions.folder / "trio"
        assert oct(folder.stat().st_mode)[-3:] == "700"
        assert "+trio.sub2 ssh-ed25519 " in sessions.foretold.output
        before = {file.name: file.read_text() for file in folder.iterdir()}
        assert login(sessions.folder, "trio").ok().changed_hosts == set()
        assert {file.name: file.read_text() for file in folder.iterdir()} == before


class TestNoOtherWay:
    """What everybody else tries."""

    def test_a_stranger_s_key(self, sessions: Sessions) -> None:
        argv = [*BARE, "-i", sessions.key("stranger"), "-p", str(port_of("trio")), f"root@{ADDRESSES['n1']}", "true"]
        refused = sessions.ssh(*argv)
        assert refused.returncode == 255
        assert DENIED in refused.stderr
        # It is the key that is refused, and nothing else.
        argv[argv.index(sessions.key("stranger"))] = sessions.key("owner")
        assert sessions.ssh(*argv).returncode == 0

    @pytest.mark.parametrize("session", ["trio", "alone"])
    def test_a_session_s_own_keys(self, sessions: Sessions, session: str) -> None:
        """The keys by which replicas reach each other open nothing from outside, those of another session no more."""
        for replica in replicas(session).values():
            key = sessions.folder / f"taken-{replica.name}"
            key.write_text(on(replica.host, "cat", f"{replica.files}/ssh/id_ed25519"))
            key.chmod(0o600)
            argv = [*BARE, "-i", str(key), "-p", str(port_of("trio")), f"root@{ADDRESSES['n1']}", "true"]
            refused = sessions.ssh(*argv)
            key.unlink()
            assert refused.returncode == 255
            assert DENIED in refused.stderr

    def test_the_key_of_another_session_from_inside(self, sessions: Sessions, trio: dict[str, Replica]) -> None:
        other = replicas("alone")["main1"]
        key = on(other.host, "cat", f"{other.files}/ssh/id_ed25519")
        trio["main1"].run("sh", "-ec", "umask 77; cat >/tmp/other", stdin=key)
        argv = ["ssh", *BARE, "-o", "BatchMode=yes", "-p", "2200"]
        for name in ("sub1", "sub2"):
            refused = trio["main1"].attempt(*argv, "-i", "/tmp/other", name, "true")
            assert refused.returncode == 255
            assert DENIED in refused.stderr
            trio["main1"].run(*argv, "-i", "/etc/cluster-compute/ssh/id_ed25519", name, "true")

    def test_the_session_s_own_key_at_the_owner_s_port(self, trio: dict[str, Replica]) -> None:
        argv = ["ssh", *BARE, "-o", "BatchMode=yes", "-i", "/etc/cluster-compute/ssh/id_ed25519"]
        trio["sub1"].run(*argv, "-p", "2200", "main1", "true")
        refused = trio["sub1"].attempt(*argv, "-p", "2201", "main1", "true")
        assert refused.returncode == 255
        assert DENIED in refused.stderr

    def test_the_owner_s_key_on_another_way_than_through_main1(
        self, sessions: Sessions, trio: dict[str, Replica]
    ) -> None:
        key = Path(sessions.key("owner")).read_text()
        argv = ["ssh", *BARE, "-o", "BatchMode=yes", "-p", "2200", "-i", "/tmp/owner"]
        for name, targets in (("main1", ["sub1"]), ("sub2", ["sub1", "main1"])):
            trio[name].run("sh", "-ec", "umask 77; cat >/tmp/owner", stdin=key)
            for target in targets:
                tried = trio[name].attempt(*argv, target, "true")
                assert tried.returncode == (0 if name == "main1" else 255), f"from {name} to {target}: {tried.stderr}"
            trio[name].run("rm", "/tmp/owner")

    def test_refused_logins_lock_no_replica_out(self, sessions: Sessions, trio: dict[str, Replica]) -> None:
        """Newer servers turn an address away after three of them; sub2's is one, sub1's is not."""
        assert [trio[name].host for name in ("sub1", "sub2")] == ["n2", "n3"]
        trio["main1"].run("sh", "-ec", "umask 77; cat >/tmp/stranger", stdin=Path(sessions.key("stranger")).read_text())
        argv = ["ssh", *BARE, "-o", "BatchMode=yes", "-p", "2200", "-i", "/tmp/stranger"]
        for name in ("sub1", "sub2"):
            for _number in range(6):
                refused = trio["main1"].attempt(*argv, name, "true")
                assert (refused.returncode, DENIED in refused.stderr) == (255, True), refused.stderr
            assert trio["main1"].run("ssh", name, "hostname").strip() == name
        trio["main1"].run("rm", "/tmp/stranger")

    def test_a_password(self, sessions: Sessions) -> None:
        """Nobody is even asked for one: the program that would ask is never run."""
        asker = sessions.folder / "asker"
        asker.write_text(f"#!/bin/sh\ntouch {sessions.folder}/asked\necho guess\n")
        asker.chmod(0o755)
        for config in (BARE, ["-F", str(sessions.folder / "trio/config")]):
            refused = outside(
                *("setsid", "ssh", *config, "-o", "PubkeyAuthentication=no", "-o", "NumberOfPasswordPrompts=1"),
                *("-o", "PreferredAuthentications=password,keyboard-interactive", "-o", "BatchMode=no"),
                *("-p", str(port_of("trio")), f"root@{ADDRESSES['n1']}" if config is BARE else "main1", "true"),
                SSH_ASKPASS=str(asker),
                SSH_ASKPASS_REQUIRE="force",
                DISPLAY=":0",
            )
            assert refused.returncode == 255
            assert DENIED in refused.stderr
        assert not (sessions.folder / "asked").exists()

    @pytest.mark.parametrize("name", ["main1", "sub1"])
    def test_a_replica_that_shows_another_host_key(self, sessions: Sessions, name: str) -> None:
        known = sessions.folder / "trio/known_hosts"
        genuine = known.read_text()
        keys = dict(line.split(" ", 1) for line in genuine.splitlines())
        try:
            known.write_text(genuine.replace(keys[f"trio.{name}"], keys["trio.sub2"]))
            refused = sessions.configured(name, "true")
        finally:
            known.write_text(genuine)
        assert refused.returncode == 255
        assert "Host key verification failed" in refused.stderr

    def test_no_address_of_a_sub_answers_from_outside(self, sessions: Sessions, trio: dict[str, Replica]) -> None:
        """Neither on the hosts nor, with a route through any of them, on the addresses of the replicas themselves."""
        plan = record("trio")["plan"]
        port = plan["ssh_port"]
        assert [
            (host, number) for host in HOSTS for number in (2200, 2201, port) if is_open(ADDRESSES[host], number)
        ] == [("n1", port)]
        for host in HOSTS:
            for network in (plan["network"], plan["egress"]):
                route = ["ip", "route", "replace", network["subnet"], "via", ADDRESSES[host]]
                assert outside(*route).returncode == 0
                try:
                    targets = [
                        (replica.networks[network["name"]]["IPAddress"], number)
                        for name, replica in trio.items()
                        if network is plan["network"] or replica.host == host
                        for number in ([2200] if name == "main1" else [2200, 2201])
                    ]
                    assert targets
                    answers = in_parallel(lambda target: is_open(*target), targets)
                    assert not any(answers), [target for target, answer in zip(targets, answers) if answer]
                finally:
                    assert outside("ip", "route", "delete", *route[3:]).returncode == 0


class TestMusl:
    """An image without glibc: its program and the session's SSH do not know of each other."""

    def test_the_image_s_program_runs_under_musl(self, trio: dict[str, Replica]) -> None:
        for replica in trio.values():
            pid = replica.run("pidof", "own").strip()
            assert replica.run("readlink", f"/proc/{pid}/exe").strip() == "/bin/own"
            loaded = {line.split()[-1] for line in replica.run("cat", f"/proc/{pid}/maps").splitlines()}
            assert {name for name in loaded if name.startswith("/")} == {"/bin/own", "/lib/x86_64-linux-musl/libc.so"}
            assert on(replica.host, "docker", "logs", replica.container) == "linked to musl\n"

    def test_the_image_has_neither_glibc_nor_ssh(self, trio: dict[str, Replica]) -> None:
        found = on("n3", "docker", "run", "--rm", MUSL, "find", "/", "-xdev", "-name", "*libc*", "-o", "-name", "*ssh*")
        assert found.split() == ["/lib/x86_64-linux-musl/libc.so"]

    @pytest.mark.parametrize("name", NAMES)
    def test_every_replica_reaches_every_other(self, trio: dict[str, Replica], name: str) -> None:
        logins = "".join(f"ssh {other} 'echo $(hostname) $0 $RANK' </dev/null\n" for other in NAMES)
        output = trio[name].run("ash", "-ec", logins).splitlines()
        assert output == [f"{other} ash {rank}" for rank, other in enumerate(NAMES)]

    def test_files_are_copied_by_scp_and_sftp(self, trio: dict[str, Replica]) -> None:
        trio["main1"].run(
            "sh", "-ec", "echo scp >/tmp/one; scp -q /tmp/one sub1:/tmp/two; scp -q sub1:/tmp/two sub2:/tmp/"
        )
        assert trio["sub2"].run("cat", "/tmp/two") == "scp\n"
        trio["sub1"].run("sftp", "-q", "-b", "-", "main1", stdin="put /tmp/two /tmp/three\n")
        assert trio["main1"].run("cat", "/tmp/three") == "scp\n"


class TestLife:
    """What becomes of the way in while the session lives, and after. In this order."""

    def test_what_is_lost_is_put_back(self, sessions: Sessions) -> None:
        for session in ("alone", "trio"):
            main = replicas(session)["main1"]
            config = str(sessions.folder / session / "config")
            script(main.host, f"rm {main.files}/ssh/owner_keys; docker restart -t 0 {main.container}")
            assert sessions.ssh("-F", config, "main1", "true").returncode == 255
            if session == "trio":
                repaired = play("repair").ok().actions()
                assert set(repaired) == {main.host}, "what was put back as at boot is whole"
                put_back = repaired[main.host]
            else:  # as at boot, without a controller
                put_back = on(main.host, "/usr/local/lib/cluster-compute/host.pyz").splitlines()
            text = "\n".join(put_back)
            assert f"create file {main.files}/ssh/owner_keys" in text
            assert f"start SSH server {main.container}" in text
            done = sessions.ssh("-F", config, "main1", "hostname")
            assert (done.returncode, done.stdout.strip()) == (0, "main1"), done.stderr

    def test_other_keys_are_taken_while_it_runs(self, sessions: Sessions, trio: dict[str, Replica]) -> None:
        request = {**sessions.requests["trio"], "session_authorized_keys": sessions.public("laptop")}
        fingerprint = outside("ssh-keygen", "-lf", sessions.key("laptop")).stdout.split()[1]
        run = launch(request, "--diff").ok()
        assert f"authorized_keys.{fingerprint}" in run.differences()
        assert run.actions()["n1"] == [
            f"update file {trio['main1'].files}/ssh/owner_keys",
            "update record trio",
        ]
        assert {name: replica.inspected["Id"] for name, replica in replicas("trio").items()} == {
            name: replica.inspected["Id"] for name, replica in trio.items()
        }
        for name in NAMES:
            refused = sessions.configured(name, "true")
            assert (refused.returncode, DENIED in refused.stderr) == (255, True)
            config = (sessions.folder / "trio/config").read_text()
            other = sessions.folder / "with-laptop"
            other.write_text(config.replace(sessions.key("owner"), sessions.key("laptop")))
            done = sessions.ssh("-F", str(other), name, "hostname")
            assert (done.returncode, done.stdout.strip()) == (0, name), done.stderr
        again = launch(request).ok()
        assert again.changed_hosts == set()
        assert {host: len(tasks) for host, tasks in again.calls().items()} == dict.fromkeys(HOSTS, 2)

    def test_after_the_teardown_nobody_answers(self, sessions: Sessions) -> None:
        ports = {(record(session)["hosts"][0], port_of(session)) for session in ("trio", "alone")}
        assert all(is_open(ADDRESSES[host], port) for host, port in ports)
        clear("trio", "alone")
        assert not any(is_open(ADDRESSES[host], port) for host, port in ports)

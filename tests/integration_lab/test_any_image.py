# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""SSH in images that have none: of busybox alone, as root, as a number nobody knows, with an own entrypoint."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    BUSYBOX,
    HOSTS,
    Replica,
    clear,
    in_parallel,
    launch,
    on,
    play,
    replicas,
    script,
    try_on,
)

NUMBER = "cluster-compute/number:test"
OWN = "cluster-compute/own:test"
BARE = "cluster-compute/bare:test"
ENTRYPOINT = [
    "/bin/sh",
    "-c",
    'echo "$0 $* as $(id -u) in $(pwd) with $GREETING"; trap "echo bye; exit 42" TERM; while :; do sleep 0.1; done',
]
VARIABLES = ["GREETING=hello", "a.b=c", "LD_PRELOAD=/lib/none.so"]
MADE = {
    NUMBER: ["USER 4321", 'CMD ["sleep", "8888"]'],
    OWN: [
        f"ENTRYPOINT {json.dumps(ENTRYPOINT)}",
        'CMD ["main", "two words"]',
        "WORKDIR /var",
        f"ENV {' '.join(VARIABLES)}",
    ],
    BARE: [],  # one program, and nothing else
}
RUNTIME = "/usr/local/lib/cluster-compute/ssh-runtime"
SERVER = "/opt/cluster-compute/libexec/sshd -f /etc/cluster-compute/ssh/sshd_config"
NAMES = ["main1", "sub1", "sub2"]
BASE = {
    "session_size": 3,
    "session_max_replicas_per_host": 1,
    "session_cpus": "0.3",
    "session_memory": "64m",
}


@pytest.fixture(scope="module", autouse=True)
def images(untouched_lab: object) -> Iterator[None]:
    """Give every host the same images, made from the image of busybox; remove all sessions at the end."""
    try:
        for name, changes in MADE.items():
            options = " ".join(f"--change {shlex.quote(change)}" for change in changes)
            commit = f"docker commit {options} made {name}"
            alone = f"docker cp made:/bin/busybox /root/busybox; tar -C /root -c busybox | docker import - {name}"
            make = f"docker create --name made {BUSYBOX} >/dev/null; {{ {commit if changes else alone}; }} >/dev/null"
            clean_up = "docker rm made >/dev/null; rm -f /root/busybox"
            packed = script("n1", f"{make}; {clean_up}; docker save {name} | gzip | base64")
            for host in ("n2", "n3"):
                on(host, "sh", "-ec", "base64 -d | gzip -d | docker load", stdin=packed)
        yield
        clear("trio", "number", "own", "bare")
    finally:
        in_parallel(lambda host: try_on(host, ["docker", "rmi", "-f", *MADE]), HOSTS)


@dataclass(frozen=True)
class Trio:
    """A running session of three replicas on three hosts."""

    replicas: dict[str, Replica]
    name: str
    uid: str
    variables: dict[str, object]

    @property
    def main(self) -> Replica:
        """The first replica."""
        return self.replicas["main1"]


def launched(name: str, image: str, uid: str) -> Trio:
    """Launch three replicas, one on each host, of an image that knows nothing of SSH."""
    variables = {**BASE, "session_name": name, "session_image": image, "session_command": "sleep 8888"}
    launch(variables).ok()
    return Trio(replicas(name), name, uid, variables)


@pytest.fixture(scope="module")
def root(images: None) -> Trio:
    """Launch a session of root's."""
    return launched("trio", BUSYBOX, "0")


@pytest.fixture(scope="module")
def number(images: None) -> Trio:
    """Launch a session of a user who is a number without a name."""
    return launched("number", NUMBER, "4321")


@pytest.fixture(params=["root", "number"])
def trio(request: pytest.FixtureRequest) -> Trio:
    """Give one session after the other."""
    found: Trio = request.getfixturevalue(request.param)
    return found


class TestLogin:
    """From everywhere to everywhere, between releases of the distribution, with nothing of it in the image."""

    def test_the_image_has_no_ssh_of_its_own(self, root: Trio) -> None:
        for program in ("ssh", "sshd", "scp", "sftp"):
            found = try_on(root.main.host, ["docker", "run", "--rm", BUSYBOX, "which", program])
            assert (found.returncode, found.stdout) == (1, "")

    @pytest.mark.parametrize("name", NAMES)
    def test_every_replica_reaches_every_other_as_the_image_s_user(self, trio: Trio, name: str) -> None:
        logins = "".join(f"ssh {other} 'echo $(hostname) $(id -u) $RANK' </dev/null\n" for other in NAMES)
        output = trio.replicas[name].run("sh", "-ec", logins).splitlines()
        assert output == [f"{other} {trio.uid} {rank}" for rank, other in enumerate(NAMES)]

    def test_files_are_copied_by_scp_and_sftp(self, trio: Trio) -> None:
        trio.main.run(
            "sh", "-ec", "echo by scp >/tmp/one; scp -q /tmp/one sub1:/tmp/two; scp -q sub1:/tmp/two sub2:/tmp/"
        )
        assert trio.replicas["sub2"].run("cat", "/tmp/two") == "by scp\n"
        trio.replicas["sub1"].run("sftp", "-q", "-b", "-", "main1", stdin="put /tmp/two /tmp/three\n")
        assert trio.main.run("cat", "/tmp/three") == "by scp\n"

    def test_a_login_has_the_path_of_the_image_and_the_client_at_its_end(self, trio: Trio) -> None:
        path = trio.main.run("ssh", "sub1", "echo $PATH").strip()
        assert path == trio.replicas["sub1"].environment()["PATH"]
        assert path.split(":")[-1] == "/opt/cluster-compute/bin"

    def test_one_command_runs_in_all_replicas_and_ends_all_when_one_fails(self, trio: Trio) -> None:
        output = trio.main.run("session-run", "sh", "-c", "echo $(hostname) $(id -u) $RANK of $WORLD_SIZE in $(pwd)")
        where = trio.main.run("pwd").strip()
        assert sorted(output.splitlines()) == [
            f"{name}: {name} {trio.uid} {rank} of 3 in {where}" for rank, name in enumerate(NAMES)
        ]
        some = trio.replicas["sub1"].run("session-run", "--on", "sub", "-n", "2", "sh", "-c", "echo $RANK $LOCAL_RANK")
        assert sorted(some.splitlines()) == ["sub1.0: 0 0", "sub1.1: 1 1", "sub2.0: 2 0", "sub2.1: 3 1"]
        failed = trio.main.attempt("session-run", "sh", "-c", "test $RANK != 1 || exit 7; sleep 8884 & sleep 8884")
        assert failed.returncode == 7
        assert "session-run: sub1 ended with exit code 7; the others are ended." in failed.stderr.splitlines()
        for replica in trio.replicas.values():
            assert "sleep 8884" not in replica.run("ps")
        kill = "test $RANK = 1 || kill -9 $PPID; sleep 8883"
        lost = trio.main.attempt("session-run", "--on", "sub", "sh", "-c", kill)
        assert lost.returncode != 0
        assert (
            "session-run: sub1 was lost, or could not be reached (exit code 255); the others are ended." in lost.stderr
        )

    def test_torchrun_is_the_image_s_own_or_none(self, root: Trio) -> None:
        missing = root.main.attempt("torchrun", "--standalone", "train.py")
        assert (missing.returncode, missing.stdout) == (127, "")
        program = "#!/bin/sh\necho ${PET_NNODES-alone} $*\n"
        root.main.run(
            "sh", "-ec", "mkdir /tmp/image; cat >/tmp/image/torchrun; chmod +x /tmp/image/torchrun", stdin=program
        )
        own = root.main.run("sh", "-ec", "PATH=$PATH:/tmp/image; torchrun train.py; torchrun --standalone train.py")
        assert own.splitlines() == ["3 train.py", "alone --standalone train.py"]

    def test_the_runtime_cannot_be_changed_from_inside(self, number: Trio) -> None:
        refused = number.main.attempt("sh", "-c", "echo >>/opt/cluster-compute/bin/ssh", user="0")
        assert refused.returncode != 0
        assert "Read-only file system" in refused.stderr

    def test_orphans_are_reaped(self, number: Trio) -> None:
        number.main.run("ssh", "main1", "sleep 0.1 >/dev/null 2>&1 & exit 0")
        state = "sleep 1; cat /proc/[0-9]*/stat | grep -c ' Z ' || true"
        assert number.main.run("sh", "-c", state).strip() == "0"

    def test_a_password_is_no_way_in(self, root: Trio) -> None:
        options = ["-o", "BatchMode=no", "-o", "PubkeyAuthentication=no", "-o", "NumberOfPasswordPrompts=1"]
        refused = root.main.attempt("ssh", *options, "sub1", "true")
        assert refused.returncode == 255
        assert "Permission denied (publickey)" in refused.stderr

    def test_a_key_from_elsewhere_is_refused(self, number: Trio) -> None:
        other = number.replicas["sub1"]
        key = on(other.host, "cat", f"{other.files}/ssh/ssh_host_ed25519_key")  # a key, but no client's
        number.main.run("sh", "-ec", "umask 77; cat >/tmp/foreign", stdin=key)
        bare = [
            "-F",
            "none",
            "-o",
            "BatchMode=yes",
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            "UserKnownHostsFile=/dev/null",
        ]
        refused = number.main.attempt("ssh", *bare, "-p", "2200", "-i", "/tmp/foreign", "sub1", "true")
        assert refused.returncode == 255
        assert "Permission denied (publickey)" in refused.stderr
        number.main.run("ssh", *bare, "-p", "2200", "-i", "/etc/cluster-compute/ssh/id_ed25519", "sub1", "true")

    def test_a_replica_with_another_host_key_is_refused(self, number: Trio) -> None:
        """The key on the replica's host is replaced, as somebody would who wants to answer in its place."""
        sub2 = number.replicas["sub2"]
        keys = f"{sub2.files}/ssh"
        again = ["sh", "-ec", f"kill $(pidof sshd); sleep 0.2; exec {SERVER}"]
        try:
            script(sub2.host, f"cp -p {keys}/ssh_host_ed25519_key /root/genuine")
            script(sub2.host, f"cat {keys}/id_ed25519 >{keys}/ssh_host_ed25519_key")
            sub2.run(*again)
            refused = number.main.attempt("ssh", "sub2", "true")
        finally:
            script(sub2.host, f"cat /root/genuine >{keys}/ssh_host_ed25519_key; rm /root/genuine")
            sub2.run(*again)
        assert refused.returncode == 255
        assert "Host key verification failed" in refused.stderr
        assert number.main.run("ssh", "sub2", "hostname").strip() == "sub2"

    def test_all_keys_are_made_anew_by_one_variable(self, number: Trio) -> None:
        def public() -> set[str]:
            kinds = ("id_ed25519", "ssh_host_ed25519_key")
            return {
                on(replica.host, "cat", f"{replica.files}/ssh/{kind}.pub")
                for replica in found.values()
                for kind in kinds
            }

        found = replicas(number.name)
        before, old = public(), on(number.main.host, "cat", f"{number.main.files}/ssh/id_ed25519")
        launch({**number.variables, "session_regenerate_keys": True}).ok()
        assert (len(public()), before & public()) == (6, set())
        logins = "".join(f"ssh {other} hostname </dev/null\n" for other in NAMES)
        for name, replica in replicas(number.name).items():
            assert replica.inspected["State"]["StartedAt"] == found[name].inspected["State"]["StartedAt"]
            assert replica.run("sh", "-ec", logins).split() == NAMES
        number.main.run("sh", "-ec", "umask 77; cat >/tmp/old", stdin=old)
        bare = ["-F", "none", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-p", "2200", "-i", "/tmp/old"]
        for name in ("sub1", "sub2"):
            refused = number.main.attempt("ssh", *bare, "-o", "UserKnownHostsFile=/dev/null", name, "true")
            assert refused.returncode == 255
            assert "Permission denied (publickey)" in refused.stderr

    def test_the_session_stays_while_the_runtime_is_renewed(self, root: Trio) -> None:
        host = root.main.host
        script(host, f"sed -i '/^lib.libz/d' {RUNTIME}/manifest; echo left >{RUNTIME}/lib/left")
        run = play("prepare_hosts", None, "--limit", host).ok()
        assert run.changed[host] == 1
        assert try_on(host, ["test", "-e", f"{RUNTIME}/lib/left"]).returncode == 1
        assert root.replicas["sub1"].run("ssh", "main1", "hostname").strip() == "main1"
        assert root.main.run("ssh", "sub1", "hostname").strip() == "sub1"


def test_a_command_runs_everywhere_in_an_image_with_neither_shell_nor_python() -> None:
    request = {**BASE, "session_name": "bare", "session_image": BARE, "session_command": ["/busybox", "sleep", "8888"]}
    launch({**request, "session_size": 2}).ok()
    found = replicas("bare")
    assert try_on(found["main1"].host, ["docker", "run", "--rm", BARE, "/bin/sh"]).returncode == 127
    output = found["main1"].run("session-run", "/busybox", "hostname")
    assert sorted(output.splitlines()) == ["main1: main1", "sub1: sub1"]
    failed = found["sub1"].attempt("session-run", "/busybox", "false")
    assert failed.returncode == 1


def test_the_image_s_own_program_runs_as_without_us() -> None:
    """Arguments, folder, user, environment, signals and exit code are the image's own business."""
    launch({**BASE, "session_name": "own", "session_image": OWN, "session_failure_policy": "keep"}).ok()
    for replica in replicas("own").values():
        assert on(replica.host, "docker", "logs", replica.container) == "main two words as 0 in /var with hello\n"
        bare = script(
            replica.host,
            f"docker run -d --init --name bare {OWN} >/dev/null\n"
            "timeout 30 sh -c 'until docker logs bare | grep -q main; do sleep 0.1; done'\n"
            "docker logs bare; docker rm -f bare >/dev/null",
        )
        assert bare == "main two words as 0 in /var with hello\n"
        # Names that no shell takes, and what would get in the way of programs that are not the image's.
        assert set(VARIABLES) <= set(replica.run("cat", "/proc/1/environ").split("\0"))
        on(replica.host, "docker", "stop", replica.container)
        ended = json.loads(on(replica.host, "docker", "inspect", replica.container))[0]["State"]
        assert ended["ExitCode"] == 42
        assert on(replica.host, "docker", "logs", replica.container).endswith("bye\n")

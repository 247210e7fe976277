# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The address that a replica's programs find is the session's, from the first of them on, whoever starts it."""

from __future__ import annotations

import errno
import ipaddress
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import (
    API_ENDPOINT_IFNAME,
    RUNTIME,
    Engine,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.first_address import (
    is_first,
    is_translated,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import SessionError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import engine_runtime, steps
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.default_runtime import SCRIPT
from ansible_collections.cluster_compute.session.tests.support.contract.modules import run
from ansible_collections.cluster_compute.session.tests.support.contract.on_host import (
    Host,
    Session,
    has_ended,
    output_of,
    outward_address,
    reach_published_port,
    until,
)

SETTINGS = Path("/etc/docker/daemon.json")
TELLS = ["sh", "-c", "ip route get 192.0.2.1 >/first; ip -4 -o address >>/first; date >>/began; exec sleep 8888"]
"""What a replica runs: it writes down at once what programs find."""


ECHO = """
import socket
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("", 80))
print("ready", flush=True)
while True:
    server.sendto(*server.recvfrom(100))
"""
"""A server of datagrams as most are: it leaves to the kernel from which address it answers."""

ANSWERS = """
import socket
with socket.create_server(("", 7777)) as server:
    print("ready", flush=True)
    connection, _caller = server.accept()
    while data := connection.recv(100):
        connection.sendall(data)
"""
ASKS = """
import socket, sys
with socket.create_connection((sys.argv[1], 7777), 5) as connection:
    for line in sys.stdin:
        connection.sendall(line.encode())
        print(connection.recv(100).decode(), end="", flush=True)
"""
"""Two ends of a connection that lasts."""


def first_of(session: Session, replica: str) -> tuple[str, list[str]]:
    """Return what the first program of a replica found: the source outwards, and all addresses in their order."""
    route, *lines = session.run_in(replica, "cat", "/first").splitlines()
    found = [line.split()[3].partition("/")[0] for line in lines]
    return route.split("src ")[1].split()[0], [address for address in found if address != "127.0.0.1"]


def address_of(session: Session, replica: str) -> str:
    return str(next(entry["address"] for entry in session.plan["replicas"] if entry["name"] == replica))


def pid_of(container: str) -> int:
    return int(output_of("docker", "inspect", "--format", "{{.State.Pid}}", container))


def has_begun(session: Session, replica: str) -> bool:
    """Tell whether the replica's program has written down what it found."""
    done = subprocess.run(
        ["docker", "exec", f"{session.name}-{replica}", "cat", "/first"], capture_output=True, check=False
    )
    return b"eth0" in done.stdout


def check(session: Session, replicas: list[str]) -> None:
    """See that the first program of each replica found the session's address first, and the egress network's behind."""
    egress = ipaddress.ip_network(session.plan["egress"]["subnet"])
    for replica in replicas:
        source, addresses = first_of(session, replica)
        assert source == addresses[0] == address_of(session, replica)
        assert len(addresses) == 2
        assert ipaddress.ip_address(addresses[1]) in egress
        assert is_mended(session, replica)


def is_mended(session: Session, replica: str) -> bool:
    """Tell whether all that a replica's start does to its network is done: the address is found, and the way out."""
    pid, address = pid_of(f"{session.name}-{replica}"), address_of(session, replica)
    return is_first(pid, address) and is_translated(pid, address)


def in_network(session: Session, replica: str, *argv: str) -> list[str]:
    """Return a command that runs in the network of a replica."""
    return ["nsenter", f"--net=/proc/{pid_of(f'{session.name}-{replica}')}/ns/net", *argv]


@contextmanager
def conversation(session: Session) -> Iterator[Callable[[str], str]]:
    """Hold a connection between two replicas; return what sends a word over it and returns the answer."""
    server = in_network(session, "sub1", sys.executable, "-c", ANSWERS)
    client = in_network(session, "main1", sys.executable, "-c", ASKS, address_of(session, "sub1"))
    with subprocess.Popen(server, stdout=subprocess.PIPE, text=True) as answers:
        assert answers.stdout is not None
        assert answers.stdout.readline() == "ready\n"
        with subprocess.Popen(client, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as asks:

            def say(word: str) -> str:
                assert asks.stdin is not None
                assert asks.stdout is not None
                print(word, file=asks.stdin, flush=True)
                return asks.stdout.readline().strip()

            yield say


@pytest.mark.every_engine
@pytest.mark.parametrize("others", [0, 1], ids=["bridge", "overlay"])
def test_the_first_program_finds_it_whoever_starts_the_replica(others: int, host: Host) -> None:
    session = host.launch(size=3, others=others, max_replicas_per_host=3 - others, command=TELLS)
    here = [entry["name"] for entry in session.plan["replicas"] if entry["host"] == "here"]
    assert len(here) == 3 - others
    check(session, here)
    for replica in here:
        output_of("docker", "exec", f"demo-{replica}", "rm", "/first")
        output_of("docker", "restart", "--time", "0", f"demo-{replica}")
        assert until(partial(has_begun, session, replica))
    check(session, here)
    assert session.bring("started")["actions"] != [], "its SSH servers went with the containers"
    assert session.bring("started")["actions"] == []


@pytest.mark.every_engine
def test_the_way_out_and_published_ports_work(host: Host) -> None:
    session = host.launch(size=2, ports=["18080:80", "18080:80/udp"])
    outward = outward_address()
    with socket.create_server((outward, 0)) as server:
        callers: list[str] = []

        def answer() -> None:
            connection, (caller, _port) = server.accept()
            callers.append(caller)
            connection.sendall(b"here\n")
            connection.close()

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        port = str(server.getsockname()[1])
        assert session.run_in("sub1", "nc", "-w", "5", outward, port).strip() == "here"
        thread.join(5)
    assert ipaddress.ip_address(callers[0]) in ipaddress.ip_network(session.plan["egress"]["subnet"])
    reach_published_port()
    # One of UDP answers from where it was asked.
    assert session.plan["replicas"][0]["name"] == "main1"
    network = f"--net=/proc/{pid_of('demo-main1')}/ns/net"
    echo = subprocess.Popen(["nsenter", network, sys.executable, "-c", ECHO], stdout=subprocess.PIPE)
    try:
        assert echo.stdout is not None
        assert echo.stdout.readline() == b"ready\n"
        for word in (b"one", b"two"):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
                client.settimeout(5)
                client.sendto(word, (outward, 18080))
                assert client.recvfrom(100) == (word, (outward, 18080))
    finally:
        echo.kill()
        echo.wait()


def order(replica: str) -> str:
    """Return what is said of a replica whose address is put first again."""
    return f"order interfaces of container demo-{replica}"


@pytest.mark.every_engine
@pytest.mark.parametrize("others", [0, 1], ids=["bridge", "overlay"])
def test_a_replica_that_was_started_without_the_entry_is_mended_while_it_runs(
    others: int, host: Host, settings: dict[str, Any]
) -> None:
    assert settings
    runtime("absent")
    session = host.launch(size=2 + others, others=others, max_replicas_per_host=2, command=TELLS)
    began = session.run_in("main1", "cat", "/began")
    assert session.repair()["actions"] == [], "a host without the entry is left as it is"
    assert session.bring("started")["actions"] == []
    assert first_of(session, "main1")[0] != address_of(session, "main1")
    runtime("present")
    with conversation(session) as say:
        assert say("before") == "before"
        for _time in range(2):
            assert session.repair(check_mode=True)["actions"] == [order("main1"), order("sub1")]
        assert not is_mended(session, "main1")
        assert session.repair()["actions"] == [order("main1"), order("sub1")]
        assert say("after") == "after"
    assert session.repair()["actions"] == []
    for replica in ("main1", "sub1"):
        assert is_mended(session, replica)
        found = session.run_in(replica, "ip", "route", "get", "192.0.2.1")
        assert found.split("src ")[1].split()[0] == address_of(session, replica)
    assert session.run_in("main1", "cat", "/began") == began, "no program of the image was started again"
    # Somebody starts it by the engine, which knows it as one of its own runtime.
    output_of("docker", "restart", "--time", "0", "demo-sub1")
    assert order("sub1") in session.bring("started")["actions"]
    output_of("docker", "kill", "demo-sub1")
    assert until(partial(has_ended, "demo-sub1"))
    assert session.bring("started")["actions"] == ["restart container demo-sub1"]
    assert is_mended(session, "sub1")
    assert session.bring("started")["actions"] == []


@pytest.mark.every_engine
@pytest.mark.parametrize("others", [0, 1], ids=["bridge", "overlay"])
def test_what_somebody_changed_of_a_replica_s_network_is_changed_back(others: int, host: Host) -> None:
    session = host.launch(size=2 + others, others=others, max_replicas_per_host=2, restart_limit=9)
    network, egress = session.plan["network"]["name"], session.plan["egress"]["name"]
    gateway = output_of(*in_network(session, "main1", "ip", "route", "show", "default")).split()[2]
    address = address_of(session, "main1")
    changes: dict[str, list[list[str]]] = {
        "route": [["ip", "route", "change", "default", "via", gateway, "dev", "eth0"]],
        "no route": [["ip", "route", "delete", "default"]],
        "rules": [["iptables", "-t", "nat", "-F", "POSTROUTING"]],
        "egress": [
            ["docker", "network", "disconnect", egress, "demo-main1"],
            ["docker", "network", "connect", egress, "demo-main1"],
        ],
        "network": [
            ["docker", "network", "disconnect", network, "demo-main1"],
            ["docker", "network", "connect", "--ip", address, network, "demo-main1"],
        ],
        "both": [
            ["docker", "network", "disconnect", egress, "demo-main1"],
            ["docker", "network", "disconnect", network, "demo-main1"],
            ["docker", "network", "connect", "--ip", address, network, "demo-main1"],
            ["docker", "network", "connect", egress, "demo-main1"],
        ],
    }
    if others:  # routes and rules are of the way out, whatever network the session has
        changes = {name: changes[name] for name in ("network", "both")}
    for name, commands in changes.items():
        for command in commands:
            output_of(*(command if command[0] == "docker" else in_network(session, "main1", *command)))
        assert not is_mended(session, "main1"), name
        assert session.repair(check_mode=True)["actions"] == [order("main1")], name
        assert session.repair()["actions"] == [order("main1")], name
        assert is_mended(session, "main1"), name
        assert session.bring("started")["actions"] == [], name
        assert session.run_in("main1", "ssh", "sub1", "hostname").strip() == "sub1"
        if commands[0][0] == "docker":
            # Engines do not take away an interface that was given another name, and add none beside it.
            output_of("docker", "kill", "demo-main1")
            assert until(partial(has_ended, "demo-main1"))
            assert session.bring("started")["actions"] == ["restart container demo-main1"], name
            if host.engine.api_version >= API_ENDPOINT_IFNAME:  # or each start would fail by chance
                endpoints = host.engine.require("demo-main1").endpoints
                assert {endpoints[egress].interface, endpoints[network].interface} == {"eth0", "eth1"}, name
            assert is_mended(session, "main1"), name
            assert session.bring("started")["actions"] == [], name
            output_of("docker", "restart", "--time", "0", "demo-main1")
            done = session.bring("started")["actions"]
            if host.engine.api_version >= API_ENDPOINT_IFNAME:
                # For what was connected later, engine 28 chooses the MAC by chance at each start.
                done = [action for action in done if action != order("main1")]
            assert done == ["start SSH server demo-main1"], name
            assert is_mended(session, "main1"), name
            assert session.bring("started")["actions"] == [], name


@pytest.mark.every_engine
@pytest.mark.parametrize("others", [0, 1], ids=["bridge", "overlay"])
def test_a_replica_without_one_of_its_interfaces_gets_it_back(others: int, host: Host) -> None:
    session = host.launch(size=2 + others, others=others, max_replicas_per_host=2)
    network, egress = session.plan["network"]["name"], session.plan["egress"]["name"]
    another = str(ipaddress.ip_network(session.plan["network"]["subnet"])[-2])
    output_of("docker", "network", "disconnect", network, "demo-main1")
    output_of("docker", "network", "connect", "--ip", another, network, "demo-main1")
    for name, interface in ((network, ""), (network, "eth1"), (egress, "eth0"), (egress, ""), (network, "")):
        if interface:
            output_of(*in_network(session, "main1", "ip", "link", "delete", interface))
        elif is_mended(session, "main1"):
            output_of("docker", "network", "disconnect", name, "demo-main1")
        wanted = [f"connect container demo-main1 to network {name}"]
        assert session.repair(check_mode=True)["actions"] == wanted
        assert session.repair()["actions"] == wanted
        assert is_mended(session, "main1")
        assert session.bring("started")["actions"] == []


# ---- the entry ------------------------------------------------------------------------------------------------------


def runtime(state: str, check_mode: bool = False) -> dict[str, Any]:
    """Perform the call that gives the engine its entry, or takes it away."""
    return run("host_runtime", {"state": state}, check_mode)


@pytest.fixture
def settings() -> Iterator[dict[str, Any]]:
    """Return the settings of the engine; they are as they were at the end."""
    before = SETTINGS.read_text(encoding="utf-8")
    assert json.loads(before)["runtimes"] == {RUNTIME: {"path": str(SCRIPT)}}
    yield json.loads(before)
    SETTINGS.write_text(before, encoding="utf-8")
    output_of("pkill", "-HUP", "-x", "dockerd")
    assert until(lambda: RUNTIME in Engine.connect().info().runtimes)


@pytest.mark.every_engine
def test_the_entry_comes_and_goes_and_what_the_site_set_stays(host: Host, settings: dict[str, Any]) -> None:
    assert runtime("present")["actions"] == []
    for check_mode in (True, False):
        gone = runtime("absent", check_mode)["actions"]
        assert gone[0] == f"set engine setting runtime {RUNTIME} in {SETTINGS}"
    del settings["runtimes"]
    assert json.loads(SETTINGS.read_text(encoding="utf-8")) == settings
    assert RUNTIME not in host.engine.info().runtimes
    assert not SCRIPT.exists()
    assert runtime("absent")["actions"] == []
    session = host.launch(size=2, command=TELLS)
    assert first_of(session, "main1")[0] != address_of(session, "main1"), "without it the way out has its own address"
    session.remove()
    SETTINGS.write_text(json.dumps({**settings, "runtimes": {"other": {"path": "runc"}}}), encoding="utf-8")
    assert runtime("present", True)["changed"]
    assert len(runtime("present")["actions"]) == 3
    assert [*json.loads(SETTINGS.read_text(encoding="utf-8"))["runtimes"]] == ["other", RUNTIME]
    assert runtime("present")["actions"] == []
    session = host.launch(size=2, command=TELLS)
    check(session, ["main1", "sub1"])
    with pytest.raises(SessionError, match=r"started by: demo-main1, demo-sub1\. Tear their sessions down first\."):
        runtime("absent")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "are not valid JSON"),
        ('{"runtimes": []}', "not an object with runtimes"),
        ('["runtimes"]', "not an object with runtimes"),
        pytest.param(
            '{"no-such-setting": true}', "did not take its settings", marks=pytest.mark.every_engine, id="no setting"
        ),
    ],
)
def test_settings_that_cannot_be_used_stay_as_they_are(
    text: str, reason: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settings
    monkeypatch.setattr(engine_runtime, "_RELOAD_SECONDS", 1.0)
    runtime("absent")
    SETTINGS.write_text(text, encoding="utf-8")
    with pytest.raises(SessionError, match=reason):
        runtime("present")
    assert SETTINGS.read_text(encoding="utf-8") == text


@pytest.fixture
def managed(tmp_path: Path) -> Iterator[Path]:
    """Have a file elsewhere that the engine's settings are a link to, as a site that manages them may have it."""
    path = tmp_path / "managed.json"
    before = SETTINGS.read_text(encoding="utf-8")
    runtime("absent")
    path.write_text(SETTINGS.read_text(encoding="utf-8"), encoding="utf-8")
    path.chmod(0o640)
    os.chown(path, 0, 7)
    SETTINGS.unlink()
    SETTINGS.symlink_to(path)
    yield path
    SETTINGS.unlink()
    SETTINGS.write_text(before, encoding="utf-8")
    runtime("present")
    SETTINGS.write_text(before, encoding="utf-8")
    output_of("pkill", "-HUP", "-x", "dockerd")
    assert until(lambda: RUNTIME in Engine.connect().info().runtimes)


def test_settings_that_are_a_link_stay_one(managed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(runtime("present")["actions"]) == 3
    assert SETTINGS.readlink() == managed
    assert RUNTIME in json.loads(managed.read_text(encoding="utf-8"))["runtimes"]
    found = managed.stat()
    assert (found.st_mode & 0o777, found.st_uid, found.st_gid) == (0o640, 0, 7)
    assert runtime("present")["actions"] == []
    assert runtime("absent")["changed"]
    assert SETTINGS.readlink() == managed
    text = managed.read_text(encoding="utf-8")

    def read_only(path: Path, *_more: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    with monkeypatch.context() as patched:
        patched.setattr(engine_runtime, "write_file", read_only)
        with pytest.raises(
            SessionError, match=r"cannot be written: Read-only file system\. .* have it say \{\"runtimes\""
        ):
            steps.perform(engine_runtime.present_stages(Engine.connect())[-1:])
    assert managed.read_text(encoding="utf-8") == text
    SETTINGS.unlink()
    SETTINGS.symlink_to(SETTINGS)
    with pytest.raises(SessionError, match="lead in a circle"):
        runtime("present")


@pytest.fixture
def engine_of_its_own(tmp_path: Path) -> Iterator[Engine]:
    """Return a second engine of this host, which sees another /usr/local than the host does, as one from a snap."""
    folder = tmp_path / "other"
    folder.mkdir()
    options = [f"--data-root={folder}/data", f"--exec-root={folder}/run", f"--pidfile={folder}/pid"]
    options += [f"--host=unix://{folder}/socket", "--bridge=none", "--iptables=false", "--storage-driver=vfs"]
    options += ["--containerd-namespace=other", "--containerd-plugins-namespace=others", f"--config-file={folder}/json"]
    (folder / "json").write_text("{}", encoding="utf-8")
    begin = 'mount -t tmpfs none /usr/local && exec dockerd "$@"'
    with open(folder / "log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(
            ["unshare", "--mount", "--net", "sh", "-c", begin, "sh", *options], stdout=log, stderr=log
        )
    try:
        assert until((folder / "socket").exists), (folder / "log").read_text(encoding="utf-8")
        yield Engine.connect(path=str(folder / "socket"))
    finally:
        process.terminate()
        process.wait()


def test_an_engine_that_does_not_see_the_host_s_files_is_refused(
    engine_of_its_own: Engine, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = (
        r"does not see the host's folder /usr/local/lib/cluster-compute(/ssh-runtime)?, as one from a snap does not"
    )
    assert engine_of_its_own.process() != engine.process()
    with pytest.raises(SessionError, match=refusal):
        engine_runtime.present_stages(engine_of_its_own)
    connect = Engine.connect
    monkeypatch.setattr(Engine, "connect", lambda *_arguments: engine_of_its_own)
    found = run("host_info", {}, False)["host"]
    monkeypatch.setattr(Engine, "connect", connect)
    assert not found["usable"]
    assert re.search(refusal, found["problem"])

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings that sites give their engines (daemon.json): a session works with each, or is refused by its name."""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import RUNTIME, Engine
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import (
    InvalidInput,
    SessionError,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.engine_settings import FILE
from ansible_collections.cluster_compute.session.tests.support.contract.on_host import (
    BUSYBOX,
    Host,
    Session,
    output_of,
    outward_address,
    reach_published_port,
    until,
)

STORED_NETWORKS = Path("/var/lib/docker/network/files/local-kv.db")
ELSEWHERE = f"/tmp/docker-{os.getpid()}"
CDI_FILE = Path("/etc/cdi/cards.json")
CARD = "/dev/cc-zero"
CARDS = {
    "cdiVersion": "0.5.0",
    "kind": "example.com/card",
    "devices": [{"name": "zero", "containerEdits": {"deviceNodes": [{"path": CARD}]}}],
}

PLUGIN = """
import http.server, json, os, re, socketserver, sys
where, denied = sys.argv[1:]
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    address_string = lambda self: "engine"
    log_message = lambda self, *words: None
    def do_POST(self):
        given = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "{}")
        answer = {"Implements": ["authz"]} if self.path == "/Plugin.Activate" else {"Allow": True}
        if self.path == "/AuthZPlugin.AuthZReq":
            what = given["RequestMethod"] + " " + given["RequestUri"]
            pattern = open(denied).read() if os.path.exists(denied) else ""
            if pattern and re.search(pattern, what):
                answer = {"Allow": False, "Msg": "the site allows no " + given["RequestMethod"]}
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/vnd.docker.plugins.v1+json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
server = Server(where, Handler)
print("ready", flush=True)
server.serve_forever()
"""
"""An authorization plugin of a site (Docker docs, Access authorization plugin): it denies what a file says."""


@pytest.fixture(scope="module")
def denied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run an authorization plugin that an engine can use; return the file with the pattern of what it denies."""
    folder, file = Path("/run/docker/plugins"), tmp_path_factory.mktemp("authorization") / "denied"
    folder.mkdir(parents=True, exist_ok=True)
    where = folder / "site.sock"
    where.unlink(missing_ok=True)
    with subprocess.Popen([sys.executable, "-c", PLUGIN, str(where), str(file)], stdout=subprocess.PIPE) as plugin:
        assert plugin.stdout is not None
        assert plugin.stdout.readline() == b"ready\n"
        yield file
        plugin.kill()
    where.unlink()


@contextmanager
def denying(file: Path, pattern: str) -> Iterator[None]:
    """Deny requests by their method and path."""
    file.write_text(pattern, encoding="utf-8")
    try:
        yield
    finally:
        file.unlink()


@pytest.fixture(scope="module")
def use(engine: Engine, denied: Path) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Return what restarts this host's engine with more settings; at the end it gets back those that it had."""
    text, rules = FILE.read_text(encoding="utf-8"), output_of("iptables-save")
    image = b"".join(engine.save_image(BUSYBOX))

    def put_rules_back() -> None:
        # An engine leaves the rules of its earlier settings behind.
        subprocess.run(["iptables-restore"], input=rules, text=True, check=True)

    def restart_with(settings: Mapping[str, Any]) -> None:
        FILE.write_text(json.dumps({**json.loads(text), **settings}), encoding="utf-8")
        restart(put_rules_back)
        if BUSYBOX not in Engine.connect().image_names():  # it keeps its data elsewhere
            subprocess.run(["docker", "load"], input=image, check=True, stdout=subprocess.DEVNULL)

    yield restart_with
    restart_with({})
    FILE.write_text(text, encoding="utf-8")
    put_rules_back()
    shutil.rmtree(ELSEWHERE, ignore_errors=True)


@pytest.fixture(scope="module")
def settings(request: pytest.FixtureRequest, use: Callable[[Mapping[str, Any]], None]) -> dict[str, Any]:
    """Give the engine the settings of a test, at whose end it keeps them: those of the next one replace them."""
    use(request.param)
    return dict(request.param)


def restart(meanwhile: Callable[[], None]) -> None:
    """Restart the engine, which then creates its default bridge, and wait until it answers.

    What it has stored of its networks would bring rules of earlier settings back, at this start or a later one.
    """
    output_of("service", "docker", "stop")
    output_of("ip", "link", "delete", "docker0")
    STORED_NETWORKS.unlink(missing_ok=True)
    meanwhile()
    output_of("service", "docker", "start")
    assert until(answers, 60)


def answers() -> bool:
    """Tell whether the engine answers and knows the entry by which replicas start."""
    try:
        return RUNTIME in Engine.connect().info().runtimes
    except SessionError:
        return False


def prove(session: Session) -> None:
    """See that replicas reach each other by name and SSH, the outside, and are reached by a published port."""
    assert session.run_in("main1", "ssh", "sub1", "hostname").strip() == "sub1"
    outward = outward_address()
    with socket.create_server((outward, 0)) as server:
        server.settimeout(5)
        output_of("docker", "exec", "-d", "demo-sub1", "nc", outward, str(server.getsockname()[1]))
        server.accept()[0].close()
    reach_published_port()
    assert session.repair()["actions"] == []


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(
            {
                "icc": False,
                "userland-proxy": False,
                "no-new-privileges": True,
                "live-restore": True,
                "default-ulimits": {"nofile": {"Name": "nofile", "Hard": 4096, "Soft": 1024}},
                "log-driver": "none",
            },
            id="hardened",
        ),
        pytest.param(
            {
                "exec-opts": ["native.cgroupdriver=cgroupfs"],
                "cgroup-parent": "/site",
                "default-cgroupns-mode": "host",
                "default-ipc-mode": "shareable",
                "default-shm-size": "8m",
                "init": True,
                "log-driver": "journald",
            },
            id="cgroups",
        ),
        pytest.param(
            {
                "bip": "10.213.0.1/17",
                "default-address-pools": [{"base": "10.213.192.0/18", "size": 24}],
                "dns": ["192.0.2.53"],
                "mtu": 1400,
                "ipv6": True,
                "fixed-cidr-v6": "fd00:dead:beef::/64",
                "ip6tables": True,
                "experimental": True,
                "ip": "127.0.0.1",
                "log-driver": "local",
            },
            id="addresses",
            marks=pytest.mark.every_engine,
        ),
    ],
    indirect=True,
)
def test_a_session_works_with(settings: dict[str, Any], host: Host) -> None:
    session = host.launch(size=2, ports="18080:80", memory="48m")
    prove(session)
    subnet = ipaddress.ip_network(session.plan["egress"]["subnet"])
    assert not subnet.overlaps(ipaddress.ip_network(settings.get("bip", "172.17.0.1/16"), strict=False))
    assert "inside" in output_of("docker", "logs", "demo-main1")
    assert {found["HostConfig"]["Memory"] for found in session.containers().values()} == {48 << 20}
    assert {session.run_in(name, "df", "-k", "/dev/shm").split()[8] for name in session.containers()} == {"1024"}


@pytest.mark.parametrize("settings", [{"data-root": ELSEWHERE}], ids=["data-root"], indirect=True)
def test_a_session_works_where_the_engine_keeps_its_data_elsewhere(settings: dict[str, Any], host: Host) -> None:
    assert host.engine.info().root == ELSEWHERE
    prove(host.launch(size=2, ports="18080:80"))


@pytest.mark.every_engine
@pytest.mark.parametrize("settings", [{"iptables": False}], ids=["iptables"], indirect=True)
def test_an_engine_without_rules_is_told_and_its_replicas_reach_each_other(
    settings: dict[str, Any], host: Host
) -> None:
    no_rules = host.call("host_info")["host"]["engine"]["no_rules"]
    assert no_rules == f'"iptables": false in {FILE}'
    session = host.held(size=2, ports="18080:80")
    with pytest.raises(SessionError, match="cannot log in") as found:
        session.bring("started")
    assert f"Docker Engine writes no firewall rules ({no_rules})" in str(found.value)
    session.remove(undo=True)
    rules = output_of("iptables-save")
    try:
        # As after a boot with that setting.
        for table in ("filter", "nat"):
            output_of("iptables", "-t", table, "-F")
            output_of("iptables", "-t", table, "-X")
        output_of("iptables", "-P", "FORWARD", "ACCEPT")
        session = host.launch(size=2, ports="18080:80")
        prove(session)
        session.remove(undo=True)
    finally:
        subprocess.run(["iptables-restore"], input=rules, text=True, check=True)


@pytest.mark.parametrize("settings", [{"userns-remap": "default"}], ids=["userns-remap"], indirect=True)
def test_an_engine_that_maps_users_gets_no_session_with_ssh(settings: dict[str, Any], host: Host) -> None:
    with pytest.raises(SessionError, match=r"Take userns-remap out of its daemon\.json and restart the engine"):
        host.plan(size=2)
    session = host.launch(size=1)
    assert session.run_in("main1", "session-run", "hostname") == "main1: main1\n"


@pytest.mark.parametrize("settings", [{"authorization-plugins": ["site"]}], ids=["authorization"], indirect=True)
def test_an_engine_that_asks_an_authorization_plugin(settings: dict[str, Any], host: Host, denied: Path) -> None:
    session = host.launch(size=2, ports="18080:80")
    prove(session)
    session.remove(undo=True)
    session = host.held(size=2)
    with denying(denied, "POST .*/containers/create"), pytest.raises(SessionError) as found:
        session.bring("started")
    assert "authorization denied by plugin site: the site allows no POST" in str(found.value)
    assert session.containers() == {}
    session.remove(undo=True)
    with denying(denied, "GET .*/info"):
        answer = host.call("host_info")["host"]
    assert (answer["usable"], "authorization denied by plugin site" in answer["problem"]) == (False, True)


@pytest.fixture
def card() -> Iterator[None]:
    """Give this host a device that a specification of the Container Device Interface describes."""
    CDI_FILE.parent.mkdir(exist_ok=True)
    CDI_FILE.write_text(json.dumps(CARDS), encoding="utf-8")
    output_of("mknod", "-m", "666", CARD, "c", "1", "5")
    yield
    CDI_FILE.unlink()
    Path(CARD).unlink()


@pytest.mark.every_engine
@pytest.mark.parametrize(
    "settings",
    [{"experimental": True, "features": {"cdi": True}}, {"features": {"cdi": False}}],
    ids=["cdi", "no-cdi"],
    indirect=True,
)
def test_devices_are_handed_over_where_the_feature_cdi_is_on(settings: dict[str, Any], card: None, host: Host) -> None:
    session = host.launch(size=2, ports="18080:80")
    prove(session)
    session.remove(undo=True)
    inventory = {"cluster_compute_accelerators": {"card": {"cdi": "example.com/card"}}}
    if settings["features"]["cdi"] and host.engine.api_version >= (1, 44):
        session = host.launch(inventory=inventory, accelerators="card=1")
        assert session.run_in("main1", "sh", "-c", f"head -c 4 {CARD} | tr '\\0' z") == "zzzz"
    else:
        with pytest.raises(InvalidInput, match="does not support CDI devices"):
            host.plan(inventory=inventory, accelerators="card=1")

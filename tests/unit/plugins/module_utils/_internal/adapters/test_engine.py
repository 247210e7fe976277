# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the engine is asked for and what its answers mean; what labels tell, whoever wrote them."""

from __future__ import annotations

import base64
import io
import json
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import engine, engine_objects
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import (
    Attachment,
    Engine,
    EngineError,
    NetworkChoice,
    NetworkKept,
)
from ansible_collections.cluster_compute.session.tests.support.adapters.engine_server import (
    FILES,
    OF_REPLICA,
    EngineServer,
    Handler,
    Received,
    engine_server,
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EngineServer]:
    with engine_server(tmp_path) as made:
        yield made


@pytest.fixture
def asking(server: EngineServer) -> Engine:
    return Engine.connect(timeout=60, path=str(server.path))


@pytest.mark.parametrize(
    ("api", "facts", "uses_nftables"),
    [
        ("1.41", {}, False),
        ("1.47", {"FirewallBackend": {"Driver": "nftables"}}, False),
        ("1.49", {"FirewallBackend": {"Driver": "iptables"}}, False),
        ("1.52", {"FirewallBackend": {"Driver": "iptables+firewalld", "Info": [["ReloadedAt", "x"]]}}, False),
        ("1.52", {"FirewallBackend": {"Driver": "nftables"}}, True),
        ("1.52", {"FirewallBackend": {"Driver": "nftables+firewalld", "Info": [["ReloadedAt", "x"]]}}, True),
        ("1.52", {"FirewallBackend": None}, False),
        ("1.52", {}, False),
    ],
)
def test_the_engine_says_what_it_writes_its_rules_with(
    server: EngineServer, api: str, facts: dict[str, Any], uses_nftables: bool
) -> None:
    server.version = api
    server.answer("GET /info", value=facts)
    assert Engine.connect(path=str(server.path)).uses_nftables() is uses_nftables


@pytest.mark.parametrize(
    ("theirs", "ours", "text"),
    [
        ("1.41", (1, 41), "v1.41"),
        ("1.45", (1, 45), "v1.45"),
        ("1.99", engine.NEWEST_API, "v1.52"),
        ("2.0", (1, 52), "v1.52"),
    ],
)
def test_the_newest_version_that_both_sides_speak(
    server: EngineServer, theirs: str, ours: tuple[int, int], text: str
) -> None:
    server.version = theirs
    connected = Engine.connect(path=str(server.path))
    server.answer("GET /containers/json", value=[])
    assert connected.containers() == []
    assert connected.api_version == ours
    assert server.requests[-1].version == text


@pytest.mark.parametrize(
    ("engine_version", "newest", "oldest", "sent"),
    [
        ("20.10.20", "1.41", "1.12", "v1.41"),
        ("24.0.7", "1.43", "1.12", "v1.43"),
        ("26.1.5+dfsg1", "1.45", "1.24", "v1.45"),
        ("28.3.2", "1.51", "1.24", "v1.51"),
        ("29.1.3", "1.52", "1.44", "v1.52"),
        ("29.4.0", "1.54", "1.40", "v1.52"),
    ],
)
def test_every_request_is_in_a_version_that_the_engine_accepts(
    server: EngineServer, engine_version: str, newest: str, oldest: str, sent: str
) -> None:
    """The bounds are ApiVersion and MinAPIVersion in answers of these engines to ``GET /version``, as recorded.

    They agree with Docker's documentation (docker/docs, content/reference/api/engine/_index.md, API version matrix):
    29.0 to 29.2 accept 1.44 and newer, 29.3 and newer accept 1.40 again.
    """
    server.version, server.oldest = newest, oldest
    server.answer("GET /containers/json", value=[])
    server.answer("GET /info", value={})
    connected = Engine.connect(path=str(server.path))
    assert (connected.containers(), connected.info().api_version) == ([], sent[1:])
    connected.remove_container("gone")
    assert [request.version for request in server.requests] == [sent] * 3


def test_an_engine_that_accepts_no_version_known_here(server: EngineServer) -> None:
    server.version, server.oldest = "1.60", "1.53"
    with pytest.raises(EngineError) as raised:
        Engine.connect(path=str(server.path))
    assert str(raised.value) == (
        "Docker Engine on this host speaks API 1.60 and no longer 1.52, the newest that is supported (it says: client "
        "version 1.52 is too old. Minimum supported API version is 1.53, please upgrade your client to a newer "
        "version). Install a newer release of cluster_compute.session, or let the engine accept older versions "
        "(DOCKER_MIN_API_VERSION)."
    )
    assert server.requests == [], "nothing else is asked of it"


def test_an_engine_of_newer_versions_that_fails_is_not_called_too_new(server: EngineServer) -> None:
    server.version = "1.60"
    server.answers["GET /_ping"] = lambda handler, request: handler.say(
        500 if request.version else 200, b'{"message": "shutting down"}', Api_Version="1.60"
    )
    with pytest.raises(EngineError, match=r"cannot be reached on this host \(its socket says: shutting down\)"):
        Engine.connect(path=str(server.path))


def test_an_engine_that_is_too_old(server: EngineServer) -> None:
    server.version = "1.40"
    with pytest.raises(EngineError) as raised:
        Engine.connect(path=str(server.path))
    assert str(raised.value) == (
        "Docker Engine on this host speaks API 1.40, the oldest that is supported is 1.41 (Docker Engine 20.10)."
    )


def test_podman_is_not_taken_for_docker_engine(server: EngineServer) -> None:
    """As Podman 4.3.1 of Debian 12 answers; nothing else is asked of it, or sent there."""
    said = {"Api_Version": "1.41", "Server": "Libpod/4.3.1 (linux)", "Libpod_Api_Version": "4.3.1"}
    server.answers["GET /_ping"] = lambda handler, _request: handler.say(200, b"OK", "text/plain", **said)
    with pytest.raises(
        EngineError, match=r"is Podman 4\.3\.1 and not Docker Engine\. Install Docker Engine and"
    ) as raised:
        Engine.connect(path=str(server.path))
    assert raised.value.is_of_host
    assert [request.path for request in server.requests] == ["/_ping"]


def test_containers_are_listed_by_name_and_label(server: EngineServer, asking: Engine) -> None:
    container = {"Names": ["/b"], "Labels": OF_REPLICA, "Mounts": [FILES]}
    two: dict[str, object] = {"Names": ["/a"], "Labels": {}, "Mounts": None}
    server.answer("GET /containers/json", value=[container, two, {**container, "Names": None}])
    assert [found.name for found in asking.containers()] == ["", "a", "b"]
    assert asking.containers_named({"a", "c"}) == {"a": engine_objects.read_container(two)}
    assert [found.name for found in asking.session_containers({"x": "y"})] == ["", "b"]
    assert [request.query for request in server.requests] == [
        {"all": "true"},
        {"all": "true"},
        {"all": "true", "filters": json.dumps({"label": [engine_objects.LABEL_SESSION_ID, "x=y"]})},
    ]


def test_what_is_not_there_is_none(server: EngineServer, asking: Engine) -> None:
    assert asking.inspect("x") is None
    assert asking.inspect_image("x") is None
    assert asking.volume("x") is None
    assert asking.consumption("x") is None
    assert not asking.has_path("x", "/a")
    asking.remove_container("x")
    asking.remove_image("x")
    asking.remove_volume("x")
    for request in ("GET /containers/x/json", "DELETE /containers/x"):
        server.answer(request, status=500, value={"message": "out of order"})
    with pytest.raises(EngineError, match=r"^Docker Engine could not inspect the container x: out of order$"):
        asking.inspect("x")
    with pytest.raises(EngineError, match=r"^Docker Engine could not remove the container x: out of order$"):
        asking.remove_container("x")


def test_a_volume_in_use_stays(server: EngineServer, asking: Engine) -> None:
    server.answer("DELETE /volumes/x", status=409, value={"message": "volume is in use"})
    asking.remove_volume("x")
    server.answer("DELETE /containers/x", status=409, value={"message": "removal is already in progress"})
    with pytest.raises(EngineError, match="removal is already in progress"):
        asking.remove_container("x")


def test_what_is_so_already_is_no_error(server: EngineServer, asking: Engine) -> None:
    server.answer("POST /containers/x/start", status=304, text="")
    server.answer("POST /containers/x/stop", status=304, text="")
    asking.start_container("x")
    asking.stop_container("x", 7)
    assert server.requests[-1].query == {"t": "7"}


def test_a_container_on_two_networks(server: EngineServer) -> None:
    """Engines before API 1.44 take one endpoint at creation; nothing is left behind where another cannot be made."""
    attachments = {"one": Attachment("eth0"), "two": Attachment("eth1", "10.0.0.2")}
    server.answer("POST /containers/create", status=201, value={"Id": "c1", "Warnings": []})
    server.answer("POST /networks/two/connect", text="")
    for version, at_once, more in (("1.45", ["one", "two"], []), ("1.41", ["one"], ["/networks/two/connect"])):
        server.version = version
        server.requests.clear()
        body = {"Image": "i", "HostConfig": {"Memory": 1}}
        assert Engine.connect(path=str(server.path)).create_container("main 1", body, attachments) == "c1"
        made = json.loads(server.requests[0].body)
        assert server.requests[0].query == {"name": "main 1"}
        assert list(made["NetworkingConfig"]["EndpointsConfig"]) == at_once
        assert made["HostConfig"] == {"Memory": 1, "NetworkMode": "one"}
        assert [request.path for request in server.requests[1:]] == more
    assert json.loads(server.requests[1].body) == {
        "Container": "c1",
        "EndpointConfig": {"IPAMConfig": {"IPv4Address": "10.0.0.2"}},
    }
    server.answer("POST /networks/two/connect", status=500, value={"message": "no room"})
    server.requests.clear()
    with pytest.raises(EngineError, match=r"^Docker Engine could not connect the container c1 to the network two: no"):
        Engine.connect(path=str(server.path)).create_container("main", body, attachments)
    assert [(request.method, request.path) for request in server.requests][-1] == ("DELETE", "/containers/c1")


def test_networks_and_volumes(server: EngineServer, asking: Engine) -> None:
    server.answer("POST /networks/create", status=201, value={"Id": "n"})
    server.answer("POST /volumes/create", status=201, value={"Name": "v"})
    server.answer("GET /networks", value=[{"Name": "b"}, {"Name": "a"}])
    server.answer("POST /networks/b/disconnect", text="")
    asking.create_network("b", NetworkChoice("10.0.0.0/24", "macvlan", {"parent": "p"}, internal=True), {"l": "1"})
    asking.create_volume("v", "local", {"type": "nfs"}, {"l": "1"})
    asking.disconnect_container("c", "b")
    assert [found.name for found in asking.networks({"l": "1"})] == ["a", "b"]
    network, volume, left = (json.loads(request.body) for request in server.requests[:3])
    assert network == {
        "Name": "b",
        "Driver": "macvlan",
        "Options": {"parent": "p"},
        "IPAM": {"Driver": "default", "Config": [{"Subnet": "10.0.0.0/24"}]},
        "Internal": True,
        "Labels": {"l": "1"},
        "CheckDuplicate": True,
    }
    assert volume == {"Name": "v", "Driver": "local", "DriverOpts": {"type": "nfs"}, "Labels": {"l": "1"}}
    assert left == {"Container": "c", "Force": True}
    assert json.loads(server.requests[3].query["filters"]) == {"label": ["l=1"]}


def test_a_network_is_kept_for_containers_that_are_gone(server: EngineServer, asking: Engine) -> None:
    """As Docker Engine 20.10 answered on a lab: its count was too high by some, and nothing was on the network."""
    refusal = {"message": "error while removing network: network b id 2036 has active endpoints"}
    server.answer("DELETE /networks/b", status=403, value=refusal)
    server.answer("GET /networks/b", value={"Name": "egress", "Containers": {}})
    with pytest.raises(NetworkKept, match="The network egress stays until Docker Engine is started again"):
        asking.remove_network("b")
    server.answer("GET /networks/b", value={"Name": "egress", "Containers": {"c1": {"Name": "of somebody"}}})
    with pytest.raises(EngineError, match="has active endpoints"):
        asking.remove_network("b")
    server.answer("DELETE /networks/b", status=403, value={"message": "b is a pre-defined network"})
    with pytest.raises(EngineError, match="pre-defined"):
        asking.remove_network("b")
    server.answer("DELETE /networks/b", status=204, text="")
    asking.remove_network("b")


def stat(**fields: object) -> str:
    known = {"name": "a", "size": 1, "mode": 420, "mtime": "", "linkTarget": "", **fields}
    return base64.b64encode(json.dumps(known).encode()).decode()


def test_files_of_a_container(server: EngineServer, asking: Engine) -> None:
    """The engine follows links at once: what is read and written is what they lead to."""
    links = {"/etc/a": "/etc/b", "/etc/b": ""}

    def head(handler: Handler, request: Received) -> None:
        if request.query["path"] not in links:
            handler.say(404, b"{}")
            return
        handler.say(200, b"", X_Docker_Container_Path_Stat=stat(linkTarget=links[request.query["path"]]))

    packed, link = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        member = tarfile.TarInfo("b")
        member.size = 3
        archive.addfile(member, io.BytesIO(b"a\xff\n"))
    with tarfile.open(fileobj=link, mode="w") as archive:
        member = tarfile.TarInfo("a")
        member.type, member.linkname = tarfile.SYMTYPE, "../etc/b"
        archive.addfile(member)
    contents = {"/etc/a": link, "/etc/b": packed}
    server.answers["HEAD /containers/c/archive"] = head
    server.answers["GET /containers/c/archive"] = lambda handler, received: handler.say(
        200, contents[received.query["path"]].getvalue()
    )
    server.answer("PUT /containers/c/archive", text="")
    text = asking.read_file("c", "/etc/a")
    assert text == "a\udcff\n"
    assert server.requests[-1].query == {"path": "/etc/b"}
    assert asking.read_file("c", "/etc/c") is None
    assert [asking.link_at("c", path) for path in ("/etc/a", "/etc/b", "/etc/c")] == ["../etc/b", "", ""]
    asking.unpack("c", [engine.Entry("/etc/b", text, 0o600), engine.Entry("/run/x", None, 0o755)])
    with tarfile.open(fileobj=io.BytesIO(server.requests[-1].body)) as archive:
        written, folder = archive.getmembers()
        file = archive.extractfile(written)
        assert file is not None
        assert (server.requests[-1].query, written.name, written.mode) == ({"path": "/"}, "etc/b", 0o600)
        assert file.read() == b"a\xff\n"
        assert (folder.name, folder.isdir(), folder.mode) == ("run/x", True, 0o755)
    packed.write(b"x" * engine.LARGEST_FILE)
    with pytest.raises(EngineError, match=r"^The file /etc/b in the container c is larger than 1048576 bytes\.$"):
        asking.read_file("c", "/etc/a")


def test_the_reason_why_no_file_can_be_looked_for(server: EngineServer, asking: Engine) -> None:
    """The answer to a HEAD has no body, so the engine's words come with another request."""
    server.answer("HEAD /containers/c/archive", status=500, text="")
    server.answer("GET /containers/c/archive", status=500, value={"message": "mkdirat etc/ssh: path escapes"})
    with pytest.raises(EngineError, match=r"^Docker Engine could not look for /etc/a in the container c: mkdirat etc/"):
        asking.has_path("c", "/etc/a")
    server.answer("GET /containers/c/archive", text="what the engine finds this time")
    with pytest.raises(EngineError, match=r"^Docker Engine could not look for /etc/a in the container c: 500 Internal"):
        asking.has_path("c", "/etc/a")


def test_an_image_is_examined_in_a_container_of_nothing_else(server: EngineServer, asking: Engine) -> None:
    """None of its labels is taken for one of ours, and it is removed whatever happens."""
    server.answer("POST /containers/create", status=201, value={"Id": "c1"})
    with pytest.raises(KeyError), asking.image_files("cc-1", "sha256:1", ["/a/", "/a", "b", "/"]) as container:
        raise KeyError(container)
    made = json.loads(server.requests[0].body)
    assert made.pop("Labels") == engine_objects.NO_LABELS
    volumes = [{"Type": "tmpfs", "Target": "/a"}, {"Type": "tmpfs", "Target": "/b"}]
    assert made == {"Image": "sha256:1", "Cmd": ["/"], "HostConfig": {"NetworkMode": "none", "Mounts": volumes}}
    assert [(request.method, request.path) for request in server.requests[1:]] == [("DELETE", "/containers/c1")]


def test_consumption_leaves_out_what_can_be_given_back(server: EngineServer, asking: Engine) -> None:
    used = {"cpu_stats": {"cpu_usage": {"total_usage": 5}}}
    for details, memory in (({"total_inactive_file": 30}, 70), ({"inactive_file": 20}, 80), ({}, 100)):
        server.answer("GET /containers/x/stats", value={**used, "memory_stats": {"usage": 100, "stats": details}})
        assert asking.consumption("x") == (5, memory)
    assert server.requests[-1].query == {"stream": "false", "one-shot": "true"}
    server.answer("GET /containers/x/stats", value={**used, "memory_stats": {}})
    assert asking.consumption("x") is None


FRAMES = b"\x01\0\0\0\0\0\0\x04out\n\x02\0\0\0\0\0\0\x04err\n"
HIJACKED = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"


def test_a_command_in_a_container(server: EngineServer, asking: Engine) -> None:
    server.answer("POST /containers/c/exec", status=201, value={"Id": "e1"})
    server.raw("POST /exec/e1/start", HIJACKED + FRAMES)
    server.answer("GET /exec/e1/json", value={"ExitCode": 3, "Running": False, "Pid": 7})
    assert asking.execute("c", ["ls", "-l"], "root", {"A": "1"}) == (3, "out\n", "err\n")
    assert json.loads(server.requests[0].body) == {
        "User": "root",
        "AttachStdout": True,
        "AttachStderr": True,
        "Cmd": ["ls", "-l"],
        "Env": ["A=1"],
    }
    assert server.requests[1].headers["Upgrade"] == "tcp"
    assert asking.prepare_command("c", ["ls"], "u", "/w", {}) == "e1"
    assert json.loads(server.requests[-1].body)["WorkingDir"] == "/w"
    assert list(asking.run_command("e1")) == [(b"out\n", None), (None, b"err\n")]
    assert asking.command_state("e1") == (False, 7, 3)
    server.answer("POST /exec/e1/start", status=409, value={"message": "container c is not running"})
    with pytest.raises(EngineError, match=r"^Docker Engine could not start a command: container c is not running$"):
        list(asking.run_command("e1"))
    with pytest.raises(EngineError, match=r"^Docker Engine could not run 'ls' in the container c: container c is not"):
        asking.execute("c", ["ls"])


def test_logs(server: EngineServer, asking: Engine) -> None:
    server.raw("GET /containers/c/logs", b"HTTP/1.1 200 OK\r\n\r\n" + FRAMES)
    assert asking.logs("c", 20) == "out\nerr\n"
    assert server.requests[-1].query == {"stdout": "true", "stderr": "true", "tail": "20"}
    assert b"".join(asking.log_stream("c", since="1.5")) == FRAMES
    assert server.requests[-1].query["since"] == "1.5"
    assert (server.requests[-1].query["timestamps"], server.requests[-1].query["tail"]) == ("true", "all")
    with pytest.raises(EngineError, match=r"^Docker Engine could not read the log of x: page not found$"):
        list(asking.log_stream("x"))


def events(*found: dict[str, Any]) -> bytes:
    body = b"".join(b"%x\r\n%s\r\n\r\n" % (len(json.dumps(chunk)) + 2, json.dumps(chunk).encode()) for chunk in found)
    return b"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n"


LOGIN = {"username": "reader", "password": "s3cret", "registry": "registry.example:5000"}


@pytest.mark.parametrize(
    ("reference", "name", "tag"),
    [
        ("busybox", "busybox", "latest"),
        ("registry.example:5000/team/a", "registry.example:5000/team/a", "latest"),
        ("registry.example:5000/team/a:1", "registry.example:5000/team/a", "1"),
        ("team/a@sha256:ab", "team/a", "sha256:ab"),
    ],
)
def test_an_image_is_pulled(server: EngineServer, asking: Engine, reference: str, name: str, tag: str) -> None:
    layer = {"status": "Downloading", "id": "l1", "progressDetail": {"current": 1, "total": 30}}
    server.raw("POST /images/create", events({"status": "Pulling"}, layer, layer, {**layer, "id": "l2"}))
    assert asking.pull_image(reference, LOGIN) == 60
    assert server.requests[0].query == {"fromImage": name, "tag": tag}
    login = json.loads(base64.urlsafe_b64decode(server.requests[0].headers["X-Registry-Auth"]))
    assert login == {"username": "reader", "password": "s3cret", "serveraddress": "registry.example:5000"}


def test_a_pull_that_fails_does_not_show_the_password(server: EngineServer, asking: Engine) -> None:
    server.raw("POST /images/create", events({"status": "Pulling"}, {"error": "s3cret is wrong"}))
    with pytest.raises(EngineError, match=r"^Docker Engine could not pull the image a: \*{8} is wrong$"):
        asking.pull_image("a", LOGIN)
    server.answer("POST /images/create", status=500, value={"message": "s3cret is wrong"})
    with pytest.raises(EngineError, match=r"^Docker Engine could not pull the image a: \*{8} is wrong$"):
        asking.pull_image("a", LOGIN)
    server.raw("POST /images/create", events({"status": "Pulling"})[:-5])
    with pytest.raises(EngineError, match=r"^Docker Engine could not pull the image a: it closed the connection"):
        asking.pull_image("a", LOGIN)


def test_the_registry_is_asked(server: EngineServer, asking: Engine) -> None:
    server.answer("GET /distribution/r.example/a:1/json", value={"Descriptor": {"digest": "sha256:ab"}})
    assert asking.resolve_image("r.example/a:1", LOGIN) == "sha256:ab"
    assert "X-Registry-Auth" in server.requests[0].headers
    with pytest.raises(EngineError, match="could not ask the registry for the image a: page not found"):
        asking.resolve_image("a", LOGIN)


def test_without_a_login_that_of_the_host_counts(
    server: EngineServer, asking: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    server.raw("POST /images/create", events())
    asking.pull_image("r.example/a:1")
    assert "X-Registry-Auth" not in server.requests[0].headers
    kept = {"auths": {"r.example": {"auth": base64.b64encode(b"root:pw").decode()}}}
    (tmp_path / "config.json").write_text(json.dumps(kept), encoding="utf-8")
    asking.pull_image("r.example/a:1")
    login = json.loads(base64.urlsafe_b64decode(server.requests[1].headers["X-Registry-Auth"]))
    assert login == {"username": "root", "password": "pw", "serveraddress": "r.example"}
    (tmp_path / "config.json").write_text('{"credsStore": "of-nobody"}', encoding="utf-8")
    with pytest.raises(EngineError, match=r"^Docker Engine could not pull the image a: The program 'docker-cred"):
        asking.pull_image("a")


@pytest.mark.parametrize(
    ("text", "is_of_host"),
    [("mkdir /var/lib/docker/x: no space left on device", True), ("No such image: busybox", False)],
)
def test_a_full_disk_is_told_apart_from_what_is_wrong_with_a_request(
    server: EngineServer, asking: Engine, text: str, is_of_host: bool
) -> None:
    server.answer("POST /containers/c/start", status=500, value={"message": text})
    with pytest.raises(EngineError, match="could not start the container c") as raised:
        asking.start_container("c")
    assert raised.value.is_of_host == is_of_host


def test_archives_of_images(server: EngineServer, asking: Engine) -> None:
    server.raw(
        "POST /images/load",
        events({"stream": "Loaded image: a:1\n"}, {"status": "x"}, {"stream": "Loaded image ID: sha256:ab\n"}),
    )
    assert asking.load_images(iter([b"ab", b"c"])) == ["a:1", "sha256:ab"]
    assert server.requests[0].body == b"abc"
    server.raw("POST /images/load", events({"error": "unexpected EOF\n"}))
    with pytest.raises(EngineError, match=r"^Docker Engine could not load the archive: unexpected EOF$"):
        asking.load_images(iter([b"ab"]))
    server.answer("GET /images/sha256:ab/get", text="x" * 1_000_000)
    assert b"".join(asking.save_image("sha256:ab")) == b"x" * 1_000_000
    server.raw("GET /images/sha256:ab/get", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab")
    with pytest.raises(EngineError, match=r"^Docker Engine could not read the image sha256:ab: it closed the"):
        list(asking.save_image("sha256:ab"))


def test_an_engine_that_maps_users(server: EngineServer, asking: Engine) -> None:
    for options, expected in ((["name=seccomp,profile=default", "name=userns"], True), (["name=cgroupns"], False)):
        known = {"ServerVersion": "26.1.5", "Architecture": "x86_64", "NCPU": 2, "MemTotal": 1}
        server.answer("GET /info", value={**known, "SecurityOptions": options})
        assert asking.info().remaps_users is expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [(["name=seccomp,profile=builtin", "name=rootless"], True), (["name=cgroupns"], False), (None, False)],
)
def test_an_engine_without_the_rights_of_root(
    options: list[str] | None, expected: bool, server: EngineServer, asking: Engine
) -> None:
    server.answer("GET /info", value={"SecurityOptions": options})
    assert asking.is_rootless() is expected


def test_whose_engine_it_is_and_what_it_sees(
    server: EngineServer, asking: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "ENGINE_PID", str(tmp_path / "pid"))
    assert asking.process() == 0, "this process listens, and is no engine"
    asking.require_sight("/nowhere/at/all")
    (tmp_path / "pid").write_text(f"{os.getpid()}\n", encoding="ascii")
    assert asking.process() == os.getpid()
    asking.require_sight("/usr/local/lib/not-there-yet")
    monkeypatch.setattr(engine, "ENGINE_PID", str(tmp_path / "none"))
    monkeypatch.setattr(engine, "ENGINE_PROGRAM", Path("/proc/self/comm").read_text(encoding="utf-8").strip())
    assert asking.process() == os.getpid()


@pytest.mark.parametrize(
    ("api", "options", "filters"),
    [
        ("1.41", ["name=apparmor", "name=seccomp,profile=default"], True),
        ("1.41", ["name=seccomp,profile=/etc/docker/own.json"], True),
        ("1.41", ["name=apparmor"], False),
        ("1.41", None, False),
        ("1.42", ["name=seccomp,profile=builtin"], False),
    ],
)
def test_older_engines_keep_processes_from_each_other_s_memory(
    server: EngineServer, api: str, options: list[str] | None, filters: bool
) -> None:
    server.version = api
    server.answer("GET /info", value={"SecurityOptions": options})
    assert Engine.connect(path=str(server.path)).filters_process_reads() is filters

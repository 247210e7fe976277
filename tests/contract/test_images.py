# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Images that come to a host: what was asked for, or nothing, and whatever has a name keeps it."""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import image_stream
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import Engine
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine_objects import Image
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.calls import (
    ImageTransfer,
    Load,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.images import ArchivedImage
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import SessionError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.image_names import full_name
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.images import load, take_in
from ansible_collections.cluster_compute.session.plugins.plugin_utils.image_archive import read_archive
from ansible_collections.cluster_compute.session.tests.support.contract.modules import run
from ansible_collections.cluster_compute.session.tests.support.contract.on_host import BUSYBOX, output_of, until
from ansible_collections.cluster_compute.session.tests.support.contract.registry import having, refusing

pytestmark = pytest.mark.every_engine

NAME = "cluster-compute/other:1"
TOKEN = secrets.token_hex(8)
FREE = "127.0.0.1:9"
"""Where no registry listens."""


def call(check_mode: bool = False, **arguments: Any) -> dict[str, Any]:
    """Perform the call that moves images."""
    return run("session_images", arguments, check_mode)


def place_of(server: dict[str, Any]) -> dict[str, Any]:
    """Return what a receiver is told of the answer of a server."""
    return {key: server[key] for key in ("port", "fingerprint")}


def image_id(engine: Engine, name: str) -> str:
    """Return what an engine has by a name; nothing where it has none."""
    found = engine.inspect_image(name)
    return "" if found is None else found.id


def answers(port: int) -> bool:
    """Tell whether anything listens on a port of this host."""
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


def make_another() -> None:
    """Make an image of the name NAME, which no host has."""
    made = output_of("docker", "create", BUSYBOX).strip()
    output_of("docker", "commit", "--change", "LABEL other=1", made, NAME)
    output_of("docker", "rm", made)


@pytest.fixture
def images(engine: Engine) -> Iterator[dict[str, str]]:
    """Compare the engine's images before a test with those after it."""
    before = engine.image_names()
    yield before
    assert engine.image_names() == before


@pytest.fixture
def archive(images: dict[str, str], engine: Engine, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Save an image that the host does not have any more; give its id, name and file."""
    make_another()
    path = tmp_path / "image.tar"
    output_of("docker", "save", "-o", str(path), NAME)
    found = {"id": image_id(engine, NAME), "path": str(path)}
    output_of("docker", "rmi", NAME)
    yield found
    for name in engine.image_names().keys() - images.keys():
        engine.remove_image(name)


def test_an_archive_is_loaded_and_named(archive: dict[str, str], engine: Engine) -> None:
    given: dict[str, Any] = {
        "state": "loaded",
        "archive": archive["path"],
        "transfer": {"image": archive["id"], "reference": NAME},
        "allowed": [archive["id"]],
    }
    assert call(True, **given)["changed"] is True
    assert image_id(engine, NAME) == ""
    path = Path(archive["path"])
    size = path.stat().st_size
    assert call(**given)["bytes"] == size
    assert image_id(engine, NAME) == archive["id"]
    assert not path.exists()


def test_an_archive_that_was_packed_again_is_loaded(archive: dict[str, str], engine: Engine, tmp_path: Path) -> None:
    """Its members begin with "./", as those of ``tar -c .`` do."""
    folder = tmp_path / "unpacked"
    folder.mkdir()
    output_of("tar", "-C", str(folder), "-xf", archive["path"])
    output_of("tar", "-C", str(folder), "-cf", archive["path"], ".")
    given: dict[str, Any] = {
        "transfer": {"image": archive["id"], "reference": NAME},
        "allowed": [archive["id"]],
    }
    call(state="loaded", archive=archive["path"], **given)
    assert image_id(engine, NAME) == archive["id"]


def test_what_was_not_asked_for_is_removed_and_names_are_given_back(archive: dict[str, str], engine: Engine) -> None:
    # The archive brings another image by a name that the host has already.
    output_of("docker", "tag", BUSYBOX, NAME)
    wanted = "sha256:" + "1" * 64
    with pytest.raises(
        SessionError, match=f"{archive['id'][:19]} came where {wanted[:19]} was to come; it was removed"
    ):
        call(
            state="loaded",
            archive=archive["path"],
            transfer={"image": wanted, "reference": NAME},
            allowed=[wanted],
        )
    assert image_id(engine, NAME) == image_id(engine, BUSYBOX)
    assert image_id(engine, archive["id"]) == ""


def test_an_archive_that_holds_less_is_told(archive: dict[str, str]) -> None:
    wanted = "sha256:" + "1" * 64
    with pytest.raises(SessionError, match=f"The archive was loaded, but the engine has no {wanted[:19]}"):
        call(
            state="loaded",
            archive=archive["path"],
            transfer={"image": wanted, "reference": NAME},
            allowed=[wanted, archive["id"]],
        )


def test_what_is_no_archive_is_told(images: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "broken.tar"
    path.write_bytes(b"no archive" * 1000)
    given: dict[str, Any] = {"transfer": {"image": "sha256:" + "1" * 64, "reference": NAME}, "allowed": []}
    with pytest.raises(SessionError, match="load"):
        call(state="loaded", archive=str(path), **given)


def test_a_transfer_goes_from_server_to_receiver(archive: dict[str, str], engine: Engine) -> None:
    own = image_id(engine, BUSYBOX)
    server = call(
        state="serving",
        transfer={"image": own, "reference": BUSYBOX},
        address="127.0.0.1",
        ports=[18480, 18489],
        token=TOKEN,
    )
    assert 18480 <= server["port"] <= 18489
    given: dict[str, Any] = {"address": "127.0.0.1", "server": place_of(server)}
    # In check mode the receiver does not connect, and the server goes on waiting.
    dry = call(True, state="received", transfer={"image": archive["id"], "reference": NAME}, token=TOKEN, **given)
    assert (dry["changed"], dry["bytes"], image_id(engine, NAME)) == (True, 0, "")
    # The receiver wants another image than the server sends: what the engine has by that id decides.
    with pytest.raises(SessionError, match=f"was loaded, but|came where {archive['id'][:19]} was to come"):
        call(state="received", transfer={"image": archive["id"], "reference": NAME}, token=TOKEN, **given)
    assert image_id(engine, NAME) == ""
    assert image_id(engine, BUSYBOX) == own
    # What is here already is named and not sent.
    done = call(state="received", transfer={"image": own, "reference": NAME}, token=TOKEN, **given)
    assert done["bytes"] == 0
    assert image_id(engine, NAME) == own


def test_a_server_sends_nothing_without_the_token_and_can_be_ended(
    archive: dict[str, str], engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_stream, "CONNECT", 1)
    own = image_id(engine, BUSYBOX)
    given: dict[str, Any] = {"address": "127.0.0.1", "transfer": {"image": own, "reference": BUSYBOX}}
    server = call(state="serving", ports=[18480, 18489], token=TOKEN, **given)
    with pytest.raises(SessionError):
        call(
            state="received",
            address="127.0.0.1",
            transfer={"image": archive["id"], "reference": NAME},
            token=secrets.token_hex(8),
            server=server,
        )
    call(state="ended", servers=[server["server"]])
    deadline = time.monotonic() + 10
    while answers(server["port"]):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert call(state="ended", servers=[server["server"]])["ended"] == 0


def test_a_transfer_from_another_store_is_known_by_its_content(images: dict[str, str], engine: Engine) -> None:
    """There the image has an id that this engine knows nothing of."""
    own, elsewhere = image_id(engine, BUSYBOX), "sha256:" + "1" * 64
    found = engine.inspect_image(own)
    assert found is not None
    content = found.content
    served: dict[str, Any] = {
        "transfer": {"image": own, "reference": NAME},
        "address": "127.0.0.1",
        "ports": [18480, 18489],
    }
    try:
        for sent, right in ((content, True), ("another", False)):
            server = call(state="serving", token=TOKEN, **served)
            transfer = {"image": elsewhere, "reference": NAME, "content": sent}
            given: dict[str, Any] = {
                "transfer": transfer,
                "address": "127.0.0.1",
                "server": place_of(server),
                "token": TOKEN,
            }
            if right:
                assert call(state="received", **given)["image"] == own
                assert image_id(engine, NAME) == own
                output_of("docker", "rmi", NAME)
            else:
                with pytest.raises(SessionError, match=f"{own[:19]} came where {elsewhere[:19]} was to come"):
                    call(state="received", **given)
                assert image_id(engine, NAME) == ""
    finally:
        for name in engine.image_names().keys() - images.keys():
            engine.remove_image(name)


@pytest.fixture
def second(engine: Engine) -> Iterator[Engine]:
    """Run a second engine here, which keeps images in the store of containerd if it knows that one."""
    place = Path("/run/second-engine")
    has_both = engine.api_version >= (1, 44)
    place.mkdir()
    settings, path = place / "daemon.json", str(place / "docker.sock")
    settings.write_text(json.dumps({"features": {"containerd-snapshotter": True}}), encoding="utf-8")
    options = {
        "config-file": settings,
        "data-root": place / "data",
        "exec-root": place / "exec",
        "pidfile": place / "pid",
        "host": f"unix://{path}",
        "storage-driver": "native" if has_both else "vfs",
        "bridge": "none",
        "iptables": "false",
    }
    # In a network of its own, as it would take away the bridge of the host's engine.
    argv = ["unshare", "--net", "dockerd", *(f"--{name}={value}" for name, value in options.items())]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            assert until(lambda: answers_at(path), 60)
            made = Engine.connect(path=path)
            assert made.info().image_store == ("containerd" if has_both else "docker")
            yield made
        finally:
            process.terminate()
    shutil.rmtree(place)


def answers_at(path: str) -> bool:
    """Tell whether an engine answers behind a socket."""
    try:
        return Engine.connect(path=path).api_version != (0, 0)
    except SessionError:
        return False


def test_an_image_goes_to_the_store_of_another_engine_and_back(
    images: dict[str, str], engine: Engine, second: Engine
) -> None:
    """In the other kind of store its id is another one, and its content is the same."""
    own = engine.inspect_image(BUSYBOX)
    assert own is not None
    there = take_in(second, engine.save_image(own.id), own.id, NAME, [], own.content)
    found = second.inspect_image(NAME)
    assert found is not None
    assert (found.id, found.content) == (there, own.content)
    assert (there != own.id) == (second.info().image_store != engine.info().image_store)
    try:
        assert take_in(engine, second.save_image(there), there, NAME, [], own.content) == own.id
        assert image_id(engine, NAME) == own.id
    finally:
        engine.remove_image(NAME)


def loaded(engine: Engine, path: Path, image: ArchivedImage) -> str:
    """Load a copy of an archive, as a launch does, and return the image's id in this engine."""
    is_classic = engine.info().image_store == "docker"
    content = "" if is_classic else image.contents[image.architecture]
    archive = str(shutil.copy(path, path.parent / "on its way.tar"))
    transfer = ImageTransfer(NAME, image.id, content=content)
    allowed = (full_name(NAME), image.id, *image.contents.values())
    return load(engine, Load(transfer, archive, allowed)).image or image.id


def saved(engine: Engine, folder: Path) -> tuple[Image, Path]:
    """Return an image that the engine has, and an archive of it."""
    own = engine.inspect_image(BUSYBOX)
    assert own is not None
    path = folder / "image.tar"
    path.write_bytes(b"".join(engine.save_image(own.id)))
    return own, path


def test_an_archive_goes_to_the_store_of_any_engine(
    images: dict[str, str], engine: Engine, second: Engine, tmp_path: Path
) -> None:
    """What the controller reads in it is what engines make of it, and one archive has the same id each time."""
    own, path = saved(engine, tmp_path)
    archived = read_archive(str(path))[own.id]
    assert archived.contents == {own.architecture: own.content}
    there = loaded(second, path, archived)
    assert (there != own.id) == (second.info().image_store != engine.info().image_store)
    found = second.inspect_image(NAME)
    assert found is not None
    assert (found.id, found.content) == (there, own.content)
    back = tmp_path / "back.tar"
    back.write_bytes(b"".join(second.save_image(there)))
    assert read_archive(str(back))[own.id] == archived
    second.remove_image(NAME)
    assert loaded(second, path, archived) == there


def several(folder: Path, packed: Path) -> tuple[Path, dict[str, ArchivedImage]]:
    """Make of an archive another one that has its image for another machine as well (OCI image layout)."""
    unpacked = folder / "several"
    output_of("tar", "--one-top-level", f"--directory={folder}", "--extract", "--file", str(packed))
    (folder / packed.stem).rename(unpacked)
    (entry,) = json.loads((unpacked / "manifest.json").read_text(encoding="utf-8"))
    blobs = unpacked / "blobs" / "sha256"
    blobs.mkdir(parents=True, exist_ok=True)

    def blob(content: bytes, kind: str) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        (blobs / digest).write_bytes(content)
        return {
            "mediaType": f"application/vnd.oci.image.{kind}+json",
            "digest": f"sha256:{digest}",
            "size": len(content),
        }

    layers = []
    for name in entry["Layers"]:
        content = (unpacked / name).read_bytes()
        layers.append({**blob(content, "layer"), "mediaType": "application/vnd.oci.image.layer.v1.tar"})
    own = json.loads((unpacked / entry["Config"]).read_text(encoding="utf-8"))
    other = {"amd64": "arm64", "arm64": "amd64"}[own["architecture"]]
    manifests = []
    for architecture in (own["architecture"], other):
        configuration = blob(json.dumps({**own, "architecture": architecture}).encode(), "config.v1")
        parts = {"schemaVersion": 2, "config": configuration, "layers": layers}
        platform = {"architecture": architecture, "os": "linux"}
        manifests.append({**blob(json.dumps(parts).encode(), "manifest.v1"), "platform": platform})
    index = blob(json.dumps({"schemaVersion": 2, "manifests": manifests}).encode(), "index.v1")
    name = {"io.containerd.image.name": f"docker.io/{NAME}", "org.opencontainers.image.ref.name": "1"}
    top = {"schemaVersion": 2, "manifests": [{**index, "annotations": name}]}
    (unpacked / "index.json").write_text(json.dumps(top), encoding="utf-8")
    (unpacked / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}', encoding="utf-8")
    configuration = json.loads((blobs / manifests[0]["digest"][7:]).read_text(encoding="utf-8"))["config"]["digest"]
    kept = [f"blobs/{layer['digest'].replace(':', '/')}" for layer in layers]
    entry = {"Config": f"blobs/{configuration.replace(':', '/')}", "RepoTags": [NAME], "Layers": kept}
    (unpacked / "manifest.json").write_text(json.dumps([entry]), encoding="utf-8")
    path = Path(shutil.make_archive(str(folder / "several"), "tar", unpacked))
    return path, read_archive(str(path))


def test_an_archive_for_several_machines_is_loaded_for_the_own(
    images: dict[str, str], engine: Engine, second: Engine, tmp_path: Path
) -> None:
    own, packed = saved(engine, tmp_path)
    path, found = several(tmp_path, packed)
    image = found[full_name(NAME)]
    assert image.architecture == own.architecture
    assert image.contents[own.architecture] == own.content
    assert set(image.contents) == {"amd64", "arm64"}
    make_another()
    older = engine.inspect_image(NAME)
    assert older is not None
    sent = b"".join(engine.save_image(older.id))
    for loading in (engine, second):
        old = take_in(loading, [sent], older.id, NAME, [older.id], older.content)
        there = loaded(loading, path, image)
        try:
            assert loading.inspect_image(old) is not None, "a session may run it"
            known = loading.inspect_image(NAME)
            assert known is not None
            assert (known.id, known.content, known.architecture) == (there, own.content, own.architecture)
        finally:
            loading.remove_image(NAME)
            loading.remove_image(old)


def test_what_cannot_be_served_is_told(images: dict[str, str], engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_stream, "PORT_WAIT", 0.1)
    missing = {"image": "sha256:" + "1" * 64, "reference": NAME}
    with pytest.raises(SessionError, match="does not have the image sha256:111111111111 any more"):
        call(state="serving", transfer=missing, address="127.0.0.1", token=TOKEN)
    own = {"image": image_id(engine, BUSYBOX), "reference": BUSYBOX}
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 18480))
        taken.listen()
        with pytest.raises(SessionError, match=r"every port of cluster_compute_image_ports \(18480-18480\)"):
            call(state="serving", transfer=own, address="127.0.0.1", ports=[18480, 18480], token=TOKEN)


def test_a_registry_that_is_away_is_told_for_each_image(images: dict[str, str]) -> None:
    references = [f"{FREE}/one:1", f"{FREE}/two:2"]
    resolved = call(state="resolved", images=references)
    assert resolved["digests"] == {}
    assert (set(resolved["problems"]), resolved["denied"]) == (set(references), [])
    pulls = [
        {"reference": reference, "digest": reference.rpartition(":")[0] + "@sha256:" + "1" * 64}
        for reference in references
    ]
    assert call(True, state="pulled", pulls=pulls)["changed"] is True
    pulled = call(state="pulled", pulls=pulls, logins=json.dumps({}))
    assert (pulled["changed"], pulled["pulled"], pulled["denied"]) == (False, {}, [])
    assert set(pulled["problems"]) == set(references)


LOGIN = {"username": "somebody", "password": "only-for-this-test"}
BASIC, TOKEN_SERVER = 'Basic realm="x"', 'Bearer realm="http://HERE/token",service="x"'


@pytest.mark.parametrize(
    ("answer", "is_denied"),
    [
        ({"status": 404, "code": "MANIFEST_UNKNOWN"}, True),
        ({"status": 404, "code": "NAME_UNKNOWN"}, True),
        ({"status": 403, "code": "DENIED"}, True),
        ({"status": 401, "code": "UNAUTHORIZED"}, True),
        ({"status": 401, "code": "UNAUTHORIZED", "challenge": BASIC}, True),
        ({"status": 401, "code": "UNAUTHORIZED", "challenge": TOKEN_SERVER}, True),
        ({"status": 401, "code": "UNAUTHORIZED", "challenge": TOKEN_SERVER, "token_status": 503}, False),
        ({"status": 503, "code": "UNAVAILABLE"}, False),
        ({"status": 503}, False),
        ({"status": 502, "everywhere": True}, False),
        ({"status": 500, "code": "UNKNOWN"}, False),
        ({"status": 429, "code": "TOOMANYREQUESTS"}, False),
        ({"status": 429}, False),
    ],
)
def test_a_registry_that_refuses_is_told_from_one_that_cannot_answer(
    images: dict[str, str], answer: dict[str, Any], is_denied: bool
) -> None:
    with refusing(**answer) as registry:
        name = f"{registry}/train"
        pulls = [{"reference": f"{name}:1", "digest": f"{name}@sha256:{'1' * 64}"}]
        for logins in (json.dumps({}), json.dumps({registry: LOGIN})):
            for found in (
                call(state="resolved", images=[f"{name}:1"], logins=logins),
                call(state="pulled", pulls=pulls, logins=logins),
            ):
                assert set(found["problems"]) == {f"{name}:1"}, (logins, found)
                assert found["denied"] == ([f"{name}:1"] if is_denied else []), (logins, found)
                assert LOGIN["password"] not in str(found)


def test_an_image_that_a_registry_has_for_other_machines_alone_never_comes(images: dict[str, str]) -> None:
    with having("s390x") as (registry, digest):
        name = f"{registry}/train"
        assert call(state="resolved", images=[f"{name}:1"])["digests"] == {f"{name}:1": digest}
        pulled = call(state="pulled", pulls=[{"reference": f"{name}:1", "digest": f"{name}@{digest}"}])
        assert pulled["denied"] == [f"{name}:1"], pulled

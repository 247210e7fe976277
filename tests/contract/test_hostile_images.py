# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an image can bring, made by somebody who wants more than a container of their own."""

from __future__ import annotations

import io
import json
import re
import shutil
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import Engine
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine_objects import (
    LABEL_CODE,
    LABEL_CPUS,
    LABEL_DEVICES,
    LABEL_DISK,
    LABEL_MEMORY,
    LABEL_RECORD,
    LABEL_REPLICA,
    LABEL_SESSION_ID,
    LABEL_SESSION_NAME,
    LABEL_SPEC,
    LABEL_VOLUME,
    NO_LABELS,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import Record, started
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import (
    InvalidInput,
    SessionError,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import labels
from ansible_collections.cluster_compute.session.tests.support.contract.on_host import (
    BUSYBOX,
    HERE,
    INVENTORY,
    Host,
    Session,
    has_ended,
    output_of,
    things,
)

Make = Callable[..., str]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save the image that all others are made of."""
    path = tmp_path_factory.mktemp("saved") / "busybox.tar"
    output_of("docker", "save", "-o", str(path), BUSYBOX)
    return path


@pytest.fixture
def image_of(host: Host, saved: Path, tmp_path: Path) -> Iterator[Make]:
    """Return what makes an image whose configuration says what it likes; it returns its name. All go after the test."""
    made: list[str] = []

    def make(**config: Any) -> str:
        name = f"cluster-compute/hostile{len(made)}:latest"
        target = tmp_path / "hostile.tar"
        with tarfile.open(saved) as archive, tarfile.open(target, "w") as other:
            (entry,) = json.load(archive.extractfile("manifest.json"))  # type: ignore[arg-type]
            plain = json.load(archive.extractfile(entry["Config"]))  # type: ignore[arg-type]
            plain["config"] = {**plain["config"], **config}
            manifest = [{**entry, "Config": "hostile.json", "RepoTags": [name]}]
            for path, content in (("hostile.json", plain), ("manifest.json", manifest)):
                text = json.dumps(content).encode()
                member = tarfile.TarInfo(path)
                member.size = len(text)
                other.addfile(member, io.BytesIO(text))
            for layer in entry["Layers"]:
                other.addfile(archive.getmember(layer), archive.extractfile(layer))
        output_of("docker", "load", "-i", str(target))
        made.append(name)
        return name

    yield make
    host.clear()
    output_of("docker", "rmi", "-f", *made)


def hostile_labels(record: Record, **more: str) -> dict[str, str]:
    """Return all labels of ours as somebody would set them who wants to be this session's main1 and everything."""
    return {
        LABEL_SESSION_ID: record.id,
        LABEL_SESSION_NAME: record.name,
        LABEL_REPLICA: "main1",
        LABEL_SPEC: "sha256:0",
        LABEL_CPUS: "4000",
        LABEL_MEMORY: str(2**31),
        LABEL_DEVICES: '{"gpu":["/dev/sda"]}',
        LABEL_DISK: "1",
        LABEL_VOLUME: record.id,
        LABEL_RECORD: labels.pack(record),
        LABEL_CODE: labels.code_of(labels.pack(record), bytes(32)),
        **more,
    }


def with_image(session: Session, image: str) -> Session:
    """Let a planned session run another image than it was planned with, whose labels know its id."""
    found = session.owner.engine.inspect_image(image)
    assert found is not None
    plan = json.loads(json.dumps(session.plan))
    for pinned in plan["images"].values():
        pinned["ids"] = dict.fromkeys(pinned["ids"], found.id)
    session.record = replace(session.record, plan=plan)
    return session


def forged(record: Record) -> Record:
    """Return the record of eve's that mounts the whole host."""
    plan = json.loads(json.dumps(record.plan))
    mount = {
        "source": "/",
        "target": "/host",
        "read_only": False,
        "volume": None,
        "driver": None,
        "driver_options": {},
        "owner": None,
        "mode": None,
        "shared": None,
    }
    plan["request"]["mounts"] = [mount]
    for replica in plan["replicas"]:
        replica["mounts"], replica["capabilities"] = [mount], ["SYS_ADMIN"]
    plan["hosts"][HERE]["mount_roots"] = ["/"]
    plan["hosts"][HERE]["data"] = {"/": {"filesystem": "overlay", "proof": None}}
    return replace(started(record), owner="eve", revision=999, request=plan["request"], plan=plan)


def lose_state(host: Host) -> None:
    """Lose the host's state directory."""
    shutil.rmtree(host.state.root / "sessions")
    (host.state.root / "ledger.json").unlink()


@pytest.mark.every_engine
def test_no_label_of_an_image_reaches_a_replica(host: Host, image_of: Make) -> None:
    session = host.plan(size=2)
    with_image(session, image_of(Labels=hostile_labels(forged(session.record)))).start()
    for name, container in session.containers().items():
        held = container["Config"]["Labels"]
        assert held.keys() == NO_LABELS.keys()
        assert [held[key] for key in (LABEL_DISK, LABEL_VOLUME, LABEL_RECORD, LABEL_CODE)] == [""] * 4
        assert (held[LABEL_SESSION_ID], held[LABEL_REPLICA]) == (session.id, name)
        assert (held[LABEL_CPUS], held[LABEL_DEVICES]) == ("500", "{}")


@pytest.mark.every_engine
def test_nobody_becomes_root_by_a_label_where_the_state_is_lost(host: Host, image_of: Make) -> None:
    session = host.plan(size=2)
    with_image(session, image_of(Labels=hostile_labels(forged(session.record)))).start()
    lose_state(host)
    with pytest.raises(SessionError, match=r"It belongs to somebody\. You are eve\."):
        session.remove(asker="eve", session_id=None, session_name="demo")
    session.repair(public_keys={})
    assert session.files.read_record() == session.record
    for container in session.containers().values():
        assert not [mount for mount in container["Mounts"] if mount["Destination"] == "/host"]
        assert "SYS_ADMIN" not in container["HostConfig"]["CapAdd"]


def test_nobody_becomes_root_by_the_copy_of_another_host(host: Host) -> None:
    session = host.launch(size=2)
    with pytest.raises(SessionError, match="Session demo: The plan") as error:
        session.repair(records={session.id: forged(session.record)})
    assert "capabilities is" in str(error.value)
    assert session.files.read_record() == session.record
    assert session.repair()["actions"] == []


def test_no_folder_of_a_site_shows_the_host_s_own_secrets(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    key = host.state.label_key_file
    for root in (host.state.root, host.state.root.parent, key, Path("/"), Path("/var/run"), Path("/etc")):
        monkeypatch.setitem(INVENTORY, "cluster_compute_mount_roots", [str(root)])
        with pytest.raises(InvalidInput, match="would show sessions"):
            host.plan(mounts=[f"{root}:/mnt"])
    root = host.folder / "data"
    root.mkdir()
    monkeypatch.setitem(INVENTORY, "cluster_compute_mount_roots", [str(root)])
    assert host.plan(mounts=[f"{root}:/mnt"]).plan["hosts"][HERE]["mount_roots"] == [str(root)]
    engine = host.engine.info().root
    monkeypatch.setitem(INVENTORY, "cluster_compute_mount_roots", [engine])
    with pytest.raises(InvalidInput, match="would show the session"):
        host.plan(mounts=[f"{engine}/volumes:/mnt"])


def test_what_an_earlier_release_made_is_told_and_left_as_it_is(host: Host) -> None:
    """Its labels have no code; those of which the key is lost are none the better."""
    session = host.launch(size=2)
    before = {name: found["State"]["StartedAt"] for name, found in session.containers().items()}
    lose_state(host)
    key = host.state.make_label_key()
    host.state.label_key_file.unlink()
    for check_mode in (True, False):
        with pytest.raises(
            SessionError, match=r"This host has lost its record\. The network cc-\S*-egress has"
        ) as error:
            session.repair(check_mode, public_keys={})
        assert str(host.state.label_key_file) in str(error.value)
    after = session.containers()
    assert {name: found["State"]["StartedAt"] for name, found in after.items()} == before
    assert all(found["State"]["Running"] for found in after.values())
    with pytest.raises(SessionError, match=r"Nobody knows any more whose it is\."):
        session.remove(asker="somebody", session_id=None, session_name="demo")
    host.state.label_key_file.write_text(key.hex(), encoding="ascii")
    session.repair(public_keys={})
    assert session.files.read_record() == session.record


@pytest.mark.every_engine
def test_a_container_of_others_is_no_replica_whatever_its_image_says(
    host: Host, image_of: Make, engine: Engine
) -> None:
    session = host.launch(size=2)
    image = image_of(Labels=hostile_labels(forged(session.record)), Volumes={"/etc/cluster-compute": {}})
    output_of("docker", "run", "-d", "--name", "not-ours", image, "sleep", "8888")
    try:
        found = session.call("host_info", session_name="demo")["host"]
        assert {entry["name"] for entry in found["containers"]} == {"demo-main1", "demo-sub1"}
        done = session.call("replica_exec", session_name="demo", replica="main1", command=["hostname"])
        assert done["stdout"] == "main1\n"
        lose_state(host)
        session.repair(public_keys={})
        assert session.files.read_record() == session.record
        session.remove(undo=True)
        assert not has_ended("not-ours")
    finally:
        output_of("docker", "rm", "-fv", "not-ours")


@pytest.mark.every_engine
@pytest.mark.parametrize(
    "config",
    [
        {
            "StopSignal": "SIGSTOP",
            "ExposedPorts": {"22/tcp": {}, "1-65535/tcp": {}, "53/udp": {}},
            "OnBuild": ["RUN false", "VOLUME /etc/cluster-compute/ssh"],
        },
        {
            "StopSignal": "nonsense",
            "Env": ["PATH=/bin:/a\nid >/tmp/x;$(id)`id`'\"", "HOME=/etc/cluster-compute/../..", "A=b\nPort 1", "B"],
            "Healthcheck": {"Test": ["CMD", "false"], "Interval": 1_000_000, "Retries": 1},
        },
        {
            "Volumes": {
                "/etc": {},
                "/opt": {},
                "/etc/cluster-compute": {},
                "/opt/cluster-compute/": {},
            },
            "Hostname": "x",
            "Domainname": "y",
            "MacAddress": "02:00:00:00:00:01",
            "NetworkDisabled": True,
            "Tty": True,
        },
    ],
    ids=lambda config: "+".join(config),
)
def test_a_session_works_and_ends_whatever_else_its_image_brings(
    config: dict[str, Any], host: Host, image_of: Make, engine: Engine
) -> None:
    before = things(engine)
    session = host.launch(size=2, image=image_of(**config))
    assert session.run_in("main1", "/opt/cluster-compute/bin/ssh", "sub1", "/bin/hostname") == "sub1\n"
    assert session.run_in("main1", "/bin/sh", "-lc", "/bin/hostname") == "main1\n"
    ports = session.call("host_info", session_name="demo")["host"]["ports"]
    assert not [port for port in ports if port["port"] == 53]
    for found in session.containers().values():
        assert not [binding for binding in (found["NetworkSettings"]["Ports"] or {}).values() if binding]
    assert session.repair()["actions"] == []
    session.remove(undo=True)
    assert things(engine) == before


REFUSED: dict[str, list[tuple[Any, str]]] = {
    "Volumes": [
        ({"/etc/cluster-compute/ssh/": {}}, "has a volume at '/etc/cluster-compute/ssh', which is the session"),
        ({"/opt//cluster-compute/bin": {}}, "has a volume at '/opt/cluster-compute/bin'"),
        ({"/etc/passwd": {}}, "has a volume at '/etc/passwd'"),
        ({"/proc": {}}, "has a volume at '/proc'"),
    ],
    "User": [
        ("²", "The image's user '²' is not in its /etc/passwd"),
        ("4294967296", "a number up to 2147483647"),
        ("9" * 5000, "a number up to 2147483647"),
        ("1:99999999999999", "The image's user '1:99999999999999' is not"),
        ("-1", "The image's user '-1' is not"),
    ],
}


@pytest.mark.every_engine
@pytest.mark.parametrize("key", REFUSED)
def test_what_no_session_can_be_made_of_is_refused_by_name(
    key: str, host: Host, image_of: Make, engine: Engine
) -> None:
    for value, reason in REFUSED[key]:
        session = host.held(size=2, image=image_of(**{key: value}))
        before = things(engine)
        with pytest.raises(SessionError, match=re.escape(reason)):
            session.bring("started")
        assert things(engine) == before, value
        session.remove(undo=True)

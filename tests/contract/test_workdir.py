# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The working directory of a session: from the controller to a host, to another one, and into each replica."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.workdir import WORK
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import SessionError
from ansible_collections.cluster_compute.session.plugins.plugin_utils import workdir
from ansible_collections.cluster_compute.session.tests.support.contract.on_host import BUSYBOX, Host, output_of

TOKEN = "t" * 64
LOOK = "pwd; cat train.py lib/util.py; stat -c '%u:%g %a %n' . run.sh lib; cat large | sha256sum"


@pytest.fixture
def code(tmp_path: Path) -> dict[str, Any]:
    """Return a request's working directory with two packs."""
    folder = tmp_path / "code"
    (folder / "lib").mkdir(parents=True)
    (folder / "train.py").write_text("import lib.util\n")
    (folder / "lib/util.py").write_text("'é'\n", encoding="utf-8")
    (folder / "run.sh").write_text("#!/bin/sh\necho hello\n")
    (folder / "run.sh").chmod(0o750)
    (folder / "large").write_bytes(b"x" * workdir.LARGE)
    found, _warnings = workdir.read_workdir(str(folder), 1024**3)
    assert len(found.packs) == 2
    return vars(found) | {"packs": list(found.packs)}


def transfer_of(pack: str) -> dict[str, Any]:
    return {"reference": pack, "image": pack.partition("@")[2]}


def load(host: Host, code: dict[str, Any]) -> None:
    """Bring the packs from the controller to the host."""
    for pack in code["packs"]:
        path = workdir.write_pack(code["path"], pack, str(host.folder))
        answer = host.call("session_images", state="loaded", transfer=transfer_of(pack), archive=path)
        assert (answer["changed"], answer["bytes"] > 0, Path(path).exists()) == (True, True, False)


def kept(folder: Path) -> set[str]:
    return {path.stem for path in (folder / "packs").iterdir()}


def expected(owner: str) -> list[str]:
    large = hashlib.sha256(b"x" * workdir.LARGE).hexdigest()
    stats = [f"{owner} 755 .", f"{owner} 750 run.sh", f"{owner} 755 lib"]
    return [WORK, "import lib.util", "'é'", *stats, f"{large}  -"]


def test_each_replica_has_its_own_copy_and_gets_it_again_when_it_is_made_anew(host: Host, code: dict[str, Any]) -> None:
    load(host, code)
    session = host.launch(size=2, workdir=code)
    for replica in ("main1", "sub1"):
        assert session.run_in(replica, "sh", "-ec", LOOK).splitlines() == expected("0:0")
    session.run_in("main1", "sh", "-ec", "echo own >train.py; rm large")
    assert session.run_in("sub1", "sh", "-ec", LOOK).splitlines() == expected("0:0")
    output_of("docker", "restart", "-t", "0", "demo-main1")
    session.repair()
    assert session.run_in("main1", "cat", "train.py") == "own\n"
    output_of("docker", "rm", "-f", "demo-main1")
    output_of("docker", "system", "prune", "-f")
    session.repair()
    assert session.run_in("main1", "sh", "-ec", LOOK).splitlines() == expected("0:0")


@pytest.mark.parametrize(("size", "user", "owner"), [(1, "1234:567", "1234:567"), (2, "65534:65533", "65534:65533")])
def test_its_files_belong_to_the_user_of_the_request(
    host: Host, code: dict[str, Any], size: int, user: str, owner: str
) -> None:
    load(host, code)
    session = host.launch(size=size, workdir=code, user=user)
    assert session.run_in("main1", "sh", "-ec", LOOK).splitlines() == expected(owner)
    assert session.run_in("main1", "sh", "-ec", "./run.sh; echo result >result; cat result") == "hello\nresult\n"


def test_its_files_belong_to_the_user_of_the_image(
    host: Host, code: dict[str, Any], image_of_user: Callable[[str], str]
) -> None:
    load(host, code)
    session = host.launch(workdir=code, image=image_of_user("65534:65533"), directory="/tmp")
    assert session.run_in("main1", "sh", "-ec", f"pwd; cd {WORK}; {LOOK}").splitlines() == [
        "/tmp",
        *expected("65534:65533"),
    ]


def test_links_of_an_image_lead_nothing_out_of_the_replica(host: Host, code: dict[str, Any], shared: Path) -> None:
    """The engine unpacks as root, so a link to a mount would let tenants write where they may not."""
    load(host, code)
    made = "cluster-compute/links:latest"
    for links in (f"ln -s /data {WORK}", f"mkdir {WORK}; cd {WORK}; ln -s /data lib; ln -s /data/train train.py"):
        output_of("docker", "run", "--name", "links", BUSYBOX, "sh", "-ec", links)
        output_of("docker", "commit", "links", made)
        output_of("docker", "rm", "links")
        session = host.launch(workdir=code, image=made, mounts=[f"{shared}:/data"], command=["sleep", "8888"])
        assert session.run_in("main1", "sh", "-ec", LOOK).splitlines() == expected("0:0")
        assert list(shared.iterdir()) == []
        host.clear()
        output_of("docker", "rmi", "-f", made)


def test_a_mount_that_links_lead_into_the_working_directory_is_refused(
    host: Host, code: dict[str, Any], shared: Path
) -> None:
    load(host, code)
    made = "cluster-compute/links:latest"
    output_of("docker", "run", "--name", "links", BUSYBOX, "ln", "-s", f"{WORK}/lib", "/data")
    output_of("docker", "commit", "links", made)
    output_of("docker", "rm", "links")
    session = host.held(workdir=code, image=made, mounts=[f"{shared}:/data"])
    with pytest.raises(SessionError, match=r"has links by which '/data' of session_mounts is at .*Mount it elsewhere"):
        session.bring("started")
    assert (list(shared.iterdir()), session.containers()) == ([], {})
    host.clear()
    output_of("docker", "rmi", "-f", made)


def test_another_host_gets_it_from_this_one(host: Host, code: dict[str, Any], tmp_path: Path) -> None:
    load(host, code)
    other = tmp_path / "other"
    for pack in code["packs"]:
        given: dict[str, Any] = {"transfer": transfer_of(pack), "address": "127.0.0.1", "token": TOKEN}
        server = host.call("session_images", state="serving", ports=[18480, 18489], **given)
        given |= {"server": {key: server[key] for key in ("port", "fingerprint")}, "state_directory": str(other)}
        answer = host.call("session_images", state="received", **given)
        assert answer["bytes"] > 0
        # A host does not ask for a part that it has.
        assert host.call("session_images", state="received", **given)["bytes"] == 0
    assert kept(other) == kept(host.state.root) == {pack.partition(":")[2] for pack in code["packs"]}
    images = host.call("host_info", images=code["packs"], state_directory=str(other))["host"]["images"]
    assert {name: found["id"] for name, found in images.items()} == {
        pack: pack.partition("@")[2] for pack in code["packs"]
    }


def test_what_is_not_what_it_is_called_is_refused(host: Host, code: dict[str, Any], tmp_path: Path) -> None:
    load(host, code)
    first, second = code["packs"]
    path = workdir.write_pack(code["path"], first, str(host.folder))
    with pytest.raises(SessionError, match="came with another content"):
        host.call(
            "session_images", state="loaded", transfer=transfer_of(second), archive=path, state_directory=str(tmp_path)
        )
    assert kept(tmp_path) == set()
    given: dict[str, Any] = {"address": "127.0.0.1", "token": TOKEN}
    server = host.call("session_images", state="serving", transfer=transfer_of(first), ports=[18480, 18489], **given)
    given |= {"server": {key: server[key] for key in ("port", "fingerprint")}, "state_directory": str(tmp_path)}
    with pytest.raises(SessionError, match="came with another content"):
        host.call("session_images", state="received", transfer=transfer_of(second), **given)
    assert kept(tmp_path) == set()


def test_a_host_that_lacks_a_part_says_what_to_do_and_leaves_nothing(host: Host, code: dict[str, Any]) -> None:
    session = host.held(workdir=code)
    with pytest.raises(SessionError, match=r"does not have a part of session_workdir any more. Launch .* again"):
        session.bring("started")
    assert session.containers() == {}
    with pytest.raises(SessionError, match=r"does not have a part of session_workdir any more"):
        host.call(
            "session_images", state="serving", transfer=transfer_of(code["packs"][0]), address="127.0.0.1", token=TOKEN
        )

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Archives of images as the controller reads them."""

from __future__ import annotations

import hashlib
import io
import json
import random
import tarfile
from pathlib import Path
from typing import Any, Literal

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.images import (
    ArchivedImage,
    content_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput
from ansible_collections.cluster_compute.session.plugins.plugin_utils.image_archive import check_archive, read_archive

CONFIGURATION = json.dumps({"architecture": "amd64", "os": "linux"}).encode()
IMAGE = "sha256:" + hashlib.sha256(CONFIGURATION).hexdigest()
OLD, NEW = IMAGE[7:] + ".json", "blobs/sha256/" + IMAGE[7:]
Mode = Literal["w", "w:gz", "w:bz2", "w:xz"]


def write(path: Path, mode: Mode, members: dict[str, bytes]) -> str:
    with tarfile.open(path, mode) as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return str(path)


def manifest(config: str, *tags: str) -> bytes:
    return json.dumps([{"Config": config, "RepoTags": list(tags) or None, "Layers": []}]).encode()


@pytest.mark.parametrize("config", [OLD, NEW])
def test_an_archive_that_was_packed_again_is_read(tmp_path: Path, config: str) -> None:
    """As ``tar -C folder -c .`` packs what an archive was unpacked to."""
    members = {f"./{config}": CONFIGURATION, "./manifest.json": manifest(config, "train:1")}
    found = read_archive(write(tmp_path / "image.tar", "w", members))
    assert found["docker.io/library/train:1"].id == IMAGE


@pytest.mark.parametrize("mode", ["w", "w:gz"])
@pytest.mark.parametrize("config", [OLD, NEW])
def test_images_are_found_by_name_and_by_id(tmp_path: Path, mode: Mode, config: str) -> None:
    path = write(
        tmp_path / "image.tar", mode, {config: CONFIGURATION, "manifest.json": manifest(config, "train:1", "x.y/z:2")}
    )
    image = ArchivedImage(IMAGE, "amd64", {"amd64": ""})
    found = read_archive(path)
    assert found == {"docker.io/library/train:1": image, "x.y/z:2": image, IMAGE: image}
    check_archive(path, found, ["train:1", "other:1"])
    with pytest.raises(InvalidInput, match=r"It holds docker\.io/library/train:1, x\.y/z:2, and not other:1"):
        check_archive(path, found, ["other:1"])


def blob(members: dict[str, bytes], content: Any) -> dict[str, str]:
    """Add a document to an archive (OCI image layout), and return its descriptor."""
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    digest = hashlib.sha256(text).hexdigest()
    members[f"blobs/sha256/{digest}"] = text
    return {"digest": f"sha256:{digest}"}


def configuration_of(architecture: str, layer: str = "sha256:1") -> dict[str, Any]:
    return {"architecture": architecture, "rootfs": {"diff_ids": [layer]}, "config": {"Cmd": ["sh"], "Env": None}}


def test_an_image_for_several_machines_is_found_for_each(tmp_path: Path) -> None:
    """Signatures, proofs of the build and what the archive lacks are no images; other names are other images."""
    members: dict[str, bytes] = {}
    own, other = (blob(members, configuration_of(name)) for name in ("amd64", "arm64"))
    proof = {**blob(members, {"config": blob(members, {"architecture": "unknown"})}), "platform": {"os": "unknown"}}
    signature = blob(members, {"config": blob(members, {})})
    manifests = [blob(members, {"config": each, "layers": []}) for each in (own, other)]
    lacking = [{"digest": "sha256:0"}, blob(members, {"config": {"digest": "sha256:0"}})]
    inner = blob(members, {"manifests": [proof, *manifests[1:]]})
    index = blob(members, {"manifests": [manifests[0], inner, signature, *lacking]})
    strange = blob(members, configuration_of("s390x", "sha256:2"))
    top = [index, blob(members, {"config": strange})]
    members["index.json"] = json.dumps({"manifests": top}).encode()
    entries = [
        {"Config": f"blobs/{each['digest'].replace(':', '/')}", "RepoTags": [name]}
        for each, name in ((own, "train:1"), (strange, "strange:1"))
    ]
    members["manifest.json"] = json.dumps(entries).encode()
    found = read_archive(write(tmp_path / "image.tar", "w", members))
    image, alone = found["docker.io/library/train:1"], found["docker.io/library/strange:1"]
    assert (image.id, image.architecture, alone.architecture) == (own["digest"], "amd64", "s390x")
    assert (set(image.contents), set(alone.contents)) == ({"amd64", "arm64"}, {"s390x"})
    inspected = {"Architecture": "arm64", "RootFS": {"Layers": ["sha256:1"]}, "Config": {"Cmd": ["sh"], "Labels": {}}}
    assert image.contents["arm64"] == content_of(inspected)
    assert len({*image.contents.values(), *alone.contents.values()}) == 3


def test_an_index_that_names_itself_a_thousand_times_is_read_once(tmp_path: Path) -> None:
    members = {OLD: CONFIGURATION, "manifest.json": manifest(OLD, "train:1")}
    members["blobs/sha256/1"] = members["index.json"] = json.dumps(
        {"manifests": [{"digest": "sha256:1"}] * 1000}
    ).encode()
    assert read_archive(write(tmp_path / "image.tar", "w", members))[IMAGE].contents.keys() == {"amd64"}


def test_the_id_is_that_of_the_content(tmp_path: Path) -> None:
    """Whatever the archive says it is."""
    lying = OLD.replace(IMAGE[7:17], "0" * 10)
    path = write(tmp_path / "image.tar", "w", {lying: CONFIGURATION, "manifest.json": manifest(lying)})
    assert set(read_archive(path)) == {IMAGE}


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"manifest.json": b"no JSON"},
        {"manifest.json": manifest(OLD)},
        {"manifest.json": b"{}"[:1]},
        {"manifest.json": b"[5]"},
        {OLD: b"[]", "manifest.json": manifest(OLD)},
        {"etc/passwd": b"root"},
    ],
)
def test_what_is_no_archive_of_images_is_refused(tmp_path: Path, members: dict[str, bytes]) -> None:
    path = write(tmp_path / "image.tar", "w", members)
    with pytest.raises(InvalidInput, match=r"session_image_archive is .*is not an archive of images"):
        read_archive(path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"nowhere.*No such file"):
        read_archive(str(tmp_path / "nowhere"))
    (tmp_path / "text").write_text("x" * 2000, encoding="ascii")
    with pytest.raises(InvalidInput, match="not an archive of images"):
        read_archive(str(tmp_path / "text"))


@pytest.mark.parametrize(
    ("mode", "damage"),
    [("w:gz", "cut"), ("w:bz2", "cut"), ("w:xz", "cut"), ("w:bz2", "changed"), ("w:xz", "changed")],
)
def test_a_compressed_archive_that_is_damaged_is_refused(tmp_path: Path, mode: Mode, damage: str) -> None:
    noise = random.Random(1).randbytes(200000)
    whole = write(tmp_path / "whole", mode, {"layer": noise, OLD: CONFIGURATION, "manifest.json": manifest(OLD)})
    content = Path(whole).read_bytes()
    read_archive(whole)
    middle = len(content) // 2
    end = b"" if damage == "cut" else bytes(64) + content[middle + 64 :]
    (tmp_path / "damaged").write_bytes(content[:middle] + end)
    with pytest.raises(InvalidInput, match=r"session_image_archive is .*damaged"):
        read_archive(str(tmp_path / "damaged"))

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The login that a registry receives when a host asks it for images, and what comes of archives with other images."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import EngineError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.call.session_images import (
    ImageTransfer,
    Load,
    WantedImage,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import images

LOGIN = {"username": "trainer", "password": "secret"}
OWN, OTHER = "a.example/train:1", "b.example/train:1"
DIGEST = f"sha256:{'d' * 64}"


def test_a_registry_is_told_its_own_login_and_none_that_is_another_s() -> None:
    told: dict[str, Any] = {}

    def noting(answer: Any) -> Callable[[str, Any], Any]:
        def ask(name: str, login: Any) -> Any:
            told[name] = login
            return answer

        return ask

    image = SimpleNamespace(id=f"sha256:{'5' * 64}", architecture="amd64", content="")
    engine: Any = SimpleNamespace(
        info=lambda: SimpleNamespace(architecture="x86_64"),
        inspect_image=lambda _name: image,
        tag_image=lambda *_names: None,
        resolve_image=noting(DIGEST),
        pull_image=noting(5),
    )
    logins = {"a.example": LOGIN}
    assert images.resolve(engine, [OWN, OTHER], logins) == ({OWN: DIGEST, OTHER: DIGEST}, {})
    by_digest = {name: f"{name.partition(':')[0]}@{DIGEST}" for name in (OWN, OTHER)}
    _pulled, problems = images.pull(engine, [WantedImage(*each) for each in by_digest.items()], logins)
    assert problems == {}
    asked = {**dict.fromkeys((OWN, OTHER)), **dict.fromkeys(by_digest.values())}
    own = {**LOGIN, "registry": "a.example"}
    assert told == {**asked, OWN: own, by_digest[OWN]: own}


def test_a_pack_is_kept_as_a_file_and_its_copy_removed(tmp_path: Path) -> None:
    content = b"a pack"
    reference = f"/work@sha256:{hashlib.sha256(content).hexdigest()}"
    archive = tmp_path / "copy.tar"
    archive.write_bytes(content)
    no_engine: Any = None
    asked = Load(ImageTransfer(reference, reference), str(archive), (), str(tmp_path))
    answer = images.load(no_engine, asked)
    assert (answer.bytes, archive.exists()) == (len(content), False)
    assert [path.read_bytes() for path in (tmp_path / "packs").iterdir()] == [content]


class Store:
    """An engine with the store of containerd before 28.1, which forgets an image whose last name another one takes."""

    def __init__(
        self, names: dict[str, str], unnamed: tuple[str, ...] = (), archive: dict[str, str] | None = None
    ) -> None:
        self.names, self.unnamed, self.archive = dict(names), set(unnamed), archive or {}
        self.gone: list[str] = []

    def info(self) -> Any:
        return SimpleNamespace(image_store="containerd")

    def image_names(self) -> dict[str, str]:
        return {**self.names, **{image: image for image in {*self.names.values(), *self.unnamed}}}

    def inspect_image(self, name: str) -> Any:
        image = self.image_names().get(name)
        return None if image is None else SimpleNamespace(id=image, content=f"content of {image}")

    def load_images(self, _archive: Any) -> list[str]:
        self.names.update(self.archive)
        return list(self.archive)

    def tag_image(self, image: str, repository: str, tag: str) -> None:
        if image not in self.image_names():
            raise EngineError(f"There is no {image}.")
        self.names[f"{repository}:{tag}"] = image

    def remove_image(self, name: str) -> None:
        self.gone.append(name)
        self.names = {known: image for known, image in self.names.items() if name not in (known, image)}
        self.unnamed.discard(name)


def take(store: Any, image: str, allowed: tuple[str, ...], content: str = "") -> str:
    return images.take_in(store, [], image, "wanted:1", allowed, content)


def test_what_comes_instead_of_an_image_goes_and_names_are_given_back() -> None:
    archive = {"app:1": "new", "evil:1": "new", "kept:1": "kept"}
    store = Store({"app:1": "old", "kept:1": "kept"}, ("old",), archive)
    with pytest.raises(EngineError, match="new came where wanted was to come; it was removed"):
        take(store, "wanted", ("kept",))
    assert store.names == {"app:1": "old", "kept:1": "kept"}


def test_a_name_that_cannot_be_given_back_means_nothing_afterwards() -> None:
    store = Store({"app:1": "old"}, archive={"app:1": "new", "evil:1": "new"})
    with pytest.raises(EngineError, match="new came where wanted"):
        take(store, "wanted", ())
    assert store.names == {}


def test_an_image_that_was_there_without_a_name_is_not_removed_with_the_one_that_it_got() -> None:
    store = Store({}, ("own",), {"app:1": "own"})
    with pytest.raises(EngineError, match="own came where wanted"):
        take(store, "wanted", ())
    assert store.gone == []


def test_an_archive_that_lacks_the_image_gives_back_names_and_removes_nothing() -> None:
    store = Store({"app:1": "old"}, ("old",), {"app:1": "new", "more:1": "new"})
    with pytest.raises(EngineError, match="the engine has no wanted"):
        take(store, "wanted", ("content of new",))
    assert (store.names, store.gone) == ({"app:1": "old", "more:1": "new"}, [])


def test_an_image_keeps_a_name_where_an_archive_takes_its_last_one() -> None:
    """Sessions run images by their ids, and it may be in no registry."""
    old = f"sha256:{'a' * 64}"
    store: Any = Store({"app:1": old, "two:1": "other", "second:1": "other"}, archive={"app:1": "new", "two:1": "new"})
    names = {"docker.io/library/app:1", "docker.io/library/two:1", "new"}
    with images._kept(store, names):
        take(store, "new", tuple(names))
    assert store.names == {
        "app:1": "new",
        "two:1": "new",
        "wanted:1": "new",
        "second:1": "other",
        f"{images.KEPT}:{'a' * 12}": old,
    }

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The login that a registry receives when a host asks it for images."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.call.session_images import (
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

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whose login counts where nobody names one: that of who logged in on the host, kept as Docker's programs do."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.registry_login import (
    HUB,
    LoginError,
    login_of_host,
)

HELPER = """#!/bin/sh
read -r place
case "$place" in
registry.example) echo '{"ServerURL": "x", "Username": "helped", "Secret": "s"}' ;;
token.example) echo '{"Username": "<token>", "Secret": "t"}' ;;
empty.example) echo '{"Username": "", "Secret": ""}' ;;
odd.example) echo 'hello' ;;
broken.example) echo 'the key ring is locked' >&2; exit 1 ;;
*) echo 'credentials not found in native keychain'; exit 1 ;;
esac
"""


def kept(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    helper = tmp_path / "docker-credential-test"
    helper.write_text(HELPER, encoding="ascii")
    helper.chmod(0o755)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def write(folder: Path, configuration: object) -> None:
    (folder / "config.json").write_text(json.dumps(configuration), encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("registry.example:5000", "registry.example:5000/team/a:1"),
        ("https://registry.example:5000/v1/", "registry.example:5000/team/a@sha256:ab"),
        (HUB, "busybox"),
        (HUB, "docker.io/team/a"),
        (HUB, "index.docker.io/team/a"),
    ],
)
def test_a_login_that_is_kept(folder: Path, name: str, reference: str) -> None:
    write(folder, {"auths": {"other.example": {"auth": kept("x:y")}, name: {"auth": kept("user:pass:word")}}})
    assert login_of_host(reference) == {"username": "user", "password": "pass:word", "serveraddress": name}
    assert login_of_host("third.example/a") is None


def test_a_token_that_is_kept(folder: Path) -> None:
    write(folder, {"auths": {"r.example": {"auth": kept("u:"), "identitytoken": "t"}}})
    assert login_of_host("r.example/a") == {"identitytoken": "t", "serveraddress": "r.example"}


def test_the_folder_of_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DOCKER_CONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert login_of_host("r.example/a") is None
    (tmp_path / ".docker").mkdir()
    write(tmp_path / ".docker", {"auths": {"r.example": {"auth": kept("u:p")}}})
    assert login_of_host("r.example/a") == {"username": "u", "password": "p", "serveraddress": "r.example"}


@pytest.mark.parametrize(
    "configuration",
    [
        [],
        {},
        {"auths": []},
        {"auths": {"r.example": {}}},
        {"auths": {"r.example": 3}},
        {"auths": {"r.example": {"auth": "%%%"}}},
        {"auths": {"r.example": {"auth": kept("no colon")}}},
    ],
)
def test_what_is_no_login_counts_nothing(folder: Path, configuration: object) -> None:
    write(folder, configuration)
    assert login_of_host("r.example/a") is None


def test_a_file_that_is_none_counts_nothing(folder: Path) -> None:
    (folder / "config.json").write_text("{", encoding="utf-8")
    assert login_of_host("r.example/a") is None


def test_a_credential_helper_is_asked(folder: Path) -> None:
    write(folder, {"credsStore": "test", "auths": {"last.example": {"auth": kept("u:p")}}})
    assert login_of_host("registry.example/a") == {
        "username": "helped",
        "password": "s",
        "serveraddress": "registry.example",
    }
    assert login_of_host("token.example/a") == {"identitytoken": "t", "serveraddress": "token.example"}
    assert login_of_host("empty.example/a") is None
    assert login_of_host("unknown.example/a") is None
    assert login_of_host("last.example/a") == {"username": "u", "password": "p", "serveraddress": "last.example"}
    with pytest.raises(LoginError, match="the key ring is locked"):
        login_of_host("broken.example/a")
    with pytest.raises(LoginError, match="docker-credential-test does not answer as credential helpers do"):
        login_of_host("odd.example/a")


def test_a_helper_of_one_registry_comes_first(folder: Path) -> None:
    write(folder, {"credsStore": "of-nobody", "credHelpers": {"registry.example": "test"}})
    assert login_of_host("registry.example/a") is not None
    with pytest.raises(LoginError, match="The program 'docker-credential-of-nobody' is not installed"):
        login_of_host("other.example/a")

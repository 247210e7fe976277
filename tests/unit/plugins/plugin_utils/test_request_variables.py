# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who asks, and whose session it becomes."""

from __future__ import annotations

import os
import pwd
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.access import Asker
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput
from ansible_collections.cluster_compute.session.plugins.plugin_utils.request_variables import asker_of, session_owner

EVE = Asker("eve", is_admin=False)


@pytest.fixture(autouse=True)
def login_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process be that of grace, whatever the environment says."""
    entry = pwd.struct_passwd(("grace", "x", 1906, 1906, "", "/", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda _uid: entry)
    monkeypatch.setenv("LOGNAME", "root")


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({}, "grace"),
        ({"awx_user_name": "ada", "tower_user_name": "ada", "awx_job_id": 7}, "ada"),
        ({"tower_user_name": "ada"}, "ada"),
        ({"awx_job_id": 7, "awx_schedule_name": "nightly"}, "awx"),
    ],
    ids=["a shell", "a job", "a job of Tower", "a schedule"],
)
def test_who_asks(variables: dict[str, Any], name: str) -> None:
    assert asker_of(variables, None) == Asker(name, is_admin=False)
    assert asker_of(variables, ["heidi", name]) == Asker(name, is_admin=True)
    assert asker_of(variables, f"heidi, {name}").is_admin


def test_root_is_an_admin_unless_the_site_says_who_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asker_of({"awx_user_name": "root"}, "").is_admin
    assert not asker_of({"awx_user_name": "root"}, ["heidi"]).is_admin
    assert not asker_of({"awx_user_name": "root"}, []).is_admin


def test_a_user_without_a_name_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setattr(os, "getuid", lambda: 1906)
    assert asker_of({}, None).name == "uid-1906"


@pytest.mark.parametrize(
    ("variables", "admins", "message"),
    [
        (
            {"awx_user_name": "ada", "tower_user_name": "root"},
            None,
            "awx_user_name is 'ada': .*tower_user_name is 'root'",
        ),
        ({"awx_user_name": "a\nb"}, None, "awx_user_name is .*the name of a user"),
        ({}, {"root": True}, "cluster_compute_admins is"),
        ({}, ["root", 7], r"cluster_compute_admins\[1\] is 7: It must be the name of a user"),
    ],
    ids=["two names", "no name", "a mapping", "a number"],
)
def test_what_says_nothing_is_refused(variables: dict[str, Any], admins: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        asker_of(variables, admins)


def test_whose_session_it_becomes() -> None:
    assert session_owner({}, EVE) == ("eve", ())
    assert session_owner({"session_shared_with": "dan, bob"}, EVE) == ("eve", ("bob", "dan"))
    assert session_owner({"session_owner": "team", "session_shared_with": ["eve"]}, EVE) == ("team", ("eve",))
    assert session_owner({"session_owner": "team"}, Asker("root", is_admin=True)) == ("team", ())
    assert session_owner({"session_shared_with": ""}, EVE, ["dan", "bob"]) == ("eve", ("bob", "dan"))
    assert session_owner({"session_shared_with": "ann,bob"}, EVE, "dan,bob") == ("eve", ("ann", "bob", "dan"))
    assert session_owner({"session_owner": "team"}, EVE, ["eve"]) == ("team", ("eve",))


def test_nobody_launches_what_they_could_not_tear_down() -> None:
    with pytest.raises(InvalidInput, match=r"session_owner is 'team': You are eve.*session_shared_with"):
        session_owner({"session_owner": "team", "session_shared_with": ["bob"]}, EVE)


def test_names_that_are_none_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"session_shared_with\[1\] is 7: It must be the name of a user"):
        session_owner({"session_shared_with": ["bob", 7]}, EVE)
    with pytest.raises(InvalidInput, match=r"cluster_compute_shared_with\[0\] is 7: It must be the name of a user"):
        session_owner({}, EVE, [7])

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the owner's SSH client is told, as SSH itself reads it."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    ERROR,
    PENDING,
    PREPARING,
    Record,
    new_record,
    prepared,
    started,
    stub_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.access import ADMIN, Asker
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.show.client_configuration import (
    check_directory,
    check_login,
    client_files,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput
from ansible_collections.cluster_compute.session.tests.support.plans import typed_plan

SESSION = "3614fdf3-0e04-4a3c-9d2a-53a1f7b2c8aa"
PLAN = typed_plan(
    {
        "session": {"id": SESSION, "name": "train"},
        "hosts": {"h1": {"underlay_address": None}},
        "ssh_port": 22017,
        "replicas": [
            {"name": "main1", "host": "h1", "address": "10.213.0.2", "image": "demo", "rank": 0},
            {"name": "sub1", "host": "h2", "address": "10.213.0.3", "image": "demo", "rank": 1},
        ],
    }
)
KEYS = {name: {"client": None, "host": f"ssh-ed25519 AAAA{name}"} for name in ("main1", "sub1")}
USERS = {"main1": "work", "sub1": "other"}
RECORD = started(prepared(new_record(SESSION, "alice", {"name": "train"}), encode(PLAN)))


def read(config: Path, name: str) -> set[str]:
    """Return what SSH makes of the configuration for one name, a setting a line."""
    argv = ["ssh", "-G", "-F", str(config), name]
    return set(subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines())


@pytest.mark.parametrize("folder", ["plain", "with a space and 100%"])
def test_as_ssh_reads_it(tmp_path: Path, folder: str) -> None:
    place = tmp_path / folder
    place.mkdir()
    files = client_files(PLAN, KEYS, USERS, "2001:db8::1", str(place), "/keys/of mine")
    for name, text in files.items():
        (place / name).write_text(text, encoding="utf-8")
    everywhere = {
        "stricthostkeychecking true",
        "hostkeyalgorithms ssh-ed25519",
        "forwardagent no",
        "preferredauthentications publickey",
        "identityfile /keys/of mine",
        f"userknownhostsfile {place}/known_hosts".replace("%", "%%"),
        "globalknownhostsfile none",
    }
    wanted = {
        "main1": {"hostname 2001:db8::1", "port 22017", "user work", "hostkeyalias train.main1"},
        "sub1": {"hostname 10.213.0.3", "port 2200", "user other", "hostkeyalias train.sub1", "proxyjump train.main1"},
    }
    for name, settings in wanted.items():
        for alias in (name, f"train.{name}"):
            missing = {setting for setting in settings | everywhere if setting not in read(place / "config", alias)}
            # Releases differ in whether they expand tokens here.
            assert {setting for setting in missing if "userknownhostsfile" not in setting} == set()
    assert "proxyjump train.main1" not in read(place / "config", "main1")
    assert files["known_hosts"] == "train.main1 ssh-ed25519 AAAAmain1\ntrain.sub1 ssh-ed25519 AAAAsub1\n"


def test_a_folder_of_somebody_else_is_not_taken() -> None:
    own = client_files(PLAN, KEYS, USERS, "h1", "/d")["config"]
    check_directory("/d", [], "")
    check_directory("/d", ["config", "known_hosts", "notes"], own)
    for entries, configuration in ((["id_ed25519"], ""), (["config", "known_hosts"], "Host *\n    User alice\n")):
        with pytest.raises(InvalidInput, match="login_directory is '/d': It holds other files"):
            check_directory("/d", entries, configuration)


def test_of_who_is_not_known_main1_s_user_is_taken() -> None:
    files = client_files(PLAN, KEYS, {"main1": "work"}, "h1", "/d")
    assert files["config"].count("    User work\n") == 2
    assert "IdentityFile" not in files["config"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"address": "h1 -oProxyCommand=x"}, "cluster_compute_login_address of host h1 is 'h1 -oProxyCommand=x'"),
        ({"address": "h1\nProxyCommand x"}, "cluster_compute_login_address of host h1"),
        ({"address": ""}, "cluster_compute_login_address of host h1"),
        ({"directory": 'a"b'}, "login_directory is"),
        ({"identity_file": "a\nb"}, "login_identity_file is"),
        ({"users": {}}, "The user of main1 is ''"),
        ({"users": {"main1": "-oProxyCommand=x"}}, "The user of main1"),
        ({"users": {"main1": "work", "sub1": "a\n Port 1"}}, "The user of sub1"),
        ({"public_keys": {"main1": KEYS["main1"]}}, "No host knows the host key of sub1"),
        ({"public_keys": {**KEYS, "sub1": {"host": "ssh-ed25519 A\nx ssh-ed25519 B"}}}, "host key of sub1"),
    ],
)
def test_what_cannot_be_written_is_refused(change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"plan": PLAN, "public_keys": KEYS, "users": USERS, "address": "h1", "directory": "/d"}
    client_files(**good)
    with pytest.raises(InvalidInput) as error:
        client_files(**{**good, **change})
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (None, "The hosts of the resource group pool know no session of this name."),
        (replace(RECORD, status=PENDING), "waits in the queue"),
        (replace(RECORD, status=PREPARING), "just being launched"),
        (replace(RECORD, status=ERROR, report=("Its image is gone.",)), "has ended. Its image is gone."),
        (stub_of(RECORD), "Its hosts h1 cannot be reached"),
        (replace(RECORD, plan={**RECORD.plan, "ssh_port": None}), "without session_authorized_keys"),
    ],
)
def test_a_session_that_nobody_can_log_in_to(record: Record | None, message: str) -> None:
    with pytest.raises(InvalidInput) as error:
        check_login(record, "train", "pool", ADMIN)
    assert message in str(error.value)
    assert str(error.value).startswith("session_name is 'train': ")


def test_one_that_runs_can_be_logged_in_to() -> None:
    assert check_login(RECORD, "train", "pool", ADMIN) == RECORD
    assert check_login(RECORD, "train", "pool", Asker("alice", is_admin=False)) == RECORD


@pytest.mark.parametrize("status", [RECORD.status, PENDING, ERROR])
def test_nobody_else_is_told_how(status: str) -> None:
    with pytest.raises(InvalidInput, match=r"It belongs to alice. You are eve."):
        check_login(replace(RECORD, status=status), "train", "pool", Asker("eve", is_admin=False))

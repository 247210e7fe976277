# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Apps: the table of them, and what their owner is told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.call.session_app import Way
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import decode, encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import parse_request
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.apps import (
    BUILT_IN,
    answer,
    page,
    parse_app_request,
    parse_table,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput

TOKEN = "5ecre7"  # noqa: S105 - of no app
OWN = {"command": "serve --port {port} --key {token_file}", "url": "/?key={token}"}


def refused(table: Any, app: str = "jupyter") -> dict[str, str]:
    """Return what is wrong, by variable."""
    with pytest.raises(InvalidInput) as error:
        parse_app_request({"app": app, "session_apps": table})
    return {problem.variable: problem.message for problem in error.value.problems}


def test_what_is_known_anyway_is_fit_for_a_site_s_table() -> None:
    as_table = {name: encode(ways) for name, ways in BUILT_IN.items()}
    assert parse_table(as_table) == BUILT_IN
    assert sorted(BUILT_IN) == ["jupyter", "tensorboard", "terminal", "vscode"]
    assert [name for name, ways in BUILT_IN.items() if any(way.without_token for way in ways)] == ["tensorboard"]
    for way in (way for ways in BUILT_IN.values() for way in ways):
        assert not any("{token}" in word for word in way.command)
        assert any("127.0.0.1" in word for word in way.command)
        assert decode(Way, json.loads(json.dumps(encode(way))), "The way") == way


def test_a_site_adds_its_own_and_replaces_what_is_known() -> None:
    found = parse_table({"studio": OWN, "jupyter": [OWN, {**OWN, "command": ["/opt/serve", "{port}", "{token_file}"]}]})
    assert found["studio"] == (Way(("serve", "--port", "{port}", "--key", "{token_file}"), "/?key={token}"),)
    assert [way.command[0] for way in found["jupyter"]] == ["serve", "/opt/serve"]
    assert found["terminal"] == BUILT_IN["terminal"]
    assert parse_table(" ") == parse_table(None) == BUILT_IN


def test_what_is_asked_for() -> None:
    wanted = parse_app_request({"app": " terminal ", "app_directory": "/data", "session_apps": {"studio": OWN}})
    assert (wanted.name, wanted.ways, wanted.directory) == ("terminal", BUILT_IN["terminal"], "/data")
    assert refused({}, "jupiter") == {
        "app": "There is no such app. Did you mean jupyter? Known are jupyter, tensorboard, terminal, vscode."
    }
    assert refused({}, "") == {"app": "Name the app to open, such as jupyter."}
    with pytest.raises(InvalidInput, match="absolute path"):
        parse_app_request({"app": "jupyter", "app_directory": "data"})


@pytest.mark.parametrize(
    ("entry", "place", "why"),
    [
        ({**OWN, "command": "serve {port} {token}"}, ".command", "can be read by others"),
        ({**OWN, "command": "serve {token_file}"}, ".command", "port {port}"),
        ({**OWN, "command": "serve {port} {token_file} {home}"}, ".command", "Here may be"),
        ({**OWN, "command": "serve {port}"}, "", "Nothing gives the program its token"),
        ({**OWN, "token_file": "no token"}, "", "Nothing gives the program its token"),
        ({**OWN, "command": "'serve"}, ".command", "a program and its arguments"),
        ({**OWN, "command": ["{port}", "{token_file}"]}, ".command", "a program and its arguments"),
        ({**OWN, "command": []}, ".command", "a program and its arguments"),
        ({**OWN, "command": ["serve", "{port}", "{token_file}", 1]}, ".command", "a program and its arguments"),
        ({**OWN, "command": ["serve", "{port}", "{token_file}\x07"]}, ".command", "a program and its arguments"),
        ({**OWN, "url": "http://there/"}, ".url", "what follows the port"),
        ({**OWN, "url": "/{token_file}"}, ".url", "Here may be {token}"),
        ({**OWN, "environment": {"A B": "x"}}, ".environment", "A name is made of"),
        ({**OWN, "without_token": "perhaps"}, ".without_token", ""),
        ({**OWN, "urls": "/"}, ".urls", "Did you mean url?"),
        ("serve", "", "It must be a mapping"),
        ([], "", "at least one way"),
    ],
)
def test_a_bad_table_is_refused_whatever_app_is_asked_for(entry: Any, place: str, why: str) -> None:
    found = refused({"studio": entry})
    assert list(found) == [f"session_apps.studio{place}"]
    assert why in found[f"session_apps.studio{place}"]


def test_all_that_is_wrong_is_told_at_once() -> None:
    found = refused({"A": OWN, "one": {}, "two": [OWN, {**OWN, "url": 3}]})
    assert sorted(found) == ["session_apps", "session_apps.one.command", "session_apps.two[1].url"]
    assert refused("jupyter") == {"session_apps": "It must be a mapping of names of apps."}


def test_a_program_without_a_token_has_to_be_meant() -> None:
    (way,) = parse_table({"plain": {"command": "serve {port}", "without_token": True}})["plain"]
    assert way.without_token
    assert answer("/c", 20001, way, "").splitlines()[1:] == ["http://127.0.0.1:20001/"]


def test_what_the_owner_is_told() -> None:
    way = BUILT_IN["jupyter"][0]
    lines = answer("/home/a b/config", 23456, way, TOKEN)
    assert lines.splitlines() == [
        "ssh -F '/home/a b/config' -N -o ExitOnForwardFailure=yes -L 127.0.0.1:23456:127.0.0.1:23456 main1",
        f"http://127.0.0.1:23456/lab?token={TOKEN}",
    ]
    assert page(23456, way.url) == "http://127.0.0.1:23456/lab"
    assert page(23456, "/key/{token}/") == "http://127.0.0.1:23456/key/********/"
    lines = answer("/config", 23456, BUILT_IN["vscode"][0], TOKEN)
    assert lines.splitlines()[1:] == ["http://127.0.0.1:23456/", f"password: {TOKEN}"]


def test_a_launch_leaves_the_table_alone() -> None:
    given = {"session_name": "a", "session_image": "b"}
    assert parse_request({**given, "session_apps": {"studio": OWN}}) == parse_request(given)

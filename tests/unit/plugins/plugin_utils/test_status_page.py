# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the page is put together; what it does in a browser is for tests/browser."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest
from ansible_collections.cluster_compute.session.plugins.plugin_utils.status_page import render
from ansible_collections.cluster_compute.session.plugins.plugin_utils.status_parts import Mark, cards_of

KEYS = ("hosts", "sessions", "pending", "waiting_elsewhere", "shares", "findings")
EMPTY = {"resource_group": "g", **{key: [] for key in KEYS}}


def test_the_policy_names_exactly_the_style_and_the_script_of_the_page() -> None:
    page = render(EMPTY)
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    policy = policy.replace("&#x27;", "'")
    assert policy.startswith("default-src 'none'; ")
    for tag in ("style", "script"):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}';" in policy
        assert "url(" not in text
        assert "@import" not in text
    assert "unsafe" not in policy


def test_the_same_overview_makes_the_same_page() -> None:
    assert render(EMPTY) == render(EMPTY)
    assert "As of" not in render(EMPTY)
    assert "2026-01-02 10:30:00 UTC" in render(EMPTY, "2026-01-02T10:30:00Z")


@pytest.mark.parametrize(
    ("number", "text"), [(0, "A"), (25, "Z"), (26, "AA"), (51, "AZ"), (52, "BA"), (701, "ZZ"), (702, "AAA")]
)
def test_every_session_has_letters_of_its_own(number: int, text: str) -> None:
    assert Mark(number).letters == text


@pytest.mark.parametrize(
    ("replicas", "text"),
    [
        ([], ""),
        ([{}], ""),
        ([{"pinned CPU": ["0", "1"]}], ""),
        ([{"gpu": ["GPU-1", "GPU-2"]}, {"gpu": ["GPU-1"], "rdma": ["/dev/infiniband/uverbs0"]}], "3 gpu, 1 rdma"),
    ],
)
def test_the_accelerators_of_a_session_are_counted(replicas: list[dict[str, list[str]]], text: str) -> None:
    assert cards_of({"replicas": [{"devices": devices} for devices in replicas]}) == text

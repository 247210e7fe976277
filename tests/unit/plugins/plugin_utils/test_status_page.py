# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the page is put together; what it does in a browser is for tests/browser."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest
from ansible_collections.cluster_compute.session.plugins.plugin_utils.status_page import (
    Html,
    cpus,
    element,
    letters,
    memory,
    render,
)
from hypothesis import given
from hypothesis import strategies as st

EMPTY = {"resource_group": "g", "hosts": [], "sessions": [], "pending": [], "findings": []}


class Reader(HTMLParser):
    """What a browser would make of a text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: dict[str, str | None] = {}
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.update(attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text())
def test_whatever_a_value_is_it_stays_text(value: str) -> None:
    read = Reader(element("p", {"title": value}, value))
    assert read.tags == ["p"]
    assert set(read.attributes) == {"title"}
    visible = "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in value)
    assert read.text == read.attributes["title"] == visible


def test_only_what_is_html_already_is_not_escaped() -> None:
    assert element("p", {}, Html("<b>"), "<b>", 1, None) == "<p><b>&lt;b&gt;1</p>"
    assert element("p", {"a": None, "b": False, "c": True, "d": 0}) == '<p c d="0"></p>'


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
    assert "measured" not in render(EMPTY)
    assert "measured today" in render(EMPTY, "today")


@pytest.mark.parametrize(
    ("number", "text"), [(0, "A"), (25, "Z"), (26, "AA"), (51, "AZ"), (52, "BA"), (701, "ZZ"), (702, "AAA")]
)
def test_every_session_has_letters_of_its_own(number: int, text: str) -> None:
    assert letters(number) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536 * 1024, "1.5 MiB"),
        (300 * 1024**3, "300 GiB"),
        (2**45, "32 TiB"),
    ],
)
def test_memory_is_told_with_three_digits(amount: int, text: str) -> None:
    assert memory(amount) == text


def test_cpus_are_counted() -> None:
    assert [cpus(amount) for amount in (1000, 500, 2000)] == ["1 CPU", "0.5 CPUs", "2 CPUs"]

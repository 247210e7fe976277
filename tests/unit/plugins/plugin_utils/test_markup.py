# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Values stay text, whatever they are."""

from __future__ import annotations

from html.parser import HTMLParser

from ansible_collections.cluster_compute.session.plugins.plugin_utils.markup import Html, element
from hypothesis import given
from hypothesis import strategies as st


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

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Build HTML in which every value stays text."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping

_VOID = ("link", "meta", "input")


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(name: str, attributes: Mapping[str, object], *children: object) -> Html:
    """Return an element. Attributes that are None or False are left out; children that are not Html are escaped."""
    given = "".join(
        f" {key}" if value is True else f' {key}="{_escape(value)}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID:
        return Html(f"<{name}{given}>")
    return Html(f"<{name}{given}>{join(children)}</{name}>")


def join(children: Iterable[object]) -> Html:
    """Return children one after another; None is nothing."""
    return Html(
        "".join(child if isinstance(child, Html) else _escape(child) for child in children if child is not None)
    )


def _escape(value: object) -> str:
    """Return text for HTML, with escapes for invisible characters and those that change the direction of text."""
    text = str(value)
    if not text.isprintable():
        text = "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode("ascii") for c in text)
    return html.escape(text, quote=True)


def words(value: object, **attributes: object) -> Html:
    """Return a name from a user or a host, isolated from the direction of the text around it."""
    return element("bdi", attributes, value)

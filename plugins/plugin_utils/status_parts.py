# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The parts of the page of a resource group, and how each status is shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..module_utils._internal.core.values.resources import PINNED
from .markup import Html, element, join, words
from .wording import part_of

DENSE_HOSTS = 24
"""With more hosts, the page shows one mark for each session and host, and folds idle hosts."""
HEAT_HOSTS, HEATS = 50, 4
"""From so many hosts on, squares show how much of each is held, in so many steps beside none."""
COLOURS = 12
"""Colours in the style sheet. Further sessions start again with the first, and differ by their letters and names."""
SEVERITY = {
    "RUNNING": "good",
    "PENDING": "wait",
    "PREPARING": "wait",
    "EXITED": "done",
    "TERMINATED": "done",
    "ERROR": "bad",
    "DEAD": "bad",
    "FAILED": "bad",
    "MISSING": "bad",
    "UNKNOWN": "bad",
}
"""How a status is shown. Any other status counts as in progress."""
SIGN = {"good": "●", "wait": "◔", "done": "■", "warn": "▲", "bad": "▲"}
"""Signs that identify a status for readers who do not see colours."""
NOTHING = "\N{EN DASH}"
TIMES = "\N{MULTIPLICATION SIGN}"
_WHOLE = 1000


@dataclass(frozen=True)
class Mark:
    """The letter and colour that identify a session on the page.

    number: of the session, from 0 on.
    """

    number: int

    @property
    def id(self) -> str:
        """Return the id of the element with the details of the session."""
        return f"s{self.number}"

    @property
    def letters(self) -> str:
        """Return the letters: A, …, Z, AA, AB, …"""
        text = ""
        number = self.number + 1
        while number:
            number, rest = divmod(number - 1, 26)
            text = chr(ord("A") + rest) + text
        return text

    @property
    def colour(self) -> str:
        """Return the class of the colour."""
        return f"k{self.number % COLOURS}"

    def show(self) -> Html:
        """Return the visible mark."""
        return element("span", {"class": f"mark {self.colour}"}, self.letters, " ")


def is_ready(host: Mapping[str, Any]) -> bool:
    """Return whether sessions can run on a host, and its capacity is known."""
    return bool(host["usable"]) and host["capacity"] is not None


def search(found: Iterable[object]) -> str:
    """Return the text that the filter of the page searches for an element with these words."""
    return " ".join(str(text) for text in found if text).lower()


def sign(status: str) -> Html:
    """Return the sign of a status, with its name for readers who do not see it."""
    kind = SEVERITY.get(status, "wait")
    return element(
        "span",
        {"class": f"sign {kind}", "title": status.lower()},
        element("span", {"aria-hidden": "true"}, SIGN[kind]),
        unseen(f"{status.lower()} "),
    )


def urgency(session: Mapping[str, Any]) -> int:
    """Return 0 for a session that has failed, 1 for one with failed or missing replicas, 2 for all others."""
    if SEVERITY.get(session["status"]) == "bad":
        return 0
    return 1 if any(SEVERITY.get(replica["status"]) == "bad" for replica in session["replicas"]) else 2


def badge(status: str, more: str = "") -> Html:
    """Return the sign and the name of a status. more: what else is wrong, for readers who do not see the colour."""
    kind = "warn" if more else SEVERITY.get(status, "wait")
    seen = element("span", {"aria-hidden": "true"}, SIGN[kind], " ")
    return element("span", {"class": f"badge {kind}"}, seen, status, unseen(more) if more else None)


def session_badge(session: Mapping[str, Any]) -> Html:
    """Return the sign and the name of a session's status, and whether replicas of it have failed."""
    return badge(session["status"], ", with failed replicas" if urgency(session) == 1 else "")


def unseen(text: str) -> Html:
    """Return what is only for readers who hear the page."""
    return element("span", {"class": "hidden"}, text)


def opener(target: str, name: str, mark: Html | None = None, *more: object) -> Html:
    """Return the button that opens the details of the session *name*, with its mark before the name."""
    attributes = {"type": "button", "popovertarget": target, "class": "open", "title": name}
    return element("button", attributes, mark, words(name, **{"class": "name"}), *more)


def amount_bar(parts: Sequence[tuple[int, str]], total: int) -> Html:
    """Return a bar of parts, each an amount and a class. Amounts beyond the total are cut off."""
    rects = []
    left = 0
    for amount, kind in parts:
        end = min(_WHOLE, left + (round(amount * _WHOLE / total) if total else 0))
        if end > left:
            rects.append(element("rect", {"x": left, "width": end - left, "height": 10, "class": kind}))
        left = end
    box = {"class": "bar", "viewBox": f"0 0 {_WHOLE} 10", "preserveAspectRatio": "none", "aria-hidden": "true"}
    return element("svg", box, *rects)


def usage(used: Mapping[str, int] | None, limit: Mapping[str, int], key: str, form: Callable[[int], str]) -> Html:
    """Return the current use of a resource and its limit. A dash if it was not measured."""
    if used is None:
        return Html(NOTHING)
    text = part_of(used[key], limit[key], form)
    return join((amount_bar([(used[key], "used")], limit[key]), element("span", {"class": "amount"}, text)))


def usage_of(replicas: Sequence[Mapping[str, Any]], key: str, form: Callable[[int], str]) -> Html:
    """Return the total use of replicas, and the total limit of all replicas that were measured."""
    measured = [replica for replica in replicas if replica["usage"] is not None]
    if not measured:
        return Html(NOTHING)
    together = {key: sum(replica["usage"][key] for replica in measured)}
    return usage(together, {key: sum(replica["resources"][key] for replica in measured)}, key, form)


def cards_of(session: Mapping[str, Any]) -> str:
    """Return how many accelerators of each class a session holds, empty if it holds none."""
    found: Counter[str] = Counter()
    for replica in session["replicas"]:
        found.update({kind: len(names) for kind, names in replica["devices"].items() if kind != PINNED})
    return ", ".join(f"{count} {kind}" for kind, count in sorted(found.items()))


def table_head(*names: str) -> Html:
    """Return the head of a table with these columns."""
    return element("thead", {}, element("tr", {}, *(element("th", {"scope": "col"}, name) for name in names)))


def fact_list(facts: Iterable[tuple[str, object]]) -> Html:
    """Return a list of terms and their descriptions."""
    rows = [element("div", {}, element("dt", {}, words(name)), element("dd", {}, value)) for name, value in facts]
    return element("dl", {"class": "facts"}, *rows)


def section(title: str, *children: object) -> Html:
    """Return a part of the details with its heading."""
    return element("section", {}, element("h3", {}, title), *children)

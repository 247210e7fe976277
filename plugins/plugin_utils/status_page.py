# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Show a resource group as one HTML page that needs no server, no network and no other file.

Names and values come from users, so all text goes through `element`, which escapes it. In addition, the page's own
policy (Content Security Policy Level 3) allows only the script and the style whose digests it contains, and allows no
downloads.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ..module_utils._internal.core.values.resources import format_cpus
from .markup import Html, element, join, words
from .status_details import drawer, waiting_drawer
from .status_parts import (
    NOTHING,
    SIGN,
    Mark,
    amount_bar,
    cards_of,
    is_ready,
    opener,
    search,
    session_badge,
    table_head,
    unseen,
    urgency,
    usage_of,
)
from .status_topology import Topology
from .wording import many, memory, part_of, why

RELOAD_SECONDS = 60


@cache
def _asset(kind: str) -> tuple[str, str]:
    """Return the style sheet (css) or the script (js) of the page, and its digest in the format of the policy."""
    text = Path(__file__).with_suffix(f".{kind}").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return text, f"'sha256-{digest}'"


def render(overview: Mapping[str, Any], made: str = "") -> str:
    """Return the page that shows *overview* from the module session_info. The same input gives the same page.

    made: when the hosts were asked, as ``2026-01-02T10:30:00Z``; empty if the page is not to say it.
    """
    return str(_Page(overview, made).whole())


class _Page:
    def __init__(self, overview: Mapping[str, Any], made: str) -> None:
        self.group = overview["resource_group"]
        self.hosts = overview["hosts"]
        self.sessions = [session for session in overview["sessions"] if session["status"] != "PENDING"]
        self.waiting = {session["id"]: session for session in overview["sessions"] if session["status"] == "PENDING"}
        self.pending = overview["pending"]
        self.elsewhere = overview["waiting_elsewhere"]
        self.shares = overview["shares"]
        self.findings = overview["findings"]
        self.made = made
        self.marks = {session["id"]: Mark(number) for number, session in enumerate(self.sessions)}
        self.topology = Topology(self.hosts, self.sessions, self.marks)

    def whole(self) -> Html:
        """Return the page."""
        style, style_digest = _asset("css")
        script, script_digest = _asset("js")
        policy = (
            f"default-src 'none'; style-src {style_digest}; script-src {script_digest}; img-src data:; "
            "base-uri 'none'; form-action 'none'"
        )
        head = element(
            "head",
            {},
            element("meta", {"charset": "utf-8"}),
            element("meta", {"http-equiv": "Content-Security-Policy", "content": policy}),
            element("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
            element("meta", {"name": "referrer", "content": "no-referrer"}),
            element("link", {"rel": "icon", "href": "data:,"}),
            element("title", {}, f"Sessions of {self.group}"),
            element("style", {}, Html(style)),
        )
        body = element(
            "body",
            {"class": "dense" if self.topology.dense else None},
            element("a", {"class": "skip", "href": "#sessions"}, "Skip to the sessions"),
            self._header(),
            self._tools(),
            element(
                "main",
                {},
                self._problems(),
                self.topology.draw(),
                self._sessions(),
                self._pending(),
            ),
            join(drawer(session, self.marks[session["id"]]) for session in self.sessions),
            join(
                waiting_drawer(f"w{number}", entry, self.waiting[entry["session_id"]])
                for number, entry in enumerate(self.pending)
            ),
            element("script", {}, Html(script)),
        )
        return Html("<!DOCTYPE html>\n" + element("html", {"lang": "en"}, head, body) + "\n")

    # The totals of the group.

    def _header(self) -> Html:
        usable = [host for host in self.hosts if is_ready(host)]
        unusable = len(self.hosts) - len(usable)
        count: dict[str, int] = {}
        for session in self.sessions:
            count[session["status"]] = count.get(session["status"], 0) + 1
        statuses = ", ".join(f"{number} {status.lower()}" for status, number in sorted(count.items(), reverse=True))
        tiles = [
            self._tile(
                "Hosts",
                str(len(self.hosts)),
                f"{unusable} cannot be used" if unusable else "all usable",
                bool(unusable),
            ),
            self._tile("Sessions", str(len(self.sessions)), statuses or "none", count.get("ERROR", 0) > 0),
            self._tile("Waiting", str(len(self.pending)), "in the queue" if self.pending else "nobody", False),
            self._meter_tile("CPUs", "cpus", usable, format_cpus),
            self._meter_tile("Memory", "memory", usable, memory),
        ]
        for kind in sorted({kind for host in usable for kind in host["capacity"]["accelerators"]}):
            total, free = _accelerators(usable, "capacity", kind), _accelerators(usable, "free", kind)
            tiles.append(self._amount_tile(kind, total - free, total, str))
        return element(
            "header",
            {},
            element(
                "div",
                {"class": "title"},
                element("p", {"class": "over"}, "Resource group"),
                element("h1", {}, words(self.group)),
                self._moment(),
            ),
            element("ul", {"class": "tiles", "aria-label": "Summary"}, *tiles),
        )

    def _moment(self) -> Html:
        """Return when the hosts were asked. The script adds how long ago that was, and shows what reloads the page."""
        reload = element("input", {"id": "reload", "type": "checkbox", "data-seconds": RELOAD_SECONDS})
        text = self.made.replace("T", " ").replace("Z", " UTC")
        when = element("time", {"id": "made", "datetime": self.made}, text)
        return element(
            "p",
            {"class": "when"},
            join(("As of ", when, element("span", {"id": "age"}, ""))) if self.made else None,
            element("label", {"hidden": True}, reload, " Reload every minute"),
        )

    @staticmethod
    def _tools() -> Html:
        return element(
            "search",
            {"class": "tools"},
            element("label", {"for": "filter"}, "Filter"),
            element(
                "input",
                {
                    "id": "filter",
                    "type": "search",
                    "autocomplete": "off",
                    "spellcheck": "false",
                    "placeholder": "host, session, owner, status, label …",
                    "aria-describedby": "found",
                    "aria-keyshortcuts": "/",
                },
            ),
            element("output", {"id": "found", "for": "filter"}, ""),
            element(
                "nav",
                {"aria-label": "Parts of the page"},
                *(element("a", {"href": f"#{name.lower()}"}, name) for name in ("Topology", "Sessions", "Waiting")),
            ),
        )

    @staticmethod
    def _tile(name: str, number: str, detail: str, is_bad: bool) -> Html:
        warning = element("span", {"class": "bad", "aria-hidden": "true"}, SIGN["bad"], " ") if is_bad else None
        return element(
            "li",
            {"class": "tile"},
            element("span", {"class": "name"}, words(name)),
            element("strong", {}, number),
            element("span", {"class": "about"}, warning, detail),
        )

    def _meter_tile(self, name: str, key: str, hosts: Sequence[Mapping[str, Any]], form: Callable[[int], str]) -> Html:
        held, total = (sum(host[what][key] for host in hosts) for what in ("held", "capacity"))
        return self._amount_tile(name, held, total, form)

    @staticmethod
    def _amount_tile(name: str, held: int, total: int, form: Callable[[int], str]) -> Html:
        return element(
            "li",
            {"class": "tile"},
            element("span", {"class": "name"}, words(name)),
            element("strong", {}, form(max(0, total - held)), element("small", {}, " free")),
            amount_bar([(held, "used")], total),
            element("span", {"class": "about"}, f"{part_of(held, total, form)} held"),
        )

    def _problems(self) -> Html | None:
        if not self.findings:
            return None
        return element(
            "section",
            {"class": "problems", "aria-labelledby": "problems"},
            element("h2", {"id": "problems"}, element("span", {"aria-hidden": "true"}, SIGN["bad"], " "), "Attention"),
            element("ul", {}, *(element("li", {}, words(finding)) for finding in self.findings)),
        )

    # The lists.

    def _sessions(self) -> Html:
        if not self.sessions:
            table = element("p", {"class": "empty"}, "No session has a place. The playbook launch_cluster starts one.")
        else:
            names, ordered = ("Session", "Status", "Mode", "Replicas", "Hosts"), sorted(self.sessions, key=urgency)
            has_cards = any(map(cards_of, ordered))
            table = element(
                "div",
                {"class": "scroll", "tabindex": "0", "role": "region", "aria-labelledby": "sessions"},
                element(
                    "table",
                    {},
                    table_head(*names, "CPU used", "Memory used", *(["Accelerators"] if has_cards else []), "Owner"),
                    element("tbody", {}, *(self._row(session, has_cards) for session in ordered)),
                ),
            )
        return element(
            "section",
            {"aria-labelledby": "sessions"},
            element("h2", {"id": "sessions", "tabindex": "-1"}, "Sessions"),
            table,
        )

    def _row(self, session: Mapping[str, Any], has_cards: bool) -> Html:
        mark, replicas = self.marks[session["id"]], session["replicas"]
        running = sum(1 for replica in replicas if replica["status"] == "RUNNING")
        hosts = session["hosts"]
        size = session["size"] or NOTHING
        shown = ", ".join(hosts[:3]) + (f" and {len(hosts) - 3} more" if len(hosts) > 3 else "")
        found = [session["name"], session["owner"], session["status"], session["mode"], *hosts]
        return element(
            "tr",
            {"data-search": search(found), "data-session": mark.id},
            element("th", {"scope": "row"}, opener(mark.id, session["name"], mark.show())),
            element("td", {}, session_badge(session)),
            element("td", {}, session["mode"] or NOTHING),
            element("td", {}, *((f"{running}/{session['size']}", unseen(" running")) if replicas else (size,))),
            element("td", {}, words(shown) if hosts else NOTHING),
            element("td", {}, usage_of(replicas, "cpus", format_cpus)),
            element("td", {}, usage_of(replicas, "memory", memory)),
            element("td", {}, words(cards_of(session) or NOTHING)) if has_cards else None,
            element("td", {}, words(session["owner"], **{"class": "name", "title": session["owner"]})),
        )

    def _pending(self) -> Html | None:
        heading = element("h2", {"id": "waiting"}, "Waiting")
        others = [
            element("p", {"class": "about"}, words(f"{entry['session_name']}, elsewhere: {why(entry['reason'])}"))
            for entry in self.elsewhere
        ]
        if not self.pending:
            empty = element("p", {"class": "empty"}, "Nobody waits.")
            return element("section", {"aria-labelledby": "waiting"}, heading, empty, *others)
        rows = []
        for number, entry in enumerate(self.pending):
            found = [entry["session_name"], entry["owner"], "PENDING"]
            rows.append(
                element(
                    "tr",
                    {"data-search": search(found)},
                    element("td", {"class": "number"}, entry["position"]),
                    element("th", {"scope": "row"}, opener(f"w{number}", entry["session_name"])),
                    element("td", {}, many(entry["size"], "replica")),
                    element("td", {"class": "number"}, entry["priority"]),
                    element("td", {}, words(entry["owner"], **{"class": "name", "title": entry["owner"]})),
                    element("td", {"class": "number"}, NOTHING if entry["share"] is None else f"{entry['share']} %"),
                    element("td", {"class": "why"}, words(why(entry["reason"]) or NOTHING)),
                )
            )
        shares = ", ".join(f"{share['owner']} {share['percent']} %" for share in self.shares)
        use = element("p", {"class": "about"}, "Use of late: ", words(shares)) if shares else None
        table = element(
            "div",
            {"class": "scroll", "tabindex": "0", "role": "region", "aria-labelledby": "waiting"},
            element(
                "table",
                {},
                table_head("Position", "Session", "Size", "Priority", "Owner", "Share", "Why it waits"),
                element("tbody", {}, *rows),
            ),
        )
        return element("section", {"aria-labelledby": "waiting"}, heading, use, table, *others)


def _accelerators(hosts: Iterable[Mapping[str, Any]], amount: str, kind: str) -> int:
    """Return how many accelerators of a kind hosts have. amount: ``capacity`` or ``free``."""
    return sum(len(host[amount]["accelerators"].get(kind, ())) for host in hosts)

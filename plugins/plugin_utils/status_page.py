# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Draw a resource group as one page of HTML that needs nothing else: no server, no network, no file beside it.

Names and values come from users, so no text reaches the page but through `element`, which escapes it. Even if it did
not, the page's own policy (Content Security Policy Level 3) lets no other script or style run than the two whose
digests it holds, and nothing be fetched.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils.core.resources import format_cpus

COLOURS = 12
"""Colours in the style sheet; more sessions begin again with the first, and differ by their letters and names."""
DENSE_HOSTS = 24
"""With more hosts than these the drawing has one mark a session and host, and folds away what is idle."""
SEVERITY = {
    "RUNNING": "good",
    "PENDING": "wait",
    "PREPARING": "wait",
    "EXITED": "done",
    "ERROR": "bad",
    "DEAD": "bad",
    "FAILED": "bad",
    "MISSING": "bad",
    "UNKNOWN": "bad",
}
"""How a status is shown; any other one is something that goes on."""
SIGN = {"good": "●", "wait": "◔", "done": "■", "bad": "▲"}
"""What tells a status apart for who sees no colour."""
NOTHING = "\N{EN DASH}"
TIMES = "\N{MULTIPLICATION SIGN}"
_WHOLE = 1000
_VOID = ("link", "meta", "input")
_UNITS = ((1024**4, "TiB"), (1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"))


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
    return Html("".join(one if isinstance(one, Html) else _escape(one) for one in children if one is not None))


def _escape(value: object) -> str:
    """Return text for HTML; characters that cannot be seen, those that turn the direction of text too, as an escape."""
    text = str(value)
    if not text.isprintable():
        text = "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode("ascii") for c in text)
    return html.escape(text, quote=True)


def words(value: object, **attributes: object) -> Html:
    """Return what a user or a host named, kept apart from the direction of the text around it."""
    return element("bdi", attributes, value)


def memory(amount: int) -> str:
    """Return bytes for people, with three digits at most after which nobody asks: ``1.5 GiB``."""
    for size, unit in _UNITS:
        if amount >= size:
            number = amount / size
            text = f"{number:.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"
            return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {unit}"
    return f"{amount} B"


def cpus(amount: int) -> str:
    """Return millicpus for people: ``1.5 CPUs``."""
    return f"{format_cpus(amount)} {'CPU' if amount == 1000 else 'CPUs'}"


def many(number: int, what: str) -> str:
    """Return a number with its noun: ``1 host``, ``2 hosts``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def letters(number: int) -> str:
    """Return the mark of the session of this number, from 0 on: A, …, Z, AA, AB, …"""
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("A") + rest) + text
    return text


def _of(part: int, whole: int, form: Callable[[int], str]) -> str:
    """Return a part of a whole for people, the unit once if both have the same: ``16 of 32 GiB``."""
    first, second = form(part), form(whole)
    number, _space, unit = first.partition(" ")
    return f"{number if unit and second.endswith(f' {unit}') else first} of {second}"


@cache
def _asset(kind: str) -> tuple[str, str]:
    """Return the style sheet (css) or the script (js) of the page, and its digest as a policy names it."""
    text = Path(__file__).with_suffix(f".{kind}").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return text, f"'sha256-{digest}'"


def render(overview: Mapping[str, Any], measured: str = "") -> str:
    """Return the page that shows *overview*, as the module session_info returns it. The same input, the same page.

    measured: when the use of CPU and memory was measured, as text for people; empty where it was not.
    """
    return str(_Page(overview, measured).whole())


class _Page:
    def __init__(self, overview: Mapping[str, Any], measured: str) -> None:
        self.group = overview["resource_group"]
        self.hosts = overview["hosts"]
        self.sessions = [session for session in overview["sessions"] if session["status"] != "PENDING"]
        self.waiting = {session["id"]: session for session in overview["sessions"] if session["status"] == "PENDING"}
        self.pending = overview["pending"]
        self.findings = overview["findings"]
        self.measured = measured
        self.dense = len(self.hosts) > DENSE_HOSTS
        self.marks = {session["id"]: number for number, session in enumerate(self.sessions)}
        self.placed: dict[str, list[tuple[Mapping[str, Any], list[Mapping[str, Any]]]]] = {}
        for session in self.sessions:
            there: dict[str, list[Mapping[str, Any]]] = {}
            for replica in session["replicas"] if session["status"] != "ERROR" else ():
                there.setdefault(replica["host"], []).append(replica)
            for host, replicas in there.items():
                self.placed.setdefault(host, []).append((session, replicas))

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
            {"class": "dense" if self.dense else None},
            element("a", {"class": "skip", "href": "#sessions"}, "Skip to the sessions"),
            self._header(),
            self._tools(),
            element(
                "main",
                {},
                self._problems(),
                self._topology(),
                self._sessions(),
                self._pending(),
            ),
            join(self._drawer(session) for session in self.sessions),
            join(self._waiting_drawer(number, one) for number, one in enumerate(self.pending)),
            element("script", {}, Html(script)),
        )
        return Html("<!DOCTYPE html>\n" + element("html", {"lang": "en"}, head, body) + "\n")

    # What the whole group has.

    def _header(self) -> Html:
        usable = [host for host in self.hosts if _is_ready(host)]
        away = len(self.hosts) - len(usable)
        count: dict[str, int] = {}
        for session in self.sessions:
            count[session["status"]] = count.get(session["status"], 0) + 1
        told = ", ".join(f"{number} {status.lower()}" for status, number in sorted(count.items(), reverse=True))
        tiles = [
            self._tile("Hosts", str(len(self.hosts)), f"{away} cannot be used" if away else "all usable", bool(away)),
            self._tile("Sessions", str(len(self.sessions)), told or "none", count.get("ERROR", 0) > 0),
            self._tile("Waiting", str(len(self.pending)), "in the queue" if self.pending else "nobody", False),
            self._meter_tile("CPUs", "cpus", usable, format_cpus),
            self._meter_tile("Memory", "memory", usable, memory),
        ]
        for kind in sorted({kind for host in usable for kind in host["capacity"]["accelerators"]}):
            total, free = (
                sum(len(host[key]["accelerators"].get(kind, ())) for host in usable) for key in ("capacity", "free")
            )
            tiles.append(self._amount_tile(kind, total - free, total, str))
        when = f"Use of CPU and memory measured {self.measured}." if self.measured else None
        return element(
            "header",
            {},
            element(
                "div",
                {"class": "title"},
                element("p", {"class": "over"}, "Resource group"),
                element("h1", {}, words(self.group)),
                element("p", {"class": "when"}, when) if when else None,
            ),
            element("ul", {"class": "tiles", "aria-label": "Summary"}, *tiles),
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
    def _tile(name: str, number: str, about: str, is_bad: bool) -> Html:
        sign = element("span", {"class": "bad", "aria-hidden": "true"}, SIGN["bad"], " ") if is_bad else None
        return element(
            "li",
            {"class": "tile"},
            element("span", {"class": "name"}, words(name)),
            element("strong", {}, number),
            element("span", {"class": "about"}, sign, about),
        )

    def _meter_tile(self, name: str, key: str, hosts: Sequence[Mapping[str, Any]], form: Callable[[int], str]) -> Html:
        used, total = (sum(host[what][key] for host in hosts) for what in ("used", "capacity"))
        return self._amount_tile(name, used, total, form)

    @staticmethod
    def _amount_tile(name: str, used: int, total: int, form: Callable[[int], str]) -> Html:
        return element(
            "li",
            {"class": "tile"},
            element("span", {"class": "name"}, words(name)),
            element("strong", {}, form(max(0, total - used)), element("small", {}, " free")),
            _bar([(used, "used")], total),
            element("span", {"class": "about"}, f"{_of(used, total, form)} used"),
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

    # The drawing.

    def _topology(self) -> Html:
        shown: list[Mapping[str, Any]] = []
        folded: list[Mapping[str, Any]] = []
        for host in self.hosts:
            idle = _is_ready(host) and host["name"] not in self.placed and not host["used"]["replicas"]
            (folded if self.dense and idle else shown).append(host)
        parts = []
        if shown:
            parts.append(element("ul", {"class": "hosts"}, *(self._host(host) for host in shown)))
        if folded:
            free = [sum(host["free"][key] for host in folded) for key in ("cpus", "memory")]
            room = f"{cpus(free[0])}, {memory(free[1])} free"
            parts.append(
                element(
                    "details",
                    {"class": "idle"},
                    element("summary", {}, f"{many(len(folded), 'idle host')}: {room}"),
                    element("ul", {"class": "hosts"}, *(self._host(host) for host in folded)),
                )
            )
        key = element(
            "p",
            {"class": "key"},
            *(
                element("span", {}, element("span", {"class": f"line {kind}", "aria-hidden": "true"}), text)
                for kind, text in (
                    ("bridge", "bridge network, inside one host"),
                    ("overlay", "overlay network, across hosts"),
                    ("free", "free"),
                )
            ),
        )
        return element(
            "section",
            {"aria-labelledby": "topology"},
            element("h2", {"id": "topology"}, "Topology"),
            key,
            element(
                "div",
                {"class": "fabric"},
                Html('<svg class="wires" aria-hidden="true" focusable="false"></svg>'),
                *parts,
            )
            if parts
            else element("p", {"class": "empty"}, "The group has no hosts."),
        )

    def _host(self, host: Mapping[str, Any]) -> Html:
        name = host["name"]
        placed = self.placed.get(name, [])
        labels = [f"{key} {value}" for key, value in sorted((host["labels"] or {}).items())]
        found = [name, *labels, *(session["name"] for session, _replicas in placed)]
        found += [session["owner"] for session, _replicas in placed]
        found.append("" if _is_ready(host) else "not usable")
        head = element(
            "h3",
            {},
            words(name, **{"class": "name", "title": name}),
            *(element("span", {"class": "tag"}, words(label)) for label in labels),
        )
        if not _is_ready(host):
            sign = element("span", {"aria-hidden": "true"}, SIGN["bad"], " ")
            rest = [element("p", {"class": "bad"}, sign, "Not usable. ", words(host["problem"]))]
        else:
            rest = [self._meters(host, placed)]
        if placed:
            bridges_first = sorted(placed, key=lambda one: _driver(one[0]) == "vxlan")
            rest.append(element("ul", {"class": "groups"}, *(self._group(*one) for one in bridges_first)))
        elif _is_ready(host):
            held = host["used"]["replicas"]
            told = "Idle" if not held else f"{many(held, 'replica')} of sessions that are not recorded"
            rest.append(element("p", {"class": "quiet"}, told))
        kind = "host" if _is_ready(host) else "host away"
        return element("li", {"class": kind, "data-host": name, "data-search": _search(found)}, head, *rest)

    def _meters(
        self, host: Mapping[str, Any], placed: Sequence[tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]]
    ) -> Html:
        rows = []
        for label, key, form in (("CPU", "cpus", format_cpus), ("Memory", "memory", memory)):
            free, used, total = (host[what][key] for what in ("free", "used", "capacity"))
            parts = [(sum(one["resources"][key] for one in some), self._colour(session)) for session, some in placed]
            known = sum(amount for amount, _colour in parts)
            parts.append((max(0, used - known), "other"))
            rows.append(self._meter(label, parts, free, total, form))
        for kind, devices in sorted(host["capacity"]["accelerators"].items()):
            free, total = len(host["free"]["accelerators"].get(kind, ())), len(devices)
            parts = [(sum(_held(one, kind) for one in some), self._colour(session)) for session, some in placed]
            parts.append((max(0, total - free - sum(amount for amount, _colour in parts)), "other"))
            rows.append(self._meter(kind, parts, free, total, str))
        return element("dl", {"class": "meters"}, *rows)

    @staticmethod
    def _meter(label: str, parts: Sequence[tuple[int, str]], free: int, total: int, form: Callable[[int], str]) -> Html:
        return element(
            "div",
            {},
            element("dt", {}, words(label)),
            element(
                "dd",
                {},
                _bar(parts, total),
                element("span", {"class": "amount"}, f"{_of(free, total, form)} free"),
            ),
        )

    def _group(self, session: Mapping[str, Any], replicas: Sequence[Mapping[str, Any]]) -> Html:
        worst = _worst(replicas)
        button = element(
            "button",
            {"type": "button", "popovertarget": self._id(session), "class": "open", "title": session["name"]},
            self._mark(session),
            words(session["name"], **{"class": "name"}),
            element("span", {"class": "count", "aria-hidden": "true"}, f"{TIMES}{len(replicas)}"),
            _sign(worst) if self.dense and worst != "RUNNING" else None,
            element("span", {"class": "hidden"}, f" {many(len(replicas), 'replica')}, {worst.lower()}"),
        )
        chips = element(
            "ul",
            {"class": "chips"},
            *(
                element("li", {"class": SEVERITY.get(one["status"], "wait")}, _sign(one["status"]), words(one["name"]))
                for one in replicas
            ),
        )
        driver = _driver(session)
        network = session["network"]
        told = None
        if network is not None:
            subnet = words(network["subnet"])
            kind = "overlay" if driver == "vxlan" else "bridge"
            told = element("p", {"class": f"net {kind}"}, element("span", {}, f"{kind} ", subnet))
        return element(
            "li",
            {
                "class": f"group {self._colour(session)}",
                "data-session": self._id(session),
                "data-net": "overlay" if driver == "vxlan" else None,
                "data-label": _wire_label(session) if driver == "vxlan" else None,
                "data-mark": self._letters(session),
            },
            button,
            None if self.dense else chips,
            None if self.dense else told,
        )

    # The lists.

    def _sessions(self) -> Html:
        if not self.sessions:
            table = element("p", {"class": "empty"}, "No session has a place. The playbook launch_cluster starts one.")
        else:
            table = element(
                "div",
                {"class": "scroll", "tabindex": "0", "role": "region", "aria-labelledby": "sessions"},
                element(
                    "table",
                    {},
                    _table_head("Session", "Status", "Mode", "Replicas", "Hosts", "CPU now", "Memory now", "Owner"),
                    element("tbody", {}, *(self._row(session) for session in self.sessions)),
                ),
            )
        return element(
            "section",
            {"aria-labelledby": "sessions"},
            element("h2", {"id": "sessions", "tabindex": "-1"}, "Sessions"),
            table,
        )

    def _row(self, session: Mapping[str, Any]) -> Html:
        replicas = session["replicas"]
        running = sum(1 for one in replicas if one["status"] == "RUNNING")
        hosts = session["hosts"]
        shown = ", ".join(hosts[:3]) + (f" and {len(hosts) - 3} more" if len(hosts) > 3 else "")
        found = [session["name"], session["owner"], session["status"], session["mode"], *hosts]
        return element(
            "tr",
            {"data-search": _search(found), "data-session": self._id(session)},
            element(
                "th",
                {"scope": "row"},
                element(
                    "button",
                    {"type": "button", "popovertarget": self._id(session), "class": "open", "title": session["name"]},
                    self._mark(session),
                    words(session["name"], **{"class": "name"}),
                ),
            ),
            element("td", {}, _badge(session["status"])),
            element("td", {}, session["mode"] or NOTHING),
            element("td", {}, f"{running} of {session['size']} running" if replicas else session["size"] or NOTHING),
            element("td", {}, words(shown) if hosts else NOTHING),
            element("td", {}, _use_of(replicas, "cpus", format_cpus)),
            element("td", {}, _use_of(replicas, "memory", memory)),
            element("td", {}, words(session["owner"], **{"class": "name", "title": session["owner"]})),
        )

    def _pending(self) -> Html | None:
        heading = element("h2", {"id": "waiting"}, "Waiting")
        if not self.pending:
            text = "Nobody waits."
            return element("section", {"aria-labelledby": "waiting"}, heading, element("p", {"class": "empty"}, text))
        rows = []
        for number, one in enumerate(self.pending):
            found = [one["session_name"], one["owner"], "PENDING"]
            rows.append(
                element(
                    "tr",
                    {"data-search": _search(found)},
                    element("td", {"class": "number"}, one["position"]),
                    element(
                        "th",
                        {"scope": "row"},
                        element(
                            "button",
                            {
                                "type": "button",
                                "popovertarget": f"w{number}",
                                "class": "open",
                                "title": one["session_name"],
                            },
                            words(one["session_name"], **{"class": "name"}),
                        ),
                    ),
                    element("td", {}, many(one["size"], "replica")),
                    element("td", {"class": "number"}, one["priority"]),
                    element("td", {}, words(one["owner"], **{"class": "name", "title": one["owner"]})),
                    element("td", {"class": "why"}, words(_why(one["reason"]))),
                )
            )
        table = element(
            "div",
            {"class": "scroll", "tabindex": "0", "role": "region", "aria-labelledby": "waiting"},
            element(
                "table",
                {},
                _table_head("Position", "Session", "Size", "Priority", "Owner", "Why it waits"),
                element("tbody", {}, *rows),
            ),
        )
        return element("section", {"aria-labelledby": "waiting"}, heading, table)

    # The details.

    def _drawer(self, session: Mapping[str, Any]) -> Html:
        name = self._id(session)
        facts: list[tuple[str, object]] = [
            ("Id", element("code", {}, session["id"])),
            ("Owner", words(session["owner"])),
            ("Revision", session["revision"]),
        ]
        report = None
        if session["report"]:
            report = element("pre", {"class": "report", "tabindex": "0"}, "\n".join(session["report"]))
        return element(
            "dialog",
            {"id": name, "popover": "auto", "class": f"drawer {self._colour(session)}", "aria-labelledby": f"{name}-t"},
            element(
                "header",
                {},
                self._mark(session),
                element("h2", {"id": f"{name}-t"}, words(session["name"])),
                _badge(session["status"]),
                _close(name),
            ),
            report,
            _facts(facts),
            self._replicas(session),
            _part("Allocation", _facts(self._allocation(session))),
            _part("Request", _request(session["request"])),
            _history(session["history"]),
        )

    def _waiting_drawer(self, number: int, one: Mapping[str, Any]) -> Html:
        name = f"w{number}"
        waiting = self.waiting[one["session_id"]]
        facts: list[tuple[str, object]] = [
            ("Id", element("code", {}, one["session_id"])),
            ("Owner", words(one["owner"])),
            ("Position", f"{one['position']}, priority {one['priority']}, number {one['number']}"),
        ]
        return element(
            "dialog",
            {"id": name, "popover": "auto", "class": "drawer", "aria-labelledby": f"{name}-t"},
            element(
                "header",
                {},
                element("h2", {"id": f"{name}-t"}, words(one["session_name"])),
                _badge("PENDING"),
                _close(name),
            ),
            _facts(facts),
            _part(
                "Why it waits",
                element("p", {}, words(_why(one["reason"]))),
                element("pre", {"class": "report", "tabindex": "0"}, "\n".join(one["reason"])),
            ),
            _part("Request", _request(waiting["request"])),
            _history(waiting["history"]),
        )

    @staticmethod
    def _allocation(session: Mapping[str, Any]) -> list[tuple[str, object]]:
        replicas, network = session["replicas"], session["network"]
        per_host: dict[str, int] = {}
        for one in replicas:
            per_host[one["host"]] = per_host.get(one["host"], 0) + 1
        where = [
            element("li", {}, words(host), f" {TIMES}{per_host[host]}" if host in per_host else "")
            for host in session["hosts"]
        ]
        facts: list[tuple[str, object]] = [
            ("Mode", session["mode"] or NOTHING),
            ("Hosts", element("ul", {"class": "inline"}, *where) if where else "none"),
        ]
        if network is not None:
            kind = "overlay (VXLAN)" if network["driver"] == "vxlan" else "bridge"
            kind = f"encrypted {kind}" if network["tunnel"] else kind
            about = [f"{kind} {network['subnet']} on {network['interface']}"]
            about += [
                f"{label} {network[key]}"
                for label, key in (("identifier", "vni"), ("UDP port", "port"), ("MTU", "mtu"))
                if network.get(key)
            ]
            facts.append(("Network", ", ".join(about)))
        elif replicas:
            facts.append(("Network", "none besides the way out: a session of one replica"))
        if session["egress"] is not None:
            facts.append(("Way out", session["egress"]["subnet"]))
        if replicas:
            total = cpus(sum(one["resources"]["cpus"] for one in replicas))
            facts.append(("Together", f"{total}, {memory(sum(one['resources']['memory'] for one in replicas))}"))
        ports = [
            f"{one['name']} on {one['host']}: {_plain('ports', port)}" for one in replicas for port in one["ports"]
        ]
        facts.append(
            ("Published ports", element("ul", {}, *(element("li", {}, port) for port in ports)) if ports else "none")
        )
        return facts

    @staticmethod
    def _replicas(session: Mapping[str, Any]) -> Html:
        if not session["replicas"]:
            text = "It has none." if session["request"] else "The hosts that know its replicas are away."
            return _part("Replicas", element("p", {"class": "empty"}, text))
        rows = []
        for one in session["replicas"]:
            limit = one["resources"]
            use, exit_code = one["usage"], one["exit_code"]
            ended = NOTHING if exit_code is None else element("span", {}, exit_code)
            if one["oom_killed"]:
                ended = join((ended, element("small", {}, "out of memory")))
            devices = [f"{kind} {device}" for kind, names in sorted(one["devices"].items()) for device in names]
            rows.append(
                element(
                    "tr",
                    {},
                    element("th", {"scope": "row"}, words(one["name"], title=one["container"])),
                    element("td", {}, _badge(one["status"])),
                    element("td", {}, words(one["host"])),
                    element("td", {}, element("code", {}, one["address"] or NOTHING)),
                    element("td", {"class": "number"}, one["rank"]),
                    element("td", {"class": "number"}, one["local_rank"]),
                    element("td", {"class": "number"}, one["node_rank"]),
                    element("td", {}, ended),
                    element("td", {}, _use(use, limit, "cpus", format_cpus)),
                    element("td", {}, _use(use, limit, "memory", memory)),
                    element("td", {}, words(", ".join(devices) or NOTHING)),
                )
            )
        columns = (
            "Replica",
            "Status",
            "Host",
            "Address",
            "Rank",
            "Local",
            "Node",
            "Exit",
            "CPU now",
            "Memory now",
            "Devices",
        )
        label = f"Replicas of {session['name']}"
        table = element(
            "div",
            {"class": "scroll", "tabindex": "0", "role": "region", "aria-label": label},
            element("table", {}, _table_head(*columns), element("tbody", {}, *rows)),
        )
        return _part("Replicas", table)

    def _id(self, session: Mapping[str, Any]) -> str:
        return f"s{self.marks[session['id']]}"

    def _letters(self, session: Mapping[str, Any]) -> str:
        return letters(self.marks[session["id"]])

    def _colour(self, session: Mapping[str, Any]) -> str:
        return f"k{self.marks[session['id']] % COLOURS}"

    def _mark(self, session: Mapping[str, Any]) -> Html:
        return element("span", {"class": f"mark {self._colour(session)}"}, self._letters(session), " ")


def _is_ready(host: Mapping[str, Any]) -> bool:
    """Tell whether sessions can run on a host, and how much it has for them is known."""
    return host["usable"] and host["capacity"] is not None


def _driver(session: Mapping[str, Any]) -> str | None:
    return session["network"]["driver"] if session["network"] is not None else None


def _wire_label(session: Mapping[str, Any]) -> str:
    network = session["network"]
    kind = "encrypted overlay" if network["tunnel"] else "overlay"
    return f"{kind} {network['subnet']}, VXLAN {network['vni']}"


def _held(replica: Mapping[str, Any], kind: str) -> int:
    return len(replica["devices"].get(kind, ()))


def _worst(replicas: Sequence[Mapping[str, Any]]) -> str:
    """Return the status that matters most among replicas."""
    order = ("bad", "wait", "done", "good")
    return str(min((one["status"] for one in replicas), key=lambda status: order.index(SEVERITY.get(status, "wait"))))


def _search(found: Iterable[object]) -> str:
    return " ".join(str(one) for one in found if one).lower()


def _why(reason: Sequence[str]) -> str:
    """Return the sentences of a reason, without its table and what explains that."""
    told = [line.partition(" Asked per host")[0] for line in reason if line.endswith(".")]
    return " ".join(told or reason[:1]) or NOTHING


def _sign(status: str) -> Html:
    kind = SEVERITY.get(status, "wait")
    return element(
        "span",
        {"class": f"sign {kind}", "title": status.lower()},
        element("span", {"aria-hidden": "true"}, SIGN[kind]),
        element("span", {"class": "hidden"}, f"{status.lower()} "),
    )


def _badge(status: str) -> Html:
    kind = SEVERITY.get(status, "wait")
    return element(
        "span", {"class": f"badge {kind}"}, element("span", {"aria-hidden": "true"}, SIGN[kind], " "), status
    )


def _bar(parts: Sequence[tuple[int, str]], total: int) -> Html:
    """Return a bar of parts, each an amount and a class; what is beyond the total is cut off."""
    rects = []
    left = 0
    for amount, kind in parts:
        end = min(_WHOLE, left + (round(amount * _WHOLE / total) if total else 0))
        if end > left:
            rects.append(element("rect", {"x": left, "width": end - left, "height": 10, "class": kind}))
        left = end
    box = {"class": "bar", "viewBox": f"0 0 {_WHOLE} 10", "preserveAspectRatio": "none", "aria-hidden": "true"}
    return element("svg", box, *rects)


def _use(use: Mapping[str, int] | None, limit: Mapping[str, int], key: str, form: Callable[[int], str]) -> Html:
    if use is None:
        return Html(NOTHING)
    text = _of(use[key], limit[key], form)
    return join((_bar([(use[key], "used")], limit[key]), element("span", {"class": "amount"}, text)))


def _use_of(replicas: Sequence[Mapping[str, Any]], key: str, form: Callable[[int], str]) -> Html:
    """Return what replicas use together, of what all of them that were measured may use."""
    measured = [one for one in replicas if one["usage"] is not None]
    if not measured:
        return Html(NOTHING)
    together = {key: sum(one["usage"][key] for one in measured)}
    return _use(together, {key: sum(one["resources"][key] for one in measured)}, key, form)


def _table_head(*names: str) -> Html:
    return element("thead", {}, element("tr", {}, *(element("th", {"scope": "col"}, name) for name in names)))


def _facts(facts: Iterable[tuple[str, object]]) -> Html:
    rows = [element("div", {}, element("dt", {}, words(name)), element("dd", {}, value)) for name, value in facts]
    return element("dl", {"class": "facts"}, *rows)


def _part(title: str, *children: object) -> Html:
    return element("section", {}, element("h3", {}, title), *children)


def _close(name: str) -> Html:
    return element(
        "button",
        {
            "type": "button",
            "class": "close",
            "popovertarget": name,
            "popovertargetaction": "hide",
            "aria-label": "Close",
            "autofocus": True,
        },
        element("span", {"aria-hidden": "true"}, "✕"),
    )


def _history(history: Sequence[Mapping[str, Any]]) -> Html | None:
    if not history:
        return None
    steps = [
        element("li", {"value": entry["revision"]}, _badge(entry["status"]), " ", words(entry["reason"]))
        for entry in history
    ]
    return _part("Status history", element("ol", {"class": "history"}, *steps))


def _request(request: Mapping[str, Any] | None) -> Html:
    """Return what was asked for. The values of environment variables may be secret and are left out."""
    if request is None:
        return element("p", {"class": "empty"}, "Not known on the hosts that answer.")
    facts: list[tuple[str, object]] = []
    for role in request["roles"]:
        resources = role["resources"]
        asked = [cpus(resources["cpus"]), memory(resources["memory"])]
        asked += [
            f"{key.replace('_', ' ')} {_plain(key, value)}"
            for key, value in resources.items()
            if key not in ("cpus", "memory") and value
        ]
        lines = [
            element("strong", {}, many(role["replicas"], "replica")),
            join((" of ", words(role["image"]))),
            f"each {', '.join(asked)}",
        ]
        if role.get("command"):
            lines.append(join(("command ", element("code", {}, " ".join(role["command"])))))
        if role.get("env"):
            lines.append(join(("variables ", words(", ".join(sorted(role["env"]))))))
        known = ("name", "replicas", "image", "resources", "command", "env")
        lines += [
            f"{key.replace('_', ' ')} {_plain(key, value)}" for key, value in role.items() if key not in known and value
        ]
        facts.append(
            (f"Role {role['name']}", element("ul", {"class": "plain"}, *(element("li", {}, line) for line in lines)))
        )
    for key, value in request.items():
        if key in ("name", "roles") or value in (None, "", [], {}):
            continue
        facts.append((key.replace("_", " ").capitalize(), words(_plain(key, value))))
    return _facts(facts)


def _plain(key: str, value: Any) -> str:
    """Return any value of a request as text."""
    if key.endswith(("memory", "size")) and isinstance(value, int) and not isinstance(value, bool):
        return memory(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if key == "driver_options":  # a file system of a network may want a password
        return ", ".join(sorted(value))
    if isinstance(value, Mapping) and key == "ports":
        return f"{value['host_ip']}:{value['host_port']} → {value['container_port']}/{value['protocol']}"
    if isinstance(value, Mapping):
        return ", ".join(
            f"{name.replace('_', ' ')} {_plain(name, one)}" for name, one in value.items() if one is not None
        )
    if isinstance(value, (list, tuple)):
        return "; ".join(_plain(key, one) for one in value)
    return str(value)

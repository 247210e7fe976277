# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The drawing of a resource group: its hosts with their free resources, replicas and networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil
from typing import Any

from ..module_utils._internal.core.values.resources import format_cpus
from .markup import Html, element, words
from .status_parts import (
    DENSE_HOSTS,
    HEAT_HOSTS,
    HEATS,
    SEVERITY,
    SIGN,
    TIMES,
    Mark,
    amount_bar,
    is_ready,
    opener,
    search,
    sign,
    unseen,
)
from .wording import cpus, many, memory, part_of

Placed = Sequence[tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]]
"""Sessions on a host, each with its replicas there."""


class Topology:
    """The drawing. marks: of each session, by its id."""

    def __init__(
        self, hosts: Sequence[Mapping[str, Any]], sessions: Sequence[Mapping[str, Any]], marks: Mapping[str, Mark]
    ) -> None:
        self.hosts = hosts
        self.marks = marks
        self.dense = len(hosts) > DENSE_HOSTS
        self.numbers = {host["name"]: number for number, host in enumerate(hosts)}
        self.placed: dict[str, list[tuple[Mapping[str, Any], list[Mapping[str, Any]]]]] = {}
        for session in sessions:
            there: dict[str, list[Mapping[str, Any]]] = {}
            for replica in session["replicas"]:
                there.setdefault(replica["host"], []).append(replica)
            for host, replicas in there.items():
                self.placed.setdefault(host, []).append((session, replicas))

    def draw(self) -> Html:
        """Return the section with the drawing."""
        shown: list[Mapping[str, Any]] = []
        folded: list[Mapping[str, Any]] = []
        for host in self.hosts:
            idle = is_ready(host) and host["name"] not in self.placed and not host["held"]["replicas"]
            (folded if self.dense and idle else shown).append(host)
        parts = []
        if shown:
            parts.append(self._hosts(shown))
        if folded:
            free = [sum(host["free"][key] for host in folded) for key in ("cpus", "memory")]
            summary = f"{many(len(folded), 'idle host')}: {cpus(free[0])}, {memory(free[1])} free"
            idle_hosts = self._hosts(folded)
            parts.append(element("details", {"class": "idle"}, element("summary", {}, summary), idle_hosts))
        return element(
            "section",
            {"aria-labelledby": "topology"},
            element("h2", {"id": "topology"}, "Topology"),
            self._key(),
            self._heat(),
            element(
                "div",
                {"class": "fabric"},
                Html('<svg class="wires" aria-hidden="true" focusable="false"></svg>'),
                *parts,
            )
            if parts
            else element("p", {"class": "empty"}, "The group has no hosts."),
        )

    def _key(self) -> Html:
        """Return what the lines and colours mean."""
        return element(
            "p",
            {"class": "key"},
            *(
                element("span", {}, element("span", {"class": f"line {kind}", "aria-hidden": "true"}), text)
                for kind, text in (
                    ("bridge", "bridge network, inside one host"),
                    ("overlay", "overlay network, across hosts"),
                    ("free", "free"),
                    *([("heat", "stronger: more of a host is held")] if len(self.hosts) >= HEAT_HOSTS else []),
                )
            ),
        )

    def _heat(self) -> Html | None:
        """Return a square for each host of a large group, by what is held of it, which leads to the host below.

        It is for the pointer: to readers who hear the page it says nothing that the hosts do not.
        """
        if len(self.hosts) < HEAT_HOSTS:
            return None
        return element("ul", {"class": "heat", "aria-hidden": "true"}, *map(self._cell, self.hosts))

    def _cell(self, host: Mapping[str, Any]) -> Html:
        kind, text = "bad", "cannot be used"
        if is_ready(host):
            part, of = max(_held_parts(host))
            kind, text = f"heat{ceil(min(1.0, part) * HEATS)}", f"{round(part * 100)} % of {of} held"
            if host["drained"]:
                kind, text = "drained", f"drained, {text}"
        where = {"href": f"#h{self.numbers[host['name']]}", "tabindex": "-1", "class": f"cell {kind}"}
        link = element("a", {**where, "title": f"{host['name']}: {text}"}, "")
        return element("li", {"data-search": self._search(host)}, link)

    def _search(self, host: Mapping[str, Any]) -> str:
        placed = self.placed.get(host["name"], [])
        found = [host["name"], *_labels(host), *(session["name"] for session, _replicas in placed)]
        found += [session["owner"] for session, _replicas in placed]
        return search([*found, "" if is_ready(host) else "not usable"])

    def _hosts(self, hosts: Sequence[Mapping[str, Any]]) -> Html:
        return element("ul", {"class": "hosts"}, *map(self._host, hosts))

    def _host(self, host: Mapping[str, Any]) -> Html:
        name = host["name"]
        placed = self.placed.get(name, [])
        head = element(
            "h3",
            {},
            words(name, **{"class": "name", "title": name}),
            *(element("span", {"class": "tag"}, words(label)) for label in _labels(host)),
        )
        if not is_ready(host):
            warning = element("span", {"aria-hidden": "true"}, SIGN["bad"], " ")
            rest = [element("p", {"class": "bad"}, warning, "Not usable. ", words(host["problem"]))]
        else:
            rest = [self._meters(host, placed)]
        if placed:
            bridges_first = sorted(placed, key=lambda group: _driver(group[0]) == "vxlan")
            rest.append(element("ul", {"class": "groups"}, *(self._group(*group) for group in bridges_first)))
        elif is_ready(host):
            held = host["held"]["replicas"]
            text = "Idle" if not held else f"{many(held, 'replica')} of sessions that are not recorded"
            rest.append(element("p", {"class": "quiet"}, text))
        kind = "host" if is_ready(host) else "host unusable"
        where = {"id": f"h{self.numbers[name]}", "class": kind, "data-host": name, "data-search": self._search(host)}
        return element("li", where, head, *rest)

    def _meters(self, host: Mapping[str, Any], placed: Placed) -> Html:
        rows = []
        for label, key, form in (("CPU", "cpus", format_cpus), ("Memory", "memory", memory)):
            free, held, total = (host[what][key] for what in ("free", "held", "capacity"))
            amounts = [sum(replica["resources"][key] for replica in replicas) for _session, replicas in placed]
            rows.append(self._meter(label, self._coloured(placed, amounts, held), free, total, form))
        for kind, devices in sorted(host["capacity"]["accelerators"].items()):
            free, total = len(host["free"]["accelerators"].get(kind, ())), len(devices)
            amounts = [sum(_held(replica, kind) for replica in replicas) for _session, replicas in placed]
            rows.append(self._meter(kind, self._coloured(placed, amounts, total - free), free, total, str))
        return element("dl", {"class": "meters"}, *rows)

    def _coloured(self, placed: Placed, amounts: Sequence[int], held: int) -> list[tuple[int, str]]:
        """Return the *amounts* of sessions on a host with their colours, and the rest of what is *held*."""
        parts = [(amount, self._mark(session).colour) for amount, (session, _replicas) in zip(amounts, placed)]
        return [*parts, (max(0, held - sum(amounts)), "other")]

    def _meter(
        self, label: str, parts: Sequence[tuple[int, str]], free: int, total: int, form: Callable[[int], str]
    ) -> Html:
        if self.dense:  # the bar is too short for both amounts
            text = [form(free), unseen(f" of {form(total)}"), " free"]
        else:
            text = [f"{part_of(free, total, form)} free"]
        return element(
            "div",
            {},
            element("dt", {}, words(label)),
            element(
                "dd",
                {},
                amount_bar(parts, total),
                element("span", {"class": "amount", "title": f"{part_of(free, total, form)} free"}, *text),
            ),
        )

    def _group(self, session: Mapping[str, Any], replicas: Sequence[Mapping[str, Any]]) -> Html:
        worst = _worst(replicas)
        mark = self._mark(session)
        button = opener(
            mark.id,
            session["name"],
            mark.show(),
            element("span", {"class": "count", "aria-hidden": "true"}, f"{TIMES}{len(replicas)}"),
            sign(worst) if self.dense and worst != "RUNNING" else None,
            unseen(f" {many(len(replicas), 'replica')}, {worst.lower()}"),
        )
        chips = element(
            "ul",
            {"class": "chips"},
            *(
                element(
                    "li",
                    {"class": SEVERITY.get(replica["status"], "wait")},
                    sign(replica["status"]),
                    words(replica["name"]),
                )
                for replica in replicas
            ),
        )
        driver = _driver(session)
        network = session["network"]
        network_line = None
        if network is not None:
            subnet = words(network["subnet"])
            kind = "overlay" if driver == "vxlan" else "bridge"
            network_line = element("p", {"class": f"net {kind}"}, element("span", {}, f"{kind} ", subnet))
        return element(
            "li",
            {
                "class": f"group {mark.colour}",
                "data-session": mark.id,
                "data-net": "overlay" if driver == "vxlan" else None,
                "data-label": _wire_label(session) if driver == "vxlan" else None,
                "data-mark": mark.letters,
            },
            button,
            None if self.dense else chips,
            None if self.dense else network_line,
        )

    def _mark(self, session: Mapping[str, Any]) -> Mark:
        return self.marks[session["id"]]


def _labels(host: Mapping[str, Any]) -> list[str]:
    """Return the labels of a host, and what else is known of it in a word."""
    labels = [f"{key} {value}" for key, value in sorted((host["labels"] or {}).items())]
    return labels + [word for word in ("drained", "suspect") if host[word]]


def _held_parts(host: Mapping[str, Any]) -> Iterator[tuple[float, str]]:
    """Yield which part of each resource of a host is held, and its name."""
    for key, name in (("cpus", "CPUs"), ("memory", "memory")):
        yield host["held"][key] / (host["capacity"][key] or 1), name
    if host["capacity"]["replicas"] is not None:
        yield host["held"]["replicas"] / (host["capacity"]["replicas"] or 1), "replicas"
    for kind, devices in host["capacity"]["accelerators"].items():
        yield 1 - len(host["free"]["accelerators"].get(kind, ())) / (len(devices) or 1), kind


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
    return str(
        min((replica["status"] for replica in replicas), key=lambda status: order.index(SEVERITY.get(status, "wait")))
    )

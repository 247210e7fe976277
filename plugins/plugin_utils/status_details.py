# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The details of a session on the page of a resource group, with its full state in a drawer at the side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..module_utils._internal.core.model.record import DEFAULT_GROUP
from ..module_utils._internal.core.values.parse import format_span
from ..module_utils._internal.core.values.resources import format_cpus
from .markup import Html, element, join, words
from .status_parts import NOTHING, TIMES, Mark, badge, fact_list, section, session_badge, table_head, usage
from .wording import cpus, devices, images, many, memory, why


def drawer(session: Mapping[str, Any], mark: Mark) -> Html:
    """Return the details of a session that is or was placed."""
    name = mark.id
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
        {"id": name, "popover": "auto", "class": f"drawer {mark.colour}", "aria-labelledby": f"{name}-t"},
        element(
            "header",
            {},
            mark.show(),
            element("h2", {"id": f"{name}-t"}, words(session["name"])),
            session_badge(session),
            _close(name),
        ),
        _login(session),
        report,
        fact_list(facts),
        _replicas(session),
        section("Allocation", fact_list(_allocation(session))),
        section("Request", _request(session["request"])),
        _history(session["history"]),
    )


def _login(session: Mapping[str, Any]) -> Html | None:
    """Return the command that enters main1 of a running session."""
    if session["status"] != "RUNNING" or not session["replicas"]:
        return None
    main = session["replicas"][0]
    if session["ssh_port"] is None:
        where, command = f"On {main['host']}: ", f"docker exec -it {main['container']} /bin/sh"
    else:
        group = session["resource_group"]
        options = "" if group in (None, DEFAULT_GROUP) else f"-g {group} "
        where, command = "Log in: ", f"ccs ssh {options}{session['name']}"
    copy = element("button", {"type": "button", "class": "copy", "hidden": True}, "Copy")
    return element("p", {"class": "login"}, where, element("code", {}, command), " ", copy)


def waiting_drawer(name: str, entry: Mapping[str, Any], waiting: Mapping[str, Any]) -> Html:
    """Return the details of a session that waits.

    name: id of the element. entry: its entry in the queue. waiting: the session.
    """
    facts: list[tuple[str, object]] = [
        ("Id", element("code", {}, entry["session_id"])),
        ("Owner", words(entry["owner"])),
        ("Position", f"{entry['position']}, priority {entry['priority']}, number {entry['number']}"),
    ]
    return element(
        "dialog",
        {"id": name, "popover": "auto", "class": "drawer", "aria-labelledby": f"{name}-t"},
        element(
            "header",
            {},
            element("h2", {"id": f"{name}-t"}, words(entry["session_name"])),
            badge("PENDING"),
            _close(name),
        ),
        fact_list(facts),
        section(
            "Why it waits",
            element("p", {}, words(why(entry["reason"]) or NOTHING)),
            element("pre", {"class": "report", "tabindex": "0"}, "\n".join(entry["reason"])),
        ),
        section("Request", _request(waiting["request"])),
        _history(waiting["history"]),
    )


def _allocation(session: Mapping[str, Any]) -> list[tuple[str, object]]:
    replicas = session["replicas"]
    per_host = Counter(replica["host"] for replica in replicas)
    where = [
        element("li", {}, words(host), f" {TIMES}{per_host[host]}" if host in per_host else "")
        for host in session["hosts"]
    ]
    facts: list[tuple[str, object]] = [
        ("Mode", session["mode"] or NOTHING),
        ("Hosts", element("ul", {"class": "inline"}, *where) if where else "none"),
        *_network(session),
    ]
    if replicas:
        total = cpus(sum(replica["resources"]["cpus"] for replica in replicas))
        facts.append(("Together", f"{total}, {memory(sum(replica['resources']['memory'] for replica in replicas))}"))
        facts.append(("Images", _list(_images(replicas))))
    ports = [
        f"{replica['name']} on {replica['host']}: {_plain('ports', port)}"
        for replica in replicas
        for port in replica["ports"]
    ]
    facts.append(("Published ports", _list(ports) if ports else "none"))
    if session["times"] is not None:
        facts.append(("End", session["times"]["message"]))
    if session["ssh_port"] is not None:
        facts.append(("Login of the owner", f"port {session['ssh_port']} of {replicas[0]['host']}"))
    return facts


def _list(lines: Iterable[object], kind: str | None = None) -> Html:
    return element("ul", {"class": kind}, *(element("li", {}, line) for line in lines))


def _network(session: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    network = session["network"]
    if network is not None:
        kind = "overlay (VXLAN)" if network["driver"] == "vxlan" else "bridge"
        kind = f"encrypted {kind}" if network["tunnel"] else kind
        lines = [f"{kind} {network['subnet']} on {network['interface']}"]
        lines += [
            f"{label} {network[key]}"
            for label, key in (("identifier", "vni"), ("UDP port", "port"), ("MTU", "mtu"))
            if network.get(key)
        ]
        yield "Network", ", ".join(lines)
    elif session["replicas"]:
        yield "Network", "none besides the egress network: a session of one replica"
    if session["egress"] is not None:
        yield "Way out", session["egress"]["subnet"]


def _images(replicas: Sequence[Mapping[str, Any]]) -> list[Html]:
    """Return the images of replicas, with their hosts if they differ between hosts."""
    found = images(replicas)
    references = [reference for reference, _meaning, _hosts in found]
    return [
        join(
            (
                words(reference),
                " ",
                element("code", {}, meaning),
                f" on {', '.join(hosts)}" if references.count(reference) > 1 else None,
            )
        )
        for reference, meaning, hosts in found
    ]


def _replicas(session: Mapping[str, Any]) -> Html:
    if not session["replicas"]:
        text = "It has none." if session["request"] else "The hosts that know its replicas are unreachable."
        return section("Replicas", element("p", {"class": "empty"}, text))
    rows = []
    for replica in session["replicas"]:
        limit = replica["resources"]
        used, exit_code = replica["usage"], replica["exit_code"]
        ended = NOTHING if exit_code is None else element("span", {}, exit_code)
        if replica["oom_killed"]:
            ended = join((ended, element("small", {}, "out of memory")))
        elif replica["stopped"]:
            ended = join((ended, element("small", {"title": replica["stopped"]}, "stopped by the host")))
        held = devices(replica["devices"])
        if replica["memory_nodes"]:
            held.append(f"NUMA-node={','.join(map(str, replica['memory_nodes']))}")
        rows.append(
            element(
                "tr",
                {},
                element("th", {"scope": "row"}, words(replica["name"], title=replica["container"])),
                element("td", {}, badge(replica["status"])),
                element("td", {}, words(replica["host"])),
                element("td", {}, element("code", {}, replica["address"] or NOTHING)),
                element("td", {"class": "number"}, replica["rank"]),
                element("td", {"class": "number"}, replica["local_rank"]),
                element("td", {"class": "number"}, replica["node_rank"]),
                element("td", {}, ended),
                element("td", {}, usage(used, limit, "cpus", format_cpus)),
                element("td", {}, usage(used, limit, "memory", memory)),
                element("td", {}, words(" ".join(held) or NOTHING)),
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
        "CPU used",
        "Memory used",
        "Devices",
    )
    label = f"Replicas of {session['name']}"
    table = element(
        "div",
        {"class": "scroll", "tabindex": "0", "role": "region", "aria-label": label},
        element("table", {}, table_head(*columns), element("tbody", {}, *rows)),
    )
    return section("Replicas", table)


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
        element("li", {"value": entry["revision"]}, badge(entry["status"]), " ", words(entry["reason"]))
        for entry in history
    ]
    return section("Status history", element("ol", {"class": "history"}, *steps))


def _request(request: Mapping[str, Any] | None) -> Html:
    """Return the request."""
    if request is None:
        return element("p", {"class": "empty"}, "Not known on the hosts that answer.")
    facts: list[tuple[str, object]] = [
        (f"Role {role['name']}", _list(_role(role), "plain")) for role in request["roles"]
    ]
    for key, value in request.items():
        if key in ("name", "roles") or value in (None, "", [], {}):
            continue
        facts.append((key.replace("_", " ").capitalize(), words(_plain(key, value))))
    return fact_list(facts)


def _role(role: Mapping[str, Any]) -> list[object]:
    """Return what a role of the request has, line by line."""
    resources = role["resources"]
    amounts = [cpus(resources["cpus"]), memory(resources["memory"]), *_options(resources, ("cpus", "memory"))]
    lines = [
        element("strong", {}, many(role["replicas"], "replica")),
        join((" of ", words(role["image"]))),
        f"each {', '.join(amounts)}",
    ]
    if role.get("command"):
        lines.append(join(("command ", element("code", {}, " ".join(role["command"])))))
    if role.get("env"):
        lines.append(join(("variables ", words(", ".join(sorted(role["env"]))))))
    return [*lines, *_options(role, ("name", "replicas", "image", "resources", "command", "env"))]


def _options(options: Mapping[str, Any], shown: Collection[str]) -> list[str]:
    """Return options that are set, with their values. shown: those that are shown elsewhere."""
    return [
        f"{key.replace('_', ' ')} {_plain(key, value)}" for key, value in options.items() if key not in shown and value
    ]


def _plain(key: str, value: Any) -> str:
    """Return any value of a request as text."""
    if key in ("max_duration", "max_idle", "end_warning"):
        return format_span(value)
    if key.endswith(("memory", "size")) and isinstance(value, int) and not isinstance(value, bool):
        return memory(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping) and key == "ports":
        return f"{value['host_ip']}:{value['host_port']} → {value['container_port']}/{value['protocol']}"
    if isinstance(value, Mapping):
        return ", ".join(
            f"{name.replace('_', ' ')} {_plain(name, item)}" for name, item in value.items() if item is not None
        )
    if isinstance(value, (list, tuple)):
        return "; ".join(_plain(key, item) for item in value)
    return str(value)

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Show a resource group as tables for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.cluster_compute.session.plugins.filter.queue_table import queue_table
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import printable
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.resources import format_cpus
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.table import table
from ansible_collections.cluster_compute.session.plugins.plugin_utils.status_parts import DENSE_HOSTS, is_ready
from ansible_collections.cluster_compute.session.plugins.plugin_utils.wording import many, memory, why

DOCUMENTATION = r"""
name: status_table
short_description: Show a resource group as tables for a terminal
version_added: 1.0.0
author: The cluster_compute.session authors (@cluster-compute)
description:
  - Returns lines with a table of sessions, one of replicas, one of hosts, the queue with the reason why each session
    waits, and what needs attention.
  - Hosts without sessions are counted, not listed.
  - With more than 24 hosts, only what needs attention is listed in full - replicas that do not run and hosts that
    cannot be used. The tables in the reasons for waiting are left out. The replicas of a single session are always
    listed.
options:
  _input:
    description: What M(cluster_compute.session.session_info) returns as C(overview).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the resource group
  ansible.builtin.debug:
    msg: "{{ info_answer.overview | cluster_compute.session.status_table }}"
"""

RETURN = r"""
_value:
  description: The lines.
  type: list
  elements: str
"""

SESSION_COLUMNS = ("SESSION", "STATUS", "MODE", "RUNNING", "HOSTS", "NETWORK", "SUBNET", "LOGIN", "OWNER")
REPLICA_COLUMNS = ("SESSION", "REPLICA", "HOST", "ADDRESS", "RANK", "STATUS", "EXIT", "CPU", "MEMORY", "PORTS")
HOST_COLUMNS = ("HOST", "SESSIONS", "REPLICAS", "FREE-CPUS", "FREE-MEMORY", "FREE-ACCELERATORS")


def status_table(overview: Mapping[str, Any]) -> list[str]:
    """Return the lines that show *overview*."""
    sessions = [session for session in overview["sessions"] if session["status"] != "PENDING"]
    counted = [
        many(len(overview["hosts"]), "host"),
        many(len(sessions), "session"),
        f"{len(overview['pending'])} waiting",
    ]
    dense = len(overview["hosts"]) > DENSE_HOSTS
    return [
        f"Resource group {printable(overview['resource_group'])}: {', '.join(counted)}.",
        *_session_lines(sessions),
        *_replica_lines(sessions, dense),
        *_host_lines(overview["hosts"], dense),
        *_queue_lines(overview["pending"], overview["waiting_elsewhere"], dense),
        *_apart([f"Attention: {printable(finding)}" for finding in overview["findings"]]),
    ]


def _apart(lines: Sequence[str]) -> list[str]:
    """Return lines after an empty one, if there are any."""
    return ["", *lines] if lines else []


def _session_lines(sessions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if sessions:
        yield from _apart(table([SESSION_COLUMNS, *map(_session, sessions)]))
    for session in sessions:
        yield from (f"{printable(session['name'])}: {printable(line)}" for line in session["report"])
    for session in sessions:
        if session["times"]:
            yield f"{printable(session['name'])} ends {session['times']['message']}."


def _replica_lines(sessions: Sequence[Mapping[str, Any]], dense: bool) -> Iterator[str]:
    """Yield the replicas; if there is little room, of several sessions only those that do not run."""
    replicas = [(session, replica) for session in sessions for replica in session["replicas"]]
    is_short = dense and len(sessions) != 1
    listed = [pair for pair in replicas if not is_short or pair[1]["status"] != "RUNNING"]
    if listed:
        yield from _apart(table([REPLICA_COLUMNS, *(_replica(*pair) for pair in listed)]))
    if len(listed) < len(replicas):
        unlisted = many(len(replicas) - len(listed), "replica")
        yield from ("", f"Not listed, as they run: {unlisted}. session_name=NAME lists those of a session.")


def _host_lines(hosts: Sequence[Mapping[str, Any]], dense: bool) -> Iterator[str]:
    """Yield the hosts, with those that need not be listed as a number."""
    listed = [host for host in hosts if not (is_ready(host) if dense else _is_idle(host))]
    if listed:
        yield from _apart(table([HOST_COLUMNS, *map(_host, listed)]))
    idle = [host for host in hosts if _is_idle(host)]
    busy = [host for host in hosts if dense and is_ready(host) and not _is_idle(host)]
    yield from _apart([_counted(some, word) for some, word in ((busy, "with"), (idle, "without")) if some])


def _queue_lines(
    pending: Sequence[Mapping[str, Any]], elsewhere: Sequence[Mapping[str, Any]], dense: bool
) -> list[str]:
    if not pending and not elsewhere:
        return []
    entries = [{**entry, "reason": [why(entry["reason"])]} if dense else entry for entry in pending]
    return ["", *map(printable, queue_table(entries, elsewhere))]


def _is_idle(host: Mapping[str, Any]) -> bool:
    return is_ready(host) and not host["held"]["replicas"]


def _counted(hosts: list[Mapping[str, Any]], word: str) -> str:
    free = [sum(host["free"][key] for host in hosts) for key in ("cpus", "memory")]
    return f"{many(len(hosts), 'host')} {word} sessions: {format_cpus(free[0])} CPUs, {memory(free[1])} free."


def _session(session: Mapping[str, Any]) -> tuple[str, ...]:
    running = sum(1 for replica in session["replicas"] if replica["status"] == "RUNNING")
    network = session["network"]
    kind = subnet = None
    if network is not None:
        kind = {"vxlan": "overlay"}.get(network["driver"], network["driver"])
        kind = f"encrypted-{kind}" if network["tunnel"] else kind
        subnet = network["subnet"]
    return _row(
        session["name"],
        session["status"],
        session["mode"],
        f"{running}/{session['size']}" if session["replicas"] else None,
        _some(session["hosts"]),
        kind,
        subnet,
        None if session["ssh_port"] is None else f"{session['replicas'][0]['host']}:{session['ssh_port']}",
        session["owner"],
    )


def _replica(session: Mapping[str, Any], replica: Mapping[str, Any]) -> tuple[str, ...]:
    use, limit = replica["usage"], replica["resources"]
    ports = (
        f"{port['host_ip']}:{port['host_port']}->{port['container_port']}/{port['protocol']}"
        for port in replica["ports"]
    )
    return _row(
        session["name"],
        replica["name"],
        replica["host"],
        replica["address"],
        replica["rank"],
        replica["status"],
        replica["exit_code"],
        None if use is None else f"{format_cpus(use['cpus'])}/{format_cpus(limit['cpus'])}",
        None if use is None else f"{_memory(use['memory'])}/{_memory(limit['memory'])}",
        ",".join(ports),
    )


def _host(host: Mapping[str, Any]) -> tuple[str, ...]:
    free = host["free"]
    if not host["usable"] or free is None:
        return _row(host["name"], "unusable", None, None, None, None)
    accelerators = ",".join(f"{kind}={len(names)}" for kind, names in sorted(free["accelerators"].items()))
    return _row(
        host["name"],
        _some(host["sessions"]),
        host["held"]["replicas"],
        format_cpus(free["cpus"]),
        _memory(free["memory"]),
        accelerators,
    )


def _memory(amount: int) -> str:
    # No cell contains a space, because Ansible shows the lines as YAML, which breaks long lines at single spaces.
    return memory(amount).replace(" ", "")


def _some(names: Iterable[str]) -> str:
    found = list(names)
    return ",".join([*found[:3], *([f"+{len(found) - 3}"] if len(found) > 3 else [])])


def _row(*cells: object) -> tuple[str, ...]:
    return tuple("-" if cell is None or cell == "" else str(cell) for cell in cells)


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"status_table": status_table}

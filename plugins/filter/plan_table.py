# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Show what a launch would do as lines of text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import spoken
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.resources import (
    format_cpus,
    format_memory,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.table import table
from ansible_collections.cluster_compute.session.plugins.plugin_utils.wording import devices, images

DOCUMENTATION = r"""
name: plan_table
short_description: Show what a launch would do as lines of text
version_added: 1.0.0
author: The cluster_compute.session authors (@cluster-compute)
description:
  - Returns the report of the launch, then the replicas with their hosts, the network, the changes on each host, and the
    variables of the replicas.
options:
  _input:
    description: What the filter P(cluster_compute.session.plan_preview#filter) returns.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show what a launch would do
  ansible.builtin.debug:
    msg: "{{ plan_answer | cluster_compute.session.plan_table }}"
"""

RETURN = r"""
_value:
  description: The lines.
  type: list
  elements: str
"""

COLUMNS = ("REPLICA", "HOST", "ADDRESS", "MAC", "RANK", "LOCAL", "NODE", "CPUS", "MEMORY", "DEVICES", "PORTS", "IMAGE")
SHOWN = 32
"""Number of replicas whose own variables are shown. The data has the variables of all."""


def plan_table(answer: Mapping[str, Any]) -> list[str]:
    """Return the lines that show what a launch would do."""
    lines = list(answer["report"])
    replicas = answer["replicas"]
    if replicas:
        lines += ["", *table([COLUMNS, *map(_row, replicas)]), "", *_networks(answer), *_images(replicas)]
    for host in answer["hosts"]:
        if host["changes"]:
            lines += ["", f"Changes on {host['name']}:", *(f"  {change}" for change in host["changes"])]
        else:
            lines += ["", f"Nothing changes on {host['name']}."]
    if replicas:
        lines += _variables(replicas)
    if answer["is_new"]:
        lines += ["", "A launch draws a new id, and from it subnets, addresses and identifiers; all else is as shown."]
    return list(spoken(lines))


def _row(replica: Mapping[str, Any]) -> tuple[str, ...]:
    ports = (
        f"{port['host_ip']}:{port['host_port']}->{port['container_port']}/{port['protocol']}"
        for port in replica["ports"]
    )
    return (
        replica["name"],
        replica["host"],
        replica["address"] or "-",
        replica["mac"] or "-",
        *(str(replica[key]) for key in ("rank", "local_rank", "node_rank")),
        format_cpus(replica["resources"]["cpus"]),
        format_memory(replica["resources"]["memory"]),
        ",".join(devices(replica["devices"])) or "-",
        ",".join(ports) or "-",
        replica["image"],
    )


def _networks(answer: Mapping[str, Any]) -> list[str]:
    network = answer["network"]
    lines = [f"Way out: a bridge on each host, {answer['egress']['subnet']}."]
    if answer["ssh_port"] is not None:
        lines.append(f"Login of the owner: port {answer['ssh_port']} of {answer['replicas'][0]['host']}.")
    if answer["ends"]:
        lines.append(f"End: {answer['ends']}.")
    if network is None:
        return ["No network of its own: it has one replica.", *lines]
    if network["driver"] == "bridge":
        return [f"Network: bridge {network['subnet']} on {network['interface']}.", *lines]
    link = f"VXLAN {network['vni']}, UDP port {network['port']}, MTU {network['mtu']}"
    kind = "encrypted overlay" if network["tunnel"] else "overlay"
    return [f"Network: {kind} {network['subnet']} on {network['interface']}, {link}.", *lines]


def _images(replicas: list[Mapping[str, Any]]) -> list[str]:
    return [
        f"Image {reference}: {meaning or 'yet to be fetched'} on {', '.join(hosts)}."
        for reference, meaning, hosts in images(replicas)
    ]


def _variables(replicas: list[Mapping[str, Any]]) -> list[str]:
    from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.show.preview import (
        common,  # Ansible loads all filters for one
    )

    shared = common([replica["environment"] for replica in replicas])
    lines = ["", "Variables of every replica:", *(f"  {name}={value}" for name, value in sorted(shared.items()))]
    for replica in replicas[:SHOWN] if len(replicas) > 1 else ():
        own = sorted((name, value) for name, value in replica["environment"].items() if name not in shared)
        lines += [f"Variables of {replica['name']}:", *(f"  {name}={value}" for name, value in own)]
    if len(replicas) > SHOWN:
        lines.append(f"Those of the other {len(replicas) - SHOWN} replicas are in the data.")
    given = sorted({name for replica in replicas for name in replica["own_variables"]})
    if given:
        lines.append(f"Variables of the request, whose values are not shown: {', '.join(given)}.")
    return lines


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"plan_table": plan_table}

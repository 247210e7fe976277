# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""List what Prometheus can scrape inside sessions."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.parse import parse_integer

DOCUMENTATION = r"""
name: scrape_targets
short_description: List what Prometheus can scrape inside sessions
version_added: 1.0.0
author: The cluster_compute.session authors (@cluster-compute)
description:
  - Returns the ports of exporters inside running sessions, in the format of Prometheus' C(file_sd_configs), each with
    the labels C(session), C(replica), C(role), C(owner), C(host) and C(port), the port inside the replica.
  - A port is listed if the session publishes it (C(session_ports)). Prometheus has no other access to a session. A port
    that is published at a loopback or link-local address is left out, because only its own host can reach it.
options:
  _input:
    description: What M(cluster_compute.session.session_info) returns as C(overview).
    type: dict
    required: true
  ports:
    description: TCP ports inside replicas on which exporters listen.
    type: list
    elements: int
    default: [9100, 9400]
"""

EXAMPLES = r"""
- name: Write the targets where Prometheus reads them
  ansible.builtin.copy:
    content: "{{ info_answer.overview | cluster_compute.session.scrape_targets(ports=[9400]) | to_nice_json }}\n"
    dest: /etc/prometheus/sessions.json
    mode: "0644"
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
_value:
  description: The targets.
  type: list
  elements: dict
"""

EVERY_ADDRESS = ("0.0.0.0", "::", "")  # noqa: S104 - compared with, not listened on


def scrape_targets(overview: Mapping[str, Any], ports: Iterable[object] = (9100, 9400)) -> list[dict[str, Any]]:
    """Return the targets that *overview* holds, by session and rank."""
    try:
        wanted = {parse_integer("ports", port, 1, 65535) for port in ports}
    except InvalidInput as error:
        raise AnsibleFilterError(str(error)) from error
    addresses = {host["name"]: (host["underlay"] or {}).get("address") or host["name"] for host in overview["hosts"]}
    return [
        {
            "targets": [_target(port, addresses.get(replica["host"], replica["host"]))],
            "labels": {
                "session": session["name"],
                "replica": replica["name"],
                "role": replica["role"],
                "owner": session["owner"],
                "host": replica["host"],
                "port": str(port["container_port"]),
            },
        }
        for session in overview["sessions"]
        for replica in session["replicas"]
        for port in replica["ports"]
        if replica["status"] == "RUNNING" and port["protocol"] == "tcp" and port["container_port"] in wanted
        if _is_reachable(port["host_ip"])
    ]


def _is_reachable(host_ip: str) -> bool:
    if host_ip in EVERY_ADDRESS:
        return True
    address = ipaddress.ip_address(host_ip)
    address = getattr(address, "ipv4_mapped", None) or address
    return not (address.is_loopback or address.is_link_local)


def _target(port: Mapping[str, Any], address: str) -> str:
    place = address if port["host_ip"] in EVERY_ADDRESS else str(port["host_ip"])
    return f"[{place}]:{port['host_port']}" if ":" in place else f"{place}:{port['host_port']}"


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"scrape_targets": scrape_targets}

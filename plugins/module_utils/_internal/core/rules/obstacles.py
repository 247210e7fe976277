# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reasons why a host cannot take replicas of a running session, whatever its capacity.

The session's networks, published ports and folders cannot change, so a host has to fit them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ..model.facts import HostFacts
from ..model.fields import SINGLE_NODE
from ..model.plan import BRIDGE, Network, Plan
from ..model.request import Request
from ..values.errors import InvalidInput
from ..values.ports import EVERY_ADDRESS, ports_collide
from .admission import has_address, owners_of, why_not_encrypted, why_unfit
from .build import overlay_mtu
from .data import sharing_problems, some_of
from .endpoints import why_no_endpoint


def obstacles(
    plan: Plan,
    request: Request,
    coming: Collection[str],
    hosts: Iterable[str],
    hosts_facts: Mapping[str, HostFacts],
    looked: bool = True,
) -> dict[str, str]:
    """Return why *hosts* cannot take replicas that come to them, a sentence by host, without hosts that can.

    coming: names of the replicas that need a host. Reasons that concern main1 are given only if it is among them.
    looked: whether hosts reported the facts that only a launch needs, folders and encryption; if not, they are left
    out.
    """
    stay = list(dict.fromkeys(entry.host for entry in plan.replicas if entry.name not in coming))
    stay = [host for host in stay if host in hosts_facts]
    found = {}
    for host in hosts:
        why = why_unfit(request, hosts_facts[host])
        if not why and host not in plan.hosts:
            why = _why_not_carried(plan, request, stay, hosts_facts, host, looked)
        if not why and "main1" in coming:
            why = _why_not_main(request, hosts_facts[host])
        why = why or _why_not_named(request, coming, hosts_facts[host])
        if why:
            found[host] = why
    return found


def _why_not_named(request: Request, coming: Iterable[str], facts: HostFacts) -> str:
    """Return the container on a host that has the name of one of the session's, a sentence; empty if there is none."""
    names = (f"{request.name}-{replica}" for replica in coming)
    return next(
        (f"It has a container named {name} already." for name in names if owners_of(facts, name, request.name)), ""
    )


def unfit_hosts(request: Request, hosts_facts: Mapping[str, HostFacts]) -> dict[str, str]:
    """Return why hosts cannot take any replica of a session that is to start, a sentence by host, without other hosts.

    The reasons are properties of the hosts, not a lack of free resources.
    """
    return {host: why for host, facts in hosts_facts.items() if (why := why_unfit(request, facts))}


def render_obstacles(found: Mapping[str, str]) -> list[str]:
    """Return obstacles as lines of text, with one line for all hosts that have the same."""
    reasons: dict[str, list[str]] = {}
    for host, why in found.items():
        reasons.setdefault(why, []).append(host)
    return [f"{some_of(hosts)}: {why}" for why, hosts in reasons.items()]


def _why_not_carried(
    plan: Plan, request: Request, stay: list[str], hosts_facts: Mapping[str, HostFacts], host: str, looked: bool
) -> str:
    network = plan.network
    if request.mode == SINGLE_NODE:
        return "session_mode is single-node, which keeps the session on its host."
    if network is None or network.driver == BRIDGE:
        return (
            "The session's networks are on its host alone, which it cannot leave while it runs. With session_max_size "
            "at its launch it has an overlay; session_recreate=true creates it again."
        )
    why = _why_no_overlay(plan, network, hosts_facts[host])
    if not why:
        why = why_no_endpoint({name: hosts_facts[name] for name in dict.fromkeys([*stay, host])}).get(host, "")
    if why or not looked:
        return why
    if network.tunnel is not None and (why := why_not_encrypted(hosts_facts[host])):
        return f"The session is encrypted. {why}"
    problems = sharing_problems(request, [*stay, host], hosts_facts)
    return f"{problems[0].value}: {problems[0].message}" if problems else ""


def _why_no_overlay(plan: Plan, network: Network, facts: HostFacts) -> str:
    underlay = facts.underlay
    some = next(iter(plan.hosts.values())).underlay_address or ""
    if underlay is None or (":" in underlay.address) != (":" in some):
        return f"The session's hosts reach each other by addresses such as {some}, and it has none of that kind."
    try:
        mtu = overlay_mtu({"": underlay}, network.tunnel is not None)
    except InvalidInput:
        mtu = 0
    if mtu < (network.mtu or 0):
        return f"Its MTU of {underlay.mtu} is too small for the session's network, whose own is {network.mtu}."
    if network.tunnel is not None and any((port.port, port.protocol) == (network.port, "udp") for port in facts.ports):
        return f"UDP port {network.port}, that of the session's tunnel, is taken there."
    return ""


def _why_not_main(request: Request, facts: HostFacts) -> str:
    """Return why main1 cannot publish on a host the addresses and ports that its user named."""
    wanted = [("session_ports", port.host_ip, port.host_port, port.protocol) for port in request.ports]
    if request.ssh_port is not None:
        wanted.append(("session_ssh_port", EVERY_ADDRESS, request.ssh_port, "tcp"))
    for variable, address, number, protocol in wanted:
        where = f"{address}:{number}/{protocol}"
        if not has_address(facts, address):
            return f"It does not have the address of {where}, which main1 publishes ({variable})."
        for taken in facts.ports:
            if ports_collide(address, number, protocol, taken.address, taken.port, taken.protocol):
                return f"Port {where}, which main1 publishes ({variable}), is taken there."
    return ""

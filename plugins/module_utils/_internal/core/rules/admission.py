# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Requests that are rejected before anything is made, because the hosts cannot run them; and why one has to wait."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any

from ..model.facts import HostFacts
from ..model.fields import FIELDS, SINGLE_NODE
from ..model.plan import Plan
from ..model.request import Request
from ..values.errors import InvalidInput, Problem
from ..values.ports import EVERY_ADDRESS, ports_collide
from ..values.resources import format_cpus, format_memory
from ..values.table import table
from .addressing import SSH_PORTS
from .data import mount_problems, sharing_problems, some_of
from .placement import Host, Placement, Shortfall, format_amount
from .site import Settings

AMOUNTS = ("memory", "shm_size")
"""Amounts whose defaults suit few programs that use accelerators."""
SHOWN_HOSTS = 100
"""Number of hosts in the table of a shortfall; the totals count all hosts."""


def check_request_fits_idle(request: Request, hosts: Sequence[Host]) -> None:
    """Reject a request for a replica that is larger than every host, even an idle one.

    Raises InvalidInput naming the variable, the value and the most that any host offers.
    """
    offers = [host.allocatable for host in hosts if request.may_use(host.name)]
    if not offers:
        return
    most_cpus, most_memory = max(offer.cpus for offer in offers), max(offer.memory for offer in offers)
    problems = [
        Problem(
            variable,
            form(amount),
            f"A replica of role {role.name} is larger than every host of the group; the largest offers "
            f"{form(most)} to sessions.",
        )
        for role in request.roles
        for variable, amount, most, form in (
            ("session_cpus", role.resources.cpus, most_cpus, format_cpus),
            ("session_memory", role.resources.memory, most_memory, format_memory),
        )
        if amount > most
    ]
    if problems:
        raise InvalidInput(problems)


def defaults_beside_accelerators(request: Request) -> list[str]:
    """Return a sentence for each amount that is at its default in roles with accelerators, often too small there.

    Data loaders of PyTorch hand batches to each other in /dev/shm, for example.
    """
    roles = [role for role in request.roles if role.resources.accelerators]
    found = []
    for field in (field for field in FIELDS if field.name in AMOUNTS):
        few = [
            role.name
            for role in roles
            if field.name not in dict(role.of_host) and getattr(role.resources, field.name) == field.standard
        ]
        if few:
            amount = f"{field.variable} is {format_memory(field.standard)}, the default, for {', '.join(few)}"
            found.append(f"{amount}. Beside accelerators that is mostly too little.")
    return found


def check_request_against_site(request: Request, settings: Settings) -> None:
    """Reject a request for ports that the site needs itself: one session would prevent others from starting.

    An owner's login may use one of the ports that are reserved for logins. Raises InvalidInput with every problem.
    """
    wanted = [("session_ports", port.socket, port.host_port, port.protocol) for port in request.ports]
    if request.ssh_port is not None:
        wanted.append(("session_ssh_port", str(request.ssh_port), request.ssh_port, "tcp"))
    problems = []
    for variable, shown, number, protocol in wanted:
        for ports in settings.ports:
            for_logins = variable == "session_ssh_port" and ports.variable == SSH_PORTS
            if ports.contains(number, protocol) and not for_logins:
                problems.append(
                    Problem(
                        variable,
                        shown,
                        f"Port {number}/{protocol} is one of the site's own, for {ports.purpose} ({ports.variable}). "
                        "Choose another port of the host.",
                    )
                )
    if problems:
        raise InvalidInput(problems)


def check_request_against_hosts(
    request: Request,
    facts_by_host: Mapping[str, HostFacts],
    placement: Placement | None = None,
    current: Plan | None = None,
    inventory: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Reject what is not possible on the hosts: mounts that the site does not allow or that are missing, ports that
    are taken, names of other containers.

    placement: if given, only the hosts it uses are checked, and ports on main1's host. Without it mounts are checked on
    every usable host that the request allows, addresses on any of them, and taken ports and names are left for later.
    current: the plan of the same session if it runs already; its own ports are not in the way. inventory: variables of
    each host, `HOST_VARIABLES`.
    Raises InvalidInput with every problem, naming host, variable and value.
    """
    if placement is not None:
        names = list(placement.hosts)
    else:
        names = [name for name, facts in facts_by_host.items() if facts.usable and request.may_use(name)]
    problems = [
        *mount_problems(request, names, facts_by_host, inventory or {}),
        *_address_problems(request, names, facts_by_host, placement),
        *_unfit_problems(request, names, facts_by_host),
    ]
    if placement is not None:
        main_host = placement.assignments[0][1]
        problems += sharing_problems(request, names, facts_by_host)
        problems += _encryption_problems(request, placement, facts_by_host)
        problems += _port_problems(request, main_host, facts_by_host[main_host], current)
        problems += _name_problems(request, placement, facts_by_host)
    if problems:
        raise InvalidInput(problems)


def _port_problems(request: Request, main_host: str, facts: HostFacts, current: Plan | None) -> list[Problem]:
    """Return the ports of a request that are taken on main1's host; those of the session itself are not in the way."""
    own = own_ports(current, main_host)
    there = [(taken.address, taken.port, taken.protocol) for taken in facts.ports]
    wanted = [
        ("session_ports", port.host_ip, port.host_port, port.protocol, "another host_port") for port in request.ports
    ]
    if request.ssh_port is not None:
        wanted.append(("session_ssh_port", EVERY_ADDRESS, request.ssh_port, "tcp", "another port, or none"))
    return [
        Problem(
            variable,
            f"{address}:{number}/{protocol}",
            f"This port is taken on {main_host}, the host of main1. Choose {another}.",
        )
        for variable, address, number, protocol, another in wanted
        if (number, protocol) not in own and any(ports_collide(address, number, protocol, *taken) for taken in there)
    ]


def _name_problems(request: Request, placement: Placement, facts_by_host: Mapping[str, HostFacts]) -> list[Problem]:
    """Return the replicas whose containers would have names of other containers on their hosts."""
    containers = [(replica, f"{request.name}-{replica}", host) for replica, host in placement.assignments]
    return [
        Problem(
            "session_name",
            request.name,
            f"The container of replica {replica} would be {name}, which {owner} has on {host} already. "
            "Choose another name, or rename that container.",
        )
        for replica, name, host in containers
        for owner in owners_of(facts_by_host[host], name, request.name)
    ]


def _address_problems(
    request: Request,
    names: Sequence[str],
    facts_by_host: Mapping[str, HostFacts],
    placement: Placement | None,
) -> list[Problem]:
    """Return the published addresses that main1's host does not have; without a placement, that none of *names* has."""
    main_host = None if placement is None else placement.assignments[0][1]
    suited = names if main_host is None else [main_host]
    problems = []
    for port in request.ports:
        having = [name for name, facts in facts_by_host.items() if has_address(facts, port.host_ip)]
        if any(name in having for name in suited):
            continue
        why = f"None of {some_of(names)} has this address."
        if main_host is not None:
            why = f"main1 would run on {main_host}, which does not have this address."
        hint = f" Hosts that have it: {some_of(having)}; name one in session_hosts." if having else ""
        problems.append(Problem("session_ports", f"{port.host_ip}:{port.host_port}/{port.protocol}", why + hint))
    return problems


def has_address(facts: HostFacts, text: str) -> bool:
    """Tell whether something can be published at an address on a host."""
    address = ipaddress.ip_address(text)
    return address.is_unspecified or (address.version == 4 and address.is_loopback) or text in facts.addresses


def _encryption_problems(
    request: Request, placement: Placement, facts_by_host: Mapping[str, HostFacts]
) -> list[Problem]:
    """Return which hosts do not support the encryption that a request needs; a session on one host needs nothing."""
    if not request.encrypted or len(placement.hosts) == 1:
        return []
    return [
        Problem(
            "session_encrypted",
            True,
            f"Host {host} cannot do it: {why} Or leave the host out with session_excluded_hosts, or leave out "
            "session_encrypted.",
        )
        for host in placement.hosts
        if (why := why_not_encrypted(facts_by_host[host]))
    ]


def why_not_encrypted(facts: HostFacts) -> str:
    """Return why a host cannot carry an encrypted session; empty if it can."""
    return "Nobody looked whether it can." if facts.encryption is None else facts.encryption


REMAPPED = (
    "Its engine maps the users of containers to others (userns-remap), so that replicas cannot read their SSH keys. "
    "Take userns-remap out of its daemon.json and restart the engine."
)


def why_unfit(request: Request, facts: HostFacts) -> str:
    """Return why a host cannot carry any replica of a request, however much it has free; empty if it can.

    Replicas with an SSH server need its keys. Replicas on a session's network need the runtime that puts it first.
    """
    has_ssh = max(request.size, request.max_size or 1) > 1 or bool(request.authorized_keys)
    if has_ssh and facts.engine.remaps_users:
        return REMAPPED
    return facts.engine.stale_runtime if max(request.size, request.max_size or 1) > 1 else ""


def _unfit_problems(request: Request, names: Sequence[str], facts_by_host: Mapping[str, HostFacts]) -> list[Problem]:
    """Return why no host can take a session's replicas, whatever its capacity; nothing if one can."""
    reasons = {name: why for name in names if (why := why_unfit(request, facts_by_host[name]))}
    if len(reasons) < len(names):
        return []
    return [Problem(f"host {name}", "not usable for this session", why) for name, why in reasons.items()]


def owners_of(facts: HostFacts, container: str, session: str) -> list[str]:
    """Return which owners other than *session* have a container of this name on a host."""
    owners = [
        f"session {found.session_name}"
        for found in facts.containers
        if found.name == container and found.session_name != session
    ]
    return owners + ["somebody else" for name in facts.foreign_containers if name == container]


def own_ports(current: Plan | None, host: str) -> set[tuple[int, str]]:
    """Return the ports that a running session has published on a host already: port and protocol."""
    replicas = current.on(host) if current is not None else ()
    return {(port.host_port, port.protocol) for replica in replicas for port in replica.ports}


def render_shortfall(shortfall: Shortfall) -> list[str]:
    """Return as lines of text why a request is pending: a table of hosts and resources, and what would fit.

    If there are very many hosts, only the first are in the table.
    """
    what = "the whole session" if shortfall.mode == SINGLE_NODE else "one replica"
    rows = [("host", "resource", "asked", "free", "missing", "replicas that fit")]
    for entry in shortfall.hosts[:SHOWN_HOSTS]:
        rows.extend(
            (
                entry.host,
                row.resource,
                format_amount(row.resource, row.requested),
                format_amount(row.resource, row.free),
                format_amount(row.resource, row.missing),
                str(entry.fits) if number == 0 else "",
            )
            for number, row in enumerate(entry.resources)
        )
    rows.extend(
        (
            "all hosts",
            row.resource,
            format_amount(row.resource, row.requested),
            format_amount(row.resource, row.free),
            format_amount(row.resource, row.missing),
            "",
        )
        for number, row in enumerate(shortfall.total)
    )
    lines = [
        f"{_replicas(shortfall.size)} asked, mode {shortfall.mode}: not enough room now. "
        f"Asked per host is {what}; the last rows compare the whole session with all hosts together."
    ]
    if len(shortfall.hosts) > SHOWN_HOSTS:
        lines.append(f"Of {len(shortfall.hosts)} hosts the first {SHOWN_HOSTS} in inventory order are shown.")
    lines.extend(table(rows))
    if shortfall.largest_size:
        lines.append(f"Largest size that fits now in mode {shortfall.mode}: {shortfall.largest_size}.")
    else:
        lines.append("Not even main1 fits now.")
    if not shortfall.when_idle:
        lines.append("It would not fit if no other session held anything either: ask for less, or add hosts.")
    if not shortfall.proven:
        lines.append(
            "The search for a placement of so many different roles was given up, so one may exist. "
            "Fewer different amounts of resources among the roles make it certain."
        )
    return lines


def _replicas(number: int) -> str:
    return "1 replica" if number == 1 else f"{number} replicas"

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What /etc/hosts of a replica says of its session, and what becomes of what a replica's programs write there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from ipaddress import IPv4Network, ip_address, ip_network
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.plan import Replica

MOST_TIMES = 5
"""How often the timer puts back what the programs of a replica write, from one start of it to the next."""
MOST_ADDED = 1 << 16
"""Bytes that a replica's programs may have added to /etc/hosts; of a file with more nothing is kept."""


def hosts_file(replicas: Sequence[Replica]) -> str:
    """Return /etc/hosts: every replica, the own one included, has exactly one address, the session's.

    The lines with mapped addresses are for programs that listen for both families and look up who has called them
    (PyTorch). The C library finds such a line by its address alone: a name without the dot is not that of the line, so
    it keeps its one address. `environment.TRIM_DOMAINS` takes the dot away from what is found.
    """
    lines = ["127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback"]
    lines += [f"{replica.address}\t{replica.name}" for replica in replicas]
    lines += [f"::ffff:{replica.address}\t{replica.name}." for replica in replicas]
    return "\n".join(lines) + "\n"


def corrected(found: str | None, own: str, names: Collection[str], subnet: str) -> str:
    """Return what /etc/hosts has to be: the session's *own* text, then what others have added and is no contradiction.

    found: the file as it is, None for one that is too large to be read, or no text. names: of the session's replicas.
    subnet: that of the session, whose addresses are the session's alone.
    """
    if found is None or found == own:
        return own
    wanted = {name.lower() for name in names}
    taken = set(own.splitlines())
    network = IPv4Network(subnet)
    lines = found.removesuffix("\n").split("\n") if found else []
    added = [_without(line, wanted, network) for line in lines if line not in taken]
    return own + "".join(f"{line}\n" for line in added if line is not None)


def contradictions(found: str | None, own: str, names: Collection[str]) -> list[str]:
    """Return what gives a name of the session another address, in the form ``127.0.0.1 main1``."""
    taken = {tuple(line.split()) for line in own.splitlines()}
    wanted = {name.lower() for name in names}
    return [
        f"{address} {name}"
        for address, line_names in _entries(found or "")
        for name in line_names
        if name.lower().rstrip(".") in wanted and (address, name) not in taken
    ]


def _entries(text: str) -> Iterator[tuple[str, list[str]]]:
    for line in text.split("\n"):
        words = line.partition("#")[0].split()
        if words:
            yield words[0], words[1:]


def _without(line: str, names: Collection[str], subnet: IPv4Network) -> str | None:
    """Return a line without names and addresses of the session, None where nothing is left of it."""
    entry = next(_entries(line), None)
    if entry is None:
        return line
    address, line_names = entry
    if _is_in(address, subnet):
        return None
    kept = [name for name in line_names if name.lower().rstrip(".") not in names]
    if kept == line_names:
        return line
    return " ".join([address, *kept]) if kept else None


def _is_in(text: str, subnet: IPv4Network) -> bool:
    try:
        address = ip_address(text)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None) or address
    return ip_network(mapped).version == 4 and mapped in subnet

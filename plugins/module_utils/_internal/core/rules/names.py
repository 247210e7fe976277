# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The content of a replica's /etc/hosts, and how entries of the replica's programs in it are corrected."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from ipaddress import IPv4Network, ip_address, ip_network
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..model.plan import Replica

MOST_TIMES = 5
"""How often the timer corrects what the programs of a replica write, from one start of it to the next."""
MOST_ADDED = 1 << 16
"""Bytes that a replica's programs may add to /etc/hosts; from a larger file nothing is kept."""


def hosts_file(replicas: Sequence[Replica]) -> str:
    """Return /etc/hosts, in which every replica, the own one included, has exactly one address, the session's.

    The lines with mapped addresses are for programs that listen for both families and look up the name of a caller
    (PyTorch). The C library finds such a line only by its address: the name in the line ends in a dot, so a look-up of
    the name without the dot still finds one address. `environment.TRIM_DOMAINS` removes the dot from the result.
    """
    lines = ["127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback"]
    lines += [f"{replica.address}\t{replica.name}" for replica in replicas]
    lines += [f"::ffff:{replica.address}\t{replica.name}." for replica in replicas]
    return "\n".join(lines) + "\n"


def corrected(found: str | None, own: str, names: Collection[str], subnet: str) -> str:
    """Return what /etc/hosts has to be: the session's *own* text, then lines that others added and that do not
    conflict.

    found: the present file, None if it is too large to be read, or is not text. names: of the session's replicas.
    subnet: the session's, whose addresses belong to the session alone.
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
    """Return the entries that give a name of the session another address, in the form ``127.0.0.1 main1``."""
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
    """Return a line without names and addresses of the session, None if nothing is left of it."""
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

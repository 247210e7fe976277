# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Which hosts of a group test and measure each other, with bounded effort however many they are."""

import ipaddress

from ..model.decode import decode
from ..rules.addressing import mac_of
from ..values.deferred import dataclass
from .findings import Pair

LINK_SUBNET = ipaddress.ip_network("198.18.0.0/15")
"""Addresses of the links that are made for the time of the test, each in a network namespace without any other link
(RFC 2544, benchmarking)."""
MOST_HOSTS = LINK_SUBNET.num_addresses - 2


@dataclass(frozen=True)
class ProbeHost:
    """A host's end of the underlay. session_mtu: of the largest packet of a session over it."""

    address: str
    mtu: int
    session_mtu: int


@dataclass(frozen=True)
class Place:
    """Number and addresses of a host: in the link with the MAC, and of its tunnel's endpoint."""

    number: int
    address: str
    mac: str
    endpoint: str


@dataclass(frozen=True)
class Target(Place):
    """A host that another one tests. size: of the largest packet there. tcp, udp: its ports, 0 for none."""

    name: str
    size: int
    tcp: int = 0
    udp: int = 0


@dataclass(frozen=True)
class ProbePlan:
    """Which hosts test each other, and by which link.

    hosts: in the order of their numbers. vni: of the link. offsets: the hosts that each host tests, as distances round
    the circle of all. left_out: by host why it is left out.
    """

    hosts: dict[str, ProbeHost]
    vni: int
    offsets: list[int]
    left_out: dict[str, str]

    def targets(self, host: str) -> list[str]:
        """Return the hosts that a host tests; they test it as well."""
        names = list(self.hosts)
        own = names.index(host)
        return [names[(own + offset) % len(names)] for offset in self.offsets]

    def pairs(self) -> list[Pair]:
        """Return all tested pairs, each in one direction."""
        names = list(self.hosts)
        count = len(names)
        return [(name, names[(own + offset) % count]) for own, name in enumerate(names) for offset in self.offsets]

    def size(self, host: str, other: str) -> int:
        """Return the size of the largest packet of a session over these two, in bytes with its IP header."""
        return min(self.hosts[host].session_mtu, self.hosts[other].session_mtu)

    def place(self, host: str) -> Place:
        """Return number and addresses of a host."""
        number = list(self.hosts).index(host)
        address = str(LINK_SUBNET[number + 1])
        return Place(number, address, mac_of(address), self.hosts[host].address)

    def places(self, host: str) -> list[Target]:
        """Return the places of all hosts that a host tests."""
        return [
            Target(**vars(self.place(other)), name=other, size=self.size(host, other)) for other in self.targets(host)
        ]


def read_probe(data: object) -> ProbePlan:
    """Return a plan from its plain form."""
    return decode(ProbePlan, data, "The plan of the test")


def offsets(hosts: int, most: int) -> list[int]:
    """Return the distances, round the circle of *hosts*, of the hosts that each tests: all others, or *most* of them.

    If they are fewer they are spread evenly. They come in twos, so that each pair is tested in both directions.
    """
    others = hosts - 1
    if most >= others:
        return list(range(1, hosts))
    half, steps = others // 2, max(1, most // 2)
    near = {1 + number * half // steps for number in range(min(steps, half))} or {1}
    return sorted(near | {hosts - offset for offset in near})


def rounds(hosts: int, most: int) -> list[list[tuple[int, int]]]:
    """Return the pairs that are measured in each round: no host twice in a round, and no pair twice in all.

    With *most* rounds or fewer it is every pair, else a sample in which each host takes part in nearly every round.
    This is the circle method of round-robin tournaments: one stays, the others move on by one place each round. The
    first of a pair measures, the other serves; they take turns in that.
    """
    if hosts < 2:
        return []
    places = hosts + hosts % 2
    found = []
    for number in _spread(places - 1, most):
        order = [0] + [1 + (number + place) % (places - 1) for place in range(places - 1)]
        pairs = [(order[place], order[-1 - place]) for place in range(places // 2)]
        # With an odd number of hosts one pauses: the one that would meet the empty place.
        met = [pair for pair in pairs if max(pair) < hosts]
        found.append([pair if (number + sum(pair)) % 2 else (pair[1], pair[0]) for pair in met])
    return found


def _spread(number: int, most: int) -> list[int]:
    return list(range(number)) if most >= number else [index * number // most for index in range(most)]

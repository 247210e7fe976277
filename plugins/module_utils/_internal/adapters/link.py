# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Drive the kernel's network through iproute2: VXLAN links, forwarding and neighbour entries, addresses, routes.

A session's overlay is one VXLAN device per host, unicast only: ``nolearning`` with one static forwarding entry (MAC to
tunnel endpoint) and, for ``proxy``, one permanent neighbour entry per remote replica. Nothing floods, so no all-zero
entry exists (Linux Documentation/networking/vxlan.rst, ip-link(8), bridge(8)).
"""

from __future__ import annotations

import contextlib
import glob
import ipaddress
import itertools
import json
import os
import socket
import time
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from ..core.model.host_parts import Underlay
from ..core.model.record import is_session_id
from ..core.rules.isolation import EGRESS_PREFIX, INNER_PREFIX
from ..core.values.deferred import dataclass
from ..core.values.errors import SessionError, printable
from .command import run_command

ALIAS_PREFIX = "cluster-compute "
TUNNEL_PREFIX = "cct"
"""Beginning of the names of links on which other links of a session are based."""


VXLAN_PORT = 4789
"""UDP port of VXLAN (IANA); a site may set another."""


@dataclass(frozen=True)
class Address:
    """An address of a link."""

    local: str
    prefix: int
    scope: str

    @property
    def network(self) -> str:
        """The subnet that it is in."""
        return str(ipaddress.ip_interface(f"{self.local}/{self.prefix}").network)


@dataclass(frozen=True)
class VxlanData:
    """The properties of a VXLAN device, as the kernel reports them. device: the link it goes through, empty for none.

    is_shareable: whether those of sessions can share its UDP port. is_static: whether it learns nothing and answers for
    its neighbours.
    """

    vni: int
    port: int
    local: str
    device: str
    is_ipv6: bool
    is_shareable: bool
    is_static: bool


@dataclass(frozen=True)
class Link:
    """A link of this host, or of a network namespace. kind: empty for hardware. master: what it is a part of."""

    name: str
    mac: str
    mtu: int
    flags: tuple[str, ...]
    alias: str
    kind: str
    master: str
    addresses: tuple[Address, ...]
    vxlan: VxlanData | None = None

    @property
    def is_up(self) -> bool:
        """Whether it was set up."""
        return "UP" in self.flags


@dataclass(frozen=True)
class Way:
    """A way that packets take: the link, the MTU of the route if it has one, and whether it leads to a gateway."""

    link: str
    mtu: int | None = None
    has_gateway: bool = False


Links = Sequence[Link]

PROBE = (
    "link add name cc-vxlan type vxlan id 1 dstport 4789\n"
    "link add name cc-bridge type bridge\n"
    "link add name cc-macvlan link cc-vxlan type macvlan mode bridge\n"
)
"""Links of the kinds that a session's network is made of, for iproute2 in a namespace that ends with it; the role
prepare_hosts tests the same."""


_ASIDE = "cc-aside"
"""Name of an interface whose name another one gets, until it has its new one."""


class LinkError(SessionError):
    """iproute2 failed; the message contains the command and its output."""


class PortTaken(LinkError):
    """Something else on this host has the UDP port of overlays."""

    is_of_host = True


def run(command: list[str], stdin: str | None = None) -> str:
    """Run *command* without a shell and return its standard output. Raises LinkError if it fails or is missing."""
    return run_command(command, stdin, error=LinkError)


def _json(command: list[str]) -> list[Any]:
    """Run *command* and return its JSON list, without the empty objects that iproute2 prints for what just vanished."""
    output = run(command)
    return [entry for entry in json.loads(output) if entry] if output.strip() else []


def try_kinds() -> None:
    """Make links of the kinds that sessions need, in a namespace of their own. Raises LinkError."""
    run(["unshare", "--net", "ip", "-batch", "-"], PROBE)


def run_in_network_of(pid: int, command: list[str]) -> str:
    """Run *command* in the network namespace of the process *pid* and return its standard output."""
    return run(["nsenter", f"--net=/proc/{pid}/ns/net", *command])


def addresses_of(pid: int) -> dict[str, Link]:
    """Return the global addresses in the network namespace of the process *pid*, each with its link."""
    return _by_address(_links_of(pid))


def _links_of(pid: int) -> list[Link]:
    return [read_link(entry) for entry in json.loads(run_in_network_of(pid, ["ip", "-j", "address", "show"])) if entry]


def _by_address(links: Links) -> dict[str, Link]:
    return {address.local: link for link in links for address in link.addresses if address.scope == "global"}


def ensure_interface(pid: int, address: str, name: str, mac: str) -> None:
    """Give the interface with *address* in the network namespace of *pid* the name and the MAC it shall have.

    Another interface that has the name gets that of this one: engines from 28.0 on give an interface the first free
    name, in the order in which somebody connects networks again.
    """
    links = _links_of(pid)
    link = _by_address(links).get(address)
    if link is None:
        raise LinkError(f"The process {pid} has no interface with the address {address}.")
    if (link.name, link.mac) == (name, mac):
        return

    def change(interface: str, *settings: str) -> None:
        run_in_network_of(pid, ["ip", "link", "set", "dev", interface, *settings])

    is_taken = link.name != name and any(other.name == name for other in links)
    if is_taken:
        change(name, "down")
        change(name, "name", _ASIDE)
    change(link.name, "down")
    change(link.name, "name", name)
    change(name, "address", mac, "up")
    if is_taken:
        change(_ASIDE, "name", link.name)
        change(link.name, "up")


def delete_interface(pid: int, address: str) -> None:
    """Remove the interface with *address* from the network namespace of the process *pid*, if there is one."""
    link = addresses_of(pid).get(address)
    if link is not None:
        run_in_network_of(pid, ["ip", "link", "delete", "dev", link.name])


@dataclass(frozen=True)
class Vxlan:
    """One VXLAN device of the plan. *port* is the UDP port, *mtu* in bytes, *alias* marks the owner.

    *device* is the link it goes through if *local* is an address that is valid only on that link, or the VRF of
    *local*: packets then take the routes of the VRF, and are accepted only from there.
    """

    name: str
    vni: int
    local: str
    port: int
    mtu: int
    alias: str
    device: str | None = None


@dataclass(frozen=True)
class Peer:
    """One remote replica: reached at *mac* and *address* through the tunnel endpoint *endpoint*."""

    mac: str
    address: str
    endpoint: str


def session_alias(session_id: str, session_name: str) -> str:
    """Return the interface alias that marks a link as a session's."""
    return f"{ALIAS_PREFIX}{session_id} {session_name}"


def session_links(links: Links | None = None) -> dict[str, tuple[str, str]]:
    """Return the links on this host that belong to sessions: link name to (session id, session name)."""
    found = {}
    for link in details() if links is None else links:
        if link.alias.startswith(ALIAS_PREFIX):
            session_id, _dummy, session_name = link.alias[len(ALIAS_PREFIX) :].partition(" ")
            if is_session_id(session_id):
                found[link.name] = (session_id, session_name)
    return found


def details() -> Links:
    """Return every link of this host with its addresses and all properties that the kernel reports.

    Functions that take ``links`` take this, for callers of several of them; without it they collect it themselves.
    """
    return [read_link(entry) for entry in _json(["ip", "-j", "-d", "address", "show"])]


def read_link(found: Any) -> Link:
    """Read iproute2's description of a link."""
    info = found.get("linkinfo", {})
    kind = info.get("info_kind", "")
    return Link(
        name=found["ifname"],
        mac=found.get("address", ""),
        mtu=found.get("mtu", 0),
        flags=tuple(found.get("flags", ())),
        alias=found.get("ifalias", ""),
        kind=kind,
        master=found.get("master", ""),
        addresses=tuple(
            Address(address["local"], address["prefixlen"], address.get("scope", ""))
            for address in found.get("addr_info", ())
            if "local" in address
        ),
        vxlan=_read_vxlan(info.get("info_data", {})) if kind == "vxlan" else None,
    )


def _read_vxlan(data: Any) -> VxlanData:
    return VxlanData(
        vni=data.get("id", 0),
        port=data.get("port", 0),
        local=data.get("local", data.get("local6", "")),
        device=data.get("link", ""),
        is_ipv6=any(name in data for name in ("local6", "remote6", "group6")),
        is_shareable=not any(data.get(name) for name in SOCKET_SETTINGS),
        is_static=bool(data.get("proxy")) and not data.get("learning", True),
    )


def find(name: str) -> Link | None:
    """Return the link *name* of this host, or None."""
    return next((link for link in details() if link.name == name), None)


def read_vxlan(name: str) -> Vxlan | None:
    """Return the present VXLAN device called *name*, or None. Raises LinkError if *name* is another kind of link."""
    link = find(name)
    if link is None:
        return None
    if link.vxlan is None:
        raise LinkError(
            f"The link {name} exists and is not a VXLAN device; it is not ours to change. Rename or remove it."
        )
    found = link.vxlan
    mtu = link.mtu if link.is_up and found.is_static else 0
    return Vxlan(name, found.vni, found.local, found.port, mtu, link.alias, found.device or None)


def create_vxlan(link: Vxlan) -> None:
    """Create the device, mark it and bring it up; nothing is left behind if a step fails."""
    kind = ["type", "vxlan", "id", str(link.vni), "local", link.local, "dstport", str(link.port), "nolearning", "proxy"]
    kind += ["srcport", *map(str, SOURCE_PORTS)]
    if link.device is not None:
        kind += ["dev", link.device]
    add_link(link.name, kind, link.alias)
    try:
        run(["ip", "link", "set", "dev", link.name, "mtu", str(link.mtu), "up"])
    except LinkError as error:
        delete_link(link.name)
        raise port_error(error, link.port, link.local) from error


SOCKET_SETTINGS = ("external", "gbp", "gpe", "udp_zero_csum6_rx", "remcsum_rx", "vnifilter", "localbind")
"""Flags that VXLAN devices must have in common to share one UDP port (linux/net/vxlan.h, VXLAN_F_RCV_FLAGS); those of
sessions have none of them."""
SOURCE_PORTS = (32768, 33792)
"""UDP source ports of a VXLAN's packets, of which each flow inside it gets one: enough to spread them over paths and
queues, and few enough that no replica fills the table of connections with them."""
IN_USE = "Address already in use"
KERNEL = "something else than a program of this host"
"""The holder of a port at which no process has a socket."""
PAUSES = (0.0, 0.05, 0.2)
"""Seconds before a port that the kernel holds is checked again."""


def port_holder(port: int, links: Links, local: str | None = None) -> str:
    """Return what holds UDP *port*, so that no overlay of a session can have it here; empty if one can.

    local: the underlay address. A socket in a VRF and one outside of every VRF exclude each other.
    """
    holder = _port_holder(port, links, local)
    for pause in PAUSES:
        if holder != KERNEL:
            break
        # The overlay of another session may have come since the links were read, or be in the making: the kernel opens
        # the socket of a VXLAN before it shows the link as up, and closes it while it is removed.
        time.sleep(pause)
        holder = _port_holder(port, details(), local)
    return holder


def _port_holder(port: int, links: Links, local: str | None) -> str:
    there = [(link.name, link.vxlan) for link in links if link.vxlan and link.vxlan.port == port and link.is_up]
    if foreign := next(filter(None, (_why_not_shared(*vxlan, links, local) for vxlan in there)), ""):
        return foreign
    if there or not any((taken, protocol) == (port, "udp") for _address, taken, protocol in listening_ports()):
        return ""
    return _program_at(port) or KERNEL


def _why_not_shared(name: str, vxlan: VxlanData, links: Links, local: str | None) -> str:
    """Return which link *vxlan* is if overlays of sessions cannot share its socket; empty if they can."""
    if not vxlan.is_shareable:
        return f"the link {name}, a VXLAN as Open vSwitch, Cilium and Calico have it"
    vrf = vrf_of(local, links)
    other = next((_vrf_of(lower, links) for lower in links if lower.name == vxlan.device), "")
    if bool(other) == bool(vrf) or vxlan.is_ipv6 != (":" in (local or "")):
        return ""
    where = f"in the VRF {other}" if other else f"outside of the VRF {vrf}, in which the underlay address is"
    return f"the link {name}, a VXLAN {where}"


def why_no_port(port: int, links: Links, local: str | None = None) -> str:
    """Return why overlays of sessions cannot have UDP *port* on this host, in full sentences; empty if they can."""
    holder = port_holder(port, links, local)
    return holder and (
        f"UDP port {port}, which overlays of sessions need (cluster_compute_vxlan_port), is held by {holder}. Give "
        "that another port, or set cluster_compute_vxlan_port for all hosts to another and run prepare_hosts."
    )


def port_error(error: LinkError, port: int, local: str) -> LinkError:
    """Return *error*, or an error that names what holds the port of a VXLAN if it was not available."""
    why = why_no_port(port, details(), local) if IN_USE in str(error) else ""
    return PortTaken(why) if why else error


def _program_at(port: int) -> str:
    """Return name and number of a process with a socket at UDP *port* (proc(5)); empty if none is found."""
    sockets = {f"socket:[{row[9]}]" for row in _rows("udp") + _rows("udp6") if row[1].endswith(f":{port:04X}")}
    for path in glob.iglob("/proc/[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if os.readlink(path) in sockets:
                pid = path.split("/")[2]
                with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as comm:
                    return f"the program {printable(comm.read().strip())} (process {pid})"
    return ""


def add_link(name: str, kind: list[str], alias: str) -> None:
    """Make the link *name* of *kind*, as ip-link(8) takes it, and mark it with *alias*.

    The kernel accepts no alias with a new link. One program does both, so that no link is left without an owner if its
    caller is killed.
    """
    try:
        run(["ip", "-batch", "-"], f'link add name {name} {" ".join(kind)}\nlink set dev {name} alias "{alias}"\n')
    except LinkError as error:
        if "Command failed -:2" in str(error):
            delete_link(name)
        raise


def delete_link(name: str) -> None:
    """Remove the link *name*."""
    run(["ip", "link", "delete", "dev", name])


def read_peers(name: str) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Return (forwarding, neighbours) of the device *name*.

    Forwarding entries are (MAC, tunnel endpoint), neighbour entries (address, MAC); permanent ones only.
    """
    forwarding = {
        (entry["mac"], entry["dst"])
        for entry in _json(["bridge", "-j", "fdb", "show", "dev", name])
        if "dst" in entry and entry.get("state") == "permanent"
    }
    neighbours = {
        (entry["dst"], entry["lladdr"])
        for entry in _json(["ip", "-j", "neigh", "show", "dev", name, "nud", "permanent"])
        if "lladdr" in entry
    }
    return forwarding, neighbours


def change_peers(
    name: str,
    forwarding: tuple[set[tuple[str, str]], set[tuple[str, str]]],
    neighbours: tuple[set[tuple[str, str]], set[tuple[str, str]]],
    device: str | None = None,
) -> None:
    """Apply (to remove, to add) of the forwarding and of the neighbour entries, each in one batch.

    Removals come first, because a MAC that moves to another endpoint has to leave the old one. device: the link through
    which the endpoints are reached, if it is a particular one.
    """
    remove, add = forwarding
    via = "" if device is None else f" via {device}"
    lines = [f"fdb del {mac} dev {name} dst {endpoint}{via} self" for mac, endpoint in sorted(remove)]
    lines += [f"fdb add {mac} dev {name} dst {endpoint}{via} self permanent" for mac, endpoint in sorted(add)]
    if lines:
        run(["bridge", "-batch", "-"], "\n".join(lines) + "\n")
    remove, add = neighbours
    lines = [f"neigh del {address} dev {name}" for address, _mac in sorted(remove)]
    lines += [f"neigh replace {address} lladdr {mac} dev {name} nud permanent" for address, mac in sorted(add)]
    if lines:
        run(["ip", "-batch", "-"], "\n".join(lines) + "\n")


def vnis(links: Links) -> list[int]:
    """Return the VXLAN network identifiers in use on this host, sorted."""
    return sorted(link.vxlan.vni for link in links if link.vxlan is not None)


def addresses(links: Links) -> list[str]:
    """Return every address of this host, sorted."""
    return sorted({address.local for link in links for address in link.addresses})


MOST_ROUTES = 64
"""Number of peers up to which routes are requested one by one, if some have none."""


def ways(peers: Iterable[str], local: str | None = None, vrf: str = "") -> dict[str, list[Way]]:
    """Return by peer the ways that packets to it take, more than one where a route has several next hops.

    local: the address that packets are sent from, since a rule may choose the route by it. vrf: the one of *local*. A
    peer without a route has none.
    """
    how = (f" from {local}" if local else "") + (f" vrf {vrf}" if vrf else "")
    wanted = {peer: f"route get fibmatch {peer}{how}" for peer in peers}
    try:
        lines = run(["ip", "-j", "-batch", "-"], "".join(f"{line}\n" for line in wanted.values())).splitlines()
        found = dict(zip(wanted, map(json.loads, lines)))
    except LinkError:
        # One by one takes its time, as before the network is up.
        found = {peer: _route(line.split()) for peer, line in itertools.islice(wanted.items(), MOST_ROUTES)}
    return {peer: [way for route in found.get(peer, ()) for way in _next_hops(route)] for peer in wanted}


def _route(words: list[str]) -> list[Any]:
    try:
        return _json(["ip", "-j", *words])
    except LinkError:
        return []


def _next_hops(route: Any) -> list[Way]:
    """Return the ways of one route."""
    mtu = next((int(metric["mtu"]) for metric in route.get("metrics", ()) if "mtu" in metric), None)
    return [
        Way(hop["dev"], mtu, "gateway" in hop or "via" in hop)
        for hop in route.get("nexthops") or [route]
        if "dev" in hop
    ]


def arrivals(local: str | None, peers: Iterable[str]) -> tuple[str, ...]:
    """Return the interfaces by which packets of *peers* may come, in the form for firewall rules, sorted.

    These are the interfaces by which this host sends to them, and the one that has *local*, this host's own address. An
    address that routing brings here, on the loopback or a dummy interface, may be reached by any port of the host, also
    by one that is down now. To rules, packets that come by a port of a VRF seem to come by the VRF (Linux,
    Documentation/networking/vrf). None if no peer is known and nothing shows the interfaces.
    """
    links = details()
    if vrf := vrf_of(local, links):
        return (vrf,)
    idle = {link.name for link in links if _carries_nothing(link)}
    names = {way.link for found in ways(peers, local).values() for way in found}
    own = [link for link in links if local and _has(link, local)]
    names.update(link.name for link in own if not _is_routed(link))
    if any(_is_routed(link) for link in own):
        names.update(link.name for link in links if _is_port(link))
    return tuple(sorted(names - idle if own else names))


def _has(link: Link, address: str) -> bool:
    return any(ipaddress.ip_address(found.local) == ipaddress.ip_address(address) for found in link.addresses)


def _carries_nothing(link: Link) -> bool:
    """Tell whether a link carries no packets, whatever addresses it has."""
    return "LOOPBACK" in link.flags or link.kind == "dummy"


def _is_routed(link: Link) -> bool:
    """Tell whether others reach the addresses of a link by routing."""
    return _carries_nothing(link) or link.kind == "vrf"


PORT_KINDS = ("", "bond", "vlan", "team")
"""Kinds of links at whose other end there is a cable; hardware has none."""


def _is_port(link: Link) -> bool:
    """Tell whether a link leads out of this machine by itself, not as a part of another link or of containers."""
    return link.kind in PORT_KINDS and not link.master and not _carries_nothing(link)


def subnets(links: Links) -> list[str]:
    """Return every subnet this host has an address in or a route to, default routes excepted, sorted."""
    found = {address.network for link in links for address in link.addresses}
    for family in ("-4", "-6"):
        for route in _json(["ip", "-j", family, "route", "show", "table", "all"]):
            if route["dst"] != "default" and route.get("type", "unicast") != "multicast":
                found.add(str(ipaddress.ip_network(route["dst"], strict=False)))
    return sorted(found)


def underlay(wanted: str | None, links: Links) -> Underlay:
    """Return the address, interface and MTU that tunnels of this host use.

    *wanted* is an address of this host; without it the source address of the default route is taken, and on a host
    without such a route its only global address. The interface is the first by which others are reached from there, the
    MTU the smallest of all those. Raises LinkError if there is no such address, no route, or no clear choice.
    """
    links = [link for link in links if link.is_up]
    found = [(address.local, link) for link in links for address in link.addresses if address.scope == "global"]
    if wanted:
        return _underlay(*_wanted(wanted, found), links)
    return _underlay(*(_by_default_route(found) or _only_one(found)), links)


_Found = tuple[str, Link]
"""An address of this host, and the link that has it."""


def _wanted(wanted: str, found: Sequence[_Found]) -> _Found:
    with contextlib.suppress(ValueError):  # text that is not an address, or one with a prefix length
        meant = ipaddress.ip_address(wanted)
        for address, link in found:
            if ipaddress.ip_address(address) == meant:
                return address, link
    have = ", ".join(address for address, _link in found) or "none"
    raise LinkError(f"No interface of this host has the address {wanted}; its addresses are: {have}.")


def _by_default_route(found: Sequence[_Found]) -> _Found | None:
    for route in _json(["ip", "-j", "-4", "route", "show", "default"]):
        for address, link in found:
            beside = "prefsrc" not in route and link.name in {way.link for way in _next_hops(route)}
            if route.get("prefsrc") == address or beside:
                return address, link
    return None


def _only_one(found: Sequence[_Found]) -> _Found:
    """Return the only address that is not of a virtual link. Raises LinkError if there is none, or more than one."""
    physical = [(address, link) for address, link in found if not _is_virtual(link)]
    physical = [(address, link) for address, link in physical if "LOOPBACK" not in link.flags] or physical
    if len(physical) == 1:
        return physical[0]
    names = ", ".join(f"{address} ({link.name})" for address, link in physical) or "none"
    raise LinkError(
        f"This host has no default route and its addresses do not tell which one tunnels should use: {names}. "
        "Set cluster_compute_underlay_address for it in the inventory."
    )


def _underlay(address: str, link: Link, links: Links) -> Underlay:
    """Return the values for tunnels that end at an address of *link*."""
    vrf = _vrf_of(link, links)
    mtus = {entry.name: entry.mtu for entry in links}
    ways_out = _ways_by_routing(address, links, vrf) if _is_routed(link) else _ways_beside(address, link, mtus, vrf)
    found = [(way.link, min(mtus[way.link], way.mtu or mtus[way.link])) for way in ways_out]
    if not found:
        raise LinkError(
            f"The address {address} is on {link.name}, where others reach it by routing alone, and this host has "
            "no route to them. See its routing daemon, or set cluster_compute_underlay_address to an "
            "address of an interface that packets go by."
        )
    return Underlay(address, found[0][0], min(mtu for _name, mtu in found))


def _ways_beside(address: str, link: Link, known: Collection[str], vrf: str) -> list[Way]:
    """Return the ways to the subnet of an interface's address: its own, and that of a second one in the same subnet."""
    subnet = ipaddress.ip_network(next(entry.network for entry in link.addresses if entry.local == address))
    other = next((str(host) for host in itertools.islice(subnet.hosts(), 2) if str(host) != address), None)
    own = [Way(link.name)]
    if other is None:
        return own
    beside = [way for way in ways([other], address, vrf)[other] if not way.has_gateway and way.link in known]
    return [*own, *(way for way in beside if way.link != link.name)]


def _ways_by_routing(address: str, links: Links, vrf: str) -> list[Way]:
    """Return the ways by which a host with an address that is only routed reaches others.

    These are all routes by a gateway or to a single address, and the default route if there are no others.
    """
    usable = {link.name for link in links if not _is_routed(link) and _vrf_of(link, links) == vrf}
    family = "-6" if ":" in address else "-4"
    routes = _json(["ip", "-j", family, "route", "show", "table", "all"])
    found = [
        (route["dst"] == "default", way)
        for route in routes
        for way in _next_hops(route)
        if way.link in usable and (way.has_gateway or ("/" not in route["dst"] and "type" not in route))
    ]
    return [way for is_default, way in found if not is_default] or [way for _is_default, way in found]


def _vrf_of(link: Link, links: Links) -> str:
    """Return the VRF that a link is, or is part of; empty for none."""
    if link.kind == "vrf":
        return link.name
    return next((entry.name for entry in links if entry.name == link.master and entry.kind == "vrf"), "")


def vrf_of(local: str | None, links: Links | None = None) -> str:
    """Return the VRF in which this host has the address *local*; empty if it is in none, or not of this host."""
    if not local:
        return ""
    every = details() if links is None else links
    return next((_vrf_of(link, every) for link in every if _has(link, local)), "")


def enter_vrf(channel: socket.socket, vrf: str) -> None:
    """Make a socket use the addresses and routes of *vrf*; nothing is changed if that is empty. Raises OSError."""
    if vrf:
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, vrf.encode())


def _is_virtual(link: Link) -> bool:
    prefixes = ("docker", "br-", EGRESS_PREFIX, INNER_PREFIX)
    return link.name.startswith(prefixes) or link.alias.startswith(ALIAS_PREFIX)


def listening_ports() -> set[tuple[str, int, str]]:
    """Return what listens on this host: address, port and protocol, from /proc/net (proc(5))."""
    found = set()
    for name, protocol, listening in (
        ("tcp", "tcp", "0A"),
        ("tcp6", "tcp", "0A"),
        ("udp", "udp", "07"),
        ("udp6", "udp", "07"),
    ):
        for row in _rows(name):
            address, _dummy, port = row[1].rpartition(":")
            if row[3] == listening:
                found.add((_proc_address(address), int(port, 16), protocol))
    return found


def _rows(name: str) -> list[list[str]]:
    """Return the rows of a table of sockets; none if the kernel does not have it."""
    try:
        with open(f"/proc/net/{name}", encoding="ascii") as table:
            return [line.split() for line in table.readlines()[1:]]
    except FileNotFoundError:
        return []


def _proc_address(text: str) -> str:
    """Turn /proc/net's hexadecimal address (32-bit words in host byte order) into text."""
    words = [bytes.fromhex(text[start : start + 8])[::-1] for start in range(0, len(text), 8)]
    return str(ipaddress.ip_address(b"".join(words)))

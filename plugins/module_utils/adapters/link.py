# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Drive the kernel's network through iproute2: VXLAN links, forwarding and neighbour entries, addresses, routes.

A session's overlay is one VXLAN device per host, unicast only: ``nolearning`` with one static forwarding entry (MAC to
tunnel endpoint) and, for ``proxy``, one permanent neighbour entry per remote replica. Nothing floods, so no all-zero
entry exists (Linux Documentation/networking/vxlan.rst, ip-link(8), bridge(8)).
"""

from __future__ import annotations

import ipaddress
import json
from dataclasses import dataclass
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.command import run_command
from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import SessionError
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.record import is_session_id
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.isolation import (
    EGRESS_PREFIX,
    INNER_PREFIX,
)

ALIAS_PREFIX = "cluster-compute "
TUNNEL_PREFIX = "cct"
"""What the names of links begin with that other links of a session lie on."""


Links = list[dict[str, Any]]
"""What iproute2 says of each link."""

PROBE = (
    "link add name cc-vxlan type vxlan id 1 dstport 4789\n"
    "link add name cc-bridge type bridge\n"
    "link add name cc-macvlan link cc-vxlan type macvlan mode bridge\n"
)
"""Links of the kinds that a session's network is made of, for iproute2 in a namespace that ends with it; the role
prepare_hosts tries the same."""


class LinkError(SessionError):
    """iproute2 refused; the message holds the command and what it said."""


def run(command: list[str], stdin: str | None = None) -> str:
    """Run *command* without a shell and return its standard output. Raises LinkError if it fails or is missing."""
    return run_command(command, stdin, error=LinkError)


def _json(command: list[str]) -> list[dict[str, Any]]:
    """Run *command* and return its JSON list, without the empty objects that iproute2 prints for what just vanished."""
    output = run(command)
    return [entry for entry in json.loads(output) if entry] if output.strip() else []


def try_kinds() -> None:
    """Make links of the kinds that sessions need, in a namespace of their own. Raises LinkError."""
    run(["unshare", "--net", "ip", "-batch", "-"], PROBE)


def run_in_network_of(pid: int, command: list[str]) -> str:
    """Run *command* in the network namespace of the process *pid* and return its standard output."""
    return run(["nsenter", f"--net=/proc/{pid}/ns/net", *command])


def addresses_of(pid: int) -> dict[str, dict[str, Any]]:
    """Return the global addresses in the network namespace of the process *pid*, each with its link."""
    links = [entry for entry in json.loads(run_in_network_of(pid, ["ip", "-j", "address", "show"])) if entry]
    return {
        address["local"]: link
        for link in links
        for address in link.get("addr_info", [])
        if address.get("scope") == "global"
    }


def ensure_interface(pid: int, address: str, name: str, mac: str) -> None:
    """Give the interface with *address* in the network namespace of *pid* the name and the MAC it shall have."""
    link = addresses_of(pid).get(address)
    if link is None:
        raise LinkError(f"The process {pid} has no interface with the address {address}.")
    if (link["ifname"], link["address"]) != (name, mac):
        run_in_network_of(pid, ["ip", "link", "set", "dev", link["ifname"], "down"])
        run_in_network_of(pid, ["ip", "link", "set", "dev", link["ifname"], "name", name])
        run_in_network_of(pid, ["ip", "link", "set", "dev", name, "address", mac, "up"])


def delete_interface(pid: int, address: str) -> None:
    """Remove the interface with *address* from the network namespace of the process *pid*, if there is one."""
    link = addresses_of(pid).get(address)
    if link is not None:
        run_in_network_of(pid, ["ip", "link", "delete", "dev", link["ifname"]])


@dataclass(frozen=True)
class Vxlan:
    """One VXLAN device as the plan wants it. *port* is the UDP port, *mtu* in bytes, *alias* marks the owner.

    *device* is the link it goes through, where *local* is an address that is valid on that link only.
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
    """Return the interface alias that says which session a link belongs to."""
    return f"{ALIAS_PREFIX}{session_id} {session_name}"


def session_links(links: Links | None = None) -> dict[str, tuple[str, str]]:
    """Return the links on this host that belong to sessions: link name to (session id, session name)."""
    found = {}
    for link in details() if links is None else links:
        alias = link.get("ifalias", "")
        if alias.startswith(ALIAS_PREFIX):
            session_id, _dummy, session_name = alias[len(ALIAS_PREFIX) :].partition(" ")
            if is_session_id(session_id):
                found[link["ifname"]] = (session_id, session_name)
    return found


def details() -> Links:
    """Return every link of this host with its addresses and all that the kernel says of it.

    Functions that take ``links`` take this, for who asks several of them; without it they look themselves.
    """
    return _json(["ip", "-j", "-d", "address", "show"])


def addresses_on(name: str) -> list[dict[str, Any]]:
    """Return the addresses of the link *name*."""
    return _addresses(_json(["ip", "-j", "address", "show", "dev", name]))


def _addresses(links: Links) -> list[dict[str, Any]]:
    return [address for link in links for address in link.get("addr_info", [])]


def read_vxlan(name: str) -> Vxlan | None:
    """Return the VXLAN device called *name* as it is, or None. Raises LinkError if *name* is another kind of link."""
    for link in details():
        if link["ifname"] != name:
            continue
        info = link.get("linkinfo", {})
        if info.get("info_kind") != "vxlan":
            raise LinkError(
                f"The link {name} exists and is not a VXLAN device; it is not ours to change. Rename or remove it."
            )
        data = info["info_data"]
        healthy = "UP" in link.get("flags", []) and data.get("proxy") and not data.get("learning", True)
        return Vxlan(
            name=name,
            vni=int(data["id"]),
            local=str(data.get("local", data.get("local6", ""))),
            port=int(data["port"]),
            mtu=int(link["mtu"]) if healthy else 0,
            alias=str(link.get("ifalias", "")),
            device=data.get("link"),
        )
    return None


def create_vxlan(link: Vxlan) -> None:
    """Create the device, mark it and bring it up; nothing is left behind if a step fails."""
    kind = ["type", "vxlan", "id", str(link.vni), "local", link.local, "dstport", str(link.port), "nolearning", "proxy"]
    if link.device is not None:
        kind += ["dev", link.device]
    add_link(link.name, kind, link.alias)
    try:
        run(["ip", "link", "set", "dev", link.name, "mtu", str(link.mtu), "up"])
    except LinkError:
        delete_link(link.name)
        raise


def add_link(name: str, kind: list[str], alias: str) -> None:
    """Make the link *name* of *kind*, as ip-link(8) takes it, and mark it with *alias*.

    The kernel takes no alias with a new link. One program does both, so that no link is left without an owner where who
    called it is killed.
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

    Removing comes first, because a MAC that moves to another endpoint has to leave the old one. device: the link that
    the endpoints are reached through, where it is a certain one.
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
    link_infos = [link.get("linkinfo", {}) for link in links]
    return sorted(int(info["info_data"]["id"]) for info in link_infos if info.get("info_kind") == "vxlan")


def addresses(links: Links) -> list[str]:
    """Return every address of this host, sorted."""
    return sorted({address["local"] for address in _addresses(links) if "local" in address})


def interface_to(address: str) -> str | None:
    """Return the interface through which this host reaches *address*, None where it has no route there."""
    try:
        found = _json(["ip", "-j", "route", "get", address])
    except LinkError:
        return None
    return str(found[0]["dev"]) if found else None


def subnets(links: Links) -> list[str]:
    """Return every subnet this host has an address in or a route to, default routes excepted, sorted."""
    found = set()
    for address in _addresses(links):
        found.add(str(ipaddress.ip_interface(f"{address['local']}/{address['prefixlen']}").network))
    for family in ("-4", "-6"):
        for route in _json(["ip", "-j", family, "route", "show", "table", "all"]):
            if route["dst"] != "default" and route.get("type", "unicast") != "multicast":
                found.add(str(ipaddress.ip_network(route["dst"], strict=False)))
    return sorted(found)


def underlay(wanted: str | None, links: Links) -> dict[str, Any]:
    """Return the address, interface and MTU that tunnels of this host use: {"address", "interface", "mtu"}.

    *wanted* is an address of this host; without it the source address of the default route is taken, and on a host
    that has none, its only global address. Raises LinkError when there is no such address or the choice is not clear.
    """
    links = [link for link in links if "UP" in link["flags"] and "LOOPBACK" not in link["flags"]]
    found = [
        {"address": address["local"], "interface": link["ifname"], "mtu": int(link["mtu"])}
        for link in links
        for address in link.get("addr_info", [])
        if address.get("scope") == "global"
    ]
    if wanted:
        for candidate in found:
            if ipaddress.ip_address(candidate["address"]) == ipaddress.ip_address(wanted):
                return candidate
        have = ", ".join(candidate["address"] for candidate in found) or "none"
        raise LinkError(f"No interface of this host has the address {wanted}; its addresses are: {have}.")
    for route in _json(["ip", "-j", "-4", "route", "show", "default"]):
        for candidate in found:
            if candidate["interface"] == route.get("dev") and route.get("prefsrc") in (None, candidate["address"]):
                return candidate
    physical = [candidate for candidate in found if not _is_virtual(candidate["interface"], links)]
    if len(physical) == 1:
        return physical[0]
    names = ", ".join(f"{candidate['address']} ({candidate['interface']})" for candidate in physical) or "none"
    raise LinkError(
        f"This host has no default route and its addresses do not tell which one tunnels should use: {names}. "
        "Set cluster_compute_underlay_address for it in the inventory."
    )


def _is_virtual(interface: str, links: list[dict[str, Any]]) -> bool:
    return interface.startswith(("docker", "br-", EGRESS_PREFIX, INNER_PREFIX)) or any(
        link["ifname"] == interface and link.get("ifalias", "").startswith(ALIAS_PREFIX) for link in links
    )


def listening_ports() -> list[dict[str, Any]]:
    """Return what listens on this host: [{"address", "port", "protocol"}], sorted, from /proc/net (proc(5))."""
    found = set()
    for name, protocol, listening in (
        ("tcp", "tcp", "0A"),
        ("tcp6", "tcp", "0A"),
        ("udp", "udp", "07"),
        ("udp6", "udp", "07"),
    ):
        try:
            with open(f"/proc/net/{name}", encoding="ascii") as table:
                rows = [line.split() for line in table.readlines()[1:]]
        except FileNotFoundError:
            continue
        for row in rows:
            address, _dummy, port = row[1].rpartition(":")
            if row[3] == listening:
                found.add((_proc_address(address), int(port, 16), protocol))
    return [{"address": address, "port": port, "protocol": protocol} for address, port, protocol in sorted(found)]


def _proc_address(text: str) -> str:
    """Turn /proc/net's hexadecimal address (32-bit words in host byte order) into text."""
    words = [bytes.fromhex(text[start : start + 8])[::-1] for start in range(0, len(text), 8)]
    return str(ipaddress.ip_address(b"".join(words)))

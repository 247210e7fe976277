# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Controls what can reach a session: the firewall rules of one session on one host, for iptables and for nftables.

A rule has a digest of itself in its comment, because both programs print rules differently from how they were given,
and differently in each release.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..model.overlays import Overlays
from ..model.record import OverlayTunnel, Record, is_session_id, tunnel_of
from ..values.deferred import dataclass
from .membership import QUESTION, WAITING, holds_back

if TYPE_CHECKING:
    from ..model.facts import HostFacts
    from ..model.plan import Plan

MARK = "cluster-compute"
"""The first word of the comments of rules; names of nftables tables begin with it, then id and name of the session."""

USER_CHAIN = "DOCKER-USER"
"""The chain that Docker Engine keeps for rules of others and runs before its own (Docker docs, packet filtering)."""

INPUT_CHAIN = "INPUT"

EGRESS_PREFIX = "cce"
INNER_PREFIX = "ccb"
"""Prefix of the bridges of sessions. Rules name them, so a name stays the same as long as the session exists."""

STANDING = ("ffffffff-ffff-ffff-ffff-ffffffffffff", "standing")
"""Id and name of the rules of a host that belong to no session (RFC 9562, 5.10: Max UUID)."""

PROBE = ("fffffffe-ffff-ffff-ffff-ffffffffffff", "preflight")
"""Id and name of the rules for the link by which hosts test each other: those of a session without replicas."""

# What UDP carries begins with 4 bytes of VXLAN flags, then come 24 bits of identifier and 8 reserved ones (RFC 7348).
_VNI_IPV4 = "0>>22&0x3C@12>>8={vni}"
_VNI_IPV6 = "52>>8={vni}"
_PLAIN_UDP_IPV6 = "3&0xFF=17"
# The flags and the reserved bits before the identifier, in packets that ask for a membership (`rules.membership`).
_FLAGS_IPV4 = "0>>22&0x3C@8={flags}"
_FLAGS_IPV6 = "48={flags}"

SHARE = 32
"""A session may use one part in this many of the connections that a host's kernel can track, for connections that it
opens itself."""
MEMORY = 128
"""Seconds for which the kernel remembers a closed connection, with a margin (Linux, nf_conntrack_tcp)."""
LONGEST_BURST = 10000
"""The largest burst that `iptables` accepts (iptables-extensions(8), limit)."""

YES = {4: ("icmp-proto-unreachable", "prot-unreachable"), 6: ("icmp6-policy-fail", "policy-fail")}
NO = {4: ("icmp-net-prohibited", "net-prohibited"), 6: ("icmp6-reject-route", "reject-route")}
"""The answers to a host that asks for its membership: the first to a host of the session, the second to one that was
given up. Each has its name in iptables and in nftables, by the underlay's version of IP. No kernel sends these by
itself for a UDP packet that has arrived, and firewalls use others, so neither is mistaken for an answer."""


@dataclass(frozen=True)
class PublishedPort:
    """A published port: *host_port* at *address*, or at any of the host's (None), leads to the container's."""

    protocol: str
    host_port: int
    container_port: int
    address: str | None


@dataclass(frozen=True)
class Tunnel:
    """The overlay of a session. endpoints: the underlay addresses of all its hosts.

    interfaces: those at which packets of the other hosts arrive, none if they are not known. local: this host's own
    endpoint, None on a host without replicas.
    """

    vni: int
    port: int
    endpoints: tuple[str, ...]
    interfaces: tuple[str, ...] = ()
    local: str | None = None

    @property
    def is_ipv6(self) -> bool:
        """Whether the underlay is IPv6."""
        return ipaddress.ip_address(self.endpoints[0]).version == 6

    @property
    def peers(self) -> tuple[str, ...]:
        """The endpoints of the other hosts."""
        return tuple(endpoint for endpoint in self.endpoints if endpoint != self.local)


@dataclass(frozen=True)
class Door:
    """The port at which this host answers other hosts that ask for their membership in the session.

    members: the addresses that are answered with yes. fenced: those that are answered with no. encrypted: whether the
    port is a WireGuard link's. flags: WAITING if they ask whether this host has given up starting the session.
    """

    vni: int
    port: int
    interfaces: tuple[str, ...]
    local: str
    members: tuple[str, ...]
    fenced: tuple[str, ...]
    encrypted: bool
    flags: int = QUESTION

    @property
    def is_ipv6(self) -> bool:
        """Whether the underlay is IPv6."""
        return ipaddress.ip_address(self.local).version == 6

    @property
    def answers(self) -> list[tuple[tuple[str, ...], tuple[str, str]]]:
        """The hosts' addresses, each with the name of their answer in iptables and nftables."""
        version = 6 if self.is_ipv6 else 4
        return [
            (members, what) for members, what in ((self.members, YES[version]), (self.fenced, NO[version])) if members
        ]


@dataclass(frozen=True)
class Isolation:
    """Everything that the firewall rules of one host keep apart.

    egress: the egress subnet; None on a host without replicas.
    inner: the interface of the session's own network, a bridge or the overlay's link. closed: ports that are published
    at an IPv4 address of the loopback interface: (protocol, address, port). doors: the ports that answer hosts of the
    session whether they are members, or that this host has given up starting it; none if no host has to know.
    connections: how many outgoing connections the replicas here may have; 0 if that is not known.
    """

    session_id: str
    session_name: str
    tunnel: Tunnel | None
    egress: str | None = None
    inner: str | None = None
    published: tuple[PublishedPort, ...] = ()
    closed: tuple[tuple[str, str, int], ...] = ()
    doors: tuple[Door, ...] = ()
    connections: int = 0

    @property
    def chain(self) -> str:
        """The name of the session's own chain."""
        return chain_name(self.session_id)


def is_kept_out(facts: HostFacts, record: Record) -> bool:
    """Tell whether rules in force keep all containers of a host out of a session that runs on other hosts.

    facts: of the host.
    """
    tunnel = tunnel_of(record.plan) if record.plan is not None else record.tunnel
    return facts.overlays is not None and facts.overlays.cover(tunnel)


def chain_name(session_id: str) -> str:
    """Return the name of a session's own chain; iptables takes at most 28 characters."""
    return f"cc-{session_id[:8]}"


def connections_of(most: int) -> int:
    """Return how many connections a session may have on a host whose kernel tracks *most*; 0 if it tracks none.

    Closed connections count for a while; `MEMORY` allows for that by limiting the rate.
    """
    return max(1, most // SHARE) if most else 0


def egress_bridge(session_id: str) -> str:
    """Return the name of the egress bridge."""
    return f"{EGRESS_PREFIX}{session_id[:8]}"


def inner_bridge(session_id: str) -> str:
    """Return the name of the session's own bridge, if one host carries all of it."""
    return f"{INNER_PREFIX}{session_id[:8]}"


def isolation_of(
    plan: Plan,
    host: str,
    overlay: OverlayTunnel | None,
    *,
    gave_up: bool = False,
    is_undecided: bool = False,
    interfaces: tuple[str, ...] = (),
    connections: int = 0,
) -> Isolation:
    """Return what the firewall rules keep apart on a *host* that carries replicas of the session.

    overlay: as `tunnel_of` derives it from the plan. interfaces: those at which packets of the other hosts arrive; if
    none is given, the interface that the plan names. connections: how many outgoing connections its replicas may have.
    gave_up: whether the host could not start its part; hosts that wait for it are notified. is_undecided: whether most
    witnesses may not have agreed yet to continue without the lost hosts. These get no answer then, because the answer
    would make them remove what runs there.
    """
    session, network = plan.session, plan.network
    published, closed = _ports_of(plan, host)
    own = plan.hosts[host]
    if not interfaces and own.underlay_interface is not None:
        interfaces = (own.underlay_interface,)
    return Isolation(
        session.id,
        session.name,
        None if overlay is None else tunnel_on_host(overlay, interfaces, own.underlay_address),
        plan.egress.subnet,
        None if network is None else network.link or inner_bridge(session.id),
        tuple(published),
        tuple(closed),
        _doors_of(plan, host, interfaces, gave_up, is_undecided),
        connections,
    )


def _ports_of(plan: Plan, host: str) -> tuple[list[PublishedPort], list[tuple[str, str, int]]]:
    """Return the published ports of the replicas on a host; and those that only the host itself may use."""
    published = []
    closed = []
    for port in (port for replica in plan.on(host) for port in replica.ports):
        address = ipaddress.ip_address(port.host_ip or "0.0.0.0")  # noqa: S104 - published on all
        if address.version == 6:
            continue  # there the engine's proxy answers, on the host itself; nothing is forwarded
        if address.is_loopback:
            closed.append((port.protocol, str(address), port.host_port))
        else:
            wanted = None if address.is_unspecified else str(address)
            published.append(PublishedPort(port.protocol, port.host_port, port.container_port, wanted))
    return published, closed


def _doors_of(
    plan: Plan, host: str, interfaces: tuple[str, ...], gave_up: bool, is_undecided: bool
) -> tuple[Door, ...]:
    """Return the ports that answer hosts about their membership, in sessions that replaced lost hosts or gave one up.

    gave_up: whether hosts that wait for this host to start the session are notified as well.
    """
    network, own = plan.network, plan.hosts[host]
    if network is None or network.vni is None or network.port is None or not interfaces:
        return ()
    others = sorted(plan.hosts.items())  # in the order in which a record is kept
    peers = tuple(str(other.underlay_address) for name, other in others if name != host)
    fenced = tuple(address for address in plan.fenced if address not in (*peers, own.underlay_address))
    fenced = () if is_undecided else fenced
    place = (network.vni, network.port, interfaces, str(own.underlay_address))
    encrypted = network.tunnel is not None
    doors = [Door(*place, peers, fenced, encrypted)] if holds_back(plan) or plan.fenced else []
    if gave_up and peers:
        doors.append(Door(*place, (), peers, encrypted, WAITING))
    return tuple(doors)


def tunnel_on_host(tunnel: OverlayTunnel, interfaces: tuple[str, ...], local: str | None = None) -> Tunnel:
    """Return a session's tunnel with the values of this host."""
    return Tunnel(tunnel.vni, tunnel.port, tunnel.endpoints, interfaces, local)


def isolation_of_probe(
    vni: int, port: int, endpoints: tuple[str, ...], local: str, interfaces: tuple[str, ...]
) -> Isolation:
    """Return what is kept apart while hosts test each other, with the rules that a session's tunnel has on a host."""
    return Isolation(*PROBE, Tunnel(vni, port, endpoints, interfaces, local))


# ---- iptables -------------------------------------------------------------------------------------------------------

Rules = dict[str, list[str]]
"""Rules without their comments, by chain."""


def iptables_rules(isolation: Isolation, ipv6: bool = False) -> Rules:
    """Return the rules for the table ``filter`` of iptables, or of ip6tables.

    The session's own chain has only these rules. In other chains they go before the rules that others have there.
    """
    found: Rules = {USER_CHAIN: [], INPUT_CHAIN: [], isolation.chain: []}
    tunnel = isolation.tunnel
    if tunnel is not None and tunnel.is_ipv6 == ipv6:
        _iptables_tunnel(found, isolation.chain, tunnel)
    for door in isolation.doors:
        if door.is_ipv6 == ipv6:
            _iptables_door(found, isolation.chain, door, ipv6)
    if ipv6:
        _ip6tables_egress(found, isolation)
    else:
        _iptables_egress(found, isolation)
    return {chain: rules for chain, rules in found.items() if rules}


def standing_iptables_rules(overlays: Overlays, ipv6: bool = False) -> Rules:
    """Return the rules that keep every container of a host out of every overlay of the site, for the same table as
    `iptables_rules`: what is forwarded to the port of tunnels with an identifier of the site is dropped.

    Packets from the network of the other hosts are not dropped: their sender could reach those hosts directly. Packets
    that stay on a session's own bridge concern only that session.
    """
    where = f"! -i {overlays.interface} " if overlays.interface else ""
    to_port = f"{where}! -o {INNER_PREFIX}+ -p udp -m udp --dport {overlays.port}"
    vni = (_VNI_IPV6 if ipv6 else _VNI_IPV4).format(vni=f"{overlays.first}:{overlays.last}")
    rules = [f'{to_port} -m u32 ! --u32 "{_PLAIN_UDP_IPV6}" -j DROP'] if ipv6 else []
    return {USER_CHAIN: [*rules, f'{to_port} -m u32 --u32 "{vni}" -j DROP']}


def _iptables_tunnel(found: Rules, chain: str, tunnel: Tunnel) -> None:
    to_port = f"-p udp -m udp --dport {tunnel.port}"
    vni = (_VNI_IPV6 if tunnel.is_ipv6 else _VNI_IPV4).format(vni=tunnel.vni)
    to_session = f'{to_port} -m u32 --u32 "{vni}"'
    # With an extension header the identifier is elsewhere; no tunnel sends one.
    strange = [f'{to_port} -m u32 ! --u32 "{_PLAIN_UDP_IPV6}" -j DROP'] if tunnel.is_ipv6 else []
    # A sender in the network of the other hosts could send such a packet to them directly, so it is let through.
    if len(tunnel.interfaces) > 1:
        out = f"{chain}-out"
        found[USER_CHAIN].append(f"{to_port} -j {out}")
        found[out] = [f"-i {interface} -j RETURN" for interface in tunnel.interfaces]
        found[out] += strange + [f"-d {endpoint} {to_session} -j DROP" for endpoint in tunnel.endpoints]
    else:
        inside = "".join(f"! -i {interface} " for interface in tunnel.interfaces)
        found[USER_CHAIN] += [f"{inside}{rule}" for rule in [*strange, f"{to_session} -j {chain}"]]
        found[chain] += [f"-d {endpoint} {inside}{to_session} -j DROP" for endpoint in tunnel.endpoints]
    if tunnel.local is None:
        return
    own = f"{chain}-in"
    found[INPUT_CHAIN] += [*strange, f"{to_session} -j {own}"]
    found[own] = [
        f"-s {peer} -d {tunnel.local} -i {interface} -j RETURN"
        for peer in tunnel.peers
        for interface in tunnel.interfaces
    ]
    found[own].append("-j DROP")


def _iptables_door(found: Rules, chain: str, door: Door, ipv6: bool) -> None:
    """Answer questions for a host's membership, before anything else is decided for packets to that port."""
    flags, vni = (_FLAGS_IPV6, _VNI_IPV6) if ipv6 else (_FLAGS_IPV4, _VNI_IPV4)
    question = f"{flags.format(flags=f'{door.flags:#x}')}&&{vni.format(vni=door.vni)}"
    asks = f'-p udp -m udp --dport {door.port} -m u32 --u32 "{question}"'
    own = f"{chain}-{'ask' if door.flags == QUESTION else 'wait'}"
    # Of the packets that arrive by the tunnel of a session, only the session's own are matched twice.
    where = found[INPUT_CHAIN if door.encrypted else f"{chain}-in"]
    where[:0] = [f"-d {door.local} -i {interface} {asks} -j {own}" for interface in door.interfaces]
    found[own] = [
        f"-s {address} -j REJECT --reject-with {answer}"
        for addresses, (answer, _nft) in door.answers
        for address in addresses
    ]
    found[own].append("-j DROP")


def _iptables_egress(found: Rules, isolation: Isolation) -> None:
    own = found[isolation.chain]
    if isolation.inner is not None:
        inner = isolation.inner
        found[USER_CHAIN] += [f"-i {inner} -j {isolation.chain}", f"-o {inner} -j {isolation.chain}"]
        own += [f"-i {inner} -o {inner} -j RETURN", f"-i {inner} -j DROP", f"-o {inner} -j DROP"]
    if isolation.egress is not None:
        bridge = egress_bridge(isolation.session_id)
        found[USER_CHAIN] += [f"-i {bridge} -j {isolation.chain}", f"-o {bridge} -j {isolation.chain}"]
        own += [f"-i {bridge} -o {bridge} -j RETURN", f"! -s {isolation.egress} -i {bridge} -j DROP"]
        _iptables_limit(found, isolation, own)
        own.append(f"-o {bridge} -m conntrack --ctstate RELATED,ESTABLISHED -j RETURN")
        for published in isolation.published:
            original = f"--ctorigdst {published.address} " if published.address else ""
            own.append(
                f"-o {bridge} -p {published.protocol} -m {published.protocol} --dport {published.container_port} "
                f"-m conntrack --ctstate DNAT {original}--ctorigdstport {published.host_port} -j RETURN"
            )
        own.append(f"-o {bridge} -j DROP")
    for protocol, address, port in isolation.closed:
        found[INPUT_CHAIN].append(f"-d {address} ! -i lo -p {protocol} -m {protocol} --dport {port} -j DROP")


def _iptables_limit(found: Rules, isolation: Isolation, own: list[str]) -> None:
    """Limit a session's replicas to their part of the table of connections, which all programs on a host share.

    New connections are counted in one chain, whatever their destination; a dropped packet leaves no entry in the table.
    """
    if not isolation.connections:
        return
    begins = f"-i {egress_bridge(isolation.session_id)} -m conntrack --ctstate NEW -j {isolation.chain}-new"
    own.append(begins)
    found[INPUT_CHAIN].append(begins)
    rate, burst = _rate(isolation.connections)
    found[f"{isolation.chain}-new"] = [
        f"-m connlimit --connlimit-above {isolation.connections} --connlimit-mask 0 -j DROP",
        f"-m limit --limit {rate}/sec --limit-burst {min(burst, LONGEST_BURST)} -j RETURN",
        "-j DROP",
    ]


def _rate(connections: int) -> tuple[int, int]:
    """Return how many connections may be opened in a second, and how many at once before that."""
    return max(1, connections // MEMORY), connections


def _ip6tables_egress(found: Rules, isolation: Isolation) -> None:
    """Drop everything: replicas have no IPv6, but with NET_RAW one can send it, and neighbours can send it to one."""
    links = [isolation.inner] if isolation.inner is not None else []
    links += [egress_bridge(isolation.session_id)] if isolation.egress is not None else []
    for link in links:
        found[USER_CHAIN] += [f"-i {link} -j {isolation.chain}", f"-o {link} -j {isolation.chain}"]
        found[isolation.chain] += [f"-i {link} -o {link} -j RETURN", f"-i {link} -j DROP", f"-o {link} -j DROP"]
    if isolation.egress is not None:
        _iptables_limit(found, isolation, [])


def iptables_comment(session_id: str, session_name: str, rule: str) -> str:
    """Return the comment of a rule: its session, and the rule's digest."""
    return f"{MARK} {session_id} {session_name} {digest(rule)}"


def read_comment(comment: str) -> tuple[str, str, str] | None:
    """Return session id, session name and digest from a rule's comment, None if the rule is not one of ours."""
    words = comment.split(" ")
    if len(words) != 4 or words[0] != MARK or not is_session_id(words[1]):
        return None
    return words[1], words[2], words[3]


def digest(rule: str) -> str:
    """Return a short digest of a rule."""
    return hashlib.sha256(rule.encode()).hexdigest()[:12]


# ---- nftables -------------------------------------------------------------------------------------------------------

HOOKS = {
    "input": "type filter hook input priority -10; policy accept;",
    "forward": "type filter hook forward priority -10; policy accept;",
}
"""Chains of the table of nftables. A packet that any chain of the host drops is gone, even if another accepts it."""


def table_name(session_id: str, session_name: str) -> str:
    """Return the name of a session's table, which is of the family inet."""
    return f"{MARK}-{session_id}-{session_name}"


def read_table_name(name: str) -> tuple[str, str] | None:
    """Return session id and name from the name of a table, None if the table is not one of ours."""
    prefix, session_id, session_name = name[: len(MARK) + 1], name[len(MARK) + 1 :][:36], name[len(MARK) + 38 :]
    return (session_id, session_name) if prefix == f"{MARK}-" and is_session_id(session_id) else None


def nft_rules(isolation: Isolation) -> Rules:
    """Return the rules for a table of nftables, by chain; the same as those for iptables."""
    found: Rules = {"input": [], "forward": []}
    for door in isolation.doors:
        found["input"] += _nft_door(door)
    if isolation.tunnel is not None:
        _nft_tunnel(found, isolation.tunnel)
    if isolation.inner is not None:
        inner = isolation.inner
        found["forward"] += [f'iifname "{inner}" oifname "{inner}" accept']
        found["forward"] += [f'iifname "{inner}" drop', f'oifname "{inner}" drop']
    if isolation.egress is not None:
        found["forward"] += _nft_egress(isolation)
        found["input"] += _nft_limit(isolation)
    for protocol, address, port in isolation.closed:
        found["input"].append(f'iifname != "lo" ip daddr {address} {protocol} dport {port} drop')
    return {chain: rules for chain, rules in found.items() if rules}


def _nft_tunnel(found: Rules, tunnel: Tunnel) -> None:
    family = "ip6" if tunnel.is_ipv6 else "ip"
    to_session = f"udp dport {tunnel.port} @th,96,24 {tunnel.vni}"
    inside = f"iifname != {_names(tunnel.interfaces)} " if tunnel.interfaces else ""
    found["forward"].append(f"{inside}{family} daddr {_set(tunnel.endpoints)} {to_session} drop")
    if tunnel.local is None:
        return
    if tunnel.peers and tunnel.interfaces:  # a set of nft may not be empty
        come = f"iifname {_names(tunnel.interfaces)} {family} saddr {_set(tunnel.peers)}"
        # Matching on the state reassembles fragmented packets before they get here.
        found["input"].append(
            f"{come} {family} daddr {tunnel.local} {to_session} "
            "ct state { new, established, related, untracked } accept"
        )
    found["input"].append(f"{to_session} drop")


def _nft_egress(isolation: Isolation) -> list[str]:
    """Return the rules for what is forwarded from and to the replicas' connections to the outside."""
    bridge = egress_bridge(isolation.session_id)
    rules = [
        f'iifname "{bridge}" oifname "{bridge}" accept',
        f'iifname "{bridge}" ip saddr != {isolation.egress} drop',
        f'iifname "{bridge}" meta nfproto ipv6 drop',
        *_nft_limit(isolation),
        f'oifname "{bridge}" ct state established,related accept',
    ]
    for published in isolation.published:
        original = f"ct original ip daddr {published.address} " if published.address else ""
        rules.append(
            f'oifname "{bridge}" {published.protocol} dport {published.container_port} ct status dnat {original}'
            f"ct original proto-dst {published.host_port} accept"
        )
    return [*rules, f'oifname "{bridge}" drop']


def _nft_limit(isolation: Isolation) -> list[str]:
    """Return the same as `_iptables_limit` adds, for a chain that counts by itself."""
    if not isolation.connections:
        return []
    begins = f'iifname "{egress_bridge(isolation.session_id)}" ct state new'
    rate, burst = _rate(isolation.connections)
    return [
        f"{begins} ct count over {isolation.connections} drop",
        f"{begins} limit rate over {rate}/second burst {burst} packets drop",
    ]


def _nft_door(door: Door) -> list[str]:
    family, icmp = ("ip6", "icmpv6") if door.is_ipv6 else ("ip", "icmp")
    asks = f"udp dport {door.port} @th,64,32 {door.flags:#x} @th,96,24 {door.vni}"
    to_us = f"iifname {_names(door.interfaces)} {family} daddr {door.local} {asks}"
    answers = [
        f"{family} saddr {_set(addresses)} {to_us} reject with {icmp} type {answer}"
        for addresses, (_other, answer) in door.answers
    ]
    return [*answers, f"{to_us} drop"]


def standing_nft_rules(overlays: Overlays) -> Rules:
    """Return the same as `standing_iptables_rules`, for a table of nftables."""
    where = f'iifname != "{overlays.interface}" ' if overlays.interface else ""
    to_port = f'{where}oifname != "{INNER_PREFIX}*" udp dport {overlays.port}'
    return {"forward": [f"{to_port} @th,96,24 {overlays.first}-{overlays.last} drop"]}


def _names(interfaces: tuple[str, ...]) -> str:
    """Return interfaces in the syntax of nftables; a single one as rules always named it, so they stay the same."""
    quoted = [f'"{interface}"' for interface in interfaces]
    return quoted[0] if len(quoted) == 1 else _set(quoted)


def _set(addresses: Iterable[str]) -> str:
    return f"{{ {', '.join(addresses)} }}"


def nft_table(name: str, rules: Rules) -> str:
    """Return the input for ``nft -f`` that replaces the table of the same name in one transaction."""
    lines = [f"table inet {name}", f"delete table inet {name}", f"table inet {name} {{"]
    for chain, chain_rules in rules.items():
        lines += [f"chain {chain} {{", HOOKS[chain]]
        lines += [f'{rule} comment "{digest(rule)}"' for rule in chain_rules]
        lines.append("}")
    return "\n".join([*lines, "}"]) + "\n"

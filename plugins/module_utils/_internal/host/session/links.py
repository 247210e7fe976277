# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The links of a session on this host: its tunnel, its overlay with the entries of peers, and its firewall rules."""

from __future__ import annotations

from functools import partial

from ...adapters import link
from ...core.model.record import PublicKeys, tunnel_of
from .. import firewall_rules
from ..steps import Stage, Step
from .context import Context


def early_stages(context: Context, public_keys: PublicKeys, nftables: bool) -> list[Stage]:
    """Return the missing steps for other hosts to reach this one, which need no engine. Rules come first."""
    return [
        rule_steps(context, nftables),
        tunnel_steps(context, public_keys),
        link_steps(context),
        peer_steps(context),
    ]


def tunnel_steps(context: Context, public_keys: PublicKeys) -> Stage:
    """Return the missing steps for the tunnel of an encrypted session on this host, which need no engine.

    An existing link is changed in place, including its keys, so that the overlay on it stays.
    """
    if context.network is None or context.network.tunnel is None:
        return []
    from ...adapters import wireguard

    tunnel = context.network.tunnel
    found = wireguard.read(tunnel.link)
    if found is not None and not _is_own(context, found.alias):
        raise _foreign_link(context, tunnel.link)
    keys = {member.host: (public_keys.get(member.name) or {}).get("tunnel") for member in context.members}
    peers = [
        wireguard.Peer(key, _tunnel_endpoint(context, host), str(context.plan.hosts[host].underlay_address))
        for host, key in keys.items()
        if key and host != context.host
    ]
    wanted = wireguard.Tunnel(
        name=tunnel.link,
        address=_tunnel_endpoint(context, context.host),
        port=int(context.network.port or 0),
        mtu=tunnel.mtu,
        alias=_alias(context),
        public_key=keys[context.host],
        peers=tuple(sorted((peer.public_key, peer.address) for peer in peers)),
    )
    if found == wanted:
        return []

    def change() -> None:
        if not all(keys.values()):
            raise link.LinkError(
                f"The tunnel {wanted.name} cannot be made without the public keys of every host. Run the repair "
                "playbook."
            )
        wireguard.converge(wanted, context.directory.tunnel_key_file, peers)

    if found is None:
        undo = partial(link.delete_link, wanted.name)
        return [Step("create", "link", wanted.name, change, undo, after=vars(wanted))]
    return [Step("update", "link", wanted.name, change, before=vars(found), after=vars(wanted))]


def rule_steps(context: Context, nftables: bool) -> Stage:
    """Return the missing firewall rules, which come before anything that they protect, and need no engine."""
    overlay, is_undecided = tunnel_of(context.record.plan), context.directory.is_undecided
    wanted = firewall_rules.isolation_here(context.plan, overlay, context.host, is_undecided=is_undecided)
    return firewall_rules.rule_steps(wanted, nftables)


def link_steps(context: Context) -> Stage:
    """Return the missing steps for the overlay's link on this host, which need no engine."""
    wanted = _vxlan(context)
    if wanted is None:
        return []
    found = link.read_vxlan(wanted.name)
    if found == wanted:
        return []
    if found is not None:
        if not _is_own(context, found.alias):
            raise _foreign_link(context, wanted.name)

        def replace() -> None:
            link.delete_link(wanted.name)
            link.create_vxlan(wanted)

        return [Step("replace", "link", wanted.name, replace, before=vars(found), after=vars(wanted))]
    return [
        Step(
            "create",
            "link",
            wanted.name,
            partial(link.create_vxlan, wanted),
            partial(link.delete_link, wanted.name),
            after=vars(wanted),
        )
    ]


def peer_steps(context: Context) -> Stage:
    """Return the missing forwarding and neighbour entries of the link, which need no engine."""
    wanted = _vxlan(context)
    if wanted is None:
        return []
    remote = [peer for peer in context.members if peer.host != context.host]
    forwarding = {(str(peer.mac), _tunnel_endpoint(context, peer.host)) for peer in remote}
    neighbours = {(str(peer.address), str(peer.mac)) for peer in remote}
    have_forwarding: set[tuple[str, str]] = set()
    have_neighbours: set[tuple[str, str]] = set()
    if link.read_vxlan(wanted.name) == wanted:
        have_forwarding, have_neighbours = link.read_peers(wanted.name)
    if (have_forwarding, have_neighbours) == (forwarding, neighbours):
        return []

    def change() -> None:
        # Read again, because the stage before this one may have replaced the link, which is then empty.
        on_forwarding, on_neighbours = link.read_peers(wanted.name)
        link.change_peers(
            wanted.name,
            (on_forwarding - forwarding, forwarding - on_forwarding),
            (on_neighbours - neighbours, neighbours - on_neighbours),
            wanted.device,
        )

    return [
        Step(
            "update",
            "peers of link",
            wanted.name,
            change,
            before={"forwarding": sorted(have_forwarding), "neighbours": sorted(have_neighbours)},
            after={"forwarding": sorted(forwarding), "neighbours": sorted(neighbours)},
        )
    ]


def _tunnel_endpoint(context: Context, host: str) -> str:
    """Return the address at which the overlay reaches a host, which is its address in the tunnel if there is one."""
    host_plan = context.plan.hosts[host]
    return str(host_plan.tunnel_address or host_plan.underlay_address)


def _vxlan(context: Context) -> link.Vxlan | None:
    network = context.network
    if network is None or network.link is None or network.vni is None or network.port is None or network.mtu is None:
        return None  # a single host only needs a bridge
    tunnel = network.tunnel
    return link.Vxlan(
        name=network.link,
        vni=network.vni,
        local=_tunnel_endpoint(context, context.host),
        port=tunnel.vxlan_port if tunnel else network.port,
        mtu=network.mtu,
        alias=_alias(context),
        device=tunnel.link if tunnel else link.vrf_of(context.plan.hosts[context.host].underlay_address) or None,
    )


def _alias(context: Context) -> str:
    return link.session_alias(context.session.id, context.session.name)


def _is_own(context: Context, alias: str) -> bool:
    return alias.startswith(f"{link.ALIAS_PREFIX}{context.session.id} ")


def _foreign_link(context: Context, name: str) -> link.LinkError:
    return link.LinkError(
        f"The host {context.host} already has a link named {name} that belongs to somebody else; it is not touched."
    )

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check whether a plan that was read back from a record is one that `build` makes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from ..model.decode import encode
from ..model.fields import MULTI_NODE, SINGLE_NODE
from ..model.plan import BRIDGE, VXLAN, Network, PinnedImage, Plan, PlannedHost, Replica, read_plan
from ..model.record import is_session_id
from ..model.request import Request
from ..values.cpus import Pinned
from ..values.errors import InvalidInput, InvalidPlan, show
from ..values.image_names import is_image_id, repository_of
from ..values.parse import is_plain
from ..values.paths import is_below
from ..values.resources import PINNED, Devices, parse_devices
from .build import INTERFACE, SCHEMA, VXLAN_OVERHEAD_IPV6, Layout, entries_of, images_of
from .data import READS, WRITES


class _Checker:
    def __init__(self) -> None:
        self.problems: list[str] = []

    def expect(self, good: bool, place: str, value: object, wanted: str) -> bool:
        """Note a problem with the value at a place of the plan unless it is good; return whether it is good."""
        if not good:
            self.problems.append(f"The plan's {place} is {show(value)}, where {wanted} is expected.")
        return good

    def equal(self, place: str, value: object, wanted: object) -> bool:
        """Note a problem unless the value at a place is the wanted one; return whether it is."""
        return self.expect(value == wanted, place, value, "nothing" if wanted is None else show(wanted))

    def names(self, place: str, value: Iterable[str], wanted: Iterable[str]) -> bool:
        """Note a problem unless the names at a place are the wanted ones, in any order; return whether they are."""
        found, expected = list(value), list(wanted)
        return self.expect(set(found) == set(expected), place, found, show(expected))


def validate_plan(data: object) -> Plan:
    """Return a plan that was read back from a record, if `build` could have made it.

    Raises InvalidPlan: for a newer schema with its number, else with one sentence for each place that is malformed.
    """
    schema = data.get("schema") if isinstance(data, Mapping) else None
    if isinstance(schema, int) and not isinstance(schema, bool) and schema > SCHEMA:
        raise InvalidPlan(
            [
                f"The plan has schema {schema}, which a newer release of the collection wrote; this one reads up to "
                f"schema {SCHEMA}. Use the newer release for this session."
            ],
            schema,
        )
    plan, check = read_plan(data), _Checker()
    check.expect(plan.schema >= 1, "schema", schema, f"a whole number from 1 to {SCHEMA}")
    try:
        request = Request.from_dict(plan.request)
    except InvalidInput as error:
        raise InvalidPlan(f"The plan's request is malformed: {problem}" for problem in error.problems) from None
    if not check.problems:
        _check_session(check, plan, request)
    if not check.problems:
        _check_replicas(check, plan, request)
    if check.problems:
        raise InvalidPlan(check.problems)
    return plan


def _check_session(check: _Checker, plan: Plan, request: Request) -> None:
    """Check everything except the replicas."""
    session, hosts = plan.session, plan.hosts
    if not check.expect(is_session_id(session.id), "session.id", session.id, "a UUID"):
        return
    if not check.expect(bool(hosts), "hosts", list(hosts), "a mapping of the used hosts"):
        return
    multi = len(hosts) > 1
    check.equal("session.name", session.name, request.name)
    check.equal("session.requested_mode", session.requested_mode, request.mode)
    check.equal("session.mode", session.mode, MULTI_NODE if multi else SINGLE_NODE)
    check.equal("session.size", session.size, request.size)
    check.equal("session.resource_group", session.resource_group, request.resource_group)
    for name, host in hosts.items():
        _check_data(check, f"hosts.{name}", host, request)
        for key, value in (("address", host.underlay_address), ("interface", host.underlay_interface)):
            good = _is_word(value) or (value is None and not multi)
            check.expect(good, f"hosts.{name}.underlay_{key}", value, "text")
    if not check.problems:
        _check_proofs(check, hosts, request)
    check.equal("egress.name", plan.egress.name, f"cc-{session.id[:8]}-egress")
    check.expect(_is_subnet(plan.egress.subnet), "egress.subnet", plan.egress.subnet, "an IPv4 network")
    port = plan.ssh_port
    if request.ssh_port is not None or not request.authorized_keys:
        check.equal("ssh_port", port, request.ssh_port)
    else:
        check.expect(_is_integer(port, 1, 65535), "ssh_port", port, "a port")
    if plan.network is None:
        check.expect(request.size == 1, "network", None, "one where there are peers")
    else:
        _check_network(check, plan.network, hosts, session.id[:8], request)


def _check_network(
    check: _Checker, network: Network, hosts: Mapping[str, PlannedHost], id8: str, request: Request
) -> None:
    is_overlay = network.driver == VXLAN
    may_grow = request.max_size is not None or is_overlay
    check.expect(request.size > 1 or may_grow, "network", encode(network), "one where there are, or may be, peers")
    # On one host it is an overlay if the session may grow, or was larger.
    allowed = (VXLAN,) if len(hosts) > 1 else (BRIDGE, VXLAN)
    check.expect(network.driver in allowed, "network.driver", network.driver, " or ".join(allowed))
    check.equal("network.name", network.name, f"cc-{id8}")
    check.equal("network.interface", network.interface, INTERFACE)
    check.equal("network.link", network.link, f"ccx{id8}" if is_overlay else None)
    check.expect(_is_subnet(network.subnet), "network.subnet", network.subnet, "an IPv4 network")
    for key, number, most in (
        ("mtu", network.mtu, 65535),
        ("vni", network.vni, 2**24 - 1),
        ("port", network.port, 65535),
    ):
        good = _is_integer(number, 1, most) if is_overlay else number is None
        check.expect(good, f"network.{key}", number, f"a number up to {most}" if is_overlay else "none")
    _check_tunnel(check, network, hosts, id8, is_overlay and request.encrypted)


def _check_tunnel(
    check: _Checker, network: Network, hosts: Mapping[str, PlannedHost], id8: str, encrypted: bool
) -> None:
    """Check the tunnel, which exists for encrypted sessions on several hosts and for no others."""
    tunnel, addresses = network.tunnel, [host.tunnel_address for host in hosts.values()]
    if tunnel is None or not encrypted:
        check.expect(tunnel is None and not encrypted, "network.tunnel", encode(tunnel), "one for encrypted sessions")
        check.expect(not any(addresses), "hosts' tunnel_address", addresses, "nothing")
        return
    check.equal("network.tunnel.link", tunnel.link, f"cct{id8}")
    check.equal("network.tunnel.mtu", tunnel.mtu, (network.mtu or 0) + VXLAN_OVERHEAD_IPV6)
    port = tunnel.vxlan_port
    check.expect(_is_integer(port, 1, 65535), "network.tunnel.vxlan_port", port, "a number up to 65535")
    good = all(re.fullmatch("fe80::[0-9a-f]{1,4}", address or "") for address in addresses)
    good = good and len(set(addresses)) == len(hosts)
    check.expect(good, "hosts' tunnel_address", addresses, "a link-local address for each")


def _check_data(check: _Checker, place: str, host: PlannedHost, request: Request) -> None:
    """Check the plan's entries for the paths of one host."""
    sources = [mount.source for mount in request.mounts if mount.source is not None]
    good = all(_is_word(root) and root.startswith("/") for root in host.mount_roots)
    check.expect(good, f"{place}.mount_roots", host.mount_roots, "a list of folders")
    for root in host.mount_roots:
        check.expect(any(is_below(path, root) for path in sources), f"{place}.mount_roots", root, "one that is needed")
    if not check.names(f"{place}.data", host.data, sources):
        return
    for source, folder in host.data.items():
        where = f"{place}.data.{source}"
        allowed = any(is_below(source, root) for root in host.mount_roots)
        check.expect(allowed, where, source, "a path below one of the roots")
        check.expect(_is_word(folder.filesystem), f"{where}.filesystem", folder.filesystem, "a type")


def _check_proofs(check: _Checker, hosts: Mapping[str, PlannedHost], request: Request) -> None:
    """Check the proofs that a folder is shared: none, or one host that writes and all others that read."""
    for mount in request.mounts:
        if mount.source is not None:
            proofs = [host.data[mount.source].proof for host in hosts.values()]
            shared = len(hosts) > 1 and mount.shared is not False
            is_probed = shared and proofs.count(WRITES) == 1 and proofs.count(READS) == len(hosts) - 1
            good = is_probed or all(proof is None for proof in proofs)
            check.expect(good, f"proof of {mount.source}", proofs, "one host that writes, the others that read")


def _check_replicas(check: _Checker, plan: Plan, request: Request) -> None:
    """Make the entries again from request, hosts and network, and compare."""
    if not _check_names(check, plan.replicas, request) or not _check_places(check, plan.replicas, plan.hosts):
        return
    layout = Layout(
        {replica.name: replica.host for replica in plan.replicas},
        {replica.host: replica.node_rank for replica in plan.replicas},
        {replica.name: replica.local_rank for replica in plan.replicas},
    )
    try:
        devices, pinned = _devices_by_host(plan.replicas, plan.hosts), _pinned_in(request, plan.replicas)
        entries = entries_of(request, plan.session.id, layout, plan.network, devices, pinned, plan.ssh_port)
    except ValueError as error:
        check.problems.append(str(error))
        return
    for replica, wanted in zip(plan.replicas, entries):
        if replica != wanted:
            found = encode(replica)
            for key, value in encode(wanted).items():
                check.equal(f"replica {wanted.name}.{key}", found[key], value)
    for name, host in plan.hosts.items():
        there = [replica.name for replica in plan.replicas if replica.host == name]
        check.equal(f"hosts.{name}.replicas", list(host.replicas), there)
    _check_images(check, plan.images, images_of(entries))


def _check_names(check: _Checker, replicas: Sequence[Replica], request: Request) -> bool:
    """Check that the replicas are those of the request; return whether they are."""
    names = [replica.name for replica in replicas]
    # Replicas that came while the session ran come last, whatever their role.
    return (
        check.names("replicas", names, [name for name, role, index in request.replicas()])
        and check.equal("replicas", len(names), len(set(names)))
        and check.equal("replicas", names[0], "main1")
    )


def _check_places(check: _Checker, replicas: Sequence[Replica], hosts: Collection[str]) -> bool:
    """Check the hosts of replicas and the numbers that follow from them; return whether they are good."""
    for replica in replicas:
        if not check.expect(replica.host in hosts, f"host of {replica.name}", replica.host, "one of its hosts"):
            return False
    ranks = {replica.host: replica.node_rank for replica in replicas}
    good = set(ranks) == set(hosts) and len(set(ranks.values())) == len(hosts) and min(ranks.values()) >= 0
    if not check.expect(good, "node_rank", sorted(ranks.values()), "one number a host"):
        return False
    places = [(replica.host, replica.local_rank) for replica in replicas]
    # Replicas that stay keep their numbers, so there may be gaps, and numbers higher than the count of replicas left.
    good = len(set(places)) == len(places) and all(place >= 0 for _host, place in places)
    return check.expect(good, "local_rank", [place for _host, place in places], "another number for each on a host")


def _check_images(check: _Checker, images: Mapping[str, PinnedImage], used: Mapping[str, Sequence[str]]) -> None:
    """Check the pinned images: for each reference one digest or none, and an id on each host that runs it."""
    if not check.names("images", images, used):
        return
    for reference, pinned in images.items():
        place, digest = f"images[{reference}]", pinned.digest
        check.names(f"{place}.ids", pinned.ids, used[reference])
        good = digest is None or (_is_word(digest) and digest.startswith(f"{repository_of(reference)}@"))
        check.expect(good, f"{place}.digest", digest, "a digest of its repository, or nothing")
        for host, image in pinned.ids.items():
            good = image is None or is_image_id(image)
            check.expect(good, f"{place}.ids.{host}", image, "the id of an image, or nothing")


def _devices_by_host(replicas: Sequence[Replica], hosts: Iterable[str]) -> dict[str, Devices]:
    """Return the named devices of the replicas of a plan on each host. Raises ValueError for malformed ones."""
    found: dict[str, dict[str, list[str]]] = {host: {} for host in hosts}
    for replica in replicas:
        for kind, names in replica.devices.items():
            found[replica.host].setdefault(kind, []).extend(names)
    result = {}
    for host, devices in found.items():
        pinned = devices.pop(PINNED, [])
        if len(set(pinned)) < len(pinned) or not all(re.fullmatch(r"[0-9]{1,5}", cpu) for cpu in pinned):
            raise ValueError(f"The pinned CPUs on {host} are {show(pinned)}, where different numbers are expected.")
        try:
            result[host] = parse_devices(devices)
        except ValueError as error:
            raise ValueError(f"The devices of the replicas on {host} are malformed: {error}") from None
    return result


def _pinned_in(request: Request, replicas: Sequence[Replica]) -> dict[str, Pinned]:
    """Return the CPUs that a plan gives to replicas for themselves. Raises ValueError for malformed ones.

    The request sets their least number; a replica that has whole cores may have more.
    """
    pinned = {}
    roles = {name: role for name, role, _index in request.replicas()}
    for replica in replicas:
        name, role = replica.name, roles[replica.name]
        if not role.resources.pin_cpus:
            continue
        cpus, nodes = replica.devices.get(PINNED, ()), replica.memory_nodes
        least = role.resources.cpus // 1000
        if len(cpus) < least:
            raise ValueError(f"There are {len(cpus)} pinned CPUs of {name} where at least {least} are expected.")
        if not all(_is_integer(node, 0, 65535) for node in nodes):
            raise ValueError(f"The memory nodes of {name} are {show(nodes)}, where numbers are expected.")
        pinned[name] = Pinned(cpus, nodes)
    return pinned


def _is_word(value: object) -> bool:
    return isinstance(value, str) and bool(value) and is_plain(value)


def _is_integer(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and least <= value <= most


def _is_subnet(value: str) -> bool:
    match = re.fullmatch(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})/(\d{1,2})", value, re.ASCII)
    return match is not None and all(int(byte) < 256 for byte in match.groups()[:4]) and int(match.group(5)) <= 32

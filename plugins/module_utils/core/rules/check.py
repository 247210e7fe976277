# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether a plan that was read back from a record is one that `build` makes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import InvalidInput, InvalidPlan, show
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.fields import MULTI_NODE, SINGLE_NODE
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.record import is_session_id
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.request import Request
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.values import is_plain
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.build import (
    BRIDGE,
    INTERFACE,
    SCHEMA,
    VXLAN,
    VXLAN_OVERHEAD_IPV6,
    entries_of,
    images_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.cpus import Pinned
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.data import READS, WRITES
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.images import (
    is_image_id,
    repository_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.paths import is_below
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.resources import (
    PINNED,
    Devices,
    parse_devices,
)

_PLAN_KEYS = ("schema", "session", "request", "network", "egress", "ssh_port", "hosts", "images", "replicas")
_HOST_KEYS = ("underlay_address", "underlay_interface", "tunnel_address", "replicas", "mount_roots", "data")
_NETWORK_KEYS = ("driver", "name", "subnet", "interface", "mtu", "vni", "port", "link", "tunnel")


class _Checker:
    def __init__(self) -> None:
        self.problems: list[str] = []

    def expect(self, good: bool, place: str, value: object, wanted: str) -> bool:
        if not good:
            self.problems.append(f"The plan's {place} is {show(value)}, where {wanted} is expected.")
        return good

    def equal(self, place: str, value: object, wanted: object) -> bool:
        # Ansible hands over subclasses of text, lists and mappings; only truth values must not pass for numbers.
        same = value == wanted and isinstance(value, bool) == isinstance(wanted, bool)
        return self.expect(same, place, value, "nothing" if wanted is None else show(wanted))

    def keys(self, place: str, value: object, keys: Iterable[str]) -> bool:
        if not isinstance(value, Mapping):
            return self.expect(False, place, value, "a mapping")
        wanted = list(keys)
        missing = [key for key in wanted if key not in value]
        unknown = [str(key) for key in value if key not in wanted]
        self.expect(not missing, f"{place} without {', '.join(missing)}", "incomplete", "every key")
        self.expect(not unknown, f"{place} with {show(', '.join(unknown))}", "strange", "no other key")
        return not missing and not unknown


def validate_plan(plan: object) -> None:
    """Judge a plan that was read back from a record.

    Raises InvalidPlan: for a newer schema by its number, else with one sentence for each place that is malformed.
    """
    check = _Checker()
    if not isinstance(plan, Mapping):
        raise InvalidPlan([f"The plan is {show(plan)}, where a mapping is expected."])
    schema = plan.get("schema")
    if isinstance(schema, bool) or not isinstance(schema, int) or schema < 1:
        raise InvalidPlan(
            [f"The plan's schema is {show(schema)}, where a whole number from 1 to {SCHEMA} is expected."]
        )
    if schema > SCHEMA:
        raise InvalidPlan(
            [
                f"The plan has schema {schema}, which a newer release of the collection wrote; this one reads up to "
                f"schema {SCHEMA}. Use the newer release for this session."
            ],
            schema,
        )
    if not check.keys("top level", plan, _PLAN_KEYS):
        raise InvalidPlan(check.problems)
    try:
        request = Request.from_dict(plan["request"])
    except InvalidInput as error:
        raise InvalidPlan(f"The plan's request is malformed: {problem}" for problem in error.problems) from None
    _check_session(check, plan, request)
    if not check.problems:
        _check_replicas(check, plan, request)
    if check.problems:
        raise InvalidPlan(check.problems)


def _check_session(check: _Checker, plan: Mapping[str, Any], request: Request) -> None:
    """Judge everything but the replicas."""
    session, network, egress, hosts = plan["session"], plan["network"], plan["egress"], plan["hosts"]
    if not check.keys("session", session, ("id", "name", "mode", "requested_mode", "size", "resource_group")):
        return
    if not check.expect(is_session_id(session["id"]), "session.id", session["id"], "a UUID"):
        return
    id8 = session["id"][:8]
    if not check.expect(isinstance(hosts, Mapping) and len(hosts) > 0, "hosts", hosts, "a mapping of the used hosts"):
        return
    multi = len(hosts) > 1
    for key, value in (
        ("name", request.name),
        ("requested_mode", request.mode),
        ("mode", MULTI_NODE if multi else SINGLE_NODE),
        ("size", request.size),
        ("resource_group", request.resource_group),
    ):
        check.equal(f"session.{key}", session[key], value)
    for name, entry in hosts.items():
        if check.keys(f"hosts.{name}", entry, _HOST_KEYS):
            _check_data(check, f"hosts.{name}", entry, request)
            for key in ("underlay_address", "underlay_interface"):
                good = _is_word(entry[key]) or (entry[key] is None and not multi)
                check.expect(good, f"hosts.{name}.{key}", entry[key], "text")
    if not check.problems:
        _check_proofs(check, hosts, request)
    if check.keys("egress", egress, ("name", "subnet")):
        check.equal("egress.name", egress["name"], f"cc-{id8}-egress")
        check.expect(_is_subnet(egress["subnet"]), "egress.subnet", egress["subnet"], "an IPv4 network")
    port = plan["ssh_port"]
    if request.ssh_port is not None or not request.authorized_keys:
        check.equal("ssh_port", port, request.ssh_port)
    else:
        check.expect(_is_whole(port, 1, 65535), "ssh_port", port, "a port")
    if network is None or request.size == 1:
        check.expect(
            network is None and request.size == 1, "network", network, "one where, and only where, there are peers"
        )
    elif check.keys("network", network, _NETWORK_KEYS):
        check.equal("network.driver", network["driver"], VXLAN if multi else BRIDGE)
        check.equal("network.name", network["name"], f"cc-{id8}")
        check.equal("network.interface", network["interface"], INTERFACE)
        check.equal("network.link", network["link"], f"ccx{id8}" if multi else None)
        check.expect(_is_subnet(network["subnet"]), "network.subnet", network["subnet"], "an IPv4 network")
        for key, most in (("mtu", 65535), ("vni", 2**24 - 1), ("port", 65535)):
            good = _is_whole(network[key], 1, most) if multi else network[key] is None
            check.expect(good, f"network.{key}", network[key], f"a number up to {most}" if multi else "none")
        _check_tunnel(check, network, hosts, id8, multi and request.encrypted)


def _check_tunnel(
    check: _Checker, network: Mapping[str, Any], hosts: Mapping[str, Any], id8: str, encrypted: bool
) -> None:
    """Judge the tunnel, which is there for encrypted sessions on several hosts and for no others."""
    tunnel = network["tunnel"]
    addresses = [entry.get("tunnel_address") for entry in hosts.values() if isinstance(entry, Mapping)]
    if not encrypted:
        check.equal("network.tunnel", tunnel, None)
        check.expect(all(one is None for one in addresses), "hosts' tunnel_address", addresses, "nothing")
    elif check.keys("network.tunnel", tunnel, ("link", "mtu", "vxlan_port")):
        check.equal("network.tunnel.link", tunnel["link"], f"cct{id8}")
        wanted = network["mtu"] + VXLAN_OVERHEAD_IPV6 if _is_whole(network["mtu"], 1, 65535) else None
        check.equal("network.tunnel.mtu", tunnel["mtu"], wanted)
        port = tunnel["vxlan_port"]
        check.expect(_is_whole(port, 1, 65535), "network.tunnel.vxlan_port", port, "a number up to 65535")
        good = all(isinstance(one, str) and re.fullmatch("fe80::[0-9a-f]{1,4}", one) for one in addresses)
        good = good and len(set(addresses)) == len(hosts)
        check.expect(good, "hosts' tunnel_address", addresses, "a link-local address for each")


def _check_data(check: _Checker, place: str, entry: Mapping[str, Any], request: Request) -> None:
    """Judge what the plan says of one host's paths."""
    roots, data = entry["mount_roots"], entry["data"]
    mounts = {mount.source: mount for mount in request.mounts if mount.source is not None}
    good = isinstance(roots, list) and all(_is_word(root) and root.startswith("/") for root in roots)
    if not check.expect(good, f"{place}.mount_roots", roots, "a list of folders"):
        return
    for root in roots:
        check.expect(any(is_below(path, root) for path in mounts), f"{place}.mount_roots", root, "one that is needed")
    if not check.keys(f"{place}.data", data, mounts):
        return
    for source in mounts:
        where = f"{place}.data.{source}"
        check.expect(any(is_below(source, root) for root in roots), where, source, "a path below one of the roots")
        if check.keys(where, data[source], ("filesystem", "proof")):
            good = _is_word(data[source]["filesystem"])
            check.expect(good, f"{where}.filesystem", data[source]["filesystem"], "a type")


def _check_proofs(check: _Checker, hosts: Mapping[str, Any], request: Request) -> None:
    """Judge who proves that a folder is shared: nobody, or one who writes and all others read."""
    for mount in request.mounts:
        if mount.source is not None:
            proofs = [entry["data"][mount.source]["proof"] for entry in hosts.values()]
            shared = len(hosts) > 1 and mount.shared is not False
            some = shared and proofs.count(WRITES) == 1 and proofs.count(READS) == len(hosts) - 1
            good = some or all(proof is None for proof in proofs)
            check.expect(good, f"proof of {mount.source}", proofs, "one host that writes, the others that read")


def _check_replicas(check: _Checker, plan: Mapping[str, Any], request: Request) -> None:
    """Make the entries anew from request, hosts and network, and compare."""
    replicas, hosts = plan["replicas"], plan["hosts"]
    names = [name for name, role, index in request.replicas()]
    if not check.expect(
        isinstance(replicas, list) and [r.get("name") if isinstance(r, Mapping) else r for r in replicas] == names,
        "replicas",
        replicas,
        f"a list of {show(', '.join(names))}",
    ):
        return
    host_of = {replica["name"]: replica.get("host") for replica in replicas}
    for name, host in host_of.items():
        if not check.expect(isinstance(host, str) and host in hosts, f"host of {name}", host, "one of its hosts"):
            return
    ranks: dict[str, str] = {show(replica.get("node_rank")): replica["host"] for replica in reversed(replicas)}
    order = [ranks.get(str(rank), "") for rank in range(len(hosts))]
    good = len(ranks) == len(hosts) and set(order) == set(hosts) and order[0] == host_of[names[0]]
    if not check.expect(good, "node_rank", sorted(ranks), "one number a host, main1's host first,"):
        return
    try:
        devices, pinned = _devices_by_host(replicas, hosts), _pinned_in(request, replicas)
        network, ssh_port = plan["network"], plan["ssh_port"]
        entries = entries_of(request, plan["session"]["id"], host_of, order, network, devices, pinned, ssh_port)
    except ValueError as error:
        check.problems.append(str(error))
        return
    for replica, wanted in zip(replicas, entries):
        place = f"replica {wanted['name']}"
        if check.keys(place, replica, wanted):
            for key, value in wanted.items():
                check.equal(f"{place}.{key}", replica[key], value)
    for name, entry in hosts.items():
        check.equal(f"hosts.{name}.replicas", entry["replicas"], [n for n in names if host_of[n] == name])
    _check_images(check, plan["images"], images_of(entries))


def _check_images(check: _Checker, images: object, used: Mapping[str, Sequence[str]]) -> None:
    """Judge what is pinned: for each reference one digest or none, and an id on each host that runs it."""
    if not check.keys("images", images, used):
        return
    for reference, pinned in cast(Mapping[str, Any], images).items():
        place = f"images[{reference}]"
        if not check.keys(place, pinned, ("digest", "ids")) or not check.keys(
            f"{place}.ids", pinned["ids"], used[reference]
        ):
            continue
        digest = pinned["digest"]
        good = digest is None or (_is_word(digest) and digest.startswith(f"{repository_of(reference)}@"))
        check.expect(good, f"{place}.digest", digest, "a digest of its repository, or nothing")
        for host, image in pinned["ids"].items():
            check.expect(
                image is None or is_image_id(image), f"{place}.ids.{host}", image, "the id of an image, or nothing"
            )


def _devices_by_host(replicas: Sequence[Mapping[str, Any]], hosts: Iterable[str]) -> dict[str, Devices]:
    """Return what the replicas of a plan have by name on each host. Raises ValueError for what is malformed."""
    found: dict[str, dict[str, list[str]]] = {host: {} for host in hosts}
    for replica in replicas:
        devices = replica.get("devices")
        if not isinstance(devices, Mapping) or not all(isinstance(names, list) for names in devices.values()):
            raise ValueError(f"The devices of {replica['name']} are {show(devices)}, where names are expected.")
        for kind, names in devices.items():
            found[replica["host"]].setdefault(kind, []).extend(names)
    result = {}
    for host, devices in found.items():
        pinned = devices.pop(PINNED, [])
        if len(set(map(show, pinned))) < len(pinned) or not all(
            isinstance(cpu, str) and re.fullmatch(r"[0-9]{1,5}", cpu) for cpu in pinned
        ):
            raise ValueError(f"The pinned CPUs on {host} are {show(pinned)}, where different numbers are expected.")
        try:
            result[host] = parse_devices(devices)
        except ValueError as error:
            raise ValueError(f"The devices of the replicas on {host} are malformed: {error}") from None
    return result


def _pinned_in(request: Request, replicas: Sequence[Mapping[str, Any]]) -> dict[str, Pinned]:
    """Return the CPUs that a plan gives to replicas for themselves. Raises ValueError for what is malformed.

    How many they are at least follows from the request; whole cores may have more.
    """
    pinned = {}
    for (name, role, _index), replica in zip(request.replicas(), replicas):
        if not role.resources.pin_cpus:
            continue
        cpus, nodes = replica["devices"].get(PINNED, []), replica.get("memory_nodes")
        least = role.resources.cpus // 1000
        if len(cpus) < least:
            raise ValueError(f"There are {len(cpus)} pinned CPUs of {name} where at least {least} are expected.")
        if not isinstance(nodes, list) or not all(_is_whole(node, 0, 65535) for node in nodes):
            raise ValueError(f"The memory nodes of {name} are {show(nodes)}, where numbers are expected.")
        pinned[name] = Pinned(tuple(cpus), tuple(nodes))
    return pinned


def _is_word(value: object) -> bool:
    return isinstance(value, str) and bool(value) and is_plain(value)


def _is_whole(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_subnet(value: object) -> bool:
    if not isinstance(value, str):
        return False
    match = re.fullmatch(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})/(\d{1,2})", value, re.ASCII)
    return match is not None and all(int(byte) < 256 for byte in match.groups()[:4]) and int(match.group(5)) <= 32

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The plan of a session that changes while it runs: it grows, shrinks, or some of its replicas go to other hosts.

Host, ranks, address and devices of a replica that stays do not change at all, nor do the networks. So its container is
not created again, and a peer learns of a change by one forwarding entry and one neighbour entry for each replica that
came or went. New replicas have the highest ranks, and the highest go first. A replica that is moved keeps its name, its
rank and its address.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from ..model.claims import Claim
from ..model.facts import HostFacts
from ..model.fields import MULTI_NODE, SINGLE_NODE
from ..model.plan import PinnedImage, Plan, PlannedHost, Replica, read_plan
from ..model.record import Record
from ..model.request import Request, counts_of, with_counts
from ..values.cpus import Pinned
from ..values.deferred import dataclass
from ..values.errors import InvalidInput
from ..values.resources import PINNED, Devices
from .addressing import NOT_FOR_REPLICAS, choose_ssh_port
from .build import Layout, PlanInputs, entries_of, images_of, pin, planned_hosts
from .data import some_of
from .ledger import CHANGE
from .obstacles import obstacles, render_obstacles
from .placement import Host, Placement, Shortfall, limited, place
from .site import Settings


@dataclass(frozen=True)
class Target:
    """The state that a running session is to change to.

    names: its replicas in rank order. homeless: the replicas that need a host, in rank order: new ones, and those that
    have lost their host. gone: the replicas that are removed.
    """

    names: tuple[str, ...]
    homeless: tuple[str, ...]
    gone: tuple[str, ...]


def target_of(plan: Plan, request: Request, evicted: Collection[str]) -> Target:
    """Return what becomes of the replicas of a plan if *request* changes their number.

    evicted: replicas of the plan that have to find another host. Raises InvalidInput if the replicas to remove are not
    those with the highest ranks, as the ranks of running programs cannot change.
    """
    wanted = {name for name, _role, _index in request.replicas()}
    old = [replica.name for replica in plan.replicas]
    stay = [name for name in old if name in wanted]
    if stay != old[: len(stay)]:
        first = next(name for name in old if name not in wanted)
        behind = next(name for name in stay if old.index(name) > old.index(first))
        raise InvalidInput.single(
            "session_roles",
            request.name,
            f"{first} would go and {behind} would stay, which has a higher rank. A session that runs gives up the "
            "replicas with the highest ranks first. Shrink the role of those as well, or launch with "
            "session_recreate=true.",
        )
    new = [name for name, _role, _index in request.replicas() if name not in old]
    homeless = [name for name in stay if name in evicted]
    return Target((*stay, *new), (*homeless, *new), tuple(old[len(stay) :]))


def refuse_growth(plan: Plan, size: int) -> None:
    """Raise InvalidInput if the networks of a running session do not have addresses for so many replicas."""
    if size <= len(plan.replicas):
        return
    if plan.network is None:
        raise InvalidInput.single(
            "session_size",
            size,
            "The session was launched for one replica, without a network of its own. With session_max_size at its "
            "launch it can grow; launch with session_recreate=true to create it again.",
        )
    most = _addresses_in(plan.network.subnet)
    if size > most:
        raise InvalidInput.single(
            "session_size",
            size,
            f"The session's network {plan.network.subnet} has addresses for {most} replicas. session_max_size at its "
            "launch keeps more; launch with session_recreate=true to create it again.",
        )


def _addresses_in(subnet: str) -> int:
    return int(2 ** (32 - int(subnet.partition("/")[2]))) - NOT_FOR_REPLICAS


def find_places(
    plan: Plan,
    request: Request,
    target: Target,
    hosts: Sequence[Host],
    hosts_facts: Mapping[str, HostFacts],
    topology_keys: Sequence[str] = (),
    known_hosts: Iterable[str] | None = None,
) -> dict[str, str] | Shortfall:
    """Return the host of each replica that needs one, as near to the others as possible: all of them, or a Shortfall.

    hosts: the hosts that may be used, with what is free beside everything that is held, by this session too. The
    session's own hosts are tried first, then those of the same rack, of the same zone, then all. Raises InvalidInput.
    """
    role_of = {name: role.name for name, role, _index in request.replicas()}
    counts = dict(Counter(role_of[name] for name in target.homeless))
    wanted = replace(with_counts(request, counts), max_replicas_per_host=None, mode=MULTI_NODE)
    slots, blocked = _slots(plan, request, target, [host.name for host in hosts], hosts_facts)
    candidates = [limited(host, slots[host.name]) for host in hosts if host.name not in blocked]
    found = _place_near(wanted, _circles(candidates, plan.hosts, topology_keys), topology_keys, known_hosts)
    if found is None:
        why = " ".join([f"No host can take {some_of(target.homeless)}.", *render_obstacles(blocked)])
        raise InvalidInput.single("session_size", len(target.names), why)
    if isinstance(found, Shortfall):
        return found
    given = iter(found.assignments)
    places = {role.name: [next(given)[1] for _number in range(role.replicas)] for role in wanted.roles}
    return {name: places[role_of[name]].pop(0) for name in target.homeless}


def _place_near(
    request: Request, circles: Sequence[Sequence[Host]], topology_keys: Sequence[str], known_hosts: Iterable[str] | None
) -> Placement | Shortfall | None:
    """Place a request in the first of *circles* that has room, or return why it fits in none; None without circles."""
    found: Placement | Shortfall | None = None
    for number, circle in enumerate(circles, 1):
        try:
            found = place(request, circle, topology_keys, known_hosts)
        except InvalidInput:
            if number == len(circles):
                raise
            continue  # farther hosts may be large enough where no near one ever is
        if isinstance(found, Placement):
            break
    return found


def _slots(
    plan: Plan,
    request: Request,
    target: Target,
    hosts: Collection[str],
    hosts_facts: Mapping[str, HostFacts],
    looked: bool = True,
) -> tuple[dict[str, int], dict[str, str]]:
    """Return how many more replicas of a session each host may take, and for hosts that take none the reason.

    Only the request and the session's egress network are considered, not what is free there. looked: of `obstacles`.
    """
    blocked = obstacles(plan, request, target.homeless, hosts, hosts_facts, looked)
    most = _addresses_in(plan.egress.subnet)
    if request.max_replicas_per_host is not None:
        most = min(most, request.max_replicas_per_host)
    stay = set(target.names) - set(target.homeless)
    there = {host: sum(replica.name in stay for replica in plan.on(host)) for host in plan.hosts}
    return {host: 0 if host in blocked else max(0, most - there.get(host, 0)) for host in hosts}, blocked


def _circles(hosts: Sequence[Host], here: Collection[str], keys: Sequence[str]) -> list[list[Host]]:
    """Return ever larger sets of hosts around those of a session: its own, those of its racks, of its zones, all."""
    labels = {host.name: dict(host.labels) for host in hosts}
    used = [key for key in keys if any(key in label for label in labels.values())]
    circles = [[host for host in hosts if host.name in here]]
    for depth in range(len(used), 0, -1):
        group_of = {name: _group(label, used[:depth]) for name, label in labels.items()}
        near = {group_of[name] for name in here if name in labels}
        circles.append([host for host in hosts if group_of[host.name] in near])
    circles.append(list(hosts))
    return [circle for place_, circle in enumerate(circles) if circle and circle not in circles[:place_]]


def _group(labels: Mapping[str, str], keys: Iterable[str]) -> tuple[str, ...]:
    return tuple(labels.get(key, "") for key in keys)


def growth_of(record: Record, hosts_facts: Mapping[str, HostFacts]) -> tuple[Request, dict[str, int], dict[str, str]]:
    """Return a request for what a running session that waits for capacity is to have beyond what it has; and `_slots`.

    The queue places this request; the hosts of the new replicas are chosen when there is capacity. Raises InvalidInput,
    InvalidPlan.
    """
    plan, before = read_plan(record.plan), counts_of(Request.from_dict(record.request))
    wanted = Request.from_dict(record.growth.request if record.growth is not None else record.request)
    counts = {role: max(0, number - before.get(role, 0)) for role, number in counts_of(wanted).items()}
    slots, blocked = _slots(plan, wanted, target_of(plan, wanted, ()), hosts_facts, hosts_facts, looked=False)
    return replace(with_counts(wanted, counts), mode=MULTI_NODE, max_replicas_per_host=None), slots, blocked


def changed_plan(
    plan: Plan,
    request: Request,
    target: Target,
    homes: Mapping[str, str],
    inputs: PlanInputs,
    fenced: Collection[str] = (),
) -> Plan:
    """Return the plan in which the replicas of *target* that need a host have the host that *homes* gives them.

    inputs: with facts at least of the hosts of *homes*. fenced: lost hosts of the plan whose replicas move to others;
    whatever the session would accept from them is rejected from now on.
    """
    old = {replica.name: replica for replica in plan.replicas}
    stay = {name: old[name] for name in target.names if name not in homes}
    layout = _layout(target, homes, stay)
    ssh_port = plan.ssh_port
    if "main1" in homes:
        ssh_port = _ssh_port(plan, request, inputs.facts[homes["main1"]], inputs.settings)
    pinned = pin(request, homes, inputs.facts, inputs.free_devices)
    for name, entry in stay.items():
        if PINNED in entry.devices:
            pinned[name] = Pinned(entry.devices[PINNED], entry.memory_nodes)
    devices = _devices(request, layout.host_of, stay, inputs.free_devices)
    entries = entries_of(request, plan.session.id, layout, plan.network, devices, pinned, ssh_port)
    hosts = _hosts(plan, request, layout.node_rank, entries, inputs)
    used = images_of(entries)
    images = {
        reference: PinnedImage(pinned_image.digest, {host: pinned_image.ids.get(host) for host in used[reference]})
        for reference, pinned_image in plan.images.items()
        if reference in used
    }
    mode = MULTI_NODE if len(hosts) > 1 else SINGLE_NODE
    session = replace(plan.session, size=len(entries), mode=mode, requested_mode=request.mode)
    still_fenced = {*plan.fenced, *fenced} - {entry.underlay_address for entry in hosts.values()}
    return replace(
        plan,
        session=session,
        request=request.to_dict(),
        ssh_port=ssh_port,
        hosts=hosts,
        images=images,
        replicas=entries,
        fenced=tuple(sorted(address for address in still_fenced if address)),
    )


def _layout(target: Target, homes: Mapping[str, str], stay: Mapping[str, Replica]) -> Layout:
    """Return the places after a change: those that *stay* keep their numbers, and others get the lowest free ones."""
    host_of = {name: homes[name] if name in homes else stay[name].host for name in target.names}
    node_rank = {replica.host: replica.node_rank for replica in stay.values()}
    local_rank = {name: replica.local_rank for name, replica in stay.items()}
    for name in target.homeless:
        host = homes[name]
        if host not in node_rank:
            node_rank[host] = _lowest_free(node_rank.values())
        local_rank[name] = _lowest_free(local_rank[other] for other in local_rank if host_of[other] == host)
    return Layout(host_of, node_rank, local_rank)


def _hosts(
    plan: Plan, request: Request, node_rank: Mapping[str, int], entries: Sequence[Replica], inputs: PlanInputs
) -> dict[str, PlannedHost]:
    """Return the parts of a changed plan for its hosts; one that had a part keeps it, except for replicas and data."""
    # Replicas that stay come first, so that one of them writes the proof that folders are shared.
    names = [host for host in plan.hosts if host in node_rank] + [host for host in node_rank if host not in plan.hosts]
    known = [host for host in names if host in inputs.facts]
    made = planned_hosts(request, known, node_rank, plan.network, entries, inputs)
    hosts = {}
    for host in names:
        before = plan.hosts.get(host)
        if before is None:
            hosts[host] = made[host]
        else:
            replicas = tuple(entry.name for entry in entries if entry.host == host)
            hosts[host] = replace(before, replicas=replicas, data=made[host].data if host in made else before.data)
    return hosts


def _devices(
    request: Request, host_of: Mapping[str, str], stay: Mapping[str, Replica], free_devices: Mapping[str, Devices]
) -> dict[str, Devices]:
    """Return the devices of each host, in the order in which its replicas by their ranks have them or take them."""
    roles = {name: role for name, role, _index in request.replicas()}
    free = {host: {kind: list(given) for kind, given in devices} for host, devices in free_devices.items()}
    found: dict[str, dict[str, list[str]]] = {}
    for name, host in host_of.items():
        for kind, count in roles[name].resources.accelerators:
            given = found.setdefault(host, {}).setdefault(kind, [])
            if name in stay:
                given += stay[name].devices[kind]
            else:
                left = free.get(host, {}).get(kind, [])
                given += left[:count]
                del left[:count]
    return {host: tuple((kind, tuple(given)) for kind, given in devices.items()) for host, devices in found.items()}


def _ssh_port(plan: Plan, request: Request, facts: HostFacts, settings: Settings) -> int | None:
    """Return the port of main1's new host at which the owner logs in: the present one, if it is free there."""
    if plan.ssh_port is None or request.ssh_port is not None:
        return plan.ssh_port
    taken = {port.port for port in facts.ports} | {port.host_port for port in request.ports}
    return plan.ssh_port if plan.ssh_port not in taken else choose_ssh_port(settings.ssh_ports, taken, plan.session.id)


def _lowest_free(taken: Iterable[int]) -> int:
    used = set(taken)
    return next(number for number in range(len(used) + 1) if number not in used)


def claim_beyond(claim: Claim, held: Claim | None, change_id: str) -> Claim | None:
    """Return what a host has to hold for a session beyond what it holds already; None if that is nothing.

    claim: what the changed plan claims there. change_id: names the change; only one change at a time gets its claim.
    """
    mine = held or Claim(claim.session_id, claim.session_name)
    had = [name for _kind, names in mine.devices for name in names]
    devices = tuple(
        (kind, more) for kind, names in claim.devices if (more := tuple(name for name in names if name not in had))
    )
    beyond = Claim(
        session_id=change_id,
        session_name=f"{claim.session_name}{CHANGE}",
        replicas=max(0, claim.replicas - mine.replicas),
        cpus=max(0, claim.cpus - mine.cpus),
        memory=max(0, claim.memory - mine.memory),
        devices=devices,
        ports=tuple(port for port in claim.ports if port not in mine.ports),
        vni=claim.vni if mine.vni is None else None,
        subnets=tuple(subnet for subnet in claim.subnets if subnet not in mine.subnets),
        overlay_port=claim.overlay_port if mine.overlay_port is None else None,
    )
    return beyond if beyond != Claim(change_id, beyond.session_name) else None

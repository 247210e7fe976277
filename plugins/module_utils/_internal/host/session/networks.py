# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The engine's networks of a session on this host, and the replicas on each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from threading import Lock

from ...adapters import first_address, link
from ...adapters.engine import API_ENDPOINT_IFNAME, RUNTIME, Attachment, NetworkChoice
from ...adapters.engine_objects import Container, Endpoint
from ...core.model.decode import encode
from ...core.model.plan import Replica
from ...core.model.record import started
from ...core.rules import isolation
from .. import labels
from ..steps import Stage, Step
from .context import Context

EGRESS_INTERFACE = "eth0"
OPTION_BRIDGE = "com.docker.network.bridge.name"


def network_steps(context: Context, containers: Mapping[str, Container], link_is_missing: bool) -> Stage:
    """Return the steps that create or replace networks of the session."""
    found = {network.name for network in context.engine.networks(context.labels)}
    rebooted = link_is_missing and not any(entry.runs for entry in containers.values())
    steps = []
    for name, choice in _network_choices(context).items():
        create = partial(_create_network, context, name, choice)
        if name not in found:
            undo = partial(context.engine.remove_network, name)
            steps.append(Step("create", "network", name, create, undo, after=encode(choice)))
        elif rebooted and choice.driver == "macvlan":
            # The engine lists the network, but its driver gave it up at start, when the link did not exist yet.
            renew = partial(_renew_network, context, name, create, list(containers.values()))
            steps.append(Step("renew", "network", name, renew, before="without its link", after=encode(choice)))
    return steps


def _create_network(context: Context, name: str, choice: NetworkChoice) -> None:
    labelled = dict(context.labels)
    if name == context.egress.name:
        labelled |= labels.record_labels(context.state, started(context.record))
    context.engine.create_network(name, choice, labelled)


def _renew_network(context: Context, name: str, create: Callable[[], None], containers: list[Container]) -> None:
    """Replace a network to which stopped containers refer."""
    for entry in containers:
        if name in entry.endpoints:
            context.engine.disconnect_container(entry.id, name)
    context.engine.remove_network(name)
    create()


def _network_choices(context: Context) -> dict[str, NetworkChoice]:
    """Return the networks of the session by name."""
    outward = {OPTION_BRIDGE: isolation.egress_bridge(context.session.id)}
    choices = {context.egress.name: NetworkChoice(context.egress.subnet, "bridge", outward)}
    if context.network is not None:
        if context.network.driver == "vxlan":
            driver, options = "macvlan", {"parent": str(context.network.link), "macvlan_mode": "bridge"}
        else:
            # Without an address on the bridge, the host and everything that is routed through it have no access.
            bridge = isolation.inner_bridge(context.session.id)
            driver, options = "bridge", {OPTION_BRIDGE: bridge, "com.docker.network.bridge.inhibit_ipv4": "true"}
        choices[context.network.name] = NetworkChoice(context.network.subnet, driver, options, internal=True)
    return choices


def connect_steps(context: Context, containers: Mapping[str, Container], link_is_missing: bool) -> Stage:
    """Attach existing containers to the session's networks if they are not attached, or not as planned.

    If this engine has the runtime entry, attached running replicas whose session address is not the first one get the
    order that the entry sets at a start. They were started without it, or their network was changed since.
    """
    live = {network.name: network.id for network in context.engine.networks(context.labels)}
    steps = []
    for replica in context.replicas:
        entry = containers.get(replica.name)
        if entry is None:
            continue
        detached = _detached(context, entry, replica, live, link_is_missing)
        order = None
        if not detached and entry.runs and (pid := _out_of_order(context, entry, replica)):
            detached = _without_interface(context, entry, replica, pid)
            order = None if detached else partial(put_in_order, context, entry.id, replica)
        one_by_one = Lock()
        for name in detached:
            connect = partial(_connect, context, entry, replica, name, one_by_one)
            what = f"{replica.container} to network {name}"
            steps.append(Step("connect", "container", what, connect, before="detached", after="attached"))
        if order is not None:
            before, after = "the session's address is not first", "it is first"
            what = replica.container
            steps.append(Step("order", "interfaces of container", what, order, before=before, after=after))
    return steps


def _detached(
    context: Context, entry: Container, replica: Replica, live: Mapping[str, str], link_is_missing: bool
) -> list[str]:
    """Return the networks of the session to which a container is not attached as planned. live: the existing ones."""
    attached = entry.endpoints
    return [
        name
        for name in _network_choices(context)
        if (link_is_missing and name != context.egress.name)
        or name not in live
        or name not in attached
        or attached[name].network_id != live[name]
        or _has_another_address(context, replica, name, attached[name])
    ]


def _has_another_address(context: Context, replica: Replica, network: str, endpoint: Endpoint) -> bool:
    """Return whether the engine has another address for a container in the session's network than planned."""
    is_inward = context.network is not None and network == context.network.name
    return is_inward and endpoint.address not in ("", str(replica.address))


def _out_of_order(context: Context, entry: Container, replica: Replica) -> int:
    """Return the first process of a replica that has lost the order of the engine's entry, or its MAC in an overlay.

    0 if it has both.
    """
    if not has_entry(context):
        return 0
    pid, address = context.engine.pid_of(entry.id), str(replica.address)
    try:
        has_it = not pid or (
            first_address.is_first(pid, address)
            and first_address.is_translated(pid, address)
            and has_planned_mac(context, entry.endpoints, replica, pid)
        )
    except OSError:
        return 0  # it is just ending
    return 0 if has_it else pid


def has_planned_mac(context: Context, endpoints: Mapping[str, Endpoint], replica: Replica, pid: int) -> bool:
    """Return whether a replica, if it runs, has the MAC by which the other hosts of an overlay know it.

    Engines from 28.0 on choose one by chance for a network that was connected to an existing container, whatever was
    requested, and again at each later start. The MAC that `put_in_order` sets is unknown to them.
    """
    network = context.network
    if not pid or network is None or network.driver != "vxlan":
        return True
    if network.name not in endpoints or endpoints[network.name].mac == replica.mac:
        return True
    found = link.addresses_of(pid).get(str(replica.address))
    return found is not None and found.mac == replica.mac


def _without_interface(context: Context, entry: Container, replica: Replica, pid: int) -> list[str]:
    """Return the networks to which the engine has attached a replica, but for which it has no interface."""
    found = link.addresses_of(pid)
    wanted = {name: entry.endpoints[name].address for name in _network_choices(context)}
    if context.network is not None:
        wanted[context.network.name] = str(replica.address)
    return [name for name, address in wanted.items() if address not in found]


def has_entry(context: Context) -> bool:
    """Return whether replicas of the session on this host start with the engine's runtime entry."""
    return context.network is not None and context.once(
        "engine has runtime", lambda: RUNTIME in context.engine.info().runtimes
    )


def put_in_order(context: Context, container: str, replica: Replica) -> None:
    """Apply the order of the engine's entry to a running replica. Its processes and connections are not changed.

    Nothing is done if it does not run or is not on both networks yet. Raises LinkError and OSError.
    """
    found = context.engine.require(container)
    if context.network is None or not found.runs:
        return
    pid = found.pid
    inward, outward = found.endpoints.get(context.network.name), found.endpoints.get(context.egress.name)
    if not inward or not outward or {str(replica.address), outward.address} - link.addresses_of(pid).keys():
        return
    # A bridge learns MACs by itself. Those of an overlay are in the entries of all hosts.
    mac = str(replica.mac) if context.network.driver == "vxlan" else inward.mac
    link.ensure_interface(pid, str(replica.address), context.network.interface, mac)
    link.ensure_interface(pid, outward.address, EGRESS_INTERFACE, outward.mac)
    first_address.put_first(pid, outward.gateway)


def _connect(context: Context, entry: Container, replica: Replica, network: str, one_by_one: Lock) -> None:
    """Give a container a new endpoint in *network*. The processes of a running one are not affected."""
    with one_by_one:
        found = context.engine.require(entry.id)
        if network in found.endpoints:
            context.engine.disconnect_container(entry.id, network)
        pid, interface = found.pid, None
        # The engine does not find an interface that was renamed here before, and leaves it behind.
        if context.network is not None and network == context.network.name and found.runs:
            interface = context.network.interface
            link.delete_interface(pid, str(replica.address))
        elif found.runs:
            for address, found_on in link.addresses_of(pid).items():
                if found_on.name == EGRESS_INTERFACE:
                    link.delete_interface(pid, address)
        context.engine.connect_container(entry.id, network, attachments(context, replica)[network])
        if interface is not None:
            # Engines continue to count, so the new interface is eth2 although eth1 was requested everywhere, and
            # engine 28 chooses its MAC itself, whatever was requested.
            link.ensure_interface(pid, str(replica.address), interface, str(replica.mac))
        if has_entry(context):
            put_in_order(context, entry.id, replica)


def name_interfaces(context: Context, container: str, endpoints: Mapping[str, Endpoint], replica: Replica) -> None:
    """Set the interface names of a replica that does not run to those of the plan.

    Engines from 28.0 on attach a container to its networks in random order. If somebody connected one without a name
    for the interface, it gets the first free name, and the start fails if another network asks for that name.
    """
    if context.engine.api_version < API_ENDPOINT_IFNAME:
        return
    for network, attachment in attachments(context, replica).items():
        if network in endpoints and endpoints[network].interface != attachment.interface:
            context.engine.disconnect_container(container, network)
            context.engine.connect_container(container, network, attachment)


def attachments(context: Context, replica: Replica) -> dict[str, Attachment]:
    """Return how a replica is attached to the networks of its session, by name."""
    found = {context.egress.name: Attachment(EGRESS_INTERFACE)}
    if context.network is not None:
        found[context.network.name] = Attachment(context.network.interface, replica.address, replica.mac)
    return found

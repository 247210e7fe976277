# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The networks that the engine has of a session on this host, and which replica is on which."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils.adapters import engine as docker_engine
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters import first_address, link
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.engine import RUNTIME
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.plan import Replica
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.record import started
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules import isolation
from ansible_collections.cluster_compute.session.plugins.module_utils.host import labels
from ansible_collections.cluster_compute.session.plugins.module_utils.host.session.context import Context
from ansible_collections.cluster_compute.session.plugins.module_utils.host.steps import Stage, Step

EGRESS_INTERFACE = "eth0"
OPTION_BRIDGE = "com.docker.network.bridge.name"


def network_steps(context: Context, containers: dict[str, dict[str, Any]], link_is_missing: bool) -> Stage:
    """Return which of the session's networks are to be made, or made anew."""
    found = {network["Name"] for network in context.engine.networks(context.labels)}
    rebooted = link_is_missing and not any(entry["State"] == "running" for entry in containers.values())
    steps = []
    for name, choice in _network_choices(context).items():
        create = partial(_create_network, context, name, choice)
        if name not in found:
            undo = partial(context.engine.remove_network, name)
            steps.append(Step("create", "network", name, create, undo, after=choice))
        elif rebooted and choice["driver"] == "macvlan":
            # The engine lists the network, but its driver gave it up at start, when the link was not there yet.
            renew = partial(_renew_network, context, name, create, list(containers.values()))
            steps.append(Step("renew", "network", name, renew, before="without its link", after=choice))
    return steps


def _create_network(context: Context, name: str, choice: dict[str, Any]) -> None:
    labelled = dict(context.labels)
    if name == context.egress.name:
        labelled[docker_engine.LABEL_RECORD] = labels.pack(started(context.record))
    context.engine.create_network(name, labels=labelled, **choice)


def _renew_network(context: Context, name: str, create: Callable[[], None], containers: list[dict[str, Any]]) -> None:
    """Make a network anew that stopped containers refer to."""
    for entry in containers:
        if name in entry["NetworkSettings"]["Networks"]:
            context.engine.disconnect_container(entry["Id"], name)
    context.engine.remove_network(name)
    create()


def _network_choices(context: Context) -> dict[str, dict[str, Any]]:
    """Return the networks of the session: name to subnet, driver, options and internal."""
    choices: dict[str, dict[str, Any]] = {
        context.egress.name: {
            "subnet": context.egress.subnet,
            "driver": "bridge",
            "options": {OPTION_BRIDGE: isolation.egress_bridge(context.session.id)},
            "internal": False,
        }
    }
    if context.network is not None:
        if context.network.driver == "vxlan":
            driver, options = "macvlan", {"parent": context.network.link, "macvlan_mode": "bridge"}
        else:
            # Without an address on the bridge neither the host nor anything routed through it gets in.
            bridge = isolation.inner_bridge(context.session.id)
            driver, options = "bridge", {OPTION_BRIDGE: bridge, "com.docker.network.bridge.inhibit_ipv4": "true"}
        choices[context.network.name] = {
            "subnet": context.network.subnet,
            "driver": driver,
            "options": options,
            "internal": True,
        }
    return choices


def connect_steps(context: Context, containers: dict[str, dict[str, Any]], link_is_missing: bool) -> Stage:
    """Attach existing containers to the networks of the session where they are not, or not to the live one."""
    live = {network["Name"]: network["Id"] for network in context.engine.networks(context.labels)}
    steps = []
    for replica in context.replicas:
        entry = containers.get(replica.name)
        if entry is None:
            continue
        attached = {name: settings["NetworkID"] for name, settings in entry["NetworkSettings"]["Networks"].items()}
        for name in _network_choices(context):
            is_missing = link_is_missing and name != context.egress.name
            if is_missing or name not in live or attached.get(name) != live[name]:
                connect = partial(_connect, context, entry, replica, name)
                what = f"{replica.container} to network {name}"
                steps.append(Step("connect", "container", what, connect, before="detached", after="attached"))
    return steps


def _connect(context: Context, entry: dict[str, Any], replica: Replica, network: str) -> None:
    """Give a container a new endpoint in *network*; the processes of a running one are not touched."""
    found = context.engine.inspect(entry["Id"]) or {}
    if network in found["NetworkSettings"]["Networks"]:
        context.engine.disconnect_container(entry["Id"], network)
    pid, interface = found["State"]["Pid"], None
    if context.network is not None and network == context.network.name and found["State"]["Running"]:
        interface = context.network.interface
        # The engine does not find an interface that was given its name here before, and leaves it behind.
        link.delete_interface(pid, str(replica.address))
    context.engine.connect_container(entry["Id"], network, endpoints(context, replica)[network])
    if interface is not None:
        # Engines count on, so the new interface is eth2 although everything was told eth1, and engine 28 gives it
        # a MAC of its own choice whatever it is asked.
        link.ensure_interface(pid, str(replica.address), interface, str(replica.mac))
    if context.network is not None and found["State"]["Running"] and found["HostConfig"].get("Runtime") == RUNTIME:
        networks = (context.engine.inspect(entry["Id"]) or found)["NetworkSettings"]["Networks"]
        outward = networks.get(context.egress.name)
        if outward:
            link.ensure_interface(pid, outward["IPAddress"], EGRESS_INTERFACE, outward["MacAddress"])
            first_address.put_first(pid, outward["Gateway"])


def endpoints(context: Context, replica: Replica) -> dict[str, dict[str, Any]]:
    """Return what the engine is told of a replica's interfaces, by network."""
    endpoints = {context.egress.name: context.engine.endpoint(EGRESS_INTERFACE)}
    if context.network is not None:
        endpoints[context.network.name] = context.engine.endpoint(
            context.network.interface, replica.address, replica.mac
        )
    return endpoints

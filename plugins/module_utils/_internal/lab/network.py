# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The lab's network: one bridge in the root namespace, and a namespace with a link to it for each host."""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
from typing import Any

from .names import LINK_PREFIX, HostNames, Lab, hardware_address
from .system import LabError, locked, run


def _json(argv: list[str]) -> list[Any]:
    done = run(argv, check=False)
    if done.returncode != 0 or not done.stdout.strip():
        return []
    found = json.loads(done.stdout)
    return [entry for entry in found if entry]


def gateway(subnet: str) -> str:
    """Return the bridge's own address, the first of the subnet, with its prefix length."""
    try:
        network = ipaddress.ip_network(subnet)
    except ValueError as error:
        raise LabError(f"lab_subnet is '{subnet}'; it must be a network such as 10.212.0.0/24.") from error
    if network.version != 4 or network.num_addresses < 8:
        raise LabError(f"lab_subnet is '{subnet}'; it must be an IPv4 network of at least eight addresses.")
    return f"{network.network_address + 1}/{network.prefixlen}"


def check_address(address: str, subnet: str) -> None:
    """Raise LabError unless a host can have this address in the lab's subnet."""
    network = ipaddress.ip_network(subnet)
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError as error:
        raise LabError(
            f"ansible_host is '{address}'; for a lab host it must be an IPv4 address in {subnet}."
        ) from error
    if parsed not in network or parsed in (
        network.network_address,
        network.network_address + 1,
        network.network_address + network.num_addresses - 1,
    ):
        raise LabError(
            f"ansible_host is '{address}'; for a lab host it must be a host address in {subnet} other than the first, "
            "which is the bridge's."
        )


def _rule(lab: Lab) -> list[str]:
    return [
        *("FORWARD", "-i", lab.bridge, "-o", lab.bridge, "-j", "ACCEPT"),
        *("-m", "comment", "--comment", f"cluster-compute-lab {lab.name}"),
    ]


def _has_rule(lab: Lab) -> bool:
    if shutil.which("iptables") is None:
        return False
    return run(["iptables", "-w", "-C", *_rule(lab)], check=False).returncode == 0


def missing_network(lab: Lab, subnet: str) -> list[str]:
    """Return the missing parts of the lab's network, as text. Raises LabError if the subnet is taken."""
    address = gateway(subnet)
    if shutil.which("ip") is None:
        return ["bridge", "address", "rule"]
    network = ipaddress.ip_network(subnet)
    for route in _json(["ip", "-json", "-4", "route", "show", "table", "main"]):
        destination = str(route.get("dst", "default"))
        if destination == "default" or route.get("dev") == lab.bridge:
            continue
        if ipaddress.ip_network(destination, strict=False).overlaps(network):
            raise LabError(
                f"lab_subnet is {subnet}, but this machine already reaches {destination} through {route.get('dev')}; "
                "give the lab a subnet of its own."
            )
    missing = []
    links = _json(["ip", "-json", "address", "show", "dev", lab.bridge])
    if not links:
        missing.append("bridge")
    present = {f"{info['local']}/{info['prefixlen']}" for link in links for info in link.get("addr_info", [])}
    if address not in present or "UP" not in {flag for link in links for flag in link.get("flags", [])}:
        missing.append("address")
    if not _has_rule(lab):
        missing.append("rule")
    return missing


def missing_parts(lab: Lab) -> list[str]:
    """Return which of 'bridge' and 'rule' are missing on the machine, whatever the subnet."""
    missing = [] if os.path.isdir(f"/sys/class/net/{lab.bridge}") else ["bridge"]
    return missing if _has_rule(lab) else [*missing, "rule"]


def create_network(lab: Lab, subnet: str, missing: list[str]) -> None:
    """Create what missing_network() found missing."""
    if "bridge" in missing:
        run(
            ["ip", "link", "add", "name", lab.bridge, "address", hardware_address(lab.bridge), "type", "bridge"],
        )
    if "address" in missing:
        run(["ip", "address", "replace", gateway(subnet), "dev", lab.bridge])
        run(["ip", "link", "set", "dev", lab.bridge, "alias", f"cluster-compute-lab {lab.name}", "up"])
    if "rule" in missing:
        # With br_netfilter, bridged frames pass this chain, and an engine on this machine makes it drop them.
        run(["iptables", "-w", "-I", *_rule(lab)])


def remove_network(lab: Lab) -> list[str]:
    """Remove all namespaces, links and firewall rules of the lab. Return their names."""
    removed = []
    for name in namespaces(lab):
        remove_namespace(name)
        removed.append(name)
    for link in _json(["ip", "-json", "link", "show", "master", lab.bridge]):
        name = str(link["ifname"])
        if name.startswith(LINK_PREFIX):
            run(["ip", "link", "delete", "dev", name], check=False)
            removed.append(name)
    if os.path.isdir(f"/sys/class/net/{lab.bridge}"):
        run(["ip", "link", "delete", "dev", lab.bridge])
        removed.append(lab.bridge)
    while _has_rule(lab):
        run(["iptables", "-w", "-D", *_rule(lab)])
        removed.append("firewall rule")
    return removed


def namespaces(lab: Lab) -> list[str]:
    """Return the names of the lab's network namespaces."""
    try:
        return sorted(name for name in os.listdir("/run/netns") if name.startswith(lab.namespace_prefix))
    except FileNotFoundError:
        return []


def remove_namespace(name: str) -> None:
    """Remove a network namespace, or a file that a killed 'ip netns add' left."""
    if run(["ip", "netns", "delete", name], check=False).returncode != 0:
        path = f"/run/netns/{name}"
        if os.path.exists(path):
            os.unlink(path)


def attach_host(host: HostNames, address: str, subnet: str, mtu: int) -> None:
    """Give a host that does not run a new network namespace and a link to the bridge."""
    detach_host(host)
    prefix = ipaddress.ip_network(subnet).prefixlen
    with locked(f"{os.path.dirname(host.lab.lock)}/namespaces"):
        # The first 'ip netns add' of a machine makes /run/netns a shared mount, and two at the same time conflict.
        run(["ip", "netns", "add", host.namespace])
    run(
        ["ip", "-batch", "-"],
        stdin=f"link add name {host.link} mtu {mtu} type veth "
        f"peer name eth0 mtu {mtu} address {hardware_address(address)} netns {host.namespace}\n"
        f"link set dev {host.link} alias {host.namespace} master {host.lab.bridge} up\n",
    )
    run(
        ["ip", "-netns", host.namespace, "-batch", "-"],
        stdin=f"link set dev lo up\naddress add {address}/{prefix} dev eth0\nlink set dev eth0 up\n",
    )


def unplug_host(host: HostNames) -> None:
    """Disconnect a host's cable. Nothing that it sends from now on arrives, not even the end of a connection."""
    run(["ip", "link", "set", "dev", host.link, "down"], check=False)


def detach_host(host: HostNames) -> bool:
    """Remove a host's link and namespace. Return whether there were any."""
    found = False
    if os.path.isdir(f"/sys/class/net/{host.link}"):
        run(["ip", "link", "delete", "dev", host.link], check=False)
        found = True
    if os.path.exists(f"/run/netns/{host.namespace}"):
        remove_namespace(host.namespace)
        found = True
    return found

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Steps of one host in preflight: check itself, and test the network and shared directories with the others.

Nothing here makes permanent changes. Links and processes end by themselves, and probe files end with the process.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..adapters import accelerators, firewall, folders, link, machine, probe
from ..adapters.engine import RUNTIME, Engine, EngineError
from ..adapters.engine_objects import EngineInfo
from ..adapters.folders import FolderError
from ..adapters.probe import Peer
from ..adapters.state import StateDirectory
from ..core.model.call.host_info import LookAtHost
from ..core.model.call.host_preflight import Examine, Heard, PreflightAnswer, TcpOutcome
from ..core.model.decode import encode
from ..core.preflight.probe_plan import Place, Target
from ..core.rules import isolation
from ..core.rules.data import WRITES
from ..core.rules.detection import NVIDIA, detected_classes
from ..core.rules.neighbours import neighbour_limits
from ..core.values.errors import SessionError, message_of
from ..core.values.places import RUNTIME_MANIFEST, RUNTIME_ON_HOST
from . import boot_install, data, engine_runtime, engine_trial, firewall_rules, runtime_proof, ssh_runtime, steps
from .facts import host_facts

PROGRAMS = {
    "ip": "iproute2",
    "bridge": "iproute2",
    "ping": "iputils-ping",
    "iptables-save": "iptables",
    "iptables-restore": "iptables",
    "nsenter": "util-linux",
    "unshare": "util-linux",
}
"""Programs that the modules run, and their packages."""
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def described(info: EngineInfo) -> Any:
    """Return the plain form of what an engine reports, whose runtimes are as in its API."""
    runtimes = {
        name: {"path": runtime.path, "runtimeArgs": runtime.arguments} for name, runtime in info.runtimes.items()
    }
    return encode({**info._asdict(), "runtimes": runtimes})


def examine(request: Examine) -> dict[str, Any]:
    """Return the results of this host's own checks, in the form that `core.preflight` evaluates."""
    state_directory, declared = request.state_directory, request.accelerators
    if os.geteuid() != 0:
        return {"root": False, "problem": f"Ansible works on this host as uid {os.geteuid()}, and not as root."}
    found: dict[str, Any] = {"root": True, "engine": None, "engine_problem": "", "host": {"usable": False}}
    nftables = False
    try:
        engine = Engine.connect()
        info = engine.info()
        found["engine"], nftables = described(info), info.uses_nftables
    except EngineError as error:
        found["engine_problem"] = str(error)
    else:
        wanted = LookAtHost(
            images=request.images,
            paths=request.paths,
            volumes=request.volumes,
            underlay_address=request.underlay_address,
            accelerators=declared,
        )
        found["host"] = encode(host_facts(StateDirectory(state_directory), wanted))
        found["nvidia"] = accelerators.nvidia_models() if NVIDIA in detected_classes(declared).values() else []
    found["underlay"], found["underlay_problem"] = None, ""
    try:
        links = link.details()
        found["addresses"] = link.addresses(links)
        found["subnets"] = found["host"].get("subnets") or link.subnets(links)
        found["vnis"] = link.vnis(links)
        found["underlay"] = encode(link.underlay(request.underlay_address, links))
    except SessionError as error:
        found["underlay_problem"] = str(error)
    if request.encryption:
        from ..adapters import wireguard

        found["encryption"] = wireguard.problem((found["underlay"] or {}).get("address"))
    root = found["engine"]["root"] if found["engine"] else "/var/lib/docker"
    return {
        **found,
        "packages": {
            "missing": _missing(),
            "boot": _boot(state_directory),
            "runtime": _runtime(found["engine"] is not None),
            "trial": engine_trial.problem() if found["engine"] and not _missing() else "",
            "runtime_lost": _runtime_lost(found["engine"] is not None),
            **_ssh_runtime(),
        },
        "kernel": _kernel(nftables),
        "firewall": firewall.manager(),
        "clock": {"unsynchronized": machine.is_unsynchronized()},
        "disks": {"images and containers": machine.disk(root), "state of sessions": machine.disk(state_directory)},
        "roots": {root: folders.path_facts(root) for root in request.roots},
    }


def _missing() -> list[str]:
    """Return what is missing on this host of what prepare_hosts installs."""
    lacking = {package for name, package in PROGRAMS.items() if shutil.which(name, path=_PATH) is None}
    found = [f"the package {package}" for package in sorted(lacking)]
    try:
        import cryptography  # noqa: F401 - whether it is there is the question
    except ImportError:
        found.append("the package python3-cryptography")
    if not os.path.isfile(f"{RUNTIME_ON_HOST}/{RUNTIME_MANIFEST}"):
        found.append(f"the SSH runtime {RUNTIME_ON_HOST}")
    return found


def _boot(state_directory: str) -> str:
    """Return what is wrong with the program that restores sessions. Empty if it is that of this release."""
    if not Path(boot_install.PATH).exists():
        return f"The program {boot_install.PATH}, which brings sessions back after a reboot, is not there."
    try:
        if boot_install.install(state_directory, check_mode=True).changed:
            return f"The program {boot_install.PATH} is of another release of the collection."
    except SessionError as error:
        return str(error)
    return ""


def _runtime(has_engine: bool) -> str:
    """Return why replicas do not start with their session's address first. Empty if they do, or do not have to."""
    try:
        changes = has_engine and any(engine_runtime.present_stages(Engine.connect()))
    except SessionError as error:
        return str(error)
    return f"The engine's runtime entry {RUNTIME} is not there, or not of this release." if changes else ""


def _runtime_lost(has_engine: bool) -> str:
    """Return which containers the engine can no longer start. Empty if there are none, or this is unknown."""
    try:
        return engine_runtime.lost(Engine.connect()) if has_engine else ""
    except SessionError:
        return ""


def _ssh_runtime() -> dict[str, str]:
    """Run the SSH runtime. Return why it does not work here, and why it is not that of this release."""
    if not os.path.isfile(f"{RUNTIME_ON_HOST}/{RUNTIME_MANIFEST}"):
        return {"ssh": "", "ssh_release": ""}  # `_missing` reports this
    found = {"ssh": "", "ssh_release": ""}
    if not ssh_runtime.is_of_this_release(RUNTIME_ON_HOST):
        found["ssh_release"] = f"The SSH runtime {RUNTIME_ON_HOST} is of another release of the collection."
    try:
        runtime_proof.prove(Path(RUNTIME_ON_HOST))
    except (SessionError, OSError) as error:
        found["ssh"] = f"The SSH runtime {RUNTIME_ON_HOST} does not work here: {message_of(error)}"
    return found


def _kernel(nftables: bool) -> dict[str, Any]:
    def problem(attempt: Any, *arguments: Any) -> str:
        try:
            attempt(*arguments)
        except SessionError as error:
            return str(error)
        return ""

    first, last = (machine.setting("net.ipv4.ip_local_port_range") or "32768 60999").split()
    return {
        "release": os.uname().release,
        "links": problem(link.try_kinds),
        "rules": problem(firewall.try_matches, nftables),
        "forwarding": machine.setting("net.ipv4.ip_forward") == "1",
        # Rules of nftables do not accept what iptables drops; those of the engine are in iptables otherwise.
        "drops_forwarded": nftables and firewall.drops_forwarded(),
        "connections": [
            machine.integer("net.netfilter.nf_conntrack_count"),
            machine.integer("net.netfilter.nf_conntrack_max"),
        ],
        "local_ports": [int(first), int(last)],
        "neighbours": {name: machine.integer(name) for name in neighbour_limits(None) if machine.setting(name)},
    }


# ---- with the other hosts -------------------------------------------------------------------------------------------

Storage = Mapping[str, str]
"""This host's part in the probe of shared directories: path to "writes" or "reads" (`core.rules.data`)."""


def listen(
    own: Place,
    peers: Sequence[Target],
    *,
    settings: Mapping[str, Any],
    token: str,
    storage: Storage,
    roots: list[str],
) -> PreflightAnswer:
    """Start the process to which other hosts connect, and write the probes in shared directories.

    settings: vni, port, mtu, ports, encrypted and probe_id. Raises SessionError.
    """
    probe_id = str(settings["probe_id"])
    wrote: list[str] = []
    problems: dict[str, str] = {}

    def remove() -> None:
        for source in wrote:
            data.remove_probe(source, roots, [data.probe_name(probe_id)])
        firewall.remove(isolation.PROBE[0])

    for source, part in storage.items():
        if part == WRITES:
            try:
                with folders.opened(source, roots) as folder:
                    wrote.append(source)
                    folders.write_inside(folder, data.probe_name(probe_id), data.probe_text(token, source))
            except (OSError, FolderError) as error:
                problems[source] = str(error)
    others = [_peer(peer) for peer in peers]
    try:
        _put_rules(_peer(own), others, settings)
        first, last = settings["ports"]
        started = probe.start(
            _peer(own),
            others,
            probe.Tunnel(settings["vni"], settings["port"], settings["mtu"]),
            ports=(first, last),
            encrypted=settings["encrypted"] and (settings["encrypted"][0], settings["encrypted"][1]),
            token=token,
            at_end=remove,
        )
    except BaseException:
        remove()
        raise
    good = tuple(source for source in wrote if source not in problems)
    return PreflightAnswer(changed=False, wrote=good, problems=problems, **vars(started))


def _put_rules(own: Peer, peers: Sequence[Peer], settings: Mapping[str, Any]) -> None:
    """Apply the same firewall rules to probe packets as to sessions, by the routes of packets from the peers."""
    others = tuple(peer.endpoint for peer in peers)
    ways = link.arrivals(own.endpoint, others)
    wanted = isolation.isolation_of_probe(
        settings["vni"], settings["port"], (own.endpoint, *others), own.endpoint, ways
    )
    try:
        nftables = Engine.connect().uses_nftables()
    except EngineError:  # another check reports it
        nftables = firewall_rules.will_use_nftables()
    steps.perform([firewall_rules.rule_steps(wanted, nftables)])


def _peer(place: Place) -> Peer:
    return Peer(place.number, place.address, place.mac, place.endpoint)


def reach(
    own: Place,
    peers: Sequence[Target],
    *,
    settings: Mapping[str, Any],
    server: Mapping[str, int],
    token: str,
    storage: Storage,
    roots: list[str],
) -> PreflightAnswer:
    """Send packets to the other hosts, connect to them, and look for their probes in shared directories.

    Raises SessionError.
    """
    sizes = {peer.address: peer.size for peer in peers}
    with probe.inside_of(server["pid"], own.address) as channel:
        tries = probe.Tries(channel, own.number, token)
        small = tries.reach(dict.fromkeys(sizes, probe.SMALL))
        full = tries.reach(sizes)
        tries.largest({address: size for address, size in sizes.items() if address in small - full})
        tries.spread({address: size for address, size in sizes.items() if address not in small | full})
    udp = {peer.endpoint: peer.udp for peer in peers if peer.udp}
    with probe.outside(own.endpoint) as channel:
        probe.Tries(channel, own.number, token, udp).reach(dict.fromkeys(udp, probe.SMALL))
    tcp = {peer.endpoint: peer.tcp for peer in peers if peer.tcp}
    tcp_results = probe.try_ports(tcp, own.endpoint, token)
    found = {
        source: data.finds_probe(source, roots, data.probe_name(settings["probe_id"]), data.probe_text(token, source))
        for source in storage
    }
    done = {
        str(peer.number): TcpOutcome(**vars(tcp_results[peer.endpoint]))
        for peer in peers
        if peer.endpoint in tcp_results
    }
    return PreflightAnswer(changed=False, peers=done, shared=found)


def measure(own: str, target: tuple[str, int], *, token: str, seconds: float, size: int) -> dict[str, float]:
    """Measure the connection from an address to the address and port of another host, and back. Raises SessionError."""
    return probe.measure(target, own, token, seconds, size)


def stop(server: Mapping[str, int], token: str) -> Heard | None:
    """End the process. Return the largest packet that it received, by path and by the number of the sending host."""
    try:
        heard = probe.end(server, token)
        return None if heard is None else Heard(**heard)
    finally:
        firewall.remove(isolation.PROBE[0])  # the process also does this, unless it was killed

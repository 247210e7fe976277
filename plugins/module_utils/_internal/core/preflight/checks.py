# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Checks of a group's hosts before a session is launched there, evaluated from what the hosts observed.

Wherever a launch has a rule, the same rule is used here, so the two cannot disagree.

An observation of a host (`host.preflight.examine`): root, engine, problem, host (the facts that a launch plans with, or
the reason why there are none), kernel, clock, disks, packages, underlay, roots, encryption, nvidia. None or a missing
key means that it was not checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any

from ..cluster.host_names import in_current_names
from ..cluster.state import cluster_state
from ..model.call.host_preflight import TcpOutcome
from ..model.decode import decode
from ..model.facts import HostFacts, read_facts
from ..model.given import PreflightGiven
from ..model.host_parts import Underlay
from ..model.record import OverlayTunnel
from ..model.request import Request, parse_request
from ..rules import images
from ..rules.addressing import MAXIMUM_VNI, choose_subnets, parse_port_pool, parse_ssh_ports, parse_vni_pool
from ..rules.admission import REMAPPED
from ..rules.build import overlay_mtu
from ..rules.capacity import hosts_from_facts
from ..rules.data import NETWORK_FILESYSTEMS, data_of_hosts, exposed, mount_problems, roots_of, sharing_problems
from ..rules.endpoints import ACCEPT_FORWARDED, DROPPED, engine_without_rules
from ..rules.neighbours import MAX_REPLICAS, neighbour_limits, parse_max_replicas
from ..rules.site import Settings
from ..values import image_names
from ..values.deferred import dataclass
from ..values.errors import CoreError, InvalidInput, Problem
from ..values.parse import is_given, split_list
from ..values.resources import PINNED, count_devices, format_memory
from .findings import ERROR, WARNING, Check, Finding, Pair
from .matrix import Measured, slow_pairs
from .opening import advice
from .probe_plan import MOST_HOSTS, ProbeHost, ProbePlan, offsets

PREPARE = "Run the prepare_hosts playbook for it."
REQUEST_VARIABLES = ("session_image", "session_image_pull", "session_roles", "session_mounts", "session_encrypted")
"""Variables of a request that preflight considers, if they are given."""
NO_IMAGE = "none"
MATRIX = "matrix"
"""The check whose pairs are those that were measured."""
LEAST_INODES = 0.01
"""Part of a file system's files that has to be free."""
FULL_TABLE = 0.8
"""Part of the connections that the kernel can track above which too many are in use."""

Facts = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Options:
    """Scope of the checks: what the role gives, and the variables of a request."""

    given: PreflightGiven
    request: Request
    has_image: bool

    @classmethod
    def from_variables(cls, given: PreflightGiven, variables: Mapping[str, Any]) -> Options:
        """Read the request's variables, all problems together (InvalidInput)."""
        problems: list[Problem] = []
        wanted = {name: variables[name] for name in REQUEST_VARIABLES if is_given(variables.get(name))}
        has_image = "session_image" in wanted or "session_roles" in wanted
        request = None
        try:
            mounts = split_list(wanted.get("session_mounts") or [])
            mounts += [
                {"source": folder, "target": f"/preflight/{number}", "shared": True}
                for number, folder in enumerate(given.shared_folders)
            ]
            basis = {"session_name": "preflight", "session_image": NO_IMAGE, **wanted, "session_mounts": mounts}
            request = parse_request(basis)
        except InvalidInput as error:
            problems.extend(error.problems)
        except ValueError as error:
            problems.append(Problem("session_mounts", wanted.get("session_mounts"), str(error)))
        if problems or request is None:
            raise InvalidInput(problems)
        return cls(given, request, has_image)

    @property
    def images(self) -> list[str]:
        """The images to look for."""
        return sorted({role.image for role in self.request.roles} - {NO_IMAGE}) if self.has_image else []

    @property
    def paths(self) -> list[str]:
        """The folders to check."""
        return sorted({mount.source for mount in self.request.mounts if mount.source is not None})

    @property
    def volumes(self) -> list[str]:
        """The volumes to check."""
        return sorted({mount.volume for mount in self.request.mounts if mount.volume is not None})


# ---- the probe plan --------------------------------------------------------------------------------------------------


def plan_probe(observed: Facts, settings: Settings, most: int, seed: int) -> ProbePlan:
    """Return which hosts test each other, without hosts whose underlay is unknown or of the less common family."""
    underlays = {
        host: decode(Underlay, host_facts["underlay"], f"The underlay of {host}")
        for host, host_facts in observed.items()
        if host_facts.get("underlay")
    }
    versions = Counter(":" in underlay.address for underlay in underlays.values())
    family = versions.most_common(1)[0][0] if versions else False
    addresses = Counter(underlay.address for underlay in underlays.values())
    left_out: dict[str, str] = {}
    kept: dict[str, ProbeHost] = {}
    for host, underlay in underlays.items():
        try:
            session_mtu = overlay_mtu({host: underlay})
        except InvalidInput as error:
            left_out[host] = str(error)
            continue
        if (":" in underlay.address) == family and addresses[underlay.address] == 1:
            kept[host] = ProbeHost(underlay.address, underlay.mtu, session_mtu)
    kept = dict(list(kept.items())[:MOST_HOSTS])
    used = {int(vni) for host_facts in observed.values() for vni in (host_facts.get("vnis") or ())}
    return ProbePlan(kept, choose_probe_vni(settings.vni_pool, used, seed), offsets(len(kept), most), left_out)


def choose_probe_vni(pool: str, in_use: Iterable[int], seed: int) -> int:
    """Return an identifier that no host uses, and that no session can get meanwhile if the pool leaves any such."""
    low, high = parse_vni_pool(pool)
    used = set(in_use)
    beside = [*range(max(1, low - 4096), low), *range(high + 1, min(MAXIMUM_VNI, high + 4096) + 1)]
    free = [vni for vni in beside if vni not in used]
    if not free:
        free = [vni for vni in range(low, min(high, low + len(used) + 4096) + 1) if vni not in used]
    chosen: int = free[seed % len(free)]
    return chosen


# ---- judging --------------------------------------------------------------------------------------------------------


@dataclass
class Results:
    """The answers of a group's hosts. known: all of them. unreachable: why, for those that did not answer at all.

    observed: by host. plan: which hosts were to test each other. probed: by host the outcome of TCP to each host that
    it tested. heard: by host the largest packet from each other. heard_plain: by host the hosts whose packets arrived
    at the port of encrypted sessions. failed: by host why it did not do its part. ports, udp_ports: by host the ports
    of TCP and of encrypted sessions that it listened on. shared: by host and shared folder whether it is. unwritten: by
    folder the host that was to write there, and why it did not. measured, unmeasured: of the matrix.
    """

    known: list[str]
    unreachable: dict[str, str]
    observed: dict[str, dict[str, Any]]
    inventory: Mapping[str, Mapping[str, Any]]
    plan: ProbePlan | None = None
    probed: dict[str, dict[str, TcpOutcome]] = field(default_factory=dict)
    heard: dict[str, dict[str, int]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    heard_plain: dict[str, list[str]] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    udp_ports: dict[str, int] = field(default_factory=dict)
    unwritten: dict[str, tuple[str, str]] = field(default_factory=dict)
    measured: list[Measured] = field(default_factory=list)
    unmeasured: dict[Pair, str] = field(default_factory=dict)
    shared: dict[str, dict[str, bool]] = field(default_factory=dict)

    @cached_property
    def facts(self) -> dict[str, HostFacts]:
        """The facts of the usable hosts, as a launch reads them; read once, because many hosts take long."""
        found = {
            host: read_facts(host_facts["host"], f"Host {host}")
            for host, host_facts in self.observed.items()
            if host_facts.get("root") and host_facts.get("host", {}).get("usable")
        }
        return in_current_names(found, self.known)[0]

    def tried(self) -> list[Pair]:
        """Return the pairs that were really tested: both hosts did their part."""
        if self.plan is None:
            return []
        return [(host, other) for host, other in self.plan.pairs() if host in self.probed and other in self.heard]


def storage_probes(options: Options, results: Results, probe_plan: ProbePlan) -> dict[str, dict[str, str]]:
    """Return what each host does in the test of shared folders, as for a session over all of them."""
    hosts = [host for host in probe_plan.hosts if host in results.facts]
    if len(hosts) < 2 or _data_problems(options, results, hosts):
        return {}
    found = data_of_hosts(options.request, hosts, results.facts, results.inventory)
    return {
        host: {path: folder.proof for path, folder in folders.items() if folder.proof is not None}
        for host, (_roots, folders) in found.items()
    }


def _data_problems(options: Options, results: Results, hosts: Sequence[str]) -> list[Problem]:
    """Return why a session over these hosts could not mount what is requested, as far as the facts show."""
    try:
        found = mount_problems(options.request, hosts, results.facts, results.inventory)
        return found or sharing_problems(options.request, hosts, results.facts)
    except InvalidInput as error:
        return list(error.problems)


def judge(
    options: Options, settings: Settings, results: Results, clocks: Mapping[str, tuple[float, float]]
) -> list[Finding]:
    """Return all findings, check by check.

    clocks: by host the least and the most seconds by which its clock is ahead of the controller's.
    """
    checks = (
        _reach(results),
        _engine(results),
        _prepared(settings, results),
        _kernel(options, settings, results),
        _clock(options, results, clocks),
        _disk(options, results),
        _consistent(results),
        _addresses(settings, results),
        _inventory(results),
        _encryption(options, results),
        _encrypted_ports(options, settings, results),
        _tunnel(settings, results),
        _mtu(results),
        _transfer(settings, results),
        _image(options, results),
        _data(options, results),
        _accelerators(results),
        _matrix(options, results),
    )
    return [finding for check in checks for finding in check.findings()]


def _reach(results: Results) -> Check:
    check = Check("reach")
    for host in results.known:
        if host in results.unreachable:
            check.bad(
                ERROR,
                host,
                _sentence(results.unreachable[host]),
                "Ansible logs in to each host of the group and runs Python 3.9 or newer there.",
                f"Try 'ansible {host} -m ansible.builtin.ping'; or take it out of the resource group.",
            )
        elif not results.observed[host].get("root"):
            check.bad(
                ERROR,
                host,
                str(results.observed[host].get("problem")),
                "Ansible works as root.",
                "Set ansible_become=true for it, or log in as root.",
            )
        else:
            check.good(host, "Ansible works there as root.")
    return check


def _looked(results: Results) -> Iterable[tuple[str, dict[str, Any]]]:
    return ((host, host_facts) for host, host_facts in results.observed.items() if host_facts.get("root"))


def _engine(results: Results) -> Check:
    check = Check("engine")
    for host, host_facts in _looked(results):
        engine, facts = host_facts.get("engine"), host_facts.get("host", {})
        if engine is None:
            check.bad(
                ERROR,
                host,
                _sentence(host_facts.get("engine_problem")),
                "Docker Engine 20.10 or newer runs and answers.",
                "Start it (systemctl start docker), or run the prepare_hosts playbook.",
            )
            continue
        if not facts.get("usable"):
            check.bad(
                ERROR, host, _sentence(facts.get("problem")), "A launch can use the host.", "Fix what is named there."
            )
        for problem in facts.get("damaged") or ():
            check.bad(ERROR, host, problem, "Records can be read.", "Run the repair playbook.")
        _engine_settings(check, host, engine)
        if host in results.facts and results.facts[host].engine.no_rules:
            found, advice = engine_without_rules(results.facts[host].engine)
            check.bad(WARNING, host, found, "It writes them (the setting iptables).", advice)
        if facts.get("usable"):
            check.good(host, f"Docker Engine {engine['version']}, storage {engine['storage_driver']}.")
    return check


def _engine_settings(check: Check, host: str, engine: Mapping[str, Any]) -> None:
    if engine["remaps_users"]:
        check.bad(ERROR, host, REMAPPED, "Users of containers are those of the host.", "Fix it as described there.")
    if engine["storage_driver"] == "vfs":
        check.bad(
            WARNING,
            host,
            "The engine stores images with the driver vfs, which copies them for each container.",
            "A driver that shares layers, such as overlay2.",
            "See why the engine takes no other (docker info), and set storage-driver in daemon.json.",
        )
    if not engine["limits_swap"]:
        check.bad(
            WARNING,
            host,
            "The kernel does not account for swap, so replicas can swap beyond session_memory.",
            "Swap is accounted for.",
            "Boot with swapaccount=1 (Debian and Ubuntu with cgroup v1).",
        )


def _is_kept_out(settings: Settings, facts: HostFacts) -> bool:
    """Tell whether the rules in force on a host cover every overlay that the site can have."""
    wanted = [OverlayTunnel(vni, settings.vxlan_port, ()) for vni in parse_vni_pool(settings.vni_pool)]
    return facts.overlays is not None and all(facts.overlays.cover(tunnel) for tunnel in wanted)


@dataclass(frozen=True)
class _Part:
    """How a problem with what prepare_hosts installs is reported. found: with a place for the host's own words."""

    severity: str
    expected: str
    advice: str
    found: str = "{}"


PARTS: Mapping[str, _Part] = {
    "boot": _Part(
        WARNING,
        "The host brings its sessions back after a reboot by itself.",
        f"{PREPARE} After a reboot run repair until then.",
    ),
    "runtime": _Part(
        WARNING,
        "Programs in replicas find the address of their session first.",
        f"{PREPARE} Until then some find the outward address, which other replicas do not reach.",
    ),
    "trial": _Part(
        ERROR,
        "Its engine starts containers, and commands in them.",
        "Correct that.",
        "An empty container does not start there: {}",
    ),
    "runtime_lost": _Part(
        ERROR,
        "Replicas that the engine's runtime entry started can be started again.",
        f"{PREPARE} Then run the repair playbook.",
    ),
    "ssh": _Part(ERROR, "SSH and session-run work in replicas of any image.", PREPARE),
    "ssh_release": _Part(
        WARNING, "Files of an image that are meant for its own programs do not reach the session's SSH.", PREPARE
    ),
}
"""By the key of the host's answer."""


def _prepared(settings: Settings, results: Results) -> Check:
    check = Check("prepared")
    for host, host_facts in _looked(results):
        packages, facts = host_facts["packages"], results.facts.get(host)
        for missing in packages["missing"]:
            check.bad(ERROR, host, f"It lacks {missing}.", "All that sessions need is installed.", PREPARE)
        if facts is not None and facts.engine.stale_runtime:
            good = "Replicas start by the engine's default runtime, with the address of their session first."
            advice = "Fix this. Until then it gets no replicas of larger sessions."
            check.bad(ERROR, host, facts.engine.stale_runtime, good, advice)
        for key, part in PARTS.items():
            if packages[key]:
                check.bad(part.severity, host, part.found.format(packages[key]), part.expected, part.advice)
        if facts is not None:
            _sessions_welcome(check, settings, host, facts)
        check.otherwise(host, "All that prepare_hosts installs is there, of this release.")
    return check


def _sessions_welcome(check: Check, settings: Settings, host: str, facts: HostFacts) -> None:
    """Check whether anything on a host, on which all is installed, keeps sessions from it or its containers in them."""
    if facts.drained is not None:
        check.bad(WARNING, host, str(facts.drained), "It takes new sessions.", "Run the undrain_hosts playbook.")
    if facts.suspect is not None:
        check.bad(
            WARNING,
            host,
            str(facts.suspect),
            "It gets sessions as the others do.",
            "Fix it as described. If this check finds no error, the host is trusted again.",
        )
    if not _is_kept_out(settings, facts):
        check.bad(
            WARNING,
            host,
            "Its containers are not kept out of the overlays of all sessions.",
            f"It has rules for UDP port {settings.vxlan_port} and the identifiers {settings.vni_pool}.",
            f"{PREPARE} Until then each launch in the group writes rules on it.",
        )


def _max_replicas(results: Results, host: str) -> int | None:
    try:
        return parse_max_replicas((results.inventory.get(host) or {}).get(MAX_REPLICAS))
    except InvalidInput:
        return None  # the check of the host's capacity reports it


def _kernel(options: Options, settings: Settings, results: Results) -> Check:
    check = Check("kernel")
    for host, host_facts in _looked(results):
        kernel = host_facts["kernel"]
        for what, problem in (("links", kernel["links"]), ("firewall rules", kernel["rules"])):
            if problem:
                check.bad(
                    ERROR,
                    host,
                    f"The {what} that sessions need cannot be made: {_sentence(problem)}",
                    "The kernel has VXLAN, bridge, macvlan and the matches conntrack, connlimit, comment and u32.",
                    "Load or install the modules of its kernel; after an update of the kernel boot it.",
                )
        _kernel_settings(check, host, kernel)
        _neighbours(check, host, kernel["neighbours"], neighbour_limits(_max_replicas(results, host)))
        for variable, ports in _port_ranges(options, settings):
            _local_ports(check, host, kernel["local_ports"], variable, ports)
        check.otherwise(host, "VXLAN, bridge, macvlan and the firewall's matches can be used.")
    return check


def _kernel_settings(check: Check, host: str, kernel: Mapping[str, Any]) -> None:
    if not kernel["forwarding"]:
        check.bad(
            ERROR,
            host,
            "It forwards no IPv4 (net.ipv4.ip_forward is 0).",
            "Replicas get out, and published ports in, as Docker Engine sets it when it starts.",
            "Set net.ipv4.ip_forward=1, and see what else sets it (/etc/sysctl.d).",
        )
    if kernel["drops_forwarded"]:
        check.bad(WARNING, host, DROPPED, "The policy of the iptables chain FORWARD is ACCEPT.", ACCEPT_FORWARDED)
    used, most = kernel["connections"]
    if most and used > FULL_TABLE * most:
        check.bad(
            WARNING,
            host,
            f"The kernel follows {used} connections of the {most} that it can.",
            f"Less than {FULL_TABLE:.0%} of the table is in use.",
            "Raise net.netfilter.nf_conntrack_max.",
        )


def _neighbours(check: Check, host: str, limits: Mapping[str, int], least: Mapping[str, int]) -> None:
    lower = {name: found for name, found in limits.items() if found < least[name]}
    if lower:
        wanted = [f"{name}={least[name]}" for name in lower]
        check.bad(
            WARNING,
            host,
            f"Its kernel knows too few neighbours ({', '.join(f'{name}={found}' for name, found in lower.items())})"
            " for all replicas that it may carry.",
            f"At least {', '.join(wanted)}, from {MAX_REPLICAS}.",
            f"{PREPARE} Or see what else sets it (/etc/sysctl.d).",
        )


def _port_ranges(options: Options, settings: Settings) -> list[tuple[str, tuple[int, int]]]:
    """Return the ports of a host that sessions publish or listen on, by the variable."""
    ranges = [("cluster_compute_ssh_ports", parse_ssh_ports(settings.ssh_ports))]
    if options.request.encrypted:
        ranges.append(("cluster_compute_encrypted_ports", parse_port_pool(settings.encrypted_ports)))
    return ranges


def _local_ports(check: Check, host: str, given: tuple[int, int], variable: str, ports: tuple[int, int]) -> None:
    """Check that the kernel gives no port of a variable to programs. given: the first and the last that it gives."""
    (first, last), (low, high) = given, ports
    if low <= last and first <= high:
        check.bad(
            WARNING,
            host,
            f"The kernel gives the ports {first} to {last} to programs, among them some of {variable} ({low}-{high}).",
            "The two ranges have no port in common.",
            f"Change net.ipv4.ip_local_port_range, or {variable}.",
        )


def _clock(options: Options, results: Results, clocks: Mapping[str, tuple[float, float]]) -> Check:
    check = Check("clock")
    for host, host_facts in _looked(results):
        if host not in clocks:
            continue
        low, high = clocks[host]
        wrong = low > options.given.clock_seconds or high < -options.given.clock_seconds
        if wrong:
            off = low if low > 0 else -high
            check.bad(
                ERROR,
                host,
                f"Its clock is {format_seconds(off)} {'ahead of' if low > 0 else 'behind'} the controller's.",
                f"At most {options.given.clock_seconds} s, or certificates, file systems of the network and builds go "
                "wrong.",
                "Set it, and have it kept by chrony or systemd-timesyncd.",
            )
        elif host_facts["clock"]["unsynchronized"]:
            check.bad(
                WARNING,
                host,
                "Its clock is right, but the kernel reports that it is not synchronized.",
                "It is synchronized.",
                "Run chrony or systemd-timesyncd; in a virtual machine see whether its hypervisor does it.",
            )
        else:
            check.good(host, f"Within {options.given.clock_seconds} s of the controller's, and synchronized.")
    return check


def format_seconds(seconds: float) -> str:
    """Return a time in a form for people."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def _disk(options: Options, results: Results) -> Check:
    check = Check("disk")
    for host, host_facts in _looked(results):
        for purpose, disk in host_facts["disks"].items():
            where = f"{disk['path']} ({purpose})"
            if disk["free"] < options.given.disk_free:
                check.bad(
                    ERROR,
                    host,
                    f"{where} has {format_memory(_rounded(disk['free']))} free.",
                    f"{format_memory(options.given.disk_free)} or more (preflight_disk_free).",
                    "Remove what is not needed (see 'docker system df'), or give it a larger disk.",
                )
            if disk["files"] and disk["files_free"] < LEAST_INODES * disk["files"]:
                check.bad(
                    ERROR,
                    host,
                    f"{where} has room for no more than {disk['files_free']} files.",
                    "One in a hundred inodes or more is free.",
                    "Remove small files there, or make the file system with more inodes.",
                )
        check.otherwise(
            host, f"{format_memory(options.given.disk_free)} or more free for images, containers and state."
        )
    return check


def _rounded(amount: int) -> int:
    """Return bytes as whole mebibytes, or unchanged if they are few."""
    return amount - amount % 1024**2 if amount >= 1024**2 else amount


def _consistent(results: Results) -> Check:
    """Check what has to be, or is better, the same on all hosts."""
    check = Check("alike")
    traits: dict[str, dict[str, str | int]] = {
        "architecture": {},
        "image store": {},
        "cgroup version": {},
        "MTU of the underlay": {},
    }
    advice = {
        "architecture": "A session's hosts need images of one architecture: make resource groups of one each.",
        "image store": "Hosts give images only to those whose engines store them alike; use a registry, or change it.",
        "cgroup version": "Boot the hosts with the same version, or expect limits to act differently.",
        "MTU of the underlay": "The least counts for a whole session; set it alike on all hosts, and on the switches.",
    }
    for host, host_facts in _looked(results):
        engine, underlay = host_facts.get("engine"), host_facts.get("underlay")
        if engine:
            traits["architecture"][host] = engine["architecture"]
            traits["image store"][host] = engine["image_store"]
            traits["cgroup version"][host] = engine["cgroup"]
        if underlay:
            traits["MTU of the underlay"][host] = underlay["mtu"]
    for trait, values in traits.items():
        for host, value, most_common in _differing(values):
            check.bad(WARNING, host, f"Its {trait} is {value}.", f"{most_common}, as most hosts have.", advice[trait])
    for host in traits["architecture"]:
        words = [f"{values[host]}" for trait, values in traits.items() if host in values and trait != "image store"]
        check.otherwise(host, f"{words[0]}, cgroup v{words[1]}" + (f", MTU {words[2]}." if len(words) > 2 else "."))
    return check


def _most_common(values: Iterable[Any]) -> Any:
    """Return the most common value; if there are several, the first."""
    counted = Counter(values).most_common(1)
    return counted[0][0] if counted else None


def _differing(values: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the hosts with another value than the most common one: host, its value, the most common value."""
    most_common = _most_common(values.values())
    return ((host, value, most_common) for host, value in values.items() if value != most_common)


def _addresses(settings: Settings, results: Results) -> Check:
    check = Check("addresses")
    hosts_by_address = _hosts_by_address(results)
    underlays = (host_facts.get("underlay") for _host, host_facts in _looked(results))
    family = bool(_most_common(":" in underlay["address"] for underlay in underlays if underlay))
    full = _why_no_subnet(settings, results)
    for host, host_facts in _looked(results):
        underlay = host_facts.get("underlay")
        if underlay is None:
            check.bad(
                ERROR,
                host,
                _sentence(host_facts.get("underlay_problem")),
                "The host has the address by which the others reach it.",
                "Set cluster_compute_underlay_address for it.",
            )
        else:
            others = [other for other in hosts_by_address.get(underlay["address"], ()) if other != host]
            _underlay_address(check, host, underlay["address"], others)
            problem = host_facts["host"].get("no_overlay")
            if problem:
                good = f"UDP port {settings.vxlan_port} is free for overlays (cluster_compute_vxlan_port)."
                check.bad(ERROR, host, problem, good, "Fix it as described. Until then it has sessions of its own.")
            _underlay_family(check, host, underlay["address"], family)
        if full:
            check.bad(
                ERROR,
                host,
                f"A session over all hosts would find no subnet: {full}",
                "Two free subnets for the largest session.",
                "Set cluster_compute_subnet_pool to what your site does not use.",
            )
        check.otherwise(host, "Each has an underlay address of its own, and the subnet pool has room.")
    return check


def _hosts_by_address(results: Results) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for host, host_facts in _looked(results):
        for address in host_facts.get("addresses") or ():
            found.setdefault(address, []).append(host)
    return found


def _why_no_subnet(settings: Settings, results: Results) -> str:
    """Return why a session over all hosts would find no subnet; empty if it would."""
    in_use = {subnet for _host, host_facts in _looked(results) for subnet in host_facts.get("subnets") or ()}
    try:
        choose_subnets(settings.subnet_pool, 2, max(2, len(results.known)), in_use, "preflight")
    except CoreError as error:
        return str(error)
    return ""


def _underlay_address(check: Check, host: str, address: str, others: Sequence[str]) -> None:
    """Check that no others have the underlay address of a host."""
    if others:
        check.bad(
            ERROR,
            host,
            f"It and {', '.join(others[:3])} have the address {address}.",
            "Each host of the group is another machine, with an address of its own.",
            "Take the second name of a machine out of the inventory, or give each its own address.",
        )


def _underlay_family(check: Check, host: str, address: str, is_ipv6: bool) -> None:
    """Check that a host has an underlay address of the same version of IP as most. is_ipv6: whether most have IPv6."""
    if (":" in address) != is_ipv6:
        check.bad(
            ERROR,
            host,
            f"Its underlay address {address} is of another version of IP than most have.",
            "All hosts have IPv4, or all IPv6.",
            "Set cluster_compute_underlay_address for it.",
        )


def _inventory(results: Results) -> Check:
    """Check the inventory's variables of a host that a launch would reject."""
    check = Check("inventory")
    for renaming in cluster_state(results.facts).renamed:
        check.bad(
            ERROR, renaming.host, renaming.problem, "The inventory calls it what sessions on it do.", renaming.advice
        )
    for host, facts in results.facts.items():
        try:
            hosts_from_facts({host: facts}, results.inventory)
            roots_of(results.inventory, host)
        except InvalidInput as error:
            for problem in error.problems:
                check.bad(ERROR, host, str(problem), "A launch can read it.", "Correct it in the inventory.")
        else:
            check.otherwise(host, "The inventory's capacity, devices and folders can be used.")
    return check


def _manager(results: Results, host: str) -> str:
    """Return the program that manages a host's firewall, empty if none is known."""
    return str(results.observed.get(host, {}).get("firewall", ""))


def _encryption(options: Options, results: Results) -> Check:
    check = Check("encryption")
    if options.request.encrypted:
        for host, host_facts in _looked(results):
            problem = host_facts.get("encryption")
            if problem:
                check.bad(
                    ERROR,
                    host,
                    str(problem),
                    "The kernel has WireGuard, for session_encrypted.",
                    "Fix it as described, or leave the host out of such sessions with session_excluded_hosts.",
                )
            else:
                check.good(host, "It can have encrypted sessions.")
    return check


def _encrypted_ports(options: Options, settings: Settings, results: Results) -> Check:
    """Check whether small packets pass to one of the ports of encrypted sessions."""
    check = Check("encrypted UDP")
    for host, other in results.tried() if options.request.encrypted else ():
        if host in results.heard_plain.get(other, ()):
            check.good_pair((host, other), f"A port of UDP {settings.encrypted_ports} is open.")
        else:
            check.bad_pair(
                ERROR,
                (host, other),
                f"Nothing arrived at UDP port {results.udp_ports.get(other)}.",
                f"UDP {settings.encrypted_ports} (cluster_compute_encrypted_ports) is open between the hosts.",
                advice(_manager(results, other), "udp", settings.encrypted_ports),
            )
    return check


def _tunnel(settings: Settings, results: Results) -> Check:
    """Check whether small packets pass in the overlay's form, from each host to each that it tested."""
    check = Check("tunnel")
    for host, why in results.failed.items():
        check.bad(
            ERROR, host, _sentence(why), "A link as sessions have it can be made and used.", "See the checks above."
        )
    for host, other in results.tried():
        wanted = f"UDP {settings.vxlan_port} (cluster_compute_vxlan_port) is open from each host to each other."
        if _came(results, host, other):
            check.good_pair((host, other), f"UDP {settings.vxlan_port} is open.")
        else:
            check.bad_pair(
                ERROR,
                (host, other),
                f"No VXLAN packet to UDP port {settings.vxlan_port} arrived.",
                wanted,
                advice(_manager(results, other), "udp", str(settings.vxlan_port)),
            )
    return check


def _came(results: Results, host: str, other: str) -> int:
    """Return the size of the largest packet that arrived from one host at the other."""
    return results.heard[other].get(host, 0)


def _mtu(results: Results) -> Check:
    check = Check("path MTU")
    plan = results.plan
    if plan is None:
        return check
    for host, other in results.tried():
        largest, size = _came(results, host, other), plan.size(host, other)
        if not largest:
            continue
        overhead = plan.hosts[host].mtu - plan.hosts[host].session_mtu
        if largest < size:
            check.bad_pair(
                ERROR,
                (host, other),
                f"Packets of {largest + overhead} bytes arrive, and none of {size + overhead}.",
                f"The network between them carries {size + overhead} bytes, as set on the interfaces.",
                f"Raise it on switches and routers, or lower the MTU of the interfaces to {largest + overhead}.",
            )
            continue
        tcp_result = results.probed[host].get(other)
        path = tcp_result.mtu if tcp_result else None
        if path and path < size + overhead:
            check.bad_pair(
                WARNING,
                (host, other),
                f"A router on the way carries {path} bytes only, so packets of {size + overhead} are cut in two.",
                f"The network between them carries {size + overhead} bytes.",
                f"Raise it there, or lower the MTU of the interfaces to {path}.",
            )
            continue
        check.good_pair((host, other), f"Packets of {size + overhead} bytes arrive whole.")
    return check


def _transfer(settings: Settings, results: Results) -> Check:
    """Check whether hosts could give images to each other."""
    check = Check("image ports")
    first, last = settings.image_ports
    ports = str(first) if first == last else f"{first}-{last}"
    for host, other in results.tried():
        tcp_result = results.probed[host].get(other)
        if tcp_result is None:
            continue
        if not tcp_result.problem:
            check.good_pair((host, other), f"TCP {ports} is open.")
        else:
            check.bad_pair(
                WARNING,
                (host, other),
                f"TCP port {results.ports[other]} does not answer: {_sentence(tcp_result.problem)}",
                f"TCP {ports} (cluster_compute_image_ports) is open between the hosts.",
                f"{advice(_manager(results, other), 'tcp', ports)} Or have all images in a registry.",
            )
    return check


def _image(options: Options, results: Results) -> Check:
    check = Check("image")
    facts = results.facts
    for reference in options.images if facts else ():
        try:
            (need,) = images.needs_of({reference: list(facts)}, facts, options.request.image_pull)
        except InvalidInput as error:
            for host in _hosts_with_another_image(facts, reference):
                check.bad(
                    ERROR,
                    host,
                    "; ".join(str(problem) for problem in error.problems),
                    f"Each host has the same image by the name {reference}, or none.",
                    "Fix it as described; a launch over these hosts is rejected.",
                )
        else:
            for host in facts:
                _image_on(check, host, reference, need)
    return check


def _hosts_with_another_image(facts: Mapping[str, HostFacts], reference: str) -> list[str]:
    """Return the hosts whose image of a name is not that of most; all hosts if they have the same one."""
    found = {host: host_facts.images.get(reference) for host, host_facts in facts.items()}
    most_common = _most_common(image.id for image in found.values() if image)
    return [host for host, image in found.items() if image and image.id != most_common] or list(facts)


def _image_on(check: Check, host: str, reference: str, need: images.Need) -> None:
    """Check whether an image is on a host, or how it gets there."""
    if host not in need.fetches:
        check.good(host, f"{reference} is there.")
        return
    senders = need.senders(host)
    if need.asks is not None:
        how = f"asks the registry {image_names.registry_of(reference)} for it"
    elif host in need.pulling:
        how = f"pulls it from the registry {image_names.registry_of(reference)}"
    elif senders:
        how = f"has {senders[0]} send it"
    else:
        found = f"{reference} is not there: {need.why_not(host)}"
        check.bad(ERROR, host, found, "It is available.", "Give it to a host.")
        return
    check.bad(
        WARNING,
        host,
        f"{reference} is not there; a launch {how} first.",
        "It is there already.",
        "Nothing, if the time does not matter; else pull or load it.",
    )


def _data(options: Options, results: Results) -> Check:
    check = Check("data")
    facts = results.facts
    _roots(check, results)
    if not options.request.mounts or not facts:
        return check
    for problem in _data_problems(options, results, list(facts)):
        words = str(problem).replace(",", " ").replace(":", " ").split()
        for host in [host for host in facts if host in words] or facts:
            check.bad(ERROR, host, str(problem), "A session over these hosts can mount it.", "Fix it as described.")
    _shared(check, results)
    return check


def _shared(check: Check, results: Results) -> None:
    """Check whether shared folders are the same on all hosts, as their test has shown."""
    for host, seen in results.shared.items():
        for path, same in seen.items():
            if path in results.unwritten:
                _unwritten(check, host, path, *results.unwritten[path])
            elif same:
                check.good(host, f"{path} is the same folder on all.")
            else:
                check.bad(
                    ERROR,
                    host,
                    f"{path} is not the folder that another host of the group has there.",
                    "Files that one host writes in it are visible on all hosts.",
                    "Mount the same folder on each host, or set shared: false if each is to have its own.",
                )


def _unwritten(check: Check, host: str, path: str, writer: str, why: str) -> None:
    """Report on the host that was to write in a shared folder why it did not."""
    if host == writer:
        check.bad(
            ERROR,
            host,
            f"It cannot write in {path}, to prove that the hosts share it: {_sentence(why)}",
            "Root or the folder's owner can write there on one host.",
            "Allow that, or set shared: false if each host is to have its own.",
        )


def _roots(check: Check, results: Results) -> None:
    """Check the folders that the site lets sessions mount: they have to exist, and be of the same kind on all hosts."""
    kinds: dict[str, dict[str, str]] = {}
    for host, host_facts in _looked(results):
        for root, found in (host_facts.get("roots") or {}).items():
            if found["kind"] == "missing":
                check.bad(
                    WARNING,
                    host,
                    f"{root} (cluster_compute_mount_roots) does not exist.",
                    "The folder is there.",
                    "Make or mount it, or leave it out of the variable.",
                )
            elif shown := exposed(found["real"], host_facts["host"].get("private") or {}):
                check.bad(
                    ERROR,
                    host,
                    f"{root} (cluster_compute_mount_roots) would show sessions {shown}.",
                    "Sessions are given folders with data alone.",
                    "Name folders without it, such as [/srv/shared].",
                )
            else:
                remote = found["filesystem"] in NETWORK_FILESYSTEMS
                kinds.setdefault(root, {})[host] = found["filesystem"] if remote else "of the host's own"
    differing = ((root, *different) for root, by_host in kinds.items() for different in _differing(by_host))
    for root, host, kind, most_common in differing:
        found = f"{root} is on a file system {kind}."
        check.bad(WARNING, host, found, f"{most_common}, as on most hosts.", "See whether it is mounted there.")


def _accelerators(results: Results) -> Check:
    check = Check("accelerators")
    _detection(check, results)
    devices = _devices(results)
    counts = _by_kind(devices)
    expected = "{}, as most hosts of the group have."
    for kind, by_host in counts.items():
        advice = "Check whether an accelerator is lost, or make groups of hosts that are equal."
        for host, count, most_common in _differing({host: by_host.get(host, 0) for host in devices}):
            check.bad(WARNING, host, f"It has {count} of {kind}.", expected.format(most_common), advice)
    advice = "Make groups of hosts that are equal, or install the same driver."
    differing = (
        (trait, *different) for trait, values in _traits(results, devices).items() for different in _differing(values)
    )
    for trait, host, value, most_common in differing:
        check.bad(WARNING, host, f"Its {trait} is {value}.", expected.format(most_common), advice)
    for host in devices if counts else ():
        words = [f"{by_host[host]} {kind}" for kind, by_host in counts.items() if by_host.get(host)]
        check.otherwise(host, f"{', '.join(words)}." if words else "None.")
    return check


def _detection(check: Check, results: Results) -> None:
    for host, facts in results.facts.items():
        for kind, detected in facts.accelerators.items():
            if detected["problem"]:
                check.bad(
                    ERROR,
                    host,
                    f"{kind} were not detected: {detected['problem']}",
                    "The devices that cluster_compute_accelerators names are found.",
                    "Fix the driver or the specification, or take the class out of the host's inventory.",
                )


def _devices(results: Results) -> dict[str, dict[str, int]]:
    """Return how many devices of each kind a host has, for hosts whose inventory can be read."""
    found = {}
    for host, facts in results.facts.items():
        try:
            (known,) = hosts_from_facts({host: facts}, results.inventory)
        except InvalidInput:  # another check reports it
            continue
        found[host] = {kind: count for kind, count in count_devices(known.devices) if kind != PINNED}
    return found


def _by_kind(devices: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """Return the numbers of devices by kind and host, without hosts that have none."""
    counts: dict[str, dict[str, int]] = {}
    for host, of_host in devices.items():
        for kind, count in of_host.items():
            counts.setdefault(kind, {})[host] = count
    return counts


def _traits(results: Results, hosts: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return by trait of a host's GPUs and by host the values that they have."""
    traits: dict[str, dict[str, str]] = {}
    for host in hosts:
        for gpu in results.observed[host].get("nvidia") or ():
            for trait in ("model", "driver"):
                values = traits.setdefault(f"NVIDIA {trait}", {})
                values[host] = ", ".join(sorted({*filter(None, values.get(host, "").split(", ")), gpu[trait]}))
    return traits


def _matrix(options: Options, results: Results) -> Check:
    check = Check(MATRIX)
    slow = {slow.measured.pair: slow for slow in slow_pairs(results.measured, options.given.matrix_ratio)}
    for measurement in results.measured:
        if measurement.pair in slow:
            check.bad_pair(
                WARNING,
                measurement.pair,
                f"Slow: {slow[measurement.pair].describe()}.",
                f"Less than {options.given.matrix_ratio} times from the median of all pairs (preflight_matrix_ratio).",
                "See cable, switch port, duplex and load of both hosts.",
            )
        else:
            check.good_pair(measurement.pair, "Near the median of all pairs.")
    for pair, why in results.unmeasured.items():
        check.bad_pair(
            ERROR, pair, f"It could not be measured: {_sentence(why)}", "Each pair is measured.", "See image ports."
        )
    return check


def _sentence(text: object) -> str:
    """Return text as a sentence."""
    words = str(text or "Nothing is known of it").strip()
    return words if words.endswith((".", "!", "?", ")")) else f"{words}."

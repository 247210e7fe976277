# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with hosts, judged from what they observed: one thing broken, one thing found."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.call.host_preflight import (
    TcpOutcome,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.given import (
    PreflightGiven,
    read_given,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.preflight.checks import (
    Options,
    Results,
    choose_probe_vni,
    format_seconds,
    judge,
    plan_probe,
    storage_probes,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.preflight.findings import (
    ERROR,
    OK,
    WARNING,
    Finding,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.preflight.report import (
    answer_of,
    problems_of,
    report,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.site import Settings
from ansible_collections.cluster_compute.session.tests.support.core.preflight.observations import (
    GIB,
    IMAGE,
    SITE,
    UUIDS,
    folder,
    observation,
)
from hypothesis import given
from hypothesis import strategies as st

IPV4_LIMIT = "net.ipv4.neigh.default.gc_thresh3"


VARIABLES = {
    "session_image": "train:1",
    "session_mounts": ["/srv/shared:/data"],
    "session_encrypted": True,
    "preflight_matrix": True,
}


def options_of(variables: dict[str, Any]) -> Options:
    """Return what these variables ask for, those of the role and of a request."""
    prefix = "preflight_"
    of_role = {key.removeprefix(prefix): value for key, value in variables.items() if key.startswith(prefix)}
    return Options.from_variables(read_given(PreflightGiven, of_role, "preflight"), variables)


def group(count: int = 4) -> Results:
    """Return the results of a group where all is well."""
    names = [f"n{number}" for number in range(count)]
    results = Results(
        known=names,
        unreachable={},
        observed={name: observation(number) for number, name in enumerate(names)},
        inventory={name: copy.deepcopy(SITE) for name in names},
    )
    options = options_of(VARIABLES)
    probe_plan = results.plan = plan_probe(results.observed, Settings(), options.given.peers, 0)
    results.probed = {host: {other: TcpOutcome("", 1500) for other in probe_plan.targets(host)} for host in names}
    results.heard = {
        host: {other: probe_plan.size(host, other) for other in probe_plan.targets(host)} for host in names
    }
    results.heard_plain = {host: probe_plan.targets(host) for host in names}
    results.udp_ports = dict.fromkeys(names, 61000)
    results.ports = dict.fromkeys(names, 8480)
    probes = storage_probes(options, results, probe_plan)
    results.shared = {host: dict.fromkeys(some, True) for host, some in probes.items()}
    return results


def found_in(results: Results, variables: dict[str, Any] | None = None, **clocks: tuple[float, float]) -> list[Finding]:
    """Return what is found, what is well left out; of results as they are by now, which are read once."""
    results = replace(results)
    options = options_of({**VARIABLES, **(variables or {})})
    times = {host: clocks.get(host, (-0.1, 0.2)) for host in results.observed}
    return [finding for finding in judge(options, Settings(), results, times) if finding.severity != OK]


def test_where_all_is_well_there_is_one_line_a_check() -> None:
    results = group(400)
    options = options_of(VARIABLES)
    clocks = dict.fromkeys(results.observed, (-0.1, 0.2))
    findings = judge(options, Settings(), results, clocks)
    assert {finding.severity for finding in findings} == {OK}
    assert [finding.check for finding in findings] == [
        "reach",
        "engine",
        "prepared",
        "kernel",
        "clock",
        "disk",
        "alike",
        "addresses",
        "inventory",
        "encryption",
        "encrypted UDP",
        "tunnel",
        "path MTU",
        "image ports",
        "image",
        "data",
        "accelerators",
    ]
    lines = report(findings, results)
    assert len(lines) == 1 + len(findings) + 1
    assert max(map(len, lines)) < 120
    assert lines[-1] == "400 hosts: 0 errors, 0 warnings."
    assert sum("all 400 hosts" in line for line in lines) == 13
    assert sum(f"all {400 * 399} pairs" in line for line in lines) == 4
    assert problems_of(findings, results, strict=True) == []


Break = Callable[[dict[str, Any]], None]


def put(path: str, value: Any) -> Break:
    """Return what sets one thing that a host observes."""

    def change(observed: dict[str, Any]) -> None:
        *above, last = path.split("/")
        for name in above:
            observed = observed[name]
        observed[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "severity", "check", "words"),
    [
        (put("root", False), ERROR, "reach", "Ansible works as root."),
        (put("engine", None), ERROR, "engine", "runs and answers. Start it"),
        (
            put("host", {"usable": False, "problem": "The ledger is damaged."}),
            ERROR,
            "engine",
            "The ledger is damaged.",
        ),
        (put("host/damaged", ["A record is damaged."]), ERROR, "engine", "Run the repair playbook."),
        (put("engine/storage_driver", "vfs"), WARNING, "engine", "vfs"),
        (put("engine/remaps_users", True), ERROR, "engine", "Take userns-remap out of its daemon.json"),
        (put("engine/limits_swap", False), WARNING, "engine", "swapaccount=1"),
        (put("packages/missing", ["the package iproute2"]), ERROR, "prepared", "It lacks the package iproute2."),
        (put("packages/boot", "The program is old."), WARNING, "prepared", "prepare_hosts"),
        (
            put("packages/trial", "No space left."),
            ERROR,
            "prepared",
            "An empty container does not start there: No space",
        ),
        (put("packages/runtime_lost", "The entry is gone: a."), ERROR, "prepared", "Then run the repair playbook."),
        (put("host/engine/stale_runtime", "Its default is kata."), ERROR, "prepared", "Its default is kata."),
        (put("packages/ssh", "It does not work: no module."), ERROR, "prepared", "It does not work: no module."),
        (put("packages/ssh_release", "The SSH runtime is old."), WARNING, "prepared", "prepare_hosts"),
        (put("host/overlays", None), WARNING, "prepared", "Its containers are not kept out of the overlays"),
        (put("host/overlays/last", 5000), WARNING, "prepared", "UDP port 4789 and the identifiers 4096-16777215"),
        (put("host/overlays/port", 8472), WARNING, "prepared", "Until then each launch in the group writes rules"),
        (put("kernel/links", "Unknown device type"), ERROR, "kernel", "The kernel has VXLAN"),
        (put("kernel/rules", "No chain/target/match by that name."), ERROR, "kernel", "firewall rules"),
        (put("kernel/forwarding", False), ERROR, "kernel", "net.ipv4.ip_forward"),
        (put("kernel/drops_forwarded", True), WARNING, "kernel", "iptables -P FORWARD ACCEPT"),
        (put("kernel/connections", [900, 1000]), WARNING, "kernel", "nf_conntrack_max"),
        (put("kernel/neighbours", {IPV4_LIMIT: 65535}), WARNING, "kernel", f"{IPV4_LIMIT}=65536"),
        (
            put("host/drained", {"reason": "why", "by": "alice", "since": ""}),
            WARNING,
            "prepared",
            "undrain_hosts",
        ),
        (
            put("host/suspect", {"reason": "No space.", "left": 9}),
            WARNING,
            "prepared",
            "suspect, for half an hour at most: No space.",
        ),
        (put("kernel/local_ports", [1024, 60999]), WARNING, "kernel", "cluster_compute_ssh_ports (22000-22999)"),
        (put("kernel/local_ports", [32768, 61001]), WARNING, "kernel", "cluster_compute_encrypted_ports"),
        (put("clock/unsynchronized", True), WARNING, "clock", "chrony"),
        (put("disks/images and containers/free", GIB), ERROR, "disk", "has 1GiB free"),
        (put("disks/images and containers/files_free", 3), ERROR, "disk", "no more than 3 files"),
        (put("engine/cgroup", "1"), WARNING, "alike", "Its cgroup version is 1. 2, as most hosts have."),
        (put("engine/architecture", "aarch64"), WARNING, "alike", "Its architecture is aarch64."),
        (put("engine/image_store", "containerd"), WARNING, "alike", "Its image store is containerd."),
        (put("underlay/mtu", 1400), WARNING, "alike", "Its MTU of the underlay is 1400."),
        (put("underlay", None), ERROR, "addresses", "cluster_compute_underlay_address"),
        (put("underlay/address", "2001:db8::1"), ERROR, "addresses", "another version of IP"),
        (put("host/engine", {"no_rules": '"iptables": false in /x'}), WARNING, "engine", '"iptables": false in /x'),
        (put("host/no_overlay", "UDP port 4789 is held."), ERROR, "addresses", "UDP port 4789 is held."),
        (put("subnets", ["10.0.0.0/8"]), ERROR, "addresses", "cluster_compute_subnet_pool"),
        (put("encryption", "Its kernel has no WireGuard."), ERROR, "encryption", "session_excluded_hosts"),
        (put("host/images/train:1", None), WARNING, "image", "has n0 send it first"),
        (
            put("host/images/train:1", {**IMAGE, "id": "sha256:" + "b" * 64}),
            ERROR,
            "image",
            "session_image is 'train:1'",
        ),
        (put("roots", {"/srv": {**folder(), "kind": "missing"}}), WARNING, "data", "does not exist"),
        (put("roots", {"/srv": {**folder(), "real": "/"}}), ERROR, "data", "would show sessions /var/lib/cc (state)"),
        (put("roots", {"/srv": folder("ext4")}), WARNING, "data", "of the host's own"),
        (put("host/accelerators/gpu/names", UUIDS[:1]), WARNING, "accelerators", "It has 1 of gpu. 2, as most"),
        (put("host/accelerators/gpu/problem", "It is broken."), ERROR, "accelerators", "It is broken."),
        (put("nvidia", [{"model": "NVIDIA L4", "driver": "535.104.05"}]), WARNING, "accelerators", "NVIDIA L4"),
    ],
)
def test_one_thing_broken_is_one_thing_found(change: Break, severity: str, check: str, words: str) -> None:
    results = group()
    observed = results.observed["n2"]
    change(observed)
    found = found_in(results)
    mine = [finding for finding in found if finding.check == check and "n2" in finding.hosts]
    assert mine, found
    assert any(words in f"{finding.found} {finding.expected} {finding.advice}" for finding in mine), mine
    assert {finding.severity for finding in mine} == {severity}
    # Nothing else is found, and nobody else is blamed but where it is a matter of two.
    assert {finding.check for finding in found} == {check}
    if "subnet" not in words and check != "image":
        assert {host for finding in found for host in finding.hosts} == {"n2"}
    assert all(finding.expected and finding.advice for finding in found)


def test_one_that_cannot_be_reached_is_told_and_the_others_are_looked_at() -> None:
    results = group()
    del results.observed["n1"]
    results.unreachable["n1"] = "It cannot be reached: Connection timed out"
    for some in (results.probed, results.heard, results.shared):
        del some["n1"]
    (found,) = found_in(results)
    assert (found.severity, found.check, found.hosts) == (ERROR, "reach", ("n1",))
    assert found.found == "It cannot be reached: Connection timed out."


def test_a_machine_that_has_two_names_is_found() -> None:
    results = group()
    results.observed["n2"]["addresses"].append("192.0.0.1")
    (found,) = found_in(results)
    assert (found.severity, found.check, found.hosts) == (ERROR, "addresses", ("n0",))
    assert found.found == "It and n2 have the address 192.0.0.1."


@pytest.mark.parametrize(
    ("clock", "words"),
    [
        ((17999.5, 18000.5), "Its clock is 5.0 h ahead of the controller's."),
        ((-200.4, -200.0), "Its clock is 3.3 min behind the controller's."),
    ],
)
def test_a_wrong_clock_is_told_with_its_direction(clock: tuple[float, float], words: str) -> None:
    (found,) = found_in(group(), n3=clock)
    assert (found.severity, found.check, found.hosts, found.found) == (ERROR, "clock", ("n3",), words)


def test_a_clock_of_which_it_is_not_certain_is_right() -> None:
    assert found_in(group(), n3=(-60.0, 60.0)) == []
    assert len(found_in(group(), {"preflight_clock_seconds": 1}, n3=(1.5, 2.5))) == 1
    assert [format_seconds(value) for value in (1.0, 59.0, 3600.0, 200000.0)] == [
        "1.0 s",
        "59.0 s",
        "60.0 min",
        "2.3 d",
    ]


def test_a_port_that_is_closed_one_way_is_found_that_way_only() -> None:
    results = group()
    for other in ("n0", "n2", "n3"):
        results.heard["n1"][other] = 0
    (found,) = found_in(results)
    assert (found.severity, found.check) == (ERROR, "tunnel")
    assert found.pairs == (("n0", "n1"), ("n2", "n1"), ("n3", "n1"))
    (line,) = problems_of([found], results, strict=False)
    assert line.startswith("error: tunnel: any -> n1: No VXLAN packet to UDP port 4789 arrived. Open it in")
    assert any("any -> n1" in line for line in report([found], results))


@pytest.mark.parametrize(
    ("change", "severity", "check", "words"),
    [
        (put("heard/n1/n0", 1350), ERROR, "path MTU", "Packets of 1400 bytes arrive, and none of 1500."),
        (
            put("probed/n0/n1", TcpOutcome("", 1420)),
            WARNING,
            "path MTU",
            "A router on the way carries 1420 bytes only, so packets of 1500 are cut in two.",
        ),
        (
            put("probed/n0/n1", TcpOutcome("Connection refused", None)),
            WARNING,
            "image ports",
            "TCP port 8480 does not answer: Connection refused.",
        ),
        (put("heard_plain/n1", ["n2", "n3"]), ERROR, "encrypted UDP", "Nothing arrived at UDP port 61000."),
    ],
    ids=["less than the interfaces carry", "a router that carries less", "an image port", "an encrypted port"],
)
def test_what_a_pair_cannot_do_is_found(change: Break, severity: str, check: str, words: str) -> None:
    results = group()
    change(vars(results))
    (found,) = found_in(results)
    assert (found.severity, found.check, found.pairs) == (severity, check, (("n0", "n1"),))
    assert found.found == words


def test_a_port_of_encrypted_sessions_matters_where_they_are_asked_for() -> None:
    results = group()
    results.heard_plain["n1"].remove("n0")
    assert found_in(results, {"session_encrypted": False}) == []


def test_a_host_that_could_not_hold_a_link_is_told_once() -> None:
    results = group()
    results.failed["n1"] = "The kernel refuses"
    for some in (results.probed, results.heard, results.shared):
        del some["n1"]
    (found,) = found_in(results)
    assert (found.severity, found.check, found.hosts) == (ERROR, "tunnel", ("n1",))


def test_a_folder_that_is_another_one_is_found_on_its_host() -> None:
    results = group()
    results.shared["n2"]["/srv/shared"] = False
    (found,) = found_in(results)
    assert (found.severity, found.check, found.hosts) == (ERROR, "data", ("n2",))
    results.unwritten["/srv/shared"] = ("n0", "No space left on device")
    (found,) = found_in(results)
    assert (found.check, found.hosts) == ("data", ("n0",))
    assert "No space left on device" in found.found


def test_a_folder_that_the_site_does_not_allow_is_refused_as_by_a_launch() -> None:
    results = group()
    results.inventory = {**results.inventory, "n2": {**SITE, "cluster_compute_mount_roots": ["/mnt"]}}
    found = found_in(results)
    assert {(finding.check, finding.severity, finding.hosts) for finding in found} == {("data", ERROR, ("n2",))}
    assert "the site allows only what is below /mnt" in found[0].found


def test_an_image_that_nobody_has_is_asked_for_or_nowhere() -> None:
    results = group()
    for observed in results.observed.values():
        observed["host"]["images"] = {"train:1": None}
    (found,) = found_in(results)
    assert (found.severity, found.check, len(found.hosts)) == (WARNING, "image", 4)
    assert "asks the registry docker.io for it" in found.found
    (found,) = found_in(results, {"session_image_pull": "never"})
    assert (found.severity, found.check, len(found.hosts)) == (ERROR, "image", 4)


def test_what_the_inventory_says_wrongly_is_told_of_its_host() -> None:
    results = group()
    results.inventory = {**results.inventory, "n2": {**SITE, "cluster_compute_cpus": "many"}}
    found = found_in(results)
    assert [(finding.severity, finding.check, finding.hosts) for finding in found] == [(ERROR, "inventory", ("n2",))]
    assert "cluster_compute_cpus of host n2 is 'many'" in found[0].found


def test_a_host_that_a_session_knows_by_the_name_of_another_is_told() -> None:
    results = group()
    objects = {"3614fdf3": {"name": "train", "kinds": ["container"]}}
    results.observed["n2"]["host"].update(objects=objects, host_names={"3614fdf3": "node2"})
    assert found_in(results) == []
    results = group()
    results.observed["n2"]["host"].update(objects=objects, host_names={"3614fdf3": "n1"})
    (found,) = found_in(results)
    assert (found.severity, found.check, found.hosts) == (ERROR, "inventory", ("n2",))
    assert found.found == "The host that the inventory calls n2 is n1 in session train, which runs there."


def test_400_hosts_with_a_few_faults_fit_a_screen() -> None:
    results = group(400)
    for host in ("n17", "n301"):
        results.observed[host]["disks"]["images and containers"]["free"] = GIB
    results.observed["n5"]["engine"] = None
    for other in results.heard["n9"]:
        results.heard["n9"][other] = 0
    options = options_of(VARIABLES)
    findings = judge(options, Settings(), results, {})
    lines = report(findings, results)
    assert len(lines) < 40
    assert next(line.split("  ")[-1] for line in lines if " disk " in line and line.startswith("error"))
    assert any("n17, n301" in line for line in lines)
    assert any("any -> n9" in line for line in lines)
    assert lines[-1] == "400 hosts: 3 errors, 0 warnings."
    answer = answer_of(findings, results, {})
    assert answer["counts"] == {"error": 3, "warning": 0, "ok": len(findings) - 3}
    assert (answer["pairs_tried"], answer["pairs"]) == (400 * 399, 400 * 399)
    assert len(answer["hosts"]) == 400
    alone = answer_of([], replace(results, plan=None), {})
    assert (alone["pairs_tried"], alone["pairs"]) == (0, 0)


def test_where_not_every_pair_is_tried_it_is_said() -> None:
    results = group(20)
    results.plan = plan_probe(results.observed, Settings(), 4, 0)
    assert report([], results)[-1] == "Each host tried 4 others of 19, spread evenly (preflight_peers)."


def test_who_cannot_take_part_is_left_out_of_the_trial() -> None:
    observed = {f"n{number}": observation(number) for number in range(6)}
    observed["n1"]["underlay"] = None
    observed["n2"]["underlay"]["address"] = "2001:db8::1"
    observed["n3"]["underlay"]["address"] = observed["n4"]["underlay"]["address"]
    observed["n5"]["underlay"]["mtu"] = 400
    probe_plan = plan_probe(observed, Settings(), 400, 0)
    assert list(probe_plan.hosts) == ["n0"]
    assert list(probe_plan.left_out) == ["n5"]


@given(st.integers(0, 2**32), st.sets(st.integers(1, 300)), st.integers(1, 200), st.integers(0, 200))
def test_the_identifier_of_the_trial_is_nobody_s(seed: int, used: set[int], low: int, more: int) -> None:
    found = choose_probe_vni(f"{low}-{low + more}", used, seed)
    assert found not in used
    assert 1 <= found < 2**24
    assert not low <= found <= low + more or set(range(1, 16)) <= used


def test_the_identifier_of_the_trial_is_one_that_no_session_gets_if_there_is_any() -> None:
    others = set(range(1, 4096))
    assert {choose_probe_vni("4096-16777215", others - {17, 99}, seed) for seed in range(20)} == {17, 99}
    assert choose_probe_vni("4096-16777215", others | {4096}, 0) == 4097


def test_control_characters_of_a_host_do_not_reach_the_terminal() -> None:
    results = group()
    results.observed["n1"]["engine"] = None
    results.observed["n1"]["engine_problem"] = "bad \x1b[2J engine"
    found = found_in(results)
    assert not any("\x1b" in line for line in report(found, results) + problems_of(found, results, strict=True))

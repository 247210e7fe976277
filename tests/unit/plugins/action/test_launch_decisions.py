# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What launches decide by the hosts of the lab as they were recorded: who goes where, who waits, what is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import (
    COMMITTED,
    Claim,
    Reservation,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import decode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.plan import read_plan
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.environment import (
    environments,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.resources import PINNED
from ansible_collections.cluster_compute.session.tests.support.recorded_hosts import (
    BUSYBOX,
    HOSTS,
    RECORDED,
    launch,
    placed,
)

BASE = {"session_name": "place", "session_image": BUSYBOX, "session_memory": "64m", "session_command": "sleep 8888"}
CANARY = "/tmp/cluster-compute-canary"


def _cpus(**cpus: object) -> dict[str, dict[str, Any]]:
    return {host: {"cluster_compute_cpus": value} for host, value in cpus.items()}


# What each rule does is shown in core/rules/test_placement.py.
CASES: dict[str, tuple[dict[str, Any], dict[str, dict[str, Any]], dict[str, str]]] = {
    "designated hosts": (
        {"session_size": 3, "session_hosts": "n2,n3"},
        {},
        {"main1": "n2", "sub1": "n2", "sub2": "n3"},
    ),
    "a host's own limit": (
        {"session_size": 2},
        {"n1": {"cluster_compute_max_replicas": 1}, "n2": {"cluster_compute_max_replicas": 0}},
        {"main1": "n3", "sub1": "n3"},
    ),
    # n1 and n3 stand in rack r1; inventory order alone would take n1 and n2.
    "hosts of one rack": (
        {"session_size": 4},
        {},
        {"main1": "n1", "sub1": "n1", "sub2": "n3", "sub3": "n3"},
    ),
    "another resource group": (
        {"session_size": 3, "session_resource_group": "small_pool"},
        {},
        {"main1": "n2", "sub1": "n2", "sub2": "n3"},
    ),
    "spread evens out": (
        {"session_size": 4, "session_policy": "spread"},
        _cpus(n1=3, n2=1, n3=3),
        {"main1": "n1", "sub1": "n1", "sub2": "n3", "sub3": "n3"},
    ),
    "reserved capacity is not given away": (
        {"session_size": 1, "session_cpus": "0.5"},
        {
            "n1": {"cluster_compute_cpus": "", "cluster_compute_reserved_cpus": 10000},
            "n2": {"cluster_compute_cpus": "400m"},
        },
        {"main1": "n3"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_replicas_go_where_the_rules_say(case: str) -> None:
    request, inventory, wanted = CASES[case]
    answer = launch({**BASE, **request}, inventory)
    assert answer["status"] == "SCHEDULED", answer
    assert placed(answer) == wanted
    assert set(answer["claims"]) == set(answer["hosts"]) == set(wanted.values())


def test_what_fits_one_host_is_planned_alike_in_either_mode() -> None:
    plans = []
    for mode in ("single-node", "multi-node"):
        plan = launch({**BASE, "session_size": 2, "session_mode": mode})["record"]["plan"]
        assert (plan["session"]["mode"], plan["session"]["requested_mode"]) == ("single-node", mode)
        assert (plan["network"]["driver"], list(plan["hosts"])) == ("bridge", ["n1"])
        plans.append(
            [
                (replica["name"], replica["host"], replica["local_rank"], replica["node_rank"])
                for replica in plan["replicas"]
            ]
        )
    assert plans[0] == plans[1] == [("main1", "n1", 0, 0), ("sub1", "n1", 1, 0)]


def test_four_replicas_of_two_cpus_all_go_to_the_host_with_eight() -> None:
    request = {**BASE, "session_mode": "multi-node", "session_size": 4, "session_cpus": 2}
    plan = launch(request, _cpus(n1=3, n2=3, n3=8))["record"]["plan"]
    assert [replica["host"] for replica in plan["replicas"]] == ["n3"] * 4
    assert [replica["local_rank"] for replica in plan["replicas"]] == [0, 1, 2, 3]
    variables = environments(read_plan(plan), "n3")
    assert {replica_variables["BACKENDAI_CLUSTER_MODE"] for replica_variables in variables.values()} == {"single-node"}
    assert [variables[replica["name"]]["LOCAL_RANK"] for replica in plan["replicas"]] == ["0", "1", "2", "3"]


def test_the_same_input_gives_the_same_plan() -> None:
    first, second = (launch({**BASE, "session_size": 5}) for _try in range(2))
    assert placed(first) == placed(second)
    assert len(placed(first)) == 5


def _rows(report: list[str]) -> dict[tuple[str, str], list[str]]:
    """Return the table of a pending session: (host, resource) to asked, free, missing and replicas that fit."""
    lines = [re.split(r" {2,}", line) for line in report]
    head = next(line for line in lines if line[0] == "host")
    assert head == ["host", "resource", "asked", "free", "missing", "replicas that fit"]
    rows = {(line[0], line[1]): line[2:] for line in lines if line[0] in (*HOSTS, "all hosts")}
    assert len(rows) >= 2 * (len(HOSTS) + 1)
    return rows


class TestPending:
    """What does not fit now: a table, and no error."""

    def test_multi_node_names_host_resource_shortfall_and_the_largest_size(self) -> None:
        answer = launch({**BASE, "session_size": 7, "session_memory": "1g"})
        assert (answer["status"], answer["record"], answer["pending"]["status"]) == ("PENDING", None, "PENDING")
        report = answer["report"]
        assert report[0] == "Session place is PENDING, position 1 in the queue."
        rows = _rows(report)
        for host in HOSTS:
            assert rows[host, "cpus"] == ["1", "2", "0", "2"]
            assert rows[host, "memory"][:3] == ["1GiB", "2GiB", "0B"]
        assert rows["all hosts", "cpus"] == ["7", "6", "1"]
        assert rows["all hosts", "memory"] == ["7GiB", "6GiB", "1GiB"]
        assert "Largest size that fits now in mode multi-node: 6." in report

    def test_single_node_that_fits_no_host_is_pending_although_all_hosts_together_have_room(self) -> None:
        answer = launch({**BASE, "session_size": 3, "session_mode": "single-node"})
        assert answer["status"] == "PENDING"
        assert answer["report"][0] == "Session place is PENDING, position 1 in the queue."
        assert "Largest size that fits now in mode single-node: 2." in answer["report"]
        rows = _rows(answer["report"])
        for host in HOSTS:
            assert rows[host, "cpus"][:3] == ["3", "2", "1"]
            assert rows[host, "memory"][:3] == ["192MiB", "2GiB", "0B"]


def _missing(*hosts: str) -> dict[str, Mapping[str, Any]]:
    """Return the answers of hosts on which /srv/not-on-n3 is missing, and of others on which it is there."""
    paths = {host: RECORDED[host]["paths"]["/srv/nowhere" if host in hosts else "/srv/shared"] for host in HOSTS}
    place = "/srv/not-on-n3"
    there = {"real": place, "ancestors": {"/": "/", "/srv": "/srv", place: place}}
    return {host: {"paths": {place: {**accelerator, **there}}} for host, accelerator in paths.items()}


NULL: dict[str, Mapping[str, Any]] = {}
TAKEN = {host: {"foreign_containers": ["taken-main1"]} for host in HOSTS}
CARDS = ["/dev/cc-a", "/dev/cc-b"]
SITE = {host: {"cluster_compute_cpus": 2, "cluster_compute_accelerators": {"card": CARDS}} for host in HOSTS}
CARD = {"session_accelerators": {"card": 1}, "session_pin_cpus": True, "session_hosts": ["n2"]}
UUIDS = ["GPU-c7b57be0-94ff-d352-a59b-d0ee00aeed43", "GPU-d6de6afc-bdfe-75c4-5273-0544439153fc"]
GPU = {"n2": {"cluster_compute_accelerators": {"gpu": "nvidia"}}}
CDI = {"cluster_compute_accelerators": {"card": {"cdi": "example.com/card"}}}


def _address(host_ip: str) -> dict[str, Any]:
    return {"session_ports": [{"host_ip": host_ip, "container_port": 80, "host_port": 7301}]}


# What is asked, what the inventory says beside the lab's own, what hosts answer otherwise, and what is said.
REFUSED: dict[str, tuple[dict[str, Any], Mapping[str, Any], Mapping[str, Any], list[str]]] = {
    "more cpus than any host has": ({"session_cpus": 3}, NULL, NULL, ["session_cpus is '3'", "offers 2 "]),
    "more memory than any host has": ({"session_memory": "3g"}, NULL, NULL, ["session_memory", "3", "2GiB"]),
    "a mount that is nowhere": (
        {"session_mounts": "/srv/nowhere:/data"},
        NULL,
        NULL,
        ["session_mounts", "/srv/nowhere", "n1, n2, n3"],
    ),
    "a mount that one host lacks": (
        {"session_mounts": "/srv/not-on-n3:/data", "session_size": 3, "session_max_replicas_per_host": 1},
        NULL,
        _missing("n3"),
        ["session_mounts", "/srv/not-on-n3", "does not exist on n3."],
    ),
    "a mount named for a shell": (
        {"session_mounts": [{"source": f"/srv/$(touch {CANARY})", "target": "/data"}]},
        NULL,
        NULL,
        ["session_mounts", "touch", "does not exist"],
    ),
    "a folder in which no host can write": (
        {"session_mounts": "/srv/shared:/data", "session_size": 3, "session_max_replicas_per_host": 1},
        NULL,
        {
            host: {"paths": {"/srv/shared": {**RECORDED[host]["paths"]["/srv/shared"], "read_only": True}}}
            for host in HOSTS
        },
        ["session_mounts", "No host of the session can write there (n1, n2, n3)", "set shared: false"],
    ),
    "a port that is taken": ({"session_ports": "22:22"}, NULL, NULL, ["session_ports", "22", "taken on n1"]),
    "a host that does not exist": ({"session_hosts": "n1,n9"}, NULL, NULL, ["session_hosts", "n9"]),
    "all hosts excluded": ({"session_excluded_hosts": "n1,n2,n3"}, NULL, NULL, ["session_excluded_hosts"]),
    "a container of another session": (
        {"session_name": "taken"},
        NULL,
        TAKEN,
        ["session_name", "taken", "taken-main1", "which somebody else has on n1"],
    ),
    "a label that is none": (
        {},
        {"n3": {"cluster_compute_labels": "r1"}},
        NULL,
        ["n3", "cluster_compute_labels", "rack"],
    ),
    "more accelerators than any host has": (
        {**CARD, "session_accelerators": {"card": 3}},
        SITE,
        NULL,
        ["session_accelerators.card is '3'"],
    ),
    "more cpus with accelerators": ({**CARD, "session_cpus": 3}, SITE, NULL, ["session_cpus is '3'"]),
    "accelerators that are no list": (
        CARD,
        {**SITE, "n3": {"cluster_compute_accelerators": {"card": 2}}},
        NULL,
        ["cluster_compute_accelerators of host n3 is {'card': 2}"],
    ),
    "more detected accelerators than any host has": (
        {"session_accelerators": {"gpu": 3}},
        GPU,
        {"n2": {"accelerators": {"gpu": {"names": UUIDS, "paths": {}, "links": {}, "problem": ""}}}},
        ["session_accelerators.gpu is '3': No host can give that to one replica; the most any has"],
    ),
    "accelerators that were not detected": (
        {"session_accelerators": {"gpu": 1}},
        GPU,
        {"n2": {"accelerators": {"gpu": {"names": [], "paths": {}, "links": {}, "problem": "It failed."}}}},
        ["session_accelerators.gpu is '1'", "Accelerators gpu of n2 were not detected: It failed."],
    ),
    **{
        f"CDI devices of {host}, whose engine hands none over": (
            {"session_accelerators": "card=1"},
            {host: CDI},
            NULL,
            [
                f"cluster_compute_accelerators of host {host} is ",
                "does not support CDI devices. That needs 25.0 or newer",
            ],
        )
        for host in ("n1", "n3")
    },
    **{
        f"the address {address}": (
            _address(address),
            NULL,
            NULL,
            [f"session_ports is '{address}:7301/tcp'", "None of n1, n2, n3 has this address"],
        )
        for address in ("192.0.2.7", "10.255.255.1", "2001:db8::7")
    },
}


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_refused_with_variable_value_and_what_there_is(case: str) -> None:
    request, inventory, facts, wanted = REFUSED[case]
    answer = launch({**BASE, **request}, inventory, facts)
    assert answer.get("failed"), answer
    text = answer["msg"]
    assert [part for part in wanted if part not in text] == [], text
    lines = text.splitlines()
    assert len(lines) > 1
    assert [line for line in lines if not line.endswith((".", ":", "?"))] == []
    assert not re.search(r"Traceback|<class|Error\(|is None\b", text), text


def test_a_port_of_an_address_that_a_host_has_is_no_reason_to_refuse() -> None:
    (address, *_others) = RECORDED["n1"]["addresses"]
    assert launch({**BASE, **_address(address)})["status"] == "SCHEDULED"


class TestDevices:
    """Who gets which accelerators and CPUs."""

    def test_detected_cards_go_to_the_replicas_by_name(self) -> None:
        accelerator = {"names": UUIDS, "paths": {}, "links": {}, "problem": ""}
        request = {**BASE, "session_accelerators": {"gpu": 1}, "session_size": 2}
        answer = launch(request, GPU, {"n2": {"accelerators": {"gpu": accelerator}}})
        assert [replica["devices"] for replica in answer["record"]["plan"]["replicas"]] == [
            {"gpu": [uuid]} for uuid in UUIDS
        ]
        assert answer["claims"]["n2"]["claim"]["devices"] == {"gpu": UUIDS}

    def test_whoever_waits_for_a_card_and_a_pinned_cpu_is_told_what_is_lacking(self) -> None:
        devices = (("card", tuple(CARDS)), (PINNED, ("0", "1")))
        held = Claim("5c7a1f0e-0000-4000-8000-000000000000", "other", 2, 200, 1, devices)
        reservations = [Reservation(held, COMMITTED, "boot", None).to_dict()]
        answer = launch({**BASE, **CARD}, SITE, {"n2": {"reservations": reservations}})
        assert answer["status"] == "PENDING"
        rows = {tuple(re.split(r" {2,}", line)[:2]): line.split()[-3:] for line in answer["report"]}
        assert rows["n2", "card"] == rows["n2", PINNED] == ["1", "0", "1"]

    def test_whole_cores_are_given_away_with_the_memory_of_their_node(self) -> None:
        cores = {"cores": [{"node": 0, "cpus": [0, 1]}], "memory": {"0": 11771535360}}
        pinned = {**BASE, **CARD, "session_accelerators": "", "session_policy": "inventory"}
        answer = launch(pinned, SITE, {"n2": {"topology": cores}})
        (main,) = answer["record"]["plan"]["replicas"]
        (devices,) = main["devices"].values()
        assert (devices, main["memory_nodes"], main["resources"]["cpus"]) == (["0", "1"], [0], 1000)
        held = [Reservation(decode(Claim, answer["claims"]["n2"]["claim"], "It"), COMMITTED, "boot", None).to_dict()]
        waiting = launch({**pinned, "session_name": "second"}, SITE, {"n2": {"topology": cores, "reservations": held}})
        assert waiting["status"] == "PENDING"
        row = next(line.split()[-3:] for line in waiting["report"] if PINNED in line)
        assert row == ["2", "0", "2"], waiting["report"]
        # As the machine is, each of two replicas gets a core of its own.
        both = launch({**pinned, "session_size": 2, "session_mode": "single-node"}, SITE)
        assert [[*replica["devices"].values()] for replica in both["record"]["plan"]["replicas"]] == [[["0"]], [["1"]]]

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts that answer what a test says, to drive a verb without Ansible."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import (
    COMMITTED,
    Reservation,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.plan import read_plan
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    Record,
    read_record,
    started,
    stub_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import (
    Request,
    parse_request,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.ledger import claims_of
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs import launch
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.launch import launch_request
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.verb import (
    Outside,
    State,
    calls_of,
    hosts_of,
)
from ansible_collections.cluster_compute.session.tests.support.core.verbs.begun import begun

IMAGE = f"sha256:{'5' * 64}"
AWAY: dict[str, Any] = {"unreachable": True, "msg": "No route."}
BROKEN: dict[str, Any] = {"failed": True, "msg": "The disk is full."}
GRANTED: dict[str, Any] = {"granted": True, "reasons": [], "tentative": [], "actions": ["create key"]}


def request(**given: Any) -> Request:
    values = {"name": "train", "image": "busybox", "size": 3, "max_replicas_per_host": 1, **given}
    return parse_request({f"session_{key}": value for key, value in values.items()})


def refused(why: str, *tentative: str) -> dict[str, Any]:
    return {"granted": False, "reasons": [why], "tentative": list(tentative), "public_keys": {}, "actions": []}


def facts(*records: Record, held: Sequence[Reservation] = (), number: int = 1, **more: Any) -> dict[str, Any]:
    """Return the facts of a host with two CPUs."""
    return {
        "usable": True,
        "engine": {"architecture": "x86_64", "limits_swap": True, "image_store": "docker"},
        "capacity": {"cpus": 2000, "memory": 8 << 30},
        "topology": {"cores": [{"node": 0, "cpus": [0]}, {"node": 0, "cpus": [1]}], "memory": {"0": 8 << 30}},
        "containers": [],
        "foreign_containers": [],
        "objects": {},
        "reservations": [encode(claim) for claim in held],
        "underlay": {"address": f"192.0.2.{number}", "interface": "eth0", "mtu": 1500},
        "subnets": [],
        "vnis": [],
        "overlays": None,
        "ports": [],
        "images": {"busybox": {"id": IMAGE, "digests": [], "architecture": "amd64"}},
        "paths": {},
        "records": encode(records),
        "public_keys": {},
        "damaged": [],
        "tombstones": [],
        "ledger_is_damaged": False,
        "signature": "as it was",
        **more,
    }


class Launch:
    """One launch, decision after decision."""

    def __init__(
        self,
        wanted: Request | None = None,
        hosts: int = 3,
        *,
        forks: int = 5,
        check_mode: bool = False,
        wait: int = 0,
        recreate: bool = False,
        waits: Record | None = None,
        min_size: int | None = None,
        displaced: Mapping[str, str] | None = None,
        unreachable: Sequence[str] = (),
        on_no_capacity: str = "queue",
        **options: Any,
    ) -> None:
        self.hosts = {f"h{number}": facts(number=number) for number in range(1, hosts + 1)}
        self.forks, self.check_mode, self.now = forks, check_mode, 1000.0
        self.ids = itertools.count(1)
        self.site: dict[str, Any] = {}
        self.of_each_host: dict[str, Any] = {}
        given = launch_request(
            wanted or request(),
            "alice",
            recreate=recreate,
            on_no_capacity="wait" if wait else on_no_capacity,
            wait_seconds=wait,
            min_size=min_size,
            displaced=dict(displaced or {}),
            known_unreachable=list(unreachable),
            waits=waits,
        )
        self.state: State = begun(launch, list(self.hosts), self.now, request=given, **options)
        self.steps: list[str] = []
        self.ended: Any = None

    @property
    def step(self) -> str:
        return str(self.state["step"])

    @property
    def record(self) -> Record:
        return read_record(self.state["record"])

    def record_of(self, host: str) -> Record:
        """Return the only record that a host has."""
        (record,) = self.hosts[host]["records"]
        return read_record(record)

    def sent(self, host: str = "h1", number: int = 0) -> dict[str, Any]:
        """Return what a host is told in the state's step."""
        return calls_of(self.state, host)[number][1]

    def answer(self, answers: Mapping[str, Any] | None = None, **of_hosts: Any) -> Launch:
        """Answer the state's step, as all goes well but for *of_hosts*; decide."""
        self.steps.append(self.step)
        good_answers: dict[str, Callable[[str], dict[str, Any]]] = {
            "look": lambda host: {"host": self.hosts[host]},
            "wait": lambda host: {"results": [{"moved": True}, {"host": self.hosts[host]}]},
            "hold": lambda host: {**GRANTED, "public_keys": self._keys(host)},
            "name": lambda _host: GRANTED,
            "begin": lambda host: {"actions": [], "begun": []},
            "ready": lambda host: {"begun": []},
            "start": self._started,
            "meet": lambda host: {"replicas": self._replicas(host)},
            "replace": lambda _host: {"actions": [], "sessions": [], "tombstones": []},
            "undo": lambda _host: {"actions": [], "sessions": [], "tombstones": []},
            "reserve": lambda host: {**GRANTED, "public_keys": self._keys(host)},
            "fence": lambda _host: {"actions": []},
            "again": self._amended,
            "apply": self._amended,
            "join": lambda host: {"replicas": self._replicas(host)},
            "batch": lambda _host: {"started": ["main1"]},
        }
        good = good_answers.get(self.step, lambda _host: {"actions": []})
        found = {host: good(host) for host in hosts_of(self.state)}
        found.update(answers or {}, **of_hosts)
        outside = Outside(
            now=self.now,
            draw=lambda: f"{next(self.ids):08d}-0000-4000-8000-000000000000",
            forks=self.forks,
            check_mode=self.check_mode,
            inventory=dict.fromkeys(self.hosts, self.of_each_host),
            site=self.site,
            has_ended=lambda lease_owner: lease_owner == "it has ended",
        )
        self.state = launch.advance(self.state, found, outside)
        return self

    def until(self, step: str) -> Launch:
        """Let all go well until the state names a step; empty for the end."""
        for _turn in range(40):
            if self.step == step:
                return self
            self.answer()
        raise AssertionError(f"{step} does not come: {self.steps}")

    def _members(self, host: str) -> list[dict[str, Any]]:
        return [replica for replica in self.record.plan["replicas"] if replica["host"] == host]

    def _keys(self, host: str) -> dict[str, Any]:
        return {replica["name"]: {"client": f"c {replica['name']}", "host": "h"} for replica in self._members(host)}

    def _replicas(self, host: str) -> list[dict[str, Any]]:
        return [
            {"name": each["name"], "host": host, "container": each["container"], "rank": each["rank"]}
            for each in self._members(host)
        ]

    def _started(self, host: str) -> dict[str, Any]:
        if host in self.state["hosts"]:
            return {"actions": ["create container"], "replicas": self._replicas(host)}
        return {"actions": ["create record train"], "public_keys": {}}

    def _amended(self, host: str) -> dict[str, Any]:
        if self.sent(host).get("prove"):
            return {"actions": ["create container"], "replicas": self._replicas(host)}
        return {"actions": ["update peers of link"]}

    def run_on(self, wanted: Request | None = None, **options: Any) -> Launch:
        """Return another launch, made where this one has started all of its session; by default of the same request."""
        record = started(self.record)
        again = Launch(wanted or Request.from_dict(record.request), len(self.hosts), forks=self.forks, **options)
        claims = claims_of(read_plan(record.plan))
        images = {"busybox": {"id": IMAGE, "digests": [], "architecture": "amd64"}}
        images[IMAGE] = images["busybox"]
        for known in again.hosts.values():
            known["images"] = images
        for host in {*record.witnesses} - {*record.hosts}:
            again.hosts[host] = facts(stub_of(record), number=int(host[1:]), images=images)
        for host in record.hosts:
            number = int(host[1:])
            held = [Reservation(claims[host], COMMITTED, "boot", None)]
            keys = {record.id: self._keys(host)}
            again.hosts[host] = facts(record, held=held, number=number, public_keys=keys, images=images)
        return again

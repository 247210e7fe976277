# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Resource groups to draw: overviews as session_info returns them, made by the core from what hosts would report."""

from __future__ import annotations

import uuid
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.cluster.group import GroupFacts
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.cluster.state import cluster_state
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import (
    COMMITTED,
    Reservation,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    ERROR,
    PENDING,
    QueueTicket,
    Record,
    advance,
    new_record,
    prepared,
    started,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import (
    Request,
    parse_request,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.access import ADMIN
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.build import (
    PlanInputs,
    build_plan,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.capacity import (
    hosts_from_facts,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.ledger import claims_of
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.placement import (
    Host,
    Placement,
    place,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.queue import (
    Waiting,
    schedule_queue,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.site import Settings
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.show.overview import overview
from ansible_collections.cluster_compute.session.tests.support.host_facts import typed

GIB = 1024**3
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAID0D3s8E9JWn04xEIs9iqqoeVlWJbCLHvqIY+zMlCfIT alice@example.com"
IMAGE = f"sha256:{'1f2e3d4c' * 8}"
HOSTILE = (
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    "\"'><img src=x onerror=alert(3)>",
    "--><svg/onload=alert(4)>",
    "{{ 7 * 7 }}&amp;&lt;b&gt;",
    "مرحبا\u202eevil",
    "x" * 300,
    "a\x00b\x1b[31mc",
)
"""Values that break out of, or break, what was not made with care."""


class Group:
    """Hosts of a resource group, and what sessions are on them."""

    def __init__(self, hosts: dict[str, dict[str, Any]], cpus: int, memory: int) -> None:
        self.inventory = hosts
        self.why_missing: dict[str, str] = {}
        self.number = 0
        self.facts: dict[str, dict[str, Any]] = {
            name: {
                "usable": True,
                "problem": "",
                "engine": {"version": "26.1.5", "architecture": "x86_64"},
                "capacity": {"cpus": cpus * 1000, "memory": memory * GIB},
                "underlay": {"address": f"192.0.{place // 250}.{place % 250 + 1}", "interface": "eth0", "mtu": 1500},
                "subnets": [],
                "vnis": [],
                "containers": [],
                "reservations": [],
                "records": [],
                "objects": {},
                "tombstones": [],
                "damaged": [],
            }
            for place, name in enumerate(hosts)
        }

    def lose(self, host: str, why: str) -> None:
        """Let a host be out of reach from now on."""
        del self.facts[host]
        self.why_missing[host] = why

    def launch(self, owner: str = "alice", states: dict[str, int | None] | None = None, **variables: Any) -> None:
        """Start a session.

        states: of replicas that do not run, their exit code, or None for one whose container is gone.
        """
        states = states or {}
        request, session_id = self._request(variables)
        hosts = self._hosts()
        placement = place(request, hosts)
        assert isinstance(placement, Placement), (request.name, placement)
        free = {host.name: host.free_devices for host in hosts}
        plan = build_plan(request, placement, session_id, PlanInputs(typed(self.facts), Settings(), free))
        for pinned in plan.images.values():
            pinned.ids.update(dict.fromkeys(pinned.ids, IMAGE))
        record = started(prepared(new_record(session_id, owner, request.to_dict()), encode(plan)))
        networks = [plan.egress.subnet, *([plan.network.subnet] if plan.network else [])]
        claims = claims_of(plan)
        for name, facts in self.facts.items():
            facts["subnets"] += networks
            facts["vnis"] += [plan.network.vni] if plan.network and plan.network.vni else []
            if name in claims:
                facts["records"].append(encode(record))
                facts["reservations"].append(Reservation(claims[name], COMMITTED, "boot", None).to_dict())
                facts["objects"][session_id] = {"name": request.name, "kinds": ["container"]}
        for replica in encode(plan.replicas):
            code = states.get(replica["name"], -1)
            if code is None:
                continue
            ends = {"exit_code": code, "oom_killed": code == 137, "finished": "2026-01-01T00:00:00Z", "restarts": 3}
            share = (replica["rank"] * 37 + len(request.name) * 11) % 90 + 5
            self.facts[replica["host"]]["containers"].append(
                {
                    "name": replica["container"],
                    "session_id": session_id,
                    "session_name": request.name,
                    "replica": replica["name"],
                    "cpus": replica["resources"]["cpus"],
                    "memory": replica["resources"]["memory"],
                    "devices": replica["devices"],
                    "state": "running" if code < 0 else "exited",
                    "exit_code": None if code < 0 else code,
                    "usage": {
                        "cpus": replica["resources"]["cpus"] * share // 100,
                        "memory": replica["resources"]["memory"] * (100 - share) // 100,
                    }
                    if code < 0
                    else None,
                    "failure": ends if code > 0 else None,
                }
            )

    def wait(self, owner: str = "bob", **variables: Any) -> None:
        """Put a session into the queue."""
        request, session_id = self._request(variables)
        record = new_record(session_id, owner, request.to_dict())
        report = ("There was no room.",)
        waiting = advance(record, PENDING, "There was no room for it.", queue=QueueTicket(self.number), report=report)
        self._keep(waiting)

    def fail(self, owner: str = "carol", **variables: Any) -> None:
        """Record a session that a failure has ended."""
        request, session_id = self._request(variables)
        record = new_record(session_id, owner, request.to_dict())
        why = "Replica sub1 on h2 ended with exit code 3 after 3 restarts. Its failure policy is restart."
        self._keep(advance(started(record), ERROR, why, report=(why,)))

    def look(self) -> dict[str, Any]:
        """Return the overview."""
        cluster = cluster_state(typed(self.facts), list(self.why_missing))
        waiting = [
            Waiting(record.id, Request.from_dict(record.request), record.queue_number) for record in cluster.pending()
        ]
        known = list(self.inventory)
        entries = schedule_queue(waiting, self._hosts(), (), known)
        group = GroupFacts(typed(self.facts), self.why_missing, known, [*self.why_missing], self.inventory)
        return dict(encode(overview("cluster_compute_hosts", group, cluster, entries, asker=ADMIN)))

    def _request(self, variables: dict[str, Any]) -> tuple[Request, str]:
        self.number += 1
        given = {"image": "registry.example.com/train:1.4", **variables}
        request = parse_request({f"session_{key}": value for key, value in given.items()})
        return request, str(uuid.uuid5(uuid.NAMESPACE_URL, f"{request.name} {self.number}"))

    def _keep(self, record: Record) -> None:
        for facts in self.facts.values():
            facts["records"].append(encode(record))

    def _hosts(self) -> list[Host]:
        return hosts_from_facts(typed(self.facts), self.inventory)


def small() -> dict[str, Any]:
    """Three hosts as in the picture of the overview document: a session across hosts, one on a bridge, a single one."""
    hosts: dict[str, dict[str, Any]] = {
        f"h{number}": {"cluster_compute_labels": {"rack": f"r{min(number, 2)}", "zone": "a"}} for number in (1, 2, 3)
    }
    hosts["h3"]["cluster_compute_accelerators"] = {"gpu": ["/dev/dri/card0", "/dev/dri/card1"]}
    group = Group(hosts, 8, 32)
    group.launch(
        name="train",
        size=4,
        cpus=4,
        memory="8g",
        ports=["8080:80"],
        env={"TOKEN": "s3cret"},
        command=["python", "train.py", "--epochs", "3"],
        authorized_keys=[KEY],
        ssh_port=40022,
        states={"sub3": 137},
    )
    group.launch(name="notebook", size=2, cpus=2, memory="4g", owner="dora", mode="single-node", states={"sub1": 0})
    group.launch(name="explore", cpus=1, memory="2g", accelerators={"gpu": 1}, owner="erik")
    group.wait(name="large", size=16, cpus=4, memory="16g", priority=5)
    group.wait(name="later", size=6, cpus=4, memory="4g")
    group.fail(name="broken", size=3, cpus=1)
    return group.look()


def large(hosts: int = 300) -> dict[str, Any]:
    """Many hosts, some of them idle and two of them away, with sessions of all sizes."""
    names: dict[str, dict[str, Any]] = {}
    for number in range(1, hosts + 1):
        variables: dict[str, Any] = {"cluster_compute_labels": {"rack": f"r{(number - 1) // 20 + 1:02d}"}}
        if number % 10 == 0:
            variables["cluster_compute_accelerators"] = {"gpu": [f"/dev/dri/card{card}" for card in range(4)]}
        names[f"node{number:03d}"] = variables
    group = Group(names, 64, 256)
    for number in range(1, 61):
        options: dict[str, Any] = {"name": f"job-{number:02d}", "owner": f"user{number % 7}", "memory": "8g", "cpus": 8}
        if number % 3 == 0:
            options.update(size=number % 16 + 8, cpus=32, memory="64g")
        elif number % 3 == 1:
            options.update(size=4)
        group.launch(states={"sub2": None} if number in (15, 42) else None, **options)
    group.launch(name="vast", size=120, cpus=48, memory="100g", owner="grace")
    for number in range(1, 6):
        group.wait(name=f"waits-{number}", size=500 + number, cpus=64, memory="32g", priority=number)
    group.fail(name="broken", size=3, cpus=1)
    group.lose("node007", "It could not be reached.")
    group.lose("node299", "Docker Engine cannot be reached on this host (connection refused).")
    return group.look()


def empty() -> dict[str, Any]:
    """One host, on which there is nothing."""
    return Group({"h1": {}}, 2, 4).look()


def hostile() -> dict[str, Any]:
    """The small group with each of the hostile values in every place that holds text, one way or the other."""
    count = 0

    def spoil(value: Any, key: str = "") -> Any:
        nonlocal count
        if isinstance(value, dict):
            return {name: spoil(inner, str(name)) for name, inner in value.items()}
        if isinstance(value, list):
            return [spoil(inner, key) for inner in value]
        if isinstance(value, str) and key not in ("status", "id", "session_id", "driver", "host", "hosts"):
            count += 1
            return f"{value}{HOSTILE[count % len(HOSTILE)]}"
        return value

    found = spoil(small())

    def rename(host: str) -> str:
        return f"{host}{HOSTILE[int(host[1:]) % 4]}"

    for host, name in zip(found["hosts"], ("h1", "h2", "h3")):
        host["name"] = rename(name)
        host["labels"] = {HOSTILE[0]: HOSTILE[1]}
    for session in found["sessions"]:
        session["hosts"] = [rename(host) for host in session["hosts"]]
        for replica in session["replicas"]:
            replica["host"] = rename(replica["host"])
            replica["devices"] = {HOSTILE[2]: [HOSTILE[3]]}
    return dict(found)

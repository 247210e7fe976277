# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host finds of a session when a change comes to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.ledger import LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import (
    Allocatable,
    Claim,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    PENDING,
    QueueTicket,
    Record,
    advance,
    new_record,
    stub_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.times import Times
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs import schedule
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import change_steps
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.durations import (
    carry_on,
    part_times,
)
from ansible_collections.cluster_compute.session.tests.support.core.verbs.begun import begun
from ansible_collections.cluster_compute.session.tests.support.core.verbs.group import (
    request,
)
from ansible_collections.cluster_compute.session.tests.support.hosts_in_memory import Host, World, in_memory


@pytest.mark.parametrize("moment", [3, 4])
def test_a_host_that_knows_a_session_as_one_that_waits_takes_part_in_its_change(tmp_path: Path, moment: int) -> None:
    """It was away when the session started, and is again while the copy is replaced."""
    wanted = {"name": "ash", "cpus": "2", "max_replicas_per_host": 1, "max_size": 3}
    with in_memory() as worlds:
        world = World(tmp_path)
        worlds.append(world)
        world.launch(request(size=2, **wanted))
        runs = world.copies("ash")["h1"]
        fresh = new_record(runs.id, runs.owner, runs.request)
        waits = advance(fresh, PENDING, "No room.", queue=QueueTicket(1))
        kept = StateDirectory(str(world.hosts["h3"].root)).session(runs.id)
        done = world.launch(request(size=3, **wanted), moment, lambda: kept.write_record(waits))
        assert "outcome" in done, done.get("failure")
        assert sorted(world.places("ash").values()) == ["h1", "h2", "h3"]


@pytest.mark.parametrize("differs", [False, True])
def test_a_host_whose_copy_of_the_same_revision_is_another_one_is_told_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, differs: bool
) -> None:
    stale: list[str] = []
    call = Host.call

    def watched(host: Host, module: str, given: Mapping[str, Any]) -> dict[str, Any]:
        answer = call(host, module, given)
        stale.extend([host.name] if answer.get("stale") else [])
        return answer

    def let_differ() -> None:
        state = StateDirectory(str(world.hosts["h2"].root))
        (record,) = state.records()[0]
        state.session(record.id).write_record(replace(record, shared_with=("bob",)))

    monkeypatch.setattr(Host, "call", watched)
    monkeypatch.setattr(change_steps, "has_ssh", lambda _plan: False)  # no host in memory knows keys
    with in_memory() as worlds:
        world = World(tmp_path)
        worlds.append(world)
        wanted = {"name": "ash", "cpus": "2", "max_replicas_per_host": 1, "max_size": 3}
        world.launch(request(size=2, **wanted))
        done = world.launch(request(size=3, **wanted), 5, let_differ if differs else lambda: None)
        assert done["outcome"]["status"] == "RUNNING"
        assert stale == (["h2"] if differs else [])
        assert len({str(copy) for copy in world.copies("ash").values()}) == 1


def test_a_host_to_which_a_replica_moves_takes_over_for_how_long_its_session_has_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info_of = Host.host_info

    def host_info(host: Host, session_name: str = "", **given: Any) -> dict[str, Any]:
        state = StateDirectory(str(host.root))
        records = state.records()[0]
        times = part_times(None, state, records, [record.id for record in records if record.name == session_name])
        return {**info_of(host, session_name, **given), "times": encode(times)}

    monkeypatch.setattr(Host, "host_info", host_info)
    with in_memory() as worlds:
        world = World(tmp_path)
        worlds.append(world)
        options = {"cpus": "2", "max_replicas_per_host": 1, "max_duration": "8h", "on_host_loss": "replace"}
        world.launch(request(name="ash", size=2, **options))
        (key,) = {record.id for record in world.copies("ash").values()}

        def part(host: str) -> Any:
            return StateDirectory(str(world.hosts[host].root)).session(key)

        assert sorted(world.places("ash").values()) == ["h1", "h2"]
        part("h1").write_times(encode(Times("boot", 0.0, ran=4000.5)))
        world.run(schedule, begun(schedule, world.known, only_lost=True, moves_from=["h1"]), None, None)
        assert sorted(world.places("ash").values()) == ["h2", "h3"]
        assert part("h3").read_times()["ran"] == 4000.0
        assert part("h2").read_times() is None, "it keeps the time of its part"
        carry_on(part("h3"), 3000)
        assert part("h3").read_times()["ran"] == 4000.0, "what it knows itself is more"


def test_a_witness_agrees_to_one_content_of_a_revision_and_only_to_what_follows_from_what_it_knows(
    tmp_path: Path,
) -> None:
    with in_memory() as worlds:
        world = World(tmp_path, (2000,) * 5)
        worlds.append(world)
        wanted = {"name": "ash", "cpus": "2", "max_replicas_per_host": 1, "on_host_loss": "replace"}
        world.launch(request(size=2, **wanted))
        copies = world.copies("ash")
        whole = copies["h1"]
        witness, stranger = (
            next(name for name in world.hosts if (name in copies) == known and name not in whole.hosts)
            for known in (True, False)
        )

        def agree(host: str, change: str, hosts: tuple[str, ...], after: Record) -> dict[str, Any]:
            stub = replace(stub_of(after), hosts=hosts, revision=after.revision + 1)
            change_of = {"lease_owner": change, "change_id": change, "host": host}
            known = {"judged_revision": after.revision, "judged_hosts": list(after.hosts)}
            given = {"state": "agreed", "record": encode(stub), **change_of, **known}
            return world.hosts[host].call("session_host", given)

        changed = "was changed while this run was at work"
        assert "is not known here" in agree(stranger, "a", ("h1", "h3"), whole)["msg"]
        other = replace(whole, hosts=("h2", "h4"), revision=copies[witness].revision)
        assert changed in agree(witness, "a", ("h4",), other)["msg"]
        ledger, claim = LedgerFile(str(world.hosts[witness].root)), Claim("b", "ash change", amends=whole.id)
        ledger.reserve(claim, [], Allocatable(2000, 8 << 30), 60, "b")
        assert changed in agree(witness, "a", ("h1", "h3"), whole)["msg"], "another run holds it"
        ledger.release("b", "b")
        assert agree(witness, "a", ("h1", "h3"), whole)["actions"] == ["update record ash"]
        assert agree(witness, "a", ("h1", "h3"), whole)["actions"] == [], "as often as it is asked"
        assert changed in agree(witness, "b", ("h2", "h4"), whole)["msg"]
        kept = world.copies("ash")[witness]
        assert (kept.revision, kept.hosts) == (whole.revision + 1, ("h1", "h3"))
        assert changed in agree(witness, "b", ("h2", "h4"), replace(whole, revision=kept.revision))["msg"]

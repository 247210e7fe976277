# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A network that the engine keeps though nothing is on it: all else goes, and whoever removes it tells."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import firewall, link
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import NetworkKept
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.ledger import LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.host_settings import (
    HostSettings,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    TERMINATED,
    advance,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.times import Times
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.membership import GIVEN_AWAY
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import membership, removal, timer
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.membership import Membership
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.steps import descriptions
from ansible_collections.cluster_compute.session.tests.support.core.verbs.group import (
    request,
)
from ansible_collections.cluster_compute.session.tests.support.hosts_in_memory import Host, World, in_memory
from ansible_collections.cluster_compute.session.tests.support.small_steps import NOW, Killed

WARNINGS = ["The network ash stays. The session's place is free."]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Return a group whose engines keep all networks."""

    def refuse(host: Host, key: str) -> None:
        raise NetworkKept(f"The network {host.network_of[key].name} stays.")

    monkeypatch.setattr(Host, "remove_network", refuse)
    monkeypatch.setattr(timer, "enforce_limits", lambda *_given: ({}, []))
    monkeypatch.setattr(StateDirectory, "read_settings", lambda _state: HostSettings(output_size=0))
    with in_memory() as worlds:
        worlds.append(World(tmp_path))
        yield worlds[-1]


def launch(world: World, size: int, moment: int | None = None) -> None:
    with suppress(Killed):
        world.launch(request(name="ash", size=size, cpus="2", max_replicas_per_host=1, max_size=3), moment)


def test_a_tunnel_goes_after_what_lies_on_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "3614fdf3-0e04-4a3c-8f3e-2b1d6c7a9e10"
    overlay, tunnel = "ccx3614fdf3", "cct3614fdf3"
    links = dict.fromkeys((tunnel, overlay), (key, "ash"))

    def delete(name: str) -> None:
        """Do as the kernel does: what lies on a tunnel goes with it."""
        assert name in links, f'Cannot find device "{name}"'
        for gone in (tunnel, overlay) if name == tunnel else (overlay,):
            links.pop(gone, None)

    monkeypatch.setattr(link, "session_links", lambda: dict(links))
    monkeypatch.setattr(link, "delete_link", delete)
    monkeypatch.setattr(firewall, "sessions", dict)
    engine: Any = SimpleNamespace(session_containers=lambda _labels: [], networks=lambda _labels: [])
    state = StateDirectory(str(tmp_path))
    stages = removal.removal_stages(engine, state, LedgerFile(str(tmp_path), forgiving=True), "ash", None, [])
    assert descriptions(removal.remove(stages)[0]) == [f"remove link {overlay}", f"remove link {tunnel}"]
    assert links == {}


@pytest.mark.parametrize("of", ["a launch", "a change"])
def test_who_gives_back_a_lease_tells(world: World, of: str) -> None:
    if of == "a change":
        launch(world, 2)
    launch(world, 3, 6 if of == "a launch" else 5)
    host, record = world.hosts["h3"], world.copies("ash")["h1"]
    host.connect(SimpleNamespace(id=record.id, name="ash"), [])  # type: ignore[arg-type]
    (held,) = LedgerFile(str(host.root)).read().values()
    assert (held.claim.amends is not None) == (of == "a change")
    given = {"record": encode(record), "claim": encode(held.claim), "lease_owner": held.lease_owner}
    answer = host.call("session_host", {"state": "released", **given})
    assert (answer["changed"], answer["warnings"]) == (True, WARNINGS)
    assert f"remove link link {record.id}" in answer["actions"]
    assert "network" not in " ".join(answer["actions"])
    assert LedgerFile(str(host.root)).read() == {}


def test_a_repair_that_gives_a_session_up_tells(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    launch(world, 3)
    host, (key,) = world.hosts["h1"], {record.id for record in world.copies("ash").values()}
    given_away = {key: Membership(GIVEN_AWAY, {"h2": False}, ("h2",))}
    with monkeypatch.context() as patch:  # undone before what `in_memory` has patched is
        patch.setattr(membership, "memberships", lambda *_given: given_away)
        answer = host.call("session_repair", {"host": "h1", "apart": [key]})
    assert (answer.get("failed", False), answer["warnings"]) == (False, WARNINGS)
    assert answer["actions"][0].startswith("give up session ash")
    assert "network" not in " ".join([*answer["actions"], *answer["diff"]["before"]])


@pytest.mark.parametrize("looks", ["repair", "timer"])
def test_a_host_that_ends_a_session_tells(world: World, looks: str, capsys: pytest.CaptureFixture[str]) -> None:
    launch(world, 3)
    NOW.host = host = world.hosts["h1"]
    state, record = StateDirectory(str(host.root)), world.copies("ash")["h1"]
    part = state.session(record.id)
    part.write_times(encode(Times("boot", 0.0)))
    part.write_record(advance(record, TERMINATED, "Its time is over."))
    done = "remove what is left of session ash, which has ended"
    if looks == "repair":
        answer = host.call("session_repair", {"host": "h1"})
        assert (answer.get("failed", False), answer["actions"], answer["warnings"]) == (False, [done], WARNINGS)
    else:
        assert timer.look(state) == 0
        assert [line[20:] for line in capsys.readouterr().out.splitlines()] == [done, *WARNINGS]

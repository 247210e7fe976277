# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host that was away asks the session's other hosts what it still is there, and does what follows."""

from __future__ import annotations

import copy
import json
import socket
import sys
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import firewall
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import Engine
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.output import OutputDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.call.session_repair import (
    Repaired,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import Claim
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.membership import (
    QUESTION,
    WAITING,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import SessionError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import launch_steps, membership
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.repair import repair_host
from ansible_collections.cluster_compute.session.tests.support.contract.on_host import (
    ADDRESSES,
    CABLE,
    HERE,
    THERE,
    Host,
    Peer,
    Session,
    output_of,
    things,
    until,
)

PUT = """
import json, sys
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.plan import read_plan
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import tunnel_of
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.isolation import isolation_of
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import firewall_rules, steps
plan = json.loads(sys.argv[1])
wanted = isolation_of(read_plan(plan), sys.argv[2], tunnel_of(plan), gave_up=sys.argv[3:] == ["gave up"])
steps.perform([firewall_rules.rule_steps(wanted, False)])
"""


ASK = """
import sys
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.questions import Question, ask
print(list(ask([Question(*sys.argv[1:3], *map(int, sys.argv[3:]))], 1.0).values()))
"""


def put_rules(peer: Peer, plan: dict[str, Any], *gave_up: str, **changes: Any) -> None:
    """Give the peer the rules that it has by the session's plan, *changes* made."""
    peer.run(sys.executable, "-c", PUT, json.dumps({**plan, **changes}), THERE, *gave_up)


def planned(host: Host, **request: Any) -> Session:
    """Return a session that is to have a replica here and one at the peer."""
    session = host.plan(size=2, others=1, max_replicas_per_host=1, **request)
    plan = copy.deepcopy(session.plan)
    for name, address in ADDRESSES.items():
        plan["hosts"][name] |= {"underlay_address": address, "underlay_interface": CABLE}
    session.record = replace(session.record, plan=plan)
    return session


def launch(host: Host, **request: Any) -> Session:
    """Launch a session with a replica here and one at the peer."""
    return planned(host, **request).start()


def alone(host: Host) -> Repaired:
    """Repair this host as its own unit and timers do."""
    return repair_host(host.state, alone=True)


@pytest.mark.parametrize("policy", ["replace", "wait"])
def test_what_others_were_given_goes_and_what_nobody_knows_of_stays(
    policy: str, host: Host, engine: Engine, peer: Peer
) -> None:
    before = things(engine)
    session = launch(host, on_host_loss=policy)
    assert host.call("host_info")["host"]["not_waiting"] == ([session.id] if policy == "replace" else [])
    output_of("docker", "rm", "-f", "demo-main1")
    firewall.remove(session.id)
    found = alone(host)
    assert "create firewall rules demo" in found.actions
    if policy == "replace":
        assert found.held_back == [session.id]
        assert "main1 may run elsewhere by now" in found.problems[0]
        assert session.containers() == {}
        put_rules(peer, session.plan)
        found = alone(host)
    assert "create container demo-main1" in found.actions
    assert (found.problems, found.held_back) == ([], [])
    # Cut off while it runs: nobody answers, and nothing happens to it.
    pid = session.containers()["main1"]["State"]["Pid"]
    peer.run("ip", "link", "set", CABLE, "down")
    assert (alone(host).actions, alone(host).problems) == ([], [])
    peer.run("ip", "link", "set", CABLE, "up")
    assert session.containers()["main1"]["State"]["Pid"] == pid
    # The peer has its replicas by now.
    session.run_in("main1", "sh", "-c", "echo said so >/proc/1/fd/1")
    only = {THERE: session.plan["hosts"][THERE]}
    put_rules(peer, session.plan, hosts=only, fenced=[ADDRESSES[HERE]])
    assert membership.is_due(host.state) is (policy == "replace")
    found = alone(host)
    assert (found.problems, found.actions[0]) == (
        [],
        f"give up session demo: {THERE} had its replicas here started elsewhere",
    )
    assert things(engine) == before
    assert host.state.session_ids() == []
    assert Claim(session.id, "demo").session_id not in host.ledger.read()
    assert OutputDirectory(str(host.state.root)).session_ids() == [session.id]
    assert alone(host).actions == []


def test_a_peer_is_silent_that_answers_neither_itself_nor_by_a_replica(host: Host, peer: Peer) -> None:
    session = launch(host)
    network = session.plan["network"]
    mine, other = session.plan["replicas"]

    def silent() -> Any:
        return host.call("host_info", peers_of=[session.id])["host"]["silent_peers"]

    assert host.call("host_info")["host"]["silent_peers"] == {}
    assert silent() == {session.id: []}
    peer.run("ip", "link", "set", CABLE, "down")
    assert silent() == {session.id: [THERE]}
    peer.run("ip", "link", "set", CABLE, "up")
    peer.run("iptables", "-A", "INPUT", "-p", "icmp", "-d", ADDRESSES[THERE], "-j", "DROP")
    assert silent() == {session.id: [THERE]}
    # Its replica, of which only the network is needed.
    tunnel = ["id", str(network["vni"]), "local", ADDRESSES[THERE], "remote", ADDRESSES[HERE], "dstport"]
    peer.run("ip", "link", "add", "vx", "address", other["mac"], "type", "vxlan", *tunnel, str(network["port"]))
    peer.run("ip", "address", "add", f"{other['address']}/{network['subnet'].partition('/')[2]}", "dev", "vx")
    peer.run("ip", "link", "set", "vx", "up")
    peer.run("ip", "neigh", "add", mine["address"], "lladdr", mine["mac"], "dev", "vx")
    assert until(lambda: silent() == {session.id: []}, 10)


# ---- while a session starts -----------------------------------------------------------------------------------------


def test_a_host_looks_no_longer_for_one_that_gave_up(host: Host, peer: Peer) -> None:
    session = planned(host)
    session.bring("held")
    put_rules(peer, session.plan)
    assert "No packet of the full size" in session.bring("started", patience=3)["unproven"]
    put_rules(peer, session.plan, "gave up")
    assert session.bring("started", patience=60)["unproven"] == f"The session could not be started on {THERE}."
    waiting = session.bring("started", patience=60, check_mode=True)
    assert (waiting["changed"], waiting["replicas"]) == (False, [])


@pytest.mark.parametrize(("why", "policy"), [("a step fails", "wait"), ("a replica ends", "replace")])
def test_a_host_that_cannot_start_tells_who_waits_for_it(
    why: str, policy: str, host: Host, engine: Engine, peer: Peer
) -> None:
    before = things(engine)
    command = {"command": ["false"]} if why == "a replica ends" else {}
    session = planned(host, ports="18080:80", on_host_loss=policy, **command)
    network = session.plan["network"]

    def answers(flags: int = WAITING) -> list[bool]:
        asked = (ADDRESSES[THERE], ADDRESSES[HERE], network["port"], network["vni"], flags)
        return list(json.loads(peer.run(sys.executable, "-c", ASK, *map(str, asked)).lower()))

    session.bring("held")
    assert answers() == []
    with socket.socket() as taken:
        if why == "a step fails":
            taken.bind(("0.0.0.0", 18080))
            taken.listen()
        with pytest.raises(SessionError, match="18080" if why == "a step fails" else "is not running"):
            session.bring("started", patience=5)
    assert answers() == [False]
    assert answers(QUESTION) == ([True] if policy == "replace" else []), "who is a member is another question"
    if why == "a step fails":
        # Who launches again is waited for again.
        session.bring("started", patience=0)
        assert answers() == []
    session.remove()
    assert answers() == []
    assert things(engine) == before


def test_a_host_tells_nothing_of_what_others_have_removed(
    host: Host, engine: Engine, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = planned(host)
    session.bring("held")
    before = things(engine)

    def prove(*_given: object) -> None:
        session.remove()
        raise SessionError("It is gone.")

    monkeypatch.setattr(launch_steps, "prove", prove)
    with pytest.raises(SessionError, match="It is gone"):
        session.bring("started", patience=5)
    assert things(engine)["rules"] == before["rules"]


def test_a_host_tells_nothing_of_what_another_run_goes_on_with(
    host: Host, engine: Engine, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = planned(host)
    session.bring("held")

    def prove(*_given: object) -> None:
        session.files.write_record(replace(session.record, plan={**session.plan, "images": {}}))
        raise SessionError("Too late.")

    with monkeypatch.context() as patch:
        patch.setattr(launch_steps, "prove", prove)
        with pytest.raises(SessionError, match="Too late"):
            session.bring("started", patience=5)
    assert not [rule for rule in things(engine)["rules"] if "-wait" in rule]

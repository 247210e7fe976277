# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a launch does next, whatever its hosts answer."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import (
    LEASED,
    Claim,
    Reservation,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import decode, encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.launch_state import NOTHING
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.plan import read_plan
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    ERROR,
    PENDING,
    QueueTicket,
    Record,
    advance,
    new_record,
    prepared,
    read_record,
    started,
    stub_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import Request
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.planning import launch as planning
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.ledger import TURN, claims_of
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.rendezvous import name_hosts
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs import launch
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.launch_flow.launch import (
    paths_on,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.launch_flow.start import (
    PATIENCE,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.verb import hosts_of
from ansible_collections.cluster_compute.session.tests.support.core.verbs.group import (
    AWAY,
    BROKEN,
    IMAGE,
    Launch,
    facts,
    refused,
    request,
)

try:
    from ansible.template import trust_as_template as as_template
except ImportError:  # Ansible before 2.19 takes each text as a template
    as_template = str

LOWER, HIGHER = "00000000-0000-4000-8000-000000000000", "ffffffff-0000-4000-8000-000000000000"


def from_queue(**options: Any) -> Launch:
    """Return a launch of a session that waits, up to where it holds its place."""
    waiting = waiting_record()
    run = Launch(from_queue=True, waits=waiting, **options)
    run.hosts = {host: {**own, "records": encode([waiting])} for host, own in run.hosts.items()}
    return run


def waiting_record() -> Record:
    record = new_record("aaaaaaaa-0000-4000-8000-000000000000", "alice", request().to_dict())
    return advance(record, PENDING, "No room.", queue=QueueTicket(1))


# ---- the plain way -------------------------------------------------------------------------------------------------


def test_a_plain_launch_calls_each_host_three_times() -> None:
    run = Launch(hands_on=True).until("")
    assert run.steps == ["look", "hold", "start"]
    assert run.state["outcome"]["status"] == "RUNNING"
    assert [line.split()[0] for line in launch.closing_lines(run.state)] == [
        "Session",
        "REPLICA",
        "main1",
        "sub1",
        "sub2",
        "Log",
    ]
    assert [replica["name"] for replica in run.state["replicas"]] == ["main1", "sub1", "sub2"]
    assert json.loads(json.dumps(run.state)) == run.state


def test_a_session_that_runs_as_asked_is_looked_at_and_called_once() -> None:
    again = Launch().until("").run_on()
    assert again.until("").steps == ["look", "start"]
    assert set(again.state["public_keys"]) == {"main1", "sub1", "sub2"}
    assert again.state["outcome"]["status"] == "RUNNING"


@pytest.mark.parametrize("lost", ["a key", "its reservation", "nothing, but all keys are to be new"])
def test_one_that_lacks_keys_or_its_place_holds_it_anew(lost: str) -> None:
    again = Launch().until("").run_on()
    if lost == "a key":
        again.hosts["h2"]["public_keys"] = {}
    elif lost == "its reservation":
        again.hosts["h2"]["reservations"] = []
    else:
        again.state["regenerate_keys"] = True
    assert again.until("").steps == ["look", "hold", "start"]
    assert again.state["record"]["status"] == "RUNNING"


def test_the_warnings_of_a_registered_state_are_not_read() -> None:
    """Ansible from 2.19 on replaces them by objects of its own."""
    run = Launch().until("hold")
    run.state["warnings"] = [object()]
    assert run.until("").state["outcome"]["status"] == "RUNNING"
    assert run.state["warnings"] == []


def test_what_is_handed_on_is_said_before_the_last_step_and_put_right_where_it_fails() -> None:
    run = Launch(hands_on=True).until("hold")
    assert launch.handed_on(run.state) is None
    run.until("start")
    artifact = launch.handed_on(run.state)
    assert artifact is not None
    assert (artifact.status, len(artifact.replicas)) == ("RUNNING", 3)
    assert launch.handed_on(Launch(hands_on=True).until("").state) == artifact
    run.answer(h2=BROKEN)
    artifact = launch.handed_on(run.state)
    assert artifact is not None
    assert (artifact.status, *artifact.replicas) == (ERROR,)
    assert launch.handed_on(Launch().until("").state) is None


def test_a_host_is_told_of_the_record_once_and_what_it_has_to_do_alone() -> None:
    run = Launch().until("hold")
    arguments = run.sent("h2")
    assert (arguments["state"], arguments["host"], arguments["record"]) == ("held", "h2", encode(run.record))
    assert set(arguments) == {"state", "host", "record", "lease_owner", "claim", "allocatable", "looked"}
    run.answer()
    assert run.sent("h2")["public_keys"].keys() == {"main1", "sub1", "sub2"}


@pytest.mark.parametrize(("forks", "longer"), [(3, None), (1, 2 * TURN)])
def test_a_lease_lasts_until_the_last_host_has_had_its_turn(forks: int, longer: int | None) -> None:
    assert Launch(forks=forks).until("hold").sent("h2").get("turns_seconds") == longer


@pytest.mark.parametrize(("forks", "patience"), [(3, PATIENCE), (2, 0)])
def test_hosts_that_wait_for_their_turn_are_not_waited_for(forks: int, patience: int) -> None:
    assert Launch(forks=forks).until("start").sent()["patience"] == patience


def test_those_that_missed_a_peer_look_for_it_once_all_have_started() -> None:
    run = Launch().until("start")
    run.answer(h2={"actions": ["create container"], "unproven": "sub2 on h3 did not answer."})
    assert (run.step, hosts_of(run.state)) == ("meet", ["h2"])
    assert run.sent("h2")["state"] == "verified"
    run.answer()
    assert (run.step, [replica["name"] for replica in run.state["replicas"]]) == ("", ["main1", "sub1", "sub2"])


def test_a_peer_that_never_answers_fails_the_launch() -> None:
    run = Launch().until("start")
    run.answer(h2={"actions": [], "unproven": "x"}).answer(h2={"failed": True, "msg": "No packet came back."})
    assert run.step == "undo"
    assert run.until("").state["failure"].splitlines()[1] == "h2: No packet came back."


def test_a_launch_that_nobody_waits_for_does_not_wait_for_a_late_peer_where_another_has_failed() -> None:
    run = Launch().until("start").answer(h2={"actions": [], "unproven": "x"}, h3=BROKEN)
    assert run.step == "undo"
    assert run.state["failures"] == ["h3: The disk is full."]


@pytest.mark.parametrize(
    ("not_waiting", "away", "losses"),
    [(True, False, 0), (True, True, 1), (False, True, 0)],
    ids=["all", "lost", "waits"],
)
def test_it_is_seen_what_other_sessions_have_lost_that_do_not_wait_for_it(
    not_waiting: bool, away: bool, losses: int
) -> None:
    other = started(Launch(request(name="other"), 3).until("").record)
    run = Launch(request(size=1), 4)
    run.ids = itertools.count(50)
    for number in (1, 2, 3):
        run.hosts[f"h{number}"] = facts(stub_of(other), number=number, not_waiting=[other.id] * not_waiting)
    run.answer(**{"h2": AWAY} if away else {})
    assert (run.step, run.state["losses"]) == ("hold", [other.id] * losses)
    assert run.state["unreachable_hosts"] == ["h2"] * away
    assert not {"unreachable", "failed", "skipped"} & {*run.state}, "Ansible would take the decision for that"


# ---- roles that come after others ----------------------------------------------------------------------------------

ROLES = [
    {"name": "main", "after": ["web"]},
    {"name": "db", "replicas": 1},
    {"name": "web", "replicas": 1, "after": ["db"]},
]


def ordered(**given: Any) -> Any:
    return request(size=None, roles=ROLES, **given)


def test_roles_that_others_come_after_are_started_first_and_the_name_is_kept_at_once() -> None:
    run = Launch(ordered(), 4).until("begin")
    assert hosts_of(run.state) == ["h1", "h2", "h3", "h4"]
    assert (run.sent("h2")["state"], run.sent("h2")["roles"], run.sent("h4")["state"]) == ("started", ["db"], "stub")
    assert run.state["play_hosts"] == ["h1", "h2", "h3", "h4"]
    run.answer()
    assert (run.step, hosts_of(run.state), run.sent("h1")["roles"]) == ("begin", ["h1", "h2", "h3"], ["db", "web"])
    run.answer()
    assert (run.step, hosts_of(run.state), "roles" in run.sent("h1")) == ("start", ["h1", "h2", "h3"], False)
    run.answer()
    assert run.state["outcome"]["status"] == "RUNNING"
    assert run.steps == ["look", "hold", "begin", "begin", "start"]


@pytest.mark.parametrize(("forks", "longer"), [(3, None), (1, 2 * TURN)])
def test_what_is_confirmed_lasts_until_the_next_roles_have_had_their_turn(forks: int, longer: int | None) -> None:
    run = Launch(ordered(), forks=forks).until("begin")
    assert run.sent("h2").get("turns_seconds") == longer
    assert run.answer().sent("h2").get("turns_seconds") == longer
    assert "turns_seconds" not in run.until("start").sent("h2"), "it is committed in this very call"


def test_in_check_mode_and_where_the_session_runs_nothing_waits_for_anything() -> None:
    assert Launch(ordered(), check_mode=True).until("").steps == ["look", "hold", "start"]
    again = Launch(ordered()).until("").run_on().until("")
    assert again.steps == ["look", "start"]


def test_a_role_that_does_not_get_ready_fails_the_launch_and_what_was_started_goes() -> None:
    run = Launch(ordered()).until("begin").answer().answer(h2=BROKEN)
    assert (run.step, run.state["failures"]) == ("undo", ["h2: The disk is full."])


def test_what_gets_ready_only_with_hosts_whose_turn_comes_later_is_waited_for_when_all_have_started() -> None:
    run = Launch(ordered(), forks=2).until("begin")
    assert {run.sent(host)["patience"] for host in ("h1", "h2", "h3")} == {0}
    run.answer(h1={"actions": [], "unproven": "db1 is not ready yet."})
    assert (run.step, hosts_of(run.state)) == ("ready", ["h1"])
    arguments = run.sent("h1")
    assert (arguments["state"], arguments["roles"], arguments["record"]) == ("verified", ["db"], encode(run.record))
    run.answer()
    assert (run.step, run.sent("h1")["roles"]) == ("begin", ["db", "web"])
    assert "roles" not in run.answer().until("start").answer(h1={"actions": [], "unproven": "x"}).sent("h1")
    assert run.step == "meet"
    late = Launch(ordered(), forks=2).until("begin").answer(h1={"actions": [], "unproven": "db1 is not ready yet."})
    late.answer(h1=BROKEN)
    assert (late.step, late.state["failures"]) == ("undo", ["h1: The disk is full."])


def test_a_host_that_is_out_of_reach_for_a_moment_is_asked_for_the_same_roles_again() -> None:
    run = Launch(ordered()).until("begin").answer().answer(h2=AWAY)
    assert (run.step, run.sent("h1")["roles"], run.state["pause"]) == ("begin", ["db", "web"], 0)
    run.answer(h2=AWAY)
    assert run.step == "undo"
    run.hosts["h4"] = facts(number=4)
    assert run.answer().step == "look"


def test_a_launch_that_plans_anew_starts_the_first_roles_first() -> None:
    run = Launch(ordered(), 4).until("begin").answer().answer(h2={**BROKEN, "sick": True})
    run.until("begin")
    assert (run.sent("h1")["roles"], run.state["wave"]) == (["db"], 0)


# ---- hosts that carry no replica -----------------------------------------------------------------------------------


def test_a_host_that_carries_no_replica_keeps_a_note_and_only_if_it_has_none() -> None:
    run = Launch(request(size=2), 3).until("start")
    assert run.sent("h3")["state"] == "stub"
    again = run.answer().run_on()
    record = started(run.record)
    guarded = {record.id: {"name": "train", "kinds": ["rules"]}}
    again.hosts["h3"] = facts(stub_of(record), number=3, objects=guarded)
    assert hosts_of(again.until("start").state) == ["h1", "h2"]
    again.answer()
    unguarded = run.run_on()
    unguarded.hosts["h3"] = facts(stub_of(record), number=3)
    assert hosts_of(unguarded.until("start").state) == ["h1", "h2", "h3"]


@pytest.mark.parametrize(("answer", "step"), [(AWAY, ""), (BROKEN, "undo")])
def test_a_witness_that_is_away_keeps_nobody_and_one_that_fails_does(answer: dict[str, Any], step: str) -> None:
    assert Launch(request(size=2), 3).until("start").answer(h3=answer).step == step


OVERLAYS = {"port": 4789, "first": 4096, "last": 16777215, "interface": "eth0"}


def kept_out(hosts: int, size: int = 2, **overlays: Any) -> Launch:
    """Return a launch on hosts whose containers are kept out of all overlays."""
    run = Launch(request(size=size), hosts)
    run.hosts = {host: {**facts, "overlays": {**OVERLAYS, **overlays}} for host, facts in run.hosts.items()}
    return run


def test_of_hosts_without_a_replica_only_those_that_know_the_name_are_called_again() -> None:
    names = name_hosts("train", [f"h{number}" for number in range(1, 9)], {})
    run = kept_out(8).until("hold")
    own = run.state["hosts"]
    others = [host for host in names if host not in own]
    assert others
    assert sorted(hosts_of(run.state)) == sorted({*own, *names})
    arguments = run.sent(others[0])
    assert (arguments["state"], arguments["claim"]["session_name"], arguments["claim"]["replicas"]) == (
        "named",
        "train",
        0,
    )
    assert "record" not in arguments
    run.answer()
    assert sorted(hosts_of(run.state)) == sorted({*own, *names})
    assert run.sent(others[0])["state"] == "stub"
    assert run.until("").state["outcome"]["status"] == "RUNNING"


def test_only_hosts_with_something_to_do_are_in_the_play_that_carries_the_plan_out() -> None:
    run = kept_out(8).until("hold")
    assert sorted(run.state["play_hosts"]) == sorted(hosts_of(run.state))
    assert len(run.state["play_hosts"]) <= 5
    assert run.until("start").state["play_hosts"] == hosts_of(run.state)
    ended = run.until("")
    assert (ended.state["play_hosts"], ended.state["left"]) == (["h1"], [])
    uncovered = kept_out(8, port=8472).until("hold")
    assert len(uncovered.state["play_hosts"]) == 8, "they are told when the session starts"
    pending = Launch(request(size=9, max_replicas_per_host=1), 8).until("queue")
    assert (pending.state["play_hosts"], len(pending.state["left"])) == (["h1"], 8)
    broken = Launch(request(size=9, excluded_hosts=["h1"]), 8).answer(h1=BROKEN)
    assert (broken.step, broken.state["play_hosts"]) == ("name", ["h2"]), "a failed one is in no play"


@pytest.mark.parametrize("overlays", [{"port": 8472}, {"first": 1, "last": 4095}])
def test_one_whose_containers_could_get_into_the_overlay_is_told_of_it(overlays: dict[str, Any]) -> None:
    run = kept_out(8, **overlays).until("start")
    assert len(hosts_of(run.state)) == 8


def test_one_with_an_old_copy_is_told_what_became_of_the_session() -> None:
    waiting = waiting_record()
    run = Launch(from_queue=True, waits=waiting, hosts=8)
    run.hosts = {
        host: {**facts, "overlays": OVERLAYS, "records": encode([waiting])} for host, facts in run.hosts.items()
    }
    assert len(hosts_of(run.until("start").state)) == 8


def test_a_name_host_that_fails_harms_nobody_and_one_that_refuses_does() -> None:
    run = kept_out(8).until("hold")
    (other, *_more) = [host for host in hosts_of(run.state) if host not in run.state["hosts"]]
    assert kept_out(8).until("hold").answer({other: BROKEN}).step == "start"
    assert kept_out(8).until("hold").answer({other: AWAY}).step == "start"
    started = kept_out(8).until("start").answer({other: BROKEN})
    assert started.state["outcome"]["status"] == "RUNNING"
    assert started.state["warnings"] == [f"{other} could not write the session down: The disk is full."]
    run.answer({other: refused("The name train is taken by session x.")})
    assert run.step == "release"
    assert run.sent(other)["claim"]["replicas"] == 0
    assert run.answer().step == "look"


# ---- refusals ------------------------------------------------------------------------------------------------------


def test_one_refusal_gives_all_back_and_plans_anew_from_fresh_facts() -> None:
    run = Launch().until("hold")
    first = run.record.id
    run.answer(h2=refused("2 CPUs asked, 0 free of 2."))
    assert (run.step, hosts_of(run.state)) == ("release", ["h1", "h2", "h3"])
    assert (run.sent()["state"], run.sent()["record"]["id"]) == ("released", first)
    run.answer()
    assert (run.step, run.state["pause"]) == ("look", 0)
    assert run.until("hold").record.id != first
    assert run.until("").state["outcome"]["status"] == "RUNNING"


@pytest.mark.parametrize(("other", "step"), [(HIGHER, "hold"), (LOWER, "release")])
def test_of_two_that_are_undecided_the_one_with_the_lower_id_asks_again(other: str, step: str) -> None:
    run = Launch().until("hold").answer(h2=refused("x", other))
    assert (run.step, run.state["pause"]) == (step, 0 if step == "hold" else None)
    assert run.until("").state["outcome"]["status"] == "RUNNING"


def test_who_asks_again_all_the_time_gives_back_in_the_end() -> None:
    run = Launch(attempts=3).until("hold")
    run.answer(h2=refused("x", HIGHER)).answer(h2=refused("x", HIGHER))
    assert run.answer(h2=refused("x", HIGHER)).step == "release"
    assert run.until("queue").steps[-1] == "name"
    outcome = run.answer().state["outcome"]
    assert outcome["report"] == ["Session train is PENDING: concurrent launches took the capacity.", "h2: x"]


def test_a_host_that_cannot_answer_is_named_and_nothing_is_started() -> None:
    run = Launch().until("hold").answer(h2=BROKEN).answer()
    assert run.step == ""
    assert run.state["failure"] == (
        "The session train could not be launched; its place could not be held on every host.\nh2: The disk is full.\n"
        "Nothing was started. Correct what is said above and launch again."
    )


@pytest.mark.parametrize("queued", [False, True])
def test_nobody_is_asked_again_who_waits_for_others_while_a_host_cannot_answer(queued: bool) -> None:
    """That host would fail each time, and what the others hold would be held for nothing."""
    run = Launch(from_queue=queued).until("hold").answer(h1=BROKEN, h2=refused("x", HIGHER))
    assert run.step == "release"
    run.answer()
    assert "hold" not in run.until("").steps[2:]


SICK = {"failed": True, "sick": True, "msg": "No space left on device."}
GRANTED_AND_SICK = {**SICK, "granted": True, "reasons": [], "tentative": [], "actions": []}


@pytest.mark.parametrize("queued", [False, True])
@pytest.mark.parametrize(
    ("step", "answer"), [("hold", SICK), ("hold", GRANTED_AND_SICK), ("start", SICK)], ids=["lease", "key", "start"]
)
def test_a_host_that_fails_for_reasons_of_its_own_is_planned_around(
    step: str, answer: dict[str, Any], queued: bool
) -> None:
    run = (from_queue(hosts=4) if queued else Launch(request(hosts=["h1", "h2", "h3", "h4"]), hosts=4)).until(step)
    run.answer(h2=answer)
    kept = run.sent().get("record") if run.step == "undo" else None
    assert kept is None or kept["status"] == ("PENDING" if queued else "PREPARING")
    if kept is not None:
        run.hosts = {host: {**own, "records": [kept]} for host, own in run.hosts.items()}
    run.until("hold")
    assert run.record.hosts == ("h1", "h3", "h4")
    assert run.state["warnings"] == ["Hosts that cannot be used are left out: h2. No space left on device."]
    assert run.until("").state["outcome"]["status"] == "RUNNING"


@pytest.mark.parametrize(("attempts", "step"), [(20, "hold"), (1, "hold"), (20, "start")])
def test_where_there_is_no_other_place_the_host_is_named_and_one_from_the_queue_waits_on(
    attempts: int, step: str
) -> None:
    run = Launch(attempts=attempts).until(step).answer(h2=SICK).until("")
    lines = run.state["failure"].splitlines()
    assert "could not be launched" in lines[0]
    assert lines[1] == "h2: No space left on device."
    assert set(run.steps) <= {"look", "hold", "release", "start", "undo"}
    queued = from_queue(attempts=attempts).until(step).answer(h2=SICK)
    if queued.step == "undo":
        queued.hosts = {host: {**own, "records": [queued.sent()["record"]]} for host, own in queued.hosts.items()}
    assert queued.until("").state["outcome"]["status"] == PENDING
    named = Launch(request(hosts=["h2"], size=1)).until(step).answer(h2=SICK).until("")
    assert "h2: No space left on device." in named.state["failure"].splitlines()


def test_what_runs_is_not_placed_anew_for_a_sick_host() -> None:
    again = Launch(hosts=4).until("").run_on()
    again.hosts["h2"]["reservations"] = []
    assert "failure" in again.until("hold").answer(h2=SICK).until("").state
    assert again.steps == ["look", "hold", "release"]


def test_a_host_whose_image_cannot_come_for_reasons_of_its_own_is_planned_around() -> None:
    run = lacking("h3", hosts=4, wanted=request(image_pull="never")).answer()
    for _sender in range(3):
        run.answer({hosts_of(run.state)[0]: {"port": 8480, "server": {"pid": 5, "start": 7}}})
        if run.step == "receive":
            run.answer(h3=SICK)
    assert run.until("hold").record.hosts == ("h1", "h2", "h4")


def test_a_host_that_cannot_keep_the_record_of_one_that_waits_is_named() -> None:
    run = full(0).until("queue").answer(h2=SICK)
    assert run.state["outcome"]["status"] == PENDING
    assert run.state["warnings"] == ["h2 could not write the session down: No space left on device."]
    run = full(0).until("queue").answer(dict.fromkeys(("h1", "h2", "h3"), SICK))
    assert "h3 could not write the session down" in run.state["failure"]


def test_a_host_that_keeps_containers_out_and_cannot_write_is_warned_of() -> None:
    run = Launch(hosts=4).until("start").answer(h4={"actions": [], "unwritten": "No space left on device."})
    assert run.state["warnings"] == ["h4 could not write the session down: No space left on device."]
    assert run.state["outcome"]["status"] == "RUNNING"


def test_a_host_that_cannot_make_its_keys_or_folders_fails_the_launch_as_one_that_cannot_start() -> None:
    unmade = {**refused(""), "granted": True, "reasons": [], "failed": True, "msg": "It is really /etc."}
    del unmade["public_keys"]
    run = Launch().until("hold").answer(h2=unmade)
    assert run.step == "undo"
    assert run.answer().state["failure"].splitlines()[1] == "h2: It is really /etc."
    queued = from_queue().until("hold").answer(h2=unmade)
    assert (queued.step, queued.sent()["record"]["status"]) == ("undo", ERROR)
    again = Launch().until("").run_on()
    again.hosts["h1"]["public_keys"] = {}
    assert "could not be repaired" in again.until("hold").answer(h1=unmade).state["failure"]


DRAIN = {"reason": "new memory", "by": "alice", "since": "2026-01-01T00:00:00Z"}


def test_a_host_that_is_drained_gets_nothing_new_and_keeps_what_it_has() -> None:
    run = Launch(hosts=4)
    run.hosts["h2"]["drained"] = DRAIN
    assert run.until("hold").record.hosts == ("h1", "h3", "h4")
    run = Launch()
    run.hosts["h2"]["drained"] = DRAIN
    report = run.until("queue").state["report"]
    assert report[-2] == "Host h2: It is drained (alice, 2026-01-01T00:00:00Z): new memory"
    again = Launch().until("").run_on()
    again.hosts["h2"].update(drained=DRAIN, reservations=[])
    assert again.until("").steps == ["look", "hold", "start"]


def test_an_engine_that_writes_no_firewall_rules_is_told_by_each_launch_on_it() -> None:
    run = Launch()
    run.hosts["h2"]["engine"]["no_rules"] = '"iptables": false in /etc/docker/daemon.json'
    (said,) = run.until("hold").state["warnings"]
    assert said.startswith(
        'Host h2: Docker Engine writes no firewall rules ("iptables": false in /etc/docker/daemon.json)'
    )


HELD = "UDP port 4789 is held by the link vxlan_sys_4789."


def test_hosts_that_can_be_no_end_of_an_overlay_are_left_out_before_anything_is_made() -> None:
    run = Launch(hosts=4)
    run.hosts["h2"]["no_overlay"] = HELD
    assert run.until("hold").record.hosts == ("h1", "h3", "h4")
    run = Launch()
    run.hosts["h2"]["no_overlay"] = HELD
    run.until("queue")
    assert run.steps == ["look", "name"]
    assert f"Host h2: {HELD}" in run.state["report"]


def test_hosts_that_have_one_address_are_told_and_nothing_is_made() -> None:
    run = Launch()
    for host in run.hosts.values():
        host["underlay"] = {"address": "10.0.2.15", "interface": "eth0", "mtu": 1500}
    run.until("queue")
    assert run.steps == ["look", "name"]
    (said,) = [line for line in run.state["report"] if line.startswith("Host h1: ")]
    assert "Its underlay address 10.0.2.15 is one that h2, h3 have as well" in said
    assert "cluster_compute_underlay_address" in said
    run = Launch(hosts=5)
    for name in ("h1", "h2"):
        run.hosts[name]["underlay"] = {"address": "10.0.2.15", "interface": "eth0", "mtu": 1500}
    assert run.until("hold").record.hosts == ("h3", "h4", "h5")


def test_a_host_that_is_drained_after_the_look_refuses_and_is_planned_around() -> None:
    run = Launch(hosts=4).until("hold")
    assert "h2" in run.record.hosts
    run.hosts["h2"]["drained"] = DRAIN
    run.answer(h2=refused("It is drained (alice, 2026-01-01T00:00:00Z): new memory")).answer()
    assert run.until("hold").record.hosts == ("h1", "h3", "h4")


def test_a_host_that_went_away_is_planned_around() -> None:
    run = Launch(hosts=4).until("hold").answer(h2=AWAY).answer()
    assert run.step == "look"
    assert run.answer(h2=AWAY).record.hosts == ("h1", "h3", "h4")


@pytest.mark.parametrize(("tentative", "fails"), [((HIGHER,), False), ((), True)])
def test_one_that_runs_waits_for_who_has_not_decided_and_fails_else(tentative: tuple[str, ...], fails: bool) -> None:
    again = Launch().until("").run_on()
    again.hosts["h2"]["reservations"] = []
    again.until("hold").answer(h2=refused("It is taken.", LOWER, *tentative) if not fails else refused("It is taken."))
    again.answer()
    assert ("failure" in again.state, again.step) == (fails, "" if fails else "look")


# ---- failures ------------------------------------------------------------------------------------------------------


def test_what_a_failed_launch_made_is_removed_and_every_reason_told() -> None:
    run = Launch().until("start").answer(h2=BROKEN, h3={"failed": True, "msg": "No such image"})
    assert (run.step, hosts_of(run.state)) == ("undo", ["h1", "h2", "h3"])
    arguments = run.sent()
    assert (arguments["state"], arguments["session_id"], arguments["undo"]) == ("absent", run.record.id, True)
    assert "keep_record" not in arguments
    lines = run.answer().state["failure"].splitlines()
    assert lines[0] == "The session train could not be launched; what this launch had made is removed."
    assert lines[1:3] == ["h2: The disk is full.", "h3: No such image."]


def test_what_could_not_be_undone_is_remembered() -> None:
    run = Launch(hosts=3, attempts=1).until("start").answer(h2=AWAY).answer(h2=AWAY)
    known = {"id": run.record.id, "name": "train", "hosts": ["h1", "h2", "h3"]}
    run.answer(h1={"actions": [], "sessions": [known], "tombstones": []}, h2=AWAY)
    assert (run.step, hosts_of(run.state)) == ("remember", ["h1", "h3"])
    assert run.sent()["tombstones"] == [{"id": run.record.id, "name": "train", "hosts": ["h2"], "schema": 1}]
    assert run.answer().state["failure"].splitlines()[1] == "h2: No route."


def test_a_host_that_is_lost_while_it_starts_is_planned_around() -> None:
    run = Launch(hosts=4).until("start").answer(h2=AWAY).answer(h2=AWAY)
    assert run.step == "undo"
    assert run.answer(h2=AWAY).step == "look"
    assert run.answer(h2=AWAY).until("").record.hosts == ("h1", "h3", "h4")


def test_a_connection_that_is_lost_for_a_moment_costs_nobody_the_place() -> None:
    run = Launch().until("start").answer(h2=AWAY)
    assert (run.step, run.state["pause"], hosts_of(run.state)) == ("start", 0, ["h1", "h2", "h3"])
    assert run.until("").state["outcome"]["status"] == "RUNNING"
    assert run.steps == ["look", "hold", "start", "start"]
    assert Launch().until("start").answer(h2=AWAY, h3=BROKEN).step == "undo"


def test_what_works_of_a_session_that_runs_stays_where_another_part_fails() -> None:
    again = Launch().until("").run_on()
    again.until("start").answer(h2=BROKEN)
    assert again.step == ""
    assert again.state["failure"].splitlines()[0] == (
        "The session train could not be repaired; what works of it stays as it is."
    )


NO_ENGINE = {"host": {"usable": False, "problem": "It has no engine."}}
MALFORMED = {"host": {"usable": True, "containers": 7}}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (NO_ENGINE, "It has no engine."),
        (BROKEN, "The disk is full."),
        (MALFORMED, "Host h2's host.containers is 7, where a list is expected."),
    ],
)
@pytest.mark.parametrize("queued", [False, True])
def test_a_host_that_cannot_be_used_is_left_out_with_the_reason(answer: dict[str, Any], why: str, queued: bool) -> None:
    run = (from_queue(hosts=4) if queued else Launch(hosts=4)).answer(h2=answer)
    assert run.state["warnings"] == [f"Hosts that cannot be used are left out: h2. {why}"]
    assert run.record.hosts == ("h1", "h3", "h4")
    assert "h2" not in hosts_of(run.state)


def test_hosts_that_are_asked_for_and_cannot_be_used_are_refused_before_anything_is_held() -> None:
    run = Launch(request(hosts=["h2", "h3", "h4"], size=2), hosts=4).answer(h1=NO_ENGINE, h2=NO_ENGINE)
    assert (run.step, run.state["failure"].splitlines()[0]) == ("", "The session cannot be launched.")
    assert run.state["failure"].splitlines()[1:] == [
        "host h2 is 'not usable': It has no engine. Or take it out of the resource group."
    ]
    run = Launch(hosts=2).answer(h1=NO_ENGINE, h2=MALFORMED)
    assert [line.split()[1] for line in run.state["failure"].splitlines()[1:]] == ["h1", "h2"]


def test_a_session_that_runs_on_a_host_that_cannot_be_used_is_refused_with_the_reason() -> None:
    again = Launch().until("").run_on().answer(h2=NO_ENGINE)
    assert "has replicas on h2" in again.state["failure"]
    assert again.state["failure"].endswith("h2: It has no engine.")


def test_another_request_for_a_session_that_runs_is_refused_with_the_difference() -> None:
    first = Launch(request(size=2)).until("")
    again = first.run_on()
    again.state["request"]["request"] = request(size=2, cpus="0.5").to_dict()
    again.answer()
    assert "exists with a different specification" in again.state["failure"]
    assert "cpus" in again.state["diff"]["before"] + again.state["diff"]["after"]


# ---- replacing -----------------------------------------------------------------------------------------------------


def replacing(**given: Any) -> Launch:
    first = Launch(request(size=2)).until("")
    run = first.run_on()
    run.state["request"].update(request=request(size=3, **given).to_dict(), recreate=True)
    return run


def test_one_that_is_replaced_is_removed_before_the_place_is_held() -> None:
    run = replacing()
    assert run.until("").steps == ["look", "replace", "hold", "start"]
    assert run.state["outcome"]["status"] == "RUNNING"


def test_shared_folders_are_tried_before_anything_is_removed() -> None:
    run = replacing(mounts="share:/data")
    run.hosts = {host: {**own, "volumes": {"share": None}} for host, own in run.hosts.items()}
    run.answer()
    assert run.step == "offer"
    compared = run.answer().answer(h3={"failed": True, "msg": "It is another folder."})
    assert compared.step == "withdraw"
    assert compared.answer().state["failure"].splitlines() == [
        "The session train cannot be launched again; the running one was not touched.",
        "h3: It is another folder.",
    ]
    assert "replace" not in compared.steps


def test_a_host_that_was_away_when_the_session_was_replaced_is_cleaned_when_it_is_back() -> None:
    run = replacing().until("replace")
    known = {"id": LOWER, "name": "train", "hosts": ["h1"]}
    run.answer(h1={"actions": [], "sessions": [known], "tombstones": []}, h2=AWAY)
    assert (run.step, run.sent()["tombstones"][0]["hosts"]) == ("remember", ["h2"])
    assert run.answer().step == "hold"
    assert run.until("").state["outcome"]["status"] == "RUNNING"


def test_a_session_that_could_not_be_removed_is_not_replaced() -> None:
    run = replacing().until("replace").answer(h2=BROKEN)
    assert run.step == ""
    assert run.state["failure"].splitlines()[:2] == [
        "The session train is not removed from every host.",
        "h2: The disk is full.",
    ]


# ---- the queue and waiting -----------------------------------------------------------------------------------------


def test_a_session_without_room_waits_on_every_host() -> None:
    run = Launch(request(size=5, cpus=2), hosts=5, hands_on=True)
    others = Launch(request(name="other", cpus=2), hosts=3).until("").run_on().hosts
    run.hosts.update(others)
    run.answer()
    assert (run.step, hosts_of(run.state)) == ("queue", ["h1", "h2", "h3", "h4", "h5"])
    artifact = launch.handed_on(run.state)
    assert artifact is not None
    assert artifact.status == PENDING
    assert run.sent()["records"][0]["status"] == PENDING
    run.answer()
    assert run.step == ""
    assert launch.closing_lines(run.state)[0] == "Session train is PENDING, position 1 in the queue."


def without_capacity(**options: Any) -> Launch:
    return Launch(request(size=9, max_replicas_per_host=1), 8, **options).answer()


def test_who_would_wait_looks_once_more_at_a_host_that_did_not_answer() -> None:
    run = Launch().answer(h3=AWAY)
    assert (run.step, run.state["pause"]) == ("look", 0)
    assert run.until("").state["outcome"]["status"] == "RUNNING"
    run = Launch().answer(h3=AWAY).answer(h3=AWAY)
    assert run.step == "name"
    limited = Launch()
    limited.state["left_out"] = ["h3"]
    assert limited.answer(h3=AWAY).step == "name"


def test_a_name_is_held_before_a_request_is_kept_under_it() -> None:
    run = without_capacity()
    assert (run.step, sorted(hosts_of(run.state))) == ("name", sorted(name_hosts("train", list(run.hosts), {})))
    arguments = run.sent(hosts_of(run.state)[0])
    assert (arguments["state"], arguments["claim"]["session_id"]) == ("named", run.state["pending"]["id"])
    assert run.answer().step == "queue"
    assert run.sent("h1")["lease_owner"] == arguments["lease_owner"], "it is given back where the record is"
    assert without_capacity().answer(dict.fromkeys(arguments and hosts_of(run.state), BROKEN)).step == "queue"
    assert without_capacity(check_mode=True).step == "queue"


def test_who_finds_the_name_taken_when_it_is_to_wait_gives_back_what_it_holds_and_looks_again() -> None:
    (first, *others) = hosts_of(without_capacity().state)
    run = without_capacity(attempts=2).answer({first: refused("The name train is taken by session x of bob.")})
    assert (run.step, sorted(hosts_of(run.state))) == ("release", sorted([first, *others]))
    assert (run.answer().step, run.state["pause"]) == ("look", 0)
    run.answer()
    assert run.answer({first: refused("The name train is taken by session x of bob.")}).step == "release"
    assert f"{first}: The name train is taken by session x of bob." in run.answer().state["failure"]
    tentative = without_capacity().answer({first: refused("x", HIGHER)})
    assert (tentative.step, tentative.state["pause"]) == ("name", 0)


def full(wait: int) -> Launch:
    run = Launch(hosts=3, wait=wait)
    run.ids = itertools.count(2)  # the other has the first
    run.hosts.update(Launch(request(name="other", cpus="1.5"), hosts=3).until("").run_on().hosts)
    return run


def test_who_waits_looks_again_when_something_has_changed() -> None:
    run = full(wait=100)
    run.state["request"]["request"] = request(cpus="1.5").to_dict()
    assert run.until("queue").answer().step == "wait"
    arguments = run.sent()
    assert (arguments["seconds"], arguments["signature"], arguments["pause"]) == (100, "as it was", 100 * 1 / 5000)
    waiting = run.state["waits"]
    run.hosts = {host: {**own, "records": [*own["records"], waiting]} for host, own in run.hosts.items()}
    # Nothing is to be kept anew while all know it as it is, and who waits looks in the same call.
    assert run.answer().step == "wait"
    run.hosts["h2"]["records"].pop()
    assert run.answer().step == "queue"
    run.hosts = {f"h{number}": facts(read_record(waiting), number=number) for number in (1, 2, 3)}
    assert run.answer().step == "wait"
    run.answer()
    assert (run.step, run.state["attempt"], run.state["rounds"]) == ("hold", 1, 3)
    assert run.until("").state["outcome"]["status"] == "RUNNING"
    assert run.record.id == waiting["id"]


@pytest.mark.parametrize("answer", [AWAY, BROKEN])
def test_who_has_waited_looks_at_all_hosts_where_not_all_have_answered(answer: dict[str, Any]) -> None:
    run = full(wait=100)
    run.state["request"]["request"] = request(cpus="1.5").to_dict()
    assert run.until("wait").answer(h2=answer).step == "look"
    # Nor does the next wait ask who was away.
    run.answer(h2=AWAY)
    assert hosts_of(run.until("wait").state) == ["h1", "h3"]
    assert run.answer().step == "look"


@pytest.mark.parametrize("seconds", [100, 12345678])
def test_who_has_waited_for_too_long_fails_and_stays_in_the_queue(seconds: int) -> None:
    run = full(wait=seconds)
    run.state["request"]["request"] = request(cpus="1.5").to_dict()
    run.until("queue")
    run.now += seconds
    assert run.answer().step == ""
    assert (
        f"got no room within {seconds} seconds (session_wait_seconds); it stays in the queue." in run.state["failure"]
    )


def test_in_check_mode_nobody_waits() -> None:
    run = full(wait=100)
    run.check_mode = True
    run.state["request"]["request"] = request(cpus="1.5").to_dict()
    assert run.until("").state["outcome"]["status"] == PENDING


@pytest.mark.parametrize("check_mode", [False, True])
def test_who_is_to_fail_without_capacity_fails_and_is_not_queued(check_mode: bool) -> None:
    run = without_capacity(on_no_capacity="fail", check_mode=check_mode)
    assert run.step == ""
    first, *others = run.state["failure"].splitlines()[1:]
    assert first == "There is no capacity for session train now, and session_on_no_capacity is fail."
    assert "Largest size that fits now" in " ".join(others)
    assert others[-1] == "Nothing was started or queued."


def test_who_is_to_fail_without_capacity_has_its_place_where_there_is_some() -> None:
    assert Launch(on_no_capacity="fail").until("").state["outcome"]["status"] == "RUNNING"


def test_who_is_to_fail_without_capacity_first_looks_once_more_at_a_host_that_did_not_answer() -> None:
    run = Launch(on_no_capacity="fail").answer(h3=AWAY)
    assert run.step == "look"
    assert run.until("").state["outcome"]["status"] == "RUNNING"
    assert "is fail" in Launch(on_no_capacity="fail").answer(h3=AWAY).answer(h3=AWAY).state["failure"]


def launched_again_while_it_waits(wanted: Request, **wishes: Any) -> Launch:
    """Return a launch that is to fail without capacity, after its first decision; another launch has queued it."""
    run = full(wait=0)
    run.state["request"]["request"] = request(cpus="1.5").to_dict()
    waiting = run.until("queue").state["pending"]
    again = full(wait=0)
    again.hosts = {host: {**own, "records": [*own["records"], waiting]} for host, own in again.hosts.items()}
    again.state["request"].update(request=wanted.to_dict(), on_no_capacity="fail", **wishes)
    return again.answer()


def test_who_is_to_fail_without_capacity_leaves_its_place_in_the_queue_as_it_is() -> None:
    again = launched_again_while_it_waits(request(cpus="1.5"))
    assert (again.step, again.state["calls"]) == ("", [])
    assert "Session train is PENDING, position 1 in the queue." in again.state["failure"]


def test_who_is_to_fail_is_told_that_its_earlier_request_still_waits() -> None:
    again = launched_again_while_it_waits(request(cpus="1.5", size=4), recreate=True)
    assert again.step == ""
    assert "Nothing was started or queued; the earlier request stays in the queue." in again.state["failure"]
    assert "is PENDING" not in again.state["failure"]


def test_who_is_to_fail_waits_after_all_once_the_session_that_it_replaces_is_gone() -> None:
    run = Launch().until("").run_on(request(cpus="1.5"), recreate=True, on_no_capacity="fail").until("replace").answer()
    assert (run.step, run.state["request"]["on_no_capacity"]) == ("hold", "queue")


def test_who_is_to_fail_where_others_were_faster_gives_back_what_it_holds_and_fails() -> None:
    run = Launch(on_no_capacity="fail", attempts=1).until("hold").answer(h1=refused("h1 has no room.", HIGHER))
    assert run.step == "release"
    assert "Session train cannot be launched now: concurrent launches took" in run.until("").state["failure"]
    assert "queue" not in run.steps


def test_one_that_was_cancelled_while_somebody_waited_for_it_fails() -> None:
    run = Launch(waits=waiting_record()).answer()
    assert run.step == ""
    assert "It was cancelled while it waited." in run.state["failure"]


def test_one_from_the_queue_that_was_cancelled_is_an_outcome() -> None:
    run = Launch(waits=waiting_record(), from_queue=True).answer()
    assert (run.step, run.state["outcome"]["status"]) == ("", "CANCELLED")


def test_one_from_the_queue_that_cannot_be_started_keeps_its_record_with_the_reasons() -> None:
    run = from_queue().until("start").answer(h2=BROKEN)
    assert (run.step, hosts_of(run.state)) == ("undo", ["h1", "h2", "h3"])
    assert (run.sent()["keep_record"], run.sent()["record"]["status"]) == (True, ERROR)
    outcome = run.answer().state["outcome"]
    assert outcome == {"session_name": "train", "status": ERROR, "report": ["h2: The disk is full."]}


def test_one_from_the_queue_whose_host_went_away_tries_again_and_waits_on_in_the_end() -> None:
    run = from_queue(attempts=2).until("start").answer(h2=AWAY).answer(h2=AWAY)
    kept = run.sent()["record"]
    assert (run.step, kept["status"]) == ("undo", PENDING)
    run.hosts = {host: {**own, "records": [kept]} for host, own in run.hosts.items()}
    assert run.answer().step == "look"
    run.until("start").answer(h2=AWAY).answer(h2=AWAY).answer(h2=AWAY)
    assert run.state["outcome"]["status"] == PENDING


def test_one_from_the_queue_that_is_refused_waits_on_without_a_failure() -> None:
    run = from_queue().until("hold").answer(h2=BROKEN).answer()
    assert run.step == "queue"
    assert run.answer().state["outcome"]["status"] == PENDING


def test_who_is_being_launched_by_another_run_is_asked_for_again_and_left_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planning, "_current", lambda _planner: prepared(waiting_record(), {"hosts": {}}))
    run = Launch(attempts=2)
    assert (run.answer().step, run.state["pause"]) == ("look", 0)
    outcome = run.answer().state["outcome"]
    assert outcome["report"] == ["Session train is being launched by another run."]


def held_by_another(run: Launch, lease_owner: str = "another", left: int = 95) -> Launch:
    """Let another run hold the place of a session of the same name on h1 and h2, last heard of 25 seconds ago."""
    claims = Launch().until("hold").state["claims"]
    for host in ("h1", "h2"):
        claim = decode(Claim, {**claims[host]["claim"], "session_id": HIGHER}, "It")
        held = Reservation(claim, LEASED, "boot", 1000.0 + left, lease_owner, 975.0)
        run.hosts[host] = {**run.hosts[host], "reservations": [held.to_dict()], "clock": 1000.0}
    return run


def test_who_finds_its_name_being_launched_says_so_and_waits_as_long_as_that_holds() -> None:
    run = held_by_another(Launch(attempts=1)).answer()
    says = (
        "Session train is being launched by another run, which was last heard of 25 s ago; its place on h1, h2 is held "
        "for 95 s more."
    )
    assert (run.step, run.state["pause"], run.state["lines"]) == ("look", 9.5, [says])
    assert held_by_another(run, left=3).answer().state["pause"] == 1
    run.now += 200
    assert run.answer().state["failure"].splitlines()[-1] == "Launch the session again when that run has ended."
    run = held_by_another(Launch()).answer()
    run.hosts = Launch().hosts
    assert run.until("").state["outcome"]["status"] == "RUNNING"


def test_who_waits_for_a_launch_of_many_waves_waits_as_long_as_that_goes_on() -> None:
    run = held_by_another(Launch())
    rounds = 0
    for _wave in range(16):
        for host in ("h1", "h2"):  # it is held for a whole deadline more
            run.hosts[host]["reservations"][0]["expires"] = run.hosts[host]["clock"] + 600.0
        begun = run.now
        while run.now < begun + 500:
            run.answer()
            assert run.step == "look", run.state["failure"]
            rounds += 1
            run.now += run.state["pause"]
            for host in ("h1", "h2"):
                run.hosts[host]["clock"] += run.state["pause"]
    assert rounds < 100, "each includes the next"
    run.now += 1000
    assert run.answer().state["failure"].splitlines()[-1] == "Launch the session again when that run has ended."


def test_in_check_mode_and_from_the_queue_nobody_waits_for_another_run() -> None:
    assert held_by_another(Launch(check_mode=True)).answer().state["outcome"]["status"] == PENDING
    assert held_by_another(Launch(from_queue=True)).answer().state["pause"] == 0


def test_what_a_run_held_that_has_ended_for_sure_is_taken_over() -> None:
    run = held_by_another(kept_out(8), "it has ended")
    run.answer()
    assert run.step == "takeover"
    calls = {host: run.sent(host) for host in hosts_of(run.state)}
    assert {"h1", "h2"} <= set(calls)
    assert set(calls) >= set(name_hosts("train", list(run.hosts), {}))
    assert {(arguments["state"], arguments["lease_owner"]) for arguments in calls.values()} == {
        ("released", "it has ended")
    }
    assert not any("record" in arguments for arguments in calls.values()), "the leases alone"
    assert run.answer().step == "look"


# ---- what lies in the way ------------------------------------------------------------------------------------------


def test_what_nobody_owns_goes_first_and_the_hosts_are_looked_at_again() -> None:
    run = Launch()
    ended = advance(new_record(LOWER, "alice", request().to_dict()), ERROR, "It failed.", report=("Gone.",))
    run.hosts["h1"]["records"] = encode([ended])
    run.answer()
    assert (run.step, hosts_of(run.state)) == ("cleanup", ["h1"])
    assert (run.sent()["session_id"], run.sent()["unless_reserved"]) == (LOWER, True)
    run.hosts["h1"]["records"] = []
    assert run.answer().step == "look"
    assert run.until("").steps == ["look", "cleanup", "look", "hold", "start"]


def test_what_cannot_be_removed_keeps_nobody_from_his_launch() -> None:
    run = Launch()
    ended = advance(new_record(LOWER, "alice", request().to_dict()), ERROR, "It failed.", report=("Gone.",))
    run.hosts["h1"]["records"] = encode([ended])
    run.answer().answer(h1=BROKEN)
    assert run.state["warnings"] == ["Parts that no session owns could not be removed from h1: The disk is full."]
    assert run.until("").state["outcome"]["status"] == "RUNNING"


# ---- images --------------------------------------------------------------------------------------------------------


def lacking(*hosts: str, **options: Any) -> Launch:
    run = Launch(**options)
    for host in hosts:
        run.hosts[host]["images"] = {"busybox": None}
    return run


def test_an_image_goes_from_host_to_host_before_the_place_is_held() -> None:
    run = lacking("h3", wanted=request(image_pull="never")).answer()
    assert (run.step, run.state["title"]) == ("serve", "Start to serve, round 1 of 1, hosts: 1")
    run.answer(h1={"port": 8480, "server": {"pid": 5, "start": 7}})
    assert (run.step, hosts_of(run.state), run.sent("h3")["server"]["port"]) == ("receive", ["h3"], 8480)
    run.answer(h3={"bytes": 5, "seconds": 1.0})
    assert (run.step, run.state["saying"]) == ("hold", "Report who has got it from whom")
    assert run.state["lines"] == ["h3 got busybox from h1 (0.0 MB in 1.0 s)."]
    assert run.record.plan["images"]["busybox"]["ids"] == dict.fromkeys(("h1", "h2", "h3"), IMAGE)


def test_who_serves_in_vain_is_ended_and_another_asked() -> None:
    run = lacking("h3", wanted=request(image_pull="never")).answer()
    for _sender in ("h1", "h2"):
        (sender,) = hosts_of(run.state)
        run.answer({sender: {"port": 8480, "server": {"pid": 5, "start": 7}}}).answer(h3={"msg": "It ended"})
    assert (run.step, hosts_of(run.state)) == ("stop", ["h1", "h2"])
    failure = run.answer().state["failure"]
    assert failure.startswith("The session cannot be launched: its image cannot be had. Nothing was started.")
    assert "h3 did not get busybox from h2: It ended." in failure


def test_one_host_asks_the_registry_and_all_pull() -> None:
    run = lacking("h1", "h2", "h3").answer()
    assert (run.step, hosts_of(run.state)) == ("ask", ["h1"])
    digest = f"sha256:{'d' * 64}"
    run.answer(h1={"digests": {"busybox": digest}, "problems": {}})
    assert (run.step, run.state["title"]) == ("pull", "Pull by digest, in parallel, hosts: 3")
    assert run.state["saying"] == "Report which image it is"
    came = {"pulled": {"busybox": {"id": IMAGE, "bytes": 5, "seconds": 1.0}}, "problems": {}}
    assert run.answer(dict.fromkeys(("h1", "h2", "h3"), came)).step == "hold"


def test_an_image_that_is_nowhere_ends_one_from_the_queue_with_an_error() -> None:
    run = from_queue()
    for host in run.hosts.values():
        host["images"] = {"busybox": None}
    run.answer()
    run.answer(h1={"digests": {}, "problems": {"busybox": "unauthorized"}, "denied": ["busybox"]})
    assert (run.step, run.sent()["records"][0]["status"]) == ("keep", ERROR)
    assert run.answer().state["outcome"]["status"] == ERROR


REGISTRY_AWAY = {"digests": {}, "problems": {"busybox": "503 Service Unavailable"}}


@pytest.mark.parametrize("answer", [REGISTRY_AWAY, AWAY, BROKEN])
def test_one_from_the_queue_waits_on_while_its_registry_cannot_give_the_image(answer: dict[str, Any]) -> None:
    run = from_queue()
    for host in run.hosts.values():
        host["images"] = {"busybox": None}
    run.answer().answer(h1=answer)
    kept = run.sent()["records"][0]
    assert (run.step, kept["status"]) == ("keep", PENDING)
    assert kept["history"][-1]["reason"] == "Its image could not be had while it was being started."
    assert all("h1 asked the registry: " in line for line in kept["report"])
    assert run.answer().state["outcome"]["status"] == PENDING


@pytest.mark.parametrize(
    ("said", "is_written"),
    [
        ("503 Service Unavailable", False),
        ("read tcp 10.0.0.5:43210->10.0.0.9:443: i/o timeout", False),
        ("429 Too Many Requests", True),
    ],
)
def test_why_an_image_cannot_be_had_is_written_once(said: str, is_written: bool) -> None:
    before = said.replace("43210", "51234").replace("429", "503")

    def tried(waits: Record, problem: str) -> Launch:
        run = Launch(from_queue=True, waits=waits)
        for host in run.hosts.values():
            host.update(images={"busybox": None}, records=encode([waits]))
        return run.answer().answer(h1={"digests": {}, "problems": {"busybox": problem}})

    waits = read_record(tried(waiting_record(), before).sent()["records"][0])
    run = tried(waits, said)
    assert run.step == ("keep" if is_written else "")
    assert is_written or run.state["outcome"]["status"] == PENDING


def test_a_registry_that_lets_a_host_wait_is_not_asked_by_it_again_in_a_run() -> None:
    def lacking_all(silent: dict[str, list[str]] | None = None) -> Launch:
        run = from_queue()
        run.state["silent_registries"] = silent or {}
        for host in run.hosts.values():
            host["images"] = {"busybox": None}
        return run.answer()

    quick = lacking_all().answer(h1=REGISTRY_AWAY).answer()
    assert "silent_registries" not in quick.state["outcome"]
    run = lacking_all()
    run.now += 30
    silent = run.answer(h1=REGISTRY_AWAY).answer().state["outcome"]["silent_registries"]
    assert silent == {"h1": ["docker.io"]}
    kept = lacking_all(silent)
    assert (kept.step, kept.sent()["records"][0]["status"]) == ("keep", PENDING)
    assert "docker.io gave no answer earlier in this run" in kept.sent()["records"][0]["report"][0]
    assert lacking_all({"h2": ["docker.io"]}).step == "ask"
    assert lacking_all({"h1": ["registry.example"]}).step == "ask"


def test_a_host_that_a_registry_lets_wait_does_not_pull_again_in_a_run() -> None:
    digest = {"digests": {"busybox": f"sha256:{'d' * 64}"}, "problems": {}}
    run = from_queue()
    run.state["silent_registries"] = {"h2": ["docker.io"]}
    for host in run.hosts.values():
        host["images"] = {"busybox": None}
    run.answer().answer(h1=digest)
    assert (run.step, hosts_of(run.state)) == ("pull", ["h1", "h3"])
    came = {"pulled": {"busybox": {"id": IMAGE, "bytes": 5, "seconds": 1.0}}, "problems": {}}
    assert run.answer(h1=came, h3=came).step == "serve", "it gets it from another host"


def test_one_from_the_queue_waits_on_while_a_host_cannot_pull() -> None:
    run = from_queue()
    for host in run.hosts.values():
        host["images"] = {"busybox": None}
    run.answer().answer(h1={"digests": {"busybox": f"sha256:{'d' * 64}"}, "problems": {}})
    failed = {"pulled": {}, "problems": {"busybox": "toomanyrequests"}}
    kept = run.answer(dict.fromkeys(hosts_of(run.state), failed)).sent()["records"][0]
    assert (run.step, kept["status"]) == ("keep", PENDING)


def test_one_that_is_launched_by_hand_is_told_that_its_registry_may_give_the_image_later() -> None:
    run = lacking("h1", "h2", "h3").answer().answer(h1=REGISTRY_AWAY)
    assert "Launch it again later" in run.state["failure"]
    run = lacking("h1", "h2", "h3").answer().answer(h1={**REGISTRY_AWAY, "denied": ["busybox"]})
    assert "Correct session_image" in run.state["failure"]


# ---- batch ---------------------------------------------------------------------------------------------------------


def test_a_batch_command_is_started_when_all_replicas_work() -> None:
    run = Launch(request(batch_command="solve")).until("start").answer()
    assert (run.step, hosts_of(run.state)) == ("batch", ["h1"])
    assert (run.sent()["command"], run.sent()["once"]) == (run.record.request["batch_command"], True)
    assert run.answer().state["outcome"]["status"] == "RUNNING"


def test_a_batch_command_that_cannot_be_started_fails_the_launch() -> None:
    run = Launch(request(batch_command="solve")).until("batch").answer(h1=BROKEN)
    assert run.step == "undo"


# ---- check mode ----------------------------------------------------------------------------------------------------


def test_check_mode_goes_the_same_way_and_keeps_what_would_be_done() -> None:
    run = Launch(check_mode=True, hands_on=True).until("start")
    run.answer({host: {"actions": ["create container"], "replicas": []} for host in ("h1", "h2", "h3")})
    assert run.state["outcome"]["status"] == "PLANNED"
    assert run.state["done"]["h2"] == ["create key", "create container"]
    assert "PLANNED" in launch.closing_lines(run.state)[2]


def test_two_that_begin_under_one_name_at_the_same_moment_are_waited_for_and_both_records_are_no_error() -> None:
    run = Launch(request(size=1, hosts=["h1"]))
    for host, number in (("h1", 7), ("h2", 8)):
        other = Launch(request(size=1, hosts=[host]))
        other.ids = itertools.count(number)
        other.until("hold")
        held = Reservation(claims_of(read_plan(other.record.plan))[host], LEASED, "boot", 130.0, "another run", 90.0)
        run.hosts[host] = facts(other.record, held=[held], number=int(host[1:]))
        run.hosts[host]["clock"] = 100.0
    run.answer()
    assert "failure" not in run.state
    assert run.state["lines"][0].startswith("Session train is being launched by another run")
    for reported in run.hosts.values():  # where nobody is at work it is one
        for held in reported["reservations"]:
            held.update(stage="committed", expires=None)
        for record in reported["records"]:
            record["status"] = "RUNNING"
    run.until("")
    assert "Hosts have records of different sessions of this name" in run.state["failure"]


# ---- a host that is left out is not asked for paths ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("only", "excluded", "asked"),
    [
        ([], [], "h1 h2 h3"),
        (["h1", "h2"], [], "h1 h2"),
        ([], ["h1"], "h2 h3"),
        (["h1", "h2"], ["h2"], "h1"),
        (["former", "h2"], [], "h1 h2 h3"),
        (["former", "h2"], ["h3"], "h1 h2"),
    ],
)
def test_which_hosts_are_asked_for_paths(only: list[str], excluded: list[str], asked: str) -> None:
    """By every look of a launch, whose first one is a task of its role. Of hosts with other names nobody knows."""
    known = ["h1", "h2", "h3"]
    given = {"paths": ["/data"], "only_hosts": only, "excluded_hosts": excluded}
    wanted = replace(NOTHING, paths=["/data"], only_hosts=only, excluded_hosts=excluded)
    assert [host for host in known if paths_on(host, wanted, known)] == asked.split()
    loader = DataLoader()
    (look, *_rest) = loader.load_from_file(str(Path(__file__).parents[7] / "roles/launch/tasks/plan.yml"))
    text = as_template(look["cluster_compute.session.host_info"]["paths"])
    variables = {"ansible_play_hosts_all": known, "launch_request": given}
    templars = {host: Templar(loader, variables={**variables, "inventory_hostname": host}) for host in known}
    found = {host: templar.template(text) for host, templar in templars.items()}
    assert [host for host in known if found[host] == ["/data"]] == asked.split()
    assert all(found[host] == [] for host in known if host not in asked.split())


def test_a_second_look_asks_the_same_hosts() -> None:
    wanted = request(hosts=["h1"], mounts=["/data:/data"])
    run = Launch(wanted)
    assert {host: run.sent(host).get("paths", []) for host in ("h1", "h2", "h3")} == {
        "h1": ["/data"],
        "h2": [],
        "h3": [],
    }

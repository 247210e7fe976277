# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a launch does to a session that runs and is to be larger, smaller, or without lost hosts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import (
    COMMITTED,
    LEASED,
    Claim,
    Reservation,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.patch import (
    difference,
    patched,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.plan import read_plan
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    Growth,
    Record,
    read_record,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.ledger import claims_of
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.launch import closing_lines
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.launch_flow import change
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.verb import hosts_of
from ansible_collections.cluster_compute.session.tests.support.core.rules.examples import (
    path_facts,
)
from ansible_collections.cluster_compute.session.tests.support.core.verbs.group import (
    AWAY,
    BROKEN,
    Launch,
    facts,
    refused,
    request,
)


def grown(size: int = 4, hosts: int = 5, before: dict[str, Any] | None = None, **options: Any) -> Launch:
    """Return a launch by which a session of three replicas on h1 to h3 becomes larger, or smaller."""
    first = Launch(request(**(before or {})), hosts).until("")
    return first.run_on(request(**{**(before or {}), "size": size}), **options)


def lost(*away: str, hosts: int = 5, silent: dict[str, list[str]] | None = None, **more: Any) -> Launch:
    """Return a launch of a session on h1 to h3, of which some cannot be reached; silent: as the others say."""
    first = Launch(request(on_host_loss="replace", **more), hosts).until("")
    run = first.run_on()
    for host, peers in (silent or {}).items():
        run.hosts[host]["silent_peers"] = {first.record.id: peers}
    run.answer(**dict.fromkeys(away, AWAY))
    if run.step == "look":
        run.answer(**dict.fromkeys(away, AWAY))
    return run


def test_growing_holds_the_new_places_and_tells_those_that_stay_the_difference() -> None:
    run = grown().until("reserve")
    before: Record = Launch(request(), 5).until("").record
    assert hosts_of(run.state) == ["h4", "h1"]
    arguments = run.sent("h4")
    assert (arguments["state"], arguments["claim"]["session_name"], arguments["claim"]["replicas"]) == (
        "held",
        "train+",
        1,
    )
    assert run.sent("h1")["claim"]["replicas"] == 0
    run.answer()
    assert (run.step, sorted(hosts_of(run.state))) == ("apply", ["h1", "h2", "h3", "h4", "h5"])
    assert run.sent("h5")["state"] == "stub"
    new, stays = run.sent("h4"), run.sent("h2")
    assert (new["record"]["plan"]["session"]["size"], new["prove"], "change_id" in new) == (4, True, True)
    assert new["public_keys"].keys() == {"main1", "sub1", "sub2", "sub3"}
    assert not {"record", "prove", "change_id"} & stays.keys()
    assert stays["public_keys"].keys() == {"sub3"}
    known = encode(run.hosts["h2"]["records"])[0]
    assert patched(known, stays["patch"]["changes"]) == run.state["record"]
    assert stays["patch"]["from"] == known["revision"]
    assert len(json.dumps(stays["patch"])) < len(json.dumps(known)) / 2
    assert before.plan["replicas"] == run.state["record"]["plan"]["replicas"][:3]
    run.answer()
    assert run.state["outcome"]["status"] == "RUNNING"
    assert run.steps == ["look", "reserve", "apply"]
    assert [replica["name"] for replica in run.state["replicas"]] == ["sub3"]
    assert closing_lines(run.state)[0].endswith("It has 4 replicas in place of 3.")


def test_what_proves_to_a_new_host_that_a_folder_is_shared_is_removed_afterwards() -> None:
    def may_mount(run: Launch) -> Launch:
        run.of_each_host = {"cluster_compute_mount_roots": ["/srv"]}
        for known in run.hosts.values():
            known["paths"] = {"/srv": path_facts("/srv")}
        return run

    first = may_mount(Launch(request(mounts=["/srv:/data"]), 4)).until("")
    run = may_mount(first.run_on(request(mounts=["/srv:/data"], size=4)))
    run.until("clear")
    assert run.steps == ["look", "reserve", "apply"]
    assert {host: data["data"]["/srv"]["proof"] for host, data in run.record.plan["hosts"].items()} == {
        "h1": "writes",
        "h2": "reads",
        "h3": "reads",
        "h4": "reads",
    }
    assert hosts_of(run.state) == ["h1"]
    assert run.sent("h1")["state"] == "released"
    assert run.answer().state["outcome"]["status"] == "RUNNING"


def test_shrinking_clears_the_hosts_that_carry_nothing_any_more() -> None:
    run = grown(1).until("")
    assert run.steps == ["look", "reserve", "part", "apply", "clear"]
    assert run.state["record"]["hosts"] == ["h1"]
    assert run.state["record"]["request"]["mode"] == "multi-node"


def test_replicas_that_go_end_before_others_let_go_of_them() -> None:
    # Two on each of three hosts: h3 leaves, h2 stays and loses one, h1 has only peers that go.
    run = grown(3, hosts=3, before={"max_replicas_per_host": 2, "size": 6}).until("part")
    assert hosts_of(run.state) == ["h2", "h3"]
    assert run.sent("h2")["state"] == "amended"
    assert (run.sent("h3")["state"], run.sent("h3").get("record")) == ("absent", None)
    run.answer()
    assert (run.step, hosts_of(run.state)) == ("apply", ["h1"])
    run.answer()
    assert (run.step, run.sent("h3")["record"]["hosts"]) == ("clear", ["h1", "h2"])
    assert run.answer().state["outcome"]["status"] == "RUNNING"


def test_where_all_that_stay_lose_replicas_nobody_is_told_twice() -> None:
    run = grown(1, hosts=2, before={"max_replicas_per_host": 2, "size": 3}).until("part")
    run.answer(h1={"stale": True, "actions": []})
    assert (run.step, hosts_of(run.state)) == ("again", ["h1"])
    run.answer()
    assert (run.step, hosts_of(run.state)) == ("clear", ["h2"])
    assert run.answer().state["outcome"]["status"] == "RUNNING"


@pytest.mark.parametrize("host", ["h2", "h3"])
def test_a_host_that_does_not_end_what_goes_stops_the_change(host: str) -> None:
    run = grown(3, hosts=3, before={"max_replicas_per_host": 2, "size": 6}).until("part")
    run.answer(**{host: AWAY})
    assert run.step == ""
    assert f"{host}: No route." in run.state["failure"]
    assert "was begun and not finished" in run.state["failure"]


def test_hosts_that_leave_are_told_a_stub() -> None:
    run = grown(2).until("clear")
    assert hosts_of(run.state) == ["h3"]
    arguments = run.sent("h3")
    assert (arguments["state"], arguments["keep_record"], arguments["record"].get("plan")) == ("absent", True, None)
    assert arguments["record"]["hosts"] == ["h1", "h2"]
    run.answer(h3=AWAY)
    assert run.state["outcome"]["status"] == "RUNNING"
    assert "h3 could not be cleaned: No route." in run.state["warnings"]


def test_without_room_nothing_is_changed_and_it_is_said() -> None:
    run = grown(9).until("")
    assert run.steps == ["look"]
    assert run.state["outcome"]["status"] == "PENDING"
    assert "stays as it is" in run.state["outcome"]["report"][0]


def test_growth_without_capacity_fails_where_that_is_asked_for() -> None:
    run = wants_to_grow(wait=0, on_no_capacity="fail").until("")
    assert "Session train stays as it is: there is no room for more replicas." in run.state["failure"]
    waiting = wants_to_grow().answer().record
    run = wants_to_grow(wait=0, on_no_capacity="fail")
    for host in ("h1", "h2", "h3"):
        run.hosts[host]["records"] = encode([waiting])
    assert run.answer().step == ""
    assert "waits for room to grow by 6" in run.state["failure"], "its growth was asked for before, and is kept"


def wants_to_grow(size: int = 9, **options: Any) -> Launch:
    """Return a launch by which a session of three replicas on h1 to h3 waits for room to become larger."""
    return Launch(request(), 5).until("").run_on(request(size=size), **{"wait": 60, **options})


def as_recorded(run: Launch) -> Launch:
    """Let the session's hosts have the record that a launch has written."""
    for host in ("h1", "h2", "h3"):
        run.hosts[host]["records"] = encode([run.record])
    return run


def test_growth_that_has_no_room_waits_where_that_is_asked_for() -> None:
    run = wants_to_grow()
    before = run.record_of("h1")
    assert run.answer().step == "start"
    sent = read_record(run.sent("h2")["record"])
    assert sent.growth is not None
    assert (sent.status, sent.plan, sent.request, sent.growth.number) == ("RUNNING", before.plan, before.request, 1)
    assert sent.growth.request == request(size=9).to_dict()
    assert run.answer().step == "wait"
    assert "waits for room to grow by 6" in run.state["title"]
    as_recorded(run)
    assert run.answer().step == "wait", "there is still no room"
    run.hosts.update({f"h{number}": facts(number=number, images=run.hosts["h4"]["images"]) for number in (6, 7, 8, 9)})
    run.state["known"] = list(run.hosts)
    assert run.answer().step == "look", "hosts that are new are asked as well"
    assert run.answer().step == "reserve"
    assert run.until("").state["outcome"]["status"] == "RUNNING"
    assert (run.record.plan["session"]["size"], run.record.growth) == (9, None)


def test_growth_that_got_no_room_in_its_time_stays_in_the_queue() -> None:
    run = as_recorded(wants_to_grow().answer().answer())
    run.now += 61
    run.answer()
    assert run.state["failure"].splitlines()[0] == (
        "Session train got no room within 60 seconds (session_wait_seconds); it stays in the queue."
    )


def test_in_check_mode_it_is_said_that_growth_would_wait() -> None:
    run = wants_to_grow(check_mode=True).until("")
    assert (run.steps, run.state["outcome"]["status"]) == (["look", "start"], "PENDING")


def test_the_same_growth_again_keeps_its_place_and_another_or_the_present_size_takes_it() -> None:
    first = as_recorded(wants_to_grow().answer())
    waiting = first.record_of("h1")

    def again(size: int, **options: Any) -> Launch:
        run = wants_to_grow(size, **options)
        for host in ("h1", "h2", "h3"):
            run.hosts[host]["records"] = encode([waiting])
        return run.answer()

    same = again(9, wait=0)
    assert (same.step, same.state["outcome"]["status"]) == ("", "PENDING")
    assert "waits for room to grow by 6" in same.state["outcome"]["report"][0]
    other = again(10)
    assert (other.step, other.record.growth) == ("start", Growth(request(size=10).to_dict(), 2))
    smaller = again(3, wait=0)
    assert (smaller.step, smaller.record.growth, smaller.record.revision) == ("start", None, waiting.revision + 1)
    assert again(5).step == "reserve"
    assert again(5).record.growth is None


def test_growth_that_was_given_up_while_its_launch_waits_is_not_asked_for_again() -> None:
    run = as_recorded(wants_to_grow().answer().answer())
    waiting = run.record_of("h1")
    for host in ("h1", "h2", "h3"):
        run.hosts[host]["records"] = encode([replace(waiting, growth=None, revision=waiting.revision + 1)])
    run.answer()
    assert run.step == ""
    assert "Its request was changed while it waited to grow." in run.state["failure"]


def test_what_its_owner_has_changed_since_a_run_looked_stays_so() -> None:
    first = Launch(request(), 5).until("")
    run = first.run_on(request(size=2), from_queue=True)  # as it was when the run looked
    run.state["changes"] = first.record.id
    run.answer()
    assert (run.step, run.state["outcome"]["status"]) == ("", "CANCELLED")
    assert "Its request was changed meanwhile, so it is left as it is." in run.state["outcome"]["report"]


def test_who_has_left_a_drained_host_already_is_not_moved_again() -> None:
    first = Launch(request(), 5).until("")
    (here, *_others) = first.record.plan["replicas"]
    run = first.run_on(from_queue=True)
    run.state.update(changes=first.record.id, displaced={here["name"]: "h5"}, avoid=["h5"])
    run.answer()
    assert run.until("").steps == ["look", "start"]


def test_growth_from_the_queue_that_cannot_be_keeps_its_place() -> None:
    first = as_recorded(wants_to_grow().answer())
    run = wants_to_grow(from_queue=True)
    for host in ("h1", "h2", "h3"):
        run.hosts[host]["records"] = encode([first.record])
    run.state["changes"] = first.record.id
    run.answer()
    assert (run.step, run.state["outcome"]["status"]) == ("", "PENDING")
    run.state = {**wants_to_grow(from_queue=True).state, "changes": first.record.id}
    run.site = {"cluster_compute_limits": {"replicas_per_session": 4}}
    run.answer()
    assert (run.step, run.state["outcome"]["status"]) == ("", "PENDING")
    assert "is 4 a session." in " ".join(run.state["outcome"]["report"])


def test_with_a_least_size_it_takes_what_there_is() -> None:
    first = Launch(request(), 5).until("")
    run = first.run_on(request(size=9), min_size=4).until("")
    assert run.record.plan["session"]["size"] == 5
    assert run.state["outcome"]["report"][0] == "There is room for 5 of 9 replicas."
    assert first.run_on(request(size=9), min_size=6).until("").steps == ["look"]


def test_of_two_changes_one_goes_on() -> None:
    run = grown().until("reserve")
    run.answer(h1=refused("Session train is being changed by another run.", "00000000-0000-4000-8000-000000000000"))
    assert (run.step, hosts_of(run.state)) == ("withhold", ["h4", "h1"])
    assert run.answer().step == "look"
    run = grown().until("reserve")
    run.answer(h1=refused("Session train is being changed by another run.", "ffffffff-0000-4000-8000-000000000000"))
    assert run.step == "reserve"


@pytest.mark.parametrize(("owner", "first"), [("it has ended", "takeover"), ("it is at work", "reserve")])
def test_what_a_change_holds_that_was_killed_is_given_back_by_the_next(owner: str, first: str) -> None:
    run = grown()
    before = run.record_of("h1")
    claim = Claim("aaaaaaaa-0000-4000-8000-000000000000", "train+", replicas=1, amends=before.id)
    held = Reservation(claim, LEASED, "boot", 1000.0, owner, 0.0)
    run.hosts["h4"]["reservations"] = [held.to_dict()]
    attempt = run.state["attempt"]
    assert run.answer().step == first
    if first == "takeover":
        assert run.state["attempt"] == attempt + 1
        assert hosts_of(run.state) == ["h4"]
        given = run.sent("h4")
        assert (given["state"], given["claim"], given["lease_owner"]) == ("released", encode(claim), owner)
        assert given["record"] == encode(before)
        assert run.answer().step == "look"
        run.hosts["h4"]["reservations"] = []
        assert run.answer().step == "reserve"


def test_a_host_that_fails_once_it_has_granted_a_lease_is_no_place() -> None:
    run = grown(attempts=1).until("reserve")
    run.answer(h4={**BROKEN, "granted": True, "reasons": [], "tentative": []})
    assert (run.step, hosts_of(run.state)) == ("withhold", ["h4", "h1"])
    assert "h4: The disk is full." in run.answer().state["failure"]


def test_new_replicas_that_cannot_be_started_are_given_up() -> None:
    run = grown().until("apply")
    changed = run.record
    run.answer(h4=BROKEN)
    assert run.step == "look"
    for host in ("h1", "h2", "h3", "h4"):
        run.hosts[host]["records"] = encode([changed])
        run.hosts[host]["images"] = run.hosts["h1"]["images"]
    run.until("")
    assert run.record.plan["session"]["size"] == 3
    assert run.record.revision == changed.revision + 1
    assert "h4: The disk is full." in run.state["failure"]
    assert "it runs on as it was" in run.state["failure"]


def test_a_host_that_most_others_call_silent_is_replaced_and_fenced_first() -> None:
    run = lost("h2", silent={"h1": ["h2"], "h3": ["h2"]})
    assert run.steps == ["look", "look"]
    # h5 has no part in it, and has to agree with most of the others that know the session's name.
    assert (run.step, hosts_of(run.state), run.record.witnesses) == ("reserve", ["h4", "h1", "h5"], ("h4", "h1", "h5"))
    run.answer()
    assert (run.step, hosts_of(run.state)) == ("fence", ["h1", "h3"])
    assert (run.sent("h3").get("containers", True), run.sent("h3")["undecided"]) == (True, True)
    assert run.state["record"]["plan"]["fenced"] == ["192.0.2.2"]
    run.answer()
    assert (run.step, hosts_of(run.state)) == ("agree", ["h4", "h5"])
    assert (run.sent("h5")["judged_revision"], run.sent("h5")["judged_hosts"]) == (2, ["h1", "h2", "h3"])
    run.answer()
    # Those that stay tell the lost host so from now on.
    assert (run.step, hosts_of(run.state)) == ("apply", ["h4", "h1", "h3", "h5"])
    assert (run.sent("h4")["state"], run.sent("h5")["state"]) == ("amended", "stub")
    assert (run.sent("h3")["patch"]["changes"], run.sent("h3").get("undecided")) == ({}, None)
    run.answer()
    assert run.state["outcome"]["status"] == "RUNNING"
    assert run.record.change is not None
    assert (run.record.change.kind, run.record.change.places) == ("replace", {"sub1": "h2"})


def test_where_a_host_is_replaced_and_others_go_those_end_before_anything_starts() -> None:
    first = Launch(request(on_host_loss="replace", size=5), 6).until("")
    run = first.run_on(request(on_host_loss="replace", size=3))
    for host in ("h1", "h3", "h4", "h5"):
        run.hosts[host]["silent_peers"] = {first.record.id: ["h2"]}
    run.answer(h2=AWAY).answer(h2=AWAY).until("part")
    assert (run.state["change"]["kind"], hosts_of(run.state)) == ("replace", ["h4", "h5"])
    run.answer()
    assert (run.step, hosts_of(run.state)) == ("fence", ["h1", "h3"])
    assert run.until("").steps == ["look", "look", "reserve", "part", "fence", "agree", "apply", "clear"]


@pytest.mark.parametrize("silent", [{}, {"h1": ["h2"]}, {"h1": [], "h3": []}])
def test_a_host_that_others_still_hear_is_left_alone(silent: dict[str, list[str]]) -> None:
    run = lost("h2", silent=silent)
    assert run.steps == ["look", "look"]
    assert "Its replicas are not given to others: h2 does not count as lost, as" in run.state["failure"]


PAIR = {"size": 2}
"""A session on h1, where main1 is, and h2; its witnesses are h4, h1 and h5."""


@pytest.mark.parametrize(
    ("away", "silent", "why"),
    [
        (["h2"], {"h1": ["h2"]}, ""),
        (["h2"], {"h1": ["h2"], "h4": [], "h5": []}, ""),
        (["h1"], {"h2": ["h1"], "h4": ["h1"], "h5": ["h1"]}, ""),
        (["h1"], {"h2": ["h1"]}, ""),
        (["h1"], {"h2": ["h1"], "h4": ["h1"], "h5": []}, "h5 still hear it"),
        (["h1", "h4"], {"h2": ["h1"], "h5": ["h1"]}, "most of h4, h1, h5 have to agree to that, and h4, h1 cannot"),
        (["h2", "h4", "h5"], {"h1": ["h2"]}, "most of h4, h1, h5 have to agree to that, and h4, h5 cannot be asked"),
    ],
)
def test_of_two_hosts_that_of_main1_goes_on_unless_the_witnesses_do_not_hear_it(
    away: list[str], silent: dict[str, list[str]], why: str
) -> None:
    run = lost(*away, silent=silent, **PAIR)
    if why:
        assert f"{away[0]} does not count as lost, as {why}" in run.state["failure"]
    else:
        assert (run.step, run.state["change"]["kind"]) == ("reserve", "replace")


@pytest.mark.parametrize("main_is_lost", [False, True])
def test_a_session_of_an_earlier_release_on_two_hosts_goes_on_with_the_host_of_main1_alone(main_is_lost: bool) -> None:
    run = Launch(request(on_host_loss="replace", **PAIR), 5).until("").run_on()
    stays, goes = ("h2", "h1") if main_is_lost else ("h1", "h2")
    record = replace(run.record_of(stays), witnesses=())
    run.hosts[stays]["records"], run.hosts[stays]["silent_peers"] = [encode(record)], {record.id: [goes]}
    run.answer(**{goes: AWAY}).answer(**{goes: AWAY})
    if main_is_lost:
        assert "h2 does not decide alone about the host of main1" in run.state["failure"]
        return
    assert (run.step, run.record.witnesses) == ("reserve", ("h4", "h1", "h5"))
    run.answer().answer()
    assert run.step == "apply", "there are no others that have to agree"


@pytest.mark.parametrize("refusing", [["h4"], ["h4", "h5"]])
def test_nothing_starts_before_most_witnesses_have_agreed(refusing: list[str]) -> None:
    run = lost("h2", silent={"h1": ["h2"]}, **PAIR).until("agree")
    assert hosts_of(run.state) == ["h4", "h5"]
    run.answer(**dict.fromkeys(refusing, BROKEN))
    if len(refusing) == 1:
        assert run.step == "apply"
    else:
        assert (run.step, "was begun and not finished" in run.state["failure"]) == ("", True)
        assert "apply" not in run.steps


def test_who_gets_the_leases_of_too_few_witnesses_changes_nothing() -> None:
    run = lost("h2", silent={"h1": ["h2"]}, **PAIR)
    assert (run.step, {"h1", "h4", "h5"} <= {*hosts_of(run.state)}) == ("reserve", True)
    run.answer(h4=refused("Another run.", "0"), h5=refused("Another run.", "0"))
    assert run.step == "withhold"
    run = lost("h2", silent={"h1": ["h2"]}, **PAIR)
    elsewhere = [host for host in ("h4", "h5") if host not in run.record.hosts]
    run.answer(**{elsewhere[0]: refused("Another run.", "0")})
    assert run.step == "fence", "most others have agreed"


def test_who_is_known_to_be_away_is_not_asked_and_counts_as_out_of_reach() -> None:
    first = Launch(request(on_host_loss="replace"), 5).until("")
    run = first.run_on(unreachable=["h3"], from_queue=True)
    for host in ("h1", "h2"):
        run.hosts[host]["silent_peers"] = {first.record.id: ["h3"]}
    for _look in range(2):
        assert (run.step, hosts_of(run.state)) == ("look", ["h1", "h2", "h4", "h5"])
        run.answer()
    assert (run.step, run.state["change"]["places"]) == ("reserve", {"sub2": "h3"})


def test_one_that_is_to_wait_for_its_host_is_not_touched() -> None:
    first = Launch(request(), 5).until("")
    run = first.run_on()
    run.answer(h2=AWAY)
    assert run.steps == ["look"]
    assert "cannot be reached" in run.state["failure"]


def test_main1_goes_to_another_host_with_its_name_and_address() -> None:
    run = lost("h1", silent={"h2": ["h1"], "h3": ["h1"]}).until("")
    main = run.record.plan["replicas"][0]
    assert (main["name"], main["rank"], main["host"]) == ("main1", 0, "h4")
    assert (
        "main1 from h1 to h4. What these replicas had written outside their mounts is gone." in run.state["report"][1]
    )
    assert run.state["outcome"]["status"] == "RUNNING"


def test_the_batch_command_begins_anew_where_main1_was_replaced() -> None:
    batch: dict[str, Any] = {"batch_command": ["train"], "command": ["sleep", "infinity"]}
    run = lost("h1", silent={"h2": ["h1"], "h3": ["h1"]}, **batch).until("batch")
    assert hosts_of(run.state) == ["h4"]
    assert (run.sent("h4")["command"], run.sent("h4")["once"]) == (["train"], True)
    assert "main1 from h1 to h4" in " ".join(run.answer().state["outcome"]["report"])
    run = lost("h1", silent={"h2": ["h1"], "h3": ["h1"]}, **batch).until("batch")
    run.answer(h4=BROKEN)
    assert "the batch command could not be started in main1" in run.state["failure"]
    assert "h4: The disk is full." in run.state["failure"]
    # It is at work where another replica was lost.
    assert "batch" not in lost("h2", silent={"h1": ["h2"], "h3": ["h2"]}, **batch).until("").steps


@pytest.mark.parametrize("from_queue", [False, True])
@pytest.mark.parametrize("taken", [["h4"], ["h2", "h3", "h4"]])
def test_where_the_ports_of_main1_are_taken_it_stays_and_that_is_said(taken: list[str], from_queue: bool) -> None:
    first = Launch(request(on_host_loss="replace", ports=["127.0.0.1:8080:80"]), 4).until("")
    run = first.run_on(from_queue=from_queue)
    if from_queue:
        run.state["changes"] = first.record.id
    for host in taken:
        run.hosts[host]["ports"] = [{"address": "127.0.0.1", "port": 8080, "protocol": "tcp"}]
    for host in ("h2", "h3"):
        run.hosts[host]["silent_peers"] = {first.record.id: ["h1"]}
    while run.step:
        run.answer(h1=AWAY)
    report = run.state["failure"] if "failure" in run.state else "\n".join(run.state["outcome"]["report"])
    if from_queue:  # others are not kept from what comes to them
        assert "failure" not in run.state
        assert "Session train stays as it is" in report
    why = "Port 127.0.0.1:8080/tcp, which main1 publishes (session_ports), is taken there."
    assert f"{', '.join(taken)}: {why}" in report


def test_a_host_with_another_copy_is_told_the_whole() -> None:
    run = grown().until("apply")
    run.answer(h2={"stale": True, "actions": []})
    assert (run.step, hosts_of(run.state)) == ("again", ["h2"])
    assert run.sent("h2")["record"] == run.state["record"]
    assert run.answer().state["outcome"]["status"] == "RUNNING"


def test_a_replica_whose_new_host_fails_finds_another() -> None:
    run = lost("h2", silent={"h1": ["h2"], "h3": ["h2"]}).until("apply")
    changed = run.record
    run.answer(h4=BROKEN)
    assert (run.step, run.sent("h4")["state"]) == ("free", "released"), "or nobody could change it for a while"
    for host in ("h1", "h3", "h4"):
        run.hosts[host]["records"] = encode([changed])
    while run.step:
        run.answer(**({"h2": AWAY} if run.step == "look" else {}))
    assert run.record.plan["replicas"][1]["host"] == "h5"


def test_in_check_mode_it_is_said_what_would_be_done() -> None:
    run = grown(check_mode=True).until("")
    assert run.steps == ["look", "reserve", "apply"]
    assert run.state["outcome"]["status"] == "PLANNED"


def test_a_change_that_ended_between_its_leases_and_the_hosts_is_gone_on_with() -> None:
    run = grown().until("apply")
    changed = run.record
    again = grown()
    for host in ("h1", "h2", "h3"):
        again.hosts[host]["records"] = encode([changed])
    again.until("")
    assert again.steps == ["look", "reserve", "apply"]
    assert again.record.plan["session"]["size"] == 4


@pytest.mark.parametrize("fenced_hosts", [["h2"], ["h2", "h3", "h4"]])
def test_a_replacement_that_was_stopped_fences_first_when_it_is_gone_on_with(fenced_hosts: list[str]) -> None:
    batch: dict[str, Any] = {"batch_command": ["train"], "command": ["sleep", "infinity"]}
    changed = lost("h1", silent={"h2": ["h1"], "h3": ["h1"]}, **batch).until("apply").record
    again = Launch(request(on_host_loss="replace", **batch), 5).until("").run_on()
    for host in fenced_hosts:
        again.hosts[host]["records"] = encode([changed])
    again.answer(h1=AWAY)
    again.until("fence")
    assert [again.sent(host).get("containers", True) for host in ("h2", "h3", "h4")] == [True, True, False]
    again.until("")
    assert (again.record.change, "batch" in again.steps) == (changed.change, True)


def test_growth_that_was_stopped_twice_is_still_undone_where_its_room_is_taken() -> None:
    changed = grown(hosts=4).until("apply").record
    for _twice in range(2):
        again = grown(hosts=4)
        for host in ("h1", "h2", "h3"):
            again.hosts[host]["records"] = encode([changed])
        again.until("apply")
        assert (again.record.change, again.state["report"][1:]) == (changed.change, [])
        changed = again.record
    other = Claim("eeeeeeee-0000-4000-8000-000000000000", "other", replicas=1, cpus=2000)
    last = grown(hosts=4)
    for host in ("h1", "h2", "h3"):
        last.hosts[host]["records"] = encode([changed])
    last.hosts["h4"]["reservations"] = [Reservation(other, COMMITTED, "boot", None).to_dict()]
    last.until("")
    assert [replica["name"] for replica in last.record.plan["replicas"]] == ["main1", "sub1", "sub2"]


def test_a_replica_that_came_with_the_last_change_and_ran_is_not_given_up_with_its_host() -> None:
    run = grown(before={"on_host_loss": "replace"}, hosts=4).until("").run_on()
    session_id = run.record_of("h1").id
    for host in ("h1", "h2", "h3"):
        run.hosts[host]["silent_peers"] = {session_id: ["h4"]}
    while run.step:
        run.answer(h4=AWAY)
    assert run.state["outcome"]["status"] == "PENDING"
    assert "there is no room for sub3" in run.state["outcome"]["report"][0]


def test_a_replica_that_cannot_be_started_again_is_not_given_up() -> None:
    run = grown().until("").run_on().until("apply")
    assert run.state["change"]["places"] == {"sub3": None}  # its container is missing, and maybe it has run
    run.answer(h4=BROKEN)
    assert "begun and not finished" in run.state["failure"]
    assert run.steps == ["look", "reserve", "apply"]


def test_a_replica_that_runs_stays_where_it_is_when_its_host_has_lost_its_ledger() -> None:
    first = grown().until("")
    run = first.run_on()
    run.hosts["h4"]["reservations"] = []
    container = {"cpus": 1000, "memory": 0, "devices": {}, "state": "running", "exit_code": None, "failure": None}
    named = {"name": "train-sub3", "session_id": first.record.id, "session_name": "train", "replica": "sub3"}
    run.hosts["h4"]["containers"] = [{**container, **named}]
    run.hosts["h4"]["capacity"]["cpus"] = 1000
    run.until("")
    assert run.record.plan["replicas"][3]["host"] == "h4"


def roles(**counts: int) -> dict[str, Any]:
    """Return a request of the role main and others, of which the first takes most."""
    amounts = [{"name": name, "replicas": count, "cpus": 2 - 1.5 * n} for n, (name, count) in enumerate(counts.items())]
    return {"roles": [{"name": "main"}, *amounts], "cpus": "0.5", "size": 1 + sum(counts.values())}


def test_limits_count_what_another_role_takes_where_the_size_stays() -> None:
    first = Launch(request(**roles(big=1, sub=2)), 5).until("")
    for cpus, step in ((6, "reserve"), (4, "")):
        run = first.run_on(request(**roles(big=2, sub=1)))
        run.site = {"cluster_compute_limits": {"cpus_per_owner": cpus}}
        assert run.answer().step == step
    assert "cpus" in run.state["failure"]


def test_of_new_replicas_that_came_together_all_behind_the_first_without_a_place_are_given_up() -> None:
    run = grown(5).until("apply")
    changed = run.record
    again = grown(5)
    for host in ("h1", "h2", "h3", "h5"):
        again.hosts[host]["records"] = encode([changed])
    claims = claims_of(read_plan(changed.plan))
    again.hosts["h5"]["reservations"] = [Reservation(claims["h5"], COMMITTED, "boot", None).to_dict()]
    other = Claim("eeeeeeee-0000-4000-8000-000000000000", "other", replicas=1, cpus=2000)
    again.hosts["h4"]["reservations"] = [Reservation(other, COMMITTED, "boot", None).to_dict()]
    again.until("")
    assert [replica["name"] for replica in again.record.plan["replicas"]] == ["main1", "sub1", "sub2"]


def test_what_changed_is_found_once_for_all_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[dict[str, Any]] = []

    def find(old: Any, new: Any) -> dict[str, Any]:
        found.append(difference(old, new))
        return found[-1]

    monkeypatch.setattr(change, "difference", find)
    run = grown().until("apply")
    assert [run.sent(host)["patch"]["changes"] for host in ("h1", "h2", "h3")] == [found[0]] * 3
    assert len(found) == 1


def test_in_a_large_session_a_host_that_stays_is_told_what_changed_and_that_it_is_decided() -> None:
    settings = {"size": 64, "cpus": "0.5", "max_replicas_per_host": 4, "on_host_loss": "replace"}
    run = Launch(request(**settings), 18).until("").run_on()
    others = [host for host in run.record_of("h1").hosts if host != "h5"]
    for host in others:
        run.hosts[host]["silent_peers"] = {run.record_of("h1").id: ["h5"]}
    sent: dict[str, list[int]] = {}
    while run.step:
        if run.step != "look":
            for host in hosts_of(run.state):
                sent.setdefault(host, []).append(len(json.dumps(run.sent(host))))
        run.answer(**({"h5": AWAY} if run.step == "look" else {}))
    assert run.state["outcome"]["status"] == "RUNNING"
    assert len(run.record.hosts) == 16
    # The first holds the change, so that two of them meet, and so do those that have to agree to it.
    meet = {others[0], *run.record.witnesses}
    assert {host: len(sent[host]) for host in others} == {host: 2 + (host in meet) for host in others}
    whole = len(json.dumps(run.state["record"]))
    assert all(sizes[1] < sizes[0] < 6000 < whole / 4 for host, sizes in sent.items() if host in {*others} - meet), (
        sent,
        whole,
    )


def test_a_host_that_comes_to_a_session_is_told_for_how_long_that_has_run() -> None:
    first = Launch(request(max_duration="8h"), 5).until("")
    run = first.run_on(request(max_duration="8h", size=4))
    for host, ran in {"h1": 4000, "h2": 4010, "h3": None}.items():
        run.hosts[host]["times"] = {first.record.id: {"over": "", "is_idle": False, "ran": ran, "idle": None}}
    run.until("apply")
    assert (run.sent("h4")["ran"], "ran" in run.sent("h1")) == (4010, False)
    run.answer(h4={"changed": False, "actions": [], "stale": True, "revision": None})
    assert (run.step, run.sent("h4")["ran"]) == ("again", 4010)


def test_a_replica_that_moves_is_stopped_where_it_was_before_it_starts_elsewhere() -> None:
    first = Launch(request(), 5).until("")
    run = first.run_on(displaced={"sub1": "h2"}).until("part")
    assert (run.state["change"]["kind"], hosts_of(run.state)) == ("move", ["h2"])
    assert (run.sent("h2")["state"], run.sent("h2").get("record")) == ("absent", None)
    assert "fenced" not in run.state["record"]["plan"]
    run.answer()
    assert (run.step, hosts_of(run.state), run.sent("h3")["state"]) == ("fence", ["h1", "h3"], "amended")
    run.answer()
    assert (run.step, run.sent("h4")["state"]) == ("apply", "amended")
    run.until("")
    assert run.steps == ["look", "reserve", "part", "fence", "apply", "clear"]
    assert [replica["host"] for replica in run.record.plan["replicas"]] == ["h1", "h4", "h3"]


def test_a_move_off_the_first_host_holds_the_change_there_and_ends_where_another_one_is_under_way() -> None:
    run = Launch(request(), 5).until("").run_on(displaced={"main1": "h1"}).until("reserve")
    assert hosts_of(run.state) == ["h4", "h1", "h2"]
    assert run.sent("h1")["claim"]["replicas"] == 0
    run.answer()
    assert (run.step, hosts_of(run.state)) == ("part", ["h1"])
    assert run.sent("h1")["change_id"] == run.state["change"]["id"]
    run.answer(h1=BROKEN)
    assert run.step == ""
    assert "h1: The disk is full." in run.state["failure"]


@pytest.mark.parametrize(("half", "goes_on"), [(["h1", "h2"], True), (["h3", "h4"], False)])
def test_of_two_halves_the_one_with_main1_goes_on(half: list[str], goes_on: bool) -> None:
    first = Launch(request(on_host_loss="replace", size=4, max_replicas_per_host=2, cpus="2"), 8).until("")
    assert list(first.record.hosts) == ["h1", "h2", "h3", "h4"]
    assert first.record.plan["replicas"][0]["host"] == "h1"
    run, away = first.run_on(), {f"h{number}" for number in range(1, 5)} - {*half}
    for host in half:
        run.hosts[host]["silent_peers"] = {first.record.id: sorted(away)}
    for _look in range(2):
        run.answer(**dict.fromkeys(away, AWAY))
    assert (run.step == "reserve") == goes_on
    assert goes_on or "too few other hosts of the session can be asked" in run.state["failure"]

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What becomes of a queue, whatever the hosts answer and whatever its launches come to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import (
    COMMITTED,
    LEASED,
    Claim,
    Reservation,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    ERROR,
    PENDING,
    Growth,
    QueueTicket,
    Record,
    advance,
    new_record,
    started,
    stub_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.change import growth_of
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs import schedule
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.launch_flow.images import (
    IMAGE_AWAY,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.verb import (
    Outside,
    State,
    calls_of,
    hosts_of,
)
from ansible_collections.cluster_compute.session.tests.support.core.verbs.begun import begun
from ansible_collections.cluster_compute.session.tests.support.core.verbs.group import (
    AWAY,
    BROKEN,
    Launch,
    facts,
    request,
)

OTHER = "00000000-0000-4000-8000-00000000000f"


def waiting(name: str, number: int, cpus: str) -> Record:
    """Return the record of a session that waits, a replica on each of two hosts."""
    record = new_record(
        f"{number:08d}-0000-4000-8000-000000000000", "alice", request(name=name, size=2, cpus=cpus).to_dict()
    )
    return advance(record, PENDING, "It waits.", queue=QueueTicket(number), report=(".",))


class Schedule:
    """One run through a queue of two hosts with two CPUs each, decision after decision."""

    def __init__(self, *records: Record, **site: Any) -> None:
        self.site = site
        self.hosts = {f"h{number}": facts(*records, number=number) for number in (1, 2)}
        self.state: State = begun(schedule, list(self.hosts))

    @property
    def step(self) -> str:
        return str(self.state["step"])

    @property
    def names(self) -> list[str]:
        return [entry["session_name"] for entry in self.state["queue"]]

    def answer(self, answers: Any = None, **of_hosts: Any) -> Schedule:
        """Answer the state's step, as all goes well but for *of_hosts*; decide."""
        looks = self.step == "look"
        good: dict[str, Any] = {host: {"host": self.hosts[host]} if looks else {"actions": []} for host in self.hosts}
        found = answers or {**good, **of_hosts}
        self.state = schedule.advance(
            self.state, found, Outside(0.0, lambda: "", inventory={host: {} for host in self.hosts}, site=self.site)
        )
        return self

    def launched(self, status: str = "RUNNING") -> Schedule:
        """Let the launch of the next one come to this."""
        name = self.state["launchable"][len(self.state["outcomes"])]["session_name"]
        return self.answer({"launch": {"session_name": name, "status": status, "report": [f"{name}: {status}"]}})


def test_an_empty_queue_is_looked_at_once() -> None:
    run = Schedule().answer()
    assert (run.step, run.state["queue"], run.state["outcomes"]) == ("", [], [])


def test_the_warnings_of_a_registered_state_are_not_read() -> None:
    """Ansible from 2.19 on replaces them by objects of its own."""
    run = Schedule()
    run.state["warnings"] = [object()]
    assert run.answer().state["warnings"] == []


def test_who_could_not_be_reached_is_not_asked_again() -> None:
    failed = advance(new_record(OTHER, "alice", request(name="old").to_dict()), ERROR, "It failed.", report=(".",))
    lone = new_record("00000001-0000-4000-8000-000000000000", "alice", request(name="lone", size=1).to_dict())
    run = Schedule(advance(lone, PENDING, "It waits.", queue=QueueTicket(1), report=(".",)), failed)
    run.hosts["h1"]["objects"] = {OTHER: {"name": "old", "kinds": ["container"]}}
    assert run.answer(h2=AWAY).step == "cleanup"
    assert (run.answer({"h1": {"actions": []}}).step, hosts_of(run.state)) == ("look", ["h1"])
    run.answer({"h1": {"host": run.hosts["h1"]}})
    assert (run.step, [launch["known_unreachable"] for launch in run.state["launchable"]]) == ("launch", [["h2"]])
    assert run.state["warnings"] == ["Hosts that could not be reached are left out: h2."]
    assert (run.launched().step, hosts_of(run.state)) == ("look", ["h1"])


def test_those_that_can_start_are_launched_one_after_the_other_and_then_all_is_looked_at_again() -> None:
    first, second, big = waiting("first", 1, "1"), waiting("second", 2, "1"), waiting("big", 3, "2")
    run = Schedule(first, second, big).answer()
    assert (run.step, run.names) == ("launch", ["first", "second", "big"])
    assert [entry["session_name"] for entry in run.state["launchable"]] == ["first", "second"]
    assert run.state["launchable"][0]["waits"] == encode(first)
    assert run.state["calls"] == []
    assert run.launched().step == "launch"
    assert run.launched("ERROR").step == "look"
    for host in run.hosts.values():
        host["records"] = encode([big])
    run.answer()
    assert (run.step, run.names) == ("", ["big"])
    assert [outcome["status"] for outcome in run.state["outcomes"]] == ["RUNNING", "ERROR"]


def test_those_whose_image_could_not_be_had_come_last_and_know_who_gave_no_answer() -> None:
    stuck = advance(waiting("stuck", 1, "0.5"), PENDING, f"{IMAGE_AWAY} while it was being started.", report=(".",))
    run = Schedule(stuck, waiting("next", 2, "0.5"), waiting("third", 3, "0.5")).answer()
    assert run.names == ["stuck", "next", "third"]
    assert [launch["session_name"] for launch in run.state["launchable"]] == ["next", "third", "stuck"]
    outcome = {"session_name": "next", "status": "PENDING", "report": ["."]}
    for host in ("h1", "h2"):
        run.answer({"launch": {**outcome, "silent_registries": {host: ["docker.io"]}}})
    assert run.state["silent_registries"] == {"h1": ["docker.io"], "h2": ["docker.io"]}
    assert run.state["outcomes"] == [outcome, outcome]


def test_who_came_meanwhile_waits_for_the_next_run() -> None:
    run = Schedule(waiting("first", 1, "0.5")).answer()
    run.state["warnings"] = ["Said already."]
    assert run.launched().state["warnings"] == []
    for host in run.hosts.values():
        host["records"] = encode([waiting("late", 2, "0.5")])
    assert (run.answer().step, run.names) == ("", ["late"])


def test_what_nobody_owns_goes_first_and_keeps_nobody_from_his_launch() -> None:
    failed = advance(new_record(OTHER, "alice", request(name="old").to_dict()), ERROR, "It failed.", report=(".",))
    run = Schedule(waiting("first", 1, "1"), failed)
    run.hosts["h2"]["objects"] = {OTHER: {"name": "old", "kinds": ["container"]}}
    run.answer()
    assert (run.step, hosts_of(run.state)) == ("cleanup", ["h2"])
    _module, given, of_role = calls_of(run.state, "h2")[0]
    assert (given["session_id"], given["keep_record"], "output_days" in of_role) == (
        OTHER,
        True,
        True,
    )
    run.answer({"h2": BROKEN})
    assert run.state["warnings"] == ["Parts that no session owns could not be removed from h2: The disk is full."]
    assert (run.step, run.answer().step) == ("look", "launch")
    assert run.state["warnings"] == []


def test_hosts_that_are_away_are_left_out_and_none_at_all_fails_it() -> None:
    run = Schedule(waiting("first", 1, "1")).answer(h2=AWAY)
    assert (run.step, run.names) == ("", ["first"])
    assert run.state["warnings"] == ["Hosts that could not be reached are left out: h2."]
    run = Schedule(waiting("first", 1, "1")).answer(h2=BROKEN)
    assert run.state["warnings"] == ["Hosts that cannot be used are left out: h2. The disk is full."]
    run = Schedule().answer(h1=AWAY, h2=AWAY)
    assert run.step == ""
    assert run.state["failure"].startswith("The queue cannot be read.\n")


# ---- growth --------------------------------------------------------------------------------------------------------


def test_growth_that_waits_is_in_the_queue_and_launched_when_it_has_room() -> None:
    first = Launch(request(cpus="1", max_replicas_per_host=2), 3).until("")
    again = first.run_on()
    grown = request(size=5, cpus="1", max_replicas_per_host=2)
    waits = replace(started(first.record), growth=Growth(grown.to_dict(), 9))
    run = Schedule()
    run.hosts = dict(again.hosts)

    def look(*records: Record) -> State:
        for host in run.hosts:
            run.hosts[host]["records"] = encode(records)
        run.state = begun(schedule, list(run.hosts))
        return run.answer().state

    state = look(waits, waiting("other", 8, "1"))
    assert run.names == ["other", "train"]
    assert [launch["session_name"] for launch in state["launchable"]] == ["other"], "one place is left"
    state = look(waits)
    assert state["queue"][0]["reason"] == ["It runs, and waits for room for 2 more replicas.", "It can start on h3."]
    (given,) = state["launchable"]
    assert (given["changes"], given["request"], given["waits"]) == (waits.id, grown.to_dict(), None)


def test_growth_is_not_launched_for_a_host_that_does_not_fit() -> None:
    first = Launch(request(cpus="1"), 4).until("")
    again = first.run_on()
    waits = replace(started(first.record), growth=Growth(request(size=4, cpus="1").to_dict(), 9))
    run = Schedule()
    run.hosts = dict(again.hosts)
    run.state = begun(schedule, list(run.hosts))
    assert "underlay_address" in calls_of(run.state, "h1")[0][2]
    for host in run.hosts:
        run.hosts[host]["records"] = encode([waits])
    assert len(run.answer().state["launchable"]) == 1
    run.hosts["h4"]["underlay"]["mtu"] = 1400
    run.state = begun(schedule, list(run.hosts))
    state = run.answer().state
    assert (state["step"], state["launchable"]) == ("", [])
    assert state["queue"][0]["reason"][0] == "It runs, and waits for room for 1 more replica."
    assert state["queue"][0]["reason"][-1].startswith("h4: Its MTU of 1400 is too small for the session's network")


def test_growth_of_a_role_beside_fewer_of_another_is_counted_by_what_comes() -> None:
    roles = [{"name": "main"}, {"name": "a", "replicas": 1}, {"name": "b", "replicas": 2}]
    first = Launch(request(size=None, roles=roles, cpus="1", max_replicas_per_host=4), 3).until("")
    more = [{"name": "main"}, {"name": "a", "replicas": 4}, {"name": "b", "replicas": 1}]
    wanted = request(size=None, roles=more, cpus="1", max_replicas_per_host=4)
    waits = replace(started(first.record), growth=Growth(wanted.to_dict(), 9))
    assert {role.name: role.replicas for role in growth_of(waits, {})[0].roles} == {"a": 3}


# ---- lost hosts ----------------------------------------------------------------------------------------------------


def with_losses(**values: Any) -> tuple[Schedule, Record]:
    """Return a run over three hosts that carry a session, of which h2 does not answer."""
    group_launch = Launch(request(**values), 4).until("")
    again = group_launch.run_on()
    run = Schedule()
    run.hosts = dict(again.hosts)
    run.state = begun(schedule, list(run.hosts))
    return run, started(group_launch.record)


def test_what_lost_hosts_carried_is_launched_elsewhere_before_the_queue() -> None:
    run, record = with_losses(on_host_loss="replace")
    run.answer(h2=AWAY)
    assert (run.step, calls_of(run.state, "h1")[0][1]["peers_of"]) == ("losses", [record.id])
    for host in ("h1", "h3"):
        run.hosts[host]["silent_peers"] = {record.id: ["h2"]}
    run.state = schedule.advance(
        run.state,
        {**{host: {"host": known} for host, known in run.hosts.items()}, "h2": AWAY},
        Outside(0.0, lambda: "", inventory={host: {} for host in run.hosts}),
    )
    assert run.step == "launch"
    (given,) = run.state["launchable"]
    assert (given["session_name"], given["replaces"], given["waits"]) == ("train", True, None)
    assert given["known_unreachable"] == ["h2"]


def test_what_a_launch_has_seen_to_be_lost_is_not_looked_for_again() -> None:
    run, record = with_losses(on_host_loss="replace")
    run.state = begun(schedule, list(run.hosts), only_lost=True, losses=[record.id], unreachable=["h2"])
    assert (run.step, hosts_of(run.state)) == ("look", ["h1", "h3", "h4"])
    for host in ("h1", "h3"):
        run.hosts[host]["silent_peers"] = {record.id: ["h2"]}
    run.answer({host: {"host": run.hosts[host]} for host in hosts_of(run.state)})
    assert (run.step, [launch["session_name"] for launch in run.state["launchable"]]) == ("launch", ["train"])
    assert run.launched().step == ""


def test_hosts_that_others_hear_are_not_lost() -> None:
    run, record = with_losses(on_host_loss="replace")
    run.answer(h2=AWAY)
    run.hosts["h1"]["silent_peers"] = {record.id: ["h2"]}
    run.state = schedule.advance(
        run.state,
        {**{host: {"host": known} for host, known in run.hosts.items()}, "h2": AWAY},
        Outside(0.0, lambda: "", inventory={host: {} for host in run.hosts}),
    )
    assert (run.step, run.state["launchable"]) == ("", [])
    assert "h2 does not count as lost, as h3 still hear it." in run.state["warnings"][-1]


def test_a_session_that_is_to_end_with_its_host_ends() -> None:
    run, record = with_losses(on_host_loss="end")
    run.answer(h2=AWAY)
    for host in ("h1", "h3"):
        run.hosts[host]["silent_peers"] = {record.id: ["h2"]}
    run.state = schedule.advance(
        run.state,
        {**{host: {"host": known} for host, known in run.hosts.items()}, "h2": AWAY},
        Outside(0.0, lambda: "", inventory={host: {} for host in run.hosts}),
    )
    assert run.step == "cleanup"
    sent = calls_of(run.state, "h1")[0][1]["records"][0]
    assert (sent["status"], sent["report"]) == ("ERROR", ["h2 was lost, and session_on_host_loss is end."])


def test_hosts_that_are_to_be_empty_are_left_by_one_replica_after_another() -> None:
    run, record = with_losses(on_host_loss="replace", max_replicas_per_host=2)
    run.state = begun(schedule, list(run.hosts), only_lost=True, moves_from=["h1"])
    run.answer()
    assert (run.step, calls_of(run.state, "h2")[0][1]["whole_records"]) == ("losses", True)
    good = {host: {"host": known} for host, known in run.hosts.items()}
    outside = Outside(0.0, lambda: "", inventory={host: {} for host in run.hosts})
    run.state = schedule.advance(run.state, good, outside)
    own = [replica["name"] for replica in record.plan["replicas"] if replica["host"] == "h1"]
    assert len(own) == 2
    assert [given["displaced"] for given in run.state["launchable"]] == [{name: "h1"} for name in own]


def test_where_owners_have_shares_who_is_found_to_be_the_head_is_marked_and_stays_it() -> None:
    big, small = waiting("big", 1, "2"), replace(waiting("small", 2, "0.5"), owner="bob")
    site = {"cluster_compute_fair_share": {"half_life": "7d"}}
    run = Schedule(big, small, **site)
    claim = Claim(OTHER, "other", replicas=1, cpus=1000, memory=1)
    run.hosts["h1"]["reservations"] = [Reservation(claim, COMMITTED, "boot", None).to_dict()]
    run.hosts["h1"]["use"] = {"alice": {"cpus": 9e5}, "bob": {"cpus": 1e5}}
    run.answer()
    assert [(entry["session_name"], entry["share"]) for entry in run.state["queue"]] == [("small", 10), ("big", 90)]
    assert (run.step, hosts_of(run.state)) == ("cleanup", ["h1", "h2"])
    (marked,) = calls_of(run.state, "h1")[0][1]["records"]
    assert (marked["status"], marked["queue"], marked["revision"]) == (PENDING, {"number": 1, "is_head": True}, 2)
    run.answer()
    for host in run.hosts.values():
        host["records"] = [marked, encode(small)]
    run.answer()
    assert run.names == ["big", "small"], "bob has used less, and comes too late"
    assert (run.step, run.state["queue"][1]["reason"][0]) == (
        "",
        "Capacity reserved for session big does not count as free.",
    )


def test_growth_that_is_the_head_is_marked_on_the_hosts_of_its_session() -> None:
    first = Launch(request(cpus="2"), 3).until("")
    again = first.run_on()
    grown = Growth(request(size=4, cpus="2").to_dict(), 9)
    waits = replace(started(first.record), growth=grown)
    small = replace(waiting("small", 10, "0.5"), owner="bob")
    run = Schedule(cluster_compute_fair_share={"half_life": "7d"})
    run.hosts = {**again.hosts, "h4": facts(number=4)}
    mine = list(waits.hosts)
    for host in run.hosts:
        run.hosts[host]["records"] = encode([waits if host in mine else stub_of(waits), small])
    run.hosts["h4"]["reservations"] = [
        Reservation(Claim(OTHER, "other", replicas=1, cpus=1000, memory=1), COMMITTED, "boot", None).to_dict()
    ]
    run.state = begun(schedule, list(run.hosts))
    run.answer()
    assert (run.names, run.step) == (["train", "small"], "cleanup")
    records_told = {host: calls_of(run.state, host)[0][1]["records"] for host in hosts_of(run.state)}
    assert sorted(records_told) == sorted(mine)
    (marked,) = records_told[mine[0]]
    assert marked["queue"] == {"number": 9, "is_head": True}
    assert (marked["revision"], marked["plan"], marked["growth"]) == (waits.revision + 1, waits.plan, encode(grown))
    # Who is being changed by another run is left alone.
    lease = Reservation(Claim("c", "train+", cpus=1, memory=1, amends=waits.id), LEASED, "boot", 1.0, "run")
    run.hosts["h4"]["reservations"].append(lease.to_dict())
    run.state = begun(schedule, list(run.hosts))
    assert run.answer().step == ""


def test_without_shares_nobody_is_marked() -> None:
    run = Schedule(waiting("big", 1, "2"), replace(waiting("small", 2, "2"), owner="bob"))
    run.hosts["h1"]["use"] = {"alice": {"cpus": 9e5}}
    run.answer()
    assert (run.step, run.names) == ("launch", ["big", "small"])
    assert [entry["share"] for entry in run.state["queue"]] == [None, None]

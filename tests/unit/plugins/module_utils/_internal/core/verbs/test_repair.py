# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a repair does next, whatever its hosts answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import (
    CONFIRMED,
    Claim,
    Reservation,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import decode, encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    ERROR,
    Change,
    advance,
    new_record,
    read_record,
    stub_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs import repair
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
    request,
)

OTHER = "00000000-0000-4000-8000-000000000000"
GIVES_BACK = "give back what a launch holds that was ended"
NOTHING: dict[str, Any] = {"actions": [], "sessions": {}, "public_keys": {}}


class Repair:
    """One repair of three hosts, of which the first carry a session; decision after decision."""

    def __init__(self, size: int = 2, **options: Any) -> None:
        run = Launch(request(size=size)).until("").run_on()
        self.hosts, (self.record,) = run.hosts, run.hosts["h1"]["records"]
        if size < len(self.hosts) and not options.get("puts_back", True):  # one that knows the name
            self.hosts["h3"]["records"] = encode([stub_of(read_record(self.record))])
        self.state: State = begun(repair, list(self.hosts), **options)
        self.inventory: dict[str, dict[str, Any]] = {host: {} for host in self.hosts}

    @property
    def step(self) -> str:
        return str(self.state["step"])

    def given(self, host: str, number: int = 0) -> dict[str, Any]:
        """Return the arguments of a host's call."""
        return calls_of(self.state, host)[number][1]

    def answer(self, **of_hosts: Any) -> Repair:
        """Answer the state's step, as if nothing was missing but for *of_hosts*; decide."""
        good = {host: {"host": self.hosts[host]} if self.step == "look" else NOTHING for host in hosts_of(self.state)}
        self.state = repair.advance(
            self.state, {**good, **of_hosts}, Outside(0.0, lambda: "", inventory=self.inventory)
        )
        return self

    def leave_behind(self, host: str, *kinds: str) -> None:
        """Let a host have parts of a session that has failed, or where no kind is named, of one without a record."""
        failed = advance(new_record(OTHER, "alice", request(name="late").to_dict()), ERROR, "It failed.", report=(".",))
        self.hosts[host]["records"] = [*self.hosts[host]["records"], *(encode([failed]) if kinds else [])]
        self.hosts[host]["objects"] = {OTHER: {"name": "late", "kinds": list(kinds) or ["network"]}}


def test_hosts_are_given_what_the_others_know_and_nothing_more_is_done_where_nothing_is_missing() -> None:
    run = Repair(session_name="train").answer()
    session_id = run.record["id"]
    assert (run.step, hosts_of(run.state)) == ("repair", ["h1", "h2", "h3"])
    first, third = run.given("h1"), run.given("h3")
    assert (first["host"], first["session_name"], first["recorded"]) == ("h1", "train", [session_id])
    assert (first["records"], third["records"]) == (
        {session_id: run.record},
        {session_id: encode(stub_of(read_record(run.record)))},
    )
    assert first["public_keys"] == third["public_keys"]
    assert set(first["public_keys"][session_id]) == {"main1", "sub1"}
    assert (first["allocatable"]["cpus"], third.get("recorded"), third["looked"]) == (2000, None, 0.0)
    run.answer()
    assert (run.step, run.state["lines"], run.state["problems"]) == ("", [], [])


def test_hosts_are_told_what_the_site_grants_to_compare_records_of_others_with_it() -> None:
    run = Repair()
    run.inventory["h1"] = {"cluster_compute_mount_roots": ["/srv", "/srv/x"], "cluster_compute_volume_drivers": "nas"}
    run.answer()
    assert [run.given(host).get("mount_roots", []) for host in ("h1", "h2")] == [["/srv"], []]
    assert [run.given(host)["volume_drivers"] for host in ("h1", "h2")] == [["nas"], ["local"]]
    run = Repair()
    run.inventory["h1"] = {"cluster_compute_mount_roots": ["srv"]}
    assert "cluster_compute_mount_roots of host h1" in run.answer().state["failure"]


def test_a_host_is_right_about_the_keys_of_its_own_replicas() -> None:
    run = Repair()
    session_id = run.record["id"]
    run.hosts["h2"]["public_keys"][session_id]["main1"] = {"client": "old", "host": "old"}
    run.answer()
    assert run.given("h2")["public_keys"][session_id]["main1"]["client"] == "c main1"


def test_what_was_done_is_told_of_its_session_and_once() -> None:
    done = {"name": "train", "actions": ["create link"], "problem": ""}
    run = Repair().answer()
    run.answer(h1={**NOTHING, "actions": ["set aside a file", "create link"], "sessions": {"x": done}})
    assert run.state["lines"] == ["h1: set aside a file", "h1: session train: create link"]
    assert (run.step, run.state["problems"]) == ("", [])


@pytest.mark.parametrize("answer", [NOTHING, AWAY, BROKEN])
def test_what_replaces_a_lost_replica_is_started_where_all_other_hosts_have_done_their_part(
    answer: dict[str, Any],
) -> None:
    run = Repair()
    record = read_record(run.record)
    run.hosts["h1"]["records"] = encode([replace(record, revision=9, change=Change("replace", {"sub1": "h3"}))])
    run.answer()
    assert [run.given(host)["waiting"] for host in ("h1", "h2", "h3")] == [[record.id]] * 3
    run.answer(h1=answer)
    if answer is NOTHING:
        assert (run.step, run.given("h2").get("waiting"), run.state["problems"]) == ("share", None, [])
    else:
        assert (run.step, "waits for h1 to let go" in " ".join(run.state["problems"])) == ("", True)


def test_keys_that_were_made_anew_are_told_to_all() -> None:
    run = Repair().answer()
    session_id = run.record["id"]
    new = {"client": "new", "host": "new"}
    run.answer(h1={**NOTHING, "actions": ["create key"], "public_keys": {session_id: {"main1": new}}})
    assert (run.step, hosts_of(run.state)) == ("share", ["h1", "h2", "h3"])
    given = run.given("h2")
    assert given["public_keys"][session_id] == {"main1": new, "sub1": {"client": "c sub1", "host": "h"}}
    assert set(given) == {"host", "public_keys", "allocatable", "volume_drivers"}, (
        "records are not evaluated a second time"
    )
    run.answer(h2={**NOTHING, "actions": ["create file keys"]}, h3=AWAY)
    assert run.state["lines"] == ["h1: create key", "h2: create file keys"]
    assert (run.step, run.state["problems"]) == ("", ["h3: No route."])


def test_who_is_missing_or_fails_is_a_problem_and_keeps_nobody_from_the_rest() -> None:
    run = Repair().answer(h3=AWAY)
    assert hosts_of(run.state) == ["h1", "h2"]
    of_session = {"name": "train", "actions": [], "problem": "Its image is gone."}
    run.answer(h1=BROKEN, h2={**NOTHING, "failed": True, "msg": "No.", "sessions": {"x": of_session}})
    assert run.state["problems"] == [
        "h3: It could not be reached.",
        "h1: The disk is full.",
        "h2: session train: Its image is gone.",
    ]
    assert Repair().answer().answer(h2={}).state["problems"] == ["h2: It did not answer."]


def test_what_nobody_owns_goes_first_and_the_hosts_are_looked_at_again() -> None:
    run = Repair()
    run.leave_behind("h2", "container")
    run.answer()
    assert (run.step, hosts_of(run.state)) == ("cleanup", ["h2"])
    assert (run.given("h2")["session_id"], run.given("h2")["unless_reserved"]) == (OTHER, True)
    found = list(run.state["findings"])
    assert found == ["h2: abandoned: session late: The session is ERROR and carries no replicas."]
    # In check mode it is still there; it is judged again and not removed again.
    assert run.answer().step == "look"
    assert run.answer().step == "repair"
    assert run.answer().state["lines"] == found


def test_what_could_not_be_removed_is_a_problem_but_not_of_who_went_away() -> None:
    for answer, problems in (
        (BROKEN, ["Parts that no session owns could not be removed from h2: The disk is full."]),
        (AWAY, []),
    ):
        run = Repair(puts_back=False)
        run.leave_behind("h2", "container")
        run.answer().answer(h2=answer).answer()
        assert (run.step, run.state["unremoved"], run.state["problems"]) == ("", problems, problems)


@pytest.mark.parametrize("leaks", [False, True])
def test_leaks_are_found_and_removed_only_where_that_is_asked(leaks: bool) -> None:
    run = Repair(leaks=leaks, puts_back=False)
    run.leave_behind("h3")
    run.answer()
    assert run.state["findings"] == ["h3: leak: session late: No host has a record or a container of it."]
    assert run.step == ("cleanup" if leaks else "")


def test_nothing_is_put_back_where_that_is_not_asked() -> None:
    run = Repair(puts_back=False).answer(h3=AWAY)
    assert (run.step, run.state["missing"]) == ("", ["h3: It could not be reached."])


def test_hosts_that_cannot_be_judged_fail_it() -> None:
    run = Repair().answer(h1=AWAY, h2=AWAY, h3=AWAY)
    assert run.step == ""
    assert run.state["failure"].startswith("The hosts cannot be judged.\n")
    renamed = Repair()
    renamed.hosts["h1"]["host_names"] = {renamed.record["id"]: "h2"}
    assert "The host that the inventory calls h1 is h2 in session train" in renamed.answer().state["failure"]


def test_batch_commands_are_stopped_before_their_sessions_go_back_into_the_queue() -> None:
    run = Repair(puts_back=False, requeue_from=["h2"])
    session_id = run.record["id"]
    for host in ("h1", "h2"):
        run.hosts[host]["records"][0]["request"]["batch_command"] = ["train"]
    ended = {"job": "0", "replica": "main1", "exit_code": None, "problem": "", "timed_out": False, "stopped": False}
    run.hosts["h1"]["batches"] = {session_id: {**ended, "status": "RUNNING"}}
    run.answer()
    assert (run.step, hosts_of(run.state)) == ("requeue", ["h1"])
    assert {key: run.given("h1")[key] for key in ("state", "requeue", "session_id")} == {
        "state": "stopped",
        "requeue": True,
        "session_id": session_id,
    }
    run.hosts["h1"]["batches"] = {session_id: {**ended, "status": "ENDED", "requeue": True, "exit_code": 143}}
    run.answer(h1={"changed": True}).answer()
    assert (run.step, hosts_of(run.state)) == ("cleanup", ["h1", "h2", "h3"])
    assert [record["status"] for record in run.given("h3")["records"]] == ["PENDING"]
    assert run.state["lines"][0] == "h1: session train: stop its batch command, to start again elsewhere"


@pytest.mark.parametrize("away", [True, False])
def test_a_batch_session_stays_where_nobody_can_stop_its_command(away: bool) -> None:
    run = Repair(puts_back=False, requeue_from=["h2"])
    for host in ("h1", "h2"):
        run.hosts[host]["records"][0]["request"]["batch_command"] = ["train"]
    job = {"job": "0", "replica": "main1", "exit_code": None, "problem": "", "timed_out": False, "stopped": False}
    run.hosts["h1"]["batches"] = {run.record["id"]: {**job, "status": "RUNNING"}}
    run.answer(**({"h1": AWAY} if away else {}))
    if not away:
        run.answer(h1=BROKEN).answer()
    stays = "Session train stays: h1, where its batch command runs, cannot be asked to stop it."
    missing = f"{stays} It could not be reached."
    assert (run.step, run.state["unremoved"]) == ("", [missing if away else "h1: The disk is full."])


def test_a_batch_session_whose_command_has_not_begun_stays_and_is_named() -> None:
    run = Repair(puts_back=False, requeue_from=["h2"])
    for host in ("h1", "h2"):
        run.hosts[host]["records"][0]["request"]["batch_command"] = ["train"]
    run.state["unremoved"] = ["h3: The disk is full."]
    run.answer()
    stays = "Session train stays: its batch command has not been started on h1."
    assert (run.step, run.state["unremoved"]) == ("", ["h3: The disk is full.", stays])


class Killed(Repair):
    """A repair after a launch was killed: the part of h1 runs and is not committed, that of h2 was begun."""

    def __init__(self) -> None:
        super().__init__(puts_back=False)
        launched = Launch(request(size=2)).until("start").state
        for host in ("h1", "h2"):
            claim = decode(Claim, {**launched["claims"][host]["claim"], "session_id": self.record["id"]}, "It")
            held = Reservation(claim, CONFIRMED, "boot", 1000.0, "it has ended", 0.0)
            self.hosts[host] = {**self.hosts[host], "reservations": [held.to_dict()]}
        self.hosts["h2"]["records"] = [{**self.record, "status": "PREPARING"}]

    def answer(self, **of_hosts: Any) -> Repair:
        good = {host: {"host": self.hosts[host]} for host in hosts_of(self.state)}
        answers = {**(good if self.step == "look" else {host: {"changed": True} for host in good}), **of_hosts}
        self.state = repair.advance(
            self.state,
            answers,
            Outside(0.0, lambda: "", inventory=self.inventory, has_ended=lambda owner: owner == "it has ended"),
        )
        return self


def test_a_host_whose_part_runs_gives_back_last_and_only_where_another_s_does_not_run() -> None:
    run = Killed().answer()
    assert (run.step, hosts_of(run.state)) == ("takeover", ["h2"])
    assert (run.given("h2")["state"], run.given("h2")["lease_owner"]) == ("released", "it has ended")
    assert "record" not in run.given("h2"), "the lease alone: by the records the next look tells what was made"
    run.hosts["h2"]["reservations"] = []
    run.answer().answer()
    assert (run.step, hosts_of(run.state)) == ("takeover", ["h1"])
    assert run.state["taken_over"] == [f"{host}: session train: {GIVES_BACK}" for host in ("h2", "h1")]

    run.hosts["h1"]["reservations"] = []
    run.answer().answer()
    assert (run.step, hosts_of(run.state)) == ("cleanup", ["h1", "h2", "h3"]), "half a session is nobody's"

    run = Killed().answer()
    run.hosts["h2"] = {**run.hosts["h2"], "records": [run.record], "reservations": []}
    run.answer().answer()
    assert (run.step, run.state["problems"]) == ("", []), "all of it runs: h2 ended what it had begun"


def test_what_cannot_be_given_back_is_asked_for_once_and_told() -> None:
    run = Killed().answer().answer(h2=BROKEN)
    run.answer()
    assert run.step != "takeover"
    assert "h2: The disk is full." in run.state["problems"] + run.state["unremoved"]


def test_a_host_asks_the_others_by_itself_where_the_controller_does_not_reach_most_of_them() -> None:
    run = Repair().answer(h2=AWAY)
    assert run.given("h1")["apart"] == [run.record["id"]]
    assert "apart" not in run.given("h3")
    assert "apart" not in Repair().answer().given("h1")


def test_half_of_the_others_is_not_enough_to_speak_for_all_of_them() -> None:
    # Of the two others of h1 one is reached: with the other half the missing host may have given h1's part away.
    run = Repair(size=3).answer(h3=AWAY)
    assert [run.given(host)["apart"] for host in ("h1", "h2")] == [[run.record["id"]]] * 2

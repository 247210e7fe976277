# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a teardown does next, whatever its hosts answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    new_record,
    started,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.access import Asker
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs import teardown
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.verb import (
    Outside,
    State,
    calls_of,
    combined,
    hosts_of,
)
from ansible_collections.cluster_compute.session.tests.support.core.verbs.begun import begun
from ansible_collections.cluster_compute.session.tests.support.core.verbs.group import facts

OUTSIDE = Outside(0.0, lambda: "")
SESSION = "3614fdf3-0e04-4a3c-9d2a-53a1f7b2c8aa"
OTHER = "00000000-0e04-4a3c-9d2a-53a1f7b2c8aa"
KNOWN = {"id": SESSION, "name": "train", "hosts": ["h1", "h2"]}
AWAY: dict[str, Any] = {"unreachable": True, "msg": "No route."}
BROKEN: dict[str, Any] = {"failed": True, "msg": "The engine does not answer"}


def done(*sessions: Any, tombstones: Any = ()) -> dict[str, Any]:
    return {"actions": [], "sessions": list(sessions), "tombstones": list(tombstones)}


def first(**options: Any) -> State:
    return begun(teardown, ["h1", "h2"], session_name="train", **options)


def answered(h1: Any, h2: Any, **options: Any) -> State:
    return teardown.advance(first(**options), {"h1": h1, "h2": h2}, OUTSIDE)


def test_a_session_that_is_removed_everywhere_takes_one_call() -> None:
    state = answered(done(KNOWN), done(KNOWN), hands_on=True)
    assert (state["step"], state["report"], "failure" in state) == ("", [], False)
    assert encode(teardown.handed_on(state)) == {"name": "train", "status": "TERMINATED", "report": []}


def test_nothing_is_handed_on_before_the_end_nor_where_nobody_asks() -> None:
    assert teardown.handed_on(first(hands_on=True)) is None
    assert teardown.handed_on(answered(done(), done())) is None


def test_hosts_that_are_away_are_remembered_by_the_others() -> None:
    state = answered(done(KNOWN), AWAY)
    assert (state["step"], hosts_of(state)) == ("remember", ["h1"])
    ((module, arguments, of_role),) = calls_of(state, "h1")
    assert (module, "forget" in arguments) == ("session_record", False)
    assert arguments["tombstones"] == [{"id": SESSION, "name": "train", "hosts": ["h2"], "schema": 1}]
    assert of_role == ["state_directory"]
    state = teardown.advance(state, {"h1": {"actions": []}}, OUTSIDE)
    assert state["failure"].splitlines() == [
        "The session train is not removed from every host.",
        "h2 could not be reached and will be cleaned when back, by whatever runs next.",
    ]


def test_a_host_that_is_away_fails_nothing_where_that_is_not_asked() -> None:
    state = teardown.advance(answered(done(KNOWN), AWAY, fails=False), {}, OUTSIDE)
    assert (state["step"], "failure" in state, len(state["report"])) == ("", False, 1)


def test_one_that_nobody_knows_is_told_so() -> None:
    state = answered(done(), AWAY)
    assert state["failure"].endswith("h2 could not be reached, and no other host knows of the session.")


def test_a_host_that_fails_says_why_and_what_to_do() -> None:
    state = teardown.advance(answered(done(KNOWN), BROKEN), {}, OUTSIDE)
    assert state["failure"].splitlines()[1:] == [
        "h2: The engine does not answer.",
        "Correct this and tear the session down again.",
    ]


def test_what_is_cleaned_by_now_is_forgotten() -> None:
    tombstone = {"id": SESSION, "name": "train", "hosts": ["h2"]}
    state = answered(done(tombstones=[tombstone]), done())
    assert (state["step"], state["forget"]) == ("remember", [SESSION])
    assert answered(done(tombstones=[tombstone]), AWAY)["forget"] == []


def of_three(**answers: Any) -> State:
    return teardown.advance(begun(teardown, ["h1", "h2", "h3"], session_name="train"), answers, OUTSIDE)


def test_a_session_that_was_launched_meanwhile_on_hosts_that_had_answered_gets_no_tombstone() -> None:
    known = {"id": SESSION, "name": "train", "hosts": ["h1"]}
    state = of_three(h1=done(), h2=done(known), h3=AWAY)
    assert (state["step"], hosts_of(state)) == ("look", ["h1"])
    record = started(new_record(SESSION, "alice", {"name": "train"}))
    for host, ended in (({"host": facts(record)}, True), ({"host": facts()}, False), (AWAY, False)):
        after = teardown.advance(state, {"h1": host}, OUTSIDE)
        assert (after["step"], after["tombstones"] == []) == (("", True) if ended else ("remember", False))
    for answers in (
        {"h1": done(known), "h2": done(known), "h3": AWAY},
        {"h1": AWAY, "h2": done(known), "h3": done()},
        {"h1": done(), "h2": done({**known, "hosts": ["h1", "h3"]}), "h3": AWAY},
        {"h1": done(), "h2": done({**known, "hosts": []}), "h3": AWAY},  # it waits, or has no record any more
    ):
        assert of_three(**answers)["step"] == "remember"
    assert of_three(h1=done(), h2=done(known), h3=done())["step"] == "", "nobody has to be cleaned later"


def test_what_was_torn_down_while_a_host_was_away_keeps_nobody_from_another_of_its_name() -> None:
    tombstone = {"id": OTHER, "name": "train", "hosts": ["h3"]}
    theirs = {"failed": True, "refused": True, "msg": "It belongs to bob.", "theirs": [OTHER]}
    state = of_three(h1=done(KNOWN, tombstones=[tombstone]), h2=done(KNOWN), h3=theirs)
    assert (state["step"], hosts_of(state)) == ("clean", ["h3"])
    state = of_three(h1=done(KNOWN, tombstones=[tombstone]), h2=done(KNOWN), h3=theirs)
    first, again = calls_of(state, "h3")
    assert (first[1]["session_id"], "session_name" in first[1]) == (OTHER, False)
    assert (again[1]["session_name"], "asker" in again[1], "session_id" in again[1]) == ("train", False, False)
    cleaned = teardown.advance(state, {"h3": combined([done(), done()])}, OUTSIDE)
    assert (cleaned["step"], cleaned["forget"], cleaned["report"]) == ("remember", [OTHER], [])
    assert "failure" not in teardown.advance(cleaned, {}, OUTSIDE)
    still = teardown.advance(state, {"h3": combined([done(), theirs])}, OUTSIDE)
    assert (still["step"], still["tombstones"], still["report"]) == ("", [], ["h3: It belongs to bob."])
    assert of_three(h1=done(KNOWN), h2=done(KNOWN), h3=theirs)["report"] == ["h3: It belongs to bob."]


def test_who_tears_down_again_is_asked_again() -> None:
    tombstone = {"id": OTHER, "name": "train", "hosts": ["h3"]}
    theirs = {"failed": True, "refused": True, "msg": "It belongs to bob.", "theirs": [OTHER]}
    alice = replace(OUTSIDE, asker=Asker("alice", is_admin=False))
    state = teardown.advance(first(), {"h1": done(tombstones=[tombstone]), "h2": theirs}, alice)
    assert calls_of(state, "h2")[1][1]["asker"] == "alice"


def test_results_of_many_calls_are_one() -> None:
    result = combined(
        [
            {"changed": True, "actions": ["a"], "diff": {"x": 1}, "warnings": ["c"]},
            {"actions": ["b"], "failed": True, "msg": "No."},
        ]
    )
    assert (result["changed"], result["actions"], result["diff"], result["failed"], result["msg"]) == (
        True,
        ["a", "b"],
        [{"x": 1}],
        True,
        "No.",
    )
    assert result["warnings"] == ["c"], "Ansible shows those of the whole alone"
    assert combined([{"granted": True}]) == {"granted": True}


def test_hosts_that_say_the_same_are_named_together() -> None:
    refused = {"failed": True, "msg": "It belongs to alice."}
    state = answered(refused, refused)
    assert (state["step"], state["tombstones"]) == ("", [])
    assert state["failure"].splitlines()[1] == "h1, h2: It belongs to alice."


def test_a_refusal_leaves_no_tombstone_by_which_others_would_remove_the_session() -> None:
    refused = {"failed": True, "refused": True, "msg": "It belongs to alice."}
    state = answered(refused, done(KNOWN))
    assert (state["step"], state["tombstones"], state["forget"]) == ("", [], [])
    assert state["failure"].splitlines()[1:] == ["h1: It belongs to alice."]


def test_containers_without_a_record_go_with_the_session_that_another_host_removed() -> None:
    """What no host has removed under that id is left alone, and named."""
    without = {"id": SESSION, "name": "train", "status": "", "resource_group": "", "hosts": []}
    state = answered(done(KNOWN), {**done(), "elsewhere": [without]})
    assert (state["step"], hosts_of(state), state["elsewhere"]) == ("others", ["h1", "h2"], [])
    other = answered(done({**KNOWN, "id": OTHER}), {**done(), "elsewhere": [without]})
    assert other["step"] != "others"
    assert len(other["elsewhere"]) == 1

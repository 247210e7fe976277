# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records: revisions, stubs, which copy is right, and what is refused when one is read back."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import (
    Malformed,
    encode,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    ENDED,
    ERROR,
    LONGEST_HISTORY,
    PENDING,
    PREPARING,
    RUNNING,
    SCHEMA,
    Growth,
    HistoryEntry,
    InvalidRecord,
    QueueTicket,
    Record,
    UnknownSchema,
    advance,
    is_stub,
    kept_by,
    latest,
    line_of,
    new_record,
    prepared,
    read_record,
    require_known,
    started,
    stub_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st

SESSION = "3614fdf3-0e04-4a3c-9d2a-53a1f7b2c8aa"
OTHER = "00000000-0e04-4a3c-9d2a-53a1f7b2c8aa"
REQUEST = {"name": "train", "size": 2}
PLAN = {"session": {"id": SESSION, "name": "train"}, "hosts": {"h1": {}, "h2": {}}, "replicas": []}


def waiting() -> Record:
    return advance(
        new_record(SESSION, "alice", REQUEST), PENDING, "No room.", queue=QueueTicket(3), report=("No room.",)
    )


def preparing() -> Record:
    return prepared(waiting(), PLAN)


def running() -> Record:
    return started(preparing())


def test_the_mark_of_the_head_goes_with_what_it_waited_for() -> None:
    head = advance(waiting(), PENDING, "It is the first.", queue=QueueTicket(3, is_head=True))
    begun = prepared(head, PLAN)
    assert begun.is_head, "it may have to wait on"
    assert advance(begun, PENDING, "A host was lost.", plan=None, hosts=()).is_head
    runs = started(begun)
    assert (runs.queue, runs.is_head) == (QueueTicket(3), False)
    # An earlier release left the mark.
    grows = advance(replace(runs, queue=head.queue), RUNNING, "It is to grow.", growth=Growth({"size": 3}, 7))
    assert (grows.queue, grows.queue_number) == (QueueTicket(3), 7)
    first = advance(grows, RUNNING, "It is the first.", queue=QueueTicket(3, is_head=True))
    assert first.is_head
    assert advance(first, RUNNING, "It is shared with others.", shared_with=("bob",)).is_head
    others = (
        advance(first, RUNNING, "It has grown.", growth=None),
        advance(first, RUNNING, "It is to grow further.", growth=Growth({"size": 4}, 8)),
        advance(first, PENDING, "It begins anew.", plan=None, hosts=()),
    )
    assert [record.is_head for record in others] == [False] * 3


def failed() -> Record:
    return advance(running(), ERROR, "It failed.", report=("It failed.",))


EVERY = {"waiting": waiting, "preparing": preparing, "running": running, "failed": failed}


def test_the_life_of_a_record() -> None:
    record = running()
    assert [(entry.revision, entry.status) for entry in record.history] == [(1, PENDING), (2, PREPARING), (3, RUNNING)]
    assert record.history[1].reason == "It holds its place on h1, h2."
    assert (record.schema, record.revision, record.owner, record.name) == (SCHEMA, 3, "alice", "train")
    assert (record.hosts, record.plan, record.queue) == (("h1", "h2"), PLAN, QueueTicket(3))
    assert [(entry.revision, entry.status) for entry in failed().history] == [(4, ERROR)]
    assert preparing().report == (), "why it waited is past"


def test_a_revision_leaves_the_one_before_as_it_was() -> None:
    before = waiting()
    kept = replace(before)
    after = advance(before, ERROR, "It could not be launched.", report=("No.",))
    assert before == kept
    assert (after.revision, after.status, after.report, after.queue) == (2, ERROR, ("No.",), QueueTicket(3))


def test_a_running_record_is_not_started_again() -> None:
    assert started(running()) == running()
    assert running().revision == preparing().revision + 1


def test_the_history_keeps_its_newest_entries() -> None:
    record = waiting()
    for number in range(2, LONGEST_HISTORY + 6):
        record = advance(record, PENDING, f"Try {number}.")
    assert len(record.history) == LONGEST_HISTORY
    assert record.history[-1] == HistoryEntry(LONGEST_HISTORY + 5, PENDING, f"Try {LONGEST_HISTORY + 5}.")
    assert record.history[0].revision == 6
    assert read_record(encode(record)) == record


@pytest.mark.parametrize("status", ENDED)
def test_of_a_session_that_has_ended_a_line_stays(status: str) -> None:
    ended = advance(running(), status, "x" * 9999, report=[f"h{number}: {'y' * 9999}" for number in range(1000)])
    assert len(json.dumps(encode(ended))) < 2500
    assert (ended.id, ended.name, ended.owner, ended.hosts) == (SESSION, "train", "alice", ("h1", "h2"))
    assert ended.report[0].startswith("h0: yyy")
    assert [len(line) for line in ended.report] == [300] * 5
    assert advance(kept_by(waiting(), ["h1"]), status, "No.").witnesses == (), "nobody decides about it"
    earlier = replace(running(), status=status)
    assert line_of(earlier) == replace(earlier, request=None, plan=None, history=earlier.history[-1:])
    assert [line_of(make()) == make() for make in EVERY.values()] == [True] * len(EVERY), "what lives stays whole"


def test_a_note_says_where_the_session_is_and_nothing_of_what_it_is() -> None:
    stub = stub_of(preparing())
    assert (stub.request, stub.plan, stub.report, stub.history) == (None, None, (), ())
    assert (stub.status, stub.hosts, stub.revision) == (RUNNING, ("h1", "h2"), 2), "nobody corrects it later"
    assert stub_of(failed()).status == ERROR
    assert is_stub(stub)
    assert [name for name, make in EVERY.items() if is_stub(make())] == ["failed"]
    assert preparing().request == REQUEST, "the record itself stays whole"


def test_of_several_copies_the_highest_revision_is_right_and_a_whole_one_before_a_stub() -> None:
    copies = [waiting(), stub_of(preparing()), preparing(), stub_of(running())]
    for order in itertools.permutations(copies):
        assert latest(order) == stub_of(running())
    for order in itertools.permutations(copies[:3]):
        assert latest(order) == preparing()
    assert latest([]) is None


@pytest.mark.parametrize("make", EVERY.values(), ids=EVERY)
def test_records_and_their_notes_are_read_back_as_they_were_written(make: Any) -> None:
    for record in (make(), stub_of(make())) if make is not waiting else (make(),):
        assert read_record(json.loads(json.dumps(encode(record))), SESSION) == record


def test_what_hosts_have_on_disk_stays_readable_and_is_written_the_same() -> None:
    tunnel = {"vni": 5000, "port": 4789, "endpoints": ["192.0.2.1", "192.0.2.2"]}
    stored: dict[str, Any] = {
        "schema": 1,
        "id": SESSION,
        "name": "train",
        "owner": "alice",
        "status": "ERROR",
        "revision": 4,
        "queue": {"number": 3},
        "hosts": ["h1", "h2"],
        "report": ["It failed."],
        "history": [{"revision": 4, "status": "ERROR", "reason": "It failed."}],
        "tunnel": tunnel,
        "request": REQUEST,
        "plan": PLAN,
    }
    assert encode(read_record(stored)) == stored


def test_a_newer_record_is_refused_by_name_whatever_else_it_holds() -> None:
    for data in ({"schema": SCHEMA + 1}, {**encode(running()), "schema": SCHEMA + 1, "unheard": "of"}):
        with pytest.raises(UnknownSchema, match=f"schema {SCHEMA + 1}, this release .* reads schema {SCHEMA}"):
            read_record(data, SESSION)


@pytest.mark.parametrize("schema", [None, 0, -1, "1", "2", [], {}, False, 2.5])
def test_a_schema_that_never_was_is_malformed_and_not_newer(schema: object) -> None:
    with pytest.raises(InvalidRecord, match=r"schema is .*, where 1 is expected") as error:
        read_record({**encode(running()), "schema": schema})
    assert not isinstance(error.value, UnknownSchema)


@pytest.mark.parametrize("data", [None, [], "x", 5, True, {}, {"schema": SCHEMA}])
def test_what_is_no_record_is_refused(data: object) -> None:
    with pytest.raises(InvalidRecord):
        read_record(data)


@pytest.mark.parametrize("make", EVERY.values(), ids=EVERY)
def test_missing_and_unknown_keys_are_named(make: Any) -> None:
    data = encode(make())
    for key in set(data) - {"schema"}:
        with pytest.raises(InvalidRecord, match=f"lacks {key}"):
            read_record({name: value for name, value in data.items() if name != key})
    inner = {**data["history"][0], "mood": "good"}
    with pytest.raises(UnknownSchema, match=r"history\[0\] has 'mood', which is unknown\. Use the release"):
        read_record({**data, "history": [inner]})
    with pytest.raises(InvalidRecord, match="lacks revision") as error:
        read_record({**data, "history": [{"mood": "good"}]})
    assert not isinstance(error.value, UnknownSchema), "more is wrong with it than that"


@pytest.mark.parametrize("make", EVERY.values(), ids=EVERY)
def test_what_a_newer_release_wrote_beside_stays_and_is_gone_on_with_by_nobody_else(make: Any) -> None:
    data = {**encode(make()), "mood\x1b": {"of": ["day"]}, "newer": 1}
    record = read_record(data, SESSION)
    assert encode(record) == data
    assert encode(stub_of(record))["newer"] == 1
    with pytest.raises(UnknownSchema, match=r"of session train has 'mood\\x1b, newer', which this release .* not"):
        require_known(record)
    require_known(make())


def test_where_replicas_are_is_read_of_a_newer_release_as_well() -> None:
    newer = {**PLAN, "mood": "good", "replicas": [{"name": "main1", "host": "h1", "mood": "good"}]}
    assert [(replica.name, replica.host) for replica in replace(running(), plan=newer).replicas] == [("main1", "h1")]
    assert waiting().replicas == stub_of(running()).replicas == ()
    with pytest.raises(Malformed, match=r"^The plan's replicas\[0\] lacks host\.$"):
        assert replace(running(), plan={**PLAN, "replicas": [{"name": "main1"}]}).replicas


NO_SPANS: tuple[Any, ...] = ("60", -1, [])
NO_IMAGES: tuple[Any, ...] = ("x", ["x"], {"x": None}, {"x": {}}, {"x": {"ids": ["x"]}})
BAD_VALUES: dict[str, list[Any]] = {
    "id": [None, 5, "", "train", SESSION.upper(), SESSION + "\n", "../../etc", [SESSION]],
    "name": [None, "", 5, ["train"]],
    "owner": [None, 5, ["alice"]],
    "status": [None, "", "running", "GONE", 5, [RUNNING], {}],
    "revision": [None, 0, -1, 1.0, "1", True, []],
    "queue": [5, "1", [], {}, {"number": None}, {"number": -1}, {"number": True}, {"number": "1"}],
    "hosts": ["h1", {"h1": 1}, ["h1", "h1"], [], ["h1"], ["h1", "h3"]],
    "report": [None, "x", [5], {}, [None]],
    "history": [None, "x", ["x"], {}, [5]],
    "request": [
        *(5, [], "x", {}, {"name": "other"}, {"name": ["train"]}),
        *({**REQUEST, key: value} for key in ("max_duration", "max_idle", "end_warning") for value in NO_SPANS),
    ],
    "growth": [{"request": {**REQUEST, "max_idle": value}, "number": 1} for value in NO_SPANS],
    "plan": [
        5,
        [],
        "x",
        {},
        {**PLAN, "hosts": ["h1", "h2"]},
        {**PLAN, "hosts": {"h1": {}}},
        {**PLAN, "session": None},
        {**PLAN, "session": {"id": OTHER, "name": "train"}},
        {**PLAN, "session": {"id": SESSION, "name": "other"}},
        {**PLAN, "replicas": {}},
        *({**PLAN, "images": images} for images in NO_IMAGES),
    ],
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in BAD_VALUES.items() for value in values])
def test_a_bad_value_is_refused_in_a_sentence(key: str, value: object) -> None:
    with pytest.raises(InvalidRecord, match=r"^The record('s| is malformed:) .*\.$"):
        read_record({**encode(running()), key: value})


@pytest.mark.parametrize("session_id", BAD_VALUES["id"])
def test_an_id_that_is_no_uuid_is_refused_for_itself(session_id: object) -> None:
    with pytest.raises(InvalidRecord, match=r"\bid is "):
        read_record({**encode(waiting()), "id": session_id})


@pytest.mark.parametrize("hosts", [None, 5, ["h1", 5], [{}, {}]])
def test_hosts_that_cannot_be_sorted_are_refused(hosts: object) -> None:
    with pytest.raises(InvalidRecord, match=r"hosts(\[\d\])? is"):
        read_record({**encode(running()), "hosts": hosts})


@pytest.mark.parametrize("schema", [True, 1.0])
def test_a_schema_that_only_equals_a_number_is_refused(schema: object) -> None:
    with pytest.raises(InvalidRecord, match="schema is"):
        read_record({**encode(running()), "schema": schema})


@pytest.mark.parametrize(
    ("changes", "problems"),
    [
        (
            {"owner": 5, "status": ["\x1b[2J" * 1000], "revision": "1"},
            ["owner is 5", "status is ", "revision is '1'"],
        ),
        (
            {"name": "", "status": "\x1b[2J" * 1000, "revision": -1},
            ["name is ''", "status is ", "revision is -1", "its request is named 'train'"],
        ),
    ],
    ids=["of the form", "of the values"],
)
def test_every_problem_is_told_at_once_and_safe_to_show(changes: dict[str, Any], problems: list[str]) -> None:
    with pytest.raises(InvalidRecord) as error:
        read_record({**encode(running()), **changes})
    message = str(error.value)
    assert all(problem in message for problem in problems)
    assert message.isprintable()
    assert len(message) < 600


def test_a_record_found_at_the_place_of_another_session_is_refused() -> None:
    with pytest.raises(InvalidRecord, match=f"that of session '{SESSION}', found at the place of session {OTHER}"):
        read_record(encode(running()), OTHER)


@pytest.mark.parametrize(
    "data",
    [
        encode(stub_of(waiting())),
        {**encode(waiting()), "queue": None},
        {**encode(waiting()), "plan": {**PLAN, "hosts": {}}},
        {**encode(running()), "plan": None},
        {**encode(running()), "request": None},
        {**encode(preparing()), "plan": None},
    ],
    ids=["waits without request", "waits outside the queue", "waits with a plan", "no plan", "no request", "prepares"],
)
def test_what_does_not_belong_together_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(InvalidRecord, match=r"pending session needs|do not belong together"):
        read_record(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats() | st.text(max_size=3) | st.just(SESSION),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "name", "number", "hosts", "session", "replicas", "x"]), inner)
    ),
    max_leaves=6,
)


@settings(max_examples=400, derandomize=True)
@given(st.sampled_from(sorted(EVERY)), st.sampled_from(sorted(set(encode(running())) - {"hosts"})), JSON)
def test_no_garbage_crashes_the_reader(which: str, key: str, garbage: object) -> None:
    """Whatever stands in the place of one value, the record is read as it is or refused as malformed."""
    data = {**encode(EVERY[which]()), key: garbage}
    try:
        found = read_record(data)
    except InvalidRecord:
        return
    assert encode(found) == data

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record in a label: it comes back whole, a hostile label is refused, and nobody is believed but this host."""

from __future__ import annotations

import base64
import json
import shutil
import zlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine_objects import (
    LABEL_CODE,
    LABEL_RECORD,
    LABEL_SESSION_ID,
    LABEL_SESSION_NAME,
    NO_LABELS,
    read_container,
    read_network,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    PENDING,
    InvalidRecord,
    QueueTicket,
    Record,
    UnknownSchema,
    advance,
    new_record,
    prepared,
    started,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import labels
from hypothesis import given
from hypothesis import strategies as st

SESSION = "3614fdf3-0e04-4a3c-9d2a-53a1f7b2c8aa"
OTHER = "00000000-0e04-4a3c-9d2a-53a1f7b2c8aa"


def running(**request: object) -> Record:
    record = advance(new_record(SESSION, "alice", {"name": "train", **request}), PENDING, "x", queue=QueueTicket(1))
    plan = {"session": {"id": SESSION, "name": "train"}, "hosts": {"h1": {}}, "replicas": []}
    return started(prepared(record, plan))


def label(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content)).decode()


@given(st.dictionaries(st.text(max_size=5).filter(lambda key: key != "name"), st.text() | st.integers(), max_size=5))
def test_a_record_comes_back_whole(values: dict[str, object]) -> None:
    packed = labels.pack(running(**values))
    assert packed.isascii()
    assert packed.isprintable()
    assert labels.unpack(packed, SESSION) == running(**values)


def test_the_same_record_has_the_same_label() -> None:
    record = running(size=1)
    other = replace(record, request=dict(reversed(record.request.items())))
    assert labels.pack(record) == labels.pack(other)


def test_a_label_is_smaller_than_what_it_holds() -> None:
    record = running(env={f"VARIABLE_{number}": "value" for number in range(1000)})
    assert len(labels.pack(record)) < len(json.dumps(encode(record))) / 3


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no base64!",
        "é",
        base64.b64encode(b"not compressed").decode(),
        base64.b64encode(zlib.compress(b'{"schema": 1}')[:-8]).decode(),
        label(b""),
        label(b"\xff\xfe\xff"),
        label(b"{"),
        label(b"[]"),
        label(b"null"),
        label(b'{"schema": 1}'),
        label(json.dumps({**encode(running()), "revision": -1}).encode()),
        "\n" + labels.pack(running()),
    ],
)
def test_a_label_that_holds_no_record_is_refused(text: str) -> None:
    with pytest.raises(InvalidRecord):
        labels.unpack(text, SESSION)


def test_a_label_of_another_session_or_of_a_newer_release_is_refused() -> None:
    with pytest.raises(InvalidRecord, match=f"found at the place of session {OTHER}"):
        labels.unpack(labels.pack(running()), OTHER)
    with pytest.raises(UnknownSchema):
        labels.unpack(labels.pack(replace(running(), schema=2)), SESSION)


def test_a_label_that_swells_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b" " * 2000 + json.dumps(encode(running())).encode()
    assert labels.unpack(label(text), SESSION) == running()
    monkeypatch.setattr(labels, "LARGEST", 2000)
    with pytest.raises(InvalidRecord):
        labels.unpack(label(text), SESSION)


def test_a_label_that_is_nested_without_end_is_refused() -> None:
    with pytest.raises(InvalidRecord):
        labels.unpack(label(b"[" * 200_000), SESSION)


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    found = StateDirectory(str(tmp_path / "state"))
    found.root.mkdir()
    return found


def engine_with(*held: dict[str, str], containers: tuple[dict[str, str], ...] = ()) -> Any:
    """Return an engine with a network, and containers, that bear these labels."""
    of_session = {LABEL_SESSION_ID: SESSION, LABEL_SESSION_NAME: "train"}
    networks = [
        read_network({"Name": f"n{number}", "Labels": {**of_session, **own}}) for number, own in enumerate(held)
    ]
    listed = [
        read_container({"Names": [f"/c{number}"], "Labels": {**of_session, **own}})
        for number, own in enumerate(containers)
    ]
    return SimpleNamespace(networks=lambda: networks, session_containers=lambda: listed)


def test_a_record_of_this_host_is_believed_after_its_state_is_lost(state: StateDirectory) -> None:
    held = labels.record_labels(state, running())
    newer = labels.record_labels(state, replace(running(), revision=9))
    shutil.rmtree(state.root)
    found, unproven = labels.labelled_records(engine_with(held, containers=(newer, NO_LABELS)), state)
    assert (found, unproven) == ({SESSION: replace(running(), revision=9)}, {})


@pytest.mark.parametrize("code", [None, "", "0" * 64, "é", "another host's", "another record's"])
def test_a_record_without_a_code_by_this_host_is_not_believed(
    code: str | None, state: StateDirectory, tmp_path: Path
) -> None:
    held = labels.record_labels(state, running())
    forged = labels.record_labels(StateDirectory(str(tmp_path / "other")), replace(running(), revision=9))
    if code == "another record's":
        forged[LABEL_CODE] = held[LABEL_CODE]
    elif code != "another host's":
        forged = {LABEL_RECORD: forged[LABEL_RECORD], **({} if code is None else {LABEL_CODE: code})}
    found, unproven = labels.labelled_records(engine_with({}, containers=(forged,)), state)
    assert (found, unproven) == ({}, {SESSION: ("train", "container c0")})
    found, unproven = labels.labelled_records(engine_with(held, containers=(forged,)), state)
    assert (found, unproven) == ({SESSION: running()}, {}), "what the host wrote itself counts all the same"


def test_nothing_is_believed_where_the_key_is_lost_as_well(state: StateDirectory) -> None:
    held = labels.record_labels(state, running())
    for text in (None, "", "0011", "no key", "é"):
        state.label_key_file.unlink()
        if text is not None:
            state.label_key_file.write_text(text, encoding="utf-8")
        assert labels.labelled_records(engine_with(held), state) == ({}, {SESSION: ("train", "network n0")})
        state.make_label_key()


def test_the_key_is_roots_alone_outside_the_state_directory_and_stays_the_same(state: StateDirectory) -> None:
    assert state.read_label_key() is None
    key = state.make_label_key()
    assert (state.make_label_key(), state.read_label_key()) == (key, key)
    assert len(key) == 32
    assert state.label_key_file.stat().st_mode & 0o777 == 0o600
    assert state.root not in state.label_key_file.parents
    assert sorted(path.name for path in state.root.parent.iterdir()) == ["state", "state-labels.key"]


def test_of_two_that_make_the_key_at_once_both_have_the_first(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = StateDirectory.read_label_key
    made = state.make_label_key()
    answers = iter([None])  # it was not there yet
    monkeypatch.setattr(StateDirectory, "read_label_key", lambda own: next(answers, read(own)))
    assert state.make_label_key() == made
    assert [path.name for path in state.root.parent.glob(".*")] == []

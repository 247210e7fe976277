# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record in a label: it comes back whole, and a hostile label is refused."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.record import (
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
from ansible_collections.cluster_compute.session.plugins.module_utils.host import labels
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

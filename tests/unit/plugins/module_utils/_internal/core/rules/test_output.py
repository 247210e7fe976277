# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What replicas write: the engine's stream, what is picked of it, how it is merged and shown."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.output import Since, Source
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.output import (
    LONGEST_LINE,
    Line,
    LineReader,
    Selection,
    merge,
    nanoseconds_of,
    parse_keep_size,
    parse_logs_request,
    parse_since,
    rank_order,
    read_stored,
    shown,
    stored,
    time_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput
from hypothesis import given
from hypothesis import strategies as st

T = "2026-01-31T12:00:00.{:09d}Z"


def message(number: int, text: bytes, stream: int = 1) -> bytes:
    """Return one message as the engine sends it."""
    body = T.format(number).encode() + b" " + text
    return struct.pack(">BxxxL", stream, len(body)) + body


def read(parts: Sequence[bytes], position: Any = None) -> tuple[list[Line], Any]:
    """Return the lines of a stream that arrives in these parts, and where it ended."""
    reader = LineReader(position)
    return [line for part in parts for line in reader.feed(part)], reader.position()


STREAM = message(1, b"one\n") + message(2, b"two\n", 2) + message(2, b"half ") + message(3, b"a line\n")
LINES = [(T.format(1), "out", "one"), (T.format(2), "err", "two"), (T.format(2), "out", "half a line")]


@given(st.lists(st.integers(0, len(STREAM)), max_size=6))
def test_a_stream_reads_the_same_however_it_is_cut(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    assert read([STREAM[a:b] for a, b in zip(edges, edges[1:])])[0] == LINES


@given(st.integers(0, 4))
def test_a_reader_goes_on_where_another_stopped(first: int) -> None:
    messages = [message(1, b"one\n"), message(2, b"two\n", 2), message(2, b"half "), message(3, b"a line\n")]
    begin, position = read([b"".join(messages[:first])])
    # An engine gives again everything from the last time on.
    last = position["time"]
    rest = [sent for sent in messages if sent[8:38].decode() >= last]
    end, _position = read(rest, position)
    assert begin + end == LINES


def test_what_was_stamped_before_but_written_after_is_not_lost() -> None:
    lines, position = read([message(5, b"late\n"), message(4, b"early\n", 2)])
    assert [text for _time, _stream, text in lines] == ["late", "early"]
    assert (position["time"], position["count"]) == (T.format(5), 1)


def test_bytes_that_are_no_text_are_spelt_out() -> None:
    assert read([message(1, b"a\xff\x00b\n")])[0][0][2] == "a\\xff\x00b"


def test_a_line_without_end_is_cut_and_says_so() -> None:
    pieces = [message(1, b"x" * 16384) for _number in range(8)] + [message(1, b"end\n")]
    (line,) = read(pieces)[0]
    assert line[2] == "x" * LONGEST_LINE + f" ... (cut, {8 * 16384 + 3 - LONGEST_LINE} more bytes)"


def test_times_go_to_and_fro() -> None:
    assert nanoseconds_of(time_of(1769860800123456789)) == 1769860800123456789
    assert time_of(1769860800123456789) == "2026-01-31T12:00:00.123456789Z"


@given(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"])))
def test_a_stored_line_reads_back(text: str) -> None:
    assert read_stored(stored((T.format(1), "err", text))) == (T.format(1), "err", text)


def test_half_a_stored_line_is_none() -> None:
    assert read_stored("2026-01-31T12:00") is None
    assert read_stored("") is None


def select(texts: Sequence[str], **options: Any) -> tuple[list[str], int]:
    """Return what is picked of these lines, and how many are left out."""
    chosen = Selection(**options)
    for number, text in enumerate(texts):
        chosen.add((T.format(number), "out", text))
    return [line[2] for line in chosen.lines], chosen.left_out


def test_the_newest_lines_are_picked() -> None:
    texts = ["a1", "b2", "a3", "b4", "a5"]
    assert select(texts, tail=2) == (["b4", "a5"], 0)
    assert select(texts, since=T.format(2)) == (["a3", "b4", "a5"], 0)
    assert select(texts, tail=0) == ([], 0)
    assert select(texts, size=6) == (["b4", "a5"], 3)


def test_no_more_than_the_size_is_held() -> None:
    lines, left_out = select(["x" * 99] * 1000, size=10_000)
    assert (len(lines), left_out) == (100, 900)


def test_lines_are_merged_by_time_then_rank_then_as_written() -> None:
    def source(replica: str, *lines: tuple[int, str]) -> Source:
        return Source(replica, "", [[T.format(number), "out", text] for number, text in lines])

    merged = merge([source("sub10", (1, "d")), source("sub2", (1, "b"), (1, "c"), (0, "z")), source("main1", (1, "a"))])
    assert [(source, text) for _time, source, _stream, text in merged] == [
        ("sub2", "z"),
        ("main1", "a"),
        ("sub2", "b"),
        ("sub2", "c"),
        ("sub10", "d"),
    ]
    assert sorted(["sub2", "worker1", "sub10", "main1"], key=rank_order) == ["main1", "sub2", "sub10", "worker1"]


def test_no_program_decides_what_a_terminal_does() -> None:
    assert shown("main1", 5, "out", "\x1b[31mred\x1b[0m\tcell\r") == "main1 | red\tcell"
    assert shown("main1", 8, "err", "\x1b]0;title\x07 \u202eback") == "main1    ! \\x1b]0;title\\x07 \\u202eback"
    assert shown("sub1", 4, "out", "", T.format(1)) == T.format(1) + " sub1 |"


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("90s", Since(90)),
        ("90", Since(90)),
        ("1h30m", Since(5400)),
        ("2d", Since(172800)),
        ("2026-01-31", Since(time="2026-01-31T00:00:00.000000000Z")),
        ("2026-01-31T12:00:00Z", Since(time="2026-01-31T12:00:00.000000000Z")),
        ("2026-01-31T12:00:00.5+02:00", Since(time="2026-01-31T10:00:00.500000000Z")),
    ],
)
def test_moments(text: str, moment: Since) -> None:
    if text.endswith(".5+02:00"):
        text = text.replace(".5", ".500")  # Python before 3.11 wants three digits or six
    assert parse_since("logs_since", text) == moment


def test_everything_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(InvalidInput) as error:
        parse_logs_request(
            {
                "logs_since": "yesterday",
                "logs_tail": "-1",
                "logs_grep": "a(b",
                "logs_size": "1t",
                "logs_follow_seconds": "long",
                "logs_timestamps": "maybe",
                "logs_session_id": "train",
                "logs_replicas": "Main 1",
                "logs_job": "../x",
                "logs_directory": "a\0b",
                "logs_sinse": "1m",
                "logs_of_our_site": "left alone",
            }
        )
    named = [problem.variable for problem in error.value.problems]
    assert sorted(named) == sorted(
        ["logs_sinse"]
        + [f"logs_{name}" for name in ("since", "tail", "grep", "size", "follow_seconds", "timestamps", "session_id")]
        + ["logs_replicas", "logs_job", "logs_directory"]
    )
    assert "Did you mean logs_since?" in str(error.value)


def test_blank_answers_of_a_survey_count_as_not_given() -> None:
    assert parse_logs_request({"logs_since": "", "logs_tail": " ", "logs_replicas": None}) == parse_logs_request({})
    assert parse_logs_request({"logs_replicas": "sub2, main1"}).replicas == ("main1", "sub2")


def test_nothing_is_kept_where_a_site_says_so() -> None:
    assert parse_keep_size("0") == parse_keep_size(0) == 0
    assert parse_keep_size("16m") == 16 * 1024**2
    with pytest.raises(InvalidInput, match="cluster_compute_output_size is 'much'"):
        parse_keep_size("much")

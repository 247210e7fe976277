# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of lines that are looked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import matcher
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import Engine
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.matcher import (
    Matcher,
    MatchError,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.output import OutputDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.output import Since
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.output import Line
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import output

TIME = "2026-01-31T12:00:00.000000000Z"
ID = "00000000-0000-4000-8000-000000000001"


def lines(*texts: str) -> Iterator[Line]:
    """Yield lines of these texts."""
    return ((TIME, "out", text) for text in texts)


def test_lines_that_match_are_picked_in_their_order_over_batches() -> None:
    with closing(Matcher(r"^\d*7$")) as seven:
        found = [text for _time, _stream, text in seven.matching(lines(*map(str, range(2500))))]
        assert found == [str(number) for number in range(7, 2500, 10)]
        assert list(seven.matching(lines("8", "17"))) == [(TIME, "out", "17")]


def test_lines_of_any_characters_are_matched() -> None:
    texts = ["\udcff", "ü\n", "\u2028", "x" * 65536]
    with closing(Matcher("\udcff|ü|\u2028|x$")) as strange:
        assert [text for _time, _stream, text in strange.matching(lines(*texts))] == texts


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        pytest.param("(a+)+$", "a" * 60 + "!", id="exponential"),
        pytest.param("(?:a{0,400}){4}b", "a" * 60_000, id="many short tries, during which Python sees no signal"),
    ],
)
def test_an_expression_without_end_is_ended(expression: str, text: str) -> None:
    with (
        closing(Matcher(expression, 1)) as endless,
        pytest.raises(MatchError, match="more than 1 seconds on this host"),
    ):
        list(endless.matching(lines("b", text)))
    assert endless._process is None


def test_the_time_is_that_of_all_batches_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matcher, "MOST_LINES", 1)
    slow = "a" * 24 + "!"  # about a second each
    with closing(Matcher("(a+)+$", 3)) as endless, pytest.raises(MatchError):
        list(endless.matching(lines(*[slow] * 100)))


def test_what_is_kept_of_output_is_looked_through_within_a_time(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    class NoContainers:
        def session_containers(self, _labels: dict[str, str]) -> list[dict[str, str]]:
            return []

    kept = OutputDirectory(str(tmp_path)).session(ID)
    kept.write_container("main1", "c" * 12, lines("a" * 60 + "!", "ab"))
    monkeypatch.setattr(Engine, "connect", NoContainers)

    def read(expression: str) -> list[str]:
        question = output.Question(ID, (), Since(), None, expression, 1024)
        with closing(output.OutputReader(StateDirectory(str(tmp_path)), question)) as reader:
            return [line[2] for line in reader.read()[0].lines]

    assert read("b$") == ["ab"]
    monkeypatch.setattr(output, "Matcher", lambda expression: Matcher(expression, 1))
    with pytest.raises(MatchError):
        read("(a+)+$")

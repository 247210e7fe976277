# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a controller remembers of a host that did not answer, and for how long."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.plugin_utils.hung_hosts import FOLDER, SECONDS, Hang, HangNote


def note(home: Path, now: float, host: str = "root@h1:22") -> HangNote:
    return HangNote(str(home), host, lambda: now)


def test_a_hang_is_remembered_for_a_while_and_of_one_host(tmp_path: Path) -> None:
    note(tmp_path, 1000).remember(" It is silent. ")
    assert note(tmp_path, 1100).read() == Hang("It is silent.", SECONDS - 100, False)
    assert note(tmp_path, 1100, "root@h2:22").read() is None
    assert note(tmp_path, 1000 + SECONDS).read() is None
    assert not list((tmp_path / FOLDER).iterdir()), "what is over leaves nothing"


def test_one_that_answers_again_stays_suspect_as_long_as_before(tmp_path: Path) -> None:
    note(tmp_path, 1000).remember("It is silent.")
    note(tmp_path, 1200).answers_again()
    assert note(tmp_path, 1300).read() == Hang("It is silent.", SECONDS - 300, True)
    note(tmp_path, 1300).forget()
    assert note(tmp_path, 1300).read() is None
    note(tmp_path, 1300).answers_again()
    assert note(tmp_path, 1300).read() is None


@pytest.mark.parametrize("text", ["", "[]", "{", '{"since": "x"}', '{"since": 9e99, "reason": 1, "answers": 0}', "\0"])
def test_a_damaged_note_is_none(tmp_path: Path, text: str) -> None:
    note(tmp_path, 1000).remember("It is silent.")
    (path,) = (tmp_path / FOLDER).iterdir()
    path.write_text(text, encoding="utf-8")
    assert note(tmp_path, 1000).read() is None


def test_a_controller_that_can_keep_nothing_goes_on(tmp_path: Path) -> None:
    (tmp_path / FOLDER).touch()
    note(tmp_path, 1000).remember("It is silent.")
    assert note(tmp_path, 1000).read() is None

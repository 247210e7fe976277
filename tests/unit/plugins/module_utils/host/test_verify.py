# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils.host import verify


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("", "It wrote nothing. Its program has to stay in the foreground."),
        ("\n \n", "It wrote nothing. Its program has to stay in the foreground."),
        ("one\ntwo\n", "Its last output:\n| one\n| two"),
        ("one\x0btwo\rthree\u2028four", "Its last output:\n| one\n| two\n| three\n| four"),
    ],
)
def test_every_line_that_a_program_wrote_is_marked_as_its_own(written: str, said: str) -> None:
    assert verify._last_output(written) == said


def test_a_long_line_is_cut_to_its_end() -> None:
    assert verify._last_output("x" * 99999 + "end") == f"Its last output:\n| {'x' * (verify.LONGEST_OUTPUT - 3)}end"

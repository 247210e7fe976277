# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.first_program import in_front

NO_INIT = "session_init=false leaves out Docker's init, for an image that brings its own"
REPLACE = "session_entrypoint takes the place of the image's"


@pytest.mark.parametrize(
    ("entrypoint", "command", "has_init", "is_own", "said"),
    [
        ((), ("sleep", "1"), True, False, ""),
        ((), (), True, False, ""),
        ((), ("/sbin/init",), False, False, ""),
        ((), ("/sbin/init",), True, False, f"In front of its command ran Docker's init: {NO_INIT}."),
        (
            ("/init", "--token=secret"),
            ("x",),
            True,
            False,
            f"In front of its command ran Docker's init and the image's entrypoint '/init': {NO_INIT}; {REPLACE}.",
        ),
        (
            ("/entry",),
            (),
            False,
            False,
            f"In front of its command ran the image's entrypoint '/entry': {REPLACE}.",
        ),
        (("/a\x1b",), (), False, True, "In front of its command ran session_entrypoint '/a\\x1b'."),
    ],
)
def test_what_ran_in_front_is_named_where_it_may_be_why(
    entrypoint: tuple[str, ...], command: tuple[str, ...], has_init: bool, is_own: bool, said: str
) -> None:
    assert in_front(entrypoint, command, has_init, is_own) == said

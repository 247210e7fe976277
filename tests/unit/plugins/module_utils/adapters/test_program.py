# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.cluster_compute.session.plugins.module_utils.adapters import program
from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import SessionError


def test_what_is_no_text_of_this_encoding_is_read_all_the_same() -> None:
    assert program.run(["printf", r"B\374ro"], error=SessionError) == "B\N{REPLACEMENT CHARACTER}ro"

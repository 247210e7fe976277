# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.exit_status import seconds_at


@pytest.mark.parametrize(
    ("stamp", "seconds"),
    [
        ("2026-11-25T10:00:00Z", 1795600800.0),
        ("2026-11-25T10:00:00.5Z", 1795600800.5),
        ("2026-11-25T10:00:00.123456789Z", 1795600800.123456789),
        ("0001-01-01T00:00:00Z", -62135596800.0),
        ("", 0.0),
        ("yesterday", 0.0),
    ],
)
def test_a_time_stamp_of_the_engine_keeps_its_fraction(stamp: str, seconds: float) -> None:
    """A container that its engine took with it in half a second was started before the engine that is there now."""
    assert seconds_at(stamp) == pytest.approx(seconds, abs=1e-6)

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is stopped for what it wrote outside its mounts, and who never is."""

from __future__ import annotations

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.disk import (
    INODES,
    LARGEST_FILE,
    MOST_WORK,
    Space,
    Use,
    engine_limits,
    to_stop,
)
from hypothesis import given
from hypothesis import strategies as st

MIB = 1024**2
DISK = "/var/lib/docker"
SPACIOUS = {DISK: Space(1000 * MIB, 500 * MIB), INODES + DISK: Space(0, 0)}
FULL = {**SPACIOUS, DISK: Space(1000 * MIB, 49 * MIB)}


def use(container: str, amount: int, **more: object) -> Use:
    return Use(container, taken={DISK: amount, INODES + DISK: 7}, **more)  # type: ignore[arg-type]


def test_who_is_above_its_own_limit_is_stopped_by_both_amounts() -> None:
    uses = [use("a", 8 * MIB, limit=8 * MIB), use("b", 8 * MIB + 1, limit=8 * MIB), use("c", 900 * MIB)]
    assert to_stop(SPACIOUS, uses) == {
        "b": "It has written 9MiB outside its mounts, and its session_disk_size is 8MiB.",
    }


def test_inodes_are_no_bytes() -> None:
    assert to_stop(SPACIOUS, [Use("a", 5, {DISK: 4, INODES + DISK: 1000})]) == {}


def test_a_file_of_the_engine_that_was_made_large_is_a_reason() -> None:
    assert to_stop(SPACIOUS, [use("a", 0, file=LARGEST_FILE)]) == {}
    reason = to_stop(SPACIOUS, [use("a", 0, file=LARGEST_FILE + 1)])["a"]
    assert "/etc/hosts" in reason
    assert "17MiB" in reason
    assert "16MiB" in reason


def test_on_a_full_disk_who_holds_more_than_half_goes_and_nobody_else() -> None:
    uses = [use("a", 60 * MIB), use("b", 501 * MIB), use("c", 299 * MIB)]
    stopped = to_stop(FULL, uses)
    assert list(stopped) == ["b"]
    assert stopped["b"].endswith("it had taken more than half outside its mounts: 501MiB.")
    assert to_stop(SPACIOUS, uses) == {}
    assert to_stop(FULL, [use("a", 500 * MIB), use("c", 299 * MIB)]) == {}, "whoever fills it together stays"


def test_a_limit_of_its_own_lets_nobody_fill_a_disk() -> None:
    assert list(to_stop(FULL, [use("a", 600 * MIB, limit=700 * MIB)])) == ["a"]


def test_who_has_so_many_files_that_nobody_can_count_them_goes() -> None:
    uses = [Use("many", limit=MIB, work=MOST_WORK + 1), Use("some", limit=MIB, work=MOST_WORK)]
    found = to_stop(SPACIOUS, uses)
    assert list(found) == ["many"]
    assert found["many"].startswith(
        "It has so many files outside its mounts that 301 seconds of work did not count them"
    )
    found = to_stop(SPACIOUS, [Use("both", limit=MIB, taken={DISK: 9 * MIB}, work=MOST_WORK + 1)])
    assert "its session_disk_size is 1MiB" in found["both"], "what is known says more"


def test_files_without_number_are_as_bad_as_bytes() -> None:
    spaces = {**SPACIOUS, INODES + DISK: Space(1000, 10)}
    found = to_stop(spaces, [Use("a", taken={DISK: 9 * MIB, INODES + DISK: 5}), Use("b", taken={INODES + DISK: 600})])
    assert list(found) == ["b"]
    assert found["b"].startswith(f"Less than a twentieth of the inodes of {DISK} was free")
    assert found["b"].endswith("600.")


@given(st.lists(st.integers(0, 1000), max_size=8), st.integers(0, 1000))
def test_at_most_one_goes_and_never_for_what_others_wrote(amounts: list[int], free: int) -> None:
    taken = sum(amounts)
    spaces = {DISK: Space(max(taken + free, 1), free)}
    found = to_stop(spaces, [Use(str(number), taken={DISK: amount}) for number, amount in enumerate(amounts)])
    assert len(found) <= 1
    for name in found:
        assert amounts[int(name)] * 2 > taken + free


@pytest.mark.parametrize(
    ("driver", "backing", "options", "limits"),
    [
        ("overlay2", "xfs", ("rw", "prjquota"), True),
        ("overlay2", "xfs", ("rw", "pquota"), True),
        ("overlay2", "xfs", ("rw", "usrquota"), False),
        ("overlay2", "extfs", ("rw", "prjquota"), False),
        ("overlayfs", "xfs", ("rw", "prjquota"), False),
    ],
)
def test_an_engine_limits_on_xfs_with_project_quotas(
    driver: str, backing: str, options: tuple[str, ...], limits: bool
) -> None:
    assert engine_limits(driver, backing, options) is limits

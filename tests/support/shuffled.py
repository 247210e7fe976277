# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the files of tests in another order each time, so that none comes to need what another has left behind."""

from __future__ import annotations

import os
import random

SEED = "TEST_FILES_SEED"
"""The variable of the environment that gives the order, 0 for the one they come in; without it one is drawn. Workers of
xdist inherit it."""


def seed() -> int:
    """Return the number that gives the order of this run."""
    return int(os.environ.setdefault(SEED, str(random.SystemRandom().randrange(1, 10000))))


def by_files(names: list[str], number: int) -> list[int]:
    """Return the order of tests, as places in *names*, the file of each; the tests of a file stay together."""
    files = list(dict.fromkeys(names))
    if number:
        random.Random(number).shuffle(files)
    place = {name: position for position, name in enumerate(files)}
    order = sorted(range(len(names)), key=lambda index: place[names[index]])
    assert len({*order}) == len(names), "no test may be lost on the way"
    return order

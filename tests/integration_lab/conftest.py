# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A lab for the tests: three hosts with engines of two generations, brought up once and always taken down."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from ansible_collections.cluster_compute.session.tests.integration_lab.driver import (
    HOSTS,
    Snapshot,
    differences,
    on,
    play,
    snapshot,
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a developer run single tests again and again."""
    parser.addoption("--keep-lab", action="store_true", help="use the lab if it is up, and leave it up at the end")


@pytest.fixture(scope="session", autouse=True)
def lab(request: pytest.FixtureRequest) -> Iterator[None]:
    """Bring up the lab, prepare its hosts, give them the images; take it down however the tests end."""

    def stop(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    keep = request.config.getoption("--keep-lab")
    try:
        if not keep:
            play("lab_down").ok()
        for playbook in ("lab_up", "prepare_hosts", "lab_images"):
            run = play(playbook, seconds=1800).ok()
            reached = {host for host, counters in run.recap.items() if counters["ok"]} - {"localhost"}
            assert reached == set(HOSTS), f"{playbook} reached {reached}"
        for host in HOSTS:
            assert on(host, "hostname").strip() == host
            on(host, "mkdir", "-p", "/srv/shared/readonly")
        yield
    finally:
        if not keep:
            down = play("lab_down")
            assert down.code == 0, down.output


@pytest.fixture(scope="module", autouse=True)
def untouched_lab(lab: None) -> Iterator[Snapshot]:
    """Give the state of the hosts before a module's tests; it has to be the same after them."""
    before = snapshot()
    yield before
    assert differences(before, snapshot()) == []

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A lab for the tests: three hosts with engines of two generations, brought up once and always taken down.

Files of tests may run side by side (pytest-xdist), each process with a lab of its own.
"""

from __future__ import annotations

import fcntl
import importlib.util
import signal
from collections.abc import Iterator

import pytest
from ansible_collections.cluster_compute.session.tests.integration_lab.driver import (
    CHECKOUT,
    HOSTS,
    Snapshot,
    differences,
    on,
    play,
    snapshot,
)

LONGEST = (
    "test_examples",
    "test_docs",
    "test_faults",
    "test_sequences",
    "test_host_loss",
    "test_apps",
    "test_pairs",
    "test_multi_node",
    "test_jobs",
    "test_status",
)
"""Files that begin first, the longest of them at once: else one process would have nothing to do at the end."""
ALONE = ("test_race",)
"""Files that come last and run by themselves: they take all of the machine."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a developer run single tests again and again, and the lab's own where nothing of it changed."""
    parser.addoption("--keep-lab", action="store_true", help="use the lab if it is up, and leave it up at the end")
    parser.addoption("--whole-lab", action="store_true", help="run the lab's own tests whether it changed or not")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker of tests that judge the lab alone."""
    config.addinivalue_line("markers", "lab_itself: judges the lab; collected only where its sources have changed")


def _lab_is_judged(config: pytest.Config) -> bool:
    """Tell whether the lab's own tests run."""
    spec = importlib.util.spec_from_file_location("lab_stamp", CHECKOUT / "tools" / "lab_stamp.py")
    assert spec is not None
    assert spec.loader is not None
    stamp = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(stamp)
    return bool(config.getoption("--whole-lab")) or not stamp.agrees(CHECKOUT)


def pytest_report_header(config: pytest.Config) -> str:
    """Say whether the lab's own tests run."""
    if _lab_is_judged(config):
        return "lab: its own tests run"
    return "lab: its own tests are left out, its sources are those that passed them (tests/integration_lab/lab.sha256)"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what judges an unchanged lab; put the longest files first, and those that run alone last."""
    if not _lab_is_judged(config):
        left_out = [item for item in items if item.get_closest_marker("lab_itself")]
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)
    first = {name: number - len(LONGEST) for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: first.get(item.path.stem, item.path.stem in ALONE))


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
def file_lock(lab: None, request: pytest.FixtureRequest) -> Iterator[None]:
    """Wait until a file may run: beside those of the other processes, or alone."""
    path = CHECKOUT / ".cache" / "integration" / "turn"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX if request.path.stem in ALONE else fcntl.LOCK_SH)
        yield


@pytest.fixture(scope="module", autouse=True)
def untouched_lab(file_lock: None) -> Iterator[Snapshot]:
    """Give the state of the hosts before a module's tests; it has to be the same after them."""
    before = snapshot()
    yield before
    assert differences(before, snapshot()) == []

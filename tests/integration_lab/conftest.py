# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A lab for the tests: three hosts with engines of two generations, brought up once and always taken down.

Files of tests may run side by side (pytest-xdist), each process with a lab of its own.
"""

from __future__ import annotations

import fcntl
import importlib.util
import signal
from collections import defaultdict
from collections.abc import Iterator
from types import ModuleType

import pytest
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    CHECKOUT,
    HOSTS,
    LAB,
    ON_MACHINES,
    Snapshot,
    differences,
    on,
    play,
    snapshot,
)
from ansible_collections.cluster_compute.session.tests.support.lab_lock import only_user

LONGEST = (
    "test_examples",
    "test_docs",
    "test_boot",
    "test_faults",
    "test_host_loss",
    "test_awx",
    "test_any_image",
    "test_queue",
    "test_hanging",
    "test_repair",
    "test_renamed_host",
    "test_apps",
    "test_pairs",
    "test_jobs",
)
"""Files that begin first, the longest of them at once: else one process would have nothing to do at the end."""
ALONE = ("test_race",)
"""Files that come last and run by themselves: they take all of the machine."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a developer run single tests again and again, and those that are left out while nothing of theirs changes."""
    parser.addoption("--keep-lab", action="store_true", help="use the lab if it is up, and leave it up at the end")
    parser.addoption("--stamped", metavar="KIND", help="run the stamped tests of this kind alone, whatever has changed")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker of tests that are left out while nothing changes that they judge."""
    config.addinivalue_line("markers", "stamped(kind): runs only where its sources have changed (tools/stamps.py)")


def _stamps() -> ModuleType:
    """Return the tool that knows which stamped tests have passed."""
    spec = importlib.util.spec_from_file_location("stamps", CHECKOUT / "tools" / "stamps.py")
    assert spec is not None
    assert spec.loader is not None
    stamps = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(stamps)
    return stamps


def pytest_report_header(config: pytest.Config) -> str:
    """Say which stamped tests run."""
    if config.getoption("--stamped"):
        return f"stamped tests: only those of the kind {config.getoption('--stamped')} run"
    return f"stamped tests that run: {', '.join(_stamps().outdated(CHECKOUT)) or 'none, nothing of theirs has changed'}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what judges what has not changed; put the longest files first, and those that run alone last."""
    stamps = _stamps()
    only = config.getoption("--stamped")
    wanted = {only} if only else {None, *stamps.outdated(CHECKOUT)}
    left_out = []
    for item in items:
        marker = item.get_closest_marker("stamped")
        assert marker is None or marker.args[0] in stamps.SOURCES, f"{item.nodeid} has a kind that no stamp has"
        if (marker.args[0] if marker else None) not in wanted:
            left_out.append(item)
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)
    first = {name: number - len(LONGEST) for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: first.get(item.path.stem, item.path.stem in ALONE))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many seconds each process worked, and on which files, from which LONGEST follows."""
    worked: dict[str, defaultdict[str, float]] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                files = worked.setdefault(getattr(report, "worker_id", "gw0"), defaultdict(float))
                files[report.nodeid.partition(".py")[0].rpartition("/")[2]] += report.duration
    for process, files in sorted(worked.items()):
        ordered = sorted(files.items(), key=lambda item: -item[1])
        named = ", ".join(f"{name} {seconds:.0f}" for name, seconds in ordered)
        terminalreporter.write_line(f"{process}: {sum(files.values()):.0f} s, of which {named}")


@pytest.fixture(scope="session", autouse=True)
def lab(request: pytest.FixtureRequest) -> Iterator[None]:
    """Bring up the lab, prepare its hosts, give them the images; take it down however the tests end."""

    def stop(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    keep = request.config.getoption("--keep-lab")
    with only_user(LAB):
        if ON_MACHINES:
            yield
            return
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

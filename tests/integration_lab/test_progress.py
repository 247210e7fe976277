# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The progress of a launch on a terminal, and that nothing of it gets to where programs read."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    BUSYBOX,
    CHECKOUT,
    clear,
    command,
    environment,
)

REQUEST = {
    "session_name": "shown",
    "session_size": 5,
    "session_image": BUSYBOX,
    "session_cpus": "0.1",
    "session_memory": "16m",
    "session_max_replicas_per_host": 2,
    "session_command": "sleep 8888",
}
ERASE = "\r\x1b[K"


def read_all(terminal: int) -> str:
    """Return what is written to a terminal until all who could write are gone."""
    found = b""
    while True:
        try:
            some = os.read(terminal, 65536)
        except OSError:  # Linux says so when the last who had the other end open has closed it
            some = b""
        if not some:
            os.close(terminal)
            return found.decode().replace("\r\n", "\n")
        found += some


def run(folder: Path, *, is_shown: bool = False) -> tuple[str, str]:
    """Launch with standard error, or all output, on a terminal of 80 columns; return what came on either.

    is_shown: standard output is the terminal as well, and all comes there.
    """
    variables = folder / "variables.json"
    variables.write_text(json.dumps(REQUEST), encoding="utf-8")
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    output = folder / "output"
    with output.open("wb") as file:
        started = subprocess.Popen(
            command("launch_cluster", variables),
            cwd=CHECKOUT,
            env=environment(TERM="xterm"),
            stdin=subprocess.DEVNULL,
            stdout=end if is_shown else file,
            stderr=end,
        )
    os.close(end)
    written = read_all(terminal)
    assert started.wait(300) == 0, output.read_text(encoding="utf-8") + written
    return output.read_text(encoding="utf-8"), written


def left_on(screen: str) -> str:
    """Return what a person sees in the end, each line as it was last written."""
    return "\n".join(line.split(ERASE)[-1] for line in screen.split("\n"))


def unordered(text: str) -> list[str]:
    """Return the lines of a run, and their words; hosts that work side by side answer in any order."""
    return sorted(" ".join(sorted(re.split("[ ,]+", line))) for line in text.splitlines() if line.strip())


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Launch on a terminal, and give what came there."""
    try:
        yield run(tmp_path_factory.mktemp("first"), is_shown=True)[1]
    finally:
        clear("shown")


def test_the_states_are_shown_while_they_last(first: str) -> None:
    lines = {line.split(" ")[0].rstrip(",") for line in first.replace("\n", ERASE).split(ERASE) if " hosts, " in line}
    assert {"look", "reserve", "network"} <= lines


def test_the_end_tells_counts_and_times_in_the_order_of_the_states(first: str) -> None:
    summary = left_on(first).split("PROGRESS\n")[1].splitlines()
    assert [line.split()[0] for line in summary] == ["look", "reserve", "network", "start", "ready"]
    rows = {line.split()[0]: line.split() for line in summary}
    assert rows["look"][1:3] == ["3/3", "hosts"]
    assert rows["start"][2:5] == ["hosts,", "5/5", "replicas"]
    assert rows["ready"][3:5] == ["5/5", "replicas"]
    assert all(words[-1] == "s" and float(words[-2]) >= 0 for words in rows.values())
    assert float(rows["start"][-2]) > 0


def test_the_results_stay_as_they_are_wherever_they_are_read(first: str, tmp_path: Path) -> None:
    """Standard output is a file of one launch, for programs, and the terminal, with the progress, of another."""
    output, written = run(tmp_path)
    assert "\x1b" not in output
    assert "PROGRESS" not in output
    others, summary = left_on(written).split("PROGRESS\n")
    assert summary
    _nothing, screen = run(tmp_path, is_shown=True)
    results, summary = left_on(screen).split("PROGRESS\n")
    assert summary
    assert "REPLICA " in output
    assert unordered(results) == unordered(output + others)

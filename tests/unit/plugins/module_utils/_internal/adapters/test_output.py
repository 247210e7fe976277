# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What hosts keep of what sessions wrote: for how long, of how many, and whose."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.output import (
    JobWriter,
    OutputDirectory,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import StateError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.output import JobInfo

IDS = [f"00000000-0000-4000-8000-00000000000{number}" for number in range(5)]
ALICE = {"owner": "alice", "shared_with": ["bob"]}
NOBODY: dict[str, object] = {"owner": "", "shared_with": []}
LINE = ("2026-01-31T12:00:00.000000000Z", "out", "said")


def test_what_is_kept_reads_back_and_goes(tmp_path: Path) -> None:
    directory = OutputDirectory(str(tmp_path))
    output = directory.session(IDS[0])
    assert output.containers() == []
    output.write_container("main1", "0123456789ab", [LINE])
    output.write_info("train", ALICE, 100.0, {"main1": {"exit_code": 3}})
    assert output.containers() == [("main1", "0123456789ab")]
    assert list(output.read_container("main1", "0123456789ab")) == [LINE]
    info = {"name": "train", **ALICE, "ended": 100.0, "replicas": {"main1": {"exit_code": 3}}}
    assert output.read_info() == info
    output.write_info("train", NOBODY, 200.0, {})  # by a removal that finds no record any more
    assert output.read_info() == {"name": "train", **ALICE, "ended": 200.0, "replicas": {}}
    assert {path.stat().st_mode & 0o077 for path in tmp_path.rglob("*")} == {0}
    directory.remove(IDS[0])
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_account_counts_as_not_known(tmp_path: Path) -> None:
    output = OutputDirectory(str(tmp_path)).session(IDS[0])
    output.write_info("train", ALICE, 100.0, {})
    output.info_file.write_text("{", encoding="utf-8")
    assert output.read_info() == {"name": "", **NOBODY, "ended": None, "replicas": {}}
    assert output.ended() > 100.0


def test_what_is_old_goes_and_what_is_beyond_the_number(tmp_path: Path) -> None:
    directory = OutputDirectory(str(tmp_path))
    for number, key in enumerate(IDS):
        directory.session(key).write_info("train", ALICE, 1000.0 + number, {})
    assert directory.surplus(1004.0, 100.0, 50, ()) == []
    assert directory.surplus(1004.0, 2.5, 50, ()) == IDS[:2]
    assert directory.surplus(1004.0, 100.0, 2, ()) == IDS[:3]
    assert directory.surplus(1004.0, 2.5, 50, {IDS[0]}) == [IDS[1]]


def test_what_takes_more_than_its_share_of_the_disk_goes_the_oldest_first(tmp_path: Path) -> None:
    directory = OutputDirectory(str(tmp_path))
    assert (directory.share(), directory.surplus(0.0, 100.0, 50, (), 0)) == (0, [])
    for number, key in enumerate(IDS):
        directory.session(key).write_info("train", ALICE, 1000.0 + number, {})
        (directory.session(key).path / f"main1@{number}").write_bytes(b"x" * 100_000)
    size = directory.session(IDS[0]).size()
    assert 100_000 < size < 150_000
    assert directory.surplus(1004.0, 100.0, 50, (), 5 * size) == []
    assert directory.surplus(1004.0, 100.0, 50, (), 5 * size - 1) == IDS[:1]
    assert directory.surplus(1004.0, 100.0, 50, (), 2 * size) == IDS[:3]
    assert directory.surplus(1004.0, 100.0, 50, {IDS[0]}, 2 * size) == IDS[1:4], "what runs counts and stays"
    assert directory.surplus(1004.0, 3.5, 50, (), 4 * size) == IDS[:1], "what goes anyway takes nothing"
    assert directory.surplus(1004.0, 100.0, 50, (), 0) == IDS
    assert directory.share() > 10 * size


def test_no_path_is_made_of_what_is_no_id(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="not a UUID"):
        OutputDirectory(str(tmp_path)).session("../sessions")


def test_what_a_job_writes_is_read_on_while_files_take_turns(tmp_path: Path) -> None:
    job = OutputDirectory(str(tmp_path)).session(IDS[0]).job("0123456789ab")
    job.write_info(JobInfo({"main1": "h1"}, ("x",), ("main1",), 1.0))
    writer = JobWriter(job, "main1", 400)
    seen: list[str] = []
    position = None
    for number in range(40):
        writer.write([(LINE[0], "out", f"line {number}")])
        if number % 5 == 4:
            lines, position = job.read("main1", position)
            seen += [line[2] for line in lines]
    assert seen == [f"line {number}" for number in range(40)]
    assert sum(path.stat().st_size for path in job.log_files("main1").values()) <= 800
    # From the beginning only what is left is read, without a gap.
    left = [line[2] for line in job.read("main1", None)[0]]
    assert left == seen[-len(left) :]
    assert len(left) > 9


@pytest.mark.parametrize("burst", range(1, 60, 7))
def test_a_reader_that_is_slower_than_the_files_take_turns_reads_to_the_end(burst: int, tmp_path: Path) -> None:
    job = OutputDirectory(str(tmp_path)).session(IDS[0]).job("0123456789ab")
    job.write_info(JobInfo({"main1": "h1"}, ("x",), ("main1",), 1.0))
    writer = JobWriter(job, "main1", 400)
    position = None
    number = 0
    for _turn in range(10):
        for _line in range(burst):
            number += 1
            writer.write([(LINE[0], "out", f"line {number}")])
        lines, position = job.read("main1", position)
        assert lines[-1][2] == f"line {number}"


def test_half_a_line_of_a_job_is_read_when_it_is_whole(tmp_path: Path) -> None:
    job = OutputDirectory(str(tmp_path)).session(IDS[0]).job("0123456789ab")
    job.write_info(JobInfo({"main1": "h1"}, ("x",), ("main1",), 1.0))
    path = job.log_file("main1", 1)
    path.write_text(f"{LINE[0]} out one\n{LINE[0]} out tw", encoding="utf-8")
    lines, position = job.read("main1", None)
    assert [line[2] for line in lines] == ["one"]
    with path.open("a", encoding="utf-8") as file:
        file.write("o\n")
    assert [line[2] for line in job.read("main1", position)[0]] == ["two"]


def test_no_path_is_made_of_what_is_no_job(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="job id"):
        OutputDirectory(str(tmp_path)).session(IDS[0]).job("../../x")

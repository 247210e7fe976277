# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""session-run with agents of its own on this machine, where a session has SSH in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.environment import (
    SessionEnvironment,
    replica_environment,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.replica import session_run
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.replica.session_run import (
    Refused,
    chosen_replicas,
    handed_on,
    ranks,
    read_arguments,
    slurm_of_run,
    slurm_place,
)
from ansible_collections.cluster_compute.session.tests.support.plans import typed_plan

NAMES = ["main1", "sub1", "sub2"]
DRIVER = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("session_run", sys.argv[1])
session_run = importlib.util.module_from_spec(spec)
spec.loader.exec_module(session_run)
session_run.ENVIRONMENT, session_run.GRACE = sys.argv[2], 1.0
if sys.argv[3] == "--agent":
    sys.exit(session_run.Agent(sys.argv[4]).run())
given = json.loads(sys.argv[3])
places = session_run.ranks(given["on"], given["number"], 4000)
request = {"command": given["command"], "directory": "/", "changed": {}, "more": {"MORE": "1", "MINE": "caller's"}}
agent = [*given["through"], sys.executable, "-c", given["driver"], *sys.argv[1:3], "--agent", "mark"]
starts = {name: (agent, {**request, "places": places[name]}) for name in given["on"]}
sys.exit(session_run.Launcher("mark").run(starts))
"""


def task(names: list[str], rank: int, number: int = 1) -> str:
    """Return ``TF_CONFIG`` of the session, or of a run."""
    workers = [f"{name}:{4000 + local}" for name in names for local in range(number)]
    return json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}})


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a launcher with its agents; nothing of it is there at the end."""
    environment = tmp_path / "environment"
    text = "export MINE='of the session'\nexport LINES='two\nlines'\nexport SLURM_NTASKS=3\nexport SLURM_PROCID=mine\n"
    environment.write_text(f"{text}export TF_CONFIG='{task(NAMES, 1)}'\n")
    mark = f"TEST_OF_SESSION_RUN={tmp_path}"
    started = []

    def begin(command: str, number: int = 1, through: list[str] | None = None) -> subprocess.Popen[str]:
        given = {
            "on": NAMES,
            "number": number,
            "command": ["sh", "-c", command],
            "driver": DRIVER,
            "through": through or [],
        }
        argv = [sys.executable, "-c", DRIVER, session_run.__file__, str(environment), json.dumps(given)]
        variables = {**os.environ, **dict([mark.split("=", 1)])}
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=variables))
        return started[-1]

    yield begin
    for launcher in started:
        launcher.kill()
        launcher.communicate()
    assert _gone(mark, 10), _with(mark)


def _gone(mark: str, seconds: float) -> bool:
    """Tell whether by some time nothing runs with a variable."""
    deadline = time.monotonic() + seconds
    while _with(mark):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _with(mark: str) -> list[str]:
    """Return what runs with a variable."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_text()[-80:])
        except OSError:
            continue
    return found


def test_output_comes_in_lines_with_the_replica_and_with_every_process_place(start: Start) -> None:
    out, error = start('echo "$RANK of $WORLD_SIZE"; printf "no end" >&2').communicate(timeout=20)
    assert sorted(out.splitlines()) == ["main1: 0 of 3", "sub1: 1 of 3", "sub2: 2 of 3"]
    assert sorted(error.splitlines()) == [f"{name}: no end" for name in NAMES]


def test_several_processes_of_a_replica_are_told_apart(start: Start) -> None:
    launcher = start('echo "$RANK $LOCAL_RANK"', number=2)
    out, _error = launcher.communicate(timeout=20)
    assert (launcher.returncode, len(out.splitlines())) == (0, 6)
    assert {"main1.0: 0 0", "sub1.1: 3 1", "sub2.0: 4 0"} <= {*out.splitlines()}


def test_what_the_session_says_wins_over_the_caller_and_what_it_does_not_say_is_handed_on(start: Start) -> None:
    out, _error = start('echo "$MINE, $MORE, $LINES"').communicate(timeout=20)
    assert "sub1: of the session, 1, two" in out.splitlines()
    assert "sub1: lines" in out.splitlines()


@pytest.mark.parametrize("way", ["exit 7", "kill -SEGV $$", "exec /nowhere"])
def test_one_that_fails_ends_all_others_and_what_they_started(start: Start, way: str) -> None:
    launcher = start(f"test $RANK != 1 || {way}; sleep 8886 & sleep 8886")
    _out, error = launcher.communicate(timeout=20)
    code = {"exit 7": 7, "kill -SEGV $$": 139, "exec /nowhere": 127}[way]
    assert launcher.returncode == code
    assert f"session-run: sub1 ended with exit code {code}; the others are ended." in error.splitlines()


def test_who_does_not_end_is_killed(start: Start) -> None:
    launcher = start("trap '' TERM; test $RANK != 1 || exit 3; while :; do sleep 0.1; done")
    assert launcher.wait(20) == 3


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM, signal.SIGINT])
def test_signals_are_passed_on(start: Start, number: signal.Signals) -> None:
    name = number.name[3:]
    launcher = start(f"trap 'echo got it; exit 0' {name}; echo ready; while :; do sleep 0.05; done")
    assert launcher.stdout is not None
    ready = [launcher.stdout.readline() for _replica in NAMES]
    assert sorted(ready) == [f"{replica}: ready\n" for replica in NAMES]
    launcher.send_signal(number)
    out, _error = launcher.communicate(timeout=20)
    assert sorted(out.splitlines()) == [f"{replica}: got it" for replica in NAMES]
    assert launcher.returncode == 0


def test_a_second_request_to_end_means_now(start: Start) -> None:
    launcher = start("trap '' INT TERM; echo ready; while :; do sleep 0.05; done")
    assert launcher.stdout is not None
    for _replica in NAMES:
        launcher.stdout.readline()
    launcher.send_signal(signal.SIGINT)
    time.sleep(0.2)
    launcher.send_signal(signal.SIGINT)
    assert launcher.wait(20) == 137


def test_a_launcher_that_is_killed_leaves_nothing(start: Start) -> None:
    launcher = start("echo ready; sleep 8885 & sleep 8885")
    assert launcher.stdout is not None
    launcher.stdout.readline()
    launcher.kill()  # what is left is looked for at the end


def test_nothing_of_much_output_is_lost_or_mixed(start: Start) -> None:
    launcher = start("i=0; while test $i -lt 20000; do echo $RANK $i; i=$((i + 1)); done")
    out, _error = launcher.communicate(timeout=60)
    for rank, name in enumerate(NAMES):
        own = [line for line in out.splitlines() if line.startswith(f"{name}: ")]
        assert own == [f"{name}: {rank} {number}" for number in range(20000)]


def test_who_reads_no_more_ends_it(start: Start) -> None:
    launcher = start("while :; do echo y; done")
    assert launcher.stdout is not None
    launcher.stdout.readline()
    launcher.stdout.close()
    assert launcher.wait(20) == 141


def test_a_replica_that_cannot_be_reached_is_told_with_what_ssh_says(start: Start) -> None:
    launcher = start("true", through=["sh", "-c", "echo 'ssh: no route' >&2; exit 255"])
    _out, error = launcher.communicate(timeout=20)
    assert launcher.returncode == 255
    assert "main1: ssh: no route" in error.splitlines()
    assert "was lost, or could not be reached" in error


def test_what_a_shell_prints_before_an_agent_is_none_of_its_frames(start: Start) -> None:
    noise = r"""printf 'Welcome!\no 0 4\nhello'; head -c 300000 /dev/zero; exec 2>&1; set -x; exec "$@" 2>&1"""
    out, error = start("echo $RANK", through=["sh", "-c", noise, "sh"]).communicate(timeout=20)
    assert (sorted(out.splitlines()), error) == (["main1: 0", "sub1: 1", "sub2: 2"], "")


def test_what_is_printed_instead_of_an_agent_is_shown(start: Start) -> None:
    launcher = start("true", through=["sh", "-c", "echo 'This account is not available.'; exit 1"])
    _out, error = launcher.communicate(timeout=20)
    assert launcher.returncode == 1
    assert "main1: This account is not available." in error.splitlines()


@pytest.mark.parametrize("number", [1, 2])
def test_what_a_failed_command_has_started_ends_with_it(start: Start, tmp_path: Path, number: int) -> None:
    """The last process of its replica as well: nothing else is to be ended there."""
    child = "(trap 'echo >asked-$RANK' TERM; echo >ready-$RANK; sleep 8882 & wait)"
    command = f"cd {tmp_path}; {child} & until test -e ready-$RANK; do sleep 0.05; done; exit 5"
    launcher = start(command, number=number)
    assert launcher.wait(20) == 5
    launcher.communicate()
    assert not _with(f"TEST_OF_SESSION_RUN={tmp_path}")
    assert list(tmp_path.glob("asked-*"))


def test_what_a_failed_command_has_started_is_killed_if_it_does_not_end(start: Start, tmp_path: Path) -> None:
    began = time.monotonic()
    launcher = start("(trap '' TERM; while :; do sleep 0.1; done) & exit 5")
    assert launcher.wait(20) == 5
    assert time.monotonic() - began >= 1.0
    launcher.communicate()
    assert _gone(f"TEST_OF_SESSION_RUN={tmp_path}", 2)


def test_what_others_have_left_behind_ends_with_a_failure(start: Start, tmp_path: Path) -> None:
    """Their own end was a success, and their agents' processes are all over by then."""
    launcher = start("test $RANK != 1 || { sleep 1; exit 5; }; sleep 8881 &")
    assert launcher.wait(20) == 5
    launcher.communicate()
    assert _gone(f"TEST_OF_SESSION_RUN={tmp_path}", 2)


def test_what_is_left_behind_by_a_success_stays(start: Start, tmp_path: Path) -> None:
    launcher = start("sleep 2 >/dev/null 2>&1 &")
    assert launcher.wait(20) == 0
    launcher.communicate()
    assert len([line for line in _with(f"TEST_OF_SESSION_RUN={tmp_path}") if "sleep" in line]) == 3


def test_what_a_process_leaves_behind_does_not_keep_it(start: Start) -> None:
    launcher = start("setsid sleep 3 & echo done")
    out, _error = launcher.communicate(timeout=20)
    assert (launcher.returncode, sorted(out.split())) == (0, sorted([f"{name}:" for name in NAMES] + ["done"] * 3))


def test_the_command_line() -> None:
    assert read_arguments(["--on", "sub", "-n", "2", "prog", "-n", "x"]) == ("sub", 2, ["prog", "-n", "x"])
    assert read_arguments(["--", "-odd"]) == ("all", 1, ["-odd"])
    assert read_arguments(["-h"]) is None
    for wrong in (["--onn", "x"], ["-n", "0", "x"], ["-n", "²", "x"], ["-n", "1025", "x"], [], ["--on", "sub"]):
        with pytest.raises(Refused):
            read_arguments(wrong)


def test_where() -> None:
    assert chosen_replicas("all", NAMES) == NAMES
    assert chosen_replicas("sub2, main", NAMES) == ["main1", "sub2"]
    assert chosen_replicas("sub", NAMES) == ["sub1", "sub2"]
    for wrong in ("", ",", "worker", "sub3", "main1,gpu"):
        with pytest.raises(Refused):
            chosen_replicas(wrong, NAMES)


def test_ranks_are_those_of_the_run() -> None:
    variables = ranks(["sub1", "sub2"], 2, 4000)
    last = variables["sub2"][1]
    assert [
        last[key] for key in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "PET_NNODES", "PET_NODE_RANK")
    ] == [
        "3",
        "4",
        "1",
        "sub1",
        "2",
        "1",
    ]
    assert json.loads(last["TF_CONFIG"]) == {
        "cluster": {"worker": ["sub1:4000", "sub1:4001", "sub2:4000", "sub2:4001"]},
        "task": {"type": "worker", "index": 3},
    }


def test_slurm_tells_of_the_session_as_the_session_does() -> None:
    session = SessionEnvironment("0" * 32, "multi-node", (*NAMES,), (("main", 1), ("sub", 2)), 4000, None, slurm=True)
    plan = typed_plan({"replicas": [{"name": name, "rank": rank} for rank, name in enumerate(NAMES)]})
    for replica in plan.replicas:
        own = replica_environment(session, replica)
        placed = {key: value for key, value in own.items() if key.startswith("SLURM_") and key != "SLURM_JOB_ID"}
        assert slurm_place(own["TF_CONFIG"]) == placed
        assert placed["SLURM_TASKS_PER_NODE"] == "1(x3)"


def test_slurm_tells_of_the_run() -> None:
    own = {**slurm_place(task(NAMES, 2)), "TF_CONFIG": task(NAMES, 2), "SLURM_JOB_ID": "7"}
    place = ranks(["sub1", "sub2"], 2, 4000)["sub2"][1]
    assert slurm_of_run(own, {}, place) == {
        "SLURM_JOB_NODELIST": "sub1,sub2",
        "SLURM_STEP_NODELIST": "sub1,sub2",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_STEP_NUM_NODES": "2",
        "SLURM_NNODES": "2",
        "SLURM_NTASKS": "4",
        "SLURM_NPROCS": "4",
        "SLURM_NTASKS_PER_NODE": "2",
        "SLURM_TASKS_PER_NODE": "2(x2)",
        "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
        "SLURM_PROCID": "3",
        "SLURM_NODEID": "1",
        "SLURM_LOCALID": "1",
    }
    alone = ranks(["sub2"], 1, 4000)["sub2"][0]
    assert slurm_of_run(own, {}, alone)["SLURM_TASKS_PER_NODE"] == "1"


def test_a_user_s_own_words_of_slurm_stay() -> None:
    place = ranks(["sub1"], 2, 4000)["sub1"][1]
    assert slurm_of_run({"TF_CONFIG": task(NAMES, 1)}, {}, place) == {}, "the session sets none"
    own = {"TF_CONFIG": task(NAMES, 1), "SLURM_NTASKS": "3", "SLURM_NPROCS": "8", "SLURM_PROCID": "1"}
    assert slurm_of_run(own, {"SLURM_PROCID": "5"}, place) == {"SLURM_NTASKS": "2"}
    for odd in ("", "{", "[]", "{}", '{"cluster": {"worker": []}, "task": {"index": 0}}', '{"cluster": 1}'):
        assert slurm_place(odd) == {}


def test_processes_find_their_place_as_slurm_tells_it(start: Start) -> None:
    out, _error = start('echo "$SLURM_NTASKS $SLURM_PROCID ${SLURM_LOCALID-none}"', number=2).communicate(timeout=20)
    assert {*out.splitlines()} == {f"{name}.{local}: 6 mine none" for name in NAMES for local in (0, 1)}


def test_a_run_within_a_run_is_told_of_itself() -> None:
    own = {**slurm_place(task(NAMES, 1)), "TF_CONFIG": task(NAMES, 1)}
    place = ranks(["sub1", "sub2"], 2, 4000)["sub1"][1]
    caller = {**own, **slurm_of_run(own, {}, place), **place, "SLURM_NTASKS": "9"}
    changed, _more = handed_on(own, caller)
    assert {name for name in changed if name.startswith("SLURM")} == {"SLURM_NTASKS"}
    assert slurm_of_run(own, changed, ranks(["sub2"], 1, 4000)["sub2"][0])["SLURM_PROCID"] == "0"


def test_what_the_caller_has_changed_was_meant() -> None:
    own = {"OMP_NUM_THREADS": "1", "RANK": "0"}
    caller = {"OMP_NUM_THREADS": "4", "RANK": "0", "MORE": "x", "PWD": "/", "SSH_CLIENT": "a"}
    assert handed_on(own, caller) == ({"OMP_NUM_THREADS": "4"}, {"MORE": "x"})

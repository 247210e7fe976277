# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What replicas on three hosts wrote: merged by time, followed, saved, and there when the replicas are gone.

What a host reads and keeps is shown in tests/contract; only here is it put in order over hosts, shown and followed.
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    HOSTS,
    ON_EACH,
    STATE,
    Replica,
    Run,
    Snapshot,
    clear,
    command,
    environment,
    in_parallel,
    launch,
    on,
    play,
    record,
    replicas,
    script,
    teardown,
)

SESSION: dict[str, Any] = {
    **ON_EACH,
    "session_name": "chat",
    "session_cpus": "0.1",
    "session_memory": "32m",
    "session_shm_size": "1m",
    "session_command": ["/bin/sh", "-c", "echo begin $RANK; echo wrong $RANK >&2; exec sleep 8888"],
}
LINE = re.compile(r"(main1|sub\d) +([|!]) (.*)")


@pytest.fixture(scope="module")
def chat(untouched_lab: Snapshot) -> Iterator[dict[str, Replica]]:
    """Run a session of one replica on each host."""
    launch(SESSION).ok()
    found = replicas("chat")
    assert {replica.host for replica in found.values()} == set(HOSTS)
    yield found
    clear("chat")
    in_parallel(lambda host: script(host, f"rm -rf {STATE}/output"), HOSTS)


def say(replica: Replica, text: str, stream: int = 1) -> None:
    """Have the replica's first process write a line."""
    replica.run("sh", "-c", f"{text} >/proc/1/fd/{stream}")


def logs(**values: Any) -> Run:
    """Run the playbook; *values* is without the prefix."""
    return play("logs", {"session_name": "chat", **{f"logs_{key}": value for key, value in values.items()}})


def lines(run: Run) -> list[tuple[str, str, str]]:
    """Return who wrote what, as it was shown: replica, mark of the stream, text."""
    found = map(LINE.fullmatch, run.ok().output.splitlines())
    return [(line[1], line[2], line[3]) for line in found if line is not None]


def kept(host: str) -> str:
    """Return whose output a host keeps."""
    return script(host, f"ls -d {STATE}/output* 2>/dev/null || true")


def notes(run: Run) -> str:
    """Return what the playbook said was missing."""
    return "\n".join(line for result in run.of("Report what is missing") for line in result["values"].get("msg", ()))


def test_lines_of_all_hosts_come_in_order_of_time(chat: dict[str, Replica]) -> None:
    writers = ["sub2", "main1", "sub1", "main1", "sub2"]
    for number, name in enumerate(writers):
        say(chat[name], f"echo order {number}", 1 + number % 2)
    run = play("logs", {"session_name": "chat"}, "-vv")
    found = lines(run)
    assert [line for line in found if line[2].startswith("order")] == [
        (name, "|!"[number % 2], f"order {number}") for number, name in enumerate(writers)
    ]
    for rank, name in enumerate(("main1", "sub1", "sub2")):
        assert {(name, "|", f"begin {rank}"), (name, "!", f"wrong {rank}")} <= set(found)
    assert run.changed_hosts == set()
    assert notes(run) == ""
    # Each line is shown once: what the tasks return is not shown again.
    assert run.output.count("order 3") == 1


def test_what_is_shown_is_saved(chat: dict[str, Replica], tmp_path: Path) -> None:
    for number in range(5):
        say(chat["sub1"], f"echo grain {number}")
    stamp = on("n1", "date", "-u", "+%Y-%m-%dT%H:%M:%S.%NZ").strip()[:26] + "Z"
    say(chat["main1"], "echo after")
    where = tmp_path / "saved"
    run = logs(since=stamp, timestamps=True, directory=str(where))
    assert re.search(r"^\d{4}-\d\d-\d\dT[0-9:.]{18}Z main1 +\| after$", run.ok().output, re.MULTILINE)
    assert "grain" not in run.output
    assert {path.name for path in where.iterdir()} == {"merged.log", "main1.log", "sub1.log", "sub2.log"}
    assert re.fullmatch(r"\S+Z main1 out after\n", (where / "merged.log").read_text(encoding="utf-8"))
    assert re.fullmatch(r"\S+Z out after\n", (where / "main1.log").read_text(encoding="utf-8"))
    assert where.stat().st_mode & 0o777 == 0o700


def test_what_cannot_be_used_is_refused_before_any_host_is_touched() -> None:
    run = logs(grep="a(b", since="yesterday", replicas="Main")
    assert run.code != 0
    for name in ("logs_grep is 'a(b'", "logs_since is 'yesterday'", "logs_replicas is 'Main'"):
        assert name in run.failures
    assert set(run.recap) == {"localhost"}


def test_a_line_is_shown_as_it_is_written(chat: dict[str, Replica], tmp_path: Path) -> None:
    variables = tmp_path / "variables.json"
    settings = {"session_name": "chat", "logs_tail": 1, "logs_grep": "begin|late", "logs_follow_seconds": 60}
    variables.write_text(json.dumps(settings), encoding="utf-8")
    with subprocess.Popen(
        command("logs", variables),
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as started:
        timer = threading.Timer(100, started.kill)
        timer.start()
        shown = []
        assert started.stdout is not None
        for line in started.stdout:
            shown.append(line.strip())
            if shown[-1] == "sub2  | begin 2":
                # Only now is it written, so it can only be shown while the playbook still follows.
                say(chat["sub2"], "echo late")
            if shown[-1] == "sub2  | late":
                break
        timer.cancel()
        started.terminate()
        assert shown[-1] == "sub2  | late", "\n".join(shown)


def test_a_follow_ends_with_its_time(chat: dict[str, Replica]) -> None:
    run = logs(follow_seconds=1, grep="begin")
    assert sorted(lines(run)) == [("main1", "|", "begin 0"), ("sub1", "|", "begin 1"), ("sub2", "|", "begin 2")]


def test_a_host_that_is_away_is_named_and_the_others_are_read(chat: dict[str, Replica], tmp_path: Path) -> None:
    """In check mode, in which all is shown and nothing saved."""
    given = {"session_resource_group": "leaky_pool", "logs_grep": "begin", "logs_directory": str(tmp_path / "saved")}
    run = play("logs", {"session_name": "chat", **given}, "--check")
    there = {name for name, replica in chat.items() if replica.host in ("n1", "n2")}
    assert {line[0] for line in lines(run)} == there
    assert "gone: What its replicas wrote is missing. It could not be reached." in notes(run)
    assert not (tmp_path / "saved").exists()


def test_output_stays_when_the_replicas_are_gone(chat: dict[str, Replica]) -> None:
    host = chat["sub1"].host
    on(host, "docker", "rm", "-f", chat["sub1"].container)
    # More than is asked for, of which the newest lines come.
    say(chat["main1"], "(head -c 500000 /dev/zero | tr '\\0' x | fold -w 999; echo; echo last)")
    run = logs(size="64k")
    assert {line[0] for line in lines(run)} == {"main1", "sub2"}
    assert ("main1", "|", "last") in lines(run)
    assert f"Replica sub1 on {host} has no container. Whatever it wrote went with the container." in notes(run)
    assert re.search(r"main1: \d+ older lines are left out; logs_size allows 65536 bytes", notes(run))
    session_id = record("chat")["id"]
    say(chat["sub2"], "echo farewell")
    teardown("chat").ok()
    run = logs(grep="begin|farewell|last")
    assert [line[2] for line in lines(run)][-2:] == ["last", "farewell"]
    assert f"Session chat ({session_id}) ended at" in notes(run)
    assert "Replica sub2 was removed; it had ended with exit code 143." in notes(run)
    # It goes when its time is over.
    play("gc", {"cluster_compute_output_days": 0}).ok()
    assert in_parallel(kept, HOSTS) == ["", "", ""]

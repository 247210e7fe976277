# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What replicas wrote: merged by time, narrowed, followed, saved, and there when the replicas are gone."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.tests.integration_lab.driver import (
    BUSYBOX,
    HOSTS,
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
    "session_name": "chat",
    "session_size": 3,
    "session_image": BUSYBOX,
    "session_cpus": "0.1",
    "session_memory": "32m",
    "session_shm_size": "1m",
    "session_max_replicas_per_host": 1,
    "session_command": ["/bin/sh", "-c", "echo begin $RANK; echo wrong $RANK >&2; exec sleep 8888"],
}
LINE = re.compile(r"(main1|sub\d) +([|!]) (.*)")


@pytest.fixture(scope="module")
def chat(untouched_lab: Snapshot) -> Iterator[dict[str, Replica]]:
    """Run a session of one replica on each host."""
    launch(SESSION).ok()
    found = replicas("chat")
    assert {one.host for one in found.values()} == set(HOSTS)
    yield found
    clear("chat", "mute")
    in_parallel(lambda host: script(host, f"rm -rf {STATE}/output"), HOSTS)


def say(replica: Replica, text: str, stream: int = 1) -> None:
    """Have the replica's first process write a line."""
    replica.run("sh", "-c", f"{text} >/proc/1/fd/{stream}")


def logs(**asked: Any) -> Run:
    """Run the playbook; *asked* is without the prefix."""
    return play("logs", {"session_name": "chat", **{f"logs_{key}": value for key, value in asked.items()}})


def lines(run: Run) -> list[tuple[str, str, str]]:
    """Return who wrote what, as it was shown: replica, mark of the stream, text."""
    found = map(LINE.fullmatch, run.ok().output.splitlines())
    return [(one[1], one[2], one[3]) for one in found if one is not None]


def kept(host: str) -> str:
    """Return whose output a host keeps."""
    return script(host, f"ls -d {STATE}/output* 2>/dev/null || true")


def notes(run: Run) -> str:
    """Return what the playbook said was missing."""
    return "\n".join(line for one in run.of("Say what is missing") for line in one["values"].get("msg", ()))


def test_lines_of_all_hosts_come_in_order_of_time(chat: dict[str, Replica]) -> None:
    said = ["sub2", "main1", "sub1", "main1", "sub2"]
    for number, name in enumerate(said):
        say(chat[name], f"echo order {number}", 1 + number % 2)
    run = logs()
    found = lines(run)
    assert [one for one in found if one[2].startswith("order")] == [
        (name, "|!"[number % 2], f"order {number}") for number, name in enumerate(said)
    ]
    for rank, name in enumerate(("main1", "sub1", "sub2")):
        assert {(name, "|", f"begin {rank}"), (name, "!", f"wrong {rank}")} <= set(found)
    assert run.changed_hosts == set()
    assert notes(run) == ""
    # Each line is shown once: what the tasks return is not shown again.
    assert play("logs", {"session_name": "chat"}, "-vv").output.count("order 3") == 1


def test_what_is_shown_is_narrowed_on_the_hosts(chat: dict[str, Replica], tmp_path: Path) -> None:
    for number in range(5):
        say(chat["sub1"], f"echo grain {number}")
    say(chat["sub2"], "echo chaff")
    assert lines(logs(grep=r"^grain [0-3]$", tail=2)) == [("sub1", "|", "grain 2"), ("sub1", "|", "grain 3")]
    assert {one[0] for one in lines(logs(replicas="main1,sub2"))} == {"main1", "sub2"}
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
    again = play(
        "logs",
        {"session_name": "chat", "logs_since": stamp, "logs_directory": str(tmp_path / "other")},
        "--check",
    )
    assert ("main1", "|", "after") in lines(again)
    assert not (tmp_path / "other").exists()


def test_what_cannot_be_used_is_refused_before_any_host_is_touched() -> None:
    run = logs(grep="a(b", since="yesterday", replicas="Main")
    assert run.code != 0
    for name in ("logs_grep is 'a(b'", "logs_since is 'yesterday'", "logs_replicas is 'Main'"):
        assert name in run.failures
    assert set(run.recap) == {"localhost"}
    run = play("logs", {"session_name": "nobody"})
    assert run.code != 0
    assert "session_name is 'nobody': The resource group cluster_compute_hosts has no such session" in run.failures


def test_a_line_is_shown_as_it_is_written(chat: dict[str, Replica], tmp_path: Path) -> None:
    variables = tmp_path / "variables.json"
    asked = {"session_name": "chat", "logs_tail": 1, "logs_grep": "begin|late", "logs_follow_seconds": 60}
    variables.write_text(json.dumps(asked), encoding="utf-8")
    with subprocess.Popen(
        command("logs", variables),
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as started:
        guard = threading.Timer(100, started.kill)
        guard.start()
        shown = []
        assert started.stdout is not None
        for line in started.stdout:
            shown.append(line.strip())
            if shown[-1] == "sub2  | begin 2":
                # Only now is it written, so it can only be shown while the playbook still follows.
                say(chat["sub2"], "echo late")
            if shown[-1] == "sub2  | late":
                break
        guard.cancel()
        started.terminate()
        assert shown[-1] == "sub2  | late", "\n".join(shown)


def test_a_follow_ends_with_its_time(chat: dict[str, Replica]) -> None:
    run = logs(follow_seconds=1, grep="begin")
    assert sorted(lines(run)) == [("main1", "|", "begin 0"), ("sub1", "|", "begin 1"), ("sub2", "|", "begin 2")]


def test_a_host_that_is_away_is_named_and_the_others_are_read(chat: dict[str, Replica]) -> None:
    run = play("logs", {"session_name": "chat", "session_resource_group": "leaky_pool", "logs_grep": "begin"})
    there = {name for name, one in chat.items() if one.host in ("n1", "n2")}
    assert {one[0] for one in lines(run)} == there
    assert "gone: What its replicas wrote is missing. It could not be reached." in notes(run)


def test_whatever_a_program_writes_is_shown_and_bounded(chat: dict[str, Replica]) -> None:
    main = chat["main1"]
    say(main, r"printf 'odd \377\000\033[31m\033]0;x\007 end\n'")
    say(main, "(printf long; head -c 200000 /dev/zero | tr '\\0' x; echo)")
    found = {text for _name, _mark, text in lines(logs(grep="^(odd|long)"))}
    # Docker Engine itself puts U+FFFD in the place of what is no UTF-8.
    assert "odd \ufffd\\x00\\x1b]0;x\\x07 end" in found
    (long,) = [text for text in found if text.startswith("long")]
    assert long == f"{'long' + 'x' * (64 * 1024 - 4)} ... (cut, {200004 - 64 * 1024} more bytes)"
    # Fifty megabytes, of which the newest come.
    say(main, "(head -c 50000000 /dev/zero | tr '\\0' x | fold -w 999; echo; echo last)")
    run = logs(size="64k", replicas="main1")
    found_lines = lines(run)
    assert found_lines[-1] == ("main1", "|", "last")
    assert 60_000 < sum(len(text) + 1 for _name, _mark, text in found_lines) <= 64 * 1024
    assert re.search(r"main1: \d{5} older lines are left out; logs_size allows 65536 bytes", notes(run))


def test_output_stays_when_the_replicas_are_gone(chat: dict[str, Replica]) -> None:
    host = chat["sub1"].host
    on(host, "docker", "rm", "-f", chat["sub1"].container)
    run = logs(grep="begin|last")
    assert {one[0] for one in lines(run)} == {"main1", "sub2"}
    assert f"Replica sub1 on {host} has no container. Whatever it wrote went with the container." in notes(run)
    session_id = record("chat")["id"]
    say(chat["sub2"], "echo farewell")
    teardown("chat").ok()
    run = logs(grep="begin|farewell|last")
    assert [one[2] for one in lines(run)][-2:] == ["last", "farewell"]
    assert f"Session chat ({session_id}) ended at" in notes(run)
    assert "Replica sub2 was removed; it had ended with exit code 143." in notes(run)
    kept_of_main1 = f"stat -c %s {STATE}/output/{session_id}/main1@* || true"
    sizes = [int(size) for host in HOSTS for size in script(host, kept_of_main1).split()]
    assert len(sizes) == 1
    assert 8 * 1024**2 < sizes[0] < 20 * 1024**2
    # It goes when its time is over, or at once where a site keeps nothing.
    play("gc", {"cluster_compute_output_days": 0}, "--check").ok()
    assert lines(logs(grep="farewell")) == [("sub2", "|", "farewell")]
    play("gc", {"cluster_compute_output_days": 0}).ok()
    assert in_parallel(kept, HOSTS) == ["", "", ""]
    assert "keeps nothing of one that has ended" in logs().failures
    launch({**SESSION, "session_name": "mute", "session_size": 1}).ok()
    teardown("mute", "-e", "cluster_compute_output_size=0").ok()
    assert in_parallel(kept, HOSTS) == ["", "", ""]

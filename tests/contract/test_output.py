# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the replicas of one host write: read, narrowed, read on, bounded, and there when the replicas are gone."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.output import OutputDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import SessionError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import output
from ansible_collections.cluster_compute.session.tests.support.contract.on_host import Host, Session, output_of, until

BEGINS = ["/bin/sh", "-c", "echo begin $RANK; echo wrong $RANK >&2; exec sleep 8888"]


@pytest.fixture(scope="module")
def chat(shared_host: Host) -> Session:
    """Launch two replicas that say something when they begin."""
    return shared_host.launch(name="chat", size=2, command=BEGINS)


@pytest.fixture
def brief(host: Host) -> Session:
    """Launch two replicas that one test removes."""
    return host.launch(name="brief", size=2, command=BEGINS)


def say(session: Session, replica: str, text: str, stream: int = 1) -> None:
    """Have a replica's first process write a line."""
    session.run_in(replica, "sh", "-c", f"{text} >/proc/1/fd/{stream}")


def read(session: Session, **question: Any) -> dict[str, Any]:
    """Return what the call that reads output returned."""
    return session.call("session_output", session_id=session.id, **question)


def lines(answer: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return who wrote what, in the order of its time: replica, stream, text."""
    found = [(line, source["replica"]) for source in answer["sources"] for line in source["lines"]]
    return [(replica, line[1], line[2]) for line, replica in sorted(found)]


def test_lines_come_with_stream_and_time(chat: Session) -> None:
    writers = ["sub1", "main1", "sub1", "sub1", "main1"]
    for number, name in enumerate(writers):
        say(chat, name, f"echo order {number}", 1 + number % 2)
    found = lines(answer := read(chat))
    assert [line for line in found if line[2].startswith("order")] == [
        (name, ("out", "err")[number % 2], f"order {number}") for number, name in enumerate(writers)
    ]
    for rank, name in enumerate(("main1", "sub1")):
        assert {(name, "out", f"begin {rank}"), (name, "err", f"wrong {rank}")} <= set(found)
    assert (answer["running"], answer["jobs"], answer["changed"]) == (2, [], False)


def test_what_is_read_is_narrowed(chat: Session) -> None:
    for number in range(5):
        say(chat, "sub1", f"echo grain {number}")
    assert lines(read(chat, grep=r"^grain [0-3]$", tail=2)) == [("sub1", "out", "grain 2"), ("sub1", "out", "grain 3")]
    assert {line[0] for line in lines(read(chat, replicas=["main1"]))} == {"main1"}
    stamp = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
    say(chat, "main1", "echo after")
    assert lines(read(chat, since={"time": stamp})) == [("main1", "out", "after")]
    assert {line[2] for line in lines(read(chat, since={"seconds": 3600}, grep="^begin"))} == {"begin 0", "begin 1"}


def test_each_line_is_read_once_and_as_soon_as_it_is_written(chat: Session) -> None:
    first = read(chat, tail=1, grep="begin|late")
    assert {line[2] for line in lines(first)} == {"begin 0", "begin 1"}
    nothing = read(chat, grep="begin|late", positions=first["positions"], wait=0.3)
    assert lines(nothing) == []
    say(chat, "sub1", "echo late")
    later = read(chat, grep="begin|late", positions=nothing["positions"], wait=10)
    assert lines(later) == [("sub1", "out", "late")]
    assert lines(read(chat, grep="late", positions=later["positions"])) == []


def test_more_than_an_engine_is_asked_for_first_is_read_on_to_the_end(
    chat: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "FEW", 10)
    first = read(chat)
    say(chat, "main1", "seq 100")
    assert [n[2] for n in lines(read(chat, positions=first["positions"]))] == [str(n) for n in range(1, 101)]


def test_whatever_a_program_writes_is_read_and_bounded(chat: Session) -> None:
    say(chat, "main1", r"printf 'odd \377\000\033[31m\033]0;x\007 end\n'")
    say(chat, "main1", "(printf long; head -c 200000 /dev/zero | tr '\\0' x; echo)")
    found = {text for _name, _stream, text in lines(read(chat, grep="^(odd|long)"))}
    # Docker Engine itself puts U+FFFD in the place of what is no UTF-8.
    assert "odd \ufffd\\x00\\x1b[31m\\x1b]0;x\\x07 end" in found or "odd \ufffd\0\x1b[31m\x1b]0;x\x07 end" in found
    (long,) = [text for text in found if text.startswith("long")]
    assert long == f"{'long' + 'x' * (64 * 1024 - 4)} ... (cut, {200004 - 64 * 1024} more bytes)"
    say(chat, "main1", "(head -c 5000000 /dev/zero | tr '\\0' x | fold -w 999; echo; echo last)")
    (source,) = read(chat, size=64 * 1024, replicas=["main1"])["sources"]
    assert source["lines"][-1][2] == "last"
    assert 60_000 < sum(len(text) + 1 for _time, _stream, text in source["lines"]) <= 64 * 1024
    assert source["left_out"] > 4000


def test_output_is_kept_for_long_enough_when_the_replicas_are_removed(brief: Session) -> None:
    first = read(brief)
    say(brief, "sub1", "echo farewell")
    brief.remove()
    assert lines(read(brief, positions=first["positions"])) == [("sub1", "out", "farewell")], "of what is kept"
    assert sorted(line for line in lines(read(brief)) if line[0] == "sub1") == [
        ("sub1", "err", "wrong 1"),
        ("sub1", "out", "begin 1"),
        ("sub1", "out", "farewell"),
    ]
    (known,) = brief.call("session_output", state="known", session_name="brief")["sessions"]
    assert known["ended"]
    assert known["replicas"]["sub1"]["exit_code"] == 143
    assert known["replicas"]["sub1"]["oom_killed"] is False
    folder = OutputDirectory(str(brief.owner.state.root)).session(brief.id).path
    assert brief.call("session_output", state="pruned")["removed"] == []
    assert brief.call("session_output", True, state="pruned", days=0)["removed"] == [brief.id]
    assert folder.exists()
    done = brief.call("session_output", state="pruned", days=0)
    assert done == {"changed": True, "removed": [brief.id], "leftovers": []}
    assert not folder.exists()


def test_what_was_removed_by_others_is_not_kept(brief: Session) -> None:
    output_of("docker", "rm", "-f", "brief-sub1")
    assert {line[0] for line in lines(read(brief))} == {"main1"}
    brief.remove()
    assert {line[0] for line in lines(read(brief))} == {"main1"}


def test_no_more_is_kept_than_a_site_allows(host: Host, brief: Session) -> None:
    say(brief, "main1", "(head -c 3000000 /dev/zero | tr '\\0' x | fold -w 999; echo; echo last)")
    brief.remove(output_size="1m")
    assert lines(read(brief, replicas=["main1"], tail=1)) == [("main1", "out", "last")]
    folder = OutputDirectory(str(brief.owner.state.root)).session(brief.id).path
    assert 500_000 < sum(path.stat().st_size for path in folder.glob("main1@*")) < 1_300_000
    mute = host.launch(name="mute", size=1, command=BEGINS)
    mute.remove(output_size="0")
    assert not OutputDirectory(str(brief.owner.state.root)).session(mute.id).path.exists()
    undone = host.launch(name="undone", size=1, command=BEGINS)
    undone.remove(undo=True)
    assert not OutputDirectory(str(brief.owner.state.root)).session(undone.id).path.exists()
    with pytest.raises(SessionError, match="much"):
        brief.remove(output_size="much")


def test_output_of_a_session_that_runs_is_not_pruned(host: Host) -> None:
    session = host.launch(size=1)
    session.call(
        "session_job",
        state="started",
        session_id=session.id,
        job="0123456789ab",
        on={"main1": "here"},
        host="here",
        command=["true"],
    )
    assert until(lambda: not read(session, job="0123456789ab")["running"])
    assert session.call("session_output", state="pruned", days=0, sessions=0)["removed"] == []


def test_output_that_cannot_be_kept_keeps_nothing_from_being_removed(host: Host) -> None:
    session = host.launch(size=1)
    (host.state.root / "output").write_text("in the way", encoding="utf-8")
    answer = session.remove()
    assert any("could not be kept" in warning for warning in answer["warnings"])
    assert session.containers() == {}

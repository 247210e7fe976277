# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What programs of a replica write over the session's names is put back: by a launch, by the timer, by a repair."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import Engine
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.names import MOST_TIMES
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import names, timer
from ansible_collections.cluster_compute.session.tests.support.contract.on_host import Host, Session, output_of, until

WRITES = """
echo "127.0.0.1 $(hostname) main1 sub1" >>/etc/hosts
echo "192.0.2.1 licences" >>/etc/hosts
echo elsewhere >/etc/hostname
touch /tmp/written
exec sleep 8888
"""
"""What an entrypoint does that wants its own host's name to be found."""


def addresses(session: Session, replica: str, name: str) -> list[str]:
    """Return what a replica's /etc/hosts has for a name."""
    lines = session.run_in(replica, "cat", "/etc/hosts").splitlines()
    return [words[0] for words in map(str.split, lines) if name in words[1:]]


def is_as_given(session: Session) -> bool:
    """Tell whether both replicas have the session's names, and no others for them."""
    own = {replica["name"]: [replica["address"]] for replica in session.plan["replicas"]}
    for replica in own:
        if session.run_in(replica, "cat", "/etc/hostname") != f"{replica}\n":
            return False
        if {name: addresses(session, replica, name) for name in own} != own:
            return False
    return True


def write_over(session: Session, *replicas: str) -> None:
    for replica in replicas:
        session.run_in(replica, "sh", "-c", WRITES.replace("exec sleep 8888", ""))


def test_a_launch_puts_back_what_an_entrypoint_writes_and_says_so(host: Host) -> None:
    session = host.held(size=2, command=["sh", "-c", WRITES])
    warnings = session.bring("started").get("warnings", [])
    for replica in session.containers():
        session.run_in(replica, "sh", "-c", "until [ -e /tmp/written ]; do sleep 0.05; done")
    warnings += session.bring("verified").get("warnings", [])
    assert is_as_given(session)
    assert addresses(session, "main1", "licences") == ["192.0.2.1"]
    for replica in ("main1", "sub1"):
        (said,) = [warning for warning in warnings if warning.startswith(f"A program of {replica} has changed")]
        assert "/etc/hosts and /etc/hostname" in said
        assert "'127.0.0.1 main1'" in said
    assert session.run_in("main1", "ssh", "sub1", "hostname").strip() == "sub1"
    assert "warnings" not in session.bring("verified")


def test_the_timer_puts_back_what_is_written_later_and_lets_alone_who_goes_on_with_it(
    host: Host, engine: Engine, state: StateDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    session = host.launch(size=2)
    assert names.keep_names(engine, state) == ([], [])
    write_over(session, "main1", "sub1")
    assert timer.look(state) == 0
    assert capsys.readouterr().out.count("session demo: A program of ") == 2
    assert is_as_given(session)
    for _again in range(MOST_TIMES - 1):
        write_over(session, "main1")
        (done,), problems = names.keep_names(engine, state)
        assert done.startswith("session demo: A program of main1 has changed")
        assert problems == []
    write_over(session, "main1")
    assert names.keep_names(engine, state) == ([], [])
    assert "127.0.0.1" in addresses(session, "main1", "sub1")
    told = {found["replica"]: found["corrections"] for found in host.call("host_info")["host"]["containers"]}
    started = {
        name: output_of("docker", "inspect", "-f", "{{.State.StartedAt}}", f"demo-{name}").strip() for name in told
    }
    assert told == {
        "main1": {"since": started["main1"], "count": MOST_TIMES},
        "sub1": {"since": started["sub1"], "count": 1},
    }
    write_over(session, "sub1")
    assert len(names.keep_names(engine, state)[0]) == 1
    output_of("docker", "restart", "--time", "0", "demo-main1")
    assert len(names.keep_names(engine, state)[0]) == 1
    assert is_as_given(session)


def test_who_works_on_a_session_is_not_disturbed(host: Host, engine: Engine, state: StateDirectory) -> None:
    session = host.launch(size=2)
    write_over(session, "main1")
    with state.working_on(session.id):
        assert names.keep_names(engine, state) == ([], [])
    assert not is_as_given(session)
    assert [action.split("/")[-1] for action in session.repair()["actions"]] == ["main1.hosts"]
    assert addresses(session, "main1", "main1") != []
    assert addresses(session, "main1", "licences") == ["192.0.2.1"]
    assert len(names.keep_names(engine, state)[0]) == 1  # /etc/hostname
    assert is_as_given(session)


def test_no_more_is_read_than_the_file_should_hold(host: Host, engine: Engine, state: StateDirectory) -> None:
    session = host.launch(size=2)
    for replica, content in (  # two each, of whom the timer puts back MOST_TIMES
        ("main1", "truncate -s 100G /etc/hosts"),
        ("sub1", r"printf '\0' >>/etc/hosts"),
        ("main1", r"printf '\377' >>/etc/hosts"),
        ("sub1", ": >/etc/hosts"),
    ):
        file: Path = session.files.hosts_file(replica)
        before = file.read_text()
        session.run_in(replica, "sh", "-c", content)
        assert until(lambda: len(names.keep_names(engine, state)[0]) == 1), content
        assert file.read_text() == before
        assert file.stat().st_size == len(before)

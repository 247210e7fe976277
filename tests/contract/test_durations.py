# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sessions that may run, or be idle, for so long only: their host warns and ends them, and gives back their places."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.output import OutputDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    RUNNING,
    TERMINATED,
    advance,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import SessionError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import durations
from ansible_collections.cluster_compute.session.tests.support.contract.on_host import (
    HERE,
    Host,
    Session,
    output_of,
    until,
)

Look = Callable[..., list[str]]
WORK = "worked=0; while [ $worked -lt 100 ]; do i=0; while [ $i -lt 9999 ]; do i=$((i + 1)); done; "
WORK += "set -- $(cat /proc/$$/stat); worked=${14}; done"
"""Takes a second of a CPU, counted in hundredths (proc_pid_stat(5))."""
HANDLES = "trap 'echo warned >/tmp/warned' USR1; echo begun; while :; do sleep 0.1; done"


def clock(later: float) -> Callable[[], float]:
    """Return a clock that is so many seconds late."""
    return lambda: durations.boot_clock() + later


@pytest.fixture
def look(host: Host) -> Look:
    """Return what looks once at the time of sessions, so many seconds later, and returns what was done."""

    def look_once(later: float = 0, check_mode: bool = False) -> list[str]:
        done, *others = durations.keep_time(host.engine, host.state, check_mode, clock(later))
        assert others == [[], []]
        return done

    return look_once


def times(host: Host, session: Session, **more: Any) -> dict[str, object]:
    return dict(host.call("host_info", **more)["host"]["times"][session.id])


def was_warned(session: Session, replica: str) -> bool:
    """Tell whether the handler of a replica has run."""
    return "warned" in session.run_in(replica, "ls", "/tmp").split()


def assert_ended(host: Host, session: Session, why: str) -> None:
    """Assert that nothing of a session is here but the line of its record, and what it wrote."""
    record = session.files.read_record()
    assert record is not None
    assert (record.status, record.report, record.request) == (TERMINATED, (why,), None)
    assert record.revision == session.record.revision + 1
    assert session.containers() == {}
    assert host.ledger.read() == {}
    assert [path.name for path in session.files.path.iterdir()] == ["record.json"]
    facts = host.call("host_info")["host"]
    assert facts["times"] == {}
    assert facts["objects"] == {}


def test_one_that_has_run_for_its_time_is_warned_and_then_ended(host: Host, look: Look) -> None:
    session = host.launch(size=2, max_duration="1h", end_warning="5m", command=["sh", "-c", HANDLES])
    output_of("docker", "exec", "--detach", "demo-sub1", "sleep", "7777")
    assert look() == []
    assert look(3000) == []
    assert look(3300, check_mode=True)[0].startswith("warn session demo")
    (warning,) = look(3300)
    assert warning.startswith("warn session demo, which ends in 300 s: its session_max_duration is 1h")
    for replica in ("main1", "sub1"):
        assert until(partial(was_warned, session, replica))
        warned = json.loads(session.run_in(replica, "cat", "/etc/cluster-compute/end_warning.json"))
        assert warned == {"reason": "Its session_max_duration is 1h.", "seconds_left": warned["seconds_left"]}
        assert 295 <= warned["seconds_left"] <= 300
    assert "7777" in output_of("docker", "top", "demo-sub1"), "without a handler the signal would have ended it"
    assert session.repair()["actions"] == []
    assert look(3590) == []
    assert (times(host, session)["over"], times(host, session)["ran"]) == ("", None)
    why = "Its session_max_duration of 1h is over."
    assert look(3610) == [f"end session demo: {why}"]
    assert_ended(host, session, why)
    lines = OutputDirectory(str(host.state.root)).session(session.id)
    assert [path.name.split("@")[0] for path in sorted(lines.path.glob("*@*"))] == ["main1", "sub1"]
    assert look(3700) == []


def test_one_that_nobody_uses_is_ended_and_a_job_a_login_or_work_is_use(host: Host, look: Look) -> None:
    session = host.launch(size=2, max_idle="10m", cpus="0.9")
    begun = time.monotonic()
    look()
    assert session.files.read_times()["idle"] == 0.0
    look(300)
    idle = int(str(times(host, session, usage=True)["idle"]))
    assert 299 <= idle <= 301 + time.monotonic() - begun, "of the last look"
    output_of("docker", "exec", "--detach", "demo-main1", "ssh", "sub1", "sleep", "30")
    assert until(lambda: "sleep 30" in output_of("docker", "top", "demo-sub1"))
    assert look(600) == []
    assert session.files.read_times()["idle"] == 0.0
    top = output_of("docker", "top", "demo-sub1", "-o", "pid,args")
    os.kill(int(next(line.split()[0] for line in top.splitlines() if line.endswith("sleep 30"))), signal.SIGTERM)
    assert until(lambda: "sshd: root" not in output_of("docker", "top", "demo-sub1", "-o", "pid,args"))
    given: dict[str, Any] = {"on": {"main1": HERE}, "host": HERE, "command": ["sleep", "8888"], "job": "0123456789ab"}
    host.call("session_job", state="started", session_id=session.id, **given)
    assert look(1300) == look(2000) == []
    host.call("session_job", state="stopped", session_id=session.id, job="0123456789ab")
    begun = time.monotonic()
    session.run_in("main1", "sh", "-c", WORK)
    worked = 2012 - (time.monotonic() - begun)  # however long a busy machine takes for it
    assert look(worked) == []
    assert session.files.read_times()["idle"] == 0.0
    look(worked + 300)
    why = "Nobody has used it for 10m, its session_max_idle."
    assert look(worked + 610, check_mode=True) == [f"end session demo: {why}"]
    assert session.containers()
    assert look(worked + 610) == [f"end session demo: {why}"]
    assert_ended(host, session, why)


def test_a_host_does_not_speak_for_the_others_of_a_session_that_nobody_uses(host: Host, look: Look) -> None:
    session = host.launch(size=2, others=1, max_replicas_per_host=1, max_idle="10m", max_duration="1d")
    look()
    look(300)
    assert look(610) == []
    assert session.containers()
    facts = host.call("host_info")["host"]
    assert facts["times"][session.id]["is_idle"]
    (record,) = facts["records"]
    assert record["request"] is not None, "the controller judges by it"
    assert look(86500) == ["end session demo: Its session_max_duration of 1d is over."]


def test_what_was_not_ended_to_the_end_is_ended_by_the_next_look(
    host: Host, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = host.launch(max_duration="1h")
    look()

    def fail(_state: object, _record: object) -> None:
        raise SessionError("The power is gone.")

    with monkeypatch.context() as patch:
        patch.setattr(durations, "_remove", fail)
        done, problems, _warnings = durations.keep_time(host.engine, host.state, False, clock(3600))
        assert (done, len(problems)) == ([], 1)
    assert session.containers()
    assert host.call("session_repair", host=HERE)["actions"] == ["remove what is left of session demo, which has ended"]
    assert_ended(host, session, "Its session_max_duration of 1h is over.")


def test_one_that_is_being_launched_is_left_alone(host: Host, look: Look) -> None:
    session = host.launch(max_duration="1h")
    look()
    with host.state.working_on(session.id):
        durations.PATIENT, patience = 0.1, durations.PATIENT
        try:
            done, problems, _warnings = durations.keep_time(host.engine, host.state, False, clock(3600))
        finally:
            durations.PATIENT = patience
    assert done == []
    assert "Another program has been working on session" in problems[0]
    assert session.containers()


def test_a_warning_is_taken_back_where_the_limit_is_lifted(host: Host, look: Look) -> None:
    session = host.launch(max_duration="1h", end_warning="5m")
    look()
    assert look(3300)
    path = session.files.replica("main1") / durations.WARNING
    assert path.exists()
    limits = ("max_duration", "end_warning")
    request = {key: value for key, value in session.record.request.items() if key not in limits}
    session.files.write_record(advance(session.record, RUNNING, "It may run on.", request=request))
    assert look(4000) == ["take back the warning of session demo"]
    assert not path.exists()
    assert look(4030) == []
    assert session.containers()

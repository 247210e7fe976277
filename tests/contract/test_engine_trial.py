# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whose fault it is that a replica does not start: the session's, or the host's, which the host finds out by a try."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import link
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import RUNTIME, Engine
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.suspicion import SuspicionFile
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.output import batch_job
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import SessionError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import engine_trial
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.default_runtime import SCRIPT
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.engine_settings import FILE
from ansible_collections.cluster_compute.session.tests.support.contract.job import Job
from ansible_collections.cluster_compute.session.tests.support.contract.modules import run
from ansible_collections.cluster_compute.session.tests.support.contract.on_host import (
    Host,
    has_ended,
    output_of,
    things,
    until,
)

pytestmark = pytest.mark.every_engine


@contextmanager
def full_tmp(host: Host) -> Iterator[None]:
    """Leave no room in this host's /tmp, where an engine writes what it hands to a program that it starts."""
    aside = Path("/var/cluster-compute-tmp")
    kept = host.folder.relative_to("/tmp")
    aside.mkdir()
    try:
        output_of("mount", "--bind", "/tmp", str(aside))
        output_of("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", "/tmp")
        Path("/tmp", kept).mkdir(parents=True)
        output_of("mount", "--bind", str(aside / kept), str(host.folder))
        subprocess.run(["dd", "if=/dev/zero", "of=/tmp/full", "bs=4k"], capture_output=True, check=False)
        yield
    finally:
        for place in (host.folder, Path("/tmp"), aside):
            subprocess.run(["umount", str(place)], capture_output=True, check=False)
        aside.rmdir()


@contextmanager
def without_the_runtime(_host: Host) -> Iterator[None]:
    """Take away the program of the runtime by which replicas start; the engine's entry for it stays."""
    aside = SCRIPT.with_name("runtime-aside")
    SCRIPT.rename(aside)
    try:
        yield
    finally:
        aside.rename(SCRIPT)


def failure(host: Host, **request: Any) -> dict[str, Any]:
    """Return what the host answers where a session does not start; nothing of it stays."""
    session = host.held(size=2, **request)
    with pytest.raises(SessionError) as found:
        session.bring("started")
    session.remove(undo=True)
    return dict(found.value.args[1], msg=str(found.value.args[0]))


def preflight(host: Host) -> dict[str, Any]:
    """Return what this host says of itself in a preflight."""
    return dict(host.call("host_preflight", state="examined", token="0" * 64, roots=["/srv"])["observed"])


@pytest.mark.parametrize("command", [["no-such-program"], ["false"]])
def test_what_a_session_does_wrong_is_not_the_hosts_fault(host: Host, engine: Engine, command: list[str]) -> None:
    before = things(engine), engine.image_names()
    answer = failure(host, command=command)
    assert "sick" not in answer, answer
    assert SuspicionFile(str(host.state.root)).read() is None
    assert (things(engine), engine.image_names()) == before, "nothing of the trial stays"


def test_a_limit_above_the_engine_s_own_is_given_or_refused_with_its_reason(host: Host, engine: Engine) -> None:
    status = Path(f"/proc/{engine.process()}/status").read_text(encoding="ascii")
    (rights,) = (int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:"))
    if rights >> 24 & 1:  # CAP_SYS_RESOURCE (linux/capability.h)
        session = host.launch(size=1, memlock="unlimited")
        assert session.run_in("main1", "sh", "-c", "ulimit -l").strip() == "unlimited"
    else:
        answer = failure(host, memlock="unlimited")
        for text in ("The engine of here cannot give demo-", " the session_memlock unlimited", "CAP_SYS_RESOURCE"):
            assert text in answer["msg"], answer


@pytest.mark.parametrize("broken", [full_tmp, without_the_runtime])
def test_what_no_replica_would_survive_is_the_hosts_fault(host: Host, engine: Engine, broken: Any) -> None:
    assert RUNTIME in engine.info().runtimes
    before = engine.image_names()
    with broken(host):
        answer = failure(host)
        assert answer.get("sick") is True, answer
        assert "The host is at fault" in answer["msg"]
        suspicion = SuspicionFile(str(host.state.root)).read()
        assert suspicion is not None
        assert answer["msg"].startswith(suspicion.reason)
        assert preflight(host)["packages"]["trial"] != ""
    assert engine.image_names() == before
    assert preflight(host)["packages"]["trial"] == ""
    host.launch(size=2)
    assert SuspicionFile(str(host.state.root)).read() is None, "it was trusted again"


@pytest.mark.parametrize("broken", [full_tmp, without_the_runtime])
def test_a_batch_command_that_its_host_cannot_start_begins_anew_elsewhere(host: Host, broken: Any) -> None:
    session = host.launch(size=2)
    with broken(host):
        outcome = Job(session, batch_job(session.id)).start("echo trained", once=True).end(120)["main1"]
        assert outcome["requeue"] is True, outcome
        assert outcome["problem"].startswith("The host is at fault, as nothing like a replica works there: ")
        suspicion = SuspicionFile(str(host.state.root)).read()
        assert suspicion is not None
        assert outcome["problem"].startswith(suspicion.reason)


@pytest.mark.parametrize("command", [["/no/such/program"], ["/etc/passwd"], ["sh", "-c", "exit 126"]])
def test_a_batch_command_that_fails_by_itself_has_ended(host: Host, engine: Engine, command: list[str]) -> None:
    session = host.launch(size=1)
    outcome = Job(session, batch_job(session.id)).start(command, once=True).end(120)["main1"]
    assert (outcome["requeue"], outcome["problem"]) == (False, "")
    assert outcome["exit_code"] in (126, 127)
    assert SuspicionFile(str(host.state.root)).read() is None


def test_links_that_a_host_cannot_make_are_not_why_a_batch_command_does_not_start(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise link.LinkError("ip: Operation not supported")

    session = host.launch(size=1)
    monkeypatch.setattr(link, "try_kinds", fail)
    assert engine_trial.problem() != ""
    outcome = Job(session, batch_job(session.id)).start(["/no/such/program"], once=True).end(120)["main1"]
    assert (outcome["requeue"], outcome["problem"]) == (False, "")
    assert outcome["exit_code"] in (126, 127)
    assert SuspicionFile(str(host.state.root)).read() is None


@pytest.mark.parametrize("moment", ["create_alone", "start_container", "execute"])
def test_what_a_killed_trial_leaves_ends_by_itself_and_gc_removes_the_rest(
    host: Host, engine: Engine, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    def containers() -> str:
        return output_of("docker", "ps", "-aq", "--filter", f"name={engine_trial.PREFIX}")

    before = engine.image_names()
    child = os.fork()
    if not child:
        try:
            original = getattr(Engine, moment)

            def die(*given: Any, **named: Any) -> None:
                if moment != "execute":
                    original(*given, **named)
                os.kill(os.getpid(), signal.SIGKILL)

            monkeypatch.setattr(Engine, moment, die)
            engine_trial.problem()
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    if moment != "create_alone":
        assert until(lambda: not containers()), "it ended with who tried"
    assert engine.image_names() != before
    pruned = {"state": "pruned", "days": 1, "sessions": 1, "state_directory": str(host.state.root)}
    assert run("session_output", pruned, True)["leftovers"]
    assert engine.image_names() != before, "check mode removes nothing"
    left = run("session_output", pruned, False)
    assert left["changed"]
    assert (containers(), engine.image_names()) == ("", before)
    assert (run("session_output", pruned, False)["leftovers"], left["removed"]) == ([], [])


def test_gc_leaves_a_trial_alone_that_is_at_work(host: Host, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[list[str]] = []
    execute = Engine.execute

    def prune(*given: Any, **named: Any) -> Any:
        found.append(engine_trial.remove_left(engine, False))
        return execute(*given, **named)

    monkeypatch.setattr(Engine, "execute", prune)
    assert engine_trial.problem() == ""
    assert found == [[]]


def test_what_a_trial_left_that_was_ended_goes_with_the_next(host: Host, engine: Engine) -> None:
    before = engine.image_names()
    engine.import_nothing(engine_trial.REPOSITORY, "left")
    body = engine_trial._body(engine, f"{engine_trial.REPOSITORY}:left")
    engine.start_container(engine.create_alone(f"{engine_trial.PREFIX}left", body))
    assert engine_trial.host_fault(SessionError("It did not start.")) is None
    assert engine.image_names() == before
    assert output_of("docker", "ps", "-aq", "--filter", f"name={engine_trial.PREFIX}") == ""


# ---- the runtime by which replicas start ----------------------------------------------------------------------------


def test_a_host_whose_default_runtime_has_changed_gets_no_session_before_it_is_prepared_again(host: Host) -> None:
    text = SCRIPT.read_text(encoding="utf-8")
    assert host.call("host_info")["host"]["engine"]["stale_runtime"] == ""
    SCRIPT.write_text(text.replace('runc "$@"', 'kata-runtime "$@"'), encoding="utf-8")
    try:
        stale = host.call("host_info")["host"]["engine"]["stale_runtime"]
        assert stale.startswith("Its engine's default runtime is runc (runc), and replicas would start by ")
        with pytest.raises(SessionError, match="prepare_hosts playbook"):
            host.plan(size=2)
        assert host.plan(size=1).plan["network"] is None, "one alone does not start by it"
        run("host_runtime", {"state": "present"}, False)
        assert SCRIPT.read_text(encoding="utf-8") == text
    finally:
        SCRIPT.write_text(text, encoding="utf-8")
    host.launch(size=2)


def test_what_the_engine_cannot_start_for_want_of_its_entry_is_said_with_what_to_do(host: Host) -> None:
    session = host.launch(size=2)
    settings = FILE.read_text(encoding="utf-8")
    others = {key: value for key, value in json.loads(settings).items() if key != "runtimes"}
    try:
        FILE.write_text(json.dumps({**others, "runtimes": {}}), encoding="utf-8")
        output_of("pkill", "-HUP", "-x", "dockerd")
        assert until(lambda: RUNTIME not in Engine.connect().info().runtimes)
        output_of("docker", "stop", "--time", "0", "demo-main1")
        assert until(lambda: has_ended("demo-main1"))
        with pytest.raises(
            SessionError, match="Run the prepare_hosts playbook for this host, then the repair"
        ) as found:
            session.repair()
        assert f"has no runtime entry {RUNTIME} any more" in str(found.value)
        assert "demo-main1, demo-sub1" in preflight(host)["packages"]["runtime_lost"]
    finally:
        FILE.write_text(settings, encoding="utf-8")
        output_of("pkill", "-HUP", "-x", "dockerd")
        assert until(lambda: RUNTIME in Engine.connect().info().runtimes)
    assert session.repair()["actions"]
    assert preflight(host)["packages"]["runtime_lost"] == ""

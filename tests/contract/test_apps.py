# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Apps in main1: one is opened once, its token is nowhere but in two files, and nothing of it stays."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.output import OutputDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.apps import parse_app_request
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import SessionError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import jobs
from ansible_collections.cluster_compute.session.tests.support.contract.on_host import (
    HERE,
    Host,
    Session,
    output_of,
    until,
)

SERVE = "exec httpd -f -p 127.0.0.1:{port} -h /etc/cluster-compute/apps"
SAYS = f'test -r "$FILE" && echo "by $(id -u): $(cat "$FILE") $SECRET"; {SERVE}'
WITH_TOKEN = {"environment": {"FILE": "{token_file}", "SECRET": "={token}="}, "url": "/?key={token}"}
TABLE = {
    "page": {"command": ["sh", "-c", SAYS], **WITH_TOKEN},
    "other": [{"command": ["no-such", "{port}"], **WITH_TOKEN}, {"command": ["sh", "-c", SAYS], **WITH_TOKEN}],
    "missing": {"command": ["no-such", "{port}"], **WITH_TOKEN},
    "broken": {"command": ["sh", "-c", "echo oh $SECRET >&2; exit 5 # {port}"], **WITH_TOKEN},
    "deaf": {"command": ["sh", "-c", "exec sleep 3331 # {port}"], **WITH_TOKEN},
}


@pytest.fixture(scope="module")
def work(shared_host: Host) -> Session:
    """Launch two replicas."""
    return shared_host.launch(name="work", size=2)


def open_app(session: Session, name: str, check_mode: bool = False, **more: Any) -> dict[str, Any]:
    """Open an app of the table as the controller has the host do it."""
    app = parse_app_request({"app": name, "session_apps": TABLE})
    given = {"ways": encode(app.ways), "app": name, "host": HERE, "session_id": session.id, **more}
    return session.call("session_app", check_mode, session_name=session.name, **given)


def close_app(session: Session, name: str = "", check_mode: bool = False, **more: Any) -> dict[str, Any]:
    """Close an app, or all."""
    return session.call("session_app", check_mode, state="closed", session_name=session.name, app=name, **more)


GET = """
import sys, urllib.request
try:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    sys.stdout.write(opener.open(sys.argv[1], timeout=2).read().decode())
except OSError:
    pass
"""


def fetch(session: Session, port: int, replica: str = "main1", address: str = "127.0.0.1") -> str:
    """Return what a client in the network of a replica gets from an app; empty where nobody answers."""
    network = f"--net=/proc/{session.containers()[replica]['State']['Pid']}/ns/net"
    return output_of("nsenter", network, "python3", "-I", "-c", GET, f"http://{address}:{port}/page/url")


def test_an_app_is_opened_once_and_found_again(work: Session) -> None:
    first = open_app(work, "page")
    assert first["changed"] is True
    opened = first["opened"]
    assert fetch(work, opened["port"]) == f"http://127.0.0.1:{opened['port']}/?key={opened['token']}\n"
    again = open_app(work, "page")
    assert again == {"changed": False, "opened": opened}
    other = open_app(work, "other")["opened"]
    assert other["token"] != opened["token"]
    assert other["way"]["command"][0] == "sh"
    assert close_app(work, "page", check_mode=True) == {"changed": True, "closed": ["page"]}
    assert open_app(work, "page")["changed"] is False
    assert close_app(work, "page") == {"changed": True, "closed": ["page"]}
    assert fetch(work, opened["port"]) == ""
    reopened = open_app(work, "page")["opened"]
    assert reopened["token"] != opened["token"]
    assert close_app(work) == {"changed": True, "closed": ["other", "page"]}
    assert close_app(work) == {"changed": False, "closed": []}


def test_nobody_else_reaches_it(work: Session) -> None:
    opened = open_app(work, "page")["opened"]
    address = work.plan["replicas"][0]["address"]
    assert fetch(work, opened["port"])
    assert not fetch(work, opened["port"], "sub1", address)
    assert not fetch(work, opened["port"], "main1", address)
    close_app(work)


def test_its_token_is_in_two_files_and_its_environment_alone(work: Session) -> None:
    opened = open_app(work, "page")["opened"]
    token = opened["token"]
    assert len(token) == 48
    job = OutputDirectory(str(work.owner.state.root)).session(work.id).job(opened["job"])
    assert until(lambda: bool(job.read("main1", None)[0]))
    (line,) = [text for _time, _stream, text in job.read("main1", None)[0]]
    assert line == "by 0: ******** =********="
    holding = {
        str(path.relative_to(work.files.path)): f"{path.stat().st_mode & 0o777:o}"
        for path in work.owner.state.root.rglob("*")
        if path.is_file() and token.encode() in path.read_bytes()
    }
    replica = "replicas/main1/apps/page"
    assert holding == {"apps/page.json": "600", f"{replica}/token": "400", f"{replica}/url": "400"}
    lists = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")]
    assert any(b"httpd" in found for found in lists)
    assert not any(token.encode() in found for found in lists)
    assert token not in output_of("docker", "inspect", "work-main1")
    assert token not in output_of("docker", "logs", "work-main1")
    close_app(work)
    assert not any(token.encode() in path.read_bytes() for path in work.owner.state.root.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", r"no program for the app missing\. Looked for: no-such\. .*session_apps"),
        ("broken", r"broken ended before it listened, with exit code 5\..*main1 \| oh =\*{8}="),
        ("deaf", r"deaf does not listen on 127\.0\.0\.1 after 1 seconds\."),
    ],
)
def test_what_does_not_begin_is_told_and_leaves_nothing(
    work: Session, name: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "GRACE", 1.0)
    with pytest.raises(SessionError, match=message):
        open_app(work, name, seconds=1 if name == "deaf" else 20)
    assert work.files.app_names() == []
    assert not list(work.files.replica("main1").glob("apps/*"))
    assert not subprocess.run(["pgrep", "-f", "^sleep 3331"], capture_output=True, check=False).stdout


def test_check_mode_opens_nothing(work: Session) -> None:
    answer = open_app(work, "page", check_mode=True)
    assert (answer["changed"], answer["opened"]["job"], answer["opened"]["port"]) == (True, "", 0)
    assert work.files.app_names() == []


def test_an_app_that_has_ended_is_started_anew(work: Session) -> None:
    first = open_app(work, "page")["opened"]
    output_of("docker", "exec", "work-main1", "killall", "httpd")
    assert until(lambda: fetch(work, first["port"]) == "")
    job = OutputDirectory(str(work.owner.state.root)).session(work.id).job(first["job"])
    assert until(lambda: not jobs.is_running(job))
    second = open_app(work, "page")
    assert second["changed"] is True
    assert second["opened"]["token"] != first["token"]
    assert fetch(work, second["opened"]["port"])
    close_app(work)


def test_somebody_else_neither_opens_nor_closes_it(work: Session) -> None:
    opened = open_app(work, "page", asker="somebody")["opened"]
    for attempt in (open_app, close_app):
        with pytest.raises(SessionError, match="You are eve"):
            attempt(work, "page", asker="eve")
    assert fetch(work, opened["port"])
    close_app(work, asker="somebody")


def test_an_open_app_is_no_damage_and_goes_with_its_session(host: Host) -> None:
    session = host.launch(name="gone", size=2)
    opened = open_app(session, "page")["opened"]
    assert session.repair()["changed"] is False
    assert json.loads((session.files.apps / "page.json").read_text(encoding="utf-8"))["port"] == opened["port"]
    session.remove()
    assert not session.files.path.exists()
    assert until(lambda: not subprocess.run(["pgrep", "httpd"], capture_output=True, check=False).stdout)

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a host is called: its program started, sent where it is lacking, and all that can go wrong with it told."""

from __future__ import annotations

import base64
import json
import os
import re
import select
import subprocess
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible import constants as C
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible_collections.cluster_compute.session.plugins.action import session_host as action
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.entry_point import (
    ABSENT,
    DAMAGED,
    REFUSED,
    UNKEPT,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.program import MARK

NOT_SHOWN = "_ansible_no_log"
Say = Callable[[str, "bytes | None"], str]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """An action, and what its host was asked; `host.say` is what the host writes for a command and its input."""
    monkeypatch.setattr(C, "DEFAULT_LOCAL_TMP", str(tmp_path))
    monkeypatch.setattr(C, "ANSIBLE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    monkeypatch.setattr(ActionBase, "run", lambda self, _tmp, _task_vars: {})
    module: Any = object.__new__(action.ActionModule)
    module._task = SimpleNamespace(
        action="cluster_compute.session.session_output",
        args={"state": "known", "session_name": "train"},
        check_mode=False,
        delegate_to=None,
    )
    module._load_name = "session_output"
    module._connection = SimpleNamespace(
        become=None,
        has_pipelining=True,
        _shell=SimpleNamespace(tmpdir="/tmp/x", join_path=lambda *parts: "/".join(parts)),
    )
    module._play_context = SimpleNamespace(remote_addr="192.0.2.1", remote_user="root", port=22)
    module._templar = SimpleNamespace(template=lambda value: value)
    calls: list[tuple[str, bytes | None]] = []
    found = SimpleNamespace(
        action=module, calls=calls, say=lambda _command, _input: "", rc=0, stderr="", environment={}
    )

    def execute(whole: str, in_data: bytes | None = None) -> dict[str, Any]:
        command = script_in(whole)
        calls.append((command, in_data))
        return {"rc": found.rc, "stdout": found.say(command, in_data), "stderr": found.stderr}

    module._low_level_execute_command = execute
    module._compute_environment_string = lambda environment: environment.update(found.environment)
    found.run = lambda **task_vars: module.run(
        task_vars={"ansible_python_interpreter": "/usr/bin/python3", "inventory_hostname": "h1", **task_vars}
    )
    return found


def script_in(command: str) -> str:
    """Return what the command for a host's login shell has /bin/sh run."""
    found = re.fullmatch(r"/bin/sh -c '.*echo (\S+)\|base64 -d.*'", command)
    assert found, command
    return base64.b64decode(found[1]).decode()


def answer(_command: str, _input: bytes | None) -> str:
    return f'{MARK}{{"changed": false, "sessions": []}}'


def question_in(command: str, given: bytes) -> dict[str, Any]:
    """Return what a host was asked, behind the sources that its command says are there."""
    size = int(command.split()[-2])
    return dict(json.loads(zlib.decompress(given[size:])))


def lacking(mark: str) -> Say:
    """Return a host that has no program until it is sent one."""
    return lambda command, given: answer(command, given) if given and given.startswith(b"PK") else mark


def test_a_host_that_has_the_program_is_called_once(host: Any) -> None:
    host.say = answer
    assert host.run() == {"changed": False, "sessions": []}
    ((command, given),) = host.calls
    assert command.startswith("/usr/bin/python3 -I -c ")
    arguments = question_in(command, given)["arguments"]
    assert (arguments["session_name"], arguments["days"]) == ("train", 7), "defaults go along"


def test_a_host_that_lacks_it_is_sent_it(host: Any) -> None:
    host.say = lacking(ABSENT)
    assert host.run() == {"changed": False, "sessions": []}
    assert len(host.calls) == 2
    assert " keep" in host.calls[1][0]


def test_check_mode_lets_the_host_keep_nothing(host: Any) -> None:
    host.action._task.check_mode = True
    host.say = lacking(ABSENT)
    host.run()
    assert " pass" in host.calls[1][0]
    assert question_in(*host.calls[1])["check_mode"]


def test_a_call_that_has_no_dry_run_is_left_out_in_check_mode(host: Any) -> None:
    host.action._task.check_mode = True
    host.action._task.action = "replica_exec"
    assert host.run()["skipped"]
    assert host.calls == []


def test_damage_and_lack_of_room_are_told(host: Any) -> None:
    host.say = lacking(DAMAGED)
    assert "was damaged" in host.run()["warnings"][0]
    host.say = lambda command, given: f"{UNKEPT}No space left\n{answer(command, given)}"
    assert host.run()["warnings"] == [
        "h1: This host cannot keep its program, which is sent with each call: No space left",
    ]


def test_what_the_host_refuses_to_run_fails_in_its_words(host: Any) -> None:
    host.say = lambda _command, _given: f"\n{REFUSED}/usr/local/lib/x is not trusted: it belongs to the user 7."
    result = host.run()
    assert (result["failed"], result["msg"]) == (True, "/usr/local/lib/x is not trusted: it belongs to the user 7.")


def test_a_call_that_breaks_down_says_where_and_why(host: Any) -> None:
    host.rc, host.stderr = 1, "Traceback (most recent call last):\n  ...\nKeyError: 'plan'\n"
    result = host.run()
    assert result["failed"]
    assert "session_output could not run to its end on this host: KeyError: 'plan'." in result["msg"]
    host.rc, host.stderr = 127, "/bin/sh: 1: /usr/bin/python3: not found\n"
    assert "/usr/bin/python3: not found" in host.run()["msg"]
    host.rc, host.stderr = 0, ""
    assert host.run()["msg"] == "The call session_output ended without an answer."


@pytest.mark.parametrize(
    "why",
    [
        "kex_exchange_identification: read: Connection reset by peer",
        "Connection timed out during banner exchange\nConnection to 192.0.2.1 port 22 timed out",
        "mux_client_request_session: session request failed: Session open refused by peer\n"
        "Connection to 192.0.2.1 port 22 timed out",
    ],
)
def test_an_ssh_server_that_is_too_busy_is_asked_again(host: Any, why: str) -> None:
    failures = [why] * 3

    def say(command: str, given: bytes | None) -> str:
        if failures:
            raise AnsibleConnectionFailure(failures.pop())
        return answer(command, given)

    host.say = say
    assert host.run()["sessions"] == []
    assert len(host.calls) == 4


@pytest.mark.parametrize(
    "why",
    [
        "connect to host h1 port 22: No route to host",
        "ssh: connect to host h1 port 22: Connection timed out",
        "kex_exchange_identification: UNKNOWN port 65535",
    ],
)
def test_a_host_that_is_down_is_not_asked_again(host: Any, why: str) -> None:
    def say(_command: str, _given: bytes | None) -> str:
        raise AnsibleConnectionFailure(why)

    host.say = say
    with pytest.raises(AnsibleConnectionFailure):
        host.run()
    assert len(host.calls) == 1


def test_where_input_cannot_be_sent_it_goes_by_a_file(host: Any) -> None:
    written = {}
    host.say = answer
    host.action._connection.has_pipelining = False
    host.action._transfer_data = lambda path, data: written.update({path: data})
    host.action._fixup_perms2 = lambda _paths, execute: None
    assert host.run()["sessions"] == []
    ((command, given),) = host.calls
    assert command.endswith(" < /tmp/x/asked")
    assert given is None
    assert json.loads(zlib.decompress(written["/tmp/x/asked"]))["call"] == "session_output"


def test_which_python(host: Any) -> None:
    host.say = answer
    for value in ("auto", "auto_silent", "auto_legacy", "auto_legacy_silent", ""):
        host.run(ansible_python_interpreter=value)
        assert host.calls[-1][0].startswith("$(command -v /usr/bin/python3 || ")
    for value in ("/usr/bin/env python3", "python3.11 -E", "~/venv/bin/python", "$HOME/venv/bin/python"):
        host.run(ansible_python_interpreter=value)
        assert host.calls[-1][0].startswith(f"{value} -I "), "as Ansible's own modules are started"


def test_the_environment_of_a_task_is_for_sh_whatever_shell_the_host_is_said_to_have(host: Any) -> None:
    host.say, host.environment = answer, {"HTTP_PROXY": "http://a b'c", "N": 3}
    host.run()
    assert host.calls[-1][0].startswith("HTTP_PROXY='http://a b'\"'\"'c' N=3 /usr/bin/python3 -I ")


def test_arguments_are_checked_before_the_host_is_called(host: Any) -> None:
    host.action._task.args = {"state": "known", "session_name": "train", "tale": 3}
    with pytest.raises(AnsibleActionFail, match="tale"):
        host.run()
    host.action._task.args = {"state": "known"}
    with pytest.raises(AnsibleActionFail, match="session_name"):
        host.run()
    assert host.calls == []


def test_secrets_are_taken_out_of_what_a_host_answers(host: Any) -> None:
    host.action._task.action = "session_images"
    host.action._task.args = {"state": "ended", "token": "s3cr3t-t0k3n"}
    host.say = lambda _command, _given: f'{MARK}{{"changed": false, "problem": "asked with s3cr3t-t0k3n"}}'
    assert "s3cr3t-t0k3n" not in str(host.run())


def test_what_a_host_has_of_everybody_is_read_and_not_shown(host: Any) -> None:
    records = [{"request": {"roles": [{"env": {"TOKEN": "v4lue"}}]}}]
    host.action._task.action = host.action._load_name = "host_info"
    host.action._task.args = {}
    host.say = lambda _command, _given: MARK + json.dumps({"host": {"usable": True, "records": records}})
    result = host.run()
    assert result["host"]["records"] == records
    assert result[NOT_SHOWN] is True
    host.say = lambda _command, _given: f"{REFUSED}It belongs to the user 7."
    assert NOT_SHOWN not in host.run(), "why it failed is shown"


def test_what_a_program_wrote_is_there_in_lines_too(host: Any) -> None:
    host.action._task.action = "replica_exec"
    host.action._task.args = {"session_name": "train", "command": ["true"]}
    host.say = lambda _command, _given: f'{MARK}{{"changed": true, "rc": 0, "stdout": "a\\nb\\n", "stderr": ""}}'
    result = host.run()
    assert (result["stdout_lines"], result["stderr_lines"]) == (["a", "b"], [])


def test_an_ssh_server_that_never_has_time_is_given_up_soon(host: Any) -> None:
    def say(_command: str, _given: bytes | None) -> str:
        raise AnsibleConnectionFailure("Connection timed out during banner exchange")

    host.say = say
    with pytest.raises(AnsibleConnectionFailure):
        host.run()
    assert len(host.calls) == action.TRIES_OF_SLOW


def test_what_ansible_shows_of_an_answer_is_printable_and_what_is_read_is_as_it_was(host: Any) -> None:
    hostile = "\x1b[2J\r\x9b1A"
    answer = {
        "failed": True,
        "msg": f"a{hostile}\nb",
        "warnings": [hostile],
        "sources": [{"lines": [["", "out", hostile]]}],
    }
    host.say = lambda _command, _input: MARK + json.dumps(answer)
    result = host.run()
    assert result["msg"] == "a\\x1b[2J\\r\\x9b1A\nb"
    assert result["warnings"] == ["h1: \\x1b[2J\\r\\x9b1A"]
    assert result["sources"] == answer["sources"]
    host.say, host.stderr = lambda _command, _input: hostile, hostile
    assert host.run()["module_stdout"].isprintable()


@pytest.mark.parametrize(
    ("variables", "asker"),
    [({"awx_user_name": "eve"}, "eve"), ({"awx_user_name": "eve", "cluster_compute_admins": ["eve"]}, None)],
    ids=["a user", "an admin"],
)
def test_a_removal_by_name_says_who_asks_whatever_it_was_given(
    host: Any, variables: dict[str, Any], asker: str | None
) -> None:
    host.say = answer
    host.action._task.action = "session_host"
    host.action._load_name = "session_host"
    host.action._task.args = {"state": "absent", "session_name": "train", "asker": "alice"}
    host.run(**variables)
    assert question_in(*host.calls[0])["arguments"]["asker"] == asker
    assert question_in(*host.calls[0])["arguments"]["scope"] == {"group": "cluster_compute_hosts", "elsewhere": []}
    host.calls.clear()
    groups = {"pool_a": ["h1", "h2"], "pool_b": ["h2", "h3"]}
    host.run(**variables, groups=groups, session_resource_group="pool_a")
    assert question_in(*host.calls[0])["arguments"]["scope"] == {"group": "pool_a", "elsewhere": ["h3"]}
    host.calls.clear()
    found = host.run(**{**variables, "cluster_compute_admins": [7]})
    assert "cluster_compute_admins[0] is 7" in found["msg"]
    assert (found["failed"], host.calls) == (True, [])


@pytest.mark.parametrize(("given", "sent"), [({}, True), ({"cluster_compute_root_users": []}, False)])
def test_a_site_says_who_chooses_the_user_of_a_program(host: Any, given: dict[str, Any], sent: bool) -> None:
    host.say = answer
    host.action._task.action = "replica_exec"
    host.action._load_name = "replica_exec"
    program = {"session_name": "train", "replica": "main1", "command": ["id"]}
    host.action._task.args = {**program, "user": "0"}
    found = host.run(awx_user_name="eve", **given)
    assert bool(host.calls) == sent
    if not sent:
        assert "user is '0': Nobody but its administrators may choose the user of programs" in found["msg"]
    host.calls.clear()
    host.action._task.args = program
    host.run(awx_user_name="eve", **given)
    assert host.calls


@pytest.mark.parametrize("asker", [None, "alice"])
def test_a_verb_that_has_judged_says_itself_who_asks(host: Any, asker: str | None) -> None:
    host.say = answer
    host.action._task.action = "session_host"
    host.action._load_name = "session_host"
    host.action._task.args = {"state": "absent", "session_name": "train", "asker": asker}
    host.action.asks = False
    host.run(awx_user_name="eve")
    assert question_in(*host.calls[0])["arguments"]["asker"] == asker


# ---- hosts that hang ------------------------------------------------------------------------------------------------


def silent(_command: str, _given: bytes | None) -> str:
    raise AnsibleConnectionFailure("Connection timed out during banner exchange")


def is_sign_of_life(command: str) -> bool:
    return command.endswith(action.SIGN_OF_LIFE)


def test_a_host_that_hung_is_asked_once_for_a_sign_of_life_by_the_next_run(host: Any) -> None:
    host.say = silent
    with pytest.raises(AnsibleConnectionFailure):
        host.run()
    host.calls.clear()
    with pytest.raises(AnsibleConnectionFailure):
        host.run()
    assert [is_sign_of_life(command) for command, _given in host.calls] == [True]
    host.calls.clear()
    host.say = answer
    assert host.run()["sessions"] == []
    assert [is_sign_of_life(command) for command, _given in host.calls] == [True, False]
    host.calls.clear()
    host.run()
    assert [is_sign_of_life(command) for command, _given in host.calls] == [False], "it has answered since"


@pytest.mark.parametrize(
    ("why", "hung"),
    [
        ("Timeout, server 192.0.2.1 not responding.", True),
        ("ssh: connect to host h1 port 22: Connection timed out", False),
        ("connect to host h1 port 22: No route to host", False),
    ],
)
def test_a_connection_that_fell_silent_is_remembered_and_a_host_that_is_down_is_not(
    host: Any, why: str, hung: bool
) -> None:
    def say(_command: str, _given: bytes | None) -> str:
        raise AnsibleConnectionFailure(why)

    host.say = say
    for _time in range(2):
        with pytest.raises(AnsibleConnectionFailure):
            host.run()
    assert is_sign_of_life(host.calls[-1][0]) is hung


def test_a_call_has_a_limit_of_time_and_its_ssh_client_goes(
    host: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "ssh").symlink_to("/bin/sleep")
    monkeypatch.setattr(action, "seconds_for", lambda _call, _arguments: 0.2)
    monkeypatch.setattr(action, "ANSWER_SECONDS", 0.0)
    clients: list[subprocess.Popen[bytes]] = []

    def say(_command: str, _given: bytes | None) -> str:
        clients.append(subprocess.Popen([str(tmp_path / "ssh"), "600"]))
        reading, _writing = os.pipe()
        os.read(reading, 1)
        raise AssertionError

    host.say = say
    with pytest.raises(AnsibleConnectionFailure, match="The host hangs: it did not answer within 0 seconds"):
        host.run()
    assert clients[0].wait() == -15
    host.say, count = silent, len(host.calls)
    with pytest.raises(AnsibleConnectionFailure):
        host.run()
    assert [is_sign_of_life(command) for command, _given in host.calls[count:]] == [True]


@pytest.fixture
def hurried(host: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The host, reached by SSH, of which a sign of life is wanted soon."""
    for name, seconds in (("ASK_AFTER", 0.1), ("ALIVE_SECONDS", 0.3), ("ASK_AGAIN", 0.1)):
        monkeypatch.setattr(action, name, seconds)
    host.action._connection.transport = "ssh"
    host.action._connection.get_option = lambda _name: None
    host.action._connection.set_option = lambda _name, _value: None
    return host


def wait(seconds: float) -> None:
    select.select([], [], [], seconds)


def test_who_gives_no_sign_of_life_is_given_up_long_before_the_limit_of_its_call(hurried: Any) -> None:
    hurried.say = lambda _command, _given: wait(60)
    begin = time.monotonic()
    with pytest.raises(AnsibleConnectionFailure, match=r"The host hangs: it did not answer within \d seconds"):
        hurried.run()
    assert time.monotonic() - begin < 20
    hurried.say = silent
    with pytest.raises(AnsibleConnectionFailure):
        hurried.run()
    assert is_sign_of_life(hurried.calls[-1][0]), "it is remembered"


@pytest.mark.parametrize("why", ["", "exchange_identification: Connection closed by remote host"])
def test_who_takes_long_and_is_alive_is_waited_for(
    hurried: Any, tmp_path: Path, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(action, "ALIVE_SECONDS", 3.0)  # a busy machine takes its time to fork
    asked = tmp_path / "asked"
    asked.write_text("", encoding="ascii")

    def say(command: str, given: bytes | None) -> str:
        if not is_sign_of_life(command):
            end = time.monotonic() + 60
            while asked.stat().st_size < 2 and time.monotonic() < end:
                wait(0.05)
            return answer(command, given)
        with asked.open("a", encoding="ascii") as file:
            file.write("x")
        if why:  # its SSH server is busy
            raise AnsibleConnectionFailure(why)
        return ""

    hurried.say = say
    assert hurried.run()["sessions"] == []
    assert asked.stat().st_size > 1


def turned_away(retries: Any, asked: list[int]) -> str:
    """Be turned away, as often as Ansible tries, with its pauses."""
    asked.append(1)
    wait(0.25 * int(retries or 0))
    raise AnsibleConnectionFailure("exchange_identification: Connection closed by remote host")


def test_pauses_of_ansible_between_its_tries_are_no_silence_of_the_host(hurried: Any) -> None:
    options = {"reconnection_retries": 5}
    hurried.action._connection.get_option = options.get
    hurried.action._connection.set_option = options.__setitem__

    def say(command: str, given: bytes | None) -> str:
        if is_sign_of_life(command):
            turned_away(options["reconnection_retries"], [])
        wait(1)
        return answer(command, given)

    hurried.say = say
    assert hurried.run()["sessions"] == []
    assert options["reconnection_retries"] == 5


def test_a_host_that_hung_is_asked_with_one_try_of_ansibles_at_a_time(
    hurried: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"reconnection_retries": 5}
    hurried.action._connection.get_option = options.get
    hurried.action._connection.set_option = options.__setitem__
    monkeypatch.setattr(action, "SUSPECT_SECONDS", 0.5)
    hurried.say = silent
    with pytest.raises(AnsibleConnectionFailure):
        hurried.run()
    asked: list[int] = []

    def say(command: str, given: bytes | None) -> str:
        if is_sign_of_life(command) and len(asked) < 2:
            turned_away(options["reconnection_retries"], asked)
        return answer(command, given)

    hurried.say = say
    assert hurried.run()["sessions"] == []
    assert (len(asked), options["reconnection_retries"]) == (2, 5)


@pytest.mark.parametrize("hung", ["_transfer_data", "_make_tmp_path", "_fixup_perms2"])
def test_what_is_copied_to_a_host_has_a_limit_of_time(hurried: Any, hung: str) -> None:
    hurried.action._connection.has_pipelining = False
    hurried.action._connection._shell.tmpdir = "" if hung == "_make_tmp_path" else "/tmp/x"
    hurried.say = lambda command, _given: wait(60) if is_sign_of_life(command) or "alive" in command else ""
    for name in ("_transfer_data", "_make_tmp_path", "_fixup_perms2"):
        setattr(hurried.action, name, lambda *_args, _name=name, **_more: wait(60 if _name == hung else 0))
    begin = time.monotonic()
    with pytest.raises(AnsibleConnectionFailure, match="The host hangs"):
        hurried.run()
    assert time.monotonic() - begin < 20
    assert hurried.action._connection._shell.tmpdir is None, "nobody waits for its removal"


def facts_of(host: Any, **more: Any) -> dict[str, Any]:
    host.action._task.action = host.action._load_name = "host_info"
    host.action._task.args = {}
    host.say = lambda _command, _given: MARK + json.dumps({"host": {"usable": True, "suspect": None, **more}})
    return dict(host.run()["host"])


def test_a_host_that_hung_counts_as_suspect_until_it_is_trusted_again(host: Any) -> None:
    host.say = silent
    with pytest.raises(AnsibleConnectionFailure):
        host.run()
    assert facts_of(host)["suspect"]["reason"] == "Its SSH server takes connections and says nothing."
    assert facts_of(host, suspect={"reason": "own", "left": 5})["suspect"] == {"reason": "own", "left": 5}
    host.action._task.action = host.action._load_name = "host_suspect"
    host.say = lambda _command, _given: MARK + json.dumps({"changed": False})
    host.run()
    assert facts_of(host)["suspect"] is None


def test_ssh_closes_what_is_silent_unless_the_site_says_otherwise(host: Any) -> None:
    options = {"ssh_extra_args": "-o ServerAliveInterval=1"}
    host.action._connection.transport = "ssh"
    host.action._connection.get_option = options.get
    host.action._connection.set_option = options.__setitem__
    host.say = answer
    for _time in range(2):
        host.run()
    assert options["ssh_extra_args"] == f"-o ServerAliveInterval=1 {action.KEPT_ALIVE}"

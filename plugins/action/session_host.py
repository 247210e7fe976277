# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Call a host: start the program for hosts there, with the arguments of the task on its standard input.

The program is stored on the host under the digest of its sources. If the host has another one or none, it is sent once
over Ansible's own connection. Therefore nothing has to be built, sent, unpacked and compiled for each task.

Many launches at the same time can open more connections than an SSH server accepts (sshd_config(5): MaxStartups,
MaxSessions). The server then closes some of them before any data was exchanged, or does not answer in time. To Ansible,
the host looks unreachable although nothing is wrong with it. Only these cases are tried again. Nothing has run on the
host in them, and a host that is down fails at once with another message.

A host that hangs does not answer at all. Therefore an idle connection is closed, and each call has a time limit. While
a host works on a call, a sign of life is requested periodically. A host that gave none or reached a limit is
remembered. The next run first requests a sign of life from it, and waits less for that.
"""

from __future__ import annotations

import os
import random
import re
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ansible import constants as C
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.module_utils.common.parameters import remove_values
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.read_fields import (
    parse_users,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.call_limits import (
    ALIVE_SECONDS,
    ANSWER_SECONDS,
    ASK_AFTER,
    ASK_AGAIN,
    SUSPECT_SECONDS,
    seconds_for,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.users import (
    VARIABLE as ROOT_USERS,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.users import check_choice
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import (
    CoreError,
    spoken,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.parse import is_given
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.arguments import ARGUMENTS
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.entry_point import (
    ABSENT,
    DAMAGED,
    REFUSED,
    UNKEPT,
)
from ansible_collections.cluster_compute.session.plugins.plugin_utils.any_shell import for_any_shell
from ansible_collections.cluster_compute.session.plugins.plugin_utils.broken_module import of_broken_module
from ansible_collections.cluster_compute.session.plugins.plugin_utils.host_program import (
    answer_in,
    question,
    text_behind,
    the_program,
)
from ansible_collections.cluster_compute.session.plugins.plugin_utils.hung_hosts import Hang, HangNote
from ansible_collections.cluster_compute.session.plugins.plugin_utils.not_shown import not_shown
from ansible_collections.cluster_compute.session.plugins.plugin_utils.plain import plain, reader
from ansible_collections.cluster_compute.session.plugins.plugin_utils.request_variables import read_asker, read_scope

TURNED_AWAY = "exchange_identification:"
"""Message of ssh(1) if the server closed the connection before both sides had identified themselves."""
PROXIED = "UNKNOWN port"
"""Addition to the message if there was a proxy, which may have ended for any reason."""
TOO_SLOW = re.compile(r"timed out during banner exchange|^Connection to \S+ port \d+ timed out", re.MULTILINE)
"""Message if the server accepted the connection but did not answer in time. A host that is down accepts none."""
TRIES = 12
TRIES_OF_SLOW = 5
"""Fewer attempts, because each takes as long as ssh waits (ssh_config(5), ConnectTimeout)."""
SILENT = re.compile(rf"{TOO_SLOW.pattern}|^Timeout, server \S+ not responding", re.MULTILINE)
"""Messages about a server that accepts or has accepted the connection, and then does not answer."""
KEPT_ALIVE = "-o ServerAliveInterval=10 -o ServerAliveCountMax=6"
"""Options with which ssh closes a connection that was silent for a minute. The site's own options take precedence."""
SIGN_OF_LIFE = "-I -S -c " + shlex.quote(
    "import mmap, os, sys; os.readv(os.open(sys.executable, os.O_RDONLY | os.O_DIRECT), [mmap.mmap(-1, 4096)])"
)
"""Code with which Python is started to read from the host's disk instead of its memory, and nothing more."""
PAUSE = (0.2, 0.8)
"""Range of seconds by which the pauses grow. Random, so that runs that collided do not collide again."""
SPOKEN = {"module_stderr", "module_stdout", "msg"}
"""The parts of an answer that Ansible shows unchanged."""
ANY_PYTHON = "$(command -v /usr/bin/python3 || command -v python3 || echo /usr/bin/python3)"
"""The Python for a host without a configured one. The distribution's packages install their libraries for it."""


DISCOVERED = ("auto", "auto_silent", "auto_legacy", "auto_legacy_silent")
"""Values of ansible_python_interpreter that leave the choice to Ansible."""


class _Late(BaseException):
    """A call has reached its time limit. The connection plugins of Ansible try again after any other error."""


@contextmanager
def _limited(seconds: float, ask: Callable[[], object] | None = None) -> Iterator[None]:
    """Raise _Late if the block takes longer, unless a timer already runs, such as that of a task with a timeout.

    ask: ends when the host gives a sign of life or otherwise reports why not. A separate process calls it periodically
    while the block waits. If it does not end, _Late is raised.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL or signal.getitimer(signal.ITIMER_REAL)[0]:
        yield
        return
    deadline = time.monotonic() + seconds
    asking = 0

    def wait(seconds: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, max(0.001, min(seconds, deadline - time.monotonic())))

    def late(_number: int, _frame: object) -> None:
        nonlocal asking
        if time.monotonic() >= deadline or ask is None:
            raise _Late
        if not asking:
            asking = _forked(ask)
            wait(ALIVE_SECONDS)
        elif os.waitpid(asking, os.WNOHANG)[0]:
            asking = 0
            wait(ASK_AGAIN)
        else:
            raise _Late

    signal.signal(signal.SIGALRM, late)
    wait(seconds if ask is None else ASK_AFTER)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        if asking and not os.waitpid(asking, os.WNOHANG)[0]:
            for kill in (os.killpg, os.kill):
                with suppress(OSError):
                    kill(asking, signal.SIGKILL)
            os.waitpid(asking, 0)


def _forked(work: Callable[[], object]) -> int:
    """Return the process that runs a function. Its number is also the number of its process group."""
    child = os.fork()
    if not child:
        try:
            os.setsid()  # so that its SSH client cannot wait for an answer from the terminal either
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            work()
        finally:
            os._exit(0)
    return child


def _end_clients() -> None:
    """End the SSH clients that this process has started and that would wait for a host forever."""
    own = str(os.getpid())
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            number, _blank, rest = path.read_text(encoding="utf-8", errors="replace").partition(" (")
            name, _end, fields = rest.rpartition(")")
            if name in ("ssh", "sshpass", "sftp", "scp") and fields.split()[1] == own:
                os.kill(int(number), signal.SIGTERM)


def _spec_here(spec: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the specification of arguments for the controller, which must not expand ~ in a path of the host."""
    return {
        name: {**option, "type": "str"} if option.get("type") == "path" else option for name, option in spec.items()
    }


def _is_worth_another_try(error: str, also_if_slow: bool) -> bool:
    """Return whether a connection failed because the SSH server was too busy."""
    turned_away = TURNED_AWAY in error and PROXIED not in error
    return turned_away or (also_if_slow and TOO_SLOW.search(error) is not None)


@dataclass(frozen=True)
class _Question:
    """A call to a host. packed: as the program reads it. seconds: its time limit. shows_health: whether a host that
    hung before is trusted again if the call succeeds."""

    call: str
    packed: bytes
    seconds: float
    shows_health: bool

    @classmethod
    def of(cls, call: str, arguments: Mapping[str, Any], check_mode: bool) -> _Question:
        """Return a call with checked arguments."""
        is_trusted = call == "host_suspect" and not arguments.get("reason")
        has_started = call == "session_host" and arguments.get("state") == "started"
        seconds = seconds_for(call, arguments) + ANSWER_SECONDS
        packed = question(call, arguments, check_mode)
        return cls(call, packed, seconds, (is_trusted or has_started) and not check_mode)


@dataclass(frozen=True)
class _Done:
    """The result of a command on the host."""

    rc: int
    stdout: str
    stderr: str


class ActionModule(ActionBase):
    """The action behind session_host and, by meta/runtime.yml, all other modules that work on the hosts of sessions."""

    _supports_check_mode = True
    asks = True
    """Whether to set the user of this run as the requester of a session. A verb that has checked this turns it off."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the result of the call. Raises AnsibleConnectionFailure if the host stays unreachable."""
        super().run(tmp, task_vars)
        call = self._task.action.rpartition(".")[2]
        declared = ARGUMENTS[call]
        if self._task.check_mode and not declared["supports_check_mode"]:
            return {"skipped": True, "msg": f"{call} cannot report what it would do, so check mode skips it."}
        if self.asks:  # a verb's arguments are plain
            self._task.args = plain(self._task.args)
        spec = _spec_here(declared["argument_spec"])
        checked, arguments = self.validate_argument_spec(spec, required_if=declared.get("required_if"))
        task_vars = task_vars or {}
        if self.asks and "asker" in arguments and arguments["session_name"] is not None:
            try:
                self._set_asker(arguments, task_vars)
            except CoreError as error:
                return {"failed": True, "msg": str(error)}
        asked = _Question.of(call, arguments, self._task.check_mode)
        host = self._task.delegate_to or task_vars.get("inventory_hostname", "")
        result = dict(remove_values(self._call(asked, self._python(task_vars), host), checked._no_log_values))
        return not_shown(result) if call == "host_info" and not result.get("failed") else result

    def _set_asker(self, arguments: dict[str, object], task_vars: Mapping[str, object]) -> None:
        """Set who makes the request, and where. Raises CoreError, also for a user that the asker may not choose."""
        template = reader(self._templar)
        asker = read_asker(task_vars, template)
        arguments["asker"] = None if asker.is_admin else asker.name
        if "scope" in arguments:
            arguments["scope"] = read_scope(task_vars, template).told
        given = template(task_vars.get(ROOT_USERS))
        allowed = parse_users(ROOT_USERS, given) if is_given(given) else None
        check_choice("user", str(arguments.get("user") or ""), asker, allowed)

    def _call(self, asked: _Question, python: str, name: str) -> dict[str, Any]:
        """Return the answer of the program. Sends the program first if the host does not have it.

        name: of the host in warnings.
        """
        self._get_ready(python)
        hang = self._note.read()
        if hang is not None and not hang.answers:
            # Before the call, which may take long for good reasons, while this may not.
            with self._tried_once():
                self._execute(f"{python} {SIGN_OF_LIFE}", b"", SUSPECT_SECONDS, tries_of_slow=1)
            self._note.answers_again()
        done, warnings = self._run_program(python, asked)
        result = answer_in(done.stdout)
        if result is None:
            refused = text_behind(done.stdout, REFUSED)
            result = {"failed": True, "msg": refused} if refused is not None else self._broken(asked.call, done)
        if hang is not None:
            self._mark_suspect(asked, result, hang)
        result.update({key: spoken(result[key]) for key in SPOKEN & result.keys()})
        # Ansible does the same with the results of modules.
        written = [name for name in ("stdout", "stderr") if isinstance(result.get(name), str)]
        result.update({f"{name}_lines": result[name].splitlines() for name in written})
        warnings += result.get("warnings", ())
        if warnings:
            # Ansible shows a warning without its host, and equal warnings of several hosts only once.
            result["warnings"] = [f"{name}: {warning}" for warning in spoken(warnings)]
        return result

    def _run_program(self, python: str, asked: _Question) -> tuple[_Done, list[str]]:
        """Return what the program did with a question, and warnings. Sends it if the host does not have it."""
        program = the_program(C.DEFAULT_LOCAL_TMP)
        done = self._execute(program.command(python), asked.packed, asked.seconds)
        warnings = []
        damaged = text_behind(done.stdout, DAMAGED) is not None
        if damaged or text_behind(done.stdout, ABSENT) is not None:
            if damaged:
                warnings.append(f"The program {program.digest} of this host was damaged and is replaced.")
            sources = program.path.read_bytes()
            command = program.command(python, len(sources), keep=not self._task.check_mode)
            done = self._execute(command, sources + asked.packed, asked.seconds)
        unkept = text_behind(done.stdout, UNKEPT)
        if unkept is not None:
            warnings.append(f"This host cannot keep its program, which is sent with each call: {unkept}")
        return done, warnings

    def _get_ready(self, python: str) -> None:
        """Prepare to wait for the host, whose Python is started with this command."""
        self._keep_alive()
        self._note = HangNote(C.ANSIBLE_HOME, self._address())
        self._life = f"{python} {SIGN_OF_LIFE}"

    def cleanup(self, force: bool = False) -> None:
        """Remove the task's temporary directory from the host. A host that hangs keeps it."""
        if self._connection._shell.tmpdir:
            with suppress(AnsibleConnectionFailure), self._waiting(ANSWER_SECONDS):
                super().cleanup(force)

    @contextmanager
    def _waiting(self, seconds: float, folder: str = "") -> Iterator[None]:
        """Let the block wait for the host. folder: the directory of the host to which it writes.

        Raises AnsibleConnectionFailure if the host hangs, which is remembered.
        """
        begin = time.monotonic()
        writes = f"; : > {shlex.quote(self._connection._shell.join_path(folder, 'alive'))}" if folder else ""
        asked = partial(self._ask_once, for_any_shell(f"{self._life}{writes}"))
        # Other connections are shared with a process that is forked from this one.
        is_ssh = getattr(self._connection, "transport", "") == "ssh"
        try:
            with _limited(seconds, asked if is_ssh else None):
                yield
        except _Late:
            _end_clients()
            self._connection._shell.tmpdir = None  # which no one could remove
            why = f"The host hangs: it did not answer within {time.monotonic() - begin:.0f} seconds."
            self._note.remember(why)
            raise AnsibleConnectionFailure(why) from None

    def _ask_once(self, command: str) -> None:
        with self._tried_once():
            self._low_level_execute_command(command)

    @contextmanager
    def _tried_once(self) -> Iterator[None]:
        """Limit Ansible to one attempt, because its pauses ([ssh_connection] retries) would look like a silent host."""
        retries = None
        with suppress(AnsibleError, KeyError):
            if getattr(self._connection, "transport", "") == "ssh":
                retries = self._connection.get_option("reconnection_retries")
        if not retries:
            yield
            return
        self._connection.set_option("reconnection_retries", 0)
        try:
            yield
        finally:
            self._connection.set_option("reconnection_retries", retries)

    def _mark_suspect(self, asked: _Question, result: dict[str, Any], hang: Hang) -> None:
        """Count a host that hung as one that failed recently, until it is trusted or has started a session."""
        host = result.get("host")
        if asked.call == "host_info" and isinstance(host, dict) and host.get("usable") and not host.get("suspect"):
            host["suspect"] = {"reason": hang.reason, "left": hang.left}
        if asked.shows_health and not result.get("failed"):
            self._note.forget()

    def _address(self) -> str:
        """Return how the host is reached, which identifies it among all hosts of this controller."""
        context = self._play_context
        return f"{context.remote_user or ''}@{context.remote_addr}:{context.port or ''}"

    def _keep_alive(self) -> None:
        """Make ssh close a connection whose other side has disappeared."""
        if getattr(self._connection, "transport", "") != "ssh":
            return
        with suppress(AnsibleError, KeyError):
            given = self._connection.get_option("ssh_extra_args") or ""
            if KEPT_ALIVE not in given:
                self._connection.set_option("ssh_extra_args", f"{given} {KEPT_ALIVE}".strip())

    def _broken(self, call: str, done: _Done) -> dict[str, Any]:
        """Return the result of a call that ended without an answer."""
        result = {"failed": True, "rc": done.rc, "module_stdout": done.stdout, "module_stderr": done.stderr}
        return {**result, "msg": of_broken_module(result, call) or f"The call {call} ended without an answer."}

    def _python(self, task_vars: Mapping[str, Any]) -> str:
        """Return what starts Python on the host, for its shell."""
        others = task_vars.get("ansible_delegated_vars") or {}
        known = others.get(self._task.delegate_to, task_vars) if self._task.delegate_to else task_vars
        named = reader(self._templar)(C.config.get_config_value("INTERPRETER_PYTHON", variables=known))
        if not named or str(named) in DISCOVERED:
            return ANY_PYTHON
        return str(named)  # with arguments, ~ or a shell variable, as Ansible accepts it

    def _execute(self, command: str, content: bytes, seconds: float, tries_of_slow: int = TRIES_OF_SLOW) -> _Done:
        """Run a command on the host with *content* on its standard input, and try again if its SSH server is too busy.

        seconds: the time limit. Raises AnsibleConnectionFailure, also for a host that hangs, which is remembered.
        """
        command = self._with_environment(command)
        become = self._connection.become
        if content and (not self._connection.has_pipelining or getattr(become, "require_tty", False)):
            command, content = f"{command} < {shlex.quote(self._written(content))}", b""
        command = for_any_shell(command)
        for number in range(1, TRIES + 1):
            try:
                with self._waiting(seconds):
                    done = self._low_level_execute_command(command, in_data=content or None)
                return _Done(done["rc"], done["stdout"], done["stderr"])
            except AnsibleConnectionFailure as error:
                if number == TRIES or not _is_worth_another_try(str(error), number < tries_of_slow):
                    if SILENT.search(str(error)):
                        self._note.remember("Its SSH server takes connections and says nothing.")
                    raise
                Display().v("The SSH server is too busy and turned the connection away; trying again.")
            time.sleep(number * random.uniform(*PAUSE))  # noqa: S311 - spreads tries, guards no secret
        raise AssertionError

    def _with_environment(self, command: str) -> str:
        environment: dict[str, Any] = {}
        self._compute_environment_string(environment)  # whose text is for the shell of ansible_shell_type
        return " ".join([*(f"{name}={shlex.quote(str(value))}" for name, value in environment.items()), command])

    def _written(self, content: bytes) -> str:
        """Write the request to a file on the host that only its user can read and that the task removes."""
        if not self._connection._shell.tmpdir:
            with self._waiting(ANSWER_SECONDS):
                self._make_tmp_path()
        folder = self._connection._shell.tmpdir
        path = self._connection._shell.join_path(folder, "asked")
        with self._waiting(ANSWER_SECONDS, folder):
            self._transfer_data(path, content)
            self._fixup_perms2((folder, path), execute=False)
        return str(path)

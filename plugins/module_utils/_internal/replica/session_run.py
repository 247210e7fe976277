# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Run a command in all replicas of a session, from one of them, as srun(1) and mpirun(1) do.

This is a separate program and not part of the program for hosts. It runs in replicas, with the Python of the host's
distribution in the SSH runtime, and imports only what is in that. It has two roles. The *launcher* starts one *agent*
in each replica over the session's SSH and sends it the command as a line of JSON on its standard input. Each further
line is the number of a signal to pass on (0: all have succeeded, nothing more follows), and the end of input ends all.
An agent answers in frames: kind (``o``, ``e``: output of a process; ``x``: its exit code), the number of the process,
the length, the bytes. Before the first frame it writes the mark from its command line, because the start files of the
user's shell, with which the SSH server starts it, may also print.
"""

from __future__ import annotations

import getopt
import json
import os
import selectors
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any, NamedTuple

RUNTIME = "/opt/cluster-compute"
ENVIRONMENT = "/etc/cluster-compute/environment"
PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
MOST_PROCESSES = 1024
HELP = """\
usage: session-run [--on WHERE] [-n NUMBER] COMMAND [ARGUMENT...]

Runs a command in all replicas of the session, and ends all when one fails.

  --on WHERE  all, roles or replicas, with commas (all)
  -n NUMBER   processes in each replica (1)

What is written comes line by line, after the name of the replica. The exit code is that of the first that failed.
"""
GRACE = 10.0
"""Seconds between the request to end and the kill, as for containers."""
LONGEST_LINE = 1 << 16
"""Number of bytes after which a line is shown although it has not ended."""
LOOK_AGAIN = 0.05
"""Seconds between two checks of leftover child processes, because nothing signals their end."""
OF_A_SHELL = {"_", "PWD", "OLDPWD", "SHLVL", "HOSTNAME"}
"""Variables about one process or location. Like those of SSH, they are not passed on."""


class Refused(Exception):
    """The command line requests something that the session does not have. The message is a sentence."""


def chosen_replicas(words: str, replicas: list[str]) -> list[str]:
    """Return the replicas for *words* in rank order: ``all``, roles and names, with commas. Raises Refused."""
    found = set()
    for word in filter(None, words.replace(",", " ").split()):
        meant = [name for name in replicas if word in ("all", name, name.rstrip("0123456789"))]
        if not meant:
            raise Refused(f"--on {word}: There is neither a role nor a replica of this name: {', '.join(replicas)}.")
        found.update(meant)
    if not found:
        raise Refused("--on: Name all, a role or replicas.")
    return [name for name in replicas if name in found]


def ranks(replicas: list[str], number: int, port: int) -> dict[str, list[dict[str, str]]]:
    """Return by replica the rank variables of each of its *number* processes in this run.

    LOCAL_RANK counts within the replica, because devices of a process, such as a GPU, belong to the replica.
    """
    size = len(replicas) * number
    workers = [f"{name}:{port + local}" for name in replicas for local in range(number)]
    found: dict[str, list[dict[str, str]]] = {}
    for node, name in enumerate(replicas):
        for local in range(number):
            rank = node * number + local
            task = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}}
            place = {
                "RANK": rank,
                "WORLD_RANK": rank,
                "WORLD_SIZE": size,
                "LOCAL_RANK": local,
                "LOCAL_WORLD_SIZE": number,
                "MASTER_ADDR": replicas[0],
                "TF_CONFIG": json.dumps(task),
                "PET_NNODES": len(replicas),
                "PET_NODE_RANK": node,
                "PET_MASTER_ADDR": replicas[0],
            }
            found.setdefault(name, []).append({key: str(value) for key, value in place.items()})
    return found


def slurm_place(tf_config: str) -> dict[str, str]:
    """Return Slurm's rank variables of a task in the session or a run, from ``TF_CONFIG``.

    Sessions and runs are jobs with a number of tasks on each replica. The session decides which of these variables
    exist. Empty if the text has another form, because a user has set another value.
    """
    try:
        found = json.loads(tf_config)
        workers, rank = found["cluster"]["worker"], int(found["task"]["index"])
        nodes = list(dict.fromkeys(worker.rpartition(":")[0] for worker in workers))
        number = len(workers) // len(nodes)
    except (ValueError, LookupError, TypeError, AttributeError, ZeroDivisionError):
        return {}
    each = f"{number}(x{len(nodes)})" if len(nodes) > 1 else str(number)
    return {
        **dict.fromkeys(("SLURM_JOB_NODELIST", "SLURM_STEP_NODELIST"), ",".join(nodes)),
        **dict.fromkeys(("SLURM_JOB_NUM_NODES", "SLURM_STEP_NUM_NODES", "SLURM_NNODES"), str(len(nodes))),
        **dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS"), str(len(workers))),
        "SLURM_NTASKS_PER_NODE": str(number),
        **dict.fromkeys(("SLURM_TASKS_PER_NODE", "SLURM_STEP_TASKS_PER_NODE"), each),
        "SLURM_PROCID": str(rank),
        "SLURM_NODEID": str(rank // number),
        "SLURM_LOCALID": str(rank % number),
    }


def slurm_of_run(own: dict[str, str], changed: dict[str, str], place: dict[str, str]) -> dict[str, str]:
    """Return the Slurm variables with which a process finds this run instead of the whole session.

    own: the variables that the session gave to the replica. changed: those that the caller has changed. place: that of
    the process. Only variables of the session are replaced, and a user's own value stays.
    """
    of_session = slurm_place(own.get("TF_CONFIG", ""))
    return {
        name: value
        for name, value in slurm_place(place["TF_CONFIG"]).items()
        if name in own and own[name] == of_session.get(name) and name not in changed
    }


def read_environment(path: str) -> dict[str, str]:
    """Return the variables of a replica's environment file."""
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        words = shlex.split(file.read())
    return dict(word.split("=", 1) for word in words if "=" in word)


def handed_on(own: dict[str, str], caller: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return which of the caller's variables apply in every replica, and which only if the name is not set there.

    own: the variables of the caller's replica. Changes by the caller are intended and apply. If the caller is itself a
    process of a run, changes of Slurm's variables by that run are not intended. All other variables are set again in
    any case.
    """
    of_run = slurm_place(caller.get("TF_CONFIG", ""))
    changed = {
        name: value for name, value in caller.items() if name in own and value not in (own[name], of_run.get(name))
    }
    more = {
        name: value
        for name, value in caller.items()
        if name not in own and name not in OF_A_SHELL and not name.startswith("SSH_")
    }
    return changed, more


class Wakes:
    """Ends a wait when a signal comes (signal.set_wakeup_fd), and stores the signal."""

    def __init__(self, numbers: tuple[int, ...]) -> None:
        self.read_end, self._write_end = os.pipe()
        os.set_blocking(self.read_end, False)
        os.set_blocking(self._write_end, False)
        signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        for number in numbers:
            signal.signal(number, lambda *_given: None)

    def came(self) -> list[int]:
        """Return the signals since the last call."""
        try:
            return list(os.read(self.read_end, 4096))
        except BlockingIOError:
            return []


class Agent:
    """Runs the processes of one replica.

    left: processes that have ended and may have left others behind. They are not waited for (wait(2)) until everything
    has to end, so that the number of their group is not reused.
    """

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self.selector = selectors.DefaultSelector()
        self.wakes = Wakes((signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP))
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.left: list[subprocess.Popen[bytes]] = []
        self.kill_at: float | None = None
        self.is_dismissed = False
        self.input = b""

    def run(self) -> int:
        """Run the command in the first line of input, until it has ended in all replicas."""
        _write(1, mark_line(self.mark))
        with open(0, "rb", buffering=0, closefd=False) as given:
            request = json.loads(given.readline())
        self.selector.register(0, selectors.EVENT_READ, ("input", 0))
        self.selector.register(self.wakes.read_end, selectors.EVENT_READ, ("wakes", 0))
        self._start(request)
        while not self._is_over():
            self._read(self._patience())
            if {signal.SIGTERM, signal.SIGHUP} & {*self.wakes.came()}:
                self._signal(signal.SIGTERM)
            if self.kill_at is not None and time.monotonic() >= self.kill_at:
                self._signal(signal.SIGKILL)
            for number, process in list(self.processes.items()):
                code = _exit_code(process)
                if code is not None:
                    self._ended(number, process, code)
        return 0

    def _read(self, patience: float | None) -> None:
        """Wait for input, output or a signal, and handle the first two."""
        for key, _events in self.selector.select(patience):
            kind, number = key.data
            if kind == "input":
                self._hear()
            elif kind != "wakes":
                self._pass_on(kind, number, key.fd)

    def _is_over(self) -> bool:
        if self.processes:
            return False
        if self.kill_at is None:
            return self.is_dismissed
        self.left = [process for process in self.left if _has_left(process)]
        return not self.left

    def _start(self, request: dict[str, Any]) -> None:
        own, changed = read_environment(ENVIRONMENT), request["changed"]
        environment = {**request["more"], **os.environ, **own, **changed}
        directory = request["directory"] if os.access(request["directory"], os.X_OK) else None
        for number, place in enumerate(request["places"]):
            try:
                process = subprocess.Popen(  # pylint: disable=ansible-bad-function
                    request["command"],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env={**environment, **slurm_of_run(own, changed, place), **place},
                    cwd=directory,
                    start_new_session=True,
                )
            except OSError as error:
                self._send("e", number, f"{request['command'][0]}: {error.strerror}\n".encode())
                self._send("x", number, b"126" if isinstance(error, PermissionError) else b"127")
                continue
            self.processes[number] = process
            for kind, pipe in (("o", process.stdout), ("e", process.stderr)):
                self.selector.register(pipe, selectors.EVENT_READ, (kind, number))  # type: ignore[arg-type]

    def _patience(self) -> float | None:
        if self.kill_at is None:
            return None
        patience = max(0.0, self.kill_at - time.monotonic())
        return patience if self.processes else min(patience, LOOK_AGAIN)

    def _hear(self) -> None:
        data = os.read(0, 4096)
        self.input += data
        *lines, self.input = self.input.split(b"\n")
        for line in lines:
            if int(line):
                self._signal(int(line))
            else:
                self.is_dismissed = True
        if not data:
            self.selector.unregister(0)
            if not self.is_dismissed:  # the launcher is gone
                self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        """Send a signal to all processes in the groups of the started processes.

        Leftovers of ended processes only get the signal when everything has to end.
        """
        is_for_all = number == signal.SIGKILL or number in ENDING
        for process in (*self.processes.values(), *(self.left if is_for_all else ())):
            _signal_group(process.pid, number)
        if number == signal.SIGKILL:
            self.kill_at, self.is_dismissed = None, True
        elif number in ENDING and self.kill_at is None:
            self.kill_at = time.monotonic() + GRACE

    def _pass_on(self, kind: str, number: int, descriptor: int) -> None:
        data = os.read(descriptor, LONGEST_LINE)
        if data:
            self._send(kind, number, data)
        else:
            self.selector.unregister(descriptor)

    def _ended(self, number: int, process: subprocess.Popen[bytes], code: int) -> None:
        """Report how a process ended, after its output. Its leftovers may hold the output open forever."""
        for kind, pipe in (("o", process.stdout), ("e", process.stderr)):
            if pipe is None:
                continue
            if pipe.fileno() in self.selector.get_map():
                os.set_blocking(pipe.fileno(), False)
                while data := _read_now(pipe.fileno()):
                    self._send(kind, number, data)
                self.selector.unregister(pipe)
            pipe.close()
        del self.processes[number]
        self.left.append(process)
        self._send("x", number, str(code).encode())

    def _send(self, kind: str, number: int, data: bytes) -> None:
        try:
            _write(1, f"{kind} {number} {len(data)}\n".encode() + data)
        except BrokenPipeError:
            self._signal(signal.SIGTERM)


def _exit_code(process: subprocess.Popen[bytes]) -> int | None:
    """Return the exit code of a process like a shell does, None while it runs. The process is not reaped."""
    found = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if found is None:
        return None
    return found.si_status if found.si_code == os.CLD_EXITED else 128 + found.si_status


def _has_left(process: subprocess.Popen[bytes]) -> bool:
    """Return whether there are other processes in the group of an ended process."""
    process.wait()
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


def _signal_group(leader: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader, number)


def _read_now(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, LONGEST_LINE)
    except BlockingIOError:
        return b""


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def mark_line(mark: str) -> bytes:
    """Return the mark before an agent's frames. A shell that prints its commands does not write such a NUL."""
    return b"\0" + mark.encode("ascii") + b"\n"


class Replica:
    """One replica from the view of its launcher. mark: the first output of its agent."""

    def __init__(self, name: str, argv: list[str], request: dict[str, Any], mark: str) -> None:
        self.name = name
        self.mark = mark_line(mark)
        self.has_begun = False
        self.number = len(request["places"])
        self.frames = b""
        self.lines: dict[tuple[str, int], bytes] = {}
        self.codes: dict[int, int] = {}
        # A separate group, because Ctrl-C is for the launcher, which passes it on.
        self.ssh = subprocess.Popen(  # pylint: disable=ansible-bad-function
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        self.say(json.dumps(request))

    def say(self, line: str) -> None:
        """Send something to its agent, if that still runs."""
        if self.ssh.stdin is not None:
            with suppress(BrokenPipeError):
                _write(self.ssh.stdin.fileno(), f"{line}\n".encode())

    def read_frames(self, data: bytes) -> list[tuple[str, int, bytes]]:
        """Return the frames that *data* completes. Output before the agent's mark does not count."""
        self.frames += data
        if not self.has_begun:
            _before, mark, after = self.frames.partition(self.mark)
            self.has_begun = bool(mark)
            self.frames = after if mark else self.frames[-LONGEST_LINE:]
            if not mark:
                return []
        found = []
        while (end := self.frames.find(b"\n")) >= 0:
            kind, number, length = self.frames[:end].decode("ascii").split()
            body = self.frames[end + 1 : end + 1 + int(length)]
            if len(body) < int(length):
                break
            self.frames = self.frames[end + 1 + int(length) :]
            found.append((kind, int(number), body))
        return found

    def whole_lines(self, stream: str, number: int, data: bytes, *, is_last: bool = False) -> list[bytes]:
        """Return the lines that *data* completes, without line ends."""
        *lines, rest = (self.lines.get((stream, number), b"") + data).split(b"\n")
        if rest and (is_last or len(rest) >= LONGEST_LINE):
            lines, rest = [*lines, rest], b""
        self.lines[stream, number] = rest
        return lines


class Launcher:
    """Runs a command in replicas. The first failure ends all. mark: the first output of agents."""

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self.selector = selectors.DefaultSelector()
        self.wakes = Wakes((*PASSED_ON, signal.SIGCHLD))
        self.replicas: list[Replica] = []
        self.failed: int | None = None
        self.end_signals = 0
        self.kill_at: float | None = None

    def run(self, replicas: dict[str, tuple[list[str], dict[str, Any]]]) -> int:
        """Start the agents with the command for each replica, and run them. Return the exit code."""
        self.selector.register(self.wakes.read_end, selectors.EVENT_READ, None)
        for name, (argv, request) in replicas.items():
            self._start(Replica(name, argv, request, self.mark))
        while len(self.selector.get_map()) > 1:
            wait = None if self.kill_at is None else max(0.0, self.kill_at - time.monotonic())
            self._read(wait)
            for number in self.wakes.came():
                if number in PASSED_ON:
                    self._pass_on(number)
            if self.kill_at is not None and time.monotonic() >= self.kill_at:
                self._give_up()
        for replica in self.replicas:
            replica.ssh.wait()
        return self.failed or 0

    def _start(self, replica: Replica) -> None:
        self.replicas.append(replica)
        for kind, pipe in (("frames", replica.ssh.stdout), ("e", replica.ssh.stderr)):
            self.selector.register(pipe, selectors.EVENT_READ, (kind, replica))  # type: ignore[arg-type]

    def _read(self, wait: float | None) -> None:
        """Wait for output of agents or a signal, and handle the output."""
        for key, _events in self.selector.select(wait):
            if key.data is not None:
                kind, replica = key.data
                self._hear(kind, replica, key.fd)

    def _hear(self, kind: str, replica: Replica, descriptor: int) -> None:
        data = os.read(descriptor, 1 << 20)
        if kind == "e":  # output of SSH itself
            self._show("e", replica, -1, data, is_last=not data)
        else:
            for stream, number, body in replica.read_frames(data):
                if stream == "x":
                    self._ended(replica, number, int(body))
                else:
                    self._show(stream, replica, number, body)
        if not data:
            self.selector.unregister(descriptor)
            if kind == "frames" and len(replica.codes) < replica.number:
                if not replica.has_begun:  # the output in its place may explain why, such as that of nologin(8)
                    self._show("e", replica, -1, replica.frames, is_last=True)
                code = replica.ssh.wait() or 255
                self._fail(code, f"{replica.name} was lost, or could not be reached (exit code {code})")

    def _show(self, stream: str, replica: Replica, number: int, data: bytes, *, is_last: bool = False) -> None:
        name = replica.name if replica.number == 1 or number < 0 else f"{replica.name}.{number}"
        lines = replica.whole_lines(stream, number, data, is_last=is_last)
        text = b"".join(name.encode() + b": " + line + b"\n" for line in lines)
        try:
            _write(1 if stream == "o" else 2, text)
        except BrokenPipeError:
            self._fail(128 + signal.SIGPIPE, "the output is no longer read")

    def _ended(self, replica: Replica, number: int, code: int) -> None:
        for stream in ("o", "e"):
            self._show(stream, replica, number, b"", is_last=True)
        replica.codes[number] = code
        if code:
            what = replica.name if replica.number == 1 else f"process {number} of {replica.name}"
            self._fail(code, f"{what} ended with exit code {code}")
        if all(len(replica.codes) == replica.number for replica in self.replicas):
            for each in self.replicas:
                each.say("0")

    def _fail(self, code: int, why: str) -> None:
        """End all. If several fail, the first counts."""
        if self.failed is not None:
            return
        self.failed = code
        left = [replica for replica in self.replicas if len(replica.codes) < replica.number]
        if not self.end_signals:
            end = "; the others are ended" if left else ""
            with suppress(BrokenPipeError):
                _write(2, f"session-run: {why}{end}.\n".encode())
        self._tell(signal.SIGTERM)

    def _pass_on(self, number: int) -> None:
        """Pass a signal on. A second request to end means at once."""
        self.end_signals += number in ENDING
        self._tell(signal.SIGKILL if self.end_signals > 1 and number in ENDING else number)

    def _tell(self, number: int) -> None:
        for replica in self.replicas:
            replica.say(str(int(number)))
        if number in ENDING and self.kill_at is None:
            # Agents kill what does not end. Agents that did not get the signal are left.
            self.kill_at = time.monotonic() + GRACE + 5

    def _give_up(self) -> None:
        self.kill_at = None
        for replica in self.replicas:
            if replica.ssh.poll() is None:
                replica.ssh.kill()


class Arguments(NamedTuple):
    """The parsed command line. on: as `chosen_replicas` reads it. number: processes in each replica."""

    on: str
    number: int
    command: list[str]


def read_arguments(argv: list[str]) -> Arguments | None:
    """Parse the command line. None if it requests help. Raises Refused."""
    on, number = "all", "1"
    try:
        options, command = getopt.getopt(argv, "+hn:", ["on=", "help"])
    except getopt.GetoptError as error:
        raise Refused(f"{error}.") from None
    for option, value in options:
        if option in ("-h", "--help"):
            return None
        on, number = (value, number) if option == "--on" else (on, value)
    if not (number.isascii() and number.isdigit() and 1 <= int(number) <= MOST_PROCESSES):
        raise Refused(f"-n {number}: It must be a number from 1 to {MOST_PROCESSES}.")
    if not command:
        raise Refused("There is no command.")
    return Arguments(on, int(number), command)


def main(argv: list[str]) -> int:
    """Run as the launcher or an agent. Return the exit code."""
    if len(argv) == 2 and argv[0] == "--agent":
        return Agent(argv[1]).run()
    try:
        given = read_arguments(argv)
        if given is None:
            _write(1, HELP.encode())
            return 0
        own = read_environment(ENVIRONMENT)
        replicas = chosen_replicas(given.on, own["BACKENDAI_CLUSTER_HOSTS"].split(","))
    except (OSError, KeyError, Refused) as error:
        _write(2, f"session-run: {error} See session-run --help.\n".encode())
        return 2
    changed, more = handed_on(own, dict(os.environ))
    request = {"command": given.command, "directory": os.getcwd(), "changed": changed, "more": more}
    ssh = [f"{RUNTIME}/bin/ssh", "-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=15"]
    mark = os.urandom(16).hex()
    agent = [f"{RUNTIME}/bin/session-run", "--agent", mark]
    places = ranks(replicas, given.number, int(own["MASTER_PORT"]))
    starts = {
        name: (agent if name == own["BACKENDAI_CLUSTER_HOST"] else [*ssh, name, "exec " + " ".join(agent)])
        for name in replicas
    }
    return Launcher(mark).run({name: (starts[name], {**request, "places": places[name]}) for name in replicas})


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

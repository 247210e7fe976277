# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run ansible-playbook as children of one process that has imported Ansible and the collection already.

A start of ansible-playbook takes a second of processor time before it does anything: imports, and the compilation of
every file of a collection, which Ansible never keeps. A run from here has its own process with the arguments,
environment, working directory and files that it would have as a command. What it shares with the others of its process
is the seed of hashes: an order of sets is the same in all of them.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

CHECKOUT = Path(__file__).resolve().parents[2]
LATE = ("CLUSTER_COMPUTE_", "PYTEST_CURRENT_TEST")
"""Beginnings of the names of variables that nothing reads while it is imported."""
LIMIT = 1 << 17
"""Bytes of a request."""
COLLECTION = "ansible_collections.cluster_compute.session.plugins"
KINDS = ("action", "callback", "filter")
PACKAGES = ("action", "callback", "connection", "filter", "inventory", "shell", "strategy", "test", "vars")
"""Kinds of Ansible's own plugins that nearly every run loads."""


def steady(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the part of an environment that has to be the same for all runs of one process."""
    return {name: value for name, value in environment.items() if not name.startswith(LATE)}


class Preloaded:
    """A process that has imported everything, for runs in one environment. It ends with the one that made it."""

    def __init__(self, environment: Mapping[str, str], folder: Path = CHECKOUT) -> None:
        own, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.steady = steady(environment)
        # A file of its own: an ssh that was killed may have left a shared one non-blocking, which Ansible refuses.
        self._output = os.fdopen(os.memfd_create("output"), "rb")
        with its:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(its.fileno())],
                cwd=folder,
                env=self.steady,
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
                pass_fds=[its.fileno()],
            )
        self._socket = own
        atexit.register(self.close)

    @property
    def is_there(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    @property
    def number(self) -> int:
        """The number of the process."""
        return self._process.pid

    def close(self) -> None:
        """End the process. What it has started goes on."""
        self._socket.close()
        self._process.wait()
        self._output.close()

    def _complaint(self) -> str:
        """Return what the process itself wrote."""
        return os.pread(self._output.fileno(), LIMIT, 0).decode(errors="replace")

    def run(
        self, argv: Sequence[str], folder: Path, environment: Mapping[str, str], seconds: float
    ) -> subprocess.CompletedProcess[str]:
        """Run ansible-playbook and return how it ended, with all that it wrote as its output.

        The process that starts it kills it when the connection for its answer is closed here first.
        """
        deadline = time.monotonic() + seconds
        reading, writing = os.pipe()
        text: list[str] = []
        reader = threading.Thread(target=_read, args=(reading, text), daemon=True)
        reader.start()
        own, its = socket.socketpair()
        with own:
            with its, open(os.devnull, "rb") as nothing, open(writing, "wb") as output:
                request = {"argv": list(argv), "folder": str(folder), "environment": dict(environment)}
                files = [nothing.fileno(), output.fileno(), output.fileno(), its.fileno()]
                socket.send_fds(self._socket, [json.dumps(request).encode()], files)
            own.settimeout(seconds)
            try:
                code = own.recv(16)
            except TimeoutError as error:
                raise subprocess.TimeoutExpired(argv, seconds) from error
        assert code, f"the process that starts ansible-playbook has ended: {self._complaint()}"
        reader.join(max(0.0, deadline - time.monotonic()))
        if reader.is_alive():  # something that the run has started still has its output open
            raise subprocess.TimeoutExpired(argv, seconds)
        return subprocess.CompletedProcess(list(argv), int(code), "".join(text), None)


def _read(number: int, text: list[str]) -> None:
    """Read a file to its end, in a thread: whoever waits for it may give up."""
    with open(number, encoding="utf-8", errors="replace") as file:
        text.append(file.read())


_lock = threading.Lock()


_processes: list[Preloaded] = []
MOST = 2
"""Processes that are kept, each for one environment: runs that are recorded, and the commands of documents."""


def run(
    argv: Sequence[str], folder: Path, environment: Mapping[str, str], seconds: float
) -> subprocess.CompletedProcess[str]:
    """Run a command of Ansible: ansible-playbook as a child of a process that has imported everything, if that fits."""
    if argv[0] != "ansible-playbook":
        return run_command(argv, folder, environment, seconds)
    with _lock:
        _processes[:] = [process for process in _processes if process.is_there]
        found = next((process for process in _processes if process.steady == steady(environment)), None)
        if found is None and len(_processes) < MOST:
            found = Preloaded(environment)
            _processes.append(found)
    run_it = run_command if found is None else found.run
    return run_it(argv, folder, environment, seconds)


def run_command(
    argv: Sequence[str], folder: Path, environment: Mapping[str, str], seconds: float, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command in a process that imports everything itself, and return all that it wrote as its output."""
    return subprocess.run(
        argv,
        cwd=folder,
        env=environment,
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )


def _preload() -> None:
    """Import what runs need, so that their processes have it."""
    importlib.import_module("ansible.cli.playbook")
    loader = importlib.import_module("ansible.plugins.loader")
    loader.init_plugin_loader()
    for kind in PACKAGES:
        package = importlib.import_module(f"ansible.plugins.{kind}")
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            with contextlib.suppress(ImportError):  # some need what is not installed
                importlib.import_module(module.name)
    importlib.import_module("ansible_collections.ansible.builtin")
    for kind in KINDS:
        for path in sorted((CHECKOUT / "plugins" / kind).glob("[!_]*.py")):
            importlib.import_module(f"{COLLECTION}.{kind}.{path.stem}")
    gc.collect()
    gc.freeze()  # or a child's first collection would copy every page of this


def _serve(requests: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Start a process for each request, report how it ends. Return in such a process alone, with its files."""
    with selectors.DefaultSelector() as waiting:
        waiting.register(requests, selectors.EVENT_READ)
        while True:
            for key, _events in waiting.select():
                if key.data is not None:
                    run, what_to_do = key.data
                    what_to_do(run, waiting)
                    continue
                content, files, _flags, _address = socket.recv_fds(requests, LIMIT, 4)
                if not content:
                    sys.exit()
                child = os.fork()
                if not child:
                    break
                *given, answers = files
                for number in given:
                    os.close(number)
                run = _Run(child, os.pidfd_open(child), socket.socket(fileno=answers))
                waiting.register(run.process, selectors.EVENT_READ, (run, _Run.report))
                waiting.register(run.answer, selectors.EVENT_READ, (run, _Run.kill))
            else:
                continue
            break
        for other in {key.data[0] for key in waiting.get_map().values() if key.data is not None}:
            os.close(other.process)
            other.answer.close()
    requests.close()
    os.close(files[3])
    return json.loads(content), files[:3]


class _Run(NamedTuple):
    """The process of one request: its number, its file (pidfd_open(2)), and the connection to the caller."""

    child: int
    process: int
    answer: socket.socket

    def kill(self, waiting: selectors.BaseSelector) -> None:
        """End a run whose caller has closed the connection: a caller that waits sends nothing."""
        if self.answer.fileno() >= 0:  # or it has just ended as well
            waiting.unregister(self.answer)
            signal.pidfd_send_signal(self.process, signal.SIGKILL)

    def report(self, waiting: selectors.BaseSelector) -> None:
        """Tell how a run ended."""
        waiting.unregister(self.process)
        os.close(self.process)
        code = os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])
        if self.answer in waiting.get_map():
            waiting.unregister(self.answer)
        with self.answer, contextlib.suppress(BrokenPipeError):
            self.answer.send(str(code).encode())


def _become(request: dict[str, Any], files: list[int]) -> NoReturn:
    """Be the run that was asked for."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = [str(Path(sys.executable).with_name("ansible-playbook")), *request["argv"][1:]]
    _renew()
    sys.exit(importlib.import_module("ansible.cli.playbook").main())


def _renew() -> None:
    """Give this run what each run has of its own, though it was made by an import."""
    constants, manager, identifiers, loader = map(
        _module, ("ansible.constants", "ansible.config.manager", "ansible.utils.vars", "ansible.plugins.loader")
    )
    atexit.unregister(manager.cleanup_tmp_file)
    constants.DEFAULT_LOCAL_TMP = constants.config.get_config_value("DEFAULT_LOCAL_TMP", variables=vars(constants))
    identifiers.random_int = os.urandom(4).hex()
    loader._configure_collection_loader = lambda *_arguments: None  # which would warn that this was done before


def _module(name: str) -> Any:
    return importlib.import_module(name)


def main() -> None:
    """Wait for requests on the socket whose number is the argument."""
    # A signal to the whole group, as from a terminal, is for the runs; what removes a lab afterwards is one as well.
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    sys.path[0] = str(Path(sys.executable).parent)  # as in ansible-playbook, and not the folder of this file
    requests = socket.socket(fileno=int(sys.argv[1]))
    _preload()
    given = _serve(requests)
    for number, handler in before.items():
        signal.signal(number, handler)
    _become(*given)


if __name__ == "__main__":
    main()

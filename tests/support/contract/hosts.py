# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""pytest on this machine: make the hosts, run the tests on all of them at once, tell what comes of it, remove them."""

from __future__ import annotations

import io
import json
import os
import queue
import signal
import subprocess
import sys
import tarfile
import threading
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import files
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.lab import processes
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.lab.names import Lab
from ansible_collections.cluster_compute.session.tests.support.lab_lock import LabInUse, only_user

CHECKOUT = Path(__file__).resolve().parents[3]
HERE = CHECKOUT / "tests" / "contract"
LAB = Lab("contract", "/var/lib/cluster-compute-lab/contract")
HOSTS = {generation: (f"{generation}1", f"{generation}2") for generation in ("older", "newer", "newest")}
"""The hosts of each engine generation, which share its files of tests, as they come to them."""
PLACE = "/opt/contract"
"""Where a host has the tests, and what they need besides its own packages."""
SOURCES = ("pyproject.toml", "plugins", "tests/contract", "tests/support")
LIBRARIES = ("pytest", "pluggy", "iniconfig", "packaging", "pygments", "netaddr")
"""Distributions in pure Python, which any Python runs."""
Event = dict[str, Any]
ENDS = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a developer run single tests again and again."""
    parser.addoption("--keep-lab", action="store_true", help="use the hosts if they are up, and leave them up")
    parser.addoption("--host", choices=HOSTS, action="append", help="run the tests on hosts of this generation only")
    parser.addoption(
        "--each-once",
        action="store_true",
        help="run on one generation alone what is not of engines' own ways",
    )


def play(playbook: str, names: Collection[str] = ()) -> None:
    """Run a playbook for these hosts and this machine, without any for all."""
    limit = ["--limit", ",".join(["localhost", *names])] if names else []
    done = subprocess.run(
        ["ansible-playbook", "-i", str(HERE / "inventory"), *limit, playbook],
        cwd=CHECKOUT,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "1",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1800,
        check=False,
    )
    if done.returncode != 0:
        pytest.exit(f"{playbook} failed:\n{done.stdout}", returncode=1)


@contextmanager
def hosts_up(names: Collection[str], keep: bool) -> Iterator[None]:
    """Make these hosts, with engines and images; remove all however the tests end."""

    def stop(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    with ExitStack() as stack:
        try:
            stack.enter_context(only_user(LAB.name))
        except LabInUse as error:
            pytest.exit(str(error), returncode=1)
        try:
            if not keep:
                play("playbooks/lab_down.yml")
            if not (keep and all(map(_is_ready, names))):
                play(str(HERE / "hosts.yml"), names)
            yield
        finally:
            if not keep:
                play("playbooks/lab_down.yml")


def _is_ready(name: str) -> bool:
    """Tell whether a host runs and was given tests before, which is done when all else is there."""
    return processes.running(LAB.host(name)) is not None and Path(f"{LAB.host(name).directory}/upper{PLACE}").is_dir()


def on_host(name: str, *argv: str) -> list[str]:
    """Return the command that runs a program on a host, in all of its namespaces."""
    pid = processes.running(LAB.host(name))
    assert pid is not None, f"the host {name} does not run"
    spaces = ["--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd"]
    path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return ["nsenter", f"--target={pid}", *spaces, "--", "env", "-i", path, "LC_ALL=C.UTF-8", *argv]


def packed() -> bytes:
    """Return the checkout's sources and the libraries as an archive."""
    wanted = {name: CHECKOUT / name for name in SOURCES}
    for library in LIBRARIES:
        for file in files(library) or ():
            if ".." not in file.parts:
                wanted[f"site/{file}"] = Path(str(file.locate()))

    def source_only(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        return None if "__pycache__" in member.name or member.name.endswith("/inventory") else member

    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, path in wanted.items():
            tar.add(path, name, filter=source_only)
        link = tarfile.TarInfo(".collections/ansible_collections/cluster_compute/session")
        link.type, link.linkname = tarfile.SYMTYPE, "../../.."
        tar.addfile(link)
    return archive.getvalue()


def bring(name: str, archive: bytes) -> None:
    """Give a host the tests as they are now."""
    unpack = f"rm -rf {PLACE}; mkdir {PLACE}; exec tar --extract --directory {PLACE} --no-same-owner"
    subprocess.run(on_host(name, "sh", "-c", unpack), input=archive, check=True)


class Run(threading.Thread):
    """pytest on one host; puts what it tells, event by event, into a queue.

    generation: of the host's engine. share: number of it among those that share the tests, empty where each has all.
    """

    def __init__(
        self, generation: str, name: str, argv: list[str], events: queue.Queue[tuple[Run, Event]], share: str
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.generation = generation
        self.events = events
        self.has_finished = False
        receive, send = os.pipe()
        hear, say = os.pipe()
        # Without PYTHONDONTWRITEBYTECODE, as many tests start Pythons that import the collection.
        variables = [f"CLUSTER_COMPUTE_CONTRACT={hear},{send},{share}", f"PYTHONPATH={PLACE}/site"]
        variables += ["PYTEST_DISABLE_PLUGIN_AUTOLOAD=1"]
        python = ["/usr/bin/python3", "-m", "pytest", f"--rootdir={PLACE}"]
        command = on_host(name, *variables, "sh", "-c", f'cd {PLACE} && exec "$@"', "sh", *python, *argv)
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, pass_fds=[hear, send]
        )
        os.close(hear)
        os.close(send)
        self.messages = os.fdopen(receive, encoding="utf-8")
        self.orders = os.fdopen(say, "w", encoding="utf-8")

    def run(self) -> None:
        """Hand on events until pytest has ended, then how it ended."""
        output: list[bytes] = []
        assert self.process.stdout is not None
        reader = threading.Thread(target=lambda stream: output.append(stream.read()), args=(self.process.stdout,))
        reader.start()
        for line in self.messages:
            self.events.put((self, json.loads(line)))
        code = self.process.wait()
        reader.join()
        text = b"".join(output).decode(errors="replace")
        self.events.put((self, {"kind": "end", "code": code, "output": text}))

    def order(self, file: str) -> None:
        """Have it run the tests of a file, or with none end."""
        with suppress(BrokenPipeError):  # that it has ended is told by itself
            print(file, file=self.orders, flush=True)


def own_words(config: pytest.Config) -> list[str]:
    """Return what this pytest was told to select, for the pytest of a host."""
    argv = []
    for argument in config.args:
        path, *rest = argument.split("::")
        argv.append("::".join([str((config.invocation_params.dir / path).resolve().relative_to(CHECKOUT)), *rest]))
    if config.option.keyword:
        argv.append(f"-k={config.option.keyword}")
    if config.option.maxfail:
        argv.append(f"--maxfail={config.option.maxfail}")
    return argv


def pytest_collection(session: pytest.Session) -> bool | None:
    """Leave it to the hosts to collect the tests, unless that is all that is to be done."""
    return None if session.config.option.collectonly else True


def pytest_runtestloop(session: pytest.Session) -> bool:
    """Run the tests on the hosts, side by side, and tell what they say."""
    config = session.config
    if config.option.collectonly:
        return True
    events: queue.Queue[tuple[Run, Event]] = queue.Queue()
    problems = []
    files_left: dict[str, list[str]] = {}
    chosen = {generation: HOSTS[generation] for generation in config.option.host or HOSTS}
    with hosts_up([name for names in chosen.values() for name in names], config.option.keep_lab):
        archive = packed()
        runs = []
        for number, (generation, names) in enumerate(chosen.items()):
            share = f"{number}/{len(chosen)}" if config.option.each_once else ""
            for name in names:
                bring(name, archive)
                runs.append(Run(generation, name, own_words(config), events, share))
        try:
            for run in runs:
                run.start()
            open_ends = len(runs)
            while open_ends:
                run, event = events.get()
                if event["kind"] == "end":
                    open_ends -= 1
                    if event["code"] not in ENDS or not run.has_finished:
                        problems.append(f"pytest on {run.name} ended with {event['code']}:\n{event['output']}")
                elif event["kind"] == "finished":
                    run.has_finished = True
                elif event["kind"] == "collected":
                    if run.generation not in files_left:
                        files_left[run.generation] = event["files"]
                        session.testscollected += event["count"]
                elif event["kind"] == "idle":
                    files = files_left[run.generation]
                    run.order(files.pop(0) if files else "")
                else:
                    tell(session, run.generation, event)
        finally:
            for run in runs:
                run.process.terminate()
                run.process.wait()
    if problems:
        pytest.exit("\n".join(problems), returncode=1)
    if session.testsfailed:
        raise session.Failed(f"{session.testsfailed} tests failed")
    return True


def with_host(test: str, name: str) -> str:
    """Return the name of a test on a host of a generation, as if that were one more parameter of it."""
    return f"{test[:-1]}-{name}]" if test.endswith("]") else f"{test}[{name}]"


def tell(session: pytest.Session, name: str, event: Event) -> None:
    """Pass an event of a host of a generation on to this pytest's own plugins."""
    hook = session.config.hook
    if event["kind"] == "start":
        hook.pytest_runtest_logstart(nodeid=with_host(event["nodeid"], name), location=tuple(event["location"]))
    else:
        report = hook.pytest_report_from_serializable(config=session.config, data=event["report"])
        report.nodeid = with_host(report.nodeid, name)
        if event["kind"] == "collect":
            hook.pytest_collectreport(report=report)
        else:
            file, line, test = report.location
            report.location = (file, line, with_host(test, name))
            hook.pytest_runtest_logreport(report=report)

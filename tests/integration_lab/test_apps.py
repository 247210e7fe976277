# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Apps as their owner uses them: one playbook, one line of ssh, one address in a real browser; and strangers.

The machine around the lab is the owner's. A notebook runs a cell, a terminal is typed into. Other sessions, hosts of
the lab, and who has another token get nothing.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.tests.support.browser.chromium import browser
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    ADDRESSES,
    BUSYBOX,
    CHECKOUT,
    HOSTS,
    Run,
    clear,
    in_parallel,
    launch,
    own_playbook,
    play,
    replicas,
    script,
    ssh_options,
    try_on,
)
from selenium.common.exceptions import WebDriverException
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By

__all__ = ["browser"]

BASE, NOTEBOOK = "cluster-compute/notebook:base", "cluster-compute/notebook:test"
RELEASE = "notebook==7.6.5"
FOLDER = "/home/ada/work"
CELL = "import subprocess\nprint(len(subprocess.check_output(['session-run', 'hostname']).splitlines()), 'replicas')"
SIZE = 2


@dataclass(frozen=True)
class Opened:
    """An app that was opened. command, url: the two lines of the owner's file. run: the playbook's."""

    command: str
    url: str
    run: Run

    @property
    def port(self) -> int:
        """The port at either end."""
        return int(self.url.split(":")[2].partition("/")[0])

    @property
    def token(self) -> str:
        """The app's token."""
        return self.url.partition("token=")[2]


@dataclass(frozen=True)
class Owner:
    """Somebody with a key, a folder for what SSH has to know, and sessions of their own."""

    folder: Path

    def variables(self, app: str, session: str = "lab-book") -> dict[str, Any]:
        """Return the variables of open_app."""
        return {
            "session_name": session,
            "app": app,
            "app_directory": FOLDER,
            "login_directory": str(self.folder / session),
            "login_identity_file": str(self.folder / "owner"),
        }

    def open(self, app: str, *options: str) -> Opened:
        """Open an app, as the playbook does."""
        run = play("open_app", self.variables(app), *options).ok()
        line, url = (self.folder / f"lab-book/app-{app}").read_text(encoding="utf-8").splitlines()
        return Opened(line, url, run)


def until(look: Callable[[], Any], seconds: float = 30) -> Any:
    """Return what *look* does once that is true; what it is at last where it never is."""
    deadline = time.monotonic() + seconds
    while not (found := look()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def answers(port: int) -> bool:
    """Tell whether somebody listens on this machine."""
    with socket.socket() as tried:
        tried.settimeout(1)
        return tried.connect_ex(("127.0.0.1", port)) == 0


def status(url: str) -> int:
    """Return the status of what a server answers, redirections followed."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


@contextmanager
def tunnel(opened: Opened) -> Iterator[None]:
    """Run the line that the owner was given, for as long as the block takes."""
    line = subprocess.Popen(shlex.split(opened.command), stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        assert until(lambda: answers(opened.port)), "the line does not bring the port"
        yield
    finally:
        os.killpg(line.pid, signal.SIGTERM)
        line.wait(timeout=10)


def add_notebook() -> None:
    """Put Jupyter Notebook, for the Python of Debian 12, into the image of the session's host."""
    folder = CHECKOUT / ".cache" / "integration" / RELEASE
    if not folder.exists():
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        wheels = [f"--platform={kind}_{os.uname().machine}" for kind in ("manylinux2014", "manylinux_2_28")]
        target = ["--target", str(partial), "--python-version=3.11", "--only-binary=:all:", "--no-compile", *wheels]
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *target, RELEASE], check=True)
        partial.rename(folder)
    add = f"docker create --name made {BASE}; docker cp - made:/opt; docker commit made {NOTEBOOK}; docker rm made"
    with subprocess.Popen(
        ["tar", "-C", str(folder.parent), "--transform", f"s,^{RELEASE},jupyter,", "-c", RELEASE],
        stdout=subprocess.PIPE,
    ) as packed:
        argv = ["ssh", *ssh_options(), f"root@{ADDRESSES['n1']}", f"set -e; {add}"]
        subprocess.run(argv, stdin=packed.stdout, stdout=subprocess.DEVNULL, check=True, timeout=900)


@pytest.fixture(scope="module")
def owner(untouched_lab: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Owner]:
    """Launch a session of two with a notebook in main1, and one of a stranger on the same host."""
    folder = tmp_path_factory.mktemp("owner")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "owner")], check=True)
    common = {"session_cpus": "0.2", "session_memory": "64m"}
    book = {
        **common,
        "session_name": "lab-book",
        "session_image": NOTEBOOK,
        "session_roles": [{"name": "main", "memory": "768m"}, {"name": "sub", "replicas": SIZE - 1}],
        "session_hosts": ["n1"],
        "session_authorized_keys": (folder / "owner.pub").read_text(encoding="utf-8"),
    }
    other = {
        **common,
        "session_name": "stranger",
        "session_image": BUSYBOX,
        "session_hosts": ["n1"],
        "session_size": 2,
        "session_command": ["sleep", "8888"],
    }
    try:
        play(own_playbook("notebook_image"), seconds=600).ok()
        add_notebook()
        in_parallel(lambda request: launch(request).ok(), [book, other])
        main = replicas("lab-book")["main1"]
        cell: dict[str, Any] = {
            "cell_type": "code",
            "source": CELL,
            "metadata": {},
            "outputs": [],
            "execution_count": None,
        }
        kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
        notebook = {"cells": [cell], "metadata": kernel, "nbformat": 4, "nbformat_minor": 4}
        keep = f"mkdir {FOLDER}; cat >{FOLDER}/count.ipynb"
        main.run("sh", "-ec", keep, stdin=json.dumps(notebook))
        yield Owner(folder)
    finally:
        clear("lab-book", "stranger")
        try_on("n1", ["docker", "rmi", "-f", NOTEBOOK, BASE])


def listens_in_main1(port: int) -> bool:
    """Tell whether somebody listens on main1's own address."""
    look = "import socket, sys; sys.exit(socket.socket().connect_ex(('127.0.0.1', int(sys.argv[1]))) != 0)"
    return run_on_replica("lab-book", "python3", "-c", look, str(port)).returncode == 0


@pytest.fixture(scope="module")
def notebook(owner: Owner) -> Opened:
    """Open the notebook."""
    return owner.open("jupyter")


def run_on_replica(session: str, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run a program in main1 of a session, and return how it ended."""
    done: subprocess.CompletedProcess[str] = replicas(session)["main1"].attempt(*argv)
    return done


def has_kernel(opened: Opened) -> bool:
    """Tell whether the page that is shown has a kernel that waits for work."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://127.0.0.1:{opened.port}/api/kernels?token={opened.token}", timeout=10) as answer:
            kernels = json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code == 500:  # Jupyter's list fails on a kernel that is being started and has no state yet
            return False
        raise
    return any(kernel["connections"] and kernel["execution_state"] == "idle" for kernel in kernels)


def run_cell(browser: Chrome) -> bool:
    """Run the cell of the notebook that is shown as its user does; return whether the page lets it."""
    try:
        browser.find_element(By.CSS_SELECTOR, ".jp-CodeCell .cm-content").click()
    except WebDriverException:  # what the page shows while it is made
        return False
    ActionChains(browser).key_down(Keys.SHIFT).send_keys(Keys.ENTER).key_up(Keys.SHIFT).perform()
    return True


def printed(browser: Chrome) -> str:
    """Return what the cells of the notebook have printed."""
    return "".join(cell.text for cell in browser.find_elements(By.CSS_SELECTOR, ".jp-OutputArea-output pre")).strip()


class TestOwner:
    """What the owner does."""

    def test_a_cell_of_a_notebook_counts_the_replicas(self, notebook: Opened, browser: Chrome) -> None:
        with tunnel(notebook):
            browser.get(notebook.url)
            assert until(lambda: "count.ipynb" in browser.page_source, 60), browser.page_source
            browser.get(f"http://127.0.0.1:{notebook.port}/notebooks/count.ipynb")
            # A kernel that has not begun yet does not take what is run, and the page says nothing of it.
            assert until(lambda: has_kernel(notebook), 90)
            assert until(lambda: run_cell(browser) and until(lambda: printed(browser)), 90) == f"{SIZE} replicas"

    def test_a_terminal_reaches_another_replica(self, owner: Owner, browser: Chrome) -> None:
        opened = owner.open("terminal")
        main = replicas("lab-book")["main1"]

        def typed() -> str:
            ActionChains(browser).send_keys("ssh sub1 hostname | tee seen", Keys.ENTER).perform()
            return str(until(lambda: main.attempt("cat", f"{FOLDER}/seen").stdout, 5))

        with tunnel(opened):
            browser.get(opened.url)
            assert until(lambda: browser.find_elements(By.CSS_SELECTOR, ".xterm-helper-textarea"), 60)
            assert until(typed) == "sub1\n"
        closed = play("close_app", {"session_name": "lab-book", "app": "terminal"}).ok()
        assert closed.changed_hosts == {"n1"}
        assert not listens_in_main1(opened.port)

    def test_coming_back_finds_the_same_app_and_its_token_is_shown_nowhere(
        self, owner: Owner, notebook: Opened
    ) -> None:
        again = owner.open("jupyter", "-vvvv", "--diff")
        run = again.run
        assert (again.url, again.command, run.changed_hosts) == (notebook.url, notebook.command, set())
        shown = run_on_replica("lab-book", "cat", "/etc/cluster-compute/apps/jupyter/url").stdout
        assert shown.strip() == notebook.url
        path = owner.folder / "lab-book/app-jupyter"
        assert path.stat().st_mode & 0o777 == 0o600
        assert str(path) in run.output
        assert f"http://127.0.0.1:{notebook.port}/tree" in run.output
        listed = [script(host, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '") for host in HOSTS]
        assert "-m notebook --no-browser" in listed[0]
        own = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        described = json.dumps([replica.inspected for replica in replicas("lab-book").values()])
        written = script(
            "n1", "docker logs lab-book-main1 2>&1; cat /var/log/syslog /var/log/docker* 2>/dev/null || true"
        )
        texts = [run.output, json.dumps(run.results), json.dumps(notebook.run.results), notebook.run.output]
        for place in [*texts, *listed, own, described, written]:
            assert notebook.token not in place


class TestStrangers:
    """Who gets nothing."""

    def test_who_has_another_token(self, notebook: Opened) -> None:
        with tunnel(notebook):
            base = f"http://127.0.0.1:{notebook.port}"
            for path in ("/api/contents", "/api/terminals", "/api/kernels"):
                assert status(f"{base}{path}?token={notebook.token}") == 200
                for wrong in (f"?token={'0' * len(notebook.token)}", "?token=", ""):
                    assert status(f"{base}{path}{wrong}") == 403, path + wrong

    def test_another_session_and_the_hosts(self, owner: Owner, notebook: Opened) -> None:
        main = replicas("lab-book")["main1"]
        targets = [network["IPAddress"] for network in main.networks.values()] + [ADDRESSES["n1"], "127.0.0.1"]
        assert len(targets) >= 3
        for target in targets:
            tried = run_on_replica("stranger", "nc", "-w", "2", target, str(notebook.port), "-e", "true")
            assert tried.returncode != 0, target
            for host in HOSTS:
                code = f"import socket; socket.create_connection(({target!r}, {notebook.port}), 2)"
                assert try_on(host, ["python3", "-c", code]).returncode != 0, (host, target)
        assert listens_in_main1(notebook.port)

    def test_who_has_another_key(self, owner: Owner, notebook: Opened) -> None:
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(owner.folder / "stranger")], check=True
        )
        config = (owner.folder / "lab-book/config").read_text(encoding="utf-8")
        theirs = owner.folder / "theirs"
        theirs.write_text(config.replace(str(owner.folder / "owner"), str(owner.folder / "stranger")), encoding="utf-8")
        line = notebook.command.replace(str(owner.folder / "lab-book/config"), str(theirs))
        refused = subprocess.run(
            [*shlex.split(line), "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert refused.returncode == 255
        assert "Permission denied" in refused.stderr


class TestRefusals:
    """What is refused, and that nothing was touched then."""

    def test_an_app_that_nobody_knows(self, owner: Owner) -> None:
        run = play("open_app", owner.variables("jupiter"))
        assert "There is no such app. Did you mean jupyter?" in run.failures
        assert not set(run.recap) & set(HOSTS)

    def test_an_image_without_the_program(self, owner: Owner) -> None:
        run = play("open_app", owner.variables("vscode"))
        assert "Looked for: code-server, openvscode-server." in run.failures
        assert run.changed_hosts == set()
        assert not (owner.folder / "lab-book/app-vscode").exists()

    def test_a_session_without_a_way_in(self, owner: Owner) -> None:
        run = play("open_app", owner.variables("jupyter", "stranger"))
        assert "launched without session_authorized_keys" in run.failures
        assert run.changed_hosts == set()


def test_the_teardown_ends_it(owner: Owner, notebook: Opened) -> None:
    clear("lab-book")
    assert not script("n1", "pgrep -f '[-]m notebook' || true")
    tried = subprocess.run(shlex.split(notebook.command), capture_output=True, text=True, timeout=30, check=False)
    assert tried.returncode == 255

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual machines for tests, with the kernel and systemd of their distribution: machines.py up|test|down [TESTS...]

up: builds the machines of inventories/machines if they are missing, boots them, prepares them for sessions and saves
them. Later it begins from what was saved. test: runs the tests of machines, or only those that are named, and notes in
tests/machines.json what passed and when, of which a table of docs/support_matrix.md is made. down: removes them with
all that is theirs. All of it is in .cache/machines.
"""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / ".collections"))

from ansible_collections.cluster_compute.session.tests.support.lab_lock import only_user  # noqa: E402
from ansible_collections.cluster_compute.session.tests.support.machines import disks  # noqa: E402
from ansible_collections.cluster_compute.session.tests.support.machines import machine as vm  # noqa: E402

RESULTS = Path("tests/machines.json")
PASSED = "passed"
OWN = "tests/machines/test_*.py"
OF_LABS = ("tests/integration_lab/test_multi_node.py", "tests/integration_lab/test_encryption.py")


def main() -> int:
    """Do what the command line asks for."""
    chosen, *tests = sys.argv[1:] or [""]
    commands = {"up": up, "test": lambda: test(tests), "down": down}
    if chosen not in commands or (tests and chosen != "test"):
        sys.stderr.write(f"{__doc__}\n")
        return 2
    if os.geteuid() != 0:
        sys.stderr.write("Machines need a bridge and disks of their own, which only root can make; run this as root.\n")
        return 1
    return commands[chosen]()


def up() -> int:
    """Bring up the machines, ready for sessions."""
    machines = vm.machines()
    with only_user(vm.LAB.name):
        if not all(machine.disk.exists() and vm.PREPARED in machine.saved() for machine in machines):
            _make(machines)
        vm.create_network()
        vm.reset(machines)
    _say("ready")
    return 0


def test(chosen: Sequence[str]) -> int:
    """Run the tests of machines, and those of labs that say more here; note after each how it ended."""
    path = ROOT / RESULTS
    noted = json.loads(path.read_text(encoding="utf-8")) if chosen and path.exists() else {"scenarios": {}}
    machines = vm.machines()
    noted["machines"] = {machine.name: {"release": machine.release, **_versions(machine)} for machine in machines}
    everything = [*sorted(str(found.relative_to(ROOT)) for found in ROOT.glob(OWN)), *OF_LABS]
    os.chdir(ROOT)
    os.environ["CLUSTER_COMPUTE_TEST_MACHINES"] = "1"
    results, codes = Results(path, noted), []
    for tests in chosen or everything:
        vm.reset(machines)
        codes.append(pytest.main(["-v", "--durations=0", "-o", "faulthandler_timeout=3600", tests], plugins=[results]))
    subprocess.run([sys.executable, "tools/make_reference.py"], cwd=ROOT, check=True)
    return int(any(codes) or results.ended != {PASSED})


class Results:
    """A plugin of pytest that notes each test as soon as it has ended, so that a run that is stopped keeps them."""

    def __init__(self, path: Path, noted: dict[str, Any]) -> None:
        self.path, self.noted = path, noted
        self.ended: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how a test ended: by its call, unless what comes before or after it went wrong."""
        if report.passed and report.when != "call":
            return
        ended = PASSED if report.passed else "failed"
        self.ended.add(ended)
        file, _colons, name = report.nodeid.partition("::")
        scenario = f"{file.removesuffix('.py').replace('/', '.')}::{name}"
        self.noted["scenarios"][scenario] = {"ended": ended, "date": datetime.date.today().isoformat()}
        self.path.write_text(json.dumps(self.noted, indent=2) + "\n", encoding="utf-8")


def _versions(machine: vm.Machine) -> dict[str, str]:
    """Return what a machine runs."""
    engine = "docker version -f '{{.Server.Version}}'; docker info -f '{{.Driver}}'"
    done = machine.ssh(f"uname -r; {engine}; stat -fc %T /sys/fs/cgroup; systemctl --version | head -n 1")
    kernel, version, store, cgroup, systemd = done.stdout.splitlines()
    names = {"kernel": kernel, "engine": version, "store": store}
    return {**names, "cgroup": "2" if cgroup == "cgroup2fs" else "1", "systemd": systemd.split()[1]}


def _make(machines: tuple[vm.Machine, ...]) -> None:
    """Build, boot, prepare and save the machines, from where an earlier run stopped; all are saved together."""
    vm.FOLDER.mkdir(parents=True, exist_ok=True)
    missing = [machine for machine in machines if not machine.disk.exists()]
    images = _images() if missing else ()
    vm.make_keys()
    for machine in missing:
        _say(f"{machine.name}: Debian {machine.release}")
        machine.create(disks.release(machine.release, vm.FOLDER / "releases"), images)
    vm.know(machines)
    vm.create_network()
    for machine in machines:
        machine.start()
    for machine in machines:
        machine.await_ssh()
        machine.set_clock()
    _say("all machines let us log in")
    for playbook in ("playbooks/prepare_hosts.yml", "playbooks/lab_images.yml", "tests/machines/playbooks/shared.yml"):
        _play(playbook)
    for machine in machines:
        machine.save(vm.PREPARED)


def down() -> int:
    """Remove the machines."""
    with only_user(vm.LAB.name):
        for machine in vm.machines():
            machine.remove()
        vm.remove_network()
        subprocess.run(["rm", "-rf", str(vm.FOLDER)], check=True)
    return 0


def _images() -> tuple[Path, ...]:
    """Build the images of the demo session, and return their archives."""
    _play("tests/machines/playbooks/images.yml")
    return tuple(Path(path) for path in json.loads((vm.FOLDER / "images.json").read_text(encoding="utf-8")))


def _play(playbook: str) -> None:
    own = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
    argv = ["ansible-playbook", "-i", str(vm.INVENTORY), playbook]
    subprocess.run(argv, cwd=ROOT, env={**os.environ, **own}, check=True)


BEGAN = time.monotonic()


def _say(text: str) -> None:
    sys.stdout.write(f"{time.monotonic() - BEGAN:5.0f} s  {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

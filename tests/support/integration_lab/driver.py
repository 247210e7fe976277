# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Drive the lab as a user does: ansible-playbook on the controller, SSH to a host, docker exec into a replica."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.arguments import ARGUMENTS
from ansible_collections.cluster_compute.session.tests.support import preloaded
from ansible_collections.cluster_compute.session.tests.support.deprecations import SHOWN, deprecations

CALLING = {"session_step", *ARGUMENTS}
"""Actions that call a host."""
CHECKOUT = Path(__file__).resolve().parents[3]
HERE = CHECKOUT / "tests" / "integration_lab"
ON_MACHINES = "CLUSTER_COMPUTE_TEST_MACHINES" in os.environ
"""Whether the hosts are virtual machines (tests/machines) and not those of a lab."""
PATIENCE = 6 if ON_MACHINES else 1
"""How many times as long everything may take: the machines' processors are emulated."""
STATE = "/var/lib/cluster-compute"
DEMO = "cluster-compute/demo:latest"
BUSYBOX = "cluster-compute/busybox:latest"
ON_EACH: dict[str, Any] = {
    "session_image": BUSYBOX,
    "session_size": 3,
    "session_max_replicas_per_host": 1,
    "session_memory": "64m",
    "session_command": "sleep 8888",
}
"""A request for a small replica on each host, which only waits."""


def _own_inventory() -> Path:
    """Return the inventory of this process's lab: each worker of pytest-xdist has a lab of its own."""
    if ON_MACHINES:
        return CHECKOUT / "inventories" / "machines"
    inventory = HERE / "inventory"
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    if number == 0:
        return inventory
    other = CHECKOUT / ".cache" / "integration" / f"inventory{number}"
    for path in inventory.rglob("*.yml"):
        target = other / path.relative_to(inventory)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text(encoding="utf-8")
        text = text.replace("10.211.", f"10.{209 - number}.").replace("lab_name: it", f"lab_name: it{number}")
        target.write_text(text, encoding="utf-8")
    sessions = (HERE / "inventory.sessions.yml").read_text(encoding="utf-8")
    other.with_name(f"{other.name}.sessions.yml").write_text(
        sessions.replace("[inventory]", f"[{other.name}]"), encoding="utf-8"
    )
    return other


INVENTORY = _own_inventory()
REPLICAS = INVENTORY.with_name(f"{INVENTORY.name}.sessions.yml")
"""The inventory that lists the replicas of the lab's sessions."""
_SITE = yaml.safe_load((INVENTORY / "group_vars" / "all.yml").read_text(encoding="utf-8"))
_GROUPS = yaml.safe_load((INVENTORY / "hosts.yml").read_text(encoding="utf-8"))["all"]["children"]
LAB = str(_SITE["lab_name"])
NETWORK = str(_SITE["lab_subnet"]).rsplit(".", 2)[0]
"""The first two bytes of the lab's addresses; other labs of the tests are beside it."""
DIRECTORY = CHECKOUT / ".cache" / "machines" if ON_MACHINES else Path("/var/lib/cluster-compute-lab") / LAB
ADDRESSES = {str(name): str(variables["ansible_host"]) for name, variables in _GROUPS["lab"]["hosts"].items()}
HOSTS = tuple(ADDRESSES)
assert HOSTS == ("n1", "n2", "n3")

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Run:
    """What one ansible-playbook did.

    results: one dict a task and host. recap: counters by host. artifacts: what it handed on with set_stats.
    """

    code: int
    output: str
    tasks: list[str] = field(default_factory=list)
    results: list[dict[str, Any]] = field(default_factory=list)
    recap: dict[str, dict[str, int]] = field(default_factory=dict)
    artifacts: dict[str, Any] = field(default_factory=dict)

    def ok(self) -> Run:
        """Return the run itself; raises AssertionError unless it succeeded everywhere."""
        assert self.code == 0, self.output
        return self

    @property
    def changed(self) -> dict[str, int]:
        """Number of changed tasks by host."""
        return {host: counters["changed"] for host, counters in self.recap.items()}

    @property
    def changed_hosts(self) -> set[str]:
        """Hosts on which something changed."""
        return {host for host, count in self.changed.items() if count}

    @property
    def failures(self) -> str:
        """All messages of failed tasks."""
        return "\n".join(str(result["values"].get("msg")) for result in self.results if result["outcome"] == "failed")

    def of(self, task: str) -> list[dict[str, Any]]:
        """Return the results of a task, by the end of its name."""
        return [result for result in self.results if result["task"].endswith(task)]

    def calls(self) -> dict[str, list[str]]:
        """Return the tasks in which each host of the lab was called; what the controller decides calls nobody."""
        found: dict[str, list[str]] = {}
        for result in self.results:
            if result["host"] in HOSTS and result["action"].rpartition(".")[2] in CALLING:
                found.setdefault(result["host"], []).append(result["task"].rpartition(" : ")[2])
        return found

    def actions(self) -> dict[str, list[str]]:
        """Return what the module that converges or removes did (or would do) on each host."""
        found: dict[str, list[str]] = {}
        for result in self.results:
            found.setdefault(result["host"], []).extend(result["values"].get("actions") or [])
        return {host: actions for host, actions in found.items() if actions}

    def differences(self) -> str:
        """Return all diffs as text."""
        return json.dumps([result["values"]["diff"] for result in self.results if result["values"].get("diff")])

    @property
    def said(self) -> list[str]:
        """The lines that end a launch: what was decided, then the table, or why the session waits."""
        return [
            line
            for result in self.of("Say what runs where, or why it waits")
            for line in result["values"].get("msg", ())
        ]

    @property
    def table(self) -> dict[str, dict[str, str]]:
        """The table at the end of a launch: replica to its row."""
        begins = [number for number, line in enumerate(self.said) if line.startswith("REPLICA ")]
        if not begins:
            return {}
        head, *lines = self.said[begins[0] :]
        rows = [dict(zip(head.lower().split(), line.split())) for line in lines if not line.startswith("Log in")]
        return {row["replica"]: row for row in rows}

    @property
    def placed(self) -> dict[str, str]:
        """Replica to host, from the table."""
        return {name: row["host"] for name, row in self.table.items()}


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a command of the checkout's own tools and settings."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    own = {"PATH": path, "ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    # Tests read what Ansible itself says of tasks and hosts; those of the documents see what a user sees.
    own["ANSIBLE_STDOUT_CALLBACK"] = "ansible.builtin.default"
    # Into a pipe Ansible writes in blocks otherwise, and a line that is shown as it comes would come with the last.
    return {**os.environ, **own, "PYTHONUNBUFFERED": "1", **more}


def run_here(*argv: str, stdin: str = "", seconds: float = 600, variables: Mapping[str, str] | None = None) -> str:
    """Run a program of this machine in the checkout, and return all that it prints; it has to succeed.

    variables: of its environment.
    """
    done = preloaded.run_command(argv, CHECKOUT, environment(**(variables or {})), seconds, stdin)
    assert done.returncode == 0, f"{shlex.join(argv)}\n{done.stdout}"
    return done.stdout


def listed_inventory() -> Any:
    """Return the inventory of the lab as Ansible lists it."""
    argv = ["ansible-inventory", "-i", str(INVENTORY), "--list"]
    # Its warnings are no part of the answer.
    done = subprocess.run(argv, cwd=CHECKOUT, env=environment(), stdout=subprocess.PIPE, check=True, timeout=600)
    return json.loads(done.stdout)


def command(
    playbook: str, variables: Path, *options: str, inventory: Path | None = None, overlay: Path | None = None
) -> list[str]:
    """Return the argument list of one ansible-playbook."""
    inventories = [str(inventory or INVENTORY)] + ([str(overlay)] if overlay else [])
    argv = ["ansible-playbook", *(word for inventory in inventories for word in ("-i", inventory))]
    return [*argv, str(CHECKOUT / "playbooks" / f"{playbook}.yml"), "-e", f"@{variables}", *options]


def play(
    playbook: str,
    variables: Mapping[str, Any] | None = None,
    *options: str,
    hosts: Mapping[str, Mapping[str, Any]] | None = None,
    inventory: Path | None = None,
    seconds: float = 300,
) -> Run:
    """Run a playbook of the collection; *hosts* sets inventory variables of single hosts for this run."""
    with tempfile.TemporaryDirectory(prefix="cluster-compute-it-") as folder:
        given, overlay = (Path(folder) / name for name in ("variables.json", "overlay.json"))
        given.write_text(json.dumps(variables or {}), encoding="utf-8")
        if hosts:
            overlay.write_text(json.dumps({"all": {"hosts": hosts}}), encoding="utf-8")
        argv = command(playbook, given, *options, inventory=inventory, overlay=overlay if hosts else None)
        return recorded(argv, seconds)


def recorded(argv: list[str], seconds: float = 300) -> Run:
    """Run a command of Ansible and return what it did."""
    with tempfile.TemporaryDirectory(prefix="cluster-compute-it-") as folder:
        record = Path(folder) / "record"
        record.touch()
        given = environment(
            **SHOWN,
            ANSIBLE_CALLBACK_PLUGINS=str(HERE / "callback"),
            ANSIBLE_CALLBACKS_ENABLED="recorder",
            ANSIBLE_LOAD_CALLBACK_PLUGINS="true",
            CLUSTER_COMPUTE_TEST_RECORD=str(record),
        )
        done = preloaded.run(argv, CHECKOUT, given, seconds * PATIENCE)
        run = Run(done.returncode, _COLOUR.sub("", done.stdout))
        assert deprecations(run.output) == []
        for line in record.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            kind = entry.pop("kind")
            if kind == "task":
                run.tasks.append(entry["task"])
            elif kind == "result":
                run.results.append(entry)
            elif kind == "artifacts":
                run.artifacts = entry["values"]
            else:
                run.recap[entry.pop("host")] = entry
        return run


def launch(variables: Mapping[str, Any], *options: str, **more: Any) -> Run:
    """Run launch_cluster."""
    return play("launch_cluster", variables, *options, **more)


def kill_a_launch(
    request: Mapping[str, Any], moments: Mapping[str, str], folder: Path, *, let_modules_end: bool = False
) -> None:
    """Start a launch; once each of *moments*, a shell command by host, succeeds, kill it and what it does there.

    let_modules_end: what runs on the hosts at that moment is not killed with the controller.
    """
    with _launching(request, moments, folder, signal.SIGKILL):
        pass
    end = "" if let_modules_end else "pkill -KILL -x python3 || true; "
    for host in HOSTS:
        script(host, f"{end}while pgrep -x python3 >/dev/null; do sleep 0.1; done")


def interrupt_a_launch(
    request: Mapping[str, Any], moments: Mapping[str, str], folder: Path, number: signal.Signals
) -> tuple[int, str]:
    """Start a launch; once each of *moments* succeeds, interrupt it alone. Return its exit code and what it printed."""
    with _launching(request, moments, folder, number) as started:
        started.wait(timeout=120)
    return started.returncode, (folder / "output").read_text(encoding="utf-8")


@contextmanager
def _launching(
    request: Mapping[str, Any], moments: Mapping[str, str], folder: Path, number: signal.Signals
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a launch, and end it by a signal at some moment; nothing of it is left at the end."""
    variables = folder / "variables.json"
    variables.write_text(json.dumps(request), encoding="utf-8")
    with (folder / "output").open("wb") as output:
        started = subprocess.Popen(
            command("launch_cluster", variables),
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + 120
        for host, moment in moments.items():
            while try_on(host, ["sh", "-c", moment]).returncode != 0:
                assert started.poll() is None, "the launch ended before it could be killed"
                assert time.monotonic() < deadline
        started.send_signal(number)
        yield started
    finally:
        with suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()


WRONG_CLOCK = "/usr/lib/python3/dist-packages/cc_wrong_clock.pth"
"""Read by every Python of a host when it starts, also by one that is isolated from its user (site, "path files")."""


def wrong_clock(seconds: int) -> str:
    """Return what makes Python take the time for *seconds* later."""
    return f"import time; time.time = (lambda right: lambda: right() + {seconds})(time.time)\n"


@contextmanager
def clock_ahead(host: str, seconds: int) -> Iterator[None]:
    """Have the programs of a host be told a time that is *seconds* late; all hosts of a lab share one clock."""
    path = WRONG_CLOCK
    on(host, "tee", path, stdin=wrong_clock(seconds))
    try:
        clock = float(on(host, "python3", "-c", "import time; print(time.time())"))
        assert clock > time.time() + 0.9 * seconds
        yield
    finally:
        on(host, "rm", path)


def teardown(name: str, *options: str, **more: Any) -> Run:
    """Run teardown_cluster."""
    return play("teardown_cluster", {"session_name": name}, *options, **more)


def own_playbook(name: str) -> str:
    """Return the name for `play` of a playbook that belongs to the tests."""
    return f"../{HERE.relative_to(CHECKOUT)}/playbooks/{name}"


def clear(*names: str, group: str = "cluster_compute_hosts") -> None:
    """Tear down, in one run for a group, those of *names* of which a host still has a record or a container."""
    look = f'cat {STATE}/sessions/*/record.json 2>/dev/null || true; docker ps -a --format \'"name":"{{{{.Names}}}}\''
    known = "".join(in_parallel(lambda host: script(host, look), HOSTS))
    left = [name for name in names if f'"name":"{name}"' in known or f'"name":"{name}-' in known]
    if left:
        play(own_playbook("clear"), {"names": left, "session_resource_group": group}).ok()


def forget_packs() -> None:
    """Remove the parts of working directories that hosts keep for a day, for tests that compare hosts."""
    in_parallel(lambda host: script(host, f"rm -rf {STATE}/packs"), HOSTS)


def ssh_options() -> list[str]:
    """Return ssh's options for the hosts of the lab; connections are kept for the next command."""
    return [
        *("-i", str(DIRECTORY / "ssh/id_ed25519"), "-o", f"UserKnownHostsFile={DIRECTORY}/ssh/known_hosts"),
        *("-o", "StrictHostKeyChecking=yes", "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes"),
        *("-o", "ConnectTimeout=10", "-o", "ControlMaster=auto", "-o", "ControlPersist=20"),
        *("-o", f"ControlPath={tempfile.gettempdir()}/cluster-compute-{LAB}-%C", "-o", "LogLevel=ERROR"),
    ]


def try_on(
    host: str, argv: Iterable[str], stdin: str | None = None, seconds: float = 60, options: Iterable[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a program on a host of the lab as root, over its SSH, and return how it ended."""
    return subprocess.run(
        ["ssh", *options, *ssh_options(), f"root@{ADDRESSES[host]}", shlex.join(argv)],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=seconds * PATIENCE,
        check=False,
    )


def on(host: str, *argv: str, stdin: str | None = None, seconds: float = 60) -> str:
    """Run a program on a host of the lab and return its output; it has to succeed."""
    done = try_on(host, argv, stdin, seconds)
    assert done.returncode == 0, f"{shlex.join(argv)} on {host}: {done.stdout}{done.stderr}"
    return done.stdout


def script(host: str, text: str) -> str:
    """Run a shell script on a host of the lab and return its output; it has to succeed."""
    return on(host, "sh", "-eu", stdin=text)


@dataclass(frozen=True)
class Replica:
    """One container of a session, as its engine describes it."""

    name: str
    host: str
    container: str
    inspected: dict[str, Any]

    def attempt(self, *argv: str, stdin: str | None = None, user: str = "", seconds: float = 60) -> Any:
        """Run a program in the replica and return how it ended."""
        chosen = ["--user", user] if user else []
        return try_on(self.host, ["docker", "exec", "-i", *chosen, self.container, *argv], stdin or "", seconds)

    def run(self, *argv: str, stdin: str | None = None, user: str = "", seconds: float = 60) -> str:
        """Run a program in the replica and return its output; it has to succeed."""
        done = self.attempt(*argv, stdin=stdin, user=user, seconds=seconds)
        assert done.returncode == 0, f"{shlex.join(argv)} in {self.name}: {done.stdout}{done.stderr}"
        return str(done.stdout)

    def environment(self) -> dict[str, str]:
        """Return the environment of the replica's first process."""
        return parse_environment(self.run("cat", "/proc/1/environ"))

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the container."""
        return dict(self.inspected["Config"]["Labels"])

    @property
    def networks(self) -> dict[str, dict[str, Any]]:
        """The networks the container is on."""
        return dict(self.inspected["NetworkSettings"]["Networks"])

    @property
    def files(self) -> str:
        """The folder on the host that the replica sees at /etc/cluster-compute."""
        found = [
            mount["Source"] for mount in self.inspected["Mounts"] if mount["Destination"] == "/etc/cluster-compute"
        ]
        assert len(found) == 1
        return str(found[0])


def parse_environment(text: str) -> dict[str, str]:
    """Return NUL-separated NAME=value text as a dict."""
    return dict(item.split("=", 1) for item in text.split("\0") if item)


def replicas(session: str) -> dict[str, Replica]:
    """Return the replicas of a session that exist in the lab, by name, running or not, in rank order."""

    def look(host: str) -> list[Replica]:
        ids = on(host, "docker", "ps", "-aq", "--filter", f"label=cluster-compute.session-name={session}").split()
        if not ids:
            return []
        found = json.loads(on(host, "docker", "inspect", *ids))
        return [Replica(entry["Config"]["Hostname"], host, entry["Name"].lstrip("/"), entry) for entry in found]

    with ThreadPoolExecutor(len(HOSTS)) as pool:
        found = [replica for some in pool.map(look, HOSTS) for replica in some]
    found.sort(key=lambda replica: (replica.name != "main1", len(replica.name), replica.name))
    return {replica.name: replica for replica in found}


def record(session: str, whole: bool = True) -> dict[str, Any]:
    """Return the session's record, which every host of it has to have alike; other hosts have stubs of it.

    whole: False for the newest copy of one whose hosts do not agree.
    """
    found = []
    for host in HOSTS:
        text = script(host, f"cat {STATE}/sessions/*/record.json 2>/dev/null || true")
        found += [json.loads(line) for line in text.splitlines() if line]
    mine = [copy for copy in found if copy["name"] == session and copy["plan"] is not None]
    assert mine, f"no host has a record of {session}"
    if not whole:
        return dict(max(mine, key=lambda copy: int(copy["revision"])))
    assert len(mine) == len(mine[0]["hosts"])
    assert all(copy == mine[0] for copy in mine)
    return dict(mine[0])


Snapshot = dict[str, dict[str, Any]]


def snapshot(hosts: Iterable[str] = HOSTS) -> Snapshot:
    """Return all that a session could have left on the hosts: compare one from before with one from after."""
    hosts = list(hosts)
    probe = Path(__file__).with_name("probe.py").read_text(encoding="utf-8")
    with ThreadPoolExecutor(len(hosts)) as pool:
        taken = list(pool.map(lambda host: json.loads(on(host, "python3", "-", stdin=probe)), hosts))
    for state in taken:
        assert state["engine"], "the engine of a host does not answer"
    return dict(zip(hosts, taken))


def differences(before: Snapshot, after: Snapshot) -> list[str]:
    """Return what differs between two snapshots, in words; empty where nothing does."""
    assert before.keys() == after.keys()
    found = []
    for host in before:
        for kind, old in before[host].items():
            new = after[host][kind]
            if old != new:
                gone = [item for item in _items(old) if item not in _items(new)]
                come = [item for item in _items(new) if item not in _items(old)]
                found.append(f"{host} {kind}: gone {gone}, new {come}")
    return found


def _items(value: Any) -> list[Any]:
    return sorted(value.items()) if isinstance(value, dict) else list(value)


def in_parallel(function: Any, items: Iterable[Any]) -> list[Any]:
    """Call *function* with each item, side by side, and return the results in order."""
    with ThreadPoolExecutor(12) as pool:
        return list(pool.map(function, items))

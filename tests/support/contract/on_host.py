# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""pytest on a host: tell the pytest that started it what comes of each test, and give the tests what they need."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import ssh_keys
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import Engine
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.ledger import LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import (
    SessionDirectory,
    StateDirectory,
    mark_version,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.facts import read_facts
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.plan import read_plan
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    Record,
    new_record,
    prepared,
    started,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import parse_request
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.admission import (
    check_request_against_hosts,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.build import (
    PlanInputs,
    build_plan,
    images_of,
    with_images,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.capacity import (
    allocatable_of,
    hosts_from_facts,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.images import needs_of
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.ledger import claims_of
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.placement import (
    Placement,
    place,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.site import Settings
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import firewall_rules
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.steps import perform
from ansible_collections.cluster_compute.session.tests.support.contract.modules import run

BUSYBOX = "cluster-compute/busybox:latest"
HERE = "here"
"""Name of this host in the plans."""
THERE = "there1"
ADDRESSES = {HERE: "10.210.0.1", THERE: "10.210.0.2"}
CABLE = "br-ask0"  # not what a host takes for its way to other hosts
LEASE_OWNER = "0123456789abcdef"
INVENTORY = {"cluster_compute_cpus": 4, "cluster_compute_memory": "2g", "cluster_compute_mount_roots": ["/srv"]}
PROGRAMS = ("containerd-shim-runc-v2", "docker-proxy", "docker-init")

# ---- what comes of each test ----------------------------------------------------------------------------------------


class _Teller:
    """Writes what pytest does, event by event, for the pytest that started this one."""

    def __init__(self, config: pytest.Config, hear: int, say: int) -> None:
        self.config = config
        for descriptor in (hear, say):
            os.set_inheritable(descriptor, False)
        self.orders = os.fdopen(hear, encoding="utf-8")
        self.stream = os.fdopen(say, "w", encoding="utf-8")

    def tell(self, kind: str, **values: Any) -> None:
        """Write one event."""
        print(json.dumps({"kind": kind, **values}), file=self.stream, flush=True)

    def report(self, kind: str, report: Any) -> None:
        """Write an event with a report."""
        data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        self.tell(kind, report=data)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Tell of a file that could not be read."""
        if not report.passed:
            self.report("collect", report)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Tell how many tests there are, and in which files."""
        self.tell("collected", count=len(session.items), files=list(_by_file(session)))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run the tests of one file after the other, as they are ordered; another host runs the rest."""
        if session.testsfailed:
            return None  # a file could not be read, which pytest's own loop says
        items = _by_file(session)
        self.tell("idle")
        while file := self.orders.readline().strip():
            for item, following in zip(items[file], [*items[file][1:], None]):
                session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)
                if session.shouldstop:
                    raise session.Interrupted(session.shouldstop)
            self.tell("idle")
        return True

    def pytest_runtest_logstart(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        """Tell that a test begins."""
        self.tell("start", nodeid=nodeid, location=location)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Tell of one phase of a test."""
        self.report("report", report)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Tell that all that was to be told has been."""
        self.tell("finished")


def _by_file(session: pytest.Session) -> dict[str, list[pytest.Item]]:
    """Return the tests by their file."""
    found: dict[str, list[pytest.Item]] = {}
    for item in session.items:
        found.setdefault(item.nodeid.partition("::")[0], []).append(item)
    return found


class _Share:
    """Leaves out the tests that hosts of another engine generation run: each runs those that a file marks.

    number: of this generation, among *of* that share the tests.
    """

    def __init__(self, number: int, of: int) -> None:
        self.number, self.of = number, of

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Choose by the name of a function, so that each generation has a part of each file, in each run the same."""
        left_out = [item for item in items if not item.get_closest_marker("every_engine") and not self.has(item)]
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)

    def has(self, item: pytest.Item) -> bool:
        """Tell whether a test is this generation's."""
        return zlib.crc32(item.nodeid.partition("[")[0].encode()) % self.of == self.number


def pytest_configure(config: pytest.Config) -> None:
    """Tell the other pytest from now on."""
    hear, say, share = os.environ.pop("CLUSTER_COMPUTE_CONTRACT").split(",")
    config.pluginmanager.register(_Teller(config, int(hear), int(say)))
    if share:
        config.pluginmanager.register(_Share(*map(int, share.split("/"))))


# ---- what a host has ------------------------------------------------------------------------------------------------


def output_of(*argv: str) -> str:
    """Run a program of this host and return what it printed; it has to succeed."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(argv)}: {done.stdout}{done.stderr}"
    return done.stdout


def until(condition: Callable[[], bool], seconds: float = 15) -> bool:
    """Wait until *condition* holds, at most for *seconds*; return whether it does."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def has_ended(container: str) -> bool:
    """Tell whether the engine's list shows that a container does not run; it may lag behind what has ended."""
    return container not in output_of("docker", "ps", "--format", "{{.Names}}").split()


def outward_address() -> str:
    """Return the address by which others reach this host."""
    (link,) = json.loads(output_of("ip", "-j", "-4", "address", "show", "dev", "eth0"))
    return str(link["addr_info"][0]["local"])


def reach_published_port() -> None:
    """See that a connection to port 18080 of this host gets a word of demo-main1, which publishes its port 80 there."""
    output_of("docker", "exec", "-d", "demo-main1", "sh", "-c", "echo inside | nc -l -p 80; echo inside >/proc/1/fd/1")

    def inside() -> bool:
        try:
            with socket.create_connection((outward_address(), 18080), 5) as connection:
                return connection.recv(100) == b"inside\n"
        except OSError:
            return False

    assert until(inside)


def rules() -> list[str]:
    """Return the firewall's rules and the chains of its own, without counters; engines repeat some."""
    found = (re.sub(r" ?\[\d+:\d+\]", "", line) for line in output_of("iptables-save").splitlines())
    return sorted({line for line in found if line.startswith("-") or (line.startswith(":") and line.endswith(" -"))})


def _programs() -> list[str]:
    """Return the names of programs that run for containers, and of those that calls leave in the background."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name = (folder / "cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
            own = (folder / "comm").read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            continue
        if not name:
            continue  # a thread of the kernel, or a program that has ended and that nobody has asked how
        found += [
            program
            for program in dict.fromkeys((os.path.basename(name), own))
            if program in PROGRAMS or program.startswith("cc-")
        ]
    return sorted(found)


def things(engine: Engine) -> dict[str, Any]:
    """Return all that a test could leave on this host outside of its state directory."""
    links = json.loads(output_of("ip", "-j", "link"))
    mounts = Path("/proc/self/mountinfo").read_text("utf-8")
    # What an engine names by chance: one end of a container's cable, its disk, its namespace.
    chance = re.compile("(?<=^veth)[0-9a-f]{7}$|[0-9a-f]{64}|(?<=/netns/)[0-9a-f]{12}")
    return {
        "containers": sorted(container.name for container in engine.containers()),
        "networks": sorted(network.name for network in engine.networks()),
        "volumes": sorted(path.name for path in Path("/var/lib/docker/volumes").iterdir() if path.is_dir()),
        "links": sorted((chance.sub("", link["ifname"]), link.get("ifalias", "")) for link in links),
        "rules": rules(),
        "mounts": sorted(chance.sub("", line.split()[4]) for line in mounts.splitlines()),
        "programs": _programs(),
        "default state": sorted(map(str, Path("/var/lib/cluster-compute").rglob("*"))),
    }


# ---- what a test works with -----------------------------------------------------------------------------------------


Call = Callable[..., dict[str, Any]]


class Host:
    """This host with a state directory, and the sessions that tests have there."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine = engine
        self.folder = folder
        (folder / "state").mkdir(mode=0o700)
        self.state = StateDirectory(str(folder / "state"))
        mark_version(self.state.root)  # as preparing a host does
        self.ledger = LedgerFile(str(self.state.root))
        self.sessions: list[Session] = []

    def call(self, name: str, check_mode: bool = False, **arguments: Any) -> dict[str, Any]:
        """Perform one call of the hosts' side; raises SessionError where it fails."""
        given = {"state_directory": str(self.state.root), **arguments}
        # As on its way to a host and back: what JSON cannot carry does not get there.
        answer = run(name, json.loads(json.dumps(encode(given))), check_mode)
        return dict(json.loads(json.dumps(answer)))

    def plan(
        self,
        others: int = 0,
        settings: Mapping[str, Any] | None = None,
        inventory: Mapping[str, Any] | None = None,
        **request: Any,
    ) -> Session:
        """Plan a session by what this host says of itself, as a launch does.

        others: how many more hosts the plan has, of which nobody is there: what a test shows of such a host is what
        this one does for it. inventory: more variables of the hosts. request: variables of the request, without their
        prefix.
        """
        given = {
            "name": "demo",
            "image": BUSYBOX,
            "cpus": "0.5",  # of less, each start of a container or a program in it has to wait for more
            "memory": "32m",
            "shm_size": "1m",
            "command": ["sleep", "8888"],
            **request,
        }
        wanted = parse_request({f"session_{key}": value for key, value in given.items()})
        images = sorted({role.image for role in wanted.roles})
        paths = [mount.source for mount in wanted.mounts if mount.source is not None]
        of_host = {**INVENTORY, **(inventory or {})}
        cards = of_host.get("cluster_compute_accelerators", {})
        own = self.call("host_info", session_name=wanted.name, images=images, paths=paths, accelerators=cards)["host"]
        assert own["usable"], own["problem"]
        facts = {HERE: own}
        for number in range(1, others + 1):
            facts[f"there{number}"] = {**copy.deepcopy(own), "containers": [], "reservations": []}
            facts[f"there{number}"]["underlay"]["address"] = f"10.209.0.{200 + number}"
        variables = dict.fromkeys(facts, of_host)
        read = {name: read_facts(plain, name) for name, plain in facts.items()}
        hosts = hosts_from_facts(read, variables, wanted.name)
        placement = place(wanted, hosts)
        assert isinstance(placement, Placement), placement
        check_request_against_hosts(wanted, read, placement, None, variables)
        session_id = str(uuid.uuid4())
        free = {host.name: host.free_devices for host in hosts}
        site = Settings.from_variables(settings or {})
        plan = build_plan(wanted, placement, session_id, PlanInputs(read, site, free, variables))
        plan = with_images(plan, needs_of(images_of(plan.replicas), read, wanted.image_pull))
        record = prepared(new_record(session_id, "somebody", wanted.to_dict()), encode(plan))
        allocatable = {host.name: encode(allocatable_of(host)) for host in hosts}[HERE]
        session = Session(record, allocatable, list(facts)[1:], self)
        for replica in plan.replicas:
            if replica.host != HERE:
                keys, _made = ssh_keys.converge_keys(self.folder / session_id / replica.name, False, False)
                session.public_keys[replica.name] = keys
        self.sessions.append(session)
        return session

    def held(self, **request: Any) -> Session:
        """Plan a session and hold this host's part of it."""
        session = self.plan(**request)
        answer = session.bring("held")
        assert answer["granted"], answer["reasons"]
        return session

    def launch(self, **request: Any) -> Session:
        """Plan a session and start this host's part of it."""
        return self.plan(**request).start()

    def clear(self) -> None:
        """Remove all sessions, the last one first."""
        for session in reversed(self.sessions):
            session.remove(undo=True)


@dataclass
class Session:
    """One session of a test, and what this host is asked for it. others: names of hosts that only the plan has."""

    record: Record
    allocatable: dict[str, Any]
    others: list[str]
    owner: Host
    public_keys: dict[str, Any] = field(default_factory=dict)

    @property
    def call(self) -> Call:
        """What performs a call on the host."""
        return self.owner.call

    @property
    def files(self) -> SessionDirectory:
        """The session's folder in the state directory."""
        return self.owner.state.session(self.id)

    @property
    def id(self) -> str:
        """Identifier of the session."""
        return str(self.record.id)

    @property
    def name(self) -> str:
        """Name of the session."""
        return str(self.record.name)

    @property
    def plan(self) -> dict[str, Any]:
        """The plan of the session."""
        return dict(self.record.plan)

    @property
    def claim(self) -> dict[str, Any]:
        """What the session takes of this host."""
        return dict(encode(claims_of(read_plan(self.plan))[HERE]))

    def bring(self, wanted: str, check_mode: bool = False, **more: Any) -> dict[str, Any]:
        """Bring this host's part into a state of M(session_host); returns what the call returned."""
        given: dict[str, Any] = {"state": wanted, "lease_owner": LEASE_OWNER}
        if wanted in ("held", "released"):
            given |= {"claim": self.claim}
        if wanted == "held":
            given |= {"allocatable": self.allocatable}
        if wanted != "released":
            given |= {"record": self.record, "host": HERE}
        if wanted == "started":
            # Hosts that only the plan has answer to nobody.
            given |= {"public_keys": self.public_keys, "patience": 0 if self.others else 5}
        answer = self.call("session_host", check_mode, **{**given, **more})
        if wanted == "held" and answer["granted"]:
            self.public_keys |= answer["public_keys"]
        return answer

    def start(self) -> Session:
        """Launch this host's part, as far as it goes without other hosts."""
        answer = self.bring("held")
        assert answer["granted"], answer["reasons"]
        answer = self.bring("started")
        assert ("unproven" in answer) == bool(self.others)
        self.record = started(self.record)
        return self

    def repair(self, check_mode: bool = False, **more: Any) -> dict[str, Any]:
        """Repair the session on this host, which is told what the other hosts' keys are."""
        given: dict[str, Any] = {
            "host": HERE,
            "allocatable": self.allocatable,
            "mount_roots": INVENTORY["cluster_compute_mount_roots"],
            "volume_drivers": ["local"],
            "public_keys": {self.id: self.public_keys},
        }
        given["session_name"] = self.name
        return self.call("session_repair", check_mode, **{**given, **more})

    def remove(self, check_mode: bool = False, **more: Any) -> dict[str, Any]:
        """Remove what this host has of the session."""
        return self.call("session_host", check_mode, state="absent", **{"session_id": self.id, **more})

    def containers(self) -> dict[str, dict[str, Any]]:
        """Return the containers of the session as the engine describes them, by replica."""
        engine = self.owner.engine
        entries = engine.session_containers({"cluster-compute.session-id": self.id})
        return {entry.replica: engine.options_of(entry.id) or {} for entry in entries}

    def run_in(self, replica: str, *argv: str, user: str = "") -> str:
        """Run a program in a replica and return what it printed; it has to succeed."""
        return output_of("docker", "exec", "--user", user, f"{self.name}-{replica}", *argv)


@pytest.fixture(scope="session")
def engine() -> Engine:
    """Return the engine of this host; what a run that was killed left there is removed."""
    for session_id in run("host_info", {}, False)["host"]["objects"]:
        run("session_host", {"state": "absent", "session_id": session_id, "undo": True}, False)
    return Engine.connect()


@pytest.fixture(scope="session")
def ssh_runtime() -> None:
    """Give this host the SSH runtime of this checkout; hosts that stay up may have that of another."""
    run("ssh_runtime", {}, False)


@pytest.fixture(scope="module")
def shared_host(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """Return this host for a session that several tests of a file share; each leaves it as it was."""
    host = Host(engine, tmp_path_factory.mktemp("shared"))
    yield host
    host.clear()


_at_the_end: dict[str, Any] = {}
"""The state of the host after the last test; empty if a fixture that outlives tests has come or gone since."""


def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> None:
    """Forget what the host had before something comes that several tests share."""
    if fixturedef.scope != "function":
        _at_the_end.clear()


def pytest_fixture_post_finalizer(fixturedef: pytest.FixtureDef[Any]) -> None:
    """Forget what the host had before something went that several tests shared."""
    if fixturedef.scope != "function":
        _at_the_end.clear()


@pytest.fixture(autouse=True)
def nothing_is_left(engine: Engine) -> Iterator[None]:
    """Compare the host before a test, as the last one left it, with the host after it."""
    before = dict(_at_the_end) or things(engine)
    yield
    after = things(engine)
    deadline = time.monotonic() + 3
    while after["programs"] != before["programs"] and time.monotonic() < deadline:
        time.sleep(0.05)  # what waits for a container ends a moment after it
        after["programs"] = _programs()
    _at_the_end.update(after)
    assert after == before


@dataclass
class Peer:
    """Another host, as far as its network goes. process: which holds that."""

    process: subprocess.Popen[bytes]

    def run(self, *argv: str) -> str:
        """Run a program there."""
        path = {"PYTHONPATH": os.pathsep.join(sys.path)}
        entered = ["nsenter", f"--net=/proc/{self.process.pid}/ns/net", "env", *(f"{k}={v}" for k, v in path.items())]
        return output_of(*entered, *argv)


@pytest.fixture
def shared() -> Iterator[Path]:
    """Return a folder that all hosts have."""
    folder = Path("/srv/for-preflight")
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def peer(nothing_is_left: None) -> Iterator[Peer]:
    """Make the other host, at the other end of a cable."""
    process = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec sleep 600"], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        found = Peer(process)
        output_of("ip", "link", "add", CABLE, "type", "veth", "peer", "name", CABLE, "netns", str(process.pid))
        output_of("ip", "address", "add", f"{ADDRESSES[HERE]}/24", "dev", CABLE)
        output_of("ip", "link", "set", CABLE, "up")
        found.run("ip", "address", "add", f"{ADDRESSES[THERE]}/24", "dev", CABLE)
        found.run("ip", "link", "set", CABLE, "up")
        yield found
    finally:
        process.kill()
        process.communicate()
        subprocess.run(["ip", "link", "delete", CABLE], check=False, capture_output=True)


@pytest.fixture
def host(nothing_is_left: None, engine: Engine, tmp_path: Path) -> Iterator[Host]:
    """Return this host with a fresh state directory; what sessions a test has there is removed after it."""
    found = Host(engine, tmp_path)
    yield found
    found.clear()
    assert found.state.session_ids() == []


@pytest.fixture
def state(host: Host) -> StateDirectory:
    """Return the state directory of the test."""
    return host.state


@pytest.fixture
def ledger(host: Host) -> LedgerFile:
    """Return the ledger in it."""
    return host.ledger


@pytest.fixture
def call(host: Host) -> Call:
    """Return what performs one call of the hosts' side."""
    return host.call


@pytest.fixture
def record(host: Host) -> Callable[..., Record]:
    """Return what makes the record of a session that is being started, from a request."""
    return lambda **request: host.plan(**request).record


@pytest.fixture
def keep_out(nothing_is_left: None, engine: Engine) -> Iterator[Callable[..., dict[str, Any]]]:
    """Take away, for a test, what keeps containers out of all sessions; return what performs M(host_firewall)."""
    prepared_for = firewall_rules.OVERLAYS.read_text(encoding="utf-8")
    run("host_firewall", {"state": "absent"}, False)
    yield lambda check_mode=False, **given: run("host_firewall", given, check_mode)
    firewall_rules.OVERLAYS.write_text(prepared_for, encoding="utf-8")
    perform([firewall_rules.standing_steps(engine.uses_nftables())])


@pytest.fixture
def image_of_user(host: Host) -> Iterator[Callable[[str], str]]:
    """Return what makes an image that runs as a user; it is removed after the test."""
    name = "cluster-compute/user:latest"
    made = output_of("docker", "create", BUSYBOX).strip()

    def make(user: str) -> str:
        output_of("docker", "commit", "--change", f"USER {user}", made, name)
        return name

    yield make
    host.clear()
    output_of("docker", "rm", made)
    output_of("docker", "rmi", "-f", name)

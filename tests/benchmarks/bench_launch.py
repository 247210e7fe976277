# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time a launch of 12 and of 48 replicas on three hosts against a plain playbook and against the Docker API alone.

Run by ``make bench``. Three ways to the same end state take turns, so that what else the machine does meets all alike:

* session: launch_cluster and teardown_cluster, proof of the network included;
* playbook: the same links, networks, keys, files and containers with community.docker (``launch/plain_*.yml``);
* api: links, networks and containers by the Docker API, all containers side by side. No keys, no files, no checks,
  nothing to decide: the floor.

After each launch the end state is looked at: all containers run, with the limits, variables and mounts of the plan, and
a reply to a packet of the full size comes from every replica by its name. Prints medians and ratios of the seconds that
each way took and of the processor time that it took here, and for the round that warms up what a person reads and what
a host gets: banners of tasks, commands over SSH, bytes. Nothing of it is judged.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.plan import read_plan
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.environment import (
    environments,
)

HERE = Path(__file__).resolve().parent / "launch"
CHECKOUT = HERE.parents[2]
INVENTORY = HERE / "inventory"
DIRECTORY = Path("/var/lib/cluster-compute-lab/bench")
HOSTS = {"b1": "10.210.0.11", "b2": "10.210.0.12", "b3": "10.210.0.13"}
SIZES = (12, 48)
WORKERS = max(SIZES)
CPUS = 0.5
REQUEST: dict[str, Any] = {
    "session_name": "bench",
    "session_image": "cluster-compute/demo:latest",
    "session_cpus": CPUS,
    "session_memory": "64m",
    "session_shm_size": "16m",
    "session_mounts": ["/srv/shared:/data"],
    "session_env": {"GREETING": "hello world"},
}
STEPS = ("launch", "launch again", "teardown")
WAYS = ("session", "playbook", "api")
COUNTED = ("session", "playbook")
SHARED_LAB = "CLUSTER_COMPUTE_BENCH_LAB"
"""Set in the environment where the lab is up already, and somebody else takes it down."""
COUNTER = ("INPUT", "-p", "tcp", "--dport", "22", "-m", "comment", "--comment", "cc-bench")
"""A rule of a host's firewall that does nothing but count what its SSH server gets."""

Plan = dict[str, Any]
Measured = dict[tuple[str, str], list[float]]


@dataclass(frozen=True)
class Counts:
    """What one run was for who reads it and for a host, the most of all hosts: banners, commands over SSH, bytes."""

    banners: int
    commands: int
    received: int


@dataclass
class Found:
    """What was measured of one size: seconds and processor time here by way and step, and what was counted."""

    size: int
    seconds: Measured
    cpu: Measured
    counts: dict[tuple[str, str], Counts]


def ssh(host: str, *argv: str, stdin: str | None = None) -> str:
    """Run a program on a host of the lab and return its output."""
    options = ["-i", f"{DIRECTORY}/ssh/id_ed25519", "-o", f"UserKnownHostsFile={DIRECTORY}/ssh/known_hosts"]
    options += ["-o", "StrictHostKeyChecking=yes", "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes"]
    options += ["-o", "ControlMaster=auto", "-o", "ControlPersist=60", "-o", f"ControlPath={sockets()}/%C"]
    command = ["ssh", *options, f"root@{HOSTS[host]}", shlex.join(argv)]
    done = subprocess.run(command, input=stdin or "", capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(argv)} on {host}: {done.stdout}{done.stderr}")
    return done.stdout


_FOLDER = tempfile.TemporaryDirectory(prefix="cc-bench-")


def sockets() -> str:
    """Return the folder for sockets and files of this run."""
    return _FOLDER.name


def play(playbook: Path, *options: str, inventory: Path = INVENTORY, seconds: float = 1800) -> str:
    """Run a playbook and return its output. seconds: after which it is given up."""
    environment = {**os.environ, "ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    environment["ANSIBLE_STDOUT_CALLBACK"] = "ansible.builtin.default"  # for the recap
    done = subprocess.run(
        ["ansible-playbook", "-i", str(inventory), str(playbook), *options],
        cwd=CHECKOUT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stdout)
    return done.stdout


def own(name: str) -> Path:
    """Return the path of a playbook of the collection."""
    return CHECKOUT / "playbooks" / f"{name}.yml"


def changes(output: str) -> int:
    """Return how many tasks changed something, by the recap; every host of the lab has to be in it."""
    recap = {line[0]: line for line in map(str.split, output.partition("PLAY RECAP")[2].splitlines()) if line}
    if not set(HOSTS) <= set(recap):
        raise RuntimeError(f"The recap names {sorted(recap)}, not every host of the lab.\n{output}")
    return sum(int(word.partition("=")[2]) for line in recap.values() for word in line if word.startswith("changed="))


def each(function: Callable[[Any], Any], items: Any) -> list[Any]:
    """Call *function* with every item, side by side."""
    with ThreadPoolExecutor(max_workers=WORKERS) as pool:
        return list(pool.map(function, items))


class Session:
    """The collection."""

    def __init__(self, size: int) -> None:
        request = Path(sockets()) / "request.json"
        capacity = {"cluster_compute_cpus": size / len(HOSTS) * CPUS}
        request.write_text(json.dumps({**REQUEST, **capacity, "session_size": size}), encoding="utf-8")
        self.request = f"@{request}"

    def plan(self) -> Plan:
        """Return the plan that the first host has on record, with the variables of each replica."""
        record = ssh("b1", "sh", "-c", "cat /var/lib/cluster-compute/sessions/*/record.json")
        plan: Plan = json.loads(record)["plan"]
        variables = {name: values for host in HOSTS for name, values in environments(read_plan(plan), host).items()}
        for replica in plan["replicas"]:
            replica["environment"] = variables[replica["name"]]
        return plan

    def launch(self, *options: str) -> str:
        """Launch, and return the output."""
        return play(own("launch_cluster"), "-e", self.request, *options)

    def teardown(self, *options: str) -> str:
        """Remove everything, and return the output."""
        return play(own("teardown_cluster"), "-e", "session_name=bench", *options)


class Playbook:
    """The playbook with community.docker."""

    def __init__(self, plan: Plan) -> None:
        given = Path(sockets()) / "plan.json"
        given.write_text(json.dumps({"plan": plan}), encoding="utf-8")
        self.given = f"@{given}"

    def launch(self, *options: str) -> str:
        """Launch, and return the output."""
        return play(HERE / "plain_launch.yml", "-e", self.given, *options)

    def teardown(self, *options: str) -> str:
        """Remove everything, and return the output."""
        return play(HERE / "plain_teardown.yml", "-e", self.given, *options)


class Api:
    """The Docker API, over the engines' sockets which SSH brings here."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.network = plan["network"]
        self.clients = {host: self._client(host) for host in HOSTS}

    def _client(self, host: str) -> Any:
        path = f"{sockets()}/{host}-{time.monotonic_ns()}.sock"  # one of an earlier round may have ended
        ssh(host, "true")
        # One more forwarding on the connection that is there.
        subprocess.run(
            [
                *("ssh", "-O", "forward", "-o", f"ControlPath={sockets()}/%C"),
                *("-L", f"{path}:/run/docker.sock", f"root@{HOSTS[host]}"),
            ],
            check=True,
            capture_output=True,
        )
        return docker.APIClient(base_url=f"unix://{path}", version="auto", max_pool_size=WORKERS)

    def _host(self, host: str) -> int:
        """Make link and networks of a host where they are missing; return the number of changes."""
        client, name = self.clients[host], self.network["link"]
        found = {network["Name"] for network in client.networks()}
        made = 0
        if self.network["name"] not in found:
            remote = [replica for replica in self.plan["replicas"] if replica["host"] != host]
            batch = f"link add {name} mtu {self.network['mtu']} type vxlan id {self.network['vni']} "
            batch += f"dstport {self.network['port']} local {HOSTS[host]} nolearning proxy\nlink set {name} up\n"
            for replica in remote:
                batch += f"neigh replace {replica['address']} lladdr {replica['mac']} dev {name} nud permanent\n"
            entries = "".join(
                f"fdb append {replica['mac']} dev {name} dst {HOSTS[replica['host']]}\n" for replica in remote
            )
            batches = 'printf "%s" "$0" | ip -batch -; printf "%s" "$1" | bridge -batch -'
            ssh(host, "sh", "-ec", batches, batch, entries)
            client.create_network(
                self.network["name"],
                driver="macvlan",
                options={"parent": name, "macvlan_mode": "bridge"},
                internal=True,
                ipam={"Driver": "default", "Config": [{"Subnet": self.network["subnet"]}]},
            )
            made += 1
        egress = self.plan["egress"]
        if egress["name"] not in found:
            ipam = {"Driver": "default", "Config": [{"Subnet": egress["subnet"]}]}
            client.create_network(egress["name"], driver="bridge", ipam=ipam)
            made += 1
        return made

    def _replica(self, replica: dict[str, Any]) -> int:
        """Create and start a container where it does not run; return the number of changes."""
        client, resources = self.clients[replica["host"]], replica["resources"]
        try:
            if client.inspect_container(replica["container"])["State"]["Running"]:
                return 0
        except docker.errors.NotFound:
            pass
        body = {
            "Hostname": replica["name"],
            "Image": replica["image"],
            "Env": [f"{name}={value}" for name, value in replica["environment"].items()],
            "HostConfig": {
                "Init": True,
                "CpuPeriod": 100_000,
                "CpuQuota": resources["cpus"] * 100,
                "Memory": resources["memory"],
                "MemorySwap": resources["memory"],
                "ShmSize": resources["shm_size"],
                "ExtraHosts": [f"{peer['name']}:{peer['address']}" for peer in self.plan["replicas"]],
                "Binds": [f"{mount['source']}:{mount['target']}" for mount in replica["mounts"]],
                "NetworkMode": self.plan["egress"]["name"],
            },
        }
        container = client.create_container_from_config(body, replica["container"])["Id"]
        client.connect_container_to_network(container, self.network["name"], ipv4_address=replica["address"])
        client.start(container)
        return 1

    def launch(self) -> int:
        """Launch, and return the number of changes."""
        made = each(self._host, HOSTS) + each(self._replica, self.plan["replicas"])
        return sum(map(int, made))

    def teardown(self) -> None:
        """Remove everything."""

        def remove(replica: dict[str, Any]) -> None:
            self.clients[replica["host"]].stop(replica["container"], timeout=10)
            self.clients[replica["host"]].remove_container(replica["container"], v=True)

        def remove_networks(host: str) -> None:
            for name in (self.network["name"], self.plan["egress"]["name"]):
                self.clients[host].remove_network(name)
            ssh(host, "ip", "link", "delete", self.network["link"])

        each(remove, self.plan["replicas"])
        each(remove_networks, HOSTS)


def check(plan: Plan, size: int, with_ssh: bool) -> None:
    """Compare what runs in the lab with the plan. Raises RuntimeError for the first thing that differs."""
    seen = 0
    for host in HOSTS:
        wanted = {replica["container"]: replica for replica in plan["replicas"] if replica["host"] == host}
        ids = ssh(host, "docker", "ps", "-q").split()
        found = {
            container["Name"].lstrip("/"): container for container in json.loads(ssh(host, "docker", "inspect", *ids))
        }
        same(f"containers on {host}", set(found), set(wanted))
        for name, replica in wanted.items():
            there, limits = found[name]["HostConfig"], replica["resources"]
            same(f"CPU of {name}", there["CpuQuota"] / there["CpuPeriod"], limits["cpus"] / 1000)
            same(f"memory of {name}", (there["Memory"], there["MemorySwap"]), (limits["memory"],) * 2)
            same(f"shared memory of {name}", there["ShmSize"], limits["shm_size"])
            variables = {f"{key}={value}" for key, value in replica["environment"].items()}
            same(f"missing variables of {name}", variables - set(found[name]["Config"]["Env"]), set())
            mounts = {(mount["Destination"], not mount["RW"]) for mount in found[name]["Mounts"]}
            wanted_mounts = {(mount["target"], mount["read_only"]) for mount in replica["mounts"]}
            same(f"missing mounts of {name}", wanted_mounts - mounts, set())
            seen += 1
    same("number of containers", seen, size)
    main = plan["replicas"][0]
    names = [replica["name"] for replica in plan["replicas"]]
    loop = f"for name in {' '.join(names)}; do ping -q -c 1 -w 5 -M do -s {plan['network']['mtu'] - 28} $name; done"
    # Replicas may not send what ping sends, and what is timed is to be what users get: so the host does, from inside.
    process = ssh(main["host"], "docker", "inspect", "-f", "{{.State.Pid}}", main["container"]).strip()
    replies = ssh(main["host"], "nsenter", "-t", process, "-m", "-n", "sh", "-ec", loop)
    same("replies to packets of the full size", replies.count(" 0% packet loss"), size)
    if with_ssh:
        loop = f"for name in {' '.join(names)}; do ssh $name hostname; done"
        same("logins", ssh(main["host"], "docker", "exec", main["container"], "sh", "-ec", loop).split(), names)


def same(what: str, found: object, wanted: object) -> None:
    """Raise RuntimeError unless the two are equal."""
    if found != wanted:
        raise RuntimeError(f"{what}: found {found}, wanted {wanted}")


def check_empty() -> None:
    """Raise RuntimeError if a teardown left something in the lab."""
    for host in HOSTS:
        same(f"containers on {host}", ssh(host, "docker", "ps", "-aq"), "")
        same(f"networks on {host}", len(ssh(host, "docker", "network", "ls", "-q").split()), 3)
        same(f"overlays on {host}", ssh(host, "ip", "-o", "link", "show", "type", "vxlan"), "")


@contextmanager
def lab(keep: bool) -> Iterator[None]:
    """Bring up the benchmarks' lab, and take it down at the end, unless there is one for several of them."""
    if os.environ.get(SHARED_LAB):
        yield
        return
    try:
        for name in ("lab_down", "lab_up", "prepare_hosts", "lab_images"):
            play(own(name))
        yield
    finally:
        if not keep:
            play(own("lab_down"))


@contextmanager
def counting() -> Iterator[None]:
    """Let every host count what its SSH server gets."""
    each(lambda host: ssh(host, "iptables", "-I", *COUNTER), HOSTS)
    try:
        yield
    finally:
        each(lambda host: ssh(host, "iptables", "-D", *COUNTER), HOSTS)


def received() -> dict[str, int]:
    """Return the bytes that the SSH server of each host has got since it is counted."""
    found = {}
    for host in HOSTS:
        rules = ssh(host, "iptables", "-xvnL", "INPUT").splitlines()
        found[host] = next(int(line.split()[1]) for line in rules if "cc-bench" in line)
    return found


def count(step: Callable[..., str]) -> tuple[str, Counts]:
    """Do a step so that it says what it does, and return its output and what was counted."""
    before = received()
    output = step("-vvv")
    after = received()
    addresses = re.findall(r"^<([^>]+)> SSH: EXEC", output, re.MULTILINE)
    commands = [addresses.count(address) for address in HOSTS.values()]
    banners = len(re.findall(r"^(?:TASK|RUNNING HANDLER) \[", output, re.MULTILINE))
    if not banners or not all(commands):
        raise RuntimeError(f"{banners} banners, {commands} commands: nothing to count in\n{output}")
    return output, Counts(banners, max(commands), max(after[host] - before[host] for host in HOSTS))


def processor_seconds() -> float:
    """Return the processor time that this process and all that it has started and waited for took so far."""
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _nothing() -> Measured:
    return {(way, step): [] for way in WAYS for step in STEPS}


def measure(size: int, rounds: int) -> Found:
    """Let the three ways take turns, one round more than asked to warm up and to count; without others it is timed."""
    found = Found(size, _nothing(), _nothing(), {})
    session = Session(size)
    plan: Plan = {}
    for number in range(rounds + 1):
        for name in WAYS:
            if name == "session":
                way: Any = session
            else:  # the same end state, so from the session's plan
                way = Playbook(plan) if name == "playbook" else Api(plan)
            for step in STEPS:
                do = way.teardown if step == "teardown" else way.launch
                begin, cpu = time.monotonic(), processor_seconds()
                if number or name not in COUNTED:
                    done = do()
                else:
                    done, found.counts[name, step] = count(do)
                took, used = time.monotonic() - begin, processor_seconds() - cpu
                print(
                    f"{size} replicas, {f'round {number}' if number else 'warm-up'}, {name}: {step} {took:.2f} s, "
                    f"{used:.2f} s of processor",
                    file=sys.stderr,
                    flush=True,
                )
                if number or not rounds:
                    found.seconds[name, step].append(took)
                    found.cpu[name, step].append(used)
                if step == "teardown":
                    check_empty()
                    continue
                made = done if isinstance(done, int) else changes(done)
                if bool(made) != (step == "launch"):
                    raise RuntimeError(f"{name} changed {made} things at its {step}.")
                if step == "launch":
                    if name == "session":
                        plan = session.plan()
                    check(plan, size, with_ssh=name != "api")
    return found


def report(found: Found, rounds: int) -> str:
    """Return the tables of one size."""
    title = f"{found.size} replicas on {len(HOSTS)} hosts, {os.cpu_count()} cores, median of {max(rounds, 1)} rounds"
    lines = table(f"{title}, in seconds", found.seconds)
    lines += ["", *table(f"{title}, in seconds of processor time on the controller", found.cpu)]
    lines += ["", "In one run: banners of tasks / commands over SSH to one host / bytes to its SSH server"]
    lines.append(f"{'':14}" + "".join(f"{way:>30}" for way in COUNTED))
    for step in STEPS:
        counts = [found.counts[way, step] for way in COUNTED]
        cells = [f"{count.banners} / {count.commands} / {count.received:,}" for count in counts]
        lines.append(f"{step:14}" + "".join(f"{cell:>30}" for cell in cells))
    return "\n".join(lines)


def table(title: str, measured: Measured) -> list[str]:
    """Return the table of medians and ratios."""
    middle = {key: statistics.median(values) for key, values in measured.items()}
    lines = [title, f"{'':14}" + "".join(f"{way:>24}" for way in WAYS) + f"{'session/playbook':>19}{'session/api':>14}"]
    for step in STEPS:
        cells = []
        for way in WAYS:
            values = measured[way, step]
            cells.append(f"{middle[way, step]:.2f} ({min(values):.2f}-{max(values):.2f})")
        ratios = [middle["session", step] / middle[way, step] for way in ("playbook", "api")]
        lines.append(f"{step:14}" + "".join(f"{cell:>24}" for cell in cells) + f"{ratios[0]:19.2f}{ratios[1]:14.1f}")
    return lines


def main() -> None:
    """Entry point of the benchmark."""
    parser = argparse.ArgumentParser(description="Time launches of some replicas on three hosts.")
    parser.add_argument("--rounds", type=int, default=3, help="rounds after the one to warm up")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of replicas")
    parser.add_argument("--keep-lab", action="store_true", help="leave the benchmark's lab up at the end")
    parser.add_argument("--smoke", action="store_true", help="one round, with one replica on each host")
    options = parser.parse_args()
    sizes, rounds = ((len(HOSTS),), 0) if options.smoke else (options.sizes, options.rounds)
    with lab(options.keep_lab), counting():
        for size in sizes:
            print(report(measure(size, rounds), rounds), end="\n\n", flush=True)


if __name__ == "__main__":
    main()

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time a launch of twelve replicas on three hosts against a plain playbook and against the Docker API alone.

Run by ``make bench``. Three ways to the same end state take turns, so that what else the machine does meets all alike:

* session: launch_cluster and teardown_cluster, proof of the network included;
* playbook: the same links, networks, keys, files and containers with community.docker (``launch/plain_*.yml``);
* api: links, networks and containers by the Docker API, all containers side by side. No keys, no files, no checks,
  nothing to decide: the floor.

After each launch the end state is looked at: twelve running containers with the limits, variables and mounts of the
plan, and a reply to a packet of the full size from every replica by its name. Prints medians and ratios; times are
never judged.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker
from ansible_collections.cluster_compute.session.plugins.module_utils.core.environment import environments

HERE = Path(__file__).resolve().parent / "launch"
CHECKOUT = HERE.parents[2]
INVENTORY = HERE / "inventory"
DIRECTORY = Path("/var/lib/cluster-compute-lab/bench")
HOSTS = {"b1": "10.210.0.11", "b2": "10.210.0.12", "b3": "10.210.0.13"}
SIZE = 12
REQUEST = {
    "session_name": "bench",
    "session_size": SIZE,
    "session_image": "cluster-compute/demo:latest",
    "session_cpus": "0.5",
    "session_memory": "64m",
    "session_shm_size": "16m",
    "session_mounts": ["/srv/shared:/data"],
    "session_env": {"GREETING": "hello world"},
}
STEPS = ("launch", "launch again", "teardown")
WAYS = ("session", "playbook", "api")

Plan = dict[str, Any]


def ssh(host: str, *words: str, stdin: str | None = None) -> str:
    """Run a program on a host of the lab and return its output."""
    options = ["-i", f"{DIRECTORY}/ssh/id_ed25519", "-o", f"UserKnownHostsFile={DIRECTORY}/ssh/known_hosts"]
    options += ["-o", "StrictHostKeyChecking=yes", "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes"]
    options += ["-o", "ControlMaster=auto", "-o", "ControlPersist=60", "-o", f"ControlPath={sockets()}/%C"]
    command = ["ssh", *options, f"root@{HOSTS[host]}", shlex.join(words)]
    done = subprocess.run(command, input=stdin or "", capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(words)} on {host}: {done.stdout}{done.stderr}")
    return done.stdout


_FOLDER = tempfile.TemporaryDirectory(prefix="cc-bench-")


def sockets() -> str:
    """Return the folder for sockets and files of this run."""
    return _FOLDER.name


def play(playbook: Path, *options: str, inventory: Path = INVENTORY, seconds: float = 1800) -> str:
    """Run a playbook and return its output. seconds: after which it is given up."""
    environment = {**os.environ, "ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
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
    recap = {words[0]: words for words in map(str.split, output.partition("PLAY RECAP")[2].splitlines()) if words}
    if not set(HOSTS) <= set(recap):
        raise RuntimeError(f"The recap names {sorted(recap)}, not every host of the lab.\n{output}")
    return sum(int(word.partition("=")[2]) for words in recap.values() for word in words if word.startswith("changed="))


def each(function: Callable[[Any], Any], items: Any) -> list[Any]:
    """Call *function* with every item, side by side."""
    with ThreadPoolExecutor(max_workers=SIZE) as pool:
        return list(pool.map(function, items))


class Session:
    """The collection."""

    def __init__(self, request: Path) -> None:
        self.request = f"@{request}"

    def plan(self) -> Plan:
        """Return the plan that the first host has on record, with the variables of each replica."""
        record = ssh("b1", "sh", "-c", "cat /var/lib/cluster-compute/sessions/*/record.json")
        plan: Plan = json.loads(record)["plan"]
        told = {name: values for host in HOSTS for name, values in environments(plan, host).items()}
        for one in plan["replicas"]:
            one["environment"] = told[one["name"]]
        return plan

    def launch(self) -> int:
        """Launch, and return the number of changes."""
        return changes(play(own("launch_cluster"), "-e", self.request))

    def teardown(self) -> None:
        """Remove everything."""
        play(own("teardown_cluster"), "-e", "session_name=bench")


class Playbook:
    """The playbook with community.docker."""

    def __init__(self, plan: Path) -> None:
        self.given = f"@{plan}"

    def launch(self) -> int:
        """Launch, and return the number of changes."""
        return changes(play(HERE / "plain_launch.yml", "-e", self.given))

    def teardown(self) -> None:
        """Remove everything."""
        play(HERE / "plain_teardown.yml", "-e", self.given)


class Api:
    """The Docker API, over the engines' sockets which SSH brings here."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.network = plan["network"]
        self.clients = {host: self._client(host) for host in HOSTS}

    def _client(self, host: str) -> Any:
        path = f"{sockets()}/{host}.sock"
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
        return docker.APIClient(base_url=f"unix://{path}", version="auto", max_pool_size=SIZE)

    def _host(self, host: str) -> int:
        """Make link and networks of a host where they are missing; return the number of changes."""
        client, name = self.clients[host], self.network["link"]
        found = {one["Name"] for one in client.networks()}
        made = 0
        if self.network["name"] not in found:
            remote = [one for one in self.plan["replicas"] if one["host"] != host]
            words = f"link add {name} mtu {self.network['mtu']} type vxlan id {self.network['vni']} "
            words += f"dstport {self.network['port']} local {HOSTS[host]} nolearning proxy\nlink set {name} up\n"
            for one in remote:
                words += f"neigh replace {one['address']} lladdr {one['mac']} dev {name} nud permanent\n"
            entries = "".join(f"fdb append {one['mac']} dev {name} dst {HOSTS[one['host']]}\n" for one in remote)
            batches = 'printf "%s" "$0" | ip -batch -; printf "%s" "$1" | bridge -batch -'
            ssh(host, "sh", "-ec", batches, words, entries)
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

    def _replica(self, one: dict[str, Any]) -> int:
        """Create and start a container where it does not run; return the number of changes."""
        client, resources = self.clients[one["host"]], one["resources"]
        try:
            if client.inspect_container(one["container"])["State"]["Running"]:
                return 0
        except docker.errors.NotFound:
            pass
        body = {
            "Hostname": one["name"],
            "Image": one["image"],
            "Env": [f"{name}={value}" for name, value in one["environment"].items()],
            "HostConfig": {
                "Init": True,
                "CpuPeriod": 100_000,
                "CpuQuota": resources["cpus"] * 100,
                "Memory": resources["memory"],
                "MemorySwap": resources["memory"],
                "ShmSize": resources["shm_size"],
                "ExtraHosts": [f"{peer['name']}:{peer['address']}" for peer in self.plan["replicas"]],
                "Binds": [f"{mount['source']}:{mount['target']}" for mount in one["mounts"]],
                "NetworkMode": self.plan["egress"]["name"],
            },
        }
        container = client.create_container_from_config(body, one["container"])["Id"]
        client.connect_container_to_network(container, self.network["name"], ipv4_address=one["address"])
        client.start(container)
        return 1

    def launch(self) -> int:
        """Launch, and return the number of changes."""
        made = each(self._host, HOSTS) + each(self._replica, self.plan["replicas"])
        return sum(map(int, made))

    def teardown(self) -> None:
        """Remove everything."""

        def remove(one: dict[str, Any]) -> None:
            self.clients[one["host"]].stop(one["container"], timeout=10)
            self.clients[one["host"]].remove_container(one["container"], v=True)

        def remove_networks(host: str) -> None:
            for name in (self.network["name"], self.plan["egress"]["name"]):
                self.clients[host].remove_network(name)
            ssh(host, "ip", "link", "delete", self.network["link"])

        each(remove, self.plan["replicas"])
        each(remove_networks, HOSTS)


def check(plan: Plan, with_ssh: bool) -> None:
    """Compare what runs in the lab with the plan. Raises RuntimeError for the first thing that differs."""
    seen = 0
    for host in HOSTS:
        wanted = {one["container"]: one for one in plan["replicas"] if one["host"] == host}
        ids = ssh(host, "docker", "ps", "-q").split()
        found = {one["Name"].lstrip("/"): one for one in json.loads(ssh(host, "docker", "inspect", *ids))}
        same(f"containers on {host}", set(found), set(wanted))
        for name, one in wanted.items():
            there, limits = found[name]["HostConfig"], one["resources"]
            same(f"CPU of {name}", there["CpuQuota"] / there["CpuPeriod"], limits["cpus"] / 1000)
            same(f"memory of {name}", (there["Memory"], there["MemorySwap"]), (limits["memory"],) * 2)
            same(f"shared memory of {name}", there["ShmSize"], limits["shm_size"])
            variables = {f"{key}={value}" for key, value in one["environment"].items()}
            same(f"missing variables of {name}", variables - set(found[name]["Config"]["Env"]), set())
            mounts = {(mount["Destination"], not mount["RW"]) for mount in found[name]["Mounts"]}
            asked = {(mount["target"], mount["read_only"]) for mount in one["mounts"]}
            same(f"missing mounts of {name}", asked - mounts, set())
            seen += 1
    same("number of containers", seen, SIZE)
    main = plan["replicas"][0]
    names = [one["name"] for one in plan["replicas"]]
    loop = f"for name in {' '.join(names)}; do ping -q -c 1 -w 5 -M do -s {plan['network']['mtu'] - 28} $name; done"
    replies = ssh(main["host"], "docker", "exec", main["container"], "sh", "-ec", loop)
    same("replies to packets of the full size", replies.count(" 0% packet loss"), SIZE)
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
    """Bring up the benchmark's own lab, and take it down at the end."""
    try:
        for name in ("lab_down", "lab_up", "prepare_hosts", "lab_images"):
            play(own(name))
        yield
    finally:
        if not keep:
            play(own("lab_down"))


def measure(rounds: int) -> dict[tuple[str, str], list[float]]:
    """Let the three ways take turns, one round more than asked to warm up; return the seconds of each step."""
    folder = Path(sockets())
    request, given = folder / "request.json", folder / "plan.json"
    request.write_text(json.dumps(REQUEST), encoding="utf-8")
    session = Session(request)
    session.launch()
    plan = session.plan()
    session.teardown()
    given.write_text(json.dumps({"plan": plan}), encoding="utf-8")
    ways: dict[str, Any] = {"session": session, "playbook": Playbook(given), "api": Api(plan)}
    seconds: dict[tuple[str, str], list[float]] = {(way, step): [] for way in WAYS for step in STEPS}
    for number in range(rounds + 1):
        for name, way in ways.items():
            begin = time.monotonic()
            made = way.launch()
            launched = time.monotonic() - begin
            if not made:
                raise RuntimeError(f"{name} changed nothing at its first launch.")
            check(session.plan() if name == "session" else plan, with_ssh=name != "api")
            begin = time.monotonic()
            made = way.launch()
            again = time.monotonic() - begin
            if made:
                raise RuntimeError(f"{name} changed {made} things at its second launch.")
            begin = time.monotonic()
            way.teardown()
            removed = time.monotonic() - begin
            check_empty()
            took = ", ".join(f"{step} {value:.2f}" for step, value in zip(STEPS, (launched, again, removed)))
            print(f"{f'round {number}' if number else 'warm-up'}, {name}: {took}", file=sys.stderr, flush=True)
            if number:
                for step, value in zip(STEPS, (launched, again, removed)):
                    seconds[name, step].append(value)
    return seconds


def report(seconds: dict[tuple[str, str], list[float]], rounds: int) -> str:
    """Return the table of medians and ratios."""
    middle = {key: statistics.median(values) for key, values in seconds.items()}
    lines = [f"{SIZE} replicas on {len(HOSTS)} hosts, {os.cpu_count()} cores, median of {rounds} rounds, in seconds"]
    lines.append(f"{'':14}" + "".join(f"{way:>24}" for way in WAYS) + f"{'session/playbook':>19}{'session/api':>14}")
    for step in STEPS:
        cells = []
        for way in WAYS:
            values = seconds[way, step]
            cells.append(f"{middle[way, step]:.2f} ({min(values):.2f}-{max(values):.2f})")
        ratios = [middle["session", step] / middle[way, step] for way in ("playbook", "api")]
        lines.append(f"{step:14}" + "".join(f"{cell:>24}" for cell in cells) + f"{ratios[0]:19.2f}{ratios[1]:14.1f}")
    return "\n".join(lines)


def main() -> None:
    """Entry point of the benchmark."""
    parser = argparse.ArgumentParser(description="Time a launch of twelve replicas on three hosts.")
    parser.add_argument("--rounds", type=int, default=3, help="rounds after the one to warm up")
    parser.add_argument("--keep-lab", action="store_true", help="leave the benchmark's lab up at the end")
    options = parser.parse_args()
    with lab(options.keep_lab):
        print(report(measure(options.rounds), options.rounds))


if __name__ == "__main__":
    main()

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one more host costs the controller: 100 and 1,000 names of an inventory, all of them one SSH server here.

Run by ``make bench-scale``. All of it happens in a network namespace of its own, which has a loopback and nothing else:
each name has an address of it and a state directory; behind all of them is an engine that only answers (it has nothing
and does nothing), so that what is measured is Ansible, SSH and the collection's own work. No test uses that engine.

Measured are verbs that look at every host of a group, and a plan for a session on three of them: seconds of processor
time of the controller (ansible-playbook and all that it waits for; kept SSH connections left out), bytes on the wire,
for each host, and how both grow from the smaller to the larger number. The yardstick is ``clush`` (the PyPI package
ClusterShell), which sends as many commands that do nothing to the same hosts in the same run. Prints what it measured;
times are never judged.
"""

from __future__ import annotations

import argparse
import http.server
import json
import os
import resource
import shutil
import signal
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
FORKS = 16
"""What two cores and an engine in Python answer in time."""
INSIDE = "CLUSTER_COMPUTE_BENCH_INSIDE"
"""Set once the benchmark is in its own namespaces."""
REQUEST = {
    "session_name": "scale",
    "session_size": 6,
    "session_image": "scale:latest",
    "session_cpus": "1",
    "session_memory": "512m",
}
HOST = {"NCPU": 2, "MemTotal": 8 << 30, "Architecture": "x86_64", "ServerVersion": "26.1.5", "SwapLimit": True}
IMAGE = {"Id": f"sha256:{'5' * 64}", "RepoDigests": [], "Architecture": "amd64", "Config": {}}
ANSWERS: dict[str, Any] = {
    "_ping": {},
    "version": {"ApiVersion": "1.45", "MinAPIVersion": "1.24", "Version": "26.1.5"},
    "info": HOST,
    "containers/json": [],
    "networks": [],
    "images/scale:latest/json": IMAGE,
    f"images/{IMAGE['Id']}/json": IMAGE,
}
"""What the engine answers, by the end of the path (Docker Engine API)."""


class AnsweringEngine(http.server.BaseHTTPRequestHandler):
    """An engine that only answers."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer what a look asks."""
        path = self.path.partition("?")[0].lstrip("/")
        path = path.partition("/")[2] if path.startswith("v1.") else path
        found = ANSWERS.get(path)
        body = json.dumps({"message": f"no {path} here"} if found is None else found).encode()
        self.send_response(404 if found is None else 200)
        self.send_header("Api-Version", "1.45")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *_args: object) -> None:
        """Say nothing."""

    def address_string(self) -> str:
        """Return who asks: a socket of the file system has no address."""
        return "local"


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Many hosts ask at once."""

    daemon_threads = True
    request_queue_size = 1024


def run(*argv: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run a program that has to succeed."""
    return subprocess.run(argv, check=True, text=True, **more)


def address(number: int) -> str:
    """Return the loopback address of a host."""
    return f"127.1.{number // 250}.{number % 250 + 1}"


def underlay(number: int) -> str:
    """Return the address that a host has for the others: of the network that RFC 2544 sets aside for benchmarks."""
    return f"198.18.{number // 250}.{number % 250 + 1}"


def begin(folder: Path, most: int) -> list[Callable[[], object]]:
    """Make the network, the engine and the SSH server; return what ends them."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "underlay", "type", "bridge")
    run("ip", "link", "set", "underlay", "up")
    batch = "".join(f"address add {underlay(number)}/15 dev underlay\n" for number in range(most))
    run("ip", "-batch", "-", input=batch)
    # What a host keeps beside its state directory is one place for all names: a folder of this namespace alone.
    run("mount", "-t", "tmpfs", "tmpfs", "/run")
    upper, work = folder / "upper", folder / "work"
    upper.mkdir()
    work.mkdir()
    run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir=/usr/local,upperdir={upper},workdir={work}", "/usr/local")
    runtime = Path("/usr/local/lib/cluster-compute/ssh-runtime")
    runtime.mkdir(parents=True)
    (runtime / "manifest").write_text("{}", encoding="utf-8")
    Path("/run/sshd").mkdir()
    engine = Server("/run/docker.sock", AnsweringEngine)
    threading.Thread(target=engine.serve_forever, daemon=True).start()

    for name in ("host", "client"):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name))
    shutil.copy(folder / "client.pub", folder / "authorized_keys")
    public = (folder / "host.pub").read_text(encoding="utf-8").split()
    (folder / "known_hosts").write_text(f"[127.*]:2222 {public[0]} {public[1]}\n", encoding="utf-8")
    (folder / "sshd_config").write_text(
        f"Port 2222\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized_keys\nStrictModes no\n"
        "PidFile none\nUsePAM no\nPermitRootLogin yes\nMaxStartups 2000\nMaxSessions 2000\n",
        encoding="utf-8",
    )
    # In this namespace alone: the user that the server's package would make, and a root whose shell reads no settings.
    accounts = Path("/etc/passwd").read_text(encoding="utf-8").splitlines()
    others = [line for line in accounts if line.split(":")[0] not in ("root", "sshd")]
    own = [f"root:x:0:0:root:{folder}/home:/bin/sh", "sshd:x:64999:65534::/run/sshd:/usr/sbin/nologin"]
    (folder / "home").mkdir()
    (folder / "passwd").write_text("".join(f"{line}\n" for line in own + others), encoding="utf-8")
    run("mount", "--bind", str(folder / "passwd"), "/etc/passwd")
    log = (folder / "sshd.log").open("w", encoding="utf-8")
    server = subprocess.Popen([*server_program(), "-D", "-e", "-f", str(folder / "sshd_config")], stderr=log)
    time.sleep(1)
    if server.poll() is not None:
        sys.exit(f"The SSH server did not start: {(folder / 'sshd.log').read_text(encoding='utf-8')}")
    return [server.terminate, engine.shutdown]


def server_program() -> list[str]:
    """Return the command of an SSH server: the machine's, or the distribution's package unpacked, not installed."""
    found = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    if found:
        return [found]
    place = CHECKOUT / ".cache" / "bench-sshd"
    program = place / "usr/sbin/sshd"
    if not program.exists():
        place.mkdir(parents=True, exist_ok=True)
        run("apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", "openssh-server", "libwrap0", cwd=place)
        for package in place.glob("*.deb"):
            run("dpkg-deb", "--extract", str(package), str(place))
    libraries = next(place.rglob("libwrap.so.0")).parent
    return ["env", f"LD_LIBRARY_PATH={libraries}", str(program)]


def inventory(folder: Path, count: int) -> Path:
    """Write the inventory of *count* names."""
    hosts = {
        f"s{number:04}": {
            "ansible_host": address(number),
            "cluster_compute_underlay_address": underlay(number),
            "cluster_compute_state_directory": f"{folder}/state/s{number:04}",
        }
        for number in range(count)
    }
    options = f"-o UserKnownHostsFile={folder}/known_hosts -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes"
    variables = {
        "ansible_port": 2222,
        "ansible_user": "root",
        "ansible_python_interpreter": sys.executable,
        "ansible_ssh_private_key_file": f"{folder}/client",
        "ansible_ssh_common_args": options,
        "ansible_ssh_pipelining": True,
    }
    path = folder / f"inventory{count}.json"
    group = {"cluster_compute_hosts": {"hosts": hosts, "vars": variables}}
    path.write_text(json.dumps({"all": {"children": group}}), encoding="utf-8")
    return path


def wire() -> int:
    """Return the bytes that have gone over the loopback."""
    # Not below /sys, which shows the namespace that it was mounted in.
    lines = Path("/proc/self/net/dev").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.strip().startswith("lo:"))


def measured(argv: list[str]) -> dict[str, float]:
    """Run a command and return its processor seconds, wall seconds and bytes; end with its output where it fails.

    The SSH server and what it starts are not below the command, so the hosts' side is not counted.
    """
    before, sent, start = resource.getrusage(resource.RUSAGE_CHILDREN), wire(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="cc") as sockets:
        # Connections that the command before has left open would spare this one a handshake with each host.
        own = {**os.environ, "ANSIBLE_SSH_CONTROL_PATH_DIR": sockets}
        given: dict[str, Any] = {"stdin": subprocess.DEVNULL, "cwd": CHECKOUT, "env": own}
        done = subprocess.run(argv, capture_output=True, text=True, check=False, **given)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        output = done.stdout.partition("PLAY RECAP")[0]  # which has a line for each host
        sys.exit(f"{' '.join(argv)} ended with {done.returncode}:\n{output[-4000:]}{done.stderr[-2000:]}")
    return {
        "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "wall": time.monotonic() - start,
        "bytes": float(wire() - sent),
    }


def commands(folder: Path, count: int) -> dict[str, list[str]]:
    """Return what is measured, by name."""
    play = ["ansible-playbook", "-i", str(inventory(folder, count)), "--forks", str(FORKS)]
    request = folder / "request.json"
    request.write_text(json.dumps(REQUEST), encoding="utf-8")
    nodes = ",".join(address(number) for number in range(count))
    ssh = f"-p 2222 -i {folder}/client -o UserKnownHostsFile={folder}/known_hosts -o StrictHostKeyChecking=yes"
    return {
        "status": [*play, str(CHECKOUT / "playbooks/status.yml")],
        "plan_cluster": [*play, str(CHECKOUT / "playbooks/plan_cluster.yml"), "-e", f"@{request}"],
        "teardown_cluster": [*play, str(CHECKOUT / "playbooks/teardown_cluster.yml"), "-e", "session_name=scale"],
        "clush": ["clush", "-f", str(FORKS), "-l", "root", "-o", ssh, "-w", nodes, "-N", "true"],
    }


def prepare(folder: Path, count: int) -> None:
    """Keep containers out of all overlays, as the preparation of each host does; here they share one firewall."""
    module = ["-m", "cluster_compute.session.host_firewall", "-a", f"underlay_address={underlay(0)}"]
    run("ansible", "-i", str(inventory(folder, count)), "s0000", *module, cwd=CHECKOUT, stdout=subprocess.DEVNULL)


def measure(folder: Path, counts: list[int]) -> dict[int, dict[str, dict[str, float]]]:
    """Return the figures by number of hosts and command, and print each when it is known: the large ones take long."""
    found: dict[int, dict[str, dict[str, float]]] = {}
    for count in counts:
        print(f"{count} hosts, {FORKS} forks")
        print("  command            controller CPU ms/host   wall ms/host   bytes/host", flush=True)
        argv_of = commands(folder, count)
        prepare(folder, count)
        found[count] = {}
        # The first look, which brings the program, is by itself.
        for name, argv in {"first look": argv_of["status"], **argv_of}.items():
            figures = found[count][name] = measured(argv)
            each = (figures["cpu"] / count * 1000, figures["wall"] / count * 1000, figures["bytes"] / count)
            print("  {:<18} {:>22.1f} {:>14.1f} {:>12.0f}".format(name, *each), flush=True)
        shutil.rmtree("/usr/local/lib/cluster-compute/programs", ignore_errors=True)
    return found


def report(found: dict[int, dict[str, dict[str, float]]]) -> None:
    """Print how the figures grow with the number of hosts."""
    counts = sorted(found)
    if len(counts) > 1:
        small, large = counts[0], counts[-1]
        print(f"growth of the CPU seconds from {small} to {large} hosts ({large / small:.0f} times as many)")
        for name in found[small]:
            print(f"  {name:<18} {found[large][name]['cpu'] / max(found[small][name]['cpu'], 1e-9):.1f} times")


def main() -> None:
    """Entry point of the benchmark."""
    parser = argparse.ArgumentParser(description="Time what each host of a large inventory costs the controller.")
    parser.add_argument("--counts", type=int, nargs="+", default=[100, 1000], help="numbers of hosts")
    parser.add_argument("--smoke", action="store_true", help="the smallest size once, to see that it runs")
    chosen = parser.parse_args()
    counts = [4] if chosen.smoke else sorted(chosen.counts)
    if not os.environ.get(INSIDE):
        server_program()  # a download needs the network that is left behind here
        argv = ["unshare", "--mount", "--net", sys.executable, str(Path(__file__).resolve()), *sys.argv[1:]]
        sys.exit(subprocess.run(argv, env={**os.environ, INSIDE: "1"}, check=False).returncode)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="cc-scale-") as name:
        folder = Path(name)
        # Connections that another run kept lead into its namespaces.
        os.environ["ANSIBLE_SSH_CONTROL_PATH_DIR"] = str(folder / "connections")
        ends = begin(folder, max(counts))
        try:
            report(measure(folder, counts))
        finally:
            for end in ends:
                end()
            subprocess.run(["umount", "/usr/local"], check=False)


if __name__ == "__main__":
    main()

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Virtual machines of QEMU on a bridge of this machine: on, off, saved and given back as they were.

Names and network are those of a lab (`lab.names`, `lab.network`) whose hosts are machines instead of namespaces, so
that the tests' driver finds them. Everything is in one folder, and nothing listens beyond the bridge.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import yaml
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.lab import network
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.lab.names import Lab, hardware_address

from . import disks

CHECKOUT = Path(__file__).resolve().parents[3]
INVENTORY = CHECKOUT / "inventories" / "machines"
FOLDER = CHECKOUT / ".cache" / "machines"
_SITE = yaml.safe_load((INVENTORY / "group_vars" / "all.yml").read_text(encoding="utf-8"))
SUBNET = str(_SITE["lab_subnet"])
LAB = Lab(str(_SITE["lab_name"]), str(FOLDER))
IPV6 = "fd00:cc:205::"
"""Each machine also has an address in this network of 64 bits, with the last number of the other."""
MEMORY = 1800
"""Memory of a machine, in MiB."""
SECONDS = 1200
"""How long a machine may take to boot; emulated and three at once it is minutes."""
PATIENT = "systemd.default_timeout_start_sec=900 systemd.default_device_timeout_sec=900 systemd.mask=serial-getty@ttyS0"
"""What the kernel tells systemd: a machine that boots slowly is not broken, and nobody logs in at its console."""
_MONITOR_SECONDS = 300
PROMPT = b"(qemu) "
PREPARED = "prepared"
"""The name of the state that tests begin with."""


class MachineError(Exception):
    """A machine does not do what it should; the message is a sentence."""


@dataclass(frozen=True)
class Machine:
    """A virtual machine: its name, its address on the bridge, and the release of Debian that it runs."""

    name: str
    address: str
    release: str
    engine: str
    """Its /etc/docker/daemon.json."""

    @property
    def folder(self) -> Path:
        """The folder with its disk and all else that is its own."""
        return FOLDER / "hosts" / self.name

    @property
    def disk(self) -> Path:
        """Its disk, which also holds what was saved."""
        return self.folder / "disk.qcow2"

    @property
    def link(self) -> str:
        """Name of the bridge's port to it."""
        return LAB.host(self.name).link

    @property
    def ipv6(self) -> str:
        """Its IPv6 address."""
        return f"{IPV6}{self.address.rpartition('.')[2]}"

    def process(self) -> int | None:
        """Return the number of its process, or None where it is off."""
        try:
            number = int((self.folder / "pid").read_text(encoding="ascii"))
            command = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError, ValueError):
            return None
        return number if str(self.disk).encode() in b" ".join(command) else None

    def create(self, release: disks.Release, images: tuple[Path, ...]) -> None:
        """Write its disk, with the keys by which it is logged in to."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        _make_key(self.folder / "host_key", f"root@{self.name}")
        files = {
            "/etc/hostname": (f"{self.name}\n", 0o644),
            "/etc/hosts": (f"127.0.0.1 localhost\n{self.address} {self.name}\n", 0o644),
            "/etc/resolv.conf": (f"nameserver {self.address}\n", 0o644),
            "/etc/machine-id": (f"{uuid.uuid4().hex}\n", 0o444),
            "/etc/dpkg/dpkg.cfg.d/machine": ("force-unsafe-io\npath-exclude=/usr/share/doc/*\n", 0o644),
            "/etc/fstab": ("/dev/vda / ext4 defaults 0 1\n", 0o644),
            "/etc/apt/sources.list": ("deb [trusted=yes] file:/var/cache/lab-packages ./\n", 0o644),
            "/etc/systemd/network/eth.network": (
                f"[Match]\nMACAddress={hardware_address(self.address)}\n"
                f"[Network]\nAddress={self.address}/{SUBNET.partition('/')[2]}\nAddress={self.ipv6}/64\n"
                f"Gateway={network.gateway(SUBNET).partition('/')[0]}\n"
                "LinkLocalAddressing=ipv6\nIPv6AcceptRA=no\n",
                0o644,
            ),
            "/etc/ssh/ssh_host_ed25519_key": ((self.folder / "host_key").read_text(encoding="ascii"), 0o600),
            "/etc/ssh/ssh_host_ed25519_key.pub": ((self.folder / "host_key.pub").read_text(encoding="ascii"), 0o644),
            "/etc/docker/daemon.json": (self.engine, 0o644),
            "/root/.ssh/authorized_keys": (Path(f"{LAB.key}.pub").read_text(encoding="ascii"), 0o600),
        }
        disks.write_disk(release, files, images, self.disk)
        for source, name in ((release.kernel, "kernel"), (release.initrd, "initrd")):
            shutil.copyfile(source, self.folder / name)

    def start(self, saved: str = "") -> None:
        """Switch it on: from its disk, or where *saved* names a state, from that."""
        if self.process() is not None:
            return
        if not os.path.isdir(f"/sys/class/net/{self.link}"):
            _ip("tuntap", "add", "dev", self.link, "mode", "tap")
        _ip("link", "set", "dev", self.link, "master", LAB.bridge, "up")
        (self.folder / "monitor").unlink(missing_ok=True)
        words = [
            *(
                "qemu-system-x86_64",
                "-name",
                self.name,
                *accelerator(self.folder / "kernel"),
                "-smp",
                "2",
                "-m",
                str(MEMORY),
            ),
            *("-kernel", f"{self.folder}/kernel", "-initrd", f"{self.folder}/initrd"),
            *("-append", f"root=/dev/vda rw console=ttyS0 panic=5 mitigations=off net.ifnames=0 {PATIENT}"),
            *("-drive", f"file={self.disk},if=virtio,format=qcow2,cache=unsafe"),
            *("-netdev", f"tap,id=net,ifname={self.link},script=no,downscript=no"),
            *("-device", f"virtio-net-pci,netdev=net,mac={hardware_address(self.address)}"),
            *("-display", "none", "-serial", f"file:{self.folder}/console.log", "-daemonize"),
            *("-monitor", f"unix:{self.folder}/monitor,server=on,wait=off", "-pidfile", f"{self.folder}/pid"),
        ]
        words += ["-loadvm", saved] if saved else []
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=_MONITOR_SECONDS)
        if done.returncode != 0:
            raise MachineError(f"The machine {self.name} does not start: {done.stderr.strip()}")

    def cut_power(self) -> None:
        """End it at once, as when its power is cut. What it had written stays on its disk."""
        number = self.process()
        if number is None:
            return
        os.kill(number, signal.SIGKILL)
        while self.process() is not None:
            time.sleep(0.05)

    def remove(self) -> None:
        """Remove the machine, its disk and its port."""
        self.cut_power()
        if os.path.isdir(f"/sys/class/net/{self.link}"):
            _ip("link", "delete", "dev", self.link)
        shutil.rmtree(self.folder, ignore_errors=True)

    def save(self, name: str) -> None:
        """Save disk and memory under a name, beside what was saved under others."""
        self.ask(f"savevm {name}")

    def load(self, name: str) -> None:
        """Give back what was saved, and set its clock, which stood still meanwhile."""
        if self.process() is None:
            self.start(name)
        else:
            self.ask(f"loadvm {name}")
        self.await_ssh()
        self.set_clock()

    def saved(self) -> set[str]:
        """Return the names of what was saved."""
        listing = subprocess.run(
            ["qemu-img", "snapshot", "--force-share", "-l", str(self.disk)], capture_output=True, text=True, check=True
        ).stdout
        return {line.split()[1] for line in listing.splitlines()[2:]}

    def ask(self, command: str) -> str:
        """Give a command to QEMU's monitor and return its answer. Raises MachineError for any that is an error."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as monitor:
            monitor.settimeout(_MONITOR_SECONDS)
            monitor.connect(str(self.folder / "monitor"))
            _until_prompt(monitor)
            monitor.sendall(command.encode() + b"\n")
            answer = _until_prompt(monitor)
        # The line is echoed as it is edited, with movements of the cursor.
        lines = re.sub(r"\x1b\[[0-9]*[A-Z]", "", answer).replace("\r", "").splitlines()[1:]
        text = "\n".join(line for line in lines if line.strip() and line.strip() != "(qemu)")
        if text.startswith("Error"):
            raise MachineError(f"The machine {self.name} answers '{command}' with: {text}")
        return text

    def ssh(self, *argv: str, seconds: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a program there as root, and return how it ended."""
        return subprocess.run(
            ["ssh", *SSH, f"root@{self.address}", *argv],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def await_ssh(self, seconds: float = SECONDS) -> None:
        """Wait until it lets us log in. Raises MachineError after *seconds*, with the end of its console."""
        deadline = time.monotonic() + seconds
        while self.ssh("true").returncode != 0:
            console = self.folder / "console.log"
            if self.process() is None or time.monotonic() > deadline:
                end = "\n".join(console.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
                raise MachineError(f"The machine {self.name} does not let us log in. Its console says: {end}")
            time.sleep(1)

    def set_clock(self) -> None:
        """Set its clock to that of this machine."""
        done = self.ssh("date", "--set", f"@{time.time():.3f}")
        if done.returncode != 0:
            raise MachineError(f"The clock of {self.name} cannot be set: {done.stderr}")


SSH = (
    *("-i", LAB.key, "-o", f"UserKnownHostsFile={LAB.known_hosts}", "-o", "GlobalKnownHostsFile=/dev/null"),
    *("-o", "StrictHostKeyChecking=yes", "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"),
    *("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "-o", "LogLevel=ERROR"),
)


def machines() -> tuple[Machine, ...]:
    """Return the machines of the inventory."""
    hosts = yaml.safe_load((INVENTORY / "hosts.yml").read_text(encoding="utf-8"))["all"]["children"]["lab"]["hosts"]
    return tuple(
        Machine(
            str(name),
            str(values["ansible_host"]),
            str(values["lab_release"]),
            json.dumps(values.get("machine_engine", {}), indent=2) + "\n",
        )
        for name, values in hosts.items()
    )


def reset(all_machines: Iterable[Machine]) -> None:
    """Set machines back to what they were after their preparation."""
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda machine: machine.load(PREPARED), all_machines))


def create_network() -> None:
    """Create the bridge, and the rule that lets the machines talk over it."""
    network.create_network(LAB, SUBNET, network.missing_network(LAB, SUBNET))


def remove_network() -> None:
    """Remove the bridge and all that is on it."""
    network.remove_network(LAB)


def make_keys() -> None:
    """Write the key that logs in to machines, unless it is there."""
    Path(LAB.key).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not Path(LAB.key).exists():
        _make_key(Path(LAB.key), f"lab {LAB.name}")


def know(all_machines: tuple[Machine, ...]) -> None:
    """Write the list of the machines' own keys."""
    lines = []
    for machine in all_machines:
        kind, key = (machine.folder / "host_key.pub").read_text(encoding="ascii").split()[:2]
        lines.append(f"{machine.name},{machine.address} {kind} {key}\n")
    Path(LAB.known_hosts).write_text("".join(lines), encoding="ascii")


@functools.cache
def accelerator(kernel: Path) -> tuple[str, ...]:
    """Return QEMU's options for the processors: this machine's own where they carry a kernel, else emulated.

    Some hypervisors offer KVM that only carries kernels made for them. One that comes as far as missing its root works.
    """
    emulated = ("-accel", "tcg,thread=multi", "-cpu", "max")
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return emulated
    own = ("-accel", "kvm", "-cpu", "host")
    with tempfile.TemporaryDirectory() as folder:
        console = Path(folder) / "console"
        words = ["timeout", "20", "qemu-system-x86_64", *own, "-m", "512", "-display", "none", "-no-reboot"]
        words += ["-nic", "none", "-monitor", "none", "-serial", f"file:{console}", "-kernel", str(kernel)]
        words += ["-append", "console=ttyS0 panic=-1"]
        subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        works = console.exists() and "Unable to mount root fs" in console.read_text(encoding="utf-8", errors="replace")
    return own if works else emulated


def _make_key(path: Path, comment: str) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)], check=True)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def _until_prompt(monitor: socket.socket) -> str:
    answer = b""
    while not answer.endswith(PROMPT):
        some = monitor.recv(4096)
        if not some:
            raise MachineError("QEMU's monitor ended.")
        answer += some
    return answer.decode("utf-8", "replace")

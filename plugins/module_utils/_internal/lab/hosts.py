# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Create, boot, power off and remove lab hosts."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import socket
import time
from collections.abc import Mapping

from ..core.values.deferred import dataclass
from . import boot, cgroups, network, processes
from .names import KNOWN_ENTRIES, HostNames, Lab
from .system import LabError, locked, read_file, run, write_file

_SHARED = re.compile(r"(/[A-Za-z0-9_.-]+)+")


@dataclass(frozen=True)
class HostSettings:
    """The settings of a host, which do not change until it is removed."""

    tree: str
    address: str
    subnet: str
    mtu: int
    shared_folders: tuple[str, ...]
    images: str

    def __post_init__(self) -> None:
        network.check_address(self.address, self.subnet)
        for folder in self.shared_folders:
            if not _SHARED.fullmatch(folder) or ".." in folder.split("/"):
                raise LabError(
                    f"lab_shared_folders holds '{folder}'; each one must be an absolute path on the hosts, of letters, "
                    "digits and the characters _.- only."
                )


def state(host: HostNames) -> str:
    """Return 'running', 'off' (its disk exists, nothing runs) or 'absent'."""
    if processes.running(host) is not None:
        return "running"
    return "off" if os.path.isdir(host.directory) else "absent"


def ensure_running(host: HostNames, settings: HostSettings, seconds: float, check_mode: bool) -> bool:
    """Create a host and boot it, as far as needed. Return whether anything was needed.

    Raises LabError if the host exists with other settings, or does not answer on port 22 within `seconds`.
    """
    with locked(host.lab.lock, shared=True), locked(f"{host.lab.lock}.{host.name}"):
        settings = _settings_of(host, settings)
        if processes.running(host) is not None:
            return False
        if not check_mode:
            _boot(host, settings)
            _await_ssh(host, settings.address, seconds)
        return True


def _settings_of(host: HostNames, settings: HostSettings) -> HostSettings:
    """Return the settings for the boot: the requested ones, with the tree of the host if it exists."""
    text = read_file(f"{host.directory}/settings.json")
    if text is None:
        return settings
    current = json.loads(text)
    wanted = json.loads(json.dumps(dataclasses.asdict(settings)))
    # A newer recipe of the same release is for new hosts. This one keeps the tree of its disk.
    for values in (current, wanted):
        values["release"] = os.path.basename(values["tree"]).partition("-")[0]
    different = sorted(key for key in wanted if key != "tree" and current.get(key) != wanted[key])
    if different:
        raise LabError(
            f"The lab host {host.name} was made with other settings: "
            + "; ".join(f"{key} was {current.get(key)!r} and is now {wanted[key]!r}" for key in different)
            + ". Remove the lab first (playbook lab_down), then bring it up again."
        )
    if not os.path.isdir(current["tree"]):
        raise LabError(f"The base tree {current['tree']} of the lab host {host.name} is gone; remove the lab first.")
    return dataclasses.replace(settings, tree=current["tree"])


def _boot(host: HostNames, settings: HostSettings) -> None:
    _clean_remains(host)
    os.makedirs(f"{host.directory}/docker", mode=0o710, exist_ok=True)
    binds = [("/var/lib/docker", f"{host.directory}/docker", False), ("/srv/lab-images", settings.images, True)]
    for folder in settings.shared_folders:
        source = f"{host.lab.directory}/shared{folder}"
        os.makedirs(source, exist_ok=True)
        binds.append((folder, source, False))
    os.makedirs(settings.images, exist_ok=True)
    made_now = not os.path.exists(f"{host.directory}/settings.json")
    files = _first_files(host, settings, _lab_key(host.lab)) if made_now else {}
    network.attach_host(host, settings.address, settings.subnet, settings.mtu)
    pid = boot.boot(
        boot.BootPlan(
            hostname=host.name,
            namespace=host.namespace,
            cgroup=host.cgroup,
            tree=settings.tree,
            directory=host.directory,
            binds=tuple(binds),
            files=files,
        )
    )
    processes.record_running(host, pid)
    if made_now:
        # Last step. A host that was killed before this line is created again from the start.
        write_file(f"{host.directory}/settings.json", json.dumps(dataclasses.asdict(settings)))


def _clean_remains(host: HostNames) -> None:
    """Remove what a power cut or a killed run of this module left."""
    processes.kill(host.directory)
    cgroups.remove(host.cgroup)
    if os.path.isdir(host.directory) and not os.path.exists(f"{host.directory}/settings.json"):
        boot.clear_disk(host.directory)


def _lab_key(lab: Lab) -> str:
    """Return the public key for logging in to the lab's hosts. The pair is created with the first host."""
    with locked(f"{lab.lock}.key"):
        os.makedirs(os.path.dirname(lab.key), mode=0o700, exist_ok=True)
        public = read_file(f"{lab.key}.pub")
        if public is None:
            run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"lab {lab.name}", "-f", lab.key], stdin="y\n")
            public = read_file(f"{lab.key}.pub") or ""
        return public


def _first_files(host: HostNames, settings: HostSettings, authorized: str) -> Mapping[str, tuple[str, int]]:
    """Return the files that the lab writes on a new host's disk, as an installer does."""
    key = f"{host.directory}/host_key"
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"root@{host.name}", "-f", key], stdin="y\n")
    private, public = read_file(key) or "", read_file(f"{key}.pub") or ""
    for path in (key, f"{key}.pub"):
        os.unlink(path)
    _know_host(host, settings.address, public)
    engine = {"cgroup-parent": f"/{host.cgroup}"}
    return {
        "/etc/hostname": (f"{host.name}\n", 0o644),
        "/etc/hosts": (f"127.0.0.1 localhost\n{settings.address} {host.name}\n", 0o644),
        # The lab has no name server. The host's own address rejects queries at once, and keeps the engine from other
        # servers.
        "/etc/resolv.conf": (f"nameserver {settings.address}\n", 0o644),
        "/etc/fstab": ("cgroup /sys/fs/cgroup none noauto 0 0\n", 0o644),
        "/etc/ssh/ssh_host_ed25519_key": (private, 0o600),
        "/etc/ssh/ssh_host_ed25519_key.pub": (public, 0o644),
        "/root/.ssh/authorized_keys": (authorized, 0o600),
        "/etc/docker/daemon.json": (json.dumps(engine, indent=2) + "\n", 0o644),
        # Services start at boot and on request, not from a package's scripts. An engine started there can keep files
        # of the installer open, and the installer would then wait forever.
        "/usr/sbin/policy-rc.d": ("#!/bin/sh\nexit 101\n", 0o755),
        "/etc/default/docker": (
            "# The start script raises limits, which the machine under a lab may not permit.\n"
            'ulimit() { command ulimit "$@" 2>/dev/null || command ulimit "$1" "$(command ulimit -H "$1")"; }\n',
            0o644,
        ),
    }


def _know_host(host: HostNames, address: str, public: str) -> None:
    with locked(f"{host.lab.lock}.known_hosts"):
        os.makedirs(os.path.dirname(host.lab.known_hosts), mode=0o700, exist_ok=True)
        lines = [line for line in _known_lines(host.lab) if line.split(" ")[0].split(",")[0] != host.name]
        kind, key = public.split()[:2]
        lines.append(f"{host.name},{address} {kind} {key}")
        write_file(host.lab.known_hosts, "".join(f"{line}\n" for line in lines))


def _known_lines(lab: Lab) -> list[str]:
    return (read_file(lab.known_hosts) or "").splitlines()


def _await_ssh(host: HostNames, address: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            with socket.create_connection((address, 22), timeout=1) as connection:
                connection.settimeout(2)
                if connection.recv(4) == b"SSH-":
                    return
                problem = "something other than SSH answers"
        except OSError as error:
            problem = str(error)
        if processes.running(host) is None:
            problem = "its first process has ended"
            deadline = 0
        if time.monotonic() > deadline:
            console = "\n".join((read_file(f"{host.directory}/console.log") or "").splitlines()[-15:])
            raise LabError(
                f"The lab host {host.name} did not answer at {address} port 22 within {seconds:.0f} seconds: "
                f"{problem}. Its console says: {console}"
            )
        time.sleep(0.05)


def ensure_off(host: HostNames, check_mode: bool) -> bool:
    """Cut the power of a host. It sends nothing more and all its processes end. Its disk stays."""
    with locked(host.lab.lock, shared=True), locked(f"{host.lab.lock}.{host.name}"):
        if state(host) == "absent":
            raise LabError(f"The lab {host.lab.name} has no host {host.name}, so its power cannot be cut.")
        attached = os.path.exists(f"/run/netns/{host.namespace}")
        if processes.running(host) is None and not attached:
            return False
        if not check_mode:
            _cut_power(host)
        return True


def _cut_power(host: HostNames) -> None:
    network.unplug_host(host)
    processes.kill(host.directory)
    network.detach_host(host)
    cgroups.remove(host.cgroup)
    if os.path.exists(host.record):
        os.unlink(host.record)


def ensure_absent(host: HostNames, check_mode: bool) -> bool:
    """Remove a host and its disk. Return whether there was one."""
    with locked(host.lab.lock, shared=True), locked(f"{host.lab.lock}.{host.name}"):
        if not os.path.isdir(host.directory) and not os.path.exists(f"/run/netns/{host.namespace}"):
            return False
        if not check_mode:
            _cut_power(host)
            boot.clear_disk(host.directory)
        return True


def remove_lab(lab: Lab, check_mode: bool) -> list[str]:
    """Remove everything with the lab's name, with or without its state. Return what was removed.

    It waits for a run of the lab that is still in progress, even if its Ansible was killed.
    """
    _check_directory(lab)
    with locked(lab.lock):
        found = _find(lab)
        if check_mode or not found:
            return found
        for name in network.namespaces(lab):
            network.unplug_host(lab.host(name[len(lab.namespace_prefix) :]))
        processes.kill(lab.directory)
        network.remove_network(lab)
        cgroups.remove(lab.cgroup)
        boot.clear_disk(lab.directory)
        _remove_locks(lab)
        return found


def _check_directory(lab: Lab) -> None:
    try:
        entries = set(os.listdir(lab.directory))
    except FileNotFoundError:
        return
    if entries - KNOWN_ENTRIES:
        raise LabError(
            f"The directory {lab.directory} holds {sorted(entries - KNOWN_ENTRIES)[0]}, which no lab puts there; "
            "it is left alone. Name the lab's own directory in lab_directory."
        )


def _find(lab: Lab) -> list[str]:
    found = [f"network namespace {name}" for name in network.namespaces(lab)]
    found += [f"process {pid}" for pid in sorted(processes.below(lab.directory))]
    if "bridge" not in network.missing_parts(lab):
        found.append(f"bridge {lab.bridge}")
    if "rule" not in network.missing_parts(lab):
        found.append("firewall rule")
    found += [f"control group {mount}/{lab.cgroup}" for mount in cgroups.existing(lab.cgroup)]
    if os.path.isdir(lab.directory):
        found.append(f"directory {lab.directory}")
    return found


def _remove_locks(lab: Lab) -> None:
    folder = os.path.dirname(lab.lock)
    for name in os.listdir(folder):
        if name.startswith(f"{lab.name}.lock."):
            os.unlink(f"{folder}/{name}")

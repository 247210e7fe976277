# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Test that an SSH runtime works, by running each of its programs in a root that contains nothing else.

Two replicas, each with one name, are on the loopback of a separate network namespace, with the same server. All
processes and mounts there end with the first process of the namespaces.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from ..adapters import ssh_keys
from ..adapters.command import run_command
from ..adapters.state import write_file
from ..core.rules.environment import SSH_PORT, environment_file
from ..core.values.errors import SessionError
from ..core.values.places import DIRECTORY, LAUNCHERS, RUNTIME, SERVER, SERVER_PARTS, SHELL, SLURM

SECONDS = 60.0
"""Seconds for all programs together."""
_FAILED = " failed with status 1: "
_SSH = f"{DIRECTORY}/ssh"
_ADDRESS = "127.0.0.1"
_NAMES = ("main1", "sub1")
_NAMESPACES = ("--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
_CLIENT = f"""\
Host {" ".join(_NAMES)}
    Port {SSH_PORT}
    IdentityFile {_SSH}/{ssh_keys.CLIENT_KEY}
    GlobalKnownHostsFile {_SSH}/known_hosts
    StrictHostKeyChecking yes
    BatchMode yes
    ConnectTimeout 10
"""
_PASSWD = f"root:*:0:0:root:/root:{SHELL}\nsshd:*:100:65534::/run/sshd:{SHELL}\n"
# /proc/net/tcp has ports in hexadecimal, and 0A for who listens (proc(5)).
_SCRIPT = f"""\
set -eu
root=$1 runtime=$2
mount --bind "$runtime" "$root{RUNTIME}"
mount --rbind /dev "$root/dev"
mount --rbind /proc "$root/proc"
ip link set lo up
expect() {{
    wanted=$1 code=0
    shift
    said=$(chroot "$root" "$@" </dev/null 2>&1) || code=$?
    [ "$code" = "$wanted" ] || {{ echo "$* ended with $code: $said" >&2; exit 1; }}
}}
expect 0 {SHELL} -c :
expect 0 {SERVER} -f {_SSH}/sshd_config
until grep -q ':{SSH_PORT:04X} [0-9A-F:]* 0A ' /proc/net/tcp; do sleep 0.05; done
expect 0 {RUNTIME}/bin/ssh sub1 :
expect 0 {RUNTIME}/bin/session-run --help
expect 2 {RUNTIME}/bin/session-run --on nobody {SHELL}
expect 0 {RUNTIME}/bin/session-run {SHELL} -c :
expect 3 {RUNTIME}/bin/session-run -n 2 {SHELL} -c 'exit 3'
expect 127 {RUNTIME}/bin/session-run /no/such/program
expect 0 {RUNTIME}/bin/scp {_SSH}/known_hosts sub1:/tmp/copy
expect 0 {RUNTIME}/bin/sftp -b {_SSH}/batch sub1
expect 0 {LAUNCHERS}/torchrun --standalone
expect 0 {SLURM}/scontrol show hostnames sub[1-2]
"""


class ProofFailed(SessionError):
    """A runtime does not work on this host. The message is a full sentence."""


def prove(runtime: Path) -> None:
    """Run all programs of the *runtime*, wherever it is. Raises ProofFailed with the output of the failed one."""
    root = Path(tempfile.mkdtemp(prefix=f".{runtime.name}-proof-", dir=runtime.parent))
    try:
        _make_root(root, runtime)
        path = {"PATH": f"{LAUNCHERS}:{os.environ.get('PATH', '')}:/usr/sbin:/sbin:/usr/bin:/bin", "HOME": "/root"}
        command = ["unshare", *_NAMESPACES, "/bin/sh", str(root / "prove"), str(root), str(runtime)]
        try:
            run_command(command, error=ProofFailed, environment=path, seconds=SECONDS)
        except ProofFailed as error:  # the script reports what failed, and how it was started does not help
            raise ProofFailed(str(error).partition(_FAILED)[2] or str(error)) from None
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _make_root(root: Path, runtime: Path) -> None:
    """Create the files that a session gives to a replica, and the few that every image has."""
    os.chmod(root, 0o755)  # noqa: S103 - sshd gives up its rights, and the programs are everybody's
    for name in ("dev", "proc", "root", "tmp", "run/sshd", "bin", RUNTIME[1:], _SSH[1:]):
        (root / name).mkdir(parents=True)
    folder = root / _SSH[1:]
    client = ssh_keys.create_key(folder / ssh_keys.CLIENT_KEY)
    server = ssh_keys.create_key(folder / ssh_keys.HOST_KEY)
    parts = {name: path for name, path in SERVER_PARTS.items() if (runtime / path[len(RUNTIME) + 1 :]).exists()}
    settings = ssh_keys.server_configuration(_ADDRESS, False, _SSH, {"PROOF": "1"}, parts, "127.0.0.0/8")
    values = {
        "BACKENDAI_CLUSTER_HOSTS": ",".join(_NAMES),
        "BACKENDAI_CLUSTER_HOST": _NAMES[0],
        "MASTER_PORT": "29500",
    }
    known = "".join(f"{name},[{name}]:{SSH_PORT},[{_ADDRESS}]:{SSH_PORT} {server}\n" for name in _NAMES)
    for path, text in {
        root / "prove": _SCRIPT,
        root / "etc/passwd": _PASSWD,
        root / "etc/hosts": "".join(f"{_ADDRESS} {name}\n" for name in _NAMES),
        root / DIRECTORY[1:] / "environment": environment_file(values),
        folder / "authorized_keys": f"{client}\n",
        folder / "known_hosts": known,
        folder / "ssh_config": _CLIENT,
        folder / "sshd_config": settings,
        folder / "batch": "ls /tmp\n",
    }.items():
        write_file(path, text)
    write_file(root / "bin/torchrun", f"#!{SHELL}\nexit 0\n", 0o755)

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Check the SSH server of a running replica, and end it, from the host."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator

from ..core.values.places import SERVER
from . import background
from .link import LinkError, run_in_network_of
from .listeners import listening_sockets, listens

SECONDS = 5.0
"""Seconds to wait for an answer, or for the end."""


def host_key(pid: int, address: str, port: int) -> str | None:
    """Return the host key "ssh-ed25519 AAAA…" of the server at *address* and *port* in the network of *pid*.

    "" if none listens; None if one does and does not answer, as while the replica is cut off from its network.
    """
    if not listens(pid, address, port):
        return ""
    command = ["ssh-keyscan", "-T", f"{SECONDS:.0f}", "-p", str(port), "-t", "ed25519", address]
    try:
        output = run_in_network_of(pid, command)
    except LinkError:
        return None
    lines = [line.split() for line in output.splitlines() if not line.startswith("#")]
    return " ".join(lines[0][1:3]) if lines else None


def start_times() -> dict[int, float]:
    """Return when the servers that run here were started, by the first process of their container.

    In seconds of the calendar clock as it is now, and too early by at most a tick of the kernel; if there are several,
    the time of the last one.
    """
    found: dict[int, tuple[bool, float]] = {}
    for server, init in _servers():
        found[init] = max(found.get(init, (False, 0.0)), (_listens(server), background.started_at(server)))
    return {init: started for init, (_listening, started) in found.items()}


def end(init: int, address: str, port: int) -> None:
    """End the server whose parent is *init*, the first process of its container; open logins continue."""
    background.send({server for server, parent in _servers() if parent == init and _listens(server)}, signal.SIGTERM)
    comes_to(lambda: not listens(init, address, port), SECONDS)


def comes_to(check: Callable[[], bool], seconds: float) -> bool:
    """Wait for a state of a server that was just started or told to end; return whether it has it in time.

    sshd returns to its caller before it listens (sshd(8): it detaches first), and then opens one address after another.
    """
    deadline = time.monotonic() + seconds
    while not (is_so := check()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return is_so


def _listens(server: int) -> bool:
    """Tell whether a process waits for logins: processes of a server that has ended belong to *init* as well."""
    listening = listening_sockets(server)
    try:
        return any(os.readlink(f"/proc/{server}/fd/{name}") in listening for name in os.listdir(f"/proc/{server}/fd"))
    except OSError:
        return False  # it has ended meanwhile


def _servers() -> Iterator[tuple[int, int]]:
    """Yield the process of each server that runs here, and its parent."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            program = os.readlink(f"/proc/{name}/exe")
        except OSError:
            continue  # it has ended meanwhile, or is a thread of the kernel
        if program.startswith(SERVER):  # one that was renewed on the host shows as deleted
            yield int(name), background.parent_of(int(name))

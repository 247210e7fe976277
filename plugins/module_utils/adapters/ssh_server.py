# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Look at the SSH server of a running replica, and end it, from the host."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.link import (
    LinkError,
    listens,
    run_in_network_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.environment import SERVER

SECONDS = 5.0
"""For how long to wait for an answer, or for the end."""


def host_key(pid: int, address: str, port: int) -> str | None:
    """Return "ssh-ed25519 AAAA…" as the server at *address* and *port* answers with it in the network of *pid*.

    "" if none listens; None if one does and cannot be asked, as while the replica is cut off from its network.
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


def end(init: int, address: str, port: int) -> None:
    """End the server whose parent is *init*, the first process of its container; logins that are open go on."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            program = os.readlink(folder / "exe")
            status = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # it has ended meanwhile, or is a thread of the kernel
        # A program that was renewed on the host shows as deleted.
        if program.startswith(SERVER) and int(status.rpartition(")")[2].split()[1]) == init:
            os.kill(int(folder.name), signal.SIGTERM)
    deadline = time.monotonic() + SECONDS
    while listens(init, address, port) and time.monotonic() < deadline:
        time.sleep(0.02)

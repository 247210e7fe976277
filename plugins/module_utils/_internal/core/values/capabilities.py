# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The capabilities that programs of a replica can have (capabilities(7)), and how much memory they may lock."""

from __future__ import annotations

from .errors import InvalidInput, Problem
from .resources import format_memory, parse_memory

DEFAULT_CAPABILITIES = (
    # OpenSSH writes each login to the kernel's audit log, and rejects a login of root if it may not write there.
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
)
"""Docker's default minus MKNOD, NET_RAW and SETFCAP: enough to change users and owners, and for an SSH server."""

OPTIONAL_CAPABILITIES = ("IPC_LOCK", "NET_RAW", "SYS_NICE", "SYS_PTRACE")
"""Capabilities that a request may add. None of them reaches beyond the replica's own processes, memory and network."""

UNLIMITED = -1
"""The memory lock limit of a replica that may lock all its memory."""


def parse_capabilities(variable: str, entries: list[object]) -> tuple[str, ...]:
    """Return names such as ``IPC_LOCK`` or ``cap_sys_nice`` as the kernel has them, without ``CAP_``, sorted.

    Raises InvalidInput for a name that is not one of `OPTIONAL_CAPABILITIES`.
    """
    problems = []
    found = set()
    for position, entry in enumerate(entries):
        name = entry.strip().upper() if isinstance(entry, str) else ""
        name = name[len("CAP_") :] if name.startswith("CAP_") else name
        if name in OPTIONAL_CAPABILITIES:
            found.add(name)
        elif name in DEFAULT_CAPABILITIES:
            problems.append(
                Problem(f"{variable}[{position}]", entry, "Every replica has this capability; leave it out.")
            )
        else:
            allowed = ", ".join(OPTIONAL_CAPABILITIES)
            problems.append(Problem(f"{variable}[{position}]", entry, f"A session can be given {allowed}, no others."))
    if problems:
        raise InvalidInput(problems)
    return tuple(sorted(found))


def parse_memlock(value: object) -> int:
    """Return an amount of memory in bytes, `UNLIMITED` for ``unlimited``. Raises ValueError with a full sentence."""
    if isinstance(value, str) and value.strip().lower() == "unlimited":
        return UNLIMITED
    try:
        return parse_memory(value, minimum=0)
    except ValueError as error:
        raise ValueError(f"{error} Or set unlimited.") from None


def format_memlock(amount: int) -> str:
    """Return a memory lock limit in a form that `parse_memlock` reads back."""
    return "unlimited" if amount == UNLIMITED else format_memory(amount)

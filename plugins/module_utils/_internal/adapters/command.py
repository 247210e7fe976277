# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Run a command of the host.

Nothing that runs on hosts has an AnsibleModule, whose `run_command` pylint demands: the host's program is called
without one, and hosts and replicas call their programs by themselves.
"""

from __future__ import annotations

import subprocess
from contextlib import suppress

from ..core.values.errors import SessionError

LAST_SECONDS = 1.0
"""Seconds for a killed command to end."""


def run_command(
    command: list[str],
    stdin: str | None = None,
    *,
    error: type[SessionError],
    environment: dict[str, str] | None = None,
    seconds: float = 60,
) -> str:
    """Run *command* without a shell and return its standard output.

    Raises *error* if the program is missing, fails, or has not ended after *seconds*; the message holds the command
    and what it said.
    """
    try:
        process = subprocess.Popen(  # pylint: disable=ansible-bad-function
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
            errors="replace",  # what others wrote, as in comments of their firewall rules, may be in any encoding
        )
    except FileNotFoundError as cause:
        raise error(
            f"The program {command[0]!r} is not installed on this host. Run the prepare_hosts playbook."
        ) from cause
    try:
        output, errors = process.communicate(stdin or "", timeout=seconds)
    except subprocess.TimeoutExpired as cause:
        raise error(f"'{' '.join(command)}' did not end within {seconds:.0f} seconds.") from cause
    finally:
        if process.returncode is None:
            _give_up(process)
    if process.returncode != 0:
        detail = errors.strip() or output.strip()
        given = f" with input {stdin!r}" if stdin else ""
        raise error(f"'{' '.join(command)}'{given} failed with status {process.returncode}: {detail}")
    return output


def _give_up(process: subprocess.Popen[str]) -> None:
    """End a command, but do not wait forever: a process that hangs in a driver ends only when the driver lets it."""
    process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(LAST_SECONDS)
    for pipe in (process.stdin, process.stdout, process.stderr):
        with suppress(OSError):
            if pipe is not None:
                pipe.close()

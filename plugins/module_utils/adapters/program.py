# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Run a program of the host."""

from __future__ import annotations

import subprocess

from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import SessionError


def run(
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
        done = subprocess.run(
            command,
            input=stdin or "",
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",  # what others wrote, as in comments of their firewall rules, may be in any encoding
            check=False,
            timeout=seconds,
        )
    except FileNotFoundError as cause:
        raise error(
            f"The program {command[0]!r} is not installed on this host. Run the prepare_hosts playbook."
        ) from cause
    except subprocess.TimeoutExpired as cause:
        raise error(f"'{' '.join(command)}' did not end within {seconds:.0f} seconds.") from cause
    if done.returncode != 0:
        detail = done.stderr.strip() or done.stdout.strip()
        given = f" with input {stdin!r}" if stdin else ""
        raise error(f"'{' '.join(command)}'{given} failed with status {done.returncode}: {detail}")
    return done.stdout

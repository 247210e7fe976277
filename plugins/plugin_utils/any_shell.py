# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Write a command that any login shell of a host understands, whatever the command contains."""

from __future__ import annotations

import base64

LONGEST_ARGUMENT = 96 * 1024
"""Maximum number of bytes of a packed script in a command. The kernel accepts 128 KiB as one argument (execve(2),
MAX_ARG_STRLEN), including everything that Ansible and SSH put around the script."""


def for_any_shell(script: str) -> str:
    """Return a command that runs *script* with /bin/sh, in words that every shell reads in the same way.

    fish interprets a backslash in single quotes, csh a line end and an exclamation mark, and neither supports the
    shell's way to keep an exit code. The script is therefore sent as base64. The quoted word around it contains none of
    these, and no quote, because Ansible quotes it again for each program in between. The script gets the standard
    input. The command fails if the host has no base64, or if *script* fails.
    """
    return _unpacking("", _packed(script))


def with_input(script: str, content: bytes | None) -> tuple[str, bytes | None]:
    """Return the command for a script of any length, and its standard input with *content*.

    A script that does not fit into the command is the first line of the input. `read` reads it byte by byte, so that
    the rest is left for the script.
    """
    packed = _packed(script)
    if len(packed) <= LONGEST_ARGUMENT:
        return _unpacking("", packed), content
    return _unpacking("read -r cc&&", "$cc"), f"{packed}\n".encode() + (content or b"")


def _packed(script: str) -> str:
    return base64.b64encode(script.encode("utf-8", "surrogateescape")).decode("ascii")


def _unpacking(first: str, packed: str) -> str:
    return f"/bin/sh -c '{first}cc=$(echo {packed}|base64 -d)&&eval \"$cc\"'"

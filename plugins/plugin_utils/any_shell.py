# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Write a command that any login shell of a host understands, whatever the command holds."""

from __future__ import annotations

import base64


def for_any_shell(script: str) -> str:
    """Return the command that has /bin/sh run *script*, in words that every shell reads alike.

    fish takes a backslash in single quotes for its own, csh a line's end and an exclamation mark, and neither knows
    the shell's way to keep an exit code. So the script travels as base64, and the quoted word around it holds none of
    these, nor a quote: Ansible quotes it once more for each program in between. Standard input is the script's. Where
    the host has no base64 the command fails, as it does where *script* fails.
    """
    packed = base64.b64encode(script.encode("utf-8", "surrogateescape")).decode("ascii")
    return f"/bin/sh -c 'cc=$(echo {packed}|base64 -d)&&eval \"$cc\"'"

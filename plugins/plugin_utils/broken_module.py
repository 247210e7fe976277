# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Messages for a module that ended before it could return a result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..module_utils._internal.core.values.errors import sentence

TRACEBACK = "Traceback (most recent call last)"


def of_broken_module(result: Mapping[str, Any], module: str) -> str:
    """Return the message for a module that crashed. Empty if the result is not that of a crash.

    Either the program ended without a result, so that there is only its output, or Ansible caught its exception. Since
    ansible-core 2.19 that is an object whose event has a message, before that the text of the traceback.
    """
    exception = result.get("exception")
    written = str(result.get("module_stderr") or result.get("module_stdout") or "")
    if not result.get("failed") or not (written.strip() or (exception and not result.get("msg"))):
        return ""
    event = getattr(exception, "event", None)
    lines = [line for line in (written or str(exception)).strip().splitlines() if line.strip()]
    cause = str(getattr(event, "msg", "")) if event is not None and not written else ""
    if not cause:
        cause = lines[-1 if TRACEBACK in lines[0] else 0] if lines else "it wrote nothing"
    return (
        f"The module {module} could not run to its end on this host: {sentence(cause)} See that the host's Python "
        "works; where it does, this is a fault of the module. The same command with -vvv shows all of it."
    )

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The program for hosts: one call, with the request as packed JSON on standard input and the answer as JSON on standard
output.
"""

from __future__ import annotations

import json
import sys
import time
import zlib
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from ..adapters.bounded import Crashed, Hung, be_impatient, bounded, waiting_for
from ..adapters.state import StateDirectory
from ..adapters.suspicion import SuspicionFile
from ..core.model.call.base import Answer, failed, plain_answer, read
from ..core.rules.call_limits import seconds_for
from ..core.values.errors import SessionError

MARK = "CLUSTER-COMPUTE-ANSWER "
"""How the line of the answer begins: a host's shell may have written other lines before it."""

COUNTED = ("session_host", "session_record", "session_repair", "host_drain", "host_suspect", "host_boot")
"""Calls that may change a host's metrics for the site's monitoring."""

TELLING = ("host_info", "host_preflight")
"""Calls that only report the state of the host, including that no session can use it."""
_CALLS = f"{__name__.rpartition('.')[0]}.calls"
STATE_SECONDS = 20.0
"""Seconds without an answer of the state directory's file system. A busy disk was seen to take some."""


def main() -> int:
    """Read the request, run it, and write the result."""
    question = json.loads(zlib.decompress(sys.stdin.buffer.read()))
    try:
        run_bounded(question["call"], question["arguments"], question["check_mode"], _say)
    except Crashed as error:
        sys.stderr.write(error.trace or f"{error}\n")
        return 1
    return 0


def _say(answer: str) -> None:
    sys.stdout.write(f"\n{MARK}{answer}\n")
    sys.stdout.flush()


def run_bounded(
    call: str, arguments: Mapping[str, Any], check_mode: bool, answered: Callable[[str], object] = lambda _answer: None
) -> Mapping[str, Any]:
    """Return the result of one call. It runs in a process that is left behind if this host hangs, which is remembered.

    answered: is called with the answer, as JSON, before the metrics of this host are written. Raises Crashed.
    """
    note = SuspicionFile(arguments["state_directory"]) if "state_directory" in arguments else None
    has_hung = note is not None and note.hangs()
    begun = time.monotonic()

    def work() -> str:
        if has_hung:
            be_impatient()
        if note is not None:
            root = arguments["state_directory"]
            with waiting_for(f"the file system of the state directory {root}", STATE_SECONDS):
                StateDirectory(root).touch()
        return json.dumps(run(call, arguments, check_mode))

    def then(text: str) -> None:
        if call in COUNTED and not check_mode:
            tell_monitoring(call, arguments, json.loads(text), time.monotonic() - begun)

    try:
        text = bounded(work, f"the call {call}", seconds_for(call, arguments), answered, then)
        result: Mapping[str, Any] = json.loads(text)
    except Hung as error:
        result = plain_answer(_unusable(error) if call == "host_info" else failed(error, Answer()))
        answered(json.dumps(result))
    if note is not None and not check_mode:
        _remember(note, _hang_in(result), has_hung)
    return result


def _remember(note: SuspicionFile, problem: str, has_hung: bool) -> None:
    """Note that this host hangs, or that it answers again after it *has_hung*. problem: how it hangs, empty if not."""
    if problem:
        note.remember(problem, hangs=True)
    elif has_hung:
        note.answers_again()


def _unusable(error: Hung) -> Answer:
    """Return the answer with the facts of a host that hangs."""
    from ..core.model.call.host_info import UnusableAnswer
    from ..core.model.facts import Unusable

    return UnusableAnswer(False, host=Unusable(str(error), hangs=True))


def _hang_in(result: Mapping[str, Any]) -> str:
    """Return the message of a result about a host that hangs. Empty if it does not hang."""
    if result.get("hangs"):
        return str(result["msg"])
    host = result.get("host")
    return str(host["problem"]) if isinstance(host, Mapping) and host.get("hangs") else ""


def run(call: str, arguments: Mapping[str, Any], check_mode: bool) -> Mapping[str, Any]:
    """Return the plain form of the answer to one call, which is the result of a module.

    call: the name of its file in `calls`: STATES contains what it can be asked for, and ``call`` runs that.
    arguments: in their plain form.
    """
    code = import_module(f"{_CALLS}.{call}")
    try:
        if call not in TELLING and "state_directory" in arguments:
            StateDirectory(arguments["state_directory"]).check_version()
        return plain_answer(code.call(read(code.STATES, arguments), check_mode))
    except (SessionError, OSError) as error:
        return plain_answer(failed(error, Answer()))


def tell_monitoring(call: str, arguments: Mapping[str, Any], result: Mapping[str, Any], seconds: float) -> None:
    """Write metrics that the call may have changed, if configured. Other hosts only read a small file."""
    state = StateDirectory(arguments["state_directory"])
    try:
        if "_directory" not in state.settings_text():
            return
        state.check_version()  # the call rejected a newer one, or it was installed in the meantime
    except (SessionError, OSError):  # such as for a user who is not root
        return
    from .metrics import after_call

    after_call(state, call, arguments, result, seconds)

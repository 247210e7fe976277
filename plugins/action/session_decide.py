# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Decide, on the controller, what a launch does with the answers of the hosts it asked for capacity."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.cluster_compute.session.plugins.module_utils.core.ledger import (
    ASK_AGAIN,
    GIVE_BACK,
    GRANTED,
    Answer,
    decide,
)
from ansible_collections.cluster_compute.session.plugins.plugin_utils.answers import why_not

PAUSE = (0.3, 1.5)
"""Seconds, from and to, between one try and the next; drawn by chance, so that those who met do not meet again."""


class ActionModule(ActionBase):
    """The action behind the module session_decide."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the verdict, having paused where the launch shall try again."""
        super().run(tmp, task_vars)
        _result, arguments = self.validate_argument_spec(
            {
                "plan": {"type": "dict", "required": True},
                "results": {"type": "dict", "required": True},
                "attempt": {"type": "int", "required": True},
                "attempts": {"type": "int", "default": 20},
            }
        )
        plan = arguments["plan"]
        last = arguments["attempt"] >= arguments["attempts"]
        if plan["status"] != "SCHEDULED":
            return self._verdict("pending", again=plan["status"] == "WAITING" and not last, report=plan["report"])
        results = {name: arguments["results"].get(name) or {} for name in plan["hosts"]}
        broken = [name for name, one in results.items() if "granted" not in one and not one.get("unreachable")]
        answers = {name: _answer(result) for name, result in results.items()}
        reasons = [f"{name}: {reason}" for name, answer in answers.items() for reason in answer.reasons]
        verdict = decide(plan["record"]["id"], answers)
        if verdict == GRANTED:
            return self._verdict(verdict, report=plan["report"])
        if verdict == ASK_AGAIN and (last or broken):
            verdict = GIVE_BACK
        if verdict == GIVE_BACK and not plan["fresh"]:
            # It runs, and has no other place to go to; it only waits for who will have decided in a moment.
            passing = all(
                one.granted or one.undecided or results[name].get("unreachable") for name, one in answers.items()
            )
            again = passing and not last and not broken
            return self._verdict(verdict, again=again, report=reasons, reasons=reasons, broken=not again)
        pending = [f"Session {plan['session_name']} is PENDING: other launches were faster, again and again.", *reasons]
        return self._verdict(
            verdict, again=not last and not broken, report=pending, reasons=reasons, broken=bool(broken)
        )

    def _verdict(
        self,
        verdict: str,
        *,
        report: list[str],
        again: bool = False,
        reasons: Sequence[str] = (),
        broken: bool = False,
    ) -> dict[str, Any]:
        if again and not self._task.check_mode:
            time.sleep(random.uniform(*PAUSE))  # noqa: S311 - spreads tries, guards no secret
        return {
            "changed": False,
            "verdict": verdict,
            "again": again and verdict != ASK_AGAIN,
            "report": report,
            "reasons": list(reasons),
            "broken": broken,
        }


def _answer(result: dict[str, Any]) -> Answer:
    if "granted" in result:
        return Answer(result["granted"], tuple(result["reasons"]), tuple(result["undecided"]))
    return Answer(False, (why_not(result),))

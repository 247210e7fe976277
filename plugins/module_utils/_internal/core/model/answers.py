# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Answers of hosts to the calls of a step, as the controller reads them: a dataclass for each module.

A field that is None was not answered: the host has not done that part.
"""

from collections.abc import Mapping
from typing import Any

from ..values.deferred import dataclass
from .call.base import SILENCE, A, Answer
from .call.host_drain import DrainAnswer
from .call.host_info import FactsAnswer
from .call.host_preflight import PreflightAnswer
from .call.replica_transfer import TransferAnswer
from .call.session_host import ProvenReplica, SessionAnswer, SessionElsewhere
from .call.session_images import ImagesAnswer, Moved
from .call.session_job import JobAnswer
from .call.session_output import OutputAnswer
from .call.session_repair import RepairAnswer
from .decode import Malformed, decode_known
from .host_parts import KnownSession

__all__ = [
    "SILENCE",
    "A",
    "Answer",
    "DrainAnswer",
    "FactsAnswer",
    "ImagesAnswer",
    "JobAnswer",
    "KnownSession",
    "Moved",
    "OutputAnswer",
    "PreflightAnswer",
    "ProvenReplica",
    "RepairAnswer",
    "SessionAnswer",
    "SessionElsewhere",
    "SeveralAnswers",
    "TransferAnswer",
    "read_answers",
    "read_parts",
]


@dataclass(frozen=True)
class SeveralAnswers(Answer):
    """The answer of a host that was called several times in a step. results: of each call."""

    results: tuple[dict[str, Any], ...] = ()


def read_answers(kind: type[A], results: Mapping[str, Mapping[str, Any]]) -> dict[str, A]:
    """Return the answers of hosts from their results, to which Ansible adds keys of its own.

    If one cannot be read, the host counts as not having done its part, and the answer contains the reason.
    """
    return {host: _read(kind, result, f"Host {host}") for host, result in results.items()}


def read_parts(kind: type[A], results: Mapping[str, Mapping[str, Any]]) -> dict[str, list[A]]:
    """Return the answers of hosts to each of their calls in a step, as `read_answers` does."""
    return {
        host: [_read(kind, part, f"Host {host}") for part in result.get("results") or [result]]
        for host, result in results.items()
    }


def _read(kind: type[A], result: Mapping[str, Any], name: str) -> A:
    try:
        return decode_known(kind, result, name)
    except Malformed as error:
        return kind(failed=True, unreachable=bool(result.get("unreachable")), msg=str(error))

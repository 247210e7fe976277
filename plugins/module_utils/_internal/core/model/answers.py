# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Answers of hosts to the calls of a step: a dataclass for each module, all of whose fields may be missing.

A field that is None was not answered: the host has not done that part. Only the controller reads answers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional, TypeVar

from . import claims
from .decode import Malformed, decode_known
from .facts import HostFacts
from .output import JobOutcome, SessionCopy, Source
from .record import Tombstone

SILENCE = "It did not answer."


def sentence(text: str) -> str:
    """Return text with a full stop or a similar mark at its end, so that another sentence can follow."""
    text = text.strip().rstrip(":")
    return text if text.endswith((".", "!", "?")) or "\n" in text else f"{text}."


@dataclass(frozen=True)
class Answer:
    """Fields that any answer may have. msg: why the call failed, or could not be made. sick: if the host is why."""

    changed: Optional[bool] = None
    failed: bool = False
    unreachable: bool = False
    sick: bool = False
    msg: str = ""
    actions: Optional[tuple[str, ...]] = None

    @property
    def why_not(self) -> str:
        """Why the host has not done its part: one or more full sentences."""
        return sentence(self.msg or SILENCE)


@dataclass(frozen=True)
class SeveralAnswers(Answer):
    """The answer of a host that was called several times in a step. results: of each call."""

    results: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class FactsAnswer(Answer):
    """The answer of host_info."""

    host: Optional[HostFacts] = None


@dataclass(frozen=True)
class DrainAnswer(Answer):
    """The answer of host_drain. sessions: names of those that hold a place on the host."""

    sessions: Optional[tuple[str, ...]] = None


@dataclass(frozen=True)
class KnownSession:
    """A session that a host knows in any way; hosts, owner and shared_with as far as its record contains them."""

    id: str
    name: str
    hosts: tuple[str, ...] = ()
    owner: str = ""
    shared_with: tuple[str, ...] = ()


@dataclass(frozen=True)
class SessionElsewhere:
    """A session that a teardown by name left alone (`rules.scope`). resource_group: empty if its copy has none."""

    id: str
    name: str
    resource_group: str
    hosts: tuple[str, ...]
    status: str


@dataclass(frozen=True)
class SessionAnswer(Answer):
    """The answer of session_host and session_record.

    granted, reasons, tentative: of a claim (`claims.ClaimAnswer`). public_keys: by replica of this host. begun:
    replicas of the first waves. replicas: as proven by `host.verify`. unproven: why only peers are missing. unwritten:
    why the record could not be stored. sessions, tombstones: those that existed before a removal. elsewhere: sessions
    of that name that were left alone. refused: whether the user may not have it removed. theirs: the ids of other
    users' sessions. stale: whether the host has another copy of the record than the one that was to be changed.
    """

    granted: Optional[bool] = None
    reasons: tuple[str, ...] = ()
    tentative: tuple[str, ...] = ()
    public_keys: Optional[dict[str, Any]] = None
    begun: Optional[tuple[str, ...]] = None
    replicas: Optional[tuple[dict[str, Any], ...]] = None
    unproven: str = ""
    unwritten: str = ""
    sessions: Optional[tuple[KnownSession, ...]] = None
    tombstones: tuple[Tombstone, ...] = ()
    elsewhere: tuple[SessionElsewhere, ...] = ()
    refused: bool = False
    stale: bool = False
    theirs: tuple[str, ...] = ()

    @property
    def to_claim(self) -> claims.ClaimAnswer:
        """The answer to a claim: rejected if there is none."""
        if self.granted is None:
            return claims.ClaimAnswer(False, (self.why_not,))
        return claims.ClaimAnswer(self.granted, self.reasons, self.tentative)


@dataclass(frozen=True)
class Moved:
    """A transfer to a host: the id of the image, if it was pulled, the bytes, and how many seconds it took."""

    bytes: int
    seconds: float
    id: str = ""


@dataclass(frozen=True)
class ImagesAnswer(Answer):
    """The answer of session_images.

    digests, problems: by reference, the registry's answer. denied: the references that the registry does not have, or
    not for this user, so that it is of no use to ask again. pulled: by reference. bytes, seconds: of a transfer; image:
    the id that arrived, if it differs from the id on the sender. port, fingerprint, server: of a server, and its
    process.
    """

    digests: dict[str, str] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    denied: tuple[str, ...] = ()
    pulled: Optional[dict[str, Moved]] = None
    bytes: Optional[int] = None
    seconds: float = 0.0
    image: str = ""
    port: Optional[int] = None
    fingerprint: str = ""
    server: Optional[dict[str, int]] = None


@dataclass(frozen=True)
class JobAnswer(Answer):
    """The answer of session_job. started: the replicas in which the command was started."""

    started: Optional[tuple[str, ...]] = None


@dataclass(frozen=True)
class OutputAnswer(Answer):
    """The answer of session_output. jobs: how they ended in the replicas here."""

    sessions: Optional[tuple[SessionCopy, ...]] = None
    sources: Optional[tuple[Source, ...]] = None
    jobs: tuple[JobOutcome, ...] = ()


@dataclass(frozen=True)
class RepairedSession:
    """The parts of a session that were restored; problem: why some of them were not."""

    name: str
    actions: tuple[str, ...]
    problem: str = ""


@dataclass(frozen=True)
class RepairAnswer(Answer):
    """The answer of session_repair. faults: problems that concern no session. public_keys: new ones, by session."""

    sessions: dict[str, RepairedSession] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    public_keys: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class TransferAnswer(Answer):
    """The answer of replica_transfer. took: seconds for there and back."""

    replica: str = ""
    container: str = ""
    took: Optional[float] = None


@dataclass(frozen=True)
class TcpOutcome:
    """Why a host does not answer, empty if it does, and the largest packet on the way to it, as far as it is known."""

    problem: str
    mtu: Optional[int]


@dataclass(frozen=True)
class Heard:
    """The largest packet that arrived, in bytes, by the number of its host: through the link, and outside it."""

    tunnel: dict[str, int]
    plain: dict[str, int]


@dataclass(frozen=True)
class PreflightAnswer(Answer):
    """The answer of host_preflight, one part for each state.

    examined: the observations, and the times between which they were made, by the clocks of the host and of the
    controller. listening: the process, its ports, and by folder why nothing could be written there. reached: by a
    host's number the outcome of TCP, and by folder whether what was written is visible. measured: of one pair.
    """

    observed: Optional[dict[str, Any]] = None
    times: tuple[float, ...] = ()
    controller: tuple[float, ...] = ()
    server: Optional[dict[str, int]] = None
    port: Optional[int] = None
    udp: Optional[int] = None
    problems: dict[str, str] = field(default_factory=dict)
    peers: Optional[dict[str, TcpOutcome]] = None
    shared: dict[str, bool] = field(default_factory=dict)
    measured: Optional[dict[str, Any]] = None
    heard: Optional[Heard] = None


A = TypeVar("A", bound=Answer)


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

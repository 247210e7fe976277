# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What hosts answer to the calls of a step: a dataclass for each module, all of whose fields may be missing.

What is None was not answered: the host has not done that part. Only the controller reads it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional, TypeVar

from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.decode import Malformed, decode_known
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.facts import HostFacts, Tombstone
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.output import (
    JobOutcome,
    SessionCopy,
    Source,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules import ledger

SILENCE = "It did not answer."


def sentence(text: str) -> str:
    """Return text with a mark at its end, so that another sentence can follow."""
    text = text.strip().rstrip(":")
    return text if text.endswith((".", "!", "?")) or "\n" in text else f"{text}."


@dataclass(frozen=True)
class Answer:
    """What any call may answer. msg: why it failed, or could not be made. sick: whether the host itself is why."""

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
    """Of a host that was called several times in a step. results: of each call."""

    results: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class FactsAnswer(Answer):
    """Of host_info."""

    host: Optional[HostFacts] = None


@dataclass(frozen=True)
class DrainAnswer(Answer):
    """Of host_drain. sessions: names of those that hold a place on the host."""

    sessions: Optional[tuple[str, ...]] = None


@dataclass(frozen=True)
class KnownSession:
    """A session of which a host has anything; hosts, owner and shared_with as far as its record says them."""

    id: str
    name: str
    hosts: tuple[str, ...] = ()
    owner: str = ""
    shared_with: tuple[str, ...] = ()


@dataclass(frozen=True)
class SessionElsewhere:
    """A session that a teardown by name left alone (`rules.scope`). resource_group: empty where its copy has none."""

    id: str
    name: str
    resource_group: str
    hosts: tuple[str, ...]
    status: str


@dataclass(frozen=True)
class SessionAnswer(Answer):
    """Of session_host and session_record.

    granted, reasons, tentative: of a claim (`ledger.ClaimAnswer`). public_keys: by replica of this host. begun:
    replicas of the first waves. replicas: as `host.verify` has proven them. unproven: why peers alone are missing.
    unwritten: why the record could not be kept. sessions, tombstones: what was there before a removal. elsewhere: what
    of that name was left alone. refused: whether
    whoever asks may not have it removed. theirs: the ids of the sessions that are somebody else's. stale: whether the
    host has another copy of the record than the one that was to be changed.
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
    def to_claim(self) -> ledger.ClaimAnswer:
        """The answer to a claim: refused where there is none."""
        if self.granted is None:
            return ledger.ClaimAnswer(False, (self.why_not,))
        return ledger.ClaimAnswer(self.granted, self.reasons, self.tentative)


@dataclass(frozen=True)
class Moved:
    """What came to a host: the id of the image, where it was pulled, the bytes, and how many seconds that took."""

    bytes: int
    seconds: float
    id: str = ""


@dataclass(frozen=True)
class ImagesAnswer(Answer):
    """Of session_images.

    digests, problems: by reference, what a registry said. denied: the references that it does not have, or not for who
    asks, so that asking it again is of no use. pulled: by reference. bytes, seconds: of a transfer; image:
    what came, where that has another id than where it came from. port, fingerprint, server: of a server, and its
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
    """Of session_job. started: the replicas in which the command was started."""

    started: Optional[tuple[str, ...]] = None


@dataclass(frozen=True)
class OutputAnswer(Answer):
    """Of session_output. jobs: how they ended in the replicas here."""

    sessions: Optional[tuple[SessionCopy, ...]] = None
    sources: Optional[tuple[Source, ...]] = None
    jobs: tuple[JobOutcome, ...] = ()


@dataclass(frozen=True)
class RepairedSession:
    """What was put back of a session; problem: why not all of it."""

    name: str
    actions: tuple[str, ...]
    problem: str = ""


@dataclass(frozen=True)
class RepairAnswer(Answer):
    """Of session_repair. faults: what went wrong that is of no session. public_keys: those made anew, by session."""

    sessions: dict[str, RepairedSession] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    public_keys: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class TransferAnswer(Answer):
    """Of replica_transfer. took: seconds for there and back."""

    replica: str = ""
    container: str = ""
    took: Optional[float] = None


@dataclass(frozen=True)
class Heard:
    """The largest packet that arrived, in bytes, by the number of its host: through the link, and beside it."""

    tunnel: dict[str, int]
    plain: dict[str, int]


@dataclass(frozen=True)
class PreflightAnswer(Answer):
    """Of host_preflight, one part a state.

    examined: observed, and the times between which that was done, by the clocks of the host and of the controller.
    listening: the process, its ports, and by folder why nothing could be written there. reached: by a host's number
    what TCP said, and by folder whether what was written is seen. measured: of one pair.
    """

    observed: Optional[dict[str, Any]] = None
    times: tuple[float, ...] = ()
    controller: tuple[float, ...] = ()
    server: Optional[dict[str, int]] = None
    port: Optional[int] = None
    udp: Optional[int] = None
    problems: dict[str, str] = field(default_factory=dict)
    peers: Optional[dict[str, dict[str, Any]]] = None
    shared: dict[str, bool] = field(default_factory=dict)
    measured: Optional[dict[str, Any]] = None
    heard: Optional[Heard] = None


A = TypeVar("A", bound=Answer)


def read_answers(kind: type[A], results: Mapping[str, Mapping[str, Any]]) -> dict[str, A]:
    """Return the answers of hosts from their results, of which Ansible adds more.

    Where one cannot be read, the host has not done its part, and the answer says why.
    """
    return {host: _read(kind, result, f"Host {host}") for host, result in results.items()}


def _read(kind: type[A], result: Mapping[str, Any], name: str) -> A:
    try:
        return decode_known(kind, result, name)
    except Malformed as error:
        return kind(failed=True, unreachable=bool(result.get("unreachable")), msg=str(error))

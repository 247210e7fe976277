# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""A host's part of a session: create, start, change and remove it."""

from dataclasses import field
from typing import Any, ClassVar, Optional

from ...values.deferred import dataclass
from ..claims import Allocatable, Claim, ClaimAnswer
from ..decode import OPTIONAL
from ..host_parts import KnownSession
from ..record import PublicKeys, Record, Tombstone
from .base import PATH, PUBLIC, RECORD, STATE_DIRECTORY, Answer, Call


@dataclass(frozen=True)
class Hold(Call):
    """Hold the claim of a session, or of a change of a running one, and create its keys.

    allocatable: what all sessions may use of the host. lease_owner: the run that holds it. record: of the session; for
    a change, the running one, and the claim then has the id of the change. lease_seconds: how long the lease lasts.
    turns_seconds: what is added to that, because hosts work in turns. regenerate_keys: whether keys are replaced.
    recorded: ids of the sessions of which the host had a record when facts were collected. looked: when that was, by
    the host's clock in seconds.
    """

    call: ClassVar[str] = "session_host"
    state: ClassVar[str] = "held"

    claim: Claim
    allocatable: Allocatable
    lease_owner: str
    record: Record = field(metadata=RECORD)
    host: str
    lease_seconds: int = 120
    turns_seconds: int = 0
    regenerate_keys: bool = field(default=False, metadata=PUBLIC)
    recorded: tuple[str, ...] = ()
    looked: Optional[float] = None
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class HoldName(Call):
    """Hold the name of a session, on a host without a replica of it. The fields are those of Hold."""

    call: ClassVar[str] = "session_host"
    state: ClassVar[str] = "named"

    claim: Claim
    lease_owner: str
    lease_seconds: int = 120
    turns_seconds: int = 0
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class Start(Call):
    """Create the host's part of a session, and check that it works.

    record, lease_owner, turns_seconds, recorded, looked: as of Hold. public_keys: of all replicas. deadline_seconds:
    within which the session has to run. timeout: seconds after which a replica that is not ready is reported.
    patience: seconds to wait for replicas of other hosts; 0 to wait for nothing that may need them. roles: those whose
    replicas are started now; None for all.
    """

    call: ClassVar[str] = "session_host"
    state: ClassVar[str] = "started"

    record: Record = field(metadata=RECORD)
    host: str
    lease_owner: Optional[str] = None
    public_keys: PublicKeys = field(default_factory=dict, metadata=PUBLIC)
    deadline_seconds: int = 600
    turns_seconds: int = 0
    timeout: int = 60
    patience: int = 5
    recorded: tuple[str, ...] = ()
    looked: Optional[float] = None
    roles: Optional[tuple[str, ...]] = None
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class Release(Call):
    """Release a claim. claim, lease_owner, record: as of Hold. Without a record, only the claim is released."""

    call: ClassVar[str] = "session_host"
    state: ClassVar[str] = "released"

    claim: Claim
    lease_owner: str
    record: Optional[Record] = field(default=None, metadata=RECORD)
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class Amend(Call):
    """Change the host's part of a running session to a new revision of its record.

    record: that revision. patch: instead of it, the difference from the revision on the host: ``id``, ``from``,
    ``digest`` and ``changes``. public_keys: of all replicas, or with a patch of those whose keys differ. lease_owner,
    recorded, looked, allocatable: as of Hold. change_id: of the change whose claim is held. containers: whether
    replicas start, or only what other hosts need before. undecided: whether witnesses still have to agree. ran: for how
    many seconds the session has run, which the host's part takes over. prove: whether to check that the replicas work,
    for which timeout and patience are as of Start. output_size, output_days, output_sessions: as of InstallBoot, for
    replicas that are removed.
    """

    call: ClassVar[str] = "session_host"
    state: ClassVar[str] = "amended"
    any_of: ClassVar[tuple[str, ...]] = ("record", "patch")

    host: str
    lease_owner: str
    record: Optional[Record] = field(default=None, metadata=RECORD)
    patch: Optional[dict[str, Any]] = None
    public_keys: PublicKeys = field(default_factory=dict, metadata=PUBLIC)
    recorded: tuple[str, ...] = ()
    looked: Optional[float] = None
    allocatable: Optional[Allocatable] = None
    change_id: Optional[str] = None
    containers: bool = True
    undecided: bool = False
    ran: int = 0
    prove: bool = False
    timeout: int = 60
    patience: int = 5
    output_size: str = "16m"
    output_days: int = 7
    output_sessions: int = 50
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class Agree(Call):
    """Agree to a change of a session that has lost a host, and store its remaining hosts.

    record: with those. lease_owner, recorded, looked: as of Hold. change_id: of the change. judged_revision,
    judged_hosts: the revision and the hosts of the session from which the change was planned.
    """

    call: ClassVar[str] = "session_host"
    state: ClassVar[str] = "agreed"

    record: Record = field(metadata=RECORD)
    lease_owner: str
    change_id: str
    judged_revision: int
    host: str
    judged_hosts: tuple[str, ...] = ()
    recorded: tuple[str, ...] = ()
    looked: Optional[float] = None
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class WriteProbes(Call):
    """Create the missing directories of a session, and write into those that hosts share.

    record, lease_owner: as of Hold.
    """

    call: ClassVar[str] = "session_host"
    state: ClassVar[str] = "probe_written"

    record: Record = field(metadata=RECORD)
    lease_owner: str
    host: str
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class CheckProbes(Call):
    """Read what other hosts have written into shared directories. record, lease_owner: as of Hold."""

    call: ClassVar[str] = "session_host"
    state: ClassVar[str] = "probe_checked"

    record: Record = field(metadata=RECORD)
    lease_owner: str
    host: str
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class KeepStub(Call):
    """Store the stub record of a session, on a host without a replica of it.

    lease_owner, recorded, looked: as of Hold.
    """

    call: ClassVar[str] = "session_host"
    state: ClassVar[str] = "stub"

    record: Record = field(metadata=RECORD)
    lease_owner: str
    recorded: tuple[str, ...] = ()
    looked: Optional[float] = None
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class Verify(Call):
    """Check that the replicas of the host work.

    record, timeout: as of Start. roles: those whose replicas only have to be ready; None to check all replicas.
    """

    call: ClassVar[str] = "session_host"
    state: ClassVar[str] = "verified"

    record: Record = field(metadata=RECORD)
    host: str
    timeout: int = 60
    roles: Optional[tuple[str, ...]] = None
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class Remove(Call):
    """Remove all parts of a session from the host.

    session_name, session_id: the one or both of the session. asker: the user who wants that, if that is checked for
    the name; None for an administrator. scope: as `rules.scope.Scope.told`; None if the caller has evaluated it.
    lease_owner: the run that does it. unless_reserved: leave it alone while another run launches or changes it.
    judged_revision: leave it alone if its record has a later one. change_id: the change of the caller. keep_record: the
    record stays, and record is its new revision. undo: only what a launch has created is removed. keep_data: its
    directories stay. recorded: as of Hold. output_size, output_days, output_sessions: as of InstallBoot.
    """

    call: ClassVar[str] = "session_host"
    state: ClassVar[str] = "absent"
    any_of: ClassVar[tuple[str, ...]] = ("session_name", "session_id")

    session_name: Optional[str] = None
    session_id: Optional[str] = None
    asker: Optional[str] = None
    scope: Optional[dict[str, Any]] = None
    lease_owner: Optional[str] = None
    unless_reserved: bool = False
    judged_revision: Optional[int] = None
    change_id: Optional[str] = None
    keep_record: bool = False
    record: Optional[Record] = field(default=None, metadata=RECORD)
    undo: bool = False
    keep_data: bool = False
    recorded: tuple[str, ...] = ()
    output_size: str = "16m"
    output_days: int = 7
    output_sessions: int = 50
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class ProvenReplica:
    """A replica that works. interface, mtu: of its session's network; empty if it has none."""

    name: str
    host: str
    container: str
    rank: int
    address: Optional[str] = None
    status: str = "RUNNING"
    interface: str = field(default="", metadata=OPTIONAL)
    mtu: int = field(default=0, metadata=OPTIONAL)


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
    replicas of the first waves. replicas: as proven by `host.verify`. seconds: how long the network, the start and the
    proof took. unproven: why only peers are missing. unwritten: why the record could not be stored. sessions,
    tombstones: those that existed before a removal. elsewhere: sessions of that name that were left alone. stale: if
    the host's copy of the record is not the expected one; revision: of its copy.
    """

    granted: Optional[bool] = None
    reasons: Optional[tuple[str, ...]] = None
    tentative: Optional[tuple[str, ...]] = None
    public_keys: Optional[PublicKeys] = None
    begun: Optional[tuple[str, ...]] = None
    replicas: Optional[tuple[ProvenReplica, ...]] = None
    seconds: Optional[dict[str, float]] = None
    unproven: str = field(default="", metadata=OPTIONAL)
    unwritten: str = field(default="", metadata=OPTIONAL)
    sessions: Optional[tuple[KnownSession, ...]] = None
    tombstones: Optional[tuple[Tombstone, ...]] = None
    elsewhere: Optional[tuple[SessionElsewhere, ...]] = None
    stale: bool = field(default=False, metadata=OPTIONAL)
    revision: Optional[int] = None

    @property
    def to_claim(self) -> ClaimAnswer:
        """The answer to a claim: rejected if there is none."""
        if self.granted is None:
            return ClaimAnswer(False, (self.why_not,))
        return ClaimAnswer(self.granted, self.reasons or (), self.tentative or ())


def claimed(answer: ClaimAnswer) -> SessionAnswer:
    """Return the answer of a host to a claim that has changed nothing."""
    return SessionAnswer(
        changed=False, actions=(), granted=answer.granted, reasons=answer.reasons, tentative=answer.tentative
    )

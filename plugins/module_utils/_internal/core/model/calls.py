# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Calls to a host: a dataclass for each call and state, whose fields are what the host reads.

The controller creates one and sends `arguments_of` it; the program on the host reads it back by `read_call`. On the
wire it is a mapping with ``state``, if the call has states, and a key for each field that is not None.

Two names mean the same everywhere. host: the name of the called host, in the plan of the session. state_directory:
where that host stores the data of sessions.

Annotations are types here, not text, as the decoder reads them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, ClassVar, Optional

from ..values.errors import show
from .claims import Allocatable, Claim
from .decode import READ, Malformed, decode, encode
from .record import Record, Tombstone, read_record

STATE_DIRECTORY = "/var/lib/cluster-compute"

PATH = {"type": "path"}
"""Metadata of a field that is a path on the host. Ansible expands a user's directory and variables in it."""
SECRET = {"secret": True}
"""Metadata of a field that is never shown."""
PUBLIC = {"secret": False}
"""Metadata of a field that is shown, although Ansible takes it for a secret because of its name."""
AT_CONTROLLER = {"at_controller": True}
"""Metadata of a field that only the controller's part of the call reads, not the host."""
RECORD = {READ: read_record}
"""Metadata of a field with records, which are checked as strictly as those that are read from a disk."""


class Call:
    """What the calls have in common.

    call: the name of the call, which is that of its file in `host.calls`. state: empty if the call has no states.
    is_default: whether it is meant if no state is given. any_of: fields of which one has to be given, at least.
    has_check_mode: whether it supports check mode.
    """

    call: ClassVar[str]
    state: ClassVar[str] = ""
    is_default: ClassVar[bool] = False
    any_of: ClassVar[tuple[str, ...]] = ()
    has_check_mode: ClassVar[bool] = True


@dataclass(frozen=True)
class LookAtHost(Call):
    """Collect the facts of a host.

    session_name: the session whose data is needed; empty for none. usage: also what containers use now. image_names:
    also the names of all images. whole_records: full records of all sessions, not only of those that need them.
    ways_in: also the host keys and addresses of logins. images, paths, volumes: those whose facts are needed.
    underlay_address: the address or network of the underlay; None for that of the default route. encryption: also what
    encrypted sessions need. peers_of: ids of the sessions whose other hosts are to be contacted. accelerators: the
    declared ones, as in the inventory.
    """

    call: ClassVar[str] = "host_info"

    session_name: str = ""
    usage: bool = False
    image_names: bool = False
    whole_records: bool = False
    ways_in: bool = False
    images: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    underlay_address: Optional[str] = None
    encryption: bool = False
    peers_of: tuple[str, ...] = ()
    accelerators: Any = None
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class InstallBoot(Call):
    """Install the program that runs at boot, and its settings.

    path: of the program. output_size, output_days, output_sessions: how much output of a replica is kept, with a unit,
    for how many days, and of how many sessions. share_half_life: a duration, after which the use of an owner counts
    half. metrics_directory, job_mapping_directory: where files for the site's monitoring are written; None or empty
    for nowhere.
    """

    call: ClassVar[str] = "host_boot"
    state: ClassVar[str] = "present"
    is_default: ClassVar[bool] = True

    path: str = field(default="/usr/local/lib/cluster-compute/host.pyz", metadata=PATH)
    output_size: str = "16m"
    output_days: int = 7
    output_sessions: int = 50
    share_half_life: Optional[str] = None
    metrics_directory: Optional[str] = field(default=None, metadata=PATH)
    job_mapping_directory: Optional[str] = field(default=None, metadata=PATH)
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class RemoveBoot(Call):
    """Remove the program that runs at boot. path: of the program."""

    call: ClassVar[str] = "host_boot"
    state: ClassVar[str] = "absent"

    path: str = field(default="/usr/local/lib/cluster-compute/host.pyz", metadata=PATH)
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class KeepOutOfOverlays(Call):
    """Keep all containers of the host out of the overlays of the site.

    vxlan_port: their UDP port. vni_pool: their network identifiers, as a range. underlay_address: as of LookAtHost.
    """

    call: ClassVar[str] = "host_firewall"
    state: ClassVar[str] = "present"
    is_default: ClassVar[bool] = True

    vxlan_port: int = 4789
    vni_pool: str = "4096-16777215"
    underlay_address: Optional[str] = None


@dataclass(frozen=True)
class LetIntoOverlays(Call):
    """Remove the rules of KeepOutOfOverlays."""

    call: ClassVar[str] = "host_firewall"
    state: ClassVar[str] = "absent"


@dataclass(frozen=True)
class Drain(Call):
    """Take no new sessions on a host.

    reason, by: why, and which user wants that. wait_seconds: how long to wait until no session holds a place on it.
    """

    call: ClassVar[str] = "host_drain"
    state: ClassVar[str] = "drained"
    is_default: ClassVar[bool] = True

    reason: str = ""
    by: str = ""
    wait_seconds: int = 0
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class Undrain(Call):
    """Take new sessions on a host again."""

    call: ClassVar[str] = "host_drain"
    state: ClassVar[str] = "undrained"

    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class Transfer(Call):
    """Send data from the host's replica of a session to another replica and back.

    peer: the other replica; empty to send nothing and return the own one. size: in bytes. seconds: how long that may
    take.
    """

    call: ClassVar[str] = "replica_transfer"

    session_name: str
    peer: str = ""
    size: int = 64 * 1024**2
    seconds: int = 120


@dataclass(frozen=True)
class AddRuntime(Call):
    """Add the runtime entry for replicas to the host's engine."""

    call: ClassVar[str] = "host_runtime"
    state: ClassVar[str] = "present"
    is_default: ClassVar[bool] = True


@dataclass(frozen=True)
class RemoveRuntime(Call):
    """Remove the runtime entry for replicas from the host's engine."""

    call: ClassVar[str] = "host_runtime"
    state: ClassVar[str] = "absent"


@dataclass(frozen=True)
class Suspect(Call):
    """Mark a host as suspect for a while. reason: why; empty to trust it again."""

    call: ClassVar[str] = "host_suspect"

    reason: str = ""
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class CreateIdentity(Call):
    """Create the identity of a host. host: its name in the inventory."""

    call: ClassVar[str] = "host_identity"

    host: str
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class SetKernel(Call):
    """Set the kernel parameters that many replicas need. max_replicas: as in the inventory; empty for the default."""

    call: ClassVar[str] = "host_kernel"

    max_replicas: str = ""


@dataclass(frozen=True)
class BuildSshRuntime(Call):
    """Build the SSH runtime for replicas."""

    call: ClassVar[str] = "ssh_runtime"


@dataclass(frozen=True)
class Examine(Call):
    """Check a host for preflight.

    images, paths, volumes: those whose facts are needed. roots: the directories below which sessions may mount.
    underlay_address, encryption, accelerators: as of LookAtHost.
    """

    call: ClassVar[str] = "host_preflight"
    state: ClassVar[str] = "examined"

    images: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    underlay_address: Optional[str] = None
    encryption: bool = False
    accelerators: Any = None
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class ProbeTask:
    """What hosts test of each other.

    probe: the plain form of `preflight.probe_plan.ProbePlan`. settings: of the link and the measurement. storage: by
    host its parts in the test of shared directories, by path.
    """

    probe: dict[str, Any]
    settings: dict[str, Any]
    storage: dict[str, dict[str, str]]


@dataclass(frozen=True)
class Listen(Call):
    """Start the process to which other hosts connect. token: by which they authenticate. roots: as of Examine."""

    call: ClassVar[str] = "host_preflight"
    state: ClassVar[str] = "listening"

    plan: ProbeTask
    token: str = field(metadata=SECRET)
    host: str = ""
    roots: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reach(Call):
    """Connect to the other hosts.

    token, roots: as of Listen. ports, udp_ports: by host where it listens; None or 0 if it does not. server: the
    process of Listen on this host.
    """

    call: ClassVar[str] = "host_preflight"
    state: ClassVar[str] = "reached"

    plan: ProbeTask
    token: str = field(metadata=SECRET)
    host: str = ""
    roots: tuple[str, ...] = ()
    ports: dict[str, Optional[int]] = field(default_factory=dict)
    udp_ports: dict[str, Optional[int]] = field(default_factory=dict)
    server: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Measure(Call):
    """Measure the connection to another host. token, ports: as of Reach. target: the other host."""

    call: ClassVar[str] = "host_preflight"
    state: ClassVar[str] = "measured"

    plan: ProbeTask
    token: str = field(metadata=SECRET)
    host: str = ""
    target: str = ""
    ports: dict[str, Optional[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class EndListening(Call):
    """End the process of Listen, and return what it received. token, server: as of Reach."""

    call: ClassVar[str] = "host_preflight"
    state: ClassVar[str] = "ended"

    token: str = field(metadata=SECRET)
    server: dict[str, int] = field(default_factory=dict)


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
    public_keys: dict[str, Any] = field(default_factory=dict, metadata=PUBLIC)
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
    public_keys: dict[str, Any] = field(default_factory=dict, metadata=PUBLIC)
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
class KeepRecords(Call):
    """Store records of sessions on a host.

    recorded, looked: as of Hold. lease_owner: the run whose leases of the names are released; None for no lease.
    tombstones: to set. forget: ids of the tombstones to remove. settled: ids of ended sessions of which no host has an
    older state, so that their lines are removed in time: after output_days, or output_sessions newer ones.
    """

    call: ClassVar[str] = "session_record"

    records: tuple[Record, ...] = field(default=(), metadata=RECORD)
    recorded: tuple[str, ...] = ()
    looked: Optional[float] = None
    lease_owner: Optional[str] = None
    tombstones: tuple[Tombstone, ...] = ()
    forget: tuple[str, ...] = ()
    settled: tuple[str, ...] = ()
    output_days: int = 7
    output_sessions: int = 50
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class Repair(Call):
    """Restore missing parts of the sessions of a host.

    host: its name in the inventory. known_as: by session its name in the plan, where that differs. session_name: the
    only session to repair; empty for all. allocatable: as of Hold; None if nothing is known. mount_roots,
    volume_drivers: what sessions may use. records: by id, those that the host has to know. recorded, looked: as of
    Hold. apart: ids of sessions most of whose other hosts are unreachable. conflicting: ids of those of which hosts
    have different plans. waiting: ids of those that wait for hosts. public_keys: by session, of all replicas.
    """

    call: ClassVar[str] = "session_repair"

    host: str
    known_as: dict[str, str] = field(default_factory=dict)
    session_name: str = ""
    allocatable: Optional[Allocatable] = None
    mount_roots: tuple[str, ...] = ()
    volume_drivers: tuple[str, ...] = ()
    records: dict[str, Record] = field(default_factory=dict, metadata=RECORD)
    recorded: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    conflicting: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    looked: Optional[float] = None
    public_keys: dict[str, Any] = field(default_factory=dict, metadata=PUBLIC)
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class Watch(Call):
    """Wait until there may be capacity for a session.

    signature: of the facts that were collected last. seconds: how long to wait. rendezvous_key: common to all hosts
    that wait for the session. pause: seconds for which the controller waits at least.
    """

    call: ClassVar[str] = "session_watch"

    session_name: str
    signature: str
    rendezvous_key: str = field(metadata={**PUBLIC, **AT_CONTROLLER})
    seconds: float
    pause: float = field(default=1, metadata=AT_CONTROLLER)
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class FindOutput(Call):
    """Find the sessions with a name of which a host has a record or output.

    session_id: the only one that is meant; None for all. states: also what each replica is doing.
    """

    call: ClassVar[str] = "session_output"
    state: ClassVar[str] = "known"

    session_name: str
    session_id: Optional[str] = None
    states: bool = False
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class ReadOutput(Call):
    """Read the output of replicas.

    replicas: empty for all. since: by source, the time after which lines are wanted. tail: the number of last lines;
    None for all. job: its id; empty for the output of containers. grep: a regular expression of lines. size: the most
    bytes of an answer. positions: where an earlier answer ended; None to begin. wait: seconds to wait for new output.
    follow_seconds: for how long the controller asks again. width, timestamps: how it shows the lines.
    """

    call: ClassVar[str] = "session_output"
    state: ClassVar[str] = "read"
    is_default: ClassVar[bool] = True

    session_id: str
    replicas: tuple[str, ...] = ()
    since: dict[str, Any] = field(default_factory=dict)
    tail: Optional[int] = None
    job: str = ""
    grep: str = ""
    size: int = 1024**2
    positions: Optional[dict[str, Any]] = None
    wait: float = 0
    follow_seconds: float = field(default=0, metadata=AT_CONTROLLER)
    width: int = field(default=0, metadata=AT_CONTROLLER)
    timestamps: bool = field(default=False, metadata=AT_CONTROLLER)
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class PruneOutput(Call):
    """Remove output that was kept for *days*, or of more than *sessions* sessions, and leftovers."""

    call: ClassVar[str] = "session_output"
    state: ClassVar[str] = "pruned"

    days: int = 7
    sessions: int = 50
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class StartJob(Call):
    """Start a job in replicas of the host.

    job: its id. on: the host of each of its replicas, also of those on other hosts. env: as the variable ``job_env``.
    directory, user: empty for those of the image. timeout: seconds; 0 for none. once: whether nothing is done if the
    job is known. warn_alone: whether processes are reported that work alone, although the session has several replicas.
    output_size: how much output of a replica is kept, with a unit.
    """

    call: ClassVar[str] = "session_job"
    state: ClassVar[str] = "started"
    is_default: ClassVar[bool] = True

    session_id: str
    job: str
    on: dict[str, str]
    host: str
    command: tuple[str, ...]
    env: Any = field(default_factory=dict)
    directory: str = ""
    user: str = ""
    timeout: int = 0
    once: bool = False
    warn_alone: bool = True
    output_size: str = "16m"
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class StopJob(Call):
    """End a job. job: its id. requeue: whether it is to start again elsewhere."""

    call: ClassVar[str] = "session_job"
    state: ClassVar[str] = "stopped"

    session_id: str
    job: str
    requeue: bool = False
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class OpenApp(Call):
    """Open an app in main1 of a session.

    app: its name. ways: of starting it, the first one that works is used. directory: in which it starts; empty for that
    of the image. seconds: how long it may take until it listens. output_size: as of StartJob. asker: the user who wants
    it; None for an administrator. answer_file, configuration: for the controller, which makes them from the answer.
    """

    call: ClassVar[str] = "session_app"
    state: ClassVar[str] = "open"
    is_default: ClassVar[bool] = True

    session_name: str
    session_id: str
    host: str
    app: str = ""
    ways: tuple[dict[str, Any], ...] = ()
    directory: str = ""
    seconds: int = 60
    output_size: str = "16m"
    answer_file: str = field(default="", metadata=AT_CONTROLLER)
    configuration: str = field(default="", metadata=AT_CONTROLLER)
    asker: Optional[str] = None
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class CloseApp(Call):
    """Close an app of a session. app: empty for all apps of it. asker: as of OpenApp."""

    call: ClassVar[str] = "session_app"
    state: ClassVar[str] = "closed"

    session_name: str
    app: str = ""
    asker: Optional[str] = None
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class WantedImage:
    """An image to pull. reference: as in the request. digest: what that was resolved to."""

    reference: str
    digest: str


@dataclass(frozen=True)
class ImageTransfer:
    """One image on its way from one host, or from the controller, to another.

    image: its id on the sender. content: what it must contain if its id on the receiver is to be a different one.
    """

    reference: str
    image: str
    sender: str
    receiver: str
    content: str = ""


@dataclass(frozen=True)
class ImageServer:
    """Where a host serves an image. fingerprint: of its certificate."""

    port: int
    fingerprint: str


@dataclass(frozen=True)
class Resolve(Call):
    """Ask registries for the digests of images.

    logins: by registry, as JSON text: of a mapping, Ansible would take every value, user names too, out of all that is
    returned, and one such as "ada" or "12" is found in digests and sizes.
    """

    call: ClassVar[str] = "session_images"
    state: ClassVar[str] = "resolved"

    images: tuple[str, ...] = ()
    logins: Optional[str] = field(default=None, metadata=SECRET)


@dataclass(frozen=True)
class Pull(Call):
    """Pull images from registries. logins: as of Resolve."""

    call: ClassVar[str] = "session_images"
    state: ClassVar[str] = "pulled"

    pulls: tuple[WantedImage, ...] = ()
    logins: Optional[str] = field(default=None, metadata=SECRET)


@dataclass(frozen=True)
class Load(Call):
    """Load an archive that was copied to the host. archive: its path. allowed: the ids of all images in it."""

    call: ClassVar[str] = "session_images"
    state: ClassVar[str] = "loaded"

    transfer: ImageTransfer
    archive: str = field(metadata=PATH)
    allowed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Serve(Call):
    """Serve an image to one other host.

    address: at which this host listens. token: by which the other one authenticates. ports: the first and the last
    that may be used.
    """

    call: ClassVar[str] = "session_images"
    state: ClassVar[str] = "serving"

    transfer: ImageTransfer
    address: str
    token: str = field(metadata=SECRET)
    ports: tuple[int, ...] = (8480, 8489)


@dataclass(frozen=True)
class Receive(Call):
    """Get an image from another host. address: of that. token: as of Serve. source: the own address; None for any."""

    call: ClassVar[str] = "session_images"
    state: ClassVar[str] = "received"

    transfer: ImageTransfer
    address: str
    server: ImageServer
    token: str = field(metadata=SECRET)
    source: Optional[str] = None


@dataclass(frozen=True)
class EndServing(Call):
    """End servers whose receivers do not come. servers: their processes."""

    call: ClassVar[str] = "session_images"
    state: ClassVar[str] = "ended"

    servers: tuple[dict[str, int], ...] = ()


@dataclass(frozen=True)
class Execute(Call):
    """Run a program in a replica. user: empty for that of the image. asker: as of OpenApp."""

    call: ClassVar[str] = "replica_exec"
    has_check_mode: ClassVar[bool] = False

    session_name: str
    command: tuple[str, ...]
    replica: str = "main1"
    user: str = ""
    asker: Optional[str] = None
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


CALLS: dict[tuple[str, str], type[Call]] = {(kind.call, kind.state): kind for kind in Call.__subclasses__()}
"""All calls, by name and state."""


def kinds_of(call: str) -> list[type[Call]]:
    """Return the dataclasses of all states of a call, the one without a state alone."""
    return [kind for (name, _state), kind in CALLS.items() if name == call]


def is_required(part: "Field[Any]") -> bool:
    """Whether a field has to be given."""
    return part.default is MISSING and part.default_factory is MISSING


def arguments_of(request: Call) -> dict[str, Any]:
    """Return the plain form of a call for the wire."""
    state = {"state": request.state} if request.state else {}
    return {**state, **{key: value for key, value in encode(request).items() if value is not None}}


def read_call(call: str, arguments: Mapping[str, Any]) -> Call:
    """Return a call from its plain form.

    None counts as not given, and what only other states of the call read is ignored: Ansible fills in the defaults of
    all options. Raises Malformed.
    """
    kinds = kinds_of(call)
    state = arguments.get("state")
    kind = next((kind for kind in kinds if kind.state == (state or "") or (state is None and kind.is_default)), None)
    if kind is None:
        raise Malformed([f"The call {call} has no state {show(state)}"])
    own = {part.name for part in _fields(kind)}
    others = {part.name for other in kinds for part in _fields(other)} - own | {"state"}
    given = {key: value for key, value in arguments.items() if value is not None and key not in others}
    if kind.any_of and not any(name in given for name in kind.any_of):
        raise Malformed([f"{call} lacks {' or '.join(kind.any_of)}"])
    return decode(kind, given, call)


def _fields(kind: type[Call]) -> Iterator["Field[Any]"]:
    yield from fields(kind)  # type: ignore[arg-type]

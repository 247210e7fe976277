# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The state of a launch between two steps: as Ansible keeps it, as plain data, and as the steps of a launch use it.

Only the controller reads it. `read_launch_state` and `LaunchState.plain` are the border: what is between is typed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field, fields
from typing import Any, Optional

from ..values.deferred import dataclass
from .calls import ImageTransfer, WantedImage
from .claims import Allocatable, Claim
from .decode import OPTIONAL, decode_known, encode
from .given import Wanted
from .record import PublicKeys, Record
from .verb_state import Outcome, Plain, VerbState, plain_calls


@dataclass(frozen=True)
class Base:
    """The revision of a session that witnesses know, and the hosts that it had in that."""

    revision: int
    hosts: list[str]


@dataclass(frozen=True)
class ChangeState:
    """A change of a running session, as it was decided (planning.change) and as far as it is.

    id: under which hosts hold what is new. kind: `record.RESIZE`, REPLACE or MOVE. main: host of the first replica.
    before: the record before it. places: of `record.Change`. receiving: hosts that get replicas. staying: those that
    keep some, leaving: those that have none any more. holding: hosts with a lease for it. electors: the witnesses
    of which most have to agree. voted: those that agreed to another change. base: what they know, if not `before`.
    ran: seconds for which the session ran. allocatable: by host. is_new: whether no run has begun it. made: new public
    keys by replica. changed: hosts that have the new record. sick: hosts that failed while they held it. after,
    answers: the step in which hosts had another copy of the record, and what the other hosts answered in it.
    """

    id: str
    kind: str
    main: str
    before: Record
    places: dict[str, Optional[str]]
    receiving: list[str]
    staying: list[str]
    leaving: list[str]
    holding: list[str]
    electors: list[str]
    ran: int
    allocatable: dict[str, Allocatable]
    voted: list[str] = field(default_factory=list)
    base: Optional[Base] = None
    is_new: bool = False
    made: PublicKeys = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)
    sick: list[str] = field(default_factory=list)
    after: str = ""
    answers: dict[str, Plain] = field(default_factory=dict)


@dataclass(frozen=True)
class HostClaim:
    """The claim that one host is to hold, and the capacity of it that all sessions may use."""

    claim: Claim
    allocatable: Allocatable


@dataclass(frozen=True)
class Launcher:
    """A reservation of a run that may be launching or changing a session of this name.

    left: seconds for which it is held if nothing more is heard from that run. expires: when that is, by the host's
    clock. silent: seconds since the host last heard from it, if that is known.
    """

    claim: Claim
    stage: str
    lease_owner: str
    left: float
    expires: float
    silent: Optional[float] = None


@dataclass(frozen=True)
class Lease:
    """A lease that a host holds for a run, by which it is released."""

    claim: Claim
    lease_owner: str
    record: Optional[Record] = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True)
class ImageFacts:
    """The facts of one host that the distribution of images needs, as of `facts.HostFacts`."""

    images: Plain
    underlay: Optional[Plain]


@dataclass(frozen=True)
class ImageProgress:
    """How far the distribution of images is, and what hosts do next (launch_flow.distribution).

    needs: of each reference. asks: by host the references that it asks a registry for. pulls: by host what it pulls.
    round, rounds: of transfers, and how many there will be. progress: both for people. loads: hosts that get an image
    from the controller. serves, receives: by host the transfer. addresses, ports: to reach those that serve. useless:
    by host servers that no receiver uses. report: lines for people. missing: by host why it lacks an image. passing:
    hosts among these whose reason may be gone at another try. images: what the plan says of each reference.
    """

    needs: list[Plain]
    asks: dict[str, list[str]]
    pulls: dict[str, list[WantedImage]]
    round: int
    rounds: int
    progress: str
    loads: list[str]
    serves: dict[str, ImageTransfer]
    receives: dict[str, ImageTransfer]
    addresses: dict[str, str]
    ports: list[int]
    useless: dict[str, list[dict[str, int]]]
    report: list[str]
    missing: dict[str, str]
    passing: list[str]
    images: Plain


@dataclass(frozen=True)
class Awaited:
    """A run that holds a place for a session of this name, as it was when this launch began to wait for it."""

    host: str
    stage: str
    lease_owner: str
    expires: float


@dataclass
class Decision:
    """The decision about a session (planning.launch, planning.change).

    status: SCHEDULED if it has a place, else why not. lease_owner: this run, in what hosts hold. reachable: hosts with
    facts. name_hosts: those among them that know who has the name. fresh: whether nothing of it runs. replaces: whether
    it takes the place of another session. hosts: of the new replicas. fetches: those without an image that they need.
    images: of `rules.images.Need`. archive: ids, contents, names that the controller has. brings: packs that no host
    has. claims: by host. change: of a running session. name_claim: what name hosts hold. launchers, changing: runs at
    work on this name, by host. grows_later: whether it runs and waits to grow. record: with its plan. pending: if it
    waits. report: for people.
    """

    status: str = ""
    session_name: str = ""
    lease_owner: str = ""
    reachable: list[str] = field(default_factory=list)
    name_hosts: list[str] = field(default_factory=list)
    fresh: bool = True
    replaces: bool = False
    hosts: list[str] = field(default_factory=list)
    fetches: list[str] = field(default_factory=list)
    images: list[Plain] = field(default_factory=list)
    archive: list[str] = field(default_factory=list)
    brings: list[str] = field(default_factory=list)
    claims: dict[str, HostClaim] = field(default_factory=dict)
    change: Optional[ChangeState] = None
    name_claim: Optional[Claim] = None
    launchers: dict[str, Launcher] = field(default_factory=dict)
    changing: dict[str, Lease] = field(default_factory=dict)
    grows_later: bool = False
    record: Optional[Record] = None
    pending: Optional[Record] = None
    report: list[str] = field(default_factory=list)


NOTHING = Wanted("", "", [], [], [], {}, False, "")


@dataclass
class LaunchState(VerbState, Decision):
    """All that a launch knows between two steps. A step changes it, and names the next one.

    pause: seconds before the next decision, 0 for the shortest, None for none. lines, saying: what is shown before the
    step, under which title. diff, outcome: how it ended.

    Given at the start: request; known: hosts of the resource group; known_unreachable: those among them that cannot be
    asked; attempts: how often it plans; from_queue, regenerate_keys, hands_on; wait_until: by the
    controller's clock.

    As far as it is: attempt, rounds: how often it has planned and waited. bring_tries: hosts that could not take a
    working directory. asked_again: the attempt in which a host was asked again. wave, begun_roles: which roles were
    started. done: by host what was made. replicas: those that run. sick: by host why plans leave it out. silent: hosts
    that did not answer once. silent_registries: by host. alone: sessions that no other host knows. named: id under
    which the name is held. cleaned_up, peers_heard: whether that was done. promised: the status that was handed on in a
    workflow. again: whether it plans again after what it undoes. refused, failures, folder_failures, unremoved: reasons
    for people. awaited, awaited_since, awaited_until: other runs. waits: the record with which it waits. since: when a
    step with images began. images_so_far, loaded, served, missing, completed: of the distribution of images.
    failed_record: what is kept of a session that failed. after_removal: the step that follows one. displaced, avoid,
    given_up, before_loss, restores, changes: of `planning.planner.Wish`.

    From the group's facts: losses, unreachable_hosts, recorded, looked, host_names, signatures, image_facts,
    stub_hosts, kept_out, statuses, public_keys. warnings: for people.
    """

    request: Wanted = NOTHING
    known: list[str] = field(default_factory=list)
    verb: str = "launch"
    pause: Optional[float] = None
    lines: list[str] = field(default_factory=list, metadata=OPTIONAL)
    saying: str = field(default="", metadata=OPTIONAL)
    diff: Optional[Plain] = field(default=None, metadata=OPTIONAL)
    outcome: Optional[Outcome] = field(default=None, metadata=OPTIONAL)
    warnings: list[str] = field(default_factory=list)

    known_unreachable: list[str] = field(default_factory=list)
    attempts: int = 20
    from_queue: bool = False
    regenerate_keys: bool = False
    hands_on: bool = False
    wait_until: float = 0

    attempt: int = 0
    rounds: int = 0
    bring_tries: int = 0
    asked_again: int = 0
    wave: int = 0
    begun_roles: list[str] = field(default_factory=list)
    done: dict[str, list[str]] = field(default_factory=dict)
    replicas: list[Plain] = field(default_factory=list)
    sick: dict[str, str] = field(default_factory=dict)
    silent: list[str] = field(default_factory=list)
    silent_registries: dict[str, list[str]] = field(default_factory=dict)
    alone: list[str] = field(default_factory=list)
    named: Optional[str] = None
    cleaned_up: bool = False
    peers_heard: bool = False
    promised: Optional[str] = None
    again: bool = False
    refused: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    folder_failures: list[str] = field(default_factory=list)
    unremoved: list[str] = field(default_factory=list)
    awaited: Optional[list[Awaited]] = None
    awaited_since: float = 0
    awaited_until: float = 0
    waits: Optional[Record] = None
    since: float = 0
    images_so_far: Optional[ImageProgress] = None
    loaded: dict[str, Plain] = field(default_factory=dict)
    served: dict[str, Plain] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    completed: Optional[Record] = None
    failed_record: Optional[Record] = None
    after_removal: str = ""
    displaced: dict[str, str] = field(default_factory=dict)
    avoid: list[str] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)
    before_loss: Optional[Record] = None
    restores: Optional[Record] = None
    changes: str = ""

    losses: list[str] = field(default_factory=list)
    unreachable_hosts: list[str] = field(default_factory=list)
    recorded: dict[str, list[str]] = field(default_factory=dict)
    looked: dict[str, float] = field(default_factory=dict)
    host_names: dict[str, dict[str, str]] = field(default_factory=dict)
    signatures: dict[str, str] = field(default_factory=dict)
    image_facts: dict[str, ImageFacts] = field(default_factory=dict)
    stub_hosts: list[str] = field(default_factory=list)
    kept_out: list[str] = field(default_factory=list)
    statuses: list[Plain] = field(default_factory=list)
    public_keys: PublicKeys = field(default_factory=dict)

    def take(self, found: Mapping[str, Any]) -> None:
        """Take over a decision from its plain data. Raises Malformed."""
        decision = decode_known(Decision, found, "The decision")
        read = self.__dict__.setdefault(_READ, {})
        for item in fields(Decision):
            value = getattr(decision, item.name)
            setattr(self, item.name, value)
            if item.name in found:
                read[item.name] = (value, found[item.name])

    def forms(self) -> Iterable[tuple[object, object]]:
        """Return the values that came from plain data, each with that."""
        return self.__dict__.get(_READ, {}).values()  # type: ignore[no-any-return]

    def plain(self) -> Plain:
        """Return its plain data, in which what has not changed is the same object as in what it was read from."""
        read: dict[str, tuple[object, object]] = self.__dict__.get(_READ, {})
        found = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if not value and "optional" in item.metadata:
                continue
            known = read.get(item.name)
            found[item.name] = known[1] if known is not None and known[0] is value else _plain(item.name, value)
        return found


_READ = "_read"
_TYPED = (
    *("request", "outcome", "awaited", "waits", "images_so_far", "completed", "failed_record", "before_loss"),
    *("restores", "claims", "change", "launchers", "changing", "record", "pending", "image_facts", "name_claim"),
)
"""Fields of LaunchState whose values are not plain data."""


def _plain(name: str, value: object) -> object:
    if name == "calls":
        return plain_calls(value)  # type: ignore[arg-type]
    return encode(value) if name in _TYPED else value


def read_launch_state(data: Mapping[str, Any]) -> LaunchState:
    """Return the state of a launch from its plain data, to which Ansible adds keys of its own. Raises Malformed."""
    state = decode_known(LaunchState, data, "The state of the launch")
    # A plan of a thousand hosts is not made plain again in each step.
    state.__dict__[_READ] = {name: (getattr(state, name), data[name]) for name in _TYPED if name in data}
    return state

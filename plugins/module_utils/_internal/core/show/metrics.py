# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The data of a host for a site's monitoring: its metrics in the text format of Prometheus, and jobs by GPU.

`state_text` covers sessions, replicas, capacity and failures, which are cheap to collect; `use_text` covers the use of
replicas. A replica has at most `MOST_SERIES` series in both together, whatever runs in it. Each text is complete: a
family without any objects is included without samples.

Annotations are types here, not text, as the decoder reads them.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, fields, replace
from typing import Any, Optional, Union

from ..model.claims import Allocatable, Reservation
from ..model.decode import decode
from ..model.record import PENDING, PREPARING, RUNNING, STATUSES, Record
from ..rules.detection import Card
from ..values.deferred import dataclass
from ..values.errors import CoreError, printable
from ..values.resources import PINNED, Devices

PREFIX = "cluster_compute_"
MOST_SERIES = 20
"""Most series of one replica."""
INTERFACES = ("eth0", "eth1")
"""Interfaces of a replica, with the engine's names: the way out and the session's network. A replica can make
others."""
MOST_CLASSES = 8
"""Most classes of accelerators of one replica that are listed by name; further classes are combined into one."""
OTHER = "other"
LONGEST_LABEL = 120
PHASES = ("hold", "network", "start", "ready")
"""Phases of a launch on one host: hold its place and make its keys; links and networks; containers; until they work."""
BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds in seconds of the histogram's buckets."""
CONTAINER_STATES = ("created", "running", "paused", "restarting", "removing", "exited", "dead", "missing")
"""States as reported by the engine, and one for a replica that should exist and does not."""
EXIT_CODE, OUT_OF_MEMORY, DISK = "exit_code", "out_of_memory", "disk"
OF_HOST, REFUSED, OF_REQUEST = "host", "refused", "request"
"""Kinds of failures of a call: the host's own fault, another user's session, or a problem on any host."""

Value = Union[int, float]
Labels = Mapping[str, str]


@dataclass(frozen=True)
class Phase:
    """Durations of a phase in all launches. counts: of each bucket alone, the last of which has no bound."""

    counts: tuple[int, ...] = (0,) * (len(BOUNDS) + 1)
    seconds: float = 0.0

    def after(self, seconds: float) -> "Phase":
        """Return it with one more launch."""
        place = bisect_left(BOUNDS, seconds)
        counts = tuple(count + (number == place) for number, count in enumerate(self.counts))
        return Phase(counts, self.seconds + seconds)


@dataclass(frozen=True)
class Counted:
    """Values that a host has to remember for its metrics.

    failures: of calls, by call and kind with a blank between. phases: by name. waiting: since when sessions wait, in
    seconds since 1970, by id. capacity: what sessions may use of the host, from the last launch, in its plain form.
    """

    failures: dict[str, int] = field(default_factory=dict)
    phases: dict[str, Phase] = field(default_factory=dict)
    waiting: dict[str, float] = field(default_factory=dict)
    capacity: Any = None

    @property
    def is_sound(self) -> bool:
        """Whether it can be used as it is: another release may have other buckets."""
        return all(len(phase.counts) == len(BOUNDS) + 1 for phase in self.phases.values())


@dataclass(frozen=True)
class ContainerLook:
    """The container of a replica. failure: a kind of failure, empty where it did not fail."""

    session_id: str
    session: str
    replica: str
    state: str
    failure: str = ""


@dataclass(frozen=True)
class HostLook:
    """A host's facts about itself.

    containers: None if the engine does not answer. names: this host's names in the plans of sessions, by id. restarts:
    of replicas here after failures, by session id and replica.
    """

    capacity: Allocatable
    records: Sequence[Record] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    containers: Optional[Sequence[ContainerLook]] = ()
    restarts: Mapping[tuple[str, str], int] = field(default_factory=dict)
    held: Sequence[Reservation] = ()
    is_drained: bool = False
    is_suspect: bool = False
    damaged: int = 0


@dataclass(frozen=True)
class ReplicaUse:
    """The use of one replica. traffic: bytes in and out by interface. devices: as it holds them."""

    session: str
    replica: str
    cpu_seconds: float
    memory: int
    traffic: Mapping[str, tuple[int, int]]
    devices: Devices = ()


class _Text:
    """The text, family by family (Prometheus, text-based format)."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def family(self, name: str, kind: str, help_text: str, samples: Iterable[tuple[Labels, Value]]) -> None:
        """Add a family of metrics with its samples. kind: its Prometheus type, for example gauge."""
        self._head(name, kind, help_text)
        self.lines += [_line(f"{PREFIX}{name}", labels, value) for labels, value in samples]

    def histogram(self, name: str, help_text: str, label: str, phases: Mapping[str, Phase]) -> None:
        """Add a histogram of seconds for each phase of a launch. label: the name of the label for the phase."""
        self._head(name, "histogram", help_text)
        for phase in PHASES:
            found, total = phases.get(phase, Phase()), 0
            for bound, count in zip((*map(str, BOUNDS), "+Inf"), found.counts):
                total += count
                self.lines.append(_line(f"{PREFIX}{name}_bucket", {label: phase, "le": bound}, total))
            self.lines.append(_line(f"{PREFIX}{name}_sum", {label: phase}, round(found.seconds, 3)))
            self.lines.append(_line(f"{PREFIX}{name}_count", {label: phase}, total))

    def _head(self, name: str, kind: str, help_text: str) -> None:
        self.lines += [f"# HELP {PREFIX}{name} {help_text}", f"# TYPE {PREFIX}{name} {kind}"]

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)


def _line(name: str, labels: Labels, value: Value) -> str:
    inner = ",".join(f'{key}="{label(text)}"' for key, text in labels.items())
    return f"{name}{{{inner}}} {value}" if inner else f"{name} {value}"


def label(text: str) -> str:
    """Return a label's value: in printable form, of bounded length, with escaped special characters."""
    shown = printable(text)
    shown = shown if len(shown) <= LONGEST_LABEL else f"{shown[: LONGEST_LABEL - 1]}…"
    return shown.replace("\\", "\\\\").replace('"', '\\"')


def state_text(look: HostLook, counted: Counted) -> str:
    """Return the metrics of sessions, replicas, capacity and failures of a host."""
    text = _Text()
    _tell_health(text, look)
    _tell_sessions(text, look)
    _tell_room(text, look)
    _tell_queue(text, look, counted)
    failures = [(dict(zip(("call", "kind"), key.split(" ", 1))), counted.failures[key]) for key in counted.failures]
    text.family("call_failures_total", "counter", "Calls of playbooks to this host that failed.", failures)
    text.histogram(
        "launch_phase_duration_seconds", "How long phases of launches took on this host.", "phase", counted.phases
    )
    return str(text)


def _tell_health(text: _Text, look: HostLook) -> None:
    for name, help_text, value in (
        ("engine_up", "Whether Docker Engine answers.", look.containers is not None),
        ("host_drained", "Whether the host takes no new sessions.", look.is_drained),
        ("host_suspect", "Whether the host failed lately for reasons of its own.", look.is_suspect),
        ("damaged_files", "Files of the state directory that cannot be read.", look.damaged),
    ):
        text.family(name, "gauge", help_text, [({}, int(value))])


def _tell_sessions(text: _Text, look: HostLook) -> None:
    own = [record for record in look.records if record.id in look.names]
    elsewhere = {record.id for record in look.records if record.status in (PREPARING, RUNNING)} - look.names.keys()
    counts = Counter(record.status for record in look.records if record.id not in elsewhere)
    help_text = "Sessions that are here, that wait, and that have ended and are remembered here."
    text.family("sessions", "gauge", help_text, [({"status": status.lower()}, counts[status]) for status in STATUSES])
    text.family(
        "session_info",
        "gauge",
        "Sessions with replicas here: id, owner and status.",
        [
            (
                {
                    "session": record.name,
                    "session_id": record.id,
                    "owner": record.owner,
                    "status": record.status.lower(),
                },
                1,
            )
            for record in own
        ],
    )
    if look.containers is not None:  # otherwise nothing is known, which is not the same as nothing existing
        _tell_replicas(text, look, own, look.containers)


def _tell_replicas(text: _Text, look: HostLook, own: Sequence[Record], containers: Sequence[ContainerLook]) -> None:
    """Add the replicas of this host. own: the sessions that have some here."""
    states = _states(look, own, containers)
    sessions = {found.session_id: found.session for found in containers}
    sessions.update((record.id, record.name) for record in own)
    counts = Counter(state if state in CONTAINER_STATES else "dead" for state in states.values())
    text.family(
        "replicas",
        "gauge",
        "Replicas of this host by the state of their containers.",
        [({"state": state}, counts[state]) for state in CONTAINER_STATES],
    )
    places = {key: {"session": sessions[key[0]], "replica": key[1]} for key in sorted(states)}
    running = [(places[key], int(states[key] == "running")) for key in places]
    text.family("replica_running", "gauge", "Whether the replica runs.", running)
    again = [(places[key], look.restarts[key]) for key in places if key in look.restarts]
    text.family("replica_restarts_total", "counter", "Starts of the replica after it had failed.", again)
    failed = Counter(found.failure for found in containers)
    kinds = [({"reason": kind}, failed[kind]) for kind in (EXIT_CODE, OUT_OF_MEMORY, DISK)]
    text.family("failed_replicas", "gauge", "Replicas that have failed and are still here.", kinds)


def _states(look: HostLook, own: Iterable[Record], containers: Iterable[ContainerLook]) -> dict[tuple[str, str], str]:
    """Return the state of each replica of this host, by session and name."""
    states = {(found.session_id, found.replica): found.state for found in containers}
    for record in own:
        for replica in record.replicas if record.status == RUNNING else ():
            if replica.host == look.names[record.id]:
                states.setdefault((record.id, replica.name), "missing")
    return states


def _tell_room(text: _Text, look: HostLook) -> None:
    claims, may = [held.claim for held in look.held], look.capacity
    classes = Counter[str]()
    for claim in claims:
        classes.update({kind: len(names) for kind, names in claim.devices if kind != PINNED})
    known = {kind: len(names) for kind, names in may.devices if kind != PINNED}
    for name, unit, here, taken in (
        ("cpus", "CPUs", may.cpus / 1000, sum(claim.cpus for claim in claims) / 1000),
        ("memory_bytes", "Memory", may.memory, sum(claim.memory for claim in claims)),
    ):
        text.family(f"capacity_{name}", "gauge", f"{unit} that sessions may use of this host.", [({}, here)])
        text.family(f"held_{name}", "gauge", f"{unit} that sessions hold of this host.", [({}, taken)])
    for verb, what, found in (
        ("capacity", "may use", known),
        ("held", "hold", {**dict.fromkeys(known, 0), **classes}),
    ):
        samples = [({"class": kind}, found[kind]) for kind in sorted(found)]
        text.family(f"{verb}_accelerators", "gauge", f"Accelerators that sessions {what} of this host.", samples)
    slots: list[tuple[Labels, Value]] = [] if may.max_replicas is None else [({}, may.max_replicas)]
    text.family("capacity_replicas", "gauge", "Replicas that this host may have, where that is limited.", slots)
    held = sum(claim.replicas for claim in claims)
    text.family("held_replicas", "gauge", "Replicas that sessions hold a place for here.", [({}, held)])


def _tell_queue(text: _Text, look: HostLook, counted: Counted) -> None:
    queue = sorted((record for record in look.records if record.status == PENDING), key=_queue_order)
    text.family("queue_sessions", "gauge", "Sessions that wait in the resource group.", [({}, len(queue))])
    heads = [
        ({"session": record.name}, round(counted.waiting[record.id], 3))
        for record in queue[:1]
        if record.id in counted.waiting
    ]
    help_text = "Since when the head of the queue waits, in seconds since 1970."
    text.family("queue_head_enqueued_timestamp_seconds", "gauge", help_text, heads)


def _queue_order(record: Record) -> tuple[int, bool, int, str]:
    """Return the sort key of the queue (`rules.queue`); the head is marked if owners have shares."""
    return -int((record.request or {}).get("priority") or 0), not record.is_head, record.queue_number, record.id


def use_text(uses: Iterable[ReplicaUse]) -> str:
    """Return the metrics of the use of replicas."""
    text, found = _Text(), list(uses)
    places = [{"session": use.session, "replica": use.replica} for use in found]
    pairs = list(zip(places, found))
    cpu = [(place, round(use.cpu_seconds, 3)) for place, use in pairs]
    text.family("replica_cpu_seconds_total", "counter", "CPU time that the replica has used.", cpu)
    memory = [(place, use.memory) for place, use in pairs]
    text.family("replica_memory_bytes", "gauge", "Memory that the replica uses and cannot give back at once.", memory)
    for number, way in enumerate(("receive", "transmit")):
        traffic = [
            ({**place, "interface": name}, use.traffic[name][number])
            for place, use in pairs
            for name in INTERFACES
            if name in use.traffic
        ]
        help_text = f"Bytes that an interface of the replica has {'received' if way == 'receive' else 'sent'}."
        text.family(f"replica_network_{way}_bytes_total", "counter", help_text, traffic)
    cards = [({**place, "class": kind}, count) for place, use in pairs for kind, count in _classes(use.devices).items()]
    text.family("replica_accelerators", "gauge", "Accelerators that the replica holds.", cards)
    return str(text)


def _classes(devices: Devices) -> dict[str, int]:
    counts = sorted((kind, len(names)) for kind, names in devices if kind != PINNED)
    rest = sum(count for _kind, count in counts[MOST_CLASSES - 1 :])
    return dict(counts) if len(counts) <= MOST_CLASSES else {**dict(counts[: MOST_CLASSES - 1]), OTHER: rest}


def counted_of(data: object) -> Counted:
    """Return the valid parts of what a host remembers: another release may have other parts or buckets."""
    found = Counted()
    for part in fields(Counted):
        with suppress(CoreError):
            if isinstance(data, Mapping) and part.name in data:
                sound = decode(Counted, {part.name: data[part.name]}, "What was counted")
                found = replace(found, **{part.name: getattr(sound, part.name)}) if sound.is_sound else found
    return found


def after_call(
    counted: Counted, call: str, arguments: Mapping[str, Any], result: Mapping[str, Any], seconds: float
) -> Counted:
    """Return the values that a host remembers after a call. arguments: of the call. seconds: its duration."""
    state = str(arguments.get("state") or "")
    name = state if call == "session_host" else call
    if result.get("failed"):
        kind = OF_HOST if result.get("sick") else REFUSED if result.get("refused") else OF_REQUEST
        key = f"{name} {kind}"
        counted = replace(counted, failures={**counted.failures, key: counted.failures.get(key, 0) + 1})
    elif name == "held" and result.get("granted"):
        counted = _with_phases(counted, {"hold": seconds})
    elif name == "started" and result.get("changed"):
        counted = _with_phases(counted, result.get("seconds") or {})
    if call == "session_host" and arguments.get("allocatable"):
        counted = replace(counted, capacity=dict(arguments["allocatable"]))
    return counted


def _with_phases(counted: Counted, seconds: Mapping[str, Any]) -> Counted:
    took = {phase: float(seconds[phase]) for phase in PHASES if seconds.get(phase) is not None}
    phases = {phase: counted.phases.get(phase, Phase()).after(took[phase]) for phase in took}
    return replace(counted, phases={**counted.phases, **phases})


def after_look(counted: Counted, records: Iterable[Record], now: float) -> Counted:
    """Return the values that a host remembers of waiting sessions. now: seconds since 1970."""
    waiting = {record.id: counted.waiting.get(record.id, now) for record in records if record.status == PENDING}
    return replace(counted, waiting=waiting)


_DEVICE_FILE = re.compile(r"/dev/nvidia([0-9]+)")
_CDI_INDEX = re.compile(r"nvidia\.com/gpu=([0-9]+)")
_CDI_UUID = re.compile(r"(?:nvidia\.com/gpu=)?(GPU-[0-9a-f-]+)", re.IGNORECASE)


def card_jobs(held: Iterable[Reservation], cards: Sequence[Card]) -> dict[str, str]:
    """Return which session holds which whole NVIDIA GPU: index to the session's name.

    Other devices are left out: an instance of a GPU (MIG), and devices of other vendors.
    """
    found: dict[str, str] = {}
    for reservation in held:
        names = [name for kind, names in reservation.claim.devices if kind != PINNED for name in names]
        for part in (part for name in names for part in name.split("+")):
            index = _index_of(part, cards)
            if index is not None:
                found[str(index)] = printable(reservation.claim.session_name)[:LONGEST_LABEL]
    return found


def _index_of(name: str, cards: Sequence[Card]) -> Optional[int]:
    if match := _CDI_INDEX.fullmatch(name):
        return int(match.group(1))
    if match := _CDI_UUID.fullmatch(name):
        return next((card.index for card in cards if card.uuid.lower() == match.group(1).lower()), None)
    if match := _DEVICE_FILE.fullmatch(name):
        minor = int(match.group(1))
        return next((card.index for card in cards if card.minor == minor), minor)
    return None

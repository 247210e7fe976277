# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Claims of sessions on one host, reservations, and the answer to a claim."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..values.errors import CoreError, show
from ..values.resources import Devices

SCHEMA = 1
LEASED = "leased"
CONFIRMED = "confirmed"
COMMITTED = "committed"
STAGES = (LEASED, CONFIRMED, COMMITTED)


class InvalidLedger(CoreError):
    """A ledger that was read back is malformed."""


class NewerLedger(InvalidLedger):
    """A ledger was written by a newer release, which can read it."""


@dataclass(frozen=True)
class Claim:
    """The resources that one session takes on one host.

    cpus in thousandths, memory in bytes, devices as (class, names), ports as (address, port, protocol). vni and
    subnets belong to the session as a whole and are claimed on every host of it. overlay_port: UDP port of its overlay,
    which it shares only with other overlays. Without replicas it is a claim of the session's name alone.
    amends: set in a claim for what a running session takes beyond what it has: the id of that session. session_id is
    then the id of the change.
    """

    session_id: str
    session_name: str
    replicas: int = 0
    cpus: int = 0
    memory: int = 0
    devices: Devices = ()
    ports: tuple[tuple[str, int, str], ...] = ()
    vni: int | None = None
    subnets: tuple[str, ...] = ()
    overlay_port: int | None = None
    amends: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "session_id": self.session_id,
            "session_name": self.session_name,
            "replicas": self.replicas,
            "cpus": self.cpus,
            "memory": self.memory,
            "devices": {kind: list(names) for kind, names in self.devices},
            "ports": [list(port) for port in self.ports],
            "vni": self.vni,
            "subnets": list(self.subnets),
            "overlay_port": self.overlay_port,
            **({} if self.amends is None else {"amends": self.amends}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Claim:
        """Read the JSON form back. Raises InvalidLedger."""
        try:
            claim = cls(
                session_id=_text(data["session_id"]),
                session_name=_text(data["session_name"]),
                replicas=_count(data["replicas"]),
                cpus=_count(data["cpus"]),
                memory=_count(data["memory"]),
                devices=read_devices(data["devices"]),
                ports=tuple((str(address), _count(port), _text(protocol)) for address, port, protocol in data["ports"]),
                vni=None if data["vni"] is None else _count(data["vni"]),
                subnets=tuple(str(ipaddress.IPv4Network(_text(subnet), strict=False)) for subnet in data["subnets"]),
                # Ledgers of earlier releases do not have it.
                overlay_port=None if data.get("overlay_port") is None else _count(data["overlay_port"]),
                amends=None if data.get("amends") is None else _text(data["amends"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidLedger(f"A claim in the ledger is malformed: {show(data)} ({error}).") from error
        return claim


@dataclass(frozen=True)
class Reservation:
    """One claim and how firmly it is held.

    lease_owner: the run of a launch that made it; two runs of the same session do not share one. boot: the boot of the
    host during which it was made. expires: seconds since that boot (CLOCK_BOOTTIME) at which it expires, None once
    committed. since: when the host last heard from its run, by the same clock; None if that is not known. None of it
    depends on the host's calendar clock, which may be wrong or set.
    """

    claim: Claim
    stage: str
    boot: str
    expires: float | None
    lease_owner: str = ""
    since: float | None = None

    def is_live(self, boot: str, now: float) -> bool:
        """Tell whether it still counts. After a reboot no run is left to continue what had not been committed."""
        if self.expires is None:
            return True
        return self.boot == boot and now < self.expires

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "claim": self.claim.to_dict(),
            "stage": self.stage,
            "boot": self.boot,
            "expires": self.expires,
            "holder": self.lease_owner,
            **({} if self.since is None else {"since": self.since}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Reservation:
        """Read the JSON form back. Raises InvalidLedger."""
        try:
            stage, expires = data["stage"], data["expires"]
            if stage not in STAGES or (expires is None) != (stage == COMMITTED):
                raise ValueError(f"stage {show(stage)} with expiry {show(expires)}")
            lease_owner = data["holder"]
            if not isinstance(lease_owner, str):
                raise ValueError(f"holder {show(lease_owner)}")
            if expires is not None and (isinstance(expires, bool) or not isinstance(expires, (int, float))):
                raise ValueError(f"expiry {show(expires)}")
            until = None if expires is None else float(expires)
            since = None if data.get("since") is None else float(data["since"])
            return cls(Claim.from_dict(data["claim"]), stage, _text(data["boot"]), until, lease_owner, since)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidLedger(f"A reservation in the ledger is malformed: {show(data)} ({error}).") from error


@dataclass(frozen=True)
class Allocatable:
    """The total that sessions may use of one host. max_replicas None means no limit."""

    cpus: int
    memory: int
    devices: Devices = ()
    max_replicas: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "cpus": self.cpus,
            "memory": self.memory,
            "devices": {kind: list(names) for kind, names in self.devices},
            "max_replicas": self.max_replicas,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Allocatable:
        """Read the JSON form back. Raises InvalidLedger."""
        try:
            limit = data["max_replicas"]
            return cls(
                _count(data["cpus"]),
                _count(data["memory"]),
                read_devices(data["devices"]),
                None if limit is None else _count(limit),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidLedger(f"What sessions may use of the host is malformed: {show(data)} ({error}).") from error


@dataclass(frozen=True)
class ClaimAnswer:
    """One host's answer to a claim.

    reasons: full sentences, empty if it is granted. tentative: the sessions whose leases are the only obstacle; empty
    if it would not fit without them either.
    """

    granted: bool
    reasons: tuple[str, ...] = ()
    tentative: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it in the form in which a host answers the launch that asked."""
        return {"granted": self.granted, "reasons": list(self.reasons), "tentative": list(self.tentative)}


Ledger = Mapping[str, Reservation]
"""The reservations of one host by session id."""


def read_devices(data: Mapping[str, Sequence[str]]) -> Devices:
    """Return devices in their typed form, sorted. Raises ValueError if the data is malformed."""
    if any(isinstance(names, str) for names in data.values()):
        raise ValueError(f"{show(data)} names no devices")
    return tuple(sorted((_text(kind), tuple(_text(name) for name in names)) for kind, names in data.items()))


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{show(value)} is not a text")
    return value


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{show(value)} is not a count")
    return value

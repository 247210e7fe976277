# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Claims of sessions on one host, reservations, and the answer to a claim."""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Optional

from ..values.deferred import dataclass
from ..values.errors import CoreError, show
from ..values.resources import Devices
from .decode import OPTIONAL, PAIRS, READ, Malformed, decode, encode

SCHEMA = 1
LEASED = "leased"
CONFIRMED = "confirmed"
COMMITTED = "committed"
STAGES = (LEASED, CONFIRMED, COMMITTED)


class InvalidLedger(CoreError):
    """A ledger that was read back is malformed."""


class NewerLedger(InvalidLedger):
    """A ledger was written by a newer release, which can read it."""


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{show(value)} is not a text")
    return value


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{show(value)} is not a count")
    return value


def _subnet(value: object) -> str:
    return str(ipaddress.IPv4Network(_text(value), strict=False))


@dataclass(frozen=True)
class Claim:
    """The resources that one session takes on one host.

    cpus in thousandths, memory in bytes, devices as (class, names), ports as (address, port, protocol). vni and
    subnets belong to the session as a whole and are claimed on every host of it. overlay_port: UDP port of its overlay,
    which it shares only with other overlays. Without replicas it is a claim of the session's name alone.
    amends: set in a claim for what a running session takes beyond what it has: the id of that session. session_id is
    then the id of the change.
    """

    session_id: str = field(metadata={READ: _text})
    session_name: str = field(metadata={READ: _text})
    replicas: int = field(default=0, metadata={READ: _count})
    cpus: int = field(default=0, metadata={READ: _count})
    memory: int = field(default=0, metadata={READ: _count})
    devices: Devices = field(default=(), metadata={**PAIRS, READ: _text})
    ports: tuple[tuple[str, int, str], ...] = ()
    vni: Optional[int] = field(default=None, metadata={READ: _count})
    subnets: tuple[str, ...] = field(default=(), metadata={READ: _subnet})
    overlay_port: Optional[int] = field(default=None, metadata={READ: _count})
    amends: Optional[str] = field(default=None, metadata=OPTIONAL)


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
    expires: Optional[float]
    lease_owner: str = ""
    since: Optional[float] = None

    def is_live(self, boot: str, now: float) -> bool:
        """Tell whether it still counts. After a reboot no run is left to continue what had not been committed."""
        if self.expires is None:
            return True
        return self.boot == boot and now < self.expires

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "claim": encode(self.claim),
            "stage": self.stage,
            "boot": self.boot,
            "expires": self.expires,
            "holder": self.lease_owner,
            **({} if self.since is None else {"since": self.since}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Reservation":
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
            claim = decode(Claim, data["claim"], "A claim in the ledger", forgiving=True)
            return cls(claim, stage, _text(data["boot"]), until, lease_owner, since)
        except (KeyError, Malformed, TypeError, ValueError) as error:
            raise InvalidLedger(f"A reservation in the ledger is malformed: {show(data)} ({error}).") from error


@dataclass(frozen=True)
class Allocatable:
    """The total that sessions may use of one host. max_replicas None means no limit."""

    cpus: int = field(metadata={READ: _count})
    memory: int = field(metadata={READ: _count})
    devices: Devices = field(default=(), metadata={**PAIRS, READ: _text})
    max_replicas: Optional[int] = field(default=None, metadata={READ: _count})


@dataclass(frozen=True)
class ClaimAnswer:
    """One host's answer to a claim.

    reasons: full sentences, empty if it is granted. tentative: the sessions whose leases are the only obstacle; empty
    if it would not fit without them either.
    """

    granted: bool
    reasons: tuple[str, ...] = ()
    tentative: tuple[str, ...] = ()


Ledger = Mapping[str, Reservation]
"""The reservations of one host by session id."""


def read_devices(data: Mapping[str, Sequence[str]]) -> Devices:
    """Return devices in their typed form, sorted. Raises ValueError if the data is malformed."""
    if any(isinstance(names, str) for names in data.values()):
        raise ValueError(f"{show(data)} names no devices")
    return tuple(sorted((_text(kind), tuple(_text(name) for name in names)) for kind, names in data.items()))

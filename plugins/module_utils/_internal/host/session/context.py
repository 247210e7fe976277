# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""One host and its part of one session, which every module of this package uses."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from ...adapters import engine_objects, machine, ssh_server
from ...adapters.engine import Engine
from ...adapters.engine_objects import Image, read_image
from ...adapters.ledger import LedgerFile
from ...adapters.state import SessionDirectory, StateDirectory
from ...core.model.claims import Allocatable
from ...core.model.plan import Plan, Replica, read_plan
from ...core.model.record import PREPARING, Record, require_known
from ...core.rules import environment
from ...core.values import environment_names
from ...core.values.deferred import dataclass
from ..data import SessionData
from ..users import User, user_of

if TYPE_CHECKING:
    from ..output import LogArchive

_T = TypeVar("_T")


def has_ssh(plan: Plan) -> bool:
    """Return whether replicas of a session have an SSH server, for each other or for the session's owner."""
    return plan.network is not None or plan.ssh_port is not None


def digest(content: bytes) -> str:
    """Return a digest of contents, for diffs and labels."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@dataclass(frozen=True)
class Amendment:
    """What a run holds on this host for a session that it changes.

    change_id: the id under which *lease_owner* has leased it, None if nothing is leased.
    """

    change_id: str | None
    lease_owner: str


@dataclass(frozen=True)
class Upkeep:
    """The data to change or repair a session that runs.

    allocatable: what sessions may use of this host, to restore a lost reservation, None if it is not known. amendment:
    the run that changes the session, None for a repair. archive: keeps the output of removed replicas. awaits_others:
    whether new replicas have to wait until other hosts know of them.
    """

    allocatable: Allocatable | None = None
    amendment: Amendment | None = None
    archive: LogArchive | None = None
    awaits_others: bool = False


START = Upkeep()
"""The upkeep of a session that is being started."""


class Context:
    """One host and its part of one session. It stores data and decides nothing."""

    def __init__(
        self,
        engine: Engine,
        state: StateDirectory,
        ledger: LedgerFile,
        record: Record,
        host: str,
        lease_owner: str,
        upkeep: Upkeep = START,
    ) -> None:
        """Take the whole *record* of a session that is being started or runs.

        lease_owner: the run of a launch that holds the session's reservation while it is being started.
        """
        require_known(record)
        self.plan = plan = read_plan(record.plan)
        self.engine = engine
        self.state = state
        self.ledger = ledger
        self.record = record
        self.allocatable = upkeep.allocatable
        self.amendment = upkeep.amendment
        self.archive = upkeep.archive
        self.awaits_others = upkeep.awaits_others
        self.lease_owner = lease_owner if record.status == PREPARING else None
        self.host = host
        self.session = plan.session
        self.network = plan.network
        self.egress = plan.egress
        self.has_ssh = has_ssh(plan)
        self.members = plan.replicas
        self.replicas = plan.on(host)
        self.image_ids: dict[str, str] = {}
        self._made: dict[Hashable, Any] = {}
        self._locks: dict[Hashable, Lock] = {}
        self._images: dict[str, Image] = {}
        self.directory: SessionDirectory = state.session(self.session.id)
        self.written: set[Path] = set()
        """Files to write, which decide what has to be restarted afterwards."""
        self.data = SessionData(record, plan, host, self.directory, engine)
        self.labels = {
            engine_objects.LABEL_SESSION_ID: self.session.id,
            engine_objects.LABEL_SESSION_NAME: self.session.name,
        }

    def once(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """Return the result of *make* for *key*. It is called only once, even with several threads at the same time."""
        with self._locks.setdefault(key, Lock()):
            if key not in self._made:
                self._made[key] = make()
            found: _T = self._made[key]
            return found

    @cached_property
    def environments(self) -> dict[str, dict[str, str]]:
        """The variables of each replica of this host, by name."""
        is_filtered, scope = self.engine.filters_process_reads(), machine.setting("kernel.yama.ptrace_scope")

        def single_copy(replica: Replica) -> bool:
            return environment.permits_single_copy(replica.capabilities, is_filtered, scope)

        return environment.environments(self.plan, self.host, single_copy)

    @cached_property
    def arriving(self) -> frozenset[str]:
        """The replicas that come to this host with a change of the session and were not started here yet."""
        return frozenset(replica.name for replica in self.replicas if self.directory.is_expected(replica.name))

    @property
    def waits(self) -> bool:
        """Whether they have to wait for a controller, because only it can know that they no longer run elsewhere."""
        return self.amendment is None and (self.allocatable is None or self.awaits_others)

    @cached_property
    def server_starts(self) -> dict[int, float]:
        """When the SSH servers that run here were started, by the first process of their container."""
        return ssh_server.start_times()

    def user_of(self, replica: Replica) -> User | None:
        """Return the user that the request gives to a replica; None if only the image knows it."""
        key = ("user", replica.user, replica.groups)
        return self.once(key, lambda: user_of(replica, self.record.owner, self.host))

    def image_of(self, replica: Replica) -> str:
        """Return the image that the session runs for the replica's reference, whatever its current meaning on this
        host.

        It is unknown only in check mode, if the image would have to be fetched first.
        """
        pinned = self.plan.images[replica.image].ids[self.host]
        return str(pinned or replica.image)

    def image(self, replica: Replica) -> Image:
        """Return the replica's image, as one of nothing if it is not here yet."""
        # The image of an existing container, because its tag may mean another one by now.
        image = self.image_ids.get(replica.name) or self.image_of(replica)
        if image not in self._images:
            self._images[image] = self.engine.inspect_image(image) or read_image({})
        return self._images[image]

    def image_environment(self, replica: Replica) -> dict[str, str]:
        """Return the variables that the replica's image sets. Empty if the image is not here yet."""
        pairs = (text.partition("=") for text in self.image(replica).environment)
        return {name: value for name, _dummy, value in pairs if environment_names.ENVIRONMENT_NAME.fullmatch(name)}

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""One host and its part of one session: what every module of this folder works with."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from ...adapters import engine as docker_engine
from ...adapters import machine, ssh_server
from ...adapters.engine import Engine
from ...adapters.ledger import LedgerFile
from ...adapters.state import SessionDirectory, StateDirectory
from ...core.model.claims import Allocatable
from ...core.model.plan import Plan, Replica, read_plan
from ...core.model.record import PREPARING, Record, require_known
from ...core.rules import environment
from ...core.values import environment_names
from ..data import SessionData

if TYPE_CHECKING:
    from ..output import LogArchive

_T = TypeVar("_T")

PublicKeys = Mapping[str, Mapping[str, str]]
"""The public keys of each replica of a session: name to "client" and "host", and "tunnel" in an encrypted one."""


def has_ssh(plan: Plan) -> bool:
    """Tell whether replicas of a session have an SSH server: for each other, or for the session's owner."""
    return plan.network is not None or plan.ssh_port is not None


def digest(content: bytes) -> str:
    """Return what tells contents from each other, for diffs and labels."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@dataclass(frozen=True)
class Amendment:
    """What a run holds of this host for a session that it changes.

    change_id: under which that is leased by *lease_owner*; None where nothing is.
    """

    change_id: str | None
    lease_owner: str


class Context:
    """One host and its part of one session; it holds, and decides nothing."""

    def __init__(
        self,
        engine: Engine,
        state: StateDirectory,
        ledger: LedgerFile,
        record: Record,
        host: str,
        lease_owner: str,
        allocatable: Allocatable | None = None,
        amendment: Amendment | None = None,
        archive: LogArchive | None = None,
        awaits_others: bool = False,
    ) -> None:
        """Take the whole *record* of a session that is being started or runs.

        lease_owner: the run of a launch that holds the session's place while it is being started. allocatable: what
        sessions may use of this host, to ask again for a place that was lost; None where that is not known.
        amendment: the run that changes the session, None for who only puts back what is missing. archive: keeps what
        replicas wrote that go. awaits_others: whether what comes has to wait until other hosts know of it.
        """
        require_known(record)
        self.plan = plan = read_plan(record.plan)
        self.engine = engine
        self.state = state
        self.ledger = ledger
        self.record = record
        self.allocatable = allocatable
        self.amendment = amendment
        self.archive = archive
        self.awaits_others = awaits_others
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
        self._image_configurations: dict[str, dict[str, Any]] = {}
        self.directory: SessionDirectory = state.session(self.session.id)
        self.written: set[Path] = set()
        """Files that are to be written, for what has to be started anew when they are."""
        self.data = SessionData(record, plan, host, self.directory, engine)
        self.labels = {
            docker_engine.LABEL_SESSION_ID: self.session.id,
            docker_engine.LABEL_SESSION_NAME: self.session.name,
        }

    def once(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """Return what *make* returns for *key*: made once, however many threads ask at the same time."""
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
        """The replicas that come to this host with a change of the session, and were not started here yet."""
        return frozenset(replica.name for replica in self.replicas if self.directory.is_expected(replica.name))

    @property
    def waits(self) -> bool:
        """Whether those have to wait for a controller, which alone knows that they run nowhere else any more."""
        return self.amendment is None and (self.allocatable is None or self.awaits_others)

    @cached_property
    def server_starts(self) -> dict[int, float]:
        """When the SSH servers that run here were started, by the first process of their container."""
        return ssh_server.start_times()

    def image_of(self, replica: Replica) -> str:
        """Return the image that the session runs by the replica's reference, whatever that means on this host now.

        Only check mode does not know it yet, where the image would have to be fetched first.
        """
        pinned = self.plan.images[replica.image].ids[self.host]
        return str(pinned or replica.image)

    def image_configuration(self, replica: Replica) -> dict[str, Any]:
        """Return what the replica's image says of its containers; nothing where the image is not here yet."""
        # The image that an existing container was made from: its tag may mean another one by now.
        image = self.image_ids.get(replica.name) or self.image_of(replica)
        if image not in self._image_configurations:
            self._image_configurations[image] = (self.engine.inspect_image(image) or {}).get("Config") or {}
        return self._image_configurations[image]

    def image_environment(self, replica: Replica) -> dict[str, str]:
        """Return the variables that the replica's image sets; none where the image is not here yet."""
        pairs = (text.partition("=") for text in self.image_configuration(replica).get("Env") or [])
        return {name: value for name, _dummy, value in pairs if environment_names.ENVIRONMENT_NAME.fullmatch(name)}

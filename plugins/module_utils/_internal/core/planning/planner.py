# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""A launch and what is known about it, and the form that all decisions about it have."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import Any

from ..cluster.group import GroupFacts
from ..cluster.state import ClusterState
from ..model.claims import Claim
from ..model.decode import encode
from ..model.fields import QUEUE, REPLACE, WAIT
from ..model.launch_state import HostClaim, Lease
from ..model.plan import Plan, read_plan
from ..model.record import ENDED, PENDING, RUNNING, Record
from ..model.request import Request, Role
from ..rules.access import ADMIN, Asker
from ..rules.build import images_of
from ..rules.capacity import allocatable_of, hosts_from_facts
from ..rules.data import Inventory, inventory_for
from ..rules.images import Archive, Need, archive_of_packs, needs_again
from ..rules.ledger import claims_of
from ..rules.obstacles import unfit_hosts
from ..rules.placement import Host
from ..rules.rendezvous import name_hosts
from ..rules.site import Settings
from ..rules.sizing import describe, sized
from ..rules.users import check_users
from ..values.deferred import dataclass

Decided = dict[str, Any]
"""A decision in its plain form (`model.launch_state.Decision`)."""


@dataclass(frozen=True)
class Wish:
    """The wishes of a launch for a running session, beyond its request.

    min_size: it may grow by less than requested, to no fewer replicas than this; None: by all or not at all. replaces:
    whether replicas of lost hosts move to others whatever the request sets. displaced: replicas that are to leave a
    host, with that host. avoid: hosts that get none. given_up: new replicas that could not be started. changes: the id
    of the session that this is for, so that another one of its name is not changed. on_no_capacity: what
    the launch does then. restores: the record as it was before lost hosts were replaced, if that could not be finished.
    without_retired: whether witnesses that left the inventory do not count (`GroupFacts.electors`).
    """

    min_size: int | None = None
    replaces: bool = False
    displaced: Mapping[str, str] = field(default_factory=dict)
    avoid: tuple[str, ...] = ()
    given_up: tuple[str, ...] = ()
    changes: str = ""
    on_no_capacity: str = QUEUE
    restores: Mapping[str, Any] | None = None
    without_retired: bool = False


@dataclass(frozen=True)
class Order:
    """The wishes of a user who launches a session.

    asker: the user who launches. recreate: whether a session with another specification is replaced. shared_with: users
    who may enter the session.
    """

    request: Request
    owner: str
    recreate: bool
    shared_with: Sequence[str] = ()
    asker: Asker = ADMIN
    wish: Wish = Wish()


class Planner:
    """One launch: everything that is known about it, and the form of the decisions about it.

    request: what is asked for, with the amounts that follow from the hosts. problems: of sessions in the queue.
    has_waited, is_queued: whether the session has waited for capacity, and whether the queue launches it now.
    is_judged: whether this request was accepted from who may make it, and waits since then.
    """

    def __init__(
        self,
        order: Order,
        group: GroupFacts,
        settings: Settings,
        *,
        draw: Callable[[], str],
        read_archive: Callable[[Request], Archive],
        run: str = "",
        alone: Collection[str] = (),
    ) -> None:
        """Take the order and the facts of hosts.

        draw: gives a new UUID. read_archive: reads the controller's archive of images, which the request names. run:
        identifies this run. alone: ids of sessions that were `alone` at an earlier look.
        """
        self.request = order.request
        self.owner = order.owner
        self.recreate = order.recreate
        self.shared_with = tuple(order.shared_with)
        self.asker = order.asker
        self.wish = order.wish
        self.run_name = run
        self.draw = draw
        self.read_archive = read_archive
        self.group = group
        self.facts = group.facts
        self.settings = settings
        self.cluster: ClusterState = group.cluster_state()
        named = {record.id for record in self.cluster.named(self.request.name)}
        # While a host is unreachable it may be one of theirs by another name.
        self.alone = sorted(named & self.cluster.alone) if not group.missing else []
        for session_id in {*self.alone} & {*alone}:
            self.cluster.forget(session_id)
        self.problems: list[str] = []
        self.archive: Archive | None = None
        self.has_waited = self.is_queued = self.is_judged = False
        self.request = self.sized(self.request)

    def sized(self, request: Request) -> Request:
        """Return a request for a session of this name with the amounts that follow from the hosts."""
        if not any(role.of_host for role in request.roles):
            return request
        hosts = self.hosts(with_tentative=True)
        left_out = {*unfit_hosts(request, self.facts)}
        left_out |= {host.name for host in hosts if host.replica_limit == 0 or self.facts[host.name].drained}
        ready = [host for host in hosts if host.name not in left_out]
        before, waits = self._requests_before()
        return sized(request, ready or hosts, before, self.recreate, waits)

    def _requests_before(self) -> tuple[list[Request], bool]:
        """Return the request of the session of this name if there is one, and its growth's; and whether it waits."""
        found = [record for record in self.cluster.named(self.request.name) if record.status not in ENDED]
        found.sort(key=lambda record: record.status == PENDING)
        if not found:
            return [], False
        stored = [found[0].request, found[0].growth.request if found[0].growth else None]
        return [Request.from_dict(old, newer_too=True) for old in stored if old], found[0].status == PENDING

    @property
    def asks_peers(self) -> list[str]:
        """Ids of sessions of this name whose hosts have to report their silent peers, before anything else."""
        return [
            record.id
            for record in self.cluster.named(self.request.name)
            if self.wants_replacement(record) and any(host not in self.facts for host in record.hosts)
        ]

    def wants_replacement(self, record: Record) -> bool:
        """Tell whether replicas of a session are to leave lost hosts, by its request or by the user's."""
        return record.status == RUNNING and (
            self.wish.replaces or (record.request or {}).get("on_host_loss") == REPLACE
        )

    def electors(self, current: Record) -> tuple[str, ...]:
        """Return the hosts of which most have to agree if a running session loses a host."""
        return self.group.electors(current, self.wish.without_retired)

    def witnesses(self, request: Request, current: Record | None = None) -> tuple[str, ...]:
        """Return the hosts that decide if hosts of the session are lost: those that know its name and answer now.

        current: the record of the session if it runs already; the witnesses stay the same as long as it does. Witnesses
        that left the inventory are removed only if they do not decide this change: a host without a copy of the record
        yet could not agree to what was begun (`GroupFacts.other_witnesses`).
        """
        if current is not None and current.witnesses:
            return self.electors(current)
        if request.on_host_loss == WAIT:
            return ()
        return tuple(name_hosts(request.name, self.facts, self.group.identities))

    def users_of(self, current: Record) -> tuple[str, ...]:
        """Return the users with whom a session is shared by this launch.

        Other users than its owner leave that as it is, and so does a launch that has waited: its request is older.
        """
        is_owner = self.asker.is_admin or self.asker.name == current.owner
        is_new = is_owner and self.owner == current.owner and not self.has_waited
        return self.shared_with if is_new else current.shared_with

    def hosts(self, with_tentative: bool) -> list[Host]:
        """Return the hosts; what the session itself has counts as free. with_tentative: of `hosts_from_facts`."""
        return hosts_from_facts(self.facts, self.group.inventory, self.request.name, with_tentative)

    def inventory_of(self, owner: str, is_new: bool = False) -> Inventory:
        """Return the variables of each host, with what a user's sessions may mount there. Raises InvalidInput.

        is_new: whether a request is judged. Who launches for another owner may not mount what is the owner's.
        """
        is_own = not is_new or self.is_judged or self.asker.is_admin or self.asker.name == owner
        return inventory_for(self.group.inventory, owner if is_own else "")

    def check_users(self, roles: Sequence[Role], owner: str) -> None:
        """Reject users of roles that who launches may not choose."""
        if not self.is_judged:
            check_users(self.request, roles, owner, self.asker, self.settings.root_users)

    def archived_images(self) -> Archive:
        """Return what the controller gives: images from an archive or its engine, and packs. Raises InvalidInput.

        The queue has no packs to give: the folder may have changed, or be on another controller.
        """
        if self.archive is None:
            has_images = self.request.image_archive is not None or self.request.image_from is not None
            packs = () if self.is_queued else self.request.packs
            self.archive = {**(self.read_archive(self.request) if has_images else {}), **archive_of_packs(packs)}
        return self.archive

    def needs_again(self, plan: Plan) -> list[Need]:
        """Return how hosts get the images of an existing plan. Raises InvalidInput."""
        used = images_of(plan.replicas)
        needs = needs_again(used, self.facts, self.request.image_pull, plan.images)
        if any(need.fetches for need in needs):  # reading a large compressed archive takes long
            needs = needs_again(used, self.facts, self.request.image_pull, plan.images, self.archived_images())
        return needs

    def placed_already(self, record: Record) -> Decided:
        """Return the decision for a session that keeps its places."""
        plan = read_plan(record.plan)
        return self.placed(record, plan, self.needs_again(plan), fresh=False, replaces=False)

    def placed(
        self,
        record: Record,
        plan: Plan,
        needs: list[Need],
        *,
        fresh: bool,
        replaces: bool,
        pending: Record | None = None,
    ) -> Decided:
        """Return the decision for a session that has a place for every replica."""
        session = plan.session
        allocatable = {host.name: allocatable_of(host) for host in self.hosts(with_tentative=True)}
        hosts = list(plan.hosts)
        return self.answer(
            "SCHEDULED",
            fresh=fresh,
            replaces=replaces,
            hosts=hosts,
            fetches=[host for host in hosts if any(host in need.fetches for need in needs)],
            images=encode(needs),
            archive=sorted(
                {
                    known
                    for name, image in (self.archive or {}).items()
                    for known in (name, image.id, *image.contents.values())
                }
            ),
            claims=encode({name: HostClaim(claim, allocatable[name]) for name, claim in claims_of(plan).items()}),
            name_claim=encode(Claim(session.id, session.name)),
            record=record,
            pending=pending,
            report=[
                f"Session {session.name} ({session.id}): {session.size} replicas, {session.mode}, "
                f"on {', '.join(hosts)}.",
                *describe(self.request),
            ],
        )

    def answer(
        self, status: str, record: Record | None = None, pending: Record | None = None, **values: Any
    ) -> Decided:
        """Return a decision: with every key, whatever the status."""
        return {
            "status": status,
            "session_name": self.request.name,
            "lease_owner": f"{self.draw()} {self.run_name}".strip(),
            "reachable": list(self.facts),
            "name_hosts": [
                name
                for name in name_hosts(self.request.name, self.group.known, self.group.identities)
                if name in self.facts
            ],
            "fresh": True,
            "replaces": False,
            "hosts": [],
            "fetches": [],
            "images": [],
            "archive": [],
            "brings": [] if self.is_queued else [pack for pack in self.request.packs if not self._is_there(pack)],
            "claims": {},
            "change": None,
            "name_claim": None,
            "launchers": {},
            "changing": encode(self._changing()),
            "grows_later": False,
            "record": encode(record),
            "pending": encode(pending),
            "cleanup": None,
            **values,
        }

    def _is_there(self, pack: str) -> bool:
        """Tell whether a host can give a pack to others."""
        return any(facts.images.get(pack) is not None for facts in self.facts.values())

    def _changing(self) -> dict[str, Lease]:
        """Return, by host, the reservations of runs that may still be changing a running session of this name."""
        running = {record.id: record for record in self.cluster.named(self.request.name) if record.status == RUNNING}
        return {
            host: Lease(lease.claim, lease.lease_owner, running[lease.claim.amends])
            for host, lease in self.group.launching
            if lease.claim.amends in running
        }


def difference_of(changes: list[tuple[str, str, str]]) -> dict[str, str]:
    """Return the changes, each a field with its old and its new value, in the form of Ansible's diff mode."""
    return {
        "before": "".join(f"{field}: {old}\n" for field, old, _new in changes),
        "after": "".join(f"{field}: {new}\n" for field, _old, new in changes),
    }

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Request from the other hosts of sessions whether this host still carries its part, and if they are reachable."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

from ..adapters import questions
from ..adapters.questions import Echo, Question
from ..adapters.state import StateDirectory
from ..core.model.plan import Plan, read_plan
from ..core.model.record import RUNNING, Record, is_stub
from ..core.rules.membership import GIVEN_AWAY, MEMBER, QUESTION, UNKNOWN, holds_back, judge
from ..core.values.deferred import dataclass
from ..core.values.errors import InvalidPlan

HELD_BACK = Path("/run/cluster-compute-held-back")
"""Ids of sessions that a repair did not start, because no host confirmed that they are still here. Gone at boot."""


@dataclass(frozen=True)
class Membership:
    """This host's membership in a session. status: one of `core.rules.membership`. answers: of other hosts, by name."""

    status: str
    answers: dict[str, bool]
    others: tuple[str, ...]

    @property
    def is_gone(self) -> bool:
        """Whether its part was given to other hosts."""
        return self.status == GIVEN_AWAY


def memberships(state: StateDirectory, records: Iterable[Record]) -> dict[str, Membership]:
    """Return this host's membership in its sessions that run on several hosts, by id.

    A session that does not hold its replicas back starts them even if the membership is unknown.
    """
    parts = _parts(state, records)
    answered = questions.ask(question for part in parts.values() for question in part.questions.values())
    found = {}
    for key, part in parts.items():
        answers = {name: answered[question] for name, question in part.questions.items() if question in answered}
        status = judge(part.questions, answers)
        if status == UNKNOWN and not holds_back(part.plan):
            status = MEMBER
        found[key] = Membership(status, answers, tuple(part.questions))
    return found


def is_due(state: StateDirectory) -> bool:
    """Return whether a repair is due, because a session was replaced elsewhere or a held-back one may start."""
    try:
        records, _damaged = state.records()
        guarded = [record for record in records if record.plan is not None and holds_back(_seen(record))]
        held_back = read_held_back()
        found = memberships(state, guarded)
    except Exception:  # whatever the error is, repairs report it
        return False
    return any(own.is_gone or (own.status == MEMBER and key in held_back) for key, own in found.items())


def read_held_back() -> set[str]:
    """Return the ids of the sessions that the last repair did not start. Raises OSError."""
    try:
        return set(HELD_BACK.read_text(encoding="ascii").split())
    except FileNotFoundError:
        return set()


def write_held_back(session_ids: Collection[str]) -> None:
    """Store them for `is_due`. Raises OSError."""
    if session_ids:
        HELD_BACK.write_text("".join(f"{key}\n" for key in sorted(session_ids)), encoding="ascii")
    else:
        HELD_BACK.unlink(missing_ok=True)


def silent_peers(
    state: StateDirectory,
    records: Iterable[Record],
    session_ids: Collection[str],
    pids: Mapping[str, int],
    underlay: str,
) -> dict[str, list[str]]:
    """Return for each session on several hosts which of its other hosts do not answer this one.

    For a session without replicas here, it only has the addresses, if they are in its stub. pids: the first process of
    a running replica here, by session. underlay: the address of this host's tunnels. An answer can be a reply to the
    membership request, an echo from a host's underlay address, or an echo from one of its replicas over the session's
    network.
    """
    known = [record for record in records if record.id in session_ids]
    parts = _parts(state, known)
    wanted = [question for part in parts.values() for question in part.questions.values()]
    answered = questions.ask(wanted, questions.SECONDS)
    echoes = {key: _echoes_of_part(part, answered, pids.get(key)) for key, part in parts.items()}
    for record in known:
        if record.status == RUNNING and is_stub(record) and record.tunnel is not None:
            # Endpoints are in the order of the hosts' names (`record.tunnel_of`).
            endpoints = zip(sorted(record.hosts), record.tunnel.endpoints)
            echoes[record.id] = {name: [Echo(address, local=underlay)] for name, address in endpoints}
    heard = questions.echo({echo for hosts in echoes.values() for some in hosts.values() for echo in some})
    return {key: [name for name, some in hosts.items() if not heard & set(some)] for key, hosts in echoes.items()}


@dataclass(frozen=True)
class _Part:
    """This host's part of a session. questions: the requests to the other hosts, by name."""

    plan: Plan
    questions: dict[str, Question]


def _echoes_of_part(part: _Part, answered: Container[Question], pid: int | None) -> dict[str, list[Echo]]:
    """Return the echoes that may show that a host lives which has not answered, by its name.

    pid: the first process of a running replica here, if there is one.
    """
    echoes = {
        name: [Echo(sent.address, local=sent.local)] for name, sent in part.questions.items() if sent not in answered
    }
    if pid is not None:
        for replica in part.plan.replicas:
            if replica.host in echoes:
                echoes[replica.host].append(Echo(str(replica.address), pid))
    return echoes


def _parts(state: StateDirectory, records: Iterable[Record]) -> dict[str, _Part]:
    """Return this host's parts of sessions that run here and elsewhere, if their records are valid."""
    found = {}
    for record in records:
        if record.status != RUNNING or not record.plan:
            continue
        with suppress(InvalidPlan, ValueError):  # a repair reports what is wrong with it
            plan, host = _seen(record), state.session(record.id).name_in(record)
            if host is not None and host in plan.hosts:
                found[record.id] = _Part(plan, questions_of(plan, host))
    return {key: part for key, part in found.items() if part.questions}


def _seen(record: Record) -> Plan:
    """Return the plan of a record, also of a newer release, which is enough for requests. Raises InvalidPlan."""
    return read_plan(record.plan, forgiving=True)


def questions_of(plan: Plan, host: str, flags: int = QUESTION) -> dict[str, Question]:
    """Return the requests to the other hosts, by name. Raises ValueError for an invalid address."""
    network = plan.network
    if network is None or network.port is None or network.vni is None:
        return {}
    local = str(ip_address(str(plan.hosts[host].underlay_address)))
    return {
        name: Question(local, str(ip_address(str(other.underlay_address))), network.port, network.vni, flags)
        for name, other in plan.hosts.items()
        if name != host
    }

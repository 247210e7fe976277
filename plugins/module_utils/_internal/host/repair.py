# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Restore missing parts of all sessions that run on this host, from the state that is stored on this host.

A controller adds the data of other hosts. The unit at boot works without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from functools import partial
from typing import TYPE_CHECKING

from ..adapters.bounded import bounded
from ..adapters.engine import PATIENCE, Engine
from ..adapters.engine_objects import LABEL_SESSION_ID
from ..adapters.ledger import LOOK_SECONDS, DamagedLedger, LedgerFile
from ..adapters.state import WORK_DEADLINE, DamagedFile, SessionDirectory, StateDirectory
from ..core.model.call import session_repair
from ..core.model.call.session_repair import Repaired, RepairedSession
from ..core.model.decode import decode, encode
from ..core.model.host_parts import KnownSession
from ..core.model.plan import read_plan
from ..core.model.record import ENDED, RUNNING, PublicKeys, Record, differs, is_stub, latest, require_known, stub_of
from ..core.rules.membership import UNKNOWN
from ..core.values.errors import SessionError, message_of
from . import disk, durations, firewall_rules, labels, membership, use
from .membership import Membership
from .prepare import keep_records, make_keys
from .session import links
from .session.context import Context, Upkeep, has_ssh
from .session.stages import session_stages
from .steps import Stage, descriptions, difference, perform

if TYPE_CHECKING:
    from .output import LogArchive


class HeldBack(SessionError):
    """No host confirms that this host still carries its part of a session, so nothing of it is started."""


SECONDS = WORK_DEADLINE + 900.0
"""Seconds for the repair of one session, which may wait for another process that works on it. A busy engine takes
minutes to create a network."""
DISK_SECONDS = 900.0
"""Seconds for the disks of all replicas, whose files are counted, and for the time of all sessions."""
OWN_STATE = session_repair.Repair(host="")
"""The request of a host by itself, whose state has its name in each session."""


def repair_host(
    state: StateDirectory,
    request: session_repair.Repair = OWN_STATE,
    *,
    evaluate: Callable[[Record, str], None] | None = None,
    alone: bool = False,
    check_mode: bool = False,
) -> Repaired:
    """Repair every session of this host, or only a named session.

    A newer revision of other hosts, or a copy that is missing here, is taken over. A session without a record now that
    had one when the records were collected was torn down in the meantime. A lost reservation is only restored if the
    resources are free. Of sessions that are apart, the controller cannot reach most of the other hosts, so that its
    data is not enough. Conflicting ones are not changed, because it is unknown which of two records is right. New
    replicas of waiting ones wait, because other hosts have not yet released the lost host.

    evaluate: rejects a record that this host did not store itself, and whose plan gives more to replicas here, by the
    host's name in it, than the site allows. Without it, as at boot, nothing is created from such a record. alone:
    whether there is no controller, so that this host itself contacts the others to find out if it still carries its
    part. A part that others have replaced is removed. A session that cannot be repaired does not affect the others.
    Raises EngineError, LedgerError and StateError if nothing can be repaired at all.
    """
    session_name, apart, records = request.session_name, request.apart, request.records
    engine = Engine.connect(PATIENCE)
    result = Repaired()
    repairer = _Repairer(engine, state, result, request, evaluate, check_mode)
    repairer.set_damaged_aside()
    repairer.keep_out_of_overlays()
    if not session_name:
        repairer.enforce_disk_limits()
        repairer.keep_time()
    own = {record.id: record for record in state.records()[0]}
    here = {*request.recorded, *own}
    copies, unproven = _copies(engine, state, own, records)
    result.sessions = {
        session_id: RepairedSession(name, problem=_why_not_believed(state, what))
        for session_id, (name, what) in unproven.items()
        if session_name in ("", name)
    }
    certain = sorted({*copies} - {*request.conflicting})
    right = {key: best for key in certain if (best := latest(copies[key])) is not None}
    doubtful = [record for key, record in right.items() if alone or key in apart]
    if doubtful:
        repairer.memberships = membership.memberships(state, doubtful)
    # The controller cannot know if most witnesses have agreed to a newer record than it has seen.
    repairer.decided = {key for key in {*records} - {*apart} if key in right and _is_same(records[key], right[key])}
    for session_id, best in right.items():
        if session_id not in here and repairer.was_torn_down(best):
            continue
        if session_name in ("", best.name):
            name_here = request.known_as.get(session_id, request.host)
            repairer.repair(best, name_here, session_id in here, best is own.get(session_id))
    return result


def _copies(
    engine: Engine, state: StateDirectory, own: Mapping[str, Record], told: Mapping[str, Record]
) -> tuple[dict[str, list[Record]], dict[str, tuple[str, str]]]:
    """Return all copies of records by session, and those sessions of which only a label is left that is not believed.

    own: the records of this host, by id. told: those of other hosts. For each of the latter sessions its name is
    returned, and what has the label.
    """
    copies = {session_id: [record] for session_id, record in own.items()}
    for session_id, record in told.items():
        copies.setdefault(session_id, []).append(record)
    labelled, unproven = labels.labelled_records(engine, state)
    for session_id, record in labelled.items():
        # A label may be outdated. It only counts if nothing else is left.
        if _is_lost(copies.get(session_id, [])):
            copies.setdefault(session_id, []).append(record)
    return copies, {key: found for key, found in unproven.items() if _is_lost(copies.get(key, []))}


def _is_same(one: Record, other: Record) -> bool:
    return one.revision == other.revision and not differs(one, other)


def _is_lost(copies: Sequence[Record]) -> bool:
    """Return whether there is only a stub record of a session that has not ended."""
    return all(is_stub(copy) and copy.status not in ENDED for copy in copies)


def _why_not_believed(state: StateDirectory, what: str) -> str:
    return (
        f"This host has lost its record. The {what} has a label with one that is not believed, because it has no code "
        f"by the key in {state.label_key_file}: an image brought it, an earlier release wrote it, or the key is lost. "
        "Nothing of the session was changed. Run repair with all of its hosts, another of which may have the record, "
        f"or restore {state.root} from a backup; otherwise an admin tears the session down, to be launched again."
    )


def _expect_arrivals(record: Record, replicas: Iterable[str], session: SessionDirectory) -> None:
    """Note which *replicas* come here with a change that this host does not know yet, so that they wait at boot."""
    if record.change is None:
        return
    here = session.read_record()
    if here is not None and not is_stub(here) and here.revision >= record.revision:
        return
    for name in replicas:
        if name in record.change.places:
            session.expect(name)


class _Repairer:
    """Repairs one session after the other and records what was done."""

    def __init__(
        self,
        engine: Engine,
        state: StateDirectory,
        result: Repaired,
        request: session_repair.Repair,
        evaluate: Callable[[Record, str], None] | None,
        check_mode: bool,
    ) -> None:
        self.engine = engine
        self.state = state
        self.ledger = LedgerFile(str(state.root), forgiving=True)
        self.result = result
        self.request = request
        self.evaluate = evaluate
        self.check_mode = check_mode
        self.memberships: dict[str, Membership] = {}
        self.decided: set[str] = set()

    def set_damaged_aside(self) -> None:
        """Move files that cannot be trusted out of the way. Raises LedgerError and StateError for newer ones.

        Only one tombstone is moved in each run. The next run finds the next one.
        """
        _records, damaged = self.state.records()
        paths = [damage.path for damage in damaged if isinstance(damage, DamagedFile)]
        try:
            self.state.tombstones()
        except DamagedFile as error:
            paths.append(error.path)
        try:
            LedgerFile(str(self.state.root)).read()
        except DamagedLedger:
            paths.append(self.ledger.path)
        for path in paths:
            if self.check_mode:
                self.state.passed_over.add(path)
                target = "another name"
            else:
                target = str(self.state.set_aside(path))
            self._did(f"set aside damaged file {path}", "file", str(path), "damaged", target)

    def keep_out_of_overlays(self) -> None:
        """Restore the rules that keep containers of this host out of all overlays of the site."""
        try:
            self._perform([firewall_rules.standing_steps(self.engine.uses_nftables())])
        except Exception as error:
            self.result.faults.append(message_of(error))

    def enforce_disk_limits(self) -> None:
        """Stop replicas that write too much outside their mounts. They are not started again."""
        try:
            measured = partial(disk.enforce_limits, self.engine, self.state, self.check_mode)
            done, problems = bounded(measured, "what replicas write", DISK_SECONDS)
        except (SessionError, OSError) as error:
            done, problems = {}, [f"What replicas write is not known: {error}"]
        for container, reason in done.items():
            self._did(f"stop container {container}: {reason}", "container", container, "running", "stopped")
        self.result.faults += problems

    def keep_time(self) -> None:
        """Record the use of owners, and end sessions whose time or idle time is over."""
        try:
            if not self.check_mode:
                use.count_use(self.state)
            kept = partial(durations.keep_time, self.engine, self.state, self.check_mode)
            done, problems, warnings = bounded(kept, "what keeps the time of sessions", DISK_SECONDS)
        except (SessionError, OSError) as error:
            done, problems, warnings = [], [f"The time of sessions could not be kept: {message_of(error)}"], []
        for action in done:
            self._did(action, "time", action, None, "done")
        self.result.faults += problems
        self.result.warnings += warnings

    def was_torn_down(self, record: Record) -> bool:
        """Return whether a session's name was torn down here since the facts were collected."""
        since = None if self.request.looked is None else self.request.looked - LOOK_SECONDS
        return self.ledger.was_removed(record.name, record.id, since, None)

    def repair(self, record: Record, host: str | None, was_here: bool, is_own: bool) -> None:
        """Create this host's part of the session from its record, or record why that fails, whatever the error is.

        host: its name in the session's plan. Without it, the session's state has the name. was_here: this host recently
        had a copy. is_own: this record is the one that the host stored itself.
        """
        try:
            work = partial(self._apart, record, host, was_here, is_own)
            done = bounded(work, f"the repair of session {record.name}", SECONDS)
            self.result.add(decode(Repaired, done, f"The repair of session {record.name}"))
        except Exception as error:  # whatever the error is, even a hang, other sessions must not be affected
            self.result.sessions[record.id] = RepairedSession(record.name, problem=message_of(error))

    def _apart(self, record: Record, host: str | None, was_here: bool, is_own: bool) -> object:
        """Repair a session in a separate process. Return the plain form of what was done."""
        one, problem = copy(self), ""
        one.result = Repaired()
        try:
            with nullcontext() if self.check_mode else self.state.working_on(record.id):
                one._repair(record, host or self.state.session(record.id).name_in(record), was_here, is_own)
        except Exception as error:  # also an unexpected error, or a lack of memory
            problem = message_of(error)
        if one.result.actions or problem:
            one.result.sessions[record.id] = RepairedSession(record.name, tuple(one.result.actions), problem)
        return encode(one.result)

    def _repair(self, record: Record, host: str | None, was_here: bool, is_own: bool) -> None:
        if was_here:
            here = self.state.session(record.id).read_record()
            if here is None or here.revision > record.revision:
                return  # it was torn down just now, or has ended
        if self.ledger.was_removed(record.id, record.id, self.request.looked, None):
            return  # its replicas leave this host just now
        own_membership = self.memberships.get(record.id)
        if own_membership is not None and own_membership.is_gone:
            self._give_up(record, own_membership)
        elif record.status == RUNNING and not is_stub(record) and host is not None and host in record.hosts:
            if not is_own:
                self._refuse_more_than_granted(record, host)
            if own_membership is not None and own_membership.status == UNKNOWN:
                self._hold_back(record, host, own_membership)
            else:
                self._converge(record, host)
        elif record.status == RUNNING:
            stub = stub_of(record)
            self._keep(stub)
            self._keep_out(stub)
        else:
            self._keep(record)

    def _refuse_more_than_granted(self, record: Record, host: str) -> None:
        """Reject a plan without a copy on this host if it uses more than the site allows."""
        if self.evaluate is None:
            raise SessionError(
                "This host has lost its record. A label has one, but nothing is made from that before it was compared "
                "with what the site grants. Run the repair playbook."
            )
        self.evaluate(record, host)

    def _give_up(self, record: Record, own_membership: Membership) -> None:
        """Remove this host's part of a session and its record, as other hosts have its replicas and newer data."""
        from .removal import Terms, removal_stages, remove

        says = ", ".join(sorted(host for host, answer in own_membership.answers.items() if not answer))
        self.result.actions.append(f"give up session {record.name}: {says} had its replicas here started elsewhere")
        archive = self._archive()
        known, terms = [record.id], Terms(archive=archive)
        stages = removal_stages(self.engine, self.state, self.ledger, None, record.id, known, terms)
        if self.check_mode:
            self._note(stages)
        else:
            gone, warnings = remove(stages)
            self._note(gone)
            self.result.warnings += warnings
            archive.finish([KnownSession(record.id, record.name, (), record.owner, record.shared_with)])
            self.result.faults += archive.problems

    def _hold_back(self, record: Record, host: str, own_membership: Membership) -> None:
        """Make this host reachable for other hosts, so that they can exchange data. Start nothing. Raises HeldBack."""
        context = Context(self.engine, self.state, self.ledger, record, host, "", Upkeep(self.request.allocatable))
        known = self.state.session(record.id).read_public_keys()
        self._perform(links.early_stages(context, known, self.engine.uses_nftables()))
        running = {
            entry.replica for entry in self.engine.session_containers({LABEL_SESSION_ID: record.id}) if entry.runs
        }
        waiting = [replica.name for replica in context.replicas if replica.name not in running]
        if waiting:
            self.result.held_back.append(record.id)
            yes = sum(own_membership.answers.values())
            raise HeldBack(
                f"{', '.join(waiting)} may run elsewhere by now, so this host does not start them: that it still "
                f"carries them say {yes} of the session's {len(own_membership.others)} other hosts, that it does not "
                f"{len(own_membership.answers) - yes}. It goes on asking; the playbook repair starts them."
            )

    def _keep_out(self, stub: Record) -> None:
        """Keep containers of this host, which carries no replica of the session, out of its tunnel."""
        self._perform([firewall_rules.keep_out_steps(stub, self.engine.uses_nftables())])

    def _keep(self, record: Record) -> None:
        for action in keep_records(self.state, [record], self.check_mode):
            self._did(action, "record", record.name, None, record.revision)

    def _converge(self, record: Record, host: str) -> None:
        require_known(record)
        session, plan = self.state.session(record.id), read_plan(record.plan)
        if record.id in self.decided and session.is_undecided:
            self._note_agreement(record, session)
        own: PublicKeys = {}
        if has_ssh(plan):
            own, made = make_keys(session, plan, host, False, self.check_mode)
            for name in made:
                self._did(f"create key {name}", "key", name, None, "made")
        keys: PublicKeys = {**session.read_public_keys(), **self.request.public_keys.get(record.id, {}), **own}
        self.result.public_keys[record.id] = own
        archive = None if record.change is None else self._archive()
        waits = record.id in self.request.waiting
        if waits and not self.check_mode:
            _expect_arrivals(record, plan.hosts[host].replicas, session)
        upkeep = Upkeep(self.request.allocatable, archive=archive, awaits_others=waits)
        context = Context(self.engine, self.state, self.ledger, record, host, "", upkeep)
        self._perform(session_stages(context, keys))
        if archive is not None:
            archive.note(record)

    def _note_agreement(self, record: Record, session: SessionDirectory) -> None:
        """Note what the run was to confirm that was killed. From now on, released hosts are informed."""
        if not self.check_mode:
            session.note_undecided(False)
        what = f"note that most witnesses agreed to what session {record.name} is without"
        self._did(what, "witnesses", record.name, "undecided", "agreed")

    def _archive(self) -> LogArchive:
        """Return the archive for the output of replicas that a change has removed from this host."""
        from .output import own_archive

        return own_archive(self.engine, self.state)

    def _perform(self, stages: Sequence[Stage]) -> None:
        if not self.check_mode:
            perform(stages, undo=False)
        self._note(stages)

    def _note(self, stages: Sequence[Stage]) -> None:
        diff = difference(stages)
        self.result.actions += descriptions(stages)
        self.result.before.update(diff["before"])
        self.result.after.update(diff["after"])

    def _did(self, action: str, kind: str, name: str, before: object, after: object) -> None:
        self.result.actions.append(action)
        self.result.before[f"{kind} {name}"] = before
        self.result.after[f"{kind} {name}"] = after

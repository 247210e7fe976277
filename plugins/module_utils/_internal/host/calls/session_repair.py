# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Restore missing parts of the sessions of this host."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ...adapters.state import StateDirectory
from ...core.model.call.base import States
from ...core.model.call.session_repair import Repair, RepairAnswer
from ...core.model.record import InvalidRecord, Record
from ..repair import repair_host


def shown_by_roots(roots: Iterable[str], used: Collection[str], private: Mapping[str, str]) -> dict[str, str]:
    """Return private paths that a mount root would show to sessions, by root; see `rules.data.exposed`.

    used: the only ones to check, because another one may be on a file server that is gone. Raises Hung for one of them.
    """
    from ...core.rules.data import exposed
    from ..facts import bounded_path_facts

    return {root: exposed(bounded_path_facts(root).real, private) if root in used else "" for root in roots}


def call(request: Repair, check_mode: bool) -> RepairAnswer:
    """Return what was, or would be, restored. Failed, with all that was done, if a session could not be repaired."""
    state = StateDirectory(request.state_directory)
    allocatable = request.allocatable
    for key, record in request.records.items():
        if record.id != key:
            raise InvalidRecord(f"The record is that of session {record.id}, found at the place of session {key}.")

    def evaluate(record: Record, host: str) -> None:
        # The rules for plans take long to import, and a host that has its own records does not need them.
        from ...core.rules.check import validate_plan
        from ...core.rules.data import for_owner
        from ...core.rules.grants import check_plan
        from ..facts import private_places

        used = validate_plan(record.plan).hosts[host].mount_roots
        granted = for_owner(request.mount_roots, record.owner)
        roots = shown_by_roots(granted, used, private_places(state))
        devices = allocatable.devices if allocatable else ()
        check_plan(record.plan, host, roots, request.volume_drivers, devices)

    done = repair_host(state, request, evaluate=evaluate, check_mode=check_mode)
    return RepairAnswer(
        changed=bool(done.actions),
        failed=bool(done.problems),
        msg="\n".join(done.problems),
        actions=tuple(done.actions),
        sessions=done.sessions,
        faults=tuple(done.faults),
        warnings=tuple(done.warnings),
        public_keys=done.public_keys,
        diff={"before": done.before, "after": done.after},
    )


STATES: States = {Repair: call}

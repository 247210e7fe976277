# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Judge, on the controller, what the hosts of a resource group say together."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import CoreError
from ansible_collections.cluster_compute.session.plugins.module_utils.core.group import GroupFacts, chores, has_chores
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.record import is_note, note_of
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.capacity import (
    hosts_from_facts,
    room_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.show.overview import findings
from ansible_collections.cluster_compute.session.plugins.module_utils.core.survey import Survey


class ActionModule(ActionBase):
    """The action behind the module session_survey."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what nobody owns, and what each host has to know of its sessions."""
        super().run(tmp, task_vars)
        task_vars = task_vars or {}
        _result, arguments = self.validate_argument_spec(
            {"hosts": {"type": "dict", "required": True}, "leaks": {"type": "bool", "default": False}}
        )
        try:
            group = GroupFacts.read(arguments["hosts"], task_vars["hostvars"])
            view = group.survey()
            view.check_names()
            rooms = {host.name: room_of(host).to_dict() for host in hosts_from_facts(group.facts, group.inventory)}
        except CoreError as error:
            return {"failed": True, "msg": f"The hosts cannot be judged.\n{error}"}
        removals = {host: list(some) for host, some in view.abandoned.items()}
        if arguments["leaks"]:
            for host, some in view.leaks.items():
                removals.setdefault(host, []).extend(some)
        work = chores(group, view, removals)
        return {
            "changed": False,
            "chores": work,
            "tidy": not has_chores(work),
            "missing": [f"{host}: {group.why_missing[host]}" for host in group.missing],
            "records": {host: _records_for(host, view) for host in group.facts},
            "rooms": rooms,
            "public_keys": _public_keys(group),
            "findings": findings(group.facts, {name: group.why_missing[name] for name in group.missing}, view),
        }


def _records_for(host: str, view: Survey) -> dict[str, Any]:
    """Return what a host has to know: the whole of its own sessions and of those that wait, notes of the others."""
    return {
        key: record if is_note(record) or host in record["hosts"] or record["plan"] is None else note_of(record)
        for key, record in sorted(view.records.items())
    }


def _public_keys(group: GroupFacts) -> dict[str, dict[str, Any]]:
    """Return the public halves of each session's keys: a host is right about its own replicas."""
    found: dict[str, dict[str, Any]] = {}
    for facts in group.facts.values():
        for session_id, keys in facts["public_keys"].items():
            found.setdefault(session_id, {}).update(keys)
    for host, facts in group.facts.items():
        whole = [record for record in facts["records"] if record["plan"] is not None]
        for record in whole:
            own = {one["name"] for one in record["plan"]["replicas"] if one["host"] == host}
            keys = facts["public_keys"].get(record["id"], {})
            found.setdefault(record["id"], {}).update({name: keys[name] for name in own if name in keys})
    return found

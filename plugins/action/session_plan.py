# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Compute the plan of a session on the controller."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.state import RUNNING
from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import (
    CoreError,
    InvalidInput,
    Problem,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.ledger import claims_of
from ansible_collections.cluster_compute.session.plugins.module_utils.core.placement import (
    Host,
    Placement,
    Shortfall,
    place,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.plan import (
    HOST_VARIABLES,
    Settings,
    build_plan,
    check_request_against_hosts,
    hosts_from_facts,
    render_shortfall,
    room_of,
    validate_plan,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.request import (
    Request,
    diff_requests,
    given,
    parse_bool,
)
from ansible_collections.cluster_compute.session.plugins.plugin_utils.request_variables import (
    launchable_request,
    session_variables,
)


class ActionModule(ActionBase):
    """The action behind the module session_plan."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the plan, or why there is none yet; fail with everything that is wrong."""
        super().run(tmp, task_vars)
        task_vars = task_vars or {}
        _result, arguments = self.validate_argument_spec({"hosts": {"type": "dict", "required": True}})
        hostvars = task_vars["hostvars"]
        own = hostvars[task_vars["inventory_hostname"]]
        reached = {name: result for name, result in arguments["hosts"].items() if not result.get("unreachable")}
        left_out = [name for name in arguments["hosts"] if name not in reached]
        try:
            variables = session_variables(own)
            request = launchable_request(variables)
            planner = _Planner(
                request=request,
                recreate=_recreate(variables),
                facts=_usable_facts(request, reached, left_out),
                known_hosts=list(arguments["hosts"]),
                inventory={name: _pick(hostvars[name], HOST_VARIABLES) for name in reached},
                settings=Settings.from_variables(_pick(own, _SITE_VARIABLES)),
            )
            result = planner.run()
        except CoreError as error:
            return {"failed": True, "msg": f"The session cannot be launched.\n{error}"}
        result["warnings"] = _warnings(result, planner.facts, left_out)
        return result


_SITE_VARIABLES = (
    "cluster_compute_subnet_pool",
    "cluster_compute_vni_pool",
    "cluster_compute_vxlan_port",
    "cluster_compute_topology_keys",
)


def _pick(variables: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: variables[name] for name in names if name in variables}


def _recreate(variables: Mapping[str, Any]) -> bool:
    value = variables.get("session_recreate")
    return given(value) and parse_bool("session_recreate", value)


def _usable_facts(request: Request, reached: Mapping[str, Any], left_out: list[str]) -> dict[str, dict[str, Any]]:
    """Return the facts of the reached hosts. Raises InvalidInput for a host that cannot run sessions, or for none.

    A host that the request does not allow may be as it likes.
    """
    if not reached:
        raise InvalidInput.single("session_resource_group", ", ".join(left_out), "None of its hosts can be reached.")
    problems = []
    for name, result in reached.items():
        host = result.get("host") or {}
        if not host.get("usable"):
            if name in request.excluded_hosts or (request.hosts and name not in request.hosts):
                continue
            why = host.get("problem") or result.get("msg") or "It did not answer."
            problems.append(Problem(f"host {name}", "not usable", f"{why} Or take it out of the resource group."))
    if problems:
        raise InvalidInput(problems)
    return {name: result["host"] for name, result in reached.items() if (result.get("host") or {}).get("usable")}


def _warnings(result: Mapping[str, Any], facts: Mapping[str, Any], left_out: list[str]) -> list[str]:
    warnings = []
    if left_out:
        warnings.append(f"Hosts that could not be reached are left out: {', '.join(left_out)}.")
    swapping = [name for name in result.get("hosts") or () if not facts[name]["engine"]["limits_swap"]]
    if swapping:
        warnings.append(
            f"The kernel of {', '.join(swapping)} does not account for swap (on Debian and Ubuntu: boot with "
            "swapaccount=1), so replicas there can swap beyond session_memory."
        )
    return warnings


class _Planner:
    """One launch: everything that is known about it, and the decision."""

    def __init__(
        self,
        request: Request,
        recreate: bool,
        facts: dict[str, dict[str, Any]],
        known_hosts: list[str],
        inventory: dict[str, dict[str, Any]],
        settings: Settings,
    ) -> None:
        self.request = request
        self.recreate = recreate
        self.facts = facts
        self.known_hosts = known_hosts
        self.inventory = inventory
        self.settings = settings

    def run(self) -> dict[str, Any]:
        """Return the result of the action."""
        current = self._recorded_plan()
        if current is None:
            return self._new_plan(None)
        changes = diff_requests(Request.from_dict(current["request"]), self.request)
        if not changes:
            return self._kept_plan(current)
        if not self.recreate:
            lines = [f"{field}: {old} -> {new}" for field, old, new in changes]
            return {
                "failed": True,
                "msg": f"The session {self.request.name} exists and was asked for differently:\n"
                + "\n".join(lines)
                + "\nNothing is touched. Launch with session_recreate=true to remove it and launch it anew, or tear it "
                "down first.",
                "diff": _difference(changes),
            }
        return {**self._new_plan(current), "diff": _difference(changes)}

    def _recorded_plan(self) -> dict[str, Any] | None:
        records = [
            (name, record)
            for name, facts in self.facts.items()
            for record in facts["records"]
            if record["status"] == RUNNING
        ]
        owners = {str(record["plan"]["session"]["id"]): name for name, record in records}
        if len(owners) > 1:
            raise InvalidInput.single(
                "session_name",
                self.request.name,
                "Hosts have records of different sessions of this name: "
                + ", ".join(f"{owner} has {session_id}" for session_id, owner in sorted(owners.items()))
                + ". Tear the name down with the teardown_cluster playbook and launch it again.",
            )
        if records:
            plan: dict[str, Any] = records[0][1]["plan"]
            validate_plan(plan)
            return plan
        for name, facts in self.facts.items():
            if any(container["session_name"] == self.request.name for container in facts["containers"]):
                raise InvalidInput.single(
                    "session_name",
                    self.request.name,
                    f"Host {name} has containers of a session of this name, but no host has its record. Tear it down "
                    "with the teardown_cluster playbook and launch it again.",
                )
        return None

    def _kept_plan(self, plan: dict[str, Any]) -> dict[str, Any]:
        self._refuse_lost_hosts(plan)
        return self._result(plan, fresh=False, replaces=False)

    def _refuse_lost_hosts(self, plan: dict[str, Any]) -> None:
        lost = [name for name in plan["hosts"] if name not in self.facts]
        if lost:
            raise InvalidInput.single(
                "session_name",
                self.request.name,
                f"The session has replicas on {', '.join(lost)}, which cannot be reached or left the resource group. "
                "Bring them back, or tear the session down.",
            )

    def _new_plan(self, current: dict[str, Any] | None) -> dict[str, Any]:
        if current is not None:
            self._refuse_lost_hosts(current)
        check_request_against_hosts(self.request, self.facts, current=current)
        placement = self._place(with_undecided=True)
        if isinstance(placement, Shortfall):
            # What only undecided sessions hold may be free in a moment: their launches end, one way or the other.
            undecided = isinstance(self._place(with_undecided=False), Placement)
            waiting = f"Session {self.request.name} waits for sessions that are being launched."
            pending = [f"Session {self.request.name} is PENDING.", *render_shortfall(placement)]
            return {
                "changed": False,
                "status": "WAITING" if undecided else "PENDING",
                "session_name": self.request.name,
                "fresh": True,
                "replaces": False,
                "hosts": [],
                "fetches": [],
                "claims": {},
                "plan": None,
                "report": [waiting] if undecided else pending,
            }
        check_request_against_hosts(self.request, self.facts, placement, current)
        plan = build_plan(self.request, placement, str(uuid.uuid4()), self.facts, self.settings)
        return self._result(plan, fresh=True, replaces=current is not None)

    def _hosts(self, with_undecided: bool) -> list[Host]:
        return hosts_from_facts(self.facts, self.inventory, self.request.name, with_undecided)

    def _place(self, with_undecided: bool) -> Placement | Shortfall:
        return place(self.request, self._hosts(with_undecided), self.settings.topology_keys, self.known_hosts)

    def _result(self, plan: dict[str, Any], fresh: bool, replaces: bool) -> dict[str, Any]:
        session = plan["session"]
        rooms = {host.name: room_of(host) for host in self._hosts(with_undecided=True)}
        return {
            "changed": False,
            "status": "SCHEDULED",
            "session_name": session["name"],
            "fresh": fresh,
            "replaces": replaces,
            "hosts": list(plan["hosts"]),
            "fetches": [
                host
                for host in plan["hosts"]
                if any(
                    one["host"] == host and self.facts[host]["images"][one["image"]] is None for one in plan["replicas"]
                )
            ],
            "claims": {
                name: {"claim": claim.to_dict(), "room": rooms[name].to_dict()}
                for name, claim in claims_of(plan).items()
            },
            "plan": plan,
            "report": [
                f"Session {session['name']} ({session['id']}): {session['size']} replicas, {session['mode']}, "
                f"on {', '.join(plan['hosts'])}."
            ],
        }


def _difference(changes: list[tuple[str, str, str]]) -> dict[str, str]:
    return {
        "before": "".join(f"{field}: {old}\n" for field, old, _new in changes),
        "after": "".join(f"{field}: {new}\n" for field, _old, new in changes),
    }

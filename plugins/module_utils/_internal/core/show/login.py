# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Find what the owner's SSH client has to know of a session in what the hosts of its resource group reported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..cluster.group import GroupFacts
from ..model.plan import Plan, Replica
from ..model.record import ENDED, RUNNING, Record, group_of
from ..rules.access import Asker
from ..rules.check import validate_plan
from ..values.deferred import dataclass
from ..values.errors import InvalidInput
from ..values.parse import is_given
from .client_configuration import check_login


@dataclass(frozen=True)
class Login:
    """A session that can be logged in to. public_keys, users: of its replicas by name, as far as hosts tell."""

    plan: Plan
    public_keys: Mapping[str, Mapping[str, str | None]]
    users: dict[str, str]


def find_login(group: GroupFacts, name: str, resource_group: str, asker: Asker) -> Login:
    """Return what is known of the session of this name. asker: who wants to log in.

    Raises InvalidInput where that cannot be: it does not run, it is somebody else's, its main1 is out of reach.
    """
    named = group.cluster_state().named(name)
    # Groups that share hosts may have a name both.
    own = [record for record in named if group_of(record) == resource_group]
    record = check_login(_meant(own) or _meant(named), name, resource_group, asker)
    plan = validate_plan(record.plan)
    _check_main(group, plan.replicas[0])
    users: dict[str, str] = {}
    for facts in group.facts.values():
        users.update(facts.users.get(record.id, {}))
    return Login(plan, group.public_keys(record), users)


def login_address(variables: Mapping[str, Any], host: str) -> str:
    """Return where users reach a host: what the site says, else where Ansible does. variables: of the host."""
    for name in ("cluster_compute_login_address", "ansible_host"):
        if is_given(variables.get(name)):
            return str(variables[name]).strip()
    return host


def _meant(found: list[Record]) -> Record | None:
    """Return which of the sessions of one name is meant; one that has ended only where there is no other."""
    order = (lambda copy: copy.status == RUNNING, lambda copy: copy.status not in ENDED, lambda _copy: True)
    return next((copy for is_meant in order for copy in found if is_meant(copy)), None)


def _check_main(group: GroupFacts, main: Replica) -> None:
    """Refuse a session whose main1 is out of reach or does not run. Raises InvalidInput."""
    host = main.host
    if host not in group.facts:
        why = group.why_missing.get(host, "It left the resource group.")
        raise InvalidInput.single(f"host {host}", "missing", f"It runs main1, where the owner logs in. {why}")
    states = [container.state for container in group.facts[host].containers if container.name == main.container]
    if states != ["running"]:
        raise InvalidInput.single(
            f"container {main.container}", (states or ["missing"])[0], "It does not run. Run the repair playbook."
        )

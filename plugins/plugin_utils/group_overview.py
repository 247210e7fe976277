# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The overview of a resource group from registered results of host_info."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..module_utils._internal.core.cluster.group import SITE_VARIABLES, GroupFacts, pick, waiting_of
from ..module_utils._internal.core.model.answers import FactsAnswer, read_answers
from ..module_utils._internal.core.rules.access import Asker
from ..module_utils._internal.core.rules.capacity import hosts_from_facts
from ..module_utils._internal.core.rules.placement import Host
from ..module_utils._internal.core.rules.queue import schedule_queue
from ..module_utils._internal.core.rules.scope import Scope
from ..module_utils._internal.core.rules.site import Settings
from ..module_utils._internal.core.show.overview import Overview, overview
from ..module_utils._internal.core.values.errors import InvalidInput


def read_overview(
    resource_group: str,
    results: Mapping[str, Any],
    hostvars: Mapping[str, Any],
    own: Mapping[str, Any],
    groups: Mapping[str, Sequence[str]],
    asker: Asker,
) -> Overview:
    """Return the overview of a resource group.

    results: registered results of host_info with whole records, by host in inventory order. hostvars: Ansible's. own:
    variables of the host of the action, for settings of the whole group. groups: of the inventory. asker: the user to
    whom it is shown. Raises InvalidInput if no host can be reached, or if the inventory's variables for the group are
    not valid.
    """
    scope = Scope(resource_group, groups)
    group = GroupFacts.read(read_answers(FactsAnswer, results), hostvars, scope=scope)
    settings = Settings.from_variables(pick(own, SITE_VARIABLES))
    cluster = group.cluster_state()
    shares = group.shares(settings.fair_share)
    waiting, problems = waiting_of(group.pending(cluster), shares, group.facts)
    hosts: list[Host] = []
    for name, facts in group.facts.items():
        try:
            hosts += hosts_from_facts({name: facts}, group.inventory)
        except InvalidInput:  # the overview reports this for the host
            continue
    entries = schedule_queue(waiting, hosts, settings.topology_keys, group.known)
    found = overview(resource_group, group, cluster, entries, shares, asker)
    return replace(found, findings=[*found.findings, *problems])

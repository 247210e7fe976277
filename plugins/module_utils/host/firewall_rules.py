# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Have the host's firewall keep everybody out of a session who is not of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils.adapters import firewall, link
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.record import RUNNING, Record
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules import isolation
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.isolation import Isolation, Rules
from ansible_collections.cluster_compute.session.plugins.module_utils.host.steps import Stage, Step

ENGINE_SETTINGS = Path("/etc/docker/daemon.json")
"""Where an engine is told what to write its rules with (dockerd(8), --config-file)."""


def isolation_of_stub(record: Record) -> Isolation | None:
    """Return what the rules of a host without replicas of a running session keep apart; None where there is nothing."""
    if record["status"] != RUNNING or record["tunnel"] is None:
        return None
    tunnel = record["tunnel"]
    interface = link.interface_to(tunnel["endpoints"][0])
    return Isolation(record["id"], record["name"], isolation.read_tunnel(tunnel, interface))


def will_use_nftables() -> bool:
    """Tell from its settings what an engine that does not run yet will write its rules with."""
    try:
        settings = json.loads(ENGINE_SETTINGS.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(settings, Mapping) and settings.get("firewall-backend") == "nftables"


def rule_steps(wanted: Isolation, nftables: bool) -> Stage:
    """Return what is missing of a session's rules: one step or none. nftables: whether the engine uses that."""
    session_id, name = wanted.session_id, wanted.session_name
    forms = _nft_forms(wanted) if nftables else _iptables_forms(wanted)
    different = {form: rules for form, (rules, found) in forms.items() if found != firewall.digests(rules)}
    if not different:
        return []

    def put() -> None:
        for form, rules in different.items():
            if form == firewall.NFT:
                firewall.nft_put(isolation.table_name(session_id, name), rules)
            else:
                # They are read again: a launch beside this one may have changed them meanwhile.
                firewall.put(form, session_id, name, rules)

    is_new = not any(found for _rules, found in forms.values())
    return [
        Step(
            "create" if is_new else "update",
            "firewall rules",
            name,
            put,
            (lambda: firewall.remove(session_id)) if is_new else None,
            before=None if is_new else {form: _shown(*forms[form]) for form in different},
            after=different,
        )
    ]


def _iptables_forms(wanted: Isolation) -> dict[str, tuple[Rules, firewall.Found]]:
    forms = {firewall.IPTABLES: isolation.iptables_rules(wanted)}
    # A host whose kernel has no IPv6 has nothing to drop.
    if firewall.IP6TABLES in firewall.kinds() or (wanted.tunnel is not None and wanted.tunnel.is_ipv6):
        forms[firewall.IP6TABLES] = isolation.iptables_rules(wanted, ipv6=True)
    return {form: (rules, firewall.Iptables(form).found(wanted.session_id)) for form, rules in forms.items()}


def _nft_forms(wanted: Isolation) -> dict[str, tuple[Rules, firewall.Found]]:
    table = isolation.table_name(wanted.session_id, wanted.session_name)
    known = firewall.nft_sessions().get(wanted.session_id)
    found = firewall.nft_found(table) if known is not None and known[1] == table else {}
    return {firewall.NFT: (isolation.nft_rules(wanted), found)}


def _shown(rules: Rules, found: firewall.Found) -> Any:
    """Return the rules that were found, in words; of those of others only that there are some."""
    known = {isolation.digest(rule): rule for some in rules.values() for rule in some}
    return {chain: [known.get(digest, "another rule") for digest in some] for chain, some in found.items()}


def removal_steps(sessions: Mapping[str, str]) -> Stage:
    """Return the steps that remove the rules of *sessions*, id to name."""

    def remove() -> None:
        # One after the other: each reads what the one before has changed.
        for session_id in sorted(sessions):
            firewall.remove(session_id)

    names = ", ".join(sorted(set(sessions.values())))
    return [Step("remove", "firewall rules", names, remove, before="present")] if sessions else []

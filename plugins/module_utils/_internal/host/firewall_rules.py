# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Firewall rules that keep all other containers out of a session."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ..adapters import firewall, link, machine
from ..adapters.firewall import Iptables
from ..adapters.state import write_file
from ..core.model.decode import Malformed, decode_known, encode
from ..core.model.overlays import Overlays
from ..core.model.plan import Plan, read_plan
from ..core.model.record import RUNNING, OverlayTunnel, Record, tunnel_of
from ..core.rules import isolation
from ..core.rules.isolation import Isolation, Rules
from . import engine_settings
from .steps import Stage, Step

OVERLAYS = Path("/usr/local/lib/cluster-compute/overlays.json")
"""The overlays out of which containers are kept. Part of the host's preparation, because it has only one firewall."""


def isolation_of_stub(record: Record) -> Isolation | None:
    """Return the isolation of a running session on a host without its replicas.

    None if there is nothing to isolate, or the rules for all overlays of the site do it.
    """
    if record.status != RUNNING or record.tunnel is None:
        return None
    overlays = read_overlays()
    if overlays is not None and overlays.cover(record.tunnel):
        return None
    tunnel = record.tunnel
    interfaces = link.arrivals(None, tunnel.endpoints)
    return Isolation(record.id, record.name, isolation.tunnel_on_host(tunnel, interfaces))


def isolation_here(
    plan: Plan, overlay: OverlayTunnel | None, host: str, *, gave_up: bool = False, is_undecided: bool = False
) -> Isolation:
    """Return the isolation of a session on this *host*, which carries replicas of it.

    The rules follow the current routes of packets. overlay: the result of `tunnel_of` for the plan. gave_up: whether
    the host's part could not be started. is_undecided: as in `isolation.isolation_of`.
    """
    local = plan.hosts[host].underlay_address
    peers = [other.underlay_address for name, other in plan.hosts.items() if name != host and other.underlay_address]
    has_peers = plan.network is not None and plan.network.vni is not None and local is not None
    interfaces = link.arrivals(local, peers) if has_peers else ()
    connections = isolation.connections_of(machine.integer("net.netfilter.nf_conntrack_max"))
    return isolation.isolation_of(
        plan,
        host,
        overlay,
        gave_up=gave_up,
        is_undecided=is_undecided,
        interfaces=interfaces,
        connections=connections,
    )


def will_use_nftables() -> bool:
    """Return from its settings with which firewall tool an engine that does not run yet will write its rules."""
    return engine_settings.read(engine_settings.FILE).get("firewall-backend") == "nftables"


def keep_out_steps(stub: Record, nftables: bool) -> Stage:
    """Return the missing rules that keep containers of a host without replicas out of a session's tunnel.

    They come after `standing_steps`, which do this for all sessions at once if the host is prepared for them.
    """
    wanted = isolation_of_stub(stub)
    return [] if wanted is None else rule_steps(wanted, nftables)


def rule_steps(wanted: Isolation, nftables: bool) -> Stage:
    """Return the step for missing rules of a session, if any. nftables: whether the engine uses it."""
    return _rule_steps(wanted.session_id, wanted.session_name, _forms(wanted, nftables))


def give_up_steps(record: Record, host: str, nftables: bool) -> Stage:
    """Return the steps that inform the session's other hosts that it could not be started here, until its removal.

    All other rules stay, because parts of it may run.
    """
    wanted = isolation_here(read_plan(record.plan), tunnel_of(record.plan), host, gave_up=True)
    return rule_steps(wanted, nftables) if wanted.doors else []


def read_overlays() -> Overlays | None:
    """Return the overlays out of which containers of this host are kept. None if its preparation set none."""
    try:
        return decode_known(Overlays, json.loads(OVERLAYS.read_text(encoding="utf-8")), "The file")
    except (FileNotFoundError, ValueError, Malformed):
        return None  # the host's preparation writes it again


def overlay_stages(overlays: Overlays | None, nftables: bool) -> list[Stage]:
    """Return the steps that set, also for later boots, out of which overlays containers are kept. None means none.

    The rules are added before the file and removed after it, so that the file is never wrong. Leftovers of a run that
    was stopped between the two are also removed.
    """
    before = read_overlays()
    old = encode(before)
    if overlays is None:
        forget = Step("remove", "file", str(OVERLAYS), OVERLAYS.unlink, before=old)
        has_rules = isolation.STANDING[0] in firewall.owners()
        return [
            [forget] if OVERLAYS.exists() else [],
            removal_steps(dict([isolation.STANDING])) if has_rules else [],
        ]
    text = json.dumps(encode(overlays), sort_keys=True) + "\n"
    write = Step(
        "create" if before is None else "update",
        "file",
        str(OVERLAYS),
        partial(write_file, OVERLAYS, text),
        before=old,
        after=encode(overlays),
    )
    rules = _rule_steps(*isolation.STANDING, _standing_forms(overlays, nftables))
    return [rules, [] if overlays == before else [write]]


def standing_steps(nftables: bool) -> Stage:
    """Return the missing rules that keep containers of this host out of all overlays of the site.

    They do not belong to a session, and stay whatever the outcome of the call that restores them.
    """
    overlays = read_overlays()
    if overlays is None:
        return []
    return [replace(step, undo=None) for step in _rule_steps(*isolation.STANDING, _standing_forms(overlays, nftables))]


def overlays_in_force(nftables: bool, tables: Mapping[str, Iptables]) -> Overlays | None:
    """Return the overlays out of which containers of this host are kept. tables: the current ones of the firewall."""
    overlays = read_overlays()
    if overlays is None:
        return None
    found = _found(*isolation.STANDING, _standing_forms(overlays, nftables), tables)
    return None if _different(found) else overlays


def _standing_forms(overlays: Overlays, nftables: bool) -> dict[str, Rules]:
    if nftables:
        return {firewall.NFT: isolation.standing_nft_rules(overlays)}
    kinds = firewall.kinds()
    return {kind: isolation.standing_iptables_rules(overlays, kind == firewall.IP6TABLES) for kind in kinds}


def _rule_steps(session_id: str, name: str, wanted: Mapping[str, Rules]) -> Stage:
    forms = _found(session_id, name, wanted)
    different = _different(forms)
    if not different:
        return []

    def put() -> None:
        for form, rules in different.items():
            if form == firewall.NFT:
                firewall.nft_put(isolation.table_name(session_id, name), rules)
            else:
                # They are read again, because a concurrent launch may have changed them.
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


def _forms(wanted: Isolation, nftables: bool) -> dict[str, Rules]:
    if nftables:
        return {firewall.NFT: isolation.nft_rules(wanted)}
    forms = {firewall.IPTABLES: isolation.iptables_rules(wanted)}
    # A host without IPv6 in its kernel has nothing to drop.
    if firewall.IP6TABLES in firewall.kinds() or (wanted.tunnel is not None and wanted.tunnel.is_ipv6):
        forms[firewall.IP6TABLES] = isolation.iptables_rules(wanted, ipv6=True)
    return forms


_Forms = dict[str, tuple[Rules, firewall.Found]]
"""The wanted and the current rules, by form."""


def _found(
    session_id: str, name: str, wanted: Mapping[str, Rules], tables: Mapping[str, Iptables] | None = None
) -> _Forms:
    found: _Forms = {}
    for form, rules in wanted.items():
        if form == firewall.NFT:
            table = isolation.table_name(session_id, name)
            known = firewall.nft_owners().get(session_id)
            found[form] = rules, firewall.nft_found(table) if known is not None and known[1] == table else {}
        else:
            found[form] = rules, ((tables or {}).get(form) or Iptables(form)).found(session_id)
    return found


def _different(forms: _Forms) -> dict[str, Rules]:
    return {form: rules for form, (rules, found) in forms.items() if found != firewall.digests(rules)}


def _shown(rules: Rules, found: firewall.Found) -> Any:
    """Return the rules that were found as text. Rules of others are only mentioned."""
    known = {isolation.digest(rule): rule for chain_rules in rules.values() for rule in chain_rules}
    return {chain: [known.get(digest, "another rule") for digest in digests] for chain, digests in found.items()}


def removal_steps(sessions: Mapping[str, str]) -> Stage:
    """Return the steps that remove the rules of *sessions*, id to name."""

    def remove() -> None:
        # One after the other, because each reads what the one before has changed.
        for session_id in sorted(sessions):
            firewall.remove(session_id)

    names = ", ".join(sorted(set(sessions.values())))
    return [Step("remove", "firewall rules", names, remove, before="present")] if sessions else []

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Open the ports of sessions in a firewall that drops what it does not know, ufw or firewalld."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from ..adapters import firewall
from ..adapters.state import write_file
from ..core.preflight import opening
from .steps import Stage, Step

OPENED = Path("/usr/local/lib/cluster-compute/opened.json")
"""The rules that were added here, each after its manager. Others are the site's, and are never removed."""

Rules = list[tuple[str, str]]


def stages(peers: Iterable[str], ports: Sequence[str]) -> list[Stage]:
    """Return the steps that open *ports* for *peers*, and close for others what an earlier run has opened for them.

    The file is written before rules are added, and after they are removed. Raises InvalidInput and FirewallError.
    """
    manager = firewall.manager()
    wanted: Rules = [(manager, rule) for rule in opening.rules(manager, peers, ports)]
    own = _read()
    there = {name: firewall.open_rules(name) for name in dict([*own, *wanted])}
    missing = [(name, rule) for name, rule in wanted if rule not in there[name][0]]
    surplus = [entry for entry in own if entry not in wanted]
    closed = [(name, rule) for name, rule in surplus if rule in there[name][1]]
    added = [*own, *(entry for entry in missing if entry not in own)]
    kept = [entry for entry in added if entry not in surplus]
    return [
        [] if added == own else [_write(own, added)],
        [_change("open", missing)] if missing else [],
        [_change("close", closed)] if closed else [],
        [] if kept == added else [_write(added, kept)],
    ]


def _read() -> Rules:
    try:
        return [(str(name), str(rule)) for name, rule in json.loads(OPENED.read_text(encoding="utf-8"))]
    except (FileNotFoundError, ValueError, TypeError):
        return []


def _write(before: Rules, after: Rules) -> Step:
    """Return the step that notes which rules are ours."""
    if not after:
        return Step("remove", "file", str(OPENED), partial(OPENED.unlink, missing_ok=True), before=before)
    action = "update" if before else "create"
    return Step(action, "file", str(OPENED), partial(write_file, OPENED, json.dumps(after) + "\n"), None, before, after)


def _change(action: str, rules: Rules) -> Step:
    """Return the step that adds or removes rules, one after the other."""

    def change(opens: bool) -> None:
        for name, rule in rules:
            firewall.change_rule(name, rule, opens)

    does = action == "open"
    shown = [rule for _name, rule in rules]
    before, after = (None, shown) if does else (shown, None)
    return Step(action, "ports", f"in {rules[0][0]}", partial(change, does), partial(change, not does), before, after)

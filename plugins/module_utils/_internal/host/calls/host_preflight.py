# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Run this host's part of preflight."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from ...core.model.call.base import Answer, Call, States
from ...core.model.call.host_preflight import (
    EndedAnswer,
    EndListening,
    Examine,
    Listen,
    Measure,
    PreflightAnswer,
    Reach,
)
from ...core.preflight.probe_plan import Target, read_probe
from .. import preflight

BEGIN = time.time()
"""When this call began, after its imports."""


def _examined(request: Examine, _check_mode: bool) -> PreflightAnswer:
    """Check this host."""
    observed = preflight.examine(request)
    return PreflightAnswer(changed=False, observed=observed, times=(BEGIN, time.time()))


Ports = Mapping[str, "int | None"]


def _others(request: Listen | Reach, ports: Ports, udp_ports: Ports) -> list[Target]:
    """Return the entries in the probe plan of all hosts that this one tests."""
    return [
        replace(peer, tcp=ports.get(peer.name) or 0, udp=udp_ports.get(peer.name) or 0)
        for peer in read_probe(request.plan.probe).places(request.host)
    ]


def _listening(request: Listen, _check_mode: bool) -> PreflightAnswer:
    """Start the process to which the others connect."""
    probe_plan = read_probe(request.plan.probe)
    mtu = probe_plan.hosts[request.host].session_mtu
    return preflight.listen(
        probe_plan.place(request.host),
        _others(request, {}, {}),
        settings={**request.plan.settings, "vni": probe_plan.vni, "mtu": mtu},
        token=request.token,
        storage=request.plan.storage.get(request.host, {}),
        roots=list(request.roots),
    )


def _reached(request: Reach, _check_mode: bool) -> PreflightAnswer:
    """Connect to the others."""
    return preflight.reach(
        read_probe(request.plan.probe).place(request.host),
        _others(request, request.ports, request.udp_ports),
        settings=request.plan.settings,
        server=request.server,
        token=request.token,
        storage=request.plan.storage.get(request.host, {}),
        roots=list(request.roots),
    )


def _measured(request: Measure, _check_mode: bool) -> PreflightAnswer:
    """Measure the connection to one of them."""
    probe_plan, settings = read_probe(request.plan.probe), request.plan.settings
    found = preflight.measure(
        probe_plan.place(request.host).endpoint,
        (probe_plan.place(request.target).endpoint, request.ports[request.target] or 0),
        token=request.token,
        seconds=settings["seconds"],
        size=settings["size"],
    )
    return PreflightAnswer(changed=False, measured={"from": request.host, "to": request.target, **found})


def _ended(request: EndListening, _check_mode: bool) -> EndedAnswer:
    """End the process."""
    return EndedAnswer(changed=False, heard=preflight.stop(request.server, request.token))


STATES: States = {
    Examine: _examined,
    Listen: _listening,
    Reach: _reached,
    Measure: _measured,
    EndListening: _ended,
}


def call(request: Call, check_mode: bool) -> Answer:
    """Run the requested step, which makes no permanent changes. Raises SessionError, OSError."""
    return STATES[type(request)](request, check_mode)

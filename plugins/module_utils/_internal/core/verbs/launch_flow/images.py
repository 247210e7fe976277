# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Bring images to the hosts that lack them: their distribution decides each step."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...model.answers import ImagesAnswer, read_answers
from ...model.calls import EndServing, ImageServer, ImageTransfer, Load, Pull, Receive, Resolve, Serve
from ...model.decode import encode
from ...model.facts import read_facts
from ...model.launch_state import ImageProgress, LaunchState
from ...model.record import PENDING, Record
from ...rules.images import Need, joined
from ...rules.site import Settings
from ...values.image_names import is_pack, registry_of
from ..verb import C
from . import replacement, undo
from .distribution import BATCHES, Distribution, source_of
from .launch import Launch

IMAGE_AWAY = "Its image could not be had"
"""Beginning of the reason for which a session from the queue keeps waiting."""
SLOW = 5.0
"""From this many seconds on, a host has waited for a registry in vain: for the rest of the run it asks others."""
_PORT = re.compile(r":\d+(?=->)")
"""Parts of a text that differ with each connection."""


def begin(launch: Launch) -> LaunchState:
    """Continue at once if no host lacks an image."""
    if not launch.state.fetches:
        return replacement.begin(launch)
    launch.state.images_so_far = None
    return _next(launch, {})


def _next(launch: Launch, came: Mapping[str, Mapping[str, ImagesAnswer]]) -> LaunchState:
    """Record the outcome of the last step, and name what each host does next to get the images."""
    state = launch.state
    if came:
        launch.sick_hosts()
    found = state.images_so_far = _distributed(launch, came)
    if found.report:
        state.lines, state.saying = found.report, _saying(came)
    progress = found.progress
    if found.asks:
        asks = {host: Resolve(tuple(references)) for host, references in found.asks.items()}
        return _step(launch, "ask", "Ask the registry, once for all hosts, which image it is", asks)
    if found.pulls:
        pulls = {host: Pull(tuple(wanted)) for host, wanted in found.pulls.items()}
        return _step(launch, "pull", f"Pull by digest, in parallel, {progress}", pulls)
    if found.loads:
        loads = {host: Load(own, *source_of(state, own.reference)) for host, own in _given(found).items()}
        title = f"Bring the image from the controller to one host, {progress}"
        return _step(launch, "load", title, loads)
    if found.serves:
        return _serve(launch, {})
    completed = replace(launch.record, plan={**launch.record.plan, "images": found.images})
    if found.useless:
        state.missing, state.completed = found.missing, completed
        useless = {host: EndServing(tuple(servers)) for host, servers in found.useless.items()}
        return _step(launch, "stop", "End servers whose hosts do not come", useless)
    return _follow(launch, found.missing, completed)


def _given(found: ImageProgress) -> dict[str, ImageTransfer]:
    """Return by host what it gets from the controller."""
    return {host: found.receives[host] for host in found.loads}


def _distributed(launch: Launch, came: Mapping[str, Mapping[str, ImagesAnswer]]) -> ImageProgress:
    """Return how far the distribution is after the last step."""
    state = launch.state
    first, last = Settings.from_variables(launch.outside.site).image_ports
    distribution = Distribution(
        state,
        {host: read_facts(vars(facts), f"Host {host}") for host, facts in state.image_facts.items()},
        state.images_so_far,
        (first, last),
        BATCHES * launch.outside.forks,
        launch.outside.check_mode,
    )
    distribution.resolved(came.get("resolved", {}))
    distribution.pulled(came.get("pulled", {}))
    distribution.arrived(came.get("served", {}), came.get("arrived", {}))
    return distribution.result()


def _saying(came: Mapping[str, object]) -> str:
    """Return the title under which the outcome of a step is shown."""
    if "resolved" in came:
        return "Report which image it is"
    return "Report who has pulled what" if "pulled" in came else "Report who has got it from whom"


def _step(launch: Launch, name: str, title: str, hosts: Mapping[str, C]) -> LaunchState:
    launch.state.since = launch.outside.now
    return launch.step(name, title, [launch.call(hosts)])


def _answers(results: Mapping[str, Mapping[str, Any]]) -> dict[str, ImagesAnswer]:
    """Return the answers of hosts in this step, or in an earlier one whose results the state has."""
    return read_answers(ImagesAnswer, results)


def _progress(launch: Launch) -> ImageProgress:
    found = launch.state.images_so_far
    if found is None:
        raise ValueError("This step needs images that are on their way.")
    return found


def _of_registries(launch: Launch) -> dict[str, ImagesAnswer]:
    """Return the answers of registries; those that hosts waited for in vain are noted."""
    answers = _answers(launch.results)
    if launch.outside.now - launch.state.since >= SLOW:
        silent = {
            host: [registry_of(name) for name in answer.problems or () if name not in (answer.denied or ())]
            for host, answer in answers.items()
        }
        launch.state.silent_registries = joined(launch.state.silent_registries, silent)
    return answers


def after_ask(launch: Launch) -> LaunchState:
    """Continue with the digests that registries returned."""
    return _next(launch, {"resolved": _of_registries(launch)})


def after_pull(launch: Launch) -> LaunchState:
    """Continue with the outcome of the pulls."""
    return _next(launch, {"pulled": _of_registries(launch)})


def after_load(launch: Launch) -> LaunchState:
    """Start the servers if other hosts are to receive images; else continue with the outcome of the load."""
    if _progress(launch).serves:
        return _serve(launch, _answers(launch.results))
    return _next(launch, {"arrived": _answers(launch.results)})


def _serve(launch: Launch, loaded: Mapping[str, ImagesAnswer]) -> LaunchState:
    """Start the servers before any receiver, so that none waits for a sender whose turn has not come."""
    launch.state.loaded = encode(loaded)
    found = _progress(launch)
    ports = tuple(found.ports)
    serves = {host: Serve(transfer, found.addresses[host], "", ports) for host, transfer in found.serves.items()}
    return _step(launch, "serve", f"Start to serve, {found.progress}", serves)


def after_serve(launch: Launch) -> LaunchState:
    """Let hosts receive images from the servers that have started."""
    found, served = _progress(launch), _answers(launch.results)
    launch.state.served = encode(served)
    receives = {
        host: Receive(
            transfer,
            found.addresses[transfer.sender],
            ImageServer(source.port, source.fingerprint or ""),
            "",
            found.addresses.get(host),
        )
        for host, transfer in found.receives.items()
        if host not in found.loads and (source := served.get(transfer.sender)) is not None and source.port is not None
    }
    return _step(launch, "receive", f"Receive, {found.progress}", receives)


def after_receive(launch: Launch) -> LaunchState:
    """Continue with the hosts that have received or loaded an image."""
    arrived = {**_answers(launch.results), **_answers(launch.state.loaded)}
    return _next(launch, {"served": _answers(launch.state.served), "arrived": arrived})


def after_stop(launch: Launch) -> LaunchState:
    """Continue after servers without receivers have ended."""
    return _follow(launch, launch.state.missing, launch.state.completed)


def _follow(launch: Launch, missing: Mapping[str, str], completed: Record | None) -> LaunchState:
    """Continue with the record that has the images' ids, unless hosts lack one. missing: those, with the reason."""
    state = launch.state
    if not missing:
        state.record = completed
        return replacement.begin(launch)
    reasons = [f"{host}: {why}" for host, why in missing.items()]
    sick = [host for host in missing if host in state.sick]
    may_come = {*missing} <= {*_progress(launch).passing}
    if sick and state.fresh and not launch.is_last:
        return launch.look_again()
    if state.from_queue:
        waits_for = IMAGE_AWAY if may_come and not sick else ""
        if waits_for and _is_known(launch, reasons):
            return launch.over(PENDING, reasons)
        return undo.keep(launch, reasons, sick, waits_for)
    advice = "Launch it again later, correct session_image" if may_come else "Correct session_image"
    if _lacks_packs_alone(_progress(launch)):
        return launch.refuse(*reasons)
    return launch.fail(
        "The session cannot be launched: its image cannot be had. Nothing was started. "
        f"{advice}, or give the image to a host of the group.",
        *reasons,
    )


def _lacks_packs_alone(found: ImageProgress) -> bool:
    needs = map(Need.from_dict, found.needs)
    return all(is_pack(need.reference) for need in needs if need.lacking)


def _is_known(launch: Launch, reasons: Sequence[str]) -> bool:
    """Tell whether all hosts know that the session waits, and why."""
    known = launch.state.waits
    if known is None:
        return False
    return [_PORT.sub("", line) for line in known.report] == [_PORT.sub("", line) for line in reasons] and all(
        known.id in ids for ids in launch.state.recorded.values()
    )

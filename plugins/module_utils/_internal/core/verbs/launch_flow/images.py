# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Bring images to the hosts that lack them: their distribution decides each step."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...model.answers import ImagesAnswer, read_answers
from ...model.decode import encode
from ...model.facts import read_facts
from ...model.record import PENDING, read_record
from ...rules.images import joined
from ...rules.site import Settings
from ...values.image_names import registry_of
from ..verb import State, call
from . import replacement, undo
from .distribution import BATCHES, Distribution
from .launch import Launch

IMAGE_AWAY = "Its image could not be had"
"""Beginning of the reason for which a session from the queue keeps waiting."""
SLOW = 5.0
"""From this many seconds on, a host has waited for a registry in vain: for the rest of the run it asks others."""
_PORT = re.compile(r":\d+(?=->)")
"""Parts of a text that differ with each connection."""


def begin(launch: Launch) -> State:
    """Continue at once if no host lacks an image."""
    if not launch.state["fetches"]:
        return replacement.begin(launch)
    launch.state["images_so_far"] = {}
    return _next(launch, {})


def _next(launch: Launch, came: Mapping[str, Mapping[str, ImagesAnswer]]) -> State:
    """Record the outcome of the last step, and name what each host does next to get the images."""
    state = launch.state
    if came:
        launch.sick_hosts()
    first, last = Settings.from_variables(launch.outside.site).image_ports
    distribution = Distribution(
        state,
        {host: read_facts(facts, f"Host {host}") for host, facts in state["image_facts"].items()},
        state["images_so_far"],
        (first, last),
        BATCHES * launch.outside.forks,
        launch.outside.check_mode,
    )
    distribution.resolved(came.get("resolved", {}))
    distribution.pulled(came.get("pulled", {}))
    distribution.arrived(came.get("served", {}), came.get("arrived", {}))
    found = distribution.result()
    completed = found.pop("record")
    state["images_so_far"] = found
    if found["report"]:
        state.update(lines=found["report"], saying=_saying(came))
    progress = found["progress"]
    if found["asks"]:
        asks = {host: {"images": references} for host, references in found["asks"].items()}
        return _step(launch, "ask", "Ask the registry, once for all hosts, which image it is", "resolved", asks)
    if found["pulls"]:
        pulls = {host: {"pulls": digests} for host, digests in found["pulls"].items()}
        return _step(launch, "pull", f"Pull by digest, in parallel, {progress}", "pulled", pulls)
    if found["loads"]:
        archive = {"archive": state["request"]["request"]["image_archive"], "allowed": state["archive"]}
        loads = {host: {"transfer": found["receives"][host], **archive} for host in found["loads"]}
        title = f"Bring the image from the controller to one host, {progress}"
        return _step(launch, "load", title, "loaded", loads)
    if found["serves"]:
        return _serve(launch, {})
    missing = {host: result["msg"] for host, result in found["results"].items() if "msg" in result}
    if found["useless"]:
        state["missing"], state["completed"] = missing, completed
        useless = {host: {"servers": servers} for host, servers in found["useless"].items()}
        return _step(launch, "stop", "End servers whose hosts do not come", "ended", useless)
    return _follow(launch, missing, completed)


def _saying(came: Mapping[str, object]) -> str:
    """Return the title under which the outcome of a step is shown."""
    if "resolved" in came:
        return "Report which image it is"
    return "Report who has pulled what" if "pulled" in came else "Report who has got it from whom"


def _step(launch: Launch, name: str, title: str, kind: str, hosts: Mapping[str, Any]) -> State:
    launch.state["since"] = launch.outside.now
    return launch.step(name, title, [call("session_images", hosts, {"state": kind})])


def _answers(launch: Launch, key: str = "") -> dict[str, ImagesAnswer]:
    """Return the answers of hosts in this step, or in the earlier one that the state has under a key."""
    return read_answers(ImagesAnswer, launch.state[key] if key else launch.results)


def _of_registries(launch: Launch) -> dict[str, ImagesAnswer]:
    """Return the answers of registries; those that hosts waited for in vain are noted."""
    answers = _answers(launch)
    if launch.outside.now - launch.state["since"] >= SLOW:
        silent = {
            host: [registry_of(reference) for reference in answer.problems if reference not in answer.denied]
            for host, answer in answers.items()
        }
        launch.state["silent_registries"] = joined(launch.state["silent_registries"], silent)
    return answers


def after_ask(launch: Launch) -> State:
    """Continue with the digests that registries returned."""
    return _next(launch, {"resolved": _of_registries(launch)})


def after_pull(launch: Launch) -> State:
    """Continue with the outcome of the pulls."""
    return _next(launch, {"pulled": _of_registries(launch)})


def after_load(launch: Launch) -> State:
    """Start the servers if other hosts are to receive images; else continue with the outcome of the load."""
    if launch.state["images_so_far"]["serves"]:
        return _serve(launch, _answers(launch))
    return _next(launch, {"arrived": _answers(launch)})


def _serve(launch: Launch, loaded: Mapping[str, ImagesAnswer]) -> State:
    """Start the servers before any receiver, so that none waits for a sender whose turn has not come."""
    launch.state["loaded"] = encode(loaded)
    found = launch.state["images_so_far"]
    serves = {
        host: {"transfer": transfer, "address": found["addresses"][host], "ports": found["ports"]}
        for host, transfer in found["serves"].items()
    }
    return _step(launch, "serve", f"Start to serve, {found['progress']}", "serving", serves)


def after_serve(launch: Launch) -> State:
    """Let hosts receive images from the servers that have started."""
    found, served = launch.state["images_so_far"], _answers(launch)
    launch.state["served"] = encode(served)
    receives = {
        host: {
            "transfer": transfer,
            "address": found["addresses"][transfer["sender"]],
            "source": found["addresses"].get(host),
            "server": {"port": source.port, "fingerprint": source.fingerprint},
        }
        for host, transfer in found["receives"].items()
        if host not in found["loads"]
        and (source := served.get(transfer["sender"])) is not None
        and source.port is not None
    }
    return _step(launch, "receive", f"Receive, {found['progress']}", "received", receives)


def after_receive(launch: Launch) -> State:
    """Continue with the hosts that have received or loaded an image."""
    arrived = {**_answers(launch), **_answers(launch, "loaded")}
    return _next(launch, {"served": _answers(launch, "served"), "arrived": arrived})


def after_stop(launch: Launch) -> State:
    """Continue after servers without receivers have ended."""
    return _follow(launch, launch.state["missing"], launch.state["completed"])


def _follow(launch: Launch, missing: Mapping[str, str], completed: Mapping[str, Any]) -> State:
    """Continue with the record that has the images' ids, unless hosts lack one. missing: those, with the reason."""
    state = launch.state
    if not missing:
        state["record"] = completed
        return replacement.begin(launch)
    reasons = [f"{host}: {why}" for host, why in missing.items()]
    sick = [host for host in missing if host in state["sick"]]
    may_come = {*missing} <= {*state["images_so_far"]["passing"]}
    if sick and state["fresh"] and not launch.is_last:
        return launch.look_again()
    if state["from_queue"]:
        waits_for = IMAGE_AWAY if may_come and not sick else ""
        if waits_for and _is_known(launch, reasons):
            return launch.over(PENDING, reasons)
        return undo.keep(launch, reasons, sick, waits_for)
    advice = "Launch it again later, correct session_image" if may_come else "Correct session_image"
    return launch.fail(
        "The session cannot be launched: its image cannot be had. Nothing was started. "
        f"{advice}, or give the image to a host of the group.",
        *reasons,
    )


def _is_known(launch: Launch, reasons: Sequence[str]) -> bool:
    """Tell whether all hosts know that the session waits, and why."""
    if not launch.state["waits"]:
        return False
    known = read_record(launch.state["waits"])
    return [_PORT.sub("", line) for line in known.report] == [_PORT.sub("", line) for line in reasons] and all(
        known.id in ids for ids in launch.state["recorded"].values()
    )

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Get images on this host from a registry, the controller or another host."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Callable

from ...adapters.engine import Engine, ImageDenied
from ...core.values.errors import SessionError
from .. import images

LONGEST_PULL = 600
"""Seconds without an answer of the engine while it fetches or unpacks an image."""


def _resolved(engine: Engine, arguments: dict[str, Any], _check_mode: bool) -> dict[str, Any]:
    """Request the digests from the registry."""
    digests, problems = images.resolve(engine, arguments["images"], arguments["logins"])
    return {"changed": False, "digests": digests, **_in_words(problems)}


def _pulled(engine: Engine, arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Pull the images that this host needs."""
    if check_mode:
        return {"changed": True, "pulled": {}, **_in_words({})}
    pulled, problems = images.pull(engine, arguments["pulls"], arguments["logins"])
    return {"changed": bool(pulled), "pulled": pulled, **_in_words(problems)}


def _in_words(problems: Mapping[str, SessionError]) -> dict[str, Any]:
    """Return the answer about images that were not received."""
    denied = [reference for reference, error in problems.items() if isinstance(error, ImageDenied)]
    return {"problems": {reference: str(error) for reference, error in problems.items()}, "denied": denied}


def _loaded(engine: Engine, arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Load the archive that the action has copied here."""
    if check_mode:
        return {"changed": True, "bytes": 0, "seconds": 0.0}
    transfer = arguments["transfer"]
    done = images.load(engine, arguments["archive"], transfer["image"], transfer["reference"], arguments["allowed"])
    return {"changed": True, **done}


def _serving(engine: Engine, arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Start a server."""
    if check_mode:
        return {"changed": False, "port": 0, "fingerprint": "", "server": {"pid": 0, "start": 0}}
    first, last = arguments["ports"]
    served = images.serve(
        engine,
        arguments["transfer"]["image"],
        address=arguments["address"],
        ports=(first, last),
        token=arguments["token"],
    )
    return {"changed": False, **served}


def _received(engine: Engine, arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Get an image from a server."""
    if check_mode:
        return {"changed": True, "bytes": 0, "seconds": 0.0}
    transfer, server = arguments["transfer"], arguments["server"]
    done = images.receive(
        engine,
        transfer["image"],
        transfer["reference"],
        address=arguments["address"],
        source=arguments["source"],
        port=server["port"],
        fingerprint=server["fingerprint"],
        token=arguments["token"],
        content=transfer.get("content") or "",
    )
    return {"changed": True, **done}


def _ended(_engine: Engine, arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """End servers."""
    return {"changed": False, "ended": 0 if check_mode else images.end(arguments["servers"])}


STATES: dict[str, Callable[[Engine, dict[str, Any], bool], dict[str, Any]]] = {
    "resolved": _resolved,
    "pulled": _pulled,
    "loaded": _loaded,
    "serving": _serving,
    "received": _received,
    "ended": _ended,
}


def call(arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Run the requested state. Raises SessionError, OSError."""
    engine = Engine.connect(timeout=LONGEST_PULL)
    arguments = {**arguments, "logins": json.loads(arguments["logins"] or "{}")}
    return STATES[arguments["state"]](engine, arguments, check_mode)

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Get images on this host from a registry, the controller or another host."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...adapters.engine import Engine, ImageDenied
from ...core.model.call.base import Answer, Call, States
from ...core.model.call.session_images import EndServing, ImagesAnswer, Load, Pull, Receive, Resolve, Serve
from ...core.values.errors import SessionError
from .. import images

LONGEST_PULL = 600
"""Seconds without an answer of the engine while it fetches or unpacks an image."""


def _engine() -> Engine:
    return Engine.connect(timeout=LONGEST_PULL)


def _resolved(request: Resolve, _check_mode: bool) -> ImagesAnswer:
    """Request the digests from the registry."""
    engine = _engine()
    digests, problems = images.resolve(engine, request.images, _logins(request))
    return _with_problems(ImagesAnswer(changed=False, digests=digests), problems)


def _pulled(request: Pull, check_mode: bool) -> ImagesAnswer:
    """Pull the images that this host needs."""
    engine = _engine()
    if check_mode:
        return _with_problems(ImagesAnswer(changed=True, pulled={}), {})
    pulled, problems = images.pull(engine, request.pulls, _logins(request))
    return _with_problems(ImagesAnswer(changed=bool(pulled), pulled=pulled), problems)


def _logins(request: Resolve | Pull) -> Any:
    return json.loads(request.logins or "{}")


def _with_problems(answer: ImagesAnswer, problems: Mapping[str, SessionError]) -> ImagesAnswer:
    """Return an answer with the images that were not received, and why."""
    denied = tuple(reference for reference, error in problems.items() if isinstance(error, ImageDenied))
    return replace(answer, problems={reference: str(error) for reference, error in problems.items()}, denied=denied)


def _loaded(request: Load, check_mode: bool) -> ImagesAnswer:
    """Load the archive that the action has copied here."""
    engine = _engine()
    if check_mode:
        return ImagesAnswer(changed=True, bytes=0, seconds=0.0)
    return images.load(engine, request)


def _serving(request: Serve, check_mode: bool) -> ImagesAnswer:
    """Start a server."""
    engine = _engine()
    if check_mode:
        return ImagesAnswer(changed=False, port=0, fingerprint="", server={"pid": 0, "start": 0})
    return images.serve(engine, request)


def _received(request: Receive, check_mode: bool) -> ImagesAnswer:
    """Get an image from a server."""
    engine = _engine()
    if check_mode:
        return ImagesAnswer(changed=True, bytes=0, seconds=0.0)
    return images.receive(engine, request)


def _ended(request: EndServing, check_mode: bool) -> ImagesAnswer:
    """End servers."""
    return ImagesAnswer(changed=False, ended=0 if check_mode else images.end(request.servers))


STATES: States = {
    Resolve: _resolved,
    Pull: _pulled,
    Load: _loaded,
    Serve: _serving,
    Receive: _received,
    EndServing: _ended,
}


def call(request: Call, check_mode: bool) -> Answer:
    """Run the requested state. Raises SessionError, OSError."""
    return STATES[type(request)](request, check_mode)

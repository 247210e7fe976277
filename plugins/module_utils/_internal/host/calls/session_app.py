# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Open an app in main1 of a session on this host, or close it."""

from __future__ import annotations

from ...adapters.engine import Engine
from ...adapters.state import StateDirectory
from ...core.model.call.base import Answer, States
from ...core.model.call.session_app import AppAnswer, CloseApp, OpenApp
from ...core.rules.apps import AppRequest
from ...core.rules.output import parse_keep_size
from .. import apps, owner
from .session_job import DEFAULT_SIZE


def _open(request: OpenApp, check_mode: bool) -> AppAnswer:
    """Open the app, and return its data."""
    app = AppRequest(request.app, request.ways, request.directory)
    size = parse_keep_size(request.output_size) or DEFAULT_SIZE
    state = StateDirectory(request.state_directory)
    return apps.open_app(state, request.session_id, request.host, app, size, request.seconds, check_mode)


def _close(request: CloseApp, check_mode: bool) -> AppAnswer:
    """Close one app or all apps of the session, and return which were open."""
    state = StateDirectory(request.state_directory)
    ids = [record.id for record in state.records()[0] if record.name == request.session_name]
    names = [request.app] if request.app else []
    closed = {app for session_id in ids for app in apps.close_apps(state, session_id, names, check_mode)}
    return AppAnswer(changed=bool(closed), closed=tuple(sorted(closed)))


STATES: States = {OpenApp: _open, CloseApp: _close}


def call(request: OpenApp | CloseApp, check_mode: bool) -> Answer:
    """Bring the app into the requested state. Raises SessionError."""
    state = StateDirectory(request.state_directory)
    owner.check(Engine.connect(), state, request.session_name, request.asker)
    return STATES[type(request)](request, check_mode)

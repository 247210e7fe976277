# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Open an app in main1 of a session on this host, or close it."""

from __future__ import annotations

from typing import Any, Callable

from ...adapters.engine import Engine
from ...adapters.state import StateDirectory
from ...core.rules.output import parse_keep_size
from .. import apps, owner
from .session_job import DEFAULT_SIZE


def _open(arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Open the app, and return its data."""
    app = apps.read_request(arguments["app"], arguments["ways"], arguments["directory"])
    size = parse_keep_size(arguments["output_size"]) or DEFAULT_SIZE
    where = (arguments["session_id"], arguments["host"])
    state = StateDirectory(arguments["state_directory"])
    opened = apps.open_app(state, *where, app, size, arguments["seconds"], check_mode)
    changed = opened.pop("changed")
    return {"changed": changed, "opened": opened}


def _close(arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Close one app or all apps of the session, and return which were open."""
    state = StateDirectory(arguments["state_directory"])
    ids = [record.id for record in state.records()[0] if record.name == arguments["session_name"]]
    names = [arguments["app"]] if arguments["app"] else []
    closed = {app for session_id in ids for app in apps.close_apps(state, session_id, names, check_mode)}
    return {"changed": bool(closed), "closed": sorted(closed)}


STATES: dict[str, Callable[[dict[str, Any], bool], dict[str, Any]]] = {"open": _open, "closed": _close}


def call(arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Bring the app into the requested state. Raises SessionError."""
    state = StateDirectory(arguments["state_directory"])
    owner.check(Engine.connect(), state, arguments["session_name"], arguments["asker"])
    return STATES[arguments["state"]](arguments, check_mode)

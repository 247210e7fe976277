# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Calls of session_host for tests in which nothing reads what they contain."""

from __future__ import annotations

from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.call.base import (
    Call,
    fields_of,
    is_required,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.calls import CALLS


def request_for(state: str, state_directory: str) -> Call:
    """Return the call of a state."""
    kind: Any = CALLS["session_host", state]
    nothing = {part.name: None for part in fields_of(kind) if is_required(part)}
    request: Call = kind(**nothing, state_directory=state_directory)
    return request

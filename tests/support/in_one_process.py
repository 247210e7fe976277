# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `adapters.bounded` does, without a process of its own, for tests whose hosts are objects in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.bounded import Failed
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import (
    SessionError,
    hangs,
    is_of_host,
    message_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import (
    boot,
    data,
    facts,
    repair,
    timer,
)


def in_one_process(work: Callable[[], Any], _what: str, _seconds: float) -> Any:
    """Return what comes of the work, as it would come from another process."""
    try:
        return json.loads(json.dumps(work()))
    except (SessionError, OSError) as error:
        raise Failed(message_of(error), is_of_host(error), hangs(error)) from error


def patch_bounded(patch: pytest.MonkeyPatch, bounded: Callable[..., Any] = in_one_process) -> None:
    """Let hosts' side start no processes."""
    for module in (boot, data, facts, repair, timer):
        patch.setattr(module, "bounded", bounded)

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The first states of verbs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.verb import (
    Outside,
    State,
    Verb,
)


def begun(verb: Verb, hosts: Sequence[str], now: float = 0.0, **given: Any) -> State:
    """Return the first state of a verb. given: what its role gives."""
    return verb.begin(encode(given), hosts, Outside(now=now, draw=lambda: "no id is drawn"))

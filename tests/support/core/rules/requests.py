# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests as tests of the rules write them: only what matters."""

from __future__ import annotations

from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import (
    Request,
    parse_request,
)


def make_request(**given: Any) -> Request:
    """Return the request of these variables, less the prefix."""
    values = {"name": "demo", "image": "debian:12", **given}
    return parse_request({f"session_{key}": value for key, value in values.items()})

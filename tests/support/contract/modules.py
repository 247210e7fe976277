# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one place of these tests that knows how a call of the hosts' side is performed."""

from __future__ import annotations

from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import SessionError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import program
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.arguments import ARGUMENTS


def run(name: str, arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Perform one call and return its result; raises SessionError with the message of a call that fails."""
    known = ARGUMENTS[name]["argument_spec"]
    assert arguments.keys() <= known.keys(), arguments.keys() - known.keys()
    defaults = {argument: option.get("default") for argument, option in known.items()}
    result = dict(program.run(name, {**defaults, **arguments}, check_mode))
    if result.get("failed"):
        raise SessionError(result.pop("msg"), result)
    return result

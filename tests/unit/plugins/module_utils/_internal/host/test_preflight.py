# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What preflight reports of a host."""

from __future__ import annotations

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine_objects import read_info
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.preflight import described


def test_what_an_engine_reports_has_the_form_of_its_api() -> None:
    """It is part of the JSON of preflight, which other programs read."""
    runtimes = {"runc": {"path": "runc"}, "own": {"path": "/r", "runtimeArgs": ["-x"]}}
    found = described(read_info({"ServerVersion": "28.1", "SecurityOptions": None, "Runtimes": runtimes}, "1.49"))
    assert (found["version"], found["api_version"], found["options"]) == ("28.1", "1.49", [])
    assert found["runtimes"] == {
        "runc": {"path": "runc", "runtimeArgs": []},
        "own": {"path": "/r", "runtimeArgs": ["-x"]},
    }

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which networks a container has to be attached to again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine_objects import (
    read_container,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.session import networks
from ansible_collections.cluster_compute.session.tests.support.plans import context_of


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, []),
        ({"session": {"NetworkID": "1", "IPAddress": ""}}, []),
        ({"session": {"NetworkID": "1"}}, []),
        ({"session": {"NetworkID": "1", "IPAddress": "10.0.0.9"}}, ["session"]),
        ({"session": {"NetworkID": "7", "IPAddress": "10.0.0.2"}}, ["session"]),
        ({"egress": {"NetworkID": "2", "IPAddress": "172.17.0.9"}}, []),
        ({"egress": None}, ["egress"]),
    ],
)
def test_a_container_is_attached_again_where_it_is_not_as_planned(
    tmp_path: Path, changes: dict[str, Any], wanted: list[str]
) -> None:
    """A container that does not run has no address; outside the session's network any will do."""
    replica = {"name": "main1", "host": "h1", "address": "10.0.0.2"}
    plan = {"network": {"name": "session"}, "egress": {"name": "egress", "subnet": ""}, "hosts": {"h1": {}}}
    context = context_of(tmp_path, None, {**plan, "replicas": [replica]})
    attached = {
        "session": {"NetworkID": "1", "IPAddress": "10.0.0.2"},
        "egress": {"NetworkID": "2", "IPAddress": "172.17.0.2"},
        **changes,
    }
    there = {name: found for name, found in attached.items() if found is not None}
    entry = read_container({"NetworkSettings": {"Networks": there}})
    live = {"session": "1", "egress": "2"}
    assert networks._detached(context, entry, context.replicas[0], live, False) == wanted
    lost = networks._detached(context, entry, context.replicas[0], live, True)
    assert set(lost) == {*wanted, "session"}, "Without the link nothing is attached to the session's network"

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a site sets."""

from __future__ import annotations

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.site import Settings
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput
from ansible_collections.cluster_compute.session.tests.support.core.rules.examples import (
    make_plan,
)


def test_settings():
    assert Settings.from_variables({}) == Settings()
    read = Settings.from_variables(
        {
            "cluster_compute_subnet_pool": "10.99.0.0/20",
            "cluster_compute_vni_pool": "5-6",
            "cluster_compute_ssh_ports": " 30 - 40 ",
            "cluster_compute_vxlan_port": "8472",
            "cluster_compute_encrypted_ports": " 700 - 702 ",
            "cluster_compute_topology_keys": "room, rack",
        }
    )
    assert read == Settings("10.99.0.0/20", "5-6", 8472, "700-702", ("room", "rack"), "30-40")
    plan = make_plan(site=read)
    assert plan.network.vni in (5, 6)
    assert plan.network.port == 8472
    assert plan.network.subnet.startswith("10.99.")
    assert Settings.from_variables({"cluster_compute_topology_keys": []}).topology_keys == ()
    with pytest.raises(InvalidInput) as error:
        Settings.from_variables(
            {
                "cluster_compute_subnet_pool": "x",
                "cluster_compute_vni_pool": 5,
                "cluster_compute_vxlan_port": 0,
                "cluster_compute_encrypted_ports": "61000-70000",
                "cluster_compute_topology_keys": ["rack", "rack"],
            }
        )
    assert [problem.variable for problem in error.value.problems] == [
        "cluster_compute_subnet_pool",
        "cluster_compute_vni_pool",
        "cluster_compute_vxlan_port",
        "cluster_compute_encrypted_ports",
        "cluster_compute_topology_keys",
    ]


@pytest.mark.parametrize(
    ("value", "ports"),
    [(9000, (9000, 9000)), ("9000", (9000, 9000)), (" 9000-9009 ", (9000, 9009)), ("", (8480, 8489))],
)
def test_ports_for_images(value, ports):
    assert Settings.from_variables({"cluster_compute_image_ports": value}).image_ports == ports


@pytest.mark.parametrize("value", [0, 65536, "9009-9000", "9000-", "a", True, [9000], "9000-70000"])
def test_bad_ports_for_images(value):
    with pytest.raises(InvalidInput, match="cluster_compute_image_ports is "):
        Settings.from_variables({"cluster_compute_image_ports": value})

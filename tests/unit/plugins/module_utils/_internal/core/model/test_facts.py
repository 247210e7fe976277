# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The facts of a host, as the controller reads them."""

from __future__ import annotations

from dataclasses import fields

import pytest
import yaml
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import (
    Malformed,
    encode,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.facts import (
    HostFacts,
    Unusable,
    read_facts,
)
from ansible_collections.cluster_compute.session.plugins.modules import host_info


def test_what_is_read_is_what_is_documented() -> None:
    documented = yaml.safe_load(host_info.RETURN)["host"]["contains"]
    # What containers of the host are kept out of is between host and controller.
    assert {item.name for item in fields(HostFacts)} == {*documented, "overlays", "volumes"}


def test_what_is_documented_is_returned_even_where_there_is_none() -> None:
    documented = yaml.safe_load(host_info.RETURN)["host"]["contains"]
    when = {name: entry["returned"] for name, entry in documented.items()}
    assert len(when) > 30
    assert [name for name in when if when[name] != "if not usable" and name not in encode(HostFacts())] == []
    assert [name for name in when if when[name] != "if usable" and name not in encode(Unusable("It hangs."))] == []


def test_what_cannot_be_read_is_named_with_its_host() -> None:
    with pytest.raises(Malformed, match=r"^Host h1's underlay\.mtu is 'x', where a whole number is expected\.$"):
        read_facts({"underlay": {"address": "192.0.2.1", "interface": "eth0", "mtu": "x"}}, "Host h1")

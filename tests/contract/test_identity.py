# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host's identity of its own: made once, root's alone, told with its facts."""

from __future__ import annotations

from ansible_collections.cluster_compute.session.tests.support.contract.on_host import Call, Host


def test_a_host_is_given_an_identity_once(host: Host, call: Call) -> None:
    assert call("host_info")["host"]["identity"] == ""
    assert call("host_identity", True, host="h1")["changed"]
    assert call("host_identity", host="h1")["actions"] == ["create identity h1"]
    assert not call("host_identity", host="h1")["changed"]
    identity = call("host_info")["host"]["identity"]
    assert len(identity) == 36
    assert call("host_identity", host="node1")["actions"] == ["update identity node1"]
    facts = call("host_info")["host"]
    assert (facts["identity"], facts["names"]) == (identity, ["h1", "node1"])
    file = host.state.root / "identity.json"
    assert (file.stat().st_mode & 0o777, identity in file.read_text(encoding="utf-8")) == (0o600, True)

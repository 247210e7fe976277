# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tunnel of an encrypted session is made with the keys of all hosts, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import link, wireguard
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import PublicKeys
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.session import links
from ansible_collections.cluster_compute.session.tests.support.plans import context_of

PLAN = {
    "network": {"tunnel": {"link": "cct3614fdf3"}, "port": 51820},
    "hosts": {name: {"underlay_address": f"192.0.2.{number}"} for number, name in ((1, "h1"), (2, "h2"))},
    "replicas": [{"name": "main1", "host": "h1"}, {"name": "sub1", "host": "h2"}],
}


@pytest.mark.parametrize("known", [("main1", "sub1"), ("main1",), ("sub1",), ()])
def test_a_tunnel_needs_the_keys_of_every_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: tuple[str, ...]
) -> None:
    made: list[Any] = []
    monkeypatch.setattr(wireguard, "read", lambda _name: None)
    monkeypatch.setattr(wireguard, "converge", lambda *given: made.append(given))
    keys: PublicKeys = {name: {"client": None, "host": None, "tunnel": f"key of {name}"} for name in known}
    (step,) = links.tunnel_steps(context_of(tmp_path, None, PLAN), keys)
    if len(known) < 2:
        with pytest.raises(link.LinkError, match="public keys of every host"):
            step.do()
        assert not made
        return
    step.do()
    ((wanted, _file, peers),) = made
    assert (wanted.public_key, [(peer.public_key, peer.address) for peer in peers]) == (
        "key of main1",
        [("key of sub1", "192.0.2.2")],
    )
    monkeypatch.setattr(wireguard, "read", lambda _name: wanted)
    assert links.tunnel_steps(context_of(tmp_path, None, PLAN), keys) == [], "What is as wanted stays"

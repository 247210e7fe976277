# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is read of the rules that a host has, those of others among them."""

from __future__ import annotations

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters import firewall

SESSION = "3614fdf3-0e04-4a3c-9d2a-53a1f7b2c8aa"
SAVED = f"""*filter
:INPUT ACCEPT [0:0]
:cc-3614fdf3 - [0:0]
-A INPUT -m comment --comment "first line
and the second" -j DROP
-A INPUT -m comment --comment "it\\'s \\"mine\\"" -j DROP
-A INPUT -p udp -m comment --comment "cluster-compute {SESSION} train 0123456789ab" -j cc-3614fdf3
-A cc-3614fdf3 -m comment --comment "cluster-compute {SESSION} train ba9876543210" -j DROP
COMMIT
"""


def test_comments_of_others_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(firewall, "_run", lambda command, stdin=None: SAVED)
    table = firewall.Iptables(firewall.IPTABLES)
    assert table.owners() == {SESSION: "train"}
    assert table.found(SESSION)["cc-3614fdf3"] == ["ba9876543210"]

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is read of the rules that a host has, those of others among them."""

from __future__ import annotations

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import firewall

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


@pytest.mark.parametrize(
    ("listed", "drops"),
    [
        ("-P INPUT ACCEPT\n-P FORWARD DROP\n-P OUTPUT ACCEPT\n-A FORWARD -j DOCKER-USER\n", True),
        ("-P INPUT DROP\n-P FORWARD ACCEPT\n-A FORWARD -j DROP\n", False),
        (None, False),
    ],
)
def test_a_policy_that_drops_what_other_rules_accept_is_seen(
    monkeypatch: pytest.MonkeyPatch, listed: str | None, drops: bool
) -> None:
    def run(command: list[str], stdin: str | None = None) -> str:
        if listed is None:
            raise firewall.FirewallError("iptables: table `filter' is incompatible, use 'nft' tool.")
        return listed

    monkeypatch.setattr(firewall, "_run", run)
    monkeypatch.setattr(firewall, "_has", lambda _name: True)
    assert firewall.drops_forwarded() is drops
    monkeypatch.setattr(firewall, "_has", lambda _name: False)
    assert not firewall.drops_forwarded()


@pytest.mark.parametrize(("comes_back", "jumps"), [(True, 0), (False, 1)])
def test_a_jump_that_an_engine_is_moving_is_not_put_in_again(
    monkeypatch: pytest.MonkeyPatch, comes_back: bool, jumps: int
) -> None:
    """An engine takes its jump away and puts it in at the top; who looks in between sees none."""
    without = "*filter\n:FORWARD ACCEPT [0:0]\n:DOCKER-USER - [0:0]\n-A DOCKER-USER -j RETURN\nCOMMIT\n"
    texts = [without, without.replace("COMMIT", "-A FORWARD -j DOCKER-USER\nCOMMIT") if comes_back else without]
    written = []

    def run(command: list[str], stdin: str | None = None) -> str:
        if command[0] == "iptables-save":
            return texts.pop(0)
        written.append(stdin or "")
        return ""

    monkeypatch.setattr(firewall, "_run", run)
    monkeypatch.setattr(firewall, "ENGINE_SECONDS", 0)
    firewall.Iptables(firewall.IPTABLES).put(SESSION, "train", {"DOCKER-USER": ["-i one -j DROP"]})
    assert [text.count("-I FORWARD 1 -j DOCKER-USER") for text in written] == [jumps]

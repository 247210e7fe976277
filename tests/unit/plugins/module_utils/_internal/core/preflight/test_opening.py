# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The commands that open a host's firewall. What those of ufw do is seen in the contract tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import firewall
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.preflight.opening import (
    FIREWALLD,
    UFW,
    advice,
    commands,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.site import Settings

PAGE = Path(__file__).parents[7] / "docs" / "firewalls.md"


@pytest.mark.parametrize("manager", [UFW, FIREWALLD])
def test_the_page_has_the_commands_of_each_manager_for_the_ports_of_a_site(manager: str) -> None:
    site, page = Settings(), PAGE.read_text(encoding="utf-8")
    images = "{}-{}".format(*site.image_ports)
    for protocol, ports in (("udp", str(site.vxlan_port)), ("tcp", images), ("udp", site.encrypted_ports)):
        assert f"\n{commands(manager, protocol, ports)}\n" in page


def test_the_advice_has_the_command_only_where_the_manager_is_known() -> None:
    assert advice("", "udp", "4789") == "Open it in the firewall of the second host, of the first, and between them."
    told = (
        "On the second host: ufw allow proto udp from PEER to any port 4789 (with the first host's address for PEER)."
    )
    assert advice(UFW, "udp", "4789").endswith(told)


@pytest.mark.parametrize(
    ("settings", "found"),
    [("ENABLED=yes\n", UFW), ("# ENABLED=yes\nENABLED=no\n", ""), ('LOGLEVEL=low\nENABLED="YES"\n', UFW), (None, "")],
)
def test_ufw_is_known_by_its_settings(
    settings: str | None, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ufw.conf"
    if settings is not None:
        path.write_text(settings, encoding="utf-8")
    monkeypatch.setattr(firewall, "UFW_SETTINGS", path)
    monkeypatch.setattr(firewall, "_PATH", str(tmp_path))
    assert firewall.manager() == found


@pytest.mark.parametrize(("code", "found"), [(0, FIREWALLD), (252, "")])
def test_firewalld_is_known_by_its_own_answer(
    code: int, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "firewall-cmd"
    program.write_text(f"#!/bin/sh\nexit {code}\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setattr(firewall, "UFW_SETTINGS", tmp_path / "none")
    monkeypatch.setattr(firewall, "_PATH", str(tmp_path))
    monkeypatch.setattr(firewall, "_ENVIRONMENT", {"PATH": str(tmp_path)})
    assert firewall.manager() == found

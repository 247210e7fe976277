# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters import link
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.link import LinkError


def interface(name: str, address: str, *flags: str, mtu: int = 1500) -> dict[str, Any]:
    """Return what ``ip -j address`` prints of one interface."""
    entry = {"local": address, "prefixlen": 24, "scope": "host" if "LOOPBACK" in flags else "global"}
    return {"ifname": name, "flags": [*flags, "UP"], "mtu": mtu, "addr_info": [entry]}


LINKS = [
    interface("lo", "127.0.0.1", "LOOPBACK", mtu=65536),
    interface("eth0", "192.0.2.11"),
    interface("eth1", "198.51.100.11", mtu=9000),
    interface("docker0", "172.17.0.1"),
]


def underlay(wanted: str | None) -> dict[str, Any]:
    return link.underlay(wanted, link.details())


def here(monkeypatch: pytest.MonkeyPatch, *links: dict[str, Any], route: str = "") -> None:
    """Let this host have these interfaces, and its default route on one of them."""
    routes = [{"dst": "default", "dev": route}] if route else []
    monkeypatch.setattr(link, "_json", lambda argv: routes if "route" in argv else list(links))


def test_the_underlay_is_what_the_site_says_else_where_the_default_route_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    here(monkeypatch, *LINKS, route="eth0")
    assert underlay(None) == {"address": "192.0.2.11", "interface": "eth0", "mtu": 1500}
    assert underlay("198.51.100.11") == {"address": "198.51.100.11", "interface": "eth1", "mtu": 9000}
    with pytest.raises(LinkError, match=r"has the address 192\.0\.2\.77; its addresses are: 192\.0\.2\.11, 198\.51"):
        underlay("192.0.2.77")


def test_without_a_default_route_only_one_address_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    here(monkeypatch, LINKS[0], LINKS[1], LINKS[3])
    assert underlay("")["interface"] == "eth0"
    here(monkeypatch, *LINKS)
    with pytest.raises(
        LinkError, match=r"192\.0\.2\.11 \(eth0\), 198\.51\.100\.11 \(eth1\)\. Set cluster_compute_under"
    ):
        underlay(None)

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What labels tell, whoever wrote them."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters import engine

ID = "5c7a1f0e-0000-4000-8000-000000000000"
FILES = {"Type": "bind", "Source": "/var/lib/x", "Destination": "/etc/cluster-compute"}


@pytest.mark.parametrize(
    ("labels", "mounts", "is_one"),
    [
        ({engine.LABEL_SESSION_ID: ID}, [FILES], True),
        ({engine.LABEL_SESSION_ID: ID}, [], False),
        ({engine.LABEL_SESSION_ID: ID}, [{**FILES, "Destination": "/data"}], False),
        ({engine.LABEL_SESSION_ID: "x"}, [FILES], False),
        ({}, [FILES], False),
    ],
)
def test_a_replica_bears_an_id_and_has_the_files_of_a_session(
    labels: dict[str, str], mounts: list[dict[str, str]], is_one: bool
) -> None:
    assert engine.is_replica({"Labels": labels, "Mounts": mounts}) is is_one
    assert not engine.is_replica({"Labels": labels, "Mounts": None})


@pytest.mark.parametrize(
    ("text", "number"), [("1500", 1500), ("", 0), ("lots", 0), ("-1", 0), ("1.5", 0), ("9" * 30, 0)]
)
def test_a_label_that_holds_no_number_counts_nothing(text: str, number: int) -> None:
    assert engine.number_of({"name": text}, "name") == number
    assert engine.number_of({}, "name") == 0


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"gpu": 3}', '{"gpu": null}', "[" * 100_000])
def test_a_label_that_holds_no_devices_tells_none(text: str) -> None:
    assert engine.devices_of({engine.LABEL_DEVICES: text}) == ()


def test_devices_of_a_label() -> None:
    held = {engine.LABEL_DEVICES: '{"tpu":["/dev/t"],"gpu":["GPU-1","GPU-2"]}'}
    assert engine.devices_of(held) == (("gpu", ("GPU-1", "GPU-2")), ("tpu", ("/dev/t",)))
    assert engine.devices_of({}) == ()


@pytest.mark.parametrize(
    ("api", "about", "uses_nftables"),
    [
        ("1.41", {}, False),
        ("1.47", {"FirewallBackend": {"Driver": "nftables"}}, False),
        ("1.49", {"FirewallBackend": {"Driver": "iptables"}}, False),
        ("1.52", {"FirewallBackend": {"Driver": "iptables+firewalld", "Info": [["ReloadedAt", "x"]]}}, False),
        ("1.52", {"FirewallBackend": {"Driver": "nftables"}}, True),
        ("1.52", {"FirewallBackend": None}, False),
        ("1.52", {}, False),
    ],
)
def test_the_engine_says_what_it_writes_its_rules_with(api: str, about: dict[str, Any], uses_nftables: bool) -> None:
    class Client:
        api_version = api

        def info(self) -> dict[str, Any]:
            return about

    assert engine.Engine(Client()).uses_nftables() is uses_nftables

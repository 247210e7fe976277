# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Prometheus can scrape inside sessions."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.cluster_compute.session.plugins.filter.scrape_targets import scrape_targets
from ansible_collections.cluster_compute.session.tests.support.browser import groups


def test_ports_of_exporters_that_a_running_session_publishes_are_listed() -> None:
    overview = groups.small()
    address = next(host["underlay"]["address"] for host in overview["hosts"] if host["name"] == "h1")
    (target,) = scrape_targets(overview, [80])
    assert target == {
        "targets": [f"{address}:8080"],
        "labels": {
            "session": "train",
            "replica": "main1",
            "role": "main",
            "owner": "alice",
            "host": "h1",
            "port": "80",
        },
    }


def test_other_ports_other_protocols_and_replicas_that_do_not_run_are_not() -> None:
    overview = groups.small()
    assert scrape_targets(overview) == []
    (train,) = [session for session in overview["sessions"] if session["name"] == "train"]
    train["replicas"][0]["status"] = "FAILED"
    assert scrape_targets(overview, [80]) == []
    train["replicas"][0]["status"] = "RUNNING"
    train["replicas"][0]["ports"][0]["protocol"] = "udp"
    assert scrape_targets(overview, [80]) == []


def test_an_address_that_the_port_is_bound_to_is_that_of_the_target() -> None:
    overview = groups.small()
    (train,) = [session for session in overview["sessions"] if session["name"] == "train"]
    for bound, target in (("192.0.2.7", "192.0.2.7:8080"), ("2001:db8::7", "[2001:db8::7]:8080")):
        train["replicas"][0]["ports"][0]["host_ip"] = bound
        assert scrape_targets(overview, ["80"])[0]["targets"] == [target]


@pytest.mark.parametrize("bound", ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1", "fe80::7"])
def test_a_port_that_only_its_own_host_reaches_is_no_target(bound: str) -> None:
    overview = groups.small()
    (train,) = [session for session in overview["sessions"] if session["name"] == "train"]
    train["replicas"][0]["ports"][0]["host_ip"] = bound
    assert scrape_targets(overview, [80]) == []


def test_what_is_no_port_is_refused_by_name() -> None:
    with pytest.raises(AnsibleFilterError, match=r"ports is 99999"):
        scrape_targets(groups.small(), [99999])

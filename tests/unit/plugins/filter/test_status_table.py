# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tables of a resource group."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.filter.status_table import status_table
from ansible_collections.cluster_compute.session.plugins.plugin_utils.status_page import render
from ansible_collections.cluster_compute.session.tests.support.browser import groups


@pytest.fixture(scope="module")
def large() -> dict[str, Any]:
    """Give a group of 300 hosts."""
    return groups.large()


def test_sessions_replicas_hosts_and_queue_are_told() -> None:
    lines = status_table(groups.small())
    assert lines[0] == "Resource group cluster_compute_hosts: 3 hosts, 4 sessions, 2 waiting."
    rows = {" ".join(line.split()) for line in lines}
    assert "train RUNNING multi-node 3/4 h1,h2 overlay 10.213.0.208/28 h1:40022 alice" in rows
    assert "broken ERROR - - - - - - carol" in rows
    assert "broken: Replica sub1 on h2 ended with exit code 3 after 3 restarts. Its failure policy is restart." in rows
    assert (
        "train main1 h1 10.213.0.210 0 RUNNING - 2.4/4 3.2GiB/8GiB 0.0.0.0:8080->80/tcp,0.0.0.0:40022->2201/tcp" in rows
    )
    assert "train sub3 h2 10.213.0.213 3 FAILED 137 - - -" in rows
    assert "h3 explore,notebook 3 3 22GiB gpu=1" in rows
    assert "1. large of bob, priority 5, 16 replicas" in rows


def test_an_encrypted_network_is_said_to_be_so() -> None:
    found = groups.small()
    for session in found["sessions"]:
        if session["network"] is not None:
            session["network"]["tunnel"] = {"port": 61000}
    assert sum(" encrypted-overlay  10.213." in line for line in status_table(found)) == 1
    assert "encrypted overlay (VXLAN) 10.213." in render(found)
    assert "encrypted overlay" not in render(groups.small())


def test_when_a_session_ends_by_its_time_is_told() -> None:
    found = groups.small()
    assert not any(" ends " in line for line in status_table(found))
    train = next(session for session in found["sessions"] if session["name"] == "train")
    train["times"] = {"message": "2h after its start"}
    train["request"] = {**train["request"], "max_duration": 7200}
    assert "train ends 2h after its start." in status_table(found)
    page = re.sub("<[^>]*>", " ", render(found))
    assert re.search(r"End +2h after its start", page)
    assert re.search(r"Max duration +2h ", page)


def test_the_share_of_each_owner_is_told() -> None:
    found = groups.small()
    assert "Use of late" not in render(found)
    found["shares"] = [{"owner": "bob", "percent": 62, "use": 500}, {"owner": "<b>", "percent": 38, "use": 300}]
    for entry in found["pending"]:
        entry["share"] = 62
    assert any(line.startswith("1. large of bob (62 % of use), priority 5, ") for line in status_table(found))
    page = re.sub("<[^>]*>", "", render(found))
    assert "Use of late: bob 62 %, &lt;b&gt; 38 %" in page
    assert page.count("62 %") == 1 + len(found["pending"])


def test_who_waits_in_another_group_is_shown_apart_from_the_queue() -> None:
    found = groups.empty()
    advice = "It belongs to resource group pool_a. Run this with session_resource_group=pool_a."
    entry = {"session_name": "train", "owner": "alice", "resource_group": "pool_a", "reason": [advice]}
    found["waiting_elsewhere"] = [entry]
    lines = status_table(found)
    assert lines[-3:] == [
        "The queue is empty.",
        "Waiting elsewhere: train of alice, in resource group pool_a",
        f"   {advice}",
    ]
    assert f"train, elsewhere: {advice}" in re.sub("<[^>]*>", "", render(found))


def test_hosts_without_sessions_are_counted() -> None:
    lines = status_table(groups.empty())
    assert lines == [
        "Resource group cluster_compute_hosts: 1 host, 0 sessions, 0 waiting.",
        "",
        "1 host without sessions: 2 CPUs, 4 GiB free.",
    ]


def test_hosts_that_cannot_be_used_are_named_with_the_reason() -> None:
    group = groups.Group({"h1": {}, "h2": {}}, 2, 4)
    group.lose("h2", "It could not be reached.")
    lines = status_table(group.look())
    assert ["h2", "unusable", "-", "-", "-", "-"] in [line.split() for line in lines]
    assert "Attention: h2: no facts could be collected: It could not be reached." in lines


def test_of_very_many_hosts_only_what_needs_attention_is_listed(large: dict[str, Any]) -> None:
    lines = status_table(large)
    replicas = [replica for session in large["sessions"] for replica in session["replicas"]]
    ended = [replica for replica in replicas if replica["status"] != "RUNNING"]
    assert 0 < len(ended) < 10
    assert sum(" MISSING " in line or " UNKNOWN " in line for line in lines) == len(ended)
    hidden = len(replicas) - len(ended)
    assert f"Not listed, as they run: {hidden} replicas. session_name=NAME lists those of a session." in lines
    assert [line.split()[0] for line in lines if " unusable " in line] == ["node007", "node299"]
    (counted,) = [line for line in lines if " with sessions: " in line]
    assert counted.startswith(f"{sum(1 for host in large['hosts'] if host['usable'] and host['sessions'])} hosts with")
    place = lines.index("1. waits-5 of bob, priority 5, 505 replicas")
    assert lines[place + 1].startswith(
        "   505 replicas asked, mode multi-node: not enough room now. Largest size that "
    )
    assert lines[place + 2].startswith("2. waits-4 ")
    assert len(lines) < 100


def test_the_replicas_of_one_session_are_all_listed(large: dict[str, Any]) -> None:
    vast = [session for session in large["sessions"] if session["name"] == "vast"]
    assert sum(line.startswith("vast  ") for line in status_table({**large, "sessions": vast})) == 120 + 1


def test_no_value_reaches_the_terminal_as_anything_but_text() -> None:
    text = "\n".join(status_table(groups.hostile()))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\\x1b[31m" in text

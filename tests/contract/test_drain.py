# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host that is drained: nothing new gets a place there, what runs is repaired, and it says why."""

from __future__ import annotations

from ansible_collections.cluster_compute.session.tests.support.contract.on_host import Call, Host, output_of

WHY = {"reason": "new memory", "by": "alice"}


def test_a_drained_host_grants_no_place_and_keeps_what_runs(host: Host, call: Call) -> None:
    running = host.launch(size=1)
    held = host.plan(size=1, name="other")
    assert call("host_drain", True, **WHY)["actions"] == ["create drain new memory"]
    assert host.state.read_drain() is None
    done = call("host_drain", **WHY)
    assert (done["actions"], done["sessions"]) == (["create drain new memory"], ["demo"])
    assert not call("host_drain", **WHY)["changed"]
    assert call("host_drain", **{**WHY, "by": "bob"})["actions"] == ["update drain new memory"]
    facts = call("host_info")["host"]["drained"]
    assert (facts["reason"], facts["by"]) == ("new memory", "bob")
    refused = held.bring("held")
    assert not refused["granted"]
    assert refused["reasons"][0].endswith("): new memory")
    assert refused["tentative"] == []
    assert set(host.ledger.read()) == {running.id}
    output_of("docker", "rm", "-f", "demo-main1")
    assert running.repair()["actions"] == ["create container demo-main1"]
    assert call("host_drain", state="undrained")["actions"] == ["remove drain new memory"]
    assert not call("host_drain", state="undrained")["changed"]
    assert held.bring("held")["granted"]


def test_who_waits_for_an_empty_host_is_told_when_it_is_and_who_stays(host: Host, call: Call) -> None:
    session = host.launch(size=1)
    assert call("host_drain", **WHY, wait_seconds=1)["sessions"] == ["demo"]
    session.remove()
    assert call("host_drain", **WHY, wait_seconds=600)["sessions"] == []
    call("host_drain", state="undrained")


def test_a_damaged_note_is_no_reason_to_take_sessions(host: Host, call: Call) -> None:
    session = host.plan(size=1)
    host.state.drain_file.write_text("{", encoding="utf-8")
    refused = session.bring("held")
    assert "is damaged" in refused["reasons"][0]
    assert call("host_drain", **WHY)["actions"] == ["update drain new memory"]
    call("host_drain", state="undrained")


def test_a_suspect_host_says_so_until_a_session_is_started(host: Host, call: Call) -> None:
    try:
        assert call("host_suspect", check_mode=True, reason="A card is lost.")["changed"]
        assert call("host_info")["host"]["suspect"] is None
        assert call("host_suspect", reason="A card is lost.")["changed"]
        found = call("host_info")["host"]["suspect"]
        assert found["reason"] == "A card is lost."
        assert 0 < found["left"] <= 1800
        session = host.launch(size=1)
        assert call("host_info")["host"]["suspect"] is None
        call("host_suspect", reason="A card is lost.")
        assert session.repair()["actions"] == []
        assert call("host_info")["host"]["suspect"] is not None, "a repair is no proof"
    finally:
        call("host_suspect")
    assert not call("host_suspect")["changed"]

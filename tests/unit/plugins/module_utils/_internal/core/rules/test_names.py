# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules import names
from ansible_collections.cluster_compute.session.tests.support.plans import typed_plan

MEMBERS = ("main1", "sub1")
SUBNET = "10.128.0.0/24"
OWN = names.hosts_file(
    typed_plan(
        {
            "network": {},
            "replicas": [{"name": name, "address": f"10.128.0.{number}"} for number, name in enumerate(MEMBERS, 2)],
        }
    ).replicas
)


def test_every_replica_has_one_address_by_name() -> None:
    assert OWN.splitlines()[2:4] == ["10.128.0.2\tmain1", "10.128.0.3\tsub1"]


def corrected(found: str | None) -> str:
    return names.corrected(found, OWN, MEMBERS, SUBNET)


@pytest.mark.parametrize(
    ("added", "kept"),
    [
        ("127.0.0.1 main1 main1 sub1\n", ""),
        ("127.0.1.1\tMain1.lan main1 MAIN1\n", "127.0.1.1 Main1.lan\n"),
        ("8.8.8.8 sub1.\n", ""),
        (
            "192.0.2.1 licences licences.lan # ours\n# a word\n\n",
            "192.0.2.1 licences licences.lan # ours\n# a word\n\n",
        ),
        ("192.0.2.1 licences sub1 # ours\n", "192.0.2.1 licences\n"),
        ("10.128.0.9\tsub8\n::ffff:10.128.0.9 sub8.\n", ""),
        ("nonsense main1\nnonsense\n", "nonsense\n"),
        ("fe80::1%eth0 peer\n", "fe80::1%eth0 peer\n"),
        ("# a\u2028word\x0b8.8.8.8 main1\n", "# a\u2028word\x0b8.8.8.8 main1\n"),
    ],
)
def test_what_others_add_stays_but_for_names_and_addresses_of_the_session(added: str, kept: str) -> None:
    once = corrected(OWN + added)
    assert once == OWN + kept
    assert corrected(once) == once
    assert corrected(added + OWN) == once
    assert corrected(added) == once


def test_a_last_line_without_its_end_is_one() -> None:
    assert corrected(OWN + "192.0.2.1 last") == OWN + "192.0.2.1 last\n"


@pytest.mark.parametrize("found", [OWN, "", None])
def test_what_is_the_session_s_is_there_whatever_is_found(found: str | None) -> None:
    assert corrected(found) == OWN


def test_a_line_of_a_replica_that_has_left_goes_with_it() -> None:
    assert names.corrected(OWN, OWN.replace("10.128.0.3\tsub1\n", ""), ["main1"], SUBNET).count("sub1") == 1


def test_what_contradicts_is_named() -> None:
    text = OWN + "127.0.0.1 localhost main1 # sub1\n10.128.0.2 main1\n8.8.8.8 SUB1. other\n"
    assert names.contradictions(text, OWN, MEMBERS) == ["127.0.0.1 main1", "8.8.8.8 SUB1."]
    assert names.contradictions(None, OWN, MEMBERS) == []

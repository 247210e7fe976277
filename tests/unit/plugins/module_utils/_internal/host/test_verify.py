# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import firewall
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine_objects import (
    read_inspected,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import logins, verify
from ansible_collections.cluster_compute.session.tests.support.plans import typed_plan


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("", "It wrote nothing. Its program has to stay in the foreground."),
        ("\n \n", "It wrote nothing. Its program has to stay in the foreground."),
        ("one\ntwo\n", "Its last output:\n| one\n| two"),
        ("one\x0btwo\rthree\u2028four", "Its last output:\n| one\n| two\n| three\n| four"),
    ],
)
def test_every_line_that_a_program_wrote_is_marked_as_its_own(written: str, said: str) -> None:
    assert verify._last_output(written) == said


def test_a_long_line_is_cut_to_its_end() -> None:
    assert verify._last_output("x" * 99999 + "end") == f"Its last output:\n| {'x' * (verify.LONGEST_OUTPUT - 3)}end"


@pytest.mark.parametrize(
    ("nftables", "drops", "said"), [(True, True, "iptables -P FORWARD ACCEPT"), (True, False, ""), (False, True, "")]
)
def test_a_failed_login_names_the_policy_that_drops_what_an_engine_with_nftables_accepts(
    nftables: bool, drops: bool, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(firewall, "drops_forwarded", lambda: drops)
    monkeypatch.setattr(logins, "failures", lambda _engine, _pairs: ["main1 cannot log in to sub1"])
    monkeypatch.setattr(verify, "login_pairs", lambda _plan, _host: ([], []))
    engine: Any = SimpleNamespace(process=lambda: 0, uses_nftables=lambda: nftables)
    plan: Any = None
    with pytest.raises(verify.VerificationFailed) as raised:
        verify._prove_logins(engine, plan, "h1", verify.Waiting(0, lambda: None))
    assert ("firewall-backend" in str(raised.value)) is bool(said)
    assert said in str(raised.value)


def test_without_patience_nobody_waits_for_a_replica_that_may_need_others() -> None:
    found = read_inspected({"State": {"Status": "running", "Pid": os.getpid()}})
    engine: Any = SimpleNamespace(inspect=lambda _container: found)
    replica = {"name": "main1", "role": "main", "host": "h1", "container": "demo-main1"}
    role = {"name": "main", "ready_port": 1}
    plan = typed_plan({"request": {"roles": [role]}, "hosts": {"h1": {"replicas": ["main1"]}}, "replicas": [replica]})

    def waits() -> None:
        raise InterruptedError

    with pytest.raises(verify.PeersSilent, match="main1 on h1 is not ready"):
        verify.verify(engine, plan, "h1", 1e9, {}, verify.Waiting(0, waits))
    with pytest.raises(InterruptedError):
        verify.verify(engine, plan, "h1", 1e9, {}, verify.Waiting(1, waits))

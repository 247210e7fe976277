# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sessions as data: all of a resource group, or those of one name."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.action.session_info import ActionModule
from ansible_collections.cluster_compute.session.tests.support.in_process import run_action
from ansible_collections.cluster_compute.session.tests.support.recorded_hosts import BUSYBOX, HOSTS, RECORDED, launch


@pytest.mark.parametrize(("wanted", "found"), [("", ["late"]), ("late", ["late"]), ("other", [])])
def test_a_name_leaves_out_what_is_called_otherwise(wanted: str, found: list[str]) -> None:
    record = launch({"session_name": "late", "session_image": BUSYBOX, "session_size": 7})["pending"]
    answers: dict[str, Any] = {host: {"host": {**RECORDED[host], "records": [record]}} for host in HOSTS}
    variables = {"inventory_hostname": "n1", "hostvars": {host: {} for host in HOSTS}}
    overview = run_action(ActionModule, {"hosts": answers, "session_name": wanted}, variables)["overview"]
    assert [entry["session_name"] for entry in overview["pending"]] == found
    assert [session["name"] for session in overview["sessions"]] == found
    assert [host["name"] for host in overview["hosts"]] == list(HOSTS)

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a site loads into its Prometheus is right, by Prometheus' own tool. What hosts tell it is in test_queue."""

from __future__ import annotations

import subprocess

from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import CHECKOUT
from ansible_collections.cluster_compute.session.tests.support.integration_lab.monitoring import program

FOLDER = CHECKOUT / "extensions" / "monitoring"


def test_each_alert_fires_when_it_should_and_only_then() -> None:
    argv = [program("promtool"), "test", "rules", "alerts_test.yml"]
    done = subprocess.run(argv, cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    tests = (FOLDER / "alerts_test.yml").read_text(encoding="utf-8")
    rules = (FOLDER / "alerts.yml").read_text(encoding="utf-8")
    alerts = [line.split()[-1] for line in rules.splitlines() if "- alert:" in line]
    assert len(alerts) == 9
    assert [name for name in alerts if f"alertname: {name}\n        exp_alerts:\n" not in tests] == []

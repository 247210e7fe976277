# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is for other programs names what this collection has. Prometheus' own tool judges the rules on the lab."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.show import events, metrics
from ansible_collections.cluster_compute.session.plugins.plugin_utils.verbs import VERBS
from ansible_collections.cluster_compute.session.tests.support.core.show import looks

CHECKOUT = Path(__file__).resolve().parents[3]
MONITORING = CHECKOUT / "extensions" / "monitoring"
RULEBOOK = CHECKOUT / "extensions" / "eda" / "rulebooks" / "drain_on_alert.yml"


def metric_names() -> set[str]:
    """Return the names of all series that hosts write."""
    counted = metrics.after_call(metrics.Counted(), "host_drain", {}, {"failed": True}, 1.0)
    use = metrics.ReplicaUse("train", "main1", 1.0, 1, {"eth0": (1, 1)}, (("gpu", ("a",)),))
    waits = [looks.waiting(1, 0, looks.ID)]
    text = metrics.state_text(looks.look(), counted) + metrics.use_text([use])
    text += metrics.state_text(looks.look(records=waits), metrics.after_look(counted, waits, 1.0))
    families = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    return families | {re.split(r"[ {]", line)[0] for line in text.splitlines() if not line.startswith("#")}


@pytest.mark.parametrize(
    "path", [*sorted(MONITORING.iterdir()), CHECKOUT / "docs" / "monitoring.md"], ids=lambda path: path.name
)
def test_each_metric_that_is_named_is_one_that_hosts_write(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    named = set(re.findall(r"\bcluster_compute_[a-z_]+\b(?![.]prom)", text)) - {"cluster_compute_hosts"}
    artifacts = {"cluster_compute_event", "cluster_compute_events", "cluster_compute_session"}
    assert len(named) > 5
    assert sorted(named - metric_names() - artifacts) == []


def test_the_documentation_has_every_metric() -> None:
    text = (CHECKOUT / "docs" / "monitoring.md").read_text(encoding="utf-8")
    families = {name for name in metric_names() if not name.endswith(("_bucket", "_sum", "_count"))}
    short = {re.sub("^cluster_compute_(capacity|held)", "", name) for name in families}
    assert len(families) > 20
    assert sorted(name for name in short if f"{name}`" not in text) == []


def test_the_dashboard_asks_about_what_may_be_chosen() -> None:
    dashboard = json.loads((MONITORING / "grafana_dashboard.json").read_text(encoding="utf-8"))
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(dashboard["panels"])))
    assert used == variables == {"datasource", "host", "session"}
    places = [panel["gridPos"] for panel in dashboard["panels"]]
    assert len({(place["x"], place["y"]) for place in places}) == len(places)
    assert all(place["x"] + place["w"] <= 24 for place in places)


def test_the_rulebook_runs_playbooks_that_exist_with_variables_they_know() -> None:
    rulesets = yaml.safe_load(RULEBOOK.read_text(encoding="utf-8"))
    specs = yaml.safe_load((CHECKOUT / "roles/drain/meta/argument_specs.yml").read_text(encoding="utf-8"))
    known = specs["argument_specs"]["main"]["options"].keys() | {"session_resource_group"}
    seen: list[str] = []
    for rule in (rule for ruleset in rulesets for rule in ruleset["rules"]):
        for step in rule.get("actions") or [rule["action"]]:
            called: dict[str, Any] = step["run_playbook"]
            name = called["name"].removeprefix("cluster_compute.session.")
            assert (CHECKOUT / "playbooks" / f"{name}.yml").exists()
            assert called["extra_vars"].keys() <= known
            assert "|" not in json.dumps(called), "ansible-rulebook has not Ansible's filters"
            seen.append(name)
    assert seen == ["drain_hosts", "schedule_pending", "schedule_pending"]


def test_the_rulebook_hears_who_has_the_token_and_takes_names_alone() -> None:
    """What it hands on as a variable is a template to Ansible, and could run what it likes."""
    for ruleset in yaml.safe_load(RULEBOOK.read_text(encoding="utf-8")):
        # Playbooks are limited to these hosts, and check what they are asked on localhost.
        assert ruleset["hosts"] == "all,localhost"
        (source,) = ruleset["sources"]
        assert source["eda.builtin.webhook"]["host"] == "127.0.0.1"
        assert source["eda.builtin.webhook"]["token"].strip("{ }").endswith("_token")
        (rule,) = ruleset["rules"]
        handed_on = set(re.findall(r"event[\w.]+", json.dumps(rule.get("actions") or rule["action"])))
        names = dict(re.findall(r'(event[\w.]+) is match\("([^"]+)"\)', rule["condition"]))
        assert {path.removesuffix(".split") for path in handed_on} == names.keys()
        for pattern in names.values():
            assert re.match(pattern, "h1.example.org:9100" if ":" in pattern else "/cluster_compute/gpu_pool")
            for hostile in ("{{ x }}", "h1{{ x }}", "/cluster_compute/{{ x }}", "h1\n{{ x }}", "h1,h2", ""):
                assert not re.match(pattern, hostile)


def test_the_rulebook_waits_for_what_is_sent() -> None:
    text = RULEBOOK.read_text(encoding="utf-8")
    alerts = re.findall(r"- alert: (\w+)", (MONITORING / "alerts.yml").read_text(encoding="utf-8"))
    (alert,) = re.findall(r'alertname == "(\w+)"', text)
    assert alert in alerts
    (kind,) = re.findall(r'payload.type == "([^"]+)"', text)
    prefix, verb, outcome = kind.rsplit(".", 2)
    assert prefix == events.TYPE
    assert verb in VERBS
    assert outcome in (events.SUCCEEDED, events.WAITING, events.FAILED)


def test_users_get_what_is_for_them() -> None:
    left_out = yaml.safe_load((CHECKOUT / "galaxy.yml").read_text(encoding="utf-8"))["build_ignore"]
    for path in (RULEBOOK, *MONITORING.iterdir()):
        parts = [str(part) for part in (path.relative_to(CHECKOUT), *path.relative_to(CHECKOUT).parents)]
        assert [pattern for pattern in left_out for part in parts if fnmatch(part, pattern)] == [], path

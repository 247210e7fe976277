# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the inventory of replicas makes of an overview: names, groups, variables, and what it hands to the hosts."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleError
from ansible.inventory.data import InventoryData
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible.utils.display import Display
from ansible_collections.cluster_compute.session.plugins.inventory.sessions import InventoryModule, _as_yaml, _plain

try:
    from ansible.template import trust_as_template as as_template
except ImportError:  # before ansible-core 2.19 every text may be a template

    def as_template(text: str) -> str:
        """Return *text*."""
        return text


SITE: dict[str, dict[str, Any]] = {
    "gpu-1.example": {
        "inventory_hostname": "gpu-1.example",
        "ansible_host": "192.0.2.1",
        "ansible_user": "deploy",
        "cluster_compute_labels": {"rack": "r1"},
    },
    "n2": {"inventory_hostname": "n2"},
}


def replica(name: str, host: str = "n2", **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "role": name.rstrip("0123456789"),
        "index": 1,
        "rank": 0 if name == "main1" else 1,
        "local_rank": 0,
        "node_rank": 0,
        "host": host,
        "address": "10.213.0.2",
        "container": f"c-{name}",
        "image": "debian:12",
        "ports": [],
        "status": "RUNNING",
        **more,
    }


def session(name: str, *replicas: dict[str, Any], identity: str = "aaaaaaaa-0e04") -> dict[str, Any]:
    return {"name": name, "id": identity, "mode": "multi-node", "size": len(replicas), "replicas": list(replicas)}


def listed(*sessions: dict[str, Any], **options: Any) -> InventoryData:
    plugin = InventoryModule()
    plugin._options = {
        "sessions": [],
        "query": "",
        "resource_group": "cluster_compute_hosts",
        "strict": True,
        "compose": {},
        "groups": {},
        "keyed_groups": [],
        "use_extra_vars": False,
        "leading_separator": True,
        **options,
    }
    plugin.inventory = InventoryData()
    plugin.templar = Templar(loader=DataLoader())
    plugin._list({"sessions": list(sessions)}, SITE)
    plugin.inventory.reconcile_inventory()
    return plugin.inventory


def members(inventory: InventoryData, group: str) -> list[str]:
    return sorted(host.name for host in inventory.groups[group].get_hosts())


def variables(inventory: InventoryData, host: str) -> dict[str, Any]:
    found = inventory.get_host(host)
    assert found is not None
    return dict(found.get_vars())


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    warnings: list[str] = []
    monkeypatch.setattr(Display, "warning", lambda _self, text, *_more, **_others: warnings.append(text))
    return warnings


def test_replicas_are_in_the_groups_of_their_session_role_and_host() -> None:
    inventory = listed(
        session("train-big", replica("main1", "gpu-1.example"), replica("data-loader1")),
        session("serve", replica("main1")),
    )
    assert members(inventory, "cluster_compute_replicas") == [
        "serve-main1",
        "train-big-data-loader1",
        "train-big-main1",
    ]
    assert members(inventory, "session_train_big") == ["train-big-data-loader1", "train-big-main1"]
    assert members(inventory, "role_main") == ["serve-main1", "train-big-main1"]
    assert members(inventory, "role_data_loader") == ["train-big-data-loader1"]
    assert members(inventory, "host_gpu_1_example") == ["train-big-main1"]


def test_a_replica_has_its_connection_and_what_is_known_of_it() -> None:
    found = variables(listed(session("train", replica("main1", "gpu-1.example", image="{{ evil }}"))), "train-main1")
    assert found["ansible_connection"] == "cluster_compute.session.replica"
    assert found["ansible_become"] is False
    assert found["cluster_compute_host_variables"] == {
        "inventory_hostname": "gpu-1.example",
        "ansible_host": "192.0.2.1",
        "ansible_user": "deploy",
    }
    assert (found["cluster_compute_session"], found["cluster_compute_session_id"]) == ("train", "aaaaaaaa-0e04")
    assert (found["cluster_compute_replica"], found["cluster_compute_role"]) == ("main1", "main")
    assert (found["cluster_compute_host"], found["cluster_compute_rank"]) == ("gpu-1.example", 0)
    assert found["cluster_compute_container"] == "c-main1"
    image = Templar(loader=DataLoader(), variables={"evil": "templated"}).template(found["cluster_compute_image"])
    assert image == "{{ evil }}", "what a host says is data"


def test_names_that_would_be_alike_tell_the_sessions_apart() -> None:
    inventory = listed(
        session("train", replica("big-main1")), session("train-big", replica("main1"), identity="bbbbbbbb-0e04")
    )
    assert sorted(inventory.hosts) == ["train-big-main1-aaaaaaaa", "train-big-main1-bbbbbbbb"]


def test_only_the_sessions_that_are_asked_for_are_listed(warnings: list[str]) -> None:
    inventory = listed(
        session("train", replica("main1")), session("serve", replica("main1")), sessions=["train", "typo"]
    )
    assert sorted(inventory.hosts) == ["train-main1"]
    assert warnings == ["There is no session typo in group cluster_compute_hosts."]


def test_only_the_sessions_that_a_query_selects_are_listed() -> None:
    both = session("a", replica("main1")), session("b", replica("main1"), replica("sub1"))
    assert members(listed(*both, query="sessions[?size > `1`].name"), "cluster_compute_replicas") == [
        "b-main1",
        "b-sub1",
    ]
    assert members(listed(*both, query="sessions[].name", sessions=["a"]), "cluster_compute_replicas") == ["a-main1"]
    with pytest.raises(AnsibleError, match=r"query is 'sessions'. It has to select names of sessions, .* it selects"):
        listed(*both, query="sessions")
    with pytest.raises(AnsibleError, match=r"query is 'sessions\['. It ends too early"):
        listed(*both, query="sessions[")


def test_a_replica_whose_host_has_left_the_site_is_not_listed(warnings: list[str]) -> None:
    assert not listed(session("train", replica("main1", "gone"))).hosts
    assert warnings == ["Replica train-main1 is not listed: its host gone has left the site."]


def test_variables_and_groups_of_ones_own_are_made() -> None:
    inventory = listed(
        session("train", replica("main1"), replica("sub1")),
        compose={"is_main": as_template("cluster_compute_rank == 0"), "ansible_become": as_template("true")},
        groups={"leaders": as_template("is_main")},
        keyed_groups=[{"key": as_template("cluster_compute_status"), "prefix": "status"}],
    )
    assert members(inventory, "leaders") == ["train-main1"]
    assert members(inventory, "status_RUNNING") == ["train-main1", "train-sub1"]
    assert variables(inventory, "train-main1")["ansible_become"] is True


def test_a_wrong_expression_is_an_error_where_it_shall_be() -> None:
    with pytest.raises(AnsibleError, match="nonsense"):
        listed(session("train", replica("main1")), compose={"x": as_template("nonsense.value")})
    assert "x" not in variables(
        listed(session("train", replica("main1")), compose={"x": as_template("nonsense.value")}, strict=False),
        "train-main1",
    )


def test_what_is_handed_to_the_process_that_asks_is_no_template_and_keeps_its_types() -> None:
    class Loader(yaml.SafeLoader):
        """Reads the tag that says that a text is not to be templated."""

    unsafe: list[str] = []

    def read(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> str:
        unsafe.append(str(loader.construct_scalar(node)))
        return unsafe[-1]

    Loader.add_constructor("!unsafe", read)
    value = {"all": {"a": "{{ x }}", "b": [1, 0, 0.5, True, None, 'q"\\ü😀\n'], "c": {"d e": "2"}}}
    assert yaml.load(_as_yaml(value), Loader) == value  # noqa: S506 - a safe loader with one tag more
    assert unsafe == ["{{ x }}", 'q"\\ü😀\n', "2"]


@pytest.mark.parametrize("value", [0, 1.5, True, False, None, "0", ["a", {"b": 0}]])
def test_resolved_values_keep_their_types(value: Any) -> None:
    found = _plain(value)
    assert (found, type(found)) == (value, type(value))

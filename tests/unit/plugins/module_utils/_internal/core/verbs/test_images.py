# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What each host does next to get an image, and what is told of it."""

from __future__ import annotations

from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.answers import (
    ImagesAnswer,
    read_answers,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.launch_state import (
    ImageProgress,
    LaunchState,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.images import needs_of
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.launch_flow.distribution import (  # noqa: E501
    Distribution,
)
from ansible_collections.cluster_compute.session.tests.support.host_facts import typed

NAME = "registry.example/train:1"
IMAGE, DIGEST = "sha256:" + "1" * 64, "sha256:" + "d" * 64
SERVER = {"pid": 5, "start": 7}


def facts(*having: str) -> dict[str, dict[str, Any]]:
    known = {"id": IMAGE, "digests": [], "architecture": "amd64"}
    return {
        f"h{number}": {
            "engine": {"architecture": "x86_64", "image_store": "docker"},
            "images": {NAME: known if f"h{number}" in having else None},
            "underlay": {"address": f"192.0.2.{number}", "interface": "eth0", "mtu": 1500},
        }
        for number in (1, 2, 3)
    }


def plan_of(hosts: dict[str, dict[str, Any]], policy: str) -> LaunchState:
    needs = needs_of({NAME: list(hosts)}, typed(hosts), policy)
    return LaunchState(images=encode(needs), fetches=[host for host in hosts if host in needs[0].fetches])


class Launch:
    """One launch, step after step."""

    def __init__(self, hosts: dict[str, dict[str, Any]], policy: str = "missing", check_mode: bool = False) -> None:
        self.hosts = hosts
        self.plan = plan_of(hosts, policy)
        self.check_mode = check_mode
        self.before: ImageProgress | None = None

    def step(self, **results: Any) -> ImageProgress:
        """Take results, and return what is next."""
        step = Distribution(self.plan, typed(self.hosts), self.before, (8480, 8489), 40, self.check_mode)
        came = {kind: read_answers(ImagesAnswer, answers) for kind, answers in results.items()}
        step.resolved(came.get("resolved", {}))
        step.pulled(came.get("pulled", {}))
        step.arrived(came.get("served", {}), came.get("arrived", {}))
        self.before = found = step.result()
        return found


def test_one_asks_all_pull_and_who_cannot_is_helped() -> None:
    launch = Launch(facts())
    assert launch.step().asks == {"h1": [NAME]}
    state = launch.step(resolved={"h1": {"digests": {NAME: DIGEST}, "problems": {}}})
    assert set(state.pulls) == {"h1", "h2", "h3"}
    assert state.progress == "hosts: 3"
    got = {"pulled": {NAME: {"id": IMAGE, "bytes": 2_000_000, "seconds": 1.0}}, "problems": {}}
    state = launch.step(pulled={"h1": got, "h2": {"pulled": {}, "problems": {NAME: "no route"}}, "h3": {"msg": "gone"}})
    assert state.report == [
        f"h1 pulled {NAME} (2.0 MB in 1.0 s).",
        f"h2 could not pull {NAME}: no route.",
        f"h3 could not pull {NAME}: gone.",
    ]
    assert (state.pulls, set(state.serves), state.progress) == ({}, {"h1"}, "round 1 of 2, hosts: 1")
    assert state.addresses == {"h1": "192.0.2.1", "h2": "192.0.2.2"}
    first = {"bytes": 2_000_000, "seconds": 0.5}
    state = launch.step(served={"h1": {"port": 8480, "server": SERVER}}, arrived={"h2": first})
    assert (state.round, state.rounds, set(state.receives)) == (2, 2, {"h3"})
    state = launch.step(served={"h1": {"port": 8480, "server": SERVER}}, arrived={"h3": first})
    assert (state.receives, state.useless) == ({}, {})
    assert state.missing == {}
    pinned = state.images[NAME]
    assert pinned == {"digest": f"registry.example/train@{DIGEST}", "ids": dict.fromkeys(("h1", "h2", "h3"), IMAGE)}


def test_hosts_give_what_they_have_and_a_registry_is_asked_by_whom_they_fail() -> None:
    hosts = facts("h1")
    hosts["h1"]["images"][NAME]["digests"] = [f"registry.example/train@{DIGEST}"]
    launch = Launch(hosts)
    state = launch.step()
    assert (state.asks, state.pulls, set(state.receives)) == ({}, {}, {"h2"})
    served = {"h1": {"port": 8480, "server": SERVER}}
    state = launch.step(served=served, arrived={"h2": {"bytes": 1, "seconds": 0.1}})
    assert (state.pulls, set(state.receives)) == ({}, {"h3"})
    while state.receives:
        sender = state.receives["h3"].sender
        state = launch.step(served={sender: served["h1"]}, arrived={"h3": {"msg": "it ended before."}})
    assert {host: [pull.digest for pull in pulls] for host, pulls in state.pulls.items()} == {
        "h3": [f"registry.example/train@{DIGEST}"]
    }
    got = {"pulled": {NAME: {"id": IMAGE, "bytes": 2_000_000, "seconds": 1.0}}, "problems": {}}
    state = launch.step(pulled={"h3": got})
    assert (state.pulls, state.receives, state.missing) == ({}, {}, {})


def test_a_registry_that_gave_no_answer_is_not_asked_where_hosts_fail() -> None:
    hosts = facts("h1")
    del hosts["h3"]
    hosts["h1"]["images"][NAME]["digests"] = [f"registry.example/train@{DIGEST}"]
    launch = Launch(hosts)
    launch.plan.silent_registries = {"h2": ["registry.example"]}
    launch.step()
    state = launch.step(served={"h1": {"msg": "It cannot listen."}}, arrived={})
    assert (state.pulls, state.receives) == ({}, {})
    assert state.missing == {
        "h2": f"h1 cannot give {NAME} to h2: It cannot listen. registry.example gave no answer earlier in this run."
    }


def test_a_registry_that_refuses_is_told_for_every_host() -> None:
    launch = Launch(facts())
    launch.step()
    state = launch.step(resolved={"h1": {"digests": {}, "problems": {NAME: "unauthorized"}}})
    assert (state.asks, state.pulls, state.receives) == ({}, {}, {})
    assert all("h1 asked the registry: unauthorized" in why for why in state.missing.values())


def test_who_waits_in_vain_is_ended_and_the_reason_names_both_hosts() -> None:
    hosts = facts("h1")
    del hosts["h3"]
    launch = Launch(hosts, "never")
    assert set(launch.step().receives) == {"h2"}
    reason = "it cannot be reached at 192.0.2.1 port 8480 (No route to host)"
    state = launch.step(served={"h1": {"port": 8480, "server": SERVER}}, arrived={"h2": {"msg": reason}})
    assert state.useless == {"h1": [SERVER]}
    assert state.missing == {
        "h2": f"h2 did not get {NAME} from h1: {reason}. Hosts give images to each other on the TCP ports "
        "8480-8489 (cluster_compute_image_ports): open them between the hosts."
    }
    other = Launch(hosts, "never")
    other.step()
    state = other.step(served={"h1": {"msg": "It cannot listen."}}, arrived={})
    assert f"h1 cannot give {NAME} to h2: It cannot listen." in state.missing["h2"]
    assert state.useless == {}


def test_what_comes_to_another_store_has_an_id_of_its_own_there() -> None:
    hosts, own = facts("h1"), "sha256:" + "2" * 64
    del hosts["h3"]
    hosts["h1"]["engine"]["image_store"] = "containerd"
    hosts["h1"]["images"][NAME] = {**hosts["h1"]["images"][NAME], "content": "layers and configuration"}
    launch = Launch(hosts, "never")
    assert launch.step().receives["h2"].content == "layers and configuration"
    came = {"bytes": 1, "seconds": 0.1, "image": own}
    state = launch.step(served={"h1": {"port": 8480, "server": SERVER}}, arrived={"h2": came})
    assert (state.receives, state.missing) == ({}, {})
    assert state.images[NAME]["ids"] == {"h1": IMAGE, "h2": own}


def test_what_was_pulled_is_given_to_another_store() -> None:
    hosts = facts()
    del hosts["h3"]
    hosts["h2"]["engine"]["image_store"] = "containerd"
    launch = Launch(hosts)
    launch.step()
    launch.step(resolved={"h1": {"digests": {NAME: DIGEST}, "problems": {}}})
    got = {"id": IMAGE, "bytes": 1, "seconds": 0.1, "content": "layers and configuration"}
    state = launch.step(pulled={"h1": {"pulled": {NAME: got}, "problems": {}}, "h2": {"msg": "gone"}})
    assert {host: transfer.content for host, transfer in state.receives.items()} == {"h2": "layers and configuration"}


def test_who_serves_a_host_that_has_the_image_is_ended() -> None:
    """Its facts may not have told so, as where a record is damaged; nobody comes to such a server."""
    hosts = facts("h1")
    del hosts["h3"]
    launch = Launch(hosts, "never")
    launch.step()
    had = {"bytes": 0, "seconds": 0.0}
    state = launch.step(served={"h1": {"port": 8480, "server": SERVER}}, arrived={"h2": had})
    assert (state.useless, state.missing) == ({"h1": [SERVER]}, {})
    assert state.report == [f"h2 has {NAME} already."]


def test_check_mode_tells_what_would_be_done() -> None:
    launch = Launch(facts(), check_mode=True)
    launch.step()
    launch.step(resolved={"h1": {"digests": {NAME: DIGEST}, "problems": {}}})
    nothing: dict[str, Any] = {"pulled": {}, "problems": {}}
    state = launch.step(pulled=dict.fromkeys(("h1", "h2", "h3"), nothing))
    assert state.report == [f"{host} would pull registry.example/train@{DIGEST}." for host in ("h1", "h2", "h3")]
    assert state.missing == {}
    launch = Launch(facts("h1"), "never", check_mode=True)
    launch.step()
    nobody = {"port": 0, "server": {"pid": 0, "start": 0}}
    nothing = {"bytes": 0, "seconds": 0.0}
    state = launch.step(served={"h1": nobody}, arrived={"h2": nothing})
    assert (state.report, set(state.receives)) == ([f"h2 would get {NAME} from h1."], {"h3"})
    sender = state.receives["h3"].sender
    state = launch.step(served={sender: nobody}, arrived={"h3": nothing})
    assert state.report == [f"h3 would get {NAME} from {sender}."]
    assert (state.receives, state.useless, state.missing) == ({}, {}, {})

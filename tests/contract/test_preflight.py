# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host's part of preflight: what it sees of itself, and what two hosts find out about the way between them."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import firewall, image_stream
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import (
    Engine,
    EngineError,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import SessionError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.places import (
    RUNTIME_ON_HOST,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import (
    boot_install,
    data,
    engine_runtime,
    facts,
    preflight,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.boot_install import PATH
from ansible_collections.cluster_compute.session.tests.support.contract.on_host import (
    ADDRESSES,
    BUSYBOX,
    HERE,
    THERE,
    Host,
    Peer,
)
from ansible_collections.cluster_compute.session.tests.support.contract.preflight import (
    FIRST,
    LAST,
    ask,
    ask_peer,
    listening,
    plan,
)

# ---- alone ----------------------------------------------------------------------------------------------------------


def examined(host: Host, **given: Any) -> dict[str, Any]:
    answer = ask(host, "examined", **given)
    begun, ended = answer["times"]
    assert begun <= ended
    return dict(answer["observed"])


def test_a_host_that_is_ready_says_what_it_is(host: Host) -> None:
    found = examined(host, images=[BUSYBOX], paths=["/srv"], encryption=True)
    assert (found["root"], found["engine_problem"], found["underlay_problem"]) == (True, "", "")
    assert found["engine"]["root"] == "/var/lib/docker"
    assert found["host"]["usable"]
    assert found["packages"]["missing"] == []
    assert found["packages"]["runtime"] == ""
    assert (found["kernel"]["links"], found["kernel"]["rules"], found["kernel"]["forwarding"]) == ("", "", True)
    assert found["kernel"]["drops_forwarded"] is False  # with the engine's own rules
    assert isinstance(found["encryption"], str)
    assert found["disks"].keys() == {"images and containers", "state of sessions"}
    assert found["roots"].keys() == {"/srv"}
    assert found["nvidia"] == []
    assert found["underlay"]["interface"] == "eth0"
    assert found["underlay"]["address"] in found["addresses"]
    assert "encryption" not in examined(host)


def test_what_keeps_a_host_from_being_used_is_told_each_by_itself(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "10.199.0.2" in examined(host, underlay_address="10.199.0.2")["underlay_problem"]
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: 1000)
        assert examined(host) == {
            "root": False,
            "problem": "Ansible works on this host as uid 1000, and not as root.",
        }
    with monkeypatch.context() as patched:

        def refuse(*_arguments: object) -> None:
            raise EngineError("The engine is off.")

        patched.setattr(Engine, "connect", refuse)
        found = examined(host)
        assert (found["engine"], found["engine_problem"]) == (None, "The engine is off.")
        assert found["host"] == {"usable": False}
        assert found["subnets"], "the links say what there is"
        assert found["packages"]["runtime"] == ""
    with monkeypatch.context() as patched:
        patched.setattr(preflight, "PROGRAMS", {"no-such-program": "no-such-package"})
        patched.setattr(preflight, "RUNTIME_ON_HOST", "/no/such/runtime")
        patched.setitem(sys.modules, "cryptography", None)
        assert examined(host)["packages"]["missing"] == [
            "the package no-such-package",
            "the package python3-cryptography",
            "the SSH runtime /no/such/runtime",
        ]
        patched.setattr(facts, "RUNTIME_ON_HOST", "/no/such/runtime")
        problem = "This host lacks the SSH runtime /no/such/runtime. Run the prepare_hosts playbook."
        assert host.call("host_info")["host"]["problem"] == problem


def test_what_is_wrong_with_the_program_at_boot_and_the_runtime_is_told(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(boot_install, "PATH", "/no/such/program")
        assert examined(host)["packages"]["boot"].startswith("The program /no/such/program, which brings sessions")
    assert examined(host)["packages"]["boot"] == f"The program {PATH} is of another release of the collection."

    def refuse(*_arguments: object, **_more: object) -> Any:
        raise SessionError("Somebody else's.")

    monkeypatch.setattr(engine_runtime, "present_stages", lambda _engine: [["a step"]])
    monkeypatch.setattr(firewall, "try_matches", refuse)
    found = examined(host)
    assert "is not there, or not of this release" in found["packages"]["runtime"]
    assert found["kernel"]["rules"] == "Somebody else's."
    monkeypatch.setattr(engine_runtime, "present_stages", refuse)
    monkeypatch.setattr(boot_install, "install", refuse)
    packages = examined(host)["packages"]
    assert (packages["boot"], packages["runtime"]) == ("Somebody else's.", "Somebody else's.")


@pytest.mark.usefixtures("ssh_runtime")
def test_the_ssh_runtime_is_proven_by_running_it(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = examined(host)["packages"]
    assert (packages["ssh"], packages["ssh_release"]) == ("", "")
    runtime = tmp_path / "ssh-runtime"
    shutil.copytree(RUNTIME_ON_HOST, runtime)
    monkeypatch.setattr(preflight, "RUNTIME_ON_HOST", str(runtime))
    for lacking, said in (("selectors.pyc", "No module named 'selectors'"), ("libz.so.1", "libz.so.1")):
        (path,) = runtime.rglob(lacking)
        path.rename(tmp_path / lacking)
        found = examined(host)["packages"]["ssh"]
        assert found.startswith(f"The SSH runtime {runtime} does not work here: /opt/cluster-compute/")
        assert said in found
        (tmp_path / lacking).rename(path)
    manifest = runtime / "manifest"
    manifest.write_text(manifest.read_text().replace("form ", "form of another release "))
    packages = examined(host)["packages"]
    assert packages["ssh"] == ""
    assert packages["ssh_release"] == f"The SSH runtime {runtime} is of another release of the collection."
    assert list(tmp_path.glob(".*")) == []


# ---- with another host ----------------------------------------------------------------------------------------------


def test_two_hosts_hear_each_other_in_the_tunnel_at_ports_and_in_a_shared_folder(
    host: Host, peer: Peer, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = plan(ADDRESSES, shared)
    there = partial(ask_peer, peer, wanted=wanted)
    here = listening(wanted)
    assert (here["port"], here["udp"]) == (FIRST, 51990)
    assert (here["wrote"], here["problems"]) == ([str(shared)], {})
    other = there("listening")
    assert other["wrote"] == []
    known = {
        "ports": {HERE: here["port"], THERE: other["port"]},
        "udp_ports": {HERE: here["udp"], THERE: other["udp"]},
    }
    found = ask(host, "reached", plan=wanted, host=HERE, server=here["server"], **known)
    assert found == {"peers": {"1": {"problem": "", "mtu": 1500}}, "shared": {str(shared): True}}
    found = there("reached", server=other["server"], **known)
    assert (found["peers"], found["shared"]) == ({"0": {"problem": "", "mtu": 1500}}, {str(shared): True})
    measured = ask(host, "measured", plan=wanted, host=HERE, target=THERE, **known)["measured"]
    assert (measured["from"], measured["to"]) == (HERE, THERE)
    assert all(measured[key] > 0 for key in ("delay", "there", "back"))
    heard = {"tunnel": {"1": 1450}, "plain": {"1": 128}}
    assert ask(host, "ended", server=here["server"]) == {"heard": heard}
    assert there("ended", server=other["server"])["heard"] == {"tunnel": {"0": 1450}, "plain": {"0": 128}}
    assert list(shared.iterdir()) == [], "what was written has gone with the process"
    monkeypatch.setattr(data, "PROBE_SECONDS", 0.0)
    assert ask(host, "ended", server=here["server"]) == {"heard": None}
    with pytest.raises(SessionError, match="The process that holds the link is gone"):
        ask(host, "reached", plan=wanted, host=HERE, server=here["server"], **known)


@pytest.fixture
def own() -> dict[str, str]:
    """Return addresses of two hosts, both of them this one."""
    return {HERE: "127.0.0.1", THERE: "127.0.0.2"}


def test_what_cannot_be_begun_leaves_nothing(
    host: Host, own: dict[str, str], shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_stream, "PORT_WAIT", 0.0)
    with (
        socket.create_server((own[HERE], FIRST)),
        socket.create_server((own[HERE], LAST)),
        pytest.raises(SessionError, match=str(LAST)),
    ):
        ask(host, "listening", plan=plan(own, shared), host=HERE)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind((own[HERE], 51990))
        with pytest.raises(SessionError, match=r"It cannot listen: .* at 127\.0\.0\.1 port 51990\."):
            ask(host, "listening", plan=plan(own, shared), host=HERE)
    with pytest.raises(SessionError, match="mtu"):
        ask(host, "listening", plan=plan(own, shared, mtu=2**20), host=HERE)
    assert list(shared.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_told_and_keeps_nobody_from_listening(
    host: Host, own: dict[str, str], shared: Path
) -> None:
    wanted = plan(own, shared / "missing")
    here = listening(wanted)
    assert here["wrote"] == []
    assert list(here["problems"]) == [str(shared / "missing")]
    assert ask(host, "ended", server=here["server"]) == {"heard": {"tunnel": {}, "plain": {}}}


def test_who_does_not_listen_cannot_be_measured(host: Host, own: dict[str, str], shared: Path) -> None:
    with pytest.raises(SessionError, match=rf"127\.0\.0\.2 port {FIRST}: Connection refused\."):
        ask(host, "measured", plan=plan(own, shared), host=HERE, target=THERE, ports={THERE: FIRST})

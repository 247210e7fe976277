# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packets and connections over the loopback; links, which take root, are tried in the lab."""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import firewall, link, probe

TOKEN = secrets.token_hex(32)
LOCAL = "127.0.0.1"
ROLE = Path(__file__).resolve().parents[6] / "roles" / "prepare_hosts" / "vars" / "main.yml"


class Half(socket.socket):
    """A socket that loses every packet above a size, as a path of a smaller MTU does."""

    carries = 65536

    def sendto(self, data: bytes, address: tuple[str, int]) -> int:  # type: ignore[override]
        return super().sendto(data, address) if len(data) + probe.HEADERS <= self.carries else len(data)


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[probe._Process]:
    """Run what the process in the background does, in a thread."""
    monkeypatch.setattr(probe, "PAUSE", 0.05)
    listener = socket.create_server((LOCAL, 0))
    inside = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    inside.bind((LOCAL, 0))
    monkeypatch.setattr(probe, "PORT", inside.getsockname()[1])
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    control.bind(probe._door(TOKEN))
    control.listen(1)
    plain = probe._plain(LOCAL, 42280, 42289)
    made = probe._Process(listener, control, inside, plain, {LOCAL}, TOKEN)
    thread = threading.Thread(target=made.run, daemon=True)
    thread.start()
    yield made
    monkeypatch.setattr(probe, "IDLE", -1e9)
    thread.join(10)
    assert not thread.is_alive()
    for opened in (listener, inside, plain, control):
        opened.close()


def test_what_is_sent_is_heard_and_answered(process: probe._Process) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        tries = probe.Tries(channel, 7, TOKEN)
        assert tries.reach({LOCAL: 128}) == {LOCAL}
        assert process.heard[probe.TUNNEL] == {7: 128}
        assert tries.reach({LOCAL: 1450}) == {LOCAL}
        assert process.heard[probe.TUNNEL] == {7: 1450}
        assert probe.Tries(channel, 8, "x" * 64).reach({LOCAL: 128}, tries=1, wait=0.1) == set()
    assert process.heard[probe.TUNNEL] == {7: 1450}


def test_the_port_of_encrypted_sessions_is_heard_by_itself(process: probe._Process) -> None:
    assert process.plain is not None
    port = int(process.plain.getsockname()[1])
    with probe.outside(LOCAL) as channel:
        assert probe.Tries(channel, 7, TOKEN, {LOCAL: port}).reach({LOCAL: 128}) == {LOCAL}
    assert process.heard == {probe.TUNNEL: {}, probe.PLAIN: {7: 128}}
    with pytest.raises(probe.ProbeError, match=f"Address already in use at {LOCAL} port {port}"):
        probe._plain(LOCAL, port, port)


def test_the_size_up_to_which_packets_arrive_is_found(process: probe._Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "WAIT", 0.1)
    with Half(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        channel.carries = 1377
        tries = probe.Tries(channel, 7, TOKEN)
        assert tries.reach({LOCAL: 1450}, tries=1, wait=0.1) == set()
        tries.largest({LOCAL: 1450})
        assert process.heard[probe.TUNNEL] == {7: 1377}
        process.heard[probe.TUNNEL].clear()
        tries.spread({LOCAL: 1450})
        assert process.heard[probe.TUNNEL] == {7: max(size for size in probe.TUNNEL_SIZES if size <= 1377)}


def test_what_was_heard_is_told_once_and_then_it_ends(process: probe._Process) -> None:
    process.heard[probe.TUNNEL][3] = 1450
    # Nobody but root is told anything.
    assert probe.end({}, TOKEN) == ({"tunnel": {"3": 1450}, "plain": {}} if os.geteuid() == 0 else None)
    process.control.close()
    assert probe.end({}, TOKEN) is None


def test_connections_are_for_those_who_know_the_token(process: probe._Process) -> None:
    port = int(process.listener.getsockname()[1])
    good = probe.try_ports({LOCAL: port}, LOCAL, TOKEN)[LOCAL]
    assert good.problem == ""
    assert (good.mtu or 0) > 1500
    assert probe.try_ports({LOCAL: port}, LOCAL, "x" * 64)[LOCAL].problem
    process.peers = set()
    assert probe.try_ports({LOCAL: port}, LOCAL, TOKEN)[LOCAL].problem
    assert probe.try_ports({LOCAL: 1}, LOCAL, TOKEN)[LOCAL] == probe.Attempt("Connection refused")


def test_a_measurement_is_bounded_in_time_and_in_bytes(process: probe._Process) -> None:
    port = int(process.listener.getsockname()[1])
    begin = time.monotonic()
    found = probe.measure((LOCAL, port), LOCAL, TOKEN, 0.2, 10**12)
    assert time.monotonic() - begin < 10
    assert found["there"] > 1e6
    assert found["back"] > 1e6
    assert 0 < found["delay"] < 1
    begin = time.monotonic()
    probe.measure((LOCAL, port), LOCAL, TOKEN, 30, 10**6)
    assert time.monotonic() - begin < 10
    with pytest.raises(probe.ProbeError, match="port 1: Connection refused"):
        probe.measure((LOCAL, 1), LOCAL, TOKEN, 1, 1)


def test_what_is_tried_is_what_prepare_hosts_tries() -> None:
    prepared = yaml.safe_load(ROLE.read_text(encoding="utf-8"))
    assert prepared["prepare_hosts_links"] == link.PROBE
    assert prepared["prepare_hosts_rules"] == firewall.PROBE

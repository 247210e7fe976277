# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What listens is seen, by the kernel's answers and where they cannot be asked for."""

from __future__ import annotations

import os
import socket
import subprocess

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import listeners
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.listeners import (
    Listener,
    listening_addresses,
    listening_sockets,
    listens,
)


@pytest.fixture(params=["answers", "tables"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask the kernel, which root can, or read its tables."""

    def refuse(_pid: int) -> socket.socket:
        raise PermissionError

    if request.param == "tables":
        monkeypatch.setattr(listeners, "_socket_in_network_of", refuse)
    else:
        monkeypatch.delattr(listeners, "_in_tables")


def test_a_socket_listens_on_its_own_address_and_port_while_it_is_open() -> None:
    own = os.getpid()
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        assert not listens(own, "127.0.0.1", port)
        server.listen()
        assert listens(own, "127.0.0.1", port)
        assert not listens(own, "127.0.0.2", port)
        with socket.create_connection(("127.0.0.1", port)):
            assert listens(own, "127.0.0.1", port)
    assert not listens(own, "127.0.0.1", port)


# Java and others bind to IPv4 addresses so (ipv6(7)).
@pytest.mark.parametrize(
    ("address", "seen"),
    [("::", "::"), ("::1", "::1"), ("::ffff:127.0.0.1", "127.0.0.1"), ("::ffff:0.0.0.0", "0.0.0.0")],
)
def test_who_listens_by_ipv6_is_seen_as_well(address: str, seen: str) -> None:
    with socket.socket(socket.AF_INET6) as server:
        server.bind((address, 0))
        server.listen()
        assert listening_addresses(os.getpid(), server.getsockname()[1]) == {seen}
        assert f"socket:[{os.fstat(server.fileno()).st_ino}]" in listening_sockets(os.getpid())


def test_nothing_listens_where_there_is_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert not listens(2**22 + 1, "127.0.0.1", 22)


def test_another_network_has_listeners_of_its_own() -> None:
    text = "import socket; own = socket.create_server(('0.0.0.0', 7000)); print(flush=True); input()"
    argv = ["unshare", "--net", "python3", "-c", text]
    own = os.stat("/proc/self/ns/net").st_ino
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        (found,) = listeners.listeners(other.pid)
        assert found == Listener("0.0.0.0", 7000, found.inode)
        assert os.stat("/proc/self/ns/net").st_ino == own
        other.communicate(b"\n")

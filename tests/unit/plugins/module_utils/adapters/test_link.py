# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import socket

from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.link import listens


def test_a_socket_listens_on_its_own_address_and_port_while_it_is_open() -> None:
    own = os.getpid()
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
        assert not listens(own, "127.0.0.1", port)
        one.listen()
        assert listens(own, "127.0.0.1", port)
        assert not listens(own, "127.0.0.2", port)
        with socket.create_connection(("127.0.0.1", port)):
            assert listens(own, "127.0.0.1", port)
    assert not listens(own, "127.0.0.1", port)


def test_nothing_listens_where_there_is_no_process() -> None:
    assert not listens(2**22 + 1, "127.0.0.1", 22)

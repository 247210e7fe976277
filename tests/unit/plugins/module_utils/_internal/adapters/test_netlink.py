# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is said to the kernel, and how its answers end."""

from __future__ import annotations

import errno
import os
import socket
import struct

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.netlink import (
    ACK,
    attribute,
    attributes,
    exchange,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st


@settings(max_examples=100, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 2**15 - 1), st.binary(max_size=40)), max_size=8))
def test_attributes_read_back_as_they_were_written(some: list[tuple[int, bytes]]) -> None:
    assert list(attributes(b"".join(attribute(kind, value) for kind, value in some))) == some


@settings(max_examples=100, derandomize=True)
@given(st.binary(max_size=64))
@example(bytes(8))
def test_any_bytes_come_to_an_end(data: bytes) -> None:
    assert len(list(attributes(data))) <= len(data) // 4


def answer(kind: int, body: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 1, 0) + body + bytes(-len(body) % 4)


def test_answers_come_until_the_kernel_is_done_or_refuses() -> None:
    ours, kernels = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, kernels:
        kernels.send(answer(16, b"one") + answer(16, b"four"))
        kernels.send(answer(16, b"") + answer(3, bytes(4)) + answer(16, b"of another request"))
        assert list(exchange(ours, 18, ACK, b"body")) == [b"one", b"four", b""]
        assert struct.unpack_from("=IHH", kernels.recv(100)) == (20, 18, 5)
        kernels.send(answer(2, struct.pack("=i", -errno.EPERM)))
        with pytest.raises(PermissionError, match=os.strerror(errno.EPERM)):
            list(exchange(ours, 18, ACK, b""))
        kernels.send(answer(16, b"one") + answer(2, bytes(4)))
        assert list(exchange(ours, 18, ACK, b"")) == [b"one"], "0 is no error, but the end"

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Messages to the kernel and their attributes (netlink(7)).

`first_address` has its own, as it is a program by itself.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator

REQUEST, ACK, DUMP = 0x1, 0x4, 0x300
NESTED = 0x8000
_ERROR, _DONE = 2, 3


def attribute(kind: int, *values: bytes) -> bytes:
    """Return an attribute, filled up to four bytes."""
    value = b"".join(values)
    return struct.pack("=HH", len(value) + 4, kind) + value + bytes(-len(value) % 4)


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and value of each attribute in *data*."""
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if length < 4:
            return
        yield kind & ~NESTED, data[4:length]
        data = data[(length + 3) & ~3 :]


def exchange(channel: socket.socket, kind: int, flags: int, body: bytes) -> Iterator[bytes]:
    """Send a request, and yield the bodies of its answers. Raises OSError with the kernel's error."""
    channel.send(struct.pack("=IHHII", len(body) + 16, kind, REQUEST | flags, 1, 0) + body)
    while True:
        data = channel.recv(1 << 18)
        while data:
            length, answer = struct.unpack_from("=IH", data)
            if answer == _ERROR:
                (code,) = struct.unpack_from("=i", data, 16)
                if code:
                    raise OSError(-code, os.strerror(-code))
            if answer in (_ERROR, _DONE):
                return
            yield data[16:length]
            data = data[(length + 3) & ~3 :]

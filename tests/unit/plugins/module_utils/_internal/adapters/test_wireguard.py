# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keys of the tunnel, and what is said to the kernel's WireGuard and read of its answers."""

from __future__ import annotations

import base64
import ipaddress
import os
import stat
import struct
from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import link, state, wireguard
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.link import LinkError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.netlink import (
    attribute,
    attributes,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.wireguard import (
    Peer,
    create_key,
    decode_key,
    parse_device,
    problem,
    read_public_key,
)

ANSWER = (
    "060006004dee0000080007000000000008000100030000001000020063636533363134666466330024000300000000000000000000000000"
    "0000000000000000000000000000000000000000240004001ebd4cf5007c19ed9e5de8ad1018bcf02c45c7990521967373b21453462a6652"
    "cc000880c800008024000100e29f234bd9ffd21fbf42dbcf4c06ed110a19c9f21a92672faef53f2ccda1637d240002000000000000000000"
    "000000000000000000000000000000000000000000000000140006008929026b000000003aa5971a0000000006000500000000000c000800"
    "880f0000000000000c000700b80300000000000008000a0001000000140004000200ee4dc000020200000000000000002c00098028000080"
    "0500030080000000060001000a00000014000200fe800000000000000000000000000002"
)
"""What Linux 6.1 says of a link on port 61005 with a peer fe80::2 at 192.0.2.2, its private key blanked out."""
PEER = "4p8jS9n/0h+/QtvPTAbtEQoZyfIakmcvrvU/LM2hY30="


@pytest.fixture
def own_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files be written by whoever runs the tests."""
    me, write = (os.getuid(), os.getgid()), state.write_file
    monkeypatch.setattr(wireguard, "write_file", lambda path, text, mode: write(path, text, mode, me))


def test_an_answer_of_the_kernel() -> None:
    device = wireguard._DeviceFound(0, None, {})
    parse_device(bytes.fromhex(ANSWER), device)
    assert (device.port, device.public_key) == (61005, "Hr1M9QB8Ge2eXeitEBi88CxFx5kFIZZzc7IUU0YqZlI=")
    assert list(device.peers) == [PEER]
    assert device.peers[PEER].addresses == {"fe80::2"}
    assert device.peers[PEER].traffic == wireguard.Traffic(handshake=1795303817, received=952, sent=3976)


@pytest.mark.parametrize(
    ("endpoint", "wanted"),
    [
        ("192.0.2.2", struct.pack("=H", 2) + struct.pack("!H", 61005) + bytes([192, 0, 2, 2]) + bytes(8)),
        (
            "2001:db8::2",
            struct.pack("=H", 10)
            + struct.pack("!HI", 61005, 0)
            + ipaddress.ip_address("2001:db8::2").packed
            + bytes(4),
        ),
    ],
)
def test_what_the_kernel_is_told_of_a_peer(endpoint: str, wanted: bytes) -> None:
    ((_kind, inner),) = attributes(wireguard._peer_attribute(Peer(PEER, "fe80::2", endpoint), 61005))
    peer = dict(attributes(inner))
    assert peer[wireguard._PEER_ENDPOINT] == wanted
    assert peer[wireguard._PEER_KEEPALIVE] == struct.pack("=H", 25)
    device = wireguard._DeviceFound(0, None, {})
    parse_device(attribute(wireguard._DEVICE_PEERS, attribute(1, inner)), device)
    assert device.peers[PEER].addresses == {"fe80::2"}


def test_the_public_half_is_that_of_rfc_7748(tmp_path: Path) -> None:
    """Section 6.1 has a private key of Bob and what is public of it."""
    private = "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"
    path = tmp_path / "tunnel.key"
    path.write_text(base64.b64encode(bytes.fromhex(private)).decode(), encoding="ascii")
    public = "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
    assert decode_key(read_public_key(path) or "").hex() == public


def test_a_key_is_made_once_and_read_by_its_owner_only(tmp_path: Path, own_files: None) -> None:
    path = tmp_path / "tunnel.key"
    assert read_public_key(path) is None
    public = create_key(path)
    assert read_public_key(path) == public
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert public not in path.read_text(encoding="ascii")
    assert create_key(path) != public


@pytest.mark.parametrize("content", ["", "AAAA", "no key", "A" * 44, "\x00", base64.b64encode(bytes(33)).decode()])
def test_a_damaged_key_file_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "tunnel.key"
    path.write_text(content, encoding="ascii")
    with pytest.raises(LinkError, match=f"The key file {path} holds no WireGuard key.*session_regenerate_keys=true"):
        read_public_key(path)


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        (None, ""),
        (
            "Error: Unknown device type.\nCommand failed -:1",
            "Its kernel has no WireGuard ('ip link add type wireguard'",
        ),
        (
            "RTNETLINK answers: Operation not supported\nCommand failed -:3",
            "Its kernel cannot make a VXLAN over IPv6 in a WireGuard link (",
        ),
    ],
)
def test_why_a_host_cannot_is_told(message: str | None, wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], stdin: str) -> str:
        assert command == ["unshare", "--net", "ip", "-batch", "-"]
        if message is not None:
            raise LinkError(f"'{' '.join(command)}' with input {stdin!r} failed with status 1: {message}")
        return ""

    monkeypatch.setattr(link, "run", run)
    assert problem().startswith(wanted)
    assert bool(problem()) == bool(wanted)
    assert "\n" not in problem()

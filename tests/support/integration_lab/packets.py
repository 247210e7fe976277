# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Build packets by hand, as an attacker does, and send them from a network namespace."""

from __future__ import annotations

import ipaddress
import socket
import struct
from typing import Any

IPV4 = 0x0800
IPV6 = 0x86DD
UDP = 17
DESTINATION_OPTIONS = 60
MORE_FRAGMENTS = 0x2000

Shot = dict[str, Any]
"""One thing to send, as `SENDER` takes it."""

SENDER = """
import json, socket, sys
for shot in json.loads(sys.argv[1]):
    data = bytes.fromhex(shot["data"])
    try:
        if shot["way"] == "tcp":
            with socket.create_connection(tuple(shot["to"]), timeout=1) as channel:
                channel.sendall(data)
        elif shot["way"] == "frame":
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as channel:
                channel.bind((shot["to"], 0))
                channel.send(data)
        else:
            raw = shot["way"] == "raw"
            kind = (socket.SOCK_RAW, socket.IPPROTO_RAW) if raw else (socket.SOCK_DGRAM, 0)
            with socket.socket(socket.AF_INET, *kind) as channel:
                for number in range(shot.get("count", 1)):
                    channel.sendto(data, tuple(shot["to"]))
    except OSError as error:
        print(shot["way"], shot["to"], error)
"""
"""A program that sends what its argument holds; what the kernel refuses, or nobody answers, it only says."""

LISTENER = """
import select, socket, sys


def note(data):
    heard.write(data.decode("ascii", "replace").encode("ascii", "replace") + b"\\n")


ears = []
for port in sys.argv[2:]:
    for family, everywhere in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
            channel = socket.socket(family, kind)
            channel.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                channel.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            channel.bind((everywhere, int(port)))
            if kind == socket.SOCK_STREAM:
                channel.listen()
            ears.append(channel)
with open(sys.argv[1], "wb", buffering=0) as heard:
    heard.write(b"ready\\n")
    while True:
        for channel in select.select(ears, [], [])[0]:
            if channel.type == socket.SOCK_STREAM:
                talk, _whom = channel.accept()
                talk.settimeout(2)
                try:
                    note(talk.recv(2000))
                except OSError:
                    pass
                talk.close()
            else:
                note(channel.recv(2000))
"""
"""A program that writes down, in the file that is its first argument, what comes to the ports that follow."""


def datagram(to: str, port: int, data: bytes) -> Shot:
    """Return a UDP datagram from an ordinary socket."""
    return {"way": "udp", "to": [to, port], "data": data.hex()}


def stream(to: str, port: int, data: bytes) -> Shot:
    """Return a TCP connection that sends *data*."""
    return {"way": "tcp", "to": [to, port], "data": data.hex()}


def raw(packet: bytes) -> Shot:
    """Return an IPv4 packet with whatever source it names."""
    return {"way": "raw", "to": [str(ipaddress.IPv4Address(packet[16:20])), 0], "data": packet.hex()}


def on_wire(interface: str, frame: bytes) -> Shot:
    """Return an Ethernet frame with whatever addresses it names."""
    return {"way": "frame", "to": interface, "data": frame.hex()}


def udp(port: int, data: bytes) -> bytes:
    """Return a UDP datagram without a checksum (RFC 768 allows that over IPv4)."""
    return struct.pack("!HHHH", 40000, port, 8 + len(data), 0) + data


def ipv4(source: str, target: str, payload: bytes, options: bytes = b"", fragment: int = 0, number: int = 7) -> bytes:
    """Return an IPv4 packet that carries UDP. fragment: flags and offset (RFC 791)."""
    words = 5 + len(options) // 4
    head = struct.pack(
        "!BBHHHBBH4s4s",
        *(0x40 | words, 0, 4 * words + len(payload), number, fragment, 64, UDP, 0),
        *(socket.inet_aton(source), socket.inet_aton(target)),
    )
    sums = sum(struct.unpack(f"!{2 * words}H", head + options))
    sums = (sums & 0xFFFF) + (sums >> 16)
    sums = ~((sums & 0xFFFF) + (sums >> 16)) & 0xFFFF
    return head[:10] + struct.pack("!H", sums) + head[12:] + options + payload


def ipv6(source: str, target: str, port: int, data: bytes, options: bool = False) -> bytes:
    """Return an IPv6 packet that carries UDP, with an empty header of options before that or not (RFC 8200)."""
    addresses = socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, target)
    head = struct.pack("!HHHH", 40000, port, 8 + len(data), 0)
    pseudo = addresses + struct.pack("!II", 8 + len(data), UDP) + head + data + b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(pseudo) // 2}H", pseudo))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    payload = head[:6] + struct.pack("!H", ~total & 0xFFFF) + data
    between = struct.pack("!BBBB4x", UDP, 0, 1, 4) if options else b""
    kind = DESTINATION_OPTIONS if options else UDP
    return struct.pack("!IHBB", 6 << 28, len(between + payload), kind, 64) + addresses + between + payload


def in_fragments(source: str, target: str, payload: bytes) -> list[bytes]:
    """Return a packet in two fragments: the UDP header alone, and what it carries."""
    return [
        ipv4(source, target, payload[:8], fragment=MORE_FRAGMENTS),
        ipv4(source, target, payload[8:], fragment=1),
    ]


def ethernet(source: str, target: str, packet: bytes) -> bytes:
    """Return an Ethernet frame with an IP packet."""
    addresses = bytes.fromhex(target.replace(":", "")) + bytes.fromhex(source.replace(":", ""))
    return addresses + struct.pack("!H", IPV4 if packet[0] >> 4 == 4 else IPV6) + packet


def vxlan(vni: int, frame: bytes) -> bytes:
    """Return what UDP carries in a VXLAN tunnel (RFC 7348)."""
    return struct.pack("!II", 0x08000000, vni << 8) + frame

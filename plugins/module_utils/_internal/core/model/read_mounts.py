# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Mounts and published ports as users write them: text as Docker takes it, or mappings."""

from __future__ import annotations

import ipaddress
import posixpath
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ..values.errors import InvalidInput, show
from ..values.parse import (
    Reader,
    is_given,
    is_plain,
    numbers_as_text,
    parse_bool,
    parse_choice,
    parse_integer,
    parse_list,
)
from ..values.places import DIRECTORY, PROFILE, RUNTIME, SSH_CLIENT_FRAGMENT
from ..values.ports import EVERY_ADDRESS, ports_collide
from .mounts import LOCAL_DRIVER, Mount, Port

PROTOCOLS = ("tcp", "udp", "sctp")
REMOTE_TYPES = ("beegfs", "ceph", "cifs", "lustre", "nfs", "nfs4", "smb3", "tmpfs")
"""File systems that the local driver may mount for a session: they give no access to a folder or disk of the host. The
driver passes type, device and options to mount(2), so bind, overlay or a disk's own type would bypass the roots."""

_PATH_KEYS = ("source", "target", "read_only", "owner", "mode", "shared")
_VOLUME_KEYS = ("volume", "target", "read_only", "owner", "mode", "driver", "driver_options")
_PORT_KEYS = ("host_port", "container_port", "host_ip", "protocol")
_LOCAL_OPTIONS = ("type", "o", "device")
_FORBIDDEN_FLAGS = ("bind", "rbind", "loop", "move", "remount")
_PROPAGATION = tuple(start + kind for start in ("", "r") for kind in ("shared", "slave", "private", "unbindable"))
_VOLUME_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{1,254}")
_OWNER = re.compile(r"([0-9]{1,10}):([0-9]{1,10})")
_MODE = re.compile(r"0?([0-3]?[0-7]{3})")
_PORT = re.compile(r"(?:(\[[0-9A-Fa-f:.]+\]|[0-9.]+):)?(?:([0-9]{1,9}):)?([0-9]{1,9})")
_Volume = tuple[str, str, tuple[tuple[str, str], ...]]
_UNREAD: _Volume = ("", "", ())
_OWN_FILES = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf", SSH_CLIENT_FRAGMENT, PROFILE)
_OWN_TREES = (DIRECTORY, RUNTIME, "/proc", "/sys", "/dev")


def parse_mounts(variable: str, value: object) -> tuple[Mount, ...]:
    """Return mounts, sorted by target. Raises InvalidInput with every problem."""
    reader = Reader()
    mounts: list[Mount] = []
    for position, entry in enumerate(parse_list(variable, value)):
        place = f"{variable}[{position}]"
        mount = reader.attempt(partial(_mount, place, entry), None)
        if mount is None:
            continue
        for other in mounts:
            if mount.target == other.target:
                reader.add(place + ".target", mount.target, "Another mount has the same target.")
            same = (mount.source, mount.volume) == (other.source, other.volume)
            if same and replace(mount, target=other.target, read_only=other.read_only) != other:
                message = "Another mount of it differs in more; only target and read_only may differ."
                reader.add(place, mount.source or mount.volume, message)
        mounts.append(mount)
    return reader.finish(tuple(sorted(mounts, key=lambda mount: mount.target)))


def _mount(variable: str, entry: object) -> Mount:
    reader = Reader()
    values = _mount_values(variable, entry)
    is_volume = is_given(values.get("volume"))
    if is_volume and is_given(values.get("source")):
        raise InvalidInput.single(variable + ".volume", values["volume"], "It is a source or a volume, not both.")
    _check_keys(reader, variable, values, is_volume)

    def read(key: str, parse: Any, fallback: Any = None) -> Any:
        if not is_given(values.get(key)):
            return fallback
        return reader.attempt(lambda: parse(f"{variable}.{key}", values[key]), fallback)

    read_only = read("read_only", parse_bool, False)
    source = None if is_volume else reader.attempt(lambda: _path(variable + ".source", values.get("source")), None)
    target = reader.attempt(lambda: _target(variable + ".target", values.get("target")), "/")
    owner, mode = read("owner", _owner), read("mode", _mode)
    if not is_volume:
        return reader.finish(
            Mount(source, target, read_only, owner=owner, mode=mode, shared=read("shared", parse_bool))
        )
    name, driver, options = reader.attempt(lambda: _volume(variable, values), _UNREAD)
    if (options or driver not in (LOCAL_DRIVER, "")) and (owner or mode):
        # The files of such a driver are not at the volume's place on the host before a container uses it.
        message = (
            "Only volumes of the local driver without options are given them. Others take them as options, "
            "if at all, such as o: uid=1000,mode=0770."
        )
        reader.add(variable + (".owner" if owner else ".mode"), owner or mode, message)
    return reader.finish(Mount(None, target, read_only, name, driver, options, owner, mode))


def _check_keys(reader: Reader, variable: str, values: Mapping[str, Any], is_volume: bool) -> None:
    """Record keys that are unknown, or of the other kind of mount; in its JSON form a mount has those without value."""
    keys = _VOLUME_KEYS if is_volume else _PATH_KEYS
    others = {*_PATH_KEYS, *_VOLUME_KEYS}.difference(keys)
    meant = {key: given for key, given in values.items() if key not in others or (is_given(given) and given != {})}
    if is_volume and "shared" in meant:
        message = "It is for a source; a volume has its driver for that."
        reader.add(variable + ".shared", meant.pop("shared"), message)
    reader.unknown_keys(variable, meant, keys)


def _mount_values(variable: str, entry: object) -> Mapping[str, Any]:
    """Return the keys of a mount that is a mapping or text."""
    if isinstance(entry, Mapping):
        return entry
    if not isinstance(entry, str):
        message = "It must be a mapping of source, target and read_only, or text such as source:target:ro."
        raise InvalidInput.single(variable, entry, message)
    source, *rest = entry.strip().split(":")
    flags = rest[1:]
    access = [flag for flag in flags if flag in ("ro", "rw")]
    if not rest or len(access) > 1 or sorted(flags) not in (sorted(access), sorted([*access, "local"])):
        message = "It must read source:target, and then :ro or :rw and :local where that is meant."
        raise InvalidInput.single(variable, entry, message)
    # As with Docker, a source without '/' is the name of a volume.
    values = {"source" if "/" in source else "volume": source, "target": rest[0], "read_only": "ro" in flags}
    return {**values, "shared": False} if "local" in flags else values


def _path(variable: str, value: object) -> str:
    if not isinstance(value, str) or not value.startswith("/"):
        raise InvalidInput.single(variable, value, "It must be an absolute path, one that begins with '/'.")
    if not is_plain(value) or len(value.encode("utf-8")) > 4095:
        message = "It must hold no control characters and be no longer than 4095 bytes."
        raise InvalidInput.single(variable, value, message)
    if ".." in value.split("/"):
        raise InvalidInput.single(variable, value, "It must not hold '..'.")
    return "/" + posixpath.normpath(value).lstrip("/")


def _target(variable: str, value: object) -> str:
    path = _path(variable, value)
    hidden = [own for own in _OWN_FILES + _OWN_TREES if own == path or own.startswith(path.rstrip("/") + "/")]
    hidden += [own for own in _OWN_TREES if path.startswith(own + "/")]
    if hidden:
        raise InvalidInput.single(variable, value, f"It would hide {hidden[0]}, which every replica needs.")
    return path


def _owner(variable: str, value: object) -> str:
    match = _OWNER.fullmatch(value.strip()) if isinstance(value, str) else None
    # The last number means "do not change" to chown(2).
    if match is None or any(int(number) >= 2**32 - 1 for number in match.groups()):
        message = "It must be the numbers of a user and a group in quotes, such as '1000:1000'."
        raise InvalidInput.single(variable, value, message)
    return "{}:{}".format(*map(int, match.groups()))


def _mode(variable: str, value: object) -> str:
    match = _MODE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        message = "It must be three or four octal digits in quotes, such as '0770' or '2775'."
        raise InvalidInput.single(variable, value, message)
    return match.group(1).rjust(4, "0")


def _volume(variable: str, values: Mapping[str, Any]) -> _Volume:
    """Return name, driver and options of a volume."""
    name = values.get("volume")
    if not isinstance(name, str) or _VOLUME_NAME.fullmatch(name.strip()) is None:
        message = (
            "The name of a volume has 2 to 255 characters: letters, digits, '_', '.' and '-', a letter or digit "
            "first. A folder of the hosts is a source, an absolute path."
        )
        raise InvalidInput.single(variable + ".volume", name, message)
    driver = values.get("driver") if is_given(values.get("driver")) else LOCAL_DRIVER
    if not isinstance(driver, str) or not is_plain(driver) or len(driver) > 255:
        message = "It must be the name of a volume driver, such as local."
        raise InvalidInput.single(variable + ".driver", driver, message)
    place = variable + ".driver_options"
    given = values.get("driver_options") or {}
    if not isinstance(given, Mapping):
        message = "It must be a mapping of text to text, such as {type: nfs, device: ':/export'}."
        raise InvalidInput.single(place, given, message)
    reader = Reader()
    options: dict[str, str] = {}
    for key, value in given.items():
        text = numbers_as_text(value)
        if not isinstance(key, str) or not isinstance(text, str) or not is_plain(key) or not is_plain(text):
            reader.add(f"{place}.{show(key)}", text, "It must be text; put quotes around the value.")
            continue
        options["".join(key)] = "".join(text)
    if driver.strip() == LOCAL_DRIVER:
        _check_local_options(reader, place, options)
    return reader.finish(("".join(name.strip()), "".join(driver.strip()), tuple(sorted(options.items()))))


def _check_local_options(reader: Reader, variable: str, options: Mapping[str, str]) -> None:
    """Reject options that would make the local driver mount a folder or a disk of the host."""
    reader.unknown_keys(variable, options, _LOCAL_OPTIONS)
    kind, device = options.get("type"), options.get("device", "")
    if options and kind not in REMOTE_TYPES:
        reader.add(
            f"{variable}.type",
            kind,
            f"It must be one of {', '.join(REMOTE_TYPES)}: others reach folders or disks of the host itself. Mount "
            "a folder of the hosts by its path, as a source.",
        )
    if device.startswith("/") and not (kind in ("cifs", "smb3") and device.startswith("//")):
        message = "It must not be a path of the host. Mount a folder of the hosts by its path, as a source."
        reader.add(f"{variable}.device", device, message)
    for flag in options.get("o", "").split(","):
        if flag.strip() in _FORBIDDEN_FLAGS + _PROPAGATION:
            reader.add(f"{variable}.o", options["o"], f"The option {flag.strip()} is not for sessions.")


def parse_ports(variable: str, value: object) -> tuple[Port, ...]:
    """Return published ports, sorted. Raises InvalidInput with every problem."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = [value]
    reader = Reader()
    ports: list[Port] = []
    for position, entry in enumerate(parse_list(variable, value)):
        place = f"{variable}[{position}]"
        port = reader.attempt(partial(_port, place, entry), None)
        if port is None:
            continue
        if any(
            ports_collide(port.host_ip, port.host_port, port.protocol, other.host_ip, other.host_port, other.protocol)
            for other in ports
        ):
            message = f"Port {port.host_port}/{port.protocol} of the host is published twice."
            reader.add(place, entry, message)
        ports.append(port)
    return reader.finish(tuple(sorted(ports, key=lambda port: (port.host_port, port.protocol, port.host_ip))))


def _port(variable: str, entry: object) -> Port:
    reader = Reader()
    values = _port_values(variable, entry)
    reader.unknown_keys(variable, values, _PORT_KEYS)
    container_port, host_ip, protocol = (values.get(key) for key in ("container_port", "host_ip", "protocol"))
    inside = reader.attempt(lambda: parse_integer(variable + ".container_port", container_port, 1, 65535), 0)
    outside = inside
    if is_given(values.get("host_port")):
        outside = reader.attempt(lambda: parse_integer(variable + ".host_port", values["host_port"], 1, 65535), 0)
    address = EVERY_ADDRESS
    if is_given(host_ip):
        try:
            address = str(ipaddress.ip_address(host_ip.strip() if isinstance(host_ip, str) else ""))
        except ValueError:
            message = "It must be an IP address of main1's host, or 0.0.0.0 for all."
            reader.add(variable + ".host_ip", host_ip, message)
    if isinstance(protocol, str):
        protocol = protocol.strip().lower()
    chosen = PROTOCOLS[0]
    if is_given(protocol):
        chosen = reader.attempt(lambda: parse_choice(variable + ".protocol", protocol, PROTOCOLS), chosen)
    return reader.finish(Port(address, outside, inside, chosen))


def _port_values(variable: str, entry: object) -> Mapping[str, Any]:
    """Return the keys of a port that is a mapping, text or a number."""
    if isinstance(entry, Mapping):
        return entry
    if isinstance(entry, int) and not isinstance(entry, bool):
        return {"container_port": int(entry)}
    if not isinstance(entry, str):
        message = f"It must be a port, text such as 8080:80, or a mapping of {', '.join(_PORT_KEYS)}."
        raise InvalidInput.single(variable, entry, message)
    text, sign, after = entry.strip().partition("/")
    match = _PORT.fullmatch(text)
    if match is None:
        message = "It must read port, host_port:port or host_address:host_port:port, and may end in /tcp or /udp."
        raise InvalidInput.single(variable, entry, message)
    host_ip, host_port, container_port = match.groups()
    if host_port is None and host_ip is not None and host_ip.isdigit():
        # "8080:80" reads as an address of digits alone; "127.0.0.1:80" stays an address.
        host_ip, host_port = None, host_ip
    values = {"host_ip": (host_ip or "").strip("[]"), "host_port": host_port, "container_port": container_port}
    return {**values, "protocol": after if sign else None}

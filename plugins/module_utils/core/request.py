# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The request: what the user asked for, checked and converted once, where it enters.

Values come from extra vars, the inventory or an AWX survey, so a number may be a string, a list may be text, and an
empty string means "not given". All that is wrong is reported together (`InvalidInput`), each problem with the name of
the variable, the value and what is allowed. What can only be judged by looking at hosts is checked in `plan`.
"""

from __future__ import annotations

import dataclasses
import difflib
import ipaddress
import json
import posixpath
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Callable, TypeVar, cast

from ansible_collections.cluster_compute.session.plugins.module_utils.core.authorized_keys import (
    PublicKey,
    parse_authorized_keys,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.capabilities import (
    UNLIMITED,
    format_memlock,
    parse_capabilities,
    parse_memlock,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.environment import (
    CONTRACT_NAMES,
    DIRECTORY,
    ENVIRONMENT_NAME,
    RUNTIME,
    SSH_CLIENT_FRAGMENT,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import InvalidInput, Problem, show
from ansible_collections.cluster_compute.session.plugins.module_utils.core.failure import FAILURE_POLICIES, RESTART
from ansible_collections.cluster_compute.session.plugins.module_utils.core.images import MISSING, PULL_POLICIES
from ansible_collections.cluster_compute.session.plugins.module_utils.core.ports import EVERY_ADDRESS, ports_collide
from ansible_collections.cluster_compute.session.plugins.module_utils.core.resources import (
    Resources,
    format_cpus,
    format_memory,
    parse_accelerators,
    parse_cpus,
    parse_memory,
)

SINGLE_NODE = "single-node"
MULTI_NODE = "multi-node"
MODES = (SINGLE_NODE, MULTI_NODE)
POLICIES = ("pack", "spread", "inventory")
MAXIMUM_RESTARTS = 1000
DEFAULT_RESTARTS = 3
PROTOCOLS = ("tcp", "udp", "sctp")
MAIN = "main"

MAXIMUM_SIZE = 4096
"""Most replicas of a session. Linux passes no environment string above 128 KiB to a program, and TF_CONFIG names
every replica: with `MAXIMUM_ROLE_NAME` this is where it still fits for sure."""
MAXIMUM_ROLE_NAME = 16
MAXIMUM_SESSION_NAME = 40
MAXIMUM_ENVIRONMENT_STRING = 131071
"""Most bytes of NAME=value: Linux' MAX_ARG_STRLEN less the closing NUL."""
MAXIMUM_PRIORITY = 1000000

DEFAULT_GROUP = "cluster_compute_hosts"
DEFAULT_MASTER_PORT = 12345

KNOWN_VARIABLES = (
    "session_name",
    "session_mode",
    "session_size",
    "session_image",
    "session_cpus",
    "session_memory",
    "session_shm_size",
    "session_accelerators",
    "session_pin_cpus",
    "session_capabilities",
    "session_memlock",
    "session_mounts",
    "session_env",
    "session_ports",
    "session_command",
    "session_resource_group",
    "session_priority",
    "session_wait",
    "session_roles",
    "session_hosts",
    "session_excluded_hosts",
    "session_max_replicas_per_host",
    "session_policy",
    "session_master_port",
    "session_recreate",
    "session_failure_policy",
    "session_restart_limit",
    "session_encrypted",
    "session_authorized_keys",
    "session_ssh_port",
    "session_image_pull",
    "session_image_archive",
    "session_batch_command",
)
"""Every variable a request may hold."""

_ROLE_KEYS = (
    "name",
    "replicas",
    "image",
    "cpus",
    "memory",
    "shm_size",
    "accelerators",
    "pin_cpus",
    "capabilities",
    "memlock",
    "env",
    "command",
)
_PATH_KEYS = ("source", "target", "read_only", "owner", "mode", "shared")
_VOLUME_KEYS = ("volume", "target", "read_only", "owner", "mode", "driver", "driver_options")
_PORT_KEYS = ("host_port", "container_port", "host_ip", "protocol")

LOCAL_DRIVER = "local"
"""The volume driver that Docker Engine brings with it."""
REMOTE_TYPES = ("beegfs", "ceph", "cifs", "lustre", "nfs", "nfs4", "smb3", "tmpfs")
"""What the local driver may mount for a session: file systems that lead to no folder or disk of the host. It hands
type, device and options to mount(2), so bind, overlay or a disk's own type would be a way around the roots."""
_LOCAL_OPTIONS = ("type", "o", "device")
_FORBIDDEN_FLAGS = ("bind", "rbind", "loop", "move", "remount")
_PROPAGATION = tuple(start + kind for start in ("", "r") for kind in ("shared", "slave", "private", "unbindable"))
_VOLUME_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{1,254}")
_OWNER = re.compile(r"([0-9]{1,10}):([0-9]{1,10})")
_MODE = re.compile(r"0?([0-3]?[0-7]{3})")

_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_ROLE_NAME = re.compile(r"[a-z](?:[a-z0-9-]*[a-z0-9])?")
_GROUP = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_IMAGE = re.compile(
    r"(?:(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*|\[[0-9a-fA-F:]+\])"
    r"(?::[0-9]{1,5})?/)?"
    r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?"
    r"(?:@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?"
)
_IMAGE_ID = re.compile(r"sha256:[0-9a-f]{64}")

_OWN_FILES = (
    "/etc/hosts",
    "/etc/hostname",
    "/etc/resolv.conf",
    SSH_CLIENT_FRAGMENT,
)
_OWN_TREES = (DIRECTORY, RUNTIME, "/proc", "/sys", "/dev")

_T = TypeVar("_T")


@dataclass(frozen=True)
class Mount:
    """A folder or file of every host, or a volume, seen at the same place in every replica.

    source: the path on the hosts; None for a volume. volume: the volume's name; None for a path. driver,
    driver_options: of a volume, the options sorted. owner, mode: "uid:gid" and four octal digits, for what is made new;
    None for whatever there is. shared: whether the hosts of a session have the same folder; None for "yes, if it is a
    folder".
    """

    source: str | None
    target: str
    read_only: bool
    volume: str | None = None
    driver: str | None = None
    driver_options: tuple[tuple[str, str], ...] = ()
    owner: str | None = None
    mode: str | None = None
    shared: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "source": self.source,
            "volume": self.volume,
            "target": self.target,
            "read_only": self.read_only,
            "driver": self.driver,
            "driver_options": dict(self.driver_options),
            "owner": self.owner,
            "mode": self.mode,
            "shared": self.shared,
        }

    def describe(self) -> str:
        """Return the mount as people read it, its target left out."""
        parts = [self.source or f"volume {self.volume}", "read-only" if self.read_only else "read-write"]
        if self.driver not in (None, LOCAL_DRIVER) or self.driver_options:
            options = " ".join(f"{name}={value}" for name, value in self.driver_options)
            parts.append(f"driver {self.driver} {options}".strip())
        parts += [f"{name} {value}" for name, value in (("owner", self.owner), ("mode", self.mode)) if value]
        if self.shared is not None:
            parts.append("shared" if self.shared else "local")
        return "{} ({})".format(parts[0], ", ".join(parts[1:]))


@dataclass(frozen=True)
class Port:
    """A port of main1 published on main1's host."""

    host_ip: str
    host_port: int
    container_port: int
    protocol: str


@dataclass(frozen=True)
class Role:
    """One role: its replicas are all alike.

    env holds (name, value) sorted by name; command None is the image's. capabilities: beyond the default ones, sorted.
    memlock: bytes that a process may lock, UNLIMITED, or None for what the engine sets.
    """

    name: str
    replicas: int
    image: str
    resources: Resources
    env: tuple[tuple[str, str], ...]
    command: tuple[str, ...] | None
    capabilities: tuple[str, ...] = ()
    memlock: int | None = None


@dataclass(frozen=True)
class Request:
    """What the user asked for; two requests are equal where they ask for the same session.

    roles: main first, then in the order given. mode: the mode asked, not the effective one. hosts: the only hosts
    allowed, where any are named. max_replicas_per_host: None for no limit. failure_policy: what follows when a replica
    fails. restart_limit: how often it is started again under RESTART. encrypted: whether everything that goes from host
    to host has to be. authorized_keys: with which main1 is logged in to from outside. ssh_port: the port of its host
    for that, None for any. batch_command: what main1 runs once all replicas are ready, its end being the session's, or
    None. image_pull: when the registry is asked. image_archive: path on the controller; these two say how images come,
    not what the session is. Where order means nothing (mounts, ports, hosts, keys) it is sorted away.
    """

    name: str
    mode: str
    roles: tuple[Role, ...]
    mounts: tuple[Mount, ...]
    ports: tuple[Port, ...]
    resource_group: str
    priority: int
    hosts: tuple[str, ...]
    excluded_hosts: tuple[str, ...]
    max_replicas_per_host: int | None
    policy: str
    master_port: int
    failure_policy: str = RESTART
    restart_limit: int = DEFAULT_RESTARTS
    encrypted: bool = False
    authorized_keys: tuple[PublicKey, ...] = ()
    ssh_port: int | None = None
    batch_command: tuple[str, ...] | None = None
    image_pull: str = dataclasses.field(default=MISSING, compare=False)
    image_archive: str | None = dataclasses.field(default=None, compare=False)

    @property
    def size(self) -> int:
        """Number of replicas of the whole session."""
        return sum(role.replicas for role in self.roles)

    def replicas(self) -> list[tuple[str, Role, int]]:
        """Return (name, role, one-based index in the role) of every replica in rank order, main first."""
        return [(f"{role.name}{index}", role, index) for role in self.roles for index in range(1, role.replicas + 1)]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form that plans and records carry."""
        return {
            "name": self.name,
            "mode": self.mode,
            "roles": [
                {
                    "name": role.name,
                    "replicas": role.replicas,
                    "image": role.image,
                    "resources": role.resources.to_dict(),
                    "env": dict(role.env),
                    "command": None if role.command is None else list(role.command),
                    "capabilities": list(role.capabilities),
                    "memlock": "unlimited" if role.memlock == UNLIMITED else role.memlock,
                }
                for role in self.roles
            ],
            "mounts": [mount.to_dict() for mount in self.mounts],
            "ports": [
                {
                    "host_ip": p.host_ip,
                    "host_port": p.host_port,
                    "container_port": p.container_port,
                    "protocol": p.protocol,
                }
                for p in self.ports
            ],
            "resource_group": self.resource_group,
            "priority": self.priority,
            "hosts": list(self.hosts),
            "excluded_hosts": list(self.excluded_hosts),
            "max_replicas_per_host": self.max_replicas_per_host,
            "policy": self.policy,
            "master_port": self.master_port,
            "failure_policy": self.failure_policy,
            "restart_limit": self.restart_limit,
            "encrypted": self.encrypted,
            "authorized_keys": [key.text for key in self.authorized_keys],
            "ssh_port": self.ssh_port,
            "batch_command": None if self.batch_command is None else list(self.batch_command),
            "image_pull": self.image_pull,
            "image_archive": self.image_archive,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Request:
        """Read the JSON form back. Raises InvalidInput where it is malformed, or not what `to_dict` makes."""
        reader = _Reader()
        problems = reader.problems
        if not isinstance(data, Mapping):
            raise InvalidInput.single("request", data, "It must be a mapping.")
        fields = _REQUEST_FIELDS
        for key in sorted(set(fields).symmetric_difference(data), key=str):
            word = "is missing" if key in fields else "is unknown"
            problems.append(Problem(f"request.{key}", data.get(key), f"This key {word}."))
        if problems:
            raise InvalidInput(problems)
        roles = data["roles"] if isinstance(data["roles"], list) else []
        variables: dict[str, Any] = {
            "session_roles": [
                {
                    **{k: v for k, v in role.items() if k not in ("resources", "command")},
                    **_amounts(role.get("resources")),
                    **({"command": role["command"]} if role.get("command") is not None else {}),
                }
                if isinstance(role, Mapping)
                else role
                for role in roles
            ]
        }
        variables.update(
            ("session_" + key, value)
            for key, value in data.items()
            if key != "roles" and value is not None and (key, value) != ("authorized_keys", [])
        )
        request = parse_request(variables)
        for key, value in request.to_dict().items():
            if data[key] != value:
                reader.add(f"request.{key}", data[key], "It is not in the form that the collection writes.")
        if problems:
            raise InvalidInput(problems)
        return request


_REQUEST_FIELDS = (
    "name",
    "mode",
    "roles",
    "mounts",
    "ports",
    "resource_group",
    "priority",
    "hosts",
    "excluded_hosts",
    "max_replicas_per_host",
    "policy",
    "master_port",
    "failure_policy",
    "restart_limit",
    "encrypted",
    "authorized_keys",
    "ssh_port",
    "batch_command",
    "image_pull",
    "image_archive",
)


def _amounts(resources: Any) -> dict[str, Any]:
    if not isinstance(resources, Mapping):
        return {"cpus": "malformed"}
    amounts = dict(resources)
    if isinstance(amounts.get("cpus"), int) and not isinstance(amounts["cpus"], bool):
        amounts["cpus"] = "{}m".format(amounts["cpus"])
    return amounts


def closest(name: str, names: Iterable[str]) -> str | None:
    """Return the one of *names* that *name* is most likely meant to be, None if it is like none of them."""
    found = difflib.get_close_matches(name, sorted(names), n=1, cutoff=0.6)
    return found[0] if found else None


def given(value: object) -> bool:
    """Tell whether *value* was given at all: None and blank text (an unanswered survey question) were not."""
    return value is not None and not (isinstance(value, str) and not value.strip())


def parse_bool(variable: str, value: object) -> bool:
    """Return *value* as a truth value: a boolean, or text such as ``true``, ``no``. Raises InvalidInput."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    if isinstance(value, str) and value.strip().lower() in ("true", "yes", "on", "1"):
        return True
    if isinstance(value, str) and value.strip().lower() in ("false", "no", "off", "0"):
        return False
    raise InvalidInput.single(variable, value, "It must be true or false.")


def parse_whole(variable: str, value: object, least: int, most: int) -> int:
    """Return *value* as a whole number from *least* to *most*; text such as ``"3"`` counts. Raises InvalidInput."""
    number: int | None = None
    if (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, str) and _WHOLE.fullmatch(value.strip())
    ):
        number = int(value)
    if number is None or not least <= number <= most:
        raise InvalidInput.single(variable, value, f"It must be a whole number from {least} to {most}.")
    return number


def is_plain(text: str, allowed: str = "") -> bool:
    """Tell whether *text* holds only characters that can be printed and written as UTF-8, plus those *allowed*."""
    if any((ord(c) < 32 or 127 <= ord(c) < 160) and c not in allowed for c in text):
        return False
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def split_list(value: object) -> list[Any]:
    """Return a list as it is, and text as its parts between commas and newlines, blank ones left out.

    Raises ValueError for anything else.
    """
    if isinstance(value, str):
        return [part.strip() for part in re.split(r"[,\n]", value) if part.strip()]
    if isinstance(value, (list, tuple)):
        return list(value)
    raise ValueError("It must be a list, or text with commas or newlines between the entries.")


class _Reader:
    """Collects problems, so that one bad value does not hide the next."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def add(self, variable: str, value: object, message: str) -> None:
        self.problems.append(Problem(variable, value, message))

    def attempt(self, make: Callable[[], _T], fallback: _T) -> _T:
        try:
            return make()
        except InvalidInput as error:
            self.problems.extend(error.problems)
            return fallback

    def convert(self, variable: str, value: object, make: Callable[[Any], _T], fallback: _T) -> _T:
        """Return make(value), or take its ValueError down and return *fallback*."""
        try:
            return make(value)
        except ValueError as error:
            self.add(variable, value, str(error))
            return fallback

    def entries(self, variable: str, value: object) -> list[Any]:
        return self.convert(variable, value, split_list, [])

    def choice(self, variable: str, value: object, choices: Sequence[str]) -> str:
        text = value.strip() if isinstance(value, str) else value
        if text not in choices:
            hint = closest(text, choices) if isinstance(text, str) else None
            more = f" Did you mean {hint}?" if hint else ""
            self.add(variable, value, "It must be one of {}.{}".format(", ".join(choices), more))
            return choices[0]
        return choices[choices.index(cast(str, text))]

    def unknown_keys(self, variable: str, value: Mapping[Any, Any], keys: Sequence[str]) -> None:
        for key in value:
            if key not in keys:
                hint = closest(key, keys) if isinstance(key, str) else None
                more = f" Did you mean {hint}?" if hint else ""
                shown = key if isinstance(key, str) and is_plain(key) else repr(key)
                self.add(
                    f"{variable}.{shown}",
                    value[key],
                    "This key is unknown; known are {}.{}".format(", ".join(keys), more),
                )

    def name(self, variable: str, value: object) -> str:
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(int(value))
        text = value.strip() if isinstance(value, str) else ""
        if not _LABEL.fullmatch(text) or len(text) > MAXIMUM_SESSION_NAME:
            self.add(
                variable,
                value,
                f"It must be a host name label (RFC 1123) of at most {MAXIMUM_SESSION_NAME} characters: "
                "lower-case letters, digits and '-', with a letter or digit first and last.",
            )
            return "invalid"
        return text

    def image(self, variable: str, value: object) -> str:
        text = value.strip() if isinstance(value, str) else ""
        if len(text) > 512 or not (_IMAGE.fullmatch(text) or _IMAGE_ID.fullmatch(text)):
            self.add(
                variable,
                value,
                "It must be the reference of an image, such as debian:12 or registry.example/team/image:tag.",
            )
            return "invalid"
        return text

    def archive(self, variable: str, value: object) -> str | None:
        if value is None:
            return None
        text = value.strip() if isinstance(value, str) else ""
        if not text.startswith("/") or not is_plain(text) or len(text) > 4096:
            self.add(variable, value, "It must be the absolute path of a file on the controller, made by docker save.")
            return None
        return "".join(text)

    def env(self, variable: str, value: object) -> dict[str, str]:
        """Read KEY=VALUE lines or a mapping. Values may be secret: no problem shows one."""
        hidden = "(value not shown)"
        pairs: list[tuple[Any, Any]] = []
        if isinstance(value, Mapping):
            pairs = list(value.items())
        elif isinstance(value, str) or (isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value)):
            lines = value.splitlines() if isinstance(value, str) else value
            for number, line in enumerate(lines, 1):
                key, sign, text = line.partition("=")
                if sign:
                    pairs.append((key.strip(), text))
                elif line.strip():
                    self.add(f"{variable} line {number}", hidden, "It must read NAME=value.")
        else:
            self.add(variable, hidden, "It must be a mapping of names to values, or text with one NAME=value a line.")
        result: dict[str, str] = {}
        for key, text in pairs:
            if not isinstance(key, str) or ENVIRONMENT_NAME.fullmatch(key) is None or len(key) > 256:
                self.add(
                    variable,
                    key,
                    "A name is made of letters, digits and '_' (at most 256), and does not begin with a digit.",
                )
                continue
            place = f"{variable}.{key}"
            if key in CONTRACT_NAMES:
                self.add(
                    place, hidden, "The collection sets this variable in every replica itself. Choose another name."
                )
            if key in result:
                self.add(place, hidden, "It is given twice.")
            if isinstance(text, int) and not isinstance(text, bool):
                text = str(int(text))
            if not isinstance(text, str):
                self.add(place, f"of type {type(text).__name__}", "It must be text; put quotes around the value.")
                continue
            if not is_plain(text, "\t\n"):
                self.add(place, hidden, "It holds control characters or text that is not UTF-8.")
                continue
            if len((f"{key}={text}").encode()) > MAXIMUM_ENVIRONMENT_STRING:
                self.add(place, hidden, f"It is longer than the {MAXIMUM_ENVIRONMENT_STRING} bytes that Linux takes.")
                continue
            result["".join(key)] = "".join(text)
        return result

    def batch_command(self, value: object) -> tuple[str, ...] | None:
        """Read what the shell is to run, as text, or words."""
        variable = "session_batch_command"
        return self.command(variable, ["/bin/sh", "-c", value] if isinstance(value, str) else value)

    def command(self, variable: str, value: object) -> tuple[str, ...] | None:
        words: list[Any]
        if isinstance(value, str):
            try:
                words = list(shlex.split(value))
            except ValueError:
                self.add(
                    variable,
                    value,
                    "Its quotes or backslashes do not match up; it is split into words, not run by a shell.",
                )
                return None
        elif isinstance(value, (list, tuple)):
            words = list(value)
        else:
            self.add(variable, value, "It must be a list of words, or text that is split into words.")
            return None
        result = []
        for position, word in enumerate(words):
            if isinstance(word, int) and not isinstance(word, bool):
                word = str(int(word))
            if not isinstance(word, str) or not is_plain(word, "\t\n\r"):
                self.add(
                    f"{variable}[{position}]",
                    word,
                    "It must be text without control characters; put quotes around it.",
                )
                continue
            if len(word.encode("utf-8")) > MAXIMUM_ENVIRONMENT_STRING:
                self.add(
                    f"{variable}[{position}]",
                    word,
                    f"It is longer than the {MAXIMUM_ENVIRONMENT_STRING} bytes that Linux takes.",
                )
            result.append("".join(word))
        if result and not result[0]:
            self.add(variable, value, "Its first word, the program, is empty.")
        return tuple(result) or None

    def path(self, variable: str, value: object) -> str | None:
        if not isinstance(value, str) or not value.startswith("/"):
            self.add(variable, value, "It must be an absolute path, one that begins with '/'.")
            return None
        if not is_plain(value) or len(value.encode("utf-8")) > 4095:
            self.add(variable, value, "It must hold no control characters and be no longer than 4095 bytes.")
            return None
        if ".." in value.split("/"):
            self.add(variable, value, "It must not hold '..'.")
            return None
        return "/" + posixpath.normpath(value).lstrip("/")

    def mount(self, variable: str, entry: object) -> Mount | None:
        before = len(self.problems)
        values: Mapping[str, Any]
        if isinstance(entry, str):
            source, *rest = entry.strip().split(":")
            flags = rest[1:]
            access = [flag for flag in flags if flag in ("ro", "rw")]
            if not rest or len(access) > 1 or sorted(flags) not in (sorted(access), sorted([*access, "local"])):
                self.add(
                    variable, entry, "It must read source:target, and then :ro or :rw and :local where that is meant."
                )
                return None
            # As with Docker, what holds no '/' is the name of a volume.
            values = {"source" if "/" in source else "volume": source, "target": rest[0], "read_only": "ro" in flags}
            if "local" in flags:
                values["shared"] = False
        elif isinstance(entry, Mapping):
            values = entry
        else:
            self.add(
                variable,
                entry,
                "It must be a mapping of source, target and read_only, or text such as source:target:ro.",
            )
            return None
        is_volume = given(values.get("volume"))
        if is_volume and given(values.get("source")):
            self.add(variable + ".volume", values["volume"], "It is a source or a volume, not both.")
            return None
        keys = _VOLUME_KEYS if is_volume else _PATH_KEYS
        others = set(_PATH_KEYS + _VOLUME_KEYS) - set(keys)
        # In its JSON form a mount has the keys of both kinds, the other's without a value.
        meant = {key: one for key, one in values.items() if key not in others or (given(one) and one != {})}
        if is_volume and "shared" in meant:
            self.add(variable + ".shared", meant.pop("shared"), "It is for a source; a volume has its driver for that.")
        self.unknown_keys(variable, meant, keys)
        read_only = False
        if given(values.get("read_only")):
            read_only = self.attempt(lambda: parse_bool(variable + ".read_only", values["read_only"]), False)
        source_path = None if is_volume else self.path(variable + ".source", values.get("source"))
        target_path = self.path(variable + ".target", values.get("target"))
        if target_path is not None:
            shadowed = [
                own
                for own in _OWN_FILES + _OWN_TREES
                if own == target_path or own.startswith(target_path.rstrip("/") + "/")
            ]
            shadowed += [own for own in _OWN_TREES if target_path.startswith(own + "/")]
            if shadowed:
                message = f"It would hide {shadowed[0]}, which every replica needs."
                self.add(variable + ".target", values.get("target"), message)
        owner = self.owner(variable + ".owner", values["owner"]) if given(values.get("owner")) else None
        mode = self.mode(variable + ".mode", values["mode"]) if given(values.get("mode")) else None
        if is_volume:
            name, driver, options = self.volume(variable, values)
            if (options or driver != LOCAL_DRIVER) and (owner or mode):
                # What such a driver mounts is not at its place on the host before a container uses it.
                message = (
                    "Only volumes of the local driver without options are given them. Others take them as options, "
                    "if at all, such as o: uid=1000,mode=0770."
                )
                self.add(variable + (".owner" if owner else ".mode"), owner or mode, message)
            mount = Mount(None, target_path or "/", read_only, name, driver, options, owner, mode)
        else:
            shared = None
            if given(values.get("shared")):
                shared = self.attempt(lambda: parse_bool(variable + ".shared", values["shared"]), True)
            mount = Mount(source_path, target_path or "/", read_only, owner=owner, mode=mode, shared=shared)
        return mount if len(self.problems) == before else None

    def owner(self, variable: str, value: object) -> str | None:
        match = _OWNER.fullmatch(value.strip()) if isinstance(value, str) else None
        # The last number means "leave it" to chown(2).
        if match is None or any(int(number) >= 2**32 - 1 for number in match.groups()):
            self.add(variable, value, "It must be the numbers of a user and a group in quotes, such as '1000:1000'.")
            return None
        return "{}:{}".format(*map(int, match.groups()))

    def mode(self, variable: str, value: object) -> str | None:
        match = _MODE.fullmatch(value.strip()) if isinstance(value, str) else None
        if match is None:
            self.add(variable, value, "It must be three or four octal digits in quotes, such as '0770' or '2775'.")
            return None
        return match.group(1).rjust(4, "0")

    def volume(
        self, variable: str, values: Mapping[str, Any]
    ) -> tuple[str | None, str | None, tuple[tuple[str, str], ...]]:
        """Read name, driver and options of a volume."""
        name = values.get("volume")
        if not isinstance(name, str) or _VOLUME_NAME.fullmatch(name.strip()) is None:
            self.add(
                variable + ".volume",
                name,
                "The name of a volume has 2 to 255 characters: letters, digits, '_', '.' and '-', a letter or digit "
                "first. A folder of the hosts is a source, an absolute path.",
            )
            return None, None, ()
        driver = values.get("driver") if given(values.get("driver")) else LOCAL_DRIVER
        if not isinstance(driver, str) or not is_plain(driver) or len(driver) > 255:
            self.add(variable + ".driver", driver, "It must be the name of a volume driver, such as local.")
            return None, None, ()
        place = variable + ".driver_options"
        found = values.get("driver_options") or {}
        if not isinstance(found, Mapping):
            self.add(place, found, "It must be a mapping of text to text, such as {type: nfs, device: ':/export'}.")
            return None, None, ()
        options: dict[str, str] = {}
        for key, text in found.items():
            if isinstance(text, int) and not isinstance(text, bool):
                text = str(int(text))
            if not isinstance(key, str) or not isinstance(text, str) or not is_plain(key) or not is_plain(text):
                self.add(f"{place}.{show(key)}", text, "It must be text; put quotes around the value.")
                continue
            options["".join(key)] = "".join(text)
        if driver.strip() == LOCAL_DRIVER:
            self.local_options(place, options)
        return "".join(name.strip()), "".join(driver.strip()), tuple(sorted(options.items()))

    def local_options(self, variable: str, options: Mapping[str, str]) -> None:
        """Refuse what would make the local driver mount a folder or a disk of the host."""
        self.unknown_keys(variable, options, _LOCAL_OPTIONS)
        kind, device = options.get("type"), options.get("device", "")
        if options and kind not in REMOTE_TYPES:
            self.add(
                f"{variable}.type",
                kind,
                f"It must be one of {', '.join(REMOTE_TYPES)}: others reach folders or disks of the host itself. Mount "
                "a folder of the hosts by its path, as a source.",
            )
        if device.startswith("/") and not (kind in ("cifs", "smb3") and device.startswith("//")):
            self.add(
                f"{variable}.device",
                device,
                "It must not be a path of the host. Mount a folder of the hosts by its path, as a source.",
            )
        for flag in options.get("o", "").split(","):
            if flag.strip() in _FORBIDDEN_FLAGS + _PROPAGATION:
                self.add(f"{variable}.o", options["o"], f"The option {flag.strip()} is not for sessions.")

    def mounts(self, variable: str, value: object) -> tuple[Mount, ...]:
        mounts: list[Mount] = []
        for position, entry in enumerate(self.entries(variable, value)):
            place = f"{variable}[{position}]"
            mount = self.mount(place, entry)
            if mount is None:
                continue
            for other in mounts:
                if mount.target == other.target:
                    self.add(place + ".target", mount.target, "Another mount has the same target.")
                if (mount.source, mount.volume) == (other.source, other.volume) and replace(
                    mount, target=other.target, read_only=other.read_only
                ) != other:
                    message = "Another mount of it says otherwise; only target and read_only may differ."
                    self.add(place, mount.source or mount.volume, message)
            mounts.append(mount)
        return tuple(sorted(mounts, key=lambda mount: mount.target))

    def port(self, variable: str, entry: object) -> Port | None:
        host_ip: object = None
        protocol: object = None
        host_port: object
        container_port: object
        if isinstance(entry, int) and not isinstance(entry, bool):
            host_port = container_port = int(entry)
        elif isinstance(entry, str):
            text, sign, after = entry.strip().partition("/")
            protocol = after if sign else None
            match = re.fullmatch(r"(?:(\[[0-9A-Fa-f:.]+\]|[0-9.]+):)?(?:([0-9]{1,9}):)?([0-9]{1,9})", text)
            if match is None:
                self.add(
                    variable,
                    entry,
                    "It must read port, host_port:port or host_address:host_port:port, and may end in /tcp or /udp.",
                )
                return None
            host_ip, container_port = match.group(1), match.group(3)
            host_port = match.group(2)
            if host_port is None and isinstance(host_ip, str) and host_ip.isdigit():
                # "8080:80" reads as an address of digits alone; "127.0.0.1:80" stays an address.
                host_ip, host_port = None, host_ip
            host_port = container_port if host_port is None else host_port
            host_ip = host_ip.strip("[]") if isinstance(host_ip, str) else None
        elif isinstance(entry, Mapping):
            self.unknown_keys(variable, entry, _PORT_KEYS)
            container_port = entry.get("container_port")
            host_port = entry.get("host_port") if given(entry.get("host_port")) else container_port
            host_ip, protocol = entry.get("host_ip"), entry.get("protocol")
        else:
            self.add(
                variable,
                entry,
                "It must be a port, text such as 8080:80, or a mapping of {}.".format(", ".join(_PORT_KEYS)),
            )
            return None
        before = len(self.problems)
        inside = self.attempt(lambda: parse_whole(variable + ".container_port", container_port, 1, 65535), 0)
        outside = inside
        if host_port is not container_port:
            outside = self.attempt(lambda: parse_whole(variable + ".host_port", host_port, 1, 65535), 0)
        address = EVERY_ADDRESS
        if given(host_ip):
            try:
                address = str(ipaddress.ip_address(host_ip.strip() if isinstance(host_ip, str) else ""))
            except ValueError:
                self.add(
                    variable + ".host_ip", host_ip, "It must be an IP address of main1's host, or 0.0.0.0 for all."
                )
        if isinstance(protocol, str):
            protocol = protocol.strip().lower()
        chosen = self.choice(variable + ".protocol", protocol, PROTOCOLS) if given(protocol) else "tcp"
        return Port(address, outside, inside, chosen) if len(self.problems) == before else None

    def ports(self, variable: str, value: object) -> tuple[Port, ...]:
        if isinstance(value, int) and not isinstance(value, bool):
            value = [value]
        ports: list[Port] = []
        for position, entry in enumerate(self.entries(variable, value)):
            place = f"{variable}[{position}]"
            port = self.port(place, entry)
            if port is None:
                continue
            for other in ports:
                if ports_collide(
                    port.host_ip, port.host_port, port.protocol, other.host_ip, other.host_port, other.protocol
                ):
                    self.add(place, entry, f"Port {port.host_port}/{port.protocol} of the host is published twice.")
                    break
            ports.append(port)
        return tuple(sorted(ports, key=lambda port: (port.host_port, port.protocol, port.host_ip)))

    def host_names(self, variable: str, value: object) -> tuple[str, ...]:
        names: list[str] = []
        for position, entry in enumerate(self.entries(variable, value)):
            place = f"{variable}[{position}]"
            if not isinstance(entry, str) or not entry.strip() or not is_plain(entry):
                self.add(place, entry, "It must be the inventory name of a host.")
            elif entry.strip() in names:
                self.add(place, entry, "This host is named twice.")
            else:
                names.append("".join(entry.strip()))
        return tuple(sorted(names))

    def capabilities(self, variable: str, value: object) -> tuple[str, ...]:
        entries = self.entries(variable, value)
        return self.attempt(lambda: parse_capabilities(variable, entries), ())

    def resources(self, prefix: str, values: Mapping[str, Any], default: Resources) -> Resources:
        """Read the amounts that one replica is given from *values*; what is not given comes from *default*."""

        def read(key: str, make: Callable[[Any], _T], fallback: _T) -> _T:
            value = values.get(key)
            return self.convert(prefix + key, value, make, fallback) if given(value) else fallback

        found = Resources(
            read("cpus", parse_cpus, default.cpus),
            read("memory", parse_memory, default.memory),
            read("shm_size", lambda value: parse_memory(value, minimum=1), default.shm_size),
            read("accelerators", parse_accelerators, default.accelerators),
            self.attempt(lambda: parse_bool(prefix + "pin_cpus", values["pin_cpus"]), default.pin_cpus)
            if given(values.get("pin_cpus"))
            else default.pin_cpus,
        )
        if found.pin_cpus and found.cpus % 1000:
            message = f"With {prefix}pin_cpus it must be a whole number of CPUs."
            self.add(prefix + "cpus", format_cpus(found.cpus), message)
        return found


_DEFAULT_RESOURCES = Resources(cpus=1000, memory=1024**3, shm_size=64 * 1024**2)


def parse_env(variable: str, value: object) -> dict[str, str]:
    """Return environment variables: a mapping, or text with one NAME=value a line. Raises InvalidInput."""
    reader = _Reader()
    found = reader.env(variable, value)
    if reader.problems:
        raise InvalidInput(reader.problems)
    return found


def parse_request(variables: Mapping[str, Any], known: Iterable[str] = ()) -> Request:
    """Return the request that *variables* describe.

    variables: all variables at hand; those whose names do not begin with ``session_`` are left alone.
    known: names beginning with ``session_`` that mean something to the caller and are no part of a request.
    Raises InvalidInput with every problem found.
    """
    reader = _Reader()
    names = set(KNOWN_VARIABLES).union(known)
    for variable in sorted(str(key) for key in variables if isinstance(key, str) and key.startswith("session_")):
        if variable not in names:
            hint = closest(variable[len("session_") :], (name[len("session_") :] for name in names))
            more = f" Did you mean session_{hint}?" if hint else " Known are {}.".format(", ".join(KNOWN_VARIABLES))
            # Its value is not shown: it may be meant for session_env, which holds secrets.
            reader.add(variable, "(value not shown)", f"There is no such variable.{more}")

    def value(key: str) -> Any:
        found = variables.get("session_" + key)
        return found if given(found) else None

    def whole(key: str, least: int, most: int, default: int) -> int:
        if value(key) is None:
            return default
        return reader.attempt(lambda: parse_whole("session_" + key, value(key), least, most), default)

    if value("name") is None:
        reader.add("session_name", variables.get("session_name"), "A session needs a name.")
        name = "invalid"
    else:
        name = reader.name("session_name", value("name"))
    size = whole("size", 1, MAXIMUM_SIZE, 1)
    image = reader.image("session_image", value("image")) if value("image") is not None else None
    defaults = {key: value(key) for key in ("cpus", "memory", "shm_size", "accelerators", "pin_cpus")}
    resources = reader.resources("session_", defaults, _DEFAULT_RESOURCES)
    env = reader.env("session_env", value("env")) if value("env") is not None else {}
    command = reader.command("session_command", value("command")) if value("command") is not None else None
    added = (
        reader.capabilities("session_capabilities", value("capabilities")) if value("capabilities") is not None else ()
    )
    memlock = None
    if value("memlock") is not None:
        memlock = reader.convert("session_memlock", value("memlock"), parse_memlock, None)
    base = Role(MAIN, size, image or "", resources, tuple(sorted(env.items())), command, added, memlock)

    if value("roles") is None:
        if image is None:
            reader.add("session_image", variables.get("session_image"), "A session needs an image.")
        roles: tuple[Role, ...] = (_role(base, MAIN, 1),)
        if size > 1:
            roles += (_role(base, "sub", size - 1),)
    else:
        roles = _parse_roles(reader, value("roles"), base)
        total = sum(role.replicas for role in roles)
        if (
            value("size") is not None
            and total != size
            and not any(p.variable.startswith("session_roles") for p in reader.problems)
        ):
            reader.add(
                "session_size",
                value("size"),
                f"session_roles add up to {total} replicas. Leave session_size out, or make them agree.",
            )
        size = total

    default_mode = SINGLE_NODE if size == 1 else MULTI_NODE
    mode = reader.choice("session_mode", value("mode"), MODES) if value("mode") is not None else default_mode
    policy = reader.choice("session_policy", value("policy"), POLICIES) if value("policy") is not None else POLICIES[0]
    group = value("resource_group")
    if group is None:
        group = DEFAULT_GROUP
    elif not isinstance(group, str) or _GROUP.fullmatch(group.strip()) is None or len(group) > 255:
        reader.add(
            "session_resource_group",
            group,
            "It must be the name of an inventory group: letters, digits, '_', '.' and '-'.",
        )
        group = DEFAULT_GROUP
    mounts = reader.mounts("session_mounts", value("mounts")) if value("mounts") is not None else ()
    ports = reader.ports("session_ports", value("ports")) if value("ports") is not None else ()
    hosts = reader.host_names("session_hosts", value("hosts")) if value("hosts") is not None else ()
    excluded: tuple[str, ...] = ()
    if value("excluded_hosts") is not None:
        excluded = reader.host_names("session_excluded_hosts", value("excluded_hosts"))
    for host in hosts:
        if host in excluded:
            reader.add(
                "session_excluded_hosts", host, "This host is in session_hosts, too. Take it out of one of them."
            )
    limit: int | None = whole("max_replicas_per_host", 1, MAXIMUM_SIZE, 0) or None
    priority = whole("priority", -MAXIMUM_PRIORITY, MAXIMUM_PRIORITY, 0)
    master_port = whole("master_port", 1, 65535, DEFAULT_MASTER_PORT)
    failure_policy = RESTART
    if value("failure_policy") is not None:
        failure_policy = reader.choice("session_failure_policy", value("failure_policy"), FAILURE_POLICIES)
    restart_limit = whole("restart_limit", 0, MAXIMUM_RESTARTS, DEFAULT_RESTARTS)
    encrypted = False
    if value("encrypted") is not None:
        encrypted = reader.attempt(partial(parse_bool, "session_encrypted", value("encrypted")), False)
    keys: tuple[PublicKey, ...] = ()
    if value("authorized_keys") is not None:
        keys = reader.attempt(partial(parse_authorized_keys, "session_authorized_keys", value("authorized_keys")), ())
    batch_command = reader.batch_command(value("batch_command")) if value("batch_command") is not None else None
    ssh_port: int | None = whole("ssh_port", 1, 65535, 0) or None
    if ssh_port is not None:
        if value("authorized_keys") is None:
            reader.add(
                "session_ssh_port",
                ssh_port,
                "It is the port for those whose keys session_authorized_keys holds. Give these, or leave it out.",
            )
        if any(ports_collide(EVERY_ADDRESS, ssh_port, "tcp", p.host_ip, p.host_port, p.protocol) for p in ports):
            reader.add("session_ssh_port", ssh_port, "session_ports publishes something else on this port of the host.")
    image_pull = MISSING
    if value("image_pull") is not None:
        image_pull = reader.choice("session_image_pull", value("image_pull"), PULL_POLICIES)
    archive = reader.archive("session_image_archive", value("image_archive"))
    for switch in ("wait", "recreate"):
        if value(switch) is not None:
            reader.attempt(partial(parse_bool, "session_" + switch, value(switch)), False)
    if reader.problems:
        raise InvalidInput(reader.problems)
    return Request(
        name,
        mode,
        roles,
        mounts,
        ports,
        "".join(group.strip()),
        priority,
        hosts,
        excluded,
        limit,
        policy,
        master_port,
        failure_policy,
        restart_limit,
        encrypted,
        keys,
        ssh_port,
        batch_command,
        image_pull,
        archive,
    )


def _role(base: Role, name: str, replicas: int) -> Role:
    return replace(base, name=name, replicas=replicas)


def _parse_roles(reader: _Reader, value: Any, base: Role) -> tuple[Role, ...]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            reader.add("session_roles", "(value not shown)", "As text it must be a JSON list of roles.")
            return ()
    if not isinstance(value, (list, tuple)) or not value:
        reader.add("session_roles", value, "It must be a list of roles, each a mapping with a name and replicas.")
        return ()
    if len(value) > MAXIMUM_SIZE:
        reader.add("session_roles", f"{len(value)} roles", f"There may be at most {MAXIMUM_SIZE}.")
        return ()
    roles: list[Role] = []
    for position, entry in enumerate(value):
        place = f"session_roles[{position}]"
        if not isinstance(entry, Mapping):
            reader.add(place, entry, "It must be a mapping with a name and replicas.")
            continue
        reader.unknown_keys(place, entry, _ROLE_KEYS)
        name = entry.get("name")
        if not isinstance(name, str) or _ROLE_NAME.fullmatch(name) is None or len(name) > MAXIMUM_ROLE_NAME:
            reader.add(
                place + ".name",
                name,
                f"It must have at most {MAXIMUM_ROLE_NAME} characters: lower-case letters, digits and '-', "
                "a letter first and no '-' last.",
            )
            name = ""
        elif any(role.name == name for role in roles):
            reader.add(place + ".name", name, "Another role has the same name.")
        replicas = 1
        if given(entry.get("replicas")):
            replicas = reader.attempt(partial(parse_whole, place + ".replicas", entry["replicas"], 1, MAXIMUM_SIZE), 1)
        elif name != MAIN:
            reader.add(place + ".replicas", entry.get("replicas"), "Say how many replicas the role has, 1 or more.")
        if name == MAIN and replicas != 1:
            reader.add(place + ".replicas", replicas, "The role main has exactly one replica, main1.")
        image = base.image
        if given(entry.get("image")):
            image = reader.image(place + ".image", entry["image"])
        elif not image:
            reader.add(
                place + ".image", entry.get("image"), "Give the role an image, or all roles one with session_image."
            )
        env = dict(base.env)
        if given(entry.get("env")):
            env.update(reader.env(place + ".env", entry["env"]))
        command = base.command
        if given(entry.get("command")):
            command = reader.command(place + ".command", entry["command"])
        resources = reader.resources(place + ".", entry, base.resources)
        added = base.capabilities
        if given(entry.get("capabilities")):
            added = reader.capabilities(place + ".capabilities", entry["capabilities"])
        memlock = base.memlock
        if given(entry.get("memlock")):
            memlock = reader.convert(place + ".memlock", entry["memlock"], parse_memlock, None)
        env_pairs = tuple(sorted(env.items()))
        roles.append(Role("".join(name), replicas, image, resources, env_pairs, command, added, memlock))
    mains = [role for role in roles if role.name == MAIN]
    if not mains:
        reader.add("session_roles", [role.name for role in roles], "One of the roles must be main, with one replica.")
    total = sum(role.replicas for role in roles)
    if total > MAXIMUM_SIZE:
        reader.add("session_roles", f"{total} replicas in all", f"A session has at most {MAXIMUM_SIZE} replicas.")
    else:
        owners: dict[str, str] = {}
        for role in roles:
            for index in range(1, role.replicas + 1):
                replica = f"{role.name}{index}"
                if owners.setdefault(replica, role.name) != role.name:
                    reader.add(
                        "session_roles",
                        role.name,
                        f"Its replica {replica} has the same name as one of role {owners[replica]}. Rename one.",
                    )
                    break
    return tuple(mains + [role for role in roles if role.name != MAIN])


def diff_requests(old: Request, new: Request) -> list[tuple[str, str, str]]:
    """Return (field, old, new) for all that differs, in words; "-" stands for what is not there.

    Values of environment variables may be secret and are not shown.
    """
    before, after = _flat(old), _flat(new)
    fields = list(before) + [field for field in after if field not in before]
    result = []
    for field in fields:
        left, right = before.get(field), after.get(field)
        if left != right:
            if ".env." in field:
                result.append(
                    (
                        field,
                        "-" if left is None else "set",
                        "-" if right is None else "set" if left is None else "another value",
                    )
                )
            else:
                result.append((field, left or "-", right or "-"))
    return result


def _flat(request: Request) -> dict[str, str]:
    flat = {"name": request.name, "mode": request.mode, "roles": ",".join(role.name for role in request.roles)}
    for role in request.roles:
        place = f"roles.{role.name}."
        flat[place + "replicas"] = str(role.replicas)
        flat[place + "image"] = role.image
        flat[place + "cpus"] = format_cpus(role.resources.cpus)
        flat[place + "memory"] = format_memory(role.resources.memory)
        flat[place + "shm_size"] = format_memory(role.resources.shm_size)
        for accelerator, count in role.resources.accelerators:
            flat[place + "accelerators." + accelerator] = str(count)
        flat[place + "pin_cpus"] = str(role.resources.pin_cpus).lower()
        if role.capabilities:
            flat[place + "capabilities"] = ",".join(role.capabilities)
        if role.memlock is not None:
            flat[place + "memlock"] = format_memlock(role.memlock)
        for key, text in role.env:
            flat[place + "env." + key] = text
        if role.command is not None:
            flat[place + "command"] = " ".join(shlex.quote(word) for word in role.command)
    for mount in request.mounts:
        flat["mounts." + mount.target] = mount.describe()
    for port in request.ports:
        key = f"ports.{port.host_ip}:{port.host_port}/{port.protocol}"
        flat[key] = str(port.container_port)
    flat["resource_group"] = request.resource_group
    flat["priority"] = str(request.priority)
    flat["hosts"] = ",".join(request.hosts)
    flat["excluded_hosts"] = ",".join(request.excluded_hosts)
    limit = request.max_replicas_per_host
    flat["max_replicas_per_host"] = "" if limit is None else str(limit)
    flat["policy"] = request.policy
    flat["master_port"] = str(request.master_port)
    flat["failure_policy"] = request.failure_policy
    flat["restart_limit"] = str(request.restart_limit)
    flat["encrypted"] = str(request.encrypted).lower()
    for owner_key in request.authorized_keys:
        flat["authorized_keys." + owner_key.fingerprint] = f"{owner_key.kind} {owner_key.comment}".strip()
    flat["ssh_port"] = "" if request.ssh_port is None else str(request.ssh_port)
    flat["batch_command"] = shlex.join(request.batch_command or ())
    return flat


def differ_in_keys_only(old: Request, new: Request) -> bool:
    """Tell whether nothing but the owner's keys differs, so that a session that runs can go on as it is.

    The first key and the last one decide whether there is a way in at all, which is made with main1.
    """
    has_some = bool(old.authorized_keys) and bool(new.authorized_keys)
    return has_some and replace(old, authorized_keys=new.authorized_keys) == new

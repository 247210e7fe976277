# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The request of a user, checked and converted once, when it is read.

Values come from extra vars, the inventory or an AWX survey. All problems are reported together (`InvalidInput`), each
with the name of the variable, the value and what is allowed. Checks that need facts of hosts are made when a launch is
planned. The list of variables is in `fields`.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from ..values.authorized_keys import PublicKey
from ..values.deferred import dataclass
from ..values.errors import HIDDEN, InvalidInput
from ..values.failure import RESTART
from ..values.image_names import MISSING
from ..values.parse import Reader, closest, format_span, is_given, parse_integer
from ..values.ports import EVERY_ADDRESS, ports_collide
from ..values.resources import Resources, format_cpus
from ..values.start_order import MAXIMUM_WAVES, start_waves
from . import workdir
from .fields import (
    ALL,
    FIELDS,
    KEPT_FIELDS,
    MAXIMUM_ROLE_NAME,
    MAXIMUM_SIZE,
    MULTI_NODE,
    OF_HOST,
    PREFIX,
    REQUEST,
    ROLE,
    ROLE_FIELDS,
    SHARE,
    SINGLE_NODE,
    SIZED,
    WAIT,
    Field,
)
from .mounts import Mount, Port
from .workdir import WORK, Workdir

MAIN = "main"

_ROLE_NAME = re.compile(r"[a-z](?:[a-z0-9-]*[a-z0-9])?")
_NEWER = (
    "This release of the collection does not know it. Use the release that wrote it, or a newer one; this one can tear "
    "the session down."
)
_AMOUNTS = tuple(field.name for field in dataclasses.fields(Resources))
"""Fields of a role that are part of its resources."""
STANDARD = {field.name: field.standard for field in FIELDS if field.name in SIZED}
"""Amounts of a role for which there is neither a wish nor a rule."""


@dataclass(frozen=True)
class Role:
    """One role: its replicas are all alike.

    env holds (name, value) sorted by name; command None is the image's. capabilities: beyond the default ones, sorted.
    memlock: bytes that a process may lock, UNLIMITED, or None for the engine's default. disk_size: bytes that a replica
    may write outside its mounts, None for no limit but the host's disk. after: roles that have to be ready before it is
    started, sorted. ready_port: TCP port on which each replica listens when it is ready, None if there is none.
    entrypoint: in place of the image's, None for the image's own. init: whether the engine's init is the first process.
    user: a name in the image or uid:gid, directory: the working directory, None for those of the image. groups: names
    or numbers on the host, sorted. of_host: (amount, rule) of those that follow from the hosts (`rules.sizing`).
    """

    name: str
    replicas: int
    image: str
    resources: Resources
    env: tuple[tuple[str, str], ...]
    command: tuple[str, ...] | None
    capabilities: tuple[str, ...] = ()
    memlock: int | None = None
    disk_size: int | None = None
    after: tuple[str, ...] = ()
    ready_port: int | None = None
    entrypoint: tuple[str, ...] | None = None
    init: bool = True
    user: str | None = None
    groups: tuple[str, ...] = ()
    directory: str | None = None
    of_host: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, name: str, replicas: int, values: Mapping[str, Any], given: Collection[str]) -> Role:
        """Return the role that has these values of the fields of a role.

        given: the amounts that somebody asked for; others follow from the hosts if it has accelerators.
        """
        others = {key: value for key, value in values.items() if key not in _AMOUNTS}
        resources, rules = Resources(**{key: values[key] for key in _AMOUNTS}), dict(values["of_host"])
        for amount in SIZED:
            if values[amount] == OF_HOST:
                rules[amount] = ALL
                resources = replace(resources, **{amount: STANDARD[amount]})
            elif resources.accelerators and amount not in {*given, *rules}:
                rules[amount] = SHARE
        return cls(name, replicas, resources=resources, **{**others, "of_host": tuple(sorted(rules.items()))})

    def value(self, field: Field) -> Any:
        """Return the value of a field."""
        return getattr(self.resources if field.name in _AMOUNTS else self, field.name)


@dataclass(frozen=True)
class Request:
    """The request of a user; two requests are equal if they ask for the same session.

    roles: main first, then in the order given. mode: the requested mode, not the effective one. hosts: the only hosts
    allowed, if any are named. max_replicas_per_host, ssh_port: None for any. image_pull, image_archive, image_from: how
    hosts get images; they are not part of the session. max_size: how far it may grow while it runs. on_host_loss: one
    of HOST_LOSS. max_duration, max_idle, end_warning: seconds, None for no limit and no warning. workdir: what it takes
    along from the controller. Lists whose order means nothing (mounts, ports, hosts, keys) are sorted.
    """

    fields: ClassVar[tuple[Field, ...]] = FIELDS

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
    restart_limit: int = 3
    encrypted: bool = False
    slurm_variables: bool = False
    authorized_keys: tuple[PublicKey, ...] = ()
    ssh_port: int | None = None
    batch_command: tuple[str, ...] | None = None
    max_size: int | None = None
    max_duration: int | None = None
    max_idle: int | None = None
    end_warning: int | None = None
    on_host_loss: str = WAIT
    workdir: Workdir | None = None
    image_pull: str = dataclasses.field(default=MISSING, compare=False)
    image_archive: str | None = dataclasses.field(default=None, compare=False)
    image_from: str | None = dataclasses.field(default=None, compare=False)

    @property
    def size(self) -> int:
        """Number of replicas of the whole session."""
        return sum(role.replicas for role in self.roles)

    @property
    def packs(self) -> tuple[str, ...]:
        """References of the parts of the working directory that it takes along."""
        return () if self.workdir is None else self.workdir.packs

    def directory_of(self, role: Role) -> str | None:
        """Return the working directory of the replicas of a role, None for the image's."""
        return WORK if role.directory is None and self.workdir is not None else role.directory

    def may_use(self, host: str) -> bool:
        """Tell whether the session may have replicas on *host*, as far as the user names hosts."""
        return (not self.hosts or host in self.hosts) and host not in self.excluded_hosts

    def replicas(self) -> list[tuple[str, Role, int]]:
        """Return (name, role, one-based index in the role) of every replica in rank order, main first."""
        return [(f"{role.name}{index}", role, index) for role in self.roles for index in range(1, role.replicas + 1)]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form that plans and records carry."""
        stored = {
            field.name: field.write(getattr(self, field.name))
            for field in _of(REQUEST, self.fields)
            if not (field.optional and getattr(self, field.name) == field.standard)
        }
        stored["roles"] = []
        for role in self.roles:
            values = {
                field.name: field.write(role.value(field))
                for field in _of_roles(self.fields)
                if not (field.optional and role.value(field) == field.standard)
            }
            resources = {key: values.pop(key) for key in _AMOUNTS}
            stored["roles"].append({"name": role.name, "replicas": role.replicas, "resources": resources, **values})
        return stored

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], newer_too: bool = False) -> Request:
        """Read the JSON form back; keys that are missing because an earlier release wrote it get their default.

        newer_too: ignore unknown keys. Raises InvalidInput if there are any otherwise, or if the form is malformed or
        differs from what `to_dict` makes.
        """
        if not isinstance(data, Mapping):
            raise InvalidInput.single("request", data, "It must be a mapping.")
        reader = Reader()
        roles = data["roles"] if isinstance(data.get("roles"), list) else []
        for place in () if newer_too else sorted(_unknown_keys(data, roles, cls.fields)):
            reader.add(place, HIDDEN, _NEWER)
        reader.finish(None)
        variables = {
            field.variable: field.restore(data[field.name])
            for field in _of(REQUEST, cls.fields)
            if data.get(field.name) is not None and data[field.name] != []
        }
        variables[PREFIX + "roles"] = [_restored(role, cls.fields) for role in roles]
        request = parse_request(variables, kind=cls, is_stored=True)
        for key, value in request.to_dict().items():
            if not _says(data.get(key, value), value):
                reader.add(f"request.{key}", data[key], "It is not in the form that the collection writes.")
        return reader.finish(request)


def _of(part: str, fields: Iterable[Field]) -> Iterator[Field]:
    return (field for field in fields if field.of == part)


def _of_roles(fields: Iterable[Field], is_stored: bool = True) -> tuple[Field, ...]:
    """Return the fields of a role: of its stored form, or of those that a user gives."""
    return (*_of(ROLE, fields), *ROLE_FIELDS, *(KEPT_FIELDS if is_stored else ()))


def _unknown_keys(data: Mapping[str, Any], roles: Sequence[Any], fields: Sequence[Field]) -> set[str]:
    """Return the places of a request's JSON form that this release does not know."""
    known = {field.name for field in _of_roles(fields)} - {*_AMOUNTS} | {"name", "replicas", "resources"}
    unknown = {f"request.{key}" for key in {*data} - {field.name for field in _of(REQUEST, fields)} - {"roles"}}
    for position, role in enumerate(roles):
        unknown |= {f"request.roles[{position}].{key}" for key in {*_mapping(role)} - known}
        amounts = {*_mapping(_mapping(role).get("resources"))} - {*_AMOUNTS}
        unknown |= {f"request.roles[{position}].resources.{key}" for key in amounts}
    return unknown


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _restored(role: Any, fields: Iterable[Field]) -> Any:
    """Return the known keys of a stored role in the form in which a user would give them, if it is a role."""
    if not isinstance(role, Mapping):
        return role
    amounts = role.get("resources")
    flat = {**role, **(amounts if isinstance(amounts, Mapping) else {"cpus": "malformed"})}
    restore = {"name": _as_it_is, "replicas": _as_it_is, **{field.name: field.restore for field in _of_roles(fields)}}
    return {key: restore[key](value) for key, value in flat.items() if key in restore}


def _as_it_is(value: Any) -> Any:
    return value


def _says(stored: Any, written: Any) -> bool:
    """Tell whether the stored form equals the form that would be written, for roles only in keys that both have."""
    if isinstance(stored, list) and isinstance(written, list) and len(stored) == len(written):
        return all(map(_says, stored, written))
    if isinstance(stored, Mapping) and isinstance(written, Mapping):
        return all(_says(stored[key], written[key]) for key in stored if key in written)
    return bool(stored == written) and isinstance(stored, bool) == isinstance(written, bool)


TABLE_OF_APPS = "session_apps"
"""A site's table (`core.rules.apps`), which no launch reads; it may be in the inventory of all sessions."""
OTHER_TOOLS = {
    **dict.fromkeys(("gpu", "gpus", "gres"), "accelerators"),
    **dict.fromkeys(("args", "cmd"), "command"),
    **dict.fromkeys(("cpu", "cpus_per_task", "vcpus"), "cpus"),
    **dict.fromkeys(("working_dir", "chdir"), "directory"),
    **dict.fromkeys(("environment", "envs"), "env"),
    "exclude": "excluded_hosts",
    "nodelist": "hosts",
    **dict.fromkeys(("time", "time_limit", "timeout"), "max_duration"),
    **dict.fromkeys(("mem", "ram"), "memory"),
    **dict.fromkeys(("binds", "volume", "volumes"), "mounts"),
    "partition": "resource_group",
    "shm": "shm_size",
    **dict.fromkeys(("nodes", "num_nodes", "replicas", "scale", "workers"), "size"),
}
"""Names in Slurm, Docker, Compose, Ray, SkyPilot and dstack, with those of the request."""


def parse_request(variables: Mapping[str, Any], kind: type[Request] = Request, is_stored: bool = False) -> Request:
    """Return the request that *variables* describe.

    variables: all variables available; those whose names do not begin with ``session_`` are ignored. is_stored: whether
    they come from a stored form, whose roles have more than a user may give.
    Raises InvalidInput with every problem found.
    """
    reader = Reader()
    _check_names(reader, variables, [field.variable for field in kind.fields])
    has = {field.name: is_given(variables.get(field.variable)) for field in kind.fields}
    if not has["name"]:
        reader.add("session_name", variables.get("session_name"), "A session needs a name.")
    values = {
        field.name: field.read(reader, field.variable, variables.get(field.variable), field.standard)
        for field in kind.fields
    }
    base = {field.name: values.get(field.name, field.empty) for field in _of_roles(kind.fields)}
    given = {name for name in SIZED if has[name]}
    _check_pinned(reader, PREFIX, base)
    roles = _usual_roles(values["size"], base, given)
    if has["roles"]:
        before = len(reader.problems)
        known = _of_roles(kind.fields, is_stored)
        roles = _parse_roles(reader, values["roles"], base, has["image"], known, given)
        if has["size"] and len(reader.problems) == before:
            _check_size(reader, roles, values["size"], variables["session_size"])
    elif not has["image"]:
        reader.add("session_image", variables.get("session_image"), "A session needs an image.")
    values["size"] = sum(role.replicas for role in roles)
    values["mode"] = values["mode"] or _usual_mode(values["size"], values["max_size"])
    _check_together(reader, values, has)
    return reader.finish(kind(roles=roles, **{field.name: values[field.name] for field in _of(REQUEST, kind.fields)}))


def _check_size(reader: Reader, roles: Iterable[Role], size: int, given: object) -> None:
    total = sum(role.replicas for role in roles)
    if total != size:
        message = f"session_roles add up to {total} replicas. Leave session_size out, or make them agree."
        reader.add("session_size", given, message)


def _usual_roles(size: int, base: Mapping[str, Any], given: Collection[str]) -> tuple[Role, ...]:
    """Return the roles of a request that names none."""
    main = Role.of(MAIN, 1, base, given)
    return (main, Role.of("sub", size - 1, base, given)) if size > 1 else (main,)


def _usual_mode(size: int, max_size: int | None) -> str:
    """Return the mode of a request that names none."""
    return SINGLE_NODE if max(size, max_size or 1) == 1 else MULTI_NODE


def read_variable(name: str, variables: Mapping[str, Any]) -> Any:
    """Return the value of one variable alone, by the name of its field. Raises InvalidInput."""
    (field,) = (field for field in FIELDS if field.name == name)
    reader = Reader()
    return reader.finish(field.read(reader, field.variable, variables.get(field.variable), field.standard))


def _check_names(reader: Reader, variables: Mapping[str, Any], known: list[str]) -> None:
    for variable in sorted(str(key) for key in variables if isinstance(key, str) and key.startswith(PREFIX)):
        if variable not in known and variable != TABLE_OF_APPS:
            own = variable[len(PREFIX) :]
            hint = OTHER_TOOLS.get(own) or closest(own, (name[len(PREFIX) :] for name in known))
            more = f"Did you mean {PREFIX}{hint}?" if hint else f"Known are {', '.join(known)}."
            # Its value is not shown: it may be meant for session_env, which holds secrets.
            reader.add(variable, HIDDEN, f"There is no such variable. {more}")


def _check_pinned(reader: Reader, prefix: str, values: Mapping[str, Any]) -> None:
    if values["pin_cpus"] and values["cpus"] % 1000:
        message = f"With {prefix}pin_cpus it must be a whole number of CPUs."
        reader.add(prefix + "cpus", format_cpus(values["cpus"]), message)


def _check_together(reader: Reader, values: Mapping[str, Any], has: Mapping[str, bool]) -> None:
    """Record problems between values that are each valid alone."""
    for host in values["hosts"]:
        if host in values["excluded_hosts"]:
            message = "This host is in session_hosts, too. Take it out of one of them."
            reader.add("session_excluded_hosts", host, message)
    if values["max_size"] is not None and values["max_size"] < values["size"]:
        message = f"The session has {values['size']} replicas. Allow at least as many, or leave it out."
        reader.add("session_max_size", values["max_size"], message)
    if values["image_from"] is not None and values["image_archive"] is not None:
        message = "session_image_archive names another source. Leave one of them out."
        reader.add("session_image_from", values["image_from"], message)
    if values["end_warning"] is not None:
        ends = [values[key] for key in ("max_duration", "max_idle") if values[key] is not None]
        if not ends or values["end_warning"] >= min(ends):
            message = "It must be shorter than session_max_duration and session_max_idle, of which it needs one."
            reader.add("session_end_warning", format_span(values["end_warning"]), message)
    if values["workdir"] is not None:
        _check_workdir(reader, values["mounts"])
    if values["ssh_port"] is not None:
        _check_ssh_port(reader, values["ssh_port"], values["ports"], has["authorized_keys"])


def _check_workdir(reader: Reader, mounts: Iterable[Mount]) -> None:
    for mount in mounts:
        if workdir.meets(mount.target):
            message = f"Replicas have session_workdir at {WORK}. Mount it elsewhere, or leave one of them out."
            reader.add("session_mounts", mount.target, message)


def _check_ssh_port(reader: Reader, port: int, others: Iterable[Port], has_keys: bool) -> None:
    if not has_keys:
        message = "It is the port for those whose keys session_authorized_keys holds. Give these, or leave it out."
        reader.add("session_ssh_port", port, message)
    if any(
        ports_collide(EVERY_ADDRESS, port, "tcp", other.host_ip, other.host_port, other.protocol) for other in others
    ):
        reader.add("session_ssh_port", port, "session_ports publishes something else on this port of the host.")


def _parse_roles(
    reader: Reader,
    value: Any,
    base: Mapping[str, Any],
    has_image: bool,
    fields: Sequence[Field],
    amounts: Collection[str],
) -> tuple[Role, ...]:
    """Return the roles, main first.

    base: the values for roles that set none themselves. amounts: those that were given for all roles.
    """
    entries = _role_entries(reader, value)
    if not entries:
        return ()
    roles: list[Role] = []
    for position, entry in enumerate(entries):
        place = f"session_roles[{position}]"
        if not isinstance(entry, Mapping):
            reader.add(place, entry, "It must be a mapping with a name and replicas.")
            continue
        reader.unknown_keys(place, entry, ("name", "replicas", *(field.name for field in fields)))
        name = _role_name(reader, place, entry.get("name"), roles)
        replicas = _role_replicas(reader, place, entry.get("replicas"), name)
        if not has_image and not is_given(entry.get("image")):
            message = "Give the role an image, or all roles one with session_image."
            reader.add(place + ".image", entry.get("image"), message)
        values = {**base} | {
            field.name: field.read(reader, f"{place}.{field.name}", entry.get(field.name), base[field.name])
            for field in fields
        }
        _check_pinned(reader, place + ".", values)
        given = {*amounts, *(amount for amount in SIZED if is_given(entry.get(amount)))}
        roles.append(Role.of(name, replicas, values, given))
    names = [role.name for role in roles]
    if MAIN not in names:
        reader.add("session_roles", names, "One of the roles must be main, with one replica.")
    _check_replicas(reader, roles)
    _check_order(reader, roles)
    return tuple(sorted(roles, key=lambda role: role.name != MAIN))


def _role_entries(reader: Reader, value: Any) -> Sequence[Any]:
    """Return the entries of a list of roles, which may be JSON as text; none if it is malformed, which is recorded."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            reader.add("session_roles", HIDDEN, "As text it must be a JSON list of roles.")
            return ()
    if not isinstance(value, (list, tuple)) or not value:
        reader.add("session_roles", value, "It must be a list of roles, each a mapping with a name and replicas.")
        return ()
    if len(value) > MAXIMUM_SIZE:
        reader.add("session_roles", f"{len(value)} roles", f"There may be at most {MAXIMUM_SIZE}.")
        return ()
    return value


def _role_name(reader: Reader, place: str, name: Any, others: Iterable[Role]) -> str:
    if not isinstance(name, str) or _ROLE_NAME.fullmatch(name) is None or len(name) > MAXIMUM_ROLE_NAME:
        reader.add(
            place + ".name",
            name,
            f"It must have at most {MAXIMUM_ROLE_NAME} characters: lower-case letters, digits and '-', "
            "a letter first and no '-' last.",
        )
        return ""
    if any(role.name == name for role in others):
        reader.add(place + ".name", name, "Another role has the same name.")
    return "".join(name)


def _role_replicas(reader: Reader, place: str, given: Any, name: str) -> int:
    replicas = 1
    if is_given(given):
        replicas = reader.attempt(partial(parse_integer, place + ".replicas", given, 1, MAXIMUM_SIZE), 1)
    elif name != MAIN:
        reader.add(place + ".replicas", given, "Say how many replicas the role has, 1 or more.")
    if name == MAIN and replicas != 1:
        reader.add(place + ".replicas", replicas, "The role main has exactly one replica, main1.")
    return replicas


def _check_replicas(reader: Reader, roles: Iterable[Role]) -> None:
    """Record too many replicas, and two with the same name."""
    total = sum(role.replicas for role in roles)
    if total > MAXIMUM_SIZE:
        reader.add("session_roles", f"{total} replicas in all", f"A session has at most {MAXIMUM_SIZE} replicas.")
        return
    owners: dict[str, str] = {}
    for role in roles:
        for index in range(1, role.replicas + 1):
            replica = f"{role.name}{index}"
            owner = owners.setdefault(replica, role.name)
            if owner != role.name:
                message = f"Its replica {replica} has the same name as one of role {owner}. Rename one."
                reader.add("session_roles", role.name, message)
                break


def _check_order(reader: Reader, roles: Iterable[Role]) -> None:
    """Record roles that come after a missing role, after each other, or after too many."""
    after = {role.name: role.after for role in roles}
    unknown = {name: [other for other in earlier if other not in after] for name, earlier in after.items()}
    for name, others in unknown.items():
        for other in others:
            hint = closest(other, after)
            more = f"Did you mean {hint}?" if hint else f"There are {', '.join(after)}."
            reader.add("session_roles", f"{name} after {other}", f"There is no role {other}. {more}")
    if any(unknown.values()):
        return
    try:
        waves = len(start_waves(after))
    except ValueError as error:
        reader.add("session_roles", str(error), "They wait for each other, or for themselves, because of their after.")
        return
    if waves > MAXIMUM_WAVES:
        message = f"A session may be started in {MAXIMUM_WAVES} waves at most. Let more roles start side by side."
        reader.add("session_roles", f"{waves} roles after each other", message)


def diff_requests(old: Request, new: Request) -> list[tuple[str, str, str]]:
    """Return (field, old, new) for all differences, in words; "-" stands for a missing value.

    Values that may be secret are not shown.
    """
    before, after = _words_of(old), _words_of(new)
    result = []
    for place in {**before, **after}:
        (left, is_secret), (right, is_secret_now) = before.get(place, ("", False)), after.get(place, ("", False))
        if (left, place in before) == (right, place in after):
            continue
        if is_secret or is_secret_now:
            left, right = _without_secrets(place in before, place in after)
        result.append((place, left or "-", right or "-"))
    return result


def _without_secrets(was_set: bool, is_set: bool) -> tuple[str, str]:
    """Return words for the old and the new value of what may be secret."""
    if not was_set:
        return "-", "set"
    return "set", "another value" if is_set else "-"


def _words_of(request: Request) -> dict[str, tuple[str, bool]]:
    """Return a request in words, by place, and whether each value is secret; values that are not set are left out."""
    found = {"roles": (",".join(role.name for role in request.roles), False)}

    def add(place: str, field: Field, value: Any) -> None:
        shown = field.show(value)
        if isinstance(shown, Mapping):
            found.update({f"{place}.{key}": (text, field.secret) for key, text in shown.items()})
        elif shown:
            found[place] = (shown, field.secret)

    for role in request.roles:
        found[f"roles.{role.name}.replicas"] = (str(role.replicas), False)
        for field in _of_roles(request.fields):
            add(f"roles.{role.name}.{field.name}", field, role.value(field))
    compared = {field.name for field in dataclasses.fields(request) if field.compare}
    for field in _of(REQUEST, request.fields):
        if field.name in compared:
            add(field.name, field, getattr(request, field.name))
    return found


CHANGEABLE = ("roles", "authorized_keys", "max_size", "on_host_loss", "max_duration", "max_idle", "end_warning")
"""Fields that may change in a running session without creating it again; for roles only the number of replicas."""


def may_change_to(old: Request, new: Request) -> bool:
    """Tell whether a running session can change from *old* to *new* in place (`CHANGEABLE`).

    Adding the first key or removing the last decides whether there is a login at all, which is made with main1.
    """
    same_login = bool(old.authorized_keys) == bool(new.authorized_keys)
    before = {role.name: role for role in old.roles}
    same_roles = all(
        replace(before[role.name], replicas=role.replicas) == role for role in new.roles if role.name in before
    )
    # Image references were resolved when the session was launched.
    known_images = {role.image for role in new.roles} <= {role.image for role in old.roles}
    changed = {key: getattr(new, key) for key in CHANGEABLE}
    return same_login and same_roles and known_images and replace(old, **changed) == new


def in_mode_of(old: Request, new: Request) -> Request:
    """Return the new request for a running session, in the session's mode if a size of 1 would set another."""
    return replace(new, mode=old.mode) if new.size == 1 else new


def counts_of(request: Request) -> dict[str, int]:
    """Return how many replicas each role has."""
    return {role.name: role.replicas for role in request.roles}


def with_counts(request: Request, counts: Mapping[str, int]) -> Request:
    """Return the request with other numbers of replicas; roles without any are left out."""
    roles = tuple(replace(role, replicas=counts[role.name]) for role in request.roles if counts.get(role.name))
    return replace(request, roles=roles)

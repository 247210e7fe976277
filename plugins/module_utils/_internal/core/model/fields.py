# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The variables of a launch, in one table from which parsing, storage, comparison, documentation and surveys follow.

A new variable is a new `Field` here, and, if it is part of a request, an attribute of the same name in `request`.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from ..values.authorized_keys import parse_authorized_keys
from ..values.capabilities import UNLIMITED, format_memlock, parse_capabilities, parse_memlock
from ..values.deferred import dataclass
from ..values.errors import InvalidInput
from ..values.failure import FAILURE_POLICIES, RESTART
from ..values.image_names import MISSING, PULL_POLICIES
from ..values.parse import (
    Reader,
    converted,
    format_span,
    is_given,
    parse_bool,
    parse_choice,
    parse_env,
    parse_integer,
    parse_list,
    parse_span,
)
from ..values.resources import (
    MINIMUM_DISK,
    MINIMUM_SHM,
    format_cpus,
    format_memory,
    parse_accelerators,
    parse_cpus,
    parse_memory,
)
from .decode import encode
from .read_fields import (
    MAXIMUM_SESSION_NAME,
    parse_archive,
    parse_batch_command,
    parse_command,
    parse_directory,
    parse_earlier,
    parse_group,
    parse_groups,
    parse_hosts,
    parse_image,
    parse_name,
    parse_owner,
    parse_user,
    parse_users,
)
from .read_mounts import parse_mounts, parse_ports
from .record import DEFAULT_GROUP
from .workdir import parse_workdir, show_workdir

PREFIX = "session_"
"""Prefix of the names of all variables of a launch."""
SINGLE_NODE = "single-node"
MULTI_NODE = "multi-node"
WAIT, REPLACE, END = "wait", "replace", "end"
HOST_LOSS = (WAIT, REPLACE, END)
"""Possible reactions of a running session to the loss of one of its hosts."""
QUEUE, FAIL = "queue", "fail"
NO_CAPACITY = (QUEUE, WAIT, FAIL)
"""Possible reactions of a launch to missing capacity."""
MODES = (SINGLE_NODE, MULTI_NODE)
POLICIES = ("pack", "spread", "inventory")

MAXIMUM_SIZE = 4096
"""Most replicas of a session. Linux passes no environment string above 128 KiB to a program, and TF_CONFIG names every
replica: with `MAXIMUM_ROLE_NAME` this is the size up to which it fits for certain."""
MAXIMUM_ROLE_NAME = 16
PRIORITIES = (-1_000_000, 1_000_000)
"""The lowest and the highest priority of a session."""
LEAST_SPAN, LONGEST_SPAN = 60, 365 * 24 * 3600
"""Shortest time in seconds that hosts can measure: they check each minute, or more often."""

REQUEST, ROLE, LAYOUT, LAUNCH = "request", "role", "layout", "launch"
"""Scope of a variable: the session; every role, which may have a value of its own; the list of roles; this launch
alone, so that it is not in the record."""


ALL, SHARE = "all", "share"
"""Rules by which an amount follows from the hosts: all that one has, or its share by the accelerators of a replica."""
OF_HOST = 0
"""The amount of a role that asks for all that a host has, until it is known."""


def _same(value: Any) -> Any:
    return value


def _or_all(parse: Callable[[Any], int]) -> Callable[[str, Any], int]:
    """Return a parser of an amount that knows the word for all of a host as well."""

    def parse_amount(value: Any) -> int:
        if isinstance(value, str) and value.strip().lower() == ALL:
            return OF_HOST
        try:
            return parse(value)
        except ValueError as error:
            raise ValueError(f"{error} Or {ALL}, for what a host has.") from error

    return converted(parse_amount)


def _parse_rules(variable: str, value: Any) -> tuple[tuple[str, str], ...]:
    """Return the rules of amounts, sorted. Raises InvalidInput."""
    known = isinstance(value, Mapping) and all(key in SIZED and rule in (ALL, SHARE) for key, rule in value.items())
    if not known:
        raise InvalidInput.single(variable, value, f"It must be a mapping of {', '.join(SIZED)} to {ALL} or {SHARE}.")
    return tuple(sorted(value.items()))


def _words(value: Any) -> str:
    """Return a plain value in words, empty if there is none."""
    if isinstance(value, tuple):
        return ",".join(value)
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Question:
    """The question of AWX for a variable, beyond what follows from its field.

    lines: whether the answer has several lines. required: whether it has to be answered although the field has no
    default. limits: least and most characters. default, choices: replace those of the field; an empty
    default is none.
    """

    name: str
    description: str
    lines: bool = False
    required: bool = False
    limits: tuple[int, int] | None = None
    default: str | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Field:
    """One variable of a launch.

    name: that of the variable without `PREFIX`, of the attribute, and of the key in the stored form. kind, meaning: for
    people, in Markdown. parse: from the variable and the given value to the value; raises InvalidInput. of: its scope.
    default: as a user would give it, None if there is none; otherwise: in words what applies then, and empty: that
    value. write: from the value to its stored form (JSON), restore: from there to what is parsed again. show: the value
    in words, empty if there is none, or several by place. add: combines the value of the session and that of a role.
    secret: whether differences hide the value. optional: whether the stored form omits it if it is the default, as for
    every variable that came after release 1.0.0: so this release reads what an earlier one wrote, and an earlier one
    can read what does not use the variable. bounds, choices: what is allowed, if that is the only rule.
    """

    name: str
    kind: str
    meaning: str
    parse: Callable[[str, Any], Any]
    of: str = REQUEST
    default: Any = None
    otherwise: str = "none"
    empty: Any = None
    write: Callable[[Any], Any] = encode
    restore: Callable[[Any], Any] = _same
    show: Callable[[Any], str | Mapping[str, str]] = _words
    add: Callable[[Any, Any], Any] = lambda _inherited, own: own
    secret: bool = False
    optional: bool = False
    bounds: tuple[int, int] | None = None
    choices: tuple[str, ...] = ()
    question: Question | None = None

    @cached_property
    def variable(self) -> str:
        """The name of the variable."""
        return PREFIX + self.name

    @cached_property
    def standard(self) -> Any:
        """The value if nothing is given."""
        return self.empty if self.default is None else self.parse(self.variable, self.default)

    def read(self, reader: Reader, place: str, given: Any, inherited: Any) -> Any:
        """Return the value given at *place*, or *inherited* if there is none or it cannot be used."""
        if not is_given(given):
            return inherited
        try:
            return self.add(inherited, self.parse(place, given))
        except InvalidInput as error:
            reader.problems.extend(error.problems)
            return inherited


def _integer(name: str, least: int, most: int, meaning: str, **more: Any) -> Field:
    def parse(variable: str, value: Any) -> int:
        return parse_integer(variable, value, least, most)

    return Field(name, f"{least} to {most}", meaning, parse, bounds=(least, most), **more)


def _choice(name: str, choices: tuple[str, ...], meaning: str, **more: Any) -> Field:
    def parse(variable: str, value: Any) -> str:
        return parse_choice(variable, value, choices)

    return Field(name, ", ".join(f"`{choice}`" for choice in choices), meaning, parse, choices=choices, **more)


def _truth(name: str, meaning: str, **more: Any) -> Field:
    return Field(name, "true or false", meaning, parse_bool, default=False, **more)


TRUTHS = ("false", "true")
"""The choices of a question to which the answer is true or false."""


def _span(name: str, meaning: str, otherwise: str, question: Question) -> Field:
    def parse(variable: str, value: Any) -> int:
        return parse_span(variable, value, LEAST_SPAN, LONGEST_SPAN)

    def show(seconds: int | None) -> str:
        return "" if seconds is None else format_span(seconds)

    kind = "span: `90s`, `1h30m`, `2d`"
    return Field(name, kind, meaning, parse, otherwise=otherwise, optional=True, show=show, question=question)


SIZED = ("cpus", "memory")
"""Amounts that may follow from the hosts."""
CONTROLLER = "controller"
"""The source of images that is the controller's own engine."""

_BY_DEFAULT = "by default the share of the host by its accelerators, or"

FIELDS = (
    Field(
        "name",
        "text",
        "Name of the session. Containers are named `NAME-REPLICA`.",
        parse_name,
        otherwise="required",
        question=Question(
            "Session",
            "Its name: lower-case letters, digits and '-', at most 40",
            required=True,
            limits=(1, MAXIMUM_SESSION_NAME),
        ),
    ),
    Field(
        "resource_group",
        "inventory group",
        "The hosts that may be used.",
        parse_group,
        default=DEFAULT_GROUP,
        question=Question("Resource group", "The hosts that may be used"),
    ),
    Field(
        "image",
        "text",
        "Image of every replica, by tag, digest or id; hosts that lack it [get it](images.md#how-hosts-get-an-image).",
        parse_image,
        ROLE,
        otherwise="required, unless every role names one",
        empty="",
        question=Question("Image", "Image of every container", required=True),
    ),
    _choice(
        "image_pull",
        PULL_POLICIES,
        "When the registry is asked for the image, see [Images](images.md#how-hosts-get-an-image).",
        default=MISSING,
    ),
    Field(
        "image_archive",
        "absolute path",
        "File on the controller, made by `docker save`, that holds images of the session.",
        parse_archive,
    ),
    _choice(
        "image_from",
        (CONTROLLER,),
        "The controller's own engine gives the image to hosts that lack it, see "
        "[Images](images.md#how-hosts-get-an-image).",
        otherwise="a registry or other hosts",
        optional=True,
    ),
    Field(
        "workdir",
        "path",
        "Folder of the controller that each replica gets as `/work`, see [Your code](request.md#your-code).",
        parse_workdir,
        show=show_workdir,
        optional=True,
    ),
    _choice(
        "mode",
        MODES,
        "`single-node` insists on one host. `multi-node` may span hosts, but takes one host if that can hold all "
        "replicas.",
        otherwise="`single-node` for size 1, else `multi-node`",
        question=Question(
            "Cluster mode",
            "A multi-node session still takes one host if one can hold all containers",
            default=MULTI_NODE,
            choices=(MULTI_NODE, SINGLE_NODE),
        ),
    ),
    _integer(
        "size",
        1,
        MAXIMUM_SIZE,
        "Number of replicas: `main1`, `sub1`, `sub2`, …",
        of=LAYOUT,
        default=1,
        question=Question("Cluster size", "Number of containers, the main one included"),
    ),
    _integer(
        "max_size",
        1,
        MAXIMUM_SIZE,
        "Size to which the session may grow while it runs, see [Change the size](resize.md).",
        otherwise="depends on its networks",
        optional=True,
        question=Question("Largest size", "How far it may grow while it runs"),
    ),
    _integer(
        "min_size",
        1,
        MAXIMUM_SIZE,
        "Grow a running session by what fits, but at least to this size.",
        of=LAUNCH,
        otherwise="grow by all, or not at all",
    ),
    Field(
        "cpus",
        "CPUs",
        "CPU limit of a replica: `4`, `0.5`, `500m`, `all` of a host. Beside accelerators by default "
        "[its share](gpu_and_numa.md#gpus-in-a-session).",
        _or_all(parse_cpus),
        ROLE,
        default=1,
        restore=lambda amount: f"{amount}m" if isinstance(amount, int) and not isinstance(amount, bool) else amount,
        show=format_cpus,
        question=Question("CPUs of each container", f"4, 0.5, 500m or all of a host; {_BY_DEFAULT} 1", default=""),
    ),
    Field(
        "memory",
        "memory",
        "Memory limit of a replica, likewise; no swap beyond it: `4g`, `512MiB`, `1Gi`, `all`.",
        _or_all(parse_memory),
        ROLE,
        default="1g",
        show=format_memory,
        question=Question("Memory of each container", f"4g, 512MiB or all of a host; {_BY_DEFAULT} 1g", default=""),
    ),
    Field(
        "shm_size",
        "memory",
        "Size of `/dev/shm` in a replica, 1 MiB or more.",
        converted(lambda value: parse_memory(value, minimum=MINIMUM_SHM)),
        ROLE,
        default="64m",
        show=format_memory,
        question=Question("Shared memory of each container", "Size of /dev/shm"),
    ),
    Field(
        "accelerators",
        "mapping or `CLASS=COUNT` list",
        "Accelerators of a replica by class, see below.",
        converted(parse_accelerators),
        ROLE,
        empty=(),
        write=dict,
        show=lambda counts: {kind: str(count) for kind, count in counts},
        question=Question("Accelerators of each container", "gpu=2, several with commas"),
    ),
    _truth("pin_cpus", "Run each replica on specific CPUs, see below.", of=ROLE),
    Field(
        "capabilities",
        "list",
        "Additional capabilities of root in a replica, see below.",
        lambda variable, value: parse_capabilities(variable, parse_list(variable, value)),
        ROLE,
        empty=(),
    ),
    Field(
        "memlock",
        "memory, `unlimited`",
        "How much memory a process of a replica may lock, see below.",
        converted(parse_memlock),
        ROLE,
        otherwise="the engine's",
        write=lambda amount: "unlimited" if amount == UNLIMITED else amount,
        show=lambda amount: "" if amount is None else format_memlock(amount),
    ),
    Field(
        "disk_size",
        "memory",
        "How much a replica may write outside its mounts, see below.",
        converted(lambda value: parse_memory(value, minimum=MINIMUM_DISK)),
        ROLE,
        otherwise="what the host has",
        optional=True,
        show=lambda amount: "" if amount is None else format_memory(amount),
    ),
    Field(
        "mounts",
        "list",
        "Folders or files of the hosts, and volumes, that every replica sees, see below.",
        parse_mounts,
        empty=(),
        show=lambda mounts: {mount.target: mount.describe() for mount in mounts},
        question=Question(
            "Mounts", "One a line, /folder/on/hosts:/folder/in/containers, with :ro for read-only", lines=True
        ),
    ),
    Field(
        "env",
        "mapping or `NAME=value` lines",
        "Additional environment variables of every replica.",
        lambda variable, value: tuple(sorted(parse_env(variable, value).items())),
        ROLE,
        empty=(),
        write=dict,
        show=dict,
        add=lambda inherited, own: tuple(sorted({**dict(inherited), **dict(own)}.items())),
        secret=True,
        question=Question("Environment", "One NAME=value a line; no secrets, they are kept with the job", lines=True),
    ),
    Field(
        "ports",
        "list",
        "Ports of `main1` to publish on its host.",
        parse_ports,
        empty=(),
        show=lambda ports: {port.socket: str(port.container_port) for port in ports},
        question=Question("Ports of main1", "8888, or 8080:80 for another number on the host; several with commas"),
    ),
    Field(
        "command",
        "list or text",
        "Command of every replica.",
        parse_command,
        ROLE,
        otherwise="the image's",
        show=lambda words: shlex.join(words or ()),
        question=Question("Command", "For every container; empty for the command of the image", lines=True),
    ),
    Field(
        "entrypoint",
        "list or text",
        "The program that gets the command, in place of the image's entrypoint, see "
        "[Images](images.md#what-runs-first).",
        parse_command,
        ROLE,
        otherwise="the image's",
        optional=True,
        show=lambda words: shlex.join(words or ()),
    ),
    Field(
        "init",
        "true or false",
        "Whether Docker's init is the first process of a replica, see [Images](images.md#what-runs-first).",
        parse_bool,
        ROLE,
        default=True,
        optional=True,
    ),
    Field(
        "user",
        "`me`, `uid:gid` or name",
        "The user that all programs of a replica run as, see [Images](images.md#users).",
        parse_user,
        ROLE,
        otherwise="the image's",
        optional=True,
    ),
    Field(
        "groups",
        "list of names or numbers",
        "More groups of that user, such as `video`: names are those of the host, see [Images](images.md#users).",
        parse_groups,
        ROLE,
        empty=(),
        optional=True,
    ),
    Field(
        "directory",
        "path",
        "The working directory of the replica's program, jobs and commands.",
        parse_directory,
        ROLE,
        otherwise="the image's",
        optional=True,
    ),
    Field(
        "batch_command",
        "list or text",
        "What main1 runs once all replicas are ready; the session ends with it, see below.",
        parse_batch_command,
        show=lambda words: shlex.join(words or ()),
        question=Question("Batch command", "Runs in main1 once all are ready; the session ends with it", lines=True),
    ),
    Field(
        "roles",
        "list of mappings, or JSON text",
        "Roles with their own resources, image, environment or command.",
        lambda _variable, value: value,
        LAYOUT,
        otherwise="one `main`, the rest `sub`",
    ),
    Field("hosts", "list of hosts", "Use only these.", parse_hosts, otherwise="all of the group", empty=()),
    Field("excluded_hosts", "list of hosts", "Do not use these.", parse_hosts, empty=()),
    _integer(
        "max_replicas_per_host", 1, MAXIMUM_SIZE, "Maximum replicas of this session on one host.", otherwise="no limit"
    ),
    _choice("policy", POLICIES, "Which hosts to prefer if several choices need equally few.", default=POLICIES[0]),
    _integer("master_port", 1, 65535, "Value of `MASTER_PORT`, and the port in `TF_CONFIG`.", default=12345),
    _truth(
        "slurm_variables",
        "Whether programs see the session as a Slurm job, see [the environment](environment.md#slurm).",
        optional=True,
    ),
    _integer(
        "priority",
        *PRIORITIES,
        "Place in the queue: the highest first.",
        default=0,
        question=Question("Priority", "The highest is launched first"),
    ),
    _choice(
        "on_no_capacity",
        NO_CAPACITY,
        "If there is no capacity now: the session waits in the queue, the launch waits as well, or it fails.",
        of=LAUNCH,
        default=QUEUE,
        question=Question("Without capacity", "The session waits in the queue; or the job waits as well; or it fails"),
    ),
    _integer(
        "wait_seconds",
        1,
        7 * 24 * 3600,
        "Maximum wait; then the launch fails, and the session stays in the queue.",
        of=LAUNCH,
        default=3600,
    ),
    Field(
        "owner",
        "text",
        "Owner of the session, also for [limits](queue.md#limits).",
        parse_owner,
        LAUNCH,
        otherwise="the user of AWX, else the login name",
    ),
    Field(
        "shared_with",
        "list of users",
        "Other users who may change, enter and read the session, see "
        "[Ownership and access](security.md#ownership-and-access).",
        parse_users,
        LAUNCH,
        empty=(),
        question=Question("Shared with", "Users who may change, enter and read it as well, such as ada,bob"),
    ),
    _truth(
        "recreate",
        "Replace a running or waiting session whose request has changed.",
        of=LAUNCH,
        question=Question("Replace", "Whether to replace the session if it runs with other answers"),
    ),
    _truth("regenerate_keys", "Make new SSH keys for the whole session, and new keys of its tunnel.", of=LAUNCH),
    _choice(
        "on_host_loss",
        HOST_LOSS,
        "What happens to the session if one of its hosts is lost, see [Lost hosts](recovery.md#lost-hosts).",
        default=WAIT,
        optional=True,
        question=Question("When a host is lost", "Wait for it, replace its containers on others, or end"),
    ),
    _choice(
        "failure_policy",
        FAILURE_POLICIES,
        "What happens if a replica fails, see [Recovery](recovery.md#when-a-replica-fails).",
        default=RESTART,
    ),
    _integer(
        "restart_limit",
        0,
        1000,
        "How often a failed replica is started again, with the policy `restart`.",
        default=3,
    ),
    _span(
        "max_duration",
        "Maximum run time, after which its hosts end the session, see [Durations](request.md#durations).",
        "no limit",
        Question("Longest duration", "After which the session ends: 90m, 8h or 2d"),
    ),
    _span(
        "max_idle",
        "Maximum time without use, after which the session ends, see [Durations](request.md#durations).",
        "no limit",
        Question("Longest idle time", "After which an unused session ends: 90m, 8h or 2d"),
    ),
    _span(
        "end_warning",
        "How long before such an end the programs are warned.",
        "none",
        Question("Warning before the end", "How long before the end programs are warned: 10m"),
    ),
    _truth("encrypted", "Whether traffic between hosts has to be encrypted, see below."),
    Field(
        "authorized_keys",
        "list, or a key a line",
        "Public keys with which you [log in](login.md) to `main1` from outside.",
        parse_authorized_keys,
        empty=(),
        write=lambda keys: [key.text for key in keys],
        show=lambda keys: {key.fingerprint: f"{key.kind} {key.comment}".strip() for key in keys},
        question=Question("SSH public keys", "One a line, with which you log in to main1", lines=True),
    ),
    _integer("ssh_port", 1, 65535, "Port of `main1`'s host for this login.", otherwise="a free one of the site's"),
)


ROLE_FIELDS = (
    Field(
        "after",
        "list of roles",
        "Roles that have to be ready before this one is started.",
        parse_earlier,
        ROLE,
        empty=(),
        optional=True,
    ),
    _integer(
        "ready_port",
        1,
        65535,
        "TCP port on which each replica listens when it is ready.",
        of=ROLE,
        optional=True,
    ),
)
"""Fields that only roles have: there is no variable that sets them for the whole session."""
KEPT_FIELDS = (
    Field(
        "of_host",
        "mapping",
        "Which amounts follow from the hosts, and by which rule.",
        _parse_rules,
        ROLE,
        empty=(),
        write=dict,
        show=dict,
        optional=True,
    ),
)
"""Fields of roles in the stored form alone: users do not set them."""

KNOWN_VARIABLES = tuple(field.variable for field in FIELDS)


def documented(fields: tuple[Field, ...] = FIELDS) -> list[tuple[str, str, str, str]]:
    """Return a row of each variable for the reference: name, allowed values, default, meaning."""
    return [
        (
            f"`{field.variable}`",
            field.kind,
            field.otherwise if field.default is None else f"`{_words(field.default)}`",
            field.meaning,
        )
        for field in fields
    ]


def questions(fields: tuple[Field, ...] = FIELDS) -> dict[str, dict[str, Any]]:
    """Return the questions of AWX before a launch, by variable, in the form of its surveys."""
    return {field.variable: _survey_question(field, field.question) for field in fields if field.question is not None}


def _survey_question(field: Field, question: Question) -> dict[str, Any]:
    default = field.default if question.default is None else question.default or None
    made: dict[str, Any] = {
        "type": "textarea" if question.lines else "text",
        "question_name": question.name,
        "question_description": question.description,
        "variable": field.variable,
        "required": question.required or default is not None,
    }
    limits = question.limits or field.bounds
    if limits is not None:
        made["min"], made["max"] = limits
    if field.bounds is not None:
        made["type"] = "integer"
    choices = question.choices or field.choices or (TRUTHS if field.parse is parse_bool else ())
    if choices:
        made["type"], made["choices"] = "multiplechoice", list(choices)
    if default is not None:
        made["default"] = default if field.bounds is not None else _words(default)
    return made

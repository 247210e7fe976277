# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The common parts of the calls to a host, and of the answers to them.

A call is a dataclass for each of its states, whose fields are what the host reads. The controller sends `arguments_of`
it, and the program on the host reads it back by `read`. On the wire it is a mapping with ``state``, if the call has
states, and a key for each field that is not None.

Two fields mean the same everywhere. host: the name of the called host, in the plan of the session. state_directory:
where that host stores the data of sessions.

An answer is a dataclass as well. The program on the host sends `plain_answer` of it, and the controller reads that by
`answers.read_answers`.

Annotations are types in the files of calls, not text, as the decoder reads them.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, Field, field, fields, replace
from typing import Any, ClassVar, Optional, TypeVar

from ...values.deferred import dataclass
from ...values.errors import NotTheirs, hangs, is_of_host, message_of, sentence, show
from ..decode import OPTIONAL, READ, Malformed, decode, encode
from ..record import read_record

STATE_DIRECTORY = "/var/lib/cluster-compute"

PATH = {"type": "path"}
"""Metadata of a field that is a path on the host. Ansible expands a user's directory and variables in it."""
SECRET = {"secret": True}
"""Metadata of a field that is never shown."""
PUBLIC = {"secret": False}
"""Metadata of a field that is shown, although Ansible takes it for a secret because of its name."""
AT_CONTROLLER = {"at_controller": True}
"""Metadata of a field that only the controller's part of the call reads, not the host."""
RECORD = {READ: read_record}
"""Metadata of a field with records, which are checked as strictly as those that are read from a disk."""


class Call:
    """A call to a host.

    call: the name of the call, which is that of its file in `host.calls`. state: empty if the call has no states.
    is_default: whether it is meant if no state is given. any_of: fields of which at least one has to be given.
    has_check_mode: whether it supports check mode.
    """

    call: ClassVar[str]
    state: ClassVar[str] = ""
    is_default: ClassVar[bool] = False
    any_of: ClassVar[tuple[str, ...]] = ()
    has_check_mode: ClassVar[bool] = True


SILENCE = "It did not answer."


@dataclass(frozen=True)
class Answer:
    """Fields that any answer may have.

    None is left out on the wire, and means that the host has not done that part. msg: why the call failed, or could
    not be made. sick: if the host is why. hangs: if something of the host did not answer. refused: if the session is
    another user's; theirs: the ids of such sessions. diff: in the form of Ansible. nulls: fields that are not left out.
    """

    nulls: ClassVar[tuple[str, ...]] = ()

    changed: Optional[bool] = None
    failed: bool = field(default=False, metadata=OPTIONAL)
    unreachable: bool = field(default=False, metadata=OPTIONAL)
    sick: bool = field(default=False, metadata=OPTIONAL)
    hangs: bool = field(default=False, metadata=OPTIONAL)
    refused: bool = field(default=False, metadata=OPTIONAL)
    theirs: tuple[str, ...] = field(default=(), metadata=OPTIONAL)
    msg: str = field(default="", metadata=OPTIONAL)
    actions: Optional[tuple[str, ...]] = None
    diff: Any = None
    # Ansible stores those of a registered result as objects.
    warnings: tuple[str, ...] = field(default=(), metadata={**OPTIONAL, READ: str})

    @property
    def why_not(self) -> str:
        """Why the host has not done its part: one or more full sentences."""
        return sentence(self.msg or SILENCE)


A = TypeVar("A", bound=Answer)
States = Mapping[type[Call], Callable[[Any, bool], Answer]]
"""By state of a call, the function that runs it on the host; its second argument is whether that is check mode."""


def fields_of(kind: type[Call]) -> "tuple[Field[Any], ...]":
    """Return the fields of a call."""
    return fields(kind)  # type: ignore[arg-type]


def is_required(part: "Field[Any]") -> bool:
    """Whether a field has to be given."""
    return part.default is MISSING and part.default_factory is MISSING


def arguments_of(request: Call) -> dict[str, Any]:
    """Return the plain form of a call for the wire."""
    state = {"state": request.state} if request.state else {}
    return {**state, **{key: value for key, value in encode(request).items() if value is not None}}


def _kind_of(kinds: Collection[type[Call]], state: object) -> type[Call]:
    """Return the class of a call's state; None for the default one. Raises Malformed."""
    meant = [kind for kind in kinds if (kind.is_default if state is None else kind.state == state)]
    if not meant and len(kinds) == 1:
        meant = [kind for kind in kinds if not kind.state]
    if not meant:
        name = next(iter(kinds)).call
        raise Malformed([f"The call {name} has no state {show(state)}" if state else f"The call {name} lacks a state"])
    return meant[0]


def read(kinds: Collection[type[Call]], arguments: Mapping[str, Any]) -> Call:
    """Return a call from its plain form. kinds: its states.

    None counts as not given, and what only other states of the call read is ignored, because Ansible fills in the
    defaults of all options of a call. Raises Malformed.
    """
    name, kind = next(iter(kinds)).call, _kind_of(kinds, arguments.get("state"))
    own = {part.name for part in fields_of(kind)}
    others = {part.name for other in kinds for part in fields_of(other)} - own | {"state"}
    given = {key: value for key, value in arguments.items() if value is not None and key not in others}
    if kind.any_of and not any(key in given for key in kind.any_of):
        raise Malformed([f"The call {name} lacks {' or '.join(kind.any_of)}"])
    return decode(kind, given, f"The call {name}")


def plain_answer(answer: Answer) -> Mapping[str, Any]:
    """Return the plain form of an answer for the wire, which is also the result of the module of that name."""
    return {key: value for key, value in encode(answer).items() if value is not None or key in answer.nulls}


def failed(error: BaseException, answer: A) -> A:
    """Return an answer with the failure of its call."""
    theirs = error.sessions if isinstance(error, NotTheirs) else ()
    why = replace(answer, failed=True, msg=message_of(error), sick=is_of_host(error), hangs=hangs(error))
    return replace(why, refused=isinstance(error, NotTheirs), theirs=theirs)

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The errors of the core, as exceptions with data.

Every message is one or more full sentences that name the thing, the value found, and what is allowed.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping
from typing import Any

from .deferred import dataclass

_LONGEST_VALUE_SHOWN = 120
_OF_HOST = {
    errno.EACCES,
    errno.EDQUOT,
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.ENOSPC,
    errno.EROFS,
    errno.ESTALE,
}
"""Errors of the operating system that are a host's own fault, whatever the request was."""


def show(value: object) -> str:
    """Return *value* as text that is safe on a terminal: control characters escaped, long values cut."""
    if value is None:
        return "not given"
    try:
        text = str(value) if isinstance(value, (bool, int, float)) else repr(value)
    except ValueError:  # Python refuses to print whole numbers of more than some thousand digits
        return "a number too long to show"
    except RecursionError:
        return "lists or mappings nested too deeply to show"
    text = printable(text)
    if len(text) > _LONGEST_VALUE_SHOWN:
        return text[:_LONGEST_VALUE_SHOWN] + f"... (cut, {len(text)} characters)"
    return text


def printable(text: str) -> str:
    """Return text without characters that a terminal would act on."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


OUTPUT = "| "
"""Beginning of lines of a message that a program of a session wrote; only the user who ran it may see them."""


def spoken(value: Any) -> Any:
    """Return what people are shown in printable form: texts of several lines, and lists and mappings of them.

    Much of it comes from elsewhere, such as an image or an engine, and must not control the terminal.
    """
    if isinstance(value, str):
        return value if value.isprintable() else "\n".join(map(printable, value.split("\n")))
    if isinstance(value, Mapping):
        return {key: spoken(item) for key, item in value.items()}
    return [spoken(item) for item in value] if isinstance(value, (list, tuple)) else value


def sentence(text: str) -> str:
    """Return text with a full stop or a similar mark at its end, so that another sentence can follow."""
    text = text.strip().rstrip(":")
    return text if text.endswith((".", "!", "?")) or "\n" in text else f"{text}."


def message_of(error: BaseException) -> str:
    """Return the message of an error for people: without numbers, quotes or names of Python's own."""
    if isinstance(error, SessionError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        paths = [printable(path) for path in (error.filename, error.filename2) if isinstance(path, str)]
        return f"{' and '.join(paths)}: {error.strerror}." if paths else f"{error.strerror}."
    return f"{type(error).__name__}: {printable(str(error))}"


def is_of_host(error: BaseException | None) -> bool:
    """Tell whether an error is the host's own fault, so that another host would carry out the request."""
    return error.errno in _OF_HOST if isinstance(error, OSError) else getattr(error, "is_of_host", False)


def hangs(error: BaseException | None) -> bool:
    """Tell whether an error means that something of the host did not answer at all."""
    return bool(getattr(error, "hangs", False))


HIDDEN = "(value not shown)"
"""Takes the place of a value that may be secret."""


@dataclass(frozen=True)
class Problem:
    """One problem of the input.

    variable: the name of the user's variable, with the place inside it, as in ``session_mounts[1].target``.
    value: the offending value as it was given. The code that creates the problem leaves out secret values.
    message: what is allowed or what to do, as one or more full sentences.
    """

    variable: str
    value: object
    message: str

    def __str__(self) -> str:
        return f"{printable(self.variable)} is {show(self.value)}: {self.message}"


class SessionError(Exception):
    """Base of all errors whose message is meant for the user, and is printable whatever it quotes.

    is_of_host: whether another host would carry out the request. hangs: whether something of the host did not answer.
    """

    is_of_host = False
    hangs = False

    def __str__(self) -> str:
        return str(spoken(super().__str__()))


class NotTheirs(SessionError):
    """Sessions of a name belong to another user. sessions: their ids."""

    def __init__(self, message: str, sessions: Iterable[str]) -> None:
        self.sessions = tuple(sessions)
        super().__init__(message)


class CoreError(SessionError):
    """Base of all errors that the core raises on purpose."""


class InvalidInput(CoreError):
    """The user's input cannot be used. Carries every problem found, not only the first one."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))

    @classmethod
    def single(cls, variable: str, value: object, message: str) -> InvalidInput:
        """Make an error of one problem."""
        return cls((Problem(variable, value, message),))


class PoolExhausted(CoreError):
    """A pool of subnets, of VXLAN network identifiers or of ports has nothing free left."""

    def __init__(self, variable: str, pool: str, message: str) -> None:
        self.variable = variable
        self.pool = pool
        super().__init__(message)


class InvalidPlan(CoreError):
    """A plan that was read back is malformed, or was written by a newer release.

    problems: one sentence each, naming the place in the plan.
    schema: the schema found, if the plan is rejected because it is newer.
    """

    def __init__(self, problems: Iterable[str], schema: int | None = None) -> None:
        self.problems: tuple[str, ...] = tuple(problems)
        self.schema = schema
        super().__init__("\n".join(self.problems))


class RenamedHost(CoreError):
    """The inventory and the sessions that run on hosts have different names for them.

    problems: one host in one session each, in full sentences.
    """

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems: tuple[str, ...] = tuple(problems)
        super().__init__("\n".join(self.problems))


class MissingLibrary(CoreError):
    """A Python library that the controller needs is not installed."""

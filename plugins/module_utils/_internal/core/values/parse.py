# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Plain values as users write them: a number may be a string, a list may be text, and empty text means "not given"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Callable, TypeVar

from .environment_names import CONTRACT_NAMES, ENVIRONMENT_NAME
from .errors import HIDDEN, InvalidInput, Problem

MAXIMUM_ENVIRONMENT_STRING = 131071
"""Most bytes of NAME=value: Linux' MAX_ARG_STRLEN minus the closing NUL."""
_ANOTHER = re.compile(r",\s*[A-Z_][A-Z0-9_]*=")
"""Separates variables that were given in one line."""

SPAN = re.compile(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,7})m)?(?:(\d{1,9})s?)?", re.ASCII)
"""A span of time: days, hours, minutes, seconds."""
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_T = TypeVar("_T")
Readers = Mapping[str, Callable[[str, Any], Any]]
"""By the name of a variable without its prefix the function that reads it, from its whole name and its value."""


class Reader:
    """Collects problems, so that one invalid value does not hide the next."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def add(self, variable: str, value: object, message: str) -> None:
        """Record that *value* cannot be used, in full sentences."""
        self.problems.append(Problem(variable, value, message))

    def attempt(self, make: Callable[[], _T], fallback: _T) -> _T:
        """Return the result of *make*, or record the problems of its InvalidInput and return *fallback*."""
        try:
            return make()
        except InvalidInput as error:
            self.problems.extend(error.problems)
            return fallback

    def each(self, prefix: str, readers: Readers, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of the given variables by their names without the prefix, and record the problems."""
        found = {}
        for key, read in readers.items():
            value = variables.get(prefix + key)
            if is_given(value):
                try:
                    found[key] = read(prefix + key, value)
                except InvalidInput as error:
                    self.problems.extend(error.problems)
                except ValueError as error:
                    self.add(prefix + key, value, str(error))
        return found

    def finish(self, result: _T) -> _T:
        """Return *result*. Raises InvalidInput with all problems where there are any."""
        if self.problems:
            raise InvalidInput(self.problems)
        return result

    def unknown_keys(self, variable: str, value: Mapping[Any, Any], keys: Sequence[str]) -> None:
        """Record each key of a mapping that is not one of *keys*."""
        for key in value:
            if key not in keys:
                shown = key if isinstance(key, str) and is_plain(key) else repr(key)
                message = f"This key is unknown; known are {', '.join(keys)}.{did_you_mean(key, keys)}"
                self.add(f"{variable}.{shown}", value[key], message)


def closest(name: str, names: Iterable[str]) -> str | None:
    """Return the one of *names* that *name* is most likely meant to be, None if it resembles none of them."""
    import difflib  # not needed where nothing is wrong

    found = difflib.get_close_matches(name, sorted(names), n=1, cutoff=0.6)
    return found[0] if found else None


def did_you_mean(name: object, names: Iterable[str]) -> str:
    """Return a question to add to a message, empty if *name* resembles none of *names*."""
    hint = closest(name, names) if isinstance(name, str) else None
    return f" Did you mean {hint}?" if hint else ""


def is_given(value: object) -> bool:
    """Tell whether *value* was given: None and blank text (an unanswered survey question) do not count."""
    return value is not None and not (isinstance(value, str) and not value.strip())


def is_plain(text: str, allowed: str = "") -> bool:
    """Tell whether *text* contains only characters that can be printed and written as UTF-8, plus those *allowed*."""
    if any((ord(c) < 32 or 127 <= ord(c) < 160) and c not in allowed for c in text):
        return False
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def numbers_as_text(value: object) -> object:
    """Return a whole number as text, everything else as it is."""
    return str(int(value)) if isinstance(value, int) and not isinstance(value, bool) else value


def split_list(value: object) -> list[Any]:
    """Return a list as it is, and text as its parts between commas and newlines, blank ones left out.

    Raises ValueError for anything else.
    """
    if isinstance(value, str):
        return [part.strip() for part in re.split(r"[,\n]", value) if part.strip()]
    if isinstance(value, (list, tuple)):
        return list(value)
    raise ValueError("It must be a list, or text with commas or newlines between the entries.")


def converted(make: Callable[[Any], _T]) -> Callable[[str, Any], _T]:
    """Return a parser that adds the variable's name: *make* raises ValueError, the parser raises InvalidInput."""

    def parse(variable: str, value: Any) -> _T:
        try:
            return make(value)
        except ValueError as error:
            raise InvalidInput.single(variable, value, str(error)) from error

    return parse


parse_list = converted(split_list)


def parse_bool(variable: str, value: object) -> bool:
    """Return *value* as a truth value: a boolean, or text such as ``true``, ``no``. Raises InvalidInput."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    if isinstance(value, str) and value.strip().lower() in ("true", "yes", "on", "y", "t", "1"):
        return True
    if isinstance(value, str) and value.strip().lower() in ("false", "no", "off", "n", "f", "0"):
        return False
    raise InvalidInput.single(variable, value, "It must be true or false.")


def parse_integer(variable: str, value: object, least: int, most: int) -> int:
    """Return *value* as a whole number from *least* to *most*; text such as ``"3"`` counts. Raises InvalidInput."""
    number: int | None = None
    if (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, str) and _WHOLE.fullmatch(value.strip())
    ):
        number = int(value)
    if number is None or not least <= number <= most:
        raise InvalidInput.single(variable, value, f"It must be a whole number from {least} to {most}.")
    return number


def parse_span(variable: str, value: object, least: int, most: int) -> int:
    """Return a span in seconds, at least *least* and at most *most*: ``90s``, ``15m``, ``1h30m``, ``2d``; without a
    unit seconds. Raises InvalidInput.
    """
    text = str(value).strip() if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
    match = SPAN.fullmatch(text)
    seconds = seconds_of(match) if match is not None else 0
    if not least <= seconds <= most:
        message = f"It must be a span from {format_span(least)} to {format_span(most)}, such as 90s, 15m, 1h30m or 2d."
        raise InvalidInput.single(variable, value, message)
    return seconds


def seconds_of(match: re.Match[str]) -> int:
    """Return the seconds of a match of `SPAN`."""
    days, hours, minutes, seconds = (int(group or 0) for group in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def format_span(seconds: int) -> str:
    """Return a span in the form that `parse_span` reads: ``1h30m``."""
    minutes, left = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = ((days, "d"), (hours, "h"), (minutes, "m"), (left, "s"))
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"


def parse_choice(variable: str, value: object, choices: Sequence[str]) -> str:
    """Return the one of *choices* that equals *value*. Raises InvalidInput."""
    text = value.strip() if isinstance(value, str) else value
    for choice in choices:
        if choice == text:
            return choice
    message = f"It must be one of {', '.join(choices)}.{did_you_mean(text, choices)}"
    raise InvalidInput.single(variable, value, message)


def parse_env(variable: str, value: object) -> dict[str, str]:
    """Return environment variables: a mapping, or text with one NAME=value a line.

    Raises InvalidInput. Values may be secret: no problem shows one.
    """
    reader = Reader()
    result: dict[str, str] = {}
    for key, given in _env_pairs(reader, variable, value):
        if not isinstance(key, str) or ENVIRONMENT_NAME.fullmatch(key) is None or len(key) > 256:
            message = "A name is made of letters, digits and '_' (at most 256), and does not begin with a digit."
            reader.add(variable, key, message)
            continue
        place = f"{variable}.{key}"
        text = numbers_as_text(given)
        if key in CONTRACT_NAMES:
            message = "The collection sets this variable in every replica itself. Choose another name."
            reader.add(place, HIDDEN, message)
        if key in result:
            reader.add(place, HIDDEN, "It is given twice.")
        if not isinstance(text, str):
            reader.add(place, f"of type {type(text).__name__}", "It must be text; put quotes around the value.")
        elif not is_plain(text, "\t\n"):
            reader.add(place, HIDDEN, "It holds control characters or text that is not UTF-8.")
        elif isinstance(value, str) and len(value.splitlines()) == 1 and _ANOTHER.search(text):
            message = (
                "A comma does not separate variables. Give a mapping of names to values, also if this is one value."
            )
            reader.add(place, HIDDEN, message)
        elif len(f"{key}={text}".encode()) > MAXIMUM_ENVIRONMENT_STRING:
            reader.add(place, HIDDEN, f"It is longer than the {MAXIMUM_ENVIRONMENT_STRING} bytes that Linux takes.")
        else:
            result["".join(key)] = "".join(text)
    return reader.finish(result)


def _env_pairs(reader: Reader, variable: str, value: object) -> list[tuple[Any, Any]]:
    """Return names and values as they are given; record what is neither a mapping nor lines of NAME=value."""
    if isinstance(value, Mapping):
        return list(value.items())
    lines = value.splitlines() if isinstance(value, str) else value
    if not isinstance(lines, (list, tuple)) or not all(isinstance(line, str) for line in lines):
        reader.add(variable, HIDDEN, "It must be a mapping of names to values, or text with one NAME=value a line.")
        return []
    pairs = []
    for number, line in enumerate(lines, 1):
        key, sign, text = line.partition("=")
        if sign:
            pairs.append((key.strip(), text))
        elif line.strip():
            reader.add(f"{variable} line {number}", HIDDEN, "It must read NAME=value.")
    return pairs


def shell_text(value: str) -> str:
    """Return text for a shell with the ends of lines that it knows; an answer in AWX has those of browsers."""
    return value.replace("\r\n", "\n")

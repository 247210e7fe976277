# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Names, images, commands and hosts as users write them in a request."""

from __future__ import annotations

import re
import shlex
from typing import Any

from ..values.errors import InvalidInput
from ..values.parse import MAXIMUM_ENVIRONMENT_STRING, Reader, is_plain, numbers_as_text, parse_list, shell_text
from ..values.users import MAXIMUM, ME

_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_GROUP = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_IMAGE = re.compile(
    r"(?:(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*|\[[0-9a-fA-F:]+\])"
    r"(?::[0-9]{1,5})?/)?"
    r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?"
    r"(?:@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?"
)
_IMAGE_ID = re.compile(r"sha256:[0-9a-f]{64}")
_USER = re.compile(r"[a-z_][a-z0-9_.-]{0,31}")
_IDS = re.compile(r"[0-9]{1,10}:[0-9]{1,10}")
_NUMBER = re.compile(r"[0-9]{1,10}")
MAXIMUM_SESSION_NAME = 40


def parse_name(variable: str, value: Any) -> str:
    """Return a valid name of a session. Raises InvalidInput."""
    text = numbers_as_text(value)
    text = text.strip() if isinstance(text, str) else ""
    if not _LABEL.fullmatch(text) or len(text) > MAXIMUM_SESSION_NAME:
        raise InvalidInput.single(
            variable,
            numbers_as_text(value),
            f"It must be a host name label (RFC 1123) of at most {MAXIMUM_SESSION_NAME} characters: "
            "lower-case letters, digits and '-', with a letter or digit first and last.",
        )
    return text


def parse_group(variable: str, value: Any) -> str:
    """Return the name of an inventory group. Raises InvalidInput."""
    if not isinstance(value, str) or _GROUP.fullmatch(value.strip()) is None or len(value) > 255:
        message = "It must be the name of an inventory group: letters, digits, '_', '.' and '-'."
        raise InvalidInput.single(variable, value, message)
    return "".join(value.strip())


def parse_image(variable: str, value: Any) -> str:
    """Return the reference or the id of an image. Raises InvalidInput."""
    text = value.strip() if isinstance(value, str) else ""
    if len(text) > 512 or not (_IMAGE.fullmatch(text) or _IMAGE_ID.fullmatch(text)):
        message = "It must be the reference of an image, such as debian:12 or registry.example/team/image:tag."
        raise InvalidInput.single(variable, value, message)
    return text


def parse_archive(variable: str, value: Any) -> str:
    """Return the path of an archive of images. Raises InvalidInput."""
    text = value.strip() if isinstance(value, str) else ""
    if not text.startswith("/") or not is_plain(text) or len(text) > 4096:
        message = "It must be the absolute path of a file on the controller, made by docker save."
        raise InvalidInput.single(variable, value, message)
    return "".join(text)


def parse_command(variable: str, value: Any) -> tuple[str, ...] | None:
    """Return the words of a command; None for none. Raises InvalidInput."""
    if isinstance(value, str):
        try:
            words: list[Any] = list(shlex.split(value))
        except ValueError as error:
            message = "Its quotes or backslashes do not match up; it is split into words, not run by a shell."
            raise InvalidInput.single(variable, value, message) from error
    elif isinstance(value, (list, tuple)):
        words = list(value)
    else:
        message = "It must be a list of words, or text that is split into words."
        raise InvalidInput.single(variable, value, message)
    reader = Reader()
    result = []
    for position, given in enumerate(words):
        place, word = f"{variable}[{position}]", numbers_as_text(given)
        if not isinstance(word, str) or not is_plain(word, "\t\n\r"):
            reader.add(place, word, "It must be text without control characters; put quotes around it.")
            continue
        if len(word.encode("utf-8")) > MAXIMUM_ENVIRONMENT_STRING:
            reader.add(place, word, f"It is longer than the {MAXIMUM_ENVIRONMENT_STRING} bytes that Linux takes.")
        result.append("".join(word))
    if result and not result[0]:
        reader.add(variable, value, "Its first word, the program, is empty.")
    return reader.finish(tuple(result) or None)


def parse_batch_command(variable: str, value: Any) -> tuple[str, ...] | None:
    """Return the words of a command, or of a shell that runs it if it is text. Raises InvalidInput."""
    return parse_command(variable, ["/bin/sh", "-c", shell_text(value)] if isinstance(value, str) else value)


def parse_hosts(variable: str, value: Any) -> tuple[str, ...]:
    """Return inventory names, sorted. Raises InvalidInput."""
    reader = Reader()
    names: list[str] = []
    for position, entry in enumerate(parse_list(variable, value)):
        place = f"{variable}[{position}]"
        if not isinstance(entry, str) or not entry.strip() or not is_plain(entry):
            reader.add(place, entry, "It must be the inventory name of a host.")
        elif entry.strip() in names:
            reader.add(place, entry, "This host is named twice.")
        else:
            names.append("".join(entry.strip()))
    return reader.finish(tuple(sorted(names)))


def parse_user(variable: str, value: Any) -> str:
    """Return the user of replicas: a name in their image, uid and gid in numbers, or `ME`. Raises InvalidInput."""
    text = value.strip() if isinstance(value, str) else ""
    if _USER.fullmatch(text) or (_IDS.fullmatch(text) and all(int(part) <= MAXIMUM for part in text.split(":"))):
        return text
    message = (
        f"It must be the name of a user in the image, uid:gid such as '1000:1000', each at most {MAXIMUM}, or {ME}."
    )
    raise InvalidInput.single(variable, value, message)


def parse_groups(variable: str, value: Any) -> tuple[str, ...]:
    """Return groups of hosts as names or numbers, sorted. Raises InvalidInput."""
    reader = Reader()
    names = set()
    for position, entry in enumerate(parse_list(variable, value)):
        text = numbers_as_text(entry)
        text = text.strip() if isinstance(text, str) else ""
        if _USER.fullmatch(text) or (_NUMBER.fullmatch(text) and int(text) <= MAXIMUM):
            names.add(text)
        else:
            message = f"It must be the name of a group on the hosts, such as video, or a number up to {MAXIMUM}."
            reader.add(f"{variable}[{position}]", entry, message)
    return reader.finish(tuple(sorted(names)))


def parse_directory(variable: str, value: Any) -> str:
    """Return the absolute path of a working directory in a replica. Raises InvalidInput."""
    text = value.strip() if isinstance(value, str) else ""
    if not text.startswith("/") or not is_plain(text) or len(text) > 4096 or ".." in text.split("/"):
        raise InvalidInput.single(variable, value, "It must be an absolute path in the replica, without '..'.")
    return text


def parse_earlier(variable: str, value: Any) -> tuple[str, ...]:
    """Return names of roles, sorted. Raises InvalidInput."""
    reader = Reader()
    names = set()
    for position, entry in enumerate(parse_list(variable, value)):
        if isinstance(entry, str) and entry.strip() and is_plain(entry):
            names.add(entry.strip())
        else:
            reader.add(f"{variable}[{position}]", entry, "It must be the name of a role, such as main.")
    return reader.finish(tuple(sorted(names)))


def parse_owner(variable: str, value: Any) -> str:
    """Return the name of a user. Raises InvalidInput."""
    if not isinstance(value, str) or not is_plain(value) or len(value) > 255:
        raise InvalidInput.single(variable, value, "It must be the name of a user.")
    return value.strip()


def parse_users(variable: str, value: Any) -> tuple[str, ...]:
    """Return names of users, sorted. Raises InvalidInput."""
    reader = Reader()
    names = set()
    for position, entry in enumerate(parse_list(variable, value)):
        try:
            names.add(parse_owner(f"{variable}[{position}]", entry))
        except InvalidInput as error:
            reader.problems += error.problems
    return reader.finish(tuple(sorted(names)))

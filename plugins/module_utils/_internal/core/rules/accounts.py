# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Accounts that an image lacks for a login by SSH as the user that the image runs as.

OpenSSH, server and client, does not work for a uid that is missing from passwd(5). A server run by root needs a user
``sshd`` to drop its privileges to, and rejects users whose password is locked by a ``!`` (sshd(8)). Images whose user
is only a number, and images of a single program, have none of this.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..values import users
from ..values.deferred import dataclass

PASSWD = "/etc/passwd"  # noqa: S105 - a file, no secret
SHADOW = "/etc/shadow"
GROUP = "/etc/group"
SERVER = "sshd"
SERVER_FOLDER = "/run/sshd"
NO_LOGIN = ("nologin", "false", "sync", "halt", "shutdown", "")
NAME = "replica"
MAXIMUM = users.MAXIMUM


@dataclass(frozen=True)
class Accounts:
    """The files of an image that describe its users: their text, None if there is no such file."""

    passwd: str | None
    shadow: str | None = None


def shell_of(found: Accounts, uid: int) -> str:
    """Return the shell of the account with *uid*; empty where it has none or there is no such account."""
    entries = [line.split(":") for line in (found.passwd or "").splitlines()]
    return next((entry[6] for entry in entries if _uid(entry) == uid), "")


def name_of(found: Accounts, uid: int) -> str:
    """Return the name of the account with *uid*; empty where there is none."""
    entries = [line.split(":") for line in (found.passwd or "").splitlines()]
    return next((entry[0] for entry in entries if _uid(entry) == uid), "")


def home_of(found: Accounts, uid: int) -> str:
    """Return the home of the account with *uid*; empty where there is none."""
    entries = [line.split(":") for line in (found.passwd or "").splitlines()]
    return next((entry[5] for entry in entries if _uid(entry) == uid), "")


@dataclass(frozen=True)
class Wanted:
    """An account that an image may lack. name, home: empty where any will do."""

    uid: int
    gid: int
    name: str = ""
    home: str = ""


def ensure(found: Accounts, wanted: Wanted, shell: str, missing: str = "") -> Accounts:
    """Return the accounts with everything that a login needs; existing entries stay as they are.

    shell: one that works in the image, for an account that has none or whose shell is *missing*, which the image does
    not have.
    """
    uid = wanted.uid
    lines = (found.passwd or "").splitlines()
    entries = [line.split(":") for line in lines]
    taken = {entry[0] for entry in entries}
    own = next((number for number, entry in enumerate(entries) if _uid(entry) == uid), None)
    if own is None:
        name = "root" if uid == 0 else _free_name(taken, wanted.name)
        lines.append(_account(name, wanted, shell))
    else:
        name = entries[own][0]
        lines[own] = ":".join(_able_to_log_in(entries[own], shell, missing))
    shadow = found.shadow
    if uid == 0:
        if SERVER not in taken:
            lines.append(_account_of_server(entries))
        shadow = shadow and "".join(_unlocked(line, name) for line in shadow.splitlines(keepends=True))
    return Accounts("".join(f"{line}\n" for line in lines), shadow)


def _account(name: str, wanted: Wanted, shell: str) -> str:
    """Return the line of passwd(5) for a user. An image without root has no home for root either."""
    home = "/" if wanted.uid == 0 else wanted.home or f"/home/{name}"
    return f"{name}:*:{wanted.uid}:{wanted.gid}:Replica:{home}:{shell}"


def _free_name(taken: Collection[str], wished: str) -> str:
    return next(candidate for candidate in _names(wished) if candidate and candidate not in taken)


def _able_to_log_in(entry: list[str], shell: str, missing: str) -> list[str]:
    """Return an entry of passwd(5) with a password that is not locked, and with a shell that allows logins."""
    name, password, *ids_and_names, has = entry[:7]
    if has == missing or has.rpartition("/")[2] in NO_LOGIN:
        has = shell
    return [name, "*" if password.startswith("!") else password, *ids_and_names, has]


def _account_of_server(entries: list[list[str]]) -> str:
    """Return the line of passwd(5) for the user to which the SSH server drops its privileges."""
    numbers = {_uid(entry) for entry in entries}
    free = next(number for number in range(100, 65534) if number not in numbers)
    return f"{SERVER}:*:{free}:65534:Privilege separation of the SSH server:{SERVER_FOLDER}:/bin/false"


def misleading_groups(text: str | None, numbers: Iterable[int]) -> list[str]:
    """Return lines of group(5) by which the engine would take another group than one of *numbers*.

    It looks for a number first among the names of the image's groups (moby, GetAdditionalGroups).
    """
    wanted = set(map(str, numbers))
    lines = [(line, [field.strip() for field in line.split(":")]) for line in (text or "").splitlines()]
    return [line for line, (name, *fields) in lines if name in wanted and fields[1:2] != [name]]


def is_number(text: str) -> bool:
    """Tell whether *text* is the number of a user or a group."""
    return text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= MAXIMUM


def _uid(entry: list[str]) -> int | None:
    return int(entry[2]) if len(entry) >= 7 and is_number(entry[2]) else None


def _names(wished: str) -> list[str]:
    return [wished, NAME, *(f"{NAME}{number}" for number in range(1, 1000))]


def _unlocked(line: str, name: str) -> str:
    """Return a line of shadow(5) for the user *name*; a locked password becomes one that no input matches."""
    fields = line.split(":")
    if fields[0] == name and len(fields) > 1 and fields[1].startswith("!"):
        fields[1] = "*"
    return ":".join(fields)

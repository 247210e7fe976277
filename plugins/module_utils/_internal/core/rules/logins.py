# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Logins that prove that the SSH of a session works, and files of an image that may prevent a login."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from . import accounts

if TYPE_CHECKING:
    from ..model.plan import Plan, Replica

    Pairs = list[tuple[Replica, Replica]]

NSSWITCH = "/etc/nsswitch.conf"
READ = (accounts.PASSWD, accounts.SHADOW, NSSWITCH)
"""Files of an image whose content shows `obstacles` what prevents a login."""

UNREAD = ("/etc/hosts.allow", "/etc/hosts.deny", "/etc/ld.so.preload", "/etc/nologin")
"""Files of an image that are meant for its own programs, and that no setting keeps OpenSSH and its parts from reading:
the rules of libwrap, what every program has to load, who may log in. The SSH runtime is built so that it does not read
them; that of an earlier release does."""

_RUN_BY_SSH = ("/etc/ssh/sshrc", "{home}/.ssh/rc")
_START_FILES = {
    "bash": ("/etc/bash.bashrc", "{home}/.bashrc"),
    "zsh": ("/etc/zshenv", "/etc/zsh/zshenv", "{home}/.zshenv"),
    "csh": ("/etc/csh.cshrc", "{home}/.cshrc"),
    "tcsh": ("/etc/csh.cshrc", "{home}/.tcshrc", "{home}/.cshrc"),
    "fish": ("/etc/fish/config.fish", "{home}/.config/fish/config.fish"),
}
"""Files that shells read before a command that a login brings, by the name of the shell."""


def login_pairs(plan: Plan, host: str) -> tuple[Pairs, Pairs]:
    """Return the logins from a host, as pairs: to replicas of the same host, and to those of another.

    All replicas have the same list of known hosts and accept the same keys. Replicas of one role on one host are made
    of the same image with the same mounts and command, so the first of them stands for all. These first replicas, if
    they have the same image and user name, form a ring in rank order: each logs in to the next; a single one logs in
    to itself. So each is a client and a server once, and a launch performs one login for each role on a host, however
    many replicas there are.
    """
    rings: dict[str, dict[tuple[str, str], Replica]] = {}
    for replica in plan.replicas:
        rings.setdefault(replica.image, {}).setdefault((replica.role, replica.host), replica)
    pairs: Pairs = []
    for by_place in rings.values():
        ring = list(by_place.values())
        pairs += [(client, server) for client, server in zip(ring, [*ring[1:], ring[0]]) if client.host == host]
    return [pair for pair in pairs if pair[1].host == host], [pair for pair in pairs if pair[1].host != host]


def run_at_login(files: Mapping[str, str | None], uid: int, home: str) -> list[str]:
    """Return the files that are run at each login of a user if they exist. files: as in `obstacles`."""
    found = accounts.Accounts(files.get(accounts.PASSWD))
    shell = os.path.basename(accounts.shell_of(found, uid))
    home = (home or accounts.home_of(found, uid)).rstrip("/")
    return [path.format(home=home) for path in (*_RUN_BY_SSH, *_START_FILES.get(shell, ()))]


def obstacles(files: Mapping[str, str | None], uid: int, run: Collection[str]) -> list[str]:
    """Return in sentences which of a replica's files may keep its user from logging in.

    files: those of `READ` by path, None if there is no such file. uid: of the user that the image runs as. run: files
    that exist and are run at each login.
    """
    found = []
    known = accounts.Accounts(files.get(accounts.PASSWD))
    name = accounts.name_of(known, uid)
    if name:
        shell = accounts.shell_of(known, uid)
        if os.path.basename(shell) in accounts.NO_LOGIN:
            found.append(f"{accounts.PASSWD} gives {name} the shell {shell or 'of nobody'!r}, which allows no logins.")
        found += _obstacles_in_shadow(files.get(accounts.SHADOW) or "", name)
    else:
        found.append(f"{accounts.PASSWD} has no user with the number {uid}.")
    found += _obstacles_in_nsswitch(files.get(NSSWITCH) or "")
    return found + [f"{path} is run at each login." for path in run]


def _obstacles_in_shadow(text: str, name: str) -> Iterator[str]:
    for line in text.splitlines():
        owner, *fields = line.split(":")
        if owner != name:
            continue
        if fields and fields[0].startswith("!"):
            yield f"{accounts.SHADOW} locks the password of {name} by '!'."
        if len(fields) > 6 and fields[6]:
            yield f"{accounts.SHADOW} has a day on which the account {name} expires."


def _obstacles_in_nsswitch(text: str) -> Iterator[str]:
    for line in text.splitlines():
        database, colon, sources = line.partition("#")[0].partition(":")
        if colon and database.strip() in ("passwd", "hosts") and not {"files", "compat"} & {*sources.split()}:
            yield f"{NSSWITCH} does not look in files for {database.strip()}: {line.strip()!r}."

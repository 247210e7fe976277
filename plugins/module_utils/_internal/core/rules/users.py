# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check the user that replicas run as: whether who launches may choose it.

A file server knows users by their numbers, and the kernel does so too. Whoever chooses the number of a replica's user,
and mounts a folder of the hosts, can read and write there as that user, be it root or a colleague.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..model.request import Request, Role
from ..values.errors import InvalidInput, Problem, printable
from ..values.users import ME
from .access import Asker
from .data import reaches_files

VARIABLE = "cluster_compute_root_users"


def check_users(
    request: Request, roles: Sequence[Role], owner: str, asker: Asker, allowed: Sequence[str] | None
) -> None:
    """Reject users of *roles* that the asker may not choose. Raises InvalidInput with every problem.

    owner: of the session. allowed: the users who may choose any user, None for all.
    """
    problems = [
        *(_not_the_owner(roles, owner, asker)),
        *(_not_allowed(request, roles, asker, allowed) if allowed is not None else ()),
    ]
    if problems:
        raise InvalidInput(problems)


def check_choice(variable: str, user: str, asker: Asker, allowed: Sequence[str] | None) -> None:
    """Reject another user for a program in a session that runs, if the asker may not choose one. Raises InvalidInput.

    user: empty for the replica's own. allowed: as of `check_users`.
    """
    if user and not (allowed is None or asker.is_admin or asker.name in allowed):
        message = f"{_who(allowed)} may choose the user of programs ({VARIABLE}). Leave it out."
        raise InvalidInput.single(variable, user, message)


def _who(allowed: Sequence[str]) -> str:
    return f"Only {', '.join(map(printable, allowed))}" if allowed else "Nobody but its administrators"


def _not_the_owner(roles: Sequence[Role], owner: str, asker: Asker) -> Iterator[Problem]:
    if asker.is_admin or asker.name == owner or not any(role.user == ME for role in roles):
        return
    message = (
        f"The session belongs to {printable(owner)}, and you are {printable(asker.name)}: its programs would run as "
        f"{printable(owner)}. Launch a session of your own, without session_owner."
    )
    yield Problem("session_user", ME, message)


def _not_allowed(request: Request, roles: Sequence[Role], asker: Asker, allowed: Sequence[str]) -> Iterator[Problem]:
    if asker.is_admin or asker.name in allowed or not any(map(reaches_files, request.mounts)):
        return
    message = (
        f"{_who(allowed)} may choose the user of programs where folders of the hosts are mounted ({VARIABLE}). "
        f"Set session_user to {ME}, leave session_groups out, or mount nothing."
    )
    for role in roles:
        if role.user != ME:
            yield Problem(f"session_user of the role {role.name}", role.user, message)
        elif role.groups:
            yield Problem(f"session_groups of the role {role.name}", ", ".join(role.groups), message)

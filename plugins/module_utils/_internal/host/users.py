# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The users and groups that replicas run as, as far as this host knows them."""

from __future__ import annotations

import grp
import os
import pwd
from typing import TYPE_CHECKING

from ..adapters.folders import Ids
from ..core.values.deferred import dataclass
from ..core.values.errors import SessionError, show
from ..core.values.users import ME

if TYPE_CHECKING:
    from ..core.model.plan import Replica


@dataclass(frozen=True)
class User:
    """Numbers of a user. groups: more of them. name, home: on this host, empty where that does not matter."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    name: str = ""
    home: str = ""

    def __str__(self) -> str:
        return str(self.ids)

    @property
    def ids(self) -> Ids:
        """The numbers, to act as the user."""
        return Ids(self.uid, self.gid, self.groups)


def user_of(replica: Replica, owner: str, host: str) -> User | None:
    """Return the user of a replica on this host, with the groups that the request adds.

    None if only the image knows it. owner: of the session. Raises SessionError if this host lacks the user or a group.
    """
    if replica.user == ME:
        found = _user_of_host(owner, host)
    elif replica.user is not None and replica.user[0].isdigit():
        uid, gid = replica.user.split(":")
        found = User(int(uid), int(gid))
    else:
        return None
    groups = {*found.groups, *groups_of(replica, host)} - {found.gid}
    return User(found.uid, found.gid, tuple(sorted(groups)), found.name, found.home)


def groups_of(replica: Replica, host: str) -> tuple[int, ...]:
    """Return the numbers of the groups that a request adds: images have others for names. Raises SessionError."""
    return tuple(int(name) if name.isdigit() else _group_of_host(name, host) for name in replica.groups)


def _user_of_host(owner: str, host: str) -> User:
    try:
        entry = pwd.getpwnam(owner)
    except (KeyError, ValueError):
        raise SessionError(
            f"The host {host} has no user {show(owner)}, who launches the session, and session_user is {ME}. Create "
            "that user there, or give numbers such as 1000:1000."
        ) from None
    if entry.pw_uid == 0:
        raise SessionError(
            f"{show(owner)}, who launches the session, is root on {host}, and session_user is {ME}. Launch as another "
            "user, or leave session_user out."
        )
    groups = set(os.getgrouplist(owner, entry.pw_gid)) - {entry.pw_gid}
    return User(entry.pw_uid, entry.pw_gid, tuple(sorted(groups)), entry.pw_name, entry.pw_dir)


def _group_of_host(name: str, host: str) -> int:
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise SessionError(
            f"The host {host} has no group {show(name)}, which session_groups names. Create it there, or give its "
            "number."
        ) from None

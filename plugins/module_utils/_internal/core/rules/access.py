# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Access to a session: which users may change, enter and read it. These are its owner, those it is shared with, and the
site's admins.

Names, owners, hosts and amounts of all sessions are visible to everybody. What a session runs, which users log in to it
and what its programs wrote is shown only to those who may read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..values.deferred import dataclass
from ..values.errors import OUTPUT, InvalidInput, printable

VARIABLE = "cluster_compute_admins"
SHARED_WITH = "cluster_compute_shared_with"
"""Users with whom a site shares every session of a resource group, whatever the request says."""

SEEN_BY_ALL = frozenset(
    (
        # of a request
        *("name", "resource_group", "image_pull", "image_from", "mode", "max_size", "mounts", "ports", "hosts"),
        "excluded_hosts",
        *("max_replicas_per_host", "policy", "master_port", "slurm_variables", "priority", "on_host_loss", "roles"),
        *("failure_policy", "restart_limit", "max_duration", "max_idle", "end_warning", "encrypted", "ssh_port"),
        # of a role
        *("replicas", "image", "resources", "capabilities", "memlock", "disk_size", "env", "after", "init"),
        *("user", "groups", "directory"),
        # of a replica
        *("role", "index", "rank", "host", "local_rank", "node_rank", "kernel_id", "address", "mac", "container"),
        *("devices", "memory_nodes"),
    )
)
"""Keys of the plain forms of requests, roles and replicas that everybody may see; of an environment only the names. All
other keys, those of a newer release included, are for users who may read the session."""


@dataclass(frozen=True)
class Asker:
    """The user who runs a verb. name: the AWX user, else the login name. is_admin: whether the site allows them all."""

    name: str
    is_admin: bool

    def may_read(self, owner: str, shared_with: Sequence[str]) -> bool:
        """Whether this user may read a session."""
        return self.is_admin or (bool(self.name) and (self.name == owner or self.name in shared_with))

    def refusal(self, session: str, owner: str, shared_with: Sequence[str]) -> str | None:
        """Return in words why this user may not use a session; None if they may. owner: empty if it is not known."""
        if self.may_read(owner, shared_with):
            return None
        others = f", who shares it with {', '.join(map(printable, shared_with))}" if shared_with else ""
        whose = f"It belongs to {printable(owner)}{others}." if owner else "Nobody knows any more whose it is."
        return (
            f"{whose} You are {printable(self.name)}. Session {session} is changed, entered and read by its owner, by "
            f"those in its session_shared_with, and by those whom the site names in {VARIABLE}."
        )

    def check(self, session: str, owner: str, shared_with: Sequence[str]) -> None:
        """Reject a session that this user may not use. Raises InvalidInput."""
        why = self.refusal(session, owner, shared_with)
        if why is not None:
            raise InvalidInput.single("session_name", session, why)


ADMIN = Asker("root", is_admin=True)
EVERYBODY = Asker("", is_admin=False)
"""The reader of what is written for everybody: a page, or data for programs."""


def shown(values: Mapping[str, Any], is_readable: bool) -> dict[str, Any]:
    """Return the plain form of a request, a role or a replica as it may be shown; values not meant for all are empty.

    is_readable: whether it is shown to those who may read the session.
    """
    return {key: value if is_readable or key in SEEN_BY_ALL else _empty(value) for key, value in values.items()}


def _empty(value: object) -> object:
    if isinstance(value, Mapping):
        return {}
    return [] if isinstance(value, (list, tuple)) else None


def shown_lines(lines: Iterable[str], is_readable: bool) -> list[str]:
    """Return a report as it may be shown: for everybody, without what programs of the session wrote."""
    if is_readable:
        return list(lines)
    return ["\n".join(part for part in line.splitlines() if not part.startswith(OUTPUT)) for line in lines]

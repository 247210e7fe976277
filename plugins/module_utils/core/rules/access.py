# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Who may change, enter and read a session: its owner, those it is shared with, and the site's admins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import InvalidInput, printable

VARIABLE = "cluster_compute_admins"
SHARED_WITH = "cluster_compute_shared_with"
"""With whom a site shares every session of a resource group, whatever the request says."""


@dataclass(frozen=True)
class Asker:
    """Who runs a verb. name: the user of AWX, else the login name. is_admin: whether the site lets them do it all."""

    name: str
    is_admin: bool

    def refusal(self, session: str, owner: str, shared_with: Sequence[str]) -> str | None:
        """Return why a session is none of theirs, in words; None where they may. owner: empty where nobody knows."""
        if self.is_admin or self.name == owner or self.name in shared_with:
            return None
        others = f", who shares it with {', '.join(map(printable, shared_with))}" if shared_with else ""
        whose = f"It belongs to {printable(owner)}{others}." if owner else "Nobody knows any more whose it is."
        return (
            f"{whose} You are {printable(self.name)}. Session {session} is changed, entered and read by its owner, by "
            f"those in its session_shared_with, and by those whom the site names in {VARIABLE}."
        )

    def check(self, session: str, owner: str, shared_with: Sequence[str]) -> None:
        """Refuse what is none of theirs. Raises InvalidInput."""
        why = self.refusal(session, owner, shared_with)
        if why is not None:
            raise InvalidInput.single("session_name", session, why)


ADMIN = Asker("root", is_admin=True)

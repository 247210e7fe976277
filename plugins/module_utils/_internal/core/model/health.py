# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The health of a host: drained, so that it takes no new sessions, or suspect, so that other hosts are preferred.

Sessions that run there continue.

Annotations are types here, not text, as the decoder reads them.
"""

from ..values.deferred import dataclass
from ..values.errors import printable


@dataclass(frozen=True)
class Drain:
    """Why a host takes no new sessions. by: the user who drained it. since: when, by the host's clock."""

    reason: str
    by: str
    since: str

    def __str__(self) -> str:
        """Return it as a sentence."""
        drained_by = printable(f"{self.by}, {self.since}") if self.by else "nobody knows by whom"
        return f"It is drained ({drained_by}): {printable(self.reason)}"


@dataclass(frozen=True)
class Suspicion:
    """Why a host gets new sessions only if no other has capacity. left: seconds until it is trusted again."""

    reason: str
    left: int

    def __str__(self) -> str:
        """Return it as a sentence."""
        return f"It is suspect, for half an hour at most: {printable(self.reason)}"

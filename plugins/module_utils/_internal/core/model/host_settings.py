# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Settings that a host receives when it is prepared, for what it does later by itself.

Annotations are types here, not text, as the decoder reads them.
"""

from dataclasses import field
from typing import Optional

from ..values.deferred import dataclass
from .decode import OPTIONAL


@dataclass(frozen=True)
class HostSettings:
    """The amount of output that a host keeps of a session that it ends: bytes of a replica, days, sessions.

    share_half_life: seconds after which the use of owners counts half; None if it is not counted.
    metrics_directory: where metrics for the site's monitoring are written. job_mapping_directory: where the session of
    each GPU is written. None for nowhere.
    """

    output_size: int = 16 * 1024**2
    output_days: int = 7
    output_sessions: int = 50
    share_half_life: Optional[int] = None
    metrics_directory: Optional[str] = field(default=None, metadata=OPTIONAL)
    job_mapping_directory: Optional[str] = field(default=None, metadata=OPTIONAL)

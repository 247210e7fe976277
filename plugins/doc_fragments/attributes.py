# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Attributes that modules of this collection share."""

from __future__ import annotations


class ModuleDocFragment:
    """Attributes of modules that run on a managed host."""

    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying the target.
  diff_mode:
    description: Will return details on what has changed (or needs changing in C(check_mode)), when in diff mode.
  platform:
    description: Target OS/families that can be operated against.
    platforms: linux
    support: full
"""

    INFO = r"""
options: {}
attributes:
  check_mode:
    support: full
    details: This module only reads.
  diff_mode:
    support: N/A
    details: This module only reads.
"""

    STATE_DIRECTORY = r"""
options:
  state_directory:
    description:
      - Folder on the managed host in which the collection keeps what belongs to sessions.
    type: path
    default: /var/lib/cluster-compute
"""

    RECORDED = r"""
options:
  recorded:
    description:
      - Identifiers of the sessions that this host had records of when it was looked at. One of which it has none any
        more was torn down meanwhile, and is left so.
    type: list
    elements: str
    default: []
  looked:
    description:
      - When this host was looked at, in seconds since its boot. What was torn down since then is left so.
    type: float
"""

    INTERNAL = r"""
options: {}
notes:
  - Internal - a step of the collection's roles, whose arguments and results follow them and change with them in any
    release. Playbooks of your own use the roles.
"""

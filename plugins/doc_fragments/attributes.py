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
    support: full
  diff_mode:
    description: Will return details on what has changed (or needs changing in C(check_mode)), when in diff mode.
    support: full
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
      - Directory on the managed host in which the collection stores the data of sessions.
    type: path
    default: /var/lib/cluster-compute
"""

    LAB = r"""
options:
  lab:
    description: Name of the lab.
    type: str
    required: true
  directory:
    description: Absolute path of the lab's state directory.
    type: path
    required: true
"""

    # The mark is this note and not a leading underscore in the name: validate-modules of ansible-core 2.16 takes such a
    # module for a deprecated one (collections-no-underscore-on-deprecation), and ansible-lint rejects ignoring that.
    PRIVATE = r"""
options: {}
notes:
  - This module is private. It is a step of the collection's roles, and its options and results can change with them in
    any release. Use the roles in your own playbooks.
"""

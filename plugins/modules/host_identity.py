#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: host_identity
short_description: Give a host an identity of its own
version_added: 1.0.0
description:
  - Each host keeps an identity in its state directory that does not depend on its name in an inventory. Two names for
    one host can therefore be detected.
  - Next to the identity is a digest of the identifiers that the firmware gives the machine. If it no longer matches,
    the disk was copied or moved. The host is then not used, and this module fails and explains what to do.
  - An existing identity is kept, and a new name is added to it.
author: The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.private
  - cluster_compute.session.attributes.state_directory
options:
  host:
    description:
      - Name of the host in the inventory. Earlier names are kept, so that sessions that wait for the host, or have
        ended there, can still be matched to it.
    type: str
    required: true
seealso:
  - module: cluster_compute.session.host_info
"""

EXAMPLES = r"""
- name: Give the host an identity of its own
  cluster_compute.session.host_identity:
    host: "{{ inventory_hostname }}"
"""

RETURN = r"""
actions:
  description: What was, or in check mode would be, done.
  returned: success
  type: list
  elements: str
  sample: ["create identity h1"]
"""

#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: host_runtime
short_description: Start replicas with the address of their session as the first one
version_added: 1.0.0
description:
  - Adds a runtime entry, C(cluster-compute), to the Docker Engine of a host. Replicas of sessions with a network are
    started with it. The entry calls the engine's own runtime through a script. Whenever a container starts, the script
    makes the session's address the first one in the replica's network, before the program of the image begins.
  - The entry is added to the settings file of the engine, C(/etc/docker/daemon.json) or the file of its
    C(--config-file). Other settings in the file are kept. The engine reloads the file without a restart. If it rejects
    the file, the earlier content is restored.
  - Other containers are not changed, and still use the engine's default runtime.
author: The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.private
options:
  state:
    description:
      - V(present) adds the entry. V(absent) removes it, and fails while there are containers that were created with it.
    type: str
    choices: [present, absent]
    default: present
"""

EXAMPLES = r"""
- name: Start replicas with the address of their session as the first one
  cluster_compute.session.host_runtime:

- name: Remove the entry
  cluster_compute.session.host_runtime:
    state: absent
"""

RETURN = r"""
actions:
  description: What was, or in check mode would be, done.
  returned: success
  type: list
  elements: str
  sample:
    - create file /usr/local/lib/cluster-compute/runtime
    - set engine setting runtime cluster-compute in /etc/docker/daemon.json
"""

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Say what came of a launch as data for whatever follows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils.core.show.outcome import PLANNED, artifact

DOCUMENTATION = r"""
name: session_artifact
short_description: Say what came of a launch as data for whatever follows
version_added: 0.1.0
author:
  - The cluster_compute.session authors (@cluster-compute)
description:
  - Returns what other playbooks, and the jobs that follow in a workflow, need to know of a session that was launched or
    waits. Nothing in it is secret.
options:
  _input:
    description: What M(cluster_compute.session.session_decide) returned for a launch.
    type: dict
    required: true
  decision:
    description: C(verdict), which is V(granted) where the session has its place, and C(report), what people are told.
    type: dict
    required: true
  replicas:
    description:
      - Replicas as M(cluster_compute.session.session_host) returns them in its states V(started) and V(verified).
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Hand the session on to what follows
  ansible.builtin.set_stats:
    data:
      cluster_compute_session: >-
        {{ launch_state | cluster_compute.session.session_artifact(decision, launch_state.replicas) }}
  vars:
    decision: {verdict: granted, report: "{{ launch_state.report }}"}
"""

RETURN = r"""
_value:
  description:
    - C(name), C(id), C(owner), C(status), C(mode), C(size), C(hosts), C(replicas), C(ports), C(ssh_port) and C(report).
      The status is V(RUNNING), V(PENDING), or in check mode V(PLANNED). A session that waits has no hosts, replicas and
      ports.
    - Each replica has C(name), C(role), C(rank), C(host), C(address), C(container), C(image), C(image_id) and
      C(status). The id of an image is null in check mode where the host has yet to get the image.
  type: dict
"""


def session_artifact(
    plan: Mapping[str, Any], decision: Mapping[str, Any], replicas: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return what came of the launch that planned *plan*, was told *decision* and found *replicas* at work."""
    status = "PENDING"
    if decision["verdict"] == "granted":
        status = "RUNNING" if any(True for _one in replicas) else PLANNED
    return artifact(plan, status, decision["report"])


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"session_artifact": session_artifact}

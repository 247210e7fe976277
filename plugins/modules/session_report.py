#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_report
short_description: Put together what a repair found and did on every host
version_added: 0.1.0
description:
  - Runs on the controller and changes nothing.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.info
options:
  findings:
    description:
      - What M(cluster_compute.session.session_survey) found.
    type: list
    elements: str
    default: []
  missing:
    description:
      - Hosts that could not be looked at, each with the reason.
    type: list
    elements: str
    default: []
  results:
    description:
      - For each step a mapping of hosts to their registered results.
    type: list
    elements: dict
    required: true
seealso:
  - module: cluster_compute.session.session_repair
"""

EXAMPLES = r"""
- name: Put the report together
  cluster_compute.session.session_report:
    findings: "{{ repair_survey.findings }}"
    results:
      - h1: "{{ hostvars['h1']['repair_done'] }}"
        h2: "{{ hostvars['h2']['repair_done'] }}"
  register: repair_report
  run_once: true
"""

RETURN = r"""
lines:
  description: What was found and done, host by host.
  returned: success
  type: list
  elements: str
problems:
  description: What went wrong.
  returned: success
  type: list
  elements: str
"""

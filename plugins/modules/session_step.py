#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_step
short_description: Do on a host what the state of a verb names for it
version_added: 1.0.0
description:
  - Reads the state that M(cluster_compute.session.session_decide) returned from the variable of the verb, for example
    C(launch_state), and calls the modules that it names for this host, in order, up to the first that fails.
  - A host that has nothing to do is skipped.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.internal
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
options:
  verb:
    description:
      - The verb whose step it is.
    type: str
    required: true
    choices: [check_pairs, launch, logs, preflight, repair, run_job, schedule, teardown]
  step:
    description:
      - The step that is meant; where the state names another, the host is skipped. Any step where this is not given.
    type: str
seealso:
  - module: cluster_compute.session.session_decide
"""

EXAMPLES = r"""
- name: Hold the place on every host of the plan, and make the keys
  cluster_compute.session.session_step:
    verb: launch
    step: hold
  register: launch_answer
  failed_when: false
  ignore_unreachable: true
"""

RETURN = r"""
results:
  description: What the modules returned where there was more than one; what the module returned comes as it is else.
  returned: where a host has more than one call in a step
  type: list
  elements: dict
"""

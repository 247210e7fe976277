#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_logs
short_description: Check a request for output of a session, and show the output
version_added: 1.0.0
description:
  - With O(state=checked), reads the variables whose names begin with C(logs_) and reports everything that is wrong with
    them.
  - With O(state=shown), sorts the output that the hosts of C(logs_state) have read (C(logs_answer)) by time and shows
    it. Also saves it if that was requested.
  - Runs on the controller.
author: The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.private
attributes:
  check_mode:
    support: full
    details: Nothing is saved in check mode.
  diff_mode:
    support: none
options:
  state:
    description:
      - What to do.
    type: str
    choices: [checked, shown]
    required: true
seealso:
  - module: cluster_compute.session.session_output
"""

EXAMPLES = r"""
- name: Show the output in order of time
  cluster_compute.session.session_logs:
    state: shown
  run_once: true
"""

RETURN = r"""
request:
  description: The checked request.
  returned: with O(state=checked)
  type: dict
notes:
  description: What is missing and why, in full sentences.
  returned: with O(state=shown)
  type: list
  elements: str
lines:
  description: How many lines there are.
  returned: with O(state=shown)
  type: int
files:
  description: The files that were written.
  returned: with O(state=shown)
  type: list
  elements: str
"""

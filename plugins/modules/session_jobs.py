#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_jobs
short_description: Check the request for a job
version_added: 1.0.0
description:
  - Reads the variables whose names begin with C(job_) and reports everything that is wrong with them. The values of
    C(job_env) are not returned. They are read again when the command starts.
  - Runs on the controller and changes nothing.
author: The cluster_compute.session authors (@cluster-compute)
options:
  own:
    description:
      - Variables of the job of a playbook that has its own, such as C(job_id=batch). They replace those of the user.
    type: dict
extends_documentation_fragment:
  - cluster_compute.session.attributes.info
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.private
seealso:
  - module: cluster_compute.session.session_output
"""

EXAMPLES = r"""
- name: Check the job
  cluster_compute.session.session_jobs:
  register: cluster_compute_job
"""

RETURN = r"""
request:
  description: The checked request.
  returned: success
  type: dict
"""

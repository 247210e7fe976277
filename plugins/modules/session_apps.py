#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_apps
short_description: Check the request to open or close an app
version_added: 1.0.0
description:
  - Reads C(app), C(app_directory) and the site's table C(session_apps), and reports everything that is wrong with them.
  - Runs on the controller and changes nothing.
author: The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes.info
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.private
options:
  only:
    description:
      - V(open) reads everything that is needed to open an app. V(name) reads only its name, which may then be left out.
    type: str
    choices: [open, name]
    default: open
seealso:
  - module: cluster_compute.session.session_app
"""

EXAMPLES = r"""
- name: Check the app
  cluster_compute.session.session_apps:
  register: cluster_compute_app
"""

RETURN = r"""
request:
  description: The request - the C(name) of the app, the C(ways) to start it, and its working C(directory).
  returned: success
  type: dict
"""

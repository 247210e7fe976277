# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Put together a survey for AWX."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.cluster_compute.session.plugins.module_utils.core.show.awx import make_survey
from ansible_collections.cluster_compute.session.plugins.module_utils.core.values.errors import InvalidInput

DOCUMENTATION = r"""
name: awx_survey
short_description: Put together a survey for AWX
version_added: 1.0.0
author: The cluster_compute.session authors
description:
  - Returns a survey as C(awx.awx.job_template) and C(awx.awx.workflow_job_template) take it.
  - Fails where the server of AWX would refuse the survey, where it would drop a default, and where a launch would
    refuse the defaults, with the name of the question and what would be right.
options:
  _input:
    description:
      - Questions as AWX has them, each a mapping with C(type), C(question_name), C(variable) and more.
      - Or names of questions - V(launch) for all that are asked before a launch, the variable of one of these, such as
        V(session_name), or a key of O(questions).
    type: list
    elements: raw
    required: true
  name:
    description: Name of the survey.
    type: str
    required: true
  description:
    description: What the survey is for.
    type: str
    default: ""
  choices:
    description:
      - What there is to choose from, a list by variable. A question with choices becomes one with a single choice,
        whose default is the first of them unless its own is among them. One with an empty list stays as it is.
    type: dict
    default: {}
  defaults:
    description: Defaults by variable, in place of those of the questions. Variables without a question are left alone.
    type: dict
    default: {}
  questions:
    description:
      - Further questions by name. What they do not say is V(text) for C(type), V(false) for C(required), and that name
        for C(variable).
    type: dict
    default: {}
  limits:
    description:
      - Values of C(cluster_compute_limits), one for each host, empty for a host without. The highest C(priority) among
        them, C(0) for a host without, is the highest that the question V(session_priority) takes.
    type: list
    elements: raw
    default: []
"""

EXAMPLES = r"""
- name: Show a survey of one question
  ansible.builtin.debug:
    msg: "{{ questions | cluster_compute.session.awx_survey('launch', choices={'session_image': ['debian:12']}) }}"
  vars:
    questions:
      - {type: text, question_name: Image, variable: session_image, required: true}
"""

RETURN = r"""
_value:
  description: The survey, with C(name), C(description) and C(spec).
  type: dict
"""


def awx_survey(
    entries: Sequence[str | Mapping[str, Any]],
    name: str,
    description: str = "",
    choices: Mapping[str, Sequence[str]] | None = None,
    defaults: Mapping[str, Any] | None = None,
    questions: Mapping[str, Mapping[str, Any]] | None = None,
    limits: Sequence[object] = (),
) -> dict[str, Any]:
    """Return the survey; raises AnsibleFilterError with all that is wrong with it."""
    try:
        return make_survey(name, description, entries, choices or {}, defaults or {}, questions, limits)
    except InvalidInput as error:
        raise AnsibleFilterError(f"The survey cannot be used; nothing was sent.\n{error}") from error


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"awx_survey": awx_survey}

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Build a survey for AWX."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput

DOCUMENTATION = r"""
name: awx_survey
short_description: Build a survey for AWX
version_added: 1.0.0
author: The cluster_compute.session authors
description:
  - Returns a survey in the form that C(awx.awx.job_template) and C(awx.awx.workflow_job_template) accept.
  - Fails if the AWX server would reject the survey or drop a default, or if a launch would reject the defaults. The
    message has the name of the question and what is allowed.
options:
  _input:
    description:
      - Questions in the format of AWX, each a mapping with C(type), C(question_name), C(variable) and more.
      - Or names of questions - V(launch) for all questions before a launch, the variable of one of these, such as
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
      - The choices, as a list for each variable. A question with choices becomes a single-choice question. Its default
        stays if it is one of the choices, otherwise the first choice is the default. A question with an empty list is
        not changed.
    type: dict
    default: {}
  defaults:
    description:
      - Defaults by variable, in place of those of the questions. Each has to be a variable of a launch or a question,
        and a launch has to accept it, also if this survey does not ask for it.
    type: dict
    default: {}
  questions:
    description:
      - Additional questions by name. Missing values are V(text) for C(type), V(false) for C(required), and the name for
        C(variable).
    type: dict
    default: {}
  limits:
    description:
      - Values of C(cluster_compute_limits), one for each host, empty for a host without limits. The highest C(priority)
        in them is the maximum of the question V(session_priority). A host without limits counts as C(0).
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
    """Return the survey. Raises AnsibleFilterError with everything that is wrong with it."""
    from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.show.awx import (
        make_survey,  # Ansible loads all filters for one
    )

    try:
        return make_survey(name, description, entries, choices or {}, defaults or {}, questions, limits)
    except InvalidInput as error:
        raise AnsibleFilterError(f"The survey cannot be used; nothing was sent.\n{error}") from error


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"awx_survey": awx_survey}

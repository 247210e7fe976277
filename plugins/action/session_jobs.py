# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Check the request for a job, on the controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, ClassVar

from ansible.utils.vars import load_extra_vars
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.output import JobRequest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.job import parse_job_request
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.near_misses import (
    slips_of_prefix,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs import job
from ansible_collections.cluster_compute.session.plugins.plugin_utils.controller_action import ControllerAction
from ansible_collections.cluster_compute.session.plugins.plugin_utils.plain import reader
from ansible_collections.cluster_compute.session.plugins.plugin_utils.request_variables import group_variables

PREFIX = "job_"


class ActionModule(ControllerAction):
    """The action behind the module session_jobs."""

    OPTIONS: ClassVar[Mapping[str, object]] = {"own": {"type": "dict"}}
    REFUSED = job.REFUSED

    def answer(self, arguments: Mapping[str, Any], variables: Mapping[str, Any]) -> Mapping[str, object]:
        """Return the request. Fails with everything that is wrong with it."""
        _group, own = group_variables(PREFIX, variables, reader(self._templar))
        slips = slips_of_prefix(load_extra_vars(self._loader), PREFIX, [field.name for field in fields(JobRequest)])
        if slips:
            raise InvalidInput(slips)
        # The values of env are secret, and the step that starts the job reads them itself.
        return {"request": encode(replace(parse_job_request({**own, **(arguments["own"] or {})}), env={}))}

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Check the request for a job, on the controller."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.vars import load_extra_vars
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.output import JobRequest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.job import parse_job_request
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.near_misses import (
    slips_of_prefix,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import (
    CoreError,
    InvalidInput,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs import job
from ansible_collections.cluster_compute.session.plugins.plugin_utils.plain import reader
from ansible_collections.cluster_compute.session.plugins.plugin_utils.request_variables import group_variables

PREFIX = "job_"


class ActionModule(ActionBase):
    """The action behind the module session_jobs."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the request. Fails with everything that is wrong with it."""
        super().run(tmp, task_vars)
        self.validate_argument_spec({})
        try:
            _group, variables = group_variables(PREFIX, task_vars or {}, reader(self._templar))
            slips = slips_of_prefix(load_extra_vars(self._loader), PREFIX, [field.name for field in fields(JobRequest)])
            if slips:
                raise InvalidInput(slips)
            request = parse_job_request(variables)
        except CoreError as error:
            return {"failed": True, "msg": f"{job.REFUSED}\n{error}"}
        # The values of env are secret, and the step that starts the job reads them itself.
        return {"changed": False, "request": encode(replace(request, env={}))}

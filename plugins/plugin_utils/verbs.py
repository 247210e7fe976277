# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The verbs whose steps Ansible does: each a module of the core."""

from __future__ import annotations

from ..module_utils._internal.core.verbs import check_pairs, job, launch, logs, preflight, repair, schedule, teardown
from ..module_utils._internal.core.verbs.verb import GivenVerb, HandingVerb, Verb

BY_GIVEN: dict[str, GivenVerb] = {
    "check_pairs": check_pairs,
    "logs": logs,
    "preflight": preflight,
    "run_job": job,
}
"""Verbs that begin with what their role gives; the others have options of session_decide."""
HANDING: dict[str, HandingVerb] = {"launch": launch, "teardown": teardown}
"""Verbs whose result is passed on in a workflow."""
VERBS: dict[str, Verb] = dict(sorted({**BY_GIVEN, **HANDING, "repair": repair, "schedule": schedule}.items()))

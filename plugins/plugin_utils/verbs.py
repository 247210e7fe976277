# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The verbs whose steps Ansible does: each a module of the core."""

from __future__ import annotations

from ..module_utils._internal.core.verbs import check_pairs, job, launch, logs, preflight, repair, schedule, teardown
from ..module_utils._internal.core.verbs.verb import HandingVerb, Verb

VERBS: dict[str, Verb] = {
    "check_pairs": check_pairs,
    "launch": launch,
    "logs": logs,
    "preflight": preflight,
    "repair": repair,
    "run_job": job,
    "schedule": schedule,
    "teardown": teardown,
}
HANDING: dict[str, HandingVerb] = {"launch": launch, "teardown": teardown}
"""Verbs whose result is passed on in a workflow."""

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Extra variables that were meant to be others."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
import yaml
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.fields import KNOWN_VARIABLES
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.output import (
    JobRequest,
    LogsRequest,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.near_misses import (
    HANDED_ON,
    SITE,
    SITE_PREFIX,
    near_misses,
    slips_of_prefix,
    slips_of_roles,
)
from ansible_collections.cluster_compute.session.plugins.plugin_utils.role_variables import role_variables

ROOT = Path(__file__).resolve().parents[7]

MEANT = {
    "cluster_size": "session_size",
    "cluster_image": "session_image",
    "cluster_compute_size": "session_size",
    "sesion_size": "session_size",
    "sessions_size": "session_size",
    "sesssion_memroy": "session_memory",
    "SESSION_SIZE": "session_size",
    "Session_Image": "session_image",
    "session-size": "session_size",
    "sessionsize": "session_size",
    "sesion_resource_groups": "session_resource_group",
    "cluster_compute_limit": "cluster_compute_limits",
    "cluster_compute_lables": "cluster_compute_labels",
    "cluster-compute-admins": "cluster_compute_admins",
    "clustercompute_vni_pool": "cluster_compute_vni_pool",
}
OWN = [
    *("cluster_env", "cluster_name", "cluster_hosts", "cluster_mode", "cluster_zone", "cluster_compute_zone"),
    *("mission_size", "version_image", "season_size", "size", "image", "hosts", "memory", "team_size", "job_size"),
    *("ansible_user", "awx_job_id", "tower_user_name", "awx_job_template_name", "ansible_forks", "launch_size"),
    *("drain_hosts", "status_page", "logs_tail", "job_command", "preflight_strict", "names"),
]


@pytest.mark.parametrize("name", [*MEANT])
def test_a_slip_of_a_variable_is_found(name: str) -> None:
    (problem,) = near_misses([name, "team"], [], launches=True)
    assert str(problem).startswith(f"{name} is ")
    assert f"Did you mean {MEANT[name]}?" in str(problem)


@pytest.mark.parametrize("name", OWN)
def test_a_variable_of_the_site_s_own_may_have_any_other_name(name: str) -> None:
    assert near_misses([name], [], launches=True) == []


def test_no_variable_that_exists_is_a_slip_of_another() -> None:
    site = [SITE_PREFIX + key for key in (*SITE, *HANDED_ON)]
    assert near_misses([*KNOWN_VARIABLES, *site], [], launches=True) == []


def test_a_value_that_is_given_may_come_from_an_own_variable() -> None:
    """As in a playbook or an inventory that has ``session_size: "{{ cluster_size }}"``."""
    assert near_misses(["cluster_size"], ["session_size"], launches=True) == []
    assert near_misses(["cluster_size"], [], launches=False) == []
    assert near_misses(["sesion_size"], ["session_size"], launches=False) != []


def test_what_names_that_begin_with_session_mean_is_checked_with_the_request() -> None:
    assert near_misses(["session_siez"], [], launches=True) == []


def test_every_variable_of_a_site_is_known() -> None:
    text = (ROOT / "docs" / "site.md").read_text(encoding="utf-8")
    named = re.findall(rf"^\| `{SITE_PREFIX}([a-z_]+)`", text, re.MULTILINE)
    assert len(named) > 25
    assert sorted({*named} - {*SITE}) == []
    roles = [path.read_text(encoding="utf-8") for path in (ROOT / "roles").glob("*/defaults/main.yml")]
    read = {key for role in roles for key in re.findall(rf"\b{SITE_PREFIX}([a-z_]+)\b", role)}
    assert sorted(read - {*SITE, *HANDED_ON, "hosts"}) == []


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        *(("jobs_timeout", "job_timeout"), ("jop_comand", "job_command"), ("JOB_on", "job_on")),
        *((name, "") for name in ("job_timeot", "job_command", "blob_timeout", "session_timeout", "jobs_other", "job")),
    ],
)
def test_a_slip_of_a_verb_s_prefix_is_found(name: str, meant: str) -> None:
    found = [str(problem) for problem in slips_of_prefix([name], "job_", ["command", "on", "timeout"])]
    assert [problem.partition("Did you mean ")[2] for problem in found] == ([f"{meant}?"] if meant else [])


OF_ROLES = {
    "drain_reson": "drain_reason",
    "drian_reason": "drain_reason",
    "DRAIN_MOVE": "drain_move",
    "drain-requeue": "drain_requeue",
    "drain_wait_second": "drain_wait_seconds",
    "preflght_strict": "preflight_strict",
    "preflight_matrx": "preflight_matrix",
    "statsu_json": "status_json",
    "status_pages": "status_page",
    "prepare_host_vni_pool": "prepare_hosts_vni_pool",
    "prepare_hosts_package": "prepare_hosts_packages",
    "check_pair_size": "check_pairs_size",
    "teardwn_keep_record": "teardown_keep_record",
}


@pytest.mark.parametrize("name", [*OF_ROLES])
def test_a_slip_of_a_role_s_variable_is_found(name: str) -> None:
    (problem,) = slips_of_roles([name, "team"], role_variables())
    assert str(problem).startswith(f"{name} is ")
    assert f"Did you mean {OF_ROLES[name]}?" in str(problem)


@pytest.mark.parametrize(
    "name",
    [
        *OWN,
        *("train_hosts", "train_state", "status_url", "login_dir", "launch_mode", "drain_grace", "repair_crew", "info"),
        *("awx_project_scm_branch", "awx_project_revision", "awx_inventory_id", "awx_job_launch_type", "tower_job_id"),
        *("awx_prefixes", "login", "lab_site", "drain", "drain_", "_drain_hosts"),
    ],
)
def test_what_resembles_no_variable_of_a_role_is_the_site_s_own(name: str) -> None:
    assert slips_of_roles([name], role_variables()) == []


def test_no_variable_that_exists_is_a_slip_of_one_of_a_role() -> None:
    specs = [yaml.safe_load(path.read_bytes()) for path in (ROOT / "roles").glob("*/meta/argument_specs.yml")]
    options = {name for spec in specs for entry in spec["argument_specs"].values() for name in entry.get("options", {})}
    for file in ("defaults", "vars"):
        for path in (ROOT / "roles").glob(f"*/{file}/main.yml"):
            options |= {
                name for name in yaml.safe_load(path.read_bytes()) or {} if name.startswith(f"{path.parts[-3]}_")
            }
    found = role_variables()
    assert {f"{role}_{key}" for role, keys in found.items() for key in keys} == {
        name for name in options if not name.startswith(("session_", "awx_"))
    }
    assert len(found) > 15
    others = [f"job_{own.name}" for own in fields(JobRequest)] + [f"logs_{own.name}" for own in fields(LogsRequest)]
    site = [SITE_PREFIX + key for key in (*SITE, *HANDED_ON)]
    assert slips_of_roles([*options, *KNOWN_VARIABLES, *site, *others], found) == []


def test_what_the_documentation_gives_is_no_slip_of_a_role_s_variable() -> None:
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "roles").glob("*/README.md"), ROOT / "README.md"]
    given = {name for page in pages for name in re.findall(r"-e '?([a-zA-Z_]+)=", page.read_text(encoding="utf-8"))}
    assert len(given) > 30
    assert slips_of_roles(given, role_variables()) == []

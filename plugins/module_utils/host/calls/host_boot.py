# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Put the program that runs at boot on this host, or take it away."""

from __future__ import annotations

from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.host_settings import HostSettings
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.values import is_given
from ansible_collections.cluster_compute.session.plugins.module_utils.core.output import parse_keep_size
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.share import parse_half_life
from ansible_collections.cluster_compute.session.plugins.module_utils.host import boot_install


def call(arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Return what changed of the program and of what it is told. Raises ProgramError, InvalidInput, OSError."""
    state = StateDirectory(arguments["state_directory"])
    before = after = state.settings_text()
    if arguments["state"] == "present":
        half_life = arguments["share_half_life"]
        wanted = HostSettings(
            parse_keep_size(arguments["output_size"]),
            arguments["output_days"],
            arguments["output_sessions"],
            parse_half_life("share_half_life", half_life) if is_given(half_life) else None,
        )
        done = boot_install.install(arguments["state_directory"], arguments["path"], check_mode)
        after = state.write_settings(wanted, check_mode)
    else:
        done = boot_install.remove(arguments["path"], check_mode)
        after = ""
        if not check_mode:
            state.settings_file.unlink(missing_ok=True)
    return {
        "changed": done.changed or before != after,
        "path": arguments["path"],
        "diff": {"before": done.before + before, "after": done.after + after},
    }

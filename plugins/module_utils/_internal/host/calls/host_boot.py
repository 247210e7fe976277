# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Install the program that runs at boot on this host, or remove it."""

from __future__ import annotations

import os
from typing import Any

from ...adapters.state import StateDirectory
from ...core.model.host_settings import HostSettings
from ...core.rules.output import parse_keep_size
from ...core.rules.share import parse_half_life
from ...core.values.errors import InvalidInput
from ...core.values.parse import is_given
from .. import boot_install


def call(arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Return the changes of the program and its settings. Raises ProgramError, InvalidInput, OSError."""
    state = StateDirectory(arguments["state_directory"])
    before = after = state.settings_text()
    wanted, had = HostSettings(), state.read_settings()
    if arguments["state"] == "present":
        half_life = arguments["share_half_life"]
        wanted = HostSettings(
            parse_keep_size(arguments["output_size"]),
            arguments["output_days"],
            arguments["output_sessions"],
            parse_half_life("share_half_life", half_life) if is_given(half_life) else None,
            _folder(arguments, "metrics_directory"),
            _folder(arguments, "job_mapping_directory"),
        )
        done = boot_install.install(arguments["state_directory"], arguments["path"], check_mode)
        after = state.write_settings(wanted, check_mode)
    else:
        done = boot_install.remove(arguments["path"], check_mode)
        after = ""
        if not check_mode:
            state.settings_file.unlink(missing_ok=True)
    if not check_mode:
        _leave(state, had, wanted)
    return {
        "changed": done.changed or before != after,
        "path": arguments["path"],
        "diff": {"before": done.before + before, "after": done.after + after},
    }


def _folder(arguments: dict[str, Any], name: str) -> str | None:
    """Return the given directory, None if none is given. Raises InvalidInput."""
    value = str(arguments[name] or "").strip()
    if value and not value.startswith("/"):
        raise InvalidInput.single(name, value, "It must be an absolute path of a folder of the host, or empty.")
    return os.path.normpath(value) if value else None


def _leave(state: StateDirectory, had: HostSettings, wanted: HostSettings) -> None:
    """Remove files from directories for the site's monitoring that are no longer configured."""
    if not (had.metrics_directory or had.job_mapping_directory):
        return
    from .. import metrics

    left = [
        folder if folder != now else None
        for folder, now in (
            (had.metrics_directory, wanted.metrics_directory),
            (had.job_mapping_directory, wanted.job_mapping_directory),
        )
    ]
    metrics.remove(state, *left)

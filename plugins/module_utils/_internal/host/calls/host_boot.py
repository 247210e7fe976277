# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Install the program that runs at boot on this host, or remove it."""

from __future__ import annotations

import os

from ...adapters.state import StateDirectory
from ...core.model.call.base import Answer, States
from ...core.model.call.host_boot import BootAnswer, InstallBoot, RemoveBoot
from ...core.model.host_settings import HostSettings
from ...core.rules.output import parse_keep_size
from ...core.rules.share import parse_half_life
from ...core.values.errors import InvalidInput
from ...core.values.parse import is_given
from .. import boot_install
from ..steps import Change


def _present(request: InstallBoot, check_mode: bool) -> BootAnswer:
    """Install the program, and write its settings."""
    half_life = request.share_half_life
    wanted = HostSettings(
        parse_keep_size(request.output_size),
        request.output_days,
        request.output_sessions,
        parse_half_life("share_half_life", half_life) if is_given(half_life) else None,
        _folder("metrics_directory", request.metrics_directory),
        _folder("job_mapping_directory", request.job_mapping_directory),
    )
    state = StateDirectory(request.state_directory)
    before, had = state.settings_text(), state.read_settings()
    done = boot_install.install(request.state_directory, request.path, check_mode)
    after = state.write_settings(wanted, check_mode)
    return _result(state, request.path, done, (before, after), (had, wanted), check_mode)


def _absent(request: RemoveBoot, check_mode: bool) -> BootAnswer:
    """Remove the program and its settings."""
    state = StateDirectory(request.state_directory)
    before, had = state.settings_text(), state.read_settings()
    done = boot_install.remove(request.path, check_mode)
    if not check_mode:
        state.settings_file.unlink(missing_ok=True)
    return _result(state, request.path, done, (before, ""), (had, HostSettings()), check_mode)


def _result(
    state: StateDirectory,
    path: str,
    done: Change,
    texts: tuple[str, str],
    settings: tuple[HostSettings, HostSettings],
    check_mode: bool,
) -> BootAnswer:
    """Return what changed, after files for the site's monitoring were removed that are no longer configured.

    texts, settings: before and after.
    """
    if not check_mode:
        _leave(state, *settings)
    before, after = texts
    difference = {"before": done.before + before, "after": done.after + after}
    return BootAnswer(changed=done.changed or before != after, path=path, diff=difference)


def _folder(name: str, given: str | None) -> str | None:
    """Return the given directory, None if none is given. Raises InvalidInput."""
    value = (given or "").strip()
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


STATES: States = {InstallBoot: _present, RemoveBoot: _absent}


def call(request: InstallBoot | RemoveBoot, check_mode: bool) -> Answer:
    """Return the changes of the program and its settings. Raises ProgramError, InvalidInput, OSError."""
    return STATES[type(request)](request, check_mode)

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Set the kernel parameters that many replicas need, now and at each boot. A parameter is never lowered."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from ..adapters import machine
from ..adapters.state import file_differs, write_file
from .steps import Stage, Step

PATH = Path("/etc/sysctl.d/60-cluster-compute.conf")
HEAD = "# Written by prepare_hosts of cluster_compute.session: replicas of a host share one table of neighbours.\n"


def setting_stages(least: Mapping[str, int]) -> list[Stage]:
    """Return the steps that raise these parameters to at least these values.

    A higher value is kept, and left out of the file. A parameter that does not exist, as in a separate network
    namespace, belongs to the host around it.
    """
    held = _held()
    found = {name: machine.integer(name) for name in least if machine.setting(name)}
    wanted = {name: max(least[name], held.get(name, 0)) for name in found}
    ours = {name: value for name, value in wanted.items() if found[name] <= value}
    settings = [
        Step(
            "set",
            "kernel setting",
            name,
            partial(machine.change_setting, name, value),
            undo=partial(machine.change_setting, name, found[name]),
            before=found[name],
            after=value,
        )
        for name, value in ours.items()
        if found[name] < value
    ]
    text = HEAD + "".join(f"{name} = {value}\n" for name, value in ours.items())
    if not ours or not file_differs(PATH, text, 0o644):
        return [settings]
    write = partial(write_file, PATH, text)
    return [settings, [Step("update" if held else "create", "file", str(PATH), write, before=held or None, after=ours)]]


def _held() -> dict[str, int]:
    """Return what the file already sets."""
    try:
        lines = PATH.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return {}
    pairs = [line.split("=") for line in lines if line.count("=") == 1]
    return {name.strip(): int(value) for name, value in pairs if value.strip().isdigit()}

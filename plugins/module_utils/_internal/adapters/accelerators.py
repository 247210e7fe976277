# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The accelerators of this host, from NVIDIA's tool and the specifications of the Container Device Interface."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..core.rules.detection import (
    NVIDIA,
    Card,
    CdiDevice,
    declared_paths,
    detected_classes,
    different_devices,
    parse_nvidia,
    parse_nvidia_cards,
    parse_nvidia_models,
    read_cdi,
)
from ..core.values.errors import SessionError
from . import bounded
from .command import run_command
from .suspicion import SECONDS

PROGRAM = "nvidia-smi"
DRIVER_CARDS = "/proc/driver/nvidia/gpus"
PATIENCE = 20
"""Seconds for NVIDIA's tool: it wakes GPUs that sleep, and hangs on some that are broken."""
HANGS = "/run/cluster-compute-nvidia-smi-hangs"
"""A file that exists after the tool has hung, so that the next calls wait less; a boot removes it."""
CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi")
"""Folders in which the engine looks for specifications; if two devices have one name, the later folder's counts."""


class AcceleratorError(SessionError):
    """The accelerators of a class cannot be detected; the message is a full sentence."""


def detect(declared: object) -> dict[str, dict[str, Any]]:
    """Return this host's facts for ``cluster_compute_accelerators``: class to names, device files and problem.

    names: what was detected; a class whose devices are declared has none, and is included only if it has links. paths:
    the device files of each name, if they are known. links: those of the class's device files that are symbolic links,
    with their targets. problem: why nothing was found, or empty.
    """
    found: dict[str, dict[str, Any]] = {
        kind: {"names": [], "paths": {}, "links": links, "problem": ""}
        for kind, paths in declared_paths(declared).items()
        if (links := _links(paths))
    }
    for kind, source in detected_classes(declared).items():
        try:
            if source == NVIDIA:
                found[kind] = {"names": nvidia(), "paths": {}, "links": {}, "problem": ""}
            else:
                devices = cdi(source)
                paths = {device.name: sorted(device.paths) for device in devices}
                links = _links(path for device_paths in paths.values() for path in device_paths)
                found[kind] = {"names": list(paths), "paths": paths, "links": links, "problem": ""}
        except AcceleratorError as error:
            found[kind] = {"names": [], "paths": {}, "links": {}, "problem": str(error)}
    return found


def _links(paths: Iterable[str]) -> dict[str, str]:
    return {path: real for path in paths if (real := os.path.realpath(path)) != path}


def _ask_nvidia(*options: str) -> str:
    """Return what NVIDIA's tool prints. Raises AcceleratorError.

    After it has hung it gets less time for half an hour. Then it gets its full time again, as a GPU may only be slow.
    """
    note = Path(HANGS)
    has_hung = False
    with suppress(OSError):
        has_hung = 0 <= time.time() - note.stat().st_mtime < SECONDS
    seconds = min(PATIENCE, bounded.AGAIN) if has_hung else PATIENCE
    begun = time.monotonic()
    try:
        output = run_command([PROGRAM, *options], error=AcceleratorError, seconds=seconds)
    except AcceleratorError:
        if not has_hung and time.monotonic() - begun >= seconds:
            with suppress(OSError):
                note.touch()
        raise
    if has_hung:
        with suppress(OSError):
            note.unlink()
    return output


def nvidia() -> list[str]:
    """Return the UUIDs of this host's NVIDIA GPUs and MIG instances. Raises AcceleratorError if there are none."""
    import shutil

    if shutil.which(PROGRAM) is None:
        raise AcceleratorError(f"{PROGRAM} is not installed; it comes with NVIDIA's driver.")
    output = _ask_nvidia("-L")
    found = parse_nvidia(output)
    if not found:
        raise AcceleratorError(f"'{PROGRAM} -L' lists no GPU: {output.strip()}")
    return found


def nvidia_cards() -> list[Card]:
    """Return this host's NVIDIA GPUs with their numbers. Raises AcceleratorError."""
    files = sorted(Path(DRIVER_CARDS).glob("*/information"))
    driver = [path.read_text(encoding="utf-8", errors="replace") for path in files]
    return parse_nvidia_cards(_ask_nvidia("-L"), driver)


def nvidia_models() -> list[dict[str, str]]:
    """Return model and driver of this host's NVIDIA GPUs; none if NVIDIA's tool does not report them."""
    query = ["--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        return parse_nvidia_models(_ask_nvidia(*query))
    except AcceleratorError:  # `detect` reports why there are none
        return []


def cdi(kind: str, folders: tuple[str, ...] = CDI_FOLDERS) -> list[CdiDevice]:
    """Return the CDI devices of *kind* on this host. Raises AcceleratorError if there are none."""
    found: list[CdiDevice] = []
    for folder in folders:
        for path in sorted(Path(folder).glob("*")):
            if path.suffix in (".json", ".yaml", ".yml"):
                try:
                    found += read_cdi(_read(path), kind)
                except (OSError, ValueError) as error:
                    raise AcceleratorError(f"The CDI specification {path} cannot be read: {error}.") from error
    devices = different_devices(found)
    if not devices:
        raise AcceleratorError(f"No CDI specification in {' or '.join(folders)} has devices of the kind {kind}.")
    return devices


def _read(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return json.loads(text)
    try:
        import yaml
    except ImportError:
        raise AcceleratorError(
            f"The CDI specification {path} is YAML, and the host lacks the package python3-yaml. Run the prepare_hosts "
            "playbook, which installs it where cluster_compute_accelerators asks for CDI devices."
        ) from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Accelerators that a host detects itself: which classes, and what its tools and files report about them.

A class is either declared, by the names of its devices, or detected in one of two ways: ``nvidia`` runs NVIDIA's own
tool, and ``{cdi: vendor.com/class}`` reads the host's specifications of the Container Device Interface.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

from ..values.deferred import dataclass
from ..values.resources import ACCELERATORS_ALLOWED, Devices, is_cdi_name, is_device_path, is_nvidia_uuid, parse_devices

NVIDIA = "nvidia"
_KIND = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9_.-]*")
_NVIDIA_KIND = "nvidia.com/"
_CARD = re.compile(r"GPU [0-9]+: .*\(UUID: (GPU-[A-Za-z0-9-]+)\)\s*")
_INSTANCE = re.compile(r"\s+MIG .*\(UUID: (MIG-[A-Za-z0-9/-]+)\)\s*")


def source_of(entry: object) -> str | None:
    """Return how the devices of a class are detected: `NVIDIA` or the kind of a CDI device; None for declared ones.

    Raises ValueError with a full sentence for a malformed entry.
    """
    if isinstance(entry, str) and entry.strip() == NVIDIA:
        return NVIDIA
    if isinstance(entry, Mapping) and list(entry) == ["cdi"]:
        kind = entry["cdi"]
        if isinstance(kind, str) and _KIND.fullmatch(kind.strip()):
            return "".join(kind.strip())
    if isinstance(entry, Sequence) and not isinstance(entry, str):
        return None
    raise ValueError(ACCELERATORS_ALLOWED)


def detected_classes(value: object) -> dict[str, str]:
    """Return the classes of ``cluster_compute_accelerators`` that are to be detected, and how.

    Malformed entries are left out: the function that reads the whole variable rejects them.
    """
    found = {}
    for kind, entry in value.items() if isinstance(value, Mapping) else ():
        try:
            source = source_of(entry)
        except ValueError:
            continue
        if source is not None:
            found[str(kind)] = source
    return found


def declared_paths(value: object) -> dict[str, list[str]]:
    """Return the device files that ``cluster_compute_accelerators`` names, by class, without malformed entries."""
    found = {}
    for kind, entry in value.items() if isinstance(value, Mapping) else ():
        names = entry if isinstance(entry, Sequence) and not isinstance(entry, str) else ()
        paths = [path for name in names if isinstance(name, str) and is_device_path(name) for path in name.split("+")]
        if paths:
            found[str(kind)] = paths
    return found


def parse_site_devices(value: object, found: Mapping[str, Mapping[str, Any]], has_cdi: bool, engine: str) -> Devices:
    """Return the accelerators of a host: those that ``cluster_compute_accelerators`` names, and those detected.

    found: by class the names that the host detected, the device files behind them, and the targets of links. has_cdi:
    whether its *engine*, a version, supports CDI devices. Raises ValueError with a full sentence that states what is
    allowed.
    """
    if not isinstance(value, Mapping):
        raise ValueError(ACCELERATORS_ALLOWED)
    sources = {kind: source_of(entry) for kind, entry in value.items()}
    devices = parse_devices(
        {
            kind: entry if sources[kind] is None else found.get(kind, {}).get("names", [])
            for kind, entry in value.items()
        }
    )
    every = [name for _kind, names in devices for name in names]
    if not has_cdi and any(source not in (None, NVIDIA) for source in (*sources.values(), *filter(is_cdi_name, every))):
        raise ValueError(
            f"The host's Docker Engine, {engine}, does not support CDI devices. That needs 25.0 or newer, with the "
            "feature cdi switched on if it is off by default. Or name the device files."
        )
    if any(map(is_nvidia_uuid, every)) and any(name.startswith(_NVIDIA_KIND) for name in every):
        raise ValueError(
            "NVIDIA GPUs are known by UUID and by CDI name here, so that one GPU could be assigned twice. Use one way "
            "for all of them."
        )
    _check_files(filter(is_device_path, every), found.values())
    return devices


def _check_files(declared: Iterable[str], detected: Collection[Mapping[str, Any]]) -> None:
    """Reject devices that have all files of another one, by whichever names. Raises ValueError."""
    links = {path: real for of_class in detected for path, real in of_class.get("links", {}).items()}
    own = {name: _resolved(name.split("+"), links) for name in declared}
    if links:
        for (name, mine), (other, theirs) in combinations(own.items(), 2):
            if _contain(mine, theirs):
                raise ValueError(f"{name} and {other} are the same device by a symbolic link. Name it once.")
    files = {
        name: _resolved(paths, links) for of_class in detected for name, paths in of_class.get("paths", {}).items()
    }
    _check_detected([{name: files[name] for name in of_class.get("paths", {}) if files[name]} for of_class in detected])
    _check_declared(own, files)


def _check_declared(declared: Mapping[str, set[str]], detected: Mapping[str, set[str]]) -> None:
    """Reject device files that a CDI device consists of. declared, detected: files by name of device."""
    for name, mine in declared.items():
        for other, theirs in detected.items():
            if theirs and _contain(mine, theirs):
                raise ValueError(f"{name} is what the CDI device {other} consists of. Name it one way.")


def _check_detected(classes: Sequence[Mapping[str, set[str]]]) -> None:
    """Reject CDI devices of different classes that have the same files. classes: files by name of device."""
    for number, of_class in enumerate(classes):
        earlier = [known for other_class in classes[:number] for known in other_class.items()]
        for name, paths in of_class.items():
            for other, theirs in earlier:
                if _contain(paths, theirs):
                    raise ValueError(f"The CDI devices {other} and {name} share their files. Detect one of the kinds.")


def _resolved(paths: Iterable[str], links: Mapping[str, str]) -> set[str]:
    return {links.get(path, path) for path in paths}


def _contain(mine: set[str], theirs: set[str]) -> bool:
    """Tell whether one of two sets contains the other."""
    return mine <= theirs or theirs <= mine


def parse_nvidia(text: str) -> list[str]:
    """Return the UUIDs that ``nvidia-smi -L`` lists: the instances of a GPU in MIG mode, else that of the GPU."""
    found: list[list[str]] = []
    for line in text.splitlines():
        card, instance = _CARD.fullmatch(line), _INSTANCE.fullmatch(line)
        if card:
            found.append([card.group(1)])
        elif instance and found:
            found[-1].append(instance.group(1))
    return [name for card, *instances in found for name in (instances or [card])]


def parse_nvidia_models(text: str) -> list[dict[str, str]]:
    """Return model and driver of each GPU that ``nvidia-smi --query-gpu=name,driver_version`` lists as CSV."""
    rows = [line.rpartition(",") for line in text.splitlines()]
    return [{"model": name.strip(), "driver": driver.strip()} for name, comma, driver in rows if comma]


@dataclass(frozen=True)
class Card:
    """One NVIDIA GPU. index: its number in NVIDIA's programs. minor: the number in the name of its device file."""

    index: int
    uuid: str
    minor: int | None = None


def parse_nvidia_cards(text: str, driver: Iterable[str]) -> list[Card]:
    """Return the GPUs that ``nvidia-smi -L`` lists.

    driver: what NVIDIA's driver reports about each GPU, ``/proc/driver/nvidia/gpus/*/information``.
    """
    minors = {}
    for card in driver:
        fields = (line.partition(":") for line in card.splitlines())
        found = {name.strip(): value.strip() for name, _colon, value in fields}
        if found.get("Device Minor", "").isdigit():
            minors[found.get("GPU UUID")] = int(found["Device Minor"])
    cards = [(line, match.group(1)) for line in text.splitlines() if (match := _CARD.fullmatch(line))]
    return [Card(int(line.partition(":")[0].split()[1]), uuid, minors.get(uuid)) for line, uuid in cards]


@dataclass(frozen=True)
class CdiDevice:
    """One device of a CDI specification: its full name and the files that it consists of."""

    name: str
    paths: frozenset[str]


def read_cdi(specification: object, kind: str) -> list[CdiDevice]:
    """Return the devices of *kind* in a specification. Raises ValueError for a malformed specification."""
    if not isinstance(specification, Mapping) or not isinstance(specification.get("kind"), str):
        raise ValueError("it has no kind")
    if specification["kind"] != kind:
        return []
    found = []
    for device in _list(specification.get("devices"), "devices"):
        name = device.get("name")
        if not isinstance(name, (str, int)) or isinstance(name, bool):
            raise ValueError("a device has no name")
        edits = device.get("containerEdits") or {}
        if not isinstance(edits, Mapping):
            raise ValueError("its containerEdits are not a mapping")
        nodes = _list(edits.get("deviceNodes"), "deviceNodes")
        # A device's name inside a container may differ from its name on the host.
        paths = frozenset(str(node.get("hostPath") or node.get("path")) for node in nodes)
        found.append(CdiDevice(f"{kind}={name}", paths))
    return found


def _list(value: object, what: str) -> list[Mapping[str, Any]]:
    entries = [] if value is None else value
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        raise ValueError(f"its {what} are not a list of mappings")
    return entries


def different_devices(devices: Iterable[CdiDevice]) -> list[CdiDevice]:
    """Return the devices without those that combine others, such as ``all``, and without second names of one device.

    Tools list the same GPU by its number and by its UUID, as two devices.
    """
    every = list({device.name: device for device in devices}.values())
    found: list[CdiDevice] = []
    for device in every:
        is_sum = any(other.paths and other.paths < device.paths for other in every)
        is_known = any(device.paths and device.paths == other.paths for other in found)
        if not is_sum and not is_known and not device.name.endswith("=all"):
            found.append(device)
    return found

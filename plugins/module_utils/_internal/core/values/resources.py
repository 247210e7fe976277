# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Amounts of CPU, memory and accelerators: parsed once when they are read, whole numbers from then on.

CPU is counted in millicpus (1000 is one CPU) and memory in bytes. Units are those of Docker and Kubernetes users:
``4``, ``0.5``, ``500m`` for CPU; ``4g``, ``512MiB``, ``1Gi`` or a plain number of bytes for memory. As with Docker,
``k``, ``m``, ``g`` and ``t`` are powers of 1024 in any spelling (``m``, ``mb``, ``mi``, ``mib``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal

from .cpus import whole_cores
from .deferred import dataclass

MINIMUM_CPUS = 10
"""Least CPU of a container in millicpus: the kernel's shortest CPU quota is 1 ms of Docker's period of 100 ms."""
MAXIMUM_CPUS = 65536 * 1000
"""Above this a number of millicpus is taken for a mistake."""
MINIMUM_MEMORY = 6 * 1024**2
"""Least memory of a container in bytes: Docker Engine rejects less than 6 MiB."""
MINIMUM_SHM = 1024**2
"""Least of /dev/shm in bytes: less is taken for a mistake."""
MINIMUM_DISK = 1024**2
"""Least that a replica may be limited to on a disk, in bytes: less is taken for a mistake."""
MAXIMUM_MEMORY = 1024**5
"""Above this (1 PiB) a number of bytes is taken for a mistake."""
MAXIMUM_ACCELERATORS = 65536
MAXIMUM_DEVICES = 256
"""Accelerators of one class that a host may have."""
_OTHERS = ("cpus", "memory", "replicas")
"""Resources other than accelerators."""

_CPUS = re.compile(r"([0-9]{1,16}(?:\.[0-9]{1,16})?|\.[0-9]{1,16})(m?)")
_MEMORY = re.compile(
    r"([0-9]{1,20}(?:\.[0-9]{1,16})?|\.[0-9]{1,16}) ?(?:([kmgtp])(?:i?b)?|([kmgtp])i|b)?", re.IGNORECASE
)
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_CLASS = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?")

_CPUS_ALLOWED = "Give a number of CPUs such as 4, 0.5 or 500m, in steps of 1m (a thousandth)."
_MEMORY_ALLOWED = "Give an amount of memory such as 4g, 512MiB or 1Gi, or a whole number of bytes."


def parse_cpus(value: object, minimum: int = MINIMUM_CPUS) -> int:
    """Return *value* (a number or text such as ``0.5`` or ``500m``) in millicpus.

    minimum: least millicpus allowed; pass 0 for an amount to hold back on a host.
    Raises ValueError with a full sentence that says what is allowed.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(_CPUS_ALLOWED)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(_CPUS_ALLOWED)
        millicpus = Decimal(repr(float(value))) * 1000
    elif isinstance(value, int):
        millicpus = Decimal(int(value)) * 1000
    else:
        match = _CPUS.fullmatch(value.strip())
        if match is None:
            raise ValueError(_CPUS_ALLOWED)
        millicpus = Decimal(match.group(1)) * (1 if match.group(2) else 1000)
    if millicpus != millicpus.to_integral_value():
        raise ValueError("It is finer than a thousandth of a CPU. " + _CPUS_ALLOWED)
    if millicpus < minimum:
        raise ValueError(f"It is below the least amount, {format_cpus(minimum)} CPU. {_CPUS_ALLOWED}")
    if millicpus > MAXIMUM_CPUS:
        raise ValueError(f"It is above the largest amount, {format_cpus(MAXIMUM_CPUS)} CPUs. {_CPUS_ALLOWED}")
    return int(millicpus)


def parse_memory(value: object, minimum: int = MINIMUM_MEMORY) -> int:
    """Return *value* (whole bytes or text such as ``512MiB``) in bytes; a fraction of a byte is dropped, as by Docker.

    minimum: least bytes allowed; the default is what Docker Engine demands of a container.
    Raises ValueError with a full sentence that says what is allowed.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(_MEMORY_ALLOWED)
    if isinstance(value, float):
        if not math.isfinite(value) or value != int(value):
            raise ValueError(_MEMORY_ALLOWED)
        amount = int(value)
    elif isinstance(value, int):
        amount = int(value)
    else:
        match = _MEMORY.fullmatch(value.strip())
        if match is None:
            raise ValueError(_MEMORY_ALLOWED)
        unit = (match.group(2) or match.group(3) or "").lower()
        if not unit and "." in match.group(1):
            raise ValueError(_MEMORY_ALLOWED)
        amount = int(Decimal(match.group(1)) * 1024 ** _POWER[unit])
    if amount < minimum:
        raise ValueError(f"It is below the least amount, {format_memory(minimum)}. {_MEMORY_ALLOWED}")
    if amount > MAXIMUM_MEMORY:
        raise ValueError(f"It is above the largest amount, {format_memory(MAXIMUM_MEMORY)}. {_MEMORY_ALLOWED}")
    return amount


def format_cpus(millicpus: int) -> str:
    """Return millicpus as a number of CPUs that `parse_cpus` reads back: 4000 is ``4``, 500 is ``0.5``."""
    sign, amount = ("-", -millicpus) if millicpus < 0 else ("", millicpus)
    whole, rest = divmod(amount, 1000)
    return sign + (str(whole) if not rest else f"{whole}.{rest:03d}".rstrip("0"))


def format_memory(amount: int) -> str:
    """Return bytes in the largest binary unit that divides them, so that `parse_memory` reads back the same."""
    for power, unit in ((5, "PiB"), (4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if amount and amount % 1024**power == 0:
            return f"{amount // 1024**power}{unit}"
    return f"{amount}B"


def _check_class(name: object, allowed: str) -> None:
    """Reject a name that cannot be a class of accelerators. Raises ValueError."""
    if not isinstance(name, str) or _CLASS.fullmatch(name) is None or name in _OTHERS:
        raise ValueError(
            "A class is made of letters, digits, '.', '_', '/' and '-', at most 63, and is none of "
            f"{', '.join(_OTHERS)}. {allowed}"
        )


def parse_accelerators(value: object) -> tuple[tuple[str, int], ...]:
    """Return *value*, a mapping of class to count or text such as ``gpu=2,fpga=1``, as pairs sorted by class.

    Raises ValueError with a full sentence that says what is allowed.
    """
    allowed = "Give a mapping of accelerator class to a whole number of at least 1, such as {gpu: 2}."
    pairs = _pairs_in(value, allowed) if isinstance(value, str) else value
    if not isinstance(pairs, Mapping):
        raise ValueError(allowed)
    result = []
    for name, count in pairs.items():
        _check_class(name, allowed)
        if isinstance(count, str) and re.fullmatch(r"[0-9]{1,9}", count):
            count = int(count)
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAXIMUM_ACCELERATORS:
            raise ValueError(allowed)
        result.append(("".join(name), int(count)))
    return tuple(sorted(result))


def _pairs_in(text: str, allowed: str) -> dict[str, str]:
    """Return the parts of text such as ``gpu=2,fpga=1``. Raises ValueError, with *allowed*."""
    pairs: dict[str, str] = {}
    for part in re.split(r"[,\n]", text):
        if part.strip():
            name, sign, count = part.partition("=")
            if not sign or name.strip() in pairs:
                raise ValueError(allowed)
            pairs[name.strip()] = count.strip()
    return pairs


PINNED = "pinned CPU"
"""The class of CPUs that a replica has for itself; a class of accelerators cannot have this name."""

Devices = tuple[tuple[str, tuple[str, ...]], ...]
"""Resources assigned by name, accelerators and pinned CPUs: (class, names) by class, the first to assign first."""

_DEVICE_PATH = re.compile(r"/dev(/[A-Za-z0-9_:,-][A-Za-z0-9._:,-]*)+")
_NVIDIA = re.compile(r"(GPU|MIG)-[A-Za-z0-9./-]+")
_CDI = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9_.-]*=[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?", re.ASCII
)

ACCELERATORS_ALLOWED = (
    "Give a mapping of accelerator class to a list of different names, each the path of a device such as "
    "/dev/dri/renderD128, several joined by '+', an NVIDIA UUID as nvidia-smi -L prints it, or a CDI device such as "
    "vendor.com/class=name. Or have the host detect a class: nvidia, or {cdi: vendor.com/class}."
)


def is_device_path(name: str) -> bool:
    """Tell whether an accelerator consists of one or several device files."""
    return all(_DEVICE_PATH.fullmatch(path) for path in name.split("+"))


def is_nvidia_uuid(name: str) -> bool:
    """Tell whether an accelerator is one that the engine's NVIDIA driver knows."""
    return _NVIDIA.fullmatch(name) is not None


def is_cdi_name(name: str) -> bool:
    """Tell whether an accelerator is one of the Container Device Interface, by its full name."""
    return _CDI.fullmatch(name) is not None


def same_device(first: str, other: str) -> bool:
    """Tell whether two names mean the same device: as far as they are paths, one has all paths of the other.

    Devices that only share a path, as all AMD GPUs share /dev/kfd, are different.
    """
    mine, theirs = set(first.split("+")), set(other.split("+"))
    return mine <= theirs or theirs <= mine


def parse_devices(value: object) -> Devices:
    """Return the accelerators of a host, a mapping of class to a list of names, sorted by class.

    A name is the value that the engine gets: the path of a device, several joined by ``+``, the UUID that ``nvidia-smi
    -L`` prints, or the full name of a CDI device. Raises ValueError with a full sentence that states what is allowed.
    """
    allowed = ACCELERATORS_ALLOWED
    if not isinstance(value, Mapping):
        raise ValueError(allowed)
    result = []
    seen: list[str] = []
    for kind, names in value.items():
        _check_class(kind, allowed)
        if isinstance(names, str) or not isinstance(names, Sequence) or len(names) > MAXIMUM_DEVICES:
            raise ValueError(allowed)
        _add_devices(seen, names)
        if names:
            result.append(("".join(kind), tuple("".join(name) for name in names)))
    return tuple(sorted(result))


def _add_devices(seen: list[str], names: Sequence[object]) -> None:
    """Add the names of devices to those *seen* before. Raises ValueError for one that is malformed, or among them."""
    for name in names:
        if not isinstance(name, str) or not (is_device_path(name) or is_nvidia_uuid(name) or is_cdi_name(name)):
            raise ValueError(ACCELERATORS_ALLOWED)
        if any(same_device(name, other) for other in seen):
            raise ValueError(f"{name} is named twice. {ACCELERATORS_ALLOWED}")
        seen.append(name)


def count_devices(devices: Devices) -> tuple[tuple[str, int], ...]:
    """Return how many there are of each class."""
    return tuple((kind, len(names)) for kind, names in devices)


@dataclass(frozen=True)
class Resources:
    """The amounts of one replica: millicpus, bytes of memory, bytes of /dev/shm, accelerators as (class, count).

    pin_cpus: whether its CPUs, then a whole number, are assigned to no other replica.
    """

    cpus: int
    memory: int
    shm_size: int
    accelerators: tuple[tuple[str, int], ...] = ()
    pin_cpus: bool = False

    def devices(self, threads: int = 1) -> tuple[tuple[str, int], ...]:
        """Return how many of each class it gets by name, on a host whose cores count for so many *threads*.

        Pinned CPUs are those of whole cores.
        """
        cores = whole_cores(self.cpus // 1000, threads)
        return (*self.accelerators, (PINNED, cores * threads)) if self.pin_cpus else self.accelerators

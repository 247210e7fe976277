# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Words for people: amounts, and what a replica has of its host."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..module_utils._internal.core.values.resources import format_cpus

_UNITS = ((1024**4, "TiB"), (1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"))


def memory(amount: int) -> str:
    """Return bytes for people, with at most three digits: ``1.5 GiB``."""
    for size, unit in _UNITS:
        if amount >= size:
            number = amount / size
            text = f"{number:.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"
            return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {unit}"
    return f"{amount} B"


def cpus(amount: int) -> str:
    """Return millicpus for people: ``1.5 CPUs``."""
    return f"{format_cpus(amount)} {'CPU' if amount == 1000 else 'CPUs'}"


def many(number: int, what: str) -> str:
    """Return a number with its noun: ``1 host``, ``2 hosts``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def part_of(part: int, whole: int, form: Callable[[int], str]) -> str:
    """Return a part of a whole for people. The unit is shown once if both have the same: ``16 of 32 GiB``."""
    first, second = form(part), form(whole)
    number, _space, unit = first.partition(" ")
    return f"{number if unit and second.endswith(f' {unit}') else first} of {second}"


def why(reason: Sequence[str]) -> str:
    """Return the sentences of a reason, without its table and the explanation of the table."""
    sentences = [line.partition(" Asked per host")[0] for line in reason if line.endswith(".")]
    sentences = [line for line in sentences if not line.endswith(" are shown.")]
    return " ".join(sentences or reason[:1])


def devices(held: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the named devices of a replica by class, without spaces: ``gpu=0,1``, ``pinned-CPU=0-3,8``."""
    return [f"{kind.replace(' ', '-')}={','.join(_runs(names))}" for kind, names in sorted(held.items())]


def images(replicas: Iterable[Mapping[str, Any]]) -> list[tuple[str, str, list[str]]]:
    """Return for each image of replicas its reference, its digest or id, and the hosts that have this one.

    A tag may mean another image later, and a tag without a digest another image on each host. The second value is empty
    if a host does not have the image yet.
    """
    found: dict[tuple[str, str], dict[str, None]] = {}
    for replica in replicas:
        meaning = (replica["image_digest"] or replica["image_id"] or "").rpartition("@")[2]
        found.setdefault((replica["image"], meaning), {})[replica["host"]] = None
    return [(reference, meaning, list(hosts)) for (reference, meaning), hosts in found.items()]


def _runs(names: Iterable[str]) -> list[str]:
    """Return names in their order, with consecutive whole numbers as a range: ``0-3``."""
    runs: list[list[str]] = []
    for name in names:
        if runs and name.isdecimal() and runs[-1][-1].isdecimal() and int(name) == int(runs[-1][-1]) + 1:
            runs[-1] = [runs[-1][0], name]
        else:
            runs.append([name])
    return ["-".join(run) for run in runs]

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check whether the site still grants what a plan gives to the replicas of a host that did not keep the plan itself.

A label of the host or the copy of another host may be forged, and root acts on what it contains: so it is compared with
the inventory before anything is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..model.plan import Plan
from ..model.request import Request
from ..values.errors import InvalidPlan, show
from ..values.resources import PINNED, Devices
from .check import validate_plan
from .data import DRIVERS, ROOTS, driver_of, is_allowed_driver

REMEDY = (
    "Nothing of it is made, and what runs there goes on. Grant it again in the inventory, or tear the session down and "
    "launch it again."
)


def check_plan(data: object, host: str, roots: Mapping[str, str], drivers: Sequence[str], devices: Devices) -> None:
    """Reject a plan that no launch makes, or that gives replicas of a host more than the site grants there.

    host: its name in the plan. roots, drivers, devices: what the inventory grants on it (`rules.data`,
    `rules.capacity`); for roots also what each would show that is not for sessions.
    The form of a request already limits its capabilities and limits. Raises InvalidPlan, with a sentence each.
    """
    plan = validate_plan(data)
    problems = list(_excesses(plan, host, roots, drivers, devices))
    if problems:
        raise InvalidPlan([*problems, REMEDY])


def _excesses(
    plan: Plan, host: str, roots: Mapping[str, str], drivers: Sequence[str], devices: Devices
) -> Iterator[str]:
    for root in plan.hosts[host].mount_roots:
        # Links in the path of a root are followed, links below it are not: so a folder below a root is not a root.
        if root not in roots:
            yield f"The plan mounts what is below {show(root)} on {host}, which its {ROOTS} do not have."
        elif roots[root]:
            yield f"The plan mounts what is below {show(root)} on {host}, which would show {show(roots[root])}."
    for mount in Request.from_dict(plan.request).mounts:
        if mount.volume is not None and not is_allowed_driver(mount, drivers):
            wanted = show(driver_of(mount))
            yield f"The plan mounts a volume of {wanted} on {host}, which its {DRIVERS} do not have."
    yield from _excess_devices(plan, host, dict(devices))


def _excess_devices(plan: Plan, host: str, granted: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for replica in plan.on(host):
        for kind, names in replica.devices.items():
            unknown = sorted({*names} - {*granted.get(kind, ())}) if kind != PINNED else []
            if unknown:
                yield (
                    f"The plan gives {replica.name} the {show(kind)} {show(', '.join(unknown))} of {host}, which its "
                    "cluster_compute_accelerators do not have."
                )

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Pass events from an action to later jobs of a workflow and to the site's receiver."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from ..module_utils._internal.core.model.decode import encode
from ..module_utils._internal.core.model.record import DEFAULT_GROUP
from ..module_utils._internal.core.show import events
from . import event_sender

EVENT = "cluster_compute_event"


def read_receiver(task_vars: Mapping[str, Any], template: Callable[[Any], Any]) -> events.Receiver | None:
    """Return the site's receiver, None if there is none. template: reads a variable (`plain.reader`).

    Raises InvalidInput.
    """
    return events.parse_receiver(template(task_vars.get(events.VARIABLE)))


def send(
    receiver: events.Receiver, event: events.Event, task_vars: Mapping[str, Any], template: Callable[[Any], Any]
) -> None:
    """Start to send an event, and return at once."""
    group = str(template(task_vars.get("session_resource_group")) or DEFAULT_GROUP)
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    sent = events.cloud_event(event, str(uuid.uuid4()), now, group)
    event_sender.send(receiver.url, receiver.token, encode(sent))


def handed_on(artifacts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a result has to contain so that later jobs get *artifacts*, as set_stats does it."""
    return {"ansible_stats": {"data": encode(artifacts), "per_host": False, "aggregate": False}}

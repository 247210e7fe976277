# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Determine the owner of this host's parts of a session."""

from __future__ import annotations

from collections.abc import Collection

from ..adapters import engine_objects
from ..adapters.engine import Engine
from ..adapters.state import StateDirectory
from ..core.model.record import ENDED
from ..core.rules.access import Asker
from ..core.values.errors import NotTheirs
from .labels import labelled_records


def check(
    engine: Engine, state: StateDirectory, session_name: str, name: str | None, left_alone: Collection[str] = ()
) -> None:
    """Reject access to this host's parts of a session that has not ended and belongs to another user.

    The owner comes from its record, or if that is lost from the label of its network, if this host wrote it
    (`host.labels`). name: of the requester, None for an admin. left_alone: ids of sessions of this name that are not
    changed. Raises NotTheirs.
    """
    if name is None:
        return
    asker = Asker(name, is_admin=False)
    meant = {engine_objects.LABEL_SESSION_NAME: session_name}
    records = {record.id: record for record in state.records()[0] if record.name == session_name}
    records = {key: record for key, record in records.items() if key not in left_alone}
    unrecorded = {entry.labels.session_id for entry in engine.session_containers(meant)}
    unrecorded |= {entry.labels.session_id for entry in engine.networks(meant)}
    unrecorded -= {*records, "", *left_alone}
    labelled = labelled_records(engine, state)[0] if unrecorded else {}
    # A label is as old as the network. It has the owner, but not the users with whom the session is shared now.
    owners = {key: labelled[key].owner if key in labelled else "" for key in sorted(unrecorded)}
    running = {key: (record.owner, record.shared_with) for key, record in records.items() if record.status not in ENDED}
    refusals = {
        key: why
        for key, (owner, shared_with) in {**running, **{key: (owner, ()) for key, owner in owners.items()}}.items()
        if (why := asker.refusal(session_name, owner, shared_with)) is not None
    }
    if refusals:
        raise NotTheirs(next(iter(refusals.values())), refusals)

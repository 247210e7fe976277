# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The stages in which a host compares and creates its part of a session, in their order."""

from __future__ import annotations

from collections.abc import Collection

from ...adapters import engine_objects
from ...core.model.record import PublicKeys
from ..steps import Stage
from . import containers, files, links, networks, record
from .context import Context


def session_stages(
    context: Context,
    public_keys: PublicKeys,
    check_mode: bool = False,
    roles: Collection[str] | None = None,
    containers_too: bool = True,
) -> list[Stage]:
    """Compare the host with its part of the plan and return the missing steps, stage by stage.

    public_keys: of every replica of the session. They may be empty in check mode, before the keys exist. In check mode
    the session that this one replaces still exists, so its containers do not block this one. roles: the only ones whose
    containers are created, if others come later. The session does not run then. containers_too: False for changes that
    other hosts need before any container changes: the peers, and what this host keeps out. Raises EngineError if a
    container of the same name belongs to another owner, or the session's resources are taken.
    """
    found = {
        entry.replica: entry
        for entry in context.engine.session_containers({engine_objects.LABEL_SESSION_ID: context.session.id})
    }
    context.image_ids = {name: entry.image for name, entry in found.items()}
    if context.lease_owner is not None and not check_mode:
        context.ledger.require(context.session.id, context.lease_owner)
        context.data.check_probes(context.lease_owner)
    place = record.place_steps(context, found, check_mode) if context.lease_owner is None else []
    record_steps = record.record_steps(context) if roles is None else []
    if context.amendment is not None and context.data.is_new and containers_too and not check_mode:
        context.data.check_probes(context.amendment.lease_owner)
    made_links = links.link_steps(context)
    is_running = any(entry.runs for entry in found.values())
    stages = [
        containers.foreign_steps(context, set(found), check_mode),
        place,
        # First for a change, so that a later run that finds an incomplete change can finish it.
        record_steps if context.amendment is not None else [],
        # Their programs end together with their old network.
        containers.surplus_steps(context, found),
        links.rule_steps(context, context.engine.uses_nftables()),
        files.file_steps(context, public_keys),
        links.tunnel_steps(context, public_keys),
        made_links,
        links.peer_steps(context),
    ]
    if not containers_too:
        return stages
    stages += [
        networks.network_steps(context, found, bool(made_links)),
        *context.data.stages(is_running, check_mode),
        files.surplus_steps(context),
        networks.connect_steps(context, found, bool(made_links)),
        containers.container_steps(context, found, public_keys, roles),
    ]
    if context.amendment is None:
        stages.append(record_steps)
    return stages if roles is not None else [*stages, record.commit_steps(context, bool(place))]

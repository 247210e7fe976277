# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The order in which a host makes what it owes a session, and compares before: the stages, and nothing else."""

from __future__ import annotations

from collections.abc import Collection

from ansible_collections.cluster_compute.session.plugins.module_utils.adapters import engine as docker_engine
from ansible_collections.cluster_compute.session.plugins.module_utils.host.session import (
    containers,
    files,
    links,
    networks,
    record,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.host.session.context import Context, PublicKeys
from ansible_collections.cluster_compute.session.plugins.module_utils.host.steps import Stage


def session_stages(
    context: Context, public_keys: PublicKeys, check_mode: bool = False, roles: Collection[str] | None = None
) -> list[Stage]:
    """Compare the host with its part of the plan and return the steps that are missing, stage by stage.

    public_keys: of every replica of the session; they may be empty in check mode, before the keys exist. In check mode
    the session that this one replaces is still there, so its containers are not in the way. roles: those whose
    containers are made alone, as others come later; the session does not run then. Raises EngineError when a
    container of the same name belongs to somebody else.
    """
    found = {
        entry["Labels"][docker_engine.LABEL_REPLICA]: entry
        for entry in context.engine.session_containers({docker_engine.LABEL_SESSION_ID: context.session.id})
    }
    context.image_ids = {name: entry["ImageID"] for name, entry in found.items()}
    if context.lease_owner is not None and not check_mode:
        context.ledger.require(context.session.id, context.lease_owner)
        context.data.check_probes(context.lease_owner)
    elif context.lease_owner is None and any(replica.name not in found for replica in context.replicas):
        record.require_place(context, bool(found))
    made_links = links.link_steps(context)
    is_running = any(entry["State"] == "running" for entry in found.values())
    stages = [
        containers.foreign_steps(context, set(found), check_mode),
        links.rule_steps(context, context.engine.uses_nftables()),
        files.file_steps(context, public_keys),
        links.tunnel_steps(context, public_keys),
        made_links,
        links.peer_steps(context),
        networks.network_steps(context, found, bool(made_links)),
        *context.data.stages(is_running, check_mode),
        containers.surplus_steps(context, found),
        networks.connect_steps(context, found, bool(made_links)),
        containers.container_steps(context, found, public_keys, roles),
    ]
    return stages if roles is not None else [*stages, record.record_steps(context), record.commit_steps(context)]

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Remove everything a session has on one host, found by its labels, link aliases and state, whatever is left of it."""

from __future__ import annotations

from functools import partial

from ansible_collections.cluster_compute.session.plugins.module_utils.adapters import engine as docker_engine
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters import link
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.engine import Engine
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.ledger import LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.state import StateDirectory, StateError
from ansible_collections.cluster_compute.session.plugins.module_utils.host.steps import Stage, Step

STOP_GRACE = 10
"""Seconds between the request to stop and the kill, Docker's own default."""


def removal_stages(
    engine: Engine,
    state: StateDirectory,
    ledger: LedgerFile,
    session_name: str,
    session_id: str | None = None,
) -> list[Stage]:
    """Return the steps that remove the session named *session_name*: containers, networks, links, state.

    Data folders and named volumes stay. Objects are found independently of each other, so a session that is half
    there, or whose record is lost, goes as well. With *session_id* another session of the same name stays.
    """
    labels = {docker_engine.LABEL_SESSION_NAME: session_name}
    if session_id is not None:
        labels[docker_engine.LABEL_SESSION_ID] = session_id

    def is_meant(name: str, found_id: str) -> bool:
        return name == session_name and session_id in (None, found_id)

    containers = engine.session_containers(labels)
    networks = engine.networks(labels)
    links = {name: owner for name, owner in link.session_links().items() if is_meant(owner[1], owner[0])}
    ids = {entry["Labels"][docker_engine.LABEL_SESSION_ID] for entry in [*containers, *networks]}
    reserved = sorted(key for key, held in ledger.read().items() if is_meant(held.claim.session_name, key))
    ids |= {owner[0] for owner in links.values()} | set(reserved)
    ids |= {key for key in _recorded_ids(state, session_name) if is_meant(session_name, key)}
    return [
        [
            Step(
                "remove",
                "container",
                (entry.get("Names") or [entry["Id"]])[0].lstrip("/"),
                partial(_remove_container, engine, entry["Id"], entry["State"]),
                before=entry["State"],
            )
            for entry in containers
        ],
        [
            Step(
                "remove",
                "network",
                network["Name"],
                partial(engine.remove_network, network["Id"]),
                before=network["Driver"],
            )
            for network in networks
        ],
        [Step("remove", "link", name, partial(link.delete_link, name), before="present") for name in sorted(links)],
        [
            Step(
                "remove",
                "state",
                str(state.session(one).path),
                partial(state.remove_session, one),
                before="present",
            )
            for one in sorted(ids)
            if state.session(one).exists()
        ],
        [Step("release", "reservation", session_name, partial(ledger.release, one), before="held") for one in reserved],
    ]


def _remove_container(engine: Engine, container: str, status: str) -> None:
    if status == "running":
        engine.stop_container(container, STOP_GRACE)
    engine.remove_container(container)


def _recorded_ids(state: StateDirectory, session_name: str) -> set[str]:
    found = set()
    for session_id in state.session_ids():
        try:
            record = state.session(session_id).read_record()
        except StateError:
            continue  # another session's damaged record must not keep this one alive; labels and links find the rest
        if record is not None and record["plan"]["session"]["name"] == session_name:
            found.add(session_id)
    return found

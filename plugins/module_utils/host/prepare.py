# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Make ready what the replicas of one host need before any of them starts: reservation, images, keys."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.engine import Engine, EngineError
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.ledger import LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.ssh_keys import converge_keys
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils.core.ledger import CONFIRMED

PublicKeys = dict[str, dict[str, "str | None"]]


def prepare(
    engine: Engine,
    state: StateDirectory,
    ledger: LedgerFile,
    plan: dict[str, Any],
    host: str,
    *,
    regenerate_keys: bool,
    deadline: float,
    check_mode: bool,
) -> tuple[PublicKeys, list[str]]:
    """Confirm the reservation, pull missing images, make missing keys.

    Returns the public halves of the keys of this host's replicas, and what was, or would be, done. Raises LedgerError
    where the reservation has run out, EngineError where an image is not to be had.
    """
    session = state.session(plan["session"]["id"])
    replicas = [replica for replica in plan["replicas"] if replica["host"] == host]
    if not check_mode:
        ledger.advance(plan["session"]["id"], CONFIRMED, deadline)
    actions = _pull(engine, host, {replica["image"] for replica in replicas}, check_mode)
    public_keys: PublicKeys = {}
    for replica in replicas:
        folder = session.replica(replica["name"]) / "ssh"
        public_keys[replica["name"]], made = converge_keys(folder, regenerate_keys, check_mode)
        actions += [f"create key {replica['name']}/{key}" for key in made]
    return public_keys, actions


def _pull(engine: Engine, host: str, images: set[str], check_mode: bool) -> list[str]:
    missing = sorted(image for image in images if engine.inspect_image(image) is None)
    if missing and not check_mode:
        try:
            with ThreadPoolExecutor() as pool:
                list(pool.map(engine.pull_image, missing))
        except EngineError as error:
            raise EngineError(
                f"The session's image cannot be had on {host}. {error}. Correct session_image, or load the image there."
            ) from error
    return [f"pull image {image}" for image in missing]

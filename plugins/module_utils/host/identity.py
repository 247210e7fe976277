# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Who this host is, whatever an inventory calls it: an identity of its own, made when the host is prepared."""

from __future__ import annotations

import hashlib
import json
from functools import partial

from ansible_collections.cluster_compute.session.plugins.module_utils.adapters import machine
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.state import (
    StateDirectory,
    StateError,
    write_file,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.host.steps import Stage, Step

IDENTITY = "identity.json"
"""In the state directory: ``id``, drawn by chance, and ``machine``, a digest of what names the machine, if anything."""


class OtherMachine(StateError):
    """The state directory was made on another machine."""

    is_of_host = True


def read_identity(state: StateDirectory) -> str:
    """Return the host's identity; empty where it has none, having been prepared by an earlier release.

    Raises OtherMachine where this disk was copied from another machine, or moved here.
    """
    path = state.root / IDENTITY
    try:
        found = json.loads(path.read_text(encoding="utf-8", errors="replace"))
        identity, known = str(found["id"]), str(found["machine"])
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        return ""  # a damaged one tells nothing, and the next preparation makes it anew
    here = _machine()
    if known and here and known != here:
        raise OtherMachine(
            f"The state directory {state.root} was made on another machine, from which this disk was copied or moved. "
            f"If it is a copy, remove the containers of sessions and {state.root} from it; if it was moved, remove "
            f"{path}. Then run the prepare_hosts playbook."
        )
    return identity


def identity_stage(state: StateDirectory) -> Stage:
    """Return what is missing of the host's identity: one step or none. Raises OtherMachine."""
    if read_identity(state):
        return []
    import uuid  # only who is prepared needs it

    content = {"id": str(uuid.uuid4()), "machine": _machine()}
    write = partial(write_file, state.root / IDENTITY, json.dumps(content, sort_keys=True) + "\n", mode=0o600)
    return [Step("create", "identity", IDENTITY, write)]


def _machine() -> str:
    """Return a digest of what names the machine, so that nobody who reads the file learns that."""
    name = machine.hardware_name()
    return hashlib.sha256(name.encode()).hexdigest() if name else ""

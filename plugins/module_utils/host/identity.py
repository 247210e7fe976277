# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Who this host is, whatever an inventory calls it: an identity of its own, made when the host is prepared."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import partial

from ..adapters import machine
from ..adapters.state import StateDirectory, StateError, mark_version, write_file
from .steps import Stage, Step

IDENTITY = "identity.json"
"""In the state directory: ``id``, drawn by chance; ``machine``, a digest of what names the machine, if anything; and
``names``, by which inventories called the host when it was prepared."""
MOST_NAMES = 20


@dataclass(frozen=True)
class Identity:
    """What a host knows of itself; empty where it was prepared by an earlier release. names: the oldest first."""

    id: str = ""
    names: tuple[str, ...] = ()


class OtherMachine(StateError):
    """The state directory was made on another machine."""

    is_of_host = True


def read_identity(state: StateDirectory) -> Identity:
    """Return the host's identity.

    Raises OtherMachine where this disk was copied or moved here from another machine, and NewerState.
    """
    state.check_version()
    path = state.root / IDENTITY
    try:
        found = json.loads(path.read_text(encoding="utf-8", errors="replace"))
        identity = Identity(str(found["id"]), tuple(map(str, found["names"])))
        known = str(found["machine"])
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        return Identity()  # a damaged one tells nothing, and the next preparation makes it anew
    here = _machine()
    if known and here and known != here:
        raise OtherMachine(
            f"The state directory {state.root} was made on another machine, from which this disk was copied or moved. "
            f"If it is a copy, remove the containers of sessions and {state.root} from it; if it was moved, remove "
            f"{path}. Then run the prepare_hosts playbook."
        )
    return identity


def identity_stage(state: StateDirectory, name: str) -> Stage:
    """Return what is missing of the host's identity: one step or none. name: the inventory's. Raises OtherMachine."""
    identity = read_identity(state)
    if name in identity.names:
        return []
    import uuid  # only who is prepared needs it

    content = {
        "id": identity.id or str(uuid.uuid4()),
        "machine": _machine(),
        "names": [*identity.names, name][-MOST_NAMES:],
    }
    write = partial(_write, state, json.dumps(content, sort_keys=True) + "\n")
    return [Step("update" if identity.id else "create", "identity", name, write)]


def _write(state: StateDirectory, text: str) -> None:
    mark_version(state.root)
    write_file(state.root / IDENTITY, text, mode=0o600)


def _machine() -> str:
    """Return a digest of what names the machine, so that nobody who reads the file learns that."""
    name = machine.hardware_name()
    return hashlib.sha256(name.encode()).hexdigest() if name else ""

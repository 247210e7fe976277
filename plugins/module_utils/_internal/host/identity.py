# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The identity of this host, which does not depend on its name in an inventory. Created when the host is prepared."""

from __future__ import annotations

import hashlib
import json
from functools import partial

from ..adapters import machine
from ..adapters.state import StateDirectory, StateError, mark_version, write_file
from ..core.values.deferred import dataclass
from .steps import Stage, Step

IDENTITY = "identity.json"
"""In the state directory: ``id``, which is random; ``machine``, a digest of the machine's identifiers, if it has any;
and ``names``, the host's names in inventories when it was prepared."""
MOST_NAMES = 20


@dataclass(frozen=True)
class Identity:
    """Identity data of a host. Empty if an earlier release prepared it. names: the oldest first."""

    id: str = ""
    names: tuple[str, ...] = ()


class OtherMachine(StateError):
    """The state directory was created on another machine."""

    is_of_host = True


def read_identity(state: StateDirectory) -> Identity:
    """Return the host's identity.

    Raises OtherMachine if this disk was copied or moved here from another machine, and NewerState.
    """
    state.check_version()
    path = state.root / IDENTITY
    try:
        found = json.loads(path.read_text(encoding="utf-8", errors="replace"))
        identity = Identity(str(found["id"]), tuple(map(str, found["names"])))
        known = str(found["machine"])
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        return Identity()  # a damaged one is ignored, and the next preparation creates it again
    here = _machine()
    if known and here and known != here:
        raise OtherMachine(
            f"The state directory {state.root} was made on another machine, from which this disk was copied or moved. "
            f"If it is a copy, remove the containers of sessions and {state.root} from it; if it was moved, remove "
            f"{path}. Then run the prepare_hosts playbook."
        )
    return identity


def identity_stage(state: StateDirectory, name: str) -> Stage:
    """Return the step for the host's missing identity, if any. name: in the inventory. Raises OtherMachine."""
    identity = read_identity(state)
    if name in identity.names:
        return []
    import uuid  # only needed to prepare the host

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
    """Return a digest of the machine's identifiers, so that the file does not reveal them."""
    name = machine.hardware_name()
    return hashlib.sha256(name.encode()).hexdigest() if name else ""

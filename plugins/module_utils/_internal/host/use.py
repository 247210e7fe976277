# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Record the use of each owner's running sessions here, as `rules.share` decides from the ledger.

The timer does this periodically, and so does each repair. The recorded use is kept after the sessions end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from ..adapters.ledger import LedgerFile, boot_id
from ..adapters.state import StateDirectory, StateError
from ..core.model.claims import COMMITTED
from ..core.model.decode import decode_known, encode
from ..core.rules.share import CPUS, Account, Use, after_look
from ..core.values.errors import CoreError
from ..core.values.resources import PINNED


def count_use(state: StateDirectory, clock: Callable[[], float] | None = None) -> None:
    """Record what was held since the last run, if this host is configured to. Raises LedgerError, OSError."""
    half_life = state.read_settings().share_half_life
    if half_life is None:
        return
    now = time.clock_gettime(time.CLOCK_BOOTTIME) if clock is None else clock()
    state.write_use(encode(after_look(_read(state), boot_id(), now, _held(state), half_life)))


def read_use(state: StateDirectory) -> Use:
    """Return the recorded use up to the last run, by owner and kind. Empty if use is not recorded."""
    account = _read(state) if state.read_settings().share_half_life is not None else None
    return {} if account is None else account.owners


def _held(state: StateDirectory) -> Iterator[tuple[str, dict[str, float]]]:
    for session_id, held in LedgerFile(str(state.root)).read().items():
        if held.stage != COMMITTED:
            continue
        try:
            record = state.session(session_id).read_record()
        except StateError:
            continue  # a repair corrects it
        if record is not None:
            devices = {kind: float(len(names)) for kind, names in held.claim.devices if kind != PINNED}
            yield record.owner, {CPUS: held.claim.cpus / 1000, **devices}


def _read(state: StateDirectory) -> Account | None:
    """Return the stored use. None if there is none or it cannot be read. It then starts again."""
    try:
        return decode_known(Account, state.read_use(), "The use")
    except CoreError:
        return None

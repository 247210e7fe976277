# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import threading
import time
from pathlib import Path

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.locks import take_lock


def test_a_lock_is_waited_for_until_it_is_free(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("a") as one, (tmp_path / "lock").open("a") as other:
        assert take_lock(one.fileno(), 0, shared=True)
        assert take_lock(other.fileno(), 0, shared=True)
        assert not take_lock(other.fileno(), 0)
        begin = time.monotonic()
        assert not take_lock(other.fileno(), 0.05)
        assert time.monotonic() - begin >= 0.05
        ends = threading.Timer(0.1, one.close)
        ends.start()
        assert take_lock(other.fileno(), 60)
        ends.join()

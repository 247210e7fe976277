# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The way to the parameter servers of the session."""

from __future__ import annotations

import os
from multiprocessing.managers import BaseManager
from typing import Any

PORT = 5000


class Shards(BaseManager):
    """Hands out the shard of a server."""


def connect() -> list[Any]:
    """Return the shards of all servers, in their order."""
    Shards.register("shard")
    servers = [name for name in os.environ["BACKENDAI_CLUSTER_HOSTS"].split(",") if name.startswith("ps")]
    found = []
    for name in servers:
        manager = Shards((name, PORT), os.environ["BACKENDAI_SESSION_ID"].encode())
        manager.connect()
        found.append(manager.shard())  # type: ignore[attr-defined]
    return found

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A parameter server: it holds some of the weights, which workers pull, and push gradients to."""

from __future__ import annotations

import os
import threading
from collections import Counter

from shards import PORT, Shards

RATE = 0.2


class Shard:
    """The weights of this server, and who has changed them how often."""

    def __init__(self, size: int) -> None:
        """Begin with zeros."""
        self._weights = [0.0] * size
        self._pushes: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    def pull(self) -> list[float]:
        """Return the weights."""
        return list(self._weights)

    def push(self, worker: tuple[str, str], gradient: list[float]) -> None:
        """Go a step down the gradient."""
        with self._lock:
            self._weights = [weight - RATE * slope for weight, slope in zip(self._weights, gradient)]
            self._pushes[worker] += 1

    def report(self) -> tuple[tuple[str, str], dict[tuple[str, str], int]]:
        """Return where this server is, and who pushed how often."""
        return (os.environ["BACKENDAI_CLUSTER_HOST"], os.environ["CLUSTER_COMPUTE_HOST"]), dict(self._pushes)


def main() -> None:
    """Serve for as long as the session is there, on its network alone."""
    shard = Shard(int(os.environ["SHARD"]))
    Shards.register("shard", callable=lambda: shard)
    address = (os.environ["BACKENDAI_CLUSTER_HOST"], PORT)
    Shards(address, os.environ["BACKENDAI_SESSION_ID"].encode()).get_server().serve_forever()


if __name__ == "__main__":
    main()

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ask the parameter servers in main1 what was learned, and show who took part."""

import os

from shards import connect


def main() -> None:
    """Print servers, workers and weights."""
    shards = connect()
    print(f"judged in {os.environ['BACKENDAI_CLUSTER_HOST']} on {os.environ['CLUSTER_COMPUTE_HOST']}")
    for shard in shards:
        (server, host), pushes = shard.report()
        print(f"shard in {server} on {host}")
        for (worker, where), times in sorted(pushes.items()):
            print(f"{worker} on {where} pushed {times} times to {server}")
    weights = [weight for shard in shards for weight in shard.pull()]
    print("learned " + " ".join(f"{weight:.2f}" for weight in weights), flush=True)


if __name__ == "__main__":
    main()

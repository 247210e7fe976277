# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Add up squares in a Dask cluster that main1 starts over SSH in all replicas, and show who took part."""

import os

from dask.distributed import Client, SSHCluster

NUMBERS = 1000


def where() -> tuple[str, str]:
    """Return the replica and the host that this runs on."""
    return os.environ["BACKENDAI_CLUSTER_HOST"], os.environ["CLUSTER_COMPUTE_HOST"]


def main() -> None:
    """Start the scheduler in main1 and a worker in every replica, and use them."""
    replicas = os.environ["BACKENDAI_CLUSTER_HOSTS"].split(",")
    # No connect_options: names, keys and the keys of the hosts, which are checked, are in ~/.ssh.
    with SSHCluster(["main1", *replicas], worker_options={"nthreads": 1}) as cluster, Client(cluster) as client:
        client.wait_for_workers(len(replicas), timeout=60)
        took_part = sorted(client.run(where).values())
        assert sorted(name for name, _host in took_part) == sorted(replicas)
        total = client.submit(sum, client.map(lambda number: number**2, range(NUMBERS))).result()
        assert total == sum(number**2 for number in range(NUMBERS))
        for replica, host in took_part:
            print(f"worker in {replica} on {host}")
        print(f"sum of {NUMBERS} squares by {len(took_part)} workers: {total}", flush=True)


if __name__ == "__main__":
    main()

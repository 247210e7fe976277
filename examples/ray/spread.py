# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Have a task in every replica read one object of 256 MiB, and show who took part."""

import os

import numpy
import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

MIB = 2**20


@ray.remote(num_cpus=1)
def read(numbers: numpy.ndarray) -> tuple[str, str, str, int]:
    """Read the object; return where this is and how much was read."""
    assert numbers.all()
    where = os.environ["BACKENDAI_CLUSTER_HOST"], os.environ["CLUSTER_COMPUTE_HOST"]
    return *where, ray.get_runtime_context().get_node_id(), numbers.nbytes // MIB


def main() -> None:
    """Reserve a place on each node, and run a task in each of them."""
    ray.init(address="auto")
    size = int(os.environ["BACKENDAI_CLUSTER_SIZE"])
    group = placement_group([{"CPU": 1}] * size, strategy="STRICT_SPREAD")
    ray.get(group.ready(), timeout=60)
    numbers = ray.put(numpy.ones(256 * MIB, numpy.uint8))
    places = [PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index) for index in range(size)]
    took_part = sorted(ray.get([read.options(scheduling_strategy=place).remote(numbers) for place in places]))
    for replica, host, _node, amount in took_part:
        print(f"{replica} on {host} has read {amount} MiB")
    print(f"{len(took_part)} tasks on {len({node for *_where, node, _amount in took_part})} nodes", flush=True)


if __name__ == "__main__":
    main()

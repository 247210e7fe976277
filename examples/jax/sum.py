# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Add up over all processes with JAX, and show who took part."""

import os

import jax
import numpy
from jax.experimental import multihost_utils


def main() -> None:
    """Take part in the sum."""
    jax.distributed.initialize()  # size, rank and address come from the variables of Slurm
    rank, size = jax.process_index(), jax.process_count()
    assert jax.device_count() == size * jax.local_device_count()
    total = int(multihost_utils.process_allgather(numpy.array(rank)).sum())
    assert total == size * (size - 1) // 2
    text = f"process {rank} of {size} in {os.environ['BACKENDAI_CLUSTER_HOST']} on {os.environ['CLUSTER_COMPUTE_HOST']}"
    took_part = multihost_utils.process_allgather(numpy.frombuffer(text.ljust(200).encode(), numpy.uint8))
    if rank == 0:
        for line in took_part:
            print(bytes(line).decode().rstrip())
        print(f"sum over {size} processes: {total}", flush=True)
    jax.distributed.shutdown()


if __name__ == "__main__":
    main()

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Add up the ranks of all processes with MPI, and show who took part."""

import os
import re

from mpi4py import MPI


def main() -> None:
    """Take part in the sum."""
    comm = MPI.COMM_WORLD
    rank, size = comm.Get_rank(), comm.Get_size()
    library = re.sub(r"\s+", " ", MPI.Get_library_version().split("Release date")[0].split(",")[0])
    took_part = comm.gather((os.uname().nodename, os.environ["CLUSTER_COMPUTE_HOST"], library))
    total = comm.allreduce(rank)
    if rank == 0:
        assert took_part is not None
        assert total == size * (size - 1) // 2
        for number, (replica, host, loaded) in enumerate(took_part):
            print(f"rank {number} of {size} in {replica} on {host}: {loaded}")
        print(f"sum of {size} ranks: {total}")


if __name__ == "__main__":
    main()

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Count to 100 together, from the last checkpoint on; the first time one process is killed on the way."""

import os
import signal
from pathlib import Path

import torch
import torch.distributed as dist

CHECKPOINT = Path("/tmp/step")
"""Of the process that writes it, in its replica; for a program of your own a file in a shared folder."""


def main() -> None:
    """Take part in the count; torchrun starts all processes again when one is lost."""
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    replica, host = os.environ["BACKENDAI_CLUSTER_HOST"], os.environ["CLUSTER_COMPUTE_HOST"]

    # Ranks may be given out anew, so whoever has the newest checkpoint tells the others.
    step = torch.tensor(int(CHECKPOINT.read_text()) if CHECKPOINT.exists() else 0)
    dist.all_reduce(step, dist.ReduceOp.MAX)
    print(f"rank {rank} of {size} in {replica} on {host} begins at {step}", flush=True)
    begun = int(step)
    while step < 100:
        one = torch.ones(1)
        dist.all_reduce(one)  # each takes part in each step
        assert one == size
        step += 1
        if rank == 0 and step % 10 == 0:
            CHECKPOINT.write_text(str(int(step)))
        if begun == 0 and replica == "sub2" and step == 45:
            os.kill(os.getpid(), signal.SIGKILL)
    print(f"rank {rank} has counted to {step}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

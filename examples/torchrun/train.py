# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fit a line with PyTorch's DistributedDataParallel, and show who took part."""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    """Train in this process together with all others."""
    cards = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cards else torch.device("cpu")
    dist.init_process_group("nccl" if cards else "gloo")  # rank, size and address come from the environment
    rank, size = dist.get_rank(), dist.get_world_size()

    torch.manual_seed(rank)  # other data in each process
    model = DistributedDataParallel(torch.nn.Linear(1, 1).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.7)
    for _step in range(100):
        given = torch.rand(64, 1, device=device)
        loss = torch.nn.functional.mse_loss(model(given), 3 * given + 1)
        optimizer.zero_grad()
        loss.backward()  # the mean of all processes' gradients
        optimizer.step()

    weights = [parameter.item() for parameter in model.parameters()]
    where = os.environ["BACKENDAI_CLUSTER_HOST"], os.environ["CLUSTER_COMPUTE_HOST"]
    took_part: list = [None] * size
    dist.all_gather_object(took_part, (rank, *where, weights))
    if rank == 0:
        for number, replica, host, found in took_part:
            assert found == weights, f"rank {number} has another model"
            print(f"rank {number} of {size} in {replica} on {host}")
        print(f"all {size} agree: y = {weights[0]:.2f} x + {weights[1]:.2f}", flush=True)
    dist.barrier()  # nobody leaves while others still use it
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    # Threads of gloo outlive the group where a model holds it, and may abort a Python that is about to end.
    sys.stdout.flush()
    os._exit(0)

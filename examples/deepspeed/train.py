# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fit a line with DeepSpeed, whose first stage of ZeRO spreads the optimizer, and show who took part."""

import os
import sys

import deepspeed
import torch
import torch.distributed as dist
from deepspeed.accelerator import get_accelerator

CONFIGURATION = {
    "train_micro_batch_size_per_gpu": 64,
    "optimizer": {"type": "Adam", "params": {"lr": 0.2, "weight_decay": 0, "torch_adam": True}},
    "zero_optimization": {"stage": 1},
}


def main() -> None:
    """Train in this process together with all that the launcher has started."""
    if get_accelerator().device_name() == "cpu":
        # It would be compiled now, and the image has no compiler: processes of one machine exchange gradients by it.
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed("gloo" if get_accelerator().device_name() == "cpu" else "nccl")
    rank, size = dist.get_rank(), dist.get_world_size()

    torch.manual_seed(rank)  # other data in each process; the weights are those of rank 0
    model = torch.nn.Linear(1, 1)
    engine, *_others = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=CONFIGURATION)
    assert engine.zero_optimization_stage() == 1
    for _step in range(300):
        given = torch.rand(64, 1, device=engine.device)
        loss = torch.nn.functional.mse_loss(engine(given), 3 * given + 1)
        engine.backward(loss)
        engine.step()

    weights = [parameter.item() for parameter in model.parameters()]
    where = os.environ["BACKENDAI_CLUSTER_HOST"], os.environ["CLUSTER_COMPUTE_HOST"]
    took_part: list = [None] * size
    dist.all_gather_object(took_part, (rank, *where, weights))
    if rank == 0:
        for number, replica, host, found in took_part:
            assert found == weights, f"rank {number} has another model"
            print(f"rank {number} of {size} in {replica} on {host}")
        print(f"all {size} agree: y = {weights[0]:.2f} x + {weights[1]:.2f}", flush=True)
    dist.barrier()  # nobody leaves while others still use the group
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    # Threads of gloo outlive the group where a model holds it, and may abort a Python that is about to end.
    sys.stdout.flush()
    os._exit(0)

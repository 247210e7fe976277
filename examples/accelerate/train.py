# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fit a line with accelerate, and show who took part."""

import os
import sys

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object, set_seed


def main() -> None:
    """Train in this process together with all others."""
    accelerator = Accelerator()
    set_seed(accelerator.process_index)  # other data in each process
    model = torch.nn.Linear(1, 1)
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.7))
    for _step in range(100):
        given = torch.rand(64, 1, device=accelerator.device)
        loss = torch.nn.functional.mse_loss(model(given), 3 * given + 1)
        optimizer.zero_grad()
        accelerator.backward(loss)  # the mean of all processes' gradients
        optimizer.step()

    weights = [parameter.item() for parameter in model.parameters()]
    where = os.environ["BACKENDAI_CLUSTER_HOST"], os.environ["CLUSTER_COMPUTE_HOST"]
    took_part = gather_object([(accelerator.process_index, *where, weights)])
    if accelerator.is_main_process:
        size = accelerator.num_processes
        for number, replica, host, found in took_part:
            assert found == weights, f"rank {number} has another model"
            print(f"rank {number} of {size} in {replica} on {host}")
        print(f"all {size} agree: y = {weights[0]:.2f} x + {weights[1]:.2f}", flush=True)
    accelerator.wait_for_everyone()  # nobody leaves while others still use it
    accelerator.end_training()


if __name__ == "__main__":
    main()
    # Threads of gloo outlive the group where a model holds it, and may abort a Python that is about to end.
    sys.stdout.flush()
    os._exit(0)

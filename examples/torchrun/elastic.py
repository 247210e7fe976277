# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Train a model together, from the last checkpoint on: processes and hosts may be lost, and others come."""

import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS, PAUSE = int(os.environ.get("STEPS", "100")), float(os.environ.get("PAUSE", "0"))
NAME = f"/checkpoints/{os.environ['BACKENDAI_SESSION_ID']}"  # in a folder that all hosts share
CHECKPOINT, LOG, DONE = (Path(f"{NAME}.{kind}") for kind in ("checkpoint", "log", "done"))


def say(text: str) -> None:
    """Write a line for follow.py."""
    with LOG.open("a") as file:
        file.write(f"{text}\n")


def save(state: dict) -> None:
    """Write the checkpoint; whoever reads it finds the old or the new one, whatever is lost on the way."""
    partial = CHECKPOINT.with_suffix(".partial")
    torch.save(state, partial)
    partial.replace(CHECKPOINT)


def main() -> None:
    """Take part in the training; torchrun starts all processes again when one is lost, or a replica comes."""
    # Who waits for a process whose host is gone gives up after that time.
    dist.init_process_group("gloo", timeout=timedelta(seconds=30))
    rank, size = dist.get_rank(), dist.get_world_size()
    replica, host = os.environ["BACKENDAI_CLUSTER_HOST"], os.environ["CLUSTER_COMPUTE_HOST"]

    saved: list = [torch.load(CHECKPOINT) if rank == 0 and CHECKPOINT.exists() else None]
    dist.broadcast_object_list(saved)  # all begin at the same step
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(1, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    begun = step = saved[0]["step"] if saved[0] else 0
    if saved[0]:
        net.load_state_dict(saved[0]["model"])
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    took_part: list = [None] * size
    dist.all_gather_object(took_part, f"{replica} on {host}")
    if rank == 0:
        say(f"{size} begin at {step}: {', '.join(sorted(took_part))}")
    torch.manual_seed(step * size + rank)  # other data in each process
    while step < STEPS:
        given = 3 * torch.rand(64, 1)
        loss = torch.nn.functional.mse_loss(model(given), torch.sin(given))
        optimizer.zero_grad()
        loss.backward()  # the mean of all processes' gradients
        optimizer.step()
        step += 1
        time.sleep(PAUSE)
        if rank == 0 and step % 10 == 0:
            save({"step": step, "model": net.state_dict()})
            say(f"step {step}: loss {loss.item():.5f}")
        if begun == 0 and replica == os.environ.get("KILLED") and step == 15:
            os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()
    if rank == 0:
        DONE.touch()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    # Threads of gloo outlive the group where a model holds it, and may abort a Python that is about to end.
    sys.stdout.flush()
    os._exit(0)

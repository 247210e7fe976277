# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Give a Ray cluster work while it grows and shrinks, and count what became of it."""

import os
import time
from pathlib import Path

import ray

SECONDS, ENOUGH = float(os.environ.get("LOAD_SECONDS", "15")), Path("/tmp/enough")
RUNS = f"/runs/{os.environ['BACKENDAI_SESSION_ID']}"
WAITING = 60


@ray.remote(num_cpus=1)
def work(number: int) -> tuple[int, str]:
    """Take a while; write down that the task ran, and return where."""
    time.sleep(0.2)
    replica = os.environ["BACKENDAI_CLUSTER_HOST"]
    with open(f"{RUNS}.{replica}", "a") as file:
        file.write(f"{number}\n")
    return number, replica


def connect() -> None:
    """Wait for the head, which starts at the same time, for a minute at most."""
    for _try in range(60):
        try:
            ray.init(address="main1:6379", log_to_driver=False)
        except ConnectionError:
            time.sleep(1)
        else:
            return
    raise SystemExit("There is no head of Ray in main1.")


def main() -> None:
    """Keep some tasks waiting at any time until the time is up; no result may be missing then."""
    connect()
    tasks: list = []
    waiting: list = []
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and not ENOUGH.exists():
        new = [work.remote(len(tasks) + more) for more in range(WAITING - len(waiting))]
        tasks, waiting = tasks + new, waiting + new
        _ready, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=0.1)
    results = ray.get(tasks)
    assert [number for number, _replica in results] == list(range(len(tasks)))
    runs = sum(len(path.read_text().splitlines()) for path in Path("/runs").glob(f"{Path(RUNS).name}.*"))
    for replica in sorted({replica for _number, replica in results}):
        print(f"{replica} has worked")
    print(f"{len(results)} of {len(tasks)} tasks done, {runs - len(results)} of them run again", flush=True)


if __name__ == "__main__":
    main()

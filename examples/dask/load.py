# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Give a Dask cluster work while it grows and shrinks, and count what became of it."""

import os
import time
from pathlib import Path

from dask.distributed import Client

SECONDS, ENOUGH = float(os.environ.get("LOAD_SECONDS", "15")), Path("/tmp/enough")
RUNS = f"/runs/{os.environ['BACKENDAI_SESSION_ID']}"
WAITING = 60


def work(number: int) -> tuple[int, str]:
    """Take a while; write down that the task ran, and return where."""
    time.sleep(0.2)
    replica = os.environ["BACKENDAI_CLUSTER_HOST"]
    with open(f"{RUNS}.{replica}", "a") as file:
        file.write(f"{number}\n")
    return number, replica


def main() -> None:
    """Keep some tasks waiting at any time until the time is up; no result may be missing then."""
    with Client("tcp://main1:8786") as client:
        futures: list = []
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and not ENOUGH.exists():
            missing = WAITING - sum(not future.done() for future in futures[-2 * WAITING :])
            futures += [client.submit(work, len(futures) + more, pure=False) for more in range(missing)]
            time.sleep(0.1)
        results = client.gather(futures)  # the workers have kept them until now
    assert [number for number, _replica in results] == list(range(len(futures)))
    runs = sum(len(path.read_text().splitlines()) for path in Path("/runs").glob(f"{Path(RUNS).name}.*"))
    for replica in sorted({replica for _number, replica in results}):
        print(f"{replica} has worked")
    print(f"{len(results)} of {len(futures)} tasks done, {runs - len(results)} of them run again", flush=True)


if __name__ == "__main__":
    main()

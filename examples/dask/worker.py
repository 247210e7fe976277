# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A worker of Dask that ends what it does, and gives its results to others, before it goes.

dask worker would end at once when it is asked to stop: what it holds would have to be computed again.
"""

import asyncio
import os
import signal

from dask.distributed import Worker


async def main() -> None:
    """Work until SIGTERM comes; a replica that goes has ten seconds then."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with Worker("tcp://main1:8786", name=os.environ["BACKENDAI_CLUSTER_HOST"], nthreads=1) as worker:
        ways = [asyncio.ensure_future(way) for way in (stop.wait(), worker.finished())]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        await worker.close_gracefully()


if __name__ == "__main__":
    asyncio.run(main())

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Count words on all workers of a Spark cluster, and show who took part."""

import os
import time
from collections.abc import Iterator

from pyspark.sql import SparkSession

WORDS = ("one", "two", "two", "three", "three", "three")
TIMES = 1000


def where(_numbers: Iterator[int]) -> Iterator[tuple[str, str]]:
    """Return the replica and the host that this runs on; slowly, so that each executor gets a task."""
    time.sleep(1)
    yield os.environ["BACKENDAI_CLUSTER_HOST"], os.environ["CLUSTER_COMPUTE_HOST"]


def main() -> None:
    """Wait for an executor of each replica, then count."""
    spark = SparkSession.builder.getOrCreate()
    context, size = spark.sparkContext, int(os.environ["BACKENDAI_CLUSTER_SIZE"])
    took_part: set[tuple[str, str]] = set()
    for _try in range(60):
        took_part = set(context.parallelize(range(size), size).mapPartitions(where).collect())
        if len(took_part) == size:
            break
    words = context.parallelize(WORDS * TIMES, 2 * size)
    counts = words.map(lambda word: (word, 1)).reduceByKey(lambda count, other: count + other).collectAsMap()
    assert counts == {"one": TIMES, "two": 2 * TIMES, "three": 3 * TIMES}
    for replica, host in sorted(took_part):
        print(f"executor in {replica} on {host}")
    print(f"counted {sum(counts.values())} words by {len(took_part)} executors", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A worker: it learns four weights, which lie on the parameter servers, from data of its own."""

import os

import numpy
from shards import connect

WANTED = numpy.array([1.0, 2.0, 3.0, 4.0])


def main() -> None:
    """Pull, compute, push, two hundred times."""
    shards = connect()
    random = numpy.random.default_rng(int(os.environ["RANK"]))
    place = os.environ["BACKENDAI_CLUSTER_HOST"], os.environ["CLUSTER_COMPUTE_HOST"]
    for _step in range(200):
        weights = numpy.concatenate([shard.pull() for shard in shards])
        given = random.normal(size=(64, len(WANTED)))
        gradient = given.T @ (given @ (weights - WANTED)) / len(given)
        for shard, part in zip(shards, numpy.split(gradient, len(shards))):
            shard.push(place, part.tolist())


if __name__ == "__main__":
    main()

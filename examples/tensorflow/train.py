# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Learn y = 3x + 1 by MultiWorkerMirroredStrategy, which finds the others in TF_CONFIG, and show who took part."""

import json
import os

import tensorflow as tf

STEPS = 200
RATE = 0.3


def main() -> None:
    """Train on points of this worker's own; the gradients of all are averaged."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    points = tf.random.stateless_uniform([STEPS, 32], (rank, 0), -1.0, 1.0)
    with strategy.scope():
        slope, offset = (
            tf.Variable(0.0, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA) for _name in ("slope", "offset")
        )

    def learn(step: tf.Tensor) -> None:
        x = points[step]
        wrong = slope * x + offset - (3 * x + 1)
        own = [tf.reduce_mean(wrong * x), tf.reduce_mean(wrong)]
        of_all = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, own)
        slope.assign_sub(RATE * of_all[0])
        offset.assign_sub(RATE * of_all[1])

    @tf.function
    def train() -> None:
        for step in tf.range(STEPS):
            strategy.run(learn, args=(step,))

    train()
    size = strategy.num_replicas_in_sync
    replica, host = os.environ["BACKENDAI_CLUSTER_HOST"], os.environ["CLUSTER_COMPUTE_HOST"]
    print(f"rank {rank} of {size} in {replica} on {host}: y = {slope.numpy():.2f} x + {offset.numpy():.2f}", flush=True)


if __name__ == "__main__":
    main()

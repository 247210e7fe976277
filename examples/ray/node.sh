#!/bin/sh
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# What each replica does from its start on: main1 is the head, the others join it by name, and try again where it is not
# ready, or was lost. SIGTERM goes to Ray: the node takes no new task, waits for those that run, and leaves.
where="--address main1:6379"
[ "$BACKENDAI_CLUSTER_HOST" != main1 ] || where="--head --include-dashboard=false"
trap 'kill "$node"; wait "$node"; exit 143' TERM
for _try in $(seq 20); do
    # shellcheck disable=SC2086 # several words
    ray start --block $where --num-cpus 1 --object-store-memory 100000000 &
    node=$!
    wait "$node"
    ray stop --force
done
exit 1

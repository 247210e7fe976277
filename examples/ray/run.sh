#!/bin/sh
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# A Ray cluster of all replicas, and a program that uses it. Ray finds the right addresses by itself.
set -eu
size=300000000
ray start --head --num-cpus 1 --object-store-memory $size --include-dashboard=false
# A node gives up after seconds; the head may take longer where it has to share its CPUs.
session-run --on sub sh -c "
    for _try in 1 2 3; do
        ray start --address main1:6379 --num-cpus 1 --object-store-memory $size && exit
        ray stop --force
    done
    exit 1"
python3 /code/spread.py

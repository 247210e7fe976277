#!/bin/sh
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# A Ray cluster of all replicas, and a program that uses it. Ray finds the right addresses by itself.
set -eu
size=300000000
ray start --head --num-cpus 1 --object-store-memory $size --include-dashboard=false
session-run --on sub ray start --address main1:6379 --num-cpus 1 --object-store-memory $size
python3 /code/spread.py

#!/bin/sh
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# What runs in every replica. accelerate has no variables for number and rank of the machines.
exec accelerate launch --cpu --num_machines "$WORLD_SIZE" --machine_rank "$RANK" --num_processes "$WORLD_SIZE" \
    --main_process_ip "$MASTER_ADDR" --main_process_port "$MASTER_PORT" /code/train.py

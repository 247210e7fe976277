#!/bin/sh
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# What each replica does from its start on: main1 has the scheduler, and all have a worker that looks for it by name.
[ "$BACKENDAI_CLUSTER_HOST" != main1 ] || dask scheduler --port 8786 --no-dashboard &
exec python3 /code/worker.py

#!/bin/sh
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# What each replica does from its start on: it takes part until the training is done. A replica that comes later, or in
# place of a lost one, joins by this. Where main1 was lost torchrun fails in all, and finds the new one at the next try.
done=/checkpoints/$BACKENDAI_SESSION_ID.done
trap 'kill "$training"; wait; exit 143' TERM
for _try in $(seq 20); do
    [ ! -e "$done" ] || exec sleep infinity
    torchrun --nnodes=2:4 --rdzv-backend=c10d --rdzv-endpoint=main1:29400 --rdzv-conf=last_call_timeout=5 \
        --max-restarts=10 /code/elastic.py &
    training=$!
    wait "$training" || sleep 1
done
exit 1

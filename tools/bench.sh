#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Runs every tests/benchmarks/bench_*.py. With --smoke each runs once and at its smallest, all on one lab: whether they
# still work is the question then, not how long anything takes.
set -euo pipefail
cd "$(dirname "$0")/.."
shopt -s nullglob
benchmarks=(tests/benchmarks/bench_*.py)
if [ ${#benchmarks[@]} -eq 0 ]; then
    echo "There is no benchmark (tests/benchmarks/bench_*.py)." >&2
    exit 1
fi
export PYTHONPATH=$PWD/.collections
if [ "${1:-}" = --smoke ]; then
    log=$(mktemp)
    play() {
        ansible-playbook -i tests/benchmarks/launch/inventory "playbooks/$1.yml" >"$log" 2>&1 || {
            cat "$log"
            return 1
        }
    }
    trap 'play lab_down; rm -f "$log"' EXIT
    trap 'exit 130' INT TERM
    for playbook in lab_down lab_up prepare_hosts lab_images; do
        play "$playbook"
    done
    export CLUSTER_COMPUTE_BENCH_LAB=up
fi
for benchmark in "${benchmarks[@]}"; do
    echo "== $benchmark $*"
    start=$SECONDS
    python "$benchmark" "$@"
    echo "== $((SECONDS - start)) s"
done

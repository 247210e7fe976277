#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Runs every tests/benchmarks/bench_*.py. The playbook that a launch is compared with uses community.docker, which comes
# from the PyPI package `ansible` (some 260 MB, kept in .cache): no other check needs it.
set -euo pipefail
cd "$(dirname "$0")/.."
version=12.3.0
collections=$PWD/.cache/bench-collections/$version
shopt -s nullglob
benchmarks=(tests/benchmarks/bench_*.py)
if [ ${#benchmarks[@]} -eq 0 ]; then
    echo "There is no benchmark (tests/benchmarks/bench_*.py)." >&2
    exit 1
fi
if [ ! -e "$collections/.complete" ]; then
    echo "Installing the PyPI package ansible $version into .cache/bench-collections"
    rm -rf .cache/bench-collections
    python -m pip install --disable-pip-version-check --no-input --quiet --quiet --no-compile --no-deps \
        --target "$collections" "ansible==$version"
    touch "$collections/.complete"
fi
export ANSIBLE_COLLECTIONS_PATH=$PWD/.collections:$collections
export PYTHONPATH=$PWD/.collections
for benchmark in "${benchmarks[@]}"; do
    echo "== $benchmark"
    python "$benchmark"
done

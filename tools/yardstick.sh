#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Compares the placement of several shapes with OR-tools, which is installed aside.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=$PWD/.cache/yardstick
requirements=$PWD/requirements/yardstick.txt
if ! cmp --silent "$requirements" "$cache/installed.txt"; then
    echo "Installing OR-tools into .cache/yardstick"
    rm -rf "$cache"
    python -m venv "$cache/venv"
    "$cache/venv/bin/python" -m pip install --disable-pip-version-check --no-input --quiet --quiet -r "$requirements"
    cp "$requirements" "$cache/installed.txt"
fi
PYTHONPATH=$PWD/.collections "$cache/venv/bin/python" tests/benchmarks/bench_several_shapes.py "$@"

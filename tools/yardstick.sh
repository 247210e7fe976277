#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Compares the placement of several shapes with OR-tools, which is installed aside.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/make_aside.sh yardstick
PYTHONPATH=$PWD/.collections .cache/yardstick/venv/bin/python tests/benchmarks/bench_several_shapes.py "$@"

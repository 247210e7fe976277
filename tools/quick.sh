#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# What tells a developer within about a minute that a change is wrong: style and types, the unit tests that take seconds,
# and, beside them, one file of tests on real engines.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
core=tests/unit/plugins/module_utils/_internal/core
logs=.cache/logs
mkdir -p "$logs"

pytest -q tests/contract/test_drain.py --host newer >"$logs/quick-contract.log" 2>&1 &
contract=$!
trap 'kill "$contract" 2>/dev/null' INT TERM
failed=()
ruff check --quiet . || failed+=("ruff check")
ruff format --quiet --check . || failed+=("ruff format")
mypy --package ansible_collections.cluster_compute.session.plugins || failed+=(mypy)
python tools/structure.py || failed+=(structure)
pytest -q "$core"/{values,model,cluster,planning,preflight,show} "$core"/verbs/test_{launch,change,teardown,schedule,repair}.py ||
    failed+=(unit)
wait "$contract" || failed+=(contract)
tail -n 20 "$logs/quick-contract.log"

if [ ${#failed[@]} -ne 0 ]; then
    printf 'Failed: %s\n' "${failed[*]}"
    exit 1
fi

#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Runs the make targets named, one argument after another, the targets of one argument two at a time; stops at the first
# argument that fails, and removes the tests' labs at the end however it ends.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
export PATH=$PWD/.venv/bin:$PATH ANSIBLE_CONFIG=$PWD/ansible.cfg
logs=.cache/logs
mkdir -p "$logs"

remove_labs() {
    local inventory
    for inventory in tests/{*,benchmarks/launch}/inventory .cache/integration/inventory* extensions/molecule/*/inventory; do
        if [ -e "$inventory" ] && ! ansible-playbook -i "$inventory" playbooks/lab_down.yml >"$logs/lab-down.log" 2>&1; then
            echo "Removing the lab of $inventory failed:"
            tail -n 30 "$logs/lab-down.log"
        fi
    done
}
trap remove_labs EXIT
trap 'exit 130' INT TERM

begin=$SECONDS
summary=()
for targets in "$@"; do
    start=$SECONDS
    echo "== make $targets"
    # shellcheck disable=SC2086 # several words are several targets
    if ! make --jobs=2 --output-sync=target $targets; then
        echo "FAILED: make $targets, after $((SECONDS - start)) s. Passed before it:${summary[*]:- nothing}"
        exit 1
    fi
    summary+=(" $targets $((SECONDS - start)) s")
done
echo "All checks passed in $((SECONDS - begin)) s:${summary[*]}"

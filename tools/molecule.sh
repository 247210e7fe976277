#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Runs every molecule scenario under extensions/molecule, from the collection's root.
set -euo pipefail
cd "$(dirname "$0")/.."
shopt -s nullglob
scenarios=(extensions/molecule/*/molecule.yml)
if [ ${#scenarios[@]} -eq 0 ]; then
    echo "There is no scenario under extensions/molecule." >&2
    exit 1
fi
# Without this, molecule copies the tree to the home folder, and that copy shadows the checkout.
export ANSIBLE_COLLECTIONS_PATH=$PWD/.collections
if [ ! -t 1 ]; then
    export NO_COLOR=1
fi
for scenario in "${scenarios[@]}"; do
    name=$(basename "$(dirname "$scenario")")
    echo "molecule test --scenario-name $name"
    export MOLECULE_EPHEMERAL_DIRECTORY=$PWD/.cache/molecule/$name
    molecule test --scenario-name "$name"
done
echo "${#scenarios[@]} scenario(s) passed"

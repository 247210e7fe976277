#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Builds the collection into .cache/dist, installs the result into a fresh folder and uses it from there.
set -euo pipefail
cd "$(dirname "$0")/.."
dist=$PWD/.cache/dist
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT

rm -rf "$dist"
ansible-galaxy collection build --output-path "$dist" .
tarball=$(echo "$dist"/cluster_compute-session-*.tar.gz)
python tools/check_artifact.py "$tarball"

# No settings of the checkout from here on: only what was installed may answer.
printf '[defaults]\ncollections_path = %s\n' "$site" >"$site/ansible.cfg"
export ANSIBLE_CONFIG=$site/ansible.cfg
ansible-galaxy collection install --offline --collections-path "$site" "$tarball"
cd "$site"

# grep reads to the end (no -q): a closed pipe would fail the command before it.
modules=$(ansible-doc --type module --list cluster_compute.session)
for file in ansible_collections/cluster_compute/session/plugins/modules/*.py; do
    name=$(basename "$file" .py)
    grep -F "cluster_compute.session.$name " <<<"$modules" >/dev/null || {
        echo "ansible-doc does not list the module cluster_compute.session.$name" >&2
        exit 1
    }
    ansible-doc --type module "cluster_compute.session.$name" >/dev/null
done
for file in ansible_collections/cluster_compute/session/playbooks/*.yml; do
    name=$(basename "$file" .yml)
    # Playbooks that act on one host have to be told which.
    ansible-playbook --syntax-check --inventory localhost, --extra-vars lab_host=localhost "cluster_compute.session.$name"
done
test -f ansible_collections/cluster_compute/session/playbooks/launch_cluster.yml
echo "Built, installed and used: $(basename "$tarball")"

#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Builds the collection and its wheel into .cache/dist, installs both into a fresh folder and uses them from there.
set -euo pipefail
cd "$(dirname "$0")/.."
dist=$PWD/.cache/dist
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT

rm -rf "$dist"
ansible-galaxy collection build --output-path "$dist" .
tarball=$(echo "$dist"/cluster_compute-session-*.tar.gz)
python -m pip wheel --disable-pip-version-check --no-deps --no-input --quiet --quiet --wheel-dir "$dist" .
wheel=$(echo "$dist"/cluster_compute_session-*.whl)
python tools/check_artifact.py "$tarball" "$wheel"

# No settings and no Ansible of the checkout from here on: only what was installed may answer, in the way in which
# docs/install.md has users do it, but for the pins.
page=docs/install.md
export HOME=$site PIP_CONSTRAINT=$PWD/requirements/controller.txt PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_QUIET=1
unset ANSIBLE_CONFIG
block() {
    sed -n "/^\`\`\`$1$/,/^\`\`\`$/p" "$page" | grep -v '^```'
}
mkdir -p "$site/Downloads" "$site/cluster"
cp "$tarball" "$wheel" "$site/Downloads"
python -m venv "$site/pipx"
"$site/pipx/bin/pip" install --quiet pipx
export PATH=$PATH:$site/pipx/bin
block ini >"$site/cluster/ansible.cfg"
block yaml >"$site/cluster/hosts.yml"
block sh >"$site/commands"
# shellcheck disable=SC1091 # the commands of the page
. "$site/commands"
[ "$PWD" = "$site/cluster" ]
[ "$(command -v ansible-playbook)" = "$site/cluster/.venv/bin/ansible-playbook" ]
collection=collections/ansible_collections/cluster_compute/session

# What pipx installed answers without the folder's settings and without what the shell has on its path.
(
    cd "$site"
    PATH=$site/.local/bin:/usr/bin:/bin
    ansible-playbook --syntax-check --inventory localhost, cluster_compute.session.launch_cluster
    if answer=$(ccs names --inventory localhost, 2>&1); then
        echo "ccs found no fault in an inventory without hosts: $answer" >&2
        exit 1
    fi
    grep -F "session_resource_group is 'cluster_compute_hosts': This group" <<<"$answer"
)

# grep reads to the end (no -q): a closed pipe would fail the command before it.
modules=$(ansible-doc --type module --list cluster_compute.session)
for file in "$collection"/plugins/modules/*.py; do
    name=$(basename "$file" .py)
    grep -F "cluster_compute.session.$name " <<<"$modules" >/dev/null || {
        echo "ansible-doc does not list the module cluster_compute.session.$name" >&2
        exit 1
    }
    ansible-doc --type module "cluster_compute.session.$name" >/dev/null
done
for file in "$collection"/playbooks/*.yml; do
    name=$(basename "$file" .yml)
    ansible-playbook --syntax-check --inventory localhost, "cluster_compute.session.$name"
done
test -f "$collection"/playbooks/launch_cluster.yml
echo "Built, installed and used: $(basename "$tarball")"

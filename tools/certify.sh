#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Checks the built collection as a hub does that is to publish it: galaxy-importer as a local run, then ansible-lint with
# the production profile and all its rules. A warning counts as a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=$PWD/.cache/certify
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tools/make_aside.sh certify

ansible-galaxy collection build --output-path "$work" .
tarball=$(echo "$work"/*.tar.gz)
python tools/check_artifact.py "$tarball"
# Nothing of the checkout from here on: only what was built may answer.
unset ANSIBLE_CONFIG
cd "$work"
failed=()

echo "galaxy-importer"
export GALAXY_IMPORTER_ANSIBLE_LOCAL_TMP=$work/tmp
# As Automation Hub does: one of the tags by which it sorts collections is required.
export GALAXY_IMPORTER_CHECK_REQUIRED_TAGS=true
if ! PATH="$cache/venv/bin:$PATH" python -m galaxy_importer.main "$tarball" >importer.log 2>&1 ||
    grep -E '^(WARNING|ERROR|CRITICAL)' importer.log; then
    grep -vE '^(Loading|WARNING)' importer.log
    failed+=(galaxy-importer)
fi

echo "ansible-lint"
mkdir -p ansible_collections/cluster_compute/session
tar --extract --file "$tarball" --directory ansible_collections/cluster_compute/session
if ! (cd ansible_collections/cluster_compute/session &&
    ANSIBLE_COLLECTIONS_PATH=$work ansible-lint --offline --profile production --strict -q --nocolor); then
    failed+=(ansible-lint)
fi

if [ ${#failed[@]} -ne 0 ]; then
    echo "Failed: ${failed[*]}"
    exit 1
fi
echo "Nothing stands against publishing $(basename "$tarball")"

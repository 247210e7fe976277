#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Makes .venv from the pinned requirements: with the distribution's Python where that is 3.11 or newer, which is what a
# stranger's machine has, else with the first such Python on PATH that runs.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=.venv

works() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

if ! works "$venv/bin/python"; then
    python=
    for candidate in /usr/bin/python3 python3.11 python3.12 python3.13 python3; do
        # Every one on PATH, not only the first: a version manager's shim may stand before one that works.
        while read -r path; do
            case $path in "$PWD/$venv"/*) continue ;; esac
            if works "$path"; then
                python=$path
                break 2
            fi
        done < <(type -ap "$candidate")
    done
    if [ -z "$python" ]; then
        echo "No Python of 3.11 or newer found (looked for python3.11, python3.12, python3.13 and python3)." >&2
        exit 1
    fi
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        tools/need.sh "no-ensurepip=python$version-venv"
    fi
    echo "Making $venv with $python"
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi
echo "Installing the pinned Python packages of requirements/develop.txt into $venv"
"$venv/bin/python" -m pip install --disable-pip-version-check --no-input --quiet --quiet -r requirements/develop.txt
# The role awx works with awx.awx; what a launch is compared with by the benchmarks works with community.docker.
collections=(awx.awx community.docker)
echo "Installing the collections ${collections[*]}, from the PyPI package ansible, into $venv"
"$venv/bin/python" tools/get_collection.py 12.3.0 "${collections[@]}"
ln -sf ../../playbooks/ccs "$venv/bin/ccs"
touch "$venv/.complete"

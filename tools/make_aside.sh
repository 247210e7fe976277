#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Installs the pinned Python packages of requirements/NAME.txt into .cache/NAME/venv, unless they are there; NAME is the
# argument. These are large, or need other releases than the checkout's own environment has.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=$PWD/.cache/$1
requirements=$PWD/requirements/$1.txt
if ! cmp --silent "$requirements" "$cache/installed.txt"; then
    echo "Installing the packages of requirements/$1.txt into .cache/$1"
    rm -rf "$cache/venv"
    mkdir -p "$cache"
    python -m venv "$cache/venv"
    "$cache/venv/bin/python" -m pip install --disable-pip-version-check --no-input --quiet --quiet -r "$requirements"
    cp "$requirements" "$cache/installed.txt"
fi

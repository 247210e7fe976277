#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Installs Debian packages for commands that are missing, and says so: need.sh COMMAND=PACKAGE ...
set -euo pipefail

missing=()
for pair in "$@"; do
    command -v "${pair%%=*}" >/dev/null || missing+=("${pair#*=}")
done
if [ ${#missing[@]} -eq 0 ]; then
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "Missing: ${missing[*]}. This machine has no apt-get; install them by hand, then run make again." >&2
    exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "Missing: ${missing[*]}. Run make as root, or first run: sudo apt-get install ${missing[*]}" >&2
    exit 1
fi
echo "Installing from the distribution's packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Two targets may need something at the same moment, and apt-get waits for nobody.
exec 9<"$0"
flock 9
# A list that cannot be fetched need not be one that matters here: the installation is what decides.
apt-get update >"$log" 2>&1 || true
if ! apt-get install --yes --no-install-recommends "${missing[@]}" >>"$log" 2>&1; then
    cat "$log" >&2
    exit 1
fi

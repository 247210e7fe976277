#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Copies the checkout's files (what git tracks or would track) to the folder given, as a git repository of its own.
# .collections stays out: it is a link back to the checkout, and no part of the collection.
set -euo pipefail
cd "$(dirname "$0")/.."
destination=$1

rm -rf "$destination"
mkdir -p "$destination"
git ls-files -z --cached --others --exclude-standard -- ':!.collections' |
    while IFS= read -r -d '' file; do
        if [ -e "$file" ] || [ -L "$file" ]; then printf '%s\0' "$file"; fi
    done | tar --create --null --files-from=- | tar --extract --directory "$destination"
git -C "$destination" init --quiet
git -C "$destination" add --all

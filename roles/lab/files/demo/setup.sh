# shellcheck shell=sh
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Runs inside the demo image when its packages and files are in place.
useradd --uid 1000 --create-home --shell /bin/bash work
rm -f /etc/subuid- /etc/subgid- /etc/passwd- /etc/group- /etc/shadow- /etc/gshadow-

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Places of files on hosts and in replicas, and what the text of a path tells."""

from __future__ import annotations

DIRECTORY = "/etc/cluster-compute"
"""Where the files of the environment lie in every replica."""
RUNTIME_ON_HOST = "/usr/local/lib/cluster-compute/ssh-runtime"
RUNTIME_MANIFEST = "manifest"
"""The file in it that is there when all others are."""


def is_below(path: str, root: str) -> bool:
    """Tell whether *path* is *root* or in it, as far as the text says."""
    return path == root or path.startswith(root.rstrip("/") + "/")

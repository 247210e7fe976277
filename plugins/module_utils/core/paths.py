# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the text of a path tells."""

from __future__ import annotations


def is_below(path: str, root: str) -> bool:
    """Tell whether *path* is *root* or in it, as far as the text says."""
    return path == root or path.startswith(root.rstrip("/") + "/")

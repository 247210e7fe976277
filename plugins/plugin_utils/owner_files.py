# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Write files on the controller for the owner of a session."""

from __future__ import annotations

import os
import tempfile


def write_for_owner(path: str, content: bytes) -> None:
    """Write a file that only its owner can ever read, or keep the earlier one. Raises OSError."""
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    handle, aside = tempfile.mkstemp(dir=folder, prefix=".aside-")  # 0600 (tempfile.mkstemp)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(aside, path)
    except BaseException:
        os.unlink(aside)
        raise

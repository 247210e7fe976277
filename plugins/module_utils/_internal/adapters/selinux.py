# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Label files for containers on hosts with SELinux.

There, containers of an engine with ``selinux-enabled`` may read what is below /usr. Elsewhere they may only use files
with a type of their own, as Docker Engine sets for the option ``z`` of a bind mount. New files have the type of their
directory.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

ENABLED = Path("/sys/fs/selinux/enforce")
"""Exists where the kernel enforces a policy, or would."""
ATTRIBUTE = "security.selinux"
LABEL = b"system_u:object_r:container_file_t:s0\0"


def confines(options: Callable[[], Collection[str]]) -> bool:
    """Return whether containers are confined. options: returns the engine's security options; asked only if needed."""
    return ENABLED.exists() and "name=selinux" in options()


def share_with_containers(paths: Iterable[Path]) -> None:
    """Let all containers use *paths* and what is below them."""
    for path in paths:
        for file in (path, *path.rglob("*")):
            try:
                os.setxattr(file, ATTRIBUTE, LABEL, follow_symlinks=False)
            except OSError as error:
                # The file has gone, or its file system is mounted with one label for all files.
                if error.errno not in (errno.ENOENT, errno.ENOTSUP):
                    raise

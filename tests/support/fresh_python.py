# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a program in a Python of its own, which has imported nothing of the collection yet."""

from __future__ import annotations

import os
import subprocess
import sys


def printed(program: str) -> list[str]:
    """Return the lines that a program prints. It imports from where this process does."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout.splitlines()

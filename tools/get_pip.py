# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for the get-pip script which ansible-test would download for its small virtual environments.

It installs the pip that Python brings along (ensurepip), then the packages asked for, so that no more than the package
index has to be reachable.
"""

from __future__ import annotations

import subprocess
import sys

GET_PIP_OPTIONS = ("--no-setuptools", "--no-wheel")


def main() -> int:
    """Install pip and the packages named on the command line; return pip's exit status."""
    subprocess.run([sys.executable, "-m", "ensurepip"], check=True, stdout=subprocess.DEVNULL)
    wanted = [argument for argument in sys.argv[1:] if argument not in GET_PIP_OPTIONS]
    return subprocess.run([sys.executable, "-m", "pip", "install", *wanted], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

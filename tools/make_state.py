# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep what this release writes on hosts, for the tests of all releases that come after it.

It runs sessions on a host of the contract tests, and writes what the state directory is then to `tests/states`, under
its version. What a release has written stays as it is: its file is made once, with the release.
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

from ansible_collections.cluster_compute.session.tests.support.contract import hosts

ROOT = Path(__file__).resolve().parent.parent
HOST = "newer1"
MODULE = f"{hosts.__name__.rpartition('.')[0]}.make_state"


def main() -> int:
    """Make the file of this release."""
    parser = argparse.ArgumentParser(description="Keep what this release writes on hosts.")
    parser.add_argument("--keep-lab", action="store_true", help="use the hosts if they are up, and leave them up")
    parser.add_argument("version", help="the release that is made, such as 1.0.0")
    given = parser.parse_args()
    path = ROOT / "tests" / "states" / f"{given.version}.json"
    if path.exists():
        parser.error(f"{path} is there already. What a release has written stays as it is.")
    with hosts.hosts_up([HOST], given.keep_lab):
        hosts.bring(HOST, hosts.packed())
        place = f"PYTHONPATH={hosts.PLACE}/site:{hosts.PLACE}/.collections"
        command = hosts.on_host(HOST, place, "PYTHONDONTWRITEBYTECODE=1", "/usr/bin/python3", "-m", MODULE)
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(done.stdout)
    print(path)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

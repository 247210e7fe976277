# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare a built collection with the files that git knows: nothing foreign is in it, nothing is missing."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

# Of use in a checkout alone; what git knows beyond these and the files with a leading dot has to be in.
CHECKOUT_ONLY = {"Makefile", "ansible.cfg", "galaxy.yml", "mkdocs.yml", "pyproject.toml", "requirements", "tools"}
# Written by ansible-galaxy itself.
GENERATED = {"FILES.json", "MANIFEST.json"}


def known_files() -> set[str]:
    """Return the files that git tracks or would track."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    return {name for name in names if name and Path(name).exists()}


def main() -> int:
    """Print what is wrong with the tarball named on the command line; return the number of mistakes, at most 1."""
    with tarfile.open(sys.argv[1]) as tarball:
        packed = {member.name for member in tarball.getmembers() if not member.isdir()} - GENERATED
    known = known_files()
    wanted = {name for name in known if name[0] != "." and name.split("/")[0] not in CHECKOUT_ONLY}
    for name in sorted(packed - known):
        print(f"The built collection holds {name}, which git does not know: add it to build_ignore in galaxy.yml.")
    for name in sorted(wanted - packed):
        print(f"The built collection lacks {name}: see build_ignore in galaxy.yml.")
    print(f"{len(packed)} files in {Path(sys.argv[1]).name}")
    return int(bool(packed - known or wanted - packed))


if __name__ == "__main__":
    sys.exit(main())

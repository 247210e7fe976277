# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare a built collection, or wheel, with what it is meant to hold: all that git knows of it, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Set
from pathlib import Path

HOLDS = (
    ".ansible-lint",
    "CHANGELOG.rst",
    "CONTRIBUTING.md",
    "COPYING",
    "README.md",
    "bindep.txt",
    "changelogs",
    "docs",
    "ee",
    "examples",
    "extensions/eda",
    "extensions/monitoring",
    "inventories",
    "meta",
    "playbooks",
    "plugins",
    "requirements.txt",
    "requirements/controller.txt",
    "roles",
    "tests/config.yml",
)
"""Files and folders for users, and what checkers of collections read: how to lint it, and in tests/config.yml for which
Python of the hosts to test it."""
LAB = (
    "examples/images.yml",
    "examples/images/",
    "inventories/lab.sessions.yml",
    "inventories/lab/",
    "inventories/machines/",
    "playbooks/lab_",
    "plugins/module_utils/_internal/lab/",
    "plugins/modules/image_archive.py",
    "plugins/modules/lab_",
    "roles/lab/",
)
"""How paths of the lab begin, which is for the tests and for a first try in a clone of the repository."""
GENERATED = {"FILES.json", "MANIFEST.json"}
"""Written by ansible-galaxy itself. A wheel has galaxy.yml instead, which tells Ansible the version."""
COLLECTION = "ansible_collections/cluster_compute/session/"


def known_files() -> set[str]:
    """Return the files that git tracks or would track."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    return {name for name in names if name and Path(name).exists()}


def mistakes(packed: Set[str], known: Set[str]) -> list[str]:
    """Return what is wrong with a collection that holds the files *packed*, where git knows the files *known*."""
    wanted = {name for name in known if name.startswith(tuple(f"{name}/" for name in HOLDS)) or name in HOLDS}
    wanted -= {name for name in known if name.startswith(LAB)}
    return [
        *(
            f"The built collection holds {name}, which is not for users, or git does not know it: "
            "see build_ignore in galaxy.yml, the lists of the wheel in pyproject.toml, and HOLDS in "
            "tools/check_artifact.py."
            for name in sorted(packed - wanted)
        ),
        *(
            f"The built collection lacks {name}: see build_ignore in galaxy.yml, and pyproject.toml."
            for name in sorted(wanted - packed)
        ),
        *(
            f"The built collection holds nothing of {name}: see HOLDS in tools/check_artifact.py."
            for name in HOLDS
            if not any(file == name or file.startswith(f"{name}/") for file in packed)
        ),
    ]


def main() -> int:
    """Print what is wrong with the files named on the command line; return the number of mistakes, at most 1."""
    known, wrong = known_files(), 0
    for file in map(Path, sys.argv[1:]):
        packed = _in_wheel(file) if file.suffix == ".whl" else _in_tarball(file)
        for mistake in mistakes(packed, known):
            wrong = 1
            print(f"{file.name}: {mistake}")
        print(f"{len(packed)} files in {file.name}")
    return wrong


def _in_tarball(file: Path) -> set[str]:
    with tarfile.open(file) as tarball:
        return {member.name for member in tarball.getmembers() if not member.isdir()} - GENERATED


def _in_wheel(file: Path) -> set[str]:
    with zipfile.ZipFile(file) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    return {name.removeprefix(COLLECTION) for name in names} - {"galaxy.yml"}


if __name__ == "__main__":
    sys.exit(main())

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell whether the lab's own tests have passed with the sources as they are, and note that they have.

A file of the tree holds a digest of all that the lab is made of, written after its tests have passed. Where it agrees,
they need not run again.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAMP = Path("tests/integration_lab/lab.sha256")
HEADER = """# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# The sources of the lab that passed its own tests. Written by make lab-stamp.
"""
SOURCES = (
    "plugins/module_utils/lab/**/*.py",
    "plugins/modules/lab_*.py",
    "plugins/modules/image_archive.py",
    "plugins/modules/host_boot.py",
    "plugins/modules/ssh_runtime.py",
    "roles/lab/**/*",
    "roles/prepare_hosts/**/*",
    "playbooks/lab_*.yml",
    "playbooks/prepare_hosts.yml",
    "tests/integration_lab/inventory/**/*",
    "tests/integration_lab/test_lab.py",
)
"""What makes a lab and prepares its hosts, and what judges it."""


def digest(root: Path) -> str:
    """Return a digest of names and contents of the lab's sources in the tree at *root*.

    Raises FileNotFoundError for a pattern that finds nothing: it would let changes pass.
    """
    paths: set[Path] = set()
    for pattern in SOURCES:
        found = {path for path in root.glob(pattern) if path.is_file() and path.suffix != ".pyc"}
        if not found:
            raise FileNotFoundError(f"No source of the lab is called {pattern}.")
        paths |= found
    whole = hashlib.sha256()
    for path in sorted(paths):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        whole.update(f"{content}  {path.relative_to(root).as_posix()}\n".encode())
    return whole.hexdigest()


def agrees(root: Path) -> bool:
    """Tell whether the lab's tests have passed with the sources in the tree at *root*."""
    stamp = root / STAMP
    return stamp.is_file() and stamp.read_text(encoding="utf-8").split()[-1:] == [digest(root)]


def write(root: Path) -> None:
    """Note that the lab's tests have passed with the sources in the tree at *root*."""
    (root / STAMP).write_text(f"{HEADER}{digest(root)}\n", encoding="utf-8")


def main(arguments: list[str] | None = None) -> None:
    """Write the stamp; whoever asks for anything else gets an error, and no stamp."""
    argparse.ArgumentParser(description=__doc__).parse_args(arguments)
    write(ROOT)
    print(f"{STAMP} says that the lab's tests have passed.")


if __name__ == "__main__":
    main()

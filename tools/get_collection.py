# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Put collections of the PyPI package `ansible` where the Python that runs this finds them.

That package is the only source of collections besides Galaxy, and holds hundreds of megabytes of others.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path


def main(release: str, *collections: str) -> int:
    """Unpack *collections*, such as awx.awx, of that release of the package into the folder of installed packages."""
    with tempfile.TemporaryDirectory() as download:
        command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-input", "--quiet"]
        command += ["--no-deps", "--only-binary", ":all:", "--dest", download, f"ansible=={release}"]
        subprocess.run(command, check=True)
        (wheel,) = Path(download).iterdir()
        with zipfile.ZipFile(wheel) as archive:
            for collection in collections:
                folder = "/".join(["ansible_collections", *collection.split(".")]) + "/"
                members = [name for name in archive.namelist() if name.startswith(folder)]
                if not members:
                    print(f"The package ansible {release} holds no collection {collection}.", file=sys.stderr)
                    return 1
                archive.extractall(sysconfig.get_path("purelib"), members)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

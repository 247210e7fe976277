# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The SSH of replicas on hosts with other package managers, whose programs are stand-ins that ask Debian's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import (
    package_manager,
    runtime_proof,
    ssh_runtime,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.package_manager import (
    PackageManager,
    Pacman,
    Rpm,
)

OWNER = "dpkg --search \"$path\" 2>/dev/null | grep -v '^diversion by ' | sed -n '1s/[:,].*//p' | grep ."
RPM = f"""\
for path; do :; done
case "$2" in
    --licensefiles) echo "/usr/share/doc/$path/copyright" ;;
    *) case "$4" in --file) {OWNER} || {{ echo "file $path is not owned by any package"; exit 1; }} ;;
       *) echo "$path 1" ;; esac ;;
esac
"""
PACMAN = f"""\
for path; do :; done
case "$2" in
    --owns) {OWNER} || {{ echo "error: No package owns $path" >&2; exit 1; }} ;;
    *) echo "Name : $path" ;;
esac
"""


@pytest.mark.parametrize(
    ("manager", "text", "release"),
    [(Rpm, RPM, 'ID="rocky"\nID_LIKE="rhel centos fedora"\n'), (Pacman, PACMAN, "ID=arch\n")],
    ids=["rpm", "pacman"],
)
def test_a_runtime_is_built_with_the_licences_of_any_package_manager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manager: type[PackageManager], text: str, release: str
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / manager.program).write_text(f"#!/bin/sh\n{text}", encoding="utf-8")
    (folder / manager.program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    (tmp_path / "os-release").write_text(release, encoding="utf-8")
    monkeypatch.setattr(package_manager, "OS_RELEASE", str(tmp_path / "os-release"))
    runtime = tmp_path / "lib" / "ssh-runtime"
    assert ssh_runtime.install(path=str(runtime)).changed is True
    runtime_proof.prove(runtime)
    licences = {path.name: path.read_text(encoding="utf-8") for path in (runtime / "share/licences").iterdir()}
    assert {"libc6", "zlib1g", "dash", "openssh-client", "openssh-server"} <= licences.keys()
    assert "zlib1g" in licences["zlib1g"].splitlines()[0]
    assert ssh_runtime.install(path=str(runtime)).changed is False

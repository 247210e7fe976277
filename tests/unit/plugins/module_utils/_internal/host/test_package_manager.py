# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the package managers of distributions are asked, with stand-ins for the programs. Debian's runs on labs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import package_manager
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.package_manager import (
    BuildFailed,
    Dpkg,
    PackageManager,
    Pacman,
    Rpm,
)

DPKG = """\
[ "$1" = --search ] || exit 2
shift
status=0
for path; do
    case $path in
        /usr/bin/both) echo "diversion by other from: $path"; echo "one:amd64, two: $path" ;;
        /bin/old) echo "old: $path" ;;
        *) status=1; echo "dpkg-query: no path found matching pattern $path" >&2 ;;
    esac
done
exit $status
"""
RPM = """\
case "$1 $2 $4 $5" in
    "--query --queryformat --file /usr/bin/both") printf 'one\\ntwo\\n' ;;
    "--query --queryformat --file /bin/old") echo old ;;
    "--query --queryformat --file "*) echo "file $5 is not owned by any package"; exit 1 ;;
    "--query --queryformat one ") echo "one 1.0-1"; echo "License: BSD-2-Clause" ;;
    "--query --licensefiles  ") echo "FOLDER/LICENCE"; echo "(contains no files)" ;;
    *) echo "package $4 is not installed"; exit 1 ;;
esac
"""
PACMAN = """\
case "$1 $2 $3 $4" in
    "--query --owns --quiet /usr/bin/both") echo one ;;
    "--query --owns --quiet /bin/old") echo old ;;
    "--query --owns --quiet "*) echo "error: No package owns $4" >&2; exit 1 ;;
    "--query --info one ") echo "Name            : one"; echo "Licenses        : BSD-2-Clause" ;;
    *) echo "error: package '$3' was not found" >&2; exit 1 ;;
esac
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put stand-ins for all package managers first in PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in (("dpkg", DPKG), ("rpm", RPM), ("pacman", PACMAN)):
        (folder / name).write_text(f"#!/bin/sh\n{text.replace('FOLDER', str(tmp_path))}", encoding="utf-8")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


MANAGERS = pytest.mark.parametrize("manager", [Dpkg(), Rpm(), Pacman()], ids=lambda manager: manager.program)


@MANAGERS
def test_each_file_has_a_package_whatever_its_name_was_before_usr_was_merged(
    programs: Path, manager: PackageManager
) -> None:
    paths = ["/usr/bin/both", "/usr/bin/old", "/bin/both"]
    assert manager.owners(paths) == {"/usr/bin/both": "one", "/usr/bin/old": "old", "/bin/both": "one"}
    with pytest.raises(BuildFailed, match="No package of this host owns /opt/own, so its licence is not known"):
        manager.owners(["/usr/bin/both", "/opt/own"])


def test_licences_come_from_where_distributions_have_them(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "LICENCE").write_text("You may.", encoding="ascii")
    assert Rpm().licence("one", "") == b"one 1.0-1\nLicense: BSD-2-Clause\n\nYou may."
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "LICENCE").write_text("You may, too.", encoding="ascii")
    monkeypatch.setattr(package_manager, "LICENCES", str(tmp_path))
    assert Pacman().licence("one", "").endswith(b"Licenses        : BSD-2-Clause\n\nYou may, too.")
    copyright_file = tmp_path / "root/usr/share/doc/one/copyright"
    copyright_file.parent.mkdir(parents=True)
    copyright_file.write_text("You may as well.", encoding="ascii")
    assert Dpkg().licence("one", str(tmp_path / "root")) == b"You may as well."
    with pytest.raises(BuildFailed, match="The licence of none is missing on this host: /usr/share/doc/none/copyright"):
        Dpkg().licence("none", str(tmp_path / "root"))
    for manager in (Rpm(), Pacman()):
        with pytest.raises(BuildFailed, match="none"):
            manager.licence("none", "")


@pytest.mark.parametrize(
    ("release", "kind"),
    [
        ('PRETTY_NAME="Debian GNU/Linux 13 (trixie)"\nID=debian\n', Dpkg),
        ("ID=ubuntu\nID_LIKE=debian\n", Dpkg),
        ('NAME="Rocky Linux"\nID="rocky"\nID_LIKE="rhel centos fedora"\n', Rpm),
        ("ID=fedora\n", Rpm),
        ("ID='opensuse-leap'\nID_LIKE='suse opensuse'\n", Rpm),
        ("ID=arch\n", Pacman),
        ("# nothing\n\nID=manjaro\nID_LIKE=arch\n", Pacman),
        ("ID=own\n", Dpkg),  # by what is there
        (None, Dpkg),
    ],
)
def test_the_distribution_tells_its_package_manager(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str | None, kind: type[PackageManager]
) -> None:
    path = tmp_path / "os-release"
    if release is not None:
        path.write_text(release, encoding="utf-8")
    monkeypatch.setattr(package_manager, "OS_RELEASE", str(path))
    assert type(package_manager.package_manager()) is kind


def test_a_distribution_without_any_of_them_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "os-release").write_text("ID=alpine\n", encoding="utf-8")
    monkeypatch.setattr(package_manager, "OS_RELEASE", str(tmp_path / "os-release"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildFailed, match="distribution, alpine, has neither dpkg, rpm nor pacman"):
        package_manager.package_manager()
    assert Rpm().unpack(str(tmp_path)) == "", "OpenSSH has to be installed"

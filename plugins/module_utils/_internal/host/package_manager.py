# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The package manager of the host's distribution: packages of files, their licences, and files that are not installed.

Debian's was run, those of RPM and of Arch are written from their manuals: rpm(8), pacman(8).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar

from ..adapters.command import run_command
from ..core.values.errors import SessionError

SECONDS = 300.0
"""Seconds to wait for another apt-get to end."""
OS_RELEASE = "/etc/os-release"
LICENCES = "/usr/share/licenses"
"""Directory of licences in which each package of Arch has one of its own."""


class BuildFailed(SessionError):
    """The SSH runtime cannot be built. The message is a full sentence."""


class PackageManager:
    """The common part of all package managers.

    openssh: the packages that contain OpenSSH, and the shell of the scripts in the runtime.
    """

    program: ClassVar[str]
    openssh: ClassVar[tuple[str, ...]]

    def unpack(self, folder: str) -> str:
        """Unpack OpenSSH of the distribution without installing it. Return where, empty if that cannot be done."""
        return ""

    def owner(self, path: str) -> str:
        """Return the package of a file, empty if none has it under this name."""
        raise NotImplementedError

    def owners(self, paths: Iterable[str]) -> dict[str, str]:
        """Return the packages of files. Raises BuildFailed for a file without one.

        A package may have a file under its name before /usr was merged, or before a link was resolved.
        """
        found = {}
        for path in paths:
            names = (path, path.removeprefix("/usr"), f"/usr{path}", os.path.realpath(path))
            found[path] = next(filter(None, map(self.owner, names)), "")
            if not found[path]:
                raise BuildFailed(f"No package of this host owns {path}, so its licence is not known.")
        return found

    def licence(self, package: str, root: str) -> bytes:
        """Return the text of a package's licence. root: of unpacked packages. Raises BuildFailed if there is none."""
        raise NotImplementedError


class Dpkg(PackageManager):
    """Debian, Ubuntu and distributions made from them."""

    program = "dpkg"
    openssh = ("openssh-client", "openssh-server")

    def unpack(self, folder: str) -> str:
        """Download the packages and unpack them."""
        archives, root = os.path.join(folder, "archives"), os.path.join(folder, "root")
        os.makedirs(os.path.join(archives, "partial"))
        options = ("-o", f"Dir::Cache::archives={archives}", "-o", f"DPkg::Lock::Timeout={SECONDS:.0f}")
        _run("apt-get", "--yes", "--download-only", "--no-install-recommends", *options, "install", *self.openssh)
        for archive in sorted(Path(archives).glob("*.deb")):
            _run("dpkg-deb", "--extract", str(archive), root)
        return root

    def owner(self, path: str) -> str:
        """Return the first package that has the file."""
        return next(iter(self._search(path).values()), "")

    def owners(self, paths: Iterable[str]) -> dict[str, str]:
        """Search for all files at once, because each search reads the lists of all packages."""
        wanted = list(paths)
        known = self._search(*wanted)
        return {path: known.get(path) or super(Dpkg, self).owners([path])[path] for path in wanted}

    def _search(self, *paths: str) -> dict[str, str]:
        """Return the packages of those files that a package has under exactly these names (dpkg-query(1))."""
        _code, output = _query("dpkg", "--search", *paths)
        lines = [line.partition(": ") for line in output if not line.startswith("diversion by ")]
        return {path: owners.split(",")[0].split(":")[0] for owners, _colon, path in lines}

    def licence(self, package: str, root: str) -> bytes:
        """Return the copyright file (Debian Policy 12.5)."""
        name = f"/usr/share/doc/{package}/copyright"
        for path in (f"{root}{name}", name):
            if os.path.exists(path):
                return Path(path).read_bytes()
        raise BuildFailed(f"The licence of {package} is missing on this host: {name}.")


class Rpm(PackageManager):
    """Fedora, Red Hat's family, SUSE."""

    program = "rpm"
    openssh = ("openssh-clients", "openssh-server", "dash")

    def owner(self, path: str) -> str:
        """Return the first package that has the file."""
        return next(iter(_lines("rpm", "--query", "--queryformat", "%{NAME}\\n", "--file", path)), "")

    def licence(self, package: str, root: str) -> bytes:
        """Return what the package says of its licence, and the files that it marks as such."""
        form = "%{NAME} %{VERSION}-%{RELEASE}\\nLicense: %{LICENSE}\\nURL: %{URL}\\n"
        text = _run("rpm", "--query", "--queryformat", form, package)
        return _with_files(text, _lines("rpm", "--query", "--licensefiles", package))


class Pacman(PackageManager):
    """Arch."""

    program = "pacman"
    openssh = ("openssh", "dash")

    def owner(self, path: str) -> str:
        """Return the package that has the file."""
        return next(iter(_lines("pacman", "--query", "--owns", "--quiet", path)), "")

    def licence(self, package: str, root: str) -> bytes:
        """Return what the package says of its licence, and the files in its own directory of licences."""
        text = _run("pacman", "--query", "--info", package)
        return _with_files(text, map(str, sorted(Path(LICENCES, package).glob("*"))))


MANAGERS: Mapping[str, type[PackageManager]] = {
    "debian": Dpkg,
    "ubuntu": Dpkg,
    "fedora": Rpm,
    "rhel": Rpm,
    "suse": Rpm,
    "arch": Pacman,
}
"""By the name of a distribution, which others give as what they are like (os-release(5), ID and ID_LIKE)."""


def package_manager() -> PackageManager:
    """Return the package manager of this host. Raises BuildFailed if it is none of those known."""
    own, like = (_os_release().get(key, "").lower() for key in ("ID", "ID_LIKE"))
    for name in (own, *like.split()):
        if name in MANAGERS:
            return MANAGERS[name]()
    for manager in (Dpkg, Rpm, Pacman):
        if shutil.which(manager.program):
            return manager()
    raise BuildFailed(
        f"This host's distribution, {own or 'whose name is not known'}, has neither dpkg, rpm nor pacman. Copy the SSH "
        "runtime from a prepared host of the same architecture."
    )


def _os_release() -> dict[str, str]:
    try:
        text = Path(OS_RELEASE).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    lines = [line.partition("=") for line in text.splitlines() if not line.startswith("#")]
    return {key.strip(): value.strip().strip("\"'") for key, _equals, value in lines}


def _with_files(text: str, names: Iterable[str]) -> bytes:
    files = [Path(name) for name in names if os.path.isfile(name)]
    return b"\n".join([text.encode(), *(file.read_bytes() for file in files)])


def _lines(*command: str) -> list[str]:
    """Return the output of a query. Nothing is found if it fails: rpm(8) writes the reason as output."""
    code, output = _query(*command)
    return output if code == 0 else []


def _query(*command: str) -> tuple[int, list[str]]:
    environment = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(  # pylint: disable=ansible-bad-function
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60, env=environment
    )
    return done.returncode, done.stdout.splitlines()


def _run(*command: str) -> str:
    environment = {**os.environ, "LC_ALL": "C"}
    return run_command(list(command), error=BuildFailed, environment=environment, seconds=2 * SECONDS)

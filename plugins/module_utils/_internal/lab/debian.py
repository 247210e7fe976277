# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Root file systems from Debian packages, built by mmdebstrap and kept in a cache."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Sequence

from ..core.values.deferred import dataclass
from .system import LabError, locked, run, write_file

DEFAULT_MIRROR = "http://deb.debian.org/debian"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
REPOSITORY = "/var/cache/lab-packages"
"""Path of the packages that a lab host may install, because it cannot reach a mirror."""

_BUILDER = 1
"""Increase it when a change of this file requires a rebuild of trees that are already in a cache."""

_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_RELEASE = re.compile(r"[a-z]+")
_MIRROR = re.compile(r"https?://[A-Za-z0-9._~:/?#@!&=+%,-]+")

_OPTION = re.compile(r"Acquire::(Check-Valid-Until|Check-Date|https?::(Proxy|CaInfo|Verify-Peer|Verify-Host)(::.+)?)")

_INITTAB = """\
# The lab has made file systems and network ready; only the services are left to start.
id:2:initdefault:
l0:0:wait:/sbin/halt -d -f
l2:2345:wait:/etc/init.d/rc 2
l6:6:wait:/sbin/reboot -d -f
"""

_DPKG = """\
# A lab host is cheap to make again: no waiting for the disk.
force-unsafe-io
path-exclude=/usr/share/doc/*
path-exclude=/usr/share/man/*
path-exclude=/usr/share/locale/*
"""


@dataclass(frozen=True)
class TreeRecipe:
    """The recipe of a base tree.

    `packages` are installed. `offered` and their dependencies are only in the tree's own package repository.
    """

    release: str
    mirror: str
    packages: tuple[str, ...]
    offered: tuple[str, ...]

    def __post_init__(self) -> None:
        check_source(self.release, self.mirror, (*self.packages, *self.offered))

    @property
    def key(self) -> str:
        """Name of the tree in the cache. Another recipe gives another tree."""
        return f"{self.release}-{fingerprint([_BUILDER, dataclasses.asdict(self)])}"


def fingerprint(recipe: object) -> str:
    """Return twelve hexadecimal digits that identify a recipe."""
    text = json.dumps(recipe, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def check_source(release: str, mirror: str, packages: Iterable[str]) -> None:
    """Raise LabError for an invalid release, mirror or package name, because they reach a shell in the builder."""
    if not _RELEASE.fullmatch(release):
        raise LabError(f"lab_release is '{release}'; it must be the code name of a Debian release, such as bookworm.")
    if not _MIRROR.fullmatch(mirror):
        raise LabError(f"lab_mirror is '{mirror}'; it must be the http or https address of a Debian mirror.")
    for package in packages:
        if not _PACKAGE.fullmatch(package):
            raise LabError(f"'{package}' is not the name of a Debian package.")


def find_mirror(sources: Iterable[str]) -> str:
    """Return the Debian mirror named first in the texts of apt source files, or Debian's own.

    Both formats of sources.list(5) are read. A mirror counts if its path ends in /debian.
    """
    for text in sources:
        for line in text.splitlines():
            if not line.startswith(("deb ", "URIs:")):
                continue
            for word in line.split():
                if _MIRROR.fullmatch(word) and word.rstrip("/").endswith("/debian"):
                    return word.rstrip("/")
    return DEFAULT_MIRROR


def machine_mirror() -> str:
    """Return the Debian mirror that this machine itself uses, or Debian's own."""
    folder = "/etc/apt/sources.list.d"
    paths = ["/etc/apt/sources.list"]
    if os.path.isdir(folder):
        paths += [f"{folder}/{name}" for name in sorted(os.listdir(folder))]
    texts = []
    for path in paths:
        if os.path.isfile(path):
            with open(path, encoding="utf-8", errors="replace") as stream:
                texts.append(stream.read())
    return find_mirror(texts)


def machine_apt_options() -> list[str]:
    """Return the settings with which this machine's own apt reaches mirrors and checks their age."""
    done = run(["apt-config", "dump", "--no-empty", "--format", "%f %v%n"], check=False)
    return apt_options(done.stdout.splitlines())


def apt_options(dump: Iterable[str]) -> list[str]:
    """Pick proxies, certificates and checks of age from lines of 'name value', as apt.conf(5) writes them."""
    found = []
    for line in dump:
        name, _separator, value = line.partition(" ")
        if _OPTION.fullmatch(name) and value and '"' not in value:
            found.append(f'{name} "{value}"')
    return found


@dataclass(frozen=True)
class Source:
    """The origin of a tree: a release of Debian, its mirror, and the packages to install."""

    release: str
    mirror: str
    packages: Sequence[str]


def bootstrap(
    source: Source,
    destination: str,
    *,
    variant: str = "minbase",
    hook: str = "",
    options: Sequence[str] = (),
    scratch: str,
) -> None:
    """Run mmdebstrap with `destination` a directory or a .tar file.

    It runs in its own process namespace, which ends when this process ends for any reason, so a killed run leaves no
    builder behind. `hook` is the text of a shell script whose only argument is the tree's root.
    """
    arguments = [
        *("setpriv", "--pdeathsig", "KILL"),
        *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
        *("env", f"TMPDIR={scratch}", "SOURCE_DATE_EPOCH=1735689600", "LC_ALL=C.UTF-8"),
        *("mmdebstrap", "--quiet", "--mode=root", f"--variant={variant}", f"--keyring={KEYRING}"),
        *("--dpkgopt=force-unsafe-io", '--aptopt=Acquire::Languages "none"'),
        *("--aptopt=Acquire::Retries 3", "--aptopt=APT::Install-Recommends false"),
        *(f"--aptopt={option}" for option in machine_apt_options()),
        *(f"--include={','.join(source.packages)}", *options),
    ]
    if hook:
        path = f"{scratch}/hook"
        write_file(path, hook, 0o700)
        # With the variant extract, mmdebstrap stops before it customizes, so the hook runs as soon as all is unpacked.
        arguments.append(f"--{'extract' if variant == 'extract' else 'customize'}-hook={path}")
    run([*arguments, source.release, destination, f"deb {source.mirror} {source.release} main"])


def has_tree(cache: str, recipe: TreeRecipe) -> bool:
    """Return whether the cache contains the finished tree."""
    return os.path.isdir(tree_path(cache, recipe))


def tree_path(cache: str, recipe: TreeRecipe) -> str:
    """Return the path of the finished tree."""
    return f"{cache}/trees/{recipe.key}"


def build_tree(cache: str, recipe: TreeRecipe) -> bool:
    """Build a base tree if it is not in the cache. Return whether it was built.

    A tree gets its name only when it is complete, so the remains of a killed build are never used.
    """
    path = tree_path(cache, recipe)
    with locked(f"{cache}/locks/{recipe.key}"):
        if os.path.isdir(path):
            return False
        partial = f"{cache}/partial/{recipe.key}"
        shutil.rmtree(partial, ignore_errors=True)
        os.makedirs(partial, mode=0o755)
        tree = f"{partial}/tree"
        hook = (
            "#!/bin/sh\n"
            "set -e\n"
            'chroot "$1" apt-get clean\n'
            f'chroot "$1" apt-get install --yes --quiet --download-only {" ".join(recipe.offered)}\n'
            f'mkdir -p "$1{REPOSITORY}"\n'
            f'mv "$1"/var/cache/apt/archives/*.deb "$1{REPOSITORY}/"\n'
        )
        source = Source(recipe.release, recipe.mirror, recipe.packages)
        bootstrap(source, tree, hook=hook, scratch=partial)
        _finish_tree(tree)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.rename(tree, path)
        shutil.rmtree(partial, ignore_errors=True)
        return True


def _finish_tree(tree: str) -> None:
    index_repository(tree)
    write_file(f"{tree}/etc/apt/sources.list", f"deb [trusted=yes] file:{REPOSITORY} ./\n")
    shutil.rmtree(f"{tree}/etc/apt/sources.list.d", ignore_errors=True)
    write_file(f"{tree}/etc/dpkg/dpkg.cfg.d/lab", _DPKG)
    write_file(f"{tree}/etc/inittab", _INITTAB)
    for name in os.listdir(f"{tree}/etc/ssh"):
        if name.startswith("ssh_host_"):
            os.unlink(f"{tree}/etc/ssh/{name}")
    for path in (
        "etc/machine-id",
        "etc/hostname",
        "etc/apt/apt.conf.d/99mmdebstrap",
        "etc/dpkg/dpkg.cfg.d/99mmdebstrap",
    ):
        if os.path.exists(f"{tree}/{path}"):
            os.unlink(f"{tree}/{path}")
    run(["chroot", tree, "apt-get", "update", "--quiet"])


def index_repository(tree: str) -> None:
    """Write the Packages file of the tree's own repository."""
    folder = f"{tree}{REPOSITORY}"
    entries = []
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".deb"):
            continue
        control = run(["dpkg-deb", "--field", f"{folder}/{name}"]).stdout.rstrip("\n")
        digest = hashlib.sha256()
        with open(f"{folder}/{name}", "rb") as stream:
            for block in iter(lambda: stream.read(1 << 20), b""):
                digest.update(block)
        size = os.path.getsize(f"{folder}/{name}")
        entries.append(f"{control}\nFilename: ./{name}\nSize: {size}\nSHA256: {digest.hexdigest()}\n")
    if not entries:
        raise LabError(f"No package was downloaded into {folder}, so the lab's hosts could not install any.")
    write_file(f"{folder}/Packages", "\n".join(entries))

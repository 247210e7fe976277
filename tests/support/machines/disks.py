# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Disks of virtual machines: a release of Debian with its own kernel and systemd, from its packages alone.

A release is built once, for all machines that run it. What makes a machine itself (name, address, keys) is written on
its own copy.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.lab import debian

SIZE = "12G"
"""The most that a disk can hold. Its file takes what is on it."""
PACKAGES = (
    *("linux-image-cloud-amd64", "systemd-sysv", "udev", "dbus", "kmod", "procps", "apparmor", "e2fsprogs"),
    *("openssh-server", "python3", "python3-apt", "iproute2", "nftables", "ca-certificates"),
    *("nfs-kernel-server", "nfs-common"),
    # What prepare_hosts installs. The machines take minutes for it, and molecule's hosts show that it does.
    *("docker.io", "python3-cryptography", "python3-yaml", "iputils-ping", "iptables", "openssh-client", "patchelf"),
)
PACKAGES_OF_RELEASE = {"bookworm": (), "trixie": ("docker-cli",), "forky": ("docker-cli",)}
"""Docker's command line is a package of its own from Debian 13 on."""
OFFERED = ("ufw", "firewalld")
"""Tests install these. They can also install the engine again."""
HOOK = """#!/bin/sh
set -e
chroot "$1" apt-get clean
chroot "$1" apt-get install --yes --quiet --download-only {offered}
mkdir -p "$1{repository}"
mv "$1"/var/cache/apt/archives/*.deb "$1{repository}/"
chroot "$1" sh -c "cd {repository} && apt-get download docker.io"
"""


@dataclass(frozen=True)
class Release:
    """A release on disk: the root file system as a folder, with kernel and initial file system."""

    tree: Path

    @property
    def kernel(self) -> Path:
        """The kernel of the release."""
        return self._newest("vmlinuz-*")

    @property
    def initrd(self) -> Path:
        """The file system that this kernel begins with."""
        return self._newest("initrd.img-*")

    @property
    def version(self) -> str:
        """The kernel's version."""
        return self.kernel.name.removeprefix("vmlinuz-")

    def _newest(self, pattern: str) -> Path:
        return max((self.tree / "boot").glob(pattern))


def release(name: str, folder: Path) -> Release:
    """Build a release below *folder*, unless it is there; return it."""
    packages = (*PACKAGES, *PACKAGES_OF_RELEASE[name])
    mirror = debian.machine_mirror()
    hook = HOOK.format(offered=" ".join(OFFERED), repository=debian.REPOSITORY)
    key = debian.fingerprint([name, mirror, packages, hook])
    tree = folder / f"{name}-{key}"
    if not tree.is_dir():
        partial = folder / f"{name}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        source = debian.Source(name, mirror, packages)
        debian.bootstrap(source, str(partial / "tree"), hook=hook, scratch=str(partial))
        debian.index_repository(str(partial / "tree"))
        (partial / "tree").rename(tree)
        shutil.rmtree(partial)
    return Release(tree)


def write_disk(made: Release, files: Mapping[str, tuple[str, int]], images: tuple[Path, ...], disk: Path) -> None:
    """Write a new disk with the release, a machine's own *files* (text and mode by path) and archives of images."""
    partial = disk.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    subprocess.run(["cp", "--archive", "--reflink=auto", str(made.tree), str(partial)], check=True)
    for name, (text, mode) in files.items():
        path = partial / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
    for image in images:
        target = partial / "srv" / "lab-images" / image.name
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(image, target)
    # What mmdebstrap told apt of this machine, such as a proxy.
    (partial / "etc/apt/apt.conf.d/99mmdebstrap").unlink(missing_ok=True)
    shutil.rmtree(partial / "var/lib/apt/lists")
    subprocess.run(["chroot", str(partial), "apt-get", "--quiet", "update"], check=True, capture_output=True)
    units = ("systemd-networkd.service", "ssh.service", "nftables.service")
    subprocess.run(["chroot", str(partial), "systemctl", "--quiet", "enable", *units], check=True, capture_output=True)
    # Nothing there is to be had from a mirror, and folders are served from when they are there.
    needless = ("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer")
    subprocess.run(["chroot", str(partial), "systemctl", "--quiet", "mask", *needless], check=True, capture_output=True)
    subprocess.run(["chroot", str(partial), "systemctl", "disable", "nfs-server"], check=True, capture_output=True)
    raw = disk.with_suffix(".raw")
    raw.unlink(missing_ok=True)
    subprocess.run(
        ["mkfs.ext4", "-q", "-d", str(partial), "-L", "root", str(raw), SIZE], check=True, capture_output=True
    )
    whole = disk.with_suffix(".whole")
    subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", str(raw), str(whole)], check=True)
    raw.unlink()
    shutil.rmtree(partial)
    whole.rename(disk)

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Container images from Debian packages, in the archive format of 'docker save', without a registry."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import re
import shlex
import shutil
import tarfile
from collections.abc import Mapping

from ..core.values.deferred import dataclass
from . import debian
from .system import LabError, locked, read_file, write_file

RECIPE_LABEL = "io.github.cluster-compute.recipe"
"""Label that identifies a build recipe, however an engine computes its image ids."""

_BUILDER = 2
"""Increase it when a change of this file requires a rebuild of images that are already in a cache."""

_CREATED = "2025-01-01T00:00:00Z"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "riscv64": "riscv64"}
_NAME = re.compile(r"[a-z0-9]+([._-][a-z0-9]+)*(/[a-z0-9]+([._-][a-z0-9]+)*)*:[A-Za-z0-9_][A-Za-z0-9_.-]*")
_EXCLUDED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/lintian/*")

_TIDY = r"""
rm -rf "$1"/var/cache/apt/* "$1"/var/lib/apt/lists/* "$1"/var/log/* "$1"/var/cache/ldconfig/aux-cache
rm -rf "$1"/var/cache/debconf/*-old "$1"/var/lib/dpkg/*-old "$1"/var/lib/systemd/catalog
rm -f "$1"/etc/apt/apt.conf.d/99mmdebstrap "$1"/etc/dpkg/dpkg.cfg.d/99mmdebstrap
rm -f "$1"/etc/machine-id "$1"/etc/hostname "$1"/etc/resolv.conf "$1"/etc/ssh/ssh_host_*
find "$1"/usr/lib/python3* "$1"/usr/share -depth -name __pycache__ -exec rm -rf {} + 2>/dev/null || true
if [ -x "$1"/usr/bin/python3 ]; then
    chroot "$1" sh -c 'python3 -m compileall -qq --invalidation-mode unchecked-hash /usr/lib/python3*' || true
fi
"""
"""Remove what packages leave behind, and compile Python: replicas may not write there and would do it in each process.
The compiled files do not name the time of their sources, so that each build makes the same."""


@dataclass(frozen=True)
class ImageRecipe:
    """The recipe of an image. `setup` is a script that `shell` runs inside the tree at the end."""

    name: str
    release: str
    mirror: str
    variant: str
    packages: tuple[str, ...]
    files: tuple[tuple[str, str, str], ...]
    shell: tuple[str, ...]
    setup: str
    config: Mapping[str, object]

    def __post_init__(self) -> None:
        debian.check_source(self.release, self.mirror, self.packages)
        if not _NAME.fullmatch(self.name):
            raise LabError(
                f"The image name '{self.name}' cannot be used; it must look like cluster-compute/demo:latest."
            )
        for path, _content, mode in self.files:
            if not path.startswith("/") or not re.fullmatch(r"0?[0-7]{3}", mode):
                raise LabError(f"The image file '{path}' with mode '{mode}' needs an absolute path and an octal mode.")

    @property
    def key(self) -> str:
        """Name of the archive in the cache. Another recipe gives another archive."""
        stem = re.sub(r"[^a-z0-9]+", "-", self.name.rpartition(":")[0])
        return f"{stem}-{debian.fingerprint([_BUILDER, _TIDY, _EXCLUDED, dataclasses.asdict(self)])}"


@dataclass(frozen=True)
class Archive:
    """A finished archive: its file and its id in an engine."""

    path: str
    image_id: str
    recipe: str


def find_archive(cache: str, recipe: ImageRecipe) -> Archive | None:
    """Return the finished archive from the cache, or None."""
    facts = read_file(f"{cache}/images/{recipe.key}.json")
    return None if facts is None else Archive(f"{cache}/images/{recipe.key}.tar", json.loads(facts)["id"], recipe.key)


def build_archive(cache: str, recipe: ImageRecipe) -> tuple[Archive, bool]:
    """Build an image archive if it is not in the cache. Return it and whether it was built.

    The same recipe and the same package versions give the same image id. The archive gets its name when it is complete.
    """
    with locked(f"{cache}/locks/{recipe.key}"):
        archive = find_archive(cache, recipe)
        if archive is not None:
            return archive, False
        partial = f"{cache}/partial/{recipe.key}"
        shutil.rmtree(partial, ignore_errors=True)
        os.makedirs(f"{partial}/files")
        os.makedirs(f"{cache}/images", exist_ok=True)
        debian.bootstrap(
            debian.Source(recipe.release, recipe.mirror, recipe.packages),
            f"{partial}/layer.tar",
            variant=recipe.variant,
            hook=_hook(recipe, partial),
            options=[
                "--skip=output/dev,output/mknod",
                *(f"--dpkgopt=path-exclude={pattern}" for pattern in _EXCLUDED),
            ],
            scratch=partial,
        )
        image_id = _assemble(recipe, f"{partial}/layer.tar", f"{partial}/image.tar")
        os.replace(f"{partial}/image.tar", f"{cache}/images/{recipe.key}.tar")
        write_file(f"{cache}/images/{recipe.key}.json", json.dumps({"id": image_id, "name": recipe.name}))
        shutil.rmtree(partial, ignore_errors=True)
        return Archive(f"{cache}/images/{recipe.key}.tar", image_id, recipe.key), True


def _hook(recipe: ImageRecipe, partial: str) -> str:
    lines = ["#!/bin/sh", "set -e"]
    for number, (path, content, mode) in enumerate(recipe.files):
        source = f"{partial}/files/{number}"
        write_file(source, content)
        lines.append(f'install -D -m {mode} {shlex.quote(source)} "$1"{shlex.quote(path)}')
    write_file(f"{partial}/setup", recipe.setup)
    lines.append(f'chroot "$1" {shlex.join(recipe.shell)} -s < {shlex.quote(partial)}/setup')
    return "\n".join(lines) + _TIDY


def _assemble(recipe: ImageRecipe, layer: str, destination: str) -> str:
    """Put layer, configuration and manifest into one archive. Return the image id."""
    digest = hashlib.sha256()
    with open(layer, "rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    name = f"{digest.hexdigest()}/layer.tar"
    config = json.dumps(image_config(recipe, digest.hexdigest(), os.uname().machine), sort_keys=True).encode()
    image_id = hashlib.sha256(config).hexdigest()
    manifest = [{"Config": f"{image_id}.json", "RepoTags": [recipe.name], "Layers": [name]}]
    with tarfile.open(destination, "w", format=tarfile.USTAR_FORMAT) as archive:
        _add(archive, f"{image_id}.json", config)
        with open(layer, "rb") as stream:
            member = tarfile.TarInfo(name)
            member.size = os.path.getsize(layer)
            archive.addfile(member, stream)
        _add(archive, "manifest.json", json.dumps(manifest).encode())
    return f"sha256:{image_id}"


def image_config(recipe: ImageRecipe, layer: str, machine: str) -> dict[str, object]:
    """Return the image's configuration (OCI image specification). `layer` is the sha256 of its only layer."""
    if machine not in _ARCHITECTURES:
        raise LabError(f"No image can be made for the architecture {machine}; {', '.join(_ARCHITECTURES)} are known.")
    return {
        "architecture": _ARCHITECTURES[machine],
        "os": "linux",
        "created": _CREATED,
        "config": {**recipe.config, "Labels": {RECIPE_LABEL: recipe.key}},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer}"]},
        "history": [{"created": _CREATED, "created_by": "cluster_compute.session.image_archive"}],
    }


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))

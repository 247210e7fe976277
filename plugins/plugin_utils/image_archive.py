# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Read the content of an image archive from ``docker save`` on the controller."""

from __future__ import annotations

import hashlib
import json
import lzma
import posixpath
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from ..module_utils._internal.core.rules.images import Archive, ArchivedImage, content_of
from ..module_utils._internal.core.values.errors import InvalidInput
from ..module_utils._internal.core.values.image_names import full_name

VARIABLE = "session_image_archive"
_NO_DOCUMENT = (KeyError, ValueError, TypeError, AttributeError)
LARGEST_DOCUMENT = 4 * 1024**2
"""Maximum number of bytes to read of the manifest and of an image's configuration. They have some thousand."""


def read_archive(path: str) -> dict[str, ArchivedImage]:
    """Return the images of the archive at *path*, by full name and by id.

    The id is the digest of the image's configuration, as an engine with the classic store computes it when it loads the
    archive. Raises InvalidInput if the file cannot be read or is not such an archive.
    """
    try:
        with tarfile.open(path, "r:*") as archive:
            # A compressed archive does not allow seeking, so everything that may be needed is read in one pass.
            documents = {
                name: _read(archive, member)
                for member in archive
                for name in [posixpath.normpath(member.name)]  # an archive that was packed again has "./manifest.json"
                if member.isfile() and member.size <= LARGEST_DOCUMENT and _may_be_a_document(name)
            }
        variants = _variants(documents)
        found: dict[str, ArchivedImage] = {}
        for entry in json.loads(documents["manifest.json"]):
            configuration = documents[posixpath.normpath(entry["Config"])]
            architecture, content = _described(configuration)
            own = "sha256:" + hashlib.sha256(configuration).hexdigest()
            image = ArchivedImage(own, architecture, {**variants.get(own, {}), architecture: content})
            for name in [*(entry.get("RepoTags") or []), own]:
                found[name if name == own else full_name(name)] = image
    except OSError as error:
        raise InvalidInput.single(
            VARIABLE, path, f"The controller cannot read it: {error.strerror or error}."
        ) from None
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, RecursionError, *_NO_DOCUMENT):
        raise InvalidInput.single(
            VARIABLE, path, "This file is not an archive of images from 'docker save --output FILE IMAGE'."
        ) from None
    return found


def _described(configuration: bytes) -> tuple[str, str]:
    """Return the architecture and the content of an image (OCI image configuration)."""
    found = json.loads(configuration)
    layers = {"Layers": (found.get("rootfs") or {}).get("diff_ids")}
    architecture = str(found["architecture"])
    return architecture, content_of({"Architecture": architecture, "RootFS": layers, "Config": found.get("config")})


def _variants(documents: Mapping[str, bytes]) -> dict[str, dict[str, str]]:
    """Return the contents by architecture of images for several, by the digest of each configuration.

    They are in the archives of the store of containerd (OCI image layout), which has some of them or all.
    """
    found: dict[str, dict[str, str]] = {}
    tops = {top["digest"] for top in json.loads(documents.get("index.json", b"{}")).get("manifests", ())}
    for top in sorted(tops):
        contents: dict[str, str] = {}
        configurations = dict(_configurations(documents, top, set()))
        for configuration in configurations.values():
            architecture, content = _described(configuration)
            contents.setdefault(architecture, content)
        found |= dict.fromkeys(configurations, contents)
    return found


def _configurations(documents: Mapping[str, bytes], digest: str, seen: set[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the configurations of an index or a manifest that the archive has, each after its digest.

    seen: digests of those that were read: an index may name another several times, or itself. An archive need not have
    all that its index names, and an index also names what is not an image, such as signatures and how the image was
    built (OCI image index, image manifest).
    """
    if digest in seen:
        return
    seen.add(digest)
    content = json.loads(documents.get(_blob(digest), b"{}"))
    for manifest in content.get("manifests") or ():
        yield from _configurations(documents, manifest["digest"], seen)
    own = (content.get("config") or {}).get("digest", "")
    configuration = documents.get(_blob(own), b"{}")
    if json.loads(configuration).get("architecture") not in (None, "", "unknown"):
        yield own, configuration


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _may_be_a_document(name: str) -> bool:
    return name.endswith(".json") or name.startswith("blobs/")


def _read(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file: Any = archive.extractfile(member)
    return bytes(file.read())


def check_archive(path: str, images: Archive, references: list[str]) -> None:
    """Reject an archive that contains none of the session's images. Raises InvalidInput."""
    if not any(reference in images or full_name(reference) in images for reference in references):
        names = ", ".join(sorted(name for name in images if "/" in name)) or ", ".join(sorted(images))
        raise InvalidInput.single(
            VARIABLE, path, f"It holds {names}, and not {', '.join(references)}, which the session runs."
        )

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
from typing import Any

from ..module_utils._internal.core.values.errors import InvalidInput
from ..module_utils._internal.core.values.image_names import full_name

VARIABLE = "session_image_archive"
LARGEST_DOCUMENT = 4 * 1024**2
"""Maximum number of bytes to read of the manifest and of an image's configuration. They have some thousand."""


def read_archive(path: str) -> dict[str, dict[str, str]]:
    """Return ``id`` and ``architecture`` of each image of the archive at *path*, by full name and by id.

    The id is the digest of the image's configuration, as an engine computes it when it loads the archive. Raises
    InvalidInput if the file cannot be read or is not such an archive.
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
        found: dict[str, dict[str, str]] = {}
        for entry in json.loads(documents["manifest.json"]):
            configuration = documents[posixpath.normpath(entry["Config"])]
            image = {
                "id": "sha256:" + hashlib.sha256(configuration).hexdigest(),
                "architecture": str(json.loads(configuration)["architecture"]),
            }
            for name in [*(entry.get("RepoTags") or []), image["id"]]:
                found[name if name == image["id"] else full_name(name)] = image
    except OSError as error:
        raise InvalidInput.single(
            VARIABLE, path, f"The controller cannot read it: {error.strerror or error}."
        ) from None
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, KeyError, ValueError, TypeError, AttributeError):
        raise InvalidInput.single(
            VARIABLE, path, "This file is not an archive of images from 'docker save --output FILE IMAGE'."
        ) from None
    return found


def _may_be_a_document(name: str) -> bool:
    return name.endswith(".json") or name.startswith("blobs/")


def _read(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file: Any = archive.extractfile(member)
    return bytes(file.read())


def check_archive(path: str, images: dict[str, dict[str, str]], references: list[str]) -> None:
    """Reject an archive that contains none of the session's images. Raises InvalidInput."""
    if not any(reference in images or full_name(reference) in images for reference in references):
        names = ", ".join(sorted(name for name in images if "/" in name)) or ", ".join(sorted(images))
        raise InvalidInput.single(
            VARIABLE, path, f"It holds {names}, and not {', '.join(references)}, which the session runs."
        )

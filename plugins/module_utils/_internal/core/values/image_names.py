# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Properties of a reference to an image that follow from its text, and when images are pulled."""

from __future__ import annotations

import re

MISSING, ALWAYS, NEVER = "missing", "always", "never"
PULL_POLICIES = (MISSING, ALWAYS, NEVER)
DEFAULT_REGISTRY = "docker.io"

PACK = "/work@"
"""Beginning of the reference of a pack, a part of a working directory that goes to hosts by the way of images. The
digest of its content follows, which is also its id on each host; no image has such a name."""

_IMAGE_ID = re.compile(r"sha256:[0-9a-f]{64}")


def is_image_id(text: object) -> bool:
    """Tell whether *text* is the id of an image."""
    return isinstance(text, str) and _IMAGE_ID.fullmatch(text) is not None


def is_pack(reference: str) -> bool:
    """Tell whether a reference is that of a pack."""
    return reference.startswith(PACK)


def in_words(reference: str) -> str:
    """Return a reference for people: a pack with the first characters of its digest."""
    return f"part {reference.rpartition(':')[2][:12]} of session_workdir" if is_pack(reference) else reference


def registry_of(reference: str) -> str:
    """Return the registry that a reference names, docker.io if it names none (distribution/reference)."""
    first, slash, _rest = reference.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost" or first != first.lower()):
        return DEFAULT_REGISTRY if first == "index.docker.io" else first
    return DEFAULT_REGISTRY


def repository_of(reference: str) -> str:
    """Return a reference without its tag and digest, otherwise as it was written."""
    name = reference.partition("@")[0]
    head, slash, last = name.rpartition("/")
    return head + slash + last.partition(":")[0]


def full_name(reference: str) -> str:
    """Return registry, repository and tag in full, so that two spellings of the same name are equal; without digest."""
    repository = repository_of(reference)
    registry = registry_of(reference)
    head, slash, rest = repository.partition("/")
    path = rest if slash and (head == registry or head == "index.docker.io") else repository
    if registry == DEFAULT_REGISTRY and "/" not in path:
        path = "library/" + path
    tag = reference.partition("@")[0][len(repository) :].lstrip(":") or "latest"
    return f"{registry}/{path}:{tag}"


def digest_of(reference: str) -> str | None:
    """Return the digest at the end of a reference, None if it has none."""
    return reference.partition("@")[2] or None


def tag_for(reference: str) -> tuple[str, str] | None:
    """Return repository and tag for an image that came by another name; None for an id or a digest."""
    if is_image_id(reference) or digest_of(reference) is not None:
        return None
    repository = repository_of(reference)
    return repository, reference[len(repository) :].lstrip(":") or "latest"

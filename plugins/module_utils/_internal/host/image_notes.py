# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Store what was found in the images of this host. Each image is examined once, because an id never changes meaning."""

import json
import re
import time
from contextlib import suppress
from dataclasses import asdict, field
from pathlib import Path
from typing import Optional

from ..adapters.engine import Engine
from ..adapters.engine_objects import LABEL_SESSION_ID
from ..adapters.state import StateDirectory, write_file
from ..core.model.decode import Malformed, decode
from ..core.values.deferred import dataclass
from ..core.values.image_names import is_image_id

MOST_LINKS = 1000
"""Maximum number of stored paths of an image. Each mount of a session that ran it has a few."""

EXAMINED = re.compile(r"cc-[0-9a-f]{8}-image-[0-9a-f]{8}")
"""Prefix of the names of containers in which an image is examined (`Engine.image_files`)."""
OLD = 3600.0
"""Seconds after which such a container is no longer in use. An examination takes some seconds."""


@dataclass
class ImageNotes:
    """What was found in an image.

    links: by path, the target of the symbolic link there, empty if there is none. own_server: whether it has its own
    SSH server, None if that was not checked.
    """

    links: dict[str, str] = field(default_factory=dict)
    own_server: Optional[bool] = None


def _folder(state: StateDirectory) -> Path:
    return state.root / "images"


def _file(state: StateDirectory, image: str) -> Path:
    return _folder(state) / f"{image.partition(':')[2]}.json"


def read(state: StateDirectory, image: str) -> ImageNotes:
    """Return the notes of an image. Empty if they cannot be read."""
    if not is_image_id(image):
        return ImageNotes()
    try:
        return decode(ImageNotes, json.loads(_file(state, image).read_text(encoding="utf-8")), "notes")
    except (OSError, ValueError, RecursionError, Malformed):
        return ImageNotes()


def write(state: StateDirectory, engine: Engine, image: str, notes: ImageNotes) -> None:
    """Store what was found in an image, and drop the notes of removed images. Nothing is stored on a full disk."""
    if not is_image_id(image) or len(notes.links) > MOST_LINKS:
        return
    prune(state, engine)
    with suppress(OSError):
        write_file(_file(state, image), json.dumps(asdict(notes)) + "\n", mode=0o600)


def prune(state: StateDirectory, engine: Engine) -> None:
    """Drop the notes of images that this host no longer has. Raises EngineError."""
    if _folder(state).is_dir():
        kept = {_file(state, image) for image in engine.image_names() if is_image_id(image)}
        for path in _folder(state).iterdir():
            if path not in kept:
                path.unlink(missing_ok=True)


def remove_left(engine: Engine, check_mode: bool) -> list[str]:
    """Remove the containers of runs that were aborted while they examined an image. Return their names.

    Most are removed with their session (`host.removal`). Raises EngineError.
    """
    left = {
        entry.name: entry.id
        for entry in engine.examinations("cc-")
        if EXAMINED.fullmatch(entry.name)
        and entry.labels.values.get(LABEL_SESSION_ID) == ""
        and entry.created < time.time() - OLD
    }
    if not check_mode:
        for container in left.values():
            engine.remove_container(container)
    return [f"container {name}" for name in left]

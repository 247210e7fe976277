# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Read images of the controller's own Docker Engine, through the Docker SDK for Python."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..module_utils._internal.core.model.fields import CONTROLLER
from ..module_utils._internal.core.rules.images import ArchivedImage, content_of
from ..module_utils._internal.core.values.errors import InvalidInput
from ..module_utils._internal.core.values.image_names import full_name, is_image_id
from ..module_utils._internal.core.values.resources import format_memory
from .image_archive import read_archive

if TYPE_CHECKING:
    from collections.abc import Iterator

VARIABLE = "session_image_from"
PAUSE = 5.0
"""Seconds between two messages about the bytes that were read."""
CONTAINERD_STORE = "io.containerd.snapshotter"


def read_images(references: Iterable[str], folder: str) -> dict[str, ArchivedImage]:
    """Return those images that the controller's engine has, as `read_archive` does.

    folder: for what has to be written to know the id. Raises InvalidInput if the engine does not answer, or has none of
    them.
    """
    found: dict[str, ArchivedImage] = {}
    with _engine() as engine:
        store = engine.info().get("DriverStatus") or []
        for reference in references:
            image = _image(engine, reference)
            if image is None:
                continue
            if any(CONTAINERD_STORE in str(entry) for entry in store):
                # There an image's id is not that of its configuration, which only its archive tells.
                found |= read_archive(str(_saved(engine, reference, folder, lambda _line: None)))
            else:
                architecture = str(image.attrs["Architecture"])
                known = ArchivedImage(str(image.id), architecture, {architecture: content_of(image.attrs)})
                found[reference if is_image_id(reference) else full_name(reference)] = known
    if not found:
        names = ", ".join(references)
        message = f"The engine of the controller has no {names}. Build or pull it there, or leave this variable out."
        raise InvalidInput.single(VARIABLE, CONTROLLER, message)
    return {name: replace(image, variable=VARIABLE) for name, image in found.items()}


def save_image(reference: str, folder: str, say: Callable[[str], None]) -> str:
    """Write an archive of an image of the controller's engine into *folder*, and return its path.

    say: shows how many bytes were read, from time to time. Raises InvalidInput.
    """
    with _engine() as engine:
        return str(_saved(engine, reference, folder, say))


def _saved(engine: Any, reference: str, folder: str, say: Callable[[str], None]) -> Path:
    path = Path(folder) / f"image-{hashlib.sha256(reference.encode()).hexdigest()[:16]}.tar"
    if path.exists():
        return path
    part = path.with_suffix(f".{os.getpid()}")
    count, told = 0, time.monotonic()
    try:
        with open(part, "wb") as file:
            for chunk in engine.api.get_image(reference):
                count += file.write(chunk)
                if time.monotonic() - told > PAUSE:
                    told = time.monotonic()
                    say(f"{format_memory(count)} of {reference} were read from the engine of the controller.")
        os.replace(part, path)
    except OSError as error:
        message = f"The image {reference} cannot be written to {folder}: {error.strerror or error}."
        raise InvalidInput.single(VARIABLE, CONTROLLER, message) from None
    finally:
        part.unlink(missing_ok=True)
    return path


def _image(engine: Any, reference: str) -> Any:
    from docker.errors import ImageNotFound

    try:
        return engine.images.get(reference)
    except ImageNotFound:
        return None


@contextmanager
def _engine() -> Iterator[Any]:
    """Yield the client of the engine that ``docker`` would use: DOCKER_HOST, else its context. Raises InvalidInput."""
    try:
        import docker
        from docker.context import ContextAPI
        from docker.errors import DockerException
    except ImportError:
        message = (
            "It needs the Docker SDK for Python on the controller: install the package docker for Ansible's Python."
        )
        raise InvalidInput.single(VARIABLE, CONTROLLER, message) from None
    client = None
    try:
        if os.environ.get("DOCKER_HOST"):
            client = docker.from_env(use_ssh_client=True)
        else:
            context = ContextAPI.get_context(os.environ.get("DOCKER_CONTEXT"))
            host, tls = (None, None) if context is None else (context.Host, context.TLSConfig)
            client = docker.DockerClient(base_url=host, tls=tls or False, use_ssh_client=True)
        yield client
    except DockerException as error:
        message = (
            f"The engine of the controller cannot be used: {error}. DOCKER_HOST and docker contexts are respected."
        )
        raise InvalidInput.single(VARIABLE, CONTROLLER, message) from None
    finally:
        if client is not None:
            client.close()

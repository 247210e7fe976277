# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Get images from a registry, an archive or another host, and send them to another host; packs likewise."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

from ..adapters.engine import Engine, EngineError, ImageDenied
from ..adapters.image_stream import STALL, Incoming, StreamError, end_server, identity, listen, serve_in_background
from ..adapters.state import StateDirectory
from ..core.model.call.session_images import ImagesAnswer, Load, Moved, Receive, Serve, WantedImage
from ..core.rules.images import CLASSIC_STORE, suits
from ..core.values.errors import SessionError, is_of_host
from ..core.values.image_names import full_name, is_pack, registry_of, tag_for
from . import packs

Logins = Mapping[str, Mapping[str, str]]

KEPT = "cluster-compute/kept"
"""Repository of images that would go with the name that another image takes."""
CHUNK = 1024**2
"""Bytes of an archive that are read at a time."""


def _login(logins: Logins, reference: str) -> dict[str, str] | None:
    registry = registry_of(reference)
    return {**logins[registry], "registry": registry} if registry in logins else None


def _each(function: Callable[[Any], Any], items: Sequence[Any]) -> tuple[list[Any], dict[int, SessionError]]:
    """Call *function* with all items in parallel. Return the results, and the errors of those that failed.

    Raises errors that are not a SessionError, and errors of the host itself.
    """
    from concurrent.futures import ThreadPoolExecutor  # not needed for the facts of a host

    with ThreadPoolExecutor() as pool:
        attempts = [pool.submit(function, item) for item in items]
    results: list[Any] = []
    problems = {}
    for number, attempt in enumerate(attempts):
        error = attempt.exception()
        if error is not None:
            if not isinstance(error, SessionError) or is_of_host(error):
                raise error
            problems[number] = error
        results.append(None if error is not None else attempt.result())
    return results, problems


def resolve(
    engine: Engine, references: Sequence[str], logins: Logins
) -> tuple[dict[str, str], dict[str, SessionError]]:
    """Return the current digests of these names in their registries, and by name why there is none."""
    found, problems = _each(lambda reference: engine.resolve_image(reference, _login(logins, reference)), references)
    digests = {name: digest for name, digest in zip(references, found) if digest is not None}
    return digests, {references[number]: why for number, why in problems.items()}


def pull(
    engine: Engine, wanted: Sequence[WantedImage], logins: Logins
) -> tuple[dict[str, Moved], dict[str, SessionError]]:
    """Pull images by their digests in parallel, and give them the names of their references.

    Returns by reference what was pulled, and why a pull failed.
    """

    machine = engine.info().architecture

    def pull_image(image: WantedImage) -> Moved:
        began = time.monotonic()
        is_new = engine.inspect_image(image.digest) is None
        count = engine.pull_image(image.digest, _login(logins, image.digest))
        found = engine.inspect_image(image.digest)
        if found is None:
            raise EngineError(f"Docker Engine pulled {image.digest} and does not have it.")
        if not suits(found.architecture, machine):
            # An engine requests the image for its own architecture, and accepts a different one if there is only one.
            if is_new:
                engine.remove_image(image.digest)
            raise ImageDenied(
                f"{image.digest} is for {found.architecture}, and this host is {machine}. Name an image that the "
                "registry has for its machine as well."
            )
        _name(engine, found.id, image.reference)
        return Moved(count, round(time.monotonic() - began, 2), found.id, found.content)

    found, problems = _each(pull_image, wanted)
    pulled = {image.reference: result for image, result in zip(wanted, found) if result is not None}
    return pulled, {wanted[number].reference: why for number, why in problems.items()}


def _name(engine: Engine, image: str, reference: str) -> None:
    name = tag_for(reference)
    if name is not None:
        engine.tag_image(image, *name)


def load(engine: Engine, request: Load) -> ImagesAnswer:
    """Load an archive that was copied to this host, or keep it if it is a pack, and remove it.

    Raises EngineError or PackError if the archive contains something else than the sender has read.
    """
    path, transfer = request.archive, request.transfer
    began = time.monotonic()
    count, own = 0, transfer.image

    def chunks() -> Iterator[bytes]:
        nonlocal count
        with open(path, "rb") as file:
            os.unlink(path)  # nothing else removes it if the controller fails in the meantime
            while chunk := file.read(CHUNK):
                count += len(chunk)
                yield chunk

    if is_pack(transfer.reference):
        packs.take_in(StateDirectory(request.state_directory), chunks(), transfer.reference)
    else:
        with _kept(engine, request.allowed):
            own = take_in(engine, chunks(), transfer.image, transfer.reference, request.allowed, transfer.content)
    image = "" if own == transfer.image else own
    return ImagesAnswer(changed=True, bytes=count, seconds=round(time.monotonic() - began, 2), image=image)


@contextmanager
def _kept(engine: Engine, names: Collection[str]) -> Iterator[None]:
    """Keep the images from which an archive takes one of *names*, as sessions run them by their ids.

    Engines before 28.1 forget an image in the store of containerd whose last name another one takes by a load.
    """
    kept: dict[str, str] = {}
    if engine.info().image_store != CLASSIC_STORE:
        for name, image in engine.image_names().items():
            if name != image and full_name(name) in names and image not in kept:
                kept[image] = f"{KEPT}:{image.rpartition(':')[2][:12]}"
                engine.tag_image(image, *kept[image].split(":"))
    try:
        yield
    finally:
        after = engine.image_names() if kept else {}
        for image, tag in kept.items():
            if any(known == image and name not in (image, tag) for name, known in after.items()):
                engine.remove_image(tag)


def receive(engine: Engine, request: Receive) -> ImagesAnswer:
    """Get an image from another host, without a file in between.

    If this engine's store gives the image another id, which is then returned, its content has to be as requested.
    Raises StreamError if the sender fails, and EngineError or PackError if it sends something else.
    """
    began = time.monotonic()
    image, reference, content = request.transfer.image, request.transfer.reference, request.transfer.content
    count, own = 0, image
    if is_pack(reference):
        count = _receive_pack(request)
    elif engine.inspect_image(image) is None:
        with closing(_incoming(request)) as incoming:
            own = take_in(engine, incoming, image, reference, [] if content else [image], content)
        count = incoming.count
    else:
        _name(engine, image, reference)
    seconds, image = round(time.monotonic() - began, 2), "" if own == image else own
    return ImagesAnswer(changed=True, bytes=count, seconds=seconds, image=image)


def _incoming(request: Receive) -> Incoming:
    server = request.server
    return Incoming(request.address, server.port, server.fingerprint, request.token, request.source)


def _receive_pack(request: Receive) -> int:
    """Get a pack that this host does not have, and return the bytes that came."""
    state, reference = StateDirectory(request.state_directory), request.transfer.reference
    if packs.has(state, reference):
        return 0
    with closing(_incoming(request)) as incoming:
        packs.take_in(state, incoming, reference)
    return incoming.count


def take_in(
    engine: Engine,
    archive: Iterable[bytes],
    image: str,
    reference: str,
    allowed: Collection[str],
    content: str = "",
) -> str:
    """Load an archive that has to contain *image*, and nothing that is not *allowed*. Return its id here.

    The engine computes the ids from its input, so the image with this id is the right one. content: identifies the
    image if it has another id in this engine's store. allowed: ids and contents. If the archive contains anything else,
    that is removed, the names that it took are restored, and EngineError is raised. If it lacks the image, only the
    names are restored.
    """
    before = engine.image_names()
    loaded = engine.load_images(archive)
    after = engine.image_names()
    came = {after[name] for name in loaded if name in after}
    contents = {known: made.content for known in came if (made := engine.inspect_image(known))}
    alike = {known for known in came if content and contents.get(known) == content}
    strange = sorted(known for known in came - alike if not {known, contents.get(known)} & set(allowed))
    image = next(iter(alike), image)
    if strange:
        problems = _roll_back(engine, before, after, loaded, strange)
        why = (
            f"The image {strange[0][:19]} came where {image[:19]} was to come; it was removed, and the host runs "
            "nothing of it."
        )
        raise EngineError(" ".join([why, *problems]))
    if engine.inspect_image(image) is None:
        problems = _restore_names(engine, before, after, loaded)
        raise EngineError(" ".join([f"The archive was loaded, but the engine has no {image[:19]}.", *problems]))
    _name(engine, image, reference)
    return image


def _roll_back(
    engine: Engine, before: Mapping[str, str], after: Mapping[str, str], loaded: Sequence[str], strange: Sequence[str]
) -> list[str]:
    """Remove *strange* images that came, and restore the names that they took. Return what could not be done.

    An image that was there without a name stays with the name that it got: it would go with it.
    """
    problems = _restore_names(engine, before, after, [name for name in loaded if after.get(name) in strange])
    there = {*before, *before.values()}
    for name in loaded:
        if after.get(name) in strange and name not in before and after[name] not in there:
            problems += _tried(engine.remove_image, name)
    left = engine.image_names()
    for image in strange:
        if image not in there and image in {*left, *left.values()}:
            problems += _tried(engine.remove_image, image)
    return problems


def _restore_names(
    engine: Engine, before: Mapping[str, str], after: Mapping[str, str], names: Iterable[str]
) -> list[str]:
    """Give *names* back to the images that had them. Without such an image, nothing has the name any more."""
    problems: list[str] = []
    for name in names:
        if name not in before or name == before[name] or before[name] == after.get(name):
            continue
        repository, _colon, tag = name.rpartition(":")
        if _tried(engine.tag_image, before[name], repository, tag):
            problems += _tried(engine.remove_image, name)
    return problems


def _tried(function: Callable[..., object], *arguments: str) -> list[str]:
    """Call a function of the engine. Return its error, if it fails."""
    try:
        function(*arguments)
    except EngineError as error:
        return [str(error)]
    return []


def serve(engine: Engine, request: Serve) -> ImagesAnswer:
    """Start a server for one transfer.

    Raises EngineError or PackError if this host does not have what it is to send, and StreamError if it cannot listen.
    """
    chunks = _source(engine, request)
    address, ports = request.address, request.ports
    try:
        listener = listen(address, ports[0], ports[1])
    except StreamError as error:
        raise StreamError(
            f"{error} Other programs use every port of cluster_compute_image_ports ({ports[0]}-{ports[1]}), or "
            f"cluster_compute_underlay_address is not this host's."
        ) from None
    port = int(listener.getsockname()[1])
    context, fingerprint = identity()
    server = serve_in_background(listener, context, request.token, chunks)
    return ImagesAnswer(changed=False, port=port, fingerprint=fingerprint, server=server)


def _source(engine: Engine, request: Serve) -> Callable[[], Iterator[bytes]]:
    """Return what opens, in the sending process, the archive that is sent."""
    image, reference = request.transfer.image, request.transfer.reference
    if is_pack(reference):
        state = StateDirectory(request.state_directory)
        packs.opened(state, reference).close()
        return lambda: packs.chunks_of(packs.opened(state, reference))
    if engine.inspect_image(image) is None:
        raise EngineError(f"This host does not have the image {image[:19]} any more.")
    # The sending process connects to the engine, because two processes cannot share a connection.
    return lambda: Engine.connect(timeout=STALL).save_image(image)


def end(servers: Iterable[Mapping[str, int]]) -> int:
    """End those of *servers* that still wait or send. Return how many."""
    return sum(end_server(server["pid"], server["start"]) for server in servers)

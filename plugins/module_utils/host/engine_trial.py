# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Try whether this host's engine starts any replica at all, to know whose fault it is that one could not be started.

An engine's words are its own, in every release others, so they decide nothing. What is tried has nothing of a session:
an image that holds nothing, no network, the runtime and the shell that every replica has; before that, where replicas
are to start, the kinds of links and firewall rules that sessions need. Where one of these fails, too, another host
would not repeat the failure.
"""

from __future__ import annotations

import time
import uuid
from contextlib import suppress
from pathlib import Path

from ..adapters import firewall, link
from ..adapters.bounded import holding
from ..adapters.engine import NO_LABELS, RUNTIME, Engine, EngineError, container_name
from ..adapters.ledger import take_lock
from ..core.model.answers import sentence
from ..core.values import places
from ..core.values.errors import SessionError, message_of

REPOSITORY = "cluster-compute/trial"
PREFIX = "cluster-compute-trial-"
"""How the names of containers of trials begin."""
LOCK = Path("/run/cluster-compute-trial.lock")
"""Held by who tries, so that what a trial that was ended has left can be told from what another one uses.
It says when the last trial ended, and what it found."""
SECONDS = 90.0
"""For which the engine may say nothing; one that many launches keep busy takes its time."""
LOCK_SECONDS = 4 * SECONDS
"""To wait for others that try it: more than a trial of an engine that hangs on the way may take."""
_MEMORY = 64 * 1024**2


class HostFault(SessionError):
    """This host starts no replica at all."""

    is_of_host = True


def host_fault(error: BaseException, only_command: bool = False) -> HostFault | None:
    """Return what *error*, with which a replica did not start, is where the host is why; None where it is not.

    only_command: whether it was a command in a replica that runs, so that links and firewall rules are not why.
    """
    found = problem(only_command)
    if not found:
        return None
    return HostFault(
        f"The host is at fault, as nothing like a replica works there: {found} Correct that, then run the preflight "
        f"playbook. It was found when this failed: {message_of(error)}"
    )


def problem(only_command: bool = False) -> str:
    """Return why this host starts no replica of any session; empty where it would start one.

    only_command: whether only what a command in a replica needs is tried.
    """
    asked = time.monotonic()
    try:
        if not only_command:
            link.try_kinds()
            firewall.try_matches(Engine.connect(SECONDS).uses_nftables())
        return _tried(asked)
    except (SessionError, OSError) as error:
        return sentence(message_of(error))


def _tried(asked: float) -> str:
    """Return why the engine starts no container; empty where it does.

    asked: since when this is waited for. Who waited for others takes what they found: an engine that hangs takes each
    trial as long.
    """
    with LOCK.open("a+", encoding="utf-8", errors="replace") as lock:
        if not take_lock(lock.fileno(), LOCK_SECONDS):
            return f"Another trial of Docker Engine did not end within {LOCK_SECONDS:.0f} seconds."
        with holding(str(LOCK)):
            lock.seek(0)
            ended, _line, why = lock.read().partition("\n")
            if ended and float(ended) > asked:
                return why
            why = ""
            try:
                _try_engine()
            except (SessionError, OSError) as error:
                why = sentence(message_of(error))
            lock.truncate(0)
            lock.write(f"{time.monotonic()}\n{why}")
            lock.flush()
            return why


def remove_left(engine: Engine, check_mode: bool) -> list[str]:
    """Remove what trials left that were ended, unless somebody tries now; return what."""
    with LOCK.open("a", encoding="ascii") as lock:
        return _clear(engine, check_mode) if take_lock(lock.fileno(), 0) else []


def _try_engine() -> None:
    """Start a container of nothing, run a command in it, and remove all of it. Raises EngineError."""
    engine = Engine.connect(SECONDS)
    _clear(engine)
    tag = uuid.uuid4().hex
    try:
        engine.import_nothing(REPOSITORY, tag)
        container = engine.create_alone(f"{PREFIX}{tag}", _body(engine, f"{REPOSITORY}:{tag}"))
        with engine.feeding(container):
            try:
                _run_in(engine, container)
            finally:
                engine.remove_container(container)
    finally:
        with suppress(SessionError):
            _clear(engine)


def _clear(engine: Engine, check_mode: bool = False) -> list[str]:
    """Remove all that a trial makes, but for what the engine is just removing; return its names."""
    containers = {container_name(entry): entry["Id"] for entry in engine.containers()}
    containers = {name: container for name, container in containers.items() if name.startswith(PREFIX)}
    images = [name for name in engine.image_names() if name.startswith(f"{REPOSITORY}:")]
    if not check_mode:
        for remove, name in [
            *((engine.remove_container, container) for container in containers.values()),
            *((engine.remove_image, image) for image in images),
        ]:
            with suppress(EngineError):  # it goes with the next
                remove(name)
    return [*(f"container {name}" for name in containers), *(f"image {name}" for name in images)]


def _body(engine: Engine, image: str) -> dict[str, object]:
    source, target = places.RUNTIME_ON_HOST, places.RUNTIME
    return {
        "Image": image,
        # Waits for a word that nobody says, for as long as somebody could.
        "Entrypoint": [places.SHELL, "-c", "read word"],
        "OpenStdin": True,
        "StdinOnce": True,
        "Labels": NO_LABELS,
        "HostConfig": {
            "AutoRemove": True,
            "NetworkMode": "none",
            "Init": True,
            "Memory": _MEMORY,
            "MemorySwap": _MEMORY,
            "Mounts": [{"Type": "bind", "Source": source, "Target": target, "ReadOnly": True}],
            **({"Runtime": RUNTIME} if RUNTIME in engine.runtimes() else {}),
        },
    }


def _run_in(engine: Engine, container: str) -> None:
    engine.start_container(container)
    command = [places.SHELL, "-c", "echo well"]
    code, out, err = engine.execute(container, command, seconds=SECONDS)
    if (code, out) != (0, "well\n"):
        raise EngineError(f"A command in it ended with code {code}, and wrote {(out + err).strip() or 'nothing'!r}.")

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Test if this host's engine starts any replica at all, to find out why one could not be started.

The messages of an engine differ between releases, so they decide nothing. The test is independent of any session. It
uses an empty image, no network, and the runtime and shell of every replica. If replicas have to start, it first tests
the types of links and firewall rules that sessions need. If one of these tests also fails, the host is the cause, and
the failure would not happen on another host.
"""

from __future__ import annotations

import time
import uuid
from contextlib import suppress
from pathlib import Path

from ..adapters import firewall, link
from ..adapters.bounded import holding
from ..adapters.engine import RUNTIME, Engine, EngineError
from ..adapters.engine_objects import NO_LABELS
from ..adapters.locks import take_lock
from ..core.values import places
from ..core.values.errors import SessionError, message_of, sentence

REPOSITORY = "cluster-compute/trial"
PREFIX = "cluster-compute-trial-"
"""Prefix of the names of test containers."""
LOCK = Path("/run/cluster-compute-trial.lock")
"""Held during a test, so that leftovers of an aborted test can be distinguished from a running one. It contains when
the last test ended, and its result."""
SECONDS = 90.0
"""Seconds without an answer of the engine. Many launches can keep it busy."""
LOCK_SECONDS = 4 * SECONDS
"""Seconds to wait for another test, more than a test of a hanging engine can take."""
_MEMORY = 64 * 1024**2


class HostFault(SessionError):
    """This host cannot start any replica."""

    is_of_host = True


def host_fault(error: BaseException, only_command: bool = False) -> HostFault | None:
    """Return the error of the host that explains the *error* of a replica. None if the host is not the cause.

    only_command: whether it was a command in a running replica, so links and firewall rules are not the cause.
    """
    found = problem(only_command)
    if not found:
        return None
    return HostFault(
        f"The host is at fault, as nothing like a replica works there: {found} Correct that, then run the preflight "
        f"playbook. It was found when this failed: {message_of(error)}"
    )


def problem(only_command: bool = False) -> str:
    """Return why this host cannot start any replica. Empty if it can.

    only_command: whether to test only what a command in a replica needs.
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
    """Return why the engine does not start a container. Empty if it does.

    asked: since when the caller waits. If it waited for another test, it uses the result of that test, because each
    test of a hanging engine takes as long.
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
    """Remove leftovers of aborted tests, unless a test runs now. Return what was removed."""
    with LOCK.open("a", encoding="ascii") as lock:
        return _clear(engine, check_mode) if take_lock(lock.fileno(), 0) else []


def _try_engine() -> None:
    """Start an empty container, run a command in it, and remove everything. Raises EngineError."""
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
    """Remove everything that a test creates, except what the engine is already removing. Return the names."""
    containers = {entry.name: entry.id for entry in engine.containers() if entry.name.startswith(PREFIX)}
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
        # Waits for input that never comes, until its input is closed.
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
            **({"Runtime": RUNTIME} if RUNTIME in engine.info().runtimes else {}),
        },
    }


def _run_in(engine: Engine, container: str) -> None:
    engine.start_container(container)
    command = [places.SHELL, "-c", "echo well"]
    code, out, err = engine.execute(container, command, seconds=SECONDS)
    if (code, out) != (0, "well\n"):
        raise EngineError(f"A command in it ended with code {code}, and wrote {(out + err).strip() or 'nothing'!r}.")

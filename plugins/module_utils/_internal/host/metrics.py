# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Write this host's metrics for node_exporter, and the session of each GPU for dcgm-exporter.

`core.show.metrics` defines the metrics, and this module collects them. The timer writes all of them. A call from a
controller that may have changed something writes those that cost little. Nothing is flushed to the disk, because
everything is written again soon.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..adapters.engine import Engine, EngineError
from ..adapters.engine_objects import Container
from ..adapters.ledger import LedgerFile
from ..adapters.state import StateDirectory
from ..adapters.suspicion import SuspicionFile
from ..core.model.claims import Allocatable, Reservation
from ..core.model.decode import Malformed, decode_known, encode
from ..core.model.record import Record
from ..core.rules.detection import Card
from ..core.show import metrics
from ..core.show.metrics import ContainerLook, Counted, HostLook, ReplicaUse
from ..core.values.errors import SessionError
from .exit_status import read_failure

STATE_FILE, USE_FILE = "cluster_compute.prom", "cluster_compute_use.prom"
SECONDS = 5.0
"""Seconds to wait for a slow engine. After that, missing values are left out."""
CARDS = "/run/cluster-compute-cards.json"
"""Output of NVIDIA's tool about the GPUs, empty if it failed. Gone at boot."""
AGAIN_SECONDS = 600
"""Seconds after which the tool is run again if it failed."""
_INDEX = re.compile(r"[0-9]+")


def write_figures(state: StateDirectory) -> None:
    """Write all metrics, if this host is configured to. Raises SessionError, OSError."""
    folder = state.read_settings().metrics_directory
    if folder:
        write_state(state, Path(folder))
        _write(Path(folder) / USE_FILE, metrics.use_text(_uses()))


def write_cards(state: StateDirectory) -> None:
    """Write which session has which GPU, if this host is configured to. Raises SessionError, OSError."""
    folder = state.read_settings().job_mapping_directory
    if folder:
        write_card_jobs(state, Path(folder), asks=True)


def after_call(
    state: StateDirectory, call: str, arguments: Mapping[str, Any], result: Mapping[str, Any], seconds: float
) -> None:
    """Count a call that has ended, and write what it may have changed. Errors here do not affect the call."""
    with suppress(Exception):
        settings = state.read_settings()
        if settings.metrics_directory:
            folder = Path(settings.metrics_directory)
            write_state(state, folder, lambda counted: metrics.after_call(counted, call, arguments, result, seconds))
        if settings.job_mapping_directory:
            write_card_jobs(state, Path(settings.job_mapping_directory), asks=False)


def write_state(state: StateDirectory, folder: Path, count: Callable[[Counted], Counted] | None = None) -> None:
    """Write all metrics that are cheap to collect. count: what to count before. Raises SessionError, OSError."""
    records, damaged = state.records()
    with _counted(state) as kept:
        counted = kept[0] if count is None else count(kept[0])
        kept[0] = metrics.after_look(counted, records, time.time())
    look = _look(state, records, len(damaged))
    with _counted(state) as kept:  # others may have counted in the meantime
        found = replace(look, capacity=_capacity(kept[0]))
        _write(folder / STATE_FILE, metrics.state_text(found, kept[0]))


def remove(state: StateDirectory, metrics_directory: str | None, job_mapping_directory: str | None) -> None:
    """Remove the files that were written there, and the counts."""
    if metrics_directory is not None:
        for name in (STATE_FILE, USE_FILE):
            (Path(metrics_directory) / name).unlink(missing_ok=True)
        state.metrics_file.unlink(missing_ok=True)
    if job_mapping_directory is not None:
        _write_jobs(Path(job_mapping_directory), {})


def _look(state: StateDirectory, records: list[Record], damaged: int) -> HostLook:
    names = {}
    for record in records:
        try:
            names[record.id] = state.session(record.id).name_in(record)
        except (SessionError, OSError):
            damaged += 1
    held = _held(state)
    containers = restarts = None
    with suppress(EngineError):
        engine = Engine.connect(SECONDS)
        containers = [_container(engine, state, entry) for entry in engine.session_containers()]
        restarts = {
            (found.session_id, found.replica): state.session(found.session_id).read_restarts(found.replica)
            for found in containers
        }
    return HostLook(
        _capacity(Counted()),  # the counts are read after this
        records,
        {key: name for key, name in names.items() if name},
        containers,
        restarts or {},
        held,
        state.read_drain() is not None,
        SuspicionFile(str(state.root)).read() is not None,
        damaged,
    )


def _container(engine: Engine, state: StateDirectory, entry: Container) -> ContainerLook:
    session_id, kind = entry.labels.session_id, ""
    failure = read_failure(engine, state.session(session_id), entry, "")
    if failure is not None:
        kind = metrics.OUT_OF_MEMORY if failure.oom_killed else metrics.DISK if failure.stopped else metrics.EXIT_CODE
    return ContainerLook(session_id, entry.labels.session_name, entry.replica, entry.state, kind)


def _capacity(counted: Counted) -> Allocatable:
    """Return what sessions may use here, which is the whole machine until a launch has set it."""
    with suppress(Malformed):
        if counted.capacity is not None:
            return decode_known(Allocatable, counted.capacity, "The capacity")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Allocatable(1000 * len(os.sched_getaffinity(0)), memory)


def _held(state: StateDirectory) -> list[Reservation]:
    return list(LedgerFile(str(state.root), forgiving=True).read().values())


def _uses() -> Iterator[ReplicaUse]:
    """Yield the use of each running replica here, if the engine reports it in time."""
    end = time.monotonic() + SECONDS
    with suppress(EngineError):
        engine = Engine.connect(SECONDS)
        for entry in engine.session_containers():
            if not entry.runs or time.monotonic() > end:
                continue
            pid = engine.pid_of(entry.id)
            used = engine.consumption(entry.id) if pid else None
            if used is not None:
                yield ReplicaUse(
                    entry.labels.session_name,
                    entry.replica,
                    used[0] / 1e9,
                    used[1],
                    _traffic(pid),
                    entry.labels.devices,
                )


def _traffic(pid: int) -> dict[str, tuple[int, int]]:
    """Return the bytes in and out of each interface that a process sees (proc_pid_net(5), dev)."""
    found = {}
    with suppress(OSError, ValueError, IndexError):
        for line in Path(f"/proc/{pid}/net/dev").read_text(encoding="ascii", errors="replace").splitlines()[2:]:
            name, _colon, numbers = line.partition(":")
            counts = numbers.split()
            found[name.strip()] = int(counts[0]), int(counts[8])
    return found


# ---- which GPU runs what ---------------------------------------------------------------------------------------------


def write_card_jobs(state: StateDirectory, folder: Path, asks: bool) -> None:
    """Write a file for each GPU that a session holds, with the GPU's number as its name and the session's name in it.

    asks: whether NVIDIA's tool may be run, which can take long. If it may not and was not run yet, nothing changes.
    """
    held = _held(state)
    names = [name for found in held for _kind, kind_names in found.claim.devices for name in kind_names]
    are_there = any("nvidia" in name or name.startswith("GPU-") for name in names)
    cards = _cards(asks) if are_there else []
    if cards is not None:
        _write_jobs(folder, metrics.card_jobs(held, cards))


def _cards(asks: bool) -> list[Card] | None:
    """Return the GPUs found since the boot. Empty if NVIDIA's tool failed, None if it was not run yet."""
    with suppress(OSError, ValueError, TypeError):
        path = Path(CARDS)
        known = [Card(*entry) for entry in json.loads(path.read_text(encoding="utf-8"))]
        if known or not asks or abs(time.time() - path.stat().st_mtime) < AGAIN_SECONDS:
            return known
    if not asks:
        return None
    from ..adapters import accelerators

    found: list[Card] = []
    with suppress(accelerators.AcceleratorError):
        found = accelerators.nvidia_cards()
    _write(Path(CARDS), json.dumps([[card.index, card.uuid, card.minor] for card in found]), 0o600)
    return found


def _write_jobs(folder: Path, jobs: Mapping[str, str]) -> None:
    known = {path.name for path in folder.glob("[0-9]*") if _INDEX.fullmatch(path.name)}
    for index in known - jobs.keys():
        (folder / index).unlink(missing_ok=True)
    for index, session in jobs.items():
        _write(folder / index, f"{session}\n")


# ---- files ----------------------------------------------------------------------------------------------------------


@contextmanager
def _counted(state: StateDirectory) -> Iterator[list[Counted]]:
    """Yield the counts in a list with one element, and store the element afterwards. Others cannot count meanwhile.

    The file is written in place. If the host goes down during this, the counts start again, which Prometheus expects.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    with os.fdopen(os.open(state.metrics_file, flags, 0o600), "r+b", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        text = file.read()
        kept = [_read(text)]
        yield kept
        wanted = f"{json.dumps(encode(kept[0]), sort_keys=True)}\n".encode()
        if wanted != text:
            if os.pwrite(file.fileno(), wanted, 0) < len(wanted):  # the disk is full, so restore the earlier content
                wanted = text
                os.pwrite(file.fileno(), wanted, 0)
            os.ftruncate(file.fileno(), len(wanted))


def _read(text: bytes) -> Counted:
    with suppress(ValueError):
        return metrics.counted_of(json.loads(text))
    return Counted()


def _write(path: Path, content: str, mode: int = 0o644) -> None:
    """Replace a file atomically, whatever other files are in the directory."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")  # node_exporter reads *.prom
    aside.unlink(missing_ok=True)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        with os.fdopen(os.open(aside, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise

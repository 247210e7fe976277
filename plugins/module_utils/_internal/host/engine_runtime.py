# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The runtime entry of this host's engine for replicas: the engine's own runtime, with one extra step before it.

An engine passes each container to a runtime, which it calls with the OCI command line. With every engine, the runtime's
``start`` is the only moment at which a container's network is complete and its program has not begun. OCI hooks come
too early (engines from 26 on attach networks after ``create``) or without the necessary privileges. The entry is
therefore a script that makes the session's address the first one (`adapters.first_address`) and then executes the
engine's own runtime. Every later start of a replica also goes through it.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..adapters import first_address
from ..adapters.engine import ENGINE_PID, RUNTIME, Engine
from ..adapters.engine_objects import Runtime
from ..adapters.state import file_differs, write_file
from ..core.values.errors import SessionError
from . import engine_settings
from .boot_install import closure, interpreter
from .default_runtime import SCRIPT, default_of
from .steps import Stage, Step

PROGRAM = Path("/usr/local/lib/cluster-compute/first_address.py")
_RELOAD_SECONDS = 10.0

_TEXT = """\
#!/bin/sh
# Written by prepare_hosts of cluster_compute.session: the runtime of replicas. It is {plain} but for one thing: before
# a replica's program starts, the address of its session is made the first that programs find.
before=
for argument; do
    # The engine's shim calls "... start ID" in the container's folder, where "create" has left the process.
    [ "$before" = start ] && [ -r init.pid ] && {python} -I -S {program} "$(cat init.pid)"
    before=$argument
done
exec {runtime} "$@"
"""


class RuntimeEntryError(SessionError):
    """The runtime entry cannot be added to the engine. The message is a full sentence."""


def present_stages(engine: Engine) -> list[Stage]:
    """Return the steps that add the entry: the files, then the setting, which the engine reloads while it runs.

    Raises EngineError and RuntimeEntryError if the engine could not use it.
    """
    engine.require_sight(str(SCRIPT.parent))
    if engine.is_rootless():
        raise RuntimeEntryError(
            "Docker Engine on this host runs without root's rights (rootless), in a network of its own, where it "
            "finds no network of a session. Run it as root."
        )
    files = {
        SCRIPT: (_script(engine), 0o755),
        PROGRAM: (closure(first_address.__name__)[first_address.__name__], 0o644),
    }
    stages: list[Stage] = [[_write_step(path, *made) for path, made in files.items() if file_differs(path, *made)]]
    settings = _settings_file(engine)
    found = _read(settings)
    entries = found.get("runtimes", {})
    if entries.get(RUNTIME) == {"path": str(SCRIPT)} and engine.info().runtimes.get(RUNTIME) == Runtime(str(SCRIPT)):
        return stages
    wanted = {**found, "runtimes": {**entries, RUNTIME: {"path": str(SCRIPT)}}}
    return [*stages, [_settings_step(engine, settings, wanted)]]


def absent_stages(engine: Engine) -> list[Stage]:
    """Return the steps that remove the entry. Raises RuntimeEntryError while containers need it to start again."""
    users = _users(engine)
    if users:
        raise RuntimeEntryError(
            f"The runtime entry {RUNTIME} of this host's engine is what these containers are started by: "
            f"{', '.join(users)}. Tear their sessions down first."
        )
    stages: list[Stage] = []
    if RUNTIME not in engine.info().runtimes and not engine.process():
        return stages  # an engine without the entry, which cannot be identified
    settings = _settings_file(engine)
    found = _read(settings)
    entries = dict(found.get("runtimes", {}))
    if entries.pop(RUNTIME, None) is not None:
        others = {key: value for key, value in found.items() if key != "runtimes"}
        stages.append([_settings_step(engine, settings, {**others, **({"runtimes": entries} if entries else {})})])
    files = [path for path in (SCRIPT, PROGRAM) if path.exists()]
    return [*stages, [Step("remove", "file", str(path), path.unlink, before="present") for path in files]]


def lost(engine: Engine) -> str:
    """Return which containers cannot start because the engine has lost the entry. Empty if there are none."""
    if RUNTIME in engine.info().runtimes:
        return ""
    users = _users(engine)
    if not users:
        return ""
    return f"The engine has no runtime entry {RUNTIME} any more, by which these are started: {', '.join(users)}."


def _users(engine: Engine) -> list[str]:
    """Return the names of the containers of sessions that the engine's entry starts."""
    return sorted(
        entry.name
        for entry in engine.session_containers()
        if (found := engine.inspect(entry.id)) and found.runtime == RUNTIME
    )


def _script(engine: Engine) -> str:
    """Return the script for the default runtime of this engine."""
    info = engine.info()
    plain = default_of(info.runtimes, info.default_runtime)
    if not plain.path:
        raise RuntimeEntryError(
            f"The engine's default runtime {info.default_runtime!r} is not a program with the OCI command line, so "
            "replicas cannot be started through it with their session's address first. Set default-runtime to one "
            "with a path (runc), or prepare_hosts_engine_runtime=false for this host."
        )
    command = shlex.join([plain.path, *plain.arguments])
    return _TEXT.format(plain=plain.path, python=shlex.quote(interpreter()), program=PROGRAM, runtime=command)


def _write_step(path: Path, text: str, mode: int) -> Step:
    def write() -> None:
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True)
            os.chmod(path.parent, 0o755)  # noqa: S103 - as every folder below /usr/local
        write_file(path, text, mode)

    return Step("update" if path.exists() else "create", "file", str(path), write, after=text)


def _settings_step(engine: Engine, path: Path, wanted: Mapping[str, Any]) -> Step:
    old = path.read_text(encoding="utf-8") if path.exists() else None
    change = partial(_change_settings, engine, path, old, wanted)
    what = f"runtime {RUNTIME} in {path}"
    return Step("set", "engine setting", what, change, before=_of_runtimes(old), after=_of_runtimes(json.dumps(wanted)))


def _of_runtimes(text: str | None) -> Any:
    """Return the runtimes of a settings file. The rest belongs to the site and is not part of the change."""
    return (json.loads(text) if text and text.strip() else {}).get("runtimes")


def _change_settings(engine: Engine, path: Path, old: str | None, wanted: Mapping[str, Any]) -> None:
    """Write the settings and make the running engine reload them. If it rejects them, restore the earlier ones."""
    before = path.stat() if old is not None else None

    def write(text: str) -> None:
        if before is None:
            write_file(path, text, 0o644)
        else:
            write_file(path, text, before.st_mode & 0o7777, (before.st_uid, before.st_gid))

    # A running engine drops a runtime only if its settings contain runtimes at all.
    try:
        path.parent.mkdir(exist_ok=True)
        write(json.dumps({"runtimes": {}, **wanted}, indent=2) + "\n")
    except OSError as error:
        entry = json.dumps({"runtimes": wanted.get("runtimes", {})})
        raise RuntimeEntryError(
            f"The engine's settings in {path} cannot be written: {error.strerror}. Where something else manages that "
            f"file, have it say {entry}, or set prepare_hosts_engine_runtime=false for this host."
        ) from error
    process = _engine_process(engine)
    is_wanted = RUNTIME in (wanted.get("runtimes") or {})
    os.kill(process, signal.SIGHUP)
    deadline = time.monotonic() + _RELOAD_SECONDS
    while (RUNTIME in engine.info().runtimes) != is_wanted:
        if time.monotonic() > deadline:
            if old is None:
                path.unlink()
            else:
                write(old)
            os.kill(process, signal.SIGHUP)
            raise RuntimeEntryError(
                f"The engine did not take its settings from {path}. The earlier ones were restored. See its log for "
                "the reason: it rejects settings that are both in that file and on its command line (--add-runtime)."
            )
        time.sleep(0.1)
    write(json.dumps(wanted, indent=2) + "\n")


def _read(path: Path) -> dict[str, Any]:
    """Return the engine's settings, empty if the file does not exist. Raises RuntimeEntryError."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    try:
        found = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise RuntimeEntryError(
            f"The engine's settings in {path} are not valid JSON ({error}). Fix the file first."
        ) from None
    if not isinstance(found, dict) or not isinstance(found.get("runtimes", {}), dict):
        raise RuntimeEntryError(
            f"The engine's settings in {path} are not an object with runtimes by name. Fix the file first."
        )
    return found


def _settings_file(engine: Engine) -> Path:
    """Return the settings file of the running engine, with links resolved.

    A link of the site, such as one to a file that it manages, therefore stays a link. Raises RuntimeEntryError.
    """
    named = engine_settings.file_of(_engine_process(engine))
    found = Path(os.path.realpath(named))
    if found.is_symlink():
        raise RuntimeEntryError(
            f"The links from {named}, which the engine has its settings from, lead in a circle. Mend them first."
        )
    return found


def _engine_process(engine: Engine) -> int:
    process = engine.process()
    if not process:
        raise RuntimeEntryError(f"Docker Engine did not write its process to {ENGINE_PID}.")
    return process

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The options in which a container differs from its plan, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...core.values.errors import printable, show
from ...core.values.resources import format_cpus, format_memory

Options = Mapping[str, Any]


def differences(made: Options, planned: Options) -> list[str]:
    """Return one entry for each option that differs, such as ``memory: 512MiB, planned 1GiB``.

    made: the engine's description of the container (Docker Engine API, ContainerInspect). planned: the body of the
    request that would create it (ContainerCreate). Commands, and the values of variables, are not shown: they may hold
    secrets.
    """
    has, wants = made.get("HostConfig") or {}, planned["HostConfig"]
    settings = made.get("Config") or {}
    found = []
    if planned["Image"] not in (made.get("Image"), settings.get("Image")):
        found.append(_both("image", settings.get("Image"), planned["Image"], show))
    for name, read, form in AMOUNTS:
        if read(has) != read(wants):
            found.append(_both(name, read(has), read(wants), form))
    return [*found, *_of_programs(settings, planned)]


def _of_programs(settings: Options, planned: Options) -> Iterator[str]:
    """Yield the differences in how programs run. settings: the container's Config."""
    for name, key in (("user", "User"), ("directory", "WorkingDir")):
        if planned.get(key) not in ("", None, settings.get(key)):
            yield _both(name, settings.get(key), planned[key], show)
    for name, key in (("command", "Cmd"), ("entrypoint", "Entrypoint")):
        if planned.get(key) is not None and list(settings.get(key) or ()) != planned[key]:
            yield name
    unset = set(planned["Env"]) - set(settings.get("Env") or ())
    if unset:
        yield f"variables: {', '.join(sorted(entry.partition('=')[0] for entry in unset))}"


def _both(name: str, made: object, planned: object, form: Callable[[Any], str]) -> str:
    return f"{name}: {form(made)}, planned {form(planned)}"


def _cpus(options: Options) -> int:
    """Return thousandths of a CPU, 0 for no limit. Others than sessions may have given it as NanoCpus."""
    if options.get("NanoCpus"):
        return int(options["NanoCpus"]) // 10**6
    return int(options.get("CpuQuota") or 0) * 1000 // int(options.get("CpuPeriod") or 100_000)


def _amount(key: str) -> Callable[[Options], int]:
    return lambda options: int(options.get(key) or 0)


def _text(key: str) -> Callable[[Options], str]:
    return lambda options: str(options.get(key) or "")


def _or_none(form: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda amount: form(amount) if amount else "none"


def _listed(names: tuple[str, ...]) -> str:
    return printable(" ".join(names)) or "none"


def _ports(options: Options) -> tuple[str, ...]:
    """Return published ports, such as ``127.0.0.1:8080->80/tcp``, and ``*`` for any address."""
    return tuple(
        sorted(
            f"{binding.get('HostIp') or '*'}:{binding.get('HostPort')}->{port}"
            for port, bindings in (options.get("PortBindings") or {}).items()
            for binding in bindings or ()
        )
    )


def _mounts(options: Options) -> tuple[str, ...]:
    """Return mounts as source, target and ``ro``, which is the form of ``docker run --volume`` as well."""
    mounts = [
        f"{mount.get('Source', '')}:{mount['Target']}{':ro' if mount.get('ReadOnly') else ''}"
        for mount in options.get("Mounts") or ()
    ]
    return tuple(sorted([*mounts, *(options.get("Binds") or ())]))


def _locked_memory(options: Options) -> str:
    """Return the limits of locked memory, soft and hard, in bytes; empty for those of the engine."""
    limits = [limit for limit in options.get("Ulimits") or () if limit.get("Name") == "memlock"]
    return " ".join(f"{limit.get('Soft')}:{limit.get('Hard')}" for limit in limits)


def _disk(options: Options) -> str:
    return str((options.get("StorageOpt") or {}).get("size") or "")


def _capabilities(options: Options) -> tuple[str, ...]:
    return tuple(sorted(name.removeprefix("CAP_") for name in options.get("CapAdd") or ()))


def _devices(options: Options) -> tuple[str, ...]:
    """Return device files and the names of GPUs."""

    def names() -> Iterator[str]:
        for device in options.get("Devices") or ():
            yield str(device["PathOnHost"])
        for request in options.get("DeviceRequests") or ():
            yield from map(str, request.get("DeviceIDs") or ())

    return tuple(sorted(names()))


AMOUNTS: tuple[tuple[str, Callable[[Options], Any], Callable[[Any], str]], ...] = (
    ("CPUs", _cpus, _or_none(format_cpus)),
    ("pinned CPUs", _text("CpusetCpus"), _or_none(show)),
    ("memory nodes", _text("CpusetMems"), _or_none(show)),
    ("Docker's init", lambda options: bool(options.get("Init")), show),
    ("locked memory", _locked_memory, _or_none(show)),
    ("disk size", _disk, _or_none(show)),
    ("memory", _amount("Memory"), _or_none(format_memory)),
    ("shared memory", _amount("ShmSize"), _or_none(format_memory)),
    ("devices", _devices, _listed),
    ("ports", _ports, _listed),
    ("mounts", _mounts, _listed),
    ("capabilities", _capabilities, _listed),
    ("groups", lambda options: tuple(options.get("GroupAdd") or ()), _listed),
)
"""Options of the engine's HostConfig: name, how it is read, and how it is shown."""

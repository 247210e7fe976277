# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The data that a session mounts: what a site allows, what is wrong with it on the hosts, and who proves it shared.

For each requested path a host reports: kind ("directory", "file", "missing"), real (links resolved), ancestors (the
path and all folders above it, each with its real path), parent (whether the folder above exists), owner, mode,
filesystem, origin (what is mounted there), inode, read_only. For each volume it reports driver, options and maker, or
None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..model.host_parts import Volume
from ..model.mounts import LOCAL_DRIVER, Mount
from ..model.plan import Folder
from ..values.errors import InvalidInput, Problem
from ..values.parse import is_given, is_plain, split_list
from ..values.paths import is_below

if TYPE_CHECKING:  # hosts read nothing that users write, so they need not load the parser
    from ..model.facts import HostFacts, PathFacts
    from ..model.request import Request

Inventory = Mapping[str, Mapping[str, Any]]

ROOTS = "cluster_compute_mount_roots"
DRIVERS = "cluster_compute_volume_drivers"

NETWORK_FILESYSTEMS = frozenset(
    [
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "fuse.ceph",
        "fuse.glusterfs",
        "fuse.sshfs",
        "gfs2",
        "gpfs",
        "lustre",
        "nfs",
        "nfs4",
        "ocfs2",
        "orangefs",
        "smb3",
    ]
)
"""Types of file systems, as the kernel names them, that several hosts mount from the same place."""

OWN_MEMORY = "tmpfs"
"""The type of file system that the local driver does not mount from elsewhere. A site has to allow each other type by
name, as "local:nfs": a file server trusts the host that mounts, so this gives as much as a path of the host."""

OWNER = "{owner}"
"""The end of a mount root that stands for the name of a session's owner."""
_FOLDER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*")
"""Names of owners that name one folder, which is not hidden."""

PARTLY_PRIVATE = ("/etc",)
"""Folders that sessions may not mount as a whole, though a site may allow folders in them, such as /etc/ssl/certs."""

WRITES, READS = "writes", "reads"
"""The part of a host in the proof that a folder is the same on all hosts of a session."""

VARIABLE = "session_mounts"


def parse_roots(value: object) -> tuple[str, ...]:
    """Read `ROOTS`. Raises ValueError."""
    roots = split_list(value)
    for root in roots:
        if not isinstance(root, str) or not root.startswith("/") or not is_plain(root) or ".." in root.split("/"):
            raise ValueError("It must be a list of absolute paths of folders without '..', such as [/srv/shared].")
        # The owner's folder has to be one that only the site could replace by a symbolic link.
        if OWNER in root and (root.count(OWNER) > 1 or not re.fullmatch(rf"/+[^/]+/(.*/)?{re.escape(OWNER)}", root)):
            raise ValueError(f"{OWNER} has to be the last part of a path, below a folder, such as /home/{OWNER}.")
    plain = {"/" + "/".join(part for part in root.split("/") if part not in ("", ".")) for root in roots}
    # Symbolic links in a root's path were made by the site; below another root, users may have made them.
    return tuple(sorted(path for path in plain if not any(path != root and is_below(path, root) for root in plain)))


def parse_drivers(value: object) -> tuple[str, ...]:
    """Read `DRIVERS`. Raises ValueError."""
    drivers = split_list(value)
    if not all(isinstance(driver, str) and driver.strip() and is_plain(driver) for driver in drivers):
        raise ValueError("It must be a list of names of volume drivers, such as [local, local:nfs].")
    return tuple(sorted({driver.strip() for driver in drivers}))


def _read(
    inventory: Mapping[str, Any], host: str, variable: str, make: Callable[[object], tuple[str, ...]]
) -> tuple[str, ...] | None:
    value = (inventory.get(host) or {}).get(variable)
    if not is_given(value):
        return None
    try:
        return make(value)
    except ValueError as error:
        raise InvalidInput.single(f"{variable} of host {host}", value, str(error)) from None


def roots_of(inventory: Mapping[str, Any], host: str) -> tuple[str, ...]:
    """Return the folders below which sessions may mount paths of *host*. Raises InvalidInput."""
    return _read(inventory, host, ROOTS, parse_roots) or ()


def for_owner(roots: Iterable[str], owner: str) -> tuple[str, ...]:
    """Return mount roots as they are for the sessions of a user; those of owners are left out where that is unsafe."""
    safe = _FOLDER.fullmatch(owner) is not None
    return tuple(root.replace(OWNER, owner) for root in roots if safe or OWNER not in root)


def of_site(roots: Iterable[str]) -> tuple[str, ...]:
    """Return mount roots as they are for everybody: for those of owners the folder that these are in."""
    return tuple(dict.fromkeys(root.removesuffix(f"/{OWNER}") for root in roots))


def inventory_for(inventory: Inventory, owner: str) -> Inventory:
    """Return the variables of hosts with the mount roots of a user's sessions. Raises InvalidInput."""
    return {
        host: {**variables, ROOTS: list(for_owner(roots_of(inventory, host), owner))}
        if OWNER in str(variables.get(ROOTS))
        else variables
        for host, variables in inventory.items()
    }


def drivers_of(inventory: Mapping[str, Any], host: str) -> tuple[str, ...]:
    """Return the volume drivers that sessions may use on *host*. Raises InvalidInput."""
    found = _read(inventory, host, DRIVERS, parse_drivers)
    return (LOCAL_DRIVER,) if found is None else found


def exposed(path: str, private: Mapping[str, str]) -> str:
    """Return what a folder would show sessions although it is not for them; empty if that is nothing.

    path: its real path. private: places that are not for sessions, and what is there.
    """
    for place, what in private.items():
        if is_below(place, path) or (is_below(path, place) and place not in PARTLY_PRIVATE):
            return f"{place} ({what})"
    return ""


def mount_problems(
    request: Request, hosts: Sequence[str], facts: Mapping[str, HostFacts], inventory: Mapping[str, Any]
) -> list[Problem]:
    """Return what is wrong with the mounts on *hosts*: the first thing of each mount. Raises InvalidInput."""
    different = {(mount.source, mount.volume): mount for mount in request.mounts}
    return [
        Problem(VARIABLE, mount.source or mount.volume, message.format(hosts=some_of(where)))
        for mount in different.values()
        for message, where in _first_broken_rule(mount, hosts, facts, inventory).items()
    ]


def _first_broken_rule(
    mount: Mount, hosts: Sequence[str], facts: Mapping[str, HostFacts], inventory: Mapping[str, Any]
) -> dict[str, list[str]]:
    """Return the hosts by message, for the first rule that a mount breaks on any host."""
    for judge in _PATH_RULES if mount.source is not None else _VOLUME_RULES:
        found: dict[str, list[str]] = {}
        for host in hosts:
            message = judge(mount, host, facts[host], inventory)
            if message:
                found.setdefault(message, []).append(host)
        if found:
            return found
    return {}


def some_of(names: Sequence[str]) -> str:
    """Return names of hosts for a sentence; if there are very many, only the first."""
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more hosts"


def _text(value: object) -> str:
    """Return text that may stand in a message before `str.format`."""
    return str(value).replace("{", "{{").replace("}", "}}")


def _path(facts: HostFacts, mount: Mount) -> PathFacts:
    return facts.paths[str(mount.source)]


def _outside(mount: Mount, host: str, facts: HostFacts, inventory: Mapping[str, Any]) -> str:
    """Check the path as it is written."""
    roots = roots_of(inventory, host)
    if not roots:
        return (
            f"The site allows no path of {{hosts}} to be mounted. The site's operator names the folders for that in "
            f"{ROOTS}, such as [/srv/shared]. Or mount a volume."
        )
    if not any(is_below(str(mount.source), root) for root in roots):
        return f"On {{hosts}} the site allows only what is below {_text(', '.join(roots))} ({ROOTS})."
    return ""


def _private(mount: Mount, host: str, facts: HostFacts, inventory: Mapping[str, Any]) -> str:
    """Check what the path, and the folder that allows it, would show to sessions."""
    found = _path(facts, mount)
    for root in roots_of(inventory, host):
        if is_below(str(mount.source), root) and (shown := exposed(found.ancestors[root], facts.private)):
            return (
                f"{_text(root)} ({ROOTS} of {{hosts}}) would show sessions {_text(shown)}. The operator must name "
                "folders without it."
            )
    shown = exposed(found.real, {facts.engine.root: "Docker Engine's data"}) if facts.engine.root else ""
    return f"On {{hosts}} it would show the session {_text(shown)}. Mount another folder." if shown else ""


def _escaped(mount: Mount, host: str, facts: HostFacts, inventory: Mapping[str, Any]) -> str:
    """Check where the path really leads."""
    found = _path(facts, mount)
    roots = [root for root in roots_of(inventory, host) if is_below(str(mount.source), root)]
    if any(is_below(found.real, found.ancestors[root]) for root in roots):
        return ""
    return (
        f"On {{hosts}} it is really {_text(found.real)}, by a symbolic link, and the site allows only what is below "
        f"{_text(', '.join(roots))} ({ROOTS})."
    )


def _missing(mount: Mount, host: str, facts: HostFacts, inventory: Mapping[str, Any]) -> str:
    found = _path(facts, mount)
    if found.kind != "missing":
        return ""
    if mount.owner is None and mount.mode is None:
        return (
            "This source does not exist on {hosts}. Make it there, mount what every host has, or give it an owner or "
            "a mode, and the launch makes the folder."
        )
    if not found.parent or mount.source in roots_of(inventory, host):
        return "This source cannot be made on {hosts}: the folder that it would be in has to exist and be allowed."
    return ""


def _otherwise(mount: Mount, host: str, facts: HostFacts, inventory: Mapping[str, Any]) -> str:
    """Check owner and mode of a path that exists."""
    found = _path(facts, mount)
    wrong = [
        f"{name} {getattr(found, name)} where {wanted} is asked"
        for name, wanted in (("owner", mount.owner), ("mode", mount.mode))
        if found.kind != "missing" and wanted not in (None, getattr(found, name))
    ]
    return f"On {{hosts}} it has {' and '.join(wrong)}. What exists is not changed: change it there." if wrong else ""


def _driver(mount: Mount, host: str, facts: HostFacts, inventory: Mapping[str, Any]) -> str:
    drivers = drivers_of(inventory, host)
    if is_allowed_driver(mount, drivers):
        return ""
    allowed, wanted = _text(", ".join(drivers) or "no driver"), _text(driver_of(mount))
    return f"On {{hosts}} the site allows only volumes of {allowed} ({DRIVERS}), and this is one of {wanted}."


def driver_of(mount: Mount) -> str:
    """Return what a site has to allow for the volume of a mount: its driver; for the local one also what it mounts."""
    kind = dict(mount.driver_options).get("type", OWN_MEMORY) if mount.driver == LOCAL_DRIVER else OWN_MEMORY
    return str(mount.driver) if kind == OWN_MEMORY else f"{LOCAL_DRIVER}:{kind}"


def reaches_files(mount: Mount) -> bool:
    """Tell whether a mount shows files of the hosts or of a file server, and not only a volume of the engine."""
    return mount.source is not None or driver_of(mount) != LOCAL_DRIVER


def is_allowed_driver(mount: Mount, drivers: Iterable[str]) -> bool:
    """Tell whether the volume of a mount is of one of the *drivers* that a site allows."""
    return any(same_driver(driver_of(mount), driver) for driver in drivers)


def same_driver(first: str, other: str) -> bool:
    """Tell whether two names are of one volume driver: engines add a plugin's tag to its name, people may omit it."""
    return first.removesuffix(":latest") == other.removesuffix(":latest")


def volume_conflict(mount: Mount, found: Volume | None) -> str:
    """Return why a session may not mount a volume that exists, a sentence without the host's name; else nothing.

    found: None if there is no volume of that name.
    """
    if found is None:
        return ""
    if found.maker is None:
        return "it was not made by a session, and does not have the label cluster-compute.volume either."
    if same_driver(found.driver, str(mount.driver)) and found.options == dict(mount.driver_options):
        return ""
    return (
        f"it has driver {found.driver} with options {found.options}, where driver {mount.driver} with options "
        f"{dict(mount.driver_options)} is asked. What exists is not changed: choose another name, or remove it there."
    )


def _conflict(mount: Mount, host: str, facts: HostFacts, inventory: Mapping[str, Any]) -> str:
    why = volume_conflict(mount, facts.volumes.get(str(mount.volume)))
    return f"On {{hosts}} there is a volume of this name: {_text(why)}" if why else ""


_PATH_RULES = (_outside, _private, _escaped, _missing, _otherwise)
_VOLUME_RULES = (_driver, _conflict)


def sharing_problems(request: Request, hosts: Sequence[str], facts: Mapping[str, HostFacts]) -> list[Problem]:
    """Return why paths cannot be the same on the *hosts* of a session, as far as the facts show."""
    problems: dict[str, Problem] = {}
    for mount in request.mounts:
        if mount.source is not None and _is_to_be_shared(mount, hosts):
            message = _why_not_shared(mount, hosts, facts)
            more = "" if mount.shared else f" {LOCAL_HINT}"
            if message:
                problems[mount.source] = Problem(VARIABLE, mount.source, message + more)
    return list(problems.values())


def _is_to_be_shared(mount: Mount, hosts: Sequence[str]) -> bool:
    """Tell whether a mounted path has to be the same on all hosts of a session, if it is a folder."""
    return mount.shared is not False and len(hosts) > 1


def _why_not_shared(mount: Mount, hosts: Sequence[str], facts: Mapping[str, HostFacts]) -> str:
    """Return why a path is not the same on *hosts*, or why that cannot be proven; empty if it can."""
    by_kind: dict[str, list[str]] = {}
    for host in hosts:
        by_kind.setdefault(_path(facts[host], mount).kind, []).append(host)
    if len(by_kind) > 1:
        words = [f"{kind} on {some_of(where)}" for kind, where in by_kind.items()]
        return f"It is not the same on the hosts of the session: {', '.join(words)}."
    if "file" in by_kind:
        why = "Only folders can be proven to be the same. Leave shared out, or mount the folder."
        return why if mount.shared else ""
    if _writer(mount, hosts, facts) is not None:
        return ""
    paths = (_path(facts[host], mount) for host in hosts)
    found = {(path.filesystem, path.origin, path.inode) for path in paths}
    if len(found) == 1 and next(iter(found))[0] in NETWORK_FILESYSTEMS:
        return ""
    return (
        f"No host of the session can write there ({some_of(hosts)}), and they mount no file system of the "
        "network from the same place, so it cannot be proven that it is the same folder."
    )


LOCAL_HINT = "If each host is to have its own, set shared: false, or :local at the end of the text."


def _writer(mount: Mount, hosts: Iterable[str], facts: Mapping[str, HostFacts]) -> str | None:
    return next((host for host in hosts if not _path(facts[host], mount).read_only), None)


def _proof(kind: str, host: str, writer: str | None) -> str | None:
    """Return what a host does to prove that a path is shared. writer: the host that writes; None without a proof."""
    if writer is None or kind == "file":
        return None
    return WRITES if writer == host else READS


def data_of_hosts(
    request: Request, hosts: Sequence[str], facts: Mapping[str, HostFacts], inventory: Mapping[str, Any]
) -> dict[str, tuple[tuple[str, ...], dict[str, Folder]]]:
    """Return what the plan says of each host's paths: the roots that allow them, and what is there at each."""
    paths = [mount for mount in request.mounts if mount.source is not None]
    writers = [_writer(mount, hosts, facts) if _is_to_be_shared(mount, hosts) else None for mount in paths]
    found = {}
    for host in hosts:
        folders = {}
        for mount, writer in zip(paths, writers):
            path = _path(facts[host], mount)
            folders[str(mount.source)] = Folder(path.filesystem, _proof(path.kind, host, writer))
        roots = tuple(root for root in roots_of(inventory, host) if any(is_below(source, root) for source in folders))
        found[host] = (roots, folders)
    return found

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Steps of one host for the data of a session. Before the session starts, directories are created and checked to be
shared. Then they are bind-mounted, and volumes are created.

Directories, volumes and probe files of shared storage do not belong to the session alone, so a launch records them
before it creates them. A failed launch can then remove them again, and leftovers of a killed launch can be found.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from ..adapters import engine_objects, folders
from ..adapters.bounded import bounded
from ..adapters.engine import Engine, MountRequest
from ..adapters.folders import FolderError
from ..adapters.state import SessionDirectory
from ..core.model.decode import decode
from ..core.model.host_parts import Volume
from ..core.model.mounts import LOCAL_DRIVER, Mount
from ..core.model.record import PREPARING, Record
from ..core.rules.data import LOCAL_HINT, READS, WRITES, volume_conflict
from ..core.values.errors import SessionError
from .steps import Stage, Step
from .users import User, groups_of, user_of

if TYPE_CHECKING:
    from ..core.model.plan import Plan

PROBE_SECONDS = 2.0
"""Seconds until a file from another host has to be visible, because network file systems cache their state."""


class SessionData:
    """The data of one session on one host."""

    def __init__(
        self, record: Record, plan: Plan, host: str, directory: SessionDirectory, engine: Engine | None = None
    ) -> None:
        """Take the whole *record* of a session and the *plan* in it. Some methods do not need an *engine*."""
        self.session_id: str = record.id
        self.session_name: str = record.name
        self.is_changed = record.status != PREPARING and record.change is not None
        self.is_new = record.status == PREPARING or (
            self.is_changed and all(map(directory.is_expected, plan.hosts[host].replicas))
        )
        """Whether the session comes to this host: it is being started, or changes while it runs."""
        self.host = host
        self.hosts = plan.hosts
        self.mounts = [decode(Mount, mount, "A mount", forgiving=True) for mount in plan.request["mounts"]]
        self.roots = list(plan.hosts[host].mount_roots)
        self.planned = plan.hosts[host].data
        self.owner = record.owner
        self.replicas = plan.on(host)
        if self.is_changed:  # the others run already
            self.replicas = [replica for replica in self.replicas if directory.is_expected(replica.name)]
        self.directory = directory
        self.engine = engine
        self._noting = threading.Lock()

    @property
    def paths(self) -> dict[str, Mount]:
        """The mounts of paths, one for each path."""
        return {mount.source: mount for mount in self.mounts if mount.source is not None}

    @property
    def volumes(self) -> dict[str, Mount]:
        """The mounts of volumes, one for each volume."""
        return {mount.volume: mount for mount in self.mounts if mount.volume is not None}

    # ---- before anything starts -----------------------------------------------------------------------------------

    def prepare(self, secret: str, check_mode: bool) -> list[str]:
        """Create missing directories and write the probe of those that are shared. Return what was, or would be, done.

        secret: known only to this launch. Raises FolderError.
        """
        if not self.is_new and not self.is_changed:
            return []
        self._find_users()
        actions = self._make_folders(check_mode)
        if not check_mode:
            self._write_probes(secret)
        return actions

    def _make_folders(self, check_mode: bool) -> list[str]:
        """Create the directories that this host has to create, and see that the users of its replicas may use them."""
        actions = []
        for source, mount in self.paths.items():
            is_lacking = self.is_new and self._is_lacking(source, mount)
            if is_lacking:
                actions.append(f"create folder {source}")
                if not check_mode:
                    self._make_folder(source, mount)
            # A folder that another host creates is checked when the file of that host is read.
            if self.planned[source].proof != READS and not (is_lacking and check_mode):
                self._explained(self._refuse_without_access, source)
        return actions

    @cached_property
    def _users(self) -> list[User]:
        return self._find_users()

    def _find_users(self) -> list[User]:
        """Return the users of the replicas here that this host knows. Raises SessionError, also for unknown groups."""
        for replica in self.replicas:
            groups_of(replica, self.host)
        found = (user_of(replica, self.owner, self.host) for replica in self.replicas)
        return list(dict.fromkeys(user for user in found if user is not None))

    @property
    def _ids(self) -> list[folders.Ids]:
        return [user.ids for user in self._users]

    def _refuse_without_access(self, source: str) -> None:
        writes = self._writes(source)
        for user in self._users:
            with folders.opened(source, self.roots, [user.ids]) as found:
                may = folders.may_use(found, user.ids, writes)
            if not may:
                raise FolderError(
                    f"The user {user} (session_user) may not {'write in' if writes else 'read'} {source}. Give that "
                    "user the right, choose another session_user, or mount what programs only read with :ro."
                )

    def _writes(self, source: str) -> bool:
        return any(mount.source == source and not mount.read_only for mount in self.mounts)

    def _is_lacking(self, source: str, mount: Mount) -> bool:
        """Return whether this host has to create a directory."""
        # A shared directory is created by one of the hosts, and the others have to find it.
        is_ours = (mount.owner or mount.mode) and self.planned[source].proof != READS
        return bool(is_ours) and not self._is_there(source)

    def _make_folder(self, source: str, mount: Mount) -> None:
        ids = self._ids
        uid, gid = (mount.owner or (str(ids[0]) if ids else "0:0")).split(":")
        if ids:
            self._mark_made("probers", ids[0].text)
        self._explained(folders.make_folder, source, self.roots, (int(uid), int(gid)), _mode(mount), ids)
        self._mark_made("folders", source)

    def _is_there(self, source: str) -> bool:
        with folders.waiting(source):
            return os.path.islink(source) or folders.status_of(source) is not None

    def _write_probes(self, secret: str) -> None:
        ids = self._ids
        for source in self.paths:
            if self.planned[source].proof == WRITES:
                self._mark_made("proofs", source)
                self._mark_made("probes", probe_name(self.session_id, secret))
                # A file server may treat root as another user (root_squash), so the users of the replicas prove it.
                by_user = bool(ids) and self._writes(source)
                if by_user:
                    self._mark_made("probers", ids[0].text)
                self._write_probe(source, secret, ids[0] if by_user else None)

    def _write_probe(self, source: str, secret: str, ids: folders.Ids | None) -> None:
        with folders.opened(source, self.roots, self._ids) as folder:
            try:
                folders.write_inside(folder, probe_name(self.session_id, secret), probe_text(secret, source), ids)
            except OSError as error:
                raise FolderError(
                    f"Neither root nor its owner can write a file in the folder {source} on {self.host} "
                    f"({error.strerror}), so it cannot be proven that all hosts have the same. {LOCAL_HINT}"
                ) from error

    def check_probes(self, secret: str) -> None:
        """Read the file of another host in each shared directory. Raises FolderError if it is missing.

        Bind-mounted directories were checked before, and replicas that were started first may have emptied them.
        """
        if not self.is_new:
            return
        ids = self._ids
        points = {mounted.point for mounted in folders.mounted()} if self.paths else set()
        known = {
            mount.source
            for number, mount in enumerate(self.mounts)
            if folders.bind_mount_path(self.session_id, number) in points
        }
        for source, folder in self.planned.items():
            if folder.proof is None or source in known:
                continue
            writer = next(name for name, host_plan in self.hosts.items() if host_plan.data[source].proof == WRITES)
            name = probe_name(self.session_id, secret)
            is_same = finds_probe(source, self.roots, name, probe_text(secret, source), ids)
            self._explained(self._refuse_without_access, source)
            if not is_same:
                raise FolderError(
                    f"The folder {source} on {self.host} is not the folder that {writer} has there (session_mounts): "
                    f"what {writer} writes in it is not seen here. Mount the same folder on every host. {LOCAL_HINT}"
                )

    # ---- what containers mount ------------------------------------------------------------------------------------

    def stages(self, is_running: bool, check_mode: bool) -> list[Stage]:
        """Return the steps that bind-mount paths and make volumes which are missing. is_running: any replica runs here.

        Bind mounts do not change while replicas run. In check mode, a directory may not exist yet. Raises FolderError
        for a path that is missing, not allowed or not as requested, and for another volume with the same name.
        """
        return [self._bind_mount_steps(is_running, check_mode and self.is_new), self._volume_steps()]

    def _bind_mount_steps(self, is_running: bool, unseen: bool) -> Stage:
        steps = []
        points = {mounted.point for mounted in folders.mounted()} if self.paths else set()
        for number, mount in enumerate(self.mounts):
            source, path = mount.source, folders.bind_mount_path(self.session_id, number)
            if source is None or (path in points and (is_running or self._is_same(source, path))):
                continue
            if not unseen:
                self._explained(self._check, source, mount)
            action = "renew" if path in points else "create"
            place = partial(self._explained, self._bind_mount, source, mount, path)
            undo = partial(folders.remove_bind_mount, path)
            steps.append(Step(action, "mount", f"of {source} at {path}", place, undo, after=source))
        return steps

    def _is_same(self, source: str, path: str) -> bool:
        try:
            with folders.opened(source, self.roots, self._ids) as found:
                return folders.identity(os.fstat(found)) == folders.identity(os.stat(path))
        except (OSError, FolderError):
            return False

    def _bind_mount(self, source: str, mount: Mount, path: str) -> None:
        ids = self._ids
        # Another mount of this stage must not be made while this process acts as a user.
        with folders.IDENTITY:
            folders.release(path)
            with folders.opened(source, self.roots, ids) as found:
                self._check_open(source, mount, found)
                folders.bind_mount(found, path, mount.read_only)

    def _check(self, source: str, mount: Mount) -> None:
        with folders.opened(source, self.roots, self._ids) as found:
            self._check_open(source, mount, found)

    def _check_open(self, source: str, mount: Mount, found: int) -> None:
        if self.is_new:
            status = os.fstat(found)
            for name, value in (("owner", folders.owner_of(status)), ("mode", folders.mode_of(status))):
                wanted = getattr(mount, name)
                if wanted not in (None, value):
                    raise FolderError(f"{source} has {name} {value} where {wanted} is requested. It is not changed.")
            return
        with folders.waiting(source):
            filesystem = folders.mount_of(os.path.realpath(source)).filesystem
        if filesystem != self.planned[source].filesystem:
            raise FolderError(
                f"{source} is on a file system of type {filesystem}, and was on {self.planned[source].filesystem} "
                "when the session was launched: it seems not to be mounted."
            )

    def _explained(self, act: Any, *arguments: Any) -> None:
        """Run something, and name the session and host in an error."""
        try:
            act(*arguments)
        except FolderError as error:
            raise FolderError(f"The data of session {self.session_name} on {self.host}: {error}") from error

    def _volume_steps(self) -> Stage:
        if self.engine is None:
            return []
        steps = []
        for name, mount in self.volumes.items():
            found = self.engine.volume(name)
            self._refuse(name, mount, found)
            if found is None:
                make = partial(self._make_volume, self.engine, name, mount)
                undo = partial(_remove_volume, self.engine, name, self.session_id)
                steps.append(Step("create", "volume", name, make, undo, after=dict(mount.driver_options)))
        return steps

    def _refuse(self, name: str, mount: Mount, found: Volume | None) -> None:
        why = volume_conflict(mount, found)
        if why:
            raise FolderError(f"There is a volume {name} on {self.host} already: {why}")

    def _make_volume(self, engine: Engine, name: str, mount: Mount) -> None:
        if self.is_new:
            self._mark_made("volumes", name)
        label = {engine_objects.LABEL_VOLUME: self.session_id}
        engine.create_volume(name, str(mount.driver), dict(mount.driver_options), label)
        # The engine accepts a volume that another process has created at this moment.
        found = engine.volume(name)
        self._refuse(name, mount, found)
        if found and found.maker == self.session_id and (mount.owner or mount.mode):
            place = engine.volume_place(name)
            uid, gid = (mount.owner or "0:0").split(":")
            os.chown(place, int(uid), int(gid))
            os.chmod(place, _mode(mount))

    def has_lost_data(self, pid: int) -> bool:
        """Return whether a running replica does not see its bind mount.

        This happens if it was restarted while the bind mount was missing.
        """
        for number, mount in enumerate(self.mounts):
            if mount.source is None:
                continue
            path = folders.bind_mount_path(self.session_id, number)
            try:
                if any(mounted.point == path for mounted in folders.mounted()):
                    with folders.waiting(mount.source):
                        wanted = folders.identity(os.stat(path))
                else:
                    with folders.opened(mount.source, self.roots) as found:
                        wanted = folders.identity(os.fstat(found))
            except (OSError, FolderError):
                continue  # it is not available at the moment
            with folders.waiting(mount.source):
                if not folders.sees(pid, wanted):
                    return True
        return False

    def _mark_made(self, kind: str, name: str) -> None:
        with self._noting:  # steps of a stage run in parallel
            made = self.directory.read_made()
            names = [*made.get(kind, []), name]
            self.directory.write_made({**made, kind: sorted(set(names)), "roots": self.roots})


def mount_requests(session_id: str, mounts: Iterable[Mount]) -> list[MountRequest]:
    """Return the mounts of a plan as the engine takes them."""
    return [
        MountRequest(str(mount.volume), mount.target, mount.read_only, is_volume=True)
        if mount.source is None
        else MountRequest(folders.bind_mount_path(session_id, number), mount.target, mount.read_only)
        for number, mount in enumerate(mounts)
    ]


def removal_steps(
    directory: SessionDirectory, session_id: str, engine: Engine, undo: bool, keep_data: bool = False
) -> list[Stage]:
    """Return the steps that unmount what a session has mounted and remove its shared-storage probes.

    undo: also removes the volumes and the empty directories that a failed launch created. keep_data: with undo, removes
    only volumes that are certainly empty, and no directories, because another session may use them by now.
    """
    made = directory.read_made()
    unmounts = [
        Step("remove", "mount", path, partial(folders.remove_bind_mount, path), before="present")
        for path in folders.bind_mounts(session_id)
    ]
    rest = [
        Step(
            "remove",
            "shared-storage probe",
            source,
            partial(remove_probe, source, made["roots"], _probes(made, session_id), made.get("probers", ())),
            before="present",
        )
        for source in made.get("proofs", [])
    ]
    if undo:
        for name in made.get("volumes", []):
            if keep_data and not _is_empty(engine, name):
                continue
            remove = partial(_remove_volume, engine, name, session_id)
            rest.append(Step("remove", "volume", name, remove, before="present"))
        for source in made.get("folders", []) if not keep_data else ():
            remove = partial(_remove_folder, source, made["roots"], made.get("probers", ()))
            rest.append(Step("remove", "folder", source, remove, before="present"))
    # A directory is empty after the probe in it was removed.
    return [unmounts, *([single] for single in rest)]


def _remove_volume(engine: Engine, name: str, session_id: str) -> None:
    """Remove a volume that a session has created. Other volumes are not changed."""
    found = engine.volume(name)
    if found is not None and found.maker == session_id:
        engine.remove_volume(name)


def finds_probe(source: str, roots: list[str], name: str, wanted: str, users: Sequence[folders.Ids] = ()) -> bool:
    """Return whether the probe of another host in *source* appears within `PROBE_SECONDS`.

    name: of `probe_name`. users: the first of them reads it.
    """
    deadline = time.monotonic() + PROBE_SECONDS
    while True:
        with folders.waiting(source):
            folders.ask_again(source)
        try:
            with folders.opened(source, roots, users) as folder:
                if folders.read_inside(folder, name, users[0] if users else None) == wanted:
                    return True
        except (OSError, FolderError):  # it does not exist, or cannot be read
            pass
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)


def _is_empty(engine: Engine, name: str) -> bool:
    """Return whether a volume is certainly empty, which is unknown for drivers other than the engine's own.

    A volume that the engine mounts from elsewhere when a container starts is an empty directory until then.
    """
    found = engine.volume(name)
    if found is None or found.driver != LOCAL_DRIVER:
        return False
    place = engine.volume_place(name)
    return os.path.isdir(place) and not os.listdir(place)


def remove_probes(directory: SessionDirectory, session_id: str) -> None:
    """Remove this host's probes of shared directories. The teardown removes what cannot be removed now."""
    made = directory.read_made()
    probes = made.get("proofs", [])
    names = _probes(made, session_id)
    left = [source for source in probes if not remove_probe(source, made["roots"], names, made.get("probers", ()))]
    if left != probes:
        kept = {"probes": names, "probers": made.get("probers", [])} if left else {"probes": [], "probers": []}
        directory.write_made({**made, "proofs": left, **kept})


def _probes(made: Mapping[str, Any], session_id: str) -> list[str]:
    """Return the names of the probes of this host. An earlier release had one for each session."""
    return [probe_name(session_id), *made.get("probes", [])]


def remove_probe(source: str, roots: list[str], names: Iterable[str], probers: Iterable[str] = ()) -> bool:
    """Remove the files of probes. Return whether they are gone. names: of `probe_name`.

    probers: who wrote them, if not root or the owner of the folder (`folders.Ids.text`).

    If the file system rejects the removal, it also rejected the file, or it fails by now. Neither may prevent that a
    session is removed and its reservation released.
    """

    def remove() -> bool:
        try:
            users = [folders.read_ids(text) for text in probers]
            with folders.opened(source, roots, users) as folder:
                for name in names:
                    folders.remove_inside(folder, name, users[0] if users else None)
        except FolderError:
            pass  # the directory is gone, and the file with it
        return True

    return _unless_it_hangs(source, remove)


def _unless_it_hangs(source: str, act: Callable[[], bool]) -> bool:
    """Return whether an operation on a path succeeded. Its file system may fail or hang."""
    try:
        return bounded(act, f"the file system of {source}", folders.SECONDS)
    except SessionError:
        return False


def _remove_folder(source: str, roots: list[str], makers: Iterable[str]) -> None:
    """Remove a directory that a launch created, if it is empty and its file system does not hang.

    makers: as the probers of `remove_probe`.
    """

    def remove() -> bool:
        folders.remove_folder(source, roots, [folders.read_ids(text) for text in makers])
        return True

    _unless_it_hangs(source, remove)


def probe_name(session_id: str, secret: str = "") -> str:
    """Return the name of the file with which hosts check that a directory is shared.

    secret: known only to one launch or change, so that two at the same time do not write the same file.
    """
    whose = hashlib.sha256(secret.encode()).hexdigest()[:16]
    return f".cluster-compute-{session_id}" + (f"-{whose}" if secret else "")


def probe_text(secret: str, source: str) -> str:
    """Return the content of the probe of *source*, which can only be computed with the secret."""
    return hashlib.sha256(f"{secret} {source}".encode()).hexdigest()


def _mode(mount: Mount) -> int:
    return int(mount.mode or "0755", 8)

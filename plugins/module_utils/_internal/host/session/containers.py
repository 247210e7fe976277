# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Create, start, restart and remove the containers of a session on this host."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from ...adapters import engine as docker_engine
from ...adapters import engine_objects, selinux
from ...adapters.engine import RUNTIME, Engine, EngineError, MountRequest
from ...adapters.engine_objects import Container
from ...core.model import workdir
from ...core.model.decode import encode
from ...core.model.plan import Plan, Replica
from ...core.model.record import PREPARING, PublicKeys
from ...core.rules import accounts
from ...core.values import failure, places
from ...core.values.capabilities import DEFAULT_CAPABILITIES, format_memlock
from ...core.values.errors import show
from ...core.values.paths import is_below, places_on
from ...core.values.resources import PINNED, is_cdi_name, is_device_path, is_nvidia_uuid
from .. import disk, labels, packs
from ..data import mount_requests
from ..exit_status import read_failure
from ..steps import Stage, Step
from ..users import groups_of
from .context import Context, digest
from .differences import differences
from .networks import attachments, has_entry, has_planned_mac, name_interfaces, put_in_order
from .ssh import Login, image_user, key_files, login_of, places_in_image, search_path, server_steps, start_server

if TYPE_CHECKING:
    from pathlib import Path

    from ..output import LogArchive

MOUNT = places.DIRECTORY
ENDING_SECONDS = 2.0
"""Seconds for which a program that is ending may still be listed as running."""
STOP_GRACE = 10
"""Seconds between the request to stop and the kill, Docker's own default."""

NO_VOLUMES = (accounts.PASSWD, accounts.SHADOW, "/proc", "/dev")
"""Paths without which a container cannot start, and files that are replaced in it before it starts."""

SHOWN = ("image", "address", "resources", "command", "ports", "mounts")
"""What a diff shows of a new replica."""

LIMITS = {
    "CapDrop": ["ALL"],
    # A program that runs as the image's user never becomes more by a setuid file (prctl(2), PR_SET_NO_NEW_PRIVS).
    "SecurityOpt": ["no-new-privileges:true"],
    # Threads also count. Far more than a job has, far less than what would overload a host.
    "PidsLimit": 16384,
    "LogConfig": {"Type": "json-file", "Config": {"max-size": "16m", "max-file": "3"}},
}
"""Settings of every replica (Docker Engine API, HostConfig)."""


def foreign_steps(context: Context, own: set[str], check_mode: bool) -> Stage:
    """Free the names of missing replicas.

    A session that is being started is rejected. In a running session, another container has taken the name of a
    replica. It gets another name and is otherwise not changed. A replica that comes with a change never had the name
    here.
    """
    arriving = {replica.container for replica in context.replicas if replica.name in context.arriving}
    wanted = {replica.container for replica in context.replicas if replica.name not in own}
    steps = []
    for name, entry in sorted(context.engine.containers_named(wanted).items()):
        owner = entry.labels.session_name if entry.is_replica else ""
        if check_mode and owner == context.session.name:
            continue
        if context.record.status != PREPARING and not owner and name not in arriving:
            aside = f"{name}-set-aside-{entry.id[:12]}"
            rename = partial(context.engine.rename_container, entry.id, aside)
            steps.append(Step("rename", "foreign container", name, rename, before=name, after=aside))
            continue
        whose = f"belongs to another session named {owner!r}" if owner else "does not belong to any session"
        raise EngineError(
            f"The host {context.host} already has a container named {name}, which {whose} and is not touched. "
            "Remove or rename it, or choose another session_name."
        )
    return steps


def foreign_containers(engine: Engine, plan: Plan, host: str, own: Collection[str]) -> list[str]:
    """Return what blocks a session's containers on a host, as sentences. own: replicas that it has there."""
    wanted = {replica.container for replica in plan.on(host) if replica.name not in own}
    return [
        f"There is a container named {name} already."
        for name, entry in sorted(engine.containers_named(wanted).items())
        if not entry.is_replica or entry.labels.session_id != plan.session.id
    ]


def surplus_steps(context: Context, containers: Mapping[str, Container]) -> Stage:
    """Stop and remove containers of this session that are not, or no longer, planned for this host."""
    wanted = {replica.name for replica in context.replicas}
    return [
        Step(
            "remove",
            "container",
            f"{context.session.name}-{name}",
            partial(end_container, context.engine, entry, context.archive),
            before=entry.state,
        )
        for name, entry in sorted(containers.items())
        if name not in wanted
    ]


def end_container(engine: Engine, entry: Container, archive: LogArchive | None) -> None:
    """Stop a replica with its grace time, keep its output, and remove it."""
    if entry.runs:
        engine.stop_container(entry.id, STOP_GRACE)
    if archive is not None:
        archive.add(entry)
    engine.remove_container(entry.id)


def container_steps(
    context: Context,
    containers: Mapping[str, Container],
    public_keys: PublicKeys,
    roles: Collection[str] | None = None,
) -> Stage:
    """Return the steps for containers: create, start, restart, and start their SSH server.

    roles: the roles of the replicas, None for all.
    """
    steps = []
    for replica in context.replicas:
        if roles is not None and replica.role not in roles:
            continue
        found = containers.get(replica.name)
        if found is None and context.waits and replica.name in context.arriving:
            continue
        if found is None:
            _refuse_volumes(context, replica)
            steps.append(_create_step(context, replica))
        elif found.labels.text(engine_objects.LABEL_SPEC) != _specification(context, replica):
            raise EngineError(_another_plan(context, found, replica))
        elif not found.runs:
            steps += _start_steps(context, found, replica)
        elif _lost_its_files(context, found, pid := context.engine.pid_of(found.id)):
            restart = partial(_restart, context, found.id, replica)
            what = replica.container
            steps.append(Step("restart", "container", what, restart, before="without its files", after="running"))
        elif pid and context.data.has_lost_data(pid):
            restart = partial(_restart, context, found.id, replica)
            what = replica.container
            steps.append(Step("restart", "container", what, restart, before="without its data", after="running"))
        else:
            steps += server_steps(context, found, replica, public_keys, pid)
    return steps


def _another_plan(context: Context, found: Container, replica: Replica) -> str:
    """Return the message about a container that does not have the options of its plan."""
    options = differences(context.engine.options_of(found.id) or {}, _body(context, replica))
    return (
        f"The container {replica.container} on {context.host} differs from the plan that is recorded, in "
        f"{'; '.join(options) or 'options that are not compared one by one'}. Launch with session_recreate=true to "
        "create the session again."
    )


def _refuse_volumes(context: Context, replica: Replica) -> None:
    """Reject an image with a volume at a path that each replica needs, or that is written before it starts."""
    for path in map(os.path.normpath, context.image(replica).volumes):
        if path in NO_VOLUMES or any(path != own and is_below(path, own) for own in (MOUNT, places.RUNTIME)):
            raise EngineError(
                f"The image {replica.image} has a volume at {show(path)}, which is the session's in each replica. "
                "Build the image without that VOLUME."
            )


def _start_steps(context: Context, found: Container, replica: Replica) -> Stage:
    """Start a replica that does not run. A failed one is started only as often as its session's policy allows."""
    start = partial(_start, context, found.id, replica)
    before, name = found.state, replica.container
    failed = read_failure(context.engine, context.directory, found, context.host)
    if failed is None:
        return [Step("start", "container", name, start, before=before, after="running")]
    request = context.plan.request
    if not failure.may_restart(request["failure_policy"], request["restart_limit"], failed):
        return []
    count = partial(context.directory.write_restarts, replica.name, failed.restarts + 1)

    def start_again() -> None:
        start()
        count()

    return [Step("restart", "container", name, start_again, before=failed.describe(), after="running")]


def _lost_its_files(context: Context, found: Container, pid: int) -> bool:
    """Return whether a running replica sees another directory at /etc/cluster-compute than the host's."""
    folder = context.directory.replica(found.replica)
    try:
        own = os.stat(folder)
    except FileNotFoundError:
        return True
    try:
        seen = os.stat(f"/proc/{pid}/root{MOUNT}")
    except OSError:
        return False  # it is just ending
    return (seen.st_dev, seen.st_ino) != (own.st_dev, own.st_ino)


def _restart(context: Context, container: str, replica: Replica) -> None:
    context.engine.stop_container(container, STOP_GRACE)
    _start(context, container, replica)


def _create_step(context: Context, replica: Replica) -> Step:
    made: list[str] = []

    def create() -> None:
        try:
            container = context.engine.create_container(
                replica.container, _body(context, replica), attachments(context, replica)
            )
        except EngineError as error:
            image = context.image_of(replica)
            if context.engine.inspect_image(image) is not None:
                raise
            raise EngineError(
                f"{context.host} does not have the image {replica.image} ({image[:19]}) any more, as after 'docker "
                "system prune -a'. Launch the session again, which brings it from a host that has it, from its "
                f"registry or its archive; or load it on {context.host} by hand."
            ) from error
        made.append(container)
        try:
            _start(context, container, replica)
        except Exception:  # whatever the error is, an incomplete container must not stay
            context.engine.remove_container(container)
            raise
        context.directory.has_arrived(replica.name)

    return Step(
        "create",
        "container",
        replica.container,
        create,
        lambda: context.engine.remove_container(made[0]),
        after={key: encode(getattr(replica, key)) for key in SHOWN},
    )


def _start(context: Context, container: str, replica: Replica) -> None:
    _begin(context, container, replica)
    pid = context.engine.pid_of(container) if context.data.paths else 0
    if pid and context.data.has_lost_data(pid):
        context.engine.stop_container(container, 0)
        raise EngineError(
            f"The replica {replica.name} on {context.host} does not see the data that the host has mounted for it. "
            "Docker Engine has to see what is mounted on the host while it runs: see whether its unit says "
            "PrivateMounts=yes."
        )


def _begin(context: Context, container: str, replica: Replica) -> None:
    found = context.engine.require(container)
    name_interfaces(context, container, found.endpoints, replica)
    if not context.has_ssh:
        if found.status == "created":
            _make_ready(context, container, replica, found.user)
        _start_container(context, container, replica)
        return
    known: accounts.Accounts | None = None
    if found.status == "created":
        login = _add_account(context, container, replica, found.user)
        _bring_workdir(context, container, replica, (login.uid, login.gid))
        uid, gid, known = login.uid, login.gid, login.known
    elif (owner := context.directory.read_owner(replica.name)) is not None:
        uid, gid = owner
    else:
        known = accounts.Accounts(context.engine.read_file(container, accounts.PASSWD))
        uid, gid = image_user(known.passwd, found.user)
    # OpenSSH rejects a private key that users other than its own may read.
    for path in key_files(context, replica.name):
        os.chown(path, uid, gid)
    if known is not None:
        context.directory.write_owner(replica.name, uid, gid, accounts.name_of(known, uid))
    _start_container(context, container, replica)
    try:
        start_server(context, container, replica)
    except EngineError:
        # The later check of what runs reports a program that has already ended, with its exit code.
        if not _has_ended(context, container):
            raise


def _bring_workdir(context: Context, container: str, replica: Replica, owner: tuple[int, int]) -> None:
    """Put the working directory of the session into a container that was never started.

    The engine writes as root, so a mount must not be in it, to which a link of the image can lead. Raises EngineError.
    """
    if not replica.packs:
        return
    link_at = cache(partial(context.engine.link_at, container))
    for mount in replica.mounts:
        place = places_on(mount.target, link_at)[-1]
        if workdir.meets(place):
            raise EngineError(
                f"The image {replica.image} has links by which {show(mount.target)} of session_mounts is at "
                f"{show(place)}, where session_workdir is put. Mount it elsewhere."
            )
    packs.unpack(context.engine, context.state, container, replica.packs, owner)


def _make_ready(context: Context, container: str, replica: Replica, user: str) -> None:
    """Give a container that was never started, and gets no SSH server, what it needs. user: of its image."""
    if replica.user is not None:
        _add_account(context, container, replica, user)
    if replica.packs:
        owner = image_user(context.engine.read_file(container, accounts.PASSWD), user)
        _bring_workdir(context, container, replica, owner)


def _add_account(context: Context, container: str, replica: Replica, user: str) -> Login:
    """Give a container that was never started what its user lacks."""
    login = login_of(context, container, replica, user)
    if login.lacking:
        context.engine.unpack(container, login.lacking)
    return login


def _has_ended(context: Context, container: str) -> bool:
    """Return whether the container's program has ended. The engine may need a moment to notice."""
    deadline = time.monotonic() + ENDING_SECONDS
    while context.engine.pid_of(container):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _refuse_other_groups(context: Context, container: str, replica: Replica) -> None:
    """Refuse an image in which the number of a group is the name of another one. The engine looks at each start."""
    _user, groups = _user_and_groups(context, replica)
    if not groups:
        return
    # This would read a mounted file, and the engine reads that of the image.
    hiding = [mount.target for mount in replica.mounts if is_below(accounts.GROUP, mount.target)]
    wrong = hiding or accounts.misleading_groups(context.engine.read_file(container, accounts.GROUP), map(int, groups))
    if wrong:
        raise EngineError(
            f"The replica {replica.name} would get another group than session_groups or session_user give it, by "
            f"{show(wrong[0])} in {accounts.GROUP} of its image or in its place. Correct the image, or mount elsewhere."
        )


def _start_container(context: Context, container: str, replica: Replica) -> None:
    _refuse_other_groups(context, container, replica)
    if selinux.confines(lambda: context.engine.info().options):
        selinux.share_with_containers([context.directory.replica(replica.name), *_own_hosts_file(context, replica)])
    try:
        context.engine.start_container(container)
    except EngineError as error:
        made = context.engine.inspect(container)
        if made is not None and made.runtime == RUNTIME and RUNTIME not in context.engine.info().runtimes:
            raise EngineError(
                f"The engine of {context.host} has no runtime entry {RUNTIME} any more, by which {replica.container} "
                "is started. Run the prepare_hosts playbook for this host, then the repair playbook.",
                is_of_host=True,
            ) from error
        if replica.memlock is None or "rlimit" not in str(error):
            raise
        raise EngineError(
            f"The engine of {context.host} cannot give {replica.container} the session_memlock "
            f"{format_memlock(replica.memlock)}: it may not raise that limit above its own. Start it with the "
            f"capability CAP_SYS_RESOURCE, or ask for less. {error}"
        ) from error
    if has_entry(context):
        found = context.engine.require(container)
        # A container that was created before the entry always starts without it.
        if found.runtime != RUNTIME or not has_planned_mac(context, found.endpoints, replica, found.pid):
            put_in_order(context, container, replica)


def _specification(context: Context, replica: Replica) -> str:
    """Return a digest of the plan of one replica."""
    text = json.dumps(encode([replica, context.network, context.egress]), sort_keys=True)
    return digest(text.encode())


def _body(context: Context, replica: Replica) -> dict[str, Any]:
    """Return the body of the engine's container-create request (Docker Engine API, ContainerCreate)."""
    resources = replica.resources
    user, groups = _user_and_groups(context, replica)
    values = {**context.environments[replica.name], "PATH": search_path(context, replica)}
    bindings: dict[str, list[dict[str, str]]] = {}
    for port in replica.ports:
        published = {"HostIp": port.host_ip, "HostPort": str(port.host_port)}
        bindings.setdefault(f"{port.container_port}/{port.protocol}", []).append(published)
    return {
        "Hostname": replica.name,
        "Image": context.image_of(replica),
        "Env": [f"{name}={value}" for name, value in values.items()],
        "Labels": {
            **engine_objects.NO_LABELS,
            **context.labels,
            engine_objects.LABEL_REPLICA: replica.name,
            engine_objects.LABEL_SPEC: _specification(context, replica),
            engine_objects.LABEL_CPUS: str(resources.cpus),
            engine_objects.LABEL_MEMORY: str(resources.memory),
            engine_objects.LABEL_DEVICES: json.dumps(replica.devices, sort_keys=True, separators=(",", ":")),
            **({} if replica.disk_size is None else {engine_objects.LABEL_DISK: str(replica.disk_size)}),
            **_record_label(context, replica),
        },
        "ExposedPorts": {port: {} for port in bindings},
        "HostConfig": {
            "Init": not replica.own_init,
            # It makes the session's address the first one.
            "Runtime": RUNTIME if has_entry(context) else "",
            # A quota, not NanoCpus: the engine refuses NanoCpus above the cores it sees, although a site may
            # declare more (or a share of) them for the host.
            "CpuPeriod": docker_engine.CPU_PERIOD,
            "CpuQuota": resources.cpus * docker_engine.CPU_PERIOD // 1000,
            "Memory": resources.memory,
            "MemorySwap": resources.memory,
            "ShmSize": resources.shm_size,
            "Mounts": [mount.body() for mount in _mounts(context, replica)],
            "PortBindings": bindings,
            "RestartPolicy": {"Name": "no"},
            **LIMITS,
            "CapAdd": [*DEFAULT_CAPABILITIES, *replica.capabilities],
            "Ulimits": _ulimits(replica),
            "GroupAdd": groups,
            **_devices(replica),
            "StorageOpt": _disk(context, replica),
        },
        "User": user,
        "WorkingDir": replica.directory or "",
        "Entrypoint": None if replica.entrypoint is None else list(replica.entrypoint),
        "Cmd": None if replica.command is None else list(replica.command),
    }


def _user_and_groups(context: Context, replica: Replica) -> tuple[str, list[str]]:
    """Return the user of a replica, empty for the image's, and the numbers of more groups, as the engine takes them."""
    user = context.user_of(replica)
    if user is None:
        return replica.user or "", [str(number) for number in groups_of(replica, context.host)]
    return str(user), [str(number) for number in user.groups]


def _record_label(context: Context, replica: Replica) -> dict[str, str]:
    """Return the labels of the record, for the first of the replicas that a change brings to this host."""
    change = context.record.change
    came = [replica.name for replica in context.replicas if change is not None and replica.name in change.places]
    return labels.record_labels(context.state, context.record) if came[:1] == [replica.name] else {}


def _mounts(context: Context, replica: Replica) -> list[MountRequest]:
    folder = context.directory.replica(replica.name)
    mounts = [MountRequest(str(folder), MOUNT, read_only=True)]
    mounts += [MountRequest(str(path), "/etc/hosts", read_only=False) for path in _own_hosts_file(context, replica)]
    mounts += [
        MountRequest(str(folder / "ssh/ssh_config"), places.SSH_CLIENT_FRAGMENT, read_only=True),
        MountRequest(str(folder / "profile"), places.PROFILE, read_only=True),
        MountRequest(places.RUNTIME_ON_HOST, places.RUNTIME, read_only=True),
        *mount_requests(context.session.id, replica.mounts),
    ]
    targets = places_in_image(context, replica, (mount.target for mount in mounts if mount.target != MOUNT))
    return [replace(mount, target=targets.get(mount.target, mount.target)) for mount in mounts]


def _own_hosts_file(context: Context, replica: Replica) -> list[Path]:
    """Return the file with the names of the session's replicas, none if it has no network."""
    return [] if context.network is None else [context.directory.hosts_file(replica.name)]


def _disk(context: Context, replica: Replica) -> dict[str, str]:
    """Return the engine's disk limit if it supports one. Otherwise `host.disk` checks the disk."""
    if replica.disk_size is None or not context.once("engine limits disk", lambda: disk.is_limited(context.engine)):
        return {}
    return {"size": str(replica.disk_size)}


def _ulimits(replica: Replica) -> list[dict[str, object]]:
    """Return the limits of each process of a replica that differ from the engine's (Docker Engine API, Resources)."""
    limit = replica.memlock
    return [] if limit is None else [{"Name": "memlock", "Soft": limit, "Hard": limit}]


def _devices(replica: Replica) -> dict[str, Any]:
    """Return the engine's settings for a replica's accelerators and CPUs (Docker Engine API, Resources)."""
    names = [name for kind, names_of_kind in replica.devices.items() if kind != PINNED for name in names_of_kind]
    # Accelerators may share a device file, as AMD's share /dev/kfd.
    paths = dict.fromkeys(path for name in names if is_device_path(name) for path in name.split("+"))
    nvidia, cdi = [*filter(is_nvidia_uuid, names)], [*filter(is_cdi_name, names)]
    is_pinned = PINNED in replica.devices
    return {
        "Devices": [{"PathOnHost": path, "PathInContainer": path, "CgroupPermissions": "rwm"} for path in paths],
        "DeviceRequests": [
            *([{"Driver": "nvidia", "DeviceIDs": nvidia, "Capabilities": [["gpu"]]}] if nvidia else ()),
            *([{"Driver": "cdi", "DeviceIDs": cdi}] if cdi else ()),
        ],
        "CpusetCpus": ",".join(replica.devices.get(PINNED, ())),
        "CpusetMems": ",".join(map(str, replica.memory_nodes)) if is_pinned else "",
    }

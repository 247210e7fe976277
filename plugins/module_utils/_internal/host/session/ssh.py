# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The SSH server of each replica of this host, and what OpenSSH needs in a container."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path

from ...adapters import ssh_keys, ssh_server
from ...adapters.engine import Engine, EngineError, Entry
from ...adapters.engine_objects import Container
from ...adapters.listeners import listens
from ...core.model.plan import Replica
from ...core.model.record import PublicKeys
from ...core.rules import accounts, environment, logins
from ...core.rules.environment import LOGIN_PORT, SSH_PORT
from ...core.values import paths, places
from ...core.values.deferred import dataclass
from ...core.values.errors import show
from ...core.values.ports import EVERY_ADDRESS
from .. import image_notes
from ..steps import Stage, Step
from ..users import User
from .context import Context

SSH_MOUNT = f"{places.DIRECTORY}/ssh"

DEFAULT_PORT = 22
"""Default port of clients."""

OWN_SERVERS = ("/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/sbin/dropbear", "/usr/bin/dropbear")
"""Programs that listen on the default port if an image starts them."""

MADE_FOR = "# Made for session"
"""First line of our files in a home. An image that was committed from a replica has those of another session."""

LISTENING_SECONDS = 2.0
"""Seconds until a server has to listen after its start."""

SERVER_ENVIRONMENT = {"LD_PRELOAD": "", "LD_AUDIT": "", "OPENSSL_CONF": "/dev/null", "GSS_MECH_CONFIG": "/dev/null"}
"""Variables of an image that must not reach the SSH server, which has its own loader and libraries."""


def key_files(context: Context, name: str) -> list[Path]:
    """Return the private keys of a replica: its client key and its host key."""
    return [context.directory.replica(name) / "ssh" / key for key in (ssh_keys.CLIENT_KEY, ssh_keys.HOST_KEY)]


def is_login_server(context: Context, replica: Replica) -> bool:
    """Return whether the session's owner can log in to this replica from outside."""
    return context.plan.ssh_port is not None and replica.rank == 0


def start_server(context: Context, container: str, replica: Replica) -> None:
    """Start the SSH server of a running replica next to the image's own program, as the image's user."""
    command = [places.SERVER, "-f", f"{SSH_MOUNT}/sshd_config"]
    if replica.address is not None and not has_own_server(context, container, replica):
        command += ["-o", f"ListenAddress={replica.address}:{DEFAULT_PORT}"]
    code, out, error = context.engine.execute(container, command, environment=SERVER_ENVIRONMENT)
    if code != 0:
        raise EngineError(
            f"The SSH server of {replica.container} on {context.host} could not be started: it ended with exit "
            f"code {code}. {(error + out).strip().rstrip('.')}.{in_the_way(context.engine, replica.container)}"
        )


def in_the_way(engine: Engine, container: str) -> str:
    """Return which files of a replica may prevent its user from logging in, as a sentence after a space."""
    from .. import ssh_runtime

    try:
        files = {path: engine.read_file(container, path) for path in logins.READ}
        made = engine.require(container)
        uid, _gid = image_user(files[accounts.PASSWD], made.user)
        variables = dict(text.partition("=")[::2] for text in made.environment)
        run = logins.run_at_login(files, uid, variables.get("HOME", ""))
        found = logins.obstacles(files, uid, [path for path in run if engine.has_path(container, path)])
        if not ssh_runtime.is_of_this_release():
            unread = [path for path in logins.UNREAD if engine.has_path(container, path)]
            found += [f"{path}, which the SSH runtime of the host still reads: run prepare_hosts." for path in unread]
    except (EngineError, LookupError) as error:
        found = [str(error)]
    return f" In the way in {container} may be: {' '.join(found)}" if found else ""


def has_own_server(context: Context, container: str, replica: Replica) -> bool:
    """Return whether an image may start its own server on the default port, which then belongs to it.

    container: of the image.
    """
    image = context.image_of(replica)

    def look() -> bool:
        if f"{DEFAULT_PORT}/tcp" in context.image(replica).ports:
            return True
        noted = image_notes.read(context.state, image).own_server
        return _has_server(context, container) if noted is None else noted

    return context.once(("own server", image), look)


def _has_server(context: Context, container: str) -> bool:
    return any(context.engine.has_path(container, path) for path in OWN_SERVERS)


def examination_prefix(session_id: str) -> str:
    """Return the prefix of the names of containers in which the images of a session are examined."""
    return f"cc-{session_id[:8]}-image-"


def places_in_image(context: Context, replica: Replica, targets: Iterable[str]) -> dict[str, str]:
    """Return where mounts at *targets* belong in the replica's image, with links resolved.

    If a mount of a container is behind an absolute link, the engine may be unable to read and write files in it
    (`Engine.image_files`). With a mount at the target of the link it can. A directory that the image declares as a
    volume keeps its name, because the engine uses the name to detect that a mount replaces the volume. The results for
    an image are stored.
    """
    wanted = tuple(targets)
    image = context.image_of(replica)
    volumes = context.image(replica).volumes

    def look() -> dict[str, str]:
        notes = image_notes.read(context.state, image)
        with ExitStack() as stack:

            @cache
            def container() -> str:
                name = f"{examination_prefix(context.session.id)}{uuid.uuid4().hex[:8]}"
                return stack.enter_context(context.engine.image_files(name, image, volumes))

            def link_at(path: str) -> str:
                if path not in notes.links:
                    notes.links[path] = context.engine.link_at(container(), path)
                return notes.links[path]

            if notes.own_server is None:
                notes.own_server = _has_server(context, container())
            places = {
                target: paths.places_on(target, link_at)[-1]
                for target in wanted
                if not any(paths.is_below(target, volume) for volume in volumes)
            }
            if container.cache_info().currsize:
                image_notes.write(context.state, context.engine, image, notes)
            return places

    return context.once(("places", image, wanted), look)


def server_steps(context: Context, found: Container, replica: Replica, public_keys: PublicKeys, pid: int) -> Stage:
    """Start the SSH server of a running replica if it is missing, such as after a restart by another program.

    A server that answers with another key than the replica's current one is ended first. From OpenSSH 9.8 on, it reads
    its key when it starts, and older ones read it for each login. A server that was started after its key was last
    written is not checked, because each check takes a handshake. Every server reads its configuration, with the
    variables of logins, when it starts. Open logins continue.
    """
    if not context.has_ssh or replica.name not in public_keys:
        return []
    place = (replica.address, SSH_PORT) if replica.address is not None else (EVERY_ADDRESS, LOGIN_PORT)
    wanted = public_keys[replica.name]["host"]  # None for a key that check mode does not create
    if pid in context.server_starts:
        ssh_server.comes_to(lambda: listens(pid, *place), LISTENING_SECONDS)
    start = partial(start_server, context, found.id, replica)

    def renew() -> None:
        ssh_server.end(pid, *place)
        start()

    is_listening = listens(pid, *place)
    if is_listening and _has_old_configuration(context, replica, pid):
        what = replica.container
        return [Step("restart", "SSH server", what, renew, before="old configuration", after="new configuration")]
    if wanted is not None and is_listening and _is_newer_than_its_key(context, replica, pid):
        return []
    answer = ssh_server.host_key(pid, *place) if pid else wanted
    if answer is None or answer == wanted or (answer and wanted is None and not server_parts(context)):
        return []
    if not answer:
        return [Step("start", "SSH server", replica.container, start, before="stopped", after="running")]
    return [Step("restart", "SSH server", replica.container, renew, before=answer, after=wanted)]


def _has_old_configuration(context: Context, replica: Replica, pid: int) -> bool:
    """Return whether a server of ours runs in the container of process *pid* that was started before its settings."""
    if pid not in context.server_starts:
        return False
    configuration = context.directory.replica(replica.name) / "ssh" / "sshd_config"
    return configuration in context.written or _was_written_since(context, pid, configuration)


def _is_newer_than_its_key(context: Context, replica: Replica, pid: int) -> bool:
    """Return whether a server with the current key runs in the container of process *pid*."""
    key = context.directory.replica(replica.name) / "ssh" / ssh_keys.HOST_KEY
    try:
        return key.stat().st_ctime < context.server_starts.get(pid, 0.0)
    except FileNotFoundError:
        return False


def _was_written_since(context: Context, pid: int, file: Path) -> bool:
    """Return whether a file was written since the server in the container of process *pid* was started.

    If the clock was set back in the meantime, the time of a file may be in the future, which is ignored.
    """
    try:
        return context.server_starts.get(pid, 0.0) < file.stat().st_ctime <= time.time()
    except FileNotFoundError:
        return False


def server_parts(context: Context) -> dict[str, str]:
    """Return the settings with the paths of the programs of this host's SSH server. Empty for an older one."""
    return {name: path for name, path in places.SERVER_PARTS.items() if _is_in_runtime(path)}


@dataclass(frozen=True)
class Login:
    """The user of a replica's image, and what is missing in its container for a login as that user.

    known: the accounts, with the missing ones added.
    """

    uid: int
    gid: int
    known: accounts.Accounts
    lacking: tuple[Entry, ...]


def login_of(context: Context, container: str, replica: Replica, user: str) -> Login:
    """Return what SSH needs in a container that was never started, for the *user* of its image.

    Such containers of one image with the same mounts are identical, and reading from one takes the engine long.
    Therefore one of them represents all.
    """
    home = context.environments[replica.name].get("HOME") or context.image_environment(replica).get("HOME") or ""
    key = (context.image_of(replica), user, home, repr(replica.mounts))
    return context.once(key, lambda: _examine(context, container, replica, user, home))


def _examine(context: Context, container: str, replica: Replica, user: str, home: str) -> Login:
    """Find what is missing in a container. Paths below mounts of the request do not belong to it and are not changed.

    home: from the replica's environment. Empty if it is not set there.
    """
    engine = context.engine
    passwd = engine.read_file(container, accounts.PASSWD)
    uid, gid = image_user(passwd, user)
    # An image may have links to mounts or at their paths. The engine would follow them, and write as root to files
    # outside the container.
    link_at = cache(partial(engine.link_at, container))
    targets = [places.DIRECTORY, places.RUNTIME, *(mount.target for mount in replica.mounts)]
    mounted = [paths.places_on(target, link_at)[-1] for target in targets]
    own_place = partial(paths.place_outside, mounted=mounted, link_at=link_at)
    found, wanted = _accounts_of(context, container, replica, passwd, (uid, gid))
    lacking = _account_entries(engine, container, (uid, gid), (found, wanted), own_place)
    home = home or accounts.home_of(wanted, uid)
    home_place = own_place(home) if context.network is not None and home.startswith("/") else None
    made = {entry.path for entry in lacking}
    if home_place is not None and (home_place in made or engine.has_path(container, home_place)):
        lacking += _for_other_clients(context, container, replica, home_place, (uid, gid), own_place)
    # Anything that the image has at this path or above it, and a mount, is not changed.
    if context.network is not None and own_place(places.JOB_HOSTFILE) == places.JOB_HOSTFILE:
        lacking += _for_deepspeed(engine, container)
    return Login(uid, gid, wanted, tuple(lacking))


def _accounts_of(
    context: Context, container: str, replica: Replica, passwd: str | None, ids: tuple[int, int]
) -> tuple[accounts.Accounts, accounts.Accounts]:
    """Return the accounts that a container has, and those that it needs. passwd, ids: of its file, and its user."""
    engine, (uid, gid) = context.engine, ids
    # The engine starts a program for each file, which takes longer than all checks.
    found = accounts.Accounts(passwd, engine.read_file(container, accounts.SHADOW) if uid == 0 else None)
    shell = "/bin/sh" if engine.has_path(container, "/bin/sh") else places.SHELL
    has = accounts.shell_of(found, uid)
    missing = has if has and not engine.has_path(container, has) else ""
    user = context.user_of(replica) or User(uid, gid)
    return found, accounts.ensure(found, accounts.Wanted(uid, gid, user.name, user.home), shell, missing)


def _account_entries(
    engine: Engine,
    container: str,
    ids: tuple[int, int],
    before_and_after: tuple[accounts.Accounts, accounts.Accounts],
    own_place: Callable[[str], str | None],
) -> list[Entry]:
    """Return the files of accounts that change, and the folders that they need. own_place: as in `_for_other_clients`.

    An account that was added gets its home; the others have what their image gives them.
    """
    found, wanted = before_and_after
    entries = [
        Entry(place, after, mode)
        for path, before, after, mode in (
            (accounts.PASSWD, found.passwd, wanted.passwd, 0o644),
            (accounts.SHADOW, found.shadow, wanted.shadow, 0o600),
        )
        if after is not None and after != before and (place := own_place(path)) is not None
    ]
    if ids[0] == 0:
        place = own_place(accounts.SERVER_FOLDER)
        return entries if place is None else [*entries, Entry(place, None, 0o755)]
    if accounts.name_of(found, ids[0]):
        return entries
    home = own_place(accounts.home_of(wanted, ids[0]))
    if home is None or engine.has_path(container, home):
        return entries
    return [*entries, *_folders_above(engine, container, home), Entry(home, None, 0o700, *ids)]


def _folders_above(engine: Engine, container: str, path: str) -> list[Entry]:
    """Return the folders above *path* that are missing, from the top. path: without links."""
    above = os.path.dirname(path)
    if above == "/" or engine.has_path(container, above):
        return []
    return [*_folders_above(engine, container, above), Entry(above, None, 0o755)]


def _for_deepspeed(engine: Engine, container: str) -> list[Entry]:
    """Return the list of replicas at the path of DeepSpeed's launcher, unless the image has anything there.

    An image with a file in place of the directory is not changed.
    """
    folder, path = os.path.dirname(places.JOB_HOSTFILE), places.JOB_HOSTFILE
    has_folder = engine.is_folder(container, folder)
    if has_folder is False or (has_folder and engine.is_folder(container, path) is not None):
        return []
    entries = [] if has_folder else [Entry(folder, None, 0o755)]
    return [*entries, Entry(path, "", 0o777, link=places.DEEPSPEED_HOSTFILE)]


def _for_other_clients(
    context: Context,
    container: str,
    replica: Replica,
    home: str,
    ids: tuple[int, int],
    own_place: Callable[[str], str | None],
) -> list[Entry]:
    """Return missing files for clients that do not read /etc/ssh, such as asyncssh, paramiko and libssh.

    They are plain files of the user, to which programs append. own_place: returns the real path, None if it does not
    belong to the container.
    """
    engine = context.engine
    folder = own_place(f"{home}/.ssh")
    if folder is None:
        return []
    is_new = not engine.has_path(container, folder)
    entries = [Entry(folder, None, 0o700, *ids)] if is_new else []
    made = context.directory.replica(replica.name) / "ssh"
    for name, of_session in (("config", "ssh_config"), ("known_hosts", "known_hosts")):
        path = own_place(f"{folder}/{name}")
        if path is None:
            continue
        if not is_new and engine.has_path(container, path) and not _is_ours(engine, container, path):
            continue
        text = f"{MADE_FOR} {context.plan.session.id}.\n{(made / of_session).read_text(encoding='utf-8')}"
        entries.append(Entry(path, text, 0o600, *ids))
    key = f"{folder}/{ssh_keys.CLIENT_KEY}"
    if own_place(key) is not None and (is_new or not engine.has_path(container, key)):
        entries.append(Entry(key, "", 0o777, *ids, link=f"{SSH_MOUNT}/{ssh_keys.CLIENT_KEY}"))
    return entries


def _is_ours(engine: Engine, container: str, path: str) -> bool:
    try:
        return (engine.read_file(container, path) or "").startswith(MADE_FOR)
    except EngineError:  # larger than any of ours
        return False


def image_user(passwd: str | None, user: str) -> tuple[int, int]:
    """Return uid and gid of an image's USER: empty, a name or a number, with or without ":group".

    passwd: the image's /etc/passwd. Raises EngineError if that file does not have the name, or a number is not valid.
    """
    name, _dummy, group = user.partition(":")
    if name in ("", "0", "root"):
        return 0, 0
    if accounts.is_number(name) and (not group.isdigit() or accounts.is_number(group)):
        return int(name), int(group) if group.isdigit() else 0
    for line in (passwd or "").splitlines():
        fields = line.split(":")
        if len(fields) >= 4 and fields[0] == name and all(map(accounts.is_number, fields[2:4])):
            return int(fields[2]), int(fields[3])
    raise EngineError(
        f"The image's user {show(user)} is not in its /etc/passwd, so its SSH keys have no owner. Set a USER that is "
        f"there, or a number up to {accounts.MAXIMUM}."
    )


def search_path(context: Context, replica: Replica) -> str:
    """Return the replica's PATH: launchers, then the user's or the image's PATH, then the SSH client."""
    own = context.environments[replica.name].get("PATH") or context.image_environment(replica).get("PATH")
    last = f":{places.SLURM}" if context.plan.request.get("slurm_variables") else ""
    return f"{places.LAUNCHERS}:{own or environment.DEFAULT_PATH}:{places.RUNTIME}/bin{last}"


def _is_in_runtime(path: str) -> bool:
    """Return whether this host's SSH runtime contains what a replica sees at *path*."""
    return os.path.exists(places.RUNTIME_ON_HOST + path[len(places.RUNTIME) :])

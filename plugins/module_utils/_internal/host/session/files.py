# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The non-secret files of a session on this host: those below /etc/cluster-compute in replicas, and names."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from ...adapters import ssh_keys
from ...adapters.engine import EngineError
from ...adapters.state import file_differs, make_directory, open_shared, write_file, write_in_place
from ...core.model.plan import Network, Replica
from ...core.model.record import PublicKeys
from ...core.rules import environment, names
from ...core.values import places
from ..names import read_text
from ..steps import Stage, Step
from .context import Context, digest
from .ssh import SSH_MOUNT, is_login_server, key_files, search_path, server_parts

MOUNTED_FILES = ("ssh_config", "profile")
"""Files that are mounted individually, like every /etc/hosts. A running replica sees a change only if the file is not
replaced."""


LARGEST_SHOWN = 1024**2


def file_steps(context: Context, public_keys: PublicKeys) -> Stage:
    """Return the files that are missing or differ."""
    steps = [_write_step(context.directory.host_file, f"{context.host}\n")]
    for replica in context.replicas:
        folder = context.directory.replica(replica.name)
        for name, content in _files(context, replica, public_keys).items():
            steps.append(step := _write_step(folder / name, content))
            context.written |= set() if step is None else {folder / name}
        if context.network is not None:
            own_names = _hosts_file(context, context.network, replica.name)
            steps.append(_write_step(context.directory.hosts_file(replica.name), own_names))
        if context.has_ssh:
            steps += _owner_steps(context, replica.name)
    if context.has_ssh:
        steps.append(_write_step(context.directory.public_keys_file, _public_keys_text(context, public_keys)))
    return [step for step in steps if step is not None]


def _public_keys_text(context: Context, public_keys: PublicKeys) -> str | None:
    """Return the content of the file with the public keys of all replicas. None if not all of them exist yet."""
    if not (_knows(context, public_keys, "client") and _knows(context, public_keys, "host")):
        return None
    return context.directory.public_keys_text({member.name: public_keys[member.name] for member in context.members})


def surplus_steps(context: Context) -> Stage:
    """Return the directories and keys to remove, of replicas that are no longer on this host.

    Those of a change by another run stay.
    """
    change = None if context.amendment is None else context.amendment.change_id
    if any(held.claim.amends == context.session.id and key != change for key, held in context.ledger.read().items()):
        return []
    wanted = {replica.name for replica in context.replicas}
    return [
        Step("remove", "files of replica", name, partial(context.directory.remove_replica, name), before="present")
        for name in context.directory.replica_names()
        if name not in wanted
    ]


def _knows(context: Context, public_keys: PublicKeys, kind: str) -> bool:
    """Return whether every replica has a public key of a kind. In check mode, new keys do not exist yet."""
    return all(public_keys.get(member.name, {}).get(kind) for member in context.members)


def _owner_steps(context: Context, name: str) -> Stage:
    """Set the owner of replaced keys to the user of an existing replica. A new replica gets its keys when it starts."""
    owner = context.directory.read_owner(name)
    return [
        Step("update", "owner of key", str(path), partial(os.chown, path, *owner), before=found, after=owner)
        for path in key_files(context, name)
        if owner is not None and path.exists() and (found := (path.stat().st_uid, path.stat().st_gid)) != owner
    ]


def _files(context: Context, replica: Replica, public_keys: PublicKeys) -> dict[str, str | None]:
    """Return the non-secret files of /etc/cluster-compute: relative path to content.

    The content is None if it depends on keys that check mode did not create.
    """
    values = context.environments[replica.name]
    path = search_path(context, replica)
    files: dict[str, str | None] = {
        "environment": environment.environment_file(values),
        "profile": environment.profile(path),
        "ssh/ssh_config": ssh_keys.client_configuration(context.members, SSH_MOUNT),
    }
    slots = [(member.name, environment.slots(member.resources.cpus)) for member in context.members]
    files["hostfile"] = environment.hostfile(slots)
    files["hostfile.mpich"] = environment.mpich_hostfile(slots)
    is_login = is_login_server(context, replica)
    owners = context.plan.request["authorized_keys"]
    if context.network is not None:
        trains = [(member.name, environment.processes(member.devices)) for member in context.members]
        files[os.path.basename(places.DEEPSPEED_HOSTFILE)] = environment.hostfile(trains)
        trusted = known = None
        if _knows(context, public_keys, "client"):
            trusted = ssh_keys.authorized_keys(context.members, public_keys, context.network.subnet)
            # A login that jumps through main1 comes from there.
            trusted += "" if is_login else ssh_keys.owner_keys(owners, context.members[0].address)
        if _knows(context, public_keys, "host"):
            known = ssh_keys.known_hosts(context.members, public_keys)
        files |= {"ssh/known_hosts": known, "ssh/authorized_keys": trusted}
    if is_login:
        files[f"ssh/{ssh_keys.OWNER_KEYS}"] = ssh_keys.owner_keys(owners)
    if context.has_ssh:
        variables = {**context.image_environment(replica), **values, "PATH": path}
        subnet = None if context.network is None else context.network.subnet
        files["ssh/sshd_config"] = ssh_keys.server_configuration(
            replica.address, is_login, SSH_MOUNT, variables, server_parts(context), subnet
        )
    return files


def _hosts_file(context: Context, network: Network, name: str) -> str:
    """Return the correct /etc/hosts of a replica. Lines that its programs have added stay if they do not conflict."""
    path, own = context.directory.hosts_file(name), names.hosts_file(context.members)
    try:
        found = read_text(path, len(own) + names.MOST_ADDED)
    except OSError:
        found = None
    return names.corrected(found, own, [member.name for member in context.members], network.subnet)


def _digest_of(path: Path) -> str:
    """Return a digest of a file for the diff, with a limit, because a replica may have made the file very large."""
    with open_shared(path) as file:
        found = file.read(LARGEST_SHOWN + 1)
    return digest(found) if len(found) <= LARGEST_SHOWN else f"larger than {LARGEST_SHOWN} bytes"


def _write_step(path: Path, content: str | None) -> Step | None:
    if content is not None and not file_differs(path, content, 0o644):
        return None

    def write() -> None:
        if content is None:
            raise EngineError(f"The file {path} cannot be written without the public keys of every replica.")
        make_directory(path.parent, 0o755)
        if (path.name in MOUNTED_FILES or path.suffix == ".hosts") and path.is_file() and not path.is_symlink():
            write_in_place(path, content)
        else:
            write_file(path, content)

    # Digests instead of contents, because the environment of a session may contain its user's secrets.
    before = _digest_of(path) if path.is_file() else None
    after = "made with the new keys" if content is None else digest(content.encode())
    return Step("update" if before else "create", "file", str(path), write, before=before, after=after)

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The owner's SSH client files for a session: ssh_config(5) and known_hosts for main1 and, through it, the others.

Every replica has two names: ``train.sub1``, which can be used beside other sessions, and ``sub1``. Host keys are stored
under the first one, whatever the address of main1, and no other key is accepted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from ..model.plan import Plan, Replica, read_plan
from ..model.record import ENDED, PENDING, PREPARING, Record, is_stub
from ..rules.access import Asker
from ..rules.environment import SSH_PORT
from ..values.errors import InvalidInput, show

CONFIGURATION = "config"
KNOWN_HOSTS = "known_hosts"
HEADING = "# The session "
"""Beginning of every configuration that was written here."""

_ADDRESS = re.compile(r"[A-Za-z0-9_.:-]+")
_USER = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.@$-]*")
_PUBLIC_KEY = re.compile(r"ssh-ed25519 [A-Za-z0-9+/=]+")


def check_login(record: Record | None, session_name: str, resource_group: str, asker: Asker) -> Record:
    """Return the record of a session that its owner can log in to from outside.

    record: the one of this name that was found. asker: the user who logs in. Raises InvalidInput for any other session,
    InvalidPlan for a malformed plan.
    """

    def refuse(why: str) -> InvalidInput:
        return InvalidInput.single("session_name", session_name, why)

    if record is None:
        raise refuse(f"The hosts of the resource group {resource_group} know no session of this name.")
    asker.check(session_name, record.owner, record.shared_with)
    if record.status == PENDING:
        raise refuse("The session waits in the queue; log in when it runs.")
    if record.status == PREPARING:
        raise refuse("The session is just being launched; log in when it runs.")
    if record.status in ENDED:
        raise refuse(f"The session has ended. {' '.join(record.report)}".strip())
    if is_stub(record):
        raise refuse(f"Its hosts {', '.join(record.hosts)} cannot be reached, or have lost its record.")
    if read_plan(record.plan, forgiving=True).ssh_port is None:
        raise refuse(
            "The session was launched without session_authorized_keys, so nobody can log in from outside. Launch it "
            "with them, and with session_recreate=true if it has to be the same session."
        )
    return record


def check_directory(directory: str, entries: Collection[str], configuration: str) -> None:
    """Reject a folder that other files or programs use: login writes two files to it and makes it private to its owner.

    entries: what is in it. configuration: the content of a file `CONFIGURATION` in it. Raises InvalidInput.
    """
    if entries and not configuration.startswith(HEADING):
        raise InvalidInput.single(
            "login_directory",
            directory,
            f"It holds other files, such as {min(entries)}, which stay as they are. Name a folder that is new, empty, "
            "or was written by login.",
        )


def client_files(
    plan: Plan,
    public_keys: Mapping[str, Mapping[str, str | None]],
    users: Mapping[str, str],
    address: str,
    directory: str,
    identity_file: str = "",
) -> dict[str, str]:
    """Return the two files for the folder *directory*, by name.

    public_keys: public keys of every replica. users: name of the user of each replica if it is known; for others the
    user of main1 is taken. address: where users reach the host of main1. identity_file: the owner's private key, if it
    is not one that SSH tries by itself.
    Raises InvalidInput for values that are missing, or that cannot be written in such a file.
    """
    session = plan.session.name
    names = [replica.name for replica in plan.replicas]
    _check_values(plan, public_keys, address, {"login_directory": directory, "login_identity_file": identity_file})
    lines = [
        f"{HEADING}{session} ({plan.session.id}).",
        f"# ssh -F {_quote(f'{directory}/{CONFIGURATION}')} {names[0]}",
    ]
    for replica in plan.replicas:
        lines += _host_lines(plan, replica, users.get(replica.name) or users.get(names[0]) or "", address)
    lines += [
        f"Host {' '.join(f'{session}.{name} {name}' for name in names)}",
        f"    UserKnownHostsFile {_quote(f'{directory}/{KNOWN_HOSTS}')}",
        "    GlobalKnownHostsFile none",
        "    StrictHostKeyChecking yes",
        "    HostKeyAlgorithms ssh-ed25519",
        "    UpdateHostKeys no",
        "    PreferredAuthentications publickey",
        "    ForwardAgent no",
    ]
    if identity_file:
        lines.append(f"    IdentityFile {_quote(identity_file)}")
    known = [f"{session}.{name} {public_keys[name]['host']}" for name in names]
    return {
        CONFIGURATION: "".join(f"{line}\n" for line in lines),
        KNOWN_HOSTS: "".join(f"{line}\n" for line in known),
    }


def _check_values(
    plan: Plan, public_keys: Mapping[str, Mapping[str, str | None]], address: str, paths: Mapping[str, str]
) -> None:
    """Raise InvalidInput for values that are missing, or that cannot be written. paths: by variable."""
    host = plan.replicas[0].host
    if not _ADDRESS.fullmatch(address):
        raise InvalidInput.single(
            f"cluster_compute_login_address of host {host}", address, "It must be a name or an address of the host."
        )
    for variable, path in paths.items():
        if '"' in path or not path.isprintable():
            raise InvalidInput.single(variable, path, "SSH takes no path with quotes or characters that do not print.")
    unknown = [
        replica.name
        for replica in plan.replicas
        if not _PUBLIC_KEY.fullmatch(str(public_keys.get(replica.name, {}).get("host")))
    ]
    if unknown:
        raise InvalidInput.single(
            "session_name",
            plan.session.name,
            f"No host knows the host key of {', '.join(unknown)}. Run the repair playbook.",
        )


def _host_lines(plan: Plan, replica: Replica, user: str, address: str) -> list[str]:
    """Return the lines of one replica. address: as of `client_files`. Raises InvalidInput for an invalid user."""
    session, name = plan.session.name, replica.name
    if not _USER.fullmatch(user):
        why = f"The user of {name} is {show(user)}, not a login name."
        raise InvalidInput.single("session_image", replica.image, why)
    lines = [f"Host {session}.{name} {name}", f"    User {user}", f"    HostKeyAlias {session}.{name}"]
    if replica.rank == 0:
        return [*lines, f"    HostName {address}", f"    Port {plan.ssh_port}"]
    jump = f"    ProxyJump {session}.{plan.replicas[0].name}"
    return [*lines, f"    HostName {replica.address}", f"    Port {SSH_PORT}", jump]


def _quote(path: str) -> str:
    """Return a path in the syntax of ssh_config(5), where % begins a token."""
    escaped = path.replace("%", "%%")
    return f'"{escaped}"'

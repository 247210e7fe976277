# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Make and read the SSH keys of a session's replicas, and write the files that make its trust complete.

Every replica has a client key and a host key of its own, ed25519, made on the host that runs it. Private keys never
leave that host; only the public keys travel (authorized_keys and known_hosts formats: sshd(8)).
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.model.record import PublicKeys
from ..core.rules.environment import LOGIN_PORT, SSH_PORT
from ..core.values.errors import SessionError
from ..core.values.ports import EVERY_ADDRESS
from .state import file_differs, make_directory, write_file

if TYPE_CHECKING:
    from ..core.model.plan import Replica

try:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
        load_ssh_private_key,
    )
except ImportError:
    CRYPTOGRAPHY_IMPORT_ERROR: str | None = traceback.format_exc()
else:
    CRYPTOGRAPHY_IMPORT_ERROR = None

CLIENT_KEY = "id_ed25519"
HOST_KEY = "ssh_host_ed25519_key"
OWNER_KEYS = "owner_keys"
"""The file with the keys that open main1's port for its owner, and no other port."""
MAXIMUM_LOGINS = 4096
MAXIMUM_TRIES = 20
"""Keys that an owner's client may offer one after another, as an agent with many does; OpenSSH's own limit is 6."""
MAXIMUM_STARTUPS = 64
"""Connections from one address that have not logged in yet; everybody who reaches the host can open some."""


class KeyFileError(SessionError):
    """A key file cannot be used; the message names it."""


def read_public_key(path: Path) -> str | None:
    """Return "ssh-ed25519 AAAA…" of the private key in *path*, or None where there is no such file.

    Raises KeyFileError if the file holds no ed25519 private key.
    """
    try:
        key = load_ssh_private_key(path.read_bytes(), password=None)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise KeyFileError(
            f"The key file {path} holds no usable private key ({error}). Launch again with "
            "session_regenerate_keys=true to replace the keys of this session."
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyFileError(f"The key file {path} holds a key of another type than ed25519.")
    return _public_text(key)


def create_key(path: Path) -> str:
    """Make a new key pair in *path* (0600) and *path*.pub, and return the public key."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode("ascii")
    public = _public_text(key)
    make_directory(path.parent, 0o755)
    write_file(path, private, mode=0o600)
    write_file(path.with_name(path.name + ".pub"), public + "\n", mode=0o644)
    return public


def _public_text(key: Ed25519PrivateKey) -> str:
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode("ascii")


def converge_keys(directory: Path, regenerate: bool, check_mode: bool) -> tuple[dict[str, str | None], list[str]]:
    """Make the two keys of one replica in *directory* if they are missing, or new ones with *regenerate*.

    Returns the public keys {"client", "host"} (None for a key which only check mode kept from being made) and the
    names of the keys that were, or would be, made. Raises KeyFileError if the library that makes keys is missing.
    """
    if CRYPTOGRAPHY_IMPORT_ERROR is not None:
        raise KeyFileError(
            "The Python library cryptography is not installed for the interpreter Ansible uses on this host. Run the "
            "prepare_hosts playbook, or install the package python3-cryptography."
        )
    public: dict[str, str | None] = {}
    made: list[str] = []
    for kind, name in (("client", CLIENT_KEY), ("host", HOST_KEY)):
        path = directory / name
        known = None if regenerate else read_public_key(path)
        if known is None:
            made.append(name)
            known = None if check_mode else create_key(path)
        elif file_differs(path.with_name(name + ".pub"), known + "\n", 0o644):
            made.append(name + ".pub")
            if not check_mode:
                write_file(path.with_name(name + ".pub"), known + "\n", mode=0o644)
        public[kind] = known
    return public, made


def known_hosts(peers: Iterable[Replica], public_keys: PublicKeys) -> str:
    """Return the known_hosts file of a session: every replica by name and by address, with the port and without."""
    lines = []
    for peer in peers:
        names = [peer.name, str(peer.address)]
        names += [f"[{name}]:{SSH_PORT}" for name in names]
        lines.append(f"{','.join(names)} {public_keys[peer.name]['host']}\n")
    return "".join(lines)


def authorized_keys(peers: Iterable[Replica], public_keys: PublicKeys, subnet: str) -> str:
    """Return the authorized_keys file of a session: every replica's client key, from the session's subnet only."""
    return "".join(f'from="{subnet}" {public_keys[peer.name]["client"]} {peer.name}\n' for peer in peers)


def owner_keys(keys: Iterable[str], source: str | None = None) -> str:
    """Return the lines of authorized_keys for the session's owner, from the address *source* if given."""
    limit = f'from="{source}" ' if source else ""
    return "".join(f"{limit}{key}\n" for key in keys)


def client_configuration(peers: Sequence[Replica], directory: str) -> str:
    """Return the ssh_config(5) with which ``ssh sub1`` finds its key, checks the host and never prompts.

    Without peers it is empty.
    """
    if len(peers) < 2:
        return "Host *\n"
    names = " ".join(f"{peer.name} {peer.address}" for peer in peers)
    return (
        f"Host {names}\n"
        f"    Port {SSH_PORT}\n"
        f"    IdentityFile {directory}/{CLIENT_KEY}\n"
        "    IdentitiesOnly yes\n"
        f"    GlobalKnownHostsFile {directory}/known_hosts\n"
        f"    UserKnownHostsFile {directory}/known_hosts\n"
        "    StrictHostKeyChecking yes\n"
        "    UpdateHostKeys no\n"
        "    HostKeyAlgorithms ssh-ed25519\n"
        "    BatchMode yes\n"
        "    ConnectTimeout 10\n"
        "Host *\n"
    )


def server_configuration(
    address: str | None,
    is_login: bool,
    directory: str,
    environment: Mapping[str, str],
    parts: Mapping[str, str],
    subnet: str | None,
) -> str:
    """Return the sshd_config(5) of one replica: its key, its address, its environment, only logins with keys.

    address: in the session; None for a single replica. is_login: whether the session's owner logs in here, on a port
    of its own, which accepts none of the session's keys. parts: settings that name programs the server consists of,
    none for OpenSSH before 9.8. subnet: that of the session; None for a single replica.
    A line break cannot be written in sshd_config, so a variable with one in its value is only in the environment file.
    """
    settings = "".join(f"{name} {path}\n" for name, path in parts.items())
    if parts and subnet is not None:
        # The release that split the server also locks out an address after a few failed or broken logins: a replica
        # that tried the wrong key would be kept from its own session.
        settings += f"PerSourcePenaltyExemptList {subnet}\n"
    values = " ".join(_quote(f"{name}={value}") for name, value in sorted(environment.items()) if "\n" not in value)
    listeners = [f"{address}:{SSH_PORT}"] if address is not None else []
    listeners += [f"{EVERY_ADDRESS}:{LOGIN_PORT}"] if is_login else []
    peers = f"{directory}/authorized_keys" if address is not None else "none"
    return (
        "".join(f"ListenAddress {listener}\n" for listener in listeners) + f"HostKey {directory}/{HOST_KEY}\n"
        f"AuthorizedKeysFile {peers}\n"
        # All these files are mounted read-only; the owner of the image's own folders does not matter for them.
        "StrictModes no\n"
        f"{settings}"
        "AuthenticationMethods publickey\n"
        "PasswordAuthentication no\n"
        "KbdInteractiveAuthentication no\n"
        "PermitRootLogin prohibit-password\n"
        "PidFile none\n"
        "PrintMotd no\n"
        # The first replica of a large session logs in to all others at once, or all others to it.
        f"MaxStartups {MAXIMUM_LOGINS}\n"
        f"MaxSessions {MAXIMUM_LOGINS}\n"
        "Subsystem sftp internal-sftp\n"
        f"SetEnv {values}\n"
    ) + (_LOGIN.format(keys=f"{directory}/{OWNER_KEYS}") if is_login else "")


_LOGIN = f"""\
PerSourceMaxStartups {MAXIMUM_STARTUPS}
Match LocalPort {LOGIN_PORT}
    AuthorizedKeysFile {{keys}}
    MaxAuthTries {MAXIMUM_TRIES}
"""


def _quote(text: str) -> str:
    """Quote one argument in the syntax of sshd_config(5)."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Run commands in a replica, through the site's connection to the replica's host and docker exec there.

The connection to the host is the one that the site's inventory defines, with its user, port, key, proxy and become. A
replica can therefore be reached from wherever its host can, and one kept SSH connection serves all replicas of a host.
The image needs only a shell, because files are copied through standard input and output.
"""

from __future__ import annotations

DOCUMENTATION = r"""
name: replica
short_description: Run tasks in a replica of a session
version_added: 1.0.0
description:
  - Runs commands with C(docker exec) on the replica's host. The connection to the host, including privilege escalation,
    is the one that the site's inventory defines. Needs the Docker command-line client on the host and C(/bin/sh) in the
    image.
  - Files are copied through standard input and output, with C(cat) and C(dd) of the image.
  - The inventory plugin P(cluster_compute.session.sessions#inventory) sets the variables that this connection needs for
    each replica.
  - C(become) of a task is applied in the replica, where it works only without a password. O(container_user) does not
    need any program in the image.
author: The cluster_compute.session authors (@cluster-compute)
options:
  container:
    description: Name of the replica's container.
    type: str
    required: true
    vars:
      - name: cluster_compute_container
  container_user:
    description: User, or user and group, to run commands as. The default is the user of the replica.
    type: str
    vars:
      - name: cluster_compute_user
  host_variables:
    description:
      - Variables of the replica's host that its connection and privilege escalation read, including
        C(inventory_hostname).
    type: dict
    required: true
    vars:
      - name: cluster_compute_host_variables
  pipelining:
    description: Whether to run modules without copying them into the replica first.
    type: bool
    default: true
    vars:
      - name: ansible_pipelining
"""

EXAMPLES = r"""
- name: Run a task in the replicas of a session, which the inventory plugin lists
  hosts: session_train
  gather_facts: false
  tasks:
    - name: Show the memory of each
      ansible.builtin.command: free -m
      changed_when: false
"""

import copy
import os
import random
import shlex
import time
from typing import Any

from ansible import constants as C
from ansible.errors import AnsibleConnectionFailure, AnsibleError, AnsibleFileNotFound
from ansible.module_utils.common.text.converters import to_bytes, to_native
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.connection import ConnectionBase
from ansible.plugins.loader import become_loader, connection_loader
from ansible.utils.display import Display
from ansible_collections.cluster_compute.session.plugins.action.session_host import PAUSE, PROXIED, TRIES, TURNED_AWAY
from ansible_collections.cluster_compute.session.plugins.plugin_utils.any_shell import with_input

LONGEST = 1536 * 1024
"""Maximum number of bytes of a command. All arguments and variables of a program are limited to 2 MiB (execve(2))."""
WORD = 30_000
"""Maximum number of characters of an argument. The kernel accepts 128 KiB (execve(2), MAX_ARG_STRLEN)."""
JOINING = 'unset cc cc_word; for cc_word do cc=$cc$cc_word; shift; done; unset cc_word; eval "$cc"'
"""Runs a command that is given in several words in the replica."""
CHUNK = 32 * 1024**2
"""Bytes of a file to copy with one command. All of them are held in memory."""
NOT_RUNNING = "cluster-compute: this container does not run here"
"""Added by the command on the host if it failed for a reason other than the command in the replica."""
BEGINS = "cluster-compute: this is where the replica's output begins"
"""Written first by the command on the host. Text before it comes from the host's login shell, or from become there."""
INSPECT = "docker container inspect --format '{{.State.Running}}'"


def host_command(container: str, command: str, user: str | None, content: bytes | None) -> tuple[str, bytes | None]:
    """Return the command for any shell of the host that runs the shell command *command* in a container, and its input.

    content: the command's own input. The returned command writes `BEGINS` and ends with the exit code of *command*. If
    it fails and the container does not run (any more), it writes `NOT_RUNNING`, because docker exec has no exit code
    for that.
    """
    argv = ["docker", "exec"]
    argv += ["-i"] if content else []
    argv += ["-u", user] if user else []
    words = [command[place : place + WORD] for place in range(0, len(command), WORD)]
    argv += [container, "/bin/sh", "-c", *([command] if len(words) < 2 else [JOINING, "/bin/sh", *words])]
    inspect = f'"$({INSPECT} {shlex.quote(container)} 2>/dev/null)"'
    ends = f"code=$?; [ $code = 0 ] || [ {inspect} = true ] || echo {NOT_RUNNING!r} >&2; exit $code"
    return with_input(f'echo "{BEGINS}"; {shlex.join(argv)}; {ends}', content)


def replica_output(output: bytes) -> bytes | None:
    """Extract the output of a replica from the output of its host. None if the host ran nothing."""
    _before, found, after = output.partition(f"{BEGINS}\n".encode())
    return after if found else None


class Connection(ConnectionBase):  # type: ignore[misc]
    """The connection to one replica."""

    transport = "cluster_compute.session.replica"
    has_pipelining = True

    _host: Any = None
    _host_become: Any = None

    def _connect(self) -> Connection:
        """Create the connection to the host, which connects at its first use."""
        if self._host is not None:
            return self
        # A terminal would merge the streams and change the ends of lines.
        variables = {**self.get_option("host_variables"), "ansible_ssh_use_tty": False}
        kind = variables.get("ansible_connection") or C.DEFAULT_TRANSPORT
        name = variables.get("inventory_hostname")
        context = copy.copy(self._play_context)
        context.connection, context.remote_addr = kind, variables.get("ansible_host") or name
        context.remote_user = context.port = None
        host = connection_loader.get(kind, context, os.devnull)
        if host is None:
            raise AnsibleError(f"The connection {kind} of host {name} was not found.")
        keys: dict[str, Any] = {"timeout": context.timeout}
        if context.password:
            keys["password"] = context.password
        host.set_options(task_keys=keys, var_options=variables)
        wanted = variables.get("ansible_become")
        if boolean(C.DEFAULT_BECOME if wanted is None else wanted):
            method = variables.get("ansible_become_method") or C.DEFAULT_BECOME_METHOD
            become = become_loader.get(method)
            if become is None:
                raise AnsibleError(f"The become method {method} of host {name} was not found.")
            keys = {"become_pass": context.become_pass} if context.become_pass else {}
            become.set_options(task_keys=keys, var_options=variables)
            host.set_become_plugin(become)
            self._host_become = become
        self._host = host
        self._connected = True
        return self

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> tuple[int, bytes, bytes]:
        """Run a shell command in the replica; return its exit code, standard output and error.

        Raises AnsibleConnectionFailure if the host cannot be reached, ran nothing, or does not run the container, and
        AnsibleError if the command is too long.
        """
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        container = self.get_option("container")
        size = len(to_bytes(cmd))
        if size > LONGEST:
            raise AnsibleError(
                f"The command for {container} has {size} bytes, and a replica takes {LONGEST}. Copy it there as a "
                "file, and run that."
            )
        command, given = host_command(container, to_native(cmd), self.get_option("container_user"), in_data)
        host = self.get_option("host_variables").get("inventory_hostname")
        code, written, err = self._run_on_host(command, given)
        out = replica_output(written)
        if out is None:
            reason = to_native(err + written, errors="surrogate_or_replace").strip() or "it wrote nothing"
            raise AnsibleConnectionFailure(
                f"Nothing was run in the container {container}, because the login shell or become on {host} ended with "
                f"code {code}: {reason}. Check what the shell of the host's user does with a command."
            )
        if code != 0 and to_bytes(NOT_RUNNING) in out + err:
            reason = to_native(err or out, errors="surrogate_or_replace").replace(NOT_RUNNING, "").strip()
            raise AnsibleConnectionFailure(f"The container {container} does not run on {host}: {reason}")
        return code, out, err

    def _run_on_host(self, command: str, in_data: bytes | None) -> tuple[int, bytes, bytes]:
        """Run a shell command on the host, and try again if its SSH server was too busy to accept the connection."""
        for number in range(1, TRIES + 1):
            argv = command
            if self._host_become is not None:
                argv = self._host_become.build_become_command(command, self._host._shell)
            try:
                code, out, err = self._host.exec_command(argv, in_data=in_data, sudoable=True)
            except AnsibleConnectionFailure as error:
                if TURNED_AWAY not in str(error) or PROXIED in str(error) or number == TRIES:
                    raise
                Display().v("The SSH server is too busy and turned the connection away; trying again.")
                time.sleep(number * random.uniform(*PAUSE))  # noqa: S311 - spreads tries, guards no secret
                continue
            return int(code), out, err
        raise AssertionError("The last try returns or raises.")

    def put_file(self, in_path: str, out_path: str) -> None:
        """Copy a file into the replica."""
        super().put_file(in_path, out_path)
        if not os.path.exists(to_bytes(in_path, errors="surrogate_or_strict")):
            raise AnsibleFileNotFound(f"There is no file {in_path}.")
        target = shlex.quote(out_path)
        with open(to_bytes(in_path, errors="surrogate_or_strict"), "rb") as file:
            chunk = file.read(CHUNK)
            self._transfer(f"cat > {target}" if chunk else f": > {target}", chunk or None)
            while chunk := file.read(CHUNK):
                self._transfer(f"cat >> {target}", chunk)

    def fetch_file(self, in_path: str, out_path: str) -> None:
        """Copy a file out of the replica."""
        super().fetch_file(in_path, out_path)
        source, block = shlex.quote(in_path), 1024**2
        with open(to_bytes(out_path, errors="surrogate_or_strict"), "wb") as file:
            for position in range(0, 2**63, CHUNK):
                read = f"dd if={source} bs={block} skip={position // block} count={CHUNK // block}"
                chunk = self._transfer(read, None)
                file.write(chunk)
                if len(chunk) < CHUNK:
                    return

    def _transfer(self, command: str, in_data: bytes | None) -> bytes:
        code, out, err = self.exec_command(command, in_data=in_data, sudoable=False)
        if code != 0:
            raise AnsibleError(f"A file could not be copied, by {command!r}: {to_native(err).strip()}")
        return out

    def reset(self) -> None:
        """Drop the connection to the host, so that the next command creates a new one."""
        self._connect()
        if hasattr(self._host, "reset"):
            self._host.reset()
        self.close()

    def close(self) -> None:
        """End the connection to the host."""
        if self._host is not None:
            self._host.close()
        self._host = self._host_become = None
        self._connected = False

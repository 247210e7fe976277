# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The description of its session that every replica gets: environment variables, hostfiles, and the same as a file.

Names and form of the values follow Backend.AI's cluster sessions, byte for byte (see docs). ``RANK``, ``NODE_RANK``,
the pinning of the session's interface and the variables of launchers are additions for programs that need them.
`CONTRACT_NAMES` is the one list of names that a user's own variables may not take; for `ADVICE_NAMES` a user's own
value wins.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from ..values.deferred import dataclass
from ..values.environment_names import (
    CONTRACT_NAMES,
    ENVIRONMENT_NAME,
    INTERFACE_NAMES,
    LAUNCHER_NAMES,
    SLURM_NAMES,
    TRIM_DOMAINS,
)
from ..values.places import FABRIC, HOSTFILE, MPICH_HOSTFILE, RUNTIME
from ..values.resources import PINNED, is_nvidia_uuid

if TYPE_CHECKING:
    from ..model.plan import Plan, Replica

SSH_PORT = 2200
"""Port of a replica's SSH server: not 22, where an image may have a server of its own."""
LOGIN_PORT = 2201
"""Port of main1's SSH server for the session's owner; it is published on main1's host."""
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH of an image that sets none, as in Docker Engine."""


MPI_SETTINGS = (
    # Open MPI 4 reads the first, Open MPI 5 (PRRTE) ignores it and reads the second.
    ("OMPI_MCA_orte_default_hostfile", HOSTFILE),
    ("PRTE_MCA_prte_default_hostfile", HOSTFILE),
    ("HYDRA_HOST_FILE", MPICH_HOSTFILE),
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    # Replicas share the cores of a host by quota: binding would put every replica on the first cores, and Open MPI 5
    # fails if a replica has more slots than it sees cores.
    ("OMPI_MCA_hwloc_base_binding_policy", "none"),
    ("PRTE_MCA_hwloc_default_binding_policy", "none"),
)

NO_SINGLE_COPY = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_MCA_smsc": "^cma"}
"""Settings that keep Open MPI 4, and 5, from reading the memory of another process (process_vm_readv(2)). They are set
only if that is not permitted: longer messages would fail with "Read -1, expected …, errno = 1"."""


NO_CARD = "void"
"""Keeps NVIDIA's runtime from adding anything. Images set ``all``, and with that runtime as the engine's default they
would see every GPU of the host."""


ADVICE_NAMES: frozenset[str] = frozenset(
    (
        *LAUNCHER_NAMES,
        *INTERFACE_NAMES,
        *SLURM_NAMES,
        *(name for name, value in MPI_SETTINGS),
        *NO_SINGLE_COPY,
        TRIM_DOMAINS,
    )
)
"""Defaults for programs that find no better value themselves. A user's own value wins, as for a faster fabric."""

CUDA_DEVICES = "CUDA_VISIBLE_DEVICES"
"""Set if a replica has NVIDIA GPUs and the user has not set it."""


@dataclass(frozen=True)
class SessionEnvironment:
    """The part of the environment that all replicas of a session have in common.

    mode: the effective mode. replicas: all names in rank order, main first. roles: (role, number of replicas), main
    first. interface: name of the session's interface in every replica, None for a session of one replica. slurm:
    whether the session is to look like a job of Slurm.
    """

    session_id: str
    mode: str
    replicas: tuple[str, ...]
    roles: tuple[tuple[str, int], ...]
    master_port: int
    interface: str | None
    slurm: bool = False
    _shared: dict[str, str] = field(init=False, repr=False, compare=False)
    _advice: dict[str, str] = field(init=False, repr=False, compare=False)
    _tf_cluster: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Made once per session: with thousands of replicas the lists of names are long.
        shared = {
            "BACKENDAI_CLUSTER_SIZE": str(len(self.replicas)),
            "BACKENDAI_CLUSTER_HOSTS": ",".join(self.replicas),
            "BACKENDAI_CLUSTER_REPLICAS": ",".join("{}:{}".format(*role) for role in self.roles),
            "BACKENDAI_CLUSTER_MODE": self.mode,
            "BACKENDAI_SESSION_ID": self.session_id,
            "WORLD_SIZE": str(len(self.replicas)),
            "MASTER_ADDR": self.replicas[0],
            "MASTER_PORT": str(self.master_port),
        }
        object.__setattr__(self, "_shared", shared)
        advice = {
            **dict(MPI_SETTINGS),
            "PET_NNODES": shared["WORLD_SIZE"],
            "PET_MASTER_ADDR": shared["MASTER_ADDR"],
            "PET_MASTER_PORT": shared["MASTER_PORT"],
        }
        if self.interface is not None:
            advice.update((name, self.interface) for name in INTERFACE_NAMES)
            advice[TRIM_DOMAINS] = "."
        if self.slurm:
            advice.update(_slurm_job(self.session_id, self.replicas))
        workers = [f"{name}:{self.master_port}" for name in self.replicas]
        object.__setattr__(self, "_advice", advice)
        object.__setattr__(self, "_tf_cluster", json.dumps({"worker": workers}))


def _slurm_job(session_id: str, replicas: Sequence[str]) -> dict[str, str]:
    """Return the variables of all tasks of a Slurm job with a task on each replica; its number follows from the id."""
    nodes, size = ",".join(replicas), str(len(replicas))
    counts = ("JOB_NUM_NODES", "STEP_NUM_NODES", "NNODES", "NTASKS", "NPROCS")
    each = f"1(x{size})" if len(replicas) > 1 else "1"
    return {
        "SLURM_JOB_ID": str(int(session_id[:7], 16)),
        "SLURM_JOB_NODELIST": nodes,
        "SLURM_STEP_NODELIST": nodes,
        **{f"SLURM_{name}": size for name in counts},
        "SLURM_NTASKS_PER_NODE": "1",
        "SLURM_TASKS_PER_NODE": each,
        "SLURM_STEP_TASKS_PER_NODE": each,
        "SLURM_LOCALID": "0",
        "HYDRA_LAUNCHER": "ssh",
        "I_MPI_HYDRA_BOOTSTRAP": "ssh",
    }


def replica_environment(
    session: SessionEnvironment,
    replica: Replica,
    user: Mapping[str, str] | None = None,
    single_copy: bool = True,
) -> dict[str, str]:
    """Return every variable of one replica, the user's own included.

    single_copy: whether its processes may read each other's memory.
    ``BACKENDAI_CLUSTER_LOCAL_RANK`` is the global rank, as in Backend.AI, whatever its name suggests.
    Raises ValueError if a user's variable takes a name of the contract (a request is checked long before).
    """
    taken = sorted(CONTRACT_NAMES.intersection(user or {}))
    if taken:
        raise ValueError("{} is set by the collection and cannot be set by the user.".format(", ".join(taken)))
    rank = str(replica.rank)
    environment = {
        **session._advice,
        "PET_NODE_RANK": rank,
        "PET_NPROC_PER_NODE": str(processes(replica.devices)),
        **(dict.fromkeys(("SLURM_PROCID", "SLURM_NODEID"), rank) if session.slurm else {}),
        **({"SLURMD_NODENAME": replica.name} if session.slurm else {}),
        **({} if single_copy else NO_SINGLE_COPY),
        **(user or {}),
    }
    names = [name for device_names in replica.devices.values() for name in device_names]
    cards = sum(is_nvidia_uuid(name) or name.startswith("nvidia.com/") for name in names)
    if cards:
        # CUDA numbers a container's GPUs from 0 on; some programs read only numbers. Users may narrow the list down.
        environment.setdefault(CUDA_DEVICES, ",".join(map(str, range(cards))))
    environment.update(session._shared)
    environment.update(
        {
            "BACKENDAI_CLUSTER_HOST": replica.name,
            "BACKENDAI_CLUSTER_IDX": str(replica.index),
            "BACKENDAI_CLUSTER_ROLE": replica.role,
            "BACKENDAI_CLUSTER_LOCAL_RANK": rank,
            "BACKENDAI_KERNEL_ID": replica.kernel_id,
            "WORLD_RANK": rank,
            "RANK": rank,
            "LOCAL_RANK": str(replica.local_rank),
            "NODE_RANK": str(replica.node_rank),
            "CLUSTER_COMPUTE_HOST": replica.host,
            "NVIDIA_VISIBLE_DEVICES": ",".join(filter(is_nvidia_uuid, names)) or NO_CARD,
            "TF_CONFIG": f'{{"cluster": {session._tf_cluster}, "task": {{"type": "worker", "index": {rank}}}}}',
        }
    )
    return environment


def permits_single_copy(capabilities: Collection[str], is_filtered: bool, scope: str | None) -> bool:
    """Tell whether processes of a replica may read each other's memory (process_vm_readv(2)).

    capabilities: those that the replica has beyond the usual ones. is_filtered: whether the engine's filter of system
    calls denies this without SYS_PTRACE, as that of Docker Engine 20.10 does. scope: the host's
    ``kernel.yama.ptrace_scope``; from 2 on it requires that capability, and from 3 on it denies this altogether. None
    if the host has none. (With 1 Open MPI requests the permission by itself.)
    """
    if "SYS_PTRACE" in capabilities:
        return scope != "3"
    return not is_filtered and scope not in ("2", "3")


def environments(
    plan: Plan, host: str, single_copy: Callable[[Replica], bool] = lambda _replica: True
) -> dict[str, dict[str, str]]:
    """Return the variables of every replica that *plan* gives to *host*: name to environment.

    single_copy: whether processes of a replica may read each other's memory, which only the host knows.
    They follow from the plan and are made when they are needed: a plan that carried them would grow with the square of
    the session's size, because several of them name every replica.
    """
    request = plan.request
    session = SessionEnvironment(
        session_id=plan.session.id,
        mode=plan.session.mode,
        replicas=tuple(replica.name for replica in plan.replicas),
        roles=tuple((role["name"], role["replicas"]) for role in request["roles"]),
        master_port=request["master_port"],
        interface=None if plan.network is None else plan.network.interface,
        slurm=bool(request.get("slurm_variables")),
    )
    user = {role["name"]: role["env"] for role in request["roles"]}
    return {
        replica.name: replica_environment(session, replica, user[replica.role], single_copy(replica))
        for replica in plan.on(host)
    }


def processes(devices: Mapping[str, Sequence[str]]) -> int:
    """Return how many processes a replica with these devices, by class, starts: one for each GPU, and at least one.

    CPUs do not count, as processes share them; nor do the ports of a fabric, whose device files are below `FABRIC`.
    """
    names = [name for kind, found in devices.items() if kind != PINNED for name in found]
    return sum(not all(path.startswith(FABRIC) for path in name.split("+")) for name in names) or 1


def slots(cpus: int) -> int:
    """Return the MPI slots of a replica with so many millicpus: one for each whole CPU, and at least one."""
    return max(1, cpus // 1000)


def hostfile(replicas: Sequence[tuple[str, int]]) -> str:
    """Return the hostfile of Open MPI, PRRTE or DeepSpeed for (name, slots) in rank order: ``main1 slots=1``."""
    return "".join("{} slots={}\n".format(*pair) for pair in replicas)


def mpich_hostfile(replicas: Sequence[tuple[str, int]]) -> str:
    """Return the hostfile of MPICH and Intel MPI for (name, slots) in rank order: ``main1:1``."""
    return "".join("{}:{}\n".format(*pair) for pair in replicas)


def profile(path: str) -> str:
    """Return the text by which a login shell finds all that the replica's other programs find by *path*, their PATH.

    Folders that no image has anyway stay first or last; between them is what the profile set.
    """
    default = DEFAULT_PATH.split(":")
    folders = path.split(":")
    begin = next((number for number, folder in enumerate(folders) if folder in default), len(folders))
    before, after = folders[:begin], [folder for folder in folders[begin:] if folder not in default]
    parts = [shlex.quote(":".join(part)) for part in (before, after) if part]
    parts.insert(bool(before), '"$PATH"')
    return (
        "# Login shells begin PATH anew; this is what the session and the image add to it.\n"
        f'case ":$PATH:" in\n*:{RUNTIME}/bin:*) ;;\n'
        f"*) export PATH={':'.join(parts)} ;;\nesac\n"
    )


def environment_file(environment: Mapping[str, str]) -> str:
    """Return a file that any POSIX shell can source: ``export NAME='value'``, sorted by name.

    Every value is in single quotes, in which the shell expands nothing; a value may span lines.
    Raises ValueError for a malformed name, or a value that contains a NUL character.
    """
    lines = []
    for name in sorted(environment):
        value = environment[name]
        if ENVIRONMENT_NAME.fullmatch(name) is None or "\0" in value:
            raise ValueError(f"The variable {name!r} cannot be written to an environment file.")
        lines.append("export {}='{}'\n".format(name, value.replace("'", "'\\''")))
    return "".join(lines)

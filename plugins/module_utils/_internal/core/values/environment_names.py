# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Names of the environment variables that a session sets, and the form of such a name."""

from __future__ import annotations

import re

ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""A portable name of an environment variable, as defined by POSIX (lower case allowed)."""

SEED_NAMES = (
    "BACKENDAI_CLUSTER_SIZE",
    "BACKENDAI_CLUSTER_HOSTS",
    "BACKENDAI_CLUSTER_REPLICAS",
    "BACKENDAI_CLUSTER_HOST",
    "BACKENDAI_CLUSTER_IDX",
    "BACKENDAI_CLUSTER_MODE",
    "BACKENDAI_CLUSTER_ROLE",
    "BACKENDAI_CLUSTER_LOCAL_RANK",
    "BACKENDAI_KERNEL_ID",
    "BACKENDAI_SESSION_ID",
    "WORLD_SIZE",
    "WORLD_RANK",
    "LOCAL_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TF_CONFIG",
)
"""The variables that Backend.AI documents."""

INTERFACE_NAMES = (
    "GLOO_SOCKET_IFNAME",
    "NCCL_SOCKET_IFNAME",
    "TP_SOCKET_IFNAME",
    "UCX_NET_DEVICES",
    "OMPI_MCA_btl_tcp_if_include",
    "OMPI_MCA_oob_tcp_if_include",
    "PRTE_MCA_prte_if_include",
)
"""The variables that hold the name of the session's interface; set only if there is a session network."""

TRIM_DOMAINS = "RESOLV_ADD_TRIM_DOMAINS"
"""The ending that the C library removes from the names that it finds (host.conf(5)): here the dot at the end of those
that /etc/hosts has for mapped addresses. Set only if there is a session network."""

LAUNCHER_NAMES = (
    "PET_NNODES",
    "PET_NODE_RANK",
    "PET_NPROC_PER_NODE",
    "PET_MASTER_ADDR",
    "PET_MASTER_PORT",
)
"""The variables that torchrun uses where its flags are not given (torch.distributed.argparse_util): one job of all
replicas. Without a named rendezvous torchrun uses the static one: ranks are those of the replicas, and a given
--master-addr wins."""

SLURM_NAMES = (
    "SLURM_JOB_ID",
    "SLURM_JOB_NODELIST",
    "SLURM_STEP_NODELIST",
    "SLURM_JOB_NUM_NODES",
    "SLURM_STEP_NUM_NODES",
    "SLURM_NNODES",
    "SLURM_NTASKS",
    "SLURM_NPROCS",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_TASKS_PER_NODE",
    "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_PROCID",
    "SLURM_NODEID",
    "SLURM_LOCALID",
    "SLURMD_NODENAME",
    "HYDRA_LAUNCHER",
    "I_MPI_HYDRA_BOOTSTRAP",
)
"""The variables that a task of Slurm's ``srun`` has (srun(1), output environment variables), for sessions that are to
look like a job with one task on each replica. ``SLURM_JOBID``, ``SLURM_NODELIST`` and ``SLURM_STEP_ID`` are left out:
if Open MPI finds them, it starts its programs with srun, and takes each for one that srun has started. The last two
variables keep MPICH and Intel MPI from using srun."""

EXTRA_NAMES = ("RANK", "NODE_RANK", "CLUSTER_COMPUTE_HOST", "NVIDIA_VISIBLE_DEVICES")

CONTRACT_NAMES: frozenset[str] = frozenset(SEED_NAMES + EXTRA_NAMES)
"""Names that programs may rely on. A user's variable of such a name is rejected."""

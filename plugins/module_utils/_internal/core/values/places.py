# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Paths of the files of a session, in replicas and on hosts."""

from __future__ import annotations

DIRECTORY = "/etc/cluster-compute"
"""The directory of the session's files in every replica."""
HOSTFILE = DIRECTORY + "/hostfile"
MPICH_HOSTFILE = DIRECTORY + "/hostfile.mpich"
DEEPSPEED_HOSTFILE = DIRECTORY + "/hostfile.deepspeed"
JOB_HOSTFILE = "/job/hostfile"
"""Default hostfile of DeepSpeed's launcher (deepspeed.launcher.runner, DLTS_HOSTFILE)."""
SSH_CLIENT_FRAGMENT = "/etc/ssh/ssh_config.d/00-cluster-compute.conf"
"""File in which the settings of the session's SSH are mounted, for a client of the image's own."""
PROFILE = "/etc/profile.d/cluster-compute.sh"
"""File by which login shells correct their PATH: /etc/profile of Debian, Ubuntu and Alpine sets PATH from scratch."""
RUNTIME = "/opt/cluster-compute"
"""Folder where the SSH runtime of the host is mounted."""
SLURM = RUNTIME + "/slurm"
"""Folder of the commands of Slurm that answer in a session, last on PATH."""
LAUNCHERS = RUNTIME + "/launchers"
"""Folder of the programs that take precedence over an image's own launchers, first on PATH."""
RUNTIME_ON_HOST = "/usr/local/lib/cluster-compute/ssh-runtime"
RUNTIME_MANIFEST = "manifest"
"""The file in it that is written after all others."""
SHELL = RUNTIME + "/libexec/dash"
SERVER = RUNTIME + "/libexec/sshd"
SERVER_PARTS = {
    "SshdSessionPath": RUNTIME + "/libexec/sshd-session",
    "SshdAuthPath": RUNTIME + "/libexec/sshd-auth",
}
"""Programs that the server of OpenSSH 9.8 and newer is split into, by the setting that names them."""
FABRIC = "/dev/infiniband/"
"""Folder of the device files of RDMA (Documentation/infiniband/user_verbs.rst of the kernel)."""

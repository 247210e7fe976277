# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The environment contract, byte for byte as Backend.AI documents it, and the files made of it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.fields import (
    MAXIMUM_ROLE_NAME,
    MAXIMUM_SIZE,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.plan import Replica
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.environment import (
    ADVICE_NAMES,
    NO_SINGLE_COPY,
    SessionEnvironment,
    environment_file,
    hostfile,
    mpich_hostfile,
    permits_single_copy,
    processes,
    profile,
    replica_environment,
    slots,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.environment_names import (
    CONTRACT_NAMES,
    INTERFACE_NAMES,
    SEED_NAMES,
    SLURM_NAMES,
    TRIM_DOMAINS,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.parse import (
    MAXIMUM_ENVIRONMENT_STRING,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.resources import PINNED
from ansible_collections.cluster_compute.session.tests.support.plans import typed_plan
from hypothesis import given, settings
from hypothesis import strategies as st

SESSION = "3614fdf3-0e04-4a3c-8f3e-2b1d6c7a9e10"
SUB2 = "0b3fe1a4-52a7-5d5c-9a43-0b6ad2f0a111"


def session(
    interface="eth1", replicas=("main1", "sub1", "sub2", "sub3"), roles=(("main", 1), ("sub", 3))
) -> SessionEnvironment:
    return SessionEnvironment(SESSION, "multi-node", replicas, roles, 12345, interface)


def replica(**fields) -> Replica:
    return typed_plan({"replicas": [fields]}).replicas[0]


MAIN1 = replica(name="main1", role="main", index=1, kernel_id=SESSION, host="node-a")


def main1(devices=None, user=None) -> dict[str, str]:
    return replica_environment(session(), replace(MAIN1, devices=devices or {}), user)


def test_the_documented_examples_of_main1():
    """The example column of the two tables of the concept page, and of the overview, as far as values are given."""
    environment = main1()
    documented = {
        "BACKENDAI_CLUSTER_SIZE": "4",
        "BACKENDAI_CLUSTER_HOSTS": "main1,sub1,sub2,sub3",
        "BACKENDAI_CLUSTER_REPLICAS": "main:1,sub:3",
        "BACKENDAI_CLUSTER_HOST": "main1",
        "BACKENDAI_CLUSTER_IDX": "1",
        "BACKENDAI_CLUSTER_ROLE": "main",
        "BACKENDAI_CLUSTER_LOCAL_RANK": "0",
        "WORLD_SIZE": "4",
        "WORLD_RANK": "0",
        "LOCAL_RANK": "0",
        "MASTER_ADDR": "main1",
        "MASTER_PORT": "12345",
        "TF_CONFIG": '{"cluster": {"worker": ["main1:12345", "sub1:12345", "sub2:12345", "sub3:12345"]}, '
        '"task": {"type": "worker", "index": 0}}',
        "BACKENDAI_CLUSTER_MODE": "multi-node",
        "BACKENDAI_KERNEL_ID": SESSION,
        "BACKENDAI_SESSION_ID": SESSION,
    }
    assert set(documented) == set(SEED_NAMES)
    assert {name: environment[name] for name in documented} == documented


@pytest.mark.parametrize(
    ("capabilities", "is_filtered", "scope", "permitted"),
    [
        ((), False, None, True),
        ((), False, "0", True),
        ((), False, "1", True),
        ((), False, "2", False),
        ((), False, "3", False),
        ((), True, "0", False),
        (("IPC_LOCK",), True, None, False),
        (("SYS_PTRACE",), True, "2", True),
        (("SYS_PTRACE",), False, "3", False),
    ],
)
def test_who_may_read_the_memory_of_another_process(capabilities, is_filtered, scope, permitted):
    assert permits_single_copy(capabilities, is_filtered, scope) is permitted


def test_open_mpi_reads_no_memory_of_others_only_where_it_may_not_and_the_user_says_nothing():
    name = "OMPI_MCA_btl_vader_single_copy_mechanism"
    assert NO_SINGLE_COPY.keys() <= ADVICE_NAMES
    assert not NO_SINGLE_COPY.keys() & replica_environment(session(), MAIN1).keys()
    assert replica_environment(session(), MAIN1, single_copy=False).items() >= NO_SINGLE_COPY.items()
    chosen = replica_environment(session(), MAIN1, single_copy=False, user={name: "knem"})
    assert (chosen[name], chosen["OMPI_MCA_smsc"]) == ("knem", "^cma")


def test_all_of_a_sub_exactly():
    sub2 = replica(name="sub2", role="sub", index=2, rank=2, local_rank=1, node_rank=1, kernel_id=SUB2, host="node-b")
    environment = replica_environment(session(), sub2, {"DATA": "/data"})
    assert environment == {
        "DATA": "/data",
        "NVIDIA_VISIBLE_DEVICES": "void",
        "BACKENDAI_CLUSTER_SIZE": "4",
        "BACKENDAI_CLUSTER_HOSTS": "main1,sub1,sub2,sub3",
        "BACKENDAI_CLUSTER_REPLICAS": "main:1,sub:3",
        "BACKENDAI_CLUSTER_HOST": "sub2",
        "BACKENDAI_CLUSTER_IDX": "2",
        "BACKENDAI_CLUSTER_ROLE": "sub",
        "BACKENDAI_CLUSTER_MODE": "multi-node",
        "BACKENDAI_CLUSTER_LOCAL_RANK": "2",
        "BACKENDAI_KERNEL_ID": SUB2,
        "BACKENDAI_SESSION_ID": SESSION,
        "WORLD_SIZE": "4",
        "WORLD_RANK": "2",
        "RANK": "2",
        "LOCAL_RANK": "1",
        "NODE_RANK": "1",
        "MASTER_ADDR": "main1",
        "MASTER_PORT": "12345",
        "TF_CONFIG": '{"cluster": {"worker": ["main1:12345", "sub1:12345", "sub2:12345", "sub3:12345"]}, '
        '"task": {"type": "worker", "index": 2}}',
        "CLUSTER_COMPUTE_HOST": "node-b",
        "GLOO_SOCKET_IFNAME": "eth1",
        "NCCL_SOCKET_IFNAME": "eth1",
        "TP_SOCKET_IFNAME": "eth1",
        "UCX_NET_DEVICES": "eth1",
        "OMPI_MCA_btl_tcp_if_include": "eth1",
        "OMPI_MCA_oob_tcp_if_include": "eth1",
        "PRTE_MCA_prte_if_include": "eth1",
        "OMPI_MCA_orte_default_hostfile": "/etc/cluster-compute/hostfile",
        "PRTE_MCA_prte_default_hostfile": "/etc/cluster-compute/hostfile",
        "HYDRA_HOST_FILE": "/etc/cluster-compute/hostfile.mpich",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        "PRTE_MCA_hwloc_default_binding_policy": "none",
        "PET_NNODES": "4",
        "PET_NODE_RANK": "2",
        "PET_NPROC_PER_NODE": "1",
        "PET_MASTER_ADDR": "main1",
        "PET_MASTER_PORT": "12345",
        "RESOLV_ADD_TRIM_DOMAINS": ".",
    }
    assert set(environment) - {"DATA"} == (CONTRACT_NAMES | ADVICE_NAMES) - {*SLURM_NAMES, *NO_SINGLE_COPY}


def test_where_it_is_asked_for_each_replica_is_a_task_of_a_job_of_slurm() -> None:
    session = SessionEnvironment(
        SESSION, "multi-node", ("main1", "sub1", "sub2"), (("main", 1), ("sub", 2)), 4000, "eth1", True
    )
    sub2 = replica(name="sub2", role="sub", index=2, rank=2, node_rank=1, kernel_id=SUB2, host="h")
    environment = replica_environment(session, sub2)
    assert {name: value for name, value in environment.items() if name in SLURM_NAMES} == {
        "SLURM_JOB_ID": str(int(SESSION[:7], 16)),
        "SLURM_JOB_NODELIST": "main1,sub1,sub2",
        "SLURM_STEP_NODELIST": "main1,sub1,sub2",
        "SLURM_JOB_NUM_NODES": "3",
        "SLURM_STEP_NUM_NODES": "3",
        "SLURM_NNODES": "3",
        "SLURM_NTASKS": "3",
        "SLURM_NPROCS": "3",
        "SLURM_NTASKS_PER_NODE": "1",
        "SLURM_TASKS_PER_NODE": "1(x3)",
        "SLURM_STEP_TASKS_PER_NODE": "1(x3)",
        "SLURM_PROCID": "2",
        "SLURM_NODEID": "2",
        "SLURM_LOCALID": "0",
        "SLURMD_NODENAME": "sub2",
        "HYDRA_LAUNCHER": "ssh",
        "I_MPI_HYDRA_BOOTSTRAP": "ssh",
    }
    assert set(environment) == CONTRACT_NAMES | ADVICE_NAMES - NO_SINGLE_COPY.keys()
    # Open MPI takes a process for one that srun has started where it finds these.
    assert not {"SLURM_JOBID", "SLURM_NODELIST", "SLURM_STEP_ID", "SLURM_STEPID", "SLURM_STEP_NUM_TASKS"} & set(
        environment
    )
    own = replica_environment(session, sub2, {"SLURM_NTASKS": "1", "SLURM_PROCID": "0"})
    assert (own["SLURM_NTASKS"], own["SLURM_PROCID"], own["SLURM_NODEID"]) == ("1", "0", "2")


def test_one_replica_has_no_interface_to_pin():
    alone = SessionEnvironment(SESSION, "single-node", ("main1",), (("main", 1),), 4000, None)
    environment = replica_environment(alone, MAIN1)
    assert set(environment) == CONTRACT_NAMES | ADVICE_NAMES - {
        *INTERFACE_NAMES,
        TRIM_DOMAINS,
        *SLURM_NAMES,
        *NO_SINGLE_COPY,
    }
    assert environment["BACKENDAI_CLUSTER_REPLICAS"] == "main:1"
    assert json.loads(environment["TF_CONFIG"]) == {
        "cluster": {"worker": ["main1:4000"]},
        "task": {"type": "worker", "index": 0},
    }


def test_users_cannot_take_a_name_of_the_contract():
    with pytest.raises(ValueError, match=r"RANK, WORLD_SIZE is set by the collection"):
        main1(user={"WORLD_SIZE": "9", "RANK": "1", "MINE": "x"})


def test_users_values_win_where_the_collection_only_advises():
    own = {"NCCL_SOCKET_IFNAME": "ib0", "UCX_NET_DEVICES": "mlx5_0:1", "PET_NNODES": "2:4", "HYDRA_HOST_FILE": "/mine"}
    environment = main1(user=own)
    assert {name: environment[name] for name in own} == own
    assert environment["GLOO_SOCKET_IFNAME"] == "eth1"


@pytest.mark.parametrize(
    ("devices", "processes"),
    [
        ({}, "1"),
        ({"gpu": ["GPU-1", "GPU-2"], "fpga": ["/dev/f"]}, "3"),
        ({"pinned CPU": ["1", "2"]}, "1"),
        ({"gpu": ["GPU-1"], "rdma": ["/dev/infiniband/uverbs0+/dev/infiniband/umad0", "/dev/infiniband/uverbs1"]}, "1"),
        ({"card": ["/dev/nvidia0+/dev/infiniband/uverbs0", "/dev/nvidia1+/dev/infiniband/uverbs1"]}, "2"),
    ],
)
def test_torchrun_starts_a_process_for_each_accelerator_and_none_for_ports_of_a_fabric(devices, processes):
    assert main1(devices=devices)["PET_NPROC_PER_NODE"] == processes


def test_users_values_do_not_leak_from_one_replica_to_the_next():
    assert "MINE" in main1(user={"MINE": "x"})
    assert "MINE" not in main1()


def test_the_longest_strings_fit_what_linux_takes():
    names = tuple(f"{'r' * MAXIMUM_ROLE_NAME}{index}" for index in range(1, MAXIMUM_SIZE + 1))
    longest = SessionEnvironment(
        SESSION, "multi-node", names, (("r" * MAXIMUM_ROLE_NAME, MAXIMUM_SIZE),), 65535, "eth1"
    )
    last = replica(name=names[-1], role="r", index=1, rank=4095, kernel_id=SUB2, host="h")
    environment = replica_environment(longest, last)
    assert max(len(f"{name}={value}") for name, value in environment.items()) <= MAXIMUM_ENVIRONMENT_STRING


def test_hostfiles():
    replicas = [("main1", slots(1000)), ("sub1", slots(2500)), ("sub2", slots(500))]
    assert hostfile(replicas) == "main1 slots=1\nsub1 slots=2\nsub2 slots=1\n"
    assert mpich_hostfile(replicas) == "main1:1\nsub1:2\nsub2:1\n"


@pytest.mark.parametrize(
    ("devices", "wanted"),
    [
        ({}, 1),
        ({PINNED: ["0", "1"]}, 1),
        ({"cuda": ["a", "b"], PINNED: ["0"]}, 2),
        ({"cuda": ["a"], "fpga": ["x"]}, 2),
    ],
)
def test_one_process_trains_on_each_accelerator(devices, wanted):
    assert processes(devices) == wanted


def test_environment_file():
    assert environment_file({"B": "it's", "A": '$HOME `id` "x" \\'}) == (
        "export A='$HOME `id` \"x\" \\'\nexport B='it'\\''s'\n"
    )


@settings(max_examples=60, derandomize=True)
@given(
    st.dictionaries(
        st.from_regex(r"V_[A-Za-z0-9_]{0,8}", fullmatch=True),
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30),
        max_size=4,
    )
)
def test_any_shell_reads_the_file_back(environment):
    script = environment_file(environment) + "".join(f'printf "%s\\0" "${{{name}}}"\n' for name in environment)
    done = subprocess.run(["/bin/sh"], input=script.encode(), capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:-1] == list(environment.values())
    assert done.stderr == b""


@pytest.mark.parametrize("name", ["A B", "1A", "A;reboot", "", "A=B", "A\nB", "Ä"])
def test_no_file_with_a_strange_name(name):
    with pytest.raises(ValueError, match="cannot be written"):
        environment_file({name: "x"})


def test_no_file_with_a_nul():
    with pytest.raises(ValueError, match="cannot be written"):
        environment_file({"A": "a\0b"})


@pytest.mark.parametrize(
    ("devices", "user", "nvidia", "cuda"),
    [
        ({}, {}, "void", None),
        ({"card": ["/dev/a"], "pinned CPU": ["1"]}, {}, "void", None),
        ({"gpu": ["GPU-1", "GPU-2"], "mig": ["MIG-3"]}, {}, "GPU-1,GPU-2,MIG-3", "0,1,2"),
        ({"gpu": ["nvidia.com/gpu=0", "nvidia.com/gpu=1"]}, {}, "void", "0,1"),
        ({"gpu": ["GPU-1"]}, {"CUDA_VISIBLE_DEVICES": ""}, "GPU-1", ""),
        ({}, {"CUDA_VISIBLE_DEVICES": "3"}, "void", "3"),
    ],
)
def test_cards_that_a_replica_sees(devices, user, nvidia, cuda):
    environment = main1(devices, user)
    assert (environment["NVIDIA_VISIBLE_DEVICES"], environment.get("CUDA_VISIBLE_DEVICES")) == (nvidia, cuda)


def test_nobody_asks_for_other_cards():
    assert "NVIDIA_VISIBLE_DEVICES" in CONTRACT_NAMES


@pytest.mark.parametrize(
    ("own", "begun", "found"),
    [
        ("/usr/bin:/bin", "/usr/bin:/bin", "{first}:/usr/bin:/bin:{last}"),
        ("/opt/conda/bin:/usr/bin:/opt/my own", "/bin", "{first}:/opt/conda/bin:/bin:/opt/my own:{last}"),
        ("/usr/bin", "/x:{last}:/bin", "/x:{last}:/bin"),
        ("/only", "/bin", "{first}:/only:{last}:/bin"),
    ],
)
def test_a_login_shell_finds_what_other_programs_find(own: str, begun: str, found: str) -> None:
    ours = {"first": "/opt/cluster-compute/launchers", "last": "/opt/cluster-compute/bin"}
    text = profile("{first}:{own}:{last}".format(own=own, **ours))
    environment = {"PATH": begun.format(**ours)}
    shell = subprocess.run(
        ["/bin/sh", "-eu", "-c", f"{text}echo $PATH"], env=environment, capture_output=True, text=True, check=True
    )
    assert shell.stdout.strip() == found.format(**ours)

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""One session of six replicas on all three hosts, looked at from everywhere: what a user of the issue was promised."""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.request
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    ADDRESSES,
    DEMO,
    DIRECTORY,
    HOSTS,
    Replica,
    Run,
    differences,
    in_parallel,
    launch,
    on,
    parse_environment,
    play,
    record,
    replicas,
    script,
    snapshot,
    teardown,
    try_on,
)

NAMES = ["main1", "sub1", "sub2", "sub3", "sub4", "sub5"]
MTU = 1450
CANARY = "/tmp/cluster-compute-canary"
HOSTILE = f"""$(touch {CANARY}) `touch {CANARY}`; touch {CANARY} & '"' \\ "$HOME" %h é\ttab
second line='x'"""
RESOLVE = """for name in $(echo "$BACKENDAI_CLUSTER_HOSTS" | tr , ' '); do
  getent ahosts "$name" | sed "s/^/$name /" || echo "$name failed"
done
echo resolved
exec sleep infinity"""
REQUEST = {
    "session_name": "six",
    "session_mode": "multi-node",
    "session_size": 6,
    "session_image": DEMO,
    "session_cpus": "1",
    "session_memory": "256m",
    "session_shm_size": "32m",
    "session_capabilities": "NET_RAW",  # for ping
    "session_mounts": "/srv/shared:/data,/srv/shared/readonly:/reference:ro",
    "session_env": {"HOSTILE": HOSTILE, "GREETING": "hello world"},
    "session_ports": ["8888", "0.0.0.0:9999:9998/tcp"],
    "session_slurm_variables": True,
    "session_command": ["/bin/bash", "-c", RESOLVE],
}
SESSION_INTERFACE_VARIABLES = [
    "GLOO_SOCKET_IFNAME",
    "NCCL_SOCKET_IFNAME",
    "TP_SOCKET_IFNAME",
    "UCX_NET_DEVICES",
    "OMPI_MCA_btl_tcp_if_include",
    "OMPI_MCA_oob_tcp_if_include",
    "PRTE_MCA_prte_if_include",
]


@dataclass
class Six:
    """The session: how it was launched, what there is of it."""

    run: Run
    begun: float
    replicas: dict[str, Replica]
    addresses: dict[str, str]

    @property
    def main(self) -> Replica:
        """The main replica."""
        return self.replicas["main1"]


@pytest.fixture(scope="module")
def six() -> Iterator[Six]:
    """Launch the session; the most talkative Ansible, so that tests can look for secrets in what it says."""
    script("n1", "echo reference >/srv/shared/readonly/file")
    begun = time.time()
    try:
        run = launch(REQUEST, "-vvv").ok()
        found = replicas("six")
        assert list(found) == NAMES
        addresses = {name: _address(replica, "eth1") for name, replica in found.items()}
        yield Six(run, begun, found, addresses)
    finally:
        removed = teardown("six")
        on("n1", "rm", "-f", "/srv/shared/readonly/file", "/srv/shared/from-main1")
    assert removed.code == 0, removed.output
    assert removed.changed_hosts == set(HOSTS)
    assert not replicas("six")


def _interfaces(replica: Replica) -> dict[str, list[str]]:
    found = json.loads(replica.run("ip", "-j", "address"))
    return {
        link["ifname"]: [info["local"] for info in link["addr_info"] if info["family"] == "inet"]
        for link in found
        if link["ifname"] != "lo"
    }


def _address(replica: Replica, interface: str) -> str:
    found = _interfaces(replica)[interface]
    assert len(found) == 1
    return found[0]


def _shared(names: list[str]) -> dict[str, str]:
    """Return what is the same in every replica, from the seeds' tables, written down here once more."""
    return {
        "BACKENDAI_CLUSTER_SIZE": "6",
        "BACKENDAI_CLUSTER_HOSTS": "main1,sub1,sub2,sub3,sub4,sub5",
        "BACKENDAI_CLUSTER_REPLICAS": "main:1,sub:5",
        "BACKENDAI_CLUSTER_MODE": "multi-node",
        "WORLD_SIZE": "6",
        "MASTER_ADDR": "main1",
        "MASTER_PORT": "12345",
        "OMPI_MCA_orte_default_hostfile": "/etc/cluster-compute/hostfile",
        "PRTE_MCA_prte_default_hostfile": "/etc/cluster-compute/hostfile",
        "HYDRA_HOST_FILE": "/etc/cluster-compute/hostfile.mpich",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        "PRTE_MCA_hwloc_default_binding_policy": "none",
        "RESOLV_ADD_TRIM_DOMAINS": ".",
        "PET_NNODES": "6",
        "PET_NPROC_PER_NODE": "1",
        "PET_MASTER_ADDR": "main1",
        "PET_MASTER_PORT": "12345",
        "SLURM_JOB_ID": str(int(record("six")["plan"]["session"]["id"][:7], 16)),
        **dict.fromkeys(("SLURM_JOB_NODELIST", "SLURM_STEP_NODELIST"), ",".join(NAMES)),
        **dict.fromkeys(("SLURM_JOB_NUM_NODES", "SLURM_STEP_NUM_NODES", "SLURM_NNODES"), "6"),
        **dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS"), "6"),
        **dict.fromkeys(("SLURM_TASKS_PER_NODE", "SLURM_STEP_TASKS_PER_NODE"), "1(x6)"),
        "SLURM_NTASKS_PER_NODE": "1",
        "SLURM_LOCALID": "0",
        "HYDRA_LAUNCHER": "ssh",
        "I_MPI_HYDRA_BOOTSTRAP": "ssh",
        **dict.fromkeys(SESSION_INTERFACE_VARIABLES, "eth1"),
        "HOSTILE": HOSTILE,
        "GREETING": "hello world",
        "NVIDIA_VISIBLE_DEVICES": "void",
    }


OLDER = ("n1", "n2")
"""Hosts whose engine, 20.10, lets no process of a replica read the memory of another."""
WITHOUT_PTRACE = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_MCA_smsc": "^cma"}


def _own(six: Six, name: str) -> dict[str, str]:
    """Return what is a replica's own, apart from its kernel id."""
    rank = NAMES.index(name)
    host = six.replicas[name].host
    order = list(dict.fromkeys(six.replicas[name].host for name in NAMES))
    earlier = [other for other in NAMES[:rank] if six.replicas[other].host == host]
    workers = ", ".join(f'"{name}:12345"' for name in NAMES)
    return {
        "BACKENDAI_CLUSTER_HOST": name,
        "PET_NODE_RANK": str(rank),
        **dict.fromkeys(("SLURM_PROCID", "SLURM_NODEID"), str(rank)),
        "SLURMD_NODENAME": name,
        "BACKENDAI_CLUSTER_IDX": name[-1],
        "BACKENDAI_CLUSTER_ROLE": name[:-1],
        "BACKENDAI_CLUSTER_LOCAL_RANK": str(rank),
        "WORLD_RANK": str(rank),
        "RANK": str(rank),
        "LOCAL_RANK": str(len(earlier)),
        "NODE_RANK": str(order.index(host)),
        "CLUSTER_COMPUTE_HOST": host,
        "TF_CONFIG": f'{{"cluster": {{"worker": [{workers}]}}, "task": {{"type": "worker", "index": {rank}}}}}',
        **(WITHOUT_PTRACE if host in OLDER else {}),
    }


class TestShape:
    """Where the session runs and what the user is told."""

    def test_every_host_and_both_generations_of_engines_carry_it(self, six: Six) -> None:
        assert sorted(replica.host for replica in six.replicas.values()) == ["n1", "n1", "n2", "n2", "n3", "n3"]
        versions = {
            host: tuple(
                map(int, on(host, "docker", "version", "-f", "{{.Server.Version}}").split("+")[0].split(".")[:2])
            )
            for host in HOSTS
        }
        assert versions["n1"] == versions["n2"] == (20, 10)
        assert versions["n3"] >= (26, 0)

    def test_the_table_says_what_runs_where(self, six: Six) -> None:
        assert six.run.table == {
            name: {
                "replica": name,
                "host": replica.host,
                "address": six.addresses[name],
                "rank": str(NAMES.index(name)),
                "status": "RUNNING",
            }
            for name, replica in six.replicas.items()
        }
        assert "docker exec -it six-main1 /bin/sh" in six.run.output
        # The user sees it, not only the recorder of these tests.
        for name in NAMES:
            assert re.search(
                rf"\b{name} +{six.replicas[name].host} +{six.addresses[name]} +\d +RUNNING", six.run.output
            )

    def test_the_overlay_is_unicast_vxlan_with_static_entries_only(self, six: Six) -> None:
        identifiers = set()
        for host in HOSTS:
            links = json.loads(on(host, "ip", "-j", "-d", "link", "show", "type", "vxlan"))
            assert len(links) == 1
            data = links[0]["linkinfo"]["info_data"]
            identifiers.add((data["id"], data["port"]))
            assert data["local"] == ADDRESSES[host]
            assert not data.get("learning", True)
            entries = json.loads(on(host, "bridge", "-j", "fdb", "show", "dev", links[0]["ifname"]))
            remote = [replica for replica in six.replicas.values() if replica.host != host]
            assert len(remote) == 4
            assert sorted(entry["dst"] for entry in entries if "dst" in entry) == sorted(
                ADDRESSES[replica.host] for replica in remote
            )
            assert all(entry["mac"] != "00:00:00:00:00:00" for entry in entries)
            neighbours = json.loads(
                on(host, "ip", "-j", "neigh", "show", "dev", links[0]["ifname"], "nud", "permanent")
            )
            assert {neighbour["dst"] for neighbour in neighbours} == {six.addresses[replica.name] for replica in remote}
        assert len(identifiers) == 1


class TestEnvironment:
    """Both tables of the seeds, the overview document, and the extras of the design."""

    @pytest.mark.parametrize("name", NAMES)
    def test_variables_have_exact_values_and_nothing_else_is_set(self, six: Six, name: str) -> None:
        found = six.replicas[name].environment()
        for image_variable in ("PATH", "LANG", "HOME", "HOSTNAME"):
            found.pop(image_variable)
        session, kernel = found.pop("BACKENDAI_SESSION_ID"), found.pop("BACKENDAI_KERNEL_ID")
        assert str(uuid.UUID(session)) == session
        assert str(uuid.UUID(kernel)) == kernel
        assert (kernel == session) == (name == "main1")
        assert found == {**_shared(NAMES), **_own(six, name)}
        assert json.loads(found["TF_CONFIG"]) == {
            "cluster": {"worker": [f"{name}:12345" for name in NAMES]},
            "task": {"type": "worker", "index": NAMES.index(name)},
        }

    def test_all_have_one_session_id_and_kernel_ids_of_their_own(self, six: Six) -> None:
        found = [replica.environment() for replica in six.replicas.values()]
        assert {values["BACKENDAI_SESSION_ID"] for values in found} == {record("six")["plan"]["session"]["id"]}
        assert len({values["BACKENDAI_KERNEL_ID"] for values in found}) == 6

    @pytest.mark.parametrize("name", ["main1", "sub3", "sub5"])
    def test_the_file_gives_a_shell_the_same_values(self, six: Six, name: str) -> None:
        replica = six.replicas[name]
        sourced = parse_environment(
            replica.run("env", "-i", "/bin/sh", "-ec", ". /etc/cluster-compute/environment; exec /usr/bin/env -0")
        )
        sourced.pop("PWD")
        wanted = replica.environment()
        for image_variable in ("PATH", "LANG", "HOME", "HOSTNAME"):
            wanted.pop(image_variable)
        assert sourced == wanted

    @pytest.mark.parametrize("name", ["main1", "sub4"])
    def test_a_login_by_ssh_has_them_as_well(self, six: Six, name: str) -> None:
        login = parse_environment(six.replicas["sub2"].run("ssh", name, "env -0"))
        wanted = {**_shared(NAMES), **_own(six, name)}
        # A line break cannot be written in sshd_config; the file has the variable.
        del wanted["HOSTILE"]
        assert {key: login.get(key) for key in wanted} == wanted

    def test_a_hostile_value_arrives_and_runs_nowhere(self, six: Six) -> None:
        assert six.main.environment()["HOSTILE"] == HOSTILE
        assert not Path(CANARY).exists()
        for host in HOSTS:
            assert try_on(host, ["test", "-e", CANARY]).returncode == 1
        for replica in six.replicas.values():
            assert replica.attempt("test", "-e", CANARY).returncode == 1

    def test_hostfiles_in_both_syntaxes(self, six: Six) -> None:
        for name in ("main1", "sub5"):
            replica = six.replicas[name]
            assert replica.run("cat", "/etc/cluster-compute/hostfile") == "".join(f"{name} slots=1\n" for name in NAMES)
            assert replica.run("cat", "/etc/cluster-compute/hostfile.mpich") == "".join(f"{name}:1\n" for name in NAMES)
            assert replica.run("cat", "/job/hostfile") == "".join(f"{name} slots=1\n" for name in NAMES)

    def test_a_login_shell_finds_the_session_s_programs(self, six: Six) -> None:
        for option in ("-c", "-lc"):
            found = six.main.run("bash", option, "command -v session-run; echo $PATH").split()
            assert found[0] == "/opt/cluster-compute/bin/session-run"
            assert found[1].startswith("/opt/cluster-compute/launchers:")


OWN_ADDRESS = """
import json, socket, subprocess
def said(*argv):
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
outside = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
outside.connect(("8.8.8.8", 53))
own = socket.gethostbyname(socket.gethostname())
route = said("ip", "route", "get", "8.8.8.8")
links = said("ip", "-o", "-4", "address", "show", "scope", "global")
print(json.dumps({
    "hostname -I": said("hostname", "-I")[0],
    "hostname -i": said("hostname", "-i")[0],
    "gethostbyname": own,
    "socket": outside.getsockname()[0],
    "route": route[route.index("src") + 1],
    "first interface": links[3].partition("/")[0],
    "getfqdn": socket.getfqdn(),
    "getnameinfo": socket.getnameinfo((own, 0), 0)[0],
    "getnameinfo, mapped": socket.getnameinfo((f"::ffff:{own}", 0), 0)[0],
}))
"""
"""The ways in which programs look for their own address: launchers, Ray, Dask, DeepSpeed, MPI."""


class TestNames:
    """Every name has one address, everywhere, from the first moment."""

    @pytest.mark.parametrize("name", NAMES)
    def test_each_name_resolves_to_one_address_the_session_s(self, six: Six, name: str) -> None:
        replica = six.replicas[name]
        resolve = "".join(f"getent ahosts {other} | sed 's/^/{other} /'\n" for other in NAMES)
        lines = replica.run("sh", "-ec", f"{resolve}hostname").splitlines()
        assert lines[-1] == name
        assert {tuple(line.split()[:2]) for line in lines[:-1]} == {(other, six.addresses[other]) for other in NAMES}

    def test_addresses_are_different_and_of_one_subnet(self, six: Six) -> None:
        assert len(set(six.addresses.values())) == 6
        prefixes = {
            json.loads(replica.run("ip", "-j", "route", "show", "dev", "eth1"))[0]["dst"]
            for replica in six.replicas.values()
        }
        assert len(prefixes) == 1

    def test_every_usual_way_finds_the_session_s_address_first(self, six: Six) -> None:
        for name, replica in six.replicas.items():
            found = json.loads(replica.run("python3", "-c", OWN_ADDRESS))
            names_found = [found.pop(way) for way in ("getfqdn", "getnameinfo", "getnameinfo, mapped")]
            assert names_found == [name] * 3
            assert found == dict.fromkeys(found, six.addresses[name])

    @pytest.mark.parametrize("name", NAMES)
    def test_the_first_process_could_resolve_them_all(self, six: Six, name: str) -> None:
        replica = six.replicas[name]
        lines = on(replica.host, "docker", "logs", replica.container).splitlines()
        assert lines[-1] == "resolved"
        found = {tuple(line.split()[:2]) for line in lines[:-1]}
        assert found == {(other, six.addresses[other]) for other in NAMES}


SERVER = """
import os, socket, sys, threading
def tcp(port):
    listener = socket.create_server(("0.0.0.0", port))
    while True:
        connection, _ = listener.accept()
        connection.sendall(socket.gethostname().encode())
        connection.close()
def udp(port):
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.bind(("0.0.0.0", port))
    while True:
        _, sender = listener.recvfrom(100)
        listener.sendto(socket.gethostname().encode(), sender)
for port in map(int, sys.argv[1:]):
    for serve in (tcp, udp):
        threading.Thread(target=serve, args=(port,)).start()
"""
CLIENT = """
import json, socket, sys
found = []
for name in sys.argv[1].split(","):
    for port in map(int, sys.argv[2:]):
        with socket.create_connection((name, port), timeout=5) as connection:
            found.append([name, port, "tcp", connection.recv(100).decode()])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.settimeout(5)
            sender.sendto(b"?", (name, port))
            found.append([name, port, "udp", sender.recv(100).decode()])
print(json.dumps(found))
"""


class TestNetwork:
    """The private network besides the default one."""

    def test_two_networks_with_the_same_names_everywhere(self, six: Six) -> None:
        for name, replica in six.replicas.items():
            interfaces = _interfaces(replica)
            assert set(interfaces) == {"eth0", "eth1"}
            assert interfaces["eth1"] == [six.addresses[name]]
            routes = json.loads(replica.run("ip", "-j", "route", "show", "default"))
            assert [route["dev"] for route in routes] == ["eth0"]
            assert len(replica.networks) == 2

    def test_the_default_network_leads_out(self, six: Six) -> None:
        for replica in six.replicas.values():
            replica.run("ping", "-n", "-c", "1", "-W", "3", ADDRESSES[replica.host])

    def test_no_firewall_between_any_two(self, six: Six) -> None:
        ports = ["1024", "12345", "40404"]
        for replica in six.replicas.values():
            on(replica.host, "docker", "exec", "-d", replica.container, "python3", "-c", SERVER, *ports)
        time.sleep(1)
        answers = in_parallel(
            lambda replica: json.loads(replica.run("python3", "-c", CLIENT, ",".join(NAMES), *ports)),
            six.replicas.values(),
        )
        for replica in six.replicas.values():
            replica.run("pkill", "-f", "create_server")
        assert len(answers) == 6
        for answer in answers:
            assert len(answer) == 6 * 3 * 2
            assert all(name == answered for name, _port, _protocol, answered in answer)

    def test_the_mtu_is_what_the_underlay_leaves(self, six: Six) -> None:
        underlays = {int(on(host, "cat", "/sys/class/net/eth0/mtu")) for host in HOSTS}
        assert min(underlays) - 50 == MTU
        for replica in six.replicas.values():
            assert replica.run("cat", "/sys/class/net/eth1/mtu").strip() == str(MTU)

    @pytest.mark.parametrize("name", NAMES)
    def test_packets_of_the_full_size_pass_unfragmented_and_larger_ones_do_not(self, six: Six, name: str) -> None:
        full = MTU - 28
        # Side by side, as a packet that is too large is waited for.
        pings = "".join(
            f"ping -n -q -M do -s {full} -c 1 -W 5 {other} >/dev/null && echo {other} &\n"
            f"ping -n -q -M do -s {full + 1} -c 1 -W 1 {other} >/dev/null 2>&1 && echo {other} larger &\n"
            for other in NAMES
            if other != name
        )
        output = six.replicas[name].run("sh", "-c", f"{pings}wait").splitlines()
        assert sorted(output) == [other for other in NAMES if other != name]

    def test_published_ports_are_main1_s_alone(self, six: Six) -> None:
        bound = {name: replica.inspected["HostConfig"]["PortBindings"] or {} for name, replica in six.replicas.items()}
        assert {port: [entry["HostPort"] for entry in entries] for port, entries in bound["main1"].items()} == {
            "8888/tcp": ["8888"],
            "9998/tcp": ["9999"],
        }
        assert all(not ports for name, ports in bound.items() if name != "main1")
        for inside, outside in ((8888, 8888), (9998, 9999)):
            argv = ["python3", "-m", "http.server", "--directory", "/etc/cluster-compute", str(inside)]
            on(six.main.host, "docker", "exec", "-d", six.main.container, *argv)
            address = f"http://{ADDRESSES[six.main.host]}:{outside}/hostfile"
            assert _fetch(address).startswith("main1 slots=1")
        six.main.run("pkill", "-f", "http.server")
        for host in set(HOSTS) - {six.main.host}:
            assert not re.search(r":(8888|9999)\b", on(host, "ss", "-Hltn"))


def _fetch(address: str) -> str:
    deadline = time.monotonic() + 10
    while True:
        try:
            with urllib.request.urlopen(address, timeout=3) as answer:  # noqa: S310 - an address of the lab
                return str(answer.read().decode())
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


class TestSsh:
    """ssh NAME, from anywhere to anywhere, with nothing to type and nothing trusted blindly."""

    @pytest.mark.parametrize("name", NAMES)
    def test_every_replica_reaches_every_other_as_the_image_s_user(self, six: Six, name: str) -> None:
        logins = "".join(f"ssh {other} 'echo $(hostname) $(id -un)' </dev/null\n" for other in NAMES)
        output = six.replicas[name].run("sh", "-ec", logins).splitlines()
        assert output == [f"{other} work" for other in NAMES]

    def test_a_changed_host_key_is_refused(self, six: Six) -> None:
        known = f"{six.main.files}/ssh/known_hosts"
        genuine = on(six.main.host, "cat", known)
        keys = {line.split(" ", 1)[0].split(",")[0]: line.split(" ", 1)[1] for line in genuine.splitlines()}
        forged = genuine.replace(keys["sub3"], keys["sub4"])
        assert forged != genuine
        try:
            on(six.main.host, "sh", "-c", f"cat >{known}", stdin=forged)
            refused = six.main.attempt("ssh", "sub3", "true")
            assert six.main.run("ssh", "sub2", "hostname").strip() == "sub2"
        finally:
            on(six.main.host, "sh", "-c", f"cat >{known}", stdin=genuine)
        assert refused.returncode == 255
        assert "Host key verification failed" in refused.stderr
        six.main.run("ssh", "sub3", "true")

    def test_an_unknown_host_key_is_refused(self, six: Six) -> None:
        six.main.run("ssh", "-o", "HostKeyAlias=sub2", "sub2", "true")
        refused = six.main.attempt("ssh", "-o", "HostKeyAlias=stranger", "sub2", "true")
        assert refused.returncode == 255
        assert "Host key verification failed" in refused.stderr

    def test_keys_are_different_and_well_guarded(self, six: Six) -> None:
        public: set[str] = set()
        for replica in six.replicas.values():
            for key in ("id_ed25519", "ssh_host_ed25519_key"):
                path = f"/etc/cluster-compute/ssh/{key}"
                assert replica.run("stat", "-c", "%a %U", path).strip() == "600 work"
                assert replica.attempt("cat", path, user="nobody").returncode != 0
                # An independent judge: OpenSSH derives the public key from the private one.
                derived = replica.run("ssh-keygen", "-y", "-f", path).split()[:2]
                assert derived == replica.run("cat", f"{path}.pub").split()[:2]
                public.add(derived[1])
            assert on(replica.host, "stat", "-c", "%a %U", "/var/lib/cluster-compute").strip() == "700 root"
        assert len(public) == 12

    def test_keys_open_the_session_s_replicas_from_its_network_only(self, six: Six) -> None:
        subnet = json.loads(six.main.run("ip", "-j", "route", "show", "dev", "eth1"))[0]["dst"]
        lines = six.main.run("cat", "/etc/cluster-compute/ssh/authorized_keys").splitlines()
        assert len(lines) == 6
        assert all(line.startswith(f'from="{subnet}" ssh-ed25519 ') for line in lines)

    def test_private_keys_are_on_their_own_host_alone(self, six: Six) -> None:
        marks: dict[str, str] = {}
        for replica in six.replicas.values():
            for key in ("id_ed25519", "ssh_host_ed25519_key"):
                # The fourth line of the file holds the private key; the first ones begin alike in all.
                text = on(replica.host, "cat", f"{replica.files}/ssh/{key}")
                marks[text.splitlines()[3]] = replica.host
        assert len(marks) == 12
        for mark in marks:
            assert mark not in six.run.output
        for replica in six.replicas.values():
            inspected = on(replica.host, "docker", "inspect", replica.container)
            assert not [mark for mark in marks if mark in inspected]
        for host in HOSTS:
            others = "\n".join(mark for mark, owner in marks.items() if owner != host)
            search = ["grep", "-rlF", "-f", "-", "/var/lib/cluster-compute", "/root", "/tmp", "/etc"]
            assert try_on(host, search, stdin=others).stdout == ""
            own = "\n".join(mark for mark, owner in marks.items() if owner == host)
            assert len(try_on(host, search, stdin=own).stdout.splitlines()) == 4

    def test_no_private_key_is_on_the_controller(self, six: Six) -> None:
        texts = [
            on(replica.host, "cat", f"{replica.files}/ssh/{key}").splitlines()[3]
            for replica in six.replicas.values()
            for key in ("id_ed25519", "ssh_host_ed25519_key")
        ]
        since = f"@{int(six.begun) - 1}"
        # Labs keep their hosts' disks on this machine; they are no part of the controller.
        written = subprocess.run(
            [
                *("find", "/", "-xdev", "-path", str(DIRECTORY.parent), "-prune"),
                *("-o", "-type", "f", "-newermt", since, "-size", "-4M", "-print0"),
            ],
            stdout=subprocess.PIPE,
            check=False,
        ).stdout.split(b"\0")
        files = [Path(path.decode()) for path in written if path]
        assert files, "Ansible writes something on the controller, so the search has to find something"
        for text in texts:
            assert len(text) > 30
        for path in files:
            try:
                content = path.read_bytes()
            except OSError:
                continue  # gone meanwhile: somebody's temporary file
            assert not [text for text in texts if text.encode() in content], path


class TestResources:
    """What each container may use, as the kernel sees it."""

    @pytest.mark.parametrize("name", NAMES)
    def test_limits_in_the_control_group(self, six: Six, name: str) -> None:
        replica = six.replicas[name]
        read = replica.run(
            "sh", "-c", "cd /sys/fs/cgroup; head -n 1 cpu.max memory.max memory.swap.max 2>/dev/null; true"
        )
        if "cpu.max" in read:
            values = [line for line in read.splitlines() if line and not line.startswith("==>")]
            assert values == ["100000 100000", str(256 * 1024**2), "0"]
        else:
            quota, period = (int(_control(replica, "cpu", f"cpu.cfs_{part}_us")) for part in ("quota", "period"))
            assert quota == period
            assert int(_control(replica, "memory", "memory.limit_in_bytes")) == 256 * 1024**2
            assert int(_control(replica, "memory", "memory.memsw.limit_in_bytes")) == 256 * 1024**2
        assert replica.run("df", "-B1", "--output=size", "/dev/shm").split()[1] == str(32 * 1024**2)

    def test_memory_beyond_the_limit_kills(self, six: Six) -> None:
        hungry = "block = bytearray(400 * 1024**2); print(len(block))"
        ended = six.replicas["sub5"].attempt("python3", "-c", hungry)
        assert ended.returncode == 137
        assert ended.stdout == ""
        six.replicas["sub5"].run("python3", "-c", "print(len(bytearray(64 * 1024**2)))")

    def test_shared_memory_ends_where_it_was_asked_to(self, six: Six) -> None:
        write = "dd if=/dev/zero of=/dev/shm/fill bs=1M count={} 2>&1; code=$?; rm -f /dev/shm/fill; exit $code"
        full = six.main.attempt("sh", "-c", write.format(33))
        assert full.returncode != 0
        assert "No space left" in full.stdout
        six.main.run("sh", "-c", write.format(31))

    def test_cpu_time_is_held_to_the_quota(self, six: Six) -> None:
        replica = six.replicas["sub1"]
        before, begun = _cpu_seconds(replica), time.monotonic()
        replica.run("bash", "-c", "for number in 1 2 3; do (while :; do :; done) & done; sleep 2; kill $(jobs -p)")
        used, passed = _cpu_seconds(replica) - before, time.monotonic() - begun
        # Three programs that want all they can get; the replica has one CPU, counted in periods of a tenth of a second.
        assert used <= passed * 1.05 + 0.1
        assert used > 0.1

    def test_the_same_folders_in_every_replica(self, six: Six) -> None:
        six.main.run("sh", "-c", "echo from-main1 >/data/from-main1", user="root")
        for replica in six.replicas.values():
            assert replica.run("cat", "/data/from-main1") == "from-main1\n"
            assert replica.run("cat", "/reference/file") == "reference\n"
            refused = replica.attempt("touch", "/reference/new", user="root")
            assert refused.returncode != 0
            assert "Read-only file system" in refused.stderr
        assert on("n3", "cat", "/srv/shared/from-main1") == "from-main1\n"


def _control(replica: Replica, controller: str, file: str) -> str:
    return replica.run("cat", f"/sys/fs/cgroup/{controller}/{file}")


def _cpu_seconds(replica: Replica) -> float:
    """Return the CPU time that the replica has used, from either version of control groups."""
    paths = "/sys/fs/cgroup/cpuacct/cpuacct.usage /sys/fs/cgroup/cpu.stat"
    text = replica.run("sh", "-c", f"head -qn 1 {paths} 2>/dev/null || true").split()
    return int(text[-1]) / (1e6 if text[0] == "usage_usec" else 1e9)


class TestJobs:
    """Work that spans the session."""

    def test_mpirun_reaches_every_replica(self, six: Six) -> None:
        tell = "import os, socket; print(socket.gethostname(), os.environ['CLUSTER_COMPUTE_HOST'])"
        output = six.main.run("mpirun", "-n", "6", "python3", "-c", f"from mpi4py import MPI; {tell}")
        assert sorted(output.split("\n")[:-1]) == [f"{name} {six.replicas[name].host}" for name in NAMES]

    def test_slurm_names_the_replicas_to_who_asks_and_keeps_no_program_from_being_alone(self, six: Six) -> None:
        assert six.replicas["sub5"].run("scontrol", "show", "hostnames").split() == NAMES
        alone = six.main.run("python3", "-c", "from mpi4py import MPI; print(MPI.COMM_WORLD.size)")
        assert alone == "1\n", "no program is taken for one that srun has started"

    def test_the_demo_proof_names_every_replica_and_its_host(self, six: Six) -> None:
        run = play("demo_proof", {"session_name": "six"}).ok()
        output = [line for result in run.of("Show the output") for line in result["values"]["msg"]]
        hosts = {name: replica.host for name, replica in six.replicas.items()}
        assert output[:6] == [f"ssh {name} on host {hosts[name]}" for name in NAMES]
        assert output[6:] == [f"rank {rank} of 6: {name} on host {hosts[name]}" for rank, name in enumerate(NAMES)]


ASYNCSSH = """
import asyncio, asyncssh, sys
async def main():
    for name in sys.argv[1:]:
        async with asyncssh.connect(name) as client:
            print((await client.run("hostname")).stdout, end="")
asyncio.run(main())
"""
PARAMIKO = """
import paramiko, sys
for name in sys.argv[1:]:
    client = paramiko.SSHClient()
    client.load_system_host_keys()
    client.connect(name)
    print(client.exec_command("hostname")[1].read().decode(), end="")
    client.close()
"""
LIBSSH = """
import ctypes, sys
ssh = ctypes.CDLL("libssh.so.4")
ssh.ssh_new.restype = ctypes.c_void_p
for name in sys.argv[1:]:
    session = ctypes.c_void_p(ssh.ssh_new())
    ssh.ssh_options_set(session, 0, name.encode())
    ssh.ssh_options_parse_config(session, None)
    assert ssh.ssh_connect(session) == 0, "connect"
    assert ssh.ssh_session_is_known_server(session) == 1, "the server's key is not known"
    assert ssh.ssh_userauth_publickey_auto(session, None, None) == 0, "log in"
    print(name)
"""


class TestOtherClients:
    """SSH by clients that read nothing in /etc: nothing is given but names, and the hosts' keys are checked."""

    @pytest.mark.parametrize("program", [ASYNCSSH, PARAMIKO, LIBSSH], ids=["asyncssh", "paramiko", "libssh"])
    def test_every_replica_is_reached_by_its_name(self, six: Six, program: str) -> None:
        assert six.main.run("python3", "-c", program, *NAMES).split() == NAMES
        assert six.replicas["sub5"].run("python3", "-c", program, "main1") == "main1\n"

    @pytest.mark.parametrize("program", [ASYNCSSH, PARAMIKO, LIBSSH], ids=["asyncssh", "paramiko", "libssh"])
    def test_a_host_with_another_key_is_refused(self, six: Six, program: str) -> None:
        # Each is known by the key of the next.
        rotate = (
            "cd ~/.ssh; for file in config known_hosts; do cp -p $file $file.right; done; "
            "sed 1d known_hosts.right >names; "
            "(tail -n +3 names; head -n 2 names) | cut -d' ' -f2- >keys; "
            "cut -d' ' -f1 names | paste -d' ' - keys >known_hosts; "
            "sed 's#/etc/cluster-compute/ssh/known_hosts#/home/work/.ssh/known_hosts#' config.right >config"
        )
        back = "cd ~/.ssh; for file in config known_hosts; do mv $file.right $file; done; rm names keys"
        six.main.run("sh", "-ec", rotate)
        try:
            refused = six.main.attempt("python3", "-c", program, "sub1")
        finally:
            six.main.run("sh", "-ec", back)
        assert refused.returncode != 0
        assert "sub1\n" not in refused.stdout


class TestAgain:
    """The same request, and another one in check mode."""

    def test_a_second_launch_changes_nothing(self, six: Six) -> None:
        before = snapshot()
        # As a survey gives it: numbers as text, other spellings, an empty answer.
        answers = {"session_size": "6", "session_cpus": "1000m", "session_memory": "262144k", "session_priority": ""}
        run = launch({**REQUEST, **answers}).ok()
        assert set(run.recap) == {"localhost", *HOSTS}
        assert run.changed_hosts == set()
        assert run.actions() == {}
        assert differences(before, snapshot()) == []
        assert run.placed == {name: replica.host for name, replica in six.replicas.items()}

    def test_check_mode_of_a_recreation_tells_and_touches_nothing(self, six: Six) -> None:
        before = snapshot()
        run = launch({**REQUEST, "session_size": 5, "session_recreate": "true"}, "--check", "--diff").ok()
        assert run.changed_hosts == set(HOSTS)
        assert set(run.placed) == set(NAMES[:5])
        assert sorted(
            action for host in HOSTS for action in run.actions()[host] if action.startswith("remove container")
        ) == [f"remove container six-{name}" for name in NAMES]
        assert differences(before, snapshot()) == []


def test_many_clients_at_once(six: Six) -> None:
    """All replicas talk to all others at the same time, through ssh, as a launch tree of MPI does."""
    with ThreadPoolExecutor(6) as pool:
        output = list(pool.map(lambda replica: replica.run("ssh", "main1", "hostname").strip(), six.replicas.values()))
    assert output == ["main1"] * 6

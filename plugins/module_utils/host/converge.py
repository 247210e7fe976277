# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Converge everything one host owes a session: files, overlay link, networks, containers, record.

The input is the record with the plan, and the host's name in it. Nothing here decides where a replica runs or which
address it has.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils.adapters import engine as docker_engine
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters import link, ssh_keys, ssh_server
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.engine import Engine, EngineError
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.ledger import LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.state import (
    SessionDirectory,
    StateDirectory,
    file_differs,
    make_directory,
    write_file,
    write_in_place,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core import (
    accounts,
    environment,
    failure,
    isolation,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core import ledger as rules
from ansible_collections.cluster_compute.session.plugins.module_utils.core.capabilities import (
    DEFAULT_CAPABILITIES,
    format_memlock,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.environment import LOGIN_PORT, SSH_PORT
from ansible_collections.cluster_compute.session.plugins.module_utils.core.ledger import COMMITTED, Room, claims_of
from ansible_collections.cluster_compute.session.plugins.module_utils.core.ports import EVERY_ADDRESS
from ansible_collections.cluster_compute.session.plugins.module_utils.core.record import PREPARING, Record, started
from ansible_collections.cluster_compute.session.plugins.module_utils.core.resources import (
    PINNED,
    is_cdi_name,
    is_device_path,
    is_nvidia_uuid,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.host import guard, labels
from ansible_collections.cluster_compute.session.plugins.module_utils.host.data import SessionData, mount_entries
from ansible_collections.cluster_compute.session.plugins.module_utils.host.exits import read_failure
from ansible_collections.cluster_compute.session.plugins.module_utils.host.reservation import labelled_claims
from ansible_collections.cluster_compute.session.plugins.module_utils.host.steps import Stage, Step

MOUNT = environment.DIRECTORY
SSH_MOUNT = f"{MOUNT}/ssh"
EGRESS_INTERFACE = "eth0"
OPTION_BRIDGE = "com.docker.network.bridge.name"
ENDING_SECONDS = 2.0
"""For how long a program that is just ending may still be listed as running."""
STOP_GRACE = 10
"""Seconds between the request to stop and the kill, Docker's own default."""

LIMITS: dict[str, Any] = {
    "CapDrop": ["ALL"],
    # A program that runs as the image's user never becomes more by a setuid file (prctl(2), PR_SET_NO_NEW_PRIVS).
    "SecurityOpt": ["no-new-privileges:true"],
    # Threads count as well; far more than a job has, far less than what would take a host down.
    "PidsLimit": 16384,
    "LogConfig": {"Type": "json-file", "Config": {"max-size": "16m", "max-file": "3"}},
}
"""What holds for every replica (Docker Engine API, HostConfig)."""

SERVER_ENVIRONMENT = {"LD_PRELOAD": "", "LD_AUDIT": "", "OPENSSL_CONF": "/dev/null"}
"""What an image sets for its own programs must not reach the SSH server, which has its own loader and libraries."""

MOUNTED_FILES = ("ssh_config",)
"""Files which are mounted by themselves, as every file of /etc/hosts is: a running replica sees a change only if they
stay the same file."""

PublicKeys = Mapping[str, Mapping[str, str]]


def has_ssh(plan: Mapping[str, Any]) -> bool:
    """Tell whether replicas of a session have an SSH server: for each other, or for the session's owner."""
    return plan["network"] is not None or plan["ssh_port"] is not None


class SessionHost:
    """One host and its part of one session."""

    def __init__(
        self,
        engine: Engine,
        state: StateDirectory,
        ledger: LedgerFile,
        record: Record,
        host: str,
        holder: str,
        room: Room | None = None,
    ) -> None:
        """Take the whole *record* of a session that is being started or runs.

        holder: the run of a launch that holds the session's place while it is being started. room: what sessions may
        use of this host, to ask again for a place that was lost; None where that is not known.
        """
        plan = record["plan"]
        self.engine = engine
        self.ledger = ledger
        self.record = record
        self.room = room
        self.holder = holder if record["status"] == PREPARING else None
        self.plan = plan
        self.host = host
        self.session = plan["session"]
        self.network = plan["network"]
        self.egress = plan["egress"]
        self.has_ssh = has_ssh(plan)
        self.members = plan["replicas"]
        self.replicas = [replica for replica in self.members if replica["host"] == host]
        self.environments = environment.environments(plan, host)
        self._image_ids: dict[str, str] = {}
        self._image_variables: dict[str, dict[str, str]] = {}
        self.directory: SessionDirectory = state.session(self.session["id"])
        self.data = SessionData(record, host, self.directory, engine)
        self.labels = {
            docker_engine.LABEL_SESSION_ID: self.session["id"],
            docker_engine.LABEL_SESSION_NAME: self.session["name"],
        }

    # ---- plan -----------------------------------------------------------------------------------------------------

    def stages(self, public_keys: PublicKeys, check_mode: bool = False) -> list[Stage]:
        """Compare the host with the slice and return the steps that are missing, stage by stage.

        *public_keys* holds the public halves of every replica of the session: {name: {"client", "host"}}; it may be
        empty in check mode, before the keys exist. In check mode the session that this one replaces is still there, so
        its containers are not in the way. Raises EngineError when a container of the same name belongs to
        somebody else.
        """
        containers = {
            entry["Labels"][docker_engine.LABEL_REPLICA]: entry
            for entry in self.engine.session_containers({docker_engine.LABEL_SESSION_ID: self.session["id"]})
        }
        self._image_ids = {name: entry["ImageID"] for name, entry in containers.items()}
        if self.holder is not None and not check_mode:
            self.ledger.require(self.session["id"], self.holder)
        elif self.holder is None and any(replica["name"] not in containers for replica in self.replicas):
            self._require_room(bool(containers))
        if self.holder is not None and not check_mode:
            self.data.prove(self.holder)
        made_links = self.link_steps()
        is_running = any(entry["State"] == "running" for entry in containers.values())
        return [
            self._foreign_steps(set(containers), check_mode),
            self.rule_steps(self.engine.uses_nftables()),
            self._file_steps(public_keys),
            self.tunnel_steps(public_keys),
            made_links,
            self.peer_steps(),
            self._network_steps(containers, bool(made_links)),
            *self.data.stages(is_running, check_mode),
            self._surplus_steps(containers),
            self._connect_steps(containers, bool(made_links)),
            self._container_steps(containers, public_keys),
            self._record_steps(),
            self._commit_steps(),
        ]

    def _require_room(self, is_partly_there: bool) -> None:
        """Refuse to bring back replicas whose place is neither held nor free any more.

        Where nobody says what room there is, or the session still has a part of its place, only what others have by
        name is in the way.
        """
        claim = claims_of(self.plan)[self.host]
        held = self.ledger.read()
        if claim.session_id in held:
            return
        strays = labelled_claims(self.engine.session_containers())
        if self.room is not None and not is_partly_there:
            reasons = rules.answer(claim, held, strays, self.room).reasons
        else:
            reasons = tuple(rules.collisions(claim, [*(one.claim for one in held.values()), *strays]))
        if reasons:
            raise EngineError(
                f"The place of session {self.session['name']} on {self.host} was lost and is taken by now: "
                + " ".join(reasons)
            )

    def _foreign_steps(self, own: set[str], check_mode: bool) -> Stage:
        """Free the names of replicas that are gone.

        A session that is being started is refused. In one that runs somebody has put a container of the same name in
        a replica's place: it gets another name and is left alone otherwise.
        """
        wanted = {replica["container"] for replica in self.replicas if replica["name"] not in own}
        steps = []
        for name, entry in sorted(self.engine.containers_named(wanted).items()):
            owner = entry["Labels"].get(docker_engine.LABEL_SESSION_NAME) if docker_engine.is_replica(entry) else None
            if check_mode and owner == self.session["name"]:
                continue
            if self.record["status"] != PREPARING and not owner:
                aside = f"{name}-set-aside-{entry['Id'][:12]}"
                rename = partial(self.engine.rename_container, entry["Id"], aside)
                steps.append(Step("rename", "foreign container", name, rename, before=name, after=aside))
                continue
            whose = f"belongs to another session named {owner!r}" if owner else "does not belong to any session"
            raise EngineError(
                f"The host {self.host} already has a container named {name}, which {whose} and is not touched. "
                "Remove or rename it, or choose another session_name."
            )
        return steps

    def _file_steps(self, public_keys: PublicKeys) -> Stage:
        steps = [_write_step(self.directory.host_file, f"{self.host}\n")]
        for replica in self.replicas:
            folder = self.directory.replica(replica["name"])
            for name, content in self._files(replica, public_keys).items():
                steps.append(_write_step(folder / name, content))
            if self.network is not None:
                steps.append(_write_step(self.directory.hosts_file(replica["name"]), self._hosts_file()))
            if self.has_ssh:
                steps += self._owner_steps(replica["name"])
        if self.has_ssh:
            known = self._knows_all(public_keys)
            text = self.directory.public_keys_text(public_keys) if known else None
            steps.append(_write_step(self.directory.public_keys_file, text))
        return [step for step in steps if step is not None]

    def _knows_all(self, public_keys: PublicKeys) -> bool:
        return all(_is_known(public_keys.get(member["name"])) for member in self.members)

    def _owner_steps(self, name: str) -> Stage:
        """Give keys made anew to the user of a replica that exists; a new replica gets its keys when it starts."""
        owner = self.directory.read_owner(name)
        return [
            Step("update", "owner of key", str(path), partial(os.chown, path, *owner), before=found, after=owner)
            for path in self._key_files(name)
            if owner is not None and path.exists() and (found := (path.stat().st_uid, path.stat().st_gid)) != owner
        ]

    def _key_files(self, name: str) -> list[Path]:
        return [self.directory.replica(name) / "ssh" / key for key in (ssh_keys.CLIENT_KEY, ssh_keys.HOST_KEY)]

    def _files(self, replica: dict[str, Any], public_keys: PublicKeys) -> dict[str, str | None]:
        """Return the files of /etc/cluster-compute that are no secret: relative path to content.

        The content is None where it depends on keys that check mode kept from being made.
        """
        values = self.environments[replica["name"]]
        files: dict[str, str | None] = {"environment": environment.environment_file(values)}
        slots = [(member["name"], environment.slots(member["resources"]["cpus"])) for member in self.members]
        files["hostfile"] = environment.hostfile(slots)
        files["hostfile.mpich"] = environment.mpich_hostfile(slots)
        is_way_in = self._is_way_in(replica)
        owners = self.plan["request"]["authorized_keys"]
        if self.network is not None:
            known = self._knows_all(public_keys)
            trusted = ssh_keys.authorized_keys(self.members, public_keys, self.network["subnet"]) if known else None
            if trusted is not None and not is_way_in:
                # Who jumps through main1 comes from there.
                trusted += ssh_keys.owner_keys(owners, self.members[0]["address"])
            files["ssh/known_hosts"] = ssh_keys.known_hosts(self.members, public_keys) if known else None
            files["ssh/authorized_keys"] = trusted
        if is_way_in:
            files[f"ssh/{ssh_keys.OWNER_KEYS}"] = ssh_keys.owner_keys(owners)
        if self.has_ssh:
            files["ssh/ssh_config"] = ssh_keys.client_configuration(self.members, SSH_MOUNT)
            told = {**self._image_environment(replica), **values, "PATH": self._search_path(replica)}
            subnet = None if self.network is None else self.network["subnet"]
            files["ssh/sshd_config"] = ssh_keys.server_configuration(
                replica["address"], is_way_in, SSH_MOUNT, told, self._server_parts(), subnet
            )
        return files

    def _is_way_in(self, replica: dict[str, Any]) -> bool:
        """Tell whether the session's owner logs in to this replica from outside."""
        return self.plan["ssh_port"] is not None and replica["rank"] == 0

    def _hosts_file(self) -> str:
        """Return /etc/hosts: every replica, the own one included, has exactly one address, the session's."""
        lines = ["127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback"]
        lines += [f"{peer['address']}\t{peer['name']}" for peer in self.members]
        return "\n".join(lines) + "\n"

    def _endpoint(self, host: str) -> str:
        """Return where the overlay reaches a host: its address in the tunnel where there is one."""
        about = self.plan["hosts"][host]
        return str(about["tunnel_address"] or about["underlay_address"])

    def _vxlan(self) -> link.Vxlan | None:
        if self.network is None or self.network["driver"] != "vxlan":
            return None
        tunnel = self.network["tunnel"]
        return link.Vxlan(
            name=self.network["link"],
            vni=self.network["vni"],
            local=self._endpoint(self.host),
            port=tunnel["vxlan_port"] if tunnel else self.network["port"],
            mtu=self.network["mtu"],
            alias=self._alias,
            device=tunnel["link"] if tunnel else None,
        )

    def tunnel_steps(self, public_keys: PublicKeys) -> Stage:
        """Return what is missing of the tunnel of an encrypted session on this host; it needs no engine.

        A link that is there is changed in place, keys included, so that the overlay on it stays.
        """
        if self.network is None or self.network["tunnel"] is None:
            return []
        from ansible_collections.cluster_compute.session.plugins.module_utils.adapters import wireguard

        about = self.network["tunnel"]
        found = wireguard.read(about["link"])
        if found is not None and not self._is_own(found.alias):
            raise self._foreign_link(about["link"])
        keys = {member["host"]: (public_keys.get(member["name"]) or {}).get("tunnel") for member in self.members}
        peers = [
            wireguard.Peer(key, self._endpoint(host), self.plan["hosts"][host]["underlay_address"])
            for host, key in keys.items()
            if key and host != self.host
        ]
        wanted = wireguard.Tunnel(
            name=about["link"],
            address=self._endpoint(self.host),
            port=self.network["port"],
            mtu=about["mtu"],
            alias=self._alias,
            public_key=keys[self.host],
            peers=tuple(sorted((peer.public_key, peer.address) for peer in peers)),
        )
        if found == wanted:
            return []

        def change() -> None:
            if not all(keys.values()):
                raise link.LinkError(
                    f"The tunnel {wanted.name} cannot be made without the public keys of every host. Run the repair "
                    "playbook."
                )
            wireguard.converge(wanted, self.directory.tunnel_key_file, peers)

        if found is None:
            undo = partial(link.delete_link, wanted.name)
            return [Step("create", "link", wanted.name, change, undo, after=vars(wanted))]
        return [Step("update", "link", wanted.name, change, before=vars(found), after=vars(wanted))]

    @property
    def _alias(self) -> str:
        return link.session_alias(self.session["id"], self.session["name"])

    def _is_own(self, alias: str) -> bool:
        return alias.startswith(f"{link.ALIAS_PREFIX}{self.session['id']} ")

    def _foreign_link(self, name: str) -> link.LinkError:
        return link.LinkError(
            f"The host {self.host} already has a link named {name} that belongs to somebody else; it is not touched."
        )

    def rule_steps(self, nftables: bool) -> Stage:
        """Return what is missing of the firewall's rules, before there is anything to guard; it needs no engine."""
        return guard.rule_steps(isolation.isolation_of(self.plan, self.host), nftables)

    def link_steps(self) -> Stage:
        """Return what is missing of the overlay's link on this host; it needs no engine."""
        wanted = self._vxlan()
        if wanted is None:
            return []
        found = link.read_vxlan(wanted.name)
        if found == wanted:
            return []
        if found is not None:
            if not self._is_own(found.alias):
                raise self._foreign_link(wanted.name)

            def replace() -> None:
                link.delete_link(wanted.name)
                link.create_vxlan(wanted)

            return [Step("replace", "link", wanted.name, replace, before=vars(found), after=vars(wanted))]
        return [
            Step(
                "create",
                "link",
                wanted.name,
                partial(link.create_vxlan, wanted),
                partial(link.delete_link, wanted.name),
                after=vars(wanted),
            )
        ]

    def peer_steps(self) -> Stage:
        """Return what is missing of the link's forwarding and neighbour entries; it needs no engine."""
        wanted = self._vxlan()
        if wanted is None:
            return []
        remote = [peer for peer in self.members if peer["host"] != self.host]
        forwarding = {(peer["mac"], self._endpoint(peer["host"])) for peer in remote}
        neighbours = {(peer["address"], peer["mac"]) for peer in remote}
        have_forwarding: set[tuple[str, str]] = set()
        have_neighbours: set[tuple[str, str]] = set()
        if link.read_vxlan(wanted.name) == wanted:
            have_forwarding, have_neighbours = link.read_peers(wanted.name)
        if (have_forwarding, have_neighbours) == (forwarding, neighbours):
            return []

        def change() -> None:
            # Read again: the stage before this one may have made the link anew, and then nothing is left on it.
            on_forwarding, on_neighbours = link.read_peers(wanted.name)
            link.change_peers(
                wanted.name,
                (on_forwarding - forwarding, forwarding - on_forwarding),
                (on_neighbours - neighbours, neighbours - on_neighbours),
                wanted.device,
            )

        return [
            Step(
                "update",
                "peers of link",
                wanted.name,
                change,
                before={"forwarding": sorted(have_forwarding), "neighbours": sorted(have_neighbours)},
                after={"forwarding": sorted(forwarding), "neighbours": sorted(neighbours)},
            )
        ]

    def _network_steps(self, containers: dict[str, dict[str, Any]], link_is_lost: bool) -> Stage:
        found = {one["Name"] for one in self.engine.networks(self.labels)}
        rebooted = link_is_lost and not any(entry["State"] == "running" for entry in containers.values())
        steps = []
        for name, choice in self._network_choices().items():
            create = partial(self._create_network, name, choice)
            if name not in found:
                undo = partial(self.engine.remove_network, name)
                steps.append(Step("create", "network", name, create, undo, after=choice))
            elif rebooted and choice["driver"] == "macvlan":
                # The engine lists the network, but its driver gave it up at start, when the link was not there yet.
                renew = partial(self._renew_network, name, create, list(containers.values()))
                steps.append(Step("renew", "network", name, renew, before="without its link", after=choice))
        return steps

    def _create_network(self, name: str, choice: dict[str, Any]) -> None:
        labelled = dict(self.labels)
        if name == self.egress["name"]:
            labelled[docker_engine.LABEL_RECORD] = labels.pack(started(self.record))
        self.engine.create_network(name, labels=labelled, **choice)

    def _renew_network(self, name: str, create: Callable[[], None], containers: list[dict[str, Any]]) -> None:
        """Make a network anew that stopped containers refer to."""
        for entry in containers:
            if name in entry["NetworkSettings"]["Networks"]:
                self.engine.disconnect_container(entry["Id"], name)
        self.engine.remove_network(name)
        create()

    def _network_choices(self) -> dict[str, dict[str, Any]]:
        """Return the networks of the session: name to subnet, driver, options and internal."""
        choices: dict[str, dict[str, Any]] = {
            self.egress["name"]: {
                "subnet": self.egress["subnet"],
                "driver": "bridge",
                "options": {OPTION_BRIDGE: isolation.egress_bridge(self.session["id"])},
                "internal": False,
            }
        }
        if self.network is not None:
            if self.network["driver"] == "vxlan":
                driver, options = "macvlan", {"parent": self.network["link"], "macvlan_mode": "bridge"}
            else:
                # Without an address on the bridge neither the host nor anything routed through it gets in.
                bridge = isolation.inner_bridge(self.session["id"])
                driver, options = "bridge", {OPTION_BRIDGE: bridge, "com.docker.network.bridge.inhibit_ipv4": "true"}
            choices[self.network["name"]] = {
                "subnet": self.network["subnet"],
                "driver": driver,
                "options": options,
                "internal": True,
            }
        return choices

    def _surplus_steps(self, containers: dict[str, dict[str, Any]]) -> Stage:
        """Remove containers of this session that the slice does not (or no longer) give to this host."""
        wanted = {replica["name"] for replica in self.replicas}
        return [
            Step(
                "remove",
                "container",
                f"{self.session['name']}-{name}",
                partial(self.engine.remove_container, entry["Id"]),
                before=entry["State"],
            )
            for name, entry in sorted(containers.items())
            if name not in wanted
        ]

    def _connect_steps(self, containers: dict[str, dict[str, Any]], link_is_lost: bool) -> Stage:
        """Attach existing containers to the networks of the session where they are not, or not to the live one."""
        live = {one["Name"]: one["Id"] for one in self.engine.networks(self.labels)}
        steps = []
        for replica in self.replicas:
            entry = containers.get(replica["name"])
            if entry is None:
                continue
            attached = {name: settings["NetworkID"] for name, settings in entry["NetworkSettings"]["Networks"].items()}
            for name in self._network_choices():
                lost = link_is_lost and name != self.egress["name"]
                if lost or name not in live or attached.get(name) != live[name]:
                    connect = partial(self._connect, entry, replica, name)
                    what = f"{replica['container']} to network {name}"
                    steps.append(Step("connect", "container", what, connect, before="detached", after="attached"))
        return steps

    def _connect(self, entry: dict[str, Any], replica: dict[str, Any], network: str) -> None:
        """Give a container a new endpoint in *network*; the processes of a running one are not touched."""
        found = self.engine.inspect(entry["Id"]) or {}
        if network in found["NetworkSettings"]["Networks"]:
            self.engine.disconnect_container(entry["Id"], network)
        pid, interface = found["State"]["Pid"], None
        if self.network is not None and network == self.network["name"] and found["State"]["Running"]:
            interface = self.network["interface"]
            # The engine does not find an interface that was given its name here before, and leaves it behind.
            link.delete_interface(pid, replica["address"])
        self.engine.connect_container(entry["Id"], network, self._endpoints(replica)[network])
        if interface is not None:
            # Engines count on, so the new interface is eth2 although everything was told eth1, and engine 28 gives it
            # a MAC of its own choice whatever it is asked.
            link.settle_interface(pid, replica["address"], interface, replica["mac"])

    def _container_steps(self, containers: dict[str, dict[str, Any]], public_keys: PublicKeys) -> Stage:
        steps = []
        for replica in self.replicas:
            found = containers.get(replica["name"])
            if found is None:
                steps.append(self._create_step(replica))
            elif found["Labels"].get(docker_engine.LABEL_SPEC) != self._specification(replica):
                raise EngineError(
                    f"The container {replica['container']} on {self.host} was made from another plan than the "
                    "one that is recorded. Launch with session_recreate=true to make the session anew."
                )
            elif found["State"] != "running":
                steps += self._start_steps(found, replica)
            elif self._lost_its_files(found, pid := self._pid(found["Id"])):
                restart = partial(self._restart, found["Id"], replica)
                what = replica["container"]
                steps.append(Step("restart", "container", what, restart, before="without its files", after="running"))
            elif pid and self.data.has_lost_data(pid):
                restart = partial(self._restart, found["Id"], replica)
                what = replica["container"]
                steps.append(Step("restart", "container", what, restart, before="without its data", after="running"))
            else:
                steps += self._server_steps(found, replica, public_keys, pid)
        return steps

    def _start_steps(self, found: dict[str, Any], replica: dict[str, Any]) -> Stage:
        """Start a replica that does not run; one that failed only as often as its session's policy allows."""
        start = partial(self._start, found["Id"], replica)
        before, name = found["State"], replica["container"]
        failed = read_failure(self.engine, self.directory, found, self.host)
        if failed is None:
            return [Step("start", "container", name, start, before=before, after="running")]
        request = self.plan["request"]
        if not failure.may_restart(request["failure_policy"], request["restart_limit"], failed.restarts):
            return []
        count = partial(self.directory.write_restarts, replica["name"], failed.restarts + 1)

        def start_again() -> None:
            start()
            count()

        return [Step("restart", "container", name, start_again, before=failed.describe(), after="running")]

    def _lost_its_files(self, found: dict[str, Any], pid: int) -> bool:
        """Tell whether what a running replica sees at /etc/cluster-compute is another folder than the host's."""
        folder = self.directory.replica(found["Labels"][docker_engine.LABEL_REPLICA])
        try:
            own = os.stat(folder)
        except FileNotFoundError:
            return True
        try:
            seen = os.stat(f"/proc/{pid}/root{MOUNT}")
        except OSError:
            return False  # it is just ending
        return (seen.st_dev, seen.st_ino) != (own.st_dev, own.st_ino)

    def _restart(self, container: str, replica: dict[str, Any]) -> None:
        self.engine.stop_container(container, STOP_GRACE)
        self._start(container, replica)

    def _create_step(self, replica: dict[str, Any]) -> Step:
        made: list[str] = []

        def create() -> None:
            container = self.engine.create_container(
                replica["container"], self._body(replica), self._endpoints(replica)
            )
            made.append(container)
            try:
                self._start(container, replica)
            except Exception:  # whatever it was, half a container must not stay
                self.engine.remove_container(container)
                raise

        return Step(
            "create",
            "container",
            replica["container"],
            create,
            lambda: self.engine.remove_container(made[0]),
            after={key: replica[key] for key in ("image", "address", "resources", "command", "ports", "mounts")},
        )

    def _start(self, container: str, replica: dict[str, Any]) -> None:
        self._begin(container, replica)
        pid = self._pid(container) if self.data.paths else 0
        if pid and self.data.has_lost_data(pid):
            self.engine.stop_container(container, 0)
            raise EngineError(
                f"The replica {replica['name']} on {self.host} does not see the data that the host has mounted for it. "
                "Docker Engine has to see what is mounted on the host while it runs: see whether its unit says "
                "PrivateMounts=yes."
            )

    def _begin(self, container: str, replica: dict[str, Any]) -> None:
        if not self.has_ssh:
            self._start_container(container, replica)
            return
        description = self.engine.inspect(container) or {}
        uid, gid = self._image_user(container, description["Config"]["User"])
        # OpenSSH takes no private key that others than its user may read.
        for path in self._key_files(replica["name"]):
            os.chown(path, uid, gid)
        if description["State"]["Status"] == "created":
            known = self._settle_accounts(container, replica, uid, gid)
        else:
            known = accounts.Accounts(self.engine.read_file(container, accounts.PASSWD))
        self.directory.write_owner(replica["name"], uid, gid, accounts.name_of(known, uid))
        self._start_container(container, replica)
        try:
            self._start_server(container, replica)
        except EngineError:
            # A program that has ended already is told of with its exit code, by the proof of what runs.
            if not self._has_ended(container):
                raise

    def _has_ended(self, container: str) -> bool:
        """Tell whether the container's program is over; the engine may need a moment to notice."""
        deadline = time.monotonic() + ENDING_SECONDS
        while self._pid(container):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def _start_container(self, container: str, replica: dict[str, Any]) -> None:
        try:
            self.engine.start_container(container)
        except EngineError as error:
            if replica["memlock"] is None or "rlimit" not in str(error):
                raise
            raise EngineError(
                f"The engine of {self.host} cannot give {replica['container']} the session_memlock "
                f"{format_memlock(replica['memlock'])}: it may not raise that limit above its own. Start it with the "
                f"capability CAP_SYS_RESOURCE, or ask for less. {error}"
            ) from error

    def _pid(self, container: str) -> int:
        """Return the process of the host that is the container's first; 0 where it does not run."""
        return int(((self.engine.inspect(container) or {}).get("State") or {}).get("Pid") or 0)

    def _start_server(self, container: str, replica: dict[str, Any]) -> None:
        """Start the SSH server of a replica that runs, beside the image's own program, as the image's user."""
        command = [environment.SERVER, "-f", f"{SSH_MOUNT}/sshd_config"]
        code, out, error = self.engine.execute(container, command, environment=SERVER_ENVIRONMENT)
        if code != 0:
            raise EngineError(
                f"The SSH server of {replica['container']} on {self.host} could not be started: it ended with exit "
                f"code {code}. {(error + out).strip()}"
            )

    def _server_steps(self, found: dict[str, Any], replica: dict[str, Any], public_keys: PublicKeys, pid: int) -> Stage:
        """Start the SSH server of a running replica where it is gone, as after a restart by somebody else.

        One that answers with another key than the replica has by now is ended first: from OpenSSH 9.8 on it reads its
        key when it begins, older ones read it for each login.
        """
        if not self.has_ssh or replica["name"] not in public_keys:
            return []
        place = (EVERY_ADDRESS, LOGIN_PORT) if self.network is None else (replica["address"], SSH_PORT)
        wanted = public_keys[replica["name"]]["host"]  # None for one that check mode keeps from being made
        answer = ssh_server.host_key(pid, *place) if pid else wanted
        if answer is None or answer == wanted or (answer and wanted is None and not self._server_parts()):
            return []
        start = partial(self._start_server, found["Id"], replica)
        if not answer:
            return [Step("start", "SSH server", replica["container"], start, before="stopped", after="running")]

        def renew() -> None:
            ssh_server.end(pid, *place)
            start()

        return [Step("restart", "SSH server", replica["container"], renew, before=answer, after=wanted)]

    def _server_parts(self) -> dict[str, str]:
        """Return the settings that name the programs this host's SSH server consists of; none for an older one."""
        return {name: path for name, path in environment.SERVER_PARTS.items() if _is_in_runtime(path)}

    def _settle_accounts(self, container: str, replica: dict[str, Any], uid: int, gid: int) -> accounts.Accounts:
        """Give a container that was never started the accounts that SSH needs for the user its image runs as.

        Returns them as they are afterwards. What the request mounts over is not the container's and stays as it is.
        """
        mounted = [mount["target"].rstrip("/") for mount in replica["mounts"]]

        def is_own(path: str) -> bool:
            return not any(f"{path}/".startswith(f"{target}/") for target in mounted)

        found = accounts.Accounts(
            self.engine.read_file(container, accounts.PASSWD),
            self.engine.read_file(container, accounts.SHADOW) if uid == 0 else None,
        )
        shell = "/bin/sh" if self.engine.has_path(container, "/bin/sh") else environment.SHELL
        has = accounts.shell_of(found, uid)
        missing = has if has and not self.engine.has_path(container, has) else ""
        wanted = accounts.settle(found, uid, gid, shell, missing)
        for path, before, after, mode in (
            (accounts.PASSWD, found.passwd, wanted.passwd, 0o644),
            (accounts.SHADOW, found.shadow, wanted.shadow, 0o600),
        ):
            if after is not None and after != before and is_own(path):
                self.engine.write_file(container, path, after, mode)
        if uid == 0 and is_own(accounts.SERVER_FOLDER):
            self.engine.make_folder(container, accounts.SERVER_FOLDER)
        return wanted

    def _image_of(self, replica: dict[str, Any]) -> str:
        """Return the image that the session runs by the replica's reference, whatever that means on this host now.

        Only check mode does not know it yet, where the image would have to be fetched first.
        """
        pinned = self.plan["images"][replica["image"]]["ids"][self.host]
        return str(pinned or replica["image"])

    def _image_environment(self, replica: dict[str, Any]) -> dict[str, str]:
        """Return the variables that the replica's image sets; none where the image is not here yet."""
        # The image that an existing container was made from: its tag may mean another one by now.
        image = self._image_ids.get(replica["name"]) or self._image_of(replica)
        if image not in self._image_variables:
            configuration = (self.engine.inspect_image(image) or {}).get("Config") or {}
            pairs = (text.partition("=") for text in configuration.get("Env") or [])
            self._image_variables[image] = {
                name: value for name, _dummy, value in pairs if environment.ENVIRONMENT_NAME.fullmatch(name)
            }
        return self._image_variables[image]

    def _search_path(self, replica: dict[str, Any]) -> str:
        """Return the replica's PATH: the user's or the image's own, then the SSH client for images without one."""
        own = self.environments[replica["name"]].get("PATH") or self._image_environment(replica).get("PATH")
        return f"{own or environment.DEFAULT_PATH}:{environment.RUNTIME}/bin"

    def _image_user(self, container: str, user: str) -> tuple[int, int]:
        """Return uid and gid of an image's USER: empty, a name or a number, with or without ":group"."""
        name, _dummy, group = user.partition(":")
        if name in ("", "0", "root"):
            return 0, 0
        if name.isdigit():
            return int(name), int(group) if group.isdigit() else 0
        for line in (self.engine.read_file(container, "/etc/passwd") or "").splitlines():
            fields = line.split(":")
            if len(fields) >= 4 and fields[0] == name:
                return int(fields[2]), int(fields[3])
        raise EngineError(f"The image's user {name!r} is not in its /etc/passwd, so its SSH keys have no owner.")

    def _specification(self, replica: dict[str, Any]) -> str:
        """Return a digest of everything the plan says of one replica."""
        text = json.dumps([replica, self.network, self.egress], sort_keys=True)
        return _digest(text.encode())

    def _endpoints(self, replica: dict[str, Any]) -> dict[str, dict[str, Any]]:
        endpoints = {self.egress["name"]: self.engine.endpoint(EGRESS_INTERFACE)}
        if self.network is not None:
            endpoints[self.network["name"]] = self.engine.endpoint(
                self.network["interface"], replica["address"], replica["mac"]
            )
        return endpoints

    def _body(self, replica: dict[str, Any]) -> dict[str, Any]:
        """Return the body of the engine's container-create request (Docker Engine API, ContainerCreate)."""
        resources = replica["resources"]
        values = dict(self.environments[replica["name"]])
        if self.has_ssh:
            values["PATH"] = self._search_path(replica)
        bindings: dict[str, list[dict[str, str]]] = {}
        for port in replica["ports"]:
            published = {"HostIp": port["host_ip"], "HostPort": str(port["host_port"])}
            bindings.setdefault(f"{port['container_port']}/{port['protocol']}", []).append(published)
        body: dict[str, Any] = {
            "Hostname": replica["name"],
            "Image": self._image_of(replica),
            "Env": [f"{name}={value}" for name, value in values.items()],
            "Labels": {
                **self.labels,
                docker_engine.LABEL_REPLICA: replica["name"],
                docker_engine.LABEL_SPEC: self._specification(replica),
                docker_engine.LABEL_CPUS: str(resources["cpus"]),
                docker_engine.LABEL_MEMORY: str(resources["memory"]),
                docker_engine.LABEL_DEVICES: json.dumps(replica["devices"], sort_keys=True, separators=(",", ":")),
            },
            "ExposedPorts": {port: {} for port in bindings},
            "HostConfig": {
                "Init": True,
                # A quota, not NanoCpus: the engine refuses NanoCpus above the cores it sees, although a site may
                # declare more (or a share of) them for the host.
                "CpuPeriod": docker_engine.CPU_PERIOD,
                "CpuQuota": resources["cpus"] * docker_engine.CPU_PERIOD // 1000,
                "Memory": resources["memory"],
                "MemorySwap": resources["memory"],
                "ShmSize": resources["shm_size"],
                "Mounts": self._mounts(replica),
                "PortBindings": bindings,
                "RestartPolicy": {"Name": "no"},
                **LIMITS,
                "CapAdd": [*DEFAULT_CAPABILITIES, *replica["capabilities"]],
                "Ulimits": _ulimits(replica),
                **_devices(replica),
            },
        }
        if replica["command"] is not None:
            body["Cmd"] = replica["command"]
        return body

    def _mounts(self, replica: dict[str, Any]) -> list[dict[str, Any]]:
        folder = self.directory.replica(replica["name"])
        own = [(str(folder), MOUNT, True)]
        if self.network is not None:
            own.append((str(self.directory.hosts_file(replica["name"])), "/etc/hosts", False))
        if self.has_ssh:
            own += [
                (str(folder / "ssh/ssh_config"), environment.SSH_CLIENT_FRAGMENT, True),
                (environment.RUNTIME_ON_HOST, environment.RUNTIME, True),
            ]
        return [
            {"Type": "bind", "Source": source, "Target": target, "ReadOnly": read_only}
            for source, target, read_only in own
        ] + mount_entries(self.session["id"], replica["mounts"])

    def _record_steps(self) -> Stage:
        wanted = started(self.record)
        found = self.directory.read_record()
        if found is not None and found["revision"] >= wanted["revision"] and found["plan"] is not None:
            return []
        if found is not None and found["status"] == PREPARING:
            found = None  # it stands for this very launch
        return [
            Step(
                "update" if found else "create",
                "record",
                self.session["name"],
                partial(self.directory.write_record, wanted),
                before=found and {"status": found["status"], "revision": found["revision"]},
                after={"status": wanted["status"], "revision": wanted["revision"]},
            )
        ]

    def _commit_steps(self) -> Stage:
        """Make the reservation last as long as the session; a ledger that lost it gets it back."""
        session_id = self.session["id"]
        held = self.ledger.read().get(session_id)
        if held is not None and held.stage == COMMITTED:
            return []
        claim = claims_of(self.plan)[self.host]
        commit = partial(self.ledger.commit, claim, self.holder)
        return [
            Step(
                "commit",
                "reservation",
                self.session["name"],
                commit,
                partial(self.ledger.release, session_id),
                before=held.stage if held else None,
                after=COMMITTED,
            )
        ]


def _ulimits(replica: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the limits of each process of a replica that differ from the engine's (Docker Engine API, Resources)."""
    limit = replica["memlock"]
    return [] if limit is None else [{"Name": "memlock", "Soft": limit, "Hard": limit}]


def _devices(replica: dict[str, Any]) -> dict[str, Any]:
    """Return what the engine is told of a replica's accelerators and CPUs (Docker Engine API, Resources)."""
    names = [name for kind, some in replica["devices"].items() if kind != PINNED for name in some]
    # Accelerators may share a device file, as AMD's do /dev/kfd.
    paths = dict.fromkeys(path for name in names if is_device_path(name) for path in name.split("+"))
    requests = [
        {"Driver": "nvidia", "DeviceIDs": [*filter(is_nvidia_uuid, names)], "Capabilities": [["gpu"]]},
        {"Driver": "cdi", "DeviceIDs": [*filter(is_cdi_name, names)]},
    ]
    told: dict[str, Any] = {}
    if paths:
        told["Devices"] = [{"PathOnHost": path, "PathInContainer": path, "CgroupPermissions": "rwm"} for path in paths]
    if PINNED in replica["devices"]:
        told["CpusetCpus"] = ",".join(replica["devices"][PINNED])
        told["CpusetMems"] = ",".join(map(str, replica["memory_nodes"]))
    told["DeviceRequests"] = [request for request in requests if request["DeviceIDs"]]
    return told


def _is_in_runtime(path: str) -> bool:
    """Tell whether this host's SSH runtime has what a replica sees at *path*."""
    return os.path.exists(environment.RUNTIME_ON_HOST + path[len(environment.RUNTIME) :])


def _is_known(keys: Mapping[str, str | None] | None) -> bool:
    """Tell whether both public halves of a replica are there; check mode does not have those of keys to be made."""
    return keys is not None and bool(keys) and all(keys.values())


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

    # Digests, not contents: the environment of a session may hold its user's secrets.
    before = _digest(path.read_bytes()) if path.is_file() else None
    after = "made with the new keys" if content is None else _digest(content.encode())
    return Step("update" if before else "create", "file", str(path), write, before=before, after=after)


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"

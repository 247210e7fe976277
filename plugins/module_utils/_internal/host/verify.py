# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Check that the replicas of one host run, are on the session's network, and can send packets of the full size."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

from ..adapters import firewall, ssh_server
from ..adapters.engine import RUNTIME, Engine
from ..adapters.engine_objects import Health, Inspected
from ..adapters.first_address import is_first
from ..adapters.link import LinkError, addresses_of, run_in_network_of
from ..adapters.listeners import listening_addresses, listens
from ..core.model.call.session_host import ProvenReplica
from ..core.model.plan import VXLAN, Network, Plan, Replica
from ..core.model.record import PublicKeys
from ..core.rules.endpoints import ACCEPT_FORWARDED, DROPPED
from ..core.rules.environment import LOGIN_PORT, SSH_PORT
from ..core.rules.first_program import in_front
from ..core.rules.logins import login_pairs
from ..core.values.deferred import dataclass
from ..core.values.errors import OUTPUT, SessionError
from ..core.values.ports import EVERY_ADDRESS
from . import engine_settings, logins

ICMP_OVERHEAD = {4: 28, 6: 48}
"""Bytes of IP and ICMP headers around a ping's data (RFC 791, RFC 792, RFC 8200, RFC 4443)."""
PARALLEL = 16
EVERYWHERE = (EVERY_ADDRESS, "::")
"""Addresses of a server that listens on all addresses. By default, one on :: also answers IPv4 (ipv6(7))."""


class VerificationFailed(SessionError):
    """A replica differs from the plan. The message names the replica, the host and the last state seen."""


@dataclass(frozen=True)
class Ready:
    """A replica that is ready. pid: of its first process. runtime: of the engine, by which it was started."""

    replica: Replica
    pid: int
    runtime: str | None


class PeersSilent(VerificationFailed):
    """The replicas of a host work as far as it can check alone. Others did not answer in time, or are not started."""


LONGEST_OUTPUT = 8192
"""Characters of a replica's last output in an error."""
SERVER_SECONDS = 15.0
"""Seconds until an SSH server has to listen after its start."""
PATIENCE = 5.0
"""Seconds until the first reply of a peer, which may still be starting."""
EVERY_HEALTHCHECK = 30_000_000_000
"""Default nanoseconds between two runs of a HEALTHCHECK (Docker Engine API, HealthConfig)."""
ROUND = 2.0
"""Seconds to wait for a peer before asking it if waiting makes sense."""


@dataclass(frozen=True)
class Waiting:
    """How to wait while replicas are checked.

    patience: seconds until peers on other hosts have to answer. With 0 they may not be started yet, so they are not
    contacted, and replicas here that may need them are not waited for. check: called during each wait. An exception
    from it ends the wait. put_back: restores names that programs of the replicas have changed. Its result is false if
    nothing was changed.
    """

    patience: float = PATIENCE
    check: Callable[[], None] = lambda: None
    put_back: Callable[[], object] = lambda: None


ALONE = Waiting()
"""Without anything to watch in the meantime."""


def verify(
    engine: Engine,
    plan: Plan,
    host: str,
    timeout: float,
    public_keys: PublicKeys,
    waiting: Waiting = ALONE,
) -> list[ProvenReplica]:
    """Wait at most *timeout* seconds for every replica on *host*, then check its network.

    public_keys: public keys of the session's replicas, as far as they are known here. Raises VerificationFailed with
    everything that is wrong, and PeersSilent if only peers are missing.
    """
    deadline = time.monotonic() + timeout
    ready = wait_until_ready(engine, plan, plan.on(host), deadline, waits=bool(waiting.patience), check=waiting.check)
    waiting.put_back()
    proven = [_proven(plan.network, found) for found in ready]
    if plan.network is not None:
        if plan.network.driver == VXLAN:
            _prove_packets(plan, plan.network.port, ready[0], proven[0], waiting)
        if plan.network.tunnel is not None:
            _prove_tunnel(plan, plan.network.tunnel.link, host)
        _prove_logins(engine, plan, host, waiting)
    if plan.ssh_port is not None:
        for found in ready:
            if found.replica.rank == 0:
                _prove_login(found.replica, found.pid, public_keys[found.replica.name]["host"])
    return proven


def _proven(network: Network | None, found: Ready) -> ProvenReplica:
    """Check what a replica needs of its own network, if it has one."""
    replica = found.replica
    place = (replica.name, replica.host, replica.container, replica.rank, replica.address)
    if network is None:
        return ProvenReplica(*place)
    interface, mtu = _prove_interface(network, replica, found.pid)
    _prove_server(replica, found.pid)
    _prove_first_address(found)
    return ProvenReplica(*place, interface=interface, mtu=mtu)


def wait_until_ready(
    engine: Engine,
    plan: Plan,
    replicas: Sequence[Replica],
    deadline: float,
    *,
    waits: bool = True,
    check: Callable[[], None] = lambda: None,
    healthy: bool = False,
) -> list[Ready]:
    """Wait until replicas run, and listen if their role requires it.

    deadline: of the monotonic clock. waits: whether a running replica may take until then to get ready. check: as in
    `verify`. healthy: whether replicas whose roles start before others also have to be healthy, by their image's check.
    Raises VerificationFailed, and PeersSilent if a replica that is not waited for is not ready.
    """
    ports = {role["name"]: role.get("ready_port") for role in plan.request["roles"]}
    awaited = {name for role in plan.request["roles"] for name in role.get("after", ())} if healthy else set()
    return [
        _wait_until_ready(engine, replica, ports.get(replica.role), replica.role in awaited, deadline, waits, check)
        for replica in replicas
    ]


def _wait_until_ready(
    engine: Engine,
    replica: Replica,
    port: int | None,
    healthy: bool,
    deadline: float,
    waits: bool,
    check: Callable[[], None],
) -> Ready:
    delay = 0.05
    while True:
        result = _wait_until_running(engine, replica, healthy, deadline, waits, check)
        # The other replicas cannot use a service that only its own replica reaches.
        seen = listening_addresses(result.pid, port) if port is not None else set()
        if port is None or seen & {replica.address, *EVERYWHERE}:
            return result
        if not waits:
            raise _not_ready(replica)
        if time.monotonic() > deadline:
            raise VerificationFailed(_not_listening(engine, replica, port, seen))
        check()
        time.sleep(delay)
        delay = min(delay * 2, 1.0)


def _not_listening(engine: Engine, replica: Replica, port: int, seen: Collection[str]) -> str:
    where = f"{replica.address} port {port}" if replica.address else f"port {port} of every address"
    only = f" It listens there on {', '.join(sorted(seen))} alone." if seen else ""
    return (
        f"The replica {replica.name} on {replica.host} runs and does not listen on {where}, as it has to "
        f"by ready_port of its role.{only}\n{_last_output(engine.logs(replica.container, 20))}"
    )


def _not_ready(replica: Replica) -> PeersSilent:
    return PeersSilent(f"The replica {replica.name} on {replica.host} is not ready; others may have to start.")


def _wait_until_running(
    engine: Engine, replica: Replica, healthy: bool, deadline: float, waits: bool, check: Callable[[], None]
) -> Ready:
    delay = 0.05
    while True:
        found = _inspect(engine, replica, check)
        is_late = time.monotonic() > deadline
        if found.status == "running":
            if not healthy or found.health is None or found.health.status == "healthy":
                return Ready(replica, found.pid, found.runtime)
            if not waits:
                raise _not_ready(replica)
            if is_late:
                raise VerificationFailed(_not_healthy(replica, found, found.health))
        elif found.status in ("exited", "dead") or is_late:
            _see_teardown(check)
            raise VerificationFailed(_not_running(engine, replica, found))
        check()
        time.sleep(delay)
        delay = min(delay * 2, 1.0)


def _inspect(engine: Engine, replica: Replica, check: Callable[[], None]) -> Inspected:
    """Return the engine's data of a replica's container. Raises VerificationFailed if it does not exist."""
    found = engine.inspect(replica.container)
    if found is None:
        _see_teardown(check)
        raise VerificationFailed(
            f"The container {replica.container} on {replica.host} does not exist: somebody has removed it."
        )
    return found


def _not_running(engine: Engine, replica: Replica, found: Inspected) -> str:
    return (
        f"The replica {replica.name} on {replica.host} is not running: its container "
        f"{replica.container} is {found.status}, exit code {found.exit_code}"
        f"{', killed because it ran out of memory' if found.out_of_memory else ''}. "
        f"{found.error}{_in_front(replica, found)}\n"
        f"{_last_output(engine.logs(replica.container, 20))}"
    )


def _not_healthy(replica: Replica, found: Inspected, health: Health) -> str:
    """Return why the roles after that of a replica cannot start, from its health in the engine."""
    seconds = (found.interval or EVERY_HEALTHCHECK) / 1e9
    why = (
        f"{health.status}: it was tried every {seconds:g} s and failed the last {health.failures} times"
        if health.outputs
        else f"not known yet: it is tried for the first time after {seconds:g} s"
    )
    return (
        f"The replica {replica.name} on {replica.host} runs, and roles come after {replica.role!r}, so that it has to "
        f"be healthy by the HEALTHCHECK of its image first; that is {why}. Start what the check needs in the role, "
        "give the image another one, or raise launch_ready_timeout."
        + "".join(f"\n{OUTPUT}{line}" for line in _lines("".join(health.outputs[-1:]))[-20:])
    )


def _in_front(replica: Replica, found: Inspected) -> str:
    return in_front(found.entrypoint, found.command, found.init, replica.entrypoint is not None)


def _see_teardown(check: Callable[[], None]) -> None:
    """Report that a replica is missing because its session was removed, whatever a peer answers."""
    with suppress(PeersSilent):
        check()


def _prove_server(replica: Replica, pid: int) -> None:
    """Check that the replica's SSH server, which was started with it, listens."""
    if not ssh_server.comes_to(lambda: listens(pid, str(replica.address), SSH_PORT), SERVER_SECONDS):
        raise VerificationFailed(
            f"The SSH server of the replica {replica.name} on {replica.host} does not listen on "
            f"{replica.address} port {SSH_PORT}."
        )


def _lines(text: str) -> list[str]:
    return text[-LONGEST_OUTPUT:].strip().splitlines()


def _prove_logins(engine: Engine, plan: Plan, host: str, waiting: Waiting) -> None:
    """Check that replicas can log in to each other. Servers of other hosts may still be starting."""
    own, others = login_pairs(plan, host)
    failures = logins.failures(engine, own)
    if failures and waiting.put_back():  # an entrypoint has changed names in the meantime
        failures = logins.failures(engine, own)
    if failures:
        raise VerificationFailed("\n".join([*failures, *_other_rules(engine)]))
    deadline = time.monotonic() + waiting.patience
    while failures := logins.failures(engine, others):
        if time.monotonic() > deadline:
            raise PeersSilent("\n".join(failures))
        waiting.check()
        waiting.put_back()
        time.sleep(1)


def _other_rules(engine: Engine) -> list[str]:
    """Return why replicas of one host may not reach each other, by the rules of the firewall."""
    why = engine_settings.why_no_rules(engine.process())
    if not why:
        if engine.uses_nftables() and firewall.drops_forwarded():
            return [f"{DROPPED} {ACCEPT_FORWARDED}"]
        return []
    return [
        f"Docker Engine writes no firewall rules ({why}). Rules from before that setting, or others of the host, may "
        "reject what replicas send to each other. Restart the host, or accept it by a rule in the chain FORWARD."
    ]


def _last_output(text: str) -> str:
    """Return the end of an error message: the replica's last output, or that it has no output."""
    lines = _lines(text)
    if not lines:
        return "It wrote nothing. Its program has to stay in the foreground."
    return "\n".join(["Its last output:", *(OUTPUT + line for line in lines)])


def _prove_login(replica: Replica, pid: int, key: str | None) -> None:
    """Check that the replica's SSH server, not a program of the image, listens for the session's owner."""
    if not ssh_server.comes_to(lambda: ssh_server.host_key(pid, EVERY_ADDRESS, LOGIN_PORT) == key, SERVER_SECONDS):
        raise VerificationFailed(
            f"The SSH server of the replica {replica.name} on {replica.host} does not answer on port "
            f"{LOGIN_PORT}, where session_authorized_keys log in. The image's own program has to leave this port alone."
        )


def _prove_interface(network: Network, replica: Replica, pid: int) -> tuple[str, int]:
    """Compare the replica's session interface with the plan: name, address, MAC, MTU. Return its name and MTU."""
    found = addresses_of(pid)
    link = found.get(str(replica.address))
    if link is None:
        raise VerificationFailed(
            f"The replica {replica.name} on {replica.host} has no interface with its address "
            f"{replica.address}; it has {', '.join(sorted(found)) or 'none'}."
        )
    parts: list[tuple[str, object, object]] = [("interface", link.name, network.interface)]
    if network.mtu is not None:  # a local bridge learns MACs by itself, so the engine can choose them
        parts += [("mac", link.mac, replica.mac), ("mtu", link.mtu, network.mtu)]
    changes = "; ".join(f"{name} {have}, planned {wanted}" for name, have, wanted in parts if have != wanted)
    if changes:
        raise VerificationFailed(
            f"The session interface of the replica {replica.name} on {replica.host} is not as planned: {changes}."
        )
    return link.name, link.mtu


def _prove_first_address(found: Ready) -> None:
    """Check that programs of a replica which was started by our runtime find its session's address first."""
    replica = found.replica
    if found.runtime == RUNTIME and not is_first(found.pid, str(replica.address)):
        raise VerificationFailed(
            f"Programs of the replica {replica.name} on {replica.host} do not find its session's address "
            f"{replica.address} first, for which the engine's runtime {RUNTIME} was to see when the "
            "container was started. The log of the host's engine says why."
        )


def _first_elsewhere(plan: Plan, host: str) -> list[Replica]:
    """Return the first replica of each other host."""
    first: dict[str, Replica] = {}
    for replica in plan.replicas:
        if replica.host != host:
            first.setdefault(replica.host, replica)
    return list(first.values())


def _prove_packets(plan: Plan, port: int | None, own: Ready, proven: ProvenReplica, waiting: Waiting) -> None:
    """Send an unfragmentable packet of the full size from this host's first replica to the first of every other host.

    Every host does this, so each pair is checked in both directions.
    """
    host, mtu = proven.host, proven.mtu
    silent = _first_elsewhere(plan, host)
    size = str(mtu - ICMP_OVERHEAD[4])
    if silent and not waiting.patience:
        raise PeersSilent(f"The replicas on {', '.join(target.host for target in silent)} were not asked yet.")

    def ping(target: Replica) -> str | None:
        seconds = str(math.ceil(min(waiting.patience, ROUND)))
        command = ["ping", "-n", "-q", "-M", "do", "-s", size, "-c", "1", "-w", seconds, str(target.address)]
        try:
            run_in_network_of(own.pid, command)
        except LinkError as error:
            return (
                f"No packet of the full size ({mtu} bytes, unfragmented) came back from {target.name} on "
                f"{target.host} to {proven.name} on {host}. UDP port {port} has to be open between the hosts, and "
                f"the path between them has to carry the underlay's MTU. {error}"
            )
        return None

    rounds = math.ceil(waiting.patience / ROUND)
    from concurrent.futures import ThreadPoolExecutor  # not needed for the facts of a host

    with ThreadPoolExecutor(max_workers=PARALLEL) as pool:
        while silent:
            begun = time.monotonic()
            failures = {target.host: failure for target, failure in zip(silent, pool.map(ping, silent)) if failure}
            silent = [target for target in silent if target.host in failures]
            rounds -= 1
            if not silent:
                break
            if not rounds:
                raise PeersSilent("\n".join(failures.values()))
            waiting.check()
            time.sleep(max(0.0, begun + 1 - time.monotonic()))  # where ping itself could not be run


def _prove_tunnel(plan: Plan, name: str, host: str) -> None:
    """Check that the packets to and from each other host went through the tunnel."""
    from ..adapters import wireguard

    tunnel = wireguard.read(name)
    peers = {address: key for key, address in tunnel.peers} if tunnel is not None else {}
    seen = wireguard.traffic(name) if peers else {}
    for other, host_plan in plan.hosts.items():
        found = seen.get(peers.get(str(host_plan.tunnel_address), ""))
        if other != host and (found is None or not (found.handshake and found.received and found.sent)):
            raise VerificationFailed(f"The tunnel {name} on {host} has carried nothing to and from {other}.")

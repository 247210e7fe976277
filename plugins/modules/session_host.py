#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_host
short_description: Bring one host's part of a session through its life
version_added: 0.1.0
description:
  - One call does everything that one host owes a session at one step of its life. A launch goes through
    O(state=reserved), O(state=prepared), O(state=present) and O(state=verified), each on all hosts of the session
    before the next. It is one module so that the hosts' side is put together once in a launch.
  - With O(state=reserved) asks the host, under its lock, whether the claim fits beside everything that is held at that
    moment, and holds it for O(lease_seconds) if it does. A refusal is an answer, no failure.
  - With O(state=released) gives back what a launch holds, unless the session runs.
  - With O(state=offered) makes the folders that the request gives an owner or a mode, and writes a file into those that
    the hosts share; with O(state=proven) reads what another host wrote there, and refuses those that are not the same.
    A launch does both before it removes the session that it replaces, and removes them again with O(state=absent).
  - With O(state=prepared) confirms the reservation, which all hosts of the session have granted by now, and writes the
    record down; a host that carries no replica keeps a note that the session exists. Makes an ed25519 client key and an
    ed25519 host key for each replica on this host. Private halves stay on the host. An existing key is kept. Does as
    with O(state=offered).
  - With O(state=present) does, for a session that is being started, as with O(state=proven). Makes what the plan gives
    to this host and what is missing of it - files, overlay link with its forwarding and neighbour entries, networks,
    mounts, volumes, containers, record - containers side by side. When a step fails, what this call had made for a
    session that is being started is removed again.
  - With O(state=verified) waits until every replica on this host runs and, if its image says how to tell, is healthy,
    and proves that each has the interface, address, MAC and MTU of the plan, and that unfragmented packets of the full
    size pass between this host's replicas and those of every other host, both ways.
  - With O(state=absent) removes everything the session has on this host, found by labels, link aliases and state,
    whatever is left of it. Data folders and named volumes stay, and so does, for some days, what its replicas wrote.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.recorded
  - cluster_compute.session.attributes.state_directory
attributes:
  check_mode:
    support: full
  diff_mode:
    support: partial
    details: There is nothing to show for O(state=reserved), O(state=released) and O(state=verified).
options:
  state:
    description:
      - What shall be true of the session on this host.
    type: str
    choices: [reserved, released, offered, proven, prepared, present, verified, absent]
    default: present
  claim:
    description:
      - What the session takes on this host, as M(cluster_compute.session.session_plan) returns it. Required with
        O(state=reserved) and O(state=released).
    type: dict
  room:
    description:
      - What sessions may use of this host in all, as M(cluster_compute.session.session_plan) returns it. Required with
        O(state=reserved).
    type: dict
  lease_seconds:
    description:
      - With O(state=reserved) the seconds for which the capacity is held if nothing more is heard of the launch.
    type: int
    default: 120
  holder:
    description:
      - The run of the launch that holds the session's place, as M(cluster_compute.session.session_plan) returns it.
        Only its own reservation is renewed, confirmed, used or given back. Required with O(state=reserved),
        O(state=released), O(state=offered), O(state=proven) and O(state=prepared).
    type: str
  record:
    description:
      - The record as M(cluster_compute.session.session_plan) returns it. Required with O(state=offered),
        O(state=proven), O(state=prepared), O(state=present) and O(state=verified).
    type: dict
  host:
    description:
      - Name of this host in the plan. Required with O(state=offered), O(state=proven), O(state=prepared),
        O(state=present) and O(state=verified).
    type: str
  regenerate_keys:
    description:
      - With O(state=prepared) makes all keys anew, although they exist.
    type: bool
    default: false
  deadline_seconds:
    description:
      - With O(state=prepared) the seconds within which the session has to run, or its reservation is free again.
    type: int
    default: 600
  public_keys:
    description:
      - With O(state=present) the public halves of the keys of every replica, as O(state=prepared) returns them.
    type: dict
    default: {}
  timeout:
    description:
      - With O(state=verified) the seconds after which a replica that is not ready is reported with its last state.
    type: int
    default: 60
  session_name:
    description:
      - Name of the session. With O(state=absent) this or O(session_id) is required.
    type: str
  session_id:
    description:
      - With O(state=absent) removes only the session that has this identifier.
    type: str
  keep_record:
    description:
      - With O(state=absent) leaves the session's record where it is.
    type: bool
    default: false
  undo:
    description:
      - With O(state=absent) removes as well what the launch of the session made of data - volumes and empty folders.
    type: bool
    default: false
  keep_data:
    description:
      - With O(undo) leaves volumes that hold anything, as those may that were not made just now.
    type: bool
    default: false
  unless_reserved:
    description:
      - With O(state=absent) and O(session_id) leaves everything as it is while a launch holds room for the session.
    type: bool
    default: false
  judged_revision:
    description:
      - With O(state=absent) and O(session_id) leaves everything as it is where this host has a newer record by now.
    type: int
  output_size:
    description:
      - With O(state=absent) most bytes that are kept of what each replica wrote, the newest ones, as a number or with a
        unit. V(0) keeps nothing. Nothing is kept with O(undo).
    type: str
    default: 16m
  output_days:
    description:
      - With O(state=absent) days for which it is kept.
    type: int
    default: 7
  output_sessions:
    description:
      - With O(state=absent) sessions that have ended of which it is kept at most, the newest ones.
    type: int
    default: 50
requirements:
  - Docker SDK for Python 5.0 or newer
  - cryptography
  - iproute2, iputils-ping, util-linux
seealso:
  - module: cluster_compute.session.session_plan
  - module: cluster_compute.session.session_decide
  - module: cluster_compute.session.session_gate
"""

EXAMPLES = r"""
- name: Hold what the session takes on this host
  cluster_compute.session.session_host:
    state: reserved
    claim: "{{ launch_plan.claims[inventory_hostname].claim }}"
    room: "{{ launch_plan.claims[inventory_hostname].room }}"
    holder: "{{ launch_plan.holder }}"
  register: launch_reserved

- name: Make ready what the replicas on this host need
  cluster_compute.session.session_host:
    state: prepared
    record: "{{ launch_plan.record }}"
    holder: "{{ launch_plan.holder }}"
    host: "{{ inventory_hostname }}"
  register: launch_prepared

- name: Start what the plan gives to this host
  cluster_compute.session.session_host:
    record: "{{ launch_plan.record }}"
    holder: "{{ launch_plan.holder }}"
    host: "{{ inventory_hostname }}"
    public_keys: "{{ launch_public_keys }}"

- name: Wait for the replicas on this host and prove their network
  cluster_compute.session.session_host:
    state: verified
    record: "{{ launch_plan.record }}"
    host: "{{ inventory_hostname }}"

- name: Remove everything the session has on this host
  cluster_compute.session.session_host:
    state: absent
    session_name: train
"""

RETURN = r"""
granted:
  description: Whether the host holds the claim.
  returned: with O(state=reserved)
  type: bool
reasons:
  description: Why it does not, in full sentences.
  returned: with O(state=reserved)
  type: list
  elements: str
undecided:
  description: Sessions that do not know yet whether they start, and are the only ones in the way.
  returned: with O(state=reserved)
  type: list
  elements: str
public_keys:
  description: For each replica the public halves C(client) and C(host); null for a key that only check mode holds back.
  returned: with O(state=prepared)
  type: dict
  sample:
    main1:
      client: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA
      host: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB
actions:
  description: What was done, or would be done, in order.
  returned: with O(state=offered), O(state=proven), O(state=prepared), O(state=present) and O(state=absent)
  type: list
  elements: str
  sample:
    - create network cc-3614fdf3
    - create container train-main1
seconds:
  description:
    - How long it took to make networks, files and data, C(network), and how long the containers, C(start).
  returned: with O(state=present)
  type: dict
  sample:
    network: 0.412
    start: 1.05
replicas:
  description: What was found, one entry a replica, in rank order.
  returned: with O(state=verified)
  type: list
  elements: dict
  sample:
    - name: main1
      host: h1
      container: train-main1
      rank: 0
      address: 10.213.7.2
      status: RUNNING
      interface: eth1
      mtu: 1450
sessions:
  description: Identifier and name of each session of which this host had anything, with the hosts its record names.
  returned: with O(state=absent)
  type: list
  elements: dict
tombstones:
  description: The tombstones of sessions of this name.
  returned: with O(state=absent)
  type: list
  elements: dict
"""

from contextlib import ExitStack
from typing import Any, Callable

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.ledger import LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import SessionError, message_of

# Each step imports what it needs: a host would spend a tenth of a second on what the other steps need.


def _reserved(asked: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Hold the claim if it fits."""
    from ansible_collections.cluster_compute.session.plugins.module_utils.core.ledger import Claim
    from ansible_collections.cluster_compute.session.plugins.module_utils.host.reservation import lease

    terms = (asked["room"], asked["lease_seconds"], asked["holder"])
    ledger = LedgerFile(asked["state_directory"])
    changed, answer = lease(ledger, Claim.from_dict(asked["claim"]), *terms, check_mode)
    return {
        "changed": changed,
        "granted": answer.granted,
        "reasons": list(answer.reasons),
        "undecided": list(answer.undecided),
    }


def _released(asked: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Give back what the launch holds."""
    from ansible_collections.cluster_compute.session.plugins.module_utils.core.ledger import Claim
    from ansible_collections.cluster_compute.session.plugins.module_utils.host.reservation import release

    ledger = LedgerFile(asked["state_directory"])
    return {"changed": release(ledger, Claim.from_dict(asked["claim"]), asked["holder"], check_mode)}


def _offered(asked: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Make missing folders, and write into those that hosts share."""
    from ansible_collections.cluster_compute.session.plugins.module_utils.host.data import SessionData

    session = StateDirectory(asked["state_directory"]).session(asked["record"]["id"])
    actions = SessionData(asked["record"], asked["host"], session).prepare(asked["holder"], check_mode)
    return {"changed": bool(actions), "actions": actions}


def _proven(asked: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Read in shared folders what other hosts wrote; in check mode there is nothing."""
    from ansible_collections.cluster_compute.session.plugins.module_utils.host.data import SessionData

    session = StateDirectory(asked["state_directory"]).session(asked["record"]["id"])
    if not check_mode:
        SessionData(asked["record"], asked["host"], session).prove(asked["holder"])
    return {"actions": []}


def _prepared(asked: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Confirm the reservation, write the record down, make the keys."""
    from ansible_collections.cluster_compute.session.plugins.module_utils.host.prepare import prepare

    public_keys, actions = prepare(
        StateDirectory(asked["state_directory"]),
        LedgerFile(asked["state_directory"]),
        asked["record"],
        asked["host"],
        holder=asked["holder"],
        regenerate_keys=asked["regenerate_keys"],
        deadline=asked["deadline_seconds"],
        check_mode=check_mode,
        recorded=asked["recorded"],
    )
    diff = {"before": "", "after": "".join(f"{action}\n" for action in actions)}
    return {"changed": bool(actions), "public_keys": public_keys, "actions": actions, "diff": diff}


def _present(asked: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Make what the plan gives to this host and what is missing of it."""
    from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.engine import Engine
    from ansible_collections.cluster_compute.session.plugins.module_utils.core.record import RUNNING
    from ansible_collections.cluster_compute.session.plugins.module_utils.host import steps
    from ansible_collections.cluster_compute.session.plugins.module_utils.host.converge import SessionHost

    engine = Engine.connect()
    state = StateDirectory(asked["state_directory"])
    ledger = LedgerFile(asked["state_directory"])
    with state.working_on(asked["record"]["id"]):
        session = SessionHost(engine, state, ledger, asked["record"], asked["host"], asked["holder"] or "")
        stages = session.stages(asked["public_keys"], check_mode)
        taken: list[float] = []
        if not check_mode:
            # A session that runs is repaired, which takes nothing away from what works again.
            taken = steps.perform(stages, undo=asked["record"]["status"] != RUNNING)
    network, start = steps.seconds_until("container", stages, taken)
    return {**steps.outcome(stages), "seconds": {"network": network, "start": start}}


def _verified(asked: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Prove that the replicas work; in check mode there may be none yet."""
    from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.engine import Engine
    from ansible_collections.cluster_compute.session.plugins.module_utils.host.verify import verify

    if check_mode:
        return {"replicas": []}
    session = StateDirectory(asked["state_directory"]).session(asked["record"]["id"])
    keys = session.read_public_keys()
    replicas = verify(Engine.connect(), asked["record"]["plan"], asked["host"], asked["timeout"], keys)
    if session.made_file.exists():
        from ansible_collections.cluster_compute.session.plugins.module_utils.host.data import end_proofs

        end_proofs(session, asked["record"]["id"])
    return {"replicas": replicas}


def _absent(asked: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Remove everything the session has on this host."""
    from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.engine import Engine
    from ansible_collections.cluster_compute.session.plugins.module_utils.host import removal, steps

    engine = Engine.connect()
    state = StateDirectory(asked["state_directory"])
    ledger = LedgerFile(asked["state_directory"], forgiving=True)
    meant = (asked["session_name"], asked["session_id"])
    found = {
        "sessions": removal.known_sessions(engine, state, ledger, *meant),
        "tombstones": [one for one in state.tombstones() if meant[0] in (None, one["name"])],
    }
    known = [one["id"] for one in found["sessions"]]
    with ExitStack() as locks:
        for session_id in known:
            locks.enter_context(state.working_on(session_id))
        judged = (asked["session_id"], asked["unless_reserved"], asked["judged_revision"])
        if removal.has_moved_on(state, ledger, *judged):
            return {"actions": [], **found}
        keeper = None if asked["undo"] else _keeper(engine, state, asked)
        kept = {key: asked[key] for key in ("keep_record", "undo", "keep_data")}
        stages = removal.removal_stages(engine, state, ledger, *meant, known, keeper=keeper, **kept)
        if not check_mode:
            steps.perform(stages)
            if keeper is not None:
                keeper.finish({one["id"]: one["name"] for one in found["sessions"]})
                found["warnings"] = keeper.problems
    return {**steps.outcome(stages), **found}


def _keeper(engine: Any, state: StateDirectory, asked: dict[str, Any]) -> Any:
    """Return what keeps the output of containers. Raises SessionError for what is no size."""
    from ansible_collections.cluster_compute.session.plugins.module_utils.core.output import parse_keep_size
    from ansible_collections.cluster_compute.session.plugins.module_utils.host.output import Keeper

    size = parse_keep_size(asked["output_size"])
    return Keeper(engine, state, size, asked["output_days"] * 86400, asked["output_sessions"])


STATES: dict[str, Callable[[dict[str, Any], bool], dict[str, Any]]] = {
    "reserved": _reserved,
    "released": _released,
    "offered": _offered,
    "proven": _proven,
    "prepared": _prepared,
    "present": _present,
    "verified": _verified,
    "absent": _absent,
}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": list(STATES), "default": "present"},
            "claim": {"type": "dict"},
            "room": {"type": "dict"},
            "lease_seconds": {"type": "int", "default": 120},
            "holder": {"type": "str"},
            "record": {"type": "dict"},
            "host": {"type": "str"},
            "regenerate_keys": {"type": "bool", "default": False, "no_log": False},
            "deadline_seconds": {"type": "int", "default": 600},
            "recorded": {"type": "list", "elements": "str", "default": []},
            "public_keys": {"type": "dict", "default": {}, "no_log": False},
            "timeout": {"type": "int", "default": 60},
            "session_name": {"type": "str"},
            "session_id": {"type": "str"},
            "keep_record": {"type": "bool", "default": False},
            "undo": {"type": "bool", "default": False},
            "keep_data": {"type": "bool", "default": False},
            "unless_reserved": {"type": "bool", "default": False},
            "judged_revision": {"type": "int"},
            "output_size": {"type": "str", "default": "16m"},
            "output_days": {"type": "int", "default": 7},
            "output_sessions": {"type": "int", "default": 50},
            "state_directory": {"type": "path", "default": "/var/lib/cluster-compute"},
        },
        required_if=[
            ("state", "reserved", ["claim", "room", "holder"]),
            ("state", "released", ["claim", "holder"]),
            ("state", "offered", ["record", "holder", "host"]),
            ("state", "proven", ["record", "holder", "host"]),
            ("state", "prepared", ["record", "holder", "host"]),
            ("state", "present", ["record", "host"]),
            ("state", "verified", ["record", "host"]),
            ("state", "absent", ["session_name", "session_id"], True),
        ],
        supports_check_mode=True,
    )
    try:
        result = STATES[module.params["state"]](module.params, module.check_mode)
    except (SessionError, OSError) as error:
        module.fail_json(msg=message_of(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()

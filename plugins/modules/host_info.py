#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: host_info
short_description: Return the facts about a host that placement needs
version_added: 1.0.0
description:
  - Returns the capacity of a host, what sessions use of it, the address its tunnels use, and the subnets, tunnel
    identifiers and ports that are taken.
  - A host without a usable Docker Engine, or on which the module does not run as root, is reported as not usable, with
    the reason. The module does not fail.
  - Ansible does not show the result, because it contains the records of all sessions with the values of their
    variables. Register the result to use it.
author: The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes.info
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.state_directory
options:
  session_name:
    description:
      - Session whose record is returned whole.
    type: str
    default: ""
  whole_records:
    description:
      - Whether to return the whole records of all sessions, with the public keys of their replicas. Otherwise only the
        records of O(session_name) and of waiting sessions are whole. The others are stub records without request and
        plan.
    type: bool
    default: false
  ways_in:
    description:
      - Whether to return the public keys and users of O(session_name), which the owner's SSH client needs.
    type: bool
    default: false
  images:
    description:
      - Image references to look up in Docker Engine, in addition to the images that a session of that name already
        runs.
    type: list
    elements: str
    default: []
  paths:
    description:
      - Absolute paths that the session mounts. Their kind, real path, owner, mode and file system are returned.
    type: list
    elements: str
    default: []
  volumes:
    description:
      - Names of volumes that the session mounts. Their driver and options are returned.
    type: list
    elements: str
    default: []
  usage:
    description:
      - Whether to measure the CPU and memory use of every running replica. This takes half a second.
    type: bool
    default: false
  image_names:
    description:
      - Whether to return the names of all images that the engine has.
    type: bool
    default: false
  underlay_address:
    description:
      - Address of this host for tunnels.
      - If it is empty, the source address of the default route is used, or the only global address of the host. If
        neither determines an address, the host cannot be used.
      - If the option is left out, the address is found in the same way, but RV(host.underlay) is null if there is
        none. Leave it out unless a session is planned.
    type: str
  encryption:
    description:
      - Whether to test, in a separate network namespace, if the host can run encrypted sessions.
    type: bool
    default: false
  peers_of:
    description:
      - Ids of sessions for which to report other hosts that do not answer this one, over the hosts' network or the
        session's. This takes about two seconds if a host does not answer.
    type: list
    elements: str
    default: []
  accelerators:
    description:
      - The variable C(cluster_compute_accelerators) of the host. The classes in it that are configured to be detected
        are detected.
    type: raw
requirements:
  - iproute2
seealso:
  - module: cluster_compute.session.session_decide
"""

EXAMPLES = r"""
- name: Collect the facts of every host of the resource group
  cluster_compute.session.host_info:
    session_name: train
    images: [registry.example.com/train:1.4]
    paths: [/srv/data]
  register: cluster_compute_host
"""

RETURN = r"""
host:
  description: What was found.
  returned: always
  type: dict
  contains:
    usable:
      description: Whether the host can run sessions.
      type: bool
      returned: always
    problem:
      description: Why it cannot, as a full sentence. Empty if it can.
      type: str
      returned: always
    hangs:
      description: Whether the reason is that something on the host did not answer in time.
      type: bool
      returned: if not usable
    engine:
      description:
        - Version, API version and architecture of Docker Engine, whether it can limit swap, and how it stores images.
      type: dict
      returned: if usable
    topology:
      description: The cores with their CPUs and NUMA nodes, and how much memory each node has, in bytes.
      type: dict
      returned: if usable
    capacity:
      description: CPUs in thousandths and memory in bytes, as Docker Engine sees them.
      type: dict
      returned: if usable
    containers:
      description:
        - The containers of all sessions on this host, with their resources and how they ended. C(corrections) is how
          often names that their programs had changed were restored since the start.
        - With O(usage), also what each running container uses, C(cpus) in thousandths and C(memory) in bytes.
      type: list
      elements: dict
      returned: if usable
    batches:
      description: For each session whose batch command was started on this host, the state of the command.
      type: dict
      returned: if usable
    times:
      description:
        - For each session with C(session_max_duration) or C(session_max_idle) that runs here, whether and why the time
          of this host's part is over (C(over)), and whether it was idle for so long that it may end (C(is_idle)).
        - With O(usage), also for how many seconds it has run (C(ran)) and was idle (C(idle)).
      type: dict
      returned: if usable
    use:
      description:
        - Recent use of this host by the sessions of each owner, C(cpus) in CPU seconds and each class of accelerators
          in seconds. Empty if use is not recorded.
      type: dict
      returned: if usable
    foreign_containers:
      description:
        - Names of containers that belong to no session, but begin in the same way as the container names of
          O(session_name).
      type: list
      elements: str
      returned: if usable
    reservations:
      description: The reservations of sessions in the ledger of this host.
      type: list
      elements: dict
      returned: if usable
    no_overlay:
      description:
        - Why this host cannot carry the overlay of a session, such as the program that holds its UDP port. Empty if it
          can.
      type: str
      returned: if usable
    underlay:
      description: Address, interface and MTU that tunnels use. See O(underlay_address) for when it is null.
      type: dict
      returned: if usable
    accelerators:
      description:
        - For each class that is detected, the names and device files of the accelerators, or why there are none.
      type: dict
      returned: if usable
    addresses:
      description: Addresses of this host.
      type: list
      elements: str
      returned: if usable
    subnets:
      description: Subnets in use by addresses, routes and Docker networks.
      type: list
      elements: str
      returned: if usable
    vnis:
      description: VXLAN network identifiers in use.
      type: list
      elements: int
      returned: if usable
    ports:
      description: Addresses and ports that are listened on or published.
      type: list
      elements: dict
      returned: if usable
    encryption:
      description:
        - Why this host cannot run encrypted sessions, in full sentences. Empty if it can, or without O(encryption).
      type: str
      returned: if usable
    images:
      description: For each image of O(images), its id, digests and architecture, or null.
      type: dict
      returned: if usable
    image_names:
      description:
        - The names of all images that the engine has, sorted. Images without a name are left out. Empty without
          O(image_names).
      type: list
      elements: str
      returned: if usable
    paths:
      description: For each path of O(paths), V(directory), V(file) or V(missing).
      type: dict
      returned: if usable
    records:
      description: The records on this host, whole or as stub records.
      type: list
      elements: dict
      returned: if usable
    public_keys:
      description:
        - Public keys of every replica, by session. Empty without O(whole_records) and O(ways_in).
      type: dict
      returned: if usable
    users:
      description: By session, the names of the users as which its replicas on this host run. Empty without O(ways_in).
      type: dict
      returned: if usable
    objects:
      description: For each session, its name and the kinds of objects that this host has of it.
      type: dict
      returned: if usable
    damaged:
      description: Why records on this host cannot be read. Each entry names the file.
      type: list
      elements: str
      returned: if usable
    ledger_is_damaged:
      description: Whether the ledger is unreadable, in which case C(reservations) is empty. Only with O(whole_records).
      type: bool
      returned: if usable
    private:
      description: Paths that no session may mount, and what is there.
      type: dict
      returned: if usable
    signature:
      description: A digest of everything that decides whether a waiting session fits on this host.
      type: str
      returned: if usable
    drained:
      description: Why this host accepts no new sessions, with C(reason), C(by) and C(since). Null if it accepts them.
      type: dict
      returned: if usable
    suspect:
      description:
        - Why this host gets new sessions only if no other host has capacity (C(reason)), and for how many more seconds
          (C(left)). Null if it is trusted.
      type: dict
      returned: if usable
    clock:
      description: Seconds since the host's boot. The expiry times in C(reservations) refer to this clock.
      type: float
      returned: if usable
    identity:
      description: The host's own identity, which does not depend on its name in an inventory. Empty if it has none.
      type: str
      returned: if usable
    names:
      description: Names that the host had in inventories when it was prepared.
      type: list
      elements: str
      returned: if usable
    host_names:
      description: By session, the name under which this host carries its replicas.
      type: dict
      returned: if usable
    silent_peers:
      description:
        - For each session of O(peers_of) that runs here and on other hosts, the other hosts that did not answer on any
          path.
      type: dict
      returned: if usable
    not_waiting:
      description:
        - Ids of sessions that run here and do not wait when a host is lost. Their replicas are replaced, or the session
          ends.
      type: list
      elements: str
      returned: if usable
    tombstones:
      description: Sessions that were torn down while some hosts were unreachable.
      type: list
      elements: dict
      returned: if usable
"""

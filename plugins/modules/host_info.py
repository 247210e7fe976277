#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: host_info
short_description: Tell what placement needs to know of a host
version_added: 1.0.0
description:
  - Returns the capacity of a host, what sessions use of it, the address its tunnels use, and the subnets, tunnel
    identifiers and ports that are taken.
  - A host without a usable Docker Engine or without root is reported as not usable, with the reason; it is no failure.
  - Ansible shows nothing of the result, as it has records of all sessions with values of variables. Register it.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.info
  - cluster_compute.session.attributes.state_directory
options:
  session_name:
    description:
      - Session whose records are returned.
    type: str
    default: ""
  whole_records:
    description:
      - Whether the whole records of all sessions are returned, with the public keys of their replicas. Without it,
        those of the asked session and of those that wait are whole, the others stubs without request and plan.
    type: bool
    default: false
  ways_in:
    description:
      - Whether O(session_name)'s public keys and users are returned, as the SSH client of its owner needs them.
    type: bool
    default: false
  images:
    description:
      - Image references to look up in the engine, besides the images which a session of that name runs already.
    type: list
    elements: str
    default: []
  paths:
    description:
      - Absolute paths that the session is to mount. Their kind, real path, owner, mode and file system are returned.
    type: list
    elements: str
    default: []
  volumes:
    description:
      - Names of volumes that the session is to mount. Their driver and options are returned.
    type: list
    elements: str
    default: []
  usage:
    description:
      - Whether the use of CPU and memory by every replica that runs is measured, which takes half a second.
    type: bool
    default: false
  image_names:
    description:
      - Whether the names of all images that the engine has are returned.
    type: bool
    default: false
  underlay_address:
    description:
      - Address of this host that tunnels shall use.
      - Where it is empty, the source address of the default route, or the only global address of the host. A host on
        which these do not tell cannot be used.
      - Without it, the same, but RV(host.underlay) is null where these do not tell. For all who do not plan a session.
    type: str
  encryption:
    description:
      - Whether to try what the host needs for encrypted sessions, in a network namespace of its own.
    type: bool
    default: false
  peers_of:
    description:
      - Ids of sessions of which is told which of their other hosts do not answer this one, over the hosts' network and
        over the session's. It takes some two seconds where one of them is silent.
    type: list
    elements: str
    default: []
  accelerators:
    description:
      - The variable C(cluster_compute_accelerators) of the host. Classes in it that are to be detected are.
    type: raw
requirements:
  - iproute2
seealso:
  - module: cluster_compute.session.session_decide
"""

EXAMPLES = r"""
- name: Look at every host of the resource group
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
      description: Why it cannot, a full sentence; empty if it can.
      type: str
      returned: always
    hangs:
      description: Whether it cannot because something on it did not answer in time.
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
        - The containers of all sessions on this host, with the resources they were given and how they ended, and how
          often names that their programs had changed were put back since they were started (C(corrections)).
        - With O(usage) also what each that runs uses, C(cpus) in thousandths and C(memory) in bytes.
      type: list
      elements: dict
      returned: if usable
    batches:
      description: For each session whose batch command was started on this host, what can be said of that.
      type: dict
      returned: if usable
    times:
      description:
        - For each session with C(session_max_duration) or C(session_max_idle) that runs here whether the time of this
          host's part is over, why (C(over)), and whether nobody has used it for so long that it may end (C(is_idle)).
        - With O(usage) also for how many seconds it has run (C(ran)) and was not used (C(idle)).
      type: dict
      returned: if usable
    use:
      description:
        - What the sessions of each owner have used on this host of late, by owner, C(cpus) in CPU seconds and each
          class of accelerators in seconds; empty where that is not counted.
      type: dict
      returned: if usable
    foreign_containers:
      description: Names of containers that belong to no session and begin as those of the asked session would.
      type: list
      elements: str
      returned: if usable
    reservations:
      description: What the ledger of this host holds for sessions.
      type: list
      elements: dict
      returned: if usable
    no_overlay:
      description: Why no overlay of a session can be on this host, such as who holds its UDP port; empty where one can.
      type: str
      returned: if usable
    underlay:
      description: Address, interface and MTU that tunnels use; null where O(underlay_address) says so.
      type: dict
      returned: if usable
    accelerators:
      description: For each class that is to be detected the names, their device files, and why there are none.
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
      description: Why this host cannot have encrypted sessions, full sentences; empty if it can. Only if it was asked.
      type: str
      returned: if usable
    images:
      description: For each asked image its id, digests and architecture, or null.
      type: dict
      returned: if usable
    image_names:
      description: The names of all images that the engine has, in order; those without a name are left out.
      type: list
      elements: str
      returned: if usable and O(image_names)
    paths:
      description: For each asked path V(directory), V(file) or V(missing).
      type: dict
      returned: if usable
    records:
      description: The records that this host keeps, whole or as stub records.
      type: list
      elements: dict
      returned: if usable
    public_keys:
      description:
        - Public keys of every replica, by session; empty unless O(whole_records) or O(ways_in) are asked
          for.
      type: dict
      returned: if usable
    users:
      description: By session, the names of the users that its replicas on this host run as.
      type: dict
      returned: if usable and O(ways_in)
    objects:
      description: For each session its name and the kinds of things this host has of it.
      type: dict
      returned: if usable
    damaged:
      description: Why records of this host cannot be read, each naming its file.
      type: list
      elements: str
      returned: if usable
    ledger_is_damaged:
      description: Whether the ledger cannot be read, so that C(reservations) is empty; only with whole records.
      type: bool
      returned: if usable
    private:
      description: Places that no session may mount, and what is there.
      type: dict
      returned: if usable
    signature:
      description: A digest of all that decides whether a session that waits gets room on this host.
      type: str
      returned: if usable
    drained:
      description: Why this host takes no new sessions, with C(reason), C(by) and C(since); null where it takes them.
      type: dict
      returned: if usable
    suspect:
      description:
        - Why this host gets new sessions only where no other has room, C(reason), and for how many seconds more,
          C(left); null where it is trusted.
      type: dict
      returned: if usable
    clock:
      description: Seconds since the host's boot, by which C(reservations) run out.
      type: float
      returned: if usable
    identity:
      description: The host's own identity, whatever an inventory calls it; empty where it was not given any.
      type: str
      returned: if usable
    names:
      description: What inventories called the host when it was prepared.
      type: list
      elements: str
      returned: if usable
    host_names:
      description: By session, the name under which this host carries replicas of it.
      type: dict
      returned: if usable
    silent_peers:
      description:
        - For each session of O(peers_of) that runs here and on other hosts, those of these that answer in no way.
      type: dict
      returned: if usable
    not_waiting:
      description: Ids of sessions that run here and do not wait for a host that is lost, but are replaced or ended.
      type: list
      elements: str
      returned: if usable
    tombstones:
      description: Sessions that were torn down while some hosts could not be reached.
      type: list
      elements: dict
      returned: if usable
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.cluster_compute.session.plugins.module_utils.host.arguments import ARGUMENTS
from ansible_collections.cluster_compute.session.plugins.module_utils.host.calls import host_info
from ansible_collections.cluster_compute.session.plugins.module_utils.host.program import answer


def main() -> None:
    """Run the module."""
    module = AnsibleModule(**ARGUMENTS["host_info"])
    module.exit_json(**answer(host_info.call, module.params, module.check_mode))


if __name__ == "__main__":
    main()

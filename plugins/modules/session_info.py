#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_info
short_description: Return the state of all sessions and hosts of a resource group
version_added: 1.0.0
description:
  - Combines the facts of all hosts into data whose keys and order are stable.
  - Environment variables and options of volume drivers are returned as names only, never with their values.
  - Amounts of CPU are in thousandths, amounts of memory in bytes.
  - Runs on the controller and changes nothing. The role C(info) collects the facts of the hosts and calls it.
author: The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes.info
  - cluster_compute.session.attributes
options:
  hosts:
    description:
      - For each host, the registered result of M(cluster_compute.session.host_info) with whole records.
    type: dict
    required: true
  resource_group:
    description:
      - Name of the inventory group of these hosts.
    type: str
    default: cluster_compute_hosts
  session_name:
    description:
      - The only session to return. Empty returns all. Hosts and findings are always complete.
    type: str
    default: ""
  for_everybody:
    description:
      - Whether the result is meant for all readers. It then contains only what everyone may see of each session.
        Otherwise, for sessions that the user of this run may read, it also contains the commands, the keys and the
        output that a report quotes.
    type: bool
    default: false
  query:
    description:
      - Expression of JMESPath (U(https://jmespath.org)) that selects from RV(overview), as the command line tools of
        AWS and Azure take. It needs the Python library jmespath on the controller. Empty selects nothing.
    type: str
    default: ""
seealso:
  - module: cluster_compute.session.host_info
"""

EXAMPLES = r"""
- name: Get the state of every session
  cluster_compute.session.session_info:
    hosts:
      h1: "{{ hostvars['h1']['info_host'] }}"
      h2: "{{ hostvars['h2']['info_host'] }}"
  register: info_answer
  run_once: true

- name: Get the names of those that run, as C(info_answer.selected)
  cluster_compute.session.session_info:
    hosts: "{{ dict(ansible_play_hosts_all | zip(ansible_play_hosts_all | map('extract', hostvars, 'info_host'))) }}"
    query: sessions[?status=='RUNNING'].name
  register: info_answer
  run_once: true

- name: Show where main1 of a session runs
  ansible.builtin.debug:
    msg: "{{ (info_answer.overview.sessions | selectattr('name', 'eq', 'train') | first).replicas[0].host }}"
"""

RETURN = r"""
selected:
  description: What O(query) selects; null if that is nothing.
  returned: when O(query) is given
  type: raw
overview:
  description: The state of all hosts and sessions, as data whose keys and order are stable.
  returned: success
  type: dict
  contains:
    resource_group:
      description: Name of the group.
      returned: always
      type: str
    hosts:
      description: The hosts in inventory order.
      returned: always
      type: list
      elements: dict
      contains:
        name:
          description: Its name in the inventory.
          type: str
          returned: always
        reachable:
          description: Whether it answered.
          type: bool
          returned: always
        usable:
          description: Whether it can run sessions.
          type: bool
          returned: always
        problem:
          description: What is wrong with it. Empty if nothing is wrong.
          type: str
          returned: always
        drained:
          description: Why it accepts no new sessions, with C(reason), C(by) and C(since). Null if it accepts them.
          type: dict
          returned: always
        suspect:
          description: Why it gets new sessions only if no other host has capacity (C(reason)). Null if it is trusted.
          type: dict
          returned: always
        labels:
          description: Its labels, such as rack and zone.
          type: dict
          returned: always
        engine:
          description: Properties of Docker Engine, or null.
          type: dict
          returned: always
        underlay:
          description: Address, interface and MTU that tunnels use, or null.
          type: dict
          returned: always
        capacity:
          description:
            - What sessions may use in total, or null. It has C(cpus), C(memory), C(replicas) (null for no limit),
              C(accelerators) by class, C(pinned_cpus).
          type: dict
          returned: always
        held:
          description: What sessions hold, in the same form.
          type: dict
          returned: always
        free:
          description: What is left, in the same form.
          type: dict
          returned: always
        sessions:
          description: Names of the sessions that hold resources of the host.
          type: list
          elements: str
          returned: always
    sessions:
      description: All known sessions by name, including waiting and failed ones.
      returned: always
      type: list
      elements: dict
      contains:
        id:
          description: Its UUID.
          type: str
          returned: always
        name:
          description: Its name.
          type: str
          returned: always
        owner:
          description: The user who owns it.
          type: str
          returned: always
        status:
          description: V(PENDING), V(PREPARING), V(RUNNING), V(ERROR) or V(TERMINATED).
          type: str
          returned: always
        revision:
          description: Revision of its record.
          type: int
          returned: always
        hosts:
          description: The hosts that carry it.
          type: list
          elements: str
          returned: always
        mode:
          description: The effective mode, or null.
          type: str
          returned: always
        requested_mode:
          description: The requested mode, or null if only unreachable hosts have it.
          type: str
          returned: always
        size:
          description: Number of replicas, or null if only unreachable hosts have it.
          type: int
          returned: always
        max_size:
          description: Maximum number of replicas while it runs, or null if none was set.
          type: int
          returned: always
        on_host_loss:
          description:
            - What happens to it when a host is lost, V(wait), V(replace) or V(end). Null if only unreachable hosts have
              it.
          type: str
          returned: always
        priority:
          description: Its priority, or null if only unreachable hosts have it.
          type: int
          returned: always
        readable:
          description:
            - Whether the user of this run may read the session. Otherwise its commands, its keys, what a newer release
              added, and lines of programs in reports are empty.
          type: bool
          returned: always
        resource_group:
          description: The requested group, or null if only unreachable hosts have it.
          type: str
          returned: always
        request:
          description: The request, with only the names of environment variables, or null.
          type: dict
          returned: always
        network:
          description: The network of its replicas, or null.
          type: dict
          returned: always
        egress:
          description: Name and subnet of its default network, or null.
          type: dict
          returned: always
        ssh_port:
          description: Port on the host of C(main1) at which its owner logs in, or null.
          type: int
          returned: always
        report:
          description: Why it waits or failed, as a list of lines.
          type: list
          elements: str
          returned: always
        history:
          description: Its statuses so far, each with revision and reason.
          type: list
          elements: dict
          returned: always
        times:
          description:
            - When it ends by C(session_max_duration) and C(session_max_idle) - C(max_duration), C(max_idle) and
              C(end_warning) in seconds -, for how long it has run (C(ran)) and was not used (C(idle)), null unless
              usage was measured, and a summary as text (C(message)). Null if it has neither.
          type: dict
          returned: always
        replicas:
          description:
            - Its replicas in rank order. Each has the values of the plan (C(name), C(role), C(index), C(rank),
              C(local_rank), C(node_rank), C(host), C(address), C(container), C(image), C(resources), C(devices),
              C(ports), C(mounts), and more), C(image_id) and C(image_digest), which identify its image, and C(status),
              C(exit_code), C(oom_killed), C(finished), C(restarts), C(stopped) (why the host stopped it, empty if it
              did not) and C(usage).
            - The status is that of its container in capitals, such as V(RUNNING) or V(EXITED). It is V(FAILED) if the
              replica failed, V(MISSING) if there is no container, and V(UNKNOWN) if its host cannot be contacted.
          type: list
          elements: dict
          returned: always
        ports:
          description: Its published ports, each with replica and host.
          type: list
          elements: dict
          returned: always
        failures:
          description: Replicas that failed and have not been started again, each with its exit code and a sentence.
          type: list
          elements: dict
          returned: always
    pending:
      description:
        - The queue in order. Each entry has position, name, owner and the owner's share in percent, priority, size and
          the reason why it waits.
      returned: always
      type: list
      elements: dict
    waiting_elsewhere:
      description:
        - Sessions that wait in other resource groups which share hosts with this one, each with C(session_name),
          C(session_id), C(owner), C(resource_group) and C(reason) in sentences. Only runs for their own group launch
          them.
      returned: always
      type: list
      elements: dict
    shares:
      description:
        - Owners whose sessions have used resources recently, sorted by use, highest first. Each has C(owner), C(use) in
          CPU seconds and C(percent) of the total use. Empty if the site does not give owners shares.
      returned: always
      type: list
      elements: dict
    findings:
      description: Problems that were found, as sentences.
      returned: always
      type: list
      elements: str
"""

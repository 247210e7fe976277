#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_host
short_description: Bring one host's part of a session through its life
version_added: 1.0.0
description:
  - One call does everything that one host owes a session at one step of its life. A launch goes through O(state=held)
    and O(state=started), each on all hosts of the session before the next.
  - With O(state=held) asks the host, under its lock, whether the claim fits beside everything that is held at that
    moment, and holds it for O(lease_seconds) if it does. A refusal is an answer, no failure. Where the host holds it,
    writes the record of a session that is new down, does as with O(state=probe_written), and makes an ed25519 client
    key and an ed25519 host key for each replica on this host, all of it under the lease. Private keys stay on the host.
    An existing key is kept.
  - With O(state=started) confirms the lease, which all hosts of the session have granted by now. Does, for a session
    that is being started, as with O(state=probe_checked). Makes what the plan gives to this host and what is missing of
    it - files, overlay link with its forwarding and neighbour entries, networks, mounts, volumes, containers, record -
    containers side by side. When a step fails, what this call had made for a session that is being started is removed
    again. Then does as with O(state=verified). Peers on other hosts that do not answer within O(patience) are left to
    a call with O(state=verified). With O(roles) only containers of these are made and are waited for until they are
    ready; the record says as before that the session is being started.
  - With O(state=released) rolls back what a launch holds, unless the session runs; with O(record) what the launch made
    with O(state=held) as well.
  - A session that runs changes in the same way. O(record) is what it is to become then, and O(claim) what it takes
    beyond what it has, under an identifier of the change. With O(state=held) and O(state=released) everything goes on
    as it is. With O(state=amended) what is held becomes the session's, the new record is written down, and this host is
    made what it says; replicas that stay are not restarted, those that go are stopped with their time to end, and what
    they wrote is kept. Only the call that O(containers) does not keep from it starts replicas that are new here.
  - With O(state=agreed) a host that decides with others whether a session goes on without a lost host writes down, in a
    stub record, which hosts it has then. It agrees to one content of a revision alone, and only to what follows from
    the one that it knows.
  - With O(state=probe_written) makes the folders that the request gives an owner or a mode, and writes a file into
    those that the hosts share; with O(state=probe_checked) reads what another host wrote there, and refuses those that
    are not the same. A launch does both before it removes the session that it replaces, and removes them again with
    O(state=absent).
  - Some hosts know a session by its name although they carry no replica of it. With O(state=named) such a host holds
    the name as others hold a claim; with O(state=stub) it keeps a stub record, and its containers out of the session.
  - With O(state=verified) waits until every replica on this host runs and, if its image says how to tell, is healthy,
    and proves that each has the interface, address, MAC and MTU of the plan, and that unfragmented packets of the full
    size pass between this host's replicas and those of every other host, both ways.
  - With O(state=absent) removes everything the session has on this host, found by labels, link aliases and state,
    whatever is left of it. Data folders and named volumes stay, and so does, for some days, what its replicas wrote.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.internal
  - cluster_compute.session.attributes.recorded
  - cluster_compute.session.attributes.state_directory
attributes:
  check_mode:
    support: full
  diff_mode:
    support: partial
    details: There is nothing to show for O(state=released) and O(state=verified).
options:
  state:
    description:
      - What shall be true of the session on this host.
    type: str
    choices: [held, named, started, released, amended, agreed, probe_written, probe_checked, stub, verified, absent]
    required: true
  claim:
    description:
      - What the session takes on this host, as M(cluster_compute.session.session_decide) returns it, or beyond what it
        has, where it changes. Required with O(state=held), O(state=named) and O(state=released).
    type: dict
  allocatable:
    description:
      - What sessions may use of this host in all, as M(cluster_compute.session.session_decide) returns it. Required
        with O(state=held). With O(state=amended) what is not held is taken if it is free of that; without it there is
        no more.
    type: dict
  lease_seconds:
    description:
      - With O(state=held) and O(state=named) the seconds for which it is held if nothing more is heard of the launch.
    type: int
    default: 120
  turns_seconds:
    description:
      - With O(state=held) and O(state=named) the seconds for which it is held beyond that, as the hosts of the launch
        take turns at being called. With O(roles) those beyond O(deadline_seconds).
    type: int
    default: 0
  lease_owner:
    description:
      - The run of the launch that holds the session's place, as M(cluster_compute.session.session_decide) returns it.
        Only its own reservation is renewed, confirmed, used or given back. Required with O(state=held),
        O(state=named), O(state=released), O(state=amended), O(state=probe_written), O(state=probe_checked) and
        O(state=stub).
    type: str
  record:
    description:
      - The record as M(cluster_compute.session.session_decide) returns it. Required with O(state=held),
        O(state=started), O(state=probe_written), O(state=probe_checked), O(state=stub) and O(state=verified). With
        O(keep_record) what becomes of the session, which is written down before anything of it goes. With
        O(state=amended) this or O(patch) is required.
    type: dict
  patch:
    description:
      - With O(state=amended) what differs from the record that this host has - C(id) of the session, C(from), its
        revision, C(digest) of the whole of it, and C(changes) - and O(public_keys) are those that others have. A host
        that has another record leaves everything as it is and says RV(stale).
    type: dict
  change_id:
    description:
      - With O(state=amended) the identifier under which the claim was held; left out where it was not. With
        O(state=absent) that of the change which has the host leave the session; it fails where another one is under
        way, and what was held under it stays.
    type: str
  containers:
    description:
      - With O(state=amended) whether replicas come and go. V(false) for what all hosts are to know before - who is a
        peer, and whom to keep out.
    type: bool
    default: true
  undecided:
    description:
      - With O(state=amended) whether witnesses have still to agree that lost hosts are let go of. These get no answer
        before that when they ask whether they carry their part.
    type: bool
    default: false
  ran:
    description:
      - With O(state=amended) for how many seconds the session has run, as far as that is kept. A host that has counted
        less takes it over.
    type: int
    default: 0
  prove:
    description:
      - With O(state=amended) does as with O(state=verified) in the end, peers being looked for as with
        O(state=started).
    type: bool
    default: false
  host:
    description:
      - Name of this host in the plan. Required with O(state=held), O(state=started), O(state=amended),
        O(state=probe_written), O(state=probe_checked) and O(state=verified).
    type: str
  regenerate_keys:
    description:
      - With O(state=held) makes all keys anew, although they exist.
    type: bool
    default: false
  deadline_seconds:
    description:
      - With O(state=started) the seconds within which the session has to run, or its reservation is free again.
    type: int
    default: 600
  public_keys:
    description:
      - With O(state=started) and O(state=amended) the public keys of every replica, as O(state=held) returns them.
    type: dict
    default: {}
  timeout:
    description:
      - With O(state=verified) and O(prove) the seconds after which a replica that is not ready is reported with its
        last state.
    type: int
    default: 60
  patience:
    description:
      - With O(state=started) and O(prove) the seconds for which peers on other hosts are looked for; V(0) for not at
        all.
    type: int
    default: 5
  roles:
    description:
      - With O(state=started) the roles whose replicas are started now, as others come after them; all where it is left
        out.
    type: list
    elements: str
  session_name:
    description:
      - Name of the session. With O(state=absent) this or O(session_id) is required.
    type: str
  session_id:
    description:
      - With O(state=absent) removes only the session that has this identifier.
    type: str
  asker:
    description:
      - With O(state=absent) and O(session_name), who asks. A session of somebody else that has not ended and is not
        shared with them is left as it is.
      - The action sets it, to the user of AWX or else the login name on the controller, where the site's
        C(cluster_compute_admins) do not name them.
    type: str
  scope:
    description:
      - With O(state=absent) and O(session_name), which sessions belong to the run. C(group) names its resource group,
        C(elsewhere) the hosts that the inventory has outside it. Any other session of the name is left as it is, and
        returned as RV(elsewhere).
      - The action sets it.
    type: dict
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
        With O(state=agreed) the revision that the record follows.
    type: int
  judged_hosts:
    description:
      - With O(state=agreed) the hosts of the session in O(judged_revision).
    type: list
    elements: str
    default: []
  output_size:
    description:
      - With O(state=absent) and O(state=amended) most bytes that are kept of what each replica that goes wrote, the
        newest ones, as a number or with a unit. V(0) keeps nothing. Nothing is kept with O(undo).
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
  - cryptography
  - iproute2, iputils-ping, util-linux
seealso:
  - module: cluster_compute.session.session_decide
  - module: cluster_compute.session.session_step
"""

EXAMPLES = r"""
- name: Hold what the session takes on this host, and make the keys
  cluster_compute.session.session_host:
    state: held
    claim: "{{ launch_state.claims[inventory_hostname].claim }}"
    allocatable: "{{ launch_state.claims[inventory_hostname].allocatable }}"
    record: "{{ launch_state.record }}"
    lease_owner: "{{ launch_state.lease_owner }}"
    host: "{{ inventory_hostname }}"

- name: Start what the plan gives to this host
  cluster_compute.session.session_host:
    state: started
    record: "{{ launch_state.record }}"
    lease_owner: "{{ launch_state.lease_owner }}"
    host: "{{ inventory_hostname }}"
    public_keys: "{{ launch_state.public_keys }}"

- name: Wait for the replicas on this host and prove their network
  cluster_compute.session.session_host:
    state: verified
    record: "{{ launch_state.record }}"
    host: "{{ inventory_hostname }}"

- name: Remove everything the session has on this host
  cluster_compute.session.session_host:
    state: absent
    session_name: train
"""

RETURN = r"""
granted:
  description: Whether the host holds the claim.
  returned: with O(state=held) and O(state=named)
  type: bool
reasons:
  description: Why it does not, in full sentences.
  returned: with O(state=held) and O(state=named)
  type: list
  elements: str
tentative:
  description: Sessions that do not know yet whether they start, and are the only ones in the way.
  returned: with O(state=held) and O(state=named)
  type: list
  elements: str
public_keys:
  description: For each replica the public keys C(client) and C(host); null for a key that only check mode holds back.
  returned: with O(state=held)
  type: dict
  sample:
    main1:
      client: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA
      host: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB
actions:
  description: What was done, or would be done, in order.
  returned: with every state but O(state=verified)
  type: list
  elements: str
  sample:
    - create network cc-3614fdf3
    - create container train-main1
seconds:
  description:
    - How long it took to make networks, files and data, C(network), how long the containers, C(start), and with
      O(state=started) and O(prove) how long to prove that they work, C(ready).
  returned: with O(state=started) and O(state=amended)
  type: dict
  sample:
    network: 0.412
    start: 1.05
replicas:
  description: What was found, one entry a replica, in rank order.
  returned: with O(state=verified), and with O(state=started) and O(prove) unless RV(unproven)
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
unwritten:
  description: Why the record could not be written; containers of this host are kept out of the session all the same.
  returned: with O(state=stub) where that is so
  type: str
sick:
  description:
    - Whether the call failed for a reason of the host's own, such as a full disk or an engine that does not answer, so
      that another host would do what was asked.
  returned: failure, where that is so
  type: bool
unproven:
  description: Which peers on other hosts did not answer in time, or which hosts could not start the session.
  returned: with O(state=started) and O(prove) where that is all that is left to prove
  type: str
stale:
  description: Whether the record here is not the one that O(patch) is for, so that the whole is needed.
  returned: with O(state=amended) where that is so
  type: bool
revision:
  description: The revision of the record here; null where there is none.
  returned: with RV(stale)
  type: int
elsewhere:
  description:
    - Each session of this name that was left alone by O(scope), with its resource group as far as its record says that,
      and its hosts. One of which there are containers and no record has no C(status).
  returned: with O(state=absent)
  type: list
  elements: dict
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

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.cluster_compute.session.plugins.module_utils.host.arguments import ARGUMENTS
from ansible_collections.cluster_compute.session.plugins.module_utils.host.calls import session_host
from ansible_collections.cluster_compute.session.plugins.module_utils.host.program import answer


def main() -> None:
    """Run the module."""
    module = AnsibleModule(**ARGUMENTS["session_host"])
    module.exit_json(**answer(session_host.call, module.params, module.check_mode))


if __name__ == "__main__":
    main()

#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_host
short_description: Create, start, change, verify and remove the part of a session on one host
version_added: 1.0.0
description:
  - One call does everything that one host has to do for a session at one step of the session's life. A launch runs
    O(state=held) on all hosts of the session and then O(state=started) on all of them.
  - With O(state=held), checks under the host's lock whether the claim fits next to everything that is already held. If
    it fits, the claim is held for O(lease_seconds). If it does not fit, the module returns that answer and does not
    fail. When the claim is held, the module stores the record of a new session, does the same as
    O(state=probe_written), and creates an ed25519 client key and an ed25519 host key for each replica on this host, all
    under the lease. Private keys stay on the host. An existing key is kept.
  - With O(state=started), confirms the lease, which all hosts of the session have granted before. For a session that is
    being started, does the same as O(state=probe_checked). Then creates whatever is missing of this host's part of the
    plan - files, overlay link with its forwarding and neighbour entries, networks, mounts, volumes, containers and
    record. Containers are created in parallel. If a step fails, everything that this call created for a session that is
    being started is removed again. Finally does the same as O(state=verified). Peers on other hosts that do not answer
    within O(patience) are left to a later call with O(state=verified).
  - With O(state=started) and O(roles), only containers of these roles are created, and the module waits until they are
    ready. The record still has the status of a session that is being started.
  - With O(state=released), releases what a launch holds, unless the session runs. With O(record), also removes what the
    launch created with O(state=held).
  - A running session is changed in the same way. O(record) is then its new record, and O(claim) is what it needs in
    addition to what it has, under an identifier of the change. O(state=held) and O(state=released) do not affect the
    running session. With O(state=amended), what is held becomes part of the session, the new record is stored, and this
    host is changed to match it. Replicas that stay are not restarted. Replicas that are removed get their time to stop,
    and their output is kept. Replicas that are new on this host are started only with O(containers=true).
  - O(state=agreed) is for a host that decides with others whether a session continues without a lost host. The host
    stores the remaining hosts of the session in a stub record. It agrees to only one content of each revision, and only
    to a revision that follows the one that it has.
  - With O(state=probe_written), creates the directories for which the request sets an owner or a mode, and writes a
    file into directories that the hosts share. With O(state=probe_checked), reads the file of another host there, and
    rejects directories that are not the same on both hosts. A launch does both before it removes the session that it
    replaces, and removes them again with O(state=absent).
  - Some hosts store the name of a session although they carry no replica of it. With O(state=named), such a host holds
    the name in the same way as other hosts hold a claim. With O(state=stub), it stores a stub record and keeps its
    containers out of the session's network.
  - With O(state=verified), waits until every replica on this host runs and, if its image has a health check, is
    healthy. Then checks that each replica has the interface, address, MAC and MTU of the plan, and that unfragmented
    packets of the full size pass between this host's replicas and those of every other host in both directions.
  - With O(state=absent), removes all parts of the session on this host, however much of it is left. They are found by
    labels, link aliases and stored state. Data directories and named volumes are kept. The output of the replicas is
    kept for some days.
author: The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.private
  - cluster_compute.session.attributes.recorded
  - cluster_compute.session.attributes.state_directory
attributes:
  check_mode:
    support: full
  diff_mode:
    support: partial
    details: There is no difference to show for O(state=released) and O(state=verified).
options:
  state:
    description:
      - The step to run for the session on this host.
    type: str
    choices: [held, named, started, released, amended, agreed, probe_written, probe_checked, stub, verified, absent]
    required: true
  claim:
    description:
      - What the session needs on this host, as M(cluster_compute.session.session_decide) returns it. For a change, what
        it needs in addition. Required with O(state=held), O(state=named) and O(state=released).
    type: dict
  allocatable:
    description:
      - What sessions may use of this host in total, as M(cluster_compute.session.session_decide) returns it. Required
        with O(state=held). With O(state=amended), needs that are not held are taken from this total if they are free.
        Without this option, nothing more is taken.
    type: dict
  lease_seconds:
    description:
      - With O(state=held) and O(state=named), the seconds for which the claim is held if the launch does not continue.
    type: int
    default: 120
  turns_seconds:
    description:
      - With O(state=held) and O(state=named), additional seconds for which the claim is held, because the hosts of the
        launch are called in turns. With O(roles), additional seconds after O(deadline_seconds).
    type: int
    default: 0
  lease_owner:
    description:
      - The run of the launch that holds the session's reservation, as M(cluster_compute.session.session_decide) returns
        it. Only the reservation of this run is renewed, confirmed, used or released. Required with O(state=held),
        O(state=named), O(state=released), O(state=amended), O(state=probe_written), O(state=probe_checked) and
        O(state=stub).
    type: str
  record:
    description:
      - The record as M(cluster_compute.session.session_decide) returns it. Required with O(state=held),
        O(state=started), O(state=probe_written), O(state=probe_checked), O(state=stub) and O(state=verified). With
        O(keep_record), the new record of the session, which is stored before any part of the session is removed. With
        O(state=amended), this or O(patch) is required.
    type: dict
  patch:
    description:
      - With O(state=amended), the difference from the record on this host - C(id) of the session, C(from) (the revision
        of that record), C(digest) of the whole record, and C(changes). O(public_keys) are then those of other hosts. A
        host that has another record changes nothing and returns RV(stale).
    type: dict
  change_id:
    description:
      - With O(state=amended), the identifier under which the claim was held. Leave it out if none was held. With
        O(state=absent), the identifier of the change with which the host leaves the session. The module then fails if
        another change is in progress, and what is held for that change stays held.
    type: str
  containers:
    description:
      - With O(state=amended), whether to start and remove replicas. With V(false), the host only takes over what all
        hosts have to have before that - the peers, and which containers to keep out.
    type: bool
    default: true
  undecided:
    description:
      - With O(state=amended), whether witnesses still have to agree to release lost hosts. Until then, lost hosts get
        no answer when they request whether they still carry their part.
    type: bool
    default: false
  ran:
    description:
      - With O(state=amended), for how many seconds the session has run, if this is recorded. A host that has counted
        less takes over this value.
    type: int
    default: 0
  prove:
    description:
      - With O(state=amended), does the same as O(state=verified) at the end, and waits for peers in the same way as
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
      - With O(state=held), replaces all existing keys.
    type: bool
    default: false
  deadline_seconds:
    description:
      - With O(state=started), the seconds within which the session has to run. After that, its reservation is released.
    type: int
    default: 600
  public_keys:
    description:
      - With O(state=started) and O(state=amended), the public keys of every replica, as O(state=held) returns them.
    type: dict
    default: {}
  timeout:
    description:
      - With O(state=verified) and O(prove), the seconds after which a replica that is not ready is reported with its
        last state.
    type: int
    default: 60
  patience:
    description:
      - With O(state=started) and O(prove), the seconds for which to wait for peers on other hosts. V(0) does not wait.
    type: int
    default: 5
  roles:
    description:
      - With O(state=started), the roles whose replicas are started now, before those of other roles. By default all
        roles.
    type: list
    elements: str
  session_name:
    description:
      - Name of the session. With O(state=absent), this or O(session_id) is required.
    type: str
  session_id:
    description:
      - With O(state=absent), removes only the session with this identifier.
    type: str
  asker:
    description:
      - With O(state=absent) and O(session_name), who makes the request. A session that belongs to another user, has not
        ended and is not shared is not changed.
      - The action plugin sets it to the AWX user, or else to the login name on the controller, if
        C(cluster_compute_admins) does not list that user.
    type: str
  scope:
    description:
      - With O(state=absent) and O(session_name), which sessions belong to the run. C(group) is its resource group, and
        C(elsewhere) are the hosts that the inventory has outside it. Any other session with the name is not changed,
        and is returned in RV(elsewhere).
      - The action plugin sets it.
    type: dict
  keep_record:
    description:
      - With O(state=absent), keeps the session's record.
    type: bool
    default: false
  undo:
    description:
      - With O(state=absent), also removes the data objects that the launch of the session created - volumes and empty
        directories.
    type: bool
    default: false
  keep_data:
    description:
      - With O(undo), keeps volumes that contain data, because they may not have been created by this launch.
    type: bool
    default: false
  unless_reserved:
    description:
      - With O(state=absent) and O(session_id), changes nothing while a launch holds resources for the session.
    type: bool
    default: false
  judged_revision:
    description:
      - With O(state=absent) and O(session_id), changes nothing if this host now has a newer record than this revision.
        With O(state=agreed), the revision that the record follows.
    type: int
  judged_hosts:
    description:
      - With O(state=agreed), the hosts of the session in O(judged_revision).
    type: list
    elements: str
    default: []
  output_size:
    description:
      - With O(state=absent) and O(state=amended), how many bytes of output to keep for each replica that is removed, as
        a number or with a unit. The newest output is kept. V(0) keeps nothing, and so does O(undo).
    type: str
    default: 16m
  output_days:
    description:
      - With O(state=absent), for how many days to keep this output.
    type: int
    default: 7
  output_sessions:
    description:
      - With O(state=absent), for how many ended sessions to keep output. The newest ones are kept.
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
- name: Reserve the session's resources on this host, and create the keys
  cluster_compute.session.session_host:
    state: held
    claim: "{{ launch_state.claims[inventory_hostname].claim }}"
    allocatable: "{{ launch_state.claims[inventory_hostname].allocatable }}"
    record: "{{ launch_state.record }}"
    lease_owner: "{{ launch_state.lease_owner }}"
    host: "{{ inventory_hostname }}"

- name: Start this host's part of the plan
  cluster_compute.session.session_host:
    state: started
    record: "{{ launch_state.record }}"
    lease_owner: "{{ launch_state.lease_owner }}"
    host: "{{ inventory_hostname }}"
    public_keys: "{{ launch_state.public_keys }}"

- name: Wait for the replicas on this host and test their network
  cluster_compute.session.session_host:
    state: verified
    record: "{{ launch_state.record }}"
    host: "{{ inventory_hostname }}"

- name: Remove all parts of the session on this host
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
  description: Why the host does not hold the claim, in full sentences.
  returned: with O(state=held) and O(state=named)
  type: list
  elements: str
tentative:
  description: Sessions that are still being launched and are the only ones that prevent the claim.
  returned: with O(state=held) and O(state=named)
  type: list
  elements: str
public_keys:
  description:
    - For each replica, the public keys C(client) and C(host). Null for a key that is missing only because of check
      mode.
  returned: with O(state=held)
  type: dict
  sample:
    main1:
      client: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA
      host: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB
actions:
  description: What was done, or would be done, in order.
  returned: with every state except O(state=verified)
  type: list
  elements: str
  sample:
    - create network cc-3614fdf3
    - create container train-main1
seconds:
  description:
    - Durations. C(network) is for networks, files and data, and C(start) is for the containers. With O(state=started)
      and O(prove), C(ready) is for the check that they work.
  returned: with O(state=started) and O(state=amended)
  type: dict
  sample:
    network: 0.412
    start: 1.05
replicas:
  description: The results of the checks, one entry for each replica, in rank order.
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
  description: Why the record could not be stored. Containers of this host are still kept out of the session's network.
  returned: with O(state=stub) if that failed
  type: str
sick:
  description:
    - Whether the call failed because of a fault of this host, such as a full disk or an engine that does not answer.
      Another host could then do what was requested.
  returned: failure, if that is so
  type: bool
unproven:
  description: Which peers on other hosts did not answer in time, or which hosts could not start the session.
  returned: with O(state=started) and O(prove) if nothing else is left to check
  type: str
stale:
  description: Whether this host does not have the record to which O(patch) applies, so that it needs the whole record.
  returned: with O(state=amended) if that is so
  type: bool
revision:
  description: The revision of the record on this host. Null if there is none.
  returned: with RV(stale)
  type: int
elsewhere:
  description:
    - The sessions with this name that were not changed because of O(scope), each with its hosts, and with its resource
      group if the record has it. A session with containers but without a record has no C(status).
  returned: with O(state=absent)
  type: list
  elements: dict
sessions:
  description: Identifier and name of each session of which this host had any part, with the hosts in its record.
  returned: with O(state=absent)
  type: list
  elements: dict
tombstones:
  description: The tombstones of sessions with this name.
  returned: with O(state=absent)
  type: list
  elements: dict
"""

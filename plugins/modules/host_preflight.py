#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: host_preflight
short_description: Do one host's part of preflight
version_added: 0.1.0
description:
  - Lets a host look at itself, try the network with the others in the form in which sessions use it, and measure it.
  - Changes nothing that lasts. A link of the trial lies in a network namespace that ends with the process that holds
    it, and that process ends by itself.
  - A host where something is wrong is described, with the reason; it is no failure.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.info
  - cluster_compute.session.attributes.state_directory
options:
  state:
    description:
      - V(examined) has the host look at itself.
      - V(listening) starts a process that the other hosts speak to, with a link of its own.
      - V(reached) has the host speak to the others.
      - V(measured) has it measure the way to one of them and back.
      - V(ended) ends the process, and returns what it heard.
    type: str
    choices: [examined, listening, reached, measured, ended]
    required: true
  host:
    description:
      - Name of this host in the inventory.
    type: str
    default: ""
  images:
    description:
      - Image references to look up in the engine.
    type: list
    elements: str
    default: []
  paths:
    description:
      - Absolute paths to describe.
    type: list
    elements: str
    default: []
  volumes:
    description:
      - Names of volumes to describe.
    type: list
    elements: str
    default: []
  roots:
    description:
      - Folders that the site lets sessions mount.
    type: list
    elements: str
    default: []
  underlay_address:
    description:
      - Address of this host that tunnels shall use.
    type: str
  encryption:
    description:
      - Whether to try what the host needs for encrypted sessions.
    type: bool
    default: false
  accelerators:
    description:
      - The variable C(cluster_compute_accelerators) of the host.
    type: raw
  plan:
    description:
      - What M(cluster_compute.session.session_preflight) returned as C(plan) in its state V(planned).
    type: dict
  token:
    description:
      - What those name who speak to the process. Required but for V(examined).
    type: str
  ports:
    description:
      - With V(reached) and V(measured) the TCP ports that the hosts listen on, by name.
    type: dict
    default: {}
  udp_ports:
    description:
      - With V(reached) the UDP ports of encrypted sessions that the hosts listen on, by name.
    type: dict
    default: {}
  server:
    description:
      - What tells the process from others, as V(listening) returned it.
    type: dict
    default: {}
  target:
    description:
      - With V(measured) the name of the other host.
    type: str
    default: ""
requirements:
  - Docker SDK for Python 5.0 or newer
  - iproute2
seealso:
  - module: cluster_compute.session.session_preflight
"""

EXAMPLES = r"""
- name: Look at every host of the resource group
  cluster_compute.session.host_preflight:
    state: examined
    images: [registry.example.com/train:1.4]
  register: preflight_host
"""

RETURN = r"""
observed:
  description: What the host found out about itself.
  returned: with O(state=examined)
  type: dict
times:
  description: What its clock said at the begin and at the end, in seconds since the epoch.
  returned: with O(state=examined)
  type: list
  elements: float
controller:
  description: What the controller's clock said before and after.
  returned: with O(state=examined)
  type: list
  elements: float
server:
  description: What tells the process from others.
  returned: with O(state=listening)
  type: dict
port:
  description: The TCP port that it listens on.
  returned: with O(state=listening)
  type: int
udp:
  description: The UDP port of encrypted sessions that it listens on; 0 if these are not tried.
  returned: with O(state=listening)
  type: int
peers:
  description: For each host that was tried, by number, what TCP said.
  returned: with O(state=reached)
  type: dict
proofs:
  description: For each shared folder whether what another host wrote was found.
  returned: with O(state=reached)
  type: dict
measured:
  description: The round trip in seconds, and bits a second there and back.
  returned: with O(state=measured)
  type: dict
heard:
  description:
    - The size of the largest packet that came from each host, by number, through the tunnel (C(tunnel)) and to the port
      of encrypted sessions (C(plain)); null if the process was gone.
  returned: with O(state=ended)
  type: dict
"""

import time

BEGIN = time.time()

from typing import Any, Callable

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import SessionError
from ansible_collections.cluster_compute.session.plugins.module_utils.core.trial import Trial
from ansible_collections.cluster_compute.session.plugins.module_utils.host import preflight


def _examined(asked: dict[str, Any]) -> dict[str, Any]:
    """Look at this host."""
    observed = preflight.examine(
        asked["state_directory"],
        images=asked["images"],
        paths=asked["paths"],
        volumes=asked["volumes"],
        roots=asked["roots"],
        underlay_address=asked["underlay_address"],
        encryption=asked["encryption"],
        declared=asked["accelerators"],
    )
    return {"observed": observed, "times": [BEGIN, time.time()]}


def _places(asked: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return this host's place in the trial, and those of all that it tries."""
    trial = Trial(**asked["plan"]["trial"])
    ports = asked["ports"]
    udp = asked["udp_ports"]
    others = [
        {**one, "tcp": ports.get(one["name"]) or 0, "udp": udp.get(one["name"]) or 0}
        for one in trial.places(asked["host"])
    ]
    return trial.place(asked["host"]), others


def _listening(asked: dict[str, Any]) -> dict[str, Any]:
    """Start what the others speak to."""
    own, peers = _places(asked)
    plan, host = asked["plan"], asked["host"]
    return preflight.listen(
        own,
        peers,
        settings={**plan["settings"], "vni": plan["trial"]["vni"], "mtu": plan["trial"]["hosts"][host]["room"]},
        token=asked["token"],
        proofs=plan["proofs"].get(host, {}),
        roots=asked["roots"],
    )


def _reached(asked: dict[str, Any]) -> dict[str, Any]:
    """Speak to the others."""
    own, peers = _places(asked)
    return preflight.reach(
        own,
        peers,
        settings=asked["plan"]["settings"],
        server=asked["server"],
        token=asked["token"],
        proofs=asked["plan"]["proofs"].get(asked["host"], {}),
        roots=asked["roots"],
    )


def _measured(asked: dict[str, Any]) -> dict[str, Any]:
    """Measure the way to one of them."""
    trial = Trial(**asked["plan"]["trial"])
    target = {**trial.place(asked["target"]), "tcp": asked["ports"][asked["target"]]}
    settings = asked["plan"]["settings"]
    found = preflight.measure(
        trial.place(asked["host"]), target, token=asked["token"], seconds=settings["seconds"], size=settings["size"]
    )
    return {"measured": {"from": asked["host"], "to": asked["target"], **found}}


def _ended(asked: dict[str, Any]) -> dict[str, Any]:
    """End what was started."""
    return {"heard": preflight.stop(asked["server"], asked["token"])}


STATES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "examined": _examined,
    "listening": _listening,
    "reached": _reached,
    "measured": _measured,
    "ended": _ended,
}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": list(STATES), "required": True},
            "host": {"type": "str", "default": ""},
            "images": {"type": "list", "elements": "str", "default": []},
            "paths": {"type": "list", "elements": "str", "default": []},
            "volumes": {"type": "list", "elements": "str", "default": []},
            "roots": {"type": "list", "elements": "str", "default": []},
            "underlay_address": {"type": "str"},
            "encryption": {"type": "bool", "default": False},
            "accelerators": {"type": "raw"},
            "plan": {"type": "dict"},
            "token": {"type": "str", "no_log": True},
            "ports": {"type": "dict", "default": {}},
            "udp_ports": {"type": "dict", "default": {}},
            "server": {"type": "dict", "default": {}},
            "target": {"type": "str", "default": ""},
            "state_directory": {"type": "path", "default": "/var/lib/cluster-compute"},
        },
        required_if=[
            ("state", "listening", ["plan", "token"]),
            ("state", "reached", ["plan", "token"]),
            ("state", "measured", ["plan", "token"]),
            ("state", "ended", ["token"]),
        ],
        supports_check_mode=True,
    )
    try:
        result = STATES[module.params["state"]](module.params)
    except (SessionError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Homes of an NFS server, images of engines with different stores, and devices by CDI."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    BUSYBOX,
    DEMO,
    HOSTS,
    ON_EACH,
    launch,
    on,
    replicas,
    script,
    teardown,
    try_on,
)

HOMES: dict[str, Any] = {
    **ON_EACH,
    "session_name": "homes",
    "session_image": DEMO,
    "session_user": "me",
    "session_directory": "/home/ada",
    "session_mounts": ["/home/ada:/home/ada"],
    "awx_user_name": "ada",
    "cluster_compute_root_users": [],
}


def test_a_session_of_a_user_works_in_a_home_where_root_may_not() -> None:
    """The server takes root for nobody (root_squash), and the home is closed to all others."""
    assert try_on("n2", ["touch", "/home/ada/of-root"]).returncode != 0
    script("n1", "cd /srv/homes/ada; echo 'print(6 * 7)' >train.py; chown ada: train.py; chmod 600 train.py")
    launch(HOMES).ok()
    found = replicas("homes")
    for name, replica in found.items():
        ran = replica.run("sh", "-ec", f"id -un || true; id -u; pwd; python3 train.py >{name}.out; cat {name}.out")
        assert ran.split()[-3:] == ["4242", "/home/ada", "42"], ran
    assert found["sub2"].run("sh", "-ec", "ssh main1 cat /home/ada/sub1.out") == "42\n"
    assert script("n1", "stat -c %U /srv/homes/ada/sub1.out") == "ada\n"
    refused = launch({**HOMES, "session_name": "others", "session_user": "0:0"})
    assert refused.code != 0
    assert "session_user" in refused.failures
    assert launch(HOMES).ok().changed_hosts == set()
    teardown("homes").ok()


def test_images_go_between_machines_whose_engines_keep_them_differently() -> None:
    """n2 has the store of containerd, the others the classic one; no registry is asked, there is none."""
    stores = {host: on(host, "docker", "info", "-f", "{{.Driver}}").strip() for host in HOSTS}
    assert stores["n2"] in ("overlayfs", "stargz"), stores
    assert stores["n1"] == "overlay2", stores
    request = {**ON_EACH, "session_name": "pictures", "session_image": BUSYBOX}
    for giver in ("n2", "n1"):
        for host in HOSTS:
            if host != giver:
                on(host, "docker", "rmi", BUSYBOX)
        launch(request).ok()
        assert len(replicas("pictures")) == len(HOSTS)
        assert launch(request).ok().changed_hosts == set()
        teardown("pictures").ok()


CDI = {
    "cdiVersion": "0.5.0",
    "kind": "example.com/card",
    "devices": [
        {"name": str(number), "containerEdits": {"deviceNodes": [{"path": f"/dev/card{number}"}]}} for number in (0, 1)
    ],
}


def test_devices_by_cdi_on_the_newest_engine() -> None:
    script("n3", "mkdir -p /etc/cdi; for number in 0 1; do mknod -m 666 /dev/card$number c 1 3; done")
    on("n3", "tee", "/etc/cdi/card.json", stdin=json.dumps(CDI))
    site = {"n3": {"cluster_compute_accelerators": {"card": {"cdi": "example.com/card"}}}}
    request = {
        "session_name": "cards",
        "session_image": BUSYBOX,
        "session_memory": "64m",
        "session_command": "sleep 8888",
        "session_size": 2,
        "session_accelerators": {"card": 1},
    }
    launch(request, hosts=site).ok()
    found = replicas("cards")
    assert {replica.host for replica in found.values()} == {"n3"}
    shown = sorted(replica.run("sh", "-c", "echo /dev/card*").strip() for replica in found.values())
    assert shown == ["/dev/card0", "/dev/card1"]
    third = launch({**request, "session_name": "more", "session_size": 1}, hosts=site).ok()
    assert third.artifacts["cluster_compute_session"]["status"] == "PENDING"
    for name in ("more", "cards"):
        teardown(name, hosts=site).ok()

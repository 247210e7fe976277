# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host observes where all is well."""

from __future__ import annotations

from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.neighbours import (
    neighbour_limits,
)

GIB = 1024**3
IMAGE = {"id": "sha256:" + "a" * 64, "digests": [], "architecture": "amd64"}
SITE = {"cluster_compute_mount_roots": ["/srv"], "cluster_compute_accelerators": {"gpu": "nvidia"}}
UUIDS = [f"GPU-{number}5c89852-d268-c3f3-1b07-005d5ae1dc3f" for number in range(2)]


def folder(filesystem: str = "nfs4") -> dict[str, Any]:
    return {
        "kind": "directory",
        "real": "/srv/shared",
        "ancestors": {"/": "/", "/srv": "/srv", "/srv/shared": "/srv/shared"},
        "parent": True,
        "owner": "0:0",
        "mode": "0755",
        "filesystem": filesystem,
        "origin": "files:/srv",
        "inode": 1,
        "read_only": False,
    }


def observation(number: int) -> dict[str, Any]:
    """Return what a host observes where all is well."""
    address = f"192.0.{number // 250}.{number % 250 + 1}"
    engine = {"version": "26.1.5", "architecture": "x86_64", "limits_swap": True, "cdi": False, "image_store": "docker"}
    engine["remaps_users"] = False
    return {
        "root": True,
        "engine": {**engine, "storage_driver": "overlay2", "root": "/var/lib/docker", "cgroup": "2"},
        "engine_problem": "",
        "host": {
            "usable": True,
            "problem": "",
            "engine": engine,
            "topology": {"cores": [], "nodes": {}},
            "capacity": {"cpus": 8000, "memory": 64 * GIB},
            "containers": [],
            "reservations": [],
            "damaged": [],
            "images": {"train:1": IMAGE},
            "paths": {"/srv/shared": folder()},
            "volumes": {},
            "private": {"/var/lib/cc": "state"},
            "records": [],
            "overlays": {"port": 4789, "first": 4096, "last": 2**24 - 1, "interface": "eth0"},
            "accelerators": {"gpu": {"names": UUIDS, "paths": {}, "problem": ""}},
        },
        "nvidia": [{"model": "NVIDIA A100-SXM4-80GB", "driver": "535.104.05"}] * 2,
        "underlay": {"address": address, "interface": "eth0", "mtu": 1500},
        "underlay_problem": "",
        "addresses": [address],
        "subnets": ["192.0.0.0/16"],
        "vnis": [],
        "encryption": "",
        "packages": {
            "missing": [],
            "boot": "",
            "runtime": "",
            "runtime_lost": "",
            "trial": "",
            "ssh": "",
            "ssh_release": "",
        },
        "kernel": {
            "release": "6.1.0",
            "links": "",
            "rules": "",
            "forwarding": True,
            "drops_forwarded": False,
            "connections": [10, 1000],
            "local_ports": [32768, 60999],
            "neighbours": neighbour_limits(None),
        },
        "firewall": "",
        "clock": {"unsynchronized": False},
        "disks": {
            "images and containers": {"path": "/var/lib/docker", "free": 50 * GIB, "files": 1000, "files_free": 900}
        },
        "roots": {"/srv": folder()},
    }

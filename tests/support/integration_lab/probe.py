# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Print all that a session could leave on a host, as JSON. Runs on the hosts, by the interpreter's standard input."""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import subprocess
from typing import Any

STATE = "/var/lib/cluster-compute"
KEPT = (f"{STATE}/output", f"{STATE}/images")
"""What replicas wrote stays for some days, and what was found in an image as long as that; both on purpose."""
OURS = ("containerd-shim-runc-v2", "docker-proxy", "docker-init")


def lines(*argv: str) -> list[str]:
    """Return what a program prints; nothing where it fails or is missing."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []


def data(*argv: str) -> list[dict[str, Any]]:
    """Return what a program prints, as JSON."""
    return json.loads("\n".join(lines(*argv)) or "[]")  # type: ignore[no-any-return]


def tree(top: str) -> dict[str, list[Any]]:
    """Return mode, owner, time and content of everything below a folder; of folders no time."""
    found = {}
    for folder, _folders, files in os.walk(top):
        for path in [folder, *(os.path.join(folder, name) for name in files)]:
            status = os.lstat(path)
            plain = os.path.isfile(path) and not os.path.islink(path)
            digest = ""
            if plain:
                with open(path, "rb") as file:
                    digest = hashlib.sha256(file.read()).hexdigest()
            # A ledger that held a place or a name for a moment is the same as before, written anew; so is the state's
            # version where a test has lost all of it.
            written = status.st_mtime_ns if plain and os.path.basename(path) not in ("ledger.json", "version") else 0
            found[path] = [oct(status.st_mode), status.st_uid, status.st_gid, written, digest]
    return found


def rules() -> list[str]:
    """Return the firewall's rules and chains of its own, without counters; engines repeat some when they restart."""
    found = set()
    for table in ("filter", "nat", "mangle", "raw"):
        for line in lines("iptables-save", "-t", table):
            if line.startswith("-") or (line.startswith(":") and " - " in line):
                found.add(table + " " + re.sub(r" ?\[\d+:\d+\]", "", line))
    return sorted(found)


def programs() -> list[str]:
    """Return the names of running programs that containers bring with them, and of those that launches start."""
    found = []
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            try:
                with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
                    name = os.path.basename(file.read().split("\0")[0])
                with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
                    own = file.read().strip()
            except OSError:
                continue
            found += [program for program in (name, own) if program in OURS or program.startswith("cc-")]
    return sorted(found)


def engine(path: str) -> Any:
    """Return what the engine answers; nothing where it does not. Its own program takes ten times as long to start."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect("/run/docker.sock")
            connection.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
            with connection.makefile("rb") as stream:
                head, _separator, body = stream.read().partition(b"\r\n\r\n")
    except OSError:
        return None
    return json.loads(body) if head.split()[1:2] == [b"200"] else None


def containers() -> dict[str, list[str]]:
    """Return the containers, by name; one that goes while this looks is not there."""
    inspected = [engine(f"/containers/{entry['Id']}/json") for entry in engine("/containers/json?all=1") or ()]
    return {
        container["Name"]: [container["Id"], container["State"]["Status"], container["State"]["StartedAt"]]
        for container in inspected
        if container is not None
    }


def networks() -> list[str]:
    """Return the engine's networks; it makes its own one again when it starts, so that one is without its id."""
    found = [(network["Id"], network["Name"], network["Driver"]) for network in engine("/networks") or ()]
    return sorted(" ".join(words[1:] if words[1] == "bridge" else words) for words in found)


def images() -> list[str]:
    """Return the tags of the engine's images."""
    found = engine("/images/json") or ()
    return sorted(f"{tag} {image['Id']}" for image in found for tag in image["RepoTags"] or ["<none>:<none>"])


def main() -> None:
    """Print everything."""
    links = data("ip", "-j", "-d", "link")
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        mounts = sorted(line.split()[4] for line in file)
    found = {
        "engine": (engine("/version") or {}).get("Version"),
        "containers": containers(),
        "networks": networks(),
        "volumes": sorted(volume["Name"] for volume in (engine("/volumes") or {}).get("Volumes") or ()),
        "images": images(),
        "links": sorted(
            [link["ifname"], link["mtu"], link.get("ifalias", ""), link.get("linkinfo", {}).get("info_kind", "")]
            for link in links
        ),
        "addresses": sorted(
            [interface["ifname"], info["local"], info["prefixlen"]]
            for interface in data("ip", "-j", "-4", "address")
            for info in interface.get("addr_info", [])
        ),
        "routes": sorted(
            line.replace(" linkdown", "").strip() for line in lines("ip", "-4", "route", "show", "table", "all")
        ),
        "forwarding": sorted(line for line in lines("bridge", "fdb") if " dst " in line),
        "neighbours": sorted(lines("ip", "neigh", "show", "nud", "permanent")),
        "rules": rules(),
        "state": {path: entry for path, entry in tree(STATE).items() if not path.startswith(KEPT)},
        "mounts": mounts,
        "programs": programs(),
        # runc-process…: what an engine was about to start when a test cut its power; a boot of a real host clears it.
        # systemd-private-…: of systemd's own services, made anew at each boot.
        "temporary": sorted(
            name
            for name in os.listdir("/tmp")
            if "ansible" not in name and not name.startswith((".", "runc-process", "systemd-private"))
        ),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()

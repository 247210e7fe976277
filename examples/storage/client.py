# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write a file into the store, block after block, read it back from the last copies, and show where it was."""

import json
import os
import urllib.request

BLOCK = 1 << 20
BLOCKS = 6


def ask(method: str, url: str, content: bytes | None = None) -> bytes:
    """Return the answer to a request."""
    with urllib.request.urlopen(urllib.request.Request(url, content, method=method), timeout=10) as answer:
        return bytes(answer.read())


def main() -> None:
    """Do it."""
    nodes = json.loads(ask("GET", "http://namenode1:9000/"))["nodes"]
    for name, host in sorted(nodes.items()):
        print(f"data node {name} on {host}")
    written = os.urandom(BLOCKS * BLOCK)
    for number in range(BLOCKS):
        block = written[number * BLOCK : (number + 1) * BLOCK]
        for name in json.loads(ask("POST", f"http://namenode1:9000/blocks/{number}", b"")):
            ask("PUT", f"http://{name}:9866/{number}", block)
    places = json.loads(ask("GET", "http://namenode1:9000/"))["blocks"]
    read = b"".join(ask("GET", f"http://{places[str(number)][-1]}:9866/{number}") for number in range(BLOCKS))
    assert read == written
    assert all(len({nodes[name] for name in names}) == 2 for names in places.values())
    keepers = {name for names in places.values() for name in names}
    print(f"{BLOCKS} blocks on {len(keepers)} data nodes, each on 2 hosts, are what was written")


if __name__ == "__main__":
    main()

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write a file into the store, block after block, read it back from the last copies, and show where it was."""

import json
import os
from http.client import HTTPConnection

NAME_NODE = "namenode1"
BLOCK = 1 << 20
BLOCKS = 6


def ask(method: str, node: str, path: str, content: bytes | None = None) -> bytes:
    """Return what a node answers to a request. Raises AssertionError where it refuses."""
    connection = HTTPConnection(node, 9000 if node == NAME_NODE else 9866, timeout=10)
    connection.request(method, path, content)
    answer = connection.getresponse()
    assert answer.status < 300, f"{node}: {answer.status} {answer.reason}"
    return answer.read()


def main() -> None:
    """Do it."""
    nodes = json.loads(ask("GET", NAME_NODE, "/"))["nodes"]
    for name, host in sorted(nodes.items()):
        print(f"data node {name} on {host}")
    written = os.urandom(BLOCKS * BLOCK)
    for number in range(BLOCKS):
        block = written[number * BLOCK : (number + 1) * BLOCK]
        for name in json.loads(ask("POST", NAME_NODE, f"/blocks/{number}")):
            ask("PUT", name, f"/{number}", block)
    places = json.loads(ask("GET", NAME_NODE, "/"))["blocks"]
    read = b"".join(ask("GET", places[str(number)][-1], f"/{number}") for number in range(BLOCKS))
    assert read == written
    assert all(len({nodes[name] for name in names}) == 2 for names in places.values())
    keepers = {name for names in places.values() for name in names}
    print(f"{BLOCKS} blocks on {len(keepers)} data nodes, each on 2 hosts, are what was written")


if __name__ == "__main__":
    main()

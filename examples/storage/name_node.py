# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The name node of a small file store: it knows which data nodes there are, and which of them has which block."""

import itertools
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COPIES = 2
"""How many data nodes keep each block; no two of them on one host."""
nodes: dict[str, str] = {}
blocks: dict[str, list[str]] = {}
turns = itertools.count()


def choose(nodes: dict[str, str], turn: int) -> list[str]:
    """Return the data nodes for the next block, by turns, of different hosts. nodes: by name their hosts."""
    names = sorted(nodes)
    chosen: list[str] = []
    for name in names[turn % len(names) :] + names[: turn % len(names)]:
        if len(chosen) < COPIES and nodes[name] not in [nodes[other] for other in chosen]:
            chosen.append(name)
    return chosen


class Handler(BaseHTTPRequestHandler):
    """PUT /nodes/NAME: a data node is here. POST /blocks/ID: where the block is to go. GET: what is known."""

    def do_PUT(self) -> None:
        """Take down a data node and its host."""
        nodes[self.path.split("/")[2]] = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.answer({})

    def do_POST(self) -> None:
        """Choose data nodes for a block."""
        block = self.path.split("/")[2]
        blocks[block] = choose(nodes, next(turns))
        self.answer(blocks[block])

    def do_GET(self) -> None:
        """Tell what there is."""
        self.answer({"nodes": nodes, "blocks": blocks})

    def answer(self, found: object) -> None:
        """Answer in JSON."""
        text = json.dumps(found).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


if __name__ == "__main__":
    ThreadingHTTPServer(("", 9000), Handler).serve_forever()

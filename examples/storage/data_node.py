# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A data node: it reports to the name node once, and keeps blocks in its memory."""

import os
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

kept: dict[str, bytes] = {}


class Handler(BaseHTTPRequestHandler):
    """PUT and GET /ID: a block."""

    def do_PUT(self) -> None:
        """Keep a block, if there is room."""
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if len(kept) >= int(os.environ["CAPACITY"]):
            self.send_error(507)
            return
        kept[self.path] = content
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        """Give a block back."""
        self.send_response(200)
        self.send_header("Content-Length", str(len(kept[self.path])))
        self.end_headers()
        self.wfile.write(kept[self.path])


def main() -> None:
    """Report, then serve. A name node that is not there yet ends the program: the start order sees to it that it is."""
    name, host = os.environ["BACKENDAI_CLUSTER_HOST"], os.environ["CLUSTER_COMPUTE_HOST"]
    report = HTTPConnection("namenode1", 9000, timeout=5)
    report.request("PUT", f"/nodes/{name}", host.encode())
    assert report.getresponse().status == 200
    ThreadingHTTPServer(("", 9866), Handler).serve_forever()


if __name__ == "__main__":
    main()

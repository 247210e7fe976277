# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Send an event from a process of its own, so that no run waits for who receives it.

This file is also that process: it gets all on standard input, nothing of it shows among the machine's processes, and
imports nothing of this collection, which only Ansible finds.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import syslog
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds between one try and the next, so there is one try more."""
SECONDS = 5.0
"""For which a try may take."""


def send(url: str, token: str, event: Mapping[str, Any]) -> None:
    """Have the event sent, and return at once. Nothing that goes wrong with it is the run's matter."""
    with contextlib.suppress(OSError):
        process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )
        if process.stdin is not None:
            # Less than a pipe holds (pipe(7)), so nobody has to read it for this to go on.
            with process.stdin as stdin:
                stdin.write(packed(url, token, event))


def packed(url: str, token: str, event: Mapping[str, Any]) -> bytes:
    """Return what the process that sends is told. Escaped, a letter could take twelve bytes."""
    question = json.dumps({"url": url, "token": token, "event": event}, ensure_ascii=False)
    return question.encode(errors="replace")


def main() -> int:
    """Try until it is received, six times at most; the machine's log tells what was not."""
    from ansible.module_utils.urls import open_url

    question = json.load(sys.stdin.buffer)
    headers = {"Content-Type": "application/cloudevents+json"}
    if question["token"]:
        headers["Authorization"] = f"Bearer {question['token']}"
    body = json.dumps(question["event"])
    why: object = ""
    for pause in (*PAUSES, None):
        try:
            # Nobody but the receiver gets the token, nor the receiver a password of whoever runs the playbook.
            open_url(
                question["url"],
                data=body,
                headers=headers,
                method="POST",
                timeout=SECONDS,
                follow_redirects="none",
                use_netrc=False,
            ).close()
            return 0
        except Exception as error:  # whatever it is, the next try may do
            why = error
        if pause is not None:
            time.sleep(pause)
    kind, receiver = question["event"]["type"], urlsplit(question["url"]).hostname  # the rest may hold secrets
    syslog.syslog(syslog.LOG_WARNING, f"cluster_compute: the event {kind} was not received by {receiver}: {why}")
    return 1


if __name__ == "__main__":
    sys.exit(main())

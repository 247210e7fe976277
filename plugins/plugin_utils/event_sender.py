# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Send an event from a separate process, so that no run waits for the receiver.

This file is also that process. It gets everything on standard input, so nothing is visible in the process list, and it
imports nothing from this collection, which only Ansible can find.
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
"""Seconds between two attempts. There is one attempt more than pauses."""
SECONDS = 5.0
"""Time limit of an attempt in seconds."""


def send(url: str, token: str, event: Mapping[str, Any]) -> None:
    """Start to send the event, and return at once. Problems with sending do not affect the run."""
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
            # Less than a pipe holds (pipe(7)), so this does not have to wait for a reader.
            with process.stdin as stdin:
                stdin.write(packed(url, token, event))


def packed(url: str, token: str, event: Mapping[str, Any]) -> bytes:
    """Return the input of the sending process. With escapes, a letter could take twelve bytes."""
    question = json.dumps({"url": url, "token": token, "event": event}, ensure_ascii=False)
    return question.encode(errors="replace")


def main() -> int:
    """Try until the event is received, at most six times. The machine's log reports an event that was not received."""
    from ansible.module_utils.urls import open_url

    question = json.load(sys.stdin.buffer)
    headers = {"Content-Type": "application/cloudevents+json"}
    if question["token"]:
        headers["Authorization"] = f"Bearer {question['token']}"
    body = json.dumps(question["event"])
    why: object = ""
    for pause in (*PAUSES, None):
        try:
            # Only the receiver gets the token, and it gets no password of the user who runs the playbook.
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
        except Exception as error:  # whatever the error is, the next attempt may succeed
            why = error
        if pause is not None:
            time.sleep(pause)
    kind, receiver = question["event"]["type"], urlsplit(question["url"]).hostname  # the rest may hold secrets
    syslog.syslog(syslog.LOG_WARNING, f"cluster_compute: the event {kind} was not received by {receiver}: {why}")
    return 1


if __name__ == "__main__":
    sys.exit(main())

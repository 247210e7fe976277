# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A job of a session on a host of the contract tests."""

from __future__ import annotations

import secrets
import time
from typing import Any

from ansible_collections.cluster_compute.session.tests.support.contract.on_host import (
    HERE,
    Session,
)


class Job:
    """One job of a session: what it is asked for, and what comes of it."""

    def __init__(self, session: Session, job: str = "") -> None:
        self.session = session
        self.id = job or secrets.token_hex(6)

    def start(self, command: str | list[str], *on: str, check_mode: bool = False, **more: Any) -> Job:
        """Start a command, of a shell where it is one text, in replicas."""
        argv = ["/bin/sh", "-c", command] if isinstance(command, str) else command
        homes = {replica["name"]: replica["host"] for replica in self.session.plan["replicas"]}
        given = {"on": {name: homes[name] for name in on or ("main1",)}, "host": HERE, "command": argv, **more}
        self.answer = self.session.call(
            "session_job", check_mode, state="started", session_id=self.session.id, job=self.id, **given
        )
        return self

    def stop(self) -> bool:
        """End the job; return whether it ran."""
        return bool(
            self.session.call("session_job", state="stopped", session_id=self.session.id, job=self.id)["changed"]
        )

    def read(self, **more: Any) -> dict[str, Any]:
        """Return what there is of the job now."""
        return self.session.call("session_output", session_id=self.session.id, job=self.id, **more)

    def end(self, seconds: float = 20, **more: Any) -> dict[str, dict[str, Any]]:
        """Wait until the job has ended; return, by replica, how, with its lines as (stream, text)."""
        deadline = time.monotonic() + seconds
        while (found := self.read(**more))["running"]:
            assert time.monotonic() < deadline, found
            time.sleep(0.05)
        lines = {
            source["replica"]: [(stream, text) for _time, stream, text in source["lines"]]
            for source in found["sources"]
        }
        return {job["replica"]: {**job, "lines": lines[job["replica"]]} for job in found["jobs"]}

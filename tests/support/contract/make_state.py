# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write to standard output, as JSON, the state directory of a host that this release was at work on.

`tools/make_state.py` runs it on a host of the contract tests. What the sessions are is told apart by their names; the
host is h1, and those that only plans have are h2 and h3, as in `hosts_in_memory`, whose image they have, too.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import ssh_keys
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import Engine
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    ERROR,
    PENDING,
    QueueTicket,
    Record,
    advance,
    new_record,
    started,
    stub_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import parse_request
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.apps import parse_app_request
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import timer
from ansible_collections.cluster_compute.session.tests.support.contract import on_host
from ansible_collections.cluster_compute.session.tests.support.contract.on_host import BUSYBOX, Host, Session

HERE = on_host.HERE = "h1"
DATA = Path("/srv/made")
SERVE = {"page": {"command": ["httpd", "-f", "-p", "127.0.0.1:{port}"], "environment": {"FILE": "{token_file}"}}}


def main() -> int:
    """Let sessions run, wait and end, and tell what is there of them."""
    with tempfile.TemporaryDirectory() as folder:
        host = Host(Engine.connect(), Path(folder))
        DATA.mkdir(exist_ok=True)
        try:
            _work(host)
            files = {
                str(path.relative_to(host.state.root)): _text(path)
                for path in sorted(host.state.root.rglob("*"))
                if path.is_file()
            }
        finally:
            host.clear()
            DATA.rmdir()
    text = json.dumps(files, indent=1, sort_keys=True)
    image = host.engine.image_names()[BUSYBOX]
    for found, wanted in ((image, f"sha256:{'5' * 64}"), (BUSYBOX, "busybox"), ("there1", "h2"), ("there2", "h3")):
        text = text.replace(found, wanted)
    sys.stdout.write(f"{text}\n")
    return 0


def _work(host: Host) -> None:
    host.call("host_identity", host=HERE)
    path = str(host.folder / "host.pyz")
    host.call("host_boot", path=path, output_size="1m", output_days=3, share_half_life="7d")
    key = ssh_keys.converge_keys(host.folder / "owner", False, False)[0]["client"]
    pair = host.launch(
        name="pair",
        size=2,
        max_size=4,
        max_replicas_per_host=4,
        max_duration="8h",
        max_idle="2h",
        end_warning="10m",
        env={"EPOCHS": "3"},
        mounts=[f"{DATA}:/data:ro"],
        ports=["18080:80"],
        authorized_keys=[f"{key} ada"],
        slurm_variables=True,
        on_host_loss="replace",
        priority=5,
        hosts=[HERE],
    )
    _run_job(pair)
    ways = encode(parse_app_request({"app": "page", "session_apps": SERVE}).ways)
    host.call("session_app", ways=ways, app="page", host=HERE, session_id=pair.id, session_name="pair")
    roles = [{"name": "main", "cpus": "0.2"}, {"name": "worker", "replicas": 2, "env": {"PART": "1"}}]
    host.plan(others=1, name="wide", roles=roles, max_replicas_per_host=2, capabilities=["SYS_PTRACE"]).start()
    _keep(host, replace(stub_of(started(host.plan(name="elsewhere", others=2).record)), hosts=("there1", "there2")))
    request = parse_request({"session_name": "waits", "session_image": BUSYBOX, "session_size": 2}).to_dict()
    waits = new_record("11111111-2222-4333-8444-555555555555", "somebody", request, ["ada"])
    _keep(host, advance(waits, PENDING, "It waits.", queue=QueueTicket(3), report=("There is no room.",)))
    ended = new_record("11111111-2222-4333-8444-666666666666", "somebody", {**request, "name": "ended"})
    _keep(host, advance(ended, ERROR, "It failed.", report=("The disk was full.",)))
    gone = {"id": "11111111-2222-4333-8444-777777777777", "name": "gone", "hosts": ["there2"]}
    host.call("session_record", tombstones=[gone])
    for _look in range(2):
        assert timer.look(host.state) == 0
    host.call("host_drain", reason="new memory", by="alice")


def _run_job(session: Session) -> None:
    given: dict[str, Any] = {"session_id": session.id, "job": "0123456789ab"}
    command = ["sh", "-c", "echo trained"]
    session.call("session_job", on={"main1": HERE}, host=HERE, command=command, **given)
    while session.call("session_output", **given)["running"]:
        time.sleep(0.05)


def _keep(host: Host, record: Record) -> None:
    host.call("session_record", records=[record])


def _text(path: Path) -> str:
    """Return what is in a file; in place of a private key, that there is one."""
    text = path.read_text(encoding="utf-8")
    if "PRIVATE KEY" in text or path.name == "tunnel.key":
        return "a private key\n"
    if path.name == "token":
        return "a token"
    made_up = {"identity.json": {"machine": ""}, "page.json": {"token": "a token"}}.get(path.name)
    return text if made_up is None else json.dumps({**json.loads(text), **made_up}, sort_keys=True) + "\n"


if __name__ == "__main__":
    os.umask(0o077)
    raise SystemExit(main())

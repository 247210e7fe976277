# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a playbook on hosts whose Python is a program that stands in for theirs: it answers each call as it is told."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.program import MARK

CHECKOUT = Path(__file__).resolve().parents[2]
UNREACHABLE = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 9}


def play(
    folder: Path,
    playbook: str,
    answers: Mapping[str, Any],
    variables: Mapping[str, Any],
    *options: str,
    later: Any = None,
    **environment: str,
) -> tuple[int, str]:
    """Return how a playbook of the collection ended, and what it printed.

    answers: what each host says; None for one that cannot be reached. later: what all say from their second call on,
    where that differs. environment: of Ansible.
    """
    hosts = {}
    for host, answer in answers.items():
        python = folder / host
        asks = f"cat >'{python}.asked'$(wc -l <'{python}.calls')"
        commands = [asks, f"cat '{python}.now'", f"cp '{python}.later' '{python}.now'", f"echo >>'{python}.calls'"]
        script = "\n".join(["#!/bin/sh", *commands, ""])
        python.write_text(script, encoding="utf-8")
        python.chmod(0o755)
        for when, said in (("now", answer), ("later", answer if later is None else later)):
            (folder / f"{host}.{when}").write_text(f"\n{MARK}{json.dumps(said)}\n", encoding="utf-8")
        (folder / f"{host}.calls").write_text("", encoding="utf-8")
        local = {"ansible_connection": "local", "ansible_python_interpreter": str(python)}
        hosts[host] = local if answer is not None else UNREACHABLE
    group = {"cluster_compute_hosts": {"hosts": hosts}}
    (folder / "inventory.json").write_text(json.dumps({"all": {"children": group}}), encoding="utf-8")
    name = shutil.which("ansible-playbook", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert name is not None
    called = [name, "-i", str(folder / "inventory.json"), str(CHECKOUT / "playbooks" / f"{playbook}.yml")]
    own = {"ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg"), "ANSIBLE_HOME": str(folder)}
    own["ANSIBLE_STDOUT_CALLBACK"] = "ansible.builtin.default"  # what Ansible itself says of tasks and hosts
    done = subprocess.run(
        [*called, "-e", json.dumps(variables), *options],
        env={**os.environ, **own, **environment},
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout


def calls(folder: Path, host: str) -> int:
    """Return how often the last play called a host that can be reached."""
    return len((folder / f"{host}.calls").read_text(encoding="utf-8").splitlines())


def asked(folder: Path, host: str) -> list[dict[str, Any]]:
    """Return what the last play asked a host that can be reached: call and arguments."""
    files = [folder / f"{host}.asked{number}" for number in range(calls(folder, host))]
    return [json.loads(zlib.decompress(file.read_bytes())) for file in files]

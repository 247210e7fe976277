# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is encrypted in the inventory, alone or inside of something else, counts as if it were written plainly."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.vault import VaultLib, VaultSecret
from ansible_collections.cluster_compute.session.tests.support.core.verbs.group import (
    GRANTED,
    facts,
)
from ansible_collections.cluster_compute.session.tests.support.stand_in import CHECKOUT, asked, play

WORDS = "correct horse"
SITE: dict[str, Any] = {
    "session_name": "train",
    "session_image": "busybox",
    "session_hosts": ["h1", "h2"],
    "session_max_replicas_per_host": "1",
    "session_cpus": "0.5",
    "session_memory": "64m",
    "session_env": {"TOKEN": "hunter2", "PLAIN": "1"},
    "session_command": ["sleep", "86400"],
    "session_roles": [{"name": "main", "env": {"ROLE_TOKEN": "hunter3"}}, {"name": "sub", "replicas": "1"}],
    "session_owner": "alice",
    "session_shared_with": ["root"],
    "cluster_compute_admins": ["root"],
    "cluster_compute_cpus": "2",
    "cluster_compute_labels": {"zone": "z1"},
    "cluster_compute_mount_roots": ["/srv"],
    "cluster_compute_events": {"url": "http://127.0.0.1:9/", "token": "s3cret"},
}


class Encrypted(str):
    """Text that is written as what ansible-vault makes of it."""


def encrypted(value: Any) -> Any:
    """Return a value all of whose text is encrypted, but for the keys of mappings."""
    if isinstance(value, dict):
        return {key: encrypted(item) for key, item in value.items()}
    if isinstance(value, list):
        return [encrypted(item) for item in value]
    secret = VaultSecret(WORDS.encode())
    return Encrypted(VaultLib([("default", secret)]).encrypt(value, secret=secret).decode())


def written(path: Path, variables: dict[str, Any]) -> Path:
    """Write variables of all hosts, as an inventory."""

    class Dumper(yaml.SafeDumper):
        pass

    Dumper.add_representer(Encrypted, lambda own, text: own.represent_scalar("!vault", str(text), style="|"))
    path.write_text(yaml.dump({"all": {"vars": variables}}, Dumper=Dumper), encoding="utf-8")
    return path


def questions(folder: Path, make: Callable[[Any], Any]) -> list[dict[str, Any]]:
    """Return what h1 is asked in a launch, less what is another each time; make: of the site's variables."""
    folder.mkdir()
    password = folder / "password"
    password.write_text(WORDS, encoding="utf-8")
    site = written(folder / "site.yml", {name: make(value) for name, value in SITE.items()})
    answers = {"h1": {"host": facts()}, "h2": {"host": facts(number=2)}}
    options = ("-i", str(site), "--vault-password-file", str(password))
    _code, output = play(folder, "launch_cluster", answers, {}, *options, later=GRANTED)
    found = asked(folder, "h1")
    assert [entry["call"] for entry in found[:2]] == ["host_info", "session_host"], output
    return found


def test_a_launch_gives_hosts_what_is_meant(tmp_path: Path) -> None:
    found = {
        name: questions(tmp_path / name, make)[1]["arguments"]["record"]
        for name, make in (("plain", lambda value: value), ("encrypted", encrypted))
    }
    assert all(secret in json.dumps(found["plain"]["request"]) for secret in ("hunter2", "hunter3"))
    assert found["encrypted"]["request"] == found["plain"]["request"]
    assert (found["encrypted"]["owner"], found["encrypted"]["shared_with"]) == ("alice", ["root"])
    for record in found.values():
        assert all(secret in json.dumps(record["plan"]) for secret in ("hunter2", "hunter3"))


@pytest.mark.parametrize("path", sorted((CHECKOUT / "plugins" / "action").glob("*.py")), ids=lambda path: path.stem)
def test_no_action_reads_a_variable_as_ansible_has_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "_templar.template" not in text, "use plain.reader"
    assert 'task_vars["hostvars"][' not in text, "use plain.PlainHosts"

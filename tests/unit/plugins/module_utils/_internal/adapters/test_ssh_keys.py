# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keys of replicas, judged by OpenSSH itself."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import ssh_keys, state
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.ssh_keys import (
    KeyFileError,
    authorized_keys,
    client_configuration,
    converge_keys,
    known_hosts,
    owner_keys,
    server_configuration,
)
from ansible_collections.cluster_compute.session.tests.support.plans import typed_plan

MEMBERS = typed_plan(
    {"replicas": [{"name": "main1", "address": "10.213.0.2"}, {"name": "sub1", "address": "10.213.0.3"}]}
).replicas
ME = (os.getuid(), os.getgid())


@pytest.fixture(autouse=True)
def own_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are made by root for root; the tests run as anybody."""
    monkeypatch.setattr(
        ssh_keys, "write_file", lambda path, content, mode=0o644: state.write_file(path, content, mode, ME)
    )
    monkeypatch.setattr(
        ssh_keys, "file_differs", lambda path, content, mode: state.file_differs(path, content, mode, ME)
    )


def run(*command: str, expect: int = 0) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == expect, done.stderr
    return done.stdout


def test_openssh_reads_the_keys(tmp_path: Path) -> None:
    public, made = converge_keys(tmp_path / "ssh", regenerate=False, check_mode=False)
    assert made == ["id_ed25519", "ssh_host_ed25519_key"]
    for kind, name in (("client", "id_ed25519"), ("host", "ssh_host_ed25519_key")):
        path = tmp_path / "ssh" / name
        assert path.stat().st_mode & 0o777 == 0o600
        assert run("ssh-keygen", "-y", "-f", str(path)).strip() == public[kind]
        assert "ED25519" in run("ssh-keygen", "-l", "-f", f"{path}.pub")
    assert public["client"] != public["host"]


def test_keys_are_kept_unless_they_are_to_be_made_anew(tmp_path: Path) -> None:
    first, _made = converge_keys(tmp_path, regenerate=False, check_mode=False)
    assert converge_keys(tmp_path, regenerate=False, check_mode=False) == (first, [])
    second, made = converge_keys(tmp_path, regenerate=True, check_mode=False)
    assert made == ["id_ed25519", "ssh_host_ed25519_key"]
    assert second["client"] != first["client"]
    assert second["host"] != first["host"]


def test_a_lost_public_half_comes_back_from_the_private_one(tmp_path: Path) -> None:
    first, _made = converge_keys(tmp_path, regenerate=False, check_mode=False)
    (tmp_path / "id_ed25519.pub").unlink()
    assert converge_keys(tmp_path, regenerate=False, check_mode=True) == (first, ["id_ed25519.pub"])
    assert not (tmp_path / "id_ed25519.pub").exists()
    assert converge_keys(tmp_path, regenerate=False, check_mode=False) == (first, ["id_ed25519.pub"])
    assert (tmp_path / "id_ed25519.pub").read_text().strip() == first["client"]


def test_check_mode_makes_nothing(tmp_path: Path) -> None:
    public, made = converge_keys(tmp_path / "ssh", regenerate=False, check_mode=True)
    assert public == {"client": None, "host": None}
    assert made == ["id_ed25519", "ssh_host_ed25519_key"]
    assert not (tmp_path / "ssh").exists()


@pytest.mark.parametrize("content", ["", "garbage", "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n"])
def test_a_damaged_key_is_refused_by_its_name(tmp_path: Path, content: str) -> None:
    (tmp_path / "id_ed25519").write_text(content)
    with pytest.raises(KeyFileError, match="id_ed25519 holds no usable private key"):
        converge_keys(tmp_path, regenerate=False, check_mode=False)
    assert (tmp_path / "id_ed25519").read_text() == content


def test_openssh_reads_the_files_of_trust(tmp_path: Path) -> None:
    keys = {}
    for member in MEMBERS:
        public, _made = converge_keys(tmp_path / member.name, regenerate=False, check_mode=False)
        keys[member.name] = {kind: key or "" for kind, key in public.items()}
    hosts = tmp_path / "known_hosts"
    hosts.write_text(known_hosts(MEMBERS, keys))
    for member in MEMBERS:
        for name in (member.name, str(member.address)):
            assert keys[member.name]["host"] in run("ssh-keygen", "-F", name, "-f", str(hosts))
    authorized = authorized_keys(MEMBERS, keys, "10.213.0.0/28")
    assert [line.split()[0] for line in authorized.splitlines()] == ['from="10.213.0.0/28"'] * 2
    (tmp_path / "authorized").write_text(authorized)
    assert len(run("ssh-keygen", "-l", "-f", str(tmp_path / "authorized")).splitlines()) == 2


def test_openssh_understands_the_client_configuration(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(client_configuration(MEMBERS, "/etc/cluster-compute/ssh"))
    for name in ("sub1", "10.213.0.3"):
        settings = run("ssh", "-G", "-F", str(config), name)
        for wanted in (
            "batchmode yes",
            "stricthostkeychecking true",
            "identitiesonly yes",
            "identityfile /etc/cluster-compute/ssh/id_ed25519",
            "globalknownhostsfile /etc/cluster-compute/ssh/known_hosts",
            "hostkeyalgorithms ssh-ed25519",
        ):
            assert wanted in settings.splitlines()
    assert "batchmode no" in run("ssh", "-G", "-F", str(config), "elsewhere.example").splitlines()


def test_the_server_configuration_quotes_values_and_leaves_out_what_it_cannot_hold() -> None:
    # That sshd reads it so is shown on the lab, where there is one.
    values = {"TF_CONFIG": '{"a": 1}', "B": "back\\slash", "N": "a\nPermitRootLogin yes"}
    parts = {"SshdAuthPath": "/parts/sshd-auth"}
    lines = server_configuration("10.213.0.2", False, "/keys", values, parts, "10.213.0.0/28").splitlines()
    assert lines[:1] == ["ListenAddress 10.213.0.2:2200"]
    assert "SshdAuthPath /parts/sshd-auth" in lines
    assert "PerSourcePenaltyExemptList 10.213.0.0/28" in lines
    assert lines[-1] == 'SetEnv "B=back\\\\slash" "TF_CONFIG={\\"a\\": 1}"'
    assert "PermitRootLogin yes" not in lines


def test_the_owner_has_a_port_where_the_session_s_keys_do_not_count() -> None:
    text = server_configuration("10.213.0.2", True, "/keys", {}, {}, "10.213.0.0/28")
    assert "Penalt" not in text, "which servers before 9.8 do not know"
    before, _match, login = text.partition("Match LocalPort 2201\n")
    assert before.splitlines()[:2] == ["ListenAddress 10.213.0.2:2200", "ListenAddress 0.0.0.0:2201"]
    assert "AuthorizedKeysFile /keys/authorized_keys\n" in before
    assert "AuthorizedKeysFile /keys/owner_keys\n" in login
    # Whoever is alone has no peers, whose keys could count.
    before, _match, login = server_configuration(None, True, "/keys", {}, {}, None).partition("Match LocalPort 2201\n")
    assert [line for line in before.splitlines() if line.startswith("ListenAddress")] == ["ListenAddress 0.0.0.0:2201"]
    assert "AuthorizedKeysFile none\n" in before
    assert "owner_keys" in login
    assert "LocalPort" not in server_configuration("10.213.0.2", False, "/keys", {}, {}, "10.213.0.0/28")


def test_the_owner_s_keys_may_be_bound_to_an_address() -> None:
    assert owner_keys(["a b c", "d e"]) == "a b c\nd e\n"
    assert owner_keys(["a b c"], "10.213.0.2") == 'from="10.213.0.2" a b c\n'


def test_who_is_alone_has_nothing_to_configure() -> None:
    assert client_configuration(MEMBERS[:1], "/keys") == "Host *\n"

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections import Counter

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules import logins
from ansible_collections.cluster_compute.session.tests.support.plans import typed_plan

ROOT = "root:x:0:0:root:/root:/bin/bash\n"
WELL = {"/etc/passwd": ROOT, "/etc/shadow": "root:*:19000:0:99999:7:::\n", "/etc/nsswitch.conf": "passwd: files sss\n"}


def pairs(*replicas: str) -> list[tuple[str, str]]:
    """Return who logs in to whom, of replicas given as name, host and image; each host has its own part."""
    plain = []
    for rank, text in enumerate(replicas):
        name, host, image = text.split()
        plain.append({"name": name, "role": name.rstrip("0123456789"), "host": host, "image": image, "rank": rank})
    plan = typed_plan({"network": {}, "replicas": plain})
    found = []
    for host in dict.fromkeys(replica.host for replica in plan.replicas):
        own, others = logins.login_pairs(plan, host)
        assert all((client.host, server.host) == (host, host) for client, server in own)
        assert all(client.host == host != server.host for client, server in others)
        found += [(client.name, server.name) for client, server in own + others]
    return found


@pytest.mark.parametrize(
    ("replicas", "who"),
    [
        (["main1 a x"], [("main1", "main1")]),
        (["main1 a x", "sub1 a x", "sub2 a x"], [("main1", "sub1"), ("sub1", "main1")]),
        (["main1 a x", "sub1 b x"], [("main1", "sub1"), ("sub1", "main1")]),
        (["main1 a x", "sub1 a y", "sub2 b y"], [("main1", "main1"), ("sub1", "sub2"), ("sub2", "sub1")]),
    ],
)
def test_replicas_of_one_image_log_in_in_a_ring(replicas: list[str], who: list[tuple[str, str]]) -> None:
    assert pairs(*replicas) == who


def test_each_role_on_each_host_is_client_and_server_once_however_many_replicas_it_has() -> None:
    hosts = [f"h{number}" for number in range(40)]
    replicas = [f"sub{number} {hosts[number // 25]} x" for number in range(1000)]
    found = pairs("main1 h0 x", *replicas)
    assert len(found) == 41
    assert set(Counter(client for client, _server in found).values()) == {1}
    assert {client for client, _server in found} == {server for _client, server in found}


@pytest.mark.parametrize(
    ("changed", "uid", "named"),
    [
        ({}, 0, []),
        ({"/etc/passwd": None}, 0, ["/etc/passwd has no user with the number 0."]),
        ({}, 1000, ["/etc/passwd has no user with the number 1000."]),
        ({"/etc/passwd": ROOT.replace("bash", "nologin")}, 0, ["'/bin/nologin', which allows no logins."]),
        ({"/etc/shadow": "root:!:19000:0:99999:7:::"}, 0, ["/etc/shadow locks the password of root"]),
        (
            {"/etc/shadow": "root:*:19000:0:99999:7::1:"},
            0,
            ["/etc/shadow has a day on which the account root expires."],
        ),
        (
            {"/etc/nsswitch.conf": "passwd: sss # files\nhosts: dns\ngroup: x"},
            0,
            ["for passwd: 'passwd:", "for hosts: "],
        ),
        ({"/etc/nsswitch.conf": "passwd:compat\nhosts:\tfiles dns\n"}, 0, []),
        ({"/etc/passwd": "\n::\nroot\n", "/etc/shadow": "\nroot\n:"}, 0, ["has no user"]),
    ],
)
def test_what_may_be_in_the_way_is_named(changed: dict[str, str | None], uid: int, named: list[str]) -> None:
    found = logins.obstacles({**WELL, **changed}, uid, [])
    assert len(found) == len(named), found
    assert all(words in sentence for words, sentence in zip(named, found))


def test_what_is_run_at_each_login_follows_from_the_shell_and_the_home() -> None:
    assert logins.run_at_login(WELL, 0, "") == [
        "/etc/ssh/sshrc",
        "/root/.ssh/rc",
        "/etc/bash.bashrc",
        "/root/.bashrc",
    ]
    assert logins.run_at_login({}, 0, "/") == ["/etc/ssh/sshrc", "/.ssh/rc"]
    assert logins.obstacles(WELL, 0, ["/root/.bashrc"]) == ["/root/.bashrc is run at each login."]

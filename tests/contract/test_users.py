# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Replicas that run as another user than the image's, with groups of the host and another working directory."""

from __future__ import annotations

import grp

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.output import batch_job
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import SessionError
from ansible_collections.cluster_compute.session.tests.support.contract.job import Job
from ansible_collections.cluster_compute.session.tests.support.contract.on_host import Host, output_of

WHO = "id -u; id -g; id -G; pwd; echo $HOME; umask"


def test_programs_commands_and_logins_run_as_the_user(host: Host) -> None:
    video = str(grp.getgrnam("video").gr_gid)
    session = host.launch(
        size=2,
        user="4321:8765",
        groups=["video", 77],
        directory="/tmp",
        command=["sh", "-c", f"({WHO}) >/tmp/first; exec sleep 8888"],
    )
    first = session.run_in("main1", "cat", "/tmp/first").splitlines()
    assert first[:2] == ["4321", "8765"]
    assert {video, "77"} <= set(first[2].split())
    assert first[3] == "/tmp"
    assert session.run_in("main1", "sh", "-c", WHO).splitlines()[:4] == first[:4]
    assert session.run_in("main1", "ssh", "sub1", "id -u; id -g").split() == ["4321", "8765"]
    outcome = Job(session, batch_job(session.id)).start("id -u; pwd", once=True).end(120)["main1"]
    assert outcome["exit_code"] == 0
    assert session.repair()["actions"] == []


def test_a_user_by_name_is_that_of_the_image(host: Host) -> None:
    session = host.launch(size=2, user="nobody")
    assert session.run_in("main1", "ssh", "sub1", "id -un").strip() == "nobody"
    assert output_of("docker", "exec", "demo-sub1", "id", "-un").strip() == "nobody"


def test_a_group_that_the_host_lacks_is_named(host: Host) -> None:
    session = host.held(size=2, groups=["no-such-group"])
    with pytest.raises(SessionError, match="has no group 'no-such-group', which session_groups names"):
        session.bring("started")


def test_a_user_that_the_image_lacks_is_named(host: Host) -> None:
    session = host.held(size=2, user="nosuchuser")
    with pytest.raises(SessionError, match="nosuchuser"):
        session.bring("started")

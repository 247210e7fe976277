# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who may choose the user that replicas run as."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import (
    Request,
    parse_request,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.access import ADMIN, Asker
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.site import Settings
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.users import check_users
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput

ALICE, BOB = Asker("alice", is_admin=False), Asker("bob", is_admin=False)
FOLDER, VOLUME = ["/srv/data:/data"], ["data:/data"]
OF_SERVER = [
    {"volume": "data", "target": "/data", "driver_options": {"type": "nfs", "device": ":/x", "o": "addr=192.0.2.1"}}
]


def request(**given: Any) -> Request:
    return parse_request(
        {"session_name": "train", "session_image": "a", **{f"session_{key}": value for key, value in given.items()}}
    )


def refusal(wanted: Request, asker: Asker, allowed: tuple[str, ...] | None = None, owner: str = "alice") -> str:
    try:
        check_users(wanted, wanted.roles, owner, asker, allowed)
    except InvalidInput as error:
        return str(error)
    return ""


def test_me_is_nobody_else() -> None:
    wanted = request(user="me")
    assert refusal(wanted, ALICE) == refusal(wanted, ADMIN) == refusal(request(user="1:1"), BOB) == ""
    assert "session_user is 'me': The session belongs to alice, and you are bob" in refusal(wanted, BOB)


@pytest.mark.parametrize("mounts", [FOLDER, OF_SERVER])
@pytest.mark.parametrize(("given", "named"), [({}, "session_user of the role main"), ({"user": "0:0"}, "is '0:0'")])
def test_a_site_says_who_may_be_anybody_to_its_files(mounts: list[Any], given: dict[str, str], named: str) -> None:
    wanted = request(mounts=mounts, **given)
    assert refusal(wanted, ALICE) == refusal(wanted, ALICE, ("alice",)) == refusal(wanted, ADMIN, ()) == ""
    found = refusal(wanted, ALICE, ())
    assert named in found
    assert "Nobody but its administrators may choose the user of programs where folders of the hosts" in found
    assert "Only bob, carol may choose" in refusal(wanted, ALICE, ("bob", "carol"))


def test_who_is_nobody_else_to_the_files_may_mount_them() -> None:
    assert refusal(request(mounts=FOLDER, user="me"), ALICE, ()) == ""
    assert refusal(request(mounts=VOLUME), ALICE, ()) == refusal(request(), ALICE, ()) == ""
    found = refusal(request(mounts=FOLDER, user="me", groups=["docker", "27"]), ALICE, ())
    assert "session_groups of the role main is '27, docker'" in found


def test_each_role_is_judged() -> None:
    roles = [{"name": "main", "replicas": 1, "user": "me"}, {"name": "worker", "replicas": 1}]
    assert "session_user of the role worker" in refusal(request(mounts=FOLDER, roles=roles, size=2), ALICE, ())


def test_an_empty_list_of_the_site_is_nobody_and_none_is_everybody() -> None:
    assert Settings.from_variables({}).root_users is None
    assert Settings.from_variables({"cluster_compute_root_users": []}).root_users == ()
    assert Settings.from_variables({"cluster_compute_root_users": "bob, alice"}).root_users == ("alice", "bob")
    with pytest.raises(InvalidInput, match=r"cluster_compute_root_users\[0\] is 5"):
        Settings.from_variables({"cluster_compute_root_users": [5]})

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.accounts import (
    Accounts,
    Wanted,
    ensure,
    misleading_groups,
    name_of,
    shell_of,
)
from hypothesis import given
from hypothesis import strategies as st

DEBIAN = (
    "root:x:0:0:root:/root:/bin/bash\n"
    "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
    "sync:x:4:65534:sync:/bin:/bin/sync\n"
    "_apt:x:100:65534::/nonexistent:/usr/sbin/nologin\n"
    "work:x:1000:1000::/home/work:/bin/bash\n"
)
SHADOW = "root:!:19000:0:99999:7:::\ndaemon:!:19000:0:99999:7:::\n"


def entries(accounts: Accounts) -> dict[str, list[str]]:
    assert accounts.passwd is not None
    return {line.split(":")[0]: line.split(":") for line in accounts.passwd.splitlines()}


def test_the_name_of_a_user() -> None:
    assert (name_of(Accounts(DEBIAN), 1000), name_of(Accounts(DEBIAN), 4321), name_of(Accounts(None), 0)) == (
        "work",
        "",
        "",
    )
    assert name_of(ensure(Accounts(DEBIAN), Wanted(4321, 0), "/bin/sh"), 4321) == "replica"


def test_a_user_who_can_log_in_is_left_alone() -> None:
    found = Accounts(DEBIAN)
    assert ensure(found, Wanted(1000, 1000), "/bin/sh") == found


def test_an_image_without_accounts_gets_those_that_are_needed() -> None:
    ensured = ensure(Accounts(None), Wanted(0, 0), "/bin/sh")
    assert ensured.passwd == (
        "root:*:0:0:Replica:/:/bin/sh\nsshd:*:100:65534:Privilege separation of the SSH server:/run/sshd:/bin/false\n"  # noqa: S105 - a file, no secret
    )
    assert ensured.shadow is None


def test_a_number_gets_a_name_that_nobody_has() -> None:
    known = DEBIAN + "replica:x:5000:5000::/:/bin/sh\n"
    ensured = ensure(Accounts(known), Wanted(4321, 7), "/bin/sh")
    assert ensured.passwd == known + "replica1:*:4321:7:Replica:/home/replica1:/bin/sh\n"


def test_groups_whose_name_is_the_number_of_another_one() -> None:
    text = "root:x:0:\n27:x:27:\n1003:x:0:\n 1004 :x: 5 :a\n1005\n1006:x:1006:\nvideo:x:44:\n"
    assert misleading_groups(text, [27, 1006, 44, 0]) == []
    assert misleading_groups(text, iter([1003, 44, 1004, 1005])) == ["1003:x:0:", " 1004 :x: 5 :a", "1005"]
    assert misleading_groups(None, [1]) == []


def test_an_account_has_the_name_and_home_that_are_wanted_if_the_name_is_free() -> None:
    wanted = Wanted(4321, 7, "alice", "/nfs/alice")
    assert ensure(Accounts(DEBIAN), wanted, "/bin/sh").passwd == DEBIAN + "alice:*:4321:7:Replica:/nfs/alice:/bin/sh\n"
    taken = DEBIAN + "alice:x:5000:5000::/:/bin/sh\n"
    assert ensure(Accounts(taken), wanted, "/bin/sh").passwd == taken + "replica:*:4321:7:Replica:/nfs/alice:/bin/sh\n"


@pytest.mark.parametrize(("uid", "name"), [(1, "daemon"), (4, "sync"), (100, "_apt")])
def test_a_user_without_a_shell_gets_one(uid: int, name: str) -> None:
    ensured = ensure(Accounts(DEBIAN), Wanted(uid, uid), "/bin/dash")
    changed = entries(ensured)
    assert changed.pop(name)[6] == "/bin/dash"
    before = entries(Accounts(DEBIAN))
    del before[name]
    assert changed == before


def test_root_gets_a_user_for_the_server_and_a_password_that_no_input_matches() -> None:
    ensured = ensure(Accounts(DEBIAN, SHADOW), Wanted(0, 0), "/bin/sh")
    assert entries(ensured)["sshd"][2] == "101"
    assert ensured.shadow == SHADOW.replace("root:!:", "root:*:")
    assert ensure(ensured, Wanted(0, 0), "/bin/sh") == ensured


def test_a_password_that_is_set_stays() -> None:
    shadow = "root:$y$j9T$abc:19000:0:99999:7:::\n"
    assert ensure(Accounts(DEBIAN, shadow), Wanted(0, 0), "/bin/sh").shadow == shadow


@pytest.mark.parametrize("line", ["", "half:x", "bad:x:number:0::/:/bin/sh", "+::::::"])
def test_lines_that_are_no_accounts_stay(line: str) -> None:
    ensured = ensure(Accounts(f"{DEBIAN}{line}\n"), Wanted(4321, 0), "/bin/sh")
    assert ensured.passwd is not None
    assert ensured.passwd.startswith(f"{DEBIAN}{line}\n")


@given(uids=st.lists(st.integers(min_value=0, max_value=70000), unique=True, max_size=20), uid=st.integers(0, 70000))
def test_whoever_runs_can_log_in_and_everybody_keeps_the_account(uids: list[int], uid: int) -> None:
    passwd = "".join(f"u{number}:x:{number}:{number}::/:/bin/sh\n" for number in uids)
    ensured = ensure(Accounts(passwd), Wanted(uid, uid), "/bin/sh")
    after = entries(ensured)
    assert len(after) == len((ensured.passwd or "").splitlines())
    assert (ensured.passwd or "").startswith(passwd)
    numbers = [entry[2] for entry in after.values()]
    assert len(set(numbers)) == len(numbers)
    assert str(uid) in numbers
    assert ("sshd" in after) == (uid == 0)
    assert ensure(ensured, Wanted(uid, uid), "/bin/sh") == ensured


def test_a_shell_that_is_not_there_and_a_locked_password_are_replaced() -> None:
    found = Accounts("root:!:0:0:root:/root:/bin/ash\n")
    ensured = ensure(found, Wanted(0, 0), "/bin/sh", missing=shell_of(found, 0))
    assert entries(ensured)["root"] == ["root", "*", "0", "0", "root", "/root", "/bin/sh"]
    assert shell_of(found, 5) == ""

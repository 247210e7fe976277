# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The owner of a replica's SSH keys, and which files in an image are the session's own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import EngineError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.session import ssh

ACCOUNTS = "root:x:0:0::/root:/bin/sh\nshort:x:7\nwork:x:1000:100::/home/work:/bin/sh\nodd:x:-1:5::/:/bin/sh\n"


@pytest.mark.parametrize(
    ("user", "ids"),
    [
        ("", (0, 0)),
        ("root:work", (0, 0)),
        ("0", (0, 0)),
        ("1234", (1234, 0)),
        ("1234:55", (1234, 55)),
        ("1234:staff", (1234, 0)),
        ("work", (1000, 100)),
        ("work:staff", (1000, 100)),
    ],
)
def test_keys_belong_to_the_user_of_the_image(user: str, ids: tuple[int, int]) -> None:
    assert ssh.image_user(ACCOUNTS, user) == ids


@pytest.mark.parametrize("user", ["nobody", "x", "short", "odd", "4294967295", "1:4294967295"])
def test_a_user_without_a_number_is_rejected(user: str) -> None:
    with pytest.raises(EngineError, match="is not in its /etc/passwd"):
        ssh.image_user(ACCOUNTS, user)
    with pytest.raises(EngineError):
        ssh.image_user(None, user)


def test_only_files_that_a_session_wrote_are_replaced() -> None:
    files: dict[str, str | None] = {"ours": f"{ssh.MADE_FOR} x.\nHost *\n", "theirs": "Host *\n", "gone": None}

    def read_file(_container: str, path: str) -> str | None:
        if path == "large":
            raise EngineError("too large")
        return files[path]

    engine: Any = SimpleNamespace(read_file=read_file)
    found = {path: ssh._is_ours(engine, "c", path) for path in (*files, "large")}
    assert found == {"ours": True, "theirs": False, "gone": False, "large": False}

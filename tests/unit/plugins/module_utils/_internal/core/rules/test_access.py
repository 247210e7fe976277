# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who may change, enter and read a session, and what others read."""

from __future__ import annotations

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.access import ADMIN, Asker
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput


@pytest.mark.parametrize("asker", [ADMIN, Asker("alice", False), Asker("bob", False)], ids=["admin", "owner", "shared"])
def test_who_may(asker: Asker) -> None:
    assert asker.refusal("train", "alice", ["bob"]) is None
    asker.check("train", "alice", ["bob"])


def test_others_read_whose_it_is_and_who_may() -> None:
    with pytest.raises(InvalidInput) as raised:
        Asker("eve", False).check("train", "alice", ["bob", "carol\x1b[2J"])
    text = str(raised.value)
    assert text.startswith("session_name is 'train': It belongs to alice, who shares it with bob, carol")
    assert "You are eve." in text
    assert "session_shared_with" in text
    assert "cluster_compute_admins" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("name", ["", "eve"])
def test_what_nobody_knows_the_owner_of_is_the_admins(name: str) -> None:
    why = Asker(name or "eve", False).refusal("train", "", [])
    assert why is not None
    assert why.startswith("Nobody knows any more whose it is.")
    assert ADMIN.refusal("train", "", []) is None

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The folder in which the owner's files are to lie."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.action.session_login import _contents
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput


def test_what_is_in_the_folder(tmp_path: Path) -> None:
    assert _contents(str(tmp_path / "missing")) == ([], "")
    (tmp_path / "known_hosts").write_text("h1 ssh-ed25519 AAAA\n", encoding="utf-8")
    assert _contents(str(tmp_path)) == (["known_hosts"], "")
    (tmp_path / "config").write_text("Host *\n", encoding="utf-8")
    entries, configuration = _contents(str(tmp_path))
    assert (sorted(entries), configuration) == (["config", "known_hosts"], "Host *\n")


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("", encoding="utf-8")
    with pytest.raises(InvalidInput, match="login_directory"):
        _contents(str(place))

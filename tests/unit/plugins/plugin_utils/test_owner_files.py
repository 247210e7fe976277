# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files of the controller are their owner's alone, and nothing is left of those that could not be written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.plugin_utils.owner_files import write_for_owner


def test_a_file_is_written_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "made" / "for it" / "answer"
    for content in (b"first", b"second"):
        write_for_owner(str(path), content)
        assert (path.read_bytes(), path.stat().st_mode & 0o777) == (content, 0o600)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert list(path.parent.iterdir()) == [path]


def test_of_what_cannot_be_written_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "answer").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_for_owner(str(tmp_path / "answer"), b"secret")
    assert os.listdir(tmp_path) == ["answer"]

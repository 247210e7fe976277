# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What errors say to a person."""

from __future__ import annotations

import errno
import os
import pkgutil
from importlib import import_module

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils import _internal
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.call.base import (
    Answer,
    failed,
    plain_answer,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import (
    InvalidInput,
    SessionError,
    message_of,
    spoken,
)

HOSTILE = "\x1b]0;owned\x07\x1b[2J\r\x9b1A\u202e"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (SessionError("The host is full. Free some of it."), "The host is full. Free some of it."),
        (InvalidInput.single("session_size", 0, "It must be more."), "session_size is 0: It must be more."),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/var/lib/x"), "/var/lib/x: No space left on device."),
        (OSError(errno.EXDEV, "Cross-device", "/a", None, "/b"), "/a and /b: Cross-device."),
        (OSError(errno.EIO, "Input/output error"), "Input/output error."),
        (KeyError("replicas"), "KeyError: 'replicas'"),
        (OSError("it is gone"), "OSError: it is gone"),
        (OSError(errno.EIO, "Input/output error", "/\x1b[2J"), "/\\x1b[2J: Input/output error."),
    ],
)
def test_an_error_speaks_to_a_person(error: Exception, message: str) -> None:
    assert message_of(error) == message


def test_what_is_the_hosts_own_is_told_apart() -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/var/lib/x")
    found = plain_answer(failed(full, Answer()))
    assert found == {"failed": True, "msg": "/var/lib/x: No space left on device.", "sick": True}
    for error in (SessionError("No space left on device."), OSError(errno.ENOENT, "No such file"), KeyError("x")):
        assert "sick" not in plain_answer(failed(error, Answer()))


def test_no_error_of_ours_acts_on_a_terminal() -> None:
    """Whatever it quotes: what an image wrote, what an engine or a program said."""
    for package in pkgutil.walk_packages(_internal.__path__, f"{_internal.__name__}."):
        if ".lab." not in package.name:
            import_module(package.name)
    classes, found = [SessionError], set()
    while classes:
        kind = classes.pop()
        found.add(kind)
        classes += kind.__subclasses__()
    assert len(found) > 10
    for kind in found:
        error = kind.__new__(kind)
        error.args = (f"The container said: {HOSTILE}\nand went.",)
        assert str(error).replace("\n", "").isprintable(), kind
        assert message_of(error).count("\n") == 1, "lines stay"


def test_what_is_shown_is_printable_however_it_is_nested() -> None:
    assert spoken(["a\x1b[2J", {"b": ("ü\r", 1, None)}]) == ["a\\x1b[2J", {"b": ["ü\\r", 1, None]}]
    assert spoken("one\ntwo\u202e") == "one\ntwo\\u202e"
    assert spoken(spoken(HOSTILE)) == spoken(HOSTILE)

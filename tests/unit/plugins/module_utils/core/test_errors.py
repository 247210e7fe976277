# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What errors say to a person."""

from __future__ import annotations

import errno
import os

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import (
    InvalidInput,
    SessionError,
    message_of,
)


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
    ],
)
def test_an_error_speaks_to_a_person(error: Exception, message: str) -> None:
    assert message_of(error) == message

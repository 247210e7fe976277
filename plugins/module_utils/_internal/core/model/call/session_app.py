# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Open an app of a session, or close it."""

from collections.abc import Mapping
from dataclasses import field
from typing import ClassVar, Optional

from ...values.deferred import dataclass
from .base import AT_CONTROLLER, PATH, STATE_DIRECTORY, Answer, Call


@dataclass(frozen=True)
class Way:
    """One way to start an app, for images that have the program that *command* begins with.

    command, environment, token_file (the text of a file) and url (from the path on) may contain ``{port}``,
    ``{token_file}``, which is the path of that file, and ``{token}``. The command may not contain the token, as
    everybody in main1 can read it. without_token: whether the program accepts everybody who reaches its port.
    """

    command: tuple[str, ...]
    url: str = "/"
    environment: Mapping[str, str] = field(default_factory=dict)
    token_file: str = "{token}"  # noqa: S105 - a placeholder
    without_token: bool = False


@dataclass(frozen=True)
class OpenApp(Call):
    """Open an app in main1 of a session.

    app: its name. ways: of starting it, the first one that works is used. directory: in which it starts; empty for that
    of the image. seconds: how long it may take until it listens. output_size: as of StartJob. asker: the user who wants
    it; None for an administrator. answer_file, configuration: for the controller, which makes them from the answer.
    """

    call: ClassVar[str] = "session_app"
    state: ClassVar[str] = "open"
    is_default: ClassVar[bool] = True

    session_name: str
    session_id: str
    host: str
    app: str = ""
    ways: tuple[Way, ...] = ()
    directory: str = ""
    seconds: int = 60
    output_size: str = "16m"
    answer_file: str = field(default="", metadata=AT_CONTROLLER)
    configuration: str = field(default="", metadata=AT_CONTROLLER)
    asker: Optional[str] = None
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class CloseApp(Call):
    """Close an app of a session. app: empty for all apps of it. asker: as of OpenApp."""

    call: ClassVar[str] = "session_app"
    state: ClassVar[str] = "closed"

    session_name: str
    app: str = ""
    asker: Optional[str] = None
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class OpenedApp:
    """An app in main1. job: its id, and port: both empty if it was not opened. way: in which it is started.

    The host stores it as well, and earlier releases need each key.
    """

    way: Way
    job: str = ""
    port: int = 0
    token: str = ""


@dataclass(frozen=True)
class AppAnswer(Answer):
    """The answer of session_app. closed: the apps that were open."""

    opened: Optional[OpenedApp] = None
    closed: Optional[tuple[str, ...]] = None

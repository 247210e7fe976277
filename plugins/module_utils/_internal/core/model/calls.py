# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""All calls to a host; see `call.base`. A host only loads the file of its call."""

from collections.abc import Mapping
from typing import Any

from .call.base import STATE_DIRECTORY, Call, arguments_of, read
from .call.host_boot import InstallBoot, RemoveBoot
from .call.host_drain import Drain, Undrain
from .call.host_firewall import KeepOutOfOverlays, LetIntoOverlays
from .call.host_identity import CreateIdentity
from .call.host_info import LookAtHost
from .call.host_kernel import SetKernel
from .call.host_preflight import EndListening, Examine, Listen, Measure, ProbeTask, Reach
from .call.host_runtime import AddRuntime, RemoveRuntime
from .call.host_suspect import Suspect
from .call.replica_exec import Execute
from .call.replica_transfer import Transfer
from .call.session_app import CloseApp, OpenApp
from .call.session_host import (
    Agree,
    Amend,
    CheckProbes,
    Hold,
    HoldName,
    KeepStub,
    Release,
    Remove,
    Start,
    Verify,
    WriteProbes,
)
from .call.session_images import (
    EndServing,
    ImageServer,
    ImageTransfer,
    Load,
    Pull,
    Receive,
    Resolve,
    Serve,
    WantedImage,
)
from .call.session_job import StartJob, StopJob
from .call.session_output import FindOutput, PruneOutput, ReadOutput
from .call.session_record import KeepRecords
from .call.session_repair import Repair
from .call.session_watch import Watch
from .call.ssh_runtime import BuildSshRuntime

__all__ = [
    "CALLS",
    "STATE_DIRECTORY",
    "AddRuntime",
    "Agree",
    "Amend",
    "BuildSshRuntime",
    "Call",
    "CheckProbes",
    "CloseApp",
    "CreateIdentity",
    "Drain",
    "EndListening",
    "EndServing",
    "Examine",
    "Execute",
    "FindOutput",
    "Hold",
    "HoldName",
    "ImageServer",
    "ImageTransfer",
    "InstallBoot",
    "KeepOutOfOverlays",
    "KeepRecords",
    "KeepStub",
    "LetIntoOverlays",
    "Listen",
    "Load",
    "LookAtHost",
    "Measure",
    "OpenApp",
    "ProbeTask",
    "PruneOutput",
    "Pull",
    "Reach",
    "ReadOutput",
    "Receive",
    "Release",
    "Remove",
    "RemoveBoot",
    "RemoveRuntime",
    "Repair",
    "Resolve",
    "Serve",
    "SetKernel",
    "Start",
    "StartJob",
    "StopJob",
    "Suspect",
    "Transfer",
    "Undrain",
    "Verify",
    "WantedImage",
    "Watch",
    "WriteProbes",
    "arguments_of",
    "kinds_of",
    "read_call",
]

CALLS: dict[tuple[str, str], type[Call]] = {(kind.call, kind.state): kind for kind in Call.__subclasses__()}
"""By name and state."""


def kinds_of(call: str) -> list[type[Call]]:
    """Return the states of a call; a call without states is one itself."""
    return [kind for (name, _state), kind in CALLS.items() if name == call]


def read_call(call: str, arguments: Mapping[str, Any]) -> Call:
    """Return a call from its plain form, as `call.base.read`. Raises Malformed."""
    return read(kinds_of(call), arguments)

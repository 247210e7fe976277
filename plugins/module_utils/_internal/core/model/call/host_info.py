# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Collect the facts of a host."""

from dataclasses import field
from typing import Any, ClassVar, Optional

from ...values.deferred import dataclass
from ..facts import HostFacts, Unusable
from .base import PATH, STATE_DIRECTORY, Answer, Call


@dataclass(frozen=True)
class LookAtHost(Call):
    """Collect the facts of a host.

    session_name: the session whose data is needed; empty for none. usage: also what containers use now. image_names:
    also the names of all images. whole_records: full records of all sessions, not only of those that need them.
    ways_in: also the host keys and addresses of logins. images, paths, volumes: those whose facts are needed.
    underlay_address: the host's address in the underlay; empty for that of the default route, None if none is needed.
    encryption: also what encrypted sessions need. peers_of: ids of the sessions whose other hosts are to be contacted.
    accelerators: the declared ones, as in the inventory.
    """

    call: ClassVar[str] = "host_info"

    session_name: str = ""
    usage: bool = False
    image_names: bool = False
    whole_records: bool = False
    ways_in: bool = False
    images: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    underlay_address: Optional[str] = None
    encryption: bool = False
    peers_of: tuple[str, ...] = ()
    accelerators: Any = None
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class FactsAnswer(Answer):
    """The answer of host_info."""

    host: Optional[HostFacts] = None


@dataclass(frozen=True)
class UnusableAnswer(Answer):
    """The answer of host_info on a host that cannot run sessions, which the controller reads as any other."""

    host: Optional[Unusable] = None


def answer_with(host: "HostFacts | Unusable") -> "FactsAnswer | UnusableAnswer":
    """Return the answer with the facts of a host."""
    return FactsAnswer(False, host=host) if isinstance(host, HostFacts) else UnusableAnswer(False, host=host)

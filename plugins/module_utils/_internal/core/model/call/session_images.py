# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Get images from a registry, the controller or another host."""

from dataclasses import field
from typing import ClassVar, Optional

from ...values.deferred import dataclass
from .base import PATH, SECRET, STATE_DIRECTORY, Answer, Call


@dataclass(frozen=True)
class WantedImage:
    """An image to pull. reference: as in the request. digest: what that was resolved to."""

    reference: str
    digest: str


@dataclass(frozen=True)
class ImageTransfer:
    """One image, or one pack of a working directory, on its way from one host, or from the controller, to another.

    image: its id on the sender. sender, receiver: for the controller. content: what it must contain if its id on the
    receiver is to be a different one.
    """

    reference: str
    image: str
    sender: str = ""
    receiver: str = ""
    content: str = ""


@dataclass(frozen=True)
class ImageServer:
    """The server of an image on a host. fingerprint: of its certificate."""

    port: int
    fingerprint: str


@dataclass(frozen=True)
class Resolve(Call):
    """Ask registries for the digests of images.

    logins: by registry, as JSON text: of a mapping, Ansible would take every value, user names too, out of all that is
    returned, and one such as "ada" or "12" is found in digests and sizes.
    """

    call: ClassVar[str] = "session_images"
    state: ClassVar[str] = "resolved"

    images: tuple[str, ...] = ()
    logins: Optional[str] = field(default=None, metadata=SECRET)


@dataclass(frozen=True)
class Pull(Call):
    """Pull images from registries. logins: as of Resolve."""

    call: ClassVar[str] = "session_images"
    state: ClassVar[str] = "pulled"

    pulls: tuple[WantedImage, ...] = ()
    logins: Optional[str] = field(default=None, metadata=SECRET)


@dataclass(frozen=True)
class Load(Call):
    """Load an archive that was copied to the host.

    archive: its path. allowed: ids, contents and names of all images in it.
    """

    call: ClassVar[str] = "session_images"
    state: ClassVar[str] = "loaded"

    transfer: ImageTransfer
    archive: str = field(metadata=PATH)
    allowed: tuple[str, ...] = ()
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class Serve(Call):
    """Serve an image to one other host.

    address: at which this host listens. token: by which the other one authenticates. ports: the first and the last
    that may be used.
    """

    call: ClassVar[str] = "session_images"
    state: ClassVar[str] = "serving"

    transfer: ImageTransfer
    address: str
    token: str = field(metadata=SECRET)
    ports: tuple[int, ...] = (8480, 8489)
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class Receive(Call):
    """Get an image from another host. address: of that. token: as of Serve. source: the own address; None for any."""

    call: ClassVar[str] = "session_images"
    state: ClassVar[str] = "received"

    transfer: ImageTransfer
    address: str
    server: ImageServer
    token: str = field(metadata=SECRET)
    source: Optional[str] = None
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class EndServing(Call):
    """End servers whose receivers do not come. servers: their processes."""

    call: ClassVar[str] = "session_images"
    state: ClassVar[str] = "ended"

    servers: tuple[dict[str, int], ...] = ()


@dataclass(frozen=True)
class Moved:
    """A transfer to a host: the bytes, and the seconds it took. id, content: of the image, if it was pulled."""

    bytes: int
    seconds: float
    id: str = ""
    content: str = ""


@dataclass(frozen=True)
class ImagesAnswer(Answer):
    """The answer of session_images.

    digests, problems: by reference, the registry's answer. denied: the references that the registry does not have, or
    not for this user, so that it is of no use to ask again. pulled: by reference. bytes, seconds: of a transfer; image:
    the id that arrived, if it differs from the id on the sender. port, fingerprint, server: of a server, and its
    process. ended: how many servers.
    """

    digests: Optional[dict[str, str]] = None
    problems: Optional[dict[str, str]] = None
    denied: Optional[tuple[str, ...]] = None
    pulled: Optional[dict[str, Moved]] = None
    bytes: Optional[int] = None
    seconds: Optional[float] = None
    image: Optional[str] = None
    port: Optional[int] = None
    fingerprint: Optional[str] = None
    server: Optional[dict[str, int]] = None
    ended: Optional[int] = None

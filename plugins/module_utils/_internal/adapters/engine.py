# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Access Docker Engine through its API, in the newest version that both sides support (1.41 and newer).

The engine's objects that belong to a session have labels; they are found by label once a call, never by guessing
names.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..core.model.host_parts import Volume
from ..core.rules.images import suits
from ..core.values.deferred import dataclass
from ..core.values.errors import SessionError
from .background import started_at
from .bounded import patience
from .engine_api import SOCKET, Api, ApiError, Body, Response, in_path
from .engine_objects import (
    LABEL_SESSION_ID,
    NO_LABELS,
    OPTION_IFNAME,
    Container,
    EngineInfo,
    EngineNetwork,
    Image,
    Inspected,
    read_container,
    read_image,
    read_info,
    read_inspected,
    read_network,
    read_volume,
)

PATIENCE = 180.0
"""Seconds that an engine may take to answer when it makes or removes parts of a session: one that was busy with two
dozen launches took more than a minute for a network."""
FIRST_ANSWER = 30.0
"""Seconds for the first answer of an engine, which waits for no container and no disk. A machine that was busy with a
hundred launches took some."""
ENGINE = "Docker Engine"
ENGINE_PID = "/run/docker.pid"
ENGINE_PROGRAM = "dockerd"
PODMAN = "libpod-api-version"
"""A header of each answer of Podman, which offers Docker's API as well (containers/podman, handler_api.go)."""
RUNTIME = "cluster-compute"
"""The engine's runtime entry for replicas, on hosts that are prepared (`host.engine_runtime`)."""
MINIMUM_API = (1, 41)
"""Docker Engine 20.10, the oldest release that is supported."""
NEWEST_API = (1, 52)
"""Docker Engine 29.0: later versions are not known here, and their engines support this one as well."""
API_PROCESS_READS = (1, 42)
"""From Docker Engine 23.0 on: processes of a container may read each other's memory (process_vm_readv(2))."""
API_ENDPOINT_MAC = (1, 44)
"""From Docker Engine 25.0 on: several endpoints at creation, and a MAC address for each of them."""
API_ENDPOINT_IFNAME = (1, 48)
"""From Docker Engine 28.0 on: the driver option that names a container's interface."""
API_FIREWALL = (1, 49)
"""From Docker Engine 28.1 on: the engine reports what it writes its firewall rules with."""

_LOADED = re.compile(r"^Loaded image(?: ID)?: (\S+)", re.MULTILINE)
"""The engine's line for each image in an archive (Docker Engine API, ImageLoad): its name, or its id without one."""

_DENIED_STATUS = (400, 401, 403, 404)
"""How the engine passes on a registry's answer about an image or a user: by the status of its error code
(distribution/distribution, errcode; moby/moby, api/server/httpstatus)."""
_DENIED = re.compile(r'^(?:Get|Head|Post) "[^"]*": (?:(?:unauthorized|denied): |no basic auth credentials$)')
"""The same if a login is missing or invalid: with status 500, and the error code after the request."""

OUT, ERR = 1, 2
"""Numbers of the streams in a command's output (Docker Engine API, ContainerAttach)."""

Login = Mapping[str, str]
"""User name, password and the registry that they are for."""

CPU_PERIOD = 100_000
"""Microseconds; the kernel's default scheduling period, so that quota / period is the number of CPUs."""


def engine_start() -> float:
    """Return when this host's engine was started, in seconds of the calendar clock as it is now; 0 where unknown."""
    try:
        return started_at(int(Path(ENGINE_PID).read_text(encoding="ascii")))
    except (OSError, ValueError):
        return 0.0


@dataclass(frozen=True)
class Entry:
    """A file to be made in a container, or, without a text, a folder. path: absolute, without links.

    link: the target, if it is to be a symbolic link, which has neither text nor mode of its own.
    """

    path: str
    text: str | None
    mode: int
    uid: int = 0
    gid: int = 0
    link: str = ""


@dataclass(frozen=True)
class MountRequest:
    """A mount of a container to be created. source: a path of the host, or the name of a volume."""

    source: str
    target: str
    read_only: bool
    is_volume: bool = False

    def body(self) -> dict[str, object]:
        """Return the form for the engine (Docker Engine API, Mount)."""
        kind = "volume" if self.is_volume else "bind"
        made = {"Type": kind, "Source": self.source, "Target": self.target, "ReadOnly": self.read_only}
        # Otherwise the first of many replicas would fill it from its image, including owner and mode.
        return {**made, "VolumeOptions": {"NoCopy": True}} if self.is_volume else made


@dataclass(frozen=True)
class Attachment:
    """How a container is attached to a network. The engine chooses an address or a MAC that is None."""

    interface: str
    address: str | None = None
    mac: str | None = None


@dataclass(frozen=True)
class NetworkChoice:
    """A network to be created, with exactly one subnet. options: of its driver. internal: without a way out."""

    subnet: str
    driver: str
    options: Mapping[str, str]
    internal: bool = False


@dataclass(frozen=True)
class _PathStatus:
    """A file or directory in a container. link: the place where all its links lead, empty if it is not a link."""

    path: str
    mode: int
    link: str


_IS_FOLDER = 1 << 31
"""The bit for a folder in the mode that the engine reports (Go's io/fs, ModeDir)."""

LARGEST_FILE = 1024**2
"""Most bytes that are read of a file in a container: the files of interest have some hundred."""


class EngineError(SessionError):
    """Docker Engine rejected a request or cannot be reached; the message is a full sentence."""

    def __init__(self, message: str, is_of_host: bool = False, hangs: bool = False) -> None:
        super().__init__(message)
        self.is_of_host = is_of_host
        self.hangs = hangs


class _Refused(EngineError):
    """The engine answered that it rejects a request."""

    def __init__(self, message: str, status: int, is_of_host: bool) -> None:
        super().__init__(message, is_of_host)
        self.status = status


class ImageDenied(EngineError):
    """A registry answered that it does not have an image, or not for this user; asking again gives the same answer."""


class NetworkKept(EngineError):
    """The engine keeps a network that no container is on."""


@contextmanager
def _saying(what: str) -> Iterator[None]:
    """Turn the errors of the API into an EngineError that contains *what* was being done."""
    try:
        yield
    except ApiError as error:
        message = f"Docker Engine could not {what}: {error}"
        refusal = _Refused(message, error.status, error.is_of_host) if error.status else None
        raise refusal or EngineError(message, error.is_of_host, error.hangs) from error


class Engine:
    """One Docker Engine."""

    def __init__(self, api: Api, newest: tuple[int, int]) -> None:
        """newest: version of the API that the engine speaks."""
        self._api = api
        self.api_version = min(newest, NEWEST_API)
        api.prefix = f"/v{'.'.join(map(str, self.api_version))}"

    @classmethod
    def connect(cls, timeout: float = 60, path: str = SOCKET) -> Engine:
        """Connect to this host's engine with the newest API version both sides speak. Raises EngineError.

        timeout: seconds that the engine may take to answer; for its first answer, which depends on nothing else, it
        gets no more than `FIRST_ANSWER`.
        """
        first = patience(ENGINE, min(timeout, FIRST_ANSWER))
        api = Api(path, first)
        try:
            with api.ask("GET", "/_ping") as response:
                response.read()
            api.timeout = timeout
            if PODMAN in response.headers:
                raise EngineError(
                    f"What answers on this host's {path} is Podman {response.headers[PODMAN]} and not Docker Engine. "
                    "Install Docker Engine and disable Podman's socket, or take the host out of the resource group.",
                    is_of_host=True,
                )
            newest = _version_tuple(response.headers.get("api-version", ""))
            engine = cls(api, newest)
            rejection = _rejection(api) if newest > NEWEST_API else ""
        except (ApiError, ValueError) as error:
            if isinstance(error, ApiError) and error.hangs:
                raise EngineError(
                    f"This host hangs: {ENGINE} did not answer within {first:.0f} seconds. Find out what it waits for, "
                    "such as a dead disk, and start it again.",
                    is_of_host=True,
                    hangs=True,
                ) from error
            reason = error if isinstance(error, ApiError) else "it does not report the version of its API"
            raise EngineError(
                f"Docker Engine cannot be reached on this host (its socket says: {reason}). Run the "
                "prepare_hosts playbook, or start the engine.",
                is_of_host=True,
            ) from error
        if newest < MINIMUM_API:
            raise EngineError(
                f"Docker Engine on this host speaks API {_version_text(newest)}, the oldest that is "
                f"supported is {_version_text(MINIMUM_API)} (Docker Engine 20.10)."
            )
        if rejection:
            raise EngineError(
                f"Docker Engine on this host speaks API {_version_text(newest)} and no longer "
                f"{_version_text(NEWEST_API)}, the newest that is supported (it says: {rejection}). Install a newer "
                "release of cluster_compute.session, or let the engine accept older versions (DOCKER_MIN_API_VERSION)."
            )
        return engine

    def _ask(
        self,
        what: str,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Body | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float = 0,
    ) -> Response:
        """Send a request, and return the answer as soon as it begins. Raises EngineError with *what* was requested."""
        with _saying(what):
            return self._api.ask(method, path, query, body, headers, seconds)

    def _do(self, what: str, method: str, path: str, query: Mapping[str, Any] | None = None, **more: Any) -> bytes:
        """Send a request, and return the answer."""
        with self._ask(what, method, path, query, **more) as response, _saying(what):
            return response.read()

    def _get(self, what: str, path: str, query: Mapping[str, Any] | None = None, **more: Any) -> Any:
        """Return the engine's answer from its JSON."""
        with self._ask(what, "GET", path, query, **more) as response, _saying(what):
            return response.json()

    def _find(self, what: str, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """Return the description from the engine; None if the object does not exist."""
        try:
            return self._get(what, path, query)
        except _Refused as error:
            if error.status == 404:
                return None
            raise

    def _remove(self, what: str, path: str, query: Mapping[str, Any] | None = None, *accepted: int) -> None:
        """Remove something; it is fine if it is gone already, or if one of the *accepted* statuses is answered."""
        try:
            self._do(what, "DELETE", path, query)
        except _Refused as error:
            if error.status not in (404, *accepted):
                raise

    def _post(self, what: str, path: str, body: Mapping[str, Any]) -> Any:
        """Send an object without its empty members, and return the engine's answer from its JSON, if any."""
        given = {key: value for key, value in body.items() if value is not None}
        with self._ask(what, "POST", path, body=given) as response, _saying(what):
            return response.json() if response.headers.get("content-type", "").startswith("application/json") else None

    def info(self) -> EngineInfo:
        """Return the engine's report of itself and its machine."""
        return read_info(self._get("describe itself", "/info"), _version_text(self.api_version))

    def is_rootless(self) -> bool:
        """Tell whether this engine runs without root's rights (Engine API, SystemInfo, SecurityOptions)."""
        return "name=rootless" in self.info().options

    def filters_process_reads(self) -> bool:
        """Tell whether containers without SYS_PTRACE are kept from process_vm_readv(2) by the engine's own filter.

        From Docker Engine 23.0 on they are not (moby#42083). A filter of the site's own is assumed to agree with the
        engine's.
        """
        if self.api_version >= API_PROCESS_READS:
            return False
        return any("name=seccomp" in option for option in self.info().options)

    def process(self) -> int:
        """Return the process of this engine; 0 if it is not known, as for one outside of this host's container."""
        with _saying("tell its process"):
            listener = self._api.listener()
        try:
            if Path(f"/proc/{listener}/comm").read_text(encoding="utf-8").strip() == ENGINE_PROGRAM:
                return listener
            return int(Path(ENGINE_PID).read_text(encoding="ascii"))
        except (OSError, ValueError):
            return 0

    def require_sight(self, folder: str) -> None:
        """Reject an engine that sees another *folder* under that name than this host does. Raises EngineError.

        If the folder does not exist yet, the folder in which it will be made counts. An engine whose process is not
        known is not rejected.
        """
        process, place = self.process(), Path(folder)
        while not place.exists():
            place = place.parent
        try:
            if not process or os.path.samefile(place, f"/proc/{process}/root{place}"):
                return
        except FileNotFoundError:
            pass
        raise EngineError(
            f"Docker Engine on this host does not see the host's folder {folder}, as one from a snap does not, so that "
            "replicas cannot be given what lies there. Install Docker Engine from the distribution's packages or from "
            "Docker's own in its place."
        )

    def uses_nftables(self) -> bool:
        """Tell whether this engine writes its rules with nftables instead of iptables (Engine API, SystemInfo)."""
        return self.api_version >= API_FIREWALL and self.info().uses_nftables

    def containers(self, labels: Iterable[str] = ()) -> list[Container]:
        """Return all containers, running or not, that have all *labels*, whatever made them; sorted by name."""
        return self._list(**({"label": list(labels)} if labels else {}))

    def _list(self, **filters: list[str]) -> list[Container]:
        """Return all containers that match the engine's own *filters*; sorted by name."""
        query = {"all": True, **({"filters": filters} if filters else {})}
        found = map(read_container, self._get("list containers", "/containers/json", query))
        return sorted(found, key=lambda container: container.name)

    def session_containers(self, labels: Mapping[str, str] | None = None) -> list[Container]:
        """Return the containers, running or not, that belong to sessions, narrowed by *labels*; sorted by name."""
        wanted = [LABEL_SESSION_ID] + [f"{name}={value}" for name, value in (labels or {}).items()]
        return [container for container in self.containers(wanted) if container.is_replica]

    def containers_named(self, names: set[str]) -> dict[str, Container]:
        """Return all containers that have one of *names*, whatever made them."""
        return {container.name: container for container in self.containers() if container.name in names}

    def inspect(self, container: str) -> Inspected | None:
        """Return the container's full description, or None if there is none."""
        found = self.options_of(container)
        return None if found is None else read_inspected(found)

    def require(self, container: str) -> Inspected:
        """Return the container's full description. Raises EngineError if there is none."""
        found = self.inspect(container)
        if found is None:
            raise EngineError(f"The container {container} does not exist any more.")
        return found

    def options_of(self, container: str) -> Any:
        """Return the description in the engine's form, to be compared with the request that created the container."""
        return self._find(f"inspect the container {container}", f"/containers/{in_path(container)}/json")

    def pid_of(self, container: str) -> int:
        """Return the container's first process on the host; 0 if it does not run."""
        found = self.inspect(container)
        return 0 if found is None else found.pid

    def inspect_image(self, reference: str) -> Image | None:
        """Return the image's description, or None if this engine does not have it."""
        found = self._find(f"inspect the image {reference}", f"/images/{in_path(reference)}/json")
        return None if found is None else read_image(found)

    def resolve_image(self, reference: str, login: Login | None) -> str:
        """Return the digest that the registry has by this name now.

        Raises ImageDenied if it has none, or not for this user; EngineError if that is not known.
        """
        what = f"ask the registry for the image {reference}"
        return str(self._in_registry(what, reference, login)["Descriptor"]["digest"])

    def _in_registry(self, what: str, reference: str, login: Login | None) -> Any:
        """Return what a registry has by a name: Descriptor, Platforms (Docker Engine API, DistributionInspect)."""
        with _asking_registry(login):
            headers = self._registry_headers(what, reference, login)
            return self._get(what, f"/distribution/{in_path(reference)}/json", headers=headers)

    def pull_image(self, reference: str, login: Login | None = None) -> int:
        """Pull the image *reference*, a tag or a digest, and return how many bytes came.

        Raises ImageDenied and EngineError like `resolve_image`.
        """
        try:
            return self._pull(reference, login)
        except ImageDenied:
            raise
        except EngineError as error:
            if error.is_of_host:
                raise
            if self._is_denied(reference, login):
                raise ImageDenied(str(error)) from error
            raise

    def _is_denied(self, reference: str, login: Login | None) -> bool:
        """Ask the registry for an image that could not be pulled: this answer has a status, that to a pull has not.

        Returns whether it has none for this user, or for this machine.
        """
        try:
            found = self._in_registry("ask again", reference, login)
            machine = self.info().architecture
        except EngineError as error:
            return isinstance(error, ImageDenied)
        known = [str(platform.get("architecture")) for platform in found.get("Platforms") or ()]
        return bool(known) and not any(suits(architecture, machine) for architecture in known)

    def _pull(self, reference: str, login: Login | None) -> int:
        what = f"pull the image {reference}"
        query = dict(zip(("fromImage", "tag"), _name_and_tag(reference)))
        sizes: dict[str, int] = {}
        with _asking_registry(login):
            headers = self._registry_headers(what, reference, login)
            with self._ask(what, "POST", "/images/create", query, headers=headers) as response, _saying(what):
                for event in response.events():
                    # A pull can fail after it began well, and then the stream contains the error.
                    if event.error:
                        raise ApiError(event.error)
                    if event.status == "Downloading":
                        sizes[event.id] = event.total
        return sum(sizes.values())

    def _registry_headers(self, what: str, reference: str, login: Login | None) -> dict[str, str]:
        """Return the headers that identify the user to the registry; without *login* the login stored on this host."""
        import base64

        credentials: Mapping[str, str] | None
        if login is not None:
            credentials = {**{key: login[key] for key in ("username", "password")}, "serveraddress": login["registry"]}
        else:
            from .registry_login import LoginError, login_of_host

            try:
                credentials = login_of_host(reference)
            except LoginError as error:
                raise EngineError(f"Docker Engine could not {what}: {error}") from error
        if not credentials:
            return {}
        return {"X-Registry-Auth": base64.urlsafe_b64encode(json.dumps(credentials).encode()).decode()}

    def image_names(self) -> dict[str, str]:
        """Return all images of the engine: the id by id, and by each name."""
        found = {}
        for image in self._get("list images", "/images/json", {"all": True}):
            for name in (image["Id"], *(image.get("RepoTags") or ())):
                found[name] = image["Id"]
        return found

    def save_image(self, image: str) -> Iterator[bytes]:
        """Yield an archive of the image with this id."""
        what = f"read the image {image}"
        with self._ask(what, "GET", f"/images/{in_path(image)}/get") as response, _saying(what):
            yield from response.pieces()

    def load_images(self, archive: Iterable[bytes]) -> list[str]:
        """Load an archive, and return its names and ids as reported by the engine.

        Raises EngineError if the archive is not complete; what *archive* raises itself passes through.
        """
        found = []
        what = "load the archive"
        headers = {"Content-Type": "application/x-tar"}
        with self._ask(what, "POST", "/images/load", body=archive, headers=headers) as response, _saying(what):
            for event in response.events():
                if event.error:
                    raise ApiError(event.error.strip())
                match = _LOADED.search(event.stream)
                if match is not None:
                    found.append(match.group(1))
        return found

    def import_nothing(self, repository: str, tag: str) -> None:
        """Make an image without any content, under this name."""
        what = f"make the empty image {repository}:{tag}"
        query = {"fromSrc": "-", "repo": repository, "tag": tag}
        headers = {"Content-Type": "application/x-tar"}
        with self._ask(what, "POST", "/images/create", query, [bytes(10240)], headers) as response, _saying(what):
            for event in response.events():
                if event.error:
                    raise ApiError(event.error.strip())

    def tag_image(self, image: str, repository: str, tag: str) -> None:
        """Give the image with this id a name, which another image may have had."""
        what = f"tag the image {image} as {repository}:{tag}"
        self._do(what, "POST", f"/images/{in_path(image)}/tag", {"repo": repository, "tag": tag})

    def remove_image(self, name: str) -> None:
        """Take a name from an image, and remove it if that was the last one; gone already is fine."""
        self._remove(f"remove the image {name}", f"/images/{in_path(name)}")

    def networks(self, labels: Mapping[str, str] | None = None) -> list[EngineNetwork]:
        """Return the engine's networks; with *labels* only those that have them; sorted by name."""
        query = {"filters": {"label": [f"{name}={value}" for name, value in labels.items()]}} if labels else None
        return sorted(map(read_network, self._get("list networks", "/networks", query)), key=lambda found: found.name)

    def create_network(self, name: str, choice: NetworkChoice, labels: Mapping[str, str]) -> None:
        """Create a network."""
        self._post(
            f"create the network {name} ({choice.subnet})",
            "/networks/create",
            {
                "Name": name,
                "Driver": choice.driver,
                "Options": choice.options,
                "IPAM": {"Driver": "default", "Config": [{"Subnet": choice.subnet}]},
                "Internal": choice.internal,
                "Labels": labels,
                "CheckDuplicate": True,  # engines from API 1.44 on do so by default
            },
        )

    def remove_network(self, name: str) -> None:
        """Remove the network *name*. Raises NetworkKept if the engine keeps it for containers that are gone.

        Engines before 28.1 can count one too many if several containers start or end at once, and use that count until
        they are restarted (moby/moby#42119). Later ones do not count (moby/moby#49812).
        """
        path = f"/networks/{in_path(name)}"
        try:
            self._do(f"remove the network {name}", "DELETE", path)
        except _Refused as error:
            if "active endpoints" not in str(error):
                raise
            found = self._get(f"inspect the network {name}", path)
            if found["Containers"]:
                raise
            raise NetworkKept(
                f"The network {found['Name']} stays until Docker Engine is started again: "
                "it counts containers on it that are gone."
            ) from error

    def volume(self, name: str) -> Volume | None:
        """Return the description of a volume; None if it does not exist."""
        found = self._find(f"inspect the volume {name}", f"/volumes/{in_path(name)}")
        return None if found is None else read_volume(found)

    def create_volume(self, name: str, driver: str, options: Mapping[str, str], labels: Mapping[str, str]) -> None:
        """Create a volume; an existing one is left as it is."""
        made = {"Name": name, "Driver": driver, "DriverOpts": dict(options), "Labels": dict(labels)}
        self._post(f"create the volume {name}", "/volumes/create", made)

    def volume_place(self, name: str) -> str:
        """Return the folder on the host of a volume that has no options of its driver."""
        return str(self._get(f"inspect the volume {name}", f"/volumes/{in_path(name)}")["Mountpoint"])

    def remove_volume(self, name: str) -> None:
        """Remove an unused volume; one that is in use, or gone already, is left as it is."""
        self._remove(f"remove the volume {name}", f"/volumes/{in_path(name)}", None, 409)

    def create_container(self, name: str, body: Mapping[str, Any], attachments: Mapping[str, Attachment]) -> str:
        """Create a container with *attachments* to networks by name, the first of which is its default.

        Engines before API 1.44 accept one endpoint at creation; the others are connected before anything starts.
        Returns the container's id. Nothing is left behind if a step fails.
        """
        first = next(iter(attachments))
        at_once = [*attachments] if self.api_version >= API_ENDPOINT_MAC else [first]
        settings = {network: self._endpoint(attachments[network]) for network in at_once}
        host = {**body["HostConfig"], "NetworkMode": first}
        container = self.create_alone(
            name, {**body, "HostConfig": host, "NetworkingConfig": {"EndpointsConfig": settings}}
        )
        try:
            for network, attachment in attachments.items():
                if network not in at_once:
                    self.connect_container(container, network, attachment)
        except EngineError:
            self.remove_container(container)
            raise
        return container

    def create_alone(self, name: str, body: Mapping[str, Any]) -> str:
        """Create a container that is on none of the engine's networks; return its id."""
        return str(self._post(f"create the container {name}", f"/containers/create?name={in_path(name)}", body)["Id"])

    def _endpoint(self, attachment: Attachment) -> dict[str, object]:
        """Return endpoint settings in the form for this engine: address, MAC and, if supported, interface name."""
        settings: dict[str, object] = {}
        if attachment.address is not None:
            settings["IPAMConfig"] = {"IPv4Address": attachment.address}
        if attachment.mac is not None and self.api_version >= API_ENDPOINT_MAC:
            settings["MacAddress"] = attachment.mac
        if self.api_version >= API_ENDPOINT_IFNAME:
            settings["DriverOpts"] = {OPTION_IFNAME: attachment.interface}
        return settings

    def connect_container(self, container: str, network: str, attachment: Attachment) -> None:
        """Attach a container to a network (Docker Engine API, NetworkConnect)."""
        body = {"Container": container, "EndpointConfig": self._endpoint(attachment)}
        what = f"connect the container {container} to the network {network}"
        self._post(what, f"/networks/{in_path(network)}/connect", body)

    def disconnect_container(self, container: str, network: str) -> None:
        """Detach a container from a network, whatever state its interface is in."""
        body = {"Container": container, "Force": True}
        what = f"disconnect the container {container} from the network {network}"
        self._post(what, f"/networks/{in_path(network)}/disconnect", body)

    def start_container(self, container: str) -> None:
        """Start a created or stopped container."""
        self._do(f"start the container {container}", "POST", f"/containers/{in_path(container)}/start")

    def stop_container(self, container: str, grace: int) -> None:
        """Ask the container to stop, and kill it after *grace* seconds."""
        path = f"/containers/{in_path(container)}/stop"
        self._do(f"stop the container {container}", "POST", path, {"t": grace}, seconds=grace)

    def rename_container(self, container: str, name: str) -> None:
        """Give a container another name; it runs on."""
        path = f"/containers/{in_path(container)}/rename"
        self._do(f"rename the container {container} to {name}", "POST", path, {"name": name})

    @contextmanager
    def image_files(self, name: str, image: str, volumes: Iterable[str]) -> Iterator[str]:
        """Yield a container of an image by which its files can be read, and remove it at the end.

        It has no mounts and is never started: Docker Engine 28.5.2 can start a container with a mount behind an
        absolute link, but reads nothing in it (moby/moby, openContainerFS). volumes: those of the image, which the
        engine would make and fill; a mount in memory does not exist before the start.
        """
        places = {os.path.normpath(f"/{path}").replace("//", "/") for path in volumes}
        mounts = [{"Type": "tmpfs", "Target": path} for path in sorted(places - {"/"})]
        # All labels of the image are overwritten; an image without a command of its own needs one.
        own = {"NetworkMode": "none", "Mounts": mounts}
        body = {"Image": image, "Cmd": ["/"], "Labels": NO_LABELS, "HostConfig": own}
        what = f"create a container to examine the image {image}"
        container = str(self._post(what, f"/containers/create?name={in_path(name)}", body)["Id"])
        try:
            yield container
        finally:
            self.remove_container(container)

    def examinations(self, prefix: str) -> list[Container]:
        """Return the containers of `image_files` whose names begin like this, left behind by a run that was stopped."""
        found = self._list(name=[prefix], status=["created"])
        return [container for container in found if container.name.startswith(prefix)]

    def remove_container(self, container: str) -> None:
        """Remove a container with its anonymous volumes; named volumes and data folders stay. Gone already is fine."""
        path = f"/containers/{in_path(container)}"
        self._remove(f"remove the container {container}", path, {"force": True, "v": True})

    @contextmanager
    def feeding(self, container: str) -> Iterator[None]:
        """Keep the standard input of a container open for the time of the block.

        With StdinOnce it is closed with the connection, so a program that waits for input ends however this process
        ends.
        """
        query = {"stream": True, "stdin": True}
        headers = {"Connection": "Upgrade", "Upgrade": "tcp"}
        path = f"/containers/{in_path(container)}/attach"
        with self._ask(f"attach to the container {container}", "POST", path, query, headers=headers):
            yield

    def read_file(self, container: str, path: str) -> str | None:
        """Return the text of the file *path* in a container that need not run, or None if there is none.

        Links are followed inside the container. Raises EngineError for a file above `LARGEST_FILE`: an image must not
        fill the host's memory.
        """
        found = self._status(container, path)
        return None if found is None else self._content(container, found.path)[1]

    def _content(self, container: str, path: str) -> tuple[str, str | None]:
        """Return the content of *path*, a link not followed: the target of a link, and the text of a file."""
        import io
        import tarfile

        what = f"read {path} in the container {container}"
        content = b""
        query = {"path": path}
        with self._ask(what, "GET", f"/containers/{in_path(container)}/archive", query) as response, _saying(what):
            for piece in response.pieces():
                content += piece
                if len(content) > LARGEST_FILE:
                    raise EngineError(
                        f"The file {path} in the container {container} is larger than {LARGEST_FILE} bytes."
                    )
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            member = archive.next()
            if member is None or member.issym():
                return "" if member is None else member.linkname, None
            file = archive.extractfile(member) if member.isfile() else None
            return "", file.read().decode("utf-8", "surrogateescape") if file is not None else None

    def has_path(self, container: str, path: str) -> bool:
        """Tell whether anything exists at *path* in a container that need not run, links followed."""
        return self._status(container, path) is not None

    def link_at(self, container: str, path: str) -> str:
        """Return the target of the symbolic link at *path* in a container that need not run; empty if there is none."""
        found = self._look(container, path)
        return self._content(container, path)[0] if found and found.link else ""

    def unpack(self, container: str, entries: Iterable[Entry]) -> None:
        """Make files and folders in a container that need not run; folders on the way are made, too."""
        import io
        import tarfile

        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as archive:
            for entry in entries:
                member = tarfile.TarInfo(entry.path.lstrip("/"))
                # A file that `read_file` could not read stays as it was.
                content = (entry.text or "").encode("utf-8", "surrogateescape")
                kind = tarfile.DIRTYPE if entry.text is None else tarfile.REGTYPE
                member.type, member.linkname = (tarfile.SYMTYPE, entry.link) if entry.link else (kind, "")
                member.size, member.mode = len(content), entry.mode
                member.uid, member.gid = entry.uid, entry.gid
                archive.addfile(member, io.BytesIO(content))
        self.put_archive(container, "/", stream.getvalue())

    def put_archive(self, container: str, path: str, archive: bytes | Iterable[bytes]) -> None:
        """Unpack a tar archive, as a whole or in pieces, at *path* of a container that need not run.

        What *archive* raises passes through.
        """
        what = f"write files in the container {container}"
        self._do(what, "PUT", f"/containers/{in_path(container)}/archive", {"path": path}, body=archive)

    def is_folder(self, container: str, path: str) -> bool | None:
        """Tell whether *path* is a folder itself, not a link to one, in a container; None if nothing is there."""
        status = self._look(container, path)
        return None if status is None else bool(status.mode & _IS_FOLDER)

    def _status(self, container: str, path: str) -> _PathStatus | None:
        """Return the engine's report of what *path* leads to, by links or not; None if that does not exist."""
        status = self._look(container, path)
        # The engine reports where links lead, but not whether anything is there.
        return self._look(container, status.link) if status and status.link else status

    def _look(self, container: str, path: str) -> _PathStatus | None:
        """Return the engine's report of *path*, a link not followed; None if nothing is there."""
        import base64

        what = f"look for {path} in the container {container}"
        try:
            query = {"path": path}
            with self._ask(what, "HEAD", f"/containers/{in_path(container)}/archive", query) as response:
                found = json.loads(base64.b64decode(response.headers["x-docker-container-path-stat"]))
                return _PathStatus(path, int(found["mode"]), str(found["linkTarget"]))
        except _Refused as error:
            if error.status == 404:
                return None
            # The answer to a HEAD has no body, so only the answer to a GET contains the reason.
            self._ask(what, "GET", f"/containers/{in_path(container)}/archive", query).close()
            raise

    def consumption(self, container: str) -> tuple[int, int] | None:
        """Return CPU time used so far, in nanoseconds, and memory in use, in bytes; None if it does not run.

        Memory that can be freed at once does not count, as in ``docker stats``: files that were read and are not needed
        any more (Docker Engine API, ContainerStats; ``one-shot`` exists from 1.41 on).
        """
        query = {"stream": False, "one-shot": True}
        found = self._find(f"measure the container {container}", f"/containers/{in_path(container)}/stats", query)
        if found is None:
            return None
        memory = found.get("memory_stats") or {}
        if "usage" not in memory:
            return None
        details = memory.get("stats") or {}
        # cgroup v1 and v2 name it differently.
        idle = int(details.get("total_inactive_file", details.get("inactive_file", 0)))
        return int(found["cpu_stats"]["cpu_usage"]["total_usage"]), max(0, int(memory["usage"]) - idle)

    def logs(self, container: str, lines: int) -> str:
        """Return the last *lines* lines that the container wrote, standard output and error merged."""
        what = f"read the log of {container}"
        query = {"stdout": True, "stderr": True, "tail": str(lines)}
        with self._ask(what, "GET", f"/containers/{in_path(container)}/logs", query) as response, _saying(what):
            return b"".join(found for _stream, found in response.frames()).decode("utf-8", "replace")

    def log_stream(self, container: str, since: str = "", tail: int | None = None) -> Iterator[bytes]:
        """Yield what the container has written up to now as the engine's multiplexed stream, with time stamps.

        since: seconds since 1970 as text, which may have a fraction. tail: only so many messages from the end.
        """
        what = f"read the log of {container}"
        query = {"stdout": True, "stderr": True, "timestamps": True, "tail": "all" if tail is None else str(tail)}
        if since:
            query["since"] = since
        with self._ask(what, "GET", f"/containers/{in_path(container)}/logs", query) as response, _saying(what):
            yield from response.pieces()

    def execute(
        self,
        container: str,
        command: list[str],
        user: str = "",
        environment: dict[str, str] | None = None,
        seconds: float | None = None,
    ) -> tuple[int, str, str]:
        """Run *command* (no shell) in a running container; return its exit code, standard output and error.

        environment: beyond the container's own, or in its place. seconds: for which it may write nothing, without end
        if None; then EngineError is raised, and it may continue.
        """
        what = f"run {command[0]!r} in the container {container}"
        made = self._prepare(what, container, command, user, "", environment or {})
        written = {OUT: b"", ERR: b""}
        for stream, data in self._start_command(what, what, made, seconds):
            written[stream] += data
        code = self._get(what, f"/exec/{in_path(made)}/json")["ExitCode"]
        return int(code), written[OUT].decode("utf-8", "replace"), written[ERR].decode("utf-8", "replace")

    def prepare_command(
        self, container: str, command: list[str], user: str, directory: str, environment: Mapping[str, str]
    ) -> str:
        """Prepare a command to run in a running container, and return the id by which it is started."""
        what = f"run {command[0]!r} in the container {container}"
        return self._prepare(what, container, command, user, directory, environment)

    def _prepare(
        self, what: str, container: str, command: list[str], user: str, directory: str, environment: Mapping[str, str]
    ) -> str:
        made = self._post(
            what,
            f"/containers/{in_path(container)}/exec",
            {
                "User": user,
                "AttachStdout": True,
                "AttachStderr": True,
                "Cmd": command,
                "Env": [f"{name}={value}" for name, value in environment.items()],
                "WorkingDir": directory or None,
            },
        )
        return str(made["Id"])

    def run_command(self, command: str, seconds: float | None = None) -> Iterator[tuple[bytes | None, bytes | None]]:
        """Start a prepared command, and yield what it writes to standard output and error as it comes.

        seconds: as in `execute`.
        """
        for stream, data in self._start_command("start a command", "read what a command writes", command, seconds):
            yield (data, None) if stream == OUT else (None, data)

    def _start_command(
        self, what: str, then: str, command: str, seconds: float | None = None
    ) -> Iterator[tuple[int, bytes]]:
        """Start a prepared command, and yield what it writes, by the number of the stream, for as long as it runs."""
        headers = {"Connection": "Upgrade", "Upgrade": "tcp"}
        path = f"/exec/{in_path(command)}/start"
        with self._ask(what, "POST", path, body={"Detach": False, "Tty": False}, headers=headers) as response:
            response.wait_for(seconds)
            with _saying(then):
                for stream, data in response.frames():
                    if stream not in (OUT, ERR):
                        raise ApiError(f"{stream} is not the number of an output")
                    yield stream, data

    def command_state(self, command: str) -> tuple[bool, int, int | None]:
        """Return whether a command runs, its process on the host, and its exit code if it has ended."""
        state = self._get("look at a command", f"/exec/{in_path(command)}/json")
        return bool(state["Running"]), int(state.get("Pid") or 0), state.get("ExitCode")


def _name_and_tag(reference: str) -> tuple[str, str]:
    """Return the name in a reference and its tag or digest, in the form for the engine."""
    name, at, digest = reference.partition("@")
    if at:
        return name, digest
    name, _colon, tag = reference.rpartition(":") if ":" in reference.rpartition("/")[2] else (reference, "", "latest")
    return name, tag


@contextmanager
def _asking_registry(login: Login | None) -> Iterator[None]:
    """Keep the password out of messages of the engine and the registry, and distinguish a denial from other errors."""
    try:
        yield
    except EngineError as error:
        denied = isinstance(error, _Refused) and (
            error.status in _DENIED_STATUS or _DENIED.match(str(error.__cause__)) is not None
        )
        secret = login["password"] if login is not None else ""
        if not denied and not (secret and secret in str(error)):
            raise
        text = str(error).replace(secret, "********") if secret else str(error)
        raise ImageDenied(text) if denied else EngineError(text, error.is_of_host, error.hangs) from None


def _rejection(api: Api) -> str:
    """Return why an engine rejects every request in the chosen version of the API; empty if it accepts them.

    An engine names its oldest version only in `GET /version`, which starts programs to report their versions as well.
    """
    try:
        with api.ask("GET", "/_ping") as response:
            response.read()
    except ApiError as error:
        if error.status != 400:
            raise
        return str(error)
    return ""


def _version_tuple(text: str) -> tuple[int, int]:
    major, _dummy, minor = text.partition(".")
    return int(major), int(minor)


def _version_text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Talk to Docker Engine through its SDK, with the API version negotiated (1.41 and newer).

The engine's objects that belong to a session carry labels; they are found by label once a call, never by a guess at
names. Requests are built as the API documents them, so that one SDK release serves every engine.
"""

from __future__ import annotations

import base64
import io
import json
import os
import re
import tarfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils.core.environment import DIRECTORY
from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import SessionError
from ansible_collections.cluster_compute.session.plugins.module_utils.core.record import is_session_id

try:
    import docker
    from docker.errors import APIError, DockerException, NotFound
    from requests.exceptions import RequestException, Timeout
    from urllib3.exceptions import HTTPError
except ImportError:
    DOCKER_IMPORT_ERROR: str | None = traceback.format_exc()

    class DockerException(Exception):  # type: ignore[no-redef]
        """Stands in where the SDK is missing, so that the module can say so."""

    class APIError(DockerException):  # type: ignore[no-redef]
        """Stands in where the SDK is missing."""

    class NotFound(APIError):  # type: ignore[no-redef]
        """Stands in where the SDK is missing."""

    class RequestException(Exception):  # type: ignore[no-redef]
        """Stands in where the SDK is missing."""

    class Timeout(RequestException):  # type: ignore[no-redef]
        """Stands in where the SDK is missing."""

    class HTTPError(Exception):  # type: ignore[no-redef]
        """Stands in where the SDK is missing."""

else:
    DOCKER_IMPORT_ERROR = None

LABEL_SESSION_ID = "cluster-compute.session-id"
LABEL_SESSION_NAME = "cluster-compute.session-name"
LABEL_REPLICA = "cluster-compute.replica"
LABEL_SPEC = "cluster-compute.spec"
LABEL_CPUS = "cluster-compute.millicpus"
LABEL_MEMORY = "cluster-compute.memory"
LABEL_DEVICES = "cluster-compute.devices"
LABEL_VOLUME = "cluster-compute.volume"
"""On a volume that sessions may mount: the id of the session that made it, or whatever else its maker wrote."""
LABEL_RECORD = "cluster-compute.record"
"""On the default network of a session: its record, from which a lost state directory is made anew."""

MINIMUM_API = (1, 41)
"""Docker Engine 20.10, the oldest release that is supported."""
API_ENDPOINT_MAC = (1, 44)
"""From Docker Engine 25.0 on: several endpoints at creation, and a MAC address for each of them."""
API_ENDPOINT_IFNAME = (1, 48)
"""From Docker Engine 28.0 on: the driver option that names a container's interface."""
API_FIREWALL = (1, 49)
"""From Docker Engine 28.1 on: the engine says what it writes its firewall rules with."""
OPTION_IFNAME = "com.docker.network.endpoint.ifname"

_LOADED = re.compile(r"^Loaded image(?: ID)?: (\S+)", re.MULTILINE)
"""What the engine says of each image in an archive (Docker Engine API, ImageLoad): its name, or its id without one."""

Login = Mapping[str, str]
"""User name, password and the registry that they are for."""

CPU_PERIOD = 100_000
"""Microseconds; the kernel's default scheduling period, so that quota / period is the number of CPUs."""


def devices_of(labels: Mapping[str, str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return what a container holds by name, as its label tells: (class, names); nothing where it is malformed."""
    try:
        held = json.loads(labels.get(LABEL_DEVICES, "{}"))
        return tuple(sorted((str(kind), tuple(map(str, names))) for kind, names in held.items()))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return ()


def session_id_of(labels: Mapping[str, str]) -> str:
    """Return the session that labels name; nothing where they name none, or by what is no UUID."""
    session_id = labels.get(LABEL_SESSION_ID, "")
    return session_id if is_session_id(session_id) else ""


def number_of(labels: Mapping[str, str], name: str) -> int:
    """Return the whole number that a label holds; 0 where it holds none."""
    text = labels.get(name, "")
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else 0


def is_replica(entry: Mapping[str, Any]) -> bool:
    """Tell whether a listed container is a replica of a session.

    Labels alone do not tell: an image that was committed from a replica hands them on to whatever is made of it.
    """
    mounts = (mount.get("Destination") for mount in entry.get("Mounts") or ())
    return session_id_of(entry["Labels"]) != "" and DIRECTORY in mounts


def engine_start() -> float:
    """Return when this host's engine was started, in seconds of the calendar clock as it is now; 0 where unknown."""
    try:
        pid = int(Path("/run/docker.pid").read_text(encoding="ascii"))
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except (OSError, ValueError):
        return 0.0
    since_boot = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot)


LOG_CHUNK = 256 * 1024
"""Bytes of a log that are read at once."""

LARGEST_FILE = 1024**2
"""Most bytes that are read of a file in a container: the files of interest have some hundred."""


def _auth(login: Login | None) -> dict[str, str] | None:
    """Return what goes into the header X-Registry-Auth; without it the SDK looks for who logged in on this host."""
    if login is None:
        return None
    return {**{key: login[key] for key in ("username", "password")}, "serveraddress": login["registry"]}


class EngineError(SessionError):
    """Docker Engine refused or cannot be reached; the message is a full sentence."""


def _reason(error: BaseException) -> str:
    """Return in words what went wrong: what the engine explains, or what the system said.

    The SDK wraps the errors of its libraries in each other and shows them as Python code.
    """
    explanation = getattr(error, "explanation", None)
    if explanation:
        return str(explanation)
    inside: list[object] = [error]
    for one in inside:  # grows while it is gone through
        if isinstance(one, Timeout):
            return "it did not answer in time"
        if isinstance(one, OSError) and one.strerror:
            return str(one.strerror)
        if isinstance(one, BaseException):
            inside += [item for item in (*one.args, one.__cause__, one.__context__) if item not in inside]
    return str(error)


class Engine:
    """One Docker Engine."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.api_version = _version_tuple(client.api_version)

    @classmethod
    def connect(cls, timeout: int = 60) -> Engine:
        """Connect to this host's engine with the newest API version both sides speak. Raises EngineError."""
        if DOCKER_IMPORT_ERROR is not None:
            raise EngineError(
                "The Docker SDK for Python is not installed for the interpreter Ansible uses on this host. Run the "
                "prepare_hosts playbook, or install the package python3-docker."
            )
        try:
            client = docker.APIClient(version="auto", timeout=timeout, max_pool_size=32)
        except (DockerException, RequestException) as error:
            raise EngineError(
                f"Docker Engine cannot be reached on this host (its socket says: {_reason(error)}). Run the "
                "prepare_hosts playbook, or start the engine."
            ) from error
        engine = cls(client)
        if engine.api_version < MINIMUM_API:
            raise EngineError(
                f"Docker Engine on this host speaks API {client.api_version}, the oldest that is supported is "
                f"{'.'.join(map(str, MINIMUM_API))} (Docker Engine 20.10)."
            )
        return engine

    def call(self, what: str, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        """Call the SDK, turning its exceptions into an EngineError that says *what* was being done."""
        try:
            return function(*arguments, **keywords)
        except (DockerException, RequestException) as error:
            raise EngineError(f"Docker Engine could not {what}: {_reason(error)}") from error

    def facts(self) -> dict[str, Any]:
        """Return what the engine says of itself and its machine."""
        info = self.call("describe itself", self._client.info)
        return {
            "version": info["ServerVersion"],
            "api_version": ".".join(map(str, self.api_version)),
            "architecture": info["Architecture"],
            "cpus": int(info["NCPU"]) * 1000,
            "memory": int(info["MemTotal"]),
            "limits_swap": bool(info.get("SwapLimit")),
            # Engines that do not hand over CDI devices, or are not told to, have no folders for them.
            "cdi": bool(info.get("CDISpecDirs")),
            # Stores of different kinds give the same image different ids.
            "image_store": "containerd" if "containerd.snapshotter" in str(info.get("DriverStatus")) else "docker",
        }

    def details(self) -> dict[str, Any]:
        """Return what else the engine says of itself: how it stores, limits and restarts, and where."""
        info = self.call("describe itself", self._client.info)
        return {
            **self.facts(),
            "storage_driver": str(info.get("Driver")),
            "root": str(info.get("DockerRootDir") or "/var/lib/docker"),
            "cgroup": str(info.get("CgroupVersion") or "1"),
            "live_restore": bool(info.get("LiveRestoreEnabled")),
        }

    def uses_nftables(self) -> bool:
        """Tell whether this engine writes its rules with nftables instead of iptables (Engine API, SystemInfo)."""
        if self.api_version < API_FIREWALL:
            return False
        about = self.call("describe itself", self._client.info).get("FirewallBackend") or {}
        return str(about.get("Driver", "")).startswith("nftables")

    def containers(self) -> list[dict[str, Any]]:
        """Return every container, running or not, whoever owns it; sorted by name."""
        return sorted(self.call("list containers", self._client.containers, all=True), key=container_name)

    def session_containers(self, labels: dict[str, str] | None = None) -> list[dict[str, Any]]:
        """Return the containers, running or not, that belong to sessions, narrowed by *labels*; sorted by name."""
        wanted = [LABEL_SESSION_ID] + [f"{name}={value}" for name, value in (labels or {}).items()]
        found = self.call("list containers", self._client.containers, all=True, filters={"label": wanted})
        return sorted(filter(is_replica, found), key=container_name)

    def containers_named(self, names: set[str]) -> dict[str, dict[str, Any]]:
        """Return every container, whoever owns it, that bears one of *names*."""
        return {name: entry for entry in self.containers() if (name := container_name(entry)) in names}

    def inspect(self, container: str) -> dict[str, Any] | None:
        """Return the container's full description, or None where there is none."""
        try:
            return dict(self._client.inspect_container(container))
        except NotFound:
            return None
        except (DockerException, RequestException) as error:
            raise EngineError(f"Docker Engine could not inspect the container {container}: {_reason(error)}") from error

    def inspect_image(self, reference: str) -> dict[str, Any] | None:
        """Return the image's description, or None where this engine does not have it."""
        try:
            return dict(self._client.inspect_image(reference))
        except NotFound:
            return None
        except (DockerException, RequestException) as error:
            raise EngineError(f"Docker Engine could not inspect the image {reference}: {_reason(error)}") from error

    def resolve_image(self, reference: str, login: Login | None) -> str:
        """Return the digest that the registry has by this name now. Raises EngineError where it does not say."""
        answer = self._private(
            login,
            f"ask the registry for the image {reference}",
            self._client.inspect_distribution,
            reference,
            auth_config=_auth(login),
        )
        return str(answer["Descriptor"]["digest"])

    def pull_image(self, reference: str, login: Login | None = None) -> int:
        """Pull the image *reference*, a tag or a digest, and return how many bytes came.

        Raises EngineError where it is not to be had.
        """
        tag = None if "@" in reference or ":" in reference.rpartition("/")[2] else "latest"
        what = f"pull the image {reference}"
        sizes: dict[str, int] = {}

        def pull() -> None:
            events = self._client.pull(reference, tag=tag, stream=True, decode=True, auth_config=_auth(login))
            for event in events:
                if event.get("error"):
                    # A pull can fail after it began well, and then the stream says so.
                    raise EngineError(f"Docker Engine could not {what}: {event['error']}")
                if event.get("status") == "Downloading":
                    sizes[event["id"]] = int((event.get("progressDetail") or {}).get("total") or 0)

        self._private(login, what, pull)
        return sum(sizes.values())

    def _private(self, login: Login | None, what: str, function: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Call as `call` does; what the engine or the registry says never holds the password."""
        try:
            return self.call(what, function, *given, **named)
        except EngineError as error:
            if login is not None and login["password"] in str(error):
                raise EngineError(str(error).replace(login["password"], "********")) from None
            raise

    def image_names(self) -> dict[str, str]:
        """Return every image that the engine has: its id by id, and by each of its names."""
        found = {}
        for image in self.call("list images", self._client.images, all=True):
            for name in (image["Id"], *(image.get("RepoTags") or ())):
                found[name] = image["Id"]
        return found

    def save_image(self, image: str) -> Iterator[bytes]:
        """Yield an archive of the image with this id."""
        what = f"read the image {image}"
        chunks = iter(self.call(what, self._client.get_image, image))
        while True:
            chunk = self.call(what, next, chunks, None)
            if chunk is None:
                return
            yield chunk

    def load_images(self, archive: Iterable[bytes]) -> list[str]:
        """Load what an archive holds, and return names and ids of it as the engine tells them.

        Raises EngineError where the archive is not whole; what *archive* raises itself passes through.
        """
        found = []

        def load() -> None:
            for event in self._client.load_image(archive):
                if event.get("error"):
                    raise EngineError(f"Docker Engine could not load the archive: {event['error'].strip()}")
                match = _LOADED.search(event.get("stream") or "")
                if match is not None:
                    found.append(match.group(1))

        self.call("load the archive", load)
        return found

    def tag_image(self, image: str, repository: str, tag: str) -> None:
        """Give the image with this id a name, which another one may have had."""
        self.call(f"tag the image {image} as {repository}:{tag}", self._client.tag, image, repository, tag, force=True)

    def remove_image(self, name: str) -> None:
        """Take a name from an image, and remove it where that was the last one; gone already is fine."""
        try:
            self._client.remove_image(name)
        except NotFound:
            return
        except (DockerException, RequestException) as error:
            raise EngineError(f"Docker Engine could not remove the image {name}: {_reason(error)}") from error

    def networks(self, labels: dict[str, str] | None = None) -> list[dict[str, Any]]:
        """Return the engine's networks; with *labels* only those that bear them; sorted by name."""
        filters = {"label": [f"{name}={value}" for name, value in labels.items()]} if labels else None
        return sorted(self.call("list networks", self._client.networks, filters=filters), key=lambda one: one["Name"])

    def create_network(self, name: str, subnet: str, labels: dict[str, str], **choice: Any) -> None:
        """Create a network with exactly one subnet; *choice* holds driver, options and internal."""
        ipam = {"Driver": "default", "Config": [{"Subnet": subnet}]}
        self.call(
            f"create the network {name} ({subnet})",
            self._client.create_network,
            name,
            ipam=ipam,
            check_duplicate=True,
            labels=labels,
            **choice,
        )

    def remove_network(self, name: str) -> None:
        """Remove the network *name*."""
        self.call(f"remove the network {name}", self._client.remove_network, name)

    def volume(self, name: str) -> dict[str, Any] | None:
        """Return driver and options of a volume, and what its label tells of its maker; None where there is none."""
        try:
            found = self._client.inspect_volume(name)
        except NotFound:
            return None
        except (DockerException, RequestException) as error:
            raise EngineError(f"Docker Engine could not inspect the volume {name}: {_reason(error)}") from error
        return {
            "driver": found["Driver"],
            "options": dict(found.get("Options") or {}),
            "maker": (found.get("Labels") or {}).get(LABEL_VOLUME),
        }

    def create_volume(self, name: str, driver: str, options: Mapping[str, str], labels: Mapping[str, str]) -> None:
        """Create a volume; one that is there already is left as it is."""
        self.call(
            f"create the volume {name}",
            self._client.create_volume,
            name,
            driver=driver,
            driver_opts=dict(options),
            labels=dict(labels),
        )

    def volume_place(self, name: str) -> str:
        """Return the folder on the host that a volume without options of its driver is."""
        return str(self.call(f"inspect the volume {name}", self._client.inspect_volume, name)["Mountpoint"])

    def remove_volume(self, name: str) -> None:
        """Remove a volume that nobody uses; one that is in use, or gone already, is left as it is."""
        try:
            self._client.remove_volume(name)
        except APIError as error:
            if error.status_code not in (404, 409):
                raise EngineError(f"Docker Engine could not remove the volume {name}: {_reason(error)}") from error
        except (DockerException, RequestException) as error:
            raise EngineError(f"Docker Engine could not remove the volume {name}: {_reason(error)}") from error

    def create_container(self, name: str, body: dict[str, Any], endpoints: dict[str, dict[str, Any]]) -> str:
        """Create a container attached to *endpoints* (network name to endpoint settings, the first is its default).

        Engines before API 1.44 take one endpoint at creation; the others are connected before anything starts.
        Returns the container's id. Nothing is left behind if a step fails.
        """
        first = next(iter(endpoints))
        at_once = endpoints if self.api_version >= API_ENDPOINT_MAC else {first: endpoints[first]}
        body = {**body, "NetworkingConfig": {"EndpointsConfig": at_once}}
        body["HostConfig"] = {**body["HostConfig"], "NetworkMode": first}
        made = self.call(f"create the container {name}", self._client.create_container_from_config, body, name)
        container = str(made["Id"])
        try:
            for network, settings in endpoints.items():
                if network not in at_once:
                    self.connect_container(container, network, settings)
        except EngineError:
            self.remove_container(container)
            raise
        return container

    def endpoint(self, interface: str, address: str | None = None, mac: str | None = None) -> dict[str, Any]:
        """Return endpoint settings in the form this engine takes: address, MAC and interface name where it can."""
        settings: dict[str, Any] = {}
        if address is not None:
            settings["IPAMConfig"] = {"IPv4Address": address}
        if mac is not None and self.api_version >= API_ENDPOINT_MAC:
            settings["MacAddress"] = mac
        if self.api_version >= API_ENDPOINT_IFNAME:
            settings["DriverOpts"] = {OPTION_IFNAME: interface}
        return settings

    def connect_container(self, container: str, network: str, settings: dict[str, Any]) -> None:
        """Attach a container to a network with endpoint *settings* (Docker Engine API, NetworkConnect)."""

        def post() -> None:
            # The SDK's own method knows neither MAC nor driver options in the releases that distributions carry.
            url = self._client._url("/networks/{0}/connect", network)
            body = {"Container": container, "EndpointConfig": settings}
            self._client._raise_for_status(self._client._post_json(url, data=body))

        self.call(f"connect the container {container} to the network {network}", post)

    def disconnect_container(self, container: str, network: str) -> None:
        """Detach a container from a network, whatever state its interface is in."""
        self.call(
            f"disconnect the container {container} from the network {network}",
            self._client.disconnect_container_from_network,
            container,
            network,
            force=True,
        )

    def start_container(self, container: str) -> None:
        """Start a created or stopped container."""
        self.call(f"start the container {container}", self._client.start, container)

    def stop_container(self, container: str, grace: int) -> None:
        """Ask the container to stop, and kill it after *grace* seconds."""
        self.call(f"stop the container {container}", self._client.stop, container, timeout=grace)

    def rename_container(self, container: str, name: str) -> None:
        """Give a container another name; it runs on."""
        self.call(f"rename the container {container} to {name}", self._client.rename, container, name)

    def remove_container(self, container: str) -> None:
        """Remove a container with its anonymous volumes; named volumes and data folders stay. Gone already is fine."""
        try:
            self._client.remove_container(container, force=True, v=True)
        except NotFound:
            return
        except (DockerException, RequestException) as error:
            raise EngineError(f"Docker Engine could not remove the container {container}: {_reason(error)}") from error

    def read_file(self, container: str, path: str) -> str | None:
        """Return the text of the file *path* in a container that need not run, or None where there is none.

        Links are followed inside the container. Raises EngineError for a file above `LARGEST_FILE`: what an image
        holds must not fill the host's memory.
        """
        found = self._status(container, path)
        if found is None:
            return None
        what = f"read {path} in the container {container}"
        chunks, _stat = self.call(what, self._client.get_archive, container, found["path"])
        content = b""
        for chunk in chunks:
            content += chunk
            if len(content) > LARGEST_FILE:
                raise EngineError(f"The file {path} in the container {container} is larger than {LARGEST_FILE} bytes.")
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            member = archive.next()
            file = archive.extractfile(member) if member is not None and member.isfile() else None
            return file.read().decode("utf-8", "surrogateescape") if file is not None else None

    def has_path(self, container: str, path: str) -> bool:
        """Tell whether there is anything at *path* in a container that need not run, links followed."""
        return self._status(container, path) is not None

    def write_file(self, container: str, path: str, text: str, mode: int = 0o644) -> None:
        """Write *text* to the file *path*, links followed, in a container that need not run."""
        found = self._status(container, path)
        content = text.encode("utf-8", "surrogateescape")  # what `read_file` could not read stays as it was
        member = tarfile.TarInfo((found["path"] if found else path).lstrip("/"))
        member.size, member.mode = len(content), mode
        self._unpack(container, "/", member, content)

    def make_folder(self, container: str, path: str) -> None:
        """Make the folder *path*, for root to change, in a container that need not run."""
        parent, _dummy, name = path.rpartition("/")
        is_there = self.has_path(container, parent)
        member = tarfile.TarInfo(name if is_there else path.lstrip("/"))
        member.type, member.mode = tarfile.DIRTYPE, 0o755
        self._unpack(container, parent if is_there else "/", member)

    def _status(self, container: str, path: str) -> dict[str, Any] | None:
        """Return what the engine says of *path*, with the path that its links lead to; None where that is nothing."""
        what = f"look for {path} in the container {container}"
        url = self._client._url("/containers/{0}/archive", container)
        target = path
        for _step in range(2):  # the engine follows all links at once, but does not say whether they lead anywhere
            response = self.call(what, self._client.head, url, params={"path": target}, timeout=self._client.timeout)
            if response.status_code == 404:
                return None
            self.call(what, self._client._raise_for_status, response)
            status = json.loads(base64.b64decode(response.headers["X-Docker-Container-Path-Stat"]))
            if not status["linkTarget"]:
                break
            target = status["linkTarget"]
        return {**status, "path": target}

    def _unpack(self, container: str, folder: str, member: tarfile.TarInfo, content: bytes = b"") -> None:
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as archive:
            archive.addfile(member, io.BytesIO(content))
        what = f"write {folder.rstrip('/')}/{member.name} in the container {container}"
        self.call(what, self._client.put_archive, container, folder, stream.getvalue())

    def consumption(self, container: str) -> tuple[int, int] | None:
        """Return CPU time used so far, in nanoseconds, and memory in use, in bytes; None for one that does not run.

        Memory is what cannot be given back at once, as ``docker stats`` counts it: without files that were read and
        are not needed any more (Docker Engine API, ContainerStats; ``one-shot`` exists from 1.41 on).
        """
        what = f"measure the container {container}"
        url = self._client._url("/containers/{0}/stats", container)
        asked = {"stream": "false", "one-shot": "true"}
        response = self.call(what, self._client.get, url, params=asked, timeout=self._client.timeout)
        if response.status_code == 404:
            return None
        self.call(what, self._client._raise_for_status, response)
        found = response.json()
        memory = found.get("memory_stats") or {}
        if "usage" not in memory:
            return None
        details = memory.get("stats") or {}
        # cgroup v1 and v2 name it differently.
        idle = int(details.get("total_inactive_file", details.get("inactive_file", 0)))
        return int(found["cpu_stats"]["cpu_usage"]["total_usage"]), max(0, int(memory["usage"]) - idle)

    def logs(self, container: str, lines: int) -> str:
        """Return the last *lines* lines that the container wrote, standard output and error merged."""
        output = self.call(f"read the log of {container}", self._client.logs, container, tail=lines)
        return bytes(output).decode("utf-8", "replace")

    def log_stream(self, container: str, since: str = "", tail: int | None = None) -> Iterator[bytes]:
        """Yield what the container has written up to now as the engine's multiplexed stream, with time stamps.

        since: seconds since 1970 as text, which may have a fraction. tail: only so many messages from the end.
        """
        what = f"read the log of {container}"
        asked = {"stdout": 1, "stderr": 1, "timestamps": 1, "tail": "all" if tail is None else tail}
        if since:
            asked["since"] = since  # the SDK's own method takes whole seconds only
        url = self._client._url("/containers/{0}/logs", container)
        response = self.call(what, self._client._get, url, params=asked, stream=True)
        try:
            self.call(what, self._client._raise_for_status, response)
            while True:
                try:
                    chunk = response.raw.read(LOG_CHUNK)
                except (HTTPError, OSError) as error:
                    raise EngineError(f"Docker Engine could not {what}: {error}") from error
                if not chunk:
                    return
                yield chunk
        finally:
            response.close()

    def execute(
        self, container: str, command: list[str], user: str = "", environment: dict[str, str] | None = None
    ) -> tuple[int, str, str]:
        """Run *command* (no shell) in a running container; return its exit code, standard output and error.

        environment: beyond the container's own, or in its place.
        """
        what = f"run {command[0]!r} in the container {container}"
        made = self.call(what, self._client.exec_create, container, command, user=user, environment=environment)
        out, err = self.call(what, self._client.exec_start, made["Id"], demux=True)
        code = self.call(what, self._client.exec_inspect, made["Id"])["ExitCode"]
        return int(code), (out or b"").decode("utf-8", "replace"), (err or b"").decode("utf-8", "replace")

    def prepare_command(
        self, container: str, command: list[str], user: str, directory: str, environment: Mapping[str, str]
    ) -> str:
        """Make a command ready to run in a running container, and return the id by which it is started."""
        what = f"run {command[0]!r} in the container {container}"
        made = self.call(
            what,
            self._client.exec_create,
            container,
            command,
            user=user,
            workdir=directory or None,
            environment=dict(environment),
        )
        return str(made["Id"])

    def run_command(self, command: str) -> Iterator[tuple[bytes | None, bytes | None]]:
        """Start what was made ready, and yield what it writes to standard output and error as it comes."""
        chunks = self.call("start a command", self._client.exec_start, command, stream=True, demux=True)
        while True:
            chunk = self.call("read what a command writes", next, chunks, None)
            if chunk is None:
                return
            yield chunk

    def command_state(self, command: str) -> tuple[bool, int, int | None]:
        """Return whether a command runs, its process on the host, and its exit code where it has ended."""
        about = self.call("look at a command", self._client.exec_inspect, command)
        return bool(about["Running"]), int(about.get("Pid") or 0), about.get("ExitCode")


def container_name(entry: dict[str, Any]) -> str:
    """Return the name of a container from its entry in a list."""
    # A container that is being removed has no name any more.
    return str((entry.get("Names") or [""])[0]).lstrip("/")


def _version_tuple(text: str) -> tuple[int, int]:
    major, _dummy, minor = text.partition(".")
    return int(major), int(minor)

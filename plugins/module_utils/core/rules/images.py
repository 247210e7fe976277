# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which image a reference means for one session, who has it, and how the others get it.

All replicas of a session run the same image: a `Need` resolves each reference to one image, by its id, before
anything starts. The steps are those of a launch: `needs_of` from what hosts have, `Need.resolved` with the answer of
the registry, `Need.pulled` and `Need.arrived` with what became of the hosts that lack it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import InvalidInput, Problem
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.plan import PinnedImage

if TYPE_CHECKING:
    from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.facts import HostFacts, ImageFacts
MISSING, ALWAYS, NEVER = "missing", "always", "never"
PULL_POLICIES = (MISSING, ALWAYS, NEVER)
REGISTRIES = "cluster_compute_registries"
DEFAULT_REGISTRY = "docker.io"
CONTROLLER = "the controller"
MOST_TRIES = 3
"""From how many senders a host tries to get an image before it is given up."""

MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}
"""What a kernel calls a machine and what an image calls it (Go's GOARCH), where the two differ."""

_OLDER = {"x86_64": "386", "aarch64": "arm"}
"""Images of the machine before, whose programs a kernel runs as well."""

_REGISTRY = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?")
_IMAGE_ID = re.compile(r"sha256:[0-9a-f]{64}")

Facts = Mapping[str, "HostFacts"]


def is_image_id(text: object) -> bool:
    """Tell whether *text* is the id of an image."""
    return isinstance(text, str) and _IMAGE_ID.fullmatch(text) is not None


def registry_of(reference: str) -> str:
    """Return the registry that a reference names, docker.io where it names none (distribution/reference)."""
    first, slash, _rest = reference.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost" or first != first.lower()):
        return DEFAULT_REGISTRY if first == "index.docker.io" else first
    return DEFAULT_REGISTRY


def joined(first: Mapping[str, Iterable[str]], second: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Return by host the registries of both, of hosts that have any."""
    found = {host: sorted({*first.get(host, ()), *second.get(host, ())}) for host in {**first, **second}}
    return {host: registries for host, registries in found.items() if registries}


def repository_of(reference: str) -> str:
    """Return a reference without its tag and digest, as it was written."""
    name = reference.partition("@")[0]
    head, slash, last = name.rpartition("/")
    return head + slash + last.partition(":")[0]


def full_name(reference: str) -> str:
    """Return registry, repository and tag in full, so that two spellings of the same name are equal; without digest."""
    repository = repository_of(reference)
    registry = registry_of(reference)
    head, slash, rest = repository.partition("/")
    path = rest if slash and (head == registry or head == "index.docker.io") else repository
    if registry == DEFAULT_REGISTRY and "/" not in path:
        path = "library/" + path
    tag = reference.partition("@")[0][len(repository) :].lstrip(":") or "latest"
    return f"{registry}/{path}:{tag}"


def digest_of(reference: str) -> str | None:
    """Return the digest at the end of a reference, None where it has none."""
    return reference.partition("@")[2] or None


def tag_for(reference: str) -> tuple[str, str] | None:
    """Return repository and tag that an image gets which came by another name; None for an id or a digest."""
    if is_image_id(reference) or digest_of(reference) is not None:
        return None
    repository = repository_of(reference)
    return repository, reference[len(repository) :].lstrip(":") or "latest"


def _is_text(value: object) -> bool:
    """Tell whether *value* is text; to Ansible before 2.19 one that is encrypted in its place is a sequence."""
    return isinstance(value, str) or (isinstance(value, Sequence) and not isinstance(value, (list, tuple, bytes)))


def parse_registries(value: object) -> dict[str, dict[str, str]]:
    """Return user name and password by registry. Raises InvalidInput, which shows no value."""
    hidden = "(value not shown)"
    allowed = "It must be a mapping of registries to {username: …, password: …}."
    if value is None or (isinstance(value, str) and not value.strip()):
        return {}
    if not isinstance(value, Mapping):
        raise InvalidInput.single(REGISTRIES, hidden, allowed)
    problems = []
    found = {}
    for key, login in value.items():
        if not isinstance(key, str) or not _REGISTRY.fullmatch(key):
            place = key if isinstance(key, str) else hidden
            problems.append(
                Problem(REGISTRIES, place, "A registry is named as in an image, such as registry.example:5000.")
            )
            continue
        good = isinstance(login, Mapping) and set(login) == {"username", "password"}
        if not good or not all(_is_text(text) and text for text in login.values()):
            problems.append(
                Problem(
                    f"{REGISTRIES}[{key}]",
                    hidden,
                    "It must hold username and password, both text that is not empty, and nothing else.",
                )
            )
            continue
        name = DEFAULT_REGISTRY if key == "index.docker.io" else key
        found[str(name)] = {part: str(text) for part, text in login.items()}
    if problems:
        raise InvalidInput(problems)
    return found


def platform_of(facts: HostFacts) -> str:
    """Return what has to be alike on two hosts for an image to have the same id on both: its store and its machine."""
    machine = facts.engine.architecture
    return f"{facts.engine.image_store}/{MACHINES.get(machine, machine)}"


_CONTENT = ("Cmd", "Entrypoint", "Env", "Labels", "User", "Volumes", "WorkingDir")
"""What of an image's configuration tells it from one with the same layers."""


def content_of(found: Mapping[str, Any]) -> str:
    """Return what is the same of an image in every store; empty where the engine does not say what it consists of.

    found: what an engine says of it. Stores give it different ids: the digest of its configuration or of its manifest.
    """
    layers = (found.get("RootFS") or {}).get("Layers")
    if not layers:
        return ""
    configuration = found.get("Config") or {}
    parts = [found.get("Architecture"), layers, [configuration.get(key) or None for key in _CONTENT]]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@dataclass
class Need:
    """One reference of a session: what it means, and how far its hosts are.

    hosts: those that run it. platforms: by host that can be reached. ids: by platform the image, once it is known. has:
    by host, in the session or not, the image that it has by this name. digest: what to pull, ``repository@sha256:…``.
    asks: the host that asks the registry. pulls: whether hosts that lack it pull it. archived: whether the controller
    has it in an archive. problems: by host the last thing that went wrong. passing: those of these hosts where the same
    may go well another time. tried: by host from whom it tried to get it.
    contents: by host the content of what it has, by which one store gives it to another.
    """

    reference: str
    policy: str
    hosts: list[str]
    platforms: dict[str, str]
    ids: dict[str, str] = field(default_factory=dict)
    has: dict[str, str] = field(default_factory=dict)
    digest: str | None = None
    asks: str | None = None
    pulls: bool = False
    archived: bool = False
    problems: dict[str, str] = field(default_factory=dict)
    passing: list[str] = field(default_factory=list)
    tried: dict[str, list[str]] = field(default_factory=dict)
    contents: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the form that JSON can carry."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Need:
        """Read what `to_dict` made."""
        return cls(**{item.name: _plain(data[item.name]) for item in fields(cls)})

    def wanted(self, host: str) -> str | None:
        """Return the id that the image has to have on *host*; None while nobody knows it."""
        return self.ids.get(self.platforms[host])

    @property
    def lacking(self) -> list[str]:
        """The hosts that run it and do not have it yet."""
        return [host for host in self.hosts if host not in self.has or self.has[host] != self.wanted(host)]

    @property
    def fetches(self) -> list[str]:
        """The hosts that may have to get it: all while the registry was not asked."""
        return list(self.hosts) if self.asks is not None else self.lacking

    def senders(self, host: str) -> list[str]:
        """Return who has what *host* lacks and did not fail to give it yet, in the order of the inventory.

        Hosts whose store is another come in where nobody has it in the store that *host* has.
        """
        wanted, tried = self.wanted(host), self.tried.get(host, [])
        if len(tried) >= MOST_TRIES:
            return []
        alike = [other for other, image in self.has.items() if image == wanted]
        return [other for other in alike or self._in_other_stores(host) if other not in tried]

    def _in_other_stores(self, host: str) -> list[str]:
        """Return who has the image for a machine as that of *host*, by another id."""
        machine = self.platforms[host].partition("/")[2]
        return [
            other
            for other, image in self.has.items()
            if self.contents.get(other)
            and image == self.wanted(other)
            and self.platforms[other].partition("/")[2] == machine
        ]

    # ---- steps ----------------------------------------------------------------------------------------------------

    def resolved(self, digest: str | None, why: str, facts: Facts, is_denied: bool = False) -> None:
        """Take the registry's answer: the digest that the name means there now, or why there is none.

        is_denied: whether it has none, or none for who asks. Raises InvalidInput where hosts have different images.
        """
        asks, self.asks = self.asks, None
        if digest is not None:
            self.digest = f"{repository_of(self.reference)}@{digest}"
            self.pulls = True
            for host, image in self.has.items():
                known = facts[host].images.get(self.reference)
                if known and any(digest_of(known_digest) == digest for known_digest in known.digests):
                    self.ids.setdefault(self.platforms[host], image)
            return
        self.problems = dict.fromkeys(self.hosts, f"{asks} asked the registry: {why}")
        self.passing = [] if is_denied else list(self.hosts)
        if self.policy == MISSING:
            self._choose_among(self.has)

    def pulled(self, host: str, image: str | None, why: str, is_denied: bool = False) -> None:
        """Take what became of a pull on *host*: the image's id, or why it could not be pulled (see `resolved`)."""
        if image is None:
            self._failed(host, why, not is_denied)
            if self.wanted(host) is None and self.policy != ALWAYS:
                # The digest may be none of a registry's: the store of containerd has one for whatever was loaded.
                try:
                    self._choose_among(self.has)
                except InvalidInput as error:
                    self.problems[host] = f"{why} {error}"
            return
        wanted = self.ids.setdefault(self.platforms[host], image)
        if wanted != image:
            self._failed(host, f"The registry gave {image[:19]} for {self.digest}, others have {wanted[:19]}.", False)
            return
        self.has[host] = image
        self.problems.pop(host, None)

    def arrived(self, host: str, sender: str, why: str, image: str = "") -> None:
        """Take what became of a transfer from *sender* to *host*; *why* is empty where the image arrived.

        image: its id there, where the sender has it by another one.
        """
        if why:
            self._failed(host, why, True)
            self.tried.setdefault(host, []).append(sender)
            return
        self.has[host] = image or self.wanted(host) or self.has[sender]
        self.ids.setdefault(self.platforms[host], self.has[host])
        self.contents[host] = self.contents.get(sender, "")
        self.problems.pop(host, None)

    def _failed(self, host: str, why: str, may_pass: bool) -> None:
        self.problems[host] = why
        self.passing = [other for other in self.passing if other != host] + [host] * may_pass

    def why_not(self, host: str) -> str:
        """Return why *host* does not have the image in the end."""
        return self.problems.get(host) or f"{self.reference}: {self._nowhere()}"

    def pinned(self) -> PinnedImage:
        """Return what the plan keeps: the digest to pull it by, and its id on each host that runs it."""
        return PinnedImage(self.digest, {host: self.wanted(host) for host in self.hosts})

    # ---- rules ----------------------------------------------------------------------------------------------------

    def _nowhere(self) -> str:
        if is_image_id(self.reference):
            return "No host of the group has it, and an image cannot be pulled by its id."
        if self.policy == NEVER:
            return "No host of the group has it, and session_image_pull is never."
        return "It is not on this host, and no host of the group can give it."

    def _choose_among(self, hosts: Iterable[str]) -> None:
        """Let what *hosts* have be the image where nobody knows it yet.

        Raises InvalidInput where they have different ones.
        """
        known = set(self.ids)
        first: dict[str, str] = {}
        for host in hosts:
            if host not in self.has or self.platforms[host] in known:
                continue
            platform, image = self.platforms[host], self.has[host]
            other = first.setdefault(platform, host)
            if self.ids.setdefault(platform, image) != image:
                raise InvalidInput([self._differs(host, other)])

    def _differs(self, host: str, other: str) -> Problem:
        return Problem(
            "session_image",
            self.reference,
            f"It is {self.has[host][:19]} on {host} and {self.has[other][:19]} on {other}. Launch with "
            "session_image_pull=always to run what the registry has by that name now, name the image by its digest, or "
            "give both hosts the same image.",
        )


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def needs_of(
    used: Mapping[str, Sequence[str]],
    facts: Facts,
    policy: str,
    archive: Mapping[str, Mapping[str, str]] | None = None,
) -> list[Need]:
    """Return what a new session needs, one entry a reference.

    used: for each reference the hosts that are to run it. facts: of every host that can be reached, in the order of the
    inventory. archive: what the controller's archive holds, ``id`` and ``architecture`` by full name and by id.
    Raises InvalidInput where an image is for another machine, or hosts have different ones by the same name.
    """
    problems: list[Problem] = []
    needs = []
    for reference, hosts in sorted(used.items()):
        try:
            needs.append(_need(reference, hosts, facts, policy, archive or {}))
        except InvalidInput as error:
            problems += error.problems
    if problems:
        raise InvalidInput(problems)
    return needs


def _need(
    reference: str, hosts: Sequence[str], facts: Facts, policy: str, archive: Mapping[str, Mapping[str, str]]
) -> Need:
    images = {host: host_facts.images.get(reference) for host, host_facts in facts.items()}
    need = Need(
        reference=reference,
        policy=policy,
        hosts=list(hosts),
        platforms={host: platform_of(host_facts) for host, host_facts in facts.items()},
        has={host: image.id for host, image in images.items() if image is not None},
        contents={host: image.content for host, image in images.items() if image is not None},
    )
    archived = archive.get(reference if is_image_id(reference) else full_name(reference))
    if archived is not None:
        _take_from_archive(need, archived)
        return need
    # By a name each host may have another image; an id is the same one wherever it is.
    anywhere = [host for host, image in images.items() if image is not None] if is_image_id(reference) else []
    problems = [
        Problem(
            "session_image",
            reference,
            f"On {owner} it is for {image.architecture}, and the host {'' if owner == host else f'{host} '}is "
            f"{facts[host].engine.architecture}. Give the host the image for its machine.",
        )
        for host in hosts
        for owner in ([host] if images[host] is not None else anywhere[:1])
        if (image := images[owner]) is not None and not suits(image.architecture, facts[host].engine.architecture)
    ]
    if problems:
        raise InvalidInput(problems)
    if is_image_id(reference):
        need.ids = dict.fromkeys(need.platforms.values(), reference)
        return need
    if policy == ALWAYS and digest_of(reference) is None:
        need.asks = hosts[0]
        return need
    need._choose_among(hosts)
    _check_platforms(need, images)
    if digest_of(reference) is not None:
        need.digest = f"{repository_of(reference)}@{digest_of(reference)}"
    else:
        need.digest = _digest_among(reference, (images[host] for host in hosts))
    need.pulls = policy != NEVER and need.digest is not None
    if not need.ids and policy == MISSING and need.digest is None:
        need.asks = hosts[0]
    elif need.lacking and not need.pulls:
        # Who has it outside the session can give it to a host whose platform nobody in the session has.
        need._choose_among(need.has)
    return need


def suits(architecture: str, machine: str) -> bool:
    """Tell whether an image is for a host, by what the image calls its architecture and the kernel its machine."""
    return not machine or architecture in (machine, MACHINES.get(machine), _OLDER.get(machine))


def _take_from_archive(need: Need, archived: Mapping[str, str]) -> None:
    """Let the archive say what the image is: also where hosts have another one by that name."""
    for host in need.hosts:
        store, _slash, machine = need.platforms[host].partition("/")
        if store != "docker":
            raise InvalidInput.single(
                "session_image_archive",
                need.reference,
                f"The engine of {host} keeps images in the store of containerd, where they have other ids than in an "
                "archive. Load the archive there by hand, or use a registry.",
            )
        if machine and archived["architecture"] != machine:
            raise InvalidInput.single(
                "session_image_archive",
                need.reference,
                f"In the archive it is for {archived['architecture']}, and {host} is {machine}.",
            )
        need.ids[need.platforms[host]] = archived["id"]
    need.archived = True


def _check_platforms(need: Need, images: Mapping[str, ImageFacts | None]) -> None:
    """Refuse images of different machines that are not one image of several: those have a digest in common.

    Stores of different kinds say nothing about each other.
    """
    first: dict[str, str] = {}
    for host in need.hosts:
        image = images[host]
        if image is None:
            continue
        other = first.setdefault(need.platforms[host].partition("/")[0], host)
        known = images[other]
        if known and image.id != known.id and not set(image.digests) & set(known.digests):
            raise InvalidInput([need._differs(host, other)])


def _digest_among(reference: str, images: Iterable[ImageFacts | None]) -> str | None:
    """Return by what an image that hosts have already can be pulled from the registry that its name says."""
    name = full_name(repository_of(reference))
    for image in images:
        for digest in image.digests if image else ():
            if full_name(repository_of(digest)) == name and digest_of(digest):
                return f"{repository_of(reference)}@{digest_of(digest)}"
    return None


def needs_again(
    used: Mapping[str, Sequence[str]],
    facts: Facts,
    policy: str,
    pinned: Mapping[str, PinnedImage],
    archive: Mapping[str, Mapping[str, str]] | None = None,
) -> list[Need]:
    """Return what a session needs that exists: the images that its plan has *pinned*, whatever their names mean now.

    The other arguments are those of `needs_of`.
    """
    archived = {entry["id"] for entry in (archive or {}).values()}
    needs = []
    for reference, hosts in sorted(used.items()):
        kept = pinned[reference]
        need = Need(
            reference=reference,
            policy=policy,
            hosts=list(hosts),
            platforms={host: platform_of(host_facts) for host, host_facts in facts.items()},
            digest=kept.digest,
            pulls=policy != NEVER and kept.digest is not None,
        )
        for host, image in kept.ids.items():
            if image is not None and host in need.platforms:
                need.ids[need.platforms[host]] = image
                need.archived = need.archived or image in archived
        for host, host_facts in facts.items():
            for image in need.ids.values():
                if host_facts.images.get(image) is not None:
                    need.has[host] = image
        _find_by_name(need, facts)
        needs.append(need)
    return needs


def _find_by_name(need: Need, facts: Facts) -> None:
    """Add the hosts that have a pinned image by its name: those without a record of the session, and of other stores.

    What the name means there may be another image, so that its id, its digest or its content has to be the same.
    """
    pinned = [facts[host].images.get(image) for host, image in need.has.items()]
    contents = {image.content for image in pinned if image is not None and image.content}
    known = {host: host_facts.images.get(need.reference) for host, host_facts in facts.items()}
    contents |= {image.content for image in known.values() if image and image.content and image.id in need.ids.values()}
    for host, image in known.items():
        if image is None or host in need.has:
            continue
        wanted = need.wanted(host)
        is_same = image.content in contents or (
            need.digest is not None and digest_of(need.digest) in map(digest_of, image.digests)
        )
        if image.id == wanted or (wanted is None and is_same):
            need.ids.setdefault(need.platforms[host], image.id)
            need.has[host] = image.id
    for host, image_id in need.has.items():
        found = facts[host].images.get(image_id) or known[host]
        need.contents[host] = found.content if found is not None else ""

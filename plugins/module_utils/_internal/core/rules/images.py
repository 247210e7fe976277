# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Resolve image references to images for one session, find the hosts that have them, and decide how others get them.

All replicas of a session run the same image: a `Need` resolves each reference to one image, by its id, before
anything starts. The steps are those of a launch: `needs_of` from what hosts have, `Need.resolved` with the answer of
the registry, `Need.pulled` and `Need.arrived` with the outcome on the hosts that lack it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, fields
from typing import TYPE_CHECKING, Any

from ..model.plan import PinnedImage
from ..values.deferred import dataclass
from ..values.errors import HIDDEN, InvalidInput, Problem
from ..values.image_names import (
    ALWAYS,
    DEFAULT_REGISTRY,
    MISSING,
    NEVER,
    digest_of,
    full_name,
    in_words,
    is_image_id,
    is_pack,
    repository_of,
)
from ..values.parse import is_given

if TYPE_CHECKING:
    from ..model.facts import HostFacts, ImageFacts
REGISTRIES = "cluster_compute_registries"
CONTROLLER = "the controller"
CLASSIC_STORE = "docker"
"""The engine's own image store, in which an image's id is the digest of its configuration."""
ANY_PLATFORM = f"{CLASSIC_STORE}/"
"""The platform of packs, which have their content's digest as their id everywhere."""
MOST_TRIES = 3
"""Number of senders from which a host tries to get an image before it gives up."""

MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}
"""Names of machines in the kernel and in images (Go's GOARCH), where the two differ."""

_OLDER = {"x86_64": "386", "aarch64": "arm"}
"""Images for an older machine whose programs a kernel runs as well."""

_REGISTRY = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?")

Facts = Mapping[str, "HostFacts"]


def joined(first: Mapping[str, Iterable[str]], second: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Combine two lists of registries by host; hosts without any are left out."""
    found = {host: sorted({*first.get(host, ()), *second.get(host, ())}) for host in {**first, **second}}
    return {host: registries for host, registries in found.items() if registries}


def _is_text(value: object) -> bool:
    """Tell whether *value* is text; for Ansible before 2.19 text that is encrypted inline is a sequence."""
    return isinstance(value, str) or (isinstance(value, Sequence) and not isinstance(value, (list, tuple, bytes)))


def parse_registries(value: object) -> dict[str, dict[str, str]]:
    """Return user name and password by registry. Raises InvalidInput, which shows no value."""
    allowed = "It must be a mapping of registries to {username: …, password: …}."
    if not is_given(value):
        return {}
    if not isinstance(value, Mapping):
        raise InvalidInput.single(REGISTRIES, HIDDEN, allowed)
    problems = []
    found = {}
    for key, login in value.items():
        problem = _login_problem(key, login)
        if problem is not None:
            problems.append(problem)
        else:
            name = DEFAULT_REGISTRY if key == "index.docker.io" else key
            found[str(name)] = {part: str(text) for part, text in login.items()}
    if problems:
        raise InvalidInput(problems)
    return found


def _login_problem(key: object, login: object) -> Problem | None:
    """Return what is wrong with an entry of `REGISTRIES`; None if nothing is."""
    if not isinstance(key, str) or not _REGISTRY.fullmatch(key):
        place = key if isinstance(key, str) else HIDDEN
        return Problem(REGISTRIES, place, "A registry is named as in an image, such as registry.example:5000.")
    texts = login.values() if isinstance(login, Mapping) and set(login) == {"username", "password"} else [None]
    if all(_is_text(text) and text for text in texts):
        return None
    message = "It must hold username and password, both text that is not empty, and nothing else."
    return Problem(f"{REGISTRIES}[{key}]", HIDDEN, message)


def platform_of(facts: HostFacts) -> str:
    """Return the store and the machine of a host: if two hosts have the same, an image has the same id on both."""
    machine = facts.engine.architecture
    return f"{facts.engine.image_store}/{MACHINES.get(machine, machine)}"


_CONTENT = (
    *("Cmd", "Entrypoint", "Env", "ExposedPorts", "Healthcheck", "Labels"),
    *("OnBuild", "Shell", "StopSignal", "User", "Volumes", "WorkingDir"),
)
"""Parts of an image's configuration that tell it from an image with the same layers."""


def content_of(found: Mapping[str, Any]) -> str:
    """Return what an image has in common in every store; empty if the engine does not report its contents.

    found: the engine's report of it. Stores give it different ids: the digest of its configuration or of its manifest.
    """
    layers = (found.get("RootFS") or {}).get("Layers")
    if not layers:
        return ""
    configuration = found.get("Config") or {}
    parts = [found.get("Architecture"), layers, [configuration.get(key) or None for key in _CONTENT]]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class ArchivedImage:
    """An image that the controller has, in an archive or in its engine.

    id, architecture: those it has in the engine's classic store. contents: by architecture what it contains
    (`content_of`). The store of containerd loads it for its own machine, by an id that the archive does not show.
    variable: the field of the request that names the source.
    """

    id: str
    architecture: str
    contents: Mapping[str, str]
    variable: str = "session_image_archive"


Archive = Mapping[str, ArchivedImage]
"""Images of the controller by full name and by id."""


@dataclass
class Need:
    """One reference of a session: which image it means, and how far its hosts are.

    hosts: those that run it. platforms: by reachable host. ids: by platform the image, once it is known. has: by host,
    in the session or not, the image that it has by this name. digest: what to pull, ``repository@sha256:…``. asks: the
    host that asks the registry. pulls: whether hosts that lack it may pull it. archived: its id in the controller's
    archive, empty if that does not have it. archive_contents: by machine what it contains there; empty if that may not
    be the pinned image, which then has to arrive by its id. problems: by host the last problem. passing: the hosts
    among these whose problem may be gone at another try. tried: by host the senders from which it tried to get the
    image. pull_tried: the hosts that tried to pull it. contents: by host the content of the image it has, by which one
    store gives it to another. alike: the hosts that have it by another id than `ids` has: an image's id follows from
    how it came to the store of containerd.
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
    archived: str = ""
    archive_contents: dict[str, str] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    passing: list[str] = field(default_factory=list)
    tried: dict[str, list[str]] = field(default_factory=dict)
    pull_tried: list[str] = field(default_factory=list)
    contents: dict[str, str] = field(default_factory=dict)
    alike: list[str] = field(default_factory=list)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Need:
        """Read its plain form."""
        return cls(**{item.name: _plain(data[item.name]) for item in fields(cls)})

    def wanted(self, host: str) -> str | None:
        """Return the id that the image has to have on *host*; None if it is not known yet."""
        return self.has[host] if host in self.alike else self.ids.get(self.platforms[host])

    @property
    def lacking(self) -> list[str]:
        """The hosts that are to run it and do not have it yet."""
        return [host for host in self.hosts if host not in self.has or self.has[host] != self.wanted(host)]

    @property
    def fetches(self) -> list[str]:
        """The hosts that may have to get it: all of them until the registry has answered."""
        return list(self.hosts) if self.asks is not None else self.lacking

    @property
    def pulling(self) -> list[str]:
        """The hosts that are to pull it next. Each host tries once."""
        if not self.pulls:
            return []
        return [host for host in self.lacking if host not in self.pull_tried and not self._is_given_first(host)]

    def _is_given_first(self, host: str) -> bool:
        """Tell whether other hosts are to give it to *host*. The host pulls it after they have failed."""
        return self.policy != ALWAYS and bool(self.senders(host))

    def senders(self, host: str) -> list[str]:
        """Return the hosts that have what *host* lacks and have not failed to send it yet, in inventory order.

        Hosts from which *host* would have it by another id come last.
        """
        wanted, tried = self.wanted(host), self.tried.get(host, [])
        if len(tried) >= MOST_TRIES:
            return []
        fresh = [other for other in self.has if other not in tried]
        same = [other for other in fresh if self.has[other] == wanted]
        return same or [other for other in fresh if self._can_convert(other, host)]

    def _can_convert(self, sender: str, host: str) -> bool:
        """Tell whether *sender* has the image for the machine of *host*, which can recognize it by its content."""
        return (
            bool(self.contents.get(sender))
            and self.has[sender] == self.wanted(sender)
            and self._machine(sender) == self._machine(host)
        )

    def is_in_archive(self, host: str) -> bool:
        """Tell whether the controller's archive has what *host* lacks."""
        if self._store(host) == CLASSIC_STORE:
            return bool(self.archived) and self.wanted(host) == self.archived
        return self._machine(host) in self.archive_contents

    def content_for(self, sender: str, host: str) -> str:
        """Return the content by which *host* recognizes what *sender* gives it; empty if the id does."""
        if sender == CONTROLLER:
            return "" if self._store(host) == CLASSIC_STORE else self.archive_contents.get(self._machine(host), "")
        if self.has[sender] == self.wanted(host) and self._store(sender) == self._store(host):
            return ""
        return self.contents.get(sender, "")

    def _store(self, host: str) -> str:
        return self.platforms[host].partition("/")[0]

    def _machine(self, host: str) -> str:
        return self.platforms[host].partition("/")[2]

    # ---- steps ----------------------------------------------------------------------------------------------------

    def resolved(self, digest: str | None, why: str, facts: Facts, is_denied: bool = False) -> None:
        """Record the registry's answer: the digest that the name means there now, or why there is none.

        is_denied: whether it has none, or none for this user. Raises InvalidInput if hosts have different images.
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

    def pulled(self, host: str, image: str | None, why: str, is_denied: bool = False, content: str = "") -> None:
        """Record the outcome of a pull on *host*: the image's id and content, or why it failed (see `resolved`)."""
        self.pull_tried.append(host)
        if image is None:
            # If hosts failed to give it, both reasons count, and theirs may be gone at another try.
            known = f"{self.problems.get(host, '')} " if host in self.tried else ""
            self._failed(host, known + why, not is_denied or host in self.tried)
            if self.wanted(host) is None and self.policy != ALWAYS:
                # The digest may not come from a registry: the store of containerd has one for every loaded image.
                try:
                    self._choose_among(self.has)
                except InvalidInput as error:
                    self.problems[host] = f"{why} {error}"
            return
        others = {known for other, known in self.has.items() if self.platforms[other] == self.platforms[host]}
        wanted = self.wanted(host)
        # In the store of containerd, an image from a registry has the digest as its id, and others may have another.
        if wanted != image and wanted in others and image != digest_of(self.digest or ""):
            self._failed(
                host, f"The registry gave {image[:19]} for {self.digest}, others have {str(wanted)[:19]}.", False
            )
            return
        self.contents[host] = content
        self._hold(host, image)

    def arrived(self, host: str, sender: str, why: str, image: str = "") -> None:
        """Record the outcome of a transfer from *sender* to *host*; *why* is empty if the image arrived.

        image: its id there, if it differs from the id on the sender.
        """
        if why:
            self._failed(host, why, True)
            self.tried.setdefault(host, []).append(sender)
            return
        by_controller = sender == CONTROLLER
        self.contents[host] = (
            self.archive_contents.get(self._machine(host), "") if by_controller else self.contents.get(sender, "")
        )
        self._hold(host, image or self.id_at(sender, host))

    def id_at(self, sender: str, host: str) -> str:
        """Return the id of what *sender* gives to *host*, as the sender has it."""
        return self.has.get(sender) or self.wanted(host) or self.archived

    def _hold(self, host: str, image: str) -> None:
        """Note that *host* has it, by the id that its store gives it."""
        self.has[host] = image
        self.problems.pop(host, None)
        is_alike = self.ids.setdefault(self.platforms[host], image) != image
        self.alike = [other for other in self.alike if other != host] + [host] * is_alike

    def _failed(self, host: str, why: str, may_pass: bool) -> None:
        self.problems[host] = why
        self.passing = [other for other in self.passing if other != host] + [host] * may_pass

    def why_not(self, host: str) -> str:
        """Return why *host* does not have the image in the end."""
        return self.problems.get(host) or f"{in_words(self.reference)}: {self._nowhere()}"

    def pinned(self) -> PinnedImage:
        """Return the image as the plan keeps it: the digest to pull it by, and its id on each host that runs it."""
        return PinnedImage(self.digest, {host: self.wanted(host) for host in self.hosts})

    # ---- rules ----------------------------------------------------------------------------------------------------

    def _nowhere(self) -> str:
        if is_pack(self.reference):
            return (
                "No host of the group has this part of session_workdir any more. Launch the session again where its "
                "folder is."
            )
        if is_image_id(self.reference):
            return "No host of the group has it, and an image cannot be pulled by its id."
        if self.policy == NEVER:
            return "No host of the group has it, and session_image_pull is never."
        return "It is not on this host, and no host of the group can give it."

    def _choose_among(self, hosts: Iterable[str]) -> None:
        """Take the image that *hosts* have where it is not known yet which image is meant.

        Raises InvalidInput if they have different ones.
        """
        known = set(self.ids)
        first: dict[str, str] = {}
        for host in hosts:
            if host not in self.has or self.platforms[host] in known:
                continue
            platform, image = self.platforms[host], self.has[host]
            other = first.setdefault(platform, host)
            if self.ids.setdefault(platform, image) == image:
                continue
            if not self.contents.get(host) or self.contents[host] != self.contents.get(other):
                raise InvalidInput([self._differs(host, other)])
            self._hold(host, image)

    def _choose_alike(self) -> None:
        """Take the image of hosts outside the session that is, by its content, the one already known."""
        contents = {self.contents.get(host) for host, image in self.has.items() if image == self.wanted(host)}
        for host, image in self.has.items():
            if self.contents.get(host) and self.contents[host] in contents:
                self._hold(host, image)

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
    archive: Archive | None = None,
) -> list[Need]:
    """Return what a new session needs, one entry per reference.

    used: for each reference the hosts that are to run it. facts: of every reachable host, in the order of the
    inventory. archive: what the controller's archive has. Raises InvalidInput if an image is for another machine, or if
    hosts have different ones by the same name.
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


def _need(reference: str, hosts: Sequence[str], facts: Facts, policy: str, archive: Archive) -> Need:
    if is_pack(reference):
        return _need_of_pack(reference, hosts, facts, archive)
    images = {host: host_facts.images.get(reference) for host, host_facts in facts.items()}
    need = Need(
        reference=reference,
        policy=policy,
        hosts=list(hosts),
        platforms={host: platform_of(host_facts) for host, host_facts in facts.items()},
        has={host: image.id for host, image in images.items() if image is not None},
        contents={host: image.content for host, image in images.items() if image is not None},
    )
    archived = _named_in(archive, reference)
    if archived is not None:
        _take_from_archive(need, archived)
        return need
    _check_machines(need, images, facts)
    if is_image_id(reference):
        need.ids = dict.fromkeys(need.platforms.values(), reference)
    elif policy == ALWAYS and digest_of(reference) is None:
        need.asks = hosts[0]
    else:
        _choose_by_name(need, images)
    return need


def _need_of_pack(reference: str, hosts: Sequence[str], facts: Facts, archive: Archive) -> Need:
    """Return how hosts get a pack, which is the same on each, whatever its machine and the store of its engine are."""
    pack = str(digest_of(reference))
    return Need(
        reference=reference,
        policy=NEVER,
        hosts=list(hosts),
        platforms=dict.fromkeys(facts, ANY_PLATFORM),
        ids={ANY_PLATFORM: pack},
        has={host: pack for host, host_facts in facts.items() if host_facts.images.get(reference) is not None},
        archived=pack if reference in archive else "",
        passing=list(hosts),  # a host that has it may be away for a moment
    )


def archive_of_packs(references: Iterable[str]) -> Archive:
    """Return packs that the controller makes from its folder as what its archive has."""
    return {reference: ArchivedImage(str(digest_of(reference)), "", {}, "session_workdir") for reference in references}


def _check_machines(need: Need, images: Mapping[str, ImageFacts | None], facts: Facts) -> None:
    """Reject images that hosts have for machines of another architecture."""
    # By the same name each host may have a different image; an id is the same image everywhere.
    anywhere = list(need.has)[:1] if is_image_id(need.reference) else []
    problems = [
        Problem(
            "session_image",
            need.reference,
            f"On {owner} it is for {image.architecture}, and the host {'' if owner == host else f'{host} '}is "
            f"{facts[host].engine.architecture}. Give the host the image for its machine.",
        )
        for host in need.hosts
        for owner in ([host] if images[host] is not None else anywhere)
        if (image := images[owner]) is not None and not suits(image.architecture, facts[host].engine.architecture)
    ]
    if problems:
        raise InvalidInput(problems)


def _choose_by_name(need: Need, images: Mapping[str, ImageFacts | None]) -> None:
    """Choose the image that the hosts of the session have by its name, and decide how others get it."""
    need._choose_among(need.hosts)
    _check_platforms(need, images)
    digest = digest_of(need.reference)
    if digest is not None:
        need.digest = f"{repository_of(need.reference)}@{digest}"
        need._choose_among(need.has)  # by a digest, all hosts have the same image
    else:
        need._choose_alike()
        need.digest = _digest_among(need.reference, (images[host] for host in need.hosts))
    need.pulls = need.policy != NEVER and need.digest is not None
    if not need.ids and need.policy == MISSING and need.digest is None:
        need.asks = need.hosts[0]
    elif need.lacking and not need.pulls:
        # A host outside the session can send it to a host whose platform no host with the image in the session has.
        need._choose_among(need.has)


def suits(architecture: str, machine: str) -> bool:
    """Tell whether an image runs on a host, by the names that the image and the kernel have for the architecture."""
    return not machine or architecture in (machine, MACHINES.get(machine), _OLDER.get(machine))


def _named_in(archive: Archive, reference: str) -> ArchivedImage | None:
    return archive.get(reference if is_image_id(reference) else full_name(reference))


def _take_from_archive(need: Need, archived: ArchivedImage) -> None:
    """Use the image of the archive, even if hosts have another one by that name."""
    for host in need.hosts:
        is_classic, machine = need._store(host) == CLASSIC_STORE, need._machine(host)
        known = [archived.architecture] if is_classic else list(archived.contents)
        if machine and machine not in known:
            why = f"In the archive it is for {', '.join(known)}, and {host} is {machine}."
            if machine in archived.contents:
                why += " It is there for several machines, which only the store of containerd can load."
            raise InvalidInput.single(archived.variable, need.reference, why)
        if is_classic:
            need.ids[need.platforms[host]] = archived.id
    need.archived, need.archive_contents = archived.id, dict(archived.contents)
    for host, image in need.has.items():
        content = need.content_for(CONTROLLER, host)
        if content and content == need.contents[host]:
            need._hold(host, image)


def _check_platforms(need: Need, images: Mapping[str, ImageFacts | None]) -> None:
    """Reject images that are not variants of one image.

    Those for different machines, in stores of one kind, have a digest in common. Those for one machine, in stores of
    different kinds, have the same content.
    """
    by_store: dict[str, str] = {}
    by_machine: dict[str, str] = {}
    for host in need.hosts:
        image = images[host]
        if image is None:
            continue
        other = by_store.setdefault(need._store(host), host)
        known = images[other]
        if known and image.id != known.id and not set(image.digests) & set(known.digests) and host not in need.alike:
            raise InvalidInput([need._differs(host, other)])
        other = by_machine.setdefault(need._machine(host), host)
        known = images[other]
        contents = {image.content, known.content if known else ""}
        if need._store(host) != need._store(other) and len(contents - {""}) > 1:
            raise InvalidInput([need._differs(host, other)])


def _digest_among(reference: str, images: Iterable[ImageFacts | None]) -> str | None:
    """Return the digest by which an image that hosts have can be pulled from the registry of its name."""
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
    archive: Archive | None = None,
) -> list[Need]:
    """Return what an existing session needs: the images that its plan has *pinned*, whatever their names mean now.

    The other arguments are those of `needs_of`.
    """
    needs = []
    for reference, hosts in sorted(used.items()):
        if is_pack(reference):
            needs.append(_need_of_pack(reference, hosts, facts, archive or {}))
            continue
        kept = pinned[reference]
        need = Need(
            reference=reference,
            policy=policy,
            hosts=list(hosts),
            platforms={host: platform_of(host_facts) for host, host_facts in facts.items()},
            digest=kept.digest,
            pulls=policy != NEVER and kept.digest is not None,
        )
        ids = {host: image for host, image in kept.ids.items() if image is not None and host in need.platforms}
        need.ids = {need.platforms[host]: image for host, image in ids.items()}
        _find_by_id(need, facts, ids)
        _find_by_name(need, facts)
        _find_in_archive(need, archive or {})
        needs.append(need)
    return needs


def _find_by_id(need: Need, facts: Facts, own: Mapping[str, str]) -> None:
    """Add the hosts that have a pinned image by its id. own: by host the id that is pinned for it."""
    for host, host_facts in facts.items():
        for image in need.ids.values():
            if host_facts.images.get(image) is not None:
                need.has[host] = image
        if host in own and host_facts.images.get(own[host]) is not None:
            need._hold(host, own[host])


def _find_by_name(need: Need, facts: Facts) -> None:
    """Add the hosts that have a pinned image by its name: hosts without the session's record, and with other stores.

    The name may mean another image there, so its id, its digest or its content has to be the same. If a host's store
    was exchanged, the image has another id there than its pinned one.
    """
    known = {host: host_facts.images.get(need.reference) for host, host_facts in facts.items()}
    contents = _pinned_contents(need, facts, known.values())
    for host, image in known.items():
        if image is None or host in need.has:
            continue
        if image.id == need.wanted(host) or _is_same(image, contents, need.digest):
            need._hold(host, image.id)
    for host, image_id in need.has.items():
        found = facts[host].images.get(image_id) or known[host]
        need.contents[host] = found.content if found is not None else ""


def _find_in_archive(need: Need, archive: Archive) -> None:
    """Note whether the controller's archive has a pinned image: by its id, else by its name and its content."""
    by_id = next((image for image in archive.values() if image.id in need.ids.values()), None)
    if by_id is not None:
        need.archived, need.archive_contents = by_id.id, dict(by_id.contents)
        return
    named = _named_in(archive, need.reference)
    if named is None:
        return
    for host in need.hosts:
        machine = need._machine(host)
        if need._store(host) == CLASSIC_STORE or machine not in named.contents:
            continue
        known = {need.contents[other] for other in need.has if need._machine(other) == machine} - {""}
        if not known or named.contents[machine] in known:
            need.archived = named.id
            need.archive_contents[machine] = named.contents[machine] if known else ""


def _pinned_contents(need: Need, facts: Facts, known: Iterable[ImageFacts | None]) -> set[str]:
    """Return what the pinned images contain, as far as hosts report it. known: the images by the name of the need."""
    pinned = [facts[host].images.get(image) for host, image in need.has.items()]
    pinned += [image for image in known if image and image.id in need.ids.values()]
    return {image.content for image in pinned if image is not None and image.content}


def _is_same(image: ImageFacts, contents: Collection[str], digest: str | None) -> bool:
    """Tell whether an image has one of the *contents*, or the *digest*, of a pinned image."""
    return image.content in contents or (digest is not None and digest_of(digest) in map(digest_of, image.digests))

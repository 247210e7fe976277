# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which image a reference means, and who has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.calls import ImageTransfer
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.plan import PinnedImage
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.distribution import (
    next_round,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.images import (
    CONTROLLER,
    ArchivedImage,
    Need,
    content_of,
    needs_again,
    needs_of,
    parse_registries,
    suits,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.image_names import (
    ALWAYS,
    MISSING,
    NEVER,
    full_name,
    registry_of,
    repository_of,
    tag_for,
)
from ansible_collections.cluster_compute.session.tests.support.host_facts import typed

ONE, TWO = "sha256:" + "1" * 64, "sha256:" + "2" * 64
DIGEST = "sha256:" + "d" * 64
NAME = "registry.example/train:1"
PINNED = f"registry.example/train@{DIGEST}"


def host(image: str | None = None, digests: tuple[str, ...] = (), **more: str) -> dict[str, Any]:
    engine = {"architecture": "x86_64", "image_store": "docker", **more}
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[engine["architecture"]]
    known = None if image is None else {"id": image, "digests": list(digests), "architecture": machine}
    return {"engine": engine, "images": {NAME: known}}


def need_of(policy: str = MISSING, used: int = 2, reference: str = NAME, **facts: dict[str, Any]) -> Need:
    """Return the need of a session on the first *used* hosts."""
    (need,) = needs_of({reference: list(facts)[:used]}, typed(facts), policy)
    return need


@pytest.mark.parametrize(
    ("reference", "registry", "repository", "full"),
    [
        ("debian", "docker.io", "debian", "docker.io/library/debian:latest"),
        ("debian:12", "docker.io", "debian", "docker.io/library/debian:12"),
        ("docker.io/library/debian", "docker.io", "docker.io/library/debian", "docker.io/library/debian:latest"),
        ("docker.io/debian:12", "docker.io", "docker.io/debian", "docker.io/library/debian:12"),
        ("index.docker.io/team/a:1", "docker.io", "index.docker.io/team/a", "docker.io/team/a:1"),
        ("team/a", "docker.io", "team/a", "docker.io/team/a:latest"),
        ("localhost/a", "localhost", "localhost/a", "localhost/a:latest"),
        ("host:5000/a/b:1", "host:5000", "host:5000/a/b", "host:5000/a/b:1"),
        ("[2001:db8::1]:5000/a", "[2001:db8::1]:5000", "[2001:db8::1]:5000/a", "[2001:db8::1]:5000/a:latest"),
        (PINNED, "registry.example", "registry.example/train", "registry.example/train:latest"),
    ],
)
def test_the_parts_of_a_reference(reference: str, registry: str, repository: str, full: str) -> None:
    assert (registry_of(reference), repository_of(reference), full_name(reference)) == (registry, repository, full)


def test_only_a_tag_is_given_to_what_came_by_another_name() -> None:
    assert tag_for("host:5000/a:1") == ("host:5000/a", "1")
    assert tag_for("a") == ("a", "latest")
    assert tag_for(PINNED) is None
    assert tag_for(ONE) is None


def test_logins_by_registry() -> None:
    login = {"username": "u", "password": "p"}
    assert parse_registries({"registry.example:5000": login, "index.docker.io": login}) == {
        "registry.example:5000": login,
        "docker.io": login,
    }
    assert parse_registries(None) == parse_registries("") == parse_registries({}) == {}


@pytest.mark.parametrize(
    "value",
    [
        "hidden",
        ["hidden"],
        {"registry.example": "hidden"},
        {"registry.example": {"username": "hidden"}},
        {"registry.example": {"username": "hidden", "password": ""}},
        {"registry.example": {"username": "u", "password": 4711}},
        {"registry.example": {"username": "u", "password": "hidden", "token": "hidden"}},
        {"https://registry.example/v1": {"username": "u", "password": "hidden"}},
        {5: {"username": "u", "password": "hidden"}},
    ],
)
def test_malformed_logins_are_refused_without_being_shown(value: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_registries(value)
    assert "cluster_compute_registries" in str(caught.value)
    assert "hidden" not in str(caught.value)
    assert "4711" not in str(caught.value)


def test_where_all_have_it_nothing_is_to_do() -> None:
    need = need_of(h1=host(ONE), h2=host(ONE), h3=host(TWO))
    assert (need.fetches, need.asks, need.pulls) == ([], None, False)
    assert need.pinned() == PinnedImage(None, {"h1": ONE, "h2": ONE})


def test_who_lacks_it_gets_it_from_the_others_and_pulls_it_only_if_they_fail() -> None:
    need = need_of(h1=host(ONE, (PINNED,)), h2=host())
    assert (need.fetches, need.asks, need.digest) == (["h2"], None, PINNED)
    assert (need.pulling, need.senders("h2")) == ([], ["h1"])
    need.arrived("h2", "h1", "the port is closed.")
    assert (need.senders("h2"), need.pulling) == ([], ["h2"])
    need.pulled("h2", TWO, "")
    assert (need.lacking, need.pulling) == (["h2"], []), "each host pulls once"
    assert ONE[:19] in need.why_not("h2")
    need.pulled("h2", ONE, "")
    assert need.lacking == []


@pytest.mark.parametrize("is_denied", [True, False])
def test_where_hosts_and_the_registry_fail_both_reasons_count(is_denied: bool) -> None:
    need = need_of(h1=host(ONE, (PINNED,)), h2=host())
    need.arrived("h2", "h1", "The port is closed.")
    need.pulled("h2", None, "No such host.", is_denied)
    assert need.why_not("h2") == "The port is closed. No such host."
    assert need.passing == ["h2"], "the port may be open at another try"


def test_a_host_to_which_nobody_can_send_pulls_while_others_are_given_it() -> None:
    arm: dict[str, Any] = {"architecture": "aarch64"}
    need = need_of(used=3, h1=host(ONE, (PINNED,)), h2=host(**arm), h3=host())
    assert (need.pulling, need.senders("h2"), need.senders("h3")) == (["h2"], [], ["h1"])
    need.pulled("h2", TWO, "")
    need.arrived("h3", "h1", "the port is closed")
    assert need.pulling == ["h3"], "that another host has pulled does not keep it from that"


def test_a_digest_of_another_repository_says_nothing() -> None:
    need = need_of(h1=host(ONE, (f"elsewhere.example/train@{DIGEST}",)), h2=host())
    assert (need.pulls, need.digest, need.senders("h2")) == (False, None, ["h1"])


@pytest.mark.parametrize("policy", [MISSING, NEVER])
def test_different_images_by_one_name_are_refused_with_hosts_and_ids(policy: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        need_of(policy, h1=host(ONE), h2=host(TWO))
    for word in ("session_image", NAME, ONE[:19], TWO[:19], "h1", "h2", "session_image_pull=always"):
        assert word in str(caught.value)


def test_the_registry_is_asked_once_where_nobody_has_it() -> None:
    facts: dict[str, Any] = {"h1": host(), "h2": host(), "h3": host(TWO)}
    need = need_of(**facts)
    assert (need.asks, need.fetches) == ("h1", ["h1", "h2"])
    need.resolved(DIGEST, "", typed(facts))
    assert (need.asks, need.pulls, need.digest, need.lacking) == (None, True, PINNED, ["h1", "h2"])
    need.pulled("h1", ONE, "")
    need.pulled("h2", None, "no route")
    assert need.lacking == ["h2"]
    assert need.senders("h2") == ["h1"]
    assert "no route" in need.why_not("h2")


def test_always_lets_the_registry_decide() -> None:
    facts: dict[str, Any] = {"h1": host(ONE, (PINNED,)), "h2": host(TWO), "h3": host()}
    need = need_of(ALWAYS, 3, **facts)
    assert (need.asks, need.fetches) == ("h1", ["h1", "h2", "h3"])
    need.resolved(DIGEST, "", typed(facts))
    assert need.lacking == need.pulling == ["h2", "h3"]
    assert need.pinned().ids == dict.fromkeys(facts, ONE)
    refused = need_of(ALWAYS, 3, **facts)
    refused.resolved(None, "unauthorized", typed(facts))
    assert refused.lacking == ["h1", "h2", "h3"]
    assert refused.senders("h3") == []
    assert "unauthorized" in refused.why_not("h1")


def test_without_an_answer_a_host_outside_the_session_helps() -> None:
    need = need_of(h1=host(), h2=host(), h3=host(ONE))
    need.resolved(None, "no such host", typed({}))
    assert (need.lacking, need.senders("h1"), need.pulling) == (["h1", "h2"], ["h3"], [])
    differing = need_of(h1=host(), h2=host(), h3=host(ONE), h4=host(TWO))
    with pytest.raises(InvalidInput):
        differing.resolved(None, "no such host", typed({}))


def test_never_asks_nobody() -> None:
    need = need_of(NEVER, h1=host(), h2=host(ONE, (PINNED,)))
    assert (need.asks, need.pulls, need.senders("h1")) == (None, False, ["h2"])
    nowhere = need_of(NEVER, h1=host(), h2=host())
    assert nowhere.asks is None
    assert "session_image_pull is never" in nowhere.why_not("h1")


def test_who_is_not_in_the_session_does_not_keep_it_from_running() -> None:
    need = need_of(NEVER, h1=host(ONE), h2=host(), h3=host(TWO))
    assert need.senders("h2") == ["h1"]


def test_a_digest_needs_no_question() -> None:
    facts: dict[str, Any] = {"h1": host(), "h2": host()}
    need = need_of(ALWAYS, reference=PINNED, **facts)
    assert (need.asks, need.pulling, need.digest) == (None, ["h1", "h2"], PINNED)


def test_by_a_digest_a_host_outside_the_session_gives_it_unless_the_registry_decides() -> None:
    known = {"id": ONE, "digests": [PINNED], "architecture": "amd64"}
    facts: dict[str, Any] = {"h1": host(), "h2": {**host(), "images": {PINNED: known}}}
    need = need_of(used=1, reference=PINNED, **facts)
    assert (need.senders("h1"), need.pulling) == (["h2"], [])
    need = need_of(ALWAYS, 1, PINNED, **facts)
    assert need.pulling == ["h1"]
    need.pulled("h1", None, "no such host")
    assert (need.senders("h1"), need.pulling) == (["h2"], [])


def test_an_id_is_only_handed_on() -> None:
    facts: dict[str, Any] = {
        "h1": {**host(), "images": {ONE: {"id": ONE, "digests": [], "architecture": "amd64"}}},
        "h2": host(),
    }
    need = need_of(reference=ONE, **facts)
    assert (need.asks, need.pulls, need.senders("h2")) == (None, False, ["h1"])
    nobody = need_of(reference=ONE, h1=host(), h2=host())
    assert "cannot be pulled by its id" in nobody.why_not("h1")


def test_an_image_for_another_machine_is_refused() -> None:
    facts: dict[str, Any] = {"h1": {**host(ONE), "engine": {"architecture": "aarch64", "image_store": "docker"}}}
    with pytest.raises(InvalidInput, match="amd64, and the host is aarch64"):
        need_of(**facts)


def test_an_id_is_not_handed_on_to_another_machine() -> None:
    known = {ONE: {"id": ONE, "digests": [], "architecture": "amd64"}}
    facts: dict[str, Any] = {"h1": host(architecture="aarch64"), "h2": {**host(), "images": known}}
    with pytest.raises(InvalidInput, match="On h2 it is for amd64, and the host h1 is aarch64"):
        need_of(used=1, reference=ONE, **facts)


@pytest.mark.parametrize(
    ("architecture", "machine", "does"),
    [
        ("amd64", "x86_64", True),
        ("386", "x86_64", True),
        ("arm64", "x86_64", False),
        ("arm64", "aarch64", True),
        ("arm", "aarch64", True),
        ("amd64", "aarch64", False),
        ("riscv64", "riscv64", True),
        ("amd64", "", True),
    ],
)
def test_what_a_kernel_runs(architecture: str, machine: str, does: bool) -> None:
    assert suits(architecture, machine) is does


def test_machines_share_an_image_by_its_digest_only() -> None:
    arm: dict[str, Any] = {"architecture": "aarch64"}
    need = need_of(h1=host(ONE, (PINNED,)), h2=host(TWO, (PINNED,), **arm))
    assert need.pinned().ids == {"h1": ONE, "h2": TWO}
    with pytest.raises(InvalidInput):
        need_of(h1=host(ONE), h2=host(TWO, **arm))
    # Stores of different kinds say nothing about each other, and nothing is handed on between them.
    other = need_of(h1=host(ONE), h2=host(image_store="containerd"))
    assert (other.lacking, other.senders("h2")) == (["h2"], [])


def test_an_archive_says_what_the_image_is() -> None:
    facts = {"h1": host(TWO), "h2": host(), "h3": host(ONE)}
    archive = {"registry.example/train:1": archived(amd64="layers")}
    (need,) = needs_of({NAME: ["h1", "h2"]}, typed(facts), MISSING, archive)
    assert (need.archived, need.asks, need.lacking) == (ONE, None, ["h1", "h2"])
    assert need.senders("h1") == ["h3"]
    archive["registry.example/train:1"] = archived(arm64="layers", amd64="others")
    with pytest.raises(InvalidInput, match=r"for arm64, and h1 is amd64\. It is there for several machines"):
        needs_of({NAME: ["h1"]}, typed(facts), MISSING, archive)
    archive["registry.example/train:1"] = archived(arm64="layers")
    for store in ("docker", "containerd"):
        with pytest.raises(InvalidInput, match=r"for arm64, and h1 is amd64\.$"):
            needs_of({NAME: ["h1"]}, typed({"h1": host(image_store=store)}), MISSING, archive)


def archived(**contents: str) -> ArchivedImage:
    """Return an image of an archive, of which the classic store loads what is for the first machine."""
    return ArchivedImage(ONE, next(iter(contents)), contents)


def test_an_archive_goes_to_any_store_and_contents_tell_who_has_it() -> None:
    archive = {full_name(NAME): archived(amd64="layers", arm64="others")}
    facts = {
        "h1": host(image_store="containerd"),
        "h2": stored(THREE, "containerd", content="layers"),
        "h3": stored(TWO, "containerd", content="an older one"),
        "h4": host(),
    }
    (need,) = needs_of({NAME: ["h1", "h3", "h4"]}, typed(facts), MISSING, archive)
    assert need.lacking == ["h1", "h3", "h4"]
    assert (need.senders("h1"), need.senders("h3"), need.senders("h4")) == (["h2"], ["h2"], ["h2"])
    del facts["h2"]
    (need,) = needs_of({NAME: ["h1", "h3", "h4"]}, typed(facts), MISSING, archive)
    assert all(need.senders(name) == [] and need.is_in_archive(name) for name in facts)
    assert (need.content_for(CONTROLLER, "h1"), need.content_for(CONTROLLER, "h4")) == ("layers", "")
    assert need.id_at(CONTROLLER, "h1") == ONE
    need.arrived("h1", CONTROLLER, "", THREE)
    assert (need.senders("h3"), need.senders("h4"), need.content_for("h1", "h4")) == (["h1"], ["h1"], "layers")
    need.arrived("h4", "h1", "", ONE)
    need.arrived("h3", "h1", "")
    assert need.lacking == []
    assert need.pinned().ids == {"h1": THREE, "h3": THREE, "h4": ONE}
    # In check mode nothing arrives, and there is no id of it.
    (dry,) = needs_of({NAME: ["h1"]}, typed(facts), MISSING, archive)
    dry.arrived("h1", CONTROLLER, "")
    assert dry.lacking == []


def test_an_image_of_several_machines_goes_to_those_of_the_store_of_containerd() -> None:
    archive = {full_name(NAME): archived(amd64="layers", arm64="others")}
    facts = {"h1": host(image_store="containerd", architecture="aarch64"), "h2": host(image_store="containerd")}
    (need,) = needs_of({NAME: ["h1", "h2"]}, typed(facts), MISSING, archive)
    assert [need.content_for(CONTROLLER, name) for name in facts] == ["others", "layers"]


def test_a_pinned_image_comes_from_an_archive_by_its_id_or_as_it_is_known() -> None:
    new, old = {full_name(NAME): archived(amd64="layers")}, {full_name(NAME): archived(amd64="an older one")}
    pinned = {NAME: PinnedImage(None, {"h1": THREE, "h2": THREE})}

    def found(archive: dict[str, ArchivedImage], *, has: bool) -> Need:
        facts = {"h1": host(image_store="containerd"), "h2": host(image_store="containerd")}
        if has:
            facts["h2"] = stored(THREE, "containerd", content="layers")
        (need,) = needs_again({NAME: ["h1", "h2"]}, typed(facts), MISSING, pinned, archive)
        return need

    assert (found(new, has=True).archived, found(old, has=True).archived) == (ONE, "")
    # Nobody knows what the pinned image contained: the id of what arrives tells.
    for archive in (new, old):
        need = found(archive, has=False)
        assert need.is_in_archive("h1")
        assert (need.content_for(CONTROLLER, "h1"), need.id_at(CONTROLLER, "h1")) == ("", THREE)
    # In the classic store the id tells beforehand.
    facts = {"h1": host(), "h2": host()}
    for image, is_there in ((ONE, True), (TWO, False)):
        own = {NAME: PinnedImage(None, {"h1": image, "h2": image})}
        (need,) = needs_again({NAME: ["h1", "h2"]}, typed(facts), MISSING, own, new)
        assert need.is_in_archive("h1") == is_there


def test_a_session_that_exists_keeps_its_image() -> None:
    facts = {"h1": host(TWO), "h2": host(TWO), "h3": host(TWO)}
    facts["h1"]["images"][ONE] = {"id": ONE, "digests": [], "architecture": "amd64"}
    pinned = {NAME: PinnedImage(PINNED, {"h1": ONE, "h2": ONE})}
    (need,) = needs_again({NAME: ["h1", "h2"]}, typed(facts), MISSING, pinned)
    assert (need.fetches, need.pulling, need.digest, need.senders("h2")) == (["h2"], [], PINNED, ["h1"])
    need.arrived("h2", "h1", "the port is closed")
    assert need.pulling == ["h2"]
    (need,) = needs_again({NAME: ["h1", "h2"]}, typed(facts), NEVER, pinned)
    need.arrived("h2", "h1", "the port is closed")
    assert (need.fetches, need.pulling) == (["h2"], [])
    assert Need.from_dict(encode(need)) == need


class Encrypted(Sequence[str]):
    """A value with the tag !vault, as Ansible before 2.19 hands it over: it looks like text, and is not of its type."""

    def __len__(self) -> int:
        return len(str(self))

    def __getitem__(self, place: Any) -> str:
        return str(self)[place]

    def __str__(self) -> str:
        return "secret"


BUSYBOX: dict[str, Any] = {
    "Architecture": "amd64",
    "Config": {"Cmd": ["sh"], "Entrypoint": None, "Env": ["A=1"], "Labels": None, "User": "", "WorkingDir": "/"},
    "RootFS": {"Layers": ["sha256:9029"], "Type": "layers"},
}
CONTENT = content_of(BUSYBOX)


def test_what_is_the_same_of_an_image_in_every_store() -> None:
    """Ids and digests differ; engines leave out what is empty, or do not."""
    other = {
        **BUSYBOX,
        "Id": TWO,
        "RepoDigests": [PINNED],
        "Config": {**BUSYBOX["Config"], "Volumes": {}, "Labels": {}},
    }
    assert content_of(other) == CONTENT
    for change in (
        {"Config": {**BUSYBOX["Config"], "Env": ["A=2"]}},
        {"Config": {**BUSYBOX["Config"], "Healthcheck": {"Test": ["NONE"]}}},
        {"RootFS": {"Layers": ["sha256:9030"]}},
        {"Architecture": "arm64"},
    ):
        assert content_of({**BUSYBOX, **change}) not in (CONTENT, "")
    assert content_of({**BUSYBOX, "RootFS": {}}) == ""


def stored(
    image: str, store: str, content: str = CONTENT, digests: tuple[str, ...] = (), name: str = NAME
) -> dict[str, Any]:
    """Return what a host reports that has an image in a store."""
    found = host(image, digests, image_store=store)
    return {**found, "images": {name: {**found["images"][NAME], "content": content}}}


def with_record(facts: dict[str, Any]) -> dict[str, Any]:
    """Return what a host reports that has the session's record as well, which names the image by its id."""
    (known,) = facts["images"].values()
    return {**facts, "images": {**facts["images"], known["id"]: known}}


LOADED = stored(ONE, "containerd", digests=(f"registry.example/train@{ONE}",))
"""A host of containerd's store, which has a digest of what was only loaded."""


def grown(used: Sequence[str], **facts: dict[str, Any]) -> Need:
    """Return the need of a session that runs on h1 with the image that was loaded there."""
    pinned = {NAME: PinnedImage(f"registry.example/train@{ONE}", {"h1": ONE})}
    (need,) = needs_again({NAME: used}, typed(facts), MISSING, pinned)
    return need


def test_a_host_of_another_store_has_the_image_that_a_session_runs() -> None:
    need = grown(["h1", "h2"], h1=with_record(LOADED), h2=stored(TWO, "docker"))
    assert (need.lacking, need.pinned().ids) == ([], {"h1": ONE, "h2": TWO})
    need = grown(["h1", "h2"], h1=with_record(LOADED), h2=stored(TWO, "docker", content="another"))
    assert need.lacking == ["h2"], "by that name it has something else"


def test_a_host_without_a_record_of_the_session_can_give_its_image() -> None:
    need = grown(
        ["h1"], h1={**LOADED, "images": {NAME: None}}, h2=LOADED, h3=stored(TWO, "containerd", content="another")
    )
    assert (need.lacking, need.senders("h1")) == (["h1"], ["h2"])


@pytest.mark.parametrize("is_new", [True, False])
def test_an_image_goes_from_one_store_to_another(is_new: bool) -> None:
    facts: dict[str, Any] = {
        "h1": with_record(LOADED),
        "h2": host(image_store="docker"),
        "h3": host(image_store="docker"),
    }
    need = need_of(used=3, **facts) if is_new else grown(["h1", "h2", "h3"], **facts)
    assert (need.pulling, need.lacking, need.senders("h2")) == ([], ["h2", "h3"], ["h1"])
    assert next_round([need], 9) == [ImageTransfer(NAME, ONE, "h1", "h2", CONTENT)]
    need.arrived("h2", "h1", "", TWO)
    assert next_round([need], 9) == [ImageTransfer(NAME, TWO, "h2", "h3")], "that has it as h3 is to have it"
    need.arrived("h3", "h2", "")
    assert (need.lacking, need.pinned().ids) == ([], {"h1": ONE, "h2": TWO, "h3": TWO})


THREE = "sha256:" + "3" * 64


def test_what_came_to_the_store_of_containerd_in_different_ways_is_one_image() -> None:
    """What a host of the classic store has sent has another id there than what the registry has sent."""
    pulled = stored(DIGEST, "containerd", digests=(PINNED,))
    sent = stored(THREE, "containerd", digests=(f"registry.example/train@{THREE}",))
    need = need_of(used=2, h1=stored(ONE, "docker", digests=(PINNED,)), h2=host(image_store="containerd"), h3=pulled)
    assert (need.pulling, need.senders("h2")) == ([], ["h3"]), "from there it has the same id"
    need = need_of(used=2, h1=stored(ONE, "docker", digests=(PINNED,)), h2=host(image_store="containerd"))
    assert next_round([need], 9) == [ImageTransfer(NAME, ONE, "h1", "h2", CONTENT)]
    need.arrived("h2", "h1", "", THREE)
    assert (need.lacking, need.pinned().ids) == ([], {"h1": ONE, "h2": THREE})

    need = need_of(used=3, h1=pulled, h2=sent, h3=host(image_store="docker"))
    assert (need.lacking, need.pinned().ids) == (["h3"], {"h1": DIGEST, "h2": THREE, "h3": None})
    assert need.senders("h3") == ["h1", "h2"]
    pinned = {NAME: PinnedImage(PINNED, {"h1": DIGEST, "h2": THREE})}
    (need,) = needs_again({NAME: ["h1", "h2"]}, typed({"h1": pulled, "h2": sent}), MISSING, pinned)
    assert (need.lacking, need.pinned()) == ([], pinned[NAME])
    for found in (pulled, sent):
        found["images"] = {NAME: None, found["images"][NAME]["id"]: found["images"][NAME]}
    (need,) = needs_again({NAME: ["h1", "h2"]}, typed({"h1": pulled, "h2": sent}), MISSING, pinned)
    assert (need.lacking, need.pinned()) == ([], pinned[NAME])
    assert Need.from_dict(encode(need)) == need


def test_another_id_in_the_same_store_comes_from_whom_no_other_is_left() -> None:
    pulled, sent = stored(DIGEST, "containerd", digests=(PINNED,)), stored(THREE, "containerd")
    need = need_of(used=1, h1=host(image_store="containerd"), h2=pulled, h3=sent)
    need.resolved(None, "no such host", typed({}))
    assert need.senders("h1") == ["h2"]
    need.arrived("h1", "h2", "it ended before the image was whole")
    assert next_round([need], 9) == [ImageTransfer(NAME, THREE, "h3", "h1", CONTENT)]
    need.arrived("h1", "h3", "")
    assert (need.lacking, need.pinned().ids) == ([], {"h1": THREE})


def test_what_a_registry_gives_by_the_digest_is_one_image_with_what_hosts_have_sent() -> None:
    sent = stored(THREE, "containerd")
    need = need_of(used=3, h1=sent, h2=host(image_store="containerd"), h3=stored(ONE, "docker", digests=(PINNED,)))
    need.arrived("h2", "h1", "the port is closed")
    need.arrived("h2", "h3", "the port is closed")
    assert need.pulling == ["h2"]
    need.pulled("h2", DIGEST, "")
    assert (need.lacking, need.pinned().ids) == ([], {"h1": THREE, "h2": DIGEST, "h3": ONE})


def test_images_of_different_content_by_one_name_are_refused_in_any_stores() -> None:
    for store in ("docker", "containerd"):
        with pytest.raises(InvalidInput, match=f"It is {TWO[:19]} on h2 and {ONE[:19]} on h1"):
            need_of(h1=stored(ONE, "docker"), h2=stored(TWO, store, content="another"))
    assert need_of(h1=stored(ONE, "docker"), h2=stored(TWO, "containerd")).lacking == []
    assert need_of(h1=stored(ONE, "docker"), h2=stored(TWO, "containerd", content="")).lacking == [], "it is not known"


def test_a_session_outlives_that_a_host_exchanges_its_store() -> None:
    """All that the engine had is gone from its sight then, and the plan has the id of the old store."""
    pinned = {NAME: PinnedImage(None, {"h1": ONE, "h2": ONE})}
    facts = {"h1": host(image_store="containerd"), "h2": with_record(stored(ONE, "docker"))}
    (need,) = needs_again({NAME: ["h1", "h2"]}, typed(facts), MISSING, pinned)
    assert (need.lacking, next_round([need], 9)) == (["h1"], [ImageTransfer(NAME, ONE, "h2", "h1", CONTENT)])
    need.arrived("h1", "h2", "", TWO)
    assert (need.lacking, need.pinned().ids) == ([], {"h1": TWO, "h2": ONE})
    facts["h1"] = stored(TWO, "containerd")
    (need,) = needs_again({NAME: ["h1", "h2"]}, typed(facts), MISSING, pinned)
    assert (need.lacking, need.pinned().ids) == ([], {"h1": TWO, "h2": ONE}), "somebody has loaded it there"
    facts["h1"] = stored(TWO, "containerd", content="another")
    (need,) = needs_again({NAME: ["h1", "h2"]}, typed(facts), MISSING, pinned)
    assert need.lacking == ["h1"]


@pytest.mark.parametrize(("store", "old", "new"), [("containerd", ONE, DIGEST), ("docker", DIGEST, ONE)])
def test_an_exchanged_store_may_pull_what_is_pinned(store: str, old: str, new: str) -> None:
    pinned = {NAME: PinnedImage(PINNED, {"h1": old})}
    (need,) = needs_again({NAME: ["h1"]}, typed({"h1": host(image_store=store)}), MISSING, pinned)
    assert need.pulling == ["h1"]
    need.pulled("h1", new, "")
    assert (need.lacking, need.pinned().ids) == ([], {"h1": new})


@pytest.mark.parametrize("policy", [MISSING, ALWAYS])
def test_what_one_host_has_pulled_it_gives_to_another_store(policy: str) -> None:
    facts: dict[str, Any] = {
        "h1": stored(TWO, "docker", content="another"),
        "h2": host(image_store="containerd"),
    }
    if policy == MISSING:
        facts["h1"]["images"][NAME] = None
    need = need_of(policy, 2, **facts)
    need.resolved(DIGEST, "", typed(facts))
    assert need.pulling == ["h1", "h2"]
    need.pulled("h1", ONE, "", content=CONTENT)
    need.pulled("h2", None, "no route")
    assert next_round([need], 9) == [ImageTransfer(NAME, ONE, "h1", "h2", CONTENT)]


def test_by_its_id_an_image_goes_to_another_store_too() -> None:
    known = {"id": ONE, "digests": [], "architecture": "amd64", "content": CONTENT}
    need = need_of(reference=ONE, h1={**host(), "images": {ONE: known}}, h2=host(image_store="containerd"))
    assert next_round([need], 9) == [ImageTransfer(ONE, ONE, "h1", "h2", CONTENT)]
    need.arrived("h2", "h1", "", TWO)
    assert (need.lacking, need.pinned().ids) == ([], {"h1": ONE, "h2": TWO})


def test_an_image_goes_to_no_other_machine() -> None:
    need = need_of(h1=LOADED, h2=host(image_store="docker", architecture="aarch64"))
    assert (need.pulling, need.senders("h2")) == (["h2"], [])
    need.pulled("h2", None, "no such host")
    assert need.senders("h2") == []


def test_a_host_outside_the_session_helps_if_it_has_the_same_content_in_the_same_store() -> None:
    need = need_of(h1=LOADED, h2=host(image_store="docker"), h3=stored(TWO, "docker"))
    assert (need.pulling, need.senders("h2")) == ([], ["h3"])
    need = need_of(h1=LOADED, h2=host(image_store="docker"), h3=stored(TWO, "docker", content="another"))
    assert (need.pulling, need.senders("h2")) == ([], ["h1"])


def test_a_password_may_be_encrypted_in_its_place() -> None:
    found = parse_registries({"registry.example": {"username": "reader", "password": Encrypted()}})
    assert found == {"registry.example": {"username": "reader", "password": "secret"}}
    assert isinstance(found["registry.example"]["password"], str)
    with pytest.raises(InvalidInput, match="both text"):
        parse_registries({"registry.example": {"username": "reader", "password": ["secret"]}})

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Images on their way between hosts in memory, and jobs there, whatever is stopped, overtaken, lost and back."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.image_stream import WAIT
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import RUNNING
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import Request
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.images import (
    ArchivedImage,
    content_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.output import batch_job
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.image_names import full_name
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs import repair
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.verb import State
from ansible_collections.cluster_compute.session.tests.support.core.verbs.begun import begun
from ansible_collections.cluster_compute.session.tests.support.core.verbs.group import (
    request,
)
from ansible_collections.cluster_compute.session.tests.support.hosts_in_memory import DEADLINE, LEASE, World, in_memory
from ansible_collections.cluster_compute.session.tests.support.images_in_memory import Images, digest_of
from ansible_collections.cluster_compute.session.tests.support.small_steps import Killed
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

NAMES = ("ash", "birch")
HOSTS = ("h1", "h2", "h3")
IMAGES = ("demo", "tool:2", "boxed:1")
"""That a registry has, that a host has, and that the controller has in an archive."""
EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "20"))


class Group(World):
    """Hosts that have to get the images of their sessions, and what has to hold of those and of jobs."""

    def __init__(self, root: Path, stores: Sequence[str] = (), **given: Any) -> None:
        super().__init__(root, **given)
        for host, store in zip(self.hosts.values(), stores):
            host.store = store
        self.publish("demo")
        self.give("h2", "tool:2")
        root.mkdir(exist_ok=True)
        (root / "images.tar").write_text(digest_of("boxed"), encoding="ascii")
        layers = {"Architecture": "amd64", "RootFS": {"Layers": [digest_of("boxed")]}}
        boxed = ArchivedImage(digest_of("boxed"), "amd64", {"amd64": content_of(layers)})
        self.archive = {full_name("boxed:1"): boxed, boxed.id: boxed}

    def publish(self, name: str) -> None:
        """Let a registry have a new image by this name."""
        self.registry[name] = digest_of(f"{name} {len(self.registry)} {next(self.ids)}")

    def give(self, host: str, name: str) -> None:
        """Load an image by hand on a host."""
        image = self.hosts[host].images[name] = self.hosts[host].add_image(digest_of(name))
        if self.hosts[host].store == "containerd":  # it has a digest of whatever is loaded
            self.hosts[host].images[f"{name.partition(':')[0]}@{image}"] = image

    def works(self, job: str) -> set[str]:
        """Return the hosts on which something of a job runs."""
        return {host.name for host in self.hosts.values() if host.working(job)}

    def act(self, kind: str, what: Any, moment: int | None = None, *meanwhile: Any) -> set[str]:
        """Let one thing happen, and in its midst others; return the names of the sessions that are meant."""
        names: set[str] = set()

        def happens() -> None:
            for act in meanwhile:
                names.update(self.act(*act))

        is_calm = not meanwhile and all(host.is_up and host.is_heard for host in self.hosts.values())
        if kind == "publish":
            self.publish("demo")
        elif kind == "remove image":
            host = self.hosts[what]
            used = {container.image for container in host.containers.values()}
            host.images = {name: image for name, image in host.images.items() if image in used}
        elif kind == "end jobs":
            self.hosts[what].go_on(ends=True)
        elif kind == "reboot":
            self.hosts[what].reboot()
        elif kind == "launch":
            names.add(what.name)
            others = self.serving()
            with suppress(Killed):
                self.launch(what, moment, happens if meanwhile else None)
                assert not is_calm or self.serving() <= others, "what waits in vain is ended"
        elif kind == "job":
            name, given = what
            with suppress(Killed):
                self.see(self.job(name, moment, happens if meanwhile else None, command="true", **given))
        elif kind == "requeue":
            with suppress(Killed):
                first = begun(repair, self.known, puts_back=False, requeue_from=[what])
                self.run(repair, first, moment, happens if meanwhile else None)
        elif kind == "come back":
            name, given = what
            for job in self.jobs(name)[-1:]:
                with suppress(Killed):
                    self.see(self.job(name, moment, happens if meanwhile else None, id=job, **given), **given)
        else:
            names |= super().act(kind, what, moment, *meanwhile)
        for host in self.hosts.values():
            host.go_on()
        self.check_places()
        self.check_images()
        return names

    def serving(self) -> set[int]:
        """Return the servers that are there."""
        return {
            server.pid for host in self.hosts.values() for server in host.servers.values() if server.until > self.now
        }

    def see(self, state: State, stop: bool = False, **_more: Any) -> None:
        """See that a job runs nowhere that could not be started, or was stopped."""
        if "job" not in state:
            return
        for host in self.hosts.values():
            host.go_on()
        away = {host.name for host in self.hosts.values() if not host.is_up}
        if "failure" in state or stop:
            assert self.works(state["job"]) <= away
        else:
            assert set(state["outcome"]["replicas"]) == set(state["on"])

    def check_images(self) -> None:
        """All replicas of a session have one image."""
        found: dict[str, set[str]] = {}
        for host in self.hosts.values():
            for container in host.containers.values():
                image = host.configuration_of(container.image)
                found.setdefault(container.labels.session_id, set()).add(image)
        assert [images for images in found.values() if len(images) > 1] == []

    def end(self) -> None:
        """Bring all hosts back and tear all down; nothing may be left, nor go on."""
        for host in self.hosts.values():
            host.is_up = host.is_heard = True
        self.now += DEADLINE + WAIT
        for name in NAMES:
            for job in self.jobs(name):
                state = self.job(name, id=job, detach=True)
                assert set(state["outcome"]["replicas"]) == set(state["on"]), "whoever left can come back to it"
            self.teardown(name)
        self.gc()
        for host in self.hosts.values():
            host.go_on()
            assert (host.left(self.known), host.runners) == ([], {}), host.name
        assert self.serving() == set()


@pytest.fixture(scope="module")
def patched() -> Iterator[list[World]]:
    """Let what a host does see the world that is asked."""
    with in_memory() as worlds:
        yield worlds


@pytest.fixture
def make(patched: list[World], tmp_path: Path) -> Iterator[Callable[..., Group]]:
    """Give a function that makes a group, which hosts are of until the test ends."""

    def made(name: str = "group", **given: Any) -> Group:
        group = Group(tmp_path / name, **given)
        patched.append(group)
        return group

    before = len(patched)
    yield made
    del patched[before:]


def wanted(name: str = "ash", image: str = "demo", **given: Any) -> Request:
    if image == "boxed:1":
        given["image_archive"] = "/images.tar"
    return request(**{"name": name, "image": image, "cpus": "0.5", "max_replicas_per_host": 1, **given})


REQUESTS = st.builds(
    lambda name, image, size, always, batch: wanted(
        name,
        image,
        size=size,
        image_pull="always" if always else "missing",
        **({"batch_command": "train"} if batch else {}),
    ),
    st.sampled_from(NAMES),
    st.sampled_from(IMAGES),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
)
STORES = st.sampled_from(["docker", "docker", "containerd"])
MOMENTS = st.integers(1, 20)
OR_NONE = st.one_of(st.none(), MOMENTS)
OF_ASH = st.sampled_from(["ash", "ash", "birch"])
JOBS = st.tuples(
    OF_ASH,
    st.fixed_dictionaries({"on": st.sampled_from(["main1", "all"]), "detach": st.sampled_from([True, True, False])}),
)
BACK = st.tuples(OF_ASH, st.fixed_dictionaries({"stop": st.booleans(), "detach": st.booleans()}))
SIMPLE = st.one_of(
    st.tuples(st.just("launch"), REQUESTS, OR_NONE),
    st.tuples(st.just("job"), JOBS, OR_NONE),
    st.tuples(st.just("come back"), BACK, OR_NONE),
    st.tuples(st.just("tear down"), st.sampled_from(NAMES), OR_NONE),
    st.tuples(st.just("run"), st.sampled_from(["repair", "gc", "schedule"]), OR_NONE),
    st.tuples(
        st.sampled_from(["lose", "bring back", "mute", "hear", "end jobs", "reboot", "remove image", "publish"]),
        st.sampled_from(HOSTS),
        st.none(),
    ),
    st.tuples(st.just("requeue"), st.sampled_from(HOSTS), OR_NONE),
    st.tuples(st.just("let time pass"), st.sampled_from([LEASE + 1, DEADLINE + 1]), st.none()),
)
ACTS = st.one_of(
    SIMPLE,
    *(
        st.tuples(st.just(kind), what, MOMENTS, st.lists(SIMPLE, min_size=1, max_size=2)).map(
            lambda act: (*act[:3], *act[3])
        )
        for kind, what in (
            ("launch", REQUESTS),
            ("job", JOBS),
            ("come back", BACK),
            ("tear down", st.sampled_from(NAMES)),
        )
    ),
)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(acts=st.lists(ACTS, min_size=1, max_size=6), stores=st.tuples(*[STORES] * len(HOSTS)))
@example(  # it finishes a change that was stopped
    acts=[("launch", wanted(size=3), 7), ("run", "repair", None)], stores=("docker",) * 3
)
def test_whatever_is_stopped_or_overtaken_images_stay_and_jobs_end_with_their_session(
    patched: list[World], acts: list[Any], stores: tuple[str, ...]
) -> None:
    root = Path(tempfile.mkdtemp(prefix="cluster-compute-model-"))
    group = Group(root, stores)
    patched.append(group)
    try:
        group.act("launch", wanted(size=2))
        for act in acts:
            before = group.running()
            batches = {
                copy.name
                for name in before
                for copy in group.copies(name).values()
                if copy.request and copy.request["batch_command"]
            }
            half_changed = group.half_changed()
            meant = group.act(*act)
            after = group.running()
            for name, was in before.items():
                # Whatever comes along removes what is left of a batch session whose command has ended.
                if name in meant | batches:
                    continue
                assert after.get(name) == was or (name in half_changed and name in after), f"{act[0]} changed {name}"
        group.end()
    finally:
        patched.pop()
        shutil.rmtree(root)


@pytest.mark.parametrize("image", IMAGES)
def test_a_launch_that_is_stopped_while_images_come_is_taken_up_by_the_next(
    make: Callable[..., Group], image: str
) -> None:
    for stop in range(1, 30, 2):
        group = make(str(stop), cpus=(2000,) * 4)
        try:
            group.launch(wanted(image=image, size=4), stop)
            break
        except Killed:
            group.now += DEADLINE + 1
        assert group.launch(wanted("birch", image, size=4))["outcome"]["status"] == RUNNING
        group.check_images()
        group.end()
    assert stop > {"demo": 14, "tool:2": 18, "boxed:1": 18}[image]


@pytest.mark.parametrize(("image", "policy"), [("own:1", "missing"), ("own:1", "never"), ("boxed:1", "missing")])
@pytest.mark.parametrize("stores", list(itertools.product(["docker", "containerd"], repeat=3)))
def test_hosts_of_any_stores_give_each_other_what_one_has_and_ask_no_registry(
    make: Callable[..., Group], monkeypatch: pytest.MonkeyPatch, stores: tuple[str, ...], image: str, policy: str
) -> None:
    """One of the hosts has it, or the controller."""

    def ask(_host: Images, name: str, _login: object) -> str:
        raise AssertionError(f"a registry is asked for {name}")

    monkeypatch.setattr(Images, "resolve_image", ask)
    monkeypatch.setattr(Images, "pull_image", ask)
    group = make(stores=stores)
    if image == "own:1":
        group.give("h1", image)
    first = wanted(image=image, size=3, image_pull=policy)
    assert group.launch(first)["outcome"]["status"] == RUNNING
    group.check_images()
    # By that name each host has it by an id of its own now, and all have the same image.
    assert group.launch(wanted("birch", image, size=3, image_pull=policy))["outcome"]["status"] == RUNNING
    group.check_images()
    # After the loss of image and replicas the launch brings it back.
    lost = group.hosts["h2"]
    lost.containers.clear()
    lost.images = {name: image for name, image in lost.images.items() if name.startswith("busybox")}
    assert group.launch(first)["outcome"]["status"] == RUNNING
    assert len(lost.containers) == 1
    group.check_images()
    group.end()


@pytest.mark.parametrize("kind", ["launch", "give", "lose"])
def test_what_a_launch_serves_is_ended_by_it_and_by_no_other(make: Callable[..., Group], kind: str) -> None:
    """Meanwhile another session gets the same image, or who waits for it gets it by hand, or is lost."""
    for moment in range(1, 30, 2):
        group = make(str(moment))
        happened: list[int] = []

        def meanwhile(group: Group = group, happened: list[int] = happened) -> None:
            happened.append(1)
            if kind == "launch":
                assert group.launch(wanted("birch", "tool:2", size=3))["outcome"]["status"] == RUNNING
            elif kind == "give":
                group.give("h3", "tool:2")
            else:
                group.act("lose", "h3")

        state = group.launch(wanted(image="tool:2", size=3), moment, meanwhile)
        assert kind == "lose" or state["outcome"]["status"] == RUNNING
        assert group.serving() == set()
        group.end()
        if not happened:
            break
    assert moment > 12


@pytest.mark.parametrize("after", ["come back", "stop", "tear down"])
def test_a_job_that_is_stopped_after_any_answer_can_be_had_or_goes_with_its_session(
    make: Callable[..., Group], after: str
) -> None:
    for stop in range(1, 20):
        group = make(f"{after} {stop}")
        group.launch(wanted(size=3))
        with suppress(Killed):
            group.job("ash", stop, on="all", command="true")
            break
        jobs = group.jobs("ash")
        assert len(jobs) == (stop > 3)
        for job in jobs if after != "tear down" else ():
            state = group.job("ash", id=job, stop=after == "stop")
            group.see(state, after == "stop")
            begun = {*("main1", "sub1", "sub2")[: stop - 3]}
            found = {name for name, said in state["outcome"]["replicas"].items() if said["status"] == "ENDED"}
            assert found == begun
        group.end()
    assert stop == 10


@pytest.mark.parametrize("moment", range(3, 7))
@pytest.mark.parametrize("kind", ["mute", "lose"])
def test_a_job_that_could_not_be_started_everywhere_runs_nowhere(
    make: Callable[..., Group], kind: str, moment: int
) -> None:
    """A host that is muted does what it is told, and nobody hears that it has."""
    group = make()
    group.launch(wanted(size=3))
    state = group.job("ash", moment, lambda: group.act(kind, "h3"), on="all", command="true", detach=True)
    assert ("failure" in state) == (moment < 6)
    group.see(state)
    group.end()


@pytest.mark.parametrize("stop", [None, *range(1, 12)])
def test_a_batch_command_is_begun_once_wherever_its_launch_is_stopped(
    make: Callable[..., Group], stop: int | None
) -> None:
    group = make()
    with suppress(Killed):
        group.launch(wanted(size=3, batch_command="train", image="busybox"), stop)
    for _twice in range(2):
        group.now += DEADLINE + 1
        assert group.launch(wanted(size=3, batch_command="train", image="busybox"))["outcome"]["status"] == RUNNING
    (record,) = {copy.id for copy in group.copies("ash").values()}
    assert group.works(batch_job(record)) == {"h1"}
    group.hosts["h1"].go_on(ends=True)
    group.gc()
    assert group.places("ash") == {}
    group.end()


@pytest.mark.parametrize("stop", [None, *range(1, 12)])
def test_a_batch_session_that_is_to_begin_anew_does_so_wherever_that_is_stopped(
    make: Callable[..., Group], stop: int | None
) -> None:
    group = make()
    group.launch(wanted(size=2, batch_command="train", image="busybox"))
    (session,) = {copy.id for copy in group.copies("ash").values()}
    group.act("requeue", "h1", stop)
    for _twice in range(2):
        group.now += DEADLINE + 1
        group.schedule()
    copies = group.copies("ash").values()
    assert {(copy.id, copy.status) for copy in copies} == {(session, RUNNING)}
    assert group.works(batch_job(session)) == {"h1"}
    group.end()

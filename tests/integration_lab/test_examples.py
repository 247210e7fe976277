# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The examples run as their documentation says, across hosts and with several replicas on one; all take part."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.cluster_compute.session.tests.support.integration_lab.documents import (
    commands,
    here,
    read,
    run,
)
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    CHECKOUT,
    HOSTS,
    INVENTORY,
    REPLICAS,
    STATE,
    Run,
    Snapshot,
    clear,
    in_parallel,
    launch,
    play,
    recorded,
    replicas,
    script,
    teardown,
    try_on,
)

pytestmark = pytest.mark.stamped("examples")
FOLDER = CHECKOUT / "examples"
DOCUMENT = "docs/examples.md"
IMAGE, AS_NUMBER, AS_ROOT = (f"cluster-compute/examples{user}:latest" for user in ("", "-number", "-root"))
CARDS = [f"/dev/cc-gpu{number}" for number in range(8)]
"""Devices that the hosts have in place of cards."""
ON_THE_LAB = [
    ("-e session_image=registry.example.com/train:1.4", f"-e session_image={IMAGE}"),
    ("session_cpus=16", "session_cpus=1"),
    ("session_memory=64g", "session_memory=2g"),
    ("session_shm_size=16g", "session_shm_size=64m"),
    ("session_size=4", "session_size=3"),
]
"""What a site with cards has, and what the lab has instead."""


@dataclass(frozen=True)
class Ran:
    """What an example did: where its replicas were, and the lines that it wrote to standard output, in order."""

    placed: dict[str, str]
    said: list[str]
    run: Run = field(repr=False)

    def found(self, expression: str) -> list[tuple[str, ...]]:
        """Return the groups of the lines that match, in the order of the text."""
        return sorted(match.groups() for line in self.said if (match := re.fullmatch(expression, line)))

    @property
    def everywhere(self) -> list[tuple[str, str]]:
        """The replicas with their hosts, as the launch told them."""
        return sorted(self.placed.items())


def documented(ending: str) -> str:
    """Return the command of the documentation that ends so, for this lab."""
    (command,) = (here(command) for command in commands(read(DOCUMENT)) if command.endswith(ending))
    return command


def ran(command: str, seconds: float = 600) -> Ran:
    """Run a command that runs an example."""
    done = recorded(shlex.split(command), seconds).ok()
    lines = (re.fullmatch(r"main1/[0-9a-f]{12} \| (.*)", line) for line in done.output.splitlines())
    return Ran(done.placed, [match[1] for match in lines if match], done)


@pytest.fixture(scope="module", autouse=True)
def images(untouched_lab: Snapshot) -> Iterator[None]:
    """Give the hosts the image of the examples."""
    there = untouched_lab["n1"]["images"]
    try:
        recorded(shlex.split(documented("examples/images.yml")), 900).ok()
        yield
    finally:
        clear(*(asked(example)["session_name"] for example in (*EXAMPLES, *CHANGING)))
        remove = (
            "" if any(IMAGE in image for image in there) else f"docker rmi {IMAGE} {AS_NUMBER} {AS_ROOT} >/dev/null; "
        )
        in_parallel(lambda host: script(host, f"{remove}rm -rf {STATE}/output /srv/shared/examples"), HOSTS)


def every_worker_pushes(example_run: Ran) -> None:
    placed = {
        role: [each for each in example_run.everywhere if each[0].startswith(role)] for role in ("main", "ps", "worker")
    }
    assert example_run.found(r"judged in (\S+) on (\S+)") == placed["main"]
    assert example_run.found(r"shard in (\S+) on (\S+)") == placed["ps"]
    pushed = example_run.found(r"(\S+) on (\S+) pushed 200 times to (\S+)")
    assert pushed == [(*worker, server) for worker in placed["worker"] for server, _host in placed["ps"]]
    assert "learned 1.00 2.00 3.00 4.00" in example_run.said


def everybody_trains_one_model(example_run: Ran) -> None:
    size = len(example_run.placed)
    assert [
        found[1:] for found in example_run.found(rf"main1: rank (\d) of {size} in (\S+) on (\S+)")
    ] == example_run.everywhere
    assert f"main1: all {size} agree: y = 3.00 x + 1.00" in example_run.said


def every_mpi_adds_up(example_run: Ran) -> None:
    for library in ("Open MPI v4.1.4", "Open MPI v5.0.11", "MPICH Version: 5.0.2 MPICH"):
        found = example_run.found(rf"rank \d of 4 in (\S+) on (\S+): {re.escape(library)}")
        assert found == example_run.everywhere, library
    assert example_run.said.count("sum of 4 ranks: 6") == 3


def every_worker_squares(example_run: Ran) -> None:
    assert example_run.found(r"worker in (\S+) on (\S+)") == example_run.everywhere
    assert "sum of 1000 squares by 4 workers: 332833500" in example_run.said


def every_task_reads_the_object(example_run: Ran) -> None:
    assert example_run.found(r".*?(\S+) on (\S+) has read 256 MiB") == example_run.everywhere
    assert "3 tasks on 3 nodes" in example_run.said


def everybody_has_the_sum(example_run: Ran) -> None:
    assert example_run.found(r"main1: process \d of 4 in (\S+) on (\S+)") == example_run.everywhere
    assert "main1: sum over 4 processes: 6" in example_run.said


def everybody_learns_by_tensorflow(ran: Ran) -> None:
    said = ran.found(r"\S+: rank (\d) of 3 in (\S+) on (\S+): y = 3\.00 x \+ 1\.00")
    assert sorted(number for number, *_where in said) == ["0", "1", "2"]
    assert [tuple(where) for _number, *where in said] == ran.everywhere


def blocks_lie_on_two_hosts_each(ran: Ran) -> None:
    nodes = [place for place in ran.everywhere if place[0].startswith("datanode")]
    assert ran.found(r"data node (\S+) on (\S+)") == nodes
    assert len(nodes) == 3
    assert "6 blocks on 3 data nodes, each on 2 hosts, are what was written" in ran.said


def every_executor_counts(ran: Ran) -> None:
    assert ran.found(r"executor in (\S+) on (\S+)") == ran.everywhere
    assert "counted 6000 words by 3 executors" in ran.said


EXAMPLES: dict[str, Callable[[Ran], None]] = {
    "torchrun/session.yml": everybody_trains_one_model,
    "mpi/session.yml": every_mpi_adds_up,
    "dask/session.yml": every_worker_squares,
    "ray/session.yml": every_task_reads_the_object,
    "accelerate/session.yml": everybody_trains_one_model,
    "deepspeed/session.yml": everybody_trains_one_model,
    "spark/session.yml": every_executor_counts,
    "jax/session.yml": everybody_has_the_sum,
    "tensorflow/session.yml": everybody_learns_by_tensorflow,
    "parameter_server/session.yml": every_worker_pushes,
    "storage/session.yml": blocks_lie_on_two_hosts_each,
}
"""The variables of an example, and what judges that all its replicas took part."""
CHANGING = ("torchrun/elastic.yml", "dask/elastic.yml", "ray/elastic.yml")
"""Examples whose replicas come and go while they run."""


def asked(example: str) -> dict[str, Any]:
    """Return the variables of an example."""
    return dict(yaml.safe_load((FOLDER / example).read_text(encoding="utf-8")))


@contextmanager
def removed_if_it_fails(session_name: str) -> Iterator[None]:
    """Tear a session down that could hold its place; one that has ended goes with the next launch."""
    try:
        yield
    except BaseException:
        teardown(session_name)
        raise


@pytest.mark.parametrize("example", EXAMPLES)
def test_all_replicas_take_part(example: str) -> None:
    variables = asked(example)
    with removed_if_it_fails(variables["session_name"]):
        found = ran(documented(f"@examples/{example}"))
        size = variables.get("session_size") or sum(role.get("replicas", 1) for role in variables["session_roles"])
        assert len(found.placed) == size
        hosts = list(found.placed.values())
        assert len(set(hosts)) >= 2, "it spans hosts"
        assert len(set(hosts)) < len(hosts), "a host has several replicas"
        EXAMPLES[example](found)


@pytest.mark.parametrize(
    ("host", "image", "example"),
    [
        ("n1", AS_ROOT, "mpi/session.yml"),
        ("n3", AS_NUMBER, "mpi/session.yml"),
        ("n3", AS_NUMBER, "dask/session.yml"),
    ],
)
def test_all_replicas_take_part_on_one_host(host: str, image: str, example: str) -> None:
    """The hosts have engines of two generations; the users are root and a number without a name."""
    variables = asked(example)
    place = f"-e session_mode=single-node -e session_hosts={host} -e session_max_replicas_per_host=4"
    share = f"-e session_image={image} -e session_cpus=0.5 -e session_memory=500m"
    with removed_if_it_fails(variables["session_name"]):
        found = ran(f"{documented(f'@examples/{example}')} {place} {share}")
        assert found.everywhere == [(name, host) for name in ("main1", "sub1", "sub2", "sub3")]
        EXAMPLES[example](found)


def test_every_example_is_run() -> None:
    files = {str(path.relative_to(FOLDER)) for path in FOLDER.glob("*/*.yml") if "session_name:" in path.read_text()}
    assert files == {*EXAMPLES, *CHANGING}
    assert len(commands(read(DOCUMENT))) == len(files) + 1


@contextmanager
def at_work(example: str, **env: str) -> Iterator[tuple[dict[str, Any], Future[Ran]]]:
    """Run an example while something is done to it; give its variables, with more environment, and what it does."""
    variables = asked(example)
    variables["session_env"] = {**variables.get("session_env", {}), **env}
    more = json.dumps({"session_env": variables["session_env"]})
    # What an example before it has written would be taken for its own.
    script("n1", "rm -f /srv/shared/examples/runs/* /srv/shared/examples/checkpoints/*")
    with removed_if_it_fails(variables["session_name"]), ThreadPoolExecutor(1) as pool:
        running = pool.submit(ran, f"{documented(f'@examples/{example}')} -e {shlex.quote(more)}")
        try:
            yield variables, running
        except BaseException:
            teardown(variables["session_name"])  # so that it ends
            raise


def await_in_shared(condition: str, running: Future[Ran]) -> None:
    """Wait until a command succeeds in the folder of the examples, which all hosts share; meanwhile one runs."""
    deadline = time.monotonic() + 400
    while try_on("n1", ["sh", "-c", f"cd /srv/shared/examples && {condition}"]).returncode:
        assert not running.done(), running.result().run.output
        assert time.monotonic() < deadline, condition
        time.sleep(0.5)


def starts(name: str, hosts: Iterable[str] = HOSTS) -> dict[str, str]:
    """Return when the first process of each replica on *hosts* was started, by its container."""
    look = f"docker ps -q --filter label=cluster-compute.session-name={name} | "
    look += "xargs -r docker inspect -f '{{.Name}} {{.State.StartedAt}}'"
    found = "".join(in_parallel(lambda host: script(host, look), hosts))
    return dict(line.lstrip("/").split(" ") for line in found.splitlines())


def test_a_training_goes_on_by_itself_where_a_process_and_a_host_are_lost() -> None:
    with at_work("torchrun/elastic.yml", KILLED="sub2", STEPS="60", PAUSE="0.3") as (_variables, training):
        await_in_shared("grep -q 'step 30' checkpoints/*.log", training)
        lost = replicas("elastic")["sub2"].host
        others = [host for host in HOSTS if host != lost]
        before = starts("elastic", others)
        play("lab_power_cut", {"lab_host": lost}).ok()
        try:
            began = time.monotonic()
            play("replace_lost", {"session_name": "elastic"}).ok()
            print(f"at full size {time.monotonic() - began:.1f} s after the command")
            after = starts("elastic", others)
            found = training.result()
            print(f"trained {time.monotonic() - began:.1f} s after it")
        finally:
            play("lab_boot", {"lab_host": lost}).ok()
    print(*found.said, sep="\n")
    assert before.keys() == {"elastic-main1", "elastic-sub1"}
    assert {name: after.pop(name) for name in before} == before
    assert after.keys() == {"elastic-sub2"}
    begun = [match.groups() for line in found.said if (match := re.fullmatch(r"(\d) begin at (\d+): (.*)", line))]
    (first, *_more), last = begun, begun[-1]
    everywhere = ", ".join(f"{name} on {host}" for name, host in found.everywhere)
    assert begun[:2] == [("3", "0", everywhere), ("3", "10", everywhere)]
    assert (first[0], last[0]) == ("3", "3")
    assert int(last[1]) >= 30
    assert f"sub2 on {lost}" in first[2]
    assert re.search(f"sub2 on ({'|'.join(others)})", last[2])
    losses = [(int(step), float(loss)) for step, loss in found.found(r"step (\d+): loss (\S+)")]
    assert {step for step, _loss in losses} == {10, 20, 30, 40, 50, 60}
    assert max(losses)[1] < min(losses)[1]


@pytest.mark.parametrize("example", CHANGING[1:])
def test_no_task_is_lost_while_a_session_grows_and_shrinks_under_load(example: str) -> None:
    with at_work(example, LOAD_SECONDS="500") as (variables, load):
        name = variables["session_name"]
        await_in_shared("ls runs/*.sub2", load)
        before = starts(name)
        launch({**variables, "session_size": 6}).ok()
        await_in_shared("ls runs/*.sub3 runs/*.sub4 runs/*.sub5", load)
        assert not load.done()
        launch(variables).ok()
        main = replicas(name)["main1"]
        assert not load.done()
        assert starts(name) == before
        main.run("touch", "/tmp/enough")
        found = load.result()
    # Ray may say more, of a node that left it.
    names = [line.split()[0] for line in found.said[:-1] if re.match(r"(main|sub)\d ", line)]
    assert names == ["main1", *(f"sub{number}" for number in range(1, 6))]
    (counts,) = found.found(r"(\d+) of (\d+) tasks done, (\d+) of them run again")
    assert counts[0] == counts[1]
    # A few at most: those that went had their time to hand over what they held.
    assert int(counts[2]) < 10


@pytest.fixture
def cards(tmp_path: Path) -> Iterator[str]:
    """Give the inventory of a site whose hosts have cards."""
    wanted = {"cluster_compute_accelerators": {"gpu": CARDS}, "cluster_compute_memory": "4g"}
    overlay = tmp_path / "cards.json"
    overlay.write_text(json.dumps({"all": {"hosts": dict.fromkeys(HOSTS, wanted)}}), encoding="utf-8")
    make = "".join(f"mknod -m 666 {path} c 1 5\n" for path in CARDS)
    remove = f"rm -f {' '.join(CARDS)}"
    try:
        in_parallel(lambda host: script(host, f"{remove}\n{make}"), HOSTS)
        yield f"{INVENTORY} -i {overlay}"
    finally:
        in_parallel(lambda host: script(host, remove), HOSTS)


def test_the_way_from_hosts_with_cards_to_ranks(cards: str) -> None:
    prepare, train, launch, copy, job, end = commands(read("docs/torchrun.md"))

    def on_the_lab(command: str) -> str:
        for old, new in [
            ("inventories/minimal.sessions.yml", str(REPLICAS)),
            ("inventories/minimal", cards),
            *ON_THE_LAB,
        ]:
            command = command.replace(old, new)
        return command

    try:
        run(on_the_lab(prepare))
        found = ran(on_the_lab(train))
        assert len(found.placed) == 4
        took_part = found.found(r"main1: rank (\d+) of 16 in (\S+) on (\S+)")
        assert sorted(int(number) for number, *_where in took_part) == list(range(16))
        assert sorted(tuple(where) for _number, *where in took_part) == sorted(found.everywhere * 4)
        assert "main1: all 16 agree: y = 3.00 x + 1.00" in found.said
        for command in (launch, copy):
            run(on_the_lab(command))
        assert "all 3 agree: y = 3.00 x + 1.00" in run(on_the_lab(job))
        run(on_the_lab(end))
    finally:
        for name in ("torchrun", "trial"):
            teardown(name).ok()

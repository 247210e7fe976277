# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The examples run as their documentation says, across hosts and with several replicas on one; all take part."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml
from ansible_collections.cluster_compute.session.tests.integration_lab.driver import (
    CHECKOUT,
    HOSTS,
    INVENTORY,
    STATE,
    Run,
    Snapshot,
    in_parallel,
    recorded,
    script,
    teardown,
)

FOLDER = CHECKOUT / "examples"
IMAGES = ("cluster-compute/examples:latest", "cluster-compute/examples-number:latest")


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


def ansible_playbook(*arguments: str, seconds: float = 300) -> Run:
    """Run a playbook of the examples."""
    return recorded(["ansible-playbook", "-i", str(INVENTORY), *arguments], seconds)


@pytest.fixture(scope="module", autouse=True)
def images(untouched_lab: Snapshot) -> Iterator[None]:
    """Give the hosts the image of the examples."""
    there = untouched_lab["n1"]["images"]
    try:
        ansible_playbook("examples/images.yml", seconds=900).ok()
        yield
    finally:
        remove = "" if any(IMAGES[0] in image for image in there) else f"docker rmi {' '.join(IMAGES)} >/dev/null; "
        in_parallel(lambda host: script(host, f"{remove}rm -rf {STATE}/output /srv/shared/examples"), HOSTS)


def everybody_trains_one_model(ran: Ran) -> None:
    size = len(ran.placed)
    assert [found[1:] for found in ran.found(rf"main1: rank (\d) of {size} in (\S+) on (\S+)")] == ran.everywhere
    assert f"main1: all {size} agree: y = 3.00 x + 1.00" in ran.said


def one_is_lost_and_comes_back(ran: Ran) -> None:
    size = len(ran.placed)
    begun = rf"\S+: rank \d of {size} in (\S+) on (\S+) begins at (\d+)"
    for step in ("0", "40"):
        assert [one[:2] for one in ran.found(begun) if one[2] == step] == ran.everywhere
    assert ran.found(r"\S+: rank (\d) has counted to (\d+)") == [(str(rank), "100") for rank in range(size)]


def every_mpi_adds_up(ran: Ran) -> None:
    for library in ("Open MPI v4.1.4", "Open MPI v5.0.11", "MPICH Version: 5.0.2 MPICH"):
        found = ran.found(rf"rank \d of 4 in (\S+) on (\S+): {re.escape(library)}")
        assert found == ran.everywhere, library
    assert ran.said.count("sum of 4 ranks: 6") == 3


def every_worker_squares(ran: Ran) -> None:
    assert ran.found(r"worker in (\S+) on (\S+)") == ran.everywhere
    assert "sum of 1000 squares by 4 workers: 332833500" in ran.said


def every_task_reads_the_object(ran: Ran) -> None:
    assert ran.found(r".*?(\S+) on (\S+) has read 256 MiB") == ran.everywhere
    assert "4 tasks on 4 nodes" in ran.said


def everybody_has_the_sum(ran: Ran) -> None:
    assert ran.found(r"main1: process \d of 4 in (\S+) on (\S+)") == ran.everywhere
    assert "main1: sum over 4 processes: 6" in ran.said


EXAMPLES: dict[str, Callable[[Ran], None]] = {
    "torchrun/session.yml": everybody_trains_one_model,
    "torchrun/elastic.yml": one_is_lost_and_comes_back,
    "mpi/session.yml": every_mpi_adds_up,
    "dask/session.yml": every_worker_squares,
    "ray/session.yml": every_task_reads_the_object,
    "accelerate/session.yml": everybody_trains_one_model,
    "jax/session.yml": everybody_has_the_sum,
}
"""The variables of an example, and what judges that all its replicas took part."""


def asked(example: str) -> dict[str, Any]:
    """Return the variables of an example."""
    return dict(yaml.safe_load((FOLDER / example).read_text(encoding="utf-8")))


@pytest.mark.parametrize("example", EXAMPLES)
def test_all_replicas_take_part(example: str) -> None:
    variables = asked(example)
    try:
        run = ansible_playbook("examples/run.yml", "-e", f"@examples/{example}").ok()
        said = [
            match[1] for line in run.output.splitlines() if (match := re.fullmatch(r"main1/[0-9a-f]{12} \| (.*)", line))
        ]
        ran = Ran(run.placed, said, run)
        size = variables.get("session_size") or sum(role.get("replicas", 1) for role in variables["session_roles"])
        assert len(ran.placed) == size
        hosts = list(ran.placed.values())
        assert len(set(hosts)) >= 2, "it spans hosts"
        assert len(set(hosts)) < len(hosts), "a host has several replicas"
        EXAMPLES[example](ran)
    finally:
        teardown(variables["session_name"]).ok()


def test_every_example_is_run() -> None:
    sessions = {str(path.relative_to(FOLDER)) for path in FOLDER.glob("*/*.yml") if "session_name:" in path.read_text()}
    assert sessions == set(EXAMPLES)

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a launch decides where other runs are at work on the same session."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.cluster.group import (
    GroupFacts,
    waiting_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.answers import (
    FactsAnswer,
    read_answers,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import (
    COMMITTED,
    CONFIRMED,
    Claim,
    Reservation,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import (
    decode,
    encode,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.launch_state import HostClaim
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.plan import PinnedImage
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    ERROR,
    PENDING,
    RUNNING,
    QueueTicket,
    Record,
    advance,
    new_record,
    prepared,
    read_record,
    started,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import (
    Request,
    parse_request,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.planning.launch import (
    answer_to_queued,
    decide,
    run,
    warnings_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.planning.planner import (
    Order,
    Planner,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.access import ADMIN, Asker
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.build import (
    PlanInputs,
    build_plan,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.capacity import (
    hosts_from_facts,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.ledger import claims_of
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.packing import Task
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.share import Shares
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.site import Settings
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import (
    InvalidInput,
    InvalidPlan,
    RenamedHost,
)
from ansible_collections.cluster_compute.session.plugins.plugin_utils.image_archive import read_archive
from ansible_collections.cluster_compute.session.tests.support.core.rules.examples import path_facts
from ansible_collections.cluster_compute.session.tests.support.core.verbs.group import IMAGE
from ansible_collections.cluster_compute.session.tests.support.core.verbs.group import (
    facts as host,
)
from ansible_collections.cluster_compute.session.tests.support.host_facts import typed
from ansible_collections.cluster_compute.session.tests.support.plans import placed

KEYS = [
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAID0D3s8E9JWn04xEIs9iqqoeVlWJbCLHvqIY+zMlCfIT alice@laptop",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFGmJ/gx/8z/eHNzAzghDtUKw9fasWzqtpwji3eUm1OG",
]
SESSION = "3614fdf3-0e04-4a3c-9d2a-53a1f7b2c8aa"


def request(**given: Any) -> Request:
    values = {"name": "train", "image": "busybox", **given}
    return parse_request({f"session_{key}": value for key, value in values.items()})


def planner(
    wanted: Request,
    unreachable: Sequence[str] = (),
    owner: str = "alice",
    shared_with: Sequence[str] = (),
    asker: Asker = ADMIN,
    settings: Settings | None = None,
    inventory: dict[str, dict[str, Any]] | None = None,
    recreate: bool = False,
    **hosts: dict[str, Any],
) -> Planner:
    results: dict[str, dict[str, Any]] = {
        **{name: {"host": facts} for name, facts in hosts.items()},
        **{name: {"unreachable": True} for name in unreachable},
    }
    group = GroupFacts.read(read_answers(FactsAnswer, results), inventory or {name: {} for name in results})
    return Planner(
        Order(wanted, owner, recreate, shared_with, asker),
        group,
        settings or Settings(),
        draw=lambda: str(uuid.uuid4()),
        read_archive=lambda request: read_archive(str(request.image_archive)),
    )


def waiting(wanted: Request) -> Record:
    return advance(new_record(SESSION, "alice", wanted.to_dict()), PENDING, "No room.", queue=QueueTicket(1))


@pytest.mark.parametrize(("stage", "status"), [(CONFIRMED, "WAITING"), (COMMITTED, "SCHEDULED")])
def test_a_session_that_only_some_hosts_have_started_is_left_to_who_starts_it(stage: str, status: str) -> None:
    wanted = request(size=3)
    idle = {"h1": host(), "h2": host(number=2)}
    found = placed(wanted, hosts_from_facts(typed(idle), {}))
    plan = build_plan(wanted, found, SESSION, PlanInputs(typed(idle), Settings()))
    claims = claims_of(plan)
    record = prepared(new_record(SESSION, "alice", wanted.to_dict()), encode(plan))
    done = Reservation(claims["h1"], COMMITTED, "boot", None)
    other = Reservation(claims["h2"], stage, "boot", None if stage == COMMITTED else 100.0, "run")
    answer = run(
        planner(wanted, h1=host(started(record), held=[done]), h2=host(record, held=[other], number=2)), cleaned_up=True
    )
    assert (answer["status"], answer["fresh"]) == (status, status == "WAITING")


def remapping(facts: dict[str, Any]) -> dict[str, Any]:
    """Return what a host reports whose engine maps the users of containers to others."""
    return {**facts, "engine": {**facts["engine"], "remaps_users": True}}


@pytest.mark.parametrize("given", [{"size": 2}, {"max_size": 2}, {"authorized_keys": KEYS[0]}])
def test_a_host_whose_replicas_could_not_read_their_keys_is_left_out(given: dict[str, Any]) -> None:
    wanted = request(**given)
    answer = run(planner(wanted, h1=remapping(host()), h2=host(number=2)), cleaned_up=True)
    assert (answer["status"], answer["hosts"]) == ("SCHEDULED", ["h2"])
    with pytest.raises(InvalidInput, match="host h1 is 'not usable for this session': Its engine maps the users"):
        run(planner(wanted, h1=remapping(host())), cleaned_up=True)
    full = [Reservation(Claim(SESSION, "other", 1, 2000, 1), COMMITTED, "boot", None)]
    answer = run(planner(wanted, h1=remapping(host()), h2=host(held=full, number=2)), cleaned_up=True)
    assert answer["status"] == "PENDING"
    assert [line for line in answer["report"] if line.startswith("h1: Its engine maps the users of containers")]
    (entry,), problems = waiting_of([waiting(wanted)], Shares(), typed({"h1": remapping(host()), "h2": host(number=2)}))
    assert (problems, dict(entry.slots), [*entry.obstacles]) == ([], {"h1": 0}, ["h1"])


def test_a_replica_without_keys_runs_where_users_are_mapped() -> None:
    assert run(planner(request(), h1=remapping(host())), cleaned_up=True)["hosts"] == ["h1"]


@pytest.mark.parametrize("known", ["nothing", "an older one", "the same"])
def test_what_only_another_host_says_is_compared_with_what_the_site_grants(known: str) -> None:
    """A host that was taken over may say that a disk of all others is a session's."""
    wanted = request(size=2, max_replicas_per_host=1, accelerators="gpu=1")
    idle = {"h1": host(), "h2": host(number=2)}
    claimed = {key: {"cluster_compute_accelerators": {"gpu": ["/dev/sda"]}} for key in idle}
    hosts = hosts_from_facts(typed(idle), claimed)
    free = {each.name: each.free_devices for each in hosts}
    plan = build_plan(wanted, placed(wanted, hosts), SESSION, PlanInputs(typed(idle), Settings(), free))
    record = started(prepared(new_record(SESSION, "alice", wanted.to_dict()), encode(plan)))
    own = [] if known == "nothing" else [replace(record, revision=1) if known == "an older one" else record]
    launch = planner(wanted, h1=host(record), h2=host(*own, number=2))
    if known == "the same":
        assert run(launch, cleaned_up=True)["status"] == "SCHEDULED"
        return
    with pytest.raises(InvalidPlan, match="gives sub1 the 'gpu' '/dev/sda' of h2") as error:
        run(launch, cleaned_up=True)
    assert "of h1" not in str(error.value), "what a host has itself it was given by a launch"


def cards(**amounts: int) -> dict[str, dict[str, Any]]:
    """Return the inventory of hosts with so many CPUs, each with two accelerators."""
    paths = ["/dev/card0", "/dev/card1"]
    return {
        name: {"cluster_compute_cpus": cpus, "cluster_compute_accelerators": {"card": paths}}
        for name, cpus in amounts.items()
    }


def cpus_of(record: dict[str, Any]) -> list[int]:
    """Return the millicpus of each role of a record."""
    return [role["resources"]["cpus"] for role in record["request"]["roles"]]


def test_a_session_keeps_its_share_of_a_host_while_hosts_come_and_go() -> None:
    wanted = request(size=2, accelerators="card=1")
    first = run(planner(wanted, inventory=cards(h1=8, h2=8), h1=host(), h2=host(number=2)), cleaned_up=True)
    assert cpus_of(first["record"]) == [4000, 4000]
    share = "4 CPUs (the share of a host)"
    assert [line.split(",")[0] for line in first["report"][1:]] == [
        f"Each replica of {role}: {share}" for role in ("main", "sub")
    ]
    assert [replica["resources"]["cpus"] for replica in first["record"]["plan"]["replicas"]] == [4000, 4000]
    held = [Reservation(decode(HostClaim, first["claims"]["h1"], "claim").claim, COMMITTED, "boot", None)]
    runs = {"h1": host(started(read_record(first["record"])), held=held), "h2": host(number=2), "h3": host(number=3)}
    smaller = cards(h1=6, h2=8, h3=2)

    def later(asked: Request, third: dict[str, Any] | None = None, recreate: bool = False) -> Planner:
        hosts = {**runs, "h3": third or runs["h3"]}
        return planner(asked, inventory=smaller, recreate=recreate, h1=hosts["h1"], h2=hosts["h2"], h3=hosts["h3"])

    another = request(name="other", accelerators="card=1")
    assert later(another).request.roles[0].resources.cpus == 1000
    drained = {**host(number=3), "drained": "Its memory is replaced."}
    assert later(another, drained).request.roles[0].resources.cpus == 3000
    again = run(later(wanted), cleaned_up=True)
    assert (again["status"], again["fresh"]) == ("SCHEDULED", False)
    twice = request(size=2, accelerators="card=2")
    assert run(later(twice), cleaned_up=True)["status"] == "DIFFERENT"
    other = request(size=2, accelerators="card=1", env={"A": "1"})
    failure = run(later(other), cleaned_up=True)["failure"]
    assert "env.A" in failure
    assert "cpus" not in failure
    anew = run(later(other, recreate=True), cleaned_up=True)
    assert cpus_of(anew["record"]) == [1000, 1000]


def test_a_session_that_waits_keeps_its_share_and_its_place() -> None:
    wanted = request(accelerators="card=1")
    full = [Reservation(Claim(SESSION, "other", 1, 8000, 1), COMMITTED, "boot", None)]
    first = run(planner(wanted, inventory=cards(h1=8), h1=host(held=full)), cleaned_up=True)
    assert (first["status"], cpus_of(first["pending"])) == ("PENDING", [4000])
    assert first["report"][1].startswith("Each replica of main: 4 CPUs")
    record = read_record(first["pending"])
    later = planner(wanted, inventory=cards(h1=8, h2=2), h1=host(record, held=full), h2=host(number=2))
    assert decide(later, record, queued=False, cleaned_up=True)["status"] == "PENDING"
    # The host for which it waited left, and it takes the share of another, at its place in the queue.
    gone = decide(
        planner(wanted, inventory=cards(h2=2), h2=host(record, number=2)), record, queued=True, cleaned_up=True
    )
    assert (gone["hosts"], cpus_of(gone["record"])) == (["h2"], [1000])
    full = [Reservation(Claim(SESSION, "other", 1, 2000, 1), COMMITTED, "boot", None)]
    still = planner(wanted, inventory=cards(h2=2), h2=host(record, held=full, number=2))
    kept = decide(still, record, queued=False, cleaned_up=True)
    assert (kept["status"], cpus_of(kept["pending"]), kept["pending"]["queue"]["number"]) == ("PENDING", [1000], 1)
    freed = planner(wanted, inventory=cards(h1=8, h2=2), h1=host(record), h2=host(number=2))
    assert decide(freed, record, queued=True, cleaned_up=True)["hosts"] == ["h1"]


def test_a_host_whose_default_runtime_has_changed_is_left_out() -> None:
    known = host()
    stale = {**known, "engine": {**known["engine"], "stale_runtime": "Its engine's default runtime is kata."}}
    answer = run(planner(request(size=2), h1=stale, h2=host(number=2)), cleaned_up=True)
    assert (answer["status"], answer["hosts"]) == ("SCHEDULED", ["h2"])
    with pytest.raises(InvalidInput, match="host h1 is 'not usable for this session': Its engine's default runtime"):
        run(planner(request(max_size=2), h1=stale), cleaned_up=True)
    assert run(planner(request(), h1=stale), cleaned_up=True)["hosts"] == ["h1"], "it does not start by the entry"


@pytest.mark.parametrize("changed", ["its keys", "its port as well", "its last key"])
def test_other_keys_are_taken_by_a_session_that_runs(changed: str) -> None:
    idle = {"h1": host()}
    before = request(authorized_keys=KEYS[0])
    plan = build_plan(
        before, placed(before, hosts_from_facts(typed(idle), {})), SESSION, PlanInputs(typed(idle), Settings())
    )
    record = started(prepared(new_record(SESSION, "alice", before.to_dict()), encode(plan)))
    held = [Reservation(claims_of(plan)["h1"], COMMITTED, "boot", None)]
    settings: dict[str, dict[str, Any]] = {
        "its keys": {"authorized_keys": KEYS},
        "its port as well": {"authorized_keys": KEYS, "ssh_port": 5},
    }
    answer = run(planner(request(**settings.get(changed, {})), h1=host(record, held=held)), cleaned_up=True)
    if changed != "its keys":
        assert answer["status"] == "DIFFERENT"
        assert "session_recreate=true" in answer["failure"]
        assert "authorized_keys.SHA256:" in answer["failure"]
        return
    assert (answer["status"], answer["fresh"]) == ("SCHEDULED", False)
    renewed = answer["record"]
    assert (renewed["status"], renewed["revision"]) == (RUNNING, record.revision + 1)
    assert renewed["request"]["authorized_keys"] == renewed["plan"]["request"]["authorized_keys"] == KEYS
    assert renewed["plan"]["replicas"] == encode(plan.replicas)
    assert "authorized_keys.SHA256:" in answer["diff"]["after"]


@pytest.mark.parametrize("queued", [False, True])
def test_no_session_is_launched_where_hosts_have_changed_their_names(queued: bool) -> None:
    """Before anything is cleaned up, and without a session from the queue leaving it."""
    idle = {"h1": host()}
    before = request(name="demo")
    plan = build_plan(
        before, placed(before, hosts_from_facts(typed(idle), {})), SESSION, PlanInputs(typed(idle), Settings())
    )
    record = started(prepared(new_record(SESSION, "alice", before.to_dict()), encode(plan)))
    here = host(record, held=[Reservation(claims_of(plan)["h1"], COMMITTED, "boot", None)], host_names={SESSION: "h1"})
    for wanted in (before, request(name="other")):
        with pytest.raises(RenamedHost, match="node1 is h1 in session demo"):
            decide(planner(wanted, node1=here, h1=host()), None, queued, cleaned_up=False)
        for name in ("h1", "node1"):
            hosts: dict[str, Any] = {name: here}
            found = decide(planner(wanted, **hosts), None, queued, cleaned_up=False)
            assert (found["status"], found["hosts"]) == ("SCHEDULED", [name])


def test_a_port_of_the_site_is_refused_before_anything_is_placed() -> None:
    wanted = request(size=3, ports="4789:9/udp")
    with pytest.raises(InvalidInput, match="4789/udp is one of the site's own"):
        decide(planner(wanted, h1=host()), None, False, cleaned_up=True)


def test_one_that_was_asked_for_differently_is_refused_with_the_difference() -> None:
    idle = {"h1": host()}
    before = request(size=2, cpus="0.5", memory="256m", env={"GREETING": "hello"})
    plan = build_plan(
        before, placed(before, hosts_from_facts(typed(idle), {})), SESSION, PlanInputs(typed(idle), Settings())
    )
    record = started(prepared(new_record(SESSION, "alice", before.to_dict()), encode(plan)))
    held = [Reservation(claims_of(plan)["h1"], COMMITTED, "boot", None)]
    wanted = request(size=1, cpus="0.5", memory="128m", env={"GREETING": "s3cret"})
    answer = run(planner(wanted, h1=host(record, held=held)), cleaned_up=True)
    assert answer["status"] == "DIFFERENT"
    assert "session_recreate=true" in answer["failure"]
    assert "256MiB -> 128MiB" in answer["failure"]
    assert "128MiB" in answer["diff"]["after"]
    assert re.search(r"size|replicas", answer["failure"])
    assert "s3cret" not in str(answer)
    assert "record" not in answer


def test_an_archive_of_images_is_read_only_where_a_host_lacks_one(tmp_path: Path) -> None:
    idle = {"h1": host()}
    wanted = request(image_archive=str(tmp_path / "gone.tar"))
    plan = build_plan(
        wanted, placed(wanted, hosts_from_facts(typed(idle), {})), SESSION, PlanInputs(typed(idle), Settings())
    )
    plan = replace(plan, images={"busybox": PinnedImage(None, {"h1": IMAGE})})
    record = started(prepared(new_record(SESSION, "alice", wanted.to_dict()), encode(plan)))
    held = [Reservation(claims_of(plan)["h1"], COMMITTED, "boot", None)]
    image = {"id": IMAGE, "digests": [], "architecture": "amd64"}
    assert (
        run(planner(wanted, h1=host(record, held=held, images={IMAGE: image})), cleaned_up=True)["status"]
        == "SCHEDULED"
    )
    with pytest.raises(InvalidInput, match=r"gone\.tar"):
        run(planner(wanted, h1=host(record, held=held, images={IMAGE: None})), cleaned_up=True)


def test_one_that_waits_is_launched_in_its_turn() -> None:
    record = waiting(request())
    assert answer_to_queued(planner(request(), h1=host(record)), record) is None
    placed = prepared(record, {"session": {"id": SESSION, "name": "train"}, "hosts": {}, "replicas": []})
    assert answer_to_queued(planner(request(), h1=host(placed)), record) is None


def test_one_that_was_cancelled_is_not_launched() -> None:
    answer = answer_to_queued(planner(request(), h1=host(), h2=host()), waiting(request()))
    assert answer is not None
    assert (answer["status"], answer["pending"]) == ("CANCELLED", None)


def test_one_that_has_ended_is_not_launched() -> None:
    record = waiting(request())
    ended = advance(record, ERROR, "x", report=("Its image is gone.",))
    answer = answer_to_queued(planner(request(), h1=host(ended)), record)
    assert answer is not None
    assert (answer["status"], answer["pending"]["status"]) == ("REFUSED", ERROR)
    assert "Its image is gone." in answer["report"]


def test_one_that_was_asked_for_differently_is_not_launched_as_it_was() -> None:
    record = waiting(request())
    changed = advance(record, PENDING, "x", request=request(priority=5).to_dict())
    answer = answer_to_queued(planner(request(), h1=host(changed)), record)
    assert answer is not None
    assert answer["status"] == "CANCELLED"
    assert "request was changed" in answer["report"][1]


@pytest.mark.parametrize("known", ["away", "damaged", "an older copy"])
def test_one_that_only_hosts_know_which_cannot_be_looked_at_waits_on(known: str) -> None:
    old = waiting(request())
    record = advance(old, PENDING, "x", request=request(priority=5).to_dict())
    copies = [old] if known == "an older copy" else []
    looked_at = planner(
        request(priority=5),
        unreachable=["h2"] if known != "damaged" else [],
        h1=host(*copies, damaged=["The record is damaged."] if known == "damaged" else []),
    )
    answer = answer_to_queued(looked_at, record)
    assert answer is not None
    assert (answer["status"], answer["pending"]) == ("PENDING", encode(record))
    tombstone = [{"id": SESSION, "name": "train", "hosts": ["h2"]}]
    cancelled = answer_to_queued(
        planner(request(priority=5), unreachable=["h2"], h1=host(tombstones=tombstone)), record
    )
    assert cancelled is not None
    assert cancelled["status"] == "CANCELLED"


def running(wanted: Request, **others: Any) -> tuple[Record, dict[str, Any]]:
    """Return the record of a session of alice's that runs, and its host."""
    idle = {"h1": host()}
    plan = build_plan(
        wanted, placed(wanted, hosts_from_facts(typed(idle), {})), SESSION, PlanInputs(typed(idle), Settings())
    )
    record = started(prepared(new_record(SESSION, "alice", wanted.to_dict(), **others), encode(plan)))
    return record, host(record, held=[Reservation(claims_of(plan)["h1"], COMMITTED, "boot", None)])


@pytest.mark.parametrize(
    "wanted", [request(), request(authorized_keys=KEYS), request(size=2)], ids=["same", "keys", "size"]
)
@pytest.mark.parametrize("waits", [False, True])
def test_a_name_of_somebody_else_is_refused_before_anything_is_cleaned_up(wanted: Request, waits: bool) -> None:
    _record, here = running(request(authorized_keys=KEYS[0]), shared_with=["bob"])
    if waits:
        here = host(waiting(request()))
    with pytest.raises(InvalidInput, match=r"session_name is 'train': It belongs to alice.* You are eve."):
        run(planner(wanted, owner="eve", asker=Asker("eve", is_admin=False), h1=here), cleaned_up=False)
    for asker in (Asker("alice", is_admin=False), ADMIN):
        assert run(planner(wanted, asker=asker, h1=here), cleaned_up=True)["status"] in ("SCHEDULED", "DIFFERENT")


def test_a_name_of_a_session_that_has_ended_is_free() -> None:
    ended = advance(waiting(request()), ERROR, "It failed.")
    answer = run(planner(request(), owner="eve", asker=Asker("eve", is_admin=False), h1=host(ended)), cleaned_up=True)
    assert (answer["status"], answer["record"]["owner"]) == ("SCHEDULED", "eve")


@pytest.mark.parametrize("waits", [False, True])
def test_its_owner_shares_it_with_others_while_it_runs_or_waits(waits: bool) -> None:
    record, here = running(request(), shared_with=["bob"])
    if waits:
        record = replace(waiting(request()), shared_with=("bob",))
        here = host(record)
    answer = run(planner(request(), shared_with=("carol",), h1=here), cleaned_up=True)
    assert answer["status"] == "SCHEDULED"
    assert answer["record"]["shared_with"] == ["carol"]
    assert answer["record"]["revision"] > record.revision
    again = run(planner(request(), shared_with=("bob",), h1=here), cleaned_up=True)
    assert again["record"]["revision"] == record.revision + waits  # one that waits is prepared


@pytest.mark.parametrize("asker", [Asker("bob", is_admin=False), ADMIN], ids=["one it is shared with", "an admin"])
def test_others_leave_it_its_owners(asker: Asker) -> None:
    record, here = running(request(), shared_with=["bob"])
    answer = run(planner(request(), owner=asker.name, asker=asker, h1=here), cleaned_up=True)
    assert (answer["record"]["owner"], answer["record"]["shared_with"]) == ("alice", ["bob"])
    assert answer["record"]["revision"] == record.revision
    replacing = planner(request(size=2), owner=asker.name, asker=asker, h1=here)
    replacing.recreate = True
    made = run(replacing, cleaned_up=True)
    assert made["replaces"]
    assert (made["record"]["owner"], made["record"]["shared_with"]) == ("alice", ["bob"])


def test_nobody_it_is_shared_with_shares_it_with_others_by_naming_its_owner() -> None:
    _record, here = running(request(), shared_with=["bob"])
    given: dict[str, Any] = {"owner": "alice", "shared_with": ("bob", "eve"), "h1": here}
    found = run(planner(request(), asker=Asker("bob", is_admin=False), **given), cleaned_up=True)
    assert found["record"]["shared_with"] == ["bob"]
    for asker in (Asker("alice", is_admin=False), ADMIN):
        assert run(planner(request(), asker=asker, **given), cleaned_up=True)["record"]["shared_with"] == ["bob", "eve"]


@pytest.mark.parametrize("queued", [False, True])
def test_a_launch_that_has_waited_does_not_share_it_as_it_was_shared_before(queued: bool) -> None:
    before = replace(waiting(request()), shared_with=("bob",))
    now = advance(before, PENDING, "Its request was changed.", shared_with=())
    found = decide(planner(request(), shared_with=("bob",), h1=host(now)), before, queued, cleaned_up=True)
    assert (found["status"], found["record"].get("shared_with")) == ("SCHEDULED", None)


BOB = Asker("bob", is_admin=False)


def in_home(wanted: Request, asker: Asker, here: dict[str, Any], **given: Any) -> Planner:
    """Return a planner for a site where owners mount what is below their own folder."""
    paths = {mount.source: path_facts(mount.source) for mount in wanted.mounts}
    found = planner(wanted, asker=asker, h1={**here, "paths": paths}, **given)
    found.group = replace(found.group, inventory={"h1": {"cluster_compute_mount_roots": ["/home/{owner}"]}})
    return found


def test_owners_mount_their_own_folders() -> None:
    own, other = request(mounts=["/home/alice/x:/x"], user="me"), request(mounts=["/home/bob/x:/x"], user="me")
    made = run(in_home(own, ALICE, host()), cleaned_up=True)
    assert made["record"]["plan"]["hosts"]["h1"]["mount_roots"] == ["/home/alice"]
    with pytest.raises(InvalidInput, match="allows only what is below /home/alice"):
        run(in_home(other, ALICE, host()), cleaned_up=True)
    assert run(in_home(own, ADMIN, host()), cleaned_up=True)["status"] == "SCHEDULED"


def test_who_launches_for_another_owner_does_not_mount_what_is_the_owners() -> None:
    theirs = request(mounts=["/home/alice/x:/x"])
    with pytest.raises(InvalidInput, match="The site allows no path of h1"):
        run(in_home(theirs, BOB, host(), owner="alice", shared_with=("bob",)), cleaned_up=True)
    assert run(in_home(theirs, ADMIN, host(), owner="alice"), cleaned_up=True)["status"] == "SCHEDULED"
    before = replace(waiting(theirs), shared_with=("bob",))
    same = in_home(theirs, BOB, host(before), owner="bob")
    assert run(same, cleaned_up=True)["status"] == "SCHEDULED"
    other = in_home(request(mounts=["/home/alice/y:/x"]), BOB, host(before), owner="bob")
    other.recreate = True
    with pytest.raises(InvalidInput, match="The site allows no path of h1"):
        run(other, cleaned_up=True)


def test_nobody_it_is_shared_with_runs_something_else_as_its_owner() -> None:
    _record, here = running(request(), shared_with=["bob"])
    replacing = planner(request(user="me"), owner="bob", asker=BOB, h1=here)
    replacing.recreate = True
    with pytest.raises(InvalidInput, match="The session belongs to alice, and you are bob"):
        run(replacing, cleaned_up=True)
    roles = [{"name": "main", "replicas": 1}, {"name": "sub", "replicas": 1}]
    _record, here = running(request(roles=roles), shared_with=["bob"])
    more = request(roles=[*roles, {"name": "more", "replicas": 1, "user": "me"}])
    with pytest.raises(InvalidInput, match="The session belongs to alice, and you are bob"):
        run(planner(more, owner="bob", asker=BOB, h1=here), cleaned_up=True)
    assert run(planner(more, asker=ALICE, h1=here), cleaned_up=True)["status"] == "PENDING", "it has no room"


def test_the_queue_launches_for_whom_it_was_checked() -> None:
    record = replace(waiting(request(user="me")), shared_with=("bob",))
    queued = planner(request(user="me"), asker=BOB, h1=host(record))
    assert decide(queued, record, queued=True, cleaned_up=True)["status"] == "SCHEDULED"


ALICE = Asker("alice", is_admin=False)
AT_MOST_5 = Settings.from_variables({"cluster_compute_limits": {"priority": 5}})


def test_a_priority_beyond_the_limit_is_for_admins_to_give() -> None:
    high = request(priority=6)
    with pytest.raises(InvalidInput, match="session_priority is 6: Group cluster_compute_hosts allows 5 at most"):
        run(planner(high, asker=ALICE, settings=AT_MOST_5, h1=host()), cleaned_up=True)
    assert run(planner(high, settings=AT_MOST_5, h1=host()), cleaned_up=True)["status"] == "SCHEDULED"
    assert run(planner(request(priority=5), asker=ALICE, settings=AT_MOST_5, h1=host()), True)["status"] == "SCHEDULED"
    with pytest.raises(InvalidInput, match="session_priority is 1: Group cluster_compute_hosts allows 0 at most"):
        run(planner(request(priority=1), asker=ALICE, h1=host()), cleaned_up=True)


def test_who_waits_keeps_the_priority_that_an_admin_gave() -> None:
    record = waiting(request(priority=9))
    again = planner(request(priority=9), asker=ALICE, settings=AT_MOST_5, h1=host(record))
    assert run(again, cleaned_up=True)["status"] == "SCHEDULED"
    queued = planner(request(priority=9), asker=ALICE, settings=AT_MOST_5, h1=host(record))
    assert decide(queued, record, queued=True, cleaned_up=True)["status"] == "SCHEDULED"
    changed = planner(request(priority=8), asker=ALICE, settings=AT_MOST_5, h1=host(record))
    changed.recreate = True
    with pytest.raises(InvalidInput, match="session_priority is 8"):
        run(changed, cleaned_up=True)


def test_a_launch_tells_where_fewer_hosts_were_not_ruled_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search is made to find two hosts and to end before it knows that one is not enough."""
    known = planner(request(size=2, cpus=2), h1=host(), h2=host(number=2))
    assert run(known, cleaned_up=True)["status"] == "SCHEDULED"
    assert known.problems == []
    fewest = Task.fewest
    monkeypatch.setattr(Task, "fewest", lambda *given: replace(fewest(*given), proven=False, bound=1))
    unknown = planner(request(size=2, cpus=2), h1=host(), h2=host(number=2))
    found = run(unknown, cleaned_up=True)
    assert found["status"] == "SCHEDULED"
    doubt = "The replicas are on 2 hosts. At least 1 is needed; the search for a way with fewer than 2 was given up."
    assert doubt in warnings_of(found, unknown.group, unknown.problems)

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What earlier releases left on hosts (tests/states, each made by that release) and what later ones may leave there."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import ssh_keys
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.ledger import LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.output import OutputDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import (
    VERSION,
    DamagedFile,
    NewerState,
    StateDirectory,
    StateError,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.call.host_info import (
    LookAtHost,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.call.session_app import (
    OpenedApp,
    Way,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import COMMITTED
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import (
    encode,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.fields import (
    FIELDS,
    KEPT_FIELDS,
    ROLE_FIELDS,
    Field,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    ERROR,
    PENDING,
    RUNNING,
    Record,
    is_stub,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import (
    Request,
    diff_requests,
    may_change_to,
    with_counts,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.times import Times
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.check import validate_plan
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.parse import (
    parse_choice,
    parse_integer,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs import schedule
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import (
    boot,
    durations,
    facts,
    program,
    timer,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.arguments import ARGUMENTS
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.identity import read_identity
from ansible_collections.cluster_compute.session.tests.support.core.verbs.begun import begun
from ansible_collections.cluster_compute.session.tests.support.core.verbs.group import IMAGE
from ansible_collections.cluster_compute.session.tests.support.hosts_in_memory import World, in_memory
from ansible_collections.cluster_compute.session.tests.support.small_steps import NOW

STATES = Path(__file__).parents[6] / "tests" / "states"
RELEASES = sorted(path.stem for path in STATES.glob("*.json"))
assert RELEASES


def unpack(release: str, root: Path) -> StateDirectory:
    """Lay down what a release left on the host h1, with new keys where there were private ones."""
    files = json.loads((STATES / f"{release}.json").read_text(encoding="utf-8"))
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("" if text == "a private key\n" else text, encoding="utf-8")
    for path in root.rglob("*"):
        if path.is_file() and files[str(path.relative_to(root))] == "a private key\n":
            path.unlink()
    return StateDirectory(str(root))


def records_of(state: StateDirectory) -> dict[str, Record]:
    records, damaged = state.records()
    assert damaged == []
    return {record.name: record for record in records}


@pytest.fixture(params=RELEASES)
def state(request: pytest.FixtureRequest, tmp_path: Path) -> StateDirectory:
    return unpack(request.param, tmp_path / "h1")


def test_all_that_a_release_left_is_read(state: StateDirectory) -> None:
    state.check_version()
    records = records_of(state)
    assert {name: record.status for name, record in records.items()} == {
        "pair": RUNNING,
        "wide": RUNNING,
        "elsewhere": RUNNING,
        "waits": PENDING,
        "ended": ERROR,
    }
    assert is_stub(records["elsewhere"])
    for name in ("pair", "wide"):
        plan = validate_plan(records[name].plan)
        session = state.session(records[name].id)
        assert session.read_host() == "h1"
        assert session.read_public_keys().keys() == {replica.name for replica in plan.replicas}
        assert session.replica_names() == sorted(replica.name for replica in plan.on("h1"))
        assert session.read_owner("main1") == (0, 0)
    request = Request.from_dict(records["waits"].request)
    assert (request.size, records["waits"].queue_number, records["waits"].shared_with) == (2, 3, ("ada",))
    held = LedgerFile(str(state.root)).read()
    assert {claimed.claim.session_name: claimed.stage for claimed in held.values()} == dict.fromkeys(
        ("pair", "wide"), COMMITTED
    )
    assert [(tombstone.name, tombstone.hosts) for tombstone in state.tombstones()] == [("gone", ("h3",))]
    drain, settings, identity = state.read_drain(), state.read_settings(), read_identity(state)
    assert drain is not None
    assert (drain.reason, drain.by) == ("new memory", "alice")
    assert identity.names == ("h1",)
    pair = state.session(records["pair"].id)
    assert pair.read_times()["ran"] > 0
    assert (pair.app_names(), (pair.read_app("page") or {})["token"]) == (["page"], "a token")
    assert state.read_use() is not None
    jobs = OutputDirectory(str(state.root)).session(records["pair"].id)
    assert (jobs.job("0123456789ab").read_end("main1") or {})["exit_code"] == 0
    assert settings.output_days == 7, "that lies beside the state directory"


def test_a_job_is_written_down_as_a_release_did(state: StateDirectory) -> None:
    job = OutputDirectory(str(state.root)).session(records_of(state)["pair"].id).job("0123456789ab")
    before, info = job.info_file.read_text(encoding="utf-8"), job.read_info()
    assert info is not None
    job.write_info(info)
    assert job.info_file.read_text(encoding="utf-8") == before


def test_a_release_finds_each_key_that_it_reads_of_an_app_without_a_token(state: StateDirectory) -> None:
    pair = state.session(records_of(state)["pair"].id)
    left = pair.read_app("page") or {}
    opened = OpenedApp(Way(("tensorboard",), without_token=True), left["job"], left["port"])
    pair.write_app("page", encode(opened))
    assert (pair.read_app("page") or {}).keys() == left.keys()


@dataclass(frozen=True)
class Tinted(Request):
    """A request with an option more than any release has."""

    tint: str = "red"
    fields = (
        *FIELDS,
        Field(
            "tint", "", "", lambda name, value: parse_choice(name, value, ("red", "blue")), default="red", optional=True
        ),
        Field("depth", "", "", lambda name, value: parse_integer(name, value, 1, 9), optional=True),
    )
    depth: int | None = None


def test_an_option_that_came_since_has_its_default_and_is_no_difference(state: StateDirectory) -> None:
    for name in ("pair", "wide", "waits"):
        stored = records_of(state)[name].request
        before = Tinted.from_dict(stored)
        assert isinstance(before, Tinted)
        assert (before.tint, before.depth) == ("red", None)
        assert before.to_dict() == stored, "nor does it change what is written"
        assert diff_requests(before, Tinted.from_dict(before.to_dict())) == []
        after = Tinted.from_dict({**stored, "tint": "blue", "depth": 3})
        assert [place for place, _old, _new in diff_requests(before, after)] == ["tint", "depth"]
        assert after.to_dict() == {**stored, "tint": "blue", "depth": 3}
        with pytest.raises(InvalidInput, match=r"request\.depth .* Use the release that wrote it, or a newer one"):
            Request.from_dict(after.to_dict())


def test_what_came_after_the_first_release_may_be_missing() -> None:
    files = json.loads((STATES / "1.0.0.json").read_text(encoding="utf-8"))
    requests = [json.loads(text)["request"] for name, text in files.items() if name.endswith("record.json")]
    stored = next(request for request in requests if request and request["name"] == "waits")
    role = stored["roles"][0]
    always = {*stored, *role, *role["resources"]}
    for field in (*FIELDS, *ROLE_FIELDS, *KEPT_FIELDS):
        if field.of in ("request", "role"):
            assert field.optional == (field.name not in always), f"{field.name}: say optional=True of a new one"


# ---- every verb, on hosts whose engines only remember ----------------------------------------------------------------


@pytest.fixture(scope="module")
def worlds() -> Iterator[list[World]]:
    with in_memory() as worlds:
        yield worlds


@pytest.fixture
def world(worlds: list[World], state: StateDirectory, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Return three hosts of which h1 has what a release left there, containers too."""
    monkeypatch.setattr(durations._Part, "look", lambda _part: Times("boot", 0.0, ran=60.0))
    state.drain_file.unlink()
    world = World(state.root.parent)
    worlds.append(world)
    host = NOW.host = world.hosts["h1"]
    for record in records_of(state).values():
        if record.plan is not None:
            plan = validate_plan(record.plan)
            host.connect(plan.session, [plan.egress.subnet])
            for replica in plan.on("h1"):
                host.create(replica, plan.session, IMAGE)
                ssh_keys.converge_keys(state.session(record.id).replica(replica.name) / "ssh", False, False)
    yield world
    worlds.pop()


def test_every_verb_goes_on_with_what_a_release_left(world: World, state: StateDirectory) -> None:
    first = records_of(state)
    containers = {name: id(entry) for name, entry in world.hosts["h1"].containers.items()}
    assert sorted(containers) == ["pair-main1", "pair-sub1", "wide-main1", "wide-worker1"]
    texts = {name: state.session(first[name].id).record_file.read_bytes() for name in ("pair", "wide")}
    ledger = LedgerFile(str(state.root)).read()
    repaired = world.repair()
    assert repaired["problems"] == []
    assert {*world.running()} == {"pair", "wide"}
    for name in ("pair", "wide"):
        done = world.launch(Request.from_dict(first[name].request), owner="somebody")
        assert "outcome" in done, done.get("failure")
        assert (done["outcome"]["status"], done.get("diff")) == (RUNNING, None), done["outcome"]
        assert state.session(first[name].id).record_file.read_bytes() == texts[name], "nothing has changed"
    assert LedgerFile(str(state.root)).read() == ledger
    world.gc()
    world.schedule()
    assert {*world.running()} == {"pair", "wide", "waits"}, "the queue went on"
    wide = Request.from_dict(first["wide"].request)
    grown = with_counts(wide, {"main": 1, "worker": 3})
    assert may_change_to(wide, grown)
    done = world.launch(grown, owner="somebody")
    assert "outcome" in done, done.get("failure")
    assert done["outcome"]["status"] == RUNNING, done["outcome"]
    assert len(world.places("wide")) == 4
    assert {name: id(world.hosts["h1"].containers[name]) for name in containers} == containers, "none was made anew"
    for name in ("pair", "wide", "waits", "elsewhere", "ended"):
        world.teardown(name)
    assert [host.containers for host in world.hosts.values()] == [{}, {}, {}]
    assert world.copies("pair") == world.copies("wide") == {}


def add(state: StateDirectory, record: Record, place: str) -> None:
    """Add to a record what no release knows: to itself, or to its request or plan, as far as it has that."""
    path = state.session(record.id).record_file
    data = json.loads(path.read_text(encoding="utf-8"))
    parts = {
        "record": [data],
        "request": [data["request"], (data["plan"] or {}).get("request")],
        "plan": [data["plan"]],
    }
    for part in parts[place]:
        if part is not None:
            part["mood"] = "good"
    path.write_text(json.dumps(data), encoding="utf-8")


@pytest.mark.parametrize("place", ["record", "request"])
def test_what_a_session_with_more_has_lost_is_not_replaced_or_moved(
    world: World, state: StateDirectory, place: str
) -> None:
    first = records_of(state)
    for name in ("pair", "wide"):
        add(state, first[name], place)
    path = state.session(first["pair"].id).record_file
    text = path.read_bytes()
    moved = world.run(schedule, begun(schedule, world.known, only_lost=True, moves_from=["h1"]), None, None)
    assert "Session pair stays as it is. " in " ".join(moved["warnings"])
    world.hosts["h2"].is_up = False
    lost = world.run(schedule, begun(schedule, world.known, session_name="wide", only_lost=True), None, None)
    assert (lost["launchable"], path.read_bytes()) == ([], text)
    assert any(line.startswith("Session wide stays as it is. ") and "mood" in line for line in lost["warnings"]), lost


@pytest.mark.parametrize("place", ["record", "request", "plan"])
def test_a_session_with_what_a_newer_release_added_runs_on_and_can_be_torn_down(
    world: World, state: StateDirectory, place: str
) -> None:
    first = records_of(state)
    for name in ("pair", "waits"):
        add(state, first[name], place)
    path = state.session(first["pair"].id).record_file
    text, containers = path.read_bytes(), dict(world.hosts["h1"].containers)
    assert records_of(state).keys() == first.keys(), "it is not damaged"
    refused = world.launch(Request.from_dict(first["pair"].request), owner="somebody")
    assert "mood" in refused["failure"]
    assert "Use the release that" in refused["failure"]
    assert "or a newer one" in refused["failure"]
    repaired = world.repair()
    # Where only the request says more the plan is all that hosts need.
    assert ("mood" in " ".join(repaired["problems"])) == (place != "request")
    queue = world.schedule()
    assert ("mood" in " ".join(queue["warnings"])) == (place != "plan")
    world.gc()
    assert path.read_bytes() == text
    assert {name: world.hosts["h1"].containers[name] for name in containers} == containers
    assert not (state.root / "damaged").exists()
    # It is in nobody's way.
    other = with_counts(Request.from_dict({**first["waits"].request, "name": "other"}), {"main": 1})
    done = world.launch(other, owner="somebody")
    assert done["outcome"]["status"] == RUNNING, done["outcome"]
    if place != "plan":
        assert records_of(state)["waits"].status == PENDING
    for name in ("pair", "waits"):
        world.teardown(name)
        assert world.copies(name) == {}
        assert world.places(name) == {}


def test_a_session_that_waits_with_a_newer_value_keeps_its_owner_from_nothing(
    world: World, state: StateDirectory
) -> None:
    waits = records_of(state)["waits"]
    path = state.session(waits.id).record_file
    data = json.loads(path.read_text(encoding="utf-8"))
    data["request"]["failure_policy"] = "forgiving"
    path.write_text(json.dumps(data), encoding="utf-8")
    other = with_counts(Request.from_dict({**waits.request, "name": "other"}), {"main": 1})
    world.site["cluster_compute_limits"] = {"sessions_per_owner": 4}
    done = world.launch(other, owner=waits.owner)
    assert "sessions of owner" in done["failure"], "it counts all the same"
    world.site["cluster_compute_limits"] = {"sessions_per_owner": 5, "cpus_per_owner": 99}
    done = world.launch(other, owner=waits.owner)
    assert "outcome" in done, done.get("failure")
    assert done["outcome"]["status"] == RUNNING


def test_what_is_inside_a_part_that_is_not_known_is_never_set_aside(state: StateDirectory) -> None:
    path = state.session(records_of(state)["waits"].id).record_file
    data = json.loads(path.read_text(encoding="utf-8"))
    data["queue"]["lane"] = 3
    path.write_text(json.dumps(data), encoding="utf-8")
    _records, (problem,) = state.records()
    assert not isinstance(problem, DamagedFile)
    assert "queue has 'lane', which is unknown. Use the release that wrote it, or a newer one." in str(problem)


@pytest.mark.parametrize("name", ["drained.json", "tombstones/11111111-2222-4333-8444-777777777777.json"])
def test_what_other_files_say_more_is_passed_over(state: StateDirectory, name: str) -> None:
    before = (state.read_drain(), state.tombstones())
    path = state.root / name
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), "mood": "good"}), encoding="utf-8")
    assert (state.read_drain(), state.tombstones()) == before


# ---- the version -----------------------------------------------------------------------------------------------------


def contents(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


REFUSED = rf"has version {VERSION + 1}, which a newer release .* reads versions up to {VERSION}\. Nothing was touched"


@pytest.fixture
def newer(state: StateDirectory) -> StateDirectory:
    (state.root / "version").write_text(f"{VERSION + 1}\n", encoding="utf-8")
    return state


@pytest.mark.parametrize(
    "call", [name for name, spec in ARGUMENTS.items() if "state_directory" in spec["argument_spec"]]
)
def test_every_call_refuses_a_newer_state_before_anything_is_touched(
    newer: StateDirectory, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    before = contents(newer.root)
    spec = ARGUMENTS[call]["argument_spec"]
    given = {name: option.get("default") for name, option in spec.items()}
    done: Mapping[str, Any]
    if call == "host_preflight":
        done = encode(facts.host_facts(newer, LookAtHost("")))
        assert (done["usable"], before) == (False, contents(newer.root))
    elif call == "host_info":
        done = program.run(call, {**given, "state_directory": str(newer.root)}, False)["host"]
        assert done["usable"] is False
    else:
        done = program.run(call, {**given, "state_directory": str(newer.root)}, False)
        assert (done["failed"], done["sick"]) == (True, True)
    with pytest.raises(StateError, match=REFUSED):
        raise StateError(done.get("msg") or done["problem"])
    assert contents(newer.root) == before


def test_the_programs_of_the_host_itself_refuse_it(
    newer: StateDirectory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(boot, "LOCK", str(tmp_path / "lock"))
    before = contents(newer.root)
    for options in ([], ["--links"], ["--disks"]):
        assert boot.main(["--state-directory", str(newer.root), *options]) == 1
        assert f"has version {VERSION + 1}, which a newer release" in capsys.readouterr().out
    assert timer.look(newer) == 1
    assert contents(newer.root) == before


@pytest.mark.parametrize("text", ["", "two", "1.0", "-1", "²"])
def test_a_version_that_is_none_is_refused_as_such(state: StateDirectory, text: str) -> None:
    (state.root / "version").write_text(text, encoding="utf-8")
    with pytest.raises(StateError, match=rf"version, is '.*', .* Write {VERSION} there") as error:
        state.check_version()
    assert "newer release of the collection wrote" not in str(error.value)


def test_a_newer_version_is_never_written_over(state: StateDirectory) -> None:
    record = records_of(state)["waits"]
    (state.root / "version").write_text(f"{VERSION + 1}\n", encoding="utf-8")
    before = contents(state.root)
    with pytest.raises(NewerState):
        state.session(record.id).write_record(record)
    with pytest.raises(NewerState):
        state.write_tombstone(record.id, "waits", [])
    assert contents(state.root) == before


def test_a_state_without_a_version_gets_one_with_its_next_record(
    state: StateDirectory,
) -> None:
    (state.root / "version").unlink()
    state.check_version()
    record = records_of(state)["waits"]
    state.session(record.id).write_record(record)
    assert (state.root / "version").read_text(encoding="utf-8") == f"{VERSION}\n"
    shutil.rmtree(state.root)
    state.write_tombstone(record.id, "waits", [])
    assert (state.root / "version").exists()

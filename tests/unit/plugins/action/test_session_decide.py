# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Ansible gets of a decision: the state, what is handed on, what people are shown, or a failure."""

from __future__ import annotations

import io
import re
import tarfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.action import session_decide as action
from ansible_collections.cluster_compute.session.plugins.action import session_step
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model import calls
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    PENDING,
    QueueTicket,
    advance,
    new_record,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs import schedule
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.launch import launch_request
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.verb import hosts_of
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.arguments import ARGUMENTS
from ansible_collections.cluster_compute.session.plugins.plugin_utils import event_sender, not_shown
from ansible_collections.cluster_compute.session.tests.support.adapters.engine_server import engine_server
from ansible_collections.cluster_compute.session.tests.support.core.verbs.begun import begun
from ansible_collections.cluster_compute.session.tests.support.core.verbs.group import (
    AWAY,
    BROKEN,
    Launch,
    facts,
    request,
)

CHECKOUT = Path(__file__).resolve().parents[4]


class Hostvars(dict[str, Any]):
    """Variables of hosts, as Ansible gives them."""

    def raw_get(self, name: str) -> Any:
        return self[name]


def run(
    verb: str,
    state: Any,
    answers: dict[str, Any],
    group: list[str] | None = None,
    site: dict[str, Any] | None = None,
    checks: bool = False,
    **arguments: Any,
) -> dict[str, Any]:
    """Return the result of the action after answers of hosts.

    group: all hosts, where the run is limited to some. site: variables of the inventory. checks: in check mode.
    """
    found: Any = object.__new__(action.ActionModule)
    warned: list[str] = []
    found._display = SimpleNamespace(warning=warned.append)
    found._templar = SimpleNamespace(template=lambda value: value)
    found._task = SimpleNamespace(args={"verb": verb, **arguments}, check_mode=checks)
    variables = {
        **(site or {}),
        f"{verb}_state": state,
        "hostvars": Hostvars({host: {f"{verb}_answer": answer} for host, answer in answers.items()}),
        "inventory_hostname": "h1",
        "ansible_play_hosts_all": list(answers),
        "ansible_limit": ",".join(answers) if group else None,
        "groups": (site or {}).get("groups", {"cluster_compute_hosts": group or []}),
    }
    result = dict(found.run(task_vars=variables))
    return {**result, "warned": warned} if warned else result


def decided(launch: Launch, answers: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    return run("launch", launch.state, {host: answers.get(host) for host in launch.hosts}, **arguments)


@pytest.fixture(autouse=True)
def without_ansible(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (action, session_step):
        monkeypatch.setattr(module.ActionBase, "run", lambda *_given: {})


def started(launch: Launch) -> dict[str, Any]:
    return {host: launch._started(host) for host in launch.hosts}


def test_a_decision_returns_the_next_state() -> None:
    launch = Launch().until("start")
    result = decided(launch, started(launch))
    assert (result["changed"], result["step"], result["outcome"]["status"]) == (False, "", "RUNNING")
    assert "ansible_stats" not in result
    assert result["_ansible_no_log"] is True, "it may have requests of others"
    result = decided(Launch(hands_on=True).until("start"), started(launch))
    assert result["saying"] == "Say what runs where, or why it waits"
    assert result["lines"][1].startswith("REPLICA ")


def test_warnings_of_what_is_not_shown_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(not_shown, "Display", lambda: SimpleNamespace(warning=shown.append))
    # ansible-core 2.19 makes such an object of a warning in a result that a variable registers.
    given = {"step": "start", "warnings": [SimpleNamespace(msg="was shown"), "h3 is left out."]}
    assert not_shown.not_shown(given) == {**given, "_ansible_no_log": True}
    assert shown == ["h3 is left out."]


def test_a_later_play_goes_on_with_the_state_of_a_host_of_an_earlier_one() -> None:
    launch = Launch().until("start")
    variables = {"hostvars": Hostvars({"h2": {"launch_state": launch.state}}), "launch_state": {"step": "of another"}}
    found: Any = object.__new__(action.ActionModule)
    found._task = SimpleNamespace(args={"verb": "launch", "state_of": "h2"}, check_mode=False)
    assert found.run(task_vars=variables) == {**launch.state, "changed": False, "_ansible_no_log": True}


def test_another_step_than_that_which_is_meant_is_not_judged() -> None:
    launch = Launch().until("start")
    assert decided(launch, {}, after="hold")["step"] == "start"


def test_the_end_is_shown_alone_and_was_handed_on_before() -> None:
    launch = Launch(hands_on=True).until("hold")
    granted = {host: {**BROKEN, "granted": True, "reasons": [], "tentative": []} for host in launch.hosts}
    for host, answer in granted.items():
        answer["public_keys"] = launch._keys(host)
    decision = decided(launch, granted)
    data = decision["ansible_stats"]["data"]["cluster_compute_session"]
    assert (decision["step"], data["status"], len(data["replicas"])) == ("start", "RUNNING", 3)
    assert "_ansible_verbose_always" not in decision
    launch.answer()
    shown = decided(launch, started(launch), says=True)
    assert set(shown) == {"changed", "msg", "_ansible_verbose_always"}
    assert shown["msg"][1].startswith("REPLICA ")
    launch = Launch(request(size=2), 3).until("start")
    warned = decided(launch, {**started(launch), "h3": {"actions": [], "unwritten": "The disk is full."}}, says=True)
    assert warned["warnings"] == ["h3 could not write the session down: The disk is full."]


def test_a_failure_is_handed_on_before_the_run_fails() -> None:
    launch = Launch(hands_on=True).until("start")
    decision = decided(launch, {**started(launch), "h2": BROKEN}, says=True)
    assert (decision["step"], decision["ansible_stats"]["data"]["cluster_compute_session"]["status"]) == (
        "undo",
        "ERROR",
    )
    launch.answer(h2=BROKEN)
    answers: dict[str, Any] = {host: {"actions": [], "sessions": [], "tombstones": []} for host in launch.hosts}
    failed = decided(launch, answers)
    assert failed["failed"]
    assert "h2: The disk is full." in failed["msg"]


def test_a_repair_and_a_queue_begin_with_what_all_hosts_have_answered() -> None:
    looked = {f"h{number}": {"host": facts(number=number)} for number in (1, 2)}
    given = {"session_name": "demo", "leaks": "yes", "puts_back": "", "requeue_from": "h7, h8"}
    assert run("repair", None, looked, given=given)["requeue_from"] == ["h7", "h8"]
    repair = run("repair", {"step": "of another run"}, looked, given=given, after="look")
    assert (repair["step"], hosts_of(repair)) == ("repair", ["h1", "h2"])
    assert (repair["session_name"], repair["leaks"], repair["puts_back"]) == ("demo", True, True)
    assert run("repair", None, looked, given={"puts_back": False}, after="look")["step"] == ""
    assert run("schedule", None, looked, given={}, after="look")["queue"] == []
    failed = run("repair", None, {"h1": AWAY}, given={}, after="look")
    assert failed["failed"]
    assert failed["msg"].startswith("The hosts cannot be judged.")


@pytest.mark.parametrize(
    ("verb", "given", "words"),
    [
        ("repair", {"leaks": "maybe"}, ["repair_leaks is 'maybe': It must be true or false."]),
        (
            "teardown",
            {"session_name": "a", "fails": [], "hands_on": 2},
            ["teardown_fails is []", "_hands_on is 2"],
        ),
        ("teardown", {}, ["teardown_session_name is not given: It is required."]),
        ("schedule", {"moves_from": 3}, ["schedule_moves_from is 3: It must be a list"]),
        (
            "schedule",
            {"only_losses": True},
            ["given.only_losses is True: This key is", "Did you mean only_lost?"],
        ),
        ("launch", {"request": {}, "attempts": "x"}, ["launch_request lacks session_name"]),
    ],
)
def test_what_a_role_gives_is_refused_with_its_variable(verb: str, given: dict[str, Any], words: list[str]) -> None:
    failed = run(verb, None, {"h1": None}, given=given)
    assert failed["failed"]
    assert [part for part in words if part not in failed["msg"]] == [], failed["msg"]


def test_a_launch_reads_its_options_as_text() -> None:
    wanted = encode(launch_request(request(), "alice"))
    given = {"request": {**wanted, "changed": False}, "attempts": "3", "from_queue": "no", "hands_on": "True"}
    state = run("launch", None, {"h1": None}, given=given)
    found = [state[key] for key in ("step", "attempts", "from_queue", "hands_on", "regenerate_keys")]
    assert found == ["look", 3, False, True, False]
    failed = run("launch", None, {"h1": None}, given={**given, "attempts": "x"})
    assert "launch_attempts is 'x': It must be a whole number" in failed["msg"]


def test_an_image_that_the_controller_is_to_give_and_has_not_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "cluster-compute/other:1"

    def refusal(**source: str) -> str:
        launch = Launch(request(image=name, size=1, **source), 1)
        failed = decided(launch, {"h1": {"host": {**launch.hosts["h1"], "images": {name: None}}}})
        assert failed["failed"], failed
        return str(failed["msg"])

    archive = tmp_path / "image.tar"
    members = {
        "1.json": b'{"architecture": "amd64"}',
        "manifest.json": b'[{"Config": "1.json", "RepoTags": ["train:1"]}]',
    }
    with tarfile.open(archive, "w") as made:
        for member, content in members.items():
            entry = tarfile.TarInfo(member)
            entry.size = len(content)
            made.addfile(entry, io.BytesIO(content))
    assert f"It holds docker.io/library/train:1, and not {name}" in refusal(image_archive=str(archive))
    with engine_server(tmp_path) as engine:
        engine.answer("GET /version", value={"ApiVersion": engine.version})
        engine.answer("GET /info", value={"DriverStatus": []})
        engine.answer(f"GET /images/{name}/json", status=404, value={"message": f"No such image: {name}"})
        monkeypatch.setenv("DOCKER_HOST", f"unix://{engine.path}")
        assert f"The engine of the controller has no {name}. Build or pull it" in refusal(image_from="controller")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nowhere.sock")
    silent = refusal(image_from="controller")
    assert "session_image_from is 'controller': The engine of the controller cannot be used" in silent


@pytest.mark.parametrize("group", ["", "pool_a"])
def test_a_run_is_for_the_resource_group_that_its_variable_names(group: str) -> None:
    asked = request(resource_group="pool_a", size=1).to_dict()
    record = advance(new_record("a" * 8 + "-0000-4000-8000-000000000000", "alice", asked), PENDING, "No room.")
    record = replace(record, queue=QueueTicket(1))
    looked = {"h1": {"host": facts(record)}}
    site = {"groups": {"cluster_compute_hosts": ["h1"], "pool_a": ["h1"]}, "session_resource_group": group}
    state = run("schedule", None, looked, given={}, after="look", site=site)
    names = [[entry["session_name"] for entry in state[key]] for key in ("queue", "elsewhere")]
    assert names == ([[], ["train"]] if not group else [["train"], []])
    assert state["step"] == ("launch" if group else "")


def test_hosts_that_limit_leaves_out_count_as_hosts_that_cannot_be_reached() -> None:
    looked = {f"h{number}": {"host": facts(number=number)} for number in (1, 2)}
    leak = {"aaaaaaaa-0000-4000-8000-000000000000": {"name": "lost", "kinds": ["network"]}}
    looked["h1"]["host"]["objects"] = leak
    given: dict[str, Any] = {"given": {"leaks": True}, "after": "look"}
    whole = run("repair", None, looked, **given)
    assert whole["findings"] == ["h1: leak: session lost: No host has a record or a container of it."]
    part = run("repair", None, {"h1": looked["h1"]}, group=list(looked), **given)
    assert (part["left_out"], part["warned"]) == (
        ["h2"],
        ["--limit leaves out h2: they count as hosts that cannot be reached."],
    )
    assert "leak" not in str(part["findings"])
    assert "h2: no facts could be collected: It could not be reached." in str(part["findings"])
    removal = {"sessions": [{"id": "x", "name": "demo", "hosts": ["h1", "h2"]}], "tombstones": []}
    first = run("teardown", None, {"h1": removal}, group=list(looked), given={"session_name": "demo"}, after="remove")
    assert (first["step"], first["tombstones"][0]["hosts"]) == ("remember", ["h2"])


def test_what_became_of_a_launch_is_told_to_the_queue() -> None:
    outcome = {"session_name": "demo", "status": "RUNNING", "report": []}
    launchable = encode([launch_request(request(), "alice")] * 2)
    state = {**begun(schedule, ["h1"]), "step": "launch", "calls": [], "launchable": launchable}
    result = run("schedule", state, {"h1": None}, after="launch", site={"launch_state": {"outcome": outcome}})
    assert (result["step"], result["outcomes"]) == ("launch", [outcome])


def test_a_host_without_a_part_in_a_step_is_skipped() -> None:
    launch = Launch().until("hold")
    step: Any = object.__new__(session_step.ActionModule)
    for arguments, host in (({"step": "start"}, "h1"), ({}, "h9")):
        step._task = SimpleNamespace(args={"verb": "launch", **arguments})
        assert step.run(task_vars={"launch_state": launch.state, "inventory_hostname": host})["skipped"]


def test_every_call_of_a_verb_is_known() -> None:
    """Some have an action of their own, a call or the action of a module; the others are made as they are."""
    verbs = [path.read_text(encoding="utf-8") for path in Path(schedule.__file__).parent.rglob("*.py")]
    classes = {
        kind.__name__: kind.call for kind in vars(calls).values() if isinstance(kind, type) and hasattr(kind, "call")
    }
    called = {classes[name] for text in verbs for name in re.findall(r"\b([A-Z]\w+)\(", text) if name in classes}
    assert {"host_info", "session_host", "session_images", "session_repair", "session_watch"} <= called
    assert called <= set(ARGUMENTS)
    own = {name for name in called if (CHECKOUT / "plugins" / "action" / f"{name}.py").exists()}
    assert own - {"session_host"} <= set(session_step.ACTIONS) <= called


HOSTILE = "\x1b[2J\x9b1A\r\u202e"


def test_all_that_roles_and_playbooks_show_of_a_state_is_printable() -> None:
    """Hosts, images and engines wrote parts of it."""
    shown = set()
    for path in [*(CHECKOUT / "roles").rglob("tasks/*.yml"), *(CHECKOUT / "playbooks").glob("*.yml")]:
        for line in path.read_text(encoding="utf-8").splitlines():
            if re.match(r" *(- )?(msg|fail_msg|name|lines|problems): ", line):
                shown.update(re.findall(r"\b(?:\w+_state|\w+_judged|\w+_report)\.(\w+)", line))
    assert {"lines", "problems", "table", "missing", "unremoved", "failures"} <= shown
    assert shown <= action.SPOKEN
    state = {**begun(schedule, ["h1"]), "step": "", "calls": [], **{key: [HOSTILE] for key in shown}}
    result = run("schedule", state, {"h1": None})
    assert all(text.isprintable() for key in shown for text in result[key])
    failed = run("schedule", {**state, "failure": f"h1: {HOSTILE}\nh2: gone"}, {"h1": None})
    assert failed["msg"].replace("\n", "").isprintable()


def test_what_an_image_wrote_is_printable_in_the_message_of_a_launch() -> None:
    launch = Launch().until("start")
    launch.answer(h2={**BROKEN, "msg": f"main1 wrote: {HOSTILE}"})
    failed = decided(launch, {host: {"actions": [], "sessions": [], "tombstones": []} for host in launch.hosts})
    assert failed["failed"]
    assert "main1 wrote: \\x1b[2J" in failed["msg"]
    assert failed["msg"].replace("\n", "").isprintable()


def test_nothing_is_printed_past_what_makes_it_printable() -> None:
    """What a plugin prints itself, not by a result: each such call, but for what is the same for all."""
    calls = []
    for path in (CHECKOUT / "plugins").rglob("*.py"):
        if "modules" not in path.parts and "module_utils" not in path.parts:
            text = path.read_text(encoding="utf-8")
            calls += re.findall(r"(?:isplay(?:\(\))?)\.(?:display|warning|error|deprecated)\(\s*(.*)", text)
    assert len(calls) >= 5
    assert [call for call in calls if not re.match(r"shown\(|printable\(|spoken\(", call)] == []


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, dict[str, Any]]]:
    """Give what was sent to receivers."""
    found: list[tuple[str, str, dict[str, Any]]] = []
    monkeypatch.setattr(event_sender, "send", lambda *given: found.append(given))
    return found


RECEIVER = {"cluster_compute_events": {"url": "https://eda.example.com/", "token": "s3cret"}}


def test_the_end_of_a_verb_is_sent_once_to_whom_the_site_names(sent: list[tuple[str, str, dict[str, Any]]]) -> None:
    launch = Launch().until("start")
    answers = {host: started(launch).get(host) for host in launch.hosts}
    run("launch", launch.state, answers)
    assert sent == []
    result = run("launch", launch.state, answers, site=RECEIVER)
    ((url, token, event),) = sent
    assert (url, token) == ("https://eda.example.com/", "s3cret")
    assert event["type"] == "cluster_compute.session.launch.succeeded"
    assert event["source"] == "/cluster_compute/cluster_compute_hosts"
    assert event["data"]["status"] == "RUNNING"
    assert "s3cret" not in repr(result)
    # A decision about a state that is over already sends nothing again, nor does one in the middle.
    run("launch", result, answers, site=RECEIVER)
    run("launch", Launch().until("hold").state, {key: {} for key in launch.hosts}, site=RECEIVER, after="start")
    assert len(sent) == 1


def test_check_mode_sends_nothing(sent: list[tuple[str, str, dict[str, Any]]]) -> None:
    launch = Launch().until("start")
    run("launch", launch.state, {host: started(launch).get(host) for host in launch.hosts}, site=RECEIVER, checks=True)
    assert sent == []


def test_a_receiver_that_is_none_is_refused_before_anything_is_decided() -> None:
    launch = Launch().until("start")
    result = run("launch", launch.state, started(launch), site={"cluster_compute_events": {"url": "nowhere"}})
    assert result["failed"]
    assert "cluster_compute_events.url is 'nowhere'" in result["msg"]


def test_what_a_verb_without_an_artifact_did_is_handed_on() -> None:
    state = {"step": "launch", "calls": [], "outcomes": []}
    over = {**state, "step": "", "outcomes": [{"session_name": "a", "status": "RUNNING", "report": ["It runs."]}]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedule, "advance", lambda *_given: over)
        result = run("schedule", state, {"h1": {}})
    data = result["ansible_stats"]["data"]["cluster_compute_event"]
    assert (data["verb"], data["outcome"], data["sessions"]) == ("schedule", "succeeded", {"a": "RUNNING"})

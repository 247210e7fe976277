# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What AWX accepts, by rules read in the source of its server (release 24), and the surveys that the role sends."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.fields import questions
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.mounts import Port
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import (
    Request,
    parse_request,
    read_variable,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.show.awx import (
    check_answer,
    check_rrule,
    check_survey,
    make_survey,
    resource_groups,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput

ROOT = Path(__file__).resolve().parents[7]
VARIABLES = yaml.safe_load((ROOT / "roles/awx/vars/main.yml").read_text(encoding="utf-8"))
QUESTIONS = VARIABLES["awx_questions"]
DIALOG = questions()
CHOICES = {"session_resource_group": ["cluster_compute_hosts", "gpu_pool"], "session_image": ["debian:12", "train:1"]}
TEXT = {"type": "text", "question_name": "Command", "variable": "session_command", "required": False}
NUMBER = {"type": "integer", "question_name": "Size", "variable": "session_size", "required": True, "default": 1}
CHOICE = {"type": "multiplechoice", "question_name": "Image", "variable": "a", "required": True, "choices": ["b", "c"]}


def survey(*questions: Any, **more: Any) -> dict[str, Any]:
    """Return a survey of these questions."""
    return {"name": "launch", "description": "", "spec": list(questions), **more}


def test_a_survey_as_the_server_takes_it() -> None:
    one_of_each = [
        TEXT,
        NUMBER,
        {**CHOICE, "default": "c"},
        {**TEXT, "type": "textarea", "variable": "d", "default": "", "max": 10},
        {**TEXT, "type": "password", "variable": "e", "required": True, "min": 8, "default": "12345678"},
        {**CHOICE, "type": "multiselect", "variable": "f"},
        {**NUMBER, "type": "float", "variable": "g", "default": 0.5, "min": 0, "max": 1},
    ]
    assert check_survey(survey(*one_of_each)) == []


@pytest.mark.parametrize(
    ("wrong", "place", "reason"),
    [
        ([], "survey", "A survey is a mapping"),
        ({"description": "", "spec": [TEXT]}, "survey.name", "It must be text"),
        (survey(TEXT, description=None), "survey.description", "It must be text"),
        (survey(spec="a"), "survey.spec", "It must be a list of questions"),
        (survey(), "survey.spec", "at least one question"),
        (survey("a"), "survey.spec[0]", "A question is a mapping"),
        (survey({**TEXT, "variable": ""}), "survey.spec[0].variable", "It must be text"),
        (survey({**TEXT, "question_name": None}), "survey.session_command.question_name", "It must be text"),
        (survey({k: v for k, v in TEXT.items() if k != "type"}), "survey.session_command.type", "It must be text"),
        (survey({**TEXT, "required": "true"}), "survey.session_command.required", "true or false"),
        (survey({**TEXT, "type": "bool"}), "survey.session_command.type", "one of text, textarea, password"),
        (survey({**TEXT, "max": "10"}), "survey.session_command.max", "a whole number"),
        (survey({**NUMBER, "min": True}), "survey.session_size.min", "a whole number"),
        (survey({**TEXT, "min": 1}), "survey.session_command.min", "arrives empty"),
        (survey(TEXT, TEXT), "survey.session_command", "Another question sets the same variable"),
        (survey({**TEXT, "default": None}), "survey.session_command.default", "takes no null"),
        (survey({**TEXT, "default": 1}), "survey.session_command.default", "It must be text"),
        (survey({**TEXT, "default": "abc", "max": 2}), "survey.session_command.default", "at most 2 characters"),
        (survey({**NUMBER, "default": "1"}), "survey.session_size.default", "a whole number, and not text"),
        (survey({**NUMBER, "default": True}), "survey.session_size.default", "a whole number, and not text"),
        (survey({**NUMBER, "min": 2}), "survey.session_size.default", "at least 2"),
        (survey({**NUMBER, "type": "float", "default": "1"}), "survey.session_size.default", "a number, and not text"),
        (survey({**CHOICE, "choices": []}), "survey.a.choices", "at least one choice"),
        (survey({**CHOICE, "choices": "b\nc"}), "survey.a.choices", "It must be a list"),
        (survey({**CHOICE, "choices": ["b", ""]}), "survey.a.choices", "one line of text"),
        (survey({**CHOICE, "choices": ["b", " "]}), "survey.a.choices", "one line of text"),
        (survey({**CHOICE, "choices": ["b", "c\nd"]}), "survey.a.choices", "one line of text"),
        (survey({**CHOICE, "choices": ["b", "b"]}), "survey.a.choices", "twice"),
        (survey({**CHOICE, "default": "d"}), "survey.a.default", "one of b, c"),
        # A server that has the choices as text looks for the default anywhere in it.
        (survey({**CHOICE, "choices": ["bb"], "default": "b"}), "survey.a.default", "one of bb"),
        (survey({**CHOICE, "default": ""}), "survey.a.default", "one of b, c"),
        (survey({**CHOICE, "type": "multiselect", "default": "b"}), "survey.a.default", "to no job"),
        (survey({**TEXT, "default": "$encrypted$"}), "survey.session_command.default", "keeps $encrypted$"),
    ],
)
def test_what_the_server_refuses_is_refused_by_name(wrong: Any, place: str, reason: str) -> None:
    problems = check_survey(wrong)
    assert [problem.variable for problem in problems] == [place]
    assert reason in problems[0].message


def test_all_that_is_wrong_is_told_together() -> None:
    problems = check_survey(survey({**TEXT, "required": 1}, {**NUMBER, "default": "1"}, description=1))
    assert [problem.variable.rpartition(".")[2] for problem in problems] == ["description", "required", "default"]


@pytest.mark.parametrize(
    ("question", "answer", "accepted"),
    [
        (TEXT, "", True),
        (TEXT, "a", True),
        (TEXT, 1, False),
        (NUMBER, 3, True),
        (NUMBER, "3", False),
        (CHOICE, "b", True),
        (CHOICE, "", False),
        ({**CHOICE, "type": "multiselect"}, ["b", "c"], True),
        ({**CHOICE, "type": "multiselect"}, "b", False),
        ({**CHOICE, "type": "multiselect"}, ["d"], False),
        ({**NUMBER, "type": "float"}, 1, True),
        ({**NUMBER, "max": 3}, 4, False),
    ],
)
def test_answers_are_judged_as_the_server_does(question: dict[str, Any], answer: object, accepted: bool) -> None:
    assert (check_answer(question, answer) == []) is accepted


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("", "It must be text"),
        (None, "It must be text"),
        ("RRULE:FREQ=DAILY;INTERVAL=1", "begin with one start"),
        ("DTSTART:2026 RRULE:FREQ=DAILY;INTERVAL=1", "begin with one start"),
        ("DTSTART:20260101T000000Z DTSTART:20260101T000000Z RRULE:FREQ=DAILY;INTERVAL=1", "begin with one start"),
        ("RRULE:FREQ=DAILY;INTERVAL=1 DTSTART:20260101T000000Z", "begin with one start"),
        ("DTSTART:20260101T000000Z DTSTART:2026 RRULE:FREQ=DAILY;INTERVAL=1", "begin with one start"),
        ("DTSTART:20260101T000000 RRULE:FREQ=DAILY;INTERVAL=1", "time zone"),
        ("DTSTART:20260101T000000Z", "It must hold a rule"),
        ("DTSTART:20260101T000000Z RRULE:FREQ=DAILY", "INTERVAL must be there"),
        ("DTSTART:20260101T000000Z RRULE:FREQ=DAILY;INTERVAL=0", "INTERVAL must be there"),
        ("DTSTART:20260101T000000Z RRULE:FREQ=SECONDLY;INTERVAL=1", "FREQ must be one of"),
        ("DTSTART:20260101T000000Z RRULE:INTERVAL=1", "FREQ must be one of"),
        ("DTSTART:20260101T000000Z RRULE:FREQ=MONTHLY;INTERVAL=1;BYDAY=2MO", "BYDAY"),
        ("DTSTART:20260101T000000Z RRULE:FREQ=DAILY;INTERVAL=1;COUNT=2;UNTIL=20270101T000000Z", "exclude each other"),
        ("DTSTART:20260101T000000Z RRULE:FREQ=DAILY;INTERVAL=1;COUNT=1000", "from 1 to 999"),
        ("DTSTART:20260101T000000Z RRULE:FREQ=DAILY;INTERVAL=1 EXDATE:20260102T000000Z", "no EXDATE"),
        ("DTSTART:20260101T000000Z RRULE:FREQ=DAILY;INTERVAL=1 RDATE:20260102T000000Z", "no RDATE"),
    ],
)
def test_rules_that_the_server_refuses(rule: object, reason: str) -> None:
    problems = check_rrule(rule, "awx_queue_rrule")
    assert [problem.variable for problem in problems] == ["awx_queue_rrule"]
    assert reason in problems[0].message


@pytest.mark.parametrize(
    "rule",
    [
        "DTSTART:20260101T000000Z RRULE:FREQ=MINUTELY;INTERVAL=2",
        "DTSTART;TZID=Europe/Berlin:20260101T040000 RRULE:FREQ=WEEKLY;INTERVAL=1;BYDAY=MO,FR",
        "DTSTART:20260101T000000Z RRULE:FREQ=DAILY;INTERVAL=1;COUNT=999 EXRULE:FREQ=WEEKLY;INTERVAL=1;BYDAY=SU",
    ],
)
def test_rules_that_the_server_takes(rule: str) -> None:
    assert check_rrule(rule) == []


def test_the_default_rules_are_such() -> None:
    defaults = yaml.safe_load((ROOT / "roles/awx/defaults/main.yml").read_text(encoding="utf-8"))
    rules = [value for name, value in defaults.items() if name.endswith("_rrule")]
    assert len(rules) == 4
    assert [check_rrule(rule) for rule in rules] == [[]] * 4


def test_choices_make_a_question_one_of_a_choice() -> None:
    image = {"type": "text", "question_name": "Image", "variable": "session_image", "required": False, "max": 9}
    (made,) = make_survey("launch", "", [image], CHOICES, {})["spec"]
    assert made["type"] == "multiplechoice"
    assert made["choices"] == ["debian:12", "train:1"]
    assert made["default"] == "debian:12"
    assert made["required"] is True
    assert "max" not in made
    (kept,) = make_survey("launch", "", [image], {"session_image": []}, {})["spec"]
    assert kept == image
    (mine,) = make_survey("launch", "", [image], CHOICES, {"session_image": "train:1"})["spec"]
    assert mine["default"] == "train:1"


def test_a_default_of_the_site_has_to_be_among_the_choices() -> None:
    image = {"type": "text", "question_name": "Image", "variable": "session_image", "required": True}
    with pytest.raises(InvalidInput, match=r"launch.session_image.default is 'other:2': It must be one of debian:12"):
        make_survey("launch", "", [image], CHOICES, {"session_image": "other:2"})


def test_a_default_that_a_launch_would_refuse_is_refused() -> None:
    memory = {"type": "text", "question_name": "Memory", "variable": "session_memory", "required": True}
    with pytest.raises(
        InvalidInput, match=r"launch.session_memory.default is '4 gg': A launch would reject it. Give an"
    ):
        make_survey("launch", "", [memory], {}, {"session_memory": "4 gg"})


def test_a_default_of_what_is_not_asked_is_checked_as_well() -> None:
    name = {"type": "text", "question_name": "Name", "variable": "session_name", "required": True}
    own = {"logs_tail": {"question_name": "Lines"}, "all": {"question_name": "Name", "variable": "app"}}
    made = make_survey("few", "", [name], {}, {"session_memory": "4g", "logs_tail": "9", "app": "x"}, own)
    assert made["spec"] == [name]
    for wrong, why in (
        ({"session_memory": "4 gg"}, r"few.session_memory.default is '4 gg': A launch would reject it."),
        (
            {"session_memroy": "4g"},
            r"few.session_memroy.default is '.value not shown.': There is no .* Did you mean session_memory\?",
        ),
        (
            {"log_tail": "9"},
            r"few.log_tail.default is '.value not shown.': There is no such variable. Did you mean logs_tail\?",
        ),
        ({"all": "x"}, r"few.all.default is '.value not shown.': There is no such variable."),
    ):
        with pytest.raises(InvalidInput, match=why):
            make_survey("few", "", [name], {}, wrong, own)


def test_a_default_may_be_true_where_the_choices_are_words() -> None:
    (asked,) = make_survey("launch", "", ["session_recreate"], {}, {"session_recreate": True})["spec"]
    assert asked["default"] == "true"


def test_groups_whose_hosts_are_all_for_sessions() -> None:
    groups = {
        "all": ["a", "b", "c"],
        "ungrouped": [],
        "web": ["c"],
        "mixed": ["a", "c"],
        "none": [],
        "gpu": ["b"],
        "cpu": ["a"],
        "cluster_compute_hosts": ["a", "b"],
    }
    assert resource_groups(groups, "cluster_compute_hosts") == ["cluster_compute_hosts", "cpu", "gpu"]
    with pytest.raises(
        InvalidInput, match="awx_host_group is 'lost': This group of the inventory has no hosts"
    ) as none:
        resource_groups(groups, "lost")
    assert "Groups that have: cluster_compute_hosts, cpu, gpu, mixed, web." in str(none.value)


def dialog() -> dict[str, Any]:
    """Return the survey of a launch as the role makes it."""
    return make_survey("launch_cluster", "", ["launch"], CHOICES, {})


def job_variables(answers: dict[str, Any]) -> dict[str, Any]:
    """Return the variables that a job gets from these answers; the server has to take every one of them.

    It gives the defaults for what was not answered, and hands on empty text where that is the answer.
    """
    spec = {question["variable"]: question for question in dialog()["spec"]}
    for variable, answer in answers.items():
        assert check_answer(spec[variable], answer) == [], variable
    for variable, question in spec.items():
        assert not question["required"] or variable in answers or "default" in question, variable
    return {**{name: question["default"] for name, question in spec.items() if "default" in question}, **answers}


def request_of(**answers: Any) -> Request:
    """Return the request that a launch makes of these answers."""
    return parse_request(job_variables({"session_name": "train", **answers}))


FIELDS: list[tuple[str, Any, Any, Any]] = [
    ("session_name", "other", "other", lambda request: request.name),
    ("session_resource_group", "gpu_pool", "gpu_pool", lambda request: request.resource_group),
    ("session_image", "train:1", "train:1", lambda request: request.roles[0].image),
    ("session_mode", "single-node", "single-node", lambda request: request.mode),
    ("session_size", 4, 4, lambda request: request.size),
    ("session_max_size", 9, 9, lambda request: request.max_size),
    ("session_cpus", "500m", 500, lambda request: request.roles[0].resources.cpus),
    ("session_memory", "4g", 4 * 2**30, lambda request: request.roles[0].resources.memory),
    ("session_shm_size", "1g", 2**30, lambda request: request.roles[0].resources.shm_size),
    (
        "session_accelerators",
        "gpu=2, fpga=1",
        (("fpga", 1), ("gpu", 2)),
        lambda request: request.roles[0].resources.accelerators,
    ),
    (
        "session_mounts",
        "/srv/a:/data:ro\r\n/srv/b:/out\r\n",
        [("/srv/a", "/data", True), ("/srv/b", "/out", False)],
        lambda request: [(mount.source, mount.target, mount.read_only) for mount in request.mounts],
    ),
    ("session_env", "A=1\r\n\r\nB=x=y z\r\n", (("A", "1"), ("B", "x=y z")), lambda request: request.roles[0].env),
    (
        "session_ports",
        "8888, 8080:80",
        (Port("0.0.0.0", 8080, 80, "tcp"), Port("0.0.0.0", 8888, 8888, "tcp")),
        lambda request: request.ports,
    ),
    (
        "session_command",
        "python train.py\r\n --epochs 3",
        ("python", "train.py", "--epochs", "3"),
        lambda request: request.roles[0].command,
    ),
    (
        "session_batch_command",
        "session-run a\r\nsession-run b\r\n",
        ("/bin/sh", "-c", "session-run a\nsession-run b\n"),
        lambda request: request.batch_command,
    ),
    ("session_priority", -7, -7, lambda request: request.priority),
    ("session_on_host_loss", "replace", "replace", lambda request: request.on_host_loss),
    ("session_max_duration", "8h", 28800, lambda request: request.max_duration),
    ("session_max_idle", "90m", 5400, lambda request: request.max_idle),
    ("session_end_warning", "", None, lambda request: request.end_warning),
    (
        "session_authorized_keys",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1dTrqLLgJf4Lb3cCwDDl8LZmM0zgxCGJ8Wfdp0eGkQ me\r\n",
        ["me"],
        lambda request: [key.comment for key in request.authorized_keys],
    ),
]


@pytest.mark.parametrize(("variable", "answer", "expected", "read"), FIELDS, ids=[field[0] for field in FIELDS])
def test_each_field_from_the_answer_to_the_request(variable: str, answer: Any, expected: Any, read: Any) -> None:
    assert read(request_of(**{variable: answer})) == expected


def test_no_field_of_the_dialog_is_left_out() -> None:
    of_the_launch_alone = ["session_on_no_capacity", "session_shared_with", "session_recreate"]
    assert [field[0] for field in FIELDS] == [name for name in DIALOG if name not in of_the_launch_alone]
    assert read_variable("shared_with", {"session_shared_with": "ada, bob"}) == ("ada", "bob")
    assert read_variable("shared_with", {"session_shared_with": ""}) == ()
    for name, answers in (("on_no_capacity", ["queue", "wait", "fail"]), ("recreate", [False, True])):
        question = DIALOG[f"session_{name}"]
        assert (question["type"], question["default"]) == ("multiplechoice", question["choices"][0])
        assert [read_variable(name, {f"session_{name}": answer}) for answer in question["choices"]] == answers


def test_what_nobody_touched_is_what_a_launch_does_by_itself() -> None:
    plain = {"session_name": "train", "session_image": "debian:12", "session_mode": "multi-node"}
    assert request_of() == parse_request(plain)
    # A number that nobody gave is no answer at all.
    texts = ("text", "textarea")
    untouched = {name: "" for name, entry in DIALOG.items() if not entry["required"] and entry["type"] in texts}
    assert len(untouched) == 13
    assert request_of(**untouched) == parse_request(plain)


def test_every_template_has_a_survey_that_the_server_takes() -> None:
    surveys = 0
    for template in (*VARIABLES["awx_templates"], VARIABLES["awx_workflow"]):
        if template["questions"]:
            questions, defaults = template["questions"], template.get("defaults", {})
            made = make_survey(template["name"], template["description"], questions, CHOICES, defaults, QUESTIONS)
            assert check_survey(made) == []
            surveys += 1
    assert surveys == 22


def test_the_page_names_templates_as_awx_shows_them() -> None:
    page = (ROOT / "docs" / "awx.md").read_text(encoding="utf-8")
    (teams,) = (line for line in page.splitlines() if line.startswith("| the teams | *Execute* on"))
    named = re.findall(r"\*([^*]+)\*", teams)[1:]
    assert len(named) > 10
    assert {*named} <= {*VARIABLES["awx_titles"].values()}


def test_a_workflow_does_not_ask_what_it_decides_itself() -> None:
    asked = {question["variable"] for question in make_survey("x", "", ["session"], CHOICES, {})["spec"]}
    assert {*DIALOG} - asked == {"session_on_no_capacity", "session_recreate", "session_batch_command"}
    assert "session" in VARIABLES["awx_workflow"]["questions"]


def test_the_quick_launch_asks_six_of_the_questions_of_a_launch() -> None:
    (quick,) = (template for template in VARIABLES["awx_templates"] if template["name"] == "quick_launch")
    assert len(quick["questions"]) == 6
    assert {*quick["questions"]} < {*DIALOG}
    assert quick["playbook"] == "launch_cluster"


def test_a_question_that_is_only_named() -> None:
    own: dict[str, dict[str, Any]] = {
        "job_on": {"question_name": "Where"},
        "every": {**TEXT, "variable": "session_name"},
    }
    first, second, third, fourth = make_survey("x", "", ["job_on", "every", TEXT, "session_ports"], {}, {}, own)["spec"]
    assert first == {"type": "text", "question_name": "Where", "variable": "job_on", "required": False}
    assert (second["variable"], third, fourth) == ("session_name", TEXT, DIALOG["session_ports"])
    with pytest.raises(
        InvalidInput, match=r"x.questions is 'session_port': There is no .* Did you mean session_ports\?"
    ):
        make_survey("x", "", ["session_port"], {}, {}, own)


def test_the_workflow_tears_down_however_it_goes_and_fails_where_its_command_does() -> None:
    nodes = {node["identifier"]: node for node in VARIABLES["awx_workflow"]["nodes"]}
    titles = [node["unified_job_template"]["name"] for node in nodes.values()]
    templates = {name.rpartition("awx_titles.")[2].removesuffix(" }}") for name in titles}
    assert len(templates) == len(nodes)
    assert templates <= {template["name"] for template in VARIABLES["awx_templates"]} <= {*VARIABLES["awx_titles"]}

    def after(name: str, outcome: str) -> list[str]:
        related = nodes[name].get("related", {})
        return [node["identifier"] for key in (f"{outcome}_nodes", "always_nodes") for node in related.get(key, [])]

    for failing in (None, *nodes):
        way, name = [], next(iter(nodes))
        while True:
            way.append(name)
            following = after(name, "failure" if name == failing else "success")
            if not following:
                break
            (name,) = following
        assert way[-2:] == ["tear down", "judge"]
        assert ("run" in way) is (failing != "launch")
        # Or the server would stop there, or take a failure for dealt with at the end.
        assert (after(name, "failure") == []) is (name == "judge")


def test_configure_awx_is_told_all_settings() -> None:
    defaults = yaml.safe_load((ROOT / "roles/awx/defaults/main.yml").read_text(encoding="utf-8"))
    options = yaml.safe_load((ROOT / "roles/awx/meta/argument_specs.yml").read_text(encoding="utf-8"))
    settings = set(options["argument_specs"]["main"]["options"])
    assert set(VARIABLES["awx_setting_names"]) == settings
    of_others = {"awx_state_directory", "awx_project_directory"}
    assert set(defaults) == settings - {"awx_execution_environment_image"} | of_others


@pytest.mark.parametrize(
    ("limits", "most", "default"),
    [
        ([], 0, 0),
        ([{}], 0, 0),
        ([{}, {"priority": 5}], 5, 0),
        ([None, {"priority": -5}], 0, 0),
        ([{"priority": 5}, {"priority": 7, "modes": "single-node"}], 7, 0),
        ([{"priority": -2}], -2, -2),
    ],
)
def test_a_survey_offers_no_priority_that_the_site_does_not_allow(limits: list[Any], most: int, default: int) -> None:
    made = make_survey("launch", "", ["session_priority", "session_size"], {}, {}, limits=limits)["spec"]
    assert [(question["max"], question["default"]) for question in made] == [(most, default), (4096, 1)]
    with pytest.raises(InvalidInput, match=r"cluster_compute_limits\.priority is 'x'"):
        make_survey("launch", "", ["session_size"], {}, {}, limits=[{"priority": "x"}])

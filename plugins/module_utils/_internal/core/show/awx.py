# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Surveys and schedules of AWX: how they are composed, and what its server accepts.

The rules are those of AWX 24 (its views JobTemplateSurveySpec and SchedulePreviewSerializer, and the model
SurveyJobTemplateMixin for answers), and some stricter ones for surveys that the server accepts although a launch would
fail. They are applied before anything is sent, because the server reports one problem at a time, by the number of the
question, and silently drops a default that is not a valid answer.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ..model.fields import KNOWN_VARIABLES, PREFIX, questions
from ..model.request import parse_request
from ..rules.limits import DEFAULT_LIMITS, Limits
from ..values.errors import HIDDEN, InvalidInput, Problem
from ..values.parse import did_you_mean

TEXT_TYPES = ("text", "textarea", "password")
CHOICE_TYPES = ("multiplechoice", "multiselect")
LAUNCH, SESSION = "launch", "session"
"""Placeholders for all questions before a launch, and for those that a workflow does not answer by itself."""
OF_LAUNCHES = {f"{PREFIX}{name}" for name in ("on_no_capacity", "recreate", "batch_command")}
"""Questions that only `LAUNCH` stands for."""
QUESTION_TYPES = (*TEXT_TYPES, *CHOICE_TYPES, "integer", "float")
MAXIMUM_COUNT = 999
"""Most runs that a schedule may request by COUNT."""

_SURVEY_KEYS = ("name", "description", "spec")
_STRING_KEYS = ("type", "question_name", "variable")
_ENCRYPTED = "$encrypted$"
_START = re.compile(r"DTSTART(?P<zone>;[^:\s]+)?:[0-9]{8}T[0-9]{6}(?P<utc>Z?)(?=\s|$)")
_RULE = re.compile(r"(?P<kind>RRULE|EXRULE|RDATE|EXDATE)(?:;[^:\s]+)?:(?P<parts>\S*)", re.IGNORECASE)


def make_survey(
    name: str,
    description: str,
    entries: Sequence[str | Mapping[str, Any]],
    choices: Mapping[str, Sequence[str]],
    defaults: Mapping[str, Any],
    own: Mapping[str, Mapping[str, Any]] | None = None,
    limits: Iterable[object] = (),
) -> dict[str, Any]:
    """Return a survey that the server accepts and whose defaults a launch accepts.

    entries: questions, or their names: of one of *own*, of a variable of a launch, or `LAUNCH` or `SESSION`. own:
    further questions by name, which is also their variable unless they name another; text and optional by default.
    choices: the possible answers, by variable; a text question with choices becomes a choice, and then its default is
    the first choice unless it is among them. Without choices it stays a text question. defaults: by variable, in place
    of those in the questions; others are only checked. Choices without a question are ignored. limits: values of
    ``cluster_compute_limits``, of each host: a priority that none of them allows is not offered. Raises InvalidInput.
    """
    most = max((Limits.from_variable(value).priority for value in limits), default=DEFAULT_LIMITS.priority)
    spec = [
        _up_to(most, _with_choices(question, choices.get(question["variable"], ()), defaults))
        for entry in entries
        for question in _questions(name, entry, own or {})
    ]
    survey = {"name": name, "description": description, "spec": spec}
    asked = {question["variable"]: question for question in spec if "variable" in question}
    problems = check_survey(survey, name) + _unknown(defaults, {*asked, *_variables(own or {})}, name)
    if not problems:
        answers = {variable: question["default"] for variable, question in asked.items() if "default" in question}
        sample = {**defaults, **answers}
        problems += _check_request({key: value for key, value in sample.items() if key in KNOWN_VARIABLES}, name)
    if problems:
        raise InvalidInput(problems)
    return survey


def _variables(own: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [str(question.get("variable", name)) for name, question in own.items()]


def _unknown(defaults: Mapping[str, Any], others: Collection[str], name: str) -> list[Problem]:
    """Return the problems of defaults: their variables have to be those of a launch, or among *others* of questions."""
    known = sorted({*KNOWN_VARIABLES, *others})
    return [
        Problem(f"{name}.{variable}.default", HIDDEN, f"There is no such variable.{did_you_mean(variable, known)}")
        for variable in defaults
        if variable not in known
    ]


def _questions(
    name: str, entry: str | Mapping[str, Any], own: Mapping[str, Mapping[str, Any]]
) -> Iterable[Mapping[str, Any]]:
    """Return the questions that *entry* stands for in the survey *name*."""
    of_launch = questions()
    if not isinstance(entry, str):
        return [entry]
    if entry in (LAUNCH, SESSION):
        return [question for name, question in of_launch.items() if entry == LAUNCH or name not in OF_LAUNCHES]
    if entry in own:
        return [{"type": "text", "variable": entry, "required": False, **own[entry]}]
    if entry not in of_launch:
        known = (LAUNCH, SESSION, *own, *of_launch)
        message = f"There is no such question; there are {', '.join(known)}.{did_you_mean(entry, known)}"
        raise InvalidInput.single(f"{name}.questions", entry, message)
    return [of_launch[entry]]


def _with_choices(question: Mapping[str, Any], choices: Sequence[str], defaults: Mapping[str, Any]) -> dict[str, Any]:
    made = dict(question)
    if question["variable"] in defaults:
        default = defaults[question["variable"]]
        # YAML reads the word of such a choice as a truth value.
        made["default"] = str(default).lower() if isinstance(default, bool) else default
    if choices:
        made["type"] = "multiplechoice"
        made["choices"] = list(choices)
        for limit in ("min", "max"):
            made.pop(limit, None)
        if question["variable"] not in defaults and made.get("default") not in choices:
            made["default"] = choices[0]
        # The server accepts only one of the choices as an answer, and no empty one.
        made["required"] = True
    return made


def _up_to(most: int, question: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a question; that of the priority with the maximum that a site allows."""
    if question["variable"] != f"{PREFIX}priority":
        return question
    limited = {**question, "max": min(most, question["max"])}
    return {**limited, "default": min(most, limited["default"])} if "default" in limited else limited


def _check_request(sample: Mapping[str, Any], name: str) -> list[Problem]:
    """Return why a launch would reject the default answers."""
    try:
        parse_request({"session_image": "none", **sample, "session_name": "none"})
    except InvalidInput as error:
        return [
            Problem(f"{name}.{problem.variable}.default", problem.value, f"A launch would reject it. {problem.message}")
            for problem in error.problems
        ]
    return []


def check_survey(survey: object, name: str = "survey") -> list[Problem]:
    """Return all problems of a survey, none if the server accepts it and every launch with it.

    name: of the survey in the problems.
    """
    if not isinstance(survey, Mapping):
        return [Problem(name, survey, "A survey is a mapping with name, description and spec.")]
    problems = _check_head(survey, name)
    spec = survey.get("spec")
    if not isinstance(spec, list):
        return problems
    if not spec:
        problems.append(Problem(f"{name}.spec", spec, "A survey has at least one question."))
    seen: set[str] = set()
    for position, question in enumerate(spec):
        variable = question.get("variable") if isinstance(question, Mapping) else None
        place = f"{name}.{variable}" if isinstance(variable, str) and variable else f"{name}.spec[{position}]"
        problems += _check_question(place, question)
        if isinstance(variable, str):
            if variable in seen:
                problems.append(Problem(place, variable, "Another question sets the same variable."))
            seen.add(variable)
    return problems


def _check_head(survey: Mapping[str, object], name: str) -> list[Problem]:
    problems = []
    for key in _SURVEY_KEYS:
        kind = list if key == "spec" else str
        if not isinstance(survey.get(key), kind):
            what = "a list of questions" if key == "spec" else "text, which may be empty"
            problems.append(Problem(f"{name}.{key}", survey.get(key), f"It must be {what}."))
    return problems


def _check_question(place: str, question: object) -> list[Problem]:
    if not isinstance(question, Mapping):
        return [Problem(place, question, "A question is a mapping.")]
    problems = [
        Problem(f"{place}.{key}", question.get(key), "It must be text.")
        for key in _STRING_KEYS
        if not isinstance(question.get(key), str) or not question[key]
    ]
    if not isinstance(question.get("required"), bool):
        problems.append(Problem(f"{place}.required", question.get("required"), "It must be true or false."))
    kind = question.get("type")
    if isinstance(kind, str) and kind and kind not in QUESTION_TYPES:
        message = "It must be one of {}.".format(", ".join(QUESTION_TYPES))
        problems.append(Problem(f"{place}.type", kind, message))
    for limit in ("min", "max"):
        if limit in question and not _is_integer(question[limit]):
            problems.append(Problem(f"{place}.{limit}", question[limit], "It must be a whole number, or be left out."))
    if kind in CHOICE_TYPES:
        problems += _check_choices(place, question.get("choices"))
    if kind in TEXT_TYPES and question.get("required") is False and question.get("min"):
        message = "An answer that may be left out arrives empty, and the server would reject that; leave it out."
        problems.append(Problem(f"{place}.min", question["min"], message))
    if not problems and "default" in question:
        problems += _check_default(place, question)
    return problems


def _check_choices(place: str, choices: object) -> list[Problem]:
    place += ".choices"
    if not isinstance(choices, list) or not choices:
        return [Problem(place, choices, "It must be a list with at least one choice.")]
    problems = [
        Problem(place, choice, "A choice is one line of text, and not an empty one.")
        for choice in choices
        if not isinstance(choice, str) or not choice.strip() or choice.splitlines() != [choice]
    ]
    twice = sorted({choice for choice in choices if isinstance(choice, str) and choices.count(choice) > 1})
    return problems + [Problem(place, choice, "It is among the choices twice.") for choice in twice]


def _check_default(place: str, question: Mapping[str, Any]) -> list[Problem]:
    default = question["default"]
    place += ".default"
    if default is None:
        return [Problem(place, default, "The server takes no null here; leave it out.")]
    if question["type"] == "multiselect":
        # The server accepts it as text, and then drops it when a job is launched by the API, since it is not a list.
        return [Problem(place, default, "The server gives a multiselect's default to no job; leave it out.")]
    if isinstance(default, str) and default.startswith(_ENCRYPTED):
        return [Problem(place, default, f"The server keeps {_ENCRYPTED} for itself.")]
    if default == "" and question["type"] in TEXT_TYPES:
        return []
    answered = check_answer(question, default)
    return [Problem(place, default, message) for message in answered]


def check_answer(question: Mapping[str, Any], answer: object) -> list[str]:
    """Return why the server rejects an answer to a question that `check_survey` accepts; empty if it accepts it."""
    wrong = _why_wrong_kind(question, answer)
    if wrong:
        return [wrong]
    size, unit = _size_of(question["type"], answer)
    least, most = question.get("min"), question.get("max")
    if size is not None and least is not None and size < least:
        return [f"It must be at least {least}{unit}."]
    if size is not None and most is not None and size > most:
        return [f"It must be at most {most}{unit}."]
    return []


def _why_wrong_kind(question: Mapping[str, Any], answer: object) -> str:
    """Return why an answer is not of the kind that a question is for; empty if it is."""
    kind, choices = question["type"], question.get("choices") or ()
    if kind in TEXT_TYPES:
        is_right, what = isinstance(answer, str), "text"
    elif kind == "integer":
        is_right, what = _is_integer(answer), "a whole number, and not text"
    elif kind == "float":
        is_right, what = isinstance(answer, (int, float)) and not isinstance(answer, bool), "a number, and not text"
    elif kind == "multiselect":
        is_right = isinstance(answer, list) and all(choice in choices for choice in answer)
        what = f"a list of some of {', '.join(choices)}"
    else:
        is_right, what = answer in choices, f"one of {', '.join(choices)}"
    return "" if is_right else f"It must be {what}."


def _size_of(kind: str, answer: Any) -> tuple[float | None, str]:
    """Return what the limits of a question apply to, and its unit; None for a kind that has no limits."""
    if kind in TEXT_TYPES:
        return len(answer), " characters"
    return (answer if kind in ("integer", "float") else None), ""


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def check_rrule(rule: object, name: str = "rrule") -> list[Problem]:
    """Return why the server rejects the recurrence rule of a schedule (RFC 5545); empty if it accepts it.

    name: of the rule in the problems. The lookup awx.awx.schedule_rrule makes such rules from other words, and does not
    check given ones.
    """
    if not isinstance(rule, str) or not rule.strip():
        return [Problem(name, rule, "It must be text such as DTSTART:20260101T000000Z RRULE:FREQ=DAILY;INTERVAL=1.")]
    messages = []
    starts = list(_START.finditer(rule))
    if len(starts) != 1 or rule.upper().count("DTSTART") != 1 or not rule.startswith("DTSTART"):
        messages.append("It must begin with one start, such as DTSTART:20260101T000000Z.")
    elif not starts[0]["utc"] and not (starts[0]["zone"] or "").startswith(";TZID="):
        messages.append("Its start must have a time zone: end it with Z, or write DTSTART;TZID=Europe/Berlin:... .")
    rules = list(_RULE.finditer(rule))
    if not any(part["kind"].upper() == "RRULE" for part in rules):
        messages.append("It must hold a rule, such as RRULE:FREQ=DAILY;INTERVAL=1.")
    for part in rules:
        if part["kind"].upper() in ("RDATE", "EXDATE"):
            messages.append(f"The server takes no {part['kind'].upper()}.")
        else:
            messages += _check_recurrence(part["parts"])
    return [Problem(name, rule, message) for message in messages]


def _check_recurrence(text: str) -> list[str]:
    messages = []
    pairs = [part.partition("=") for part in text.split(";") if part]
    parts = {key.upper(): value.upper() for key, _sign, value in pairs}
    if parts.get("FREQ") not in ("MINUTELY", "HOURLY", "DAILY", "WEEKLY", "MONTHLY", "YEARLY"):
        messages.append("FREQ must be one of MINUTELY, HOURLY, DAILY, WEEKLY, MONTHLY, YEARLY.")
    if not re.fullmatch("0*[1-9][0-9]*", parts.get("INTERVAL", "")):
        messages.append("INTERVAL must be there, a whole number from 1.")
    if re.search("[0-9]", parts.get("BYDAY", "")):
        messages.append("BYDAY must hold days without a number, such as MO.")
    if "COUNT" in parts and "UNTIL" in parts:
        messages.append("COUNT and UNTIL exclude each other.")
    count = parts.get("COUNT", "1")
    if not re.fullmatch("[0-9]{1,9}", count) or not 1 <= int(count) <= MAXIMUM_COUNT:
        messages.append(f"COUNT must be a whole number from 1 to {MAXIMUM_COUNT}.")
    return messages


def resource_groups(groups: Mapping[str, Sequence[str]], within: str) -> list[str]:
    """Return the groups of an inventory whose hosts are all for sessions, *within* itself first.

    groups: hosts by group. within: the group of all hosts that are for sessions. Raises InvalidInput if it has none.
    """
    members = set(groups.get(within, ()))
    if not members:
        known = ", ".join(sorted(name for name, hosts in groups.items() if hosts and name not in ("all", "ungrouped")))
        message = f"This group of the inventory has no hosts. Groups that have: {known or 'none'}."
        raise InvalidInput.single("awx_host_group", within, message)
    others = [
        name
        for name, hosts in groups.items()
        if hosts and members.issuperset(hosts) and name not in (within, "all", "ungrouped")
    ]
    return [within, *sorted(others)]

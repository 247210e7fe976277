# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Schedule: go through the queue of a resource group once, and launch what can start.

| step | what hosts do | what follows |
|---|---|---|
| look | every host says what it has | cleanup, launch, or the end |
| cleanup | each writes down what became of sessions, and removes what nobody owns | look |
| launch | the next session that can start is launched by the verb of that name | launch, or look |
"""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import CoreError
from ansible_collections.cluster_compute.session.plugins.module_utils.core.group import (
    GroupFacts,
    cleanup_actions,
    waiting_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.answers import (
    Answer,
    FactsAnswer,
    read_answers,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.capacity import hosts_from_facts
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.queue import schedule_queue
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.site import Settings
from ansible_collections.cluster_compute.session.plugins.module_utils.core.show.overview import queue_entry
from ansible_collections.cluster_compute.session.plugins.module_utils.core.verbs import cleanup
from ansible_collections.cluster_compute.session.plugins.module_utils.core.verbs.launch import launch_request
from ansible_collections.cluster_compute.session.plugins.module_utils.core.verbs.verb import (
    Answers,
    Outside,
    State,
    call,
    step,
)

REFUSED = "The queue cannot be read."
STATE_DIRECTORY = {"state_directory": "schedule_state_directory"}
OUTPUT = {
    "output_size": "schedule_output_size",
    "output_days": "schedule_output_days",
    "output_sessions": "schedule_output_sessions",
}


def begin(hosts: Sequence[str]) -> State:
    """Return the first state; hosts: of the resource group.

    ``launchable`` has what each launch needs of a session that can start, ``outcomes`` what became of those, ``queue``
    who waits, in order.
    """
    return {
        "verb": "schedule",
        "known": list(hosts),
        "cleaned_up": False,
        "launchable": [],
        "outcomes": [],
        "queue": [],
        "warnings": [],
        **_look(hosts),
    }


def advance(state: State, answers: Answers, outside: Outside) -> State:
    """Return what follows from the answers to the state's step; to a launch its outcome is that of ``launch``."""
    state = {**state, "warnings": []}
    if state["step"] == "look":
        return _after_look(state, answers, outside)
    if state["step"] == cleanup.NAME:
        problems = cleanup.problems_of(read_answers(Answer, answers))
        return {**state, "cleaned_up": True, "warnings": problems, **_look(state["known"])}
    state["outcomes"] = [*state["outcomes"], dict(answers["launch"])]
    return {**state, **_launch()} if len(state["outcomes"]) < len(state["launchable"]) else _look_at_last(state)


def _look(hosts: Sequence[str]) -> State:
    variables = {"accelerators": "schedule_accelerators", **STATE_DIRECTORY}
    return step("look", "Look at the hosts", "Go through the queue", [call("host_info", hosts, variables=variables)])


def _launch() -> State:
    return step("launch", "Launch what has room", "Remember what became of it")


def _look_at_last(state: State) -> State:
    return {**state, **_look(state["known"])}


def _after_look(state: State, answers: Answers, outside: Outside) -> State:
    try:
        group = GroupFacts.read(read_answers(FactsAnswer, answers), outside.inventory)
        settings = Settings.from_variables(outside.site)
        view = group.cluster_state()
        view.check_names()
        waiting, problems = waiting_of(view.pending())
        hosts = hosts_from_facts(group.facts, group.inventory)
        entries = schedule_queue(waiting, hosts, settings.topology_keys, group.known)
    except CoreError as error:
        return {**state, **step("", "", ""), "failure": f"{REFUSED}\n{error}"}
    state["warnings"], state["host_names"] = problems + group.warnings, group.host_names
    state["queue"] = [queue_entry(entry, view.records[entry.waiting.session_id]) for entry in entries]
    if state["outcomes"]:
        return {**state, **step("", "", "")}
    work = cleanup_actions(group, view, view.orphaned)
    if work and not state["cleaned_up"]:
        return {**state, **cleanup.cleanup_step(work, "Look again", {**STATE_DIRECTORY, **OUTPUT})}
    state["launchable"] = [
        {
            **launch_request(entry.waiting.request, record.owner, record.shared_with),
            "waits": encode(record),
        }
        for entry in entries
        if entry.placement is not None
        for record in [view.records[entry.waiting.session_id]]
    ]
    return {**state, **(_launch() if state["launchable"] else step("", "", ""))}

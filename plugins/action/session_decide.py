# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Decide the next step of a verb from the answers of the hosts, on the controller."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Mapping
from typing import Any

from ansible import constants as C
from ansible.plugins.action import ActionBase
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.cluster.group import (
    SITE_VARIABLES,
    pick,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import Request
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.images import Archive
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.show import events
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import (
    CoreError,
    printable,
    spoken,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.verb import (
    HandingVerb,
    Outside,
    State,
    hosts_of,
)
from ansible_collections.cluster_compute.session.plugins.plugin_utils.controller_images import read_images
from ansible_collections.cluster_compute.session.plugins.plugin_utils.events import (
    EVENT,
    handed_on,
    read_receiver,
    send,
)
from ansible_collections.cluster_compute.session.plugins.plugin_utils.image_archive import check_archive, read_archive
from ansible_collections.cluster_compute.session.plugins.plugin_utils.lockstep import refusal
from ansible_collections.cluster_compute.session.plugins.plugin_utils.not_shown import not_shown
from ansible_collections.cluster_compute.session.plugins.plugin_utils.plain import PlainHosts, plain, reader
from ansible_collections.cluster_compute.session.plugins.plugin_utils.request_variables import (
    read_asker,
    read_scope,
    resource_group,
)
from ansible_collections.cluster_compute.session.plugins.plugin_utils.run_identity import has_ended, this_run
from ansible_collections.cluster_compute.session.plugins.plugin_utils.verbs import HANDING, VERBS

PAUSE = (0.3, 1.5)
"""Range of seconds between two attempts. Random, so that runs that collided do not collide again."""
SPOKEN = {
    "announcement",
    "failures",
    "findings",
    "lines",
    "missing",
    "notes",
    "problems",
    "report",
    "saying",
    "table",
    "then",
    "title",
    "unremoved",
    "warnings",
}
"""The parts of a state that roles and playbooks show."""
ARTIFACT = "cluster_compute_session"
LEFT_OUT = {"unreachable": True, "msg": "It is left out by --limit."}
"""The answer of a host that the run does not call."""


class ActionModule(ActionBase):
    """The action behind the module session_decide."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the next state, after a pause if the verb has to try again."""
        super().run(tmp, task_vars)
        task_vars = task_vars or {}
        refused = refusal(self._task, task_vars)
        if refused is not None:
            return {"failed": True, "msg": refused}
        self._task.args = plain(self._task.args)
        _result, arguments = self.validate_argument_spec(
            {
                "verb": {"type": "str", "required": True, "choices": list(VERBS)},
                "given": {"type": "dict"},
                "after": {"type": "str"},
                "says": {"type": "bool", "default": False},
                "state_of": {"type": "str"},
            }
        )
        name = arguments["verb"]
        if arguments["state_of"] is not None:
            # Unchanged, because nothing in it is a template.
            state = task_vars["hostvars"].raw_get(arguments["state_of"])[f"{name}_state"]
            return not_shown({**state, "changed": False})
        event = None
        try:
            receiver = read_receiver(task_vars, reader(self._templar))
            state, is_decided = self._decided(name, arguments["given"], arguments["after"], task_vars)
            if is_decided and not state["step"] and not self._task.check_mode:
                event = events.happened(name, state)
        except CoreError as error:
            return {"failed": True, "msg": f"{VERBS[name].REFUSED}\n{error}"}
        if state.get("pause") is not None and not self._task.check_mode:
            drawn = random.uniform(*PAUSE)  # noqa: S311 - spreads tries, guards no secret
            time.sleep(max(drawn, float(state["pause"])))
        if event is not None and receiver is not None:
            send(receiver, event, task_vars, reader(self._templar))
        return self._result(state, name, arguments["says"], event)

    def _decided(
        self, name: str, given: Mapping[str, Any] | None, after: str | None, task_vars: Mapping[str, Any]
    ) -> tuple[State, bool]:
        """Return the next state of a verb, and whether answers were evaluated for it.

        given: what begins the verb; None if it has a state. after: the step whose answers are meant; any if None,
        except that a verb does not evaluate answers when it begins.
        """
        verb, hostvars = VERBS[name], task_vars["hostvars"]
        state: State = {} if given is not None else dict(task_vars[f"{name}_state"])
        if given is None and (not state["step"] or after not in (None, state["step"])):
            return state, False
        outside = self._outside(task_vars)
        if given is not None:
            hosts, left_out = self._hosts(task_vars)
            state = verb.begin(given, hosts, outside)
            state.update({"left_out": left_out} if left_out else {})
            if after != state["step"]:
                return state, False
        answers = self._answers(state, name, hostvars)
        if state["step"] == "launch":  # which the verb of that name has done
            answers["launch"] = (task_vars.get("launch_state") or {}).get("outcome") or {}
        return verb.advance(state, answers, outside), True

    def _hosts(self, task_vars: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        """Return the hosts that the verb is about, and which of them ``--limit`` leaves out of this run.

        A part of a group must not be evaluated as if it were the whole group.
        """
        own = list(task_vars["ansible_play_hosts_all"])
        if not task_vars.get("ansible_limit"):
            return own, []
        variables = {"session_resource_group": reader(self._templar)(task_vars.get("session_resource_group"))}
        _group, hosts = resource_group(variables, task_vars["groups"])
        if not set(own) <= set(hosts):
            return own, []
        left_out = [host for host in hosts if host not in own]
        if left_out:
            names = ", ".join(left_out)
            self._display.warning(printable(f"--limit leaves out {names}: they count as hosts that cannot be reached."))
        return hosts, left_out

    def _own(self, task_vars: Mapping[str, Any]) -> Any:
        return PlainHosts(task_vars["hostvars"])[task_vars["inventory_hostname"]]

    def _answers(self, state: State, verb: str, hostvars: Any) -> dict[str, Any]:
        """Return the answers of the hosts of the state's step, unchanged, because nothing in them is a template."""
        left_out = state.get("left_out") or ()
        return {
            host: LEFT_OUT if host in left_out else hostvars.raw_get(host).get(f"{verb}_answer") or {}
            for host in hosts_of(state)
        }

    def _outside(self, task_vars: Mapping[str, Any]) -> Outside:
        return Outside(
            now=time.time(),
            draw=lambda: str(uuid.uuid4()),
            forks=int(task_vars.get("ansible_forks") or 5),
            check_mode=bool(self._task.check_mode),
            inventory=PlainHosts(task_vars["hostvars"]),
            site=pick(self._own(task_vars), SITE_VARIABLES),
            read_archive=_read_archive,
            run=this_run(),
            has_ended=has_ended,
            asker=read_asker(task_vars, reader(self._templar)),
            scope=read_scope(task_vars, reader(self._templar)),
        )

    def _result(self, state: State, name: str, says: bool, event: events.Event | None) -> dict[str, Any]:
        handing = HANDING.get(name)
        if "failure" in state and not state["step"]:
            shown = {"diff": state["diff"]} if "diff" in state else {}
            return {"failed": True, "msg": spoken(state["failure"]), **spoken(shown)}
        is_over = not state["step"]
        if is_over and says and handing is not None:
            # Shown as ansible.builtin.debug does. Data for later jobs was passed on before, or it would also be shown.
            shown = {"changed": False, "msg": spoken(handing.closing_lines(state)), "_ansible_verbose_always": True}
            return {**shown, "warnings": spoken(state["warnings"])} if state.get("warnings") else shown
        result: dict[str, Any] = {"changed": False, **state}
        result.update({key: spoken(result[key]) for key in SPOKEN & result.keys()})
        if is_over and state.get("hands_on") and handing is not None:
            result.update(lines=spoken(handing.closing_lines(state)), saying=handing.SAY)
        artifact = _artifact(handing, state, event)
        result.update(handed_on(artifact) if artifact else {})
        # Only a launch has a difference, and its state contains nothing of other sessions.
        return result if "diff" in result else not_shown(result)


def _artifact(handing: HandingVerb | None, state: State, event: events.Event | None) -> dict[str, object]:
    """Return the variables that a verb hands on to later jobs of a workflow."""
    if handing is None:
        return {} if event is None else {EVENT: event}
    data = handing.handed_on(state) if state.get("hands_on") else None
    return {} if data is None else {ARTIFACT: encode(data)}


def _read_archive(request: Request) -> Archive:
    """Return the images in the controller's archive, or those of its engine. Raises InvalidInput."""
    references = sorted({role.image for role in request.roles})
    if request.image_from is not None:
        return read_images(references, C.DEFAULT_LOCAL_TMP)
    path = str(request.image_archive)
    found = read_archive(path)
    check_archive(path, found, references)
    return found

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Say, on the controller, what hosts look at and whom they try, and judge what they answer."""

from __future__ import annotations

import dataclasses
import secrets
import uuid
from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import CoreError, InvalidInput
from ansible_collections.cluster_compute.session.plugins.module_utils.core.group import SITE_VARIABLES, pick
from ansible_collections.cluster_compute.session.plugins.module_utils.core.matrix import read_measured
from ansible_collections.cluster_compute.session.plugins.module_utils.core.preflight import (
    ASKED,
    Answers,
    Asked,
    judge,
    plan_trial,
    proofs_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.report import answer_of, problems_of, report
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.addressing import parse_port_pool
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.data import roots_of
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.site import HOST_VARIABLES, Settings
from ansible_collections.cluster_compute.session.plugins.module_utils.core.trial import Trial, rounds


class ActionModule(ActionBase):
    """The action behind the module session_preflight."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what the state asks for; fail with everything that is wrong with the variables."""
        super().run(tmp, task_vars)
        task_vars = task_vars or {}
        mappings = ("settings", "hosts", "listening", "reached", "ended")
        _result, arguments = self.validate_argument_spec(
            {
                "state": {"type": "str", "choices": ["asked", "planned", "judged"], "required": True},
                "known": {"type": "list", "elements": "str", "required": True},
                **{name: {"type": "dict", "default": {}} for name in mappings},
                "plan": {"type": "dict"},
                "measured": {"type": "list", "elements": "dict", "default": []},
            }
        )
        hostvars = task_vars["hostvars"]
        own = hostvars[task_vars["inventory_hostname"]]
        given = {f"preflight_{name}": value for name, value in arguments["settings"].items()}
        try:
            asked = Asked.from_variables({**given, **pick(own, ASKED)})
            settings = Settings.from_variables(pick(own, SITE_VARIABLES))
        except CoreError as error:
            return {"failed": True, "msg": f"Preflight cannot begin; no host was touched.\n{error}"}
        known = arguments["known"]
        inventory = {host: pick(hostvars[host], HOST_VARIABLES) for host in known}
        if arguments["state"] == "asked":
            return _looks(asked, inventory)
        answers = _answers(known, arguments["hosts"], inventory)
        if arguments["state"] == "planned":
            return _plan(asked, settings, answers)
        return _judge(asked, settings, answers, arguments)


def _looks(asked: Asked, inventory: Mapping[str, Any]) -> dict[str, Any]:
    roots = {}
    for host in inventory:
        try:
            roots[host] = list(roots_of(inventory, host))
        except InvalidInput:  # a finding says so
            roots[host] = []
    return {
        "changed": False,
        "matrix": asked.matrix,
        "looks": {
            "images": asked.images,
            "paths": asked.paths,
            "volumes": asked.volumes,
            "encryption": asked.request.encrypted,
            "roots": roots,
        },
    }


def _answers(known: list[str], results: Mapping[str, Any], inventory: dict[str, dict[str, Any]]) -> Answers:
    observed, unreachable = {}, {}
    for host in known:
        result = results.get(host) or {}
        if result.get("observed"):
            observed[host] = result["observed"]
        else:
            said = str(result.get("msg") or result.get("module_stderr") or "It did not answer").strip()
            begin = "It cannot be reached: " if result.get("unreachable") else ""
            unreachable[host] = begin + said.splitlines()[-1]
    return Answers(known=known, unreachable=unreachable, observed=observed, inventory=inventory)


def _plan(asked: Asked, settings: Settings, answers: Answers) -> dict[str, Any]:
    trial = plan_trial(answers.observed, settings, asked.peers, secrets.randbits(32))
    names = list(trial.hosts)
    schedule = rounds(len(names), asked.rounds) if asked.matrix else []
    return {
        "changed": False,
        "plan": {
            "trial": dataclasses.asdict(trial),
            "proofs": proofs_of(asked, answers, trial),
            "settings": {
                "port": settings.vxlan_port,
                "ports": list(settings.image_ports),
                "encrypted": list(parse_port_pool(settings.encrypted_ports)) if asked.request.encrypted else None,
                "seconds": asked.seconds,
                "size": asked.size,
                "proof_id": str(uuid.uuid4()),
            },
        },
        "rounds": [{names[one]: names[other] for one, other in pairs} for pairs in schedule],
        "token": secrets.token_hex(32),
    }


def _judge(asked: Asked, settings: Settings, answers: Answers, arguments: Mapping[str, Any]) -> dict[str, Any]:
    plan = arguments["plan"]
    trial = answers.trial = Trial(**plan["trial"])
    names = list(trial.hosts)
    answers.silent = dict(trial.why_not)
    for host in names:
        listening, reached, ended = (arguments[key].get(host) or {} for key in ("listening", "reached", "ended"))
        if not listening.get("server"):
            answers.silent[host] = _why(listening)
            continue
        if reached.get("peers") is None:
            answers.silent[host] = _why(reached)
            continue
        answers.probed[host] = {names[int(number)]: one for number, one in reached["peers"].items()}
        answers.ports[host] = listening["port"]
        answers.udp_ports[host] = listening["udp"]
        answers.proofs[host] = reached["proofs"]
        answers.unwritten.update({path: (host, why) for path, why in listening["problems"].items()})
        if ended.get("heard") is not None:
            tunnel, plain = ended["heard"]["tunnel"], ended["heard"]["plain"]
            answers.heard[host] = {names[int(number)]: size for number, size in tunnel.items()}
            answers.heard_plain[host] = [names[int(number)] for number in plain]
        else:
            answers.silent[host] = "What it heard is lost: " + _why(ended)
    for one in arguments["measured"]:
        if not one.get("measured"):
            answers.unmeasured[(one["from"], one["to"])] = _why(one)
    answers.measured = read_measured(one["measured"] for one in arguments["measured"] if one.get("measured"))
    clocks = {host: _clock(result) for host, result in arguments["hosts"].items() if result.get("times")}
    findings = judge(asked, settings, answers, clocks)
    return {
        "changed": False,
        "answer": answer_of(findings, answers, clocks),
        "table": report(findings, answers),
        "problems": problems_of(findings, answers, asked.strict),
    }


def _why(result: Mapping[str, Any]) -> str:
    return str(result.get("msg") or "It did not answer")


def _clock(result: Mapping[str, Any]) -> tuple[float, float]:
    """Return by how many seconds, at least and at most, a host's clock is ahead of the controller's."""
    before, after = result["controller"]
    begin, end = result["times"]
    return end - after, begin - before

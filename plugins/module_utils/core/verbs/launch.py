# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Launch: find a place for a session, hold it on all hosts or on none, start there, and prove that it runs.

| step | what hosts do | what follows |
|---|---|---|
| look | every host says what it has | plan: cleanup, images, offer, replace, hold, start, queue, again, or the end |
| takeover | what a run held that was ended is rolled back | look |
| cleanup | each writes down what became of sessions, and removes what nobody owns | look |
| ask, pull, load, serve, receive | images go where they are missing (see images) | the next, stop, look, or on |
| stop | those that serve for nobody end | offer, replace, hold, look, or the end |
| offer, compare, withdraw | shared folders of a session that is to replace one are tried | replace, or the end |
| replace | every host removes the session that is replaced | remember, hold, or the end |
| remember | hosts set tombstones for those that could not remove | hold, or what follows an undoing |
| hold | each leases its part and makes its keys under it; name hosts the name | begin, start, hold, release, undo |
| release | each rolls back what this launch holds there, and its keys | look, queue, or the end |
| reserve, withhold, part, fence, apply, again, join, clear | a session that runs changes | look, batch, the end |
| begin | each confirms its lease, makes its part but for roles that come later | ready, begin, start, undo |
| ready | those that did not wait for their replicas, as hosts had to wait for their turn, do | begin, start, undo |
| start | each confirms its lease, makes its part, finds its peers; others keep a stub | start, meet, batch, undo, end |
| meet | those whose peers were late look for them once more | batch, undo, the end |
| batch | main1's host starts the batch command | undo, or the end |
| undo | every host keeps what becomes of one from the queue, and removes what was made | remember, look, or the end |
| keep | every host keeps what became of a session from the queue | look, or the end |
| name | name hosts hold the name of one that is to wait | queue, name, release |
| queue | every host keeps the request | wait, or the end |
| wait | every host waits until another session gives room back, and looks | as after look, or look |
| tell | nothing: what was handed on is put right | the end |

The plain way is look, hold, start; a session that runs as asked goes from look to start. Where roles come after others
there is a begin for each wave but the last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils.core.change_planner import ChangePlanner
from ansible_collections.cluster_compute.session.plugins.module_utils.core.cluster_state import RULES
from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import CoreError
from ansible_collections.cluster_compute.session.plugins.module_utils.core.group import GroupFacts
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.answers import (
    A,
    Answer,
    FactsAnswer,
    ImagesAnswer,
    JobAnswer,
    SessionAnswer,
    SeveralAnswers,
    read_answers,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.facts import HostFacts, read_facts
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.record import (
    ERROR,
    PENDING,
    REPLACE,
    RUNNING,
    Record,
    is_stub,
    read_record,
    says_the_same,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.record import (
    advance as revise,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.request import Request
from ansible_collections.cluster_compute.session.plugins.module_utils.core.output import batch_job
from ansible_collections.cluster_compute.session.plugins.module_utils.core.planner import (
    Wish,
    undetected,
    warnings_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.access import ADMIN
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.isolation import is_kept_out
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.ledger import (
    ASK_AGAIN,
    COMMITTED,
    GRANTED,
    ROLL_BACK,
    Claim,
    resolve_reservations,
    turns_seconds,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.site import Settings
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.start_order import start_waves
from ansible_collections.cluster_compute.session.plugins.module_utils.core.show.outcome import (
    PLACED,
    PLANNED,
    artifact,
    table_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.verbs import change, cleanup, images
from ansible_collections.cluster_compute.session.plugins.module_utils.core.verbs.change import (
    DECIDE,
    OUTPUT,
    PATIENCE,
    STATE_DIRECTORY,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.verbs.teardown import tombstones_for
from ansible_collections.cluster_compute.session.plugins.module_utils.core.verbs.verb import (
    Answers,
    Call,
    Outside,
    State,
    call,
    hosts_of,
    step,
    with_unreachable,
)

REFUSED = "The session cannot be launched."
SAY = "Say what runs where, or why it waits"
GRACE = 30
"""Seconds beyond those for which another run holds a place, for a host that answers late."""
ADVICE = "Correct what is said above and launch again. With -v the answer of each host is shown in full."


def launch_request(
    request: Request,
    owner: str,
    shared_with: Sequence[str] = (),
    *,
    recreate: bool = False,
    wait: bool = False,
    wait_seconds: int = 0,
    min_size: int | None = None,
    replaces: bool = False,
    displaced: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return what the steps of a launch need of a request.

    min_size: one that runs may grow by less than is asked, to no fewer replicas than this. replaces: whether replicas
    of lost hosts find others whatever the request says. displaced: replicas that are to leave their hosts, with these.
    """
    return {
        "session_name": request.name,
        "resource_group": request.resource_group,
        "images": sorted({role.image for role in request.roles}),
        "paths": sorted({mount.source for mount in request.mounts if mount.source is not None}),
        "volumes": sorted({mount.volume for mount in request.mounts if mount.volume is not None}),
        "request": request.to_dict(),
        "encrypted": request.encrypted,
        "owner": owner,
        "shared_with": list(shared_with),
        "recreate": recreate,
        "wait": wait,
        "wait_seconds": wait_seconds,
        "min_size": min_size,
        "replaces": replaces,
        "displaced": dict(displaced or {}),
    }


def begin(
    request: Mapping[str, Any],
    hosts: Sequence[str],
    now: float,
    *,
    attempts: int = 20,
    from_queue: bool = False,
    regenerate_keys: bool = False,
    hands_on: bool = False,
) -> State:
    """Return the first state.

    request: of launch_request, with ``waits``, the record, where the session waits already, ``changes``, its id, where
    it runs and is only to be changed, and ``known_unreachable``, hosts of which this run knows that they cannot be
    reached. hosts: of the resource group. attempts: how often it plans anew where others were faster. from_queue:
    whether a failure is an outcome like others. hands_on: whether what follows in a workflow is told of the session.
    """
    unreachable = list(request.get("known_unreachable") or ())
    return {
        "verb": "launch",
        "request": dict(request),
        "known": list(hosts),
        "known_unreachable": unreachable,
        "attempts": attempts,
        "attempt": 0,
        "asked_again": 0,
        "wave": 0,
        "awaited": None,
        "named": None,
        "alone": [],
        "sick": {},
        "silent": [],
        "rounds": 0,
        "waits": dict(request.get("waits") or {}),
        "wait_until": now + float(request.get("wait_seconds") or 0),
        "from_queue": from_queue,
        "regenerate_keys": regenerate_keys,
        "hands_on": hands_on,
        "promised": None,
        "cleaned_up": False,
        "pause": False,
        "warnings": [],
        "done": {},
        "replicas": [],
        "public_keys": {},
        "displaced": dict(request.get("displaced") or {}),
        "avoid": sorted(set((request.get("displaced") or {}).values())),
        "given_up": [],
        "changes": request.get("changes") or "",
        "peers_heard": bool(request.get("peers_of")),
        **_look(request, [host for host in hosts if host not in unreachable], request.get("peers_of") or ()),
    }


def advance(state: State, answers: Answers, outside: Outside) -> State:
    """Return what follows from the answers to the state's step.

    Beside what every state has: ``play_hosts``, those that the plain way has something to do for, at least one; and
    ``left``, those that what is rare has something to do for.
    """
    following = _Launch(state, answers, outside).next()
    # One that has answered: a host that failed is no host of the plays that follow.
    own = (following.get("reachable") or following["known"])[:1]
    if following["step"] in ("hold", "begin", "start"):
        own = list(dict.fromkeys([*hosts_of(following), *following["stub_hosts"]]))
    return {**following, "play_hosts": own, "left": following["known"] if following["step"] else []}


def handed_on(state: State) -> dict[str, Any] | None:
    """Return what follows in a workflow is told, as far as it is known; None while nothing is."""
    if not state["hands_on"] or state["promised"] is None:
        return None
    return artifact(state, state["promised"], _report_of(state))


def closing_lines(state: State) -> list[str]:
    """Return what people are told at the end."""
    placed = state["outcome"]["status"] in PLACED
    return [*state["outcome"]["report"], *(table_of(state["record"], state["replicas"]) if placed else ())]


def _report_of(state: State) -> list[str]:
    return list((state.get("outcome") or {}).get("report") or state.get("report") or ())


def _look(request: Mapping[str, Any], hosts: Sequence[str], peers_of: Sequence[str] = ()) -> State:
    arguments = {
        **({"peers_of": list(peers_of)} if peers_of else {}),
        "session_name": request["session_name"],
        "images": request["images"],
        "paths": request["paths"],
        "volumes": request["volumes"],
        "encryption": request["encrypted"],
        "underlay_address": "",
    }
    variables = {
        "underlay_address": "launch_underlay_address",
        "accelerators": "launch_accelerators",
        **STATE_DIRECTORY,
    }
    return step("look", "Look at the hosts", "Plan the session", [call("host_info", hosts, arguments, (), variables)])


class _Launch:
    """One decision of a launch."""

    def __init__(self, state: State, answers: Answers, outside: Outside) -> None:
        kept = {key: value for key, value in state.items() if key not in ("diff", "lines", "saying")}
        self.state: State = {**kept, "pause": False, "warnings": []}
        self.results: Answers = {host: answers.get(host) or {} for host in hosts_of(state)}
        if state["step"] == "look":
            self.results = with_unreachable(answers, state["known"], state["known_unreachable"])
        self.outside = outside

    @cached_property
    def answers(self) -> dict[str, SessionAnswer]:
        """What the hosts answered as far as all calls answer it, and session_host."""
        return read_answers(SessionAnswer, self.results)

    def next(self) -> State:
        """Return the next state."""
        if self.state["step"] in change.STEPS:
            self._remember_actions()
            following = change.advance(self.state, self.answers, self.outside)
            return following if following["step"] else self._changed(following)
        if self.state["step"] in ("replace", "hold", "begin", "start"):
            self._remember_actions()
        next_state: State = getattr(self, f"_after_{self.state['step']}")()
        return next_state

    def _remember_actions(self) -> None:
        """Keep what was, or would be, done on each host; of a start it is said with what was made before."""
        done = {host: list(actions) for host, actions in self.state["done"].items()}
        for host, answer in self.answers.items():
            done.setdefault(host, []).extend(answer.actions or ())
        self.state["done"] = done

    # ---- where the launch ends ------------------------------------------------------------------------------------

    def _over(self, status: str, report: Sequence[str]) -> State:
        outcome = {"session_name": self.state["session_name"], "status": status, "report": list(report)}
        return self._tell({"outcome": outcome}, status)

    def _fail(self, *lines: str) -> State:
        return self._tell({"failure": "\n".join(lines)}, None if self.state["promised"] is None else ERROR)

    def _tell(self, end: State, status: str | None) -> State:
        """End at once where what was handed on is right, else put that right first."""
        if not self.state["hands_on"] or status == self.state["promised"]:
            return {**self.state, **step("", "", ""), **end}
        return {**self.state, "promised": status, **end, **step("tell", "Hand it on to what follows", SAY)}

    def _after_tell(self) -> State:
        return {**self.state, **step("", "", "")}

    # ---- looking and planning -------------------------------------------------------------------------------------

    def _look_again(self, *, pause: bool = False, peers_of: Sequence[str] = ()) -> State:
        peers_heard = bool(peers_of)
        hosts = [host for host in self.state["known"] if host not in self.state["known_unreachable"]]
        look = _look(self.state["request"], hosts, peers_of)
        return {**self.state, "pause": pause, "peers_heard": peers_heard, **look}

    def _after_look(self) -> State:
        return self._plan(read_answers(FactsAnswer, self.results))

    def _plan(self, answers: Mapping[str, FactsAnswer]) -> State:
        state, outside = self.state, self.outside
        given = state["request"]
        try:
            request = Request.from_dict(given["request"])
            group = GroupFacts.read(answers, outside.inventory, state["sick"])
            if not state["from_queue"]:
                group.require({*request.hosts} - {*request.excluded_hosts, *state["sick"]})
            waits = read_record(state["waits"]) if state["waits"] else None
            planner = ChangePlanner(
                request,
                given["owner"],
                given["recreate"],
                group,
                Settings.from_variables(outside.site),
                draw=outside.draw,
                read_archive=outside.read_archive,
                run=outside.run,
                shared_with=given["shared_with"],
                asker=ADMIN if state["from_queue"] else outside.asker,
                wish=Wish(
                    given.get("min_size"),
                    bool(given.get("replaces")),
                    state["displaced"],
                    tuple(state["avoid"]),
                    tuple(state["given_up"]),
                    state["changes"],
                    bool(given.get("wait")),
                ),
                alone=state["alone"],
            )
            # What others have lost is seen to after this launch, by a play of its own.
            # To Ansible a result with the key unreachable is that of a host that is.
            state.update(losses=group.losses(planner.view, request.name), unreachable_hosts=group.unreachable)
            if planner.asks_peers and not state["peers_heard"]:
                return self._look_again(peers_of=planner.asks_peers)
            if {*planner.alone} - {*state["alone"]}:
                # A name that is held by what is left of another session; a second look tells whether it is.
                state["alone"] = planner.alone
                return self._look_again(pause=True)
            found = planner.decide(waits, state["from_queue"], state["cleaned_up"])
        except CoreError as error:
            why = undetected(answers) if "session_accelerators" in str(error) else []
            return self._fail(REFUSED, str(error), *why, *self._sick_lines())
        if found["status"] == "DIFFERENT":
            return {**self._fail(found["failure"]), "diff": found["diff"]}
        state = self.state = {**state, **found, "cleaned_up": False}
        state["warnings"] = warnings_of(found, group, planner.problems) + undetected(answers)
        state["recorded"], state["looked"], state["host_names"] = group.recorded, group.looked, group.host_names
        state["signatures"] = {name: facts.signature for name, facts in group.facts.items()}
        if found["status"] == "CLEANUP":
            return {**state, **cleanup.cleanup_step(found["cleanup_actions"], DECIDE, {**STATE_DIRECTORY, **OUTPUT})}
        if takeover := self._take_over_change():
            return takeover
        state["attempt"] += 1
        state["again"] = False
        if found["status"] != "SCHEDULED":
            return self._not_placed(found, group.unreachable)
        state["granted"], state["wave"] = False, 0
        state["image_facts"] = _image_facts(group) if found["fetches"] else {}
        record = self._record
        state["stub_hosts"] = [name for name, facts in group.facts.items() if self._lacks_stub(record, name, facts)]
        state["kept_out"] = [name for name, facts in group.facts.items() if is_kept_out(facts, record)]
        if found["change"]:
            leaving = found["change"]["leaving"]
            state["stub_hosts"] = [host for host in state["stub_hosts"] if host not in leaving]
            state["statuses"] = _statuses_of(group, record)
            state["public_keys"] = group.public_keys(record)
        else:
            state["public_keys"] = {} if found["fresh"] or state["regenerate_keys"] else _keys_of(group, record)
        return self._fetch()

    @property
    def _record(self) -> Record:
        """The session's record with its plan."""
        return read_record(self.state["record"])

    def _lacks_stub(self, record: Record, host: str, facts: HostFacts) -> bool:
        """Tell whether a host is to be told of the session although it carries no replica of it."""
        if host in self.state["hosts"] or _has_stub(facts, record):
            return False
        knows = any(copy.id == record.id for copy in facts.records)
        return knows or host in self.state["name_hosts"] or not is_kept_out(facts, record)

    def _not_placed(self, found: Mapping[str, Any], silent: list[str]) -> State:
        """Follow a plan that has no place for the session."""
        if found["grows_later"] and not self.state["from_queue"]:
            return self._await_room()
        if found["launchers"] and not self.state["from_queue"]:
            return self._await_launch(found)
        if found["status"] == "WAITING" and self.state["attempt"] < self.state["attempts"]:
            return self._look_again(pause=True)
        is_new = not (self.state["from_queue"] or self.state["rounds"])
        if (
            found["status"] == "PENDING"
            and is_new
            and set(silent) - {*self.state["silent"], *(self.state.get("left_out") or ())}
        ):
            # It may be out of reach for a moment only, and who waits keeps others from the room that it is to have.
            self.state["silent"] = silent
            return self._look_again(pause=True)
        if found["status"] in ("CANCELLED", "REFUSED") and not self.state["from_queue"]:
            return self._fail(REFUSED, *found["report"])
        if (
            self.state["sick"]
            and found["status"] == "PENDING"
            and not (self.state["from_queue"] or self.state["rounds"])
        ):
            return self._not_held(self._sick_lines())
        return self._queue(found["report"])

    def _sick_hosts(self) -> dict[str, str]:
        """Return the hosts that failed in the state's step for reasons of their own, and why; plans leave them out."""
        found = {host: answer.why_not for host, answer in self.answers.items() if answer.sick}
        self.state["sick"] = {**self.state["sick"], **found}
        return found

    def _sick_lines(self) -> list[str]:
        return [f"{host}: {why}" for host, why in self.state["sick"].items()]

    def _not_held(self, reasons: Sequence[str]) -> State:
        return self._fail(
            f"The session {self.state['session_name']} could not be launched; its place could not be held on every "
            "host.",
            *reasons,
            "Nothing was started. Correct what is said above and launch again.",
        )

    def _await_launch(self, found: Mapping[str, Any]) -> State:
        """Wait for another run that launches a session of this name, or take over from one that has ended for sure."""
        state, launchers, now = self.state, found["launchers"], self.outside.now
        if self.outside.check_mode:
            return self._over(PENDING, found["report"])
        has_ended = all(self.outside.has_ended(held["lease_owner"]) for held in launchers.values())
        if has_ended and state["attempt"] < state["attempts"]:
            # The leases alone: by the records the next look tells what was made, and who removes it.
            own = {
                host: {"claim": held["claim"], "lease_owner": held["lease_owner"], "host": host}
                for host, held in launchers.items()
            }
            some = next(iter(launchers.values()))
            names = {
                host: {"claim": some["claim"], "lease_owner": some["lease_owner"]}
                for host in state["name_hosts"]
                if host not in own
            }
            calls = [call("session_host", {**own, **names}, {"state": "released"}, (), STATE_DIRECTORY)]
            return {**state, **step("takeover", "Take over from a launch that was ended", DECIDE, calls)}
        state["attempt"] -= 1  # a run that is at work comes to an end, and what has run out is nobody's
        left = max(int(held["left"]) for held in launchers.values())
        # A run that is at work holds its place for longer with each wave of roles.
        kept = ("stage", "lease_owner", "expires")
        awaited = [[host, *(held[key] for key in kept)] for host, held in launchers.items()]
        if state["awaited"] != awaited:
            since = state["awaited_since"] if state["awaited"] else now
            state.update(awaited=awaited, awaited_since=since, awaited_until=now + left + GRACE)
        if now > state["awaited_until"]:
            return self._fail(REFUSED, *found["report"], "Launch the session again when that run has ended.")
        state.update(lines=found["report"], saying="Say what it waits for")
        # Rounds include each other, as those of one that waits for room do: the longer it takes, the fewer.
        longer = max(min(left / 10, 10), (now - state["awaited_since"]) / 10, 1)
        return {**self._look_again(), "pause": min(longer, max(left, 10))}

    def _take_over_change(self) -> State | None:
        """Have given back first what a change of this session holds that was ended for sure; None where nothing is."""
        state = self.state
        ended = {
            host: {**lease, "host": host}
            for host, lease in state["changing"].items()
            if self.outside.has_ended(lease["lease_owner"])
        }
        if not ended or self.outside.check_mode or state["attempt"] >= state["attempts"]:
            return None
        state["attempt"] += 1
        calls = [call("session_host", ended, {"state": "released"}, (), STATE_DIRECTORY)]
        return {**state, **step("takeover", "Take over from a change that was ended", DECIDE, calls)}

    def _after_takeover(self) -> State:
        return self._look_again()

    def _after_cleanup(self) -> State:
        self.state["cleaned_up"] = True
        self.state["warnings"] = cleanup.problems_of(self.answers)
        return self._look_again()

    # ---- images ---------------------------------------------------------------------------------------------------

    def _fetch(self) -> State:
        if not self.state["fetches"]:
            return self._try_folders()
        self.state["images_so_far"] = {}
        return self._images({})

    def _images(self, came: Mapping[str, Mapping[str, ImagesAnswer]]) -> State:
        """Take what came of the last step, and name what each host does next to get the images."""
        state = self.state
        if came:
            self._sick_hosts()
        first, last = Settings.from_variables(self.outside.site).image_ports
        distribution = images.Distribution(
            state,
            {host: read_facts(facts, f"Host {host}") for host, facts in state["image_facts"].items()},
            state["images_so_far"],
            (first, last),
            images.BATCHES * self.outside.forks,
            self.outside.check_mode,
        )
        distribution.resolved(came.get("resolved", {}))
        distribution.pulled(came.get("pulled", {}))
        distribution.arrived(came.get("served", {}), came.get("arrived", {}))
        found = distribution.result()
        completed = found.pop("record")
        state["images_so_far"] = found
        if found["report"]:
            state.update(lines=found["report"], saying=_saying(came))
        progress = found["progress"]
        if found["asks"]:
            asks = {host: {"images": references} for host, references in found["asks"].items()}
            title = "Ask the registry, once for all hosts, which image it is"
            return self._image_step("ask", title, "resolved", asks)
        if found["pulls"]:
            pulls = {host: {"pulls": digests} for host, digests in found["pulls"].items()}
            title = f"Pull by digest, side by side, {progress}"
            return self._image_step("pull", title, "pulled", pulls)
        if found["loads"]:
            archive = {"archive": state["request"]["request"]["image_archive"], "allowed": state["archive"]}
            loads = {host: {"transfer": found["receives"][host], **archive} for host in found["loads"]}
            title = f"Bring the image from the controller to one host, {progress}"
            return self._image_step("load", title, "loaded", loads)
        if found["serves"]:
            return self._serve({})
        missing = {host: result["msg"] for host, result in found["results"].items() if "msg" in result}
        if found["useless"]:
            state["missing"], state["completed"] = missing, completed
            useless = {host: {"servers": servers} for host, servers in found["useless"].items()}
            return self._image_step("stop", "End what waits for hosts in vain", "ended", useless)
        return self._have_images(missing, completed)

    def _image_step(self, name: str, title: str, kind: str, hosts: Mapping[str, Any]) -> State:
        return {**self.state, **step(name, title, DECIDE, [call("session_images", hosts, {"state": kind})])}

    def _of_images(self, key: str = "") -> dict[str, ImagesAnswer]:
        """Return what hosts answered in this step, or in the former one that the state has under a key."""
        return read_answers(ImagesAnswer, self.state[key] if key else self.results)

    def _after_ask(self) -> State:
        return self._images({"resolved": self._of_images()})

    def _after_pull(self) -> State:
        return self._images({"pulled": self._of_images()})

    def _after_load(self) -> State:
        if self.state["images_so_far"]["serves"]:
            return self._serve(self._of_images())
        return self._images({"arrived": self._of_images()})

    def _serve(self, loaded: Mapping[str, ImagesAnswer]) -> State:
        """Start the servers before any receiver is, so that none waits for a sender whose turn has not come."""
        self.state["loaded"] = encode(loaded)
        found = self.state["images_so_far"]
        serves = {
            host: {"transfer": transfer, "address": found["addresses"][host], "ports": found["ports"]}
            for host, transfer in found["serves"].items()
        }
        return self._image_step("serve", f"Start to serve, {found['progress']}", "serving", serves)

    def _after_serve(self) -> State:
        found, served = self.state["images_so_far"], self._of_images()
        self.state["served"] = encode(served)
        receives = {
            host: {
                "transfer": transfer,
                "address": found["addresses"][transfer["sender"]],
                "server": {"port": source.port, "fingerprint": source.fingerprint},
            }
            for host, transfer in found["receives"].items()
            if host not in found["loads"]
            and (source := served.get(transfer["sender"])) is not None
            and source.port is not None
        }
        title = f"Receive, {found['progress']}"
        return self._image_step("receive", title, "received", receives)

    def _after_receive(self) -> State:
        arrived = {**self._of_images(), **self._of_images("loaded")}
        return self._images({"served": self._of_images("served"), "arrived": arrived})

    def _after_stop(self) -> State:
        return self._have_images(self.state["missing"], self.state["completed"])

    def _have_images(self, missing: Mapping[str, str], completed: Mapping[str, Any]) -> State:
        if not missing:
            self.state["record"] = completed
            return self._try_folders()
        reasons = [f"{host}: {why}" for host, why in missing.items()]
        sick = [host for host in missing if host in self.state["sick"]]
        if sick and self.state["fresh"] and self.state["attempt"] < self.state["attempts"]:
            return self._look_again()
        if self.state["from_queue"]:
            return self._keep(_failed_record(self._record, reasons, [], sick), reasons)
        return self._fail(
            "The session cannot be launched: its image cannot be had. Nothing was started. Correct session_image, or "
            "give the image to a host of the group.",
            *reasons,
        )

    # ---- replacing ------------------------------------------------------------------------------------------------

    def _try_folders(self) -> State:
        """Find out folders that are not the same everywhere while the session that is replaced still runs."""
        state = self.state
        if not state["replaces"]:
            return self._hold()
        if not state["record"]["plan"]["request"]["mounts"] or self.outside.check_mode:
            return self._replace()
        return self._folder_step("offer", "Write into the folders that hosts share", "probe_written")

    def _folder_step(self, name: str, title: str, kind: str) -> State:
        own = {host: {"host": host} for host in self.state["hosts"]}
        calls = [call("session_host", own, {"state": kind}, ["record", "lease_owner"], STATE_DIRECTORY)]
        return {**self.state, **step(name, title, DECIDE, calls)}

    def _after_offer(self) -> State:
        failures, _unreachable = self._failures(self.answers, _actions)
        if failures:
            return self._withdraw(failures)
        return self._folder_step("compare", "Read there what the other hosts have written", "probe_checked")

    def _after_compare(self) -> State:
        return self._withdraw(self._failures(self.answers, _actions)[0])

    def _withdraw(self, failures: list[str]) -> State:
        self.state["folder_failures"] = failures
        arguments = {"state": "absent", "session_id": self.state["record"]["id"], "undo": True}
        calls = [call("session_host", self.state["hosts"], arguments, (), STATE_DIRECTORY)]
        return {**self.state, **step("withdraw", "Take away what was written", DECIDE, calls)}

    def _after_withdraw(self) -> State:
        if self.state["folder_failures"]:
            return self._fail(
                f"The session {self.state['session_name']} cannot be launched anew; the one that runs was not touched.",
                *self.state["folder_failures"],
            )
        return self._replace()

    def _replace(self) -> State:
        arguments = {"state": "absent", "session_name": self.state["session_name"]}
        calls = [call("session_host", self.state["known"], arguments, ["lease_owner"], {**STATE_DIRECTORY, **OUTPUT})]
        return {**self.state, **step("replace", "Remove the session that this one replaces", DECIDE, calls)}

    def _after_replace(self) -> State:
        return self._write_tombstones("hold")

    def _write_tombstones(self, then: str) -> State:
        """Remember which hosts have to be cleaned later, and go on. then: what follows, hold or undone."""
        found = tombstones_for(self.answers)
        self.state["warnings"] = found.report if found.unreachable else []
        self.state["after_burial"] = then
        self.state["unremoved"] = found.report if found.failed and then == "hold" else []
        if found.is_needed:
            title = "Remember what has to be cleaned later where it is known"
            return {**self.state, **step("remember", title, DECIDE, found.calls(STATE_DIRECTORY))}
        return self._after_remember()

    def _after_remember(self) -> State:
        if self.state["unremoved"]:
            return self._fail(
                f"The session {self.state['session_name']} is not removed from every host.", *self.state["unremoved"]
            )
        return self._hold() if self.state["after_burial"] == "hold" else self._undone()

    # ---- reserving ------------------------------------------------------------------------------------------------

    def _hold(self) -> State:
        """Hold the place, unless the session runs, holds it already, and has all of its keys."""
        if self.state["change"]:
            self.state["changes"] = self.state["record"]["id"]
            return change.begin(self.state, self.outside)
        if self.state["public_keys"]:
            return self._start()
        fresh = self.state["fresh"]
        own = {
            host: {**self.state["claims"][host], "host": host, "recorded": self.state["recorded"][host]}
            for host in self.state["hosts"]
        }
        variables = {
            "lease_seconds": "launch_lease_seconds",
            "deadline_seconds": "launch_deadline_seconds",
            "regenerate_keys": "launch_regenerate_keys",
            **STATE_DIRECTORY,
        }
        longer = self._longer()
        calls = [call("session_host", own, {"state": "held", **longer}, ["record", "lease_owner"], variables)]
        named = [host for host in self.state["name_hosts"] if host in self.state["stub_hosts"]] if fresh else []
        if named:
            # A claim of the name alone: of two launches at the same moment, wherever they find places, one gets it.
            lease = {"lease_seconds": "launch_lease_seconds", **STATE_DIRECTORY}
            claim = {"state": "named", "claim": self.state["name_claim"], **longer}
            calls.append(call("session_host", named, claim, ["lease_owner"], lease))
        title = "Hold the place on every host of the plan, and make the keys" if fresh else "Hold what it has"
        return {**self.state, **step("hold", title, DECIDE, calls)}

    def _longer(self) -> dict[str, int]:
        """Return how much longer hosts hold their parts; only where there are turns, so that calls carry no more."""
        seconds = turns_seconds(len(self.state["hosts"]), self.outside.forks)
        return {"turns_seconds": seconds} if seconds else {}

    def _after_hold(self) -> State:
        state = self.state
        last = state["attempt"] >= state["attempts"]
        # A name host that cannot answer is one that knows less: the others are asked as well.
        given = {
            host: answer
            for host, answer in self.answers.items()
            if host in state["hosts"] or answer.granted is not None
        }
        sick = self._sick_hosts() if state["fresh"] and not last else {}
        broken = [
            host
            for host, answer in given.items()
            if answer.granted is None and not answer.unreachable and host not in sick
        ]
        answers = {host: answer.to_claim for host, answer in given.items()}
        reasons = [f"{host}: {reason}" for host, answer in answers.items() for reason in answer.reasons]
        outcome = resolve_reservations(state["record"]["id"], answers)
        if outcome == GRANTED:
            own = {host: self.answers[host] for host in state["hosts"]}
            failures, unreachable = self._failures(own, lambda answer: answer.public_keys)
            if failures:
                return self._failed(failures, unreachable)
            state["public_keys"] = {
                name: key for answer in own.values() for name, key in (answer.public_keys or {}).items()
            }
            return self._start()
        if outcome == ASK_AGAIN and not last and not broken:
            state["attempt"] += 1
            return {**self._hold(), "pause": True}
        state["again"] = not last and not broken
        if outcome == ASK_AGAIN:
            outcome = ROLL_BACK
        if not state["fresh"]:
            # It runs, and has no other place to go to; it only waits for who will have decided in a moment.
            passing = all(
                answer.granted or answer.tentative or self.answers[host].unreachable for host, answer in answers.items()
            )
            state["again"] = state["again"] and passing
            broken = [] if state["again"] else broken or list(answers)
        name = state["session_name"]
        state["refused"] = reasons if broken else []
        state["report"] = [f"Session {name} is PENDING: other launches were faster, again and again.", *reasons]
        claims = {host: {"claim": state["claims"][host]["claim"], "host": host} for host in state["hosts"]}
        calls = [call("session_host", claims, {"state": "released"}, ["record", "lease_owner"], STATE_DIRECTORY)]
        if named := [host for host in self.answers if host not in claims]:
            calls.append(self._release_name(named))
        return {**state, **step("release", "Roll back what was held", DECIDE, calls)}

    def _after_release(self) -> State:
        state = self.state
        if state["refused"] and not state["from_queue"]:
            return self._not_held(state["refused"])
        return self._look_again(pause=True) if state["again"] else self._queue(state["report"])

    # ---- starting -------------------------------------------------------------------------------------------------

    def _start(self) -> State:
        """Start the session, the roles that others come after first; one that runs has them all."""
        state = self.state
        waves = start_waves({role["name"]: role.get("after", ()) for role in state["record"]["request"]["roles"]})
        is_last = not state["fresh"] or self.outside.check_mode or state["wave"] >= len(waves) - 1
        # Hosts that have to wait for their turn cannot be waited for, nor who gets ready only when these have started.
        patience = PATIENCE if len(state["hosts"]) <= self.outside.forks else 0
        own = {host: {"host": host, "recorded": state["recorded"][host]} for host in state["hosts"]}
        variables = {
            "deadline_seconds": "launch_deadline_seconds",
            "timeout": "launch_ready_timeout",
            **STATE_DIRECTORY,
        }
        arguments: dict[str, Any] = {"state": "started", "patience": patience}
        if not is_last:
            arguments["roles"] = state["begun_roles"] = [role for wave in waves[: state["wave"] + 1] for role in wave]
            # The first that is called now is called again when all have had their turn.
            arguments.update(self._longer())
        calls = [call("session_host", own, arguments, ["record", "lease_owner", "public_keys"], variables)]
        stubs = {host: {"recorded": state["recorded"][host]} for host in state["stub_hosts"]}
        if stubs and not state["wave"]:
            # At once: the name hosts' lease of the name may run out while roles wait for each other.
            calls.append(call("session_host", stubs, {"state": "stub"}, ["record", "lease_owner"], STATE_DIRECTORY))
        state = {**state, "granted": True}
        if not is_last:
            title = f"Start {', '.join(waves[state['wave']])}, and wait until that is ready"
            return {**state, **step("begin", title, DECIDE, calls)}
        state["promised"] = self._running() if state["hands_on"] else None
        return {**state, **step("start", "Start the session, and prove that it runs", SAY, calls)}

    def _after_begin(self) -> State:
        late = self._late()
        failures, unreachable = self._failures_of_start(_begun, late)
        if self._is_passing(failures, unreachable):
            return self._start_again()
        if failures:
            return self._failed(failures, unreachable)
        if late:
            title = "Wait until what this host has started is ready"
            return {**self.state, **step("ready", title, DECIDE, self._verified(late, roles=self.state["begun_roles"]))}
        return self._next_wave()

    def _after_ready(self) -> State:
        failures, unreachable = self._failures(self.answers, _begun)
        return self._failed(failures, unreachable) if failures else self._next_wave()

    def _next_wave(self) -> State:
        self.state["wave"] += 1
        return self._start()

    def _late(self) -> list[str]:
        """Return the hosts that have done their part and could not wait for others."""
        return [host for host in self.state["hosts"] if self.answers[host].unproven]

    def _verified(self, hosts: Sequence[str], **arguments: Any) -> list[Call]:
        """Return the call by which hosts prove that what they have started works."""
        own = {host: {"host": host} for host in hosts}
        variables = {"timeout": "launch_ready_timeout", **STATE_DIRECTORY}
        return [call("session_host", own, {"state": "verified", **arguments}, ["record"], variables)]

    def _running(self) -> str:
        return PLANNED if self.outside.check_mode else RUNNING

    def _failures_of_start(
        self, part: Callable[[SessionAnswer], object], late: Sequence[str]
    ) -> tuple[list[str], list[str]]:
        """Return why hosts have not done their part, and which could not be reached. late: who lacks only peers."""
        state = self.state
        # A host that carries no replica and is away keeps nobody; one that answers has to keep its containers out.
        optional_hosts = [host for host in self.answers if host not in state["hosts"]]
        failures, unreachable = [], []
        for host, answer in self.answers.items():
            if host in optional_hosts and answer.unreachable:
                continue
            if host in optional_hosts and host in state["kept_out"] and answer.actions is None:
                state["warnings"].append(f"{host} could not write the session down: {answer.why_not}")
                continue
            if answer.unreachable:
                unreachable.append(host)
            if answer.unwritten:
                state["warnings"].append(f"{host} could not write the session down: {answer.unwritten}")
            if (_actions if host in optional_hosts or host in late else part)(answer) is None:
                failures.append(f"{host}: {answer.why_not}")
        return failures, unreachable

    def _is_passing(self, failures: list[str], unreachable: list[str]) -> bool:
        """Tell whether hosts are asked once more: a connection that was lost for a moment costs nobody the place."""
        is_first = self.state["asked_again"] < self.state["attempt"]
        return bool(failures) and len(failures) == len(unreachable) and is_first

    def _start_again(self) -> State:
        """Ask all hosts once more; what runs already is only looked at."""
        return {**self._start(), "pause": True, "asked_again": self.state["attempt"]}

    def _after_start(self) -> State:
        state = self.state
        late = self._late()
        failures, unreachable = self._failures_of_start(_replicas, late)
        if self._is_passing(failures, unreachable):
            return self._start_again()
        if failures:
            return self._failed(failures, unreachable)
        if late:
            # Those that have seen all their peers do not look again.
            state["replicas"] = self._replicas()
            title = "Prove that the replicas of this host reach the others"
            return {**state, **step("meet", title, SAY, self._verified(late))}
        return self._started(self._replicas())

    def _replicas(self) -> list[dict[str, Any]]:
        return [{**replica, "host": host} for host, answer in self.answers.items() for replica in answer.replicas or ()]

    def _after_meet(self) -> State:
        failures, unreachable = self._failures(self.answers, _replicas)
        if failures:
            return self._failed(failures, unreachable)
        return self._started(self.state["replicas"] + self._replicas())

    def _started(self, replicas: list[dict[str, Any]]) -> State:
        state = self.state
        state["replicas"] = sorted(replicas, key=lambda replica: int(replica["rank"]))
        if state["grows_later"]:
            return self._await_room()
        if state["record"]["request"]["batch_command"] is None:
            return self._over(self._running(), state["report"])
        return self._batch()

    def _batch(self) -> State:
        state = self.state
        record = state["record"]
        host = record["plan"]["replicas"][0]["host"]
        arguments = {
            "session_id": record["id"],
            "job": batch_job(record["id"]),
            "on": {"main1": host},
            "host": host,
            "command": record["request"]["batch_command"],
            "once": True,
        }
        variables = {"output_size": "launch_output_size", **STATE_DIRECTORY}
        calls = [call("session_job", [host], arguments, (), variables)]
        return {**state, **step("batch", "Start the batch command in main1", SAY, calls)}

    def _after_batch(self) -> State:
        started = read_answers(JobAnswer, self.results)
        failures, unreachable = self._failures(started, lambda answer: answer.started)
        if not failures:
            return self._over(self._running(), self.state["report"])
        if self.state["change"]:
            return self._not_changed(
                "All replicas run, but the batch command could not be started in main1. Launch the session again.",
                *failures,
            )
        return self._failed(failures, unreachable)

    # ---- changing a session that runs -----------------------------------------------------------------------------

    def _changed(self, state: State) -> State:
        """Follow a change of a session that runs, as it came out."""
        self.state = state
        result = state.pop("change_result")
        last = state["attempt"] >= state["attempts"]
        name = state["session_name"]
        if result["status"] == change.DONE:
            known = {replica["name"] for replica in state["replicas"]}
            others = [status for status in state["statuses"] if status["name"] not in known]
            if state["given_up"]:
                return self._not_changed(
                    f"The session {name} could not be changed as it was asked; it runs on as it was.",
                    *state["failures"],
                    ADVICE,
                )
            state["replicas"] = [*state["replicas"], *others]
            was_lost = state["change"]["kind"] == REPLACE and "main1" in state["change"]["places"]
            if was_lost and state["record"]["request"]["batch_command"] is not None:
                return self._batch()
            return self._over(self._running(), state["report"])
        if result["status"] == change.REFUSED:
            if not last:
                state["avoid"] = sorted({*state["avoid"], *result["sick"]})
                return self._look_again(pause=True)
            return self._not_changed(
                f"The session {name} runs on as it is; it could not be changed.", *result["reasons"]
            )
        new = [replica for replica, before in state["change"]["places"].items() if before is None]
        is_new = state["record"]["revision"] > state["change"]["before"]["revision"]  # else they may have run long ago
        if result["displaced"] and set(result["displaced"]) <= {*new} and is_new:
            # New ones are given up, and with them all that came in the same change.
            state.update(given_up=new, failures=result["reasons"])
            return self._look_again()
        if result["displaced"] and not last and not set(result["displaced"]) <= {*new}:
            state["displaced"] = {**state["displaced"], **result["displaced"]}
            state["avoid"] = sorted({*state["avoid"], *result["displaced"].values()})
            return self._look_again()
        return self._not_changed(
            f"The change of session {name} was begun and not finished. Launch it again to finish it.",
            *result["reasons"],
        )

    def _not_changed(self, *lines: str) -> State:
        return self._over(ERROR, lines) if self.state["from_queue"] else self._fail(*lines)

    # ---- undoing --------------------------------------------------------------------------------------------------

    def _failures(self, answers: Mapping[str, A], part: Callable[[A], object]) -> tuple[list[str], list[str]]:
        """Return why hosts have not done their part, and which could not be reached."""
        missing = {host: answer for host, answer in answers.items() if part(answer) is None}
        failures = [f"{host}: {answer.why_not}" for host, answer in missing.items()]
        return failures, [host for host, answer in missing.items() if answer.unreachable]

    def _failed(self, failures: list[str], unreachable: list[str]) -> State:
        """Undo what was made of a session that could not be started; what works of one that runs stays."""
        state = self.state
        sick = list(self._sick_hosts())
        failed = encode(_failed_record(self._record, failures, unreachable, sick))
        again = bool(unreachable or sick) and state["fresh"] and state["attempt"] < state["attempts"]
        state.update(failures=failures, failed_record=failed, again=again)
        state["replicas"] = []
        name = state["session_name"]
        if not state["fresh"]:
            if state["from_queue"]:
                return self._over(ERROR, failures)
            return self._fail(
                f"The session {name} could not be repaired; what works of it stays as it is.", *failures, ADVICE
            )
        if state["hands_on"]:
            state["promised"] = ERROR
        arguments = {
            "state": "absent",
            "session_name": name,
            "session_id": state["record"]["id"],
            "keep_record": failed is not None,
            "undo": True,
        }
        own: dict[str, dict[str, Any]] = {host: {} for host in state["reachable"]}
        if failed is not None:
            # A session that came from the queue keeps its record and its id. Hosts write down what becomes of it before
            # its parts go, so that no record says that it runs when they are gone.
            own = {host: {"record": failed, "recorded": state["recorded"][host]} for host in own}
        calls = [call("session_host", own, arguments, (), STATE_DIRECTORY)]
        return {**state, **step("undo", "Remove what this launch has made", DECIDE, calls)}

    def _after_undo(self) -> State:
        # Of a session that did not come from the queue nothing stays, and a host that went away meanwhile is cleaned
        # when it is back.
        return self._after_keep() if self.state["failed_record"] is not None else self._write_tombstones("undone")

    def _undone(self) -> State:
        state = self.state
        if state["again"]:
            return self._look_again()
        if state["from_queue"]:
            return self._over(ERROR, state["failures"])
        return self._fail(
            f"The session {state['session_name']} could not be launched; what this launch had made is removed.",
            *state["failures"],
            ADVICE,
        )

    def _keep(self, record: Record | None, reasons: list[str]) -> State:
        """Keep on every host what becomes of a session that came from the queue."""
        state = self.state
        state.update(failures=reasons, failed_record=encode(record))
        if record is None:
            return self._over(ERROR, reasons)
        title = "Keep on every host what becomes of a session that came from the queue"
        return {**state, **step("keep", title, DECIDE, self._records(state["failed_record"]))}

    def _after_keep(self) -> State:
        state = self.state
        if state["again"]:
            return self._look_again()
        if state["from_queue"]:
            return self._over(state["failed_record"]["status"], state["failures"])
        return self._undone()

    # ---- waiting --------------------------------------------------------------------------------------------------

    def _records(self, record: Mapping[str, Any], *of_state: str) -> list[Call]:
        own = {host: {"recorded": self.state["recorded"][host]} for host in self.state["reachable"]}
        return [call("session_record", own, {"records": [record]}, of_state, STATE_DIRECTORY)]

    def _queue(self, report: Sequence[str]) -> State:
        """Keep the request on every host until there is room; some are not to be kept."""
        state = self.state
        state["report"] = list(report)
        if state["pending"] is None:
            return self._over("CANCELLED" if state["status"] == "CANCELLED" else PENDING, report)
        if state["hands_on"]:
            state["promised"] = PENDING
        if state["rounds"] and state["pending"] == state["waits"] and self._is_kept_everywhere():
            return self._after_queue()
        is_known = any(state["pending"]["id"] in ids for ids in state["recorded"].values())
        if not is_known and state["named"] != state["pending"]["id"] and not self.outside.check_mode:
            return self._name()
        title = "Keep the request on every host until there is room"
        then = DECIDE if self._waits() else SAY
        return {**state, **step("queue", title, then, self._records(state["pending"], "lease_owner"))}

    def _name(self) -> State:
        """Hold the name before the request is kept under it: of launches at the same moment one waits."""
        state = self.state
        state["name_claim"] = Claim(state["pending"]["id"], state["session_name"]).to_dict()
        lease = {"lease_seconds": "launch_lease_seconds", **STATE_DIRECTORY}
        arguments = {"state": "named", "claim": state["name_claim"]}
        calls = [call("session_host", state["name_hosts"], arguments, ["lease_owner"], lease)]
        return {**state, **step("name", "Hold the name under which it waits", DECIDE, calls)}

    def _after_name(self) -> State:
        state = self.state
        # A name host that cannot answer is one that knows less.
        answers = {host: answer.to_claim for host, answer in self.answers.items() if answer.granted is not None}
        outcome = resolve_reservations(state["pending"]["id"], answers)
        last = state["attempt"] >= state["attempts"]
        if outcome == GRANTED:
            state["named"] = state["pending"]["id"]
            return self._queue(state["report"])
        if outcome == ASK_AGAIN and not last:
            state["attempt"] += 1
            return {**self._name(), "pause": True}
        reasons = [f"{host}: {reason}" for host, answer in answers.items() for reason in answer.reasons]
        state.update(again=not last, refused=reasons if last else [])
        return {**state, **step("release", "Roll back what was held", DECIDE, [self._release_name(list(answers))])}

    def _release_name(self, hosts: list[str]) -> Call:
        claim = {"state": "released", "claim": self.state["name_claim"]}
        return call("session_host", hosts, claim, ["lease_owner"], STATE_DIRECTORY)

    def _await_room(self) -> State:
        """Wait until a session that runs can grow, where that is to be waited for; its hosts have written it down."""
        self.state["pending"] = self.state["record"]
        return self._after_queue()

    def _is_kept_everywhere(self) -> bool:
        return all(self.state["pending"]["id"] in ids for ids in self.state["recorded"].values())

    def _waits(self) -> bool:
        return bool(self.state["request"].get("wait")) and not self.outside.check_mode

    def _after_queue(self) -> State:
        state, request = self.state, self.state["request"]
        if state["step"] == "queue":
            missing = {host: answer for host, answer in self.answers.items() if answer.actions is None}
            reasons = [f"{host} could not write the session down: {answer.why_not}" for host, answer in missing.items()]
            if len(missing) == len(self.answers) and not state["from_queue"]:
                return self._fail(REFUSED, *reasons)
            state["warnings"] = reasons
        if not self._waits():
            return self._over(PENDING if state["grows_later"] else state["pending"]["status"], state["report"])
        if state["wait_until"] <= self.outside.now:
            self.state["hands_on"] = False  # what was handed on is right: it waits
            return self._fail(
                f"Session {state['session_name']} got no room within {request['wait_seconds']} seconds "
                "(session_wait_seconds); it stays in the queue.",
                *state["report"],
            )
        # The steps of rounds include each other, one or two a round, and Ansible bears some hundred includes inside
        # each other: the pauses between rounds grow, so that a hundred of them fill the whole time.
        state.update(attempt=0, asked_again=0, sick={}, rounds=state["rounds"] + 1, waits=state["pending"])
        arguments = {
            "session_name": state["session_name"],
            "rendezvous_key": state["lease_owner"],
            "pause": request["wait_seconds"] * state["rounds"] / 5000,
            "seconds": max(state["wait_until"] - self.outside.now, 1),
        }
        own = {host: {"signature": state["signatures"][host]} for host in state["reachable"]}
        title = f"Wait until a session gives room back: {state['report'][0]}"
        looks = _look(request, state["reachable"])["calls"]
        calls = [call("session_watch", own, arguments, (), STATE_DIRECTORY), *looks]
        return {**state, **step("wait", title, DECIDE, calls)}

    def _after_wait(self) -> State:
        several = read_answers(SeveralAnswers, self.results)
        looks = read_answers(
            FactsAnswer, {host: answer.results[-1] for host, answer in several.items() if answer.results}
        )
        if len(looks) < len(self.state["known"]) or any(look.host is None for look in looks.values()):
            return self._look_again()
        return self._plan(looks)


def _actions(answer: Answer) -> object:
    return answer.actions


def _begun(answer: SessionAnswer) -> object:
    return answer.begun


def _replicas(answer: SessionAnswer) -> object:
    return answer.replicas


def _saying(came: Mapping[str, object]) -> str:
    """Return the title under which people are told what came of a step with images."""
    if "resolved" in came:
        return "Say which image it is"
    return "Say who has pulled what" if "pulled" in came else "Say who has got it from whom"


def _image_facts(group: GroupFacts) -> dict[str, dict[str, Any]]:
    """Return of the facts of each host what the distribution of images goes by."""
    return {
        host: {"images": encode(facts.images), "underlay": encode(facts.underlay)}
        for host, facts in group.facts.items()
    }


def _has_stub(facts: HostFacts, record: Record) -> bool:
    """Tell whether a host that carries no replica has all that it keeps of a session that runs."""
    if record.status != RUNNING:
        return False
    for copy in facts.records:
        if copy.id == record.id and is_stub(copy):
            has_rules = RULES in (facts.objects[copy.id].kinds if copy.id in facts.objects else ())
            is_apart = has_rules or copy.tunnel is None or is_kept_out(facts, copy)
            return is_apart and says_the_same(copy, record)
    return False


def _keys_of(group: GroupFacts, record: Record) -> dict[str, Any]:
    """Return all public keys of a session that runs and holds its place; else nothing."""
    for host in record.hosts:
        held = [held for held in group.facts[host].reservations if held.claim.session_id == record.id]
        if not held or held[0].stage != COMMITTED:
            return {}
    found = group.public_keys(record)
    return found if len(found) == len(record.plan["replicas"]) else {}


def _statuses_of(group: GroupFacts, record: Record) -> list[dict[str, Any]]:
    """Return the state of the replicas of a session as hosts have seen it."""
    return [
        {"name": container.replica, "host": host, "rank": 0, "status": container.state.upper()}
        for host, facts in group.facts.items()
        for container in facts.containers
        if container.session_id == record.id
    ]


def _failed_record(
    record: Record, failures: list[str], unreachable: Sequence[str], sick: Sequence[str]
) -> Record | None:
    """Return what becomes of a session that came from the queue: it waits on, or it has ended; None for others."""
    if record.queue is None or not failures:
        return None
    # One of its hosts may have made the next revision, RUNNING, without being able to say so.
    record = replace(record, revision=record.revision + 1)
    changes: dict[str, Any] = {"plan": None, "hosts": (), "report": tuple(failures)}
    if unreachable or sick:
        why = "could not be reached" if unreachable else "failed"
        reason = f"{', '.join(unreachable or sick)} {why} while it was being started."
        return revise(record, PENDING, reason, **changes)
    return revise(record, ERROR, "It could not be started.", **changes)

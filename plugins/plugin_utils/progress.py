# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Follow a run of a verb through its states, with counts and times, from Ansible's events of tasks and results.

A task is identified by its module and, if it has one, its state or step, because names of tasks, files and roles may
change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

COLLECTION = "cluster_compute.session."


@dataclass(frozen=True)
class State:
    """What hosts are working on.

    expected_key: name of a value that is in the result of a host and not False if the host has done its part. Empty if
    the result of one task does not show this. counts_replicas: whether the replicas on a host are done with it.
    """

    name: str
    expected_key: str = ""
    counts_replicas: bool = False


LOOK = State("look", "host")
PULL = State("pull")
DATA = State("data", "actions")
REMOVE = State("remove", "actions")
REPAIR = State("repair", "actions")
READY = State("ready", "replicas", counts_replicas=True)

STATES: dict[tuple[str, str], State] = {
    ("host_info", ""): LOOK,
    ("session_host", "absent"): REMOVE,
}
"""Module and its argument ``state``, empty for any: the state."""
STEPS: dict[str, State] = {
    "look": LOOK,
    "losses": LOOK,
    "cleanup": REMOVE,
    "clean": REMOVE,
    "others": REMOVE,
    **dict.fromkeys(("ask", "pull", "load", "bring", "serve", "receive", "stop"), PULL),
    "offer": DATA,
    "compare": DATA,
    "withdraw": DATA,
    "replace": REMOVE,
    "repair": REPAIR,
    "share": REPAIR,
    "hold": State("reserve", "granted"),
    "release": State("release"),
    "takeover": State("release"),
    "begin": State("begin", "actions"),
    "start": State("start", "actions", counts_replicas=True),
    "ready": READY,
    "meet": READY,
    "undo": REMOVE,
    "reserve": State("reserve", "granted"),
    "withhold": State("release"),
    "free": State("release"),
    "part": State("change", "actions"),
    "fence": State("change", "actions"),
    "agree": State("change", "actions"),
    "apply": State("change", "actions"),
    "again": State("change", "actions"),
    "join": READY,
    "clear": REMOVE,
    "wait": State("wait"),
}
"""Step of a verb's state machine: the state."""
NETWORK = "network"
"""The first part of the state start. The last is the state ready. One call does all and reports their durations."""


def state_of(action: str, arguments: Mapping[str, Any], step: str = "") -> State | None:
    """Return the state that a task belongs to.

    action: the module's full name. arguments: those of the task. step: the step of the verb's state, if it is known.
    """
    if not action.startswith(COLLECTION):
        return None
    module = action[len(COLLECTION) :]
    if module == "session_step":
        return STEPS.get(str(arguments.get("step") or step))
    chosen = str(arguments.get("state")) if module == "session_host" else ""
    return STATES.get((module, chosen))


RUNNING, DONE, FAILED, SKIPPED = "running", "done", "failed", "skipped"


@dataclass
class Account:
    """The progress of one state. seconds: for how long at least one host was working on it, up to now or *since*."""

    state: State
    hosts: dict[str, str] = field(default_factory=dict)
    expected: int = 0
    seconds: float = 0.0
    since: float | None = None
    network_seconds: float = 0.0
    network_of_turn: float = 0.0
    ready_of_turn: float = 0.0

    def count(self, outcome: str) -> int:
        """Return the number of hosts whose last known outcome is this one."""
        return sum(host_outcome == outcome for host_outcome in self.hosts.values())

    @property
    def concerned(self) -> list[str]:
        """The hosts that had something to do."""
        return [host for host, outcome in self.hosts.items() if outcome != SKIPPED]


class Progress:
    """The states of one run, in the order in which they began. Times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        """Begin without any state."""
        self.accounts: dict[str, Account] = {}
        self.step = ""
        self._batch = 0
        self._replicas: dict[str, int] = {}
        self._lacking: dict[str, bool] = {}

    def play(self, hosts: int) -> None:
        """Begin a play, or the next part of one, on this number of hosts."""
        self._batch = hosts

    def task(self, state: State, once: bool) -> None:
        """Begin a task of a state. once: one host does it for all."""
        account = self._account(state)
        account.expected = 0 if once else self._batch

    def begin(self, state: State, host: str, now: float) -> None:
        """A host begins."""
        account = self._account(state)
        account.hosts[host] = RUNNING
        if account.since is None:
            account.since = now

    def end(self, state: State, host: str, outcome: str, result: Mapping[str, Any], now: float) -> None:
        """A host ends. *outcome* is Ansible's view, although a task may hide a failure on purpose."""
        account = self._account(state)
        shown = "censored" not in result  # what is hidden has not failed
        if outcome == DONE and shown and state.expected_key and result.get(state.expected_key) in (None, False):
            outcome = FAILED
        account.hosts[host] = outcome
        if outcome == SKIPPED:
            account.expected = max(0, account.expected - 1)
        seconds = result.get("seconds")
        if isinstance(seconds, Mapping) and isinstance(seconds.get(NETWORK), (int, float)):
            account.network_of_turn = max(account.network_of_turn, float(seconds[NETWORK]))
        if outcome == DONE and isinstance(seconds, Mapping) and isinstance(seconds.get(READY.name), (int, float)):
            account.ready_of_turn = max(account.ready_of_turn, float(seconds[READY.name]))
            self._account(READY).hosts[host] = DONE if READY.expected_key in result else FAILED
        if account.since is not None and not account.count(RUNNING):
            account.seconds += now - account.since
            account.network_seconds += min(account.network_of_turn, now - account.since)
            if account.ready_of_turn:
                ready = min(account.ready_of_turn, now - account.since)
                account.seconds -= ready
                self._account(READY).seconds += ready
            account.since, account.network_of_turn, account.ready_of_turn = None, 0.0, 0.0

    def learn(self, result: Mapping[str, Any] | None) -> None:
        """Read the step, the hosts of the replicas, and the hosts that need an image from the controller's decision."""
        if result is None:
            return
        self.step = str(result.get("step") or "")
        if "record" not in result:
            return  # the last decision contains messages for people, and nothing of the plan
        plan = (result["record"] or {}).get("plan") or {}
        self._replicas = {}
        for replica in plan.get("replicas") or ():
            self._replicas[replica["host"]] = self._replicas.get(replica["host"], 0) + 1
        fetches = result.get("fetches") or ()
        lacking = (result.get("images_so_far") or {}).get("missing", fetches)
        self._lacking = {host: host in lacking for host in fetches}

    def _account(self, state: State) -> Account:
        return self.accounts.setdefault(state.name, Account(state))

    def line(self, now: float) -> str:
        """Return what runs at this moment, for example "reserve 1/3 hosts, 2 s". Empty if no state runs."""
        parts = []
        for account in self.accounts.values():
            if account.since is not None:
                name = f"{NETWORK}, {account.state.name}" if account.state.name == "start" else account.state.name
                counts = self._counts(account, max(account.expected, len(account.concerned)))
                parts.append(f"{name} {counts}, {int(account.seconds + now - account.since)} s")
        return "; ".join(parts)

    def summary(self, now: float) -> list[str]:
        """Return a line for each state in which any host had something to do: name, counts, seconds."""
        rows = []
        for account in self.accounts.values():
            if not account.concerned:
                continue
            seconds = account.seconds + (now - account.since if account.since is not None else 0.0)
            total = len(account.concerned)
            if account.state.name == "start":
                hosts = self._hosts(account, total)
                rows.append((NETWORK, hosts, account.network_seconds))
                seconds -= account.network_seconds
            rows.append((account.state.name, self._counts(account, total), seconds))
        names = max((len(name) for name, _counts, _seconds in rows), default=0)
        widths = max((len(counts) for _name, counts, _seconds in rows), default=0)
        return [f"{name:{names}}  {counts:{widths}}  {seconds:6.1f} s" for name, counts, seconds in rows]

    def _counts(self, account: Account, total: int) -> str:
        if account.state.name == "pull" and self._lacking:
            have = sum(not lacks for lacks in self._lacking.values())
            return f"{have}/{len(self._lacking)} hosts"
        text = self._hosts(account, total)
        if account.state.counts_replicas and self._replicas:
            done = sum(count for host, count in self._replicas.items() if account.hosts.get(host) == DONE)
            text += f", {done}/{sum(self._replicas.values())} replicas"
        return text

    @staticmethod
    def _hosts(account: Account, total: int) -> str:
        failed = account.count(FAILED)
        return f"{account.count(DONE)}/{total} hosts" + (f", {failed} failed" if failed else "")

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Calls to a host: their plain form, what is wrong with one, and all that a new one needs."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model import calls
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.call.base import (
    Call,
    fields_of,
    is_required,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.calls import (
    CALLS,
    CreateIdentity,
    Hold,
    ImageServer,
    ImageTransfer,
    KeepRecords,
    LookAtHost,
    ProbeTask,
    ReadOutput,
    Remove,
    Undrain,
    arguments_of,
    read_call,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import (
    Allocatable,
    Claim,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import Malformed
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    PENDING,
    SCHEMA,
    QueueTicket,
    Record,
    Tombstone,
    advance,
    new_record,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import program
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.arguments import (
    arguments_of_module,
)

INTERNAL = "ansible_collections.cluster_compute.session.plugins.module_utils._internal"
SESSION = "11111111-1111-4111-8111-111111111111"
RECORD = advance(
    new_record(SESSION, "alice", {"name": "demo", "size": 2}), PENDING, "No capacity.", queue=QueueTicket(3)
)
EXAMPLES: dict[Any, Any] = {
    str: "text",
    int: 7,
    float: 1.5,
    dict[str, str]: {"main1": "h1"},
    tuple[str, ...]: ("true",),
    Record: RECORD,
    Claim: Claim(SESSION, "demo", 1, 1000, 1 << 30, (("gpu", ("0", "1")),), (("10.0.0.1", 80, "tcp"),)),
    Allocatable: Allocatable(4000, 8 << 30, (("gpu", ("0", "1")),), 3),
    ProbeTask: ProbeTask({"vni": 7}, {"seconds": 1}, {"h1": {"/data": "writes"}}),
    ImageTransfer: ImageTransfer("train:1", "sha256:1", "h1", "h2"),
    ImageServer: ImageServer(8480, "12:34"),
}
"""A value for each type of what a call needs."""


def example(kind: Any) -> Call:
    """Return a call with an example of all that it needs."""
    request: Call = kind(**{part.name: EXAMPLES[part.type] for part in fields_of(kind) if is_required(part)})
    return replace(request, **{kind.any_of[0]: None, kind.any_of[1]: {}}) if kind.any_of else request  # type: ignore[type-var]


def on_the_wire(request: Call) -> dict[str, Any]:
    sent: dict[str, Any] = json.loads(json.dumps(arguments_of(request)))
    return sent


@pytest.mark.parametrize("kind", CALLS.values(), ids=lambda kind: kind.__name__)
def test_every_call_comes_back_as_it_was_sent(kind: Any) -> None:
    request = Remove("demo") if kind is Remove else example(kind)
    assert read_call(request.call, on_the_wire(request)) == request
    assert None not in on_the_wire(request).values()


def test_the_plain_form_has_the_state_and_what_is_inside_in_its_own_form() -> None:
    sent = on_the_wire(example(Hold))
    assert (sent["state"], sent["claim"]["devices"], sent["record"]["schema"]) == ("held", {"gpu": ["0", "1"]}, SCHEMA)
    assert "looked" not in sent
    assert "state" not in on_the_wire(LookAtHost())
    records = on_the_wire(KeepRecords(records=(RECORD,), tombstones=(Tombstone(SESSION, "demo", ("h1",)),)))
    assert (records["records"][0]["id"], records["tombstones"][0]["hosts"]) == (SESSION, ["h1"])


def test_what_only_other_states_read_is_ignored_and_none_is_the_default() -> None:
    given = {"state": "undrained", "reason": "", "by": "alice", "wait_seconds": 7, "state_directory": None}
    assert read_call("host_drain", given) == Undrain()
    assert read_call("session_output", {"session_id": SESSION, "tail": None}) == ReadOutput(SESSION)


@pytest.mark.parametrize(
    ("call", "given", "why"),
    [
        ("session_host", {}, r"The call session_host lacks a state\."),
        ("session_host", {"state": "hold"}, r"The call session_host has no state 'hold'\."),
        ("session_host", {"state": "named"}, r"The call session_host lacks claim, lease_owner\."),
        ("session_host", {"state": "absent"}, r"The call session_host lacks session_name or session_id\."),
        ("host_identity", {"host": "h1", "hosts": 3}, r"The call host_identity has 'hosts', which is unknown\."),
        ("host_drain", {"wait_seconds": "7"}, r"The call host_drain's wait_seconds is '?7'?, where a whole number"),
        (
            "session_host",
            {"state": "named", "lease_owner": "x", "claim": {}},
            r"The call session_host's claim lacks session_id, session_name\.$",
        ),
        (
            "session_record",
            {"records": [{"schema": SCHEMA + 1}]},
            r"The call session_record's records\[0\] is malformed: The record has schema 2, .* that wrote it\.$",
        ),
    ],
)
def test_a_malformed_call_fails_with_what_is_wrong(call: str, given: dict[str, Any], why: str) -> None:
    with pytest.raises(Malformed, match=why):
        read_call(call, given)
    assert program.run(call, given, False)["failed"]


def test_a_call_of_no_state_takes_none() -> None:
    assert read_call("host_identity", {"host": "h1", "state": "present"}) == CreateIdentity("h1")


TYPES = '''
from dataclasses import dataclass
from typing import ClassVar, Optional

from .base import Answer, Call


@dataclass(frozen=True)
class Greet(Call):
    """Greet a user. name: of the user. times: how often."""

    call: ClassVar[str] = "host_greeting"
    state: ClassVar[str] = "said"

    name: str
    times: int = 1


@dataclass(frozen=True)
class GreetingAnswer(Answer):
    """The answer of host_greeting. greeting: what was said. heard: who heard it, if that is known."""

    greeting: str = ""
    heard: Optional[tuple[str, ...]] = None
'''
CODE = """
from ...core.model.call.base import States
from ...core.model.call.host_greeting import Greet, GreetingAnswer


def call(request: Greet, check_mode: bool) -> GreetingAnswer:
    return GreetingAnswer(changed=not check_mode, greeting=", ".join([f"hello {request.name}"] * request.times))


STATES: States = {Greet: call}
"""


def test_a_new_call_needs_its_dataclass_and_its_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps of "Add a call" in CONTRIBUTING.md."""
    for package, text in (("core.model.call", TYPES), ("host.calls", CODE)):
        folder = tmp_path / package
        folder.mkdir()
        (folder / "host_greeting.py").write_text(text, encoding="utf-8")
        loaded: Any = import_module(f"{INTERNAL}.{package}")
        monkeypatch.setattr(loaded, "__path__", [*loaded.__path__, str(folder)])
    greet: Any = import_module(f"{INTERNAL}.core.model.call.host_greeting").Greet
    request = greet("alice", times=2)
    done = program.run("host_greeting", on_the_wire(request), False)
    assert done == {"changed": True, "greeting": "hello alice, hello alice"}
    assert not program.run("host_greeting", on_the_wire(request), True)["changed"]
    refused = program.run("host_greeting", {"state": "said", "times": 2}, False)
    assert refused["msg"] == "The call host_greeting lacks name."
    monkeypatch.setitem(calls.CALLS, ("host_greeting", "said"), greet)
    assert arguments_of_module("host_greeting")["argument_spec"] == {
        "state": {"type": "str", "choices": ["said"], "required": True},
        "name": {"type": "str", "required": True},
        "times": {"type": "int", "default": 1},
    }

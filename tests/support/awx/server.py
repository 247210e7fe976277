# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in for the server of AWX, on the loopback interface.

AWX itself runs in Kubernetes alone, so no test can have one. What is real in the tests that use this: the playbook, the
role, and the modules of awx.awx with every request they send. This only keeps what they send, finds it again by the
filters they ask with, and hands it back, in the form of AWX's REST API, version 2. It refuses what refers to something
that is not there, and surveys and rules of schedules by the collection's own account of AWX's rules, so it cannot show
that this account is right: that is for the unit tests of core/show/awx.py, which were written against the server's
source. It knows nothing of users, permissions, jobs or updates of projects.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import yaml
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.show.awx import (
    check_answer,
    check_rrule,
    check_survey,
)

PREFIX = "Cluster compute: "
_VARIABLES = Path(__file__).resolve().parents[3] / "roles" / "awx" / "vars" / "main.yml"
TITLES: dict[str, str] = {
    name: f"{PREFIX}{title}"
    for name, title in yaml.safe_load(_VARIABLES.read_text(encoding="utf-8"))["awx_titles"].items()
}
"""Names of templates and of the workflow, by those of the playbooks."""
TOKEN = "for the tests alone"  # noqa: S105 the server is a stand-in
ROOT = "/api/v2/"
REFERENCES = {
    "organization": "organizations",
    "project": "projects",
    "source_project": "projects",
    "inventory": "inventories",
    "credential": "credentials",
    "execution_environment": "execution_environments",
    "default_environment": "execution_environments",
    "workflow_job_template": "workflow_job_templates",
}
"""Field: the kind of what it refers to by number."""
TYPES = {
    "organizations": "organization",
    "projects": "project",
    "inventories": "inventory",
    "inventory_sources": "inventory_source",
    "credentials": "credential",
    "credential_types": "credential_type",
    "execution_environments": "execution_environment",
    "job_templates": "job_template",
    "workflow_job_templates": "workflow_job_template",
    "workflow_job_template_nodes": "workflow_job_template_node",
    "schedules": "schedule",
}
RUNNABLE = ("projects", "inventory_sources", "job_templates", "workflow_job_templates")
"""What the server lists as unified_job_templates as well."""
UNIQUE = ("name", "identifier")

Thing = dict[str, Any]


class Refusal(Exception):
    """The server refuses a request; the argument is its answer."""


class Awx:
    """What a server holds. things: by kind and number. changes: method and path of every request that changed it."""

    def __init__(self) -> None:
        self.things: dict[str, dict[int, Thing]] = {kind: {} for kind in TYPES}
        self.surveys: dict[str, Any] = {}
        self.links: dict[str, list[int]] = {}
        self.changes: list[str] = []
        self.url = ""
        self._last = 0
        self.add("organizations", {"name": "Default"})

    def named(self, kind: str, name: str) -> Thing:
        """Return the one thing of a kind with this name."""
        (found,) = (thing for thing in self.things[kind].values() if thing.get("name", thing.get("identifier")) == name)
        return found

    def names(self, kind: str) -> set[str]:
        """Return the names of all things of a kind."""
        return {thing["name"] for thing in self.things[kind].values()}

    def survey(self, name: str, kind: str = "job_templates") -> dict[str, Thing]:
        """Return the questions of a template's survey by variable."""
        spec = self.surveys[self.named(kind, name)["related"]["survey_spec"]]["spec"]
        return {question["variable"]: question for question in spec}

    def variables_of(self, name: str, answers: Mapping[str, Any], kind: str = "job_templates") -> dict[str, Any]:
        """Return the variables that a template gives its job for these answers, which its survey has to accept."""
        template = self.named(kind, name)
        questions = self.survey(name, kind) if template["survey_enabled"] else {}
        assert set(answers) <= set(questions)
        for variable, answer in answers.items():
            assert check_answer(questions[variable], answer) == [], variable
        defaults = {variable: question["default"] for variable, question in questions.items() if "default" in question}
        return {**json.loads(template.get("extra_vars") or "{}"), **defaults, **answers}

    def linked(self, kind: str, name: str, what: str) -> set[str]:
        """Return the names of what is linked to a thing, such as its credentials."""
        numbers = self.links.get(f"{self.named(kind, name)['url']}{what}/", [])
        every = {number: thing for things in self.things.values() for number, thing in things.items()}
        return {every[number].get("identifier") or every[number]["name"] for number in numbers}

    def add(self, kind: str, fields: Mapping[str, Any]) -> Thing:
        """Add a thing and return it. Raises Refusal."""
        self._check(kind, fields)
        self._last += 1
        url = f"{ROOT}{kind}/{self._last}/"
        related = {"survey_spec": f"{url}survey_spec/"} if kind.endswith("job_templates") else {}
        thing = {"id": self._last, "type": TYPES[kind], "url": url, "related": related, "summary_fields": {}}
        if kind == "projects":
            thing["scm_revision"] = ""
        if kind == "inventories":
            thing["kind"] = ""
        self.things[kind][self._last] = thing
        thing.update(fields)
        return thing

    def change(self, kind: str, number: int, fields: Mapping[str, Any]) -> Thing:
        """Change a thing and return it. Raises Refusal."""
        self._check(kind, fields, number)
        self.things[kind][number].update(fields)
        return self.things[kind][number]

    def _check(self, kind: str, fields: Mapping[str, Any], number: int | None = None) -> None:
        for field, value in fields.items():
            if field in REFERENCES and value not in self.things[REFERENCES[field]]:
                raise Refusal({field: [f'Invalid pk "{value}" - object does not exist.']})
        if kind == "schedules" and (found := check_rrule(fields.get("rrule"))):
            raise Refusal({"rrule": [str(problem) for problem in found]})
        scope = ("organization", "inventory", "workflow_job_template", "unified_job_template")
        for other in self.things[kind].values():
            same = [field for field in UNIQUE if field in fields and fields[field] == other.get(field)]
            beside = all(fields.get(field, other.get(field)) == other.get(field) for field in scope)
            if same and beside and other["id"] != number:
                raise Refusal({"__all__": [f"{TYPES[kind]} with this {same[0]} already exists."]})

    def find(self, kind: str, filters: Mapping[str, str]) -> list[Thing]:
        """Return the things of a kind that have all these values."""
        kinds = RUNNABLE if kind == "unified_job_templates" else (kind,)
        wanted = {key: value for key, value in filters.items() if key != "page_size"}
        either = {key[4:]: wanted.pop(key) for key in list(wanted) if key.startswith("or__")}
        return [
            thing
            for each in kinds
            for thing in self.things[each].values()
            if all(str(thing.get(key)) == value for key, value in wanted.items())
            and (not either or any(str(thing.get(key)) == value for key, value in either.items()))
        ]

    def answer(self, method: str, path: str, filters: Mapping[str, str], given: Any) -> tuple[int, Any]:
        """Return status and body of the answer to a request."""
        kind, *rest = path.removeprefix(ROOT).strip("/").split("/")
        if method != "GET":
            self.changes.append(f"{method} {path}")
        if not rest:
            if method == "POST":
                return 201, self.add(kind, given)
            return 200, _page(self.find(kind, filters))
        thing = self.things[kind][int(rest[0])]
        if len(rest) == 1:
            return 200, self.change(kind, thing["id"], given) if method == "PATCH" else thing
        if rest[1] == "survey_spec":
            if method == "POST":
                if found := check_survey(given):
                    raise Refusal({"error": "\n".join(map(str, found))})
                self.surveys[path] = given
                return 200, {}
            return 200, self.surveys.get(path, {})
        numbers = self.links.setdefault(path, [])
        if method == "POST":
            if given.get("disassociate"):
                numbers.remove(given["id"])
            else:
                numbers.append(given["id"])
            return 204, None
        return 200, _page([{"id": number} for number in numbers])


def _page(things: list[Thing]) -> Thing:
    return {"count": len(things), "next": None, "previous": None, "results": things}


@contextmanager
def running() -> Iterator[Awx]:
    """Give a server that listens on a free port of the loopback interface."""
    awx = Awx()
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            given = json.loads(self.rfile.read(length) or b"null")
            url = urlsplit(self.path)
            status, body = 401, {"detail": "Authentication credentials were not provided."}
            if self.headers.get("Authorization") == f"Bearer {TOKEN}":
                try:
                    with lock:
                        status, body = awx.answer(self.command, url.path, dict(parse_qsl(url.query)), given)
                except Refusal as refusal:
                    status, body = 400, refusal.args[0]
                except (KeyError, ValueError):
                    status, body = 404, {"detail": "Not found."}
            data = b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_DELETE = _serve

        def log_message(self, format: str, *args: Any) -> None:
            """Keep the output of the tests to what they say."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    awx.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield awx
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

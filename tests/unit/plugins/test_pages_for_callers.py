# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cheat sheet, and the page for programs: they show what the sources do, and a page that would not is an error."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from ansible_collections.cluster_compute.session.playbooks import ccs
from ansible_collections.cluster_compute.session.tools import cheat_sheet, for_programs
from ansible_collections.cluster_compute.session.tools.cheat_sheet import Row, Started, as_text, playbook_line, started
from ansible_collections.cluster_compute.session.tools.verb_facts import Verb, artifacts_of

CHECKOUT = Path(__file__).resolve().parents[3]
SHEET = CHECKOUT / "docs" / "reference" / "cheat_sheet.md"
PROGRAMS = CHECKOUT / "docs" / "reference" / "programs.md"
STAND_IN = """#!/bin/sh
printf '%s\\n' "$@" >{folder}/words
for word; do case $word in @*) cp "${{word#@}}" {folder}/variables;; esac; done
"""
LEFT_OUT = {"session_name": "", "job_on": "main1", "job_detach": "false"}
"""Variables that ccs gives, and the sheet does not show: with these values they change nothing."""


class TestStarted:
    """What ccs starts, as ccs itself starts it."""

    @pytest.mark.parametrize(
        ("line", "run"),
        [
            ("ccs ps", Started("status", {"session_name": ""}, [], [])),
            ("ccs down train --check", Started("teardown_cluster", {"session_name": "train"}, ["--check"], [])),
            ("ccs undrain h3 -e a=b", Started("undrain_hosts", {"drain_hosts": ["h3"], "a": "b"}, [], [])),
            ("audit --check", Started("audit", {}, ["--check"])),
            ("gc -e a=b=c", Started("gc", {"a": "b=c"}, [])),
        ],
    )
    def test_playbook_variables_and_options_are_those_of_the_line(self, line: str, run: Started) -> None:
        assert started(line) == run

    def test_a_later_variable_replaces_one_of_the_session_file(self) -> None:
        assert started("ccs up train.yml").variables["session_size"] == 4
        assert started("ccs up train.yml -e session_size=6").variables["session_size"] == "6"

    def test_a_login_is_followed_by_ssh(self) -> None:
        run = started("ccs ssh train sub1")
        assert run.playbook == "login"
        assert run.then == ["ssh", "-F", "~/.ssh/cluster-compute/train/config", "sub1"]

    def test_nothing_of_the_machine_gets_into_the_page(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        before = started("ccs up train.yml")
        (tmp_path / ".ssh").mkdir()
        (tmp_path / ".ssh" / "id_ed25519.pub").write_text("ssh-ed25519 AAAA ada\n", encoding="utf-8")
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv(ccs.INVENTORY, "elsewhere")
        assert started("ccs up train.yml") == before
        assert "session_authorized_keys" not in before.variables

    @pytest.mark.parametrize("line", ["ccs down a b", "ccs completion bash"])
    def test_a_line_that_does_not_start_one_playbook_is_an_error(self, line: str) -> None:
        with pytest.raises(ValueError, match="playbooks, not one"):
            started(line)


class TestPlaybookLine:
    """The command line of a run."""

    def test_values_that_a_shell_or_ansible_would_change_are_json(self) -> None:
        values = {"b": 2, "session_name": "a", "c": "x y", "drain_hosts": ["h1", "h2"], "d": True, "e": ["f"]}
        line = playbook_line(Started("gc", values, ["--check"]), Verb(reads=frozenset(values)))
        words = shlex.split(line)
        assert words[:4] == ["ansible-playbook", "cluster_compute.session.gc", "-e", "session_name=a"]
        assert words[4:10] == ["-e", "b=2", "-e", "drain_hosts=h1,h2", "-e", "d=true"]
        assert [json.loads(words[11]), words[12:]] == [{"c": "x y", "e": ["f"]}, ["--check"]]

    def test_what_changes_nothing_is_left_out(self) -> None:
        verb = Verb(reads=frozenset({"a", "b", "c"}), defaults={"a": "`main1`", "b": "`false`", "c": "none"})
        run = Started("gc", {"a": "main1", "b": False, "c": "", "x": ""}, [])
        assert playbook_line(run, verb) == "ansible-playbook cluster_compute.session.gc"
        run = Started("gc", {"a": "all", "b": True}, [])
        assert playbook_line(run, verb) == "ansible-playbook cluster_compute.session.gc -e a=all -e b=true"

    @pytest.mark.parametrize(
        ("variables", "fault"), [({"a": 1, "z": 2}, "does not read z"), ({}, "requires a"), ({"a": ""}, "requires a")]
    )
    def test_a_line_that_would_fail_is_an_error(self, variables: dict[str, Any], fault: str) -> None:
        with pytest.raises(ValueError, match=f"The playbook gc {fault}. Correct the row"):
            playbook_line(Started("gc", variables, []), Verb(required=("a",), reads=frozenset({"a"})))

    def test_the_id_of_a_job_takes_the_place_of_its_command(self) -> None:
        verb = Verb(required=("job_command",), reads=frozenset({"job_command", "job_id"}))
        assert playbook_line(Started("run_job", {"job_id": "x"}, []), verb).endswith("run_job -e job_id=x")

    @pytest.mark.parametrize(
        ("name", "value", "text"),
        [("a", 4, "4"), ("a", False, "false"), ("a", ["b"], None), ("a", "it's", None), ("a", "{{ b }}", None)],
    )
    def test_a_text_is_only_what_stays_itself(self, name: str, value: object, text: str | None) -> None:
        assert as_text(name, value) == text


def sheet_rows() -> list[tuple[str, str]]:
    """Return the lines of ccs and of its playbook in the sheet, of the rows that have both."""
    lines = SHEET.read_text(encoding="utf-8").splitlines()
    return [
        found for line in lines for found in re.findall(r"^\| .+? \| `(ccs .+?)` \| `(ansible-playbook .+?)`", line)
    ]


def meant(words: list[str], of_file: dict[str, Any]) -> dict[str, str]:
    """Return the variables of a command, each as text."""
    variables = dict(of_file)
    for place, word in enumerate(words):
        given = words[place + 1] if word == "-e" else "@"
        if given.startswith("{"):
            variables |= json.loads(given)
        elif not given.startswith("@"):
            key, _equals, value = given.partition("=")
            variables[key] = value
    texts = {}
    for name, value in variables.items():
        is_list_of_names = isinstance(value, list) and not name.endswith("_command")
        texts[name] = ",".join(value) if is_list_of_names else value if isinstance(value, str) else json.dumps(value)
    return texts


class TestSheet:
    """The page."""

    def test_each_line_of_ccs_runs_what_is_shown_beside_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, text in (("ansible-playbook", STAND_IN.format(folder=tmp_path)), ("ssh", "#!/bin/sh\n")):
            (tmp_path / name).write_text(text, encoding="utf-8")
            (tmp_path / name).chmod(0o755)
        page = SHEET.read_text(encoding="utf-8")
        for name, text in re.findall(r"^```yaml\n# (\S+)\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
            (tmp_path / name).write_text(text, encoding="utf-8")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        monkeypatch.setattr(ccs, "ansible_playbook", lambda: str(tmp_path / "ansible-playbook"))
        monkeypatch.setattr(ccs, "inventory", lambda _given: [])
        rows = sheet_rows()
        assert len(rows) > 18
        for short, long in rows:
            assert ccs.main(shlex.split(short)[1:]) == 0
            words = (tmp_path / "words").read_text(encoding="utf-8").splitlines()
            wanted = meant(words, yaml.safe_load((tmp_path / "variables").read_text(encoding="utf-8")))
            shown = shlex.split(long)
            assert shown[1] == f"cluster_compute.session.{Path(words[0]).stem}", short
            given = meant(shown, {})
            unseen = {name: value for name, value in LEFT_OUT.items() if name in wanted}
            assert {**unseen, **given} == wanted, short
            assert ("--check" in shown) == ("--check" in words), short

    def test_a_playbook_without_a_row_is_an_error(self) -> None:
        shown = dict.fromkeys(cheat_sheet.purposes(), Verb())
        cheat_sheet.check_complete({**shown, "job_result": Verb()})
        with pytest.raises(ValueError, match=r"The cheat sheet lacks fly\. Add a row to SECTIONS in cheat_sheet\.py\."):
            cheat_sheet.check_complete({**shown, "fly": Verb()})

    def test_a_command_of_ccs_without_a_row_is_an_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rows = [row for rows in cheat_sheet.SECTIONS.values() for row in rows if not row.line.startswith("ccs ps")]
        monkeypatch.setattr(cheat_sheet, "SECTIONS", {"All": rows})
        with pytest.raises(ValueError, match=r"The cheat sheet lacks ccs ps\. "):
            cheat_sheet.check_complete({})

    def test_a_row_of_a_playbook_that_is_not_there_is_an_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cheat_sheet, "SECTIONS", {"All": [Row("Fly", "request.md", "fly")]})
        monkeypatch.setattr(cheat_sheet, "check_complete", lambda _verbs: None)
        with pytest.raises(ValueError, match=r"There is no playbook fly\. Correct the row"):
            cheat_sheet.page({"gc": Verb()})
        page = cheat_sheet.page({"fly": Verb()})
        assert "| [Fly](../request.md) |  | `ansible-playbook cluster_compute.session.fly` |" in page


class TestForPrograms:
    """The page for programs."""

    @pytest.fixture
    def overview(self) -> dict[str, Any]:
        """Return what session_info documents of its result."""
        text = (CHECKOUT / "plugins" / "modules" / "session_info.py").read_text(encoding="utf-8")
        found = re.search(r'^RETURN = r"""\n(.*?)"""', text, re.MULTILINE | re.DOTALL)
        assert found is not None
        documented: dict[str, Any] = yaml.safe_load(found[1])["overview"]["contains"]
        return documented

    VERBS: ClassVar = {name: Verb(reads=frozenset({file})) for name, file in for_programs.FILES.items()}

    def test_the_page_has_verbs_keys_and_exit_codes(self) -> None:
        text = PROGRAMS.read_text(encoding="utf-8")
        rows = {line.split(" | ")[0].strip("| "): line.split(" | ")[1:] for line in text.splitlines()}
        launch, drain = (
            rows["[`launch_cluster`](playbooks.md#launch_cluster)"],
            rows["[`drain_hosts`](playbooks.md#drain_hosts)"],
        )
        assert launch[1:] == ["`session_name`, `session_image`", "", "`cluster_compute_session` |"]
        assert drain[1] == "`drain_hosts`, `drain_reason`"
        assert rows["[`undrain_hosts`](playbooks.md#undrain_hosts)"][1] == "`drain_hosts`"
        assert rows["[`session_info`](playbooks.md#session_info)"][2] == "`cluster_compute_info_file`"
        assert rows["`waiting_elsewhere`"][0].startswith("Sessions that wait in other resource groups")
        assert rows["124"] == ["`job_timeout` ended it. |"]
        assert "The verbs `repair`, `schedule`, `run_job`, `drain`, `undrain` also provide" in text

    def test_every_key_has_a_meaning(self, overview: dict[str, Any]) -> None:
        page = for_programs.page(self.VERBS, {}, overview, CHECKOUT)
        for keys in (overview, overview["hosts"]["contains"], overview["sessions"]["contains"]):
            assert [key for key in keys if f"\n| `{key}` | " not in page] == []
        assert "`suspect`" in page

    @pytest.mark.parametrize("name", ["ARTIFACT", "REPLICA", "PORT", "OUTCOME", "PREVIEW", "CHECKED", "PAIRS"])
    def test_a_key_without_a_meaning_and_a_meaning_without_a_key_are_errors(
        self, name: str, overview: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (first, *_others) = meanings = getattr(for_programs, name)
        monkeypatch.setattr(for_programs, name, {key: text for key, text in meanings.items() if key != first})
        with pytest.raises(ValueError, match=f"their meanings differ: {first}. Correct for_programs.py."):
            for_programs.page(self.VERBS, {}, overview, CHECKOUT)
        monkeypatch.setattr(for_programs, name, {**meanings, "wings": "None."})
        with pytest.raises(ValueError, match=r"their meanings differ: wings\. "):
            for_programs.page(self.VERBS, {}, overview, CHECKOUT)

    def test_a_key_that_session_info_no_longer_documents_is_an_error(self, overview: dict[str, Any]) -> None:
        del overview["sessions"]["contains"]["egress"]
        with pytest.raises(ValueError, match=r"Keys of sessions\[\] and their meanings differ: egress. "):
            for_programs.page(self.VERBS, {}, overview, CHECKOUT)

    def test_a_file_that_a_playbook_does_not_write_is_an_error(self, overview: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match=r"The playbook status does not read status_json\. "):
            for_programs.page({"status": Verb()}, {"status": "Show"}, overview, CHECKOUT)

    def test_keys_of_a_mapping_are_read_from_the_function_that_makes_it(self, tmp_path: Path) -> None:
        path = tmp_path / "a.py"
        path.write_text(
            "def f():\n    a = {'b': {'c': 1}, 'd': 2}\n    e = {n: {'x': n} for n in a}\n    return {**a, 'g': e}\n"
            "def h():\n    return {'i': 1}\n",
            encoding="utf-8",
        )
        assert for_programs.keys_in(path, "f") == ["b", "d", "g"]
        with pytest.raises(ValueError, match=r"has no function gone\. "):
            for_programs.keys_in(path, "gone")


def test_artifacts_are_those_of_a_playbook_its_roles_and_the_playbooks_that_it_imports(tmp_path: Path) -> None:
    (tmp_path / "playbooks").mkdir()
    (tmp_path / "roles" / "r" / "tasks").mkdir(parents=True)
    task = "- ansible.builtin.set_stats:\n    data:\n      {}: 1\n"
    (tmp_path / "roles" / "r" / "tasks" / "main.yml").write_text(task.format("of_role"), encoding="utf-8")
    (tmp_path / "playbooks" / "a.yml").write_text(
        f"- import_playbook: b.yml\n- tasks:\n  {task.format('own')}", encoding="utf-8"
    )
    (tmp_path / "playbooks" / "b.yml").write_text("- vars:\n    launch_hands_on: true\n", encoding="utf-8")
    roles = {"a": ["r", "without_tasks"]}
    assert artifacts_of(tmp_path, "a", roles) == ("cluster_compute_session", "own", "of_role")
    assert artifacts_of(tmp_path, "b", roles) == ("cluster_compute_session",)
    (tmp_path / "playbooks" / "b.yml").write_text("- vars:\n    launch_hands_on: false\n", encoding="utf-8")
    assert artifacts_of(tmp_path, "b", roles) == ()

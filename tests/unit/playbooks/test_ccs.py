# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What ccs asks of ansible-playbook: a program takes its place that writes down what it was given."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.fields import (
    FIELDS,
    ROLE_FIELDS,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.job import parse_job_request
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.output import (
    parse_logs_request,
)
from ansible_collections.cluster_compute.session.tools.cheat_sheet import SECTIONS, separate, started

CHECKOUT = Path(__file__).resolve().parents[3]
CCS = CHECKOUT / "playbooks" / "ccs.py"
RECORD = """#!{python}
import json, os, stat, sys, time
variables = sys.argv[sys.argv.index("-e") + 1][1:]
kept = [name for name in ("ANSIBLE_STDOUT_CALLBACK", "ANSIBLE_COLLECTIONS_PATH") if name in os.environ]
with open({record!r}, "a") as file, open(variables) as given:
    mode = stat.S_IMODE(os.stat(os.path.dirname(variables)).st_mode)
    json.dump([sys.argv[1:], given.read(), {{name: os.environ[name] for name in kept}}, mode], file)
    file.write("\\n")
if "CLUSTER_COMPUTE_ARTIFACTS" in os.environ and os.path.exists({artifacts!r}):
    with open(os.environ["CLUSTER_COMPUTE_ARTIFACTS"], "w") as file:
        file.write(open({artifacts!r}).read())
if os.path.exists({slow!r}):
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        print("gave back")
        sys.exit(99)
sys.exit({code})
"""


def loaded() -> ModuleType:
    """Return the program as a module."""
    spec = importlib.util.spec_from_file_location("ccs", CCS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Site:
    """A user's machine: a home, a folder with files, and what was asked of ansible-playbook."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make a home with a public key."""
        self.folder = folder
        self.record = folder / "record"
        self.artifacts = folder / "artifacts"
        self.slow = folder / "slow"
        (folder / "home" / ".ssh").mkdir(parents=True)
        (folder / "home" / ".ssh" / "id_ed25519.pub").write_text("ssh-ed25519 AAAA ada\n", encoding="utf-8")
        monkeypatch.setenv("HOME", str(folder / "home"))
        for name in ("XDG_CONFIG_HOME", "CCS_INVENTORY", "ANSIBLE_COLLECTIONS_PATH"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.chdir(folder)
        self.ccs = loaded()
        self.answers(0)
        monkeypatch.setattr(self.ccs, "ansible_playbook", lambda: str(folder / "ansible-playbook"))

    def answers(self, code: int) -> None:
        """Have ansible-playbook end with an exit code."""
        names = {name: str(getattr(self, name)) for name in ("record", "artifacts", "slow")}
        path = self.folder / "ansible-playbook"
        path.write_text(RECORD.format(python=sys.executable, code=code, **names), encoding="utf-8")
        path.chmod(0o755)

    def write(self, text: str, name: str = "train.yml") -> str:
        """Write a session file."""
        (self.folder / name).write_text(text, encoding="utf-8")
        return name

    def run(self, *words: str) -> int:
        """Run ccs."""
        code: int = self.ccs.main(words)
        return code

    def asked(self) -> list[tuple[str, dict[str, Any], list[str]]]:
        """Return what was asked: the playbook, its variables and further options."""
        found = []
        for line in self.record.read_text(encoding="utf-8").splitlines():
            argv, text, _environment, mode = json.loads(line)
            assert mode == 0o700, "others can read the variables"
            playbook = next(word for word in argv if word.endswith(".yml") and not word.startswith("@"))
            options = [word for word in argv if word != playbook and not word.startswith("@")]
            options.remove("-e")
            assert Path(playbook).is_file()
            found.append((Path(playbook).stem, yaml.load(text, Loader=self.ccs.Loader), options))  # noqa: S506
        return found


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(tmp_path, monkeypatch)


KEYS = {"session_authorized_keys": ["ssh-ed25519 AAAA ada"]}


def test_a_file_without_prefix_is_the_same_request_as_one_with_it(site: Site) -> None:
    plain = site.write("name: first\nsize: 3\nimage: demo\nenv: {A: '1'}\n")
    assert site.run("up", plain) == 0
    assert (
        site.run("up", site.write("session_name: first\nsession_size: 3\nsession_image: demo\nsession_env: {A: '1'}\n"))
        == 0
    )
    assert site.run("plan", plain) == 0
    request = {"session_name": "first", "session_size": 3, "session_image": "demo", "session_env": {"A": "1"}, **KEYS}
    assert site.asked() == [
        ("launch_cluster", request, []),
        ("launch_cluster", request, []),
        ("plan_cluster", request, []),
    ]


def test_a_working_directory_is_meant_from_the_folder_of_its_file(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    (site.folder / "code").mkdir()
    for value in (".", "../x", "/srv/code", "~/code", "5"):
        site.run("up", site.write(f"image: demo\nworkdir: {value}\n", "code/train.yml"))
    for value in ("''", "'{{ place }}'", "~nobody-here"):
        site.run("up", site.write(f"image: demo\nworkdir: {value}\n", "code/train.yml"))
    site.write("image: demo\nworkdir: .\n", "code/train.yml")
    monkeypatch.chdir(site.folder / "code")
    site.run("up", "train.yml")
    found = [variables["session_workdir"] for _playbook, variables, _options in site.asked()]
    own, home = f"{site.folder}/code", f"{site.folder}/home"
    assert found[:5] == [own, f"{own}/../x", "/srv/code", f"{home}/code", 5]
    assert found[5:] == ["", "{{ place }}", f"{own}/~nobody-here", own]


def test_a_key_that_cannot_be_read_is_named(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    (site.folder / "home" / ".ssh" / "id_old.pub").write_bytes(b"\xff")
    site.run("up", site.write("name: a\nimage: demo\n"))
    assert site.asked() == [("launch_cluster", {"session_name": "a", "session_image": "demo", **KEYS}, [])]
    assert "id_old.pub is left out, as it cannot be read: " in capsys.readouterr().err


def test_the_next_steps_are_those_of_the_session_as_it_is(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    name = site.write("name: a\nimage: demo\n")
    for status, steps in (("RUNNING", "ccs ssh a   ccs logs -f a   ccs down a"), ("PENDING", "ccs ps   ccs down a")):
        site.artifacts.write_text(json.dumps({"cluster_compute_session": {"status": status}}), encoding="utf-8")
        assert site.run("up", name) == 0
        assert capsys.readouterr().out == f"Next: {steps}\n"
    site.answers(2)
    assert site.run("up", name) == 2
    assert capsys.readouterr().out == ""


def test_a_file_names_its_session_and_its_keys_win(site: Site) -> None:
    site.run("up", site.write("image: demo\nauthorized_keys: []\ncluster_compute_vxlan_port: 4790\n", "big.yml"))
    request = {"session_name": "big", "session_image": "demo", "session_authorized_keys": []}
    assert site.asked() == [("launch_cluster", {**request, "cluster_compute_vxlan_port": 4790}, [])]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("- name\n", "has to be a mapping"),
        ("name: [\n", "is not valid YAML"),
        ("1: one\n", "has to be a mapping"),
        ("name: a\nsession_name: b\n", "has 'session_name' twice"),
        ("", "has to be a mapping"),
    ],
)
def test_a_wrong_file_is_named_and_nothing_runs(
    site: Site, capsys: pytest.CaptureFixture[str], text: str, why: str
) -> None:
    assert site.run("up", site.write(text)) == 2
    assert why in capsys.readouterr().err
    assert site.run("up", "absent.yml") == 2
    assert capsys.readouterr().err == "ccs: absent.yml cannot be read: No such file or directory.\n"
    assert not site.record.exists()


def test_what_a_vault_encrypted_is_passed_on_as_it_is(site: Site) -> None:
    site.run("up", site.write("name: a\nenv:\n  TOKEN: !vault |\n    $ANSIBLE_VAULT;1.1;AES256\n    3030\n"))
    (_playbook, variables, _options) = site.asked()[0]
    value = variables["session_env"]["TOKEN"]
    assert isinstance(value, site.ccs.Vault)
    assert value == "$ANSIBLE_VAULT;1.1;AES256\n3030\n"


@pytest.mark.parametrize("verb", ["up", "run"])
def test_what_only_checks_names_no_next_step(site: Site, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    assert site.run(verb, "--check", site.write("name: a\ncommand: python train.py\n")) == 0
    assert "Next" not in capsys.readouterr().out


def test_run_follows_the_command_and_ends_with_its_exit_code(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    name = site.write("name: a\ncommand: python train.py\n")
    site.answers(2)
    outcome = {"replicas": {"main1": {"host": "h1", "exit_code": 7}}}
    site.artifacts.write_text(json.dumps({"cluster_compute_job_outcome": outcome}), encoding="utf-8")
    assert site.run("run", name) == 7
    site.artifacts.unlink()
    assert site.run("run", name) == 2, "the launch failed"
    site.answers(0)
    assert site.run("run", "--detach", name) == 0
    assert "Next: ccs logs -f a" in capsys.readouterr().out
    site.artifacts.write_text(json.dumps({"cluster_compute_session": {"status": "PENDING"}}), encoding="utf-8")
    assert site.run("run", "--detach", name) == 0
    assert "Next: ccs ps   ccs down a" in capsys.readouterr().out
    site.artifacts.unlink()
    request = {
        "session_name": "a",
        "session_batch_command": "python train.py",
        "session_on_no_capacity": "wait",
        **KEYS,
    }
    request["session_command"] = ["sleep", "infinity"]
    assert [(playbook, variables) for playbook, variables, _options in site.asked()] == [
        ("run", request),
        ("run", request),
        *[("launch_cluster", {key: value for key, value in request.items() if key != "session_on_no_capacity"})] * 2,
    ]
    assert site.run("run", site.write("name: a\n")) == 2
    assert "has no 'command'" in capsys.readouterr().err


def test_each_command_is_a_playbook(site: Site) -> None:
    for words in (
        ["ps"],
        ["ps", "a", "-g", "gpus"],
        ["ps", "--query", "sessions[].name"],
        ["logs", "-f", "a", "main1", "sub2"],
        ["logs", "-n", "5", "a"],
        ["exec", "a", "--on", "all", "--", "nvidia-smi", "-L"],
        ["app", "a", "jupyter"],
        ["down", "a", "b"],
        ["drain", "h3", "new memory"],
        ["undrain", "h3"],
        ["prepare", "-g", "gpus"],
        ["preflight"],
    ):
        assert site.run(*words) == 0, words
    name = {"session_name": "a"}
    follow = {"logs_follow_seconds": site.ccs.FOLLOW_SECONDS, "logs_replicas": ["main1", "sub2"]}
    assert site.asked() == [
        ("status", {"session_name": ""}, []),
        ("status", {**name, "session_resource_group": "gpus"}, []),
        ("status", {"session_name": "", "status_query": "sessions[].name"}, []),
        ("logs", {**name, **follow}, []),
        ("logs", {**name, "logs_tail": 5}, []),
        ("run_job", {**name, "job_command": ["nvidia-smi", "-L"], "job_on": "all", "job_detach": False}, []),
        ("open_app", {**name, "app": "jupyter"}, []),
        ("teardown_cluster", name, []),
        ("teardown_cluster", {"session_name": "b"}, []),
        ("drain_hosts", {"drain_hosts": ["h3"], "drain_reason": "new memory"}, []),
        ("undrain_hosts", {"drain_hosts": ["h3"]}, []),
        ("prepare_hosts", {"session_resource_group": "gpus"}, []),
        ("preflight", {}, []),
    ]
    # The playbooks accept what they are given.
    for playbook, variables, _options in site.asked():
        own = {key: value for key, value in variables.items() if key.startswith(("logs_", "job_"))}
        if own:
            {"logs": parse_logs_request, "run_job": parse_job_request}[playbook](own)


def test_a_login_writes_the_configuration_first(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    ssh = site.folder / "ssh"
    ssh.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" >>{site.folder}/words\nexit 3\n", encoding="utf-8")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{site.folder}:{os.environ['PATH']}")
    assert site.run("ssh", "a") == 3
    assert site.run("ssh", "a", "sub2", "--", "echo", "a b") == 3
    config = f"{site.folder}/home/.ssh/cluster-compute/a/config"
    words = (site.folder / "words").read_text(encoding="utf-8").splitlines()
    assert words == ["-F", config, "main1", "-F", config, "sub2", "echo 'a b'"]
    assert site.asked() == [("login", {"session_name": "a"}, [])] * 2
    site.answers(2)
    assert site.run("ssh", "a") == 2, "without a login there is no configuration"
    assert (site.folder / "words").read_text(encoding="utf-8").splitlines() == words


def test_a_program_is_asked_for(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert site.run("exec", "a") == 2
    assert "needs a program" in capsys.readouterr().err
    assert not site.record.exists()


def test_the_inventory_is_that_of_the_line_the_environment_or_the_settings(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = site.folder / "home" / ".config" / "ccs.yml"
    settings.parent.mkdir()
    settings.write_text("inventory: ~/site\n", encoding="utf-8")
    site.run("ps")
    monkeypatch.setenv("CCS_INVENTORY", "of-environment")
    site.run("ps")
    site.run("ps", "-i", "of-line", "-e", "a=1", "--check", "-vv")
    assert [options for _playbook, _variables, options in site.asked()] == [
        ["-i", f"{site.folder}/home/site"],
        ["-i", "of-environment"],
        ["-i", "of-line", "-e", "a=1", "--check", "-v"],
    ]
    assert "+ " in capsys.readouterr().err
    monkeypatch.delenv("CCS_INVENTORY")
    settings.write_text("inventary: ~/site\n", encoding="utf-8")
    assert site.run("ps") == 2
    assert "may only have the line 'inventory: PATH'" in capsys.readouterr().err


def test_the_collection_is_found_wherever_the_file_is(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    assert site.ccs.collections()["ANSIBLE_COLLECTIONS_PATH"].split(":")[0] == str(CHECKOUT / ".collections")
    installed = site.folder / "c" / "ansible_collections" / "cluster_compute" / "session" / "playbooks"
    monkeypatch.setattr(site.ccs, "PLAYBOOKS", installed)
    monkeypatch.setenv("ANSIBLE_COLLECTIONS_PATH", "/mine")
    assert site.ccs.collections() == {"ANSIBLE_COLLECTIONS_PATH": f"{site.folder}/c:/mine"}


def test_an_interrupt_is_for_ansible_which_is_waited_for(site: Site) -> None:
    """As at a terminal, where Ctrl-C reaches both: the session goes on, and the way back is told."""
    site.slow.touch()
    name = site.write("name: a\ncommand: [sleep, '60']\n")
    path = f"{site.folder}:{os.environ['PATH']}"
    program = "import ccs, sys; ccs.ansible_playbook = lambda: 'ansible-playbook'; sys.exit(ccs.main(sys.argv[1:]))"
    with subprocess.Popen(
        [sys.executable, "-c", program, "run", name],
        env={**os.environ, "PATH": path, "PYTHONPATH": str(CCS.parent)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # The tests themselves may run where it is ignored, as in the background of a shell.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as started:
        deadline = time.monotonic() + 60
        while not site.record.exists() or not site.record.read_text(encoding="utf-8"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(0.2)
        os.killpg(started.pid, signal.SIGINT)
        output, _nothing = started.communicate(timeout=60)
    assert started.returncode == 99
    assert output.splitlines() == ["gave back", "Session a goes on. Come back: ccs logs -f a   End it: ccs down a"]


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_shell_completes_commands(site: Site, capsys: pytest.CaptureFixture[str], shell: str) -> None:
    assert site.run("completion", shell) == 0
    text = capsys.readouterr().out
    complete = f"{text}\nCOMP_WORDS=(ccs dr); COMP_CWORD=1; _ccs; echo ${{COMPREPLY[@]}}"
    if shell == "zsh":
        assert text.startswith("autoload -U +X bashcompinit")
        complete = complete.split("\n", 1)[1]
    done = subprocess.run(["bash", "-c", complete], capture_output=True, text=True, check=True)
    assert done.stdout == "drain\n"


def test_what_newcomers_are_told_is_a_command_or_a_field() -> None:
    text = (CHECKOUT / "docs" / "coming_from.md").read_text(encoding="utf-8")
    told = [word for line in text.splitlines() for word in re.findall(r"`([^`]+)`", line.rpartition(" | ")[2])]
    commands = [shlex.split(word)[1:] for word in told if word.startswith("ccs ")]
    assert len(commands) > 12
    for words in commands:
        loaded().parser().parse_args(words[: words.index("--")] if "--" in words else words)
    fields = {field.name for field in (*FIELDS, *ROLE_FIELDS)} | {"replicas"}
    others = {"main1", "sub1", "sub2", "session-run", "session-run -n", "RANK", "WORLD_SIZE", "FILE", "examples/ray"}
    named = {word.partition(":")[0] for word in told if not word.startswith("ccs ")} - others
    assert len(named) > 20
    assert named - fields == set()


BESIDE = {
    row.line.split()[1]: started(row.line).playbook
    for rows in SECTIONS.values()
    for row in rows
    if row.line.startswith("ccs ") and not row.line.startswith("ccs run ")  # whose playbook's name an example has, too
}
"""Command of ccs: its playbook."""
PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in (CHECKOUT / "docs").glob("*.md"))]


def shown(page: str) -> list[tuple[str, str]]:
    """Return the commands of a page's ``sh`` blocks that run a playbook, each with the comment before it, if any."""
    text = (CHECKOUT / page).read_text(encoding="utf-8")
    found = []
    for block in re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        comment = ""
        for line in block.replace("\\\n", " ").splitlines():
            if line.removeprefix("! ").startswith("ansible-playbook "):
                found.append((comment, line))
            comment = line[2:] if line.startswith("# ccs ") else ""
    return found


def playbook_of(command: str) -> str:
    """Return the name of the playbook that a command runs."""
    name = next(word for word in shlex.split(command) if re.search(r"\.yml$|^cluster_compute\.", word))
    return Path(name).stem if name.endswith(".yml") else name.rpartition(".")[2]


def meaning(playbook: str, variables: dict[str, Any], options: list[str]) -> tuple[Any, ...]:
    """Return what a run of a playbook is asked for, the same for texts as for what they stand for."""
    more, rest = separate(options)
    variables = {**variables, **more}
    if variables.get("job_command", [""])[0] == "sh":
        variables["job_command"][0] = "/bin/sh"  # of a text
    jobs = {name: variables.pop(name) for name in [*variables] if name.startswith("job_")}
    logs = {name: variables.pop(name) for name in [*variables] if name.startswith("logs_")}
    if playbook == "launch_cluster":
        variables.pop("session_authorized_keys", None)  # ccs gives those of the user
    as_text = {name: ",".join(value) if isinstance(value, list) else str(value) for name, value in variables.items()}
    return (
        playbook,
        parse_job_request(jobs) if jobs else None,
        parse_logs_request(logs) if playbook == "logs" else None,
        {name: value for name, value in as_text.items() if value},
        sorted(rest),
    )


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_the_line_of_ccs_that_runs_the_same_before_that_of_a_playbook(
    site: Site, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (site.folder / "ssh").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", f"{site.folder}:{os.environ['PATH']}")
    (site.folder / "examples").symlink_to(CHECKOUT / "examples")
    for comment, command in shown(page):
        playbook = playbook_of(command)
        if not comment:
            is_without = (
                command.startswith("! ") or "job_id=" in command or playbook in ("launch_cluster", "plan_cluster")
            )
            assert is_without or playbook not in BESIDE.values(), f"{page}: no line of ccs before '{command}'"
            continue
        assert site.run(*shlex.split(comment)[1:]) == 0, comment
        words = shlex.split(command.removeprefix("! "))[1:]
        words.remove(next(word for word in words if word.endswith((f"/{playbook}.yml", f".{playbook}"))))
        assert meaning(*site.asked()[-1]) == meaning(playbook, {}, words), comment


def test_the_pages_show_each_command_of_ccs_that_runs_a_playbook() -> None:
    beside = {comment.split()[1] for page in PAGES for comment, _command in shown(page) if comment}
    assert {*BESIDE} - beside == {"app", "plan"}

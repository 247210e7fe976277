# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run looks like for people, by Ansible itself."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.cluster_compute.session.plugins.callback import plain

CHECKOUT = Path(__file__).resolve().parents[4]
PLAYBOOK = """
- name: Answer
  hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.debug: {msg: ["one", "- two: 'x'", "docker exec -it first-main1 /bin/sh"]}
    - ansible.builtin.debug: {msg: "{{ item }}"}
      loop: [a, b]
    - ansible.builtin.debug: {var: some}
    - ansible.builtin.debug: {msg: "\\e[2J clears"}
    - name: Recover
      block:
        - ansible.builtin.fail: {msg: It is away.}
      rescue:
        - ansible.builtin.debug: {msg: It is back.}
    - ansible.builtin.fail: {msg: nobody minds}
      ignore_errors: true
    - ansible.builtin.set_stats: {data: {found: [1]}}
- name: Nobody has to do this
  hosts: "{{ [] }}"
  gather_facts: false
  tasks:
    - ansible.builtin.debug: {msg: never}
- name: Fail
  hosts: many
  gather_facts: false
  tasks:
    - ansible.builtin.fail: {msg: "of c alone"}
      when: inventory_hostname == 'c'
    - ansible.builtin.fail: {msg: "of a turn"}
      loop: [1]
      when: inventory_hostname == 'd'
    - ansible.builtin.fail: {msg: "the\\nsame"}
"""
OUTPUT = """\
✓ Answer
one
- two: 'x'
docker exec -it first-main1 /bin/sh
a
b
some: {}
\\x1b[2J clears
Note: It is away.
It is back.
✗ Fail
c: of c alone
d: of a turn
a, b: the
same
"""


def run(folder: Path, *options: str, text: str = PLAYBOOK, **environment: str) -> tuple[int, str]:
    """Return how a playbook ended and what was written, without times."""
    (folder / "play.yml").write_text(text, encoding="utf-8")
    (folder / "hosts.json").write_text(
        json.dumps({"many": {"hosts": {name: {"ansible_connection": "local"} for name in "abcd"}}}), encoding="utf-8"
    )
    name = shutil.which("ansible-playbook", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert name is not None
    own = {
        "ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg"),
        "ANSIBLE_STDOUT_CALLBACK": "cluster_compute.session.plain",
        "ANSIBLE_HOME": str(folder),
        "LC_ALL": "C.UTF-8",
        "PYTHONIOENCODING": "utf-8",
    }
    done = subprocess.run(
        [name, "-i", str(folder / "hosts.json"), str(folder / "play.yml"), "-e", '{"some": {}}', *options],
        cwd=CHECKOUT,
        env={**os.environ, **own, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    return done.returncode, re.sub(r" +\d+\.\d s$", "", done.stdout, flags=re.MULTILINE)


def test_steps_answers_and_each_failure_once(tmp_path: Path) -> None:
    artifacts = tmp_path / "artifacts"
    assert run(tmp_path, CLUSTER_COMPUTE_ARTIFACTS=str(artifacts)) == (2, OUTPUT)
    assert json.loads(artifacts.read_text(encoding="utf-8")) == {"found": [1]}


def test_with_more_words_it_is_ansible_s_own(tmp_path: Path) -> None:
    artifacts = tmp_path / "artifacts"
    _code, output = run(tmp_path, "-v", CLUSTER_COMPUTE_ARTIFACTS=str(artifacts))
    assert "PLAY RECAP" in output
    assert "✓" not in output
    assert json.loads(artifacts.read_text(encoding="utf-8")) == {"found": [1]}


def test_a_play_that_takes_long_says_what_it_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plain, "QUIET_SECONDS", 0.0)
    callback = plain.CallbackModule()
    callback._hosts, callback._task = {"h1"}, "Install the engine"
    turns = iter([False, True])
    monkeypatch.setattr(callback, "_ended", SimpleNamespace(wait=lambda _seconds: next(turns)))
    callback._tick()
    assert re.fullmatch(r"  … Install the engine, \d+ s\n", capsys.readouterr().out)

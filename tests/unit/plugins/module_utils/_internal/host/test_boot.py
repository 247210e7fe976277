# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program that runs at boot: how it waits, what it says, and the one file it is installed as."""

from __future__ import annotations

import io
import os
import select
import subprocess
import sys
import zipfile
from configparser import ConfigParser
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import EngineError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.call.session_repair import (
    Repaired,
    RepairedSession,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    PENDING,
    RUNNING,
    new_record,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import (
    boot,
    boot_install,
    firewall_rules,
    membership,
    timer,
)

SESSION = "3614fdf3-0e04-4a3c-9d2a-53a1f7b2c8aa"
CHECKOUT = Path(__file__).resolve().parents[6]
UNITS = CHECKOUT / "roles/prepare_hosts/templates"
PREFIX = "ansible_collections/cluster_compute/session/plugins/module_utils/_internal"


class Engines:
    """An engine that answers at the given time of a clock that only sleeping moves."""

    def __init__(self, answers_at: float) -> None:
        self.answers_at = answers_at
        self.now = 100.0

    def connect(self) -> None:
        if self.now < 100.0 + self.answers_at:
            raise EngineError("connection refused")

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize("seconds", [0.0, 0.5, 7.0, 119.5])
def test_it_waits_for_the_engine_and_no_longer(seconds: float) -> None:
    engine = Engines(seconds)
    boot.await_engine(120, engine.connect, engine.clock, engine.sleep)
    assert engine.now == 100.0 + seconds


def test_it_gives_up_in_the_end_and_says_why() -> None:
    engine = Engines(1000)
    with pytest.raises(EngineError, match="did not answer within 120 seconds: connection refused"):
        boot.await_engine(120, engine.connect, engine.clock, engine.sleep)
    assert engine.now <= 221.0


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Make the program run without engine and root, and return what it is about to repair."""
    calls: list[str] = []
    monkeypatch.setattr(boot, "LOCK", str(tmp_path / "lock"))
    monkeypatch.setattr(membership, "HELD_BACK", tmp_path / "held-back")
    monkeypatch.setattr(boot, "_need_libraries", lambda: None)
    monkeypatch.setattr(boot, "await_engine", lambda _seconds: None)
    monkeypatch.setenv("JOURNAL_STREAM", "1:2")
    return calls


def test_it_tells_every_action_and_every_problem_in_one_line(
    quick: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def repair(state: object, alone: bool) -> Repaired:
        assert alone
        quick.append(str(vars(state)["root"]))
        session = RepairedSession("train", problem="no room\nat all")
        actions = ["create link ccx1", "start container train-main1"]
        return Repaired(actions=actions, sessions={"1": session}, warnings=["The network train stays."])

    monkeypatch.setattr(boot, "repair_host", repair)
    assert boot.main(["--state-directory", "/srv/state"]) == 1
    assert quick == ["/srv/state"]
    assert capsys.readouterr().out.splitlines() == [
        "create link ccx1",
        "start container train-main1",
        "The network train stays.",
        "Session train: no room; at all",
    ]


def test_it_says_nothing_when_nothing_was_missing(
    quick: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(boot, "repair_host", lambda _state, alone: Repaired())
    assert boot.main([]) == 0
    assert capsys.readouterr().out == ""


def test_an_engine_that_does_not_come_is_a_problem(
    quick: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def never(_seconds: float) -> None:
        raise EngineError("Docker Engine did not answer.")

    monkeypatch.setattr(boot, "await_engine", never)
    assert boot.main([]) == 1
    assert capsys.readouterr().out == "Nothing could be repaired: Docker Engine did not answer.\n"


@pytest.mark.parametrize("name", ["cluster-compute", "cluster-compute-links", "cluster-compute-disks"])
def test_no_unit_of_systemd_waits_for_what_cannot_be_killed(name: str) -> None:
    unit = ConfigParser(interpolation=None, strict=False)
    unit.read_string((UNITS / f"{name}.service.j2").read_text(encoding="utf-8"))
    assert unit["Service"]["Type"] == "oneshot"
    assert unit["Service"]["KillMode"] == "process"


def test_who_is_stopped_leaves_nothing_at_work(tmp_path: Path) -> None:
    shows, lock = tmp_path / "works", tmp_path / "lock"
    os.mkfifo(shows)
    script = f"""
import time
from {boot.__name__.rpartition(".")[0]} import boot

def work(_state):
    with open({str(shows)!r}, "w") as file:
        file.write("at work\\n")
        file.flush()
        time.sleep(600)

boot.LOCK, boot._repaired = {str(lock)!r}, work
boot.main([])
"""
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT / ".collections")}
    with subprocess.Popen([sys.executable, "-c", script], env=environment) as program, shows.open() as file:
        assert file.readline() == "at work\n"
        program.terminate()
        program.wait(30)
        assert select.select([file], [], [], 30)[0], "it works on"
        assert file.read() == ""


def test_two_runs_do_not_work_side_by_side(
    quick: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = []

    def repair(_state: object, alone: bool) -> Repaired:
        codes.append(boot.main([]))
        return Repaired()

    monkeypatch.setattr(boot, "repair_host", repair)
    assert boot.main([]) == 0
    assert codes == [0]
    assert "Another run" in capsys.readouterr().out


@pytest.mark.parametrize(("answers_at", "left"), [(0, set()), (4, set()), (100, {"1"})])
def test_it_goes_on_asking_for_a_while_where_a_session_is_held_back(
    quick: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answers_at: int,
    left: set[str],
) -> None:
    engine = Engines(0)

    def repair(_state: object, alone: bool) -> Repaired:
        quick.append("repair")
        if len(quick) > answers_at:
            return Repaired()
        return Repaired(sessions={"1": RepairedSession("train", problem="held back")}, held_back=["1"])

    monkeypatch.setattr(boot, "repair_host", repair)
    assert boot._repair(StateDirectory("/srv/state"), engine.clock, engine.sleep) == (1 if left else 0)
    assert len(quick) == min(answers_at, 24) + 1
    assert membership.read_held_back() == left
    assert capsys.readouterr().out.count("held back") == (1 if answers_at else 0)


@pytest.mark.parametrize("due", [False, True])
def test_the_timer_repairs_only_what_is_due(quick: list[str], monkeypatch: pytest.MonkeyPatch, due: bool) -> None:
    monkeypatch.setattr(timer, "look", lambda _state: 0)
    monkeypatch.setattr(membership, "is_due", lambda _state: due)

    def repair(_state: StateDirectory, alone: Any) -> Repaired:
        quick.append("repair")
        return Repaired()

    monkeypatch.setattr(boot, "repair_host", repair)
    assert boot.main(["--disks"]) == 0
    assert quick == ["repair"] * due


def test_links_are_made_of_nothing_where_there_is_no_session(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert boot.main(["--links", "--state-directory", str(tmp_path)]) == 0
    assert capsys.readouterr().out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("status", "steps"), [(RUNNING, [["keep out"]]), (PENDING, [])])
def test_only_a_running_session_gets_rules_before_the_engine_starts(
    status: str, steps: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(firewall_rules, "keep_out_steps", lambda *_given: ["keep out"])
    monkeypatch.setattr(boot, "stub_of", lambda record: record)
    record = replace(new_record(SESSION, "ada", {"name": "train"}), status=status)
    assert boot._early_stages(StateDirectory(str(tmp_path)), record, nftables=False) == steps


class TestProgram:
    """The file."""

    def test_it_is_the_same_each_time_and_names_its_state_directory(self) -> None:
        content = boot_install.build("/srv/a 'quoted' one")
        assert content == boot_install.build("/srv/a 'quoted' one")
        assert content != boot_install.build("/srv/other")
        assert content.startswith(b"#!/")
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            assert archive.namelist() == sorted(archive.namelist())
            assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
            assert archive.testzip() is None

    def test_it_holds_what_it_needs_and_nothing_else(self) -> None:
        with zipfile.ZipFile(io.BytesIO(boot_install.build("/srv/state"))) as archive:
            names = set(archive.namelist())
        assert f"{PREFIX}/host/repair.py" in names
        assert f"{PREFIX}/adapters/engine.py" in names
        assert f"{PREFIX}/core/model/record.py" in names
        assert {"ansible_collections/__init__.py", f"{PREFIX}/__init__.py", f"{PREFIX}/core/__init__.py"} <= names
        assert not {f"{PREFIX}/core/rules/addressing.py", f"{PREFIX}/host/boot_install.py"} & names
        assert not [name for name in names if "/lab/" in name or "/modules/" in name]

    def test_it_runs_where_the_collection_is_not(self, tmp_path: Path) -> None:
        program = tmp_path / "host.pyz"
        program.write_bytes(boot_install.build(str(tmp_path / "state")))
        command = [sys.executable, "-I", str(program), "--links"]
        done = subprocess.run(command, cwd=tmp_path, env={"PATH": os.environ["PATH"]}, capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")

    def test_every_part_of_it_finds_what_it_imports(self, tmp_path: Path) -> None:
        """Also what is imported late, as where a program of a replica cannot be started."""
        path = tmp_path / "host.pyz"
        path.write_bytes(boot_install.build("/srv/state"))
        with zipfile.ZipFile(path) as archive:
            names = [name[:-3].replace("/", ".") for name in archive.namelist() if name.startswith(f"{PREFIX}/")]
        modules = [name for name in names if not name.endswith("__init__")]
        assert len(modules) > 80
        lines = ["import importlib, sys", f"sys.path.insert(0, {str(path)!r})"]
        text = "\n".join([*lines, f"for name in {modules!r}: importlib.import_module(name)"])
        done = subprocess.run([sys.executable, "-I", "-c", text], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")

    def test_it_is_installed_once_repaired_and_removed(self, tmp_path: Path) -> None:
        path = tmp_path / "lib" / "host.pyz"
        assert boot_install.install("/srv/state", str(path), check_mode=True).changed
        assert not path.parent.exists()
        first = boot_install.install("/srv/state", str(path))
        assert (first.changed, first.before) == (True, "")
        assert path.stat().st_mode & 0o7777 == 0o755
        second = boot_install.install("/srv/state", str(path))
        assert not second.changed
        assert second.before == second.after == first.after
        path.chmod(0o644)
        assert boot_install.install("/srv/state", str(path), check_mode=True).changed
        assert boot_install.install("/srv/state", str(path)).changed
        path.write_text("damage", encoding="utf-8")
        assert boot_install.install("/srv/state", str(path)).changed
        assert path.read_bytes() == boot_install.build("/srv/state")
        assert boot_install.remove(str(path), check_mode=True).changed
        assert path.exists()
        assert boot_install.remove(str(path)).changed
        assert not path.parent.exists()
        assert not boot_install.remove(str(path)).changed

    def test_what_is_no_file_is_not_touched(self, tmp_path: Path) -> None:
        for change in (boot_install.remove, lambda path: boot_install.install("/srv/state", path)):
            with pytest.raises(boot_install.ProgramError, match="not a regular file"):
                change(str(tmp_path))

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""ccs: launch, follow, enter and remove cluster compute sessions, and prepare their hosts.

Each command is one run of a playbook of this folder; -v shows it. It keeps no state of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

PLAYBOOKS = Path(__file__).resolve().parent
PREFIX = "session_"
SITE_PREFIX = "cluster_compute_"
INVENTORY = "CCS_INVENTORY"
FOLLOW_SECONDS = 24 * 3600
"""`logs -f` follows for so long, the most that the playbook logs accepts."""
LOGINS = Path("~/.ssh/cluster-compute")
"""The playbook login writes here, in a folder for each session."""
SESSION, JOB = "cluster_compute_session", "cluster_compute_job_outcome"
"""Artifacts of playbooks: what became of a session, and of a job."""
WRONG_USE = 2
WAITS = ["sleep", "infinity"]
"""Replicas run this beside the command of `run`."""


class Wrong(Exception):
    """A command cannot be carried out; the message is for the user."""


class Vault(str):
    """A value that ansible-vault has encrypted; Ansible decrypts it."""


class Loader(yaml.SafeLoader):
    """Reads a session file."""


class Dumper(yaml.SafeDumper):
    """Writes variables for Ansible."""


def _vault(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> Vault:
    return Vault(loader.construct_scalar(node))


Loader.add_constructor("!vault", _vault)
Dumper.add_representer(Vault, lambda dumper, value: dumper.represent_scalar("!vault", str(value), style="|"))


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = sys.argv[1:] if words is None else words
    # The words after '--' are the program of a replica, with options of its own.
    place = list(words).index("--") if "--" in words else len(words)
    given = parser().parse_args(words[:place])
    given.words, given.interrupted = list(words[place + 1 :]), False
    try:
        code: int = given.do(given)
        return code
    except Wrong as error:
        sys.stderr.write(f"ccs: {error}\n")
        return WRONG_USE


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "-i", "--inventory", help=f"the site's inventory; else {INVENTORY}, or 'inventory' of {settings_path()}"
    )
    common.add_argument("-g", "--group", help="the resource group (default: cluster_compute_hosts)")
    common.add_argument("-e", "--extra-vars", action="append", default=[], help="passed on to ansible-playbook")
    common.add_argument(
        "-v", "--verbose", action="count", default=0, help="show the line of ansible-playbook; -vv: its output"
    )
    common.add_argument("--check", action="store_true", help="only show what would change")
    made = argparse.ArgumentParser(
        prog="ccs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = made.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, do: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, parents=[common], help=text, description=text)
        added.set_defaults(do=do)
        return added

    for name, do, text in (
        ("up", up, "launch a session, or make a running one what its file says"),
        ("run", run, "launch a session with a command, follow it, and end with its exit code"),
        ("plan", plan, "show what 'up' would do"),
    ):
        added = command(name, do, text)
        added.add_argument("file", help="session file, such as train.yml")
        if name == "run":
            added.add_argument("--detach", action="store_true", help="do not wait; 'ccs logs -f NAME' follows")
    added = command("ps", ps, "show sessions and hosts")
    added.add_argument("--query", default="", help="show what this JMESPath expression selects")
    added.add_argument("name", nargs="?", help="only this session")
    added = command("ssh", ssh, "log in to a replica, or run a program there")
    added.add_argument("name")
    added.add_argument("replica", nargs="?", default="main1", help="default: main1")
    added.epilog = "A program is given last, after '--'."
    added = command("logs", logs, "show the output of a session")
    added.add_argument("-f", "--follow", action="store_true", help="go on with what is written from now on")
    added.add_argument("-n", "--tail", type=int, help="only so many lines of each replica")
    added.add_argument("name")
    added.add_argument("replicas", nargs="*", help="only these")
    added = command("exec", execute, "run a program in replicas of a running session")
    added.add_argument("--on", default="main1", help="main1 (default), all, roles or replicas, with commas")
    added.add_argument("--detach", action="store_true", help="do not wait for its end")
    added.add_argument("name")
    added.epilog = "The program is given last, after '--'."
    added = command("app", app, "open a notebook or another app in main1")
    added.add_argument("name")
    added.add_argument("app", help="jupyter, tensorboard, terminal, vscode, or one of the site's")
    command("prepare", prepare, "install on the hosts what sessions need, or update it")
    command("preflight", preflight, "check whether the hosts can run sessions")
    command("down", down, "remove sessions").add_argument("names", nargs="+", metavar="name")
    added = command("drain", drain, "give a host no new sessions")
    added.add_argument("host")
    added.add_argument("reason")
    command("undrain", undrain, "give a host sessions again").add_argument("host")
    command("names", names, "print the names of the sessions")
    command("completion", completion, "print the completion of a shell").add_argument("shell", choices=["bash", "zsh"])
    return made


# ---- commands -------------------------------------------------------------------------------------------------------


def up(given: argparse.Namespace) -> int:
    """Launch a session."""
    session = read_session(given.file)
    name = session["session_name"]
    return launch(given, session, f"ccs ssh {name}   ccs logs -f {name}")


def launch(given: argparse.Namespace, session: Mapping[str, Any], enter: str) -> int:
    """Launch a session, and name the next steps. enter: those for one that has a place."""
    code, launched = play_and_read(given, "launch_cluster", session, SESSION)
    if code == 0 and not given.check:
        enter = "ccs ps" if launched.get("status") == "PENDING" else enter
        say(f"Next: {enter}   ccs down {session['session_name']}")
    return code


def run(given: argparse.Namespace) -> int:
    """Launch a session and follow its command to its end."""
    session = read_session(given.file)
    if "session_batch_command" not in session and "session_command" in session:
        session["session_batch_command"] = session.pop("session_command")
        # The program of many images is a shell, which ends at once.
        session["session_command"] = WAITS
    if "session_batch_command" not in session:
        raise Wrong(f"{given.file} has no 'command'. 'ccs run' runs it in main1 and ends with it.")
    name = session["session_name"]
    if given.detach or given.check:
        return launch(given, session, f"ccs logs -f {name}")
    session.setdefault("session_on_no_capacity", "wait")
    code, job = play_and_read(given, "run", session, JOB)
    if given.interrupted:
        say(f"Session {name} goes on. Come back: ccs logs -f {name}   End it: ccs down {name}")
    return exit_code_of(job, code)


def plan(given: argparse.Namespace) -> int:
    """Show what a launch would do."""
    return play(given, "plan_cluster", read_session(given.file))


def ps(given: argparse.Namespace) -> int:
    """Show sessions and hosts."""
    query = {"status_query": given.query} if given.query else {}
    return play(given, "status", {"session_name": given.name or "", **query})


def ssh(given: argparse.Namespace) -> int:
    """Log in to a replica."""
    code = play(given, "login", {"session_name": given.name}, quiet=True)
    if code != 0:
        return code
    config = LOGINS.expanduser() / given.name / "config"
    argv = ["ssh", "-F", str(config), given.replica, *([shlex.join(given.words)] if given.words else [])]
    show(given, argv)
    return subprocess.run(argv, check=False).returncode


def logs(given: argparse.Namespace) -> int:
    """Show the output of a session."""
    variables: dict[str, Any] = {"session_name": given.name}
    if given.replicas:
        variables["logs_replicas"] = given.replicas
    if given.follow:
        variables["logs_follow_seconds"] = FOLLOW_SECONDS
    if given.tail is not None:
        variables["logs_tail"] = given.tail
    return play(given, "logs", variables)


def execute(given: argparse.Namespace) -> int:
    """Run a program in replicas, and end with its exit code."""
    if not given.words:
        raise Wrong("'ccs exec NAME -- PROGRAM ...' needs a program.")
    job = {"session_name": given.name, "job_command": given.words, "job_on": given.on, "job_detach": given.detach}
    code, outcome = play_and_read(given, "run_job", job, JOB)
    return exit_code_of(outcome, code)


def app(given: argparse.Namespace) -> int:
    """Open an app."""
    return play(given, "open_app", {"session_name": given.name, "app": given.app})


def down(given: argparse.Namespace) -> int:
    """Remove sessions; all are tried."""
    return max(play(given, "teardown_cluster", {"session_name": name}) for name in given.names)


def prepare(given: argparse.Namespace) -> int:
    """Prepare the hosts."""
    return play(given, "prepare_hosts", {})


def preflight(given: argparse.Namespace) -> int:
    """Check the hosts."""
    return play(given, "preflight", {})


def drain(given: argparse.Namespace) -> int:
    """Take a host out of use for new sessions."""
    return play(given, "drain_hosts", {"drain_hosts": [given.host], "drain_reason": given.reason})


def undrain(given: argparse.Namespace) -> int:
    """Put a host back."""
    return play(given, "undrain_hosts", {"drain_hosts": [given.host]})


def names(given: argparse.Namespace) -> int:
    """Print the names of sessions."""
    with tempfile.TemporaryDirectory(prefix="ccs-") as folder:
        path = Path(folder) / "info.json"
        code = play(given, "session_info", {"cluster_compute_info_file": str(path)}, quiet=True)
        if code == 0:
            found = json.loads(path.read_text(encoding="utf-8"))
            for session in found["sessions"]:
                say(session["name"])
        return code


def completion(given: argparse.Namespace) -> int:
    """Print the completion of a shell."""
    commands = " ".join(next(iter(parser()._subparsers._group_actions)).choices)  # type: ignore[union-attr, arg-type]
    say(COMPLETION[given.shell].replace("COMMANDS", commands))
    return 0


BASH = """
_ccs() {
    local word=${COMP_WORDS[COMP_CWORD]}
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "COMMANDS" -- "$word"))
        return
    fi
    case ${COMP_WORDS[1]} in
    up | run | plan) COMPREPLY=($(compgen -f -- "$word")) ;;
    ps | ssh | logs | exec | app | down) COMPREPLY=($(compgen -W "$(ccs names 2>/dev/null)" -- "$word")) ;;
    completion) COMPREPLY=($(compgen -W "bash zsh" -- "$word")) ;;
    esac
}
complete -F _ccs ccs
""".strip()
COMPLETION = {"bash": BASH, "zsh": f"autoload -U +X bashcompinit && bashcompinit\n{BASH}"}


# ---- what they need -------------------------------------------------------------------------------------------------


def read_session(name: str) -> dict[str, Any]:
    """Return the variables of a session file, whose names may be without 'session_'."""
    try:
        text = Path(name).read_text(encoding="utf-8")
        found = yaml.load(text, Loader=Loader)  # noqa: S506 - it is a safe loader
    except OSError as error:
        raise Wrong(f"{name} cannot be read: {error.strerror}.") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise Wrong(f"{name} is not valid YAML: {error}") from error
    if not isinstance(found, Mapping) or not all(isinstance(key, str) for key in found):
        raise Wrong(
            f"{name} has to be a mapping, such as 'name: train' and 'image: pytorch/pytorch' on lines of their own."
        )
    session: dict[str, Any] = {}
    for key, value in found.items():
        variable = key if key.startswith((PREFIX, SITE_PREFIX)) else f"{PREFIX}{key}"
        if variable in session:
            raise Wrong(f"{name} has '{key}' twice: with and without '{PREFIX}'.")
        session[variable] = value
    if "session_name" not in session:
        session["session_name"] = Path(name).stem
    if "session_authorized_keys" not in session and (keys := own_keys()):
        session["session_authorized_keys"] = keys
    workdir = session.get("session_workdir")
    if isinstance(workdir, str) and workdir.strip() and "{{" not in workdir:
        session["session_workdir"] = str(Path(name).absolute().parent / os.path.expanduser(workdir.strip()))
    return session


def own_keys() -> list[str]:
    """Return the public keys of the user, with which 'ccs ssh' logs in."""
    found = []
    for path in sorted(Path("~/.ssh").expanduser().glob("id_*.pub")):
        try:
            found.append(path.read_text(encoding="utf-8").strip())
        except (OSError, UnicodeDecodeError) as error:
            sys.stderr.write(f"ccs: {path} is left out, as it cannot be read: {error}\n")
    return found


def settings_path() -> Path:
    """Return the file of the user's settings."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "ccs.yml"


def inventory(given: argparse.Namespace) -> list[str]:
    """Return the options that name the inventory; none where that of ansible.cfg counts."""
    chosen = given.inventory or os.environ.get(INVENTORY)
    path = settings_path()
    if not chosen and path.exists():
        settings = yaml.safe_load(path.read_text(encoding="utf-8"))
        if not isinstance(settings, Mapping) or {*settings} - {"inventory"}:
            raise Wrong(f"{path} may only have the line 'inventory: PATH'.")
        chosen = settings.get("inventory")
    return ["-i", str(Path(str(chosen)).expanduser())] if chosen else []


def play(
    given: argparse.Namespace,
    playbook: str,
    variables: Mapping[str, Any],
    artifacts: Path | None = None,
    *,
    quiet: bool = False,
) -> int:
    """Run a playbook with variables, and return its exit code. artifacts: where to write what it passes on."""
    variables = {**variables, **({"session_resource_group": given.group} if given.group else {})}
    with variables_file(variables) as path:
        argv = [ansible_playbook(), *inventory(given), str(PLAYBOOKS / f"{playbook}.yml"), "-e", f"@{path}"]
        argv += [word for value in given.extra_vars for word in ("-e", value)]
        argv += ["--check"] if given.check else []
        argv += ["-" + "v" * (given.verbose - 1)] if given.verbose > 1 else []
        show(given, argv)
        environment = {**os.environ, "ANSIBLE_STDOUT_CALLBACK": "cluster_compute.session.plain", **collections()}
        if artifacts is not None:
            environment["CLUSTER_COMPUTE_ARTIFACTS"] = str(artifacts)
        started = subprocess.Popen(
            argv,
            env=environment,
            stdout=subprocess.PIPE if quiet else None,
            stderr=subprocess.STDOUT if quiet else None,
            text=True,
        )
        output = ""
        while started.returncode is None:
            try:
                output, _nothing = started.communicate()
            except KeyboardInterrupt:
                # It is for Ansible as well, which gives back what it holds, and is waited for.
                given.interrupted = True
        if quiet and started.returncode != 0:
            sys.stderr.write(output)
        return started.returncode


def play_and_read(
    given: argparse.Namespace, playbook: str, variables: Mapping[str, Any], artifact: str
) -> tuple[int, Mapping[str, Any]]:
    """Run a playbook, and return its exit code and an artifact, empty if it has none."""
    with tempfile.TemporaryDirectory(prefix="ccs-") as folder:
        path = Path(folder) / "artifacts.json"
        code = play(given, playbook, variables, path)
        artifacts = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return code, artifacts.get(artifact) or {}


@contextmanager
def variables_file(variables: Mapping[str, Any]) -> Iterator[Path]:
    """Write variables where only this user can read them, and not on a command line, which all can."""
    with tempfile.TemporaryDirectory(prefix="ccs-") as folder:
        path = Path(folder) / "variables.yml"
        path.write_text(yaml.dump(dict(variables), Dumper=Dumper, allow_unicode=True), encoding="utf-8")
        yield path


def ansible_playbook() -> str:
    """Return the program, that of this Python first."""
    beside = Path(sys.executable).with_name("ansible-playbook")
    found = str(beside) if beside.exists() else shutil.which("ansible-playbook")
    if found is None:
        raise Wrong("ansible-playbook is not installed: pip install 'ansible-core>=2.16,<2.22'")
    return found


def collections() -> dict[str, str]:
    """Return the variable that lets Ansible find the collection which this file is a part of."""
    checkout = PLAYBOOKS.parent / ".collections"
    root = checkout if checkout.is_dir() else PLAYBOOKS.parents[3]
    known = os.environ.get("ANSIBLE_COLLECTIONS_PATH", "~/.ansible/collections:/usr/share/ansible/collections")
    return {"ANSIBLE_COLLECTIONS_PATH": f"{root}:{known}"}


def exit_code_of(outcome: Mapping[str, Any], code: int) -> int:
    """Return the exit code of a job that has ended, the first that is not 0, else that of the run."""
    codes = [replica.get("exit_code") for replica in outcome.get("replicas", {}).values()]
    failed = [found for found in codes if found]
    return int(failed[0]) if failed else code


def show(given: argparse.Namespace, argv: Sequence[str]) -> None:
    """Show a command that is run, where that was asked for."""
    if given.verbose:
        sys.stderr.write(f"+ {shlex.join(argv)}\n")


def say(text: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

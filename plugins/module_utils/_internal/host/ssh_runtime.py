# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Build the SSH runtime: the distribution's OpenSSH, made to run in a replica of any image.

The programs are the host's own. Each has the paths of its loader and libraries inside a replica, where the directory is
mounted (`RUNTIME` in the core), so an image does not need these libraries. patchelf(1) sets the interpreter and a run
path of the old kind (DT_RPATH, ld.so(8)), which takes precedence over an image's LD_LIBRARY_PATH. If a host of Debian's
family does not have the server, it is taken from the distribution's package without installing it, because an installed
server would start at the next boot.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..adapters.command import run_command
from ..core.rules.environment import environment_file
from ..core.rules.logins import UNREAD
from ..core.values.errors import SessionError
from ..core.values.places import DIRECTORY, LAUNCHERS, RUNTIME, RUNTIME_MANIFEST, RUNTIME_ON_HOST, SERVER_PARTS, SHELL
from ..replica import session_run
from . import runtime_proof
from .package_manager import SECONDS, BuildFailed, package_manager
from .steps import Change

FORM = "3"
"""Version of the directory's format. Another version causes a new build."""

PYTHON = "/usr/bin/python3"
PROGRAMS = {
    "dash": "/bin/dash",
    "python3": PYTHON,
    "scp": "/usr/bin/scp",
    "sftp": "/usr/bin/sftp",
    "ssh": "/usr/bin/ssh",
    "sshd": "/usr/sbin/sshd",
}
_FOLDERS = ("/usr/lib/openssh", "/usr/libexec/openssh", "/usr/libexec/ssh", "/usr/lib/ssh")
"""Where Debian's family, Red Hat's, SUSE and Arch have the parts of the server."""
PARTS = {name: [f"{folder}/{name}" for folder in _FOLDERS] for name in map(os.path.basename, SERVER_PARTS.values())}

SESSION_RUN = "session_run"
_RUNS = (
    (0, ("/bin/true",)),
    (2, ("--on", "nobody", "/bin/true")),
    (2, ("--unknown",)),
    (127, ("-n", "2", "/no/such/program")),
)
"""Calls of session-run to find what it loads, and the exit code of each."""
_TRACE = f"""\
import importlib, os, sys
folder, argv = {{folder!r}}, sys.argv[1:]
for name in ("encodings.ascii", "encodings.latin_1", "traceback"):
    importlib.import_module(name)
sys.path.insert(0, folder)
import {SESSION_RUN}
sys.path.remove(folder)
{SESSION_RUN}.RUNTIME, {SESSION_RUN}.ENVIRONMENT = folder, folder + "/environment"
try:
    code = {SESSION_RUN}.main(argv)
finally:
    library = os.path.dirname(os.__file__)
    files = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
    lines = [os.__file__, *(file for file in files if file.startswith(library + "/"))]
    with open(folder + "/loaded", "a") as report:
        report.write("".join(line + "\\n" for line in lines))
raise SystemExit(code)
"""
"""Runs session-run, and records at its end which modules of the standard library it has loaded."""
_CONFIGURATION = f"{DIRECTORY}/ssh"
_TORCHRUN = f"""# The image's own torchrun. Where its flags say that one replica is all, what the session says of the
# others must not count: --standalone keeps the number of nodes, and would wait for them for ever.
option=
for word; do
    case $option in
        --nnodes) nodes=$word option= && continue ;;
        ?*) option= && continue ;;
    esac
    case $word in
        --standalone) nodes=1 ;;
        --nnodes=*) nodes=${{word#*=}} ;;
        --*=* | -m | --module | --no[-_]python | --run[-_]path | -h | --help) ;;
        -*) option=$word ;;
        *) break ;;
    esac
done
case ${{nodes-}} in 1 | 1:1) unset PET_NNODES PET_NODE_RANK PET_MASTER_ADDR PET_MASTER_PORT ;; esac
# Not this one again, wherever it stands.
rest=:$PATH:
while case $rest in *:{LAUNCHERS}:*) ;; *) false ;; esac; do
    rest=${{rest%%:{LAUNCHERS}:*}}:${{rest#*:{LAUNCHERS}:}}
done
rest=${{rest#:}}
PATH=${{rest%:}}
exec torchrun "$@\""""
_SCONTROL = r"""# What programs ask Slurm for that look for their peers: the names of a list, a line each.
refuse() {
    echo "scontrol: this is no job of Slurm; what answers here is: scontrol show hostnames [LIST]" >&2
    exit 1
}
[ $# -ge 2 ] && [ $# -le 3 ] && [ "$1" = show ] || refuse
case $2 in hostname | hostnames) ;; *) refuse ;; esac
left=${3-${SLURM_JOB_NODELIST-}}
[ "$left" ] || refuse
set -f
# Prints BEFORE, each number of the ranges, AFTER: sub[1-3,05-07].
expand() {
    before=$1 after=$3
    while [ "$2" ]; do
        range=${2%%,*}
        case $2 in *,*) rest=${2#*,} ;; *) rest= ;; esac
        first=${range%-*} last=${range#*-}
        case $first$last in '' | *[!0-9]*) refuse ;; esac
        width=${#first} number=$first
        # A number that begins with 0 is octal for the shell.
        while [ ${#number} -gt 1 ] && [ "${number#0}" != "$number" ]; do number=${number#0}; done
        while [ ${#last} -gt 1 ] && [ "${last#0}" != "$last" ]; do last=${last#0}; done
        while [ "$number" -le "$last" ]; do
            padded=$number
            while [ ${#padded} -lt "$width" ]; do padded=0$padded; done
            echo "$before$padded$after"
            number=$((number + 1))
        done
        set -- "$before" "$rest" "$after"
    done
}
while [ "$left" ]; do
    word=${left%%,*}
    case $word in
        *\[*)
            before=${left%%\[*} left=${left#*\[}
            case $left in *\]*) ;; *) refuse ;; esac
            ranges=${left%%\]*} left=${left#*\]}
            after=${left%%,*}
            expand "$before" "$ranges" "$after"
            ;;
        *) echo "$word" ;;
    esac
    case $left in *,*) left=${left#*,} ;; *) left= ;; esac
done"""
_SCRIPTS = {
    "launchers/torchrun": _TORCHRUN,
    "slurm/scontrol": _SCONTROL,
    # Python is started by the loader: patchelf makes programs of it that crash at once (3.13 of Debian 13).
    "bin/session-run": f"exec {RUNTIME}/LOADER --library-path {RUNTIME}/lib {RUNTIME}/libexec/python3 -I -S"
    f' {RUNTIME}/lib/{SESSION_RUN}.pyc "$@"',
    "bin/ssh": f'export OPENSSL_CONF=/dev/null\nexec {RUNTIME}/libexec/ssh -F {_CONFIGURATION}/ssh_config "$@"',
    "bin/scp": f'exec {RUNTIME}/libexec/scp -S {RUNTIME}/bin/ssh "$@"',
    "bin/sftp": f'exec {RUNTIME}/libexec/sftp -S {RUNTIME}/bin/ssh "$@"',
}
_LIBRARY = re.compile(r"^\s*(?:(\S+) => )?(/\S+) \(0x[0-9a-f]+\)$|^\s*(\S+) => not found$", re.MULTILINE)


def install(check_mode: bool = False, path: str = RUNTIME_ON_HOST) -> Change:
    """Build the runtime at *path* from the current OpenSSH of the distribution. Raises BuildFailed.

    Running replicas see the new files. Programs that run in them are not affected.
    """
    target = Path(path)
    before = _read_manifest(target)
    try:
        package_manager()
    except BuildFailed:
        if not is_of_this_release(path):
            raise
        runtime_proof.prove(target)  # it was copied from another host
        return Change(False, before, before)
    with _sources() as root:
        files = _closure(root)
        after = _manifest(files)
        if before == after:
            return Change(False, before, after)
        if not check_mode:
            _build(target, root, files, after)
    return Change(True, before, after)


def _read_manifest(target: Path) -> str:
    try:
        return (target / RUNTIME_MANIFEST).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


@contextmanager
def _sources() -> Iterator[str]:
    """Yield the directory with unpacked packages that the host does not have. "" if it has all."""
    if all(os.path.exists(source) for source in PROGRAMS.values()):
        yield ""
        return
    with tempfile.TemporaryDirectory(prefix="cluster-compute-ssh-") as folder:
        yield package_manager().unpack(folder)


def _closure(root: str) -> dict[str, str]:
    """Return the files of the runtime: name in it to current path."""
    files = {}
    for name, sources in {**{name: [source] for name, source in PROGRAMS.items()}, **PARTS}.items():
        found = _first(*(path for source in sources for path in (f"{root}{source}", source)))
        if found is not None:
            files[f"libexec/{name}"] = found
        elif name in PROGRAMS:
            packages = ", ".join(package_manager().openssh)
            raise BuildFailed(f"The program {sources[0]} is not on this host. Install the packages {packages}.")
    files.update(_modules())
    return {**files, **_libraries(root, [source for source in files.values() if not source.endswith(".py")])}


def _libraries(root: str, files: Iterable[str]) -> dict[str, str]:
    """Return the libraries of programs and libraries in the same form. root: as in `_closure`."""
    found = {}
    folders = [str(library_file.parent) for library_file in Path(root).rglob("*.so*")] if root else []
    environment = {**os.environ, "LC_ALL": "C", "LD_LIBRARY_PATH": ":".join(dict.fromkeys(folders))}
    for file in files:
        for name, library, missing in _LIBRARY.findall(_run("ldd", file, environment=environment)):
            if missing:
                raise BuildFailed(f"The library {missing} of {file} is not on this host.")
            found[f"lib/{os.path.basename(name or library)}"] = library
    return found


def _source_of_session_run() -> str:
    spec = importlib.util.find_spec(session_run.__name__)
    read = getattr(spec.loader, "get_source", None) if spec is not None else None
    text = None if read is None else read(session_run.__name__)
    if text is None:
        raise BuildFailed(f"The source of {session_run.__name__} is not available, so the runtime cannot contain it.")
    # Ansible's own loader of collections returns bytes.
    return importlib.util.decode_source(text) if isinstance(text, bytes) else str(text)


def _modules() -> dict[str, str]:
    """Return the modules of the standard library that `session_run` needs, from the host's own Python.

    They are those that real runs load, as a launcher and as an agent, because modules load others even when a class is
    created or an error is shown. Python searches for them from its own path upwards, by the file os.py (site(3),
    sys.prefix).
    """
    with tempfile.TemporaryDirectory(prefix="cluster-compute-trace-") as name:
        folder = Path(name)
        (folder / f"{SESSION_RUN}.py").write_text(_source_of_session_run(), encoding="utf-8")
        (folder / "trace.py").write_text(_TRACE.format(folder=name), encoding="utf-8")
        values = {"BACKENDAI_CLUSTER_HOSTS": "main1,sub1", "BACKENDAI_CLUSTER_HOST": "main1", "MASTER_PORT": "29500"}
        (folder / "environment").write_text(environment_file(values), encoding="utf-8")
        command = [PYTHON, "-I", "-S", "-B", str(folder / "trace.py")]
        (folder / "bin").mkdir()
        # This replica also acts as the other one. Its agent is the last word of the client's command line.
        for program, text in (("session-run", f'{shlex.join(command)} "$@"'), ("ssh", "for last; do :; done\n$last")):
            (folder / "bin" / program).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
            os.chmod(folder / "bin" / program, 0o755)  # noqa: S103 - it is gone in a moment
        for wanted, argv in _RUNS:
            done = subprocess.run(  # pylint: disable=ansible-bad-function
                [*command, *argv], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60
            )
            if done.returncode != wanted:
                raise BuildFailed(
                    f"session-run {shlex.join(argv)} ended with {done.returncode} on this host's {PYTHON}, and not "
                    f"with {wanted}: {(done.stderr + done.stdout).strip()}"
                )
        library, *loaded = dict.fromkeys((folder / "loaded").read_text(encoding="utf-8").splitlines())
    top = os.path.dirname(library)
    modules = [library, *(file for file in sorted(loaded) if file.endswith((".py", ".so")))]
    return {f"lib/{os.path.basename(top)}/{os.path.relpath(module, top)}": module for module in modules}


def _first(*paths: str) -> str | None:
    return next((path for path in paths if os.path.exists(path)), None)


def _manifest(files: dict[str, str]) -> str:
    """Return the files of the runtime, one line each: its name and the digest of its source file."""
    lines = _of_this_release()
    for name, source in sorted(files.items()):
        lines.append(f"{name} {hashlib.sha256(Path(source).read_bytes()).hexdigest()}")
    return "\n".join(lines) + "\n"


def _of_this_release() -> list[str]:
    """Return the lines of a manifest for the files of this release, whatever the host's distribution has."""
    written = repr([*sorted(_SCRIPTS.items()), _source_of_session_run()])
    return [f"form {FORM}", f"scripts {hashlib.sha256(written.encode()).hexdigest()}"]


def is_of_this_release(path: str = RUNTIME_ON_HOST) -> bool:
    """Return whether this host's runtime is what this release would build from the same distribution."""
    return _read_manifest(Path(path)).splitlines()[:2] == _of_this_release()


def _build(target: Path, root: str, files: dict[str, str], manifest: str) -> None:
    _make_folder(target.parent)
    made = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    loader = next((name for name in files if re.fullmatch(r"lib/ld-?linux.*|lib/ld64.*", name)), None)
    try:
        if loader is None:
            raise BuildFailed("The programs of this host are not made for glibc, as those of Alpine are not.")
        for name, source in files.items():
            _copy(source, made / name)
        for name, text in _SCRIPTS.items():
            _make_folder((made / name).parent)
            (made / name).write_text(f"#!{SHELL}\n{text.replace('LOADER', loader)}\n", encoding="utf-8")
            os.chmod(made / name, 0o755)  # noqa: S103 - everybody in a replica may run it
        (made / f"lib/{SESSION_RUN}.py").write_text(_source_of_session_run(), encoding="utf-8")
        _compile(made)
        for name in files:
            if not name.endswith(".py"):
                _keep_from(made / name, UNREAD)
            if name.startswith("libexec/") and files[name] != PYTHON:
                options = ("--set-interpreter", f"{RUNTIME}/{loader}", "--force-rpath", "--set-rpath", f"{RUNTIME}/lib")
                _run("patchelf", *options, str(made / name))
        _keep_licences(made / "share" / "licences", root, files.values())
        (made / RUNTIME_MANIFEST).write_text(manifest, encoding="utf-8")
        try:
            runtime_proof.prove(made)
        except SessionError as error:
            raise BuildFailed(f"The SSH runtime was built and does not work on this host. {error}") from error
        _move(made, target)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _keep_from(file: Path, paths: Iterable[str]) -> None:
    """Replace an image's paths in a program or library with paths of equal length that never exist."""
    before = after = file.read_bytes()
    for path in paths:
        nowhere = "/proc/self/".ljust(len(path), "-")
        after = re.sub(rb"(?<![\w./-])" + re.escape(path.encode()) + rb"\0", nowhere.encode() + b"\0", after)
    if after != before:
        file.write_bytes(after)


def _compile(made: Path) -> None:
    """Compile the Python modules, because nothing can write there later. Sources are removed.

    Python prints a warning if the directory of the library's binary parts is missing.
    """
    (library,) = {file.parent for file in (made / "lib").rglob("os.py")}
    _make_folder(library / "lib-dynload")
    (library / "lib-dynload" / "empty").touch()
    _run(PYTHON, "-I", "-m", "compileall", "-q", "-b", "--invalidation-mode", "unchecked-hash", str(made / "lib"))
    for source in (made / "lib").rglob("*.py"):
        source.unlink()


def _move(made: Path, target: Path) -> None:
    """Replace the files of *target* with those of *made*, one by one, the manifest last.

    The directory itself stays, because running replicas have it mounted. A process with an open file keeps the old one.
    """
    new = sorted(str(file.relative_to(made)) for file in made.rglob("*") if file.is_file())
    (target / RUNTIME_MANIFEST).unlink(missing_ok=True)
    for name in sorted(new, key=lambda file: (file == RUNTIME_MANIFEST, file)):
        _make_folder((target / name).parent)
        os.replace(made / name, target / name)
    for old in [target, *target.rglob("*")]:
        if old.is_dir():
            os.chmod(old, 0o755)  # noqa: S103 - everybody in a replica may read it
        if old.is_file() and str(old.relative_to(target)) not in new:
            old.unlink()


def _make_folder(path: Path) -> None:
    """Create *path* and its missing parents, readable for all users whatever the umask is."""
    if not path.is_dir():
        _make_folder(path.parent)
        path.mkdir()
        os.chmod(path, 0o755)  # noqa: S103 - as every folder below /usr/local


def _copy(source: str, target: Path) -> None:
    _make_folder(target.parent)
    shutil.copyfile(source, target)
    os.chmod(target, 0o755)  # noqa: S103 - everybody in a replica may run it


def _keep_licences(folder: Path, root: str, sources: Iterable[str]) -> None:
    """Store the licences of the packages next to the files."""
    manager = package_manager()
    packages = {path.parent.name for path in Path(root).glob("usr/share/doc/*/copyright")} if root else set()
    packages.update(manager.openssh if root else ())
    packages.update(manager.owners(file for file in sources if not root or not file.startswith(f"{root}/")).values())
    _make_folder(folder)
    for package in sorted(packages):
        (folder / package).write_bytes(manager.licence(package, root))


def _run(*command: str, environment: dict[str, str] | None = None) -> str:
    return run_command(list(command), error=BuildFailed, environment=environment, seconds=2 * SECONDS)

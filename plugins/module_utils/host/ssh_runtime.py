# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Build the SSH runtime: the distribution's OpenSSH, made to run in a replica of any image.

The programs are the host's own. Each is told where its loader and its libraries lie inside a replica, where the folder
is mounted (`RUNTIME` in the core), so that an image needs no library of them: patchelf(1) sets the interpreter and a
run path of the old kind (DT_RPATH, ld.so(8)), which an image's LD_LIBRARY_PATH does not come before. A server that the
host does not have is taken from the distribution's packages without being installed, for an installed one is started
at the next boot.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.cluster_compute.session.plugins.module_utils.adapters import program
from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import SessionError
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.environment import (
    DIRECTORY,
    RUNTIME,
    RUNTIME_MANIFEST,
    RUNTIME_ON_HOST,
    SERVER_PARTS,
    SHELL,
)

FORM = "2"
"""The form of the folder; another one has it built anew."""

PROGRAMS = {
    "dash": "/bin/dash",
    "scp": "/usr/bin/scp",
    "sftp": "/usr/bin/sftp",
    "ssh": "/usr/bin/ssh",
    "sshd": "/usr/sbin/sshd",
}
PARTS = {name: f"/usr/lib/openssh/{name}" for name in map(os.path.basename, SERVER_PARTS.values())}
PACKAGES = ("openssh-client", "openssh-server")
SECONDS = 300.0
"""For how long to wait for another apt-get to end."""

_CONFIGURATION = f"{DIRECTORY}/ssh"
_SCRIPTS = {
    "bin/ssh": f'exec {RUNTIME}/libexec/ssh -F {_CONFIGURATION}/ssh_config "$@"',
    "bin/scp": f'exec {RUNTIME}/libexec/scp -S {RUNTIME}/bin/ssh "$@"',
    "bin/sftp": f'exec {RUNTIME}/libexec/sftp -S {RUNTIME}/bin/ssh "$@"',
}
_LIBRARY = re.compile(r"^\s*(?:(\S+) => )?(/\S+) \(0x[0-9a-f]+\)$|^\s*(\S+) => not found$", re.MULTILINE)


class BuildFailed(SessionError):
    """The runtime cannot be built; the message is a full sentence."""


@dataclass(frozen=True)
class Change:
    """What is different afterwards; before and after: the manifest, for the diff."""

    changed: bool
    before: str
    after: str


def install(check_mode: bool = False, path: str = RUNTIME_ON_HOST) -> Change:
    """Make *path* the runtime of the OpenSSH that the distribution has now. Raises BuildFailed.

    Running replicas see the new files; what runs in them goes on as it was.
    """
    target = Path(path)
    before = _read_manifest(target)
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
    """Give the folder below which packages were unpacked that the host lacks; "" where it has all."""
    if all(os.path.exists(source) for source in PROGRAMS.values()):
        yield ""
        return
    with tempfile.TemporaryDirectory(prefix="cluster-compute-ssh-") as folder:
        archives = os.path.join(folder, "archives")
        os.makedirs(os.path.join(archives, "partial"))
        options = ("-o", f"Dir::Cache::archives={archives}", "-o", f"DPkg::Lock::Timeout={SECONDS:.0f}")
        _run("apt-get", "--yes", "--download-only", "--no-install-recommends", *options, "install", *PACKAGES)
        root = os.path.join(folder, "root")
        for archive in sorted(Path(archives).glob("*.deb")):
            _run("dpkg-deb", "--extract", str(archive), root)
        yield root


def _closure(root: str) -> dict[str, str]:
    """Return the files that the runtime is made of: name in it to where it is now."""
    files = {}
    for name, source in {**PROGRAMS, **PARTS}.items():
        found = _first(f"{root}{source}", source)
        if found is not None:
            files[f"libexec/{name}"] = found
        elif name in PROGRAMS:
            raise BuildFailed(f"The program {source} is not on this host and in none of {', '.join(PACKAGES)}.")
    folders = [str(library_file.parent) for library_file in Path(root).rglob("*.so*")] if root else []
    environment = {**os.environ, "LC_ALL": "C", "LD_LIBRARY_PATH": ":".join(dict.fromkeys(folders))}
    for file in list(files.values()):
        for name, library, missing in _LIBRARY.findall(_run("ldd", file, environment=environment)):
            if missing:
                raise BuildFailed(f"The library {missing} of {file} is not on this host.")
            files[f"lib/{os.path.basename(name or library)}"] = library
    return files


def _first(*paths: str) -> str | None:
    return next((path for path in paths if os.path.exists(path)), None)


def _manifest(files: dict[str, str]) -> str:
    """Return what the runtime is made of, one line a file: its name and the digest of the file it comes from."""
    lines = [f"form {FORM}", f"scripts {hashlib.sha256(repr(sorted(_SCRIPTS.items())).encode()).hexdigest()}"]
    for name, source in sorted(files.items()):
        lines.append(f"{name} {hashlib.sha256(Path(source).read_bytes()).hexdigest()}")
    return "\n".join(lines) + "\n"


def _build(target: Path, root: str, files: dict[str, str], manifest: str) -> None:
    _make_folder(target.parent)
    made = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        for name, source in files.items():
            _copy(source, made / name)
        for name, text in _SCRIPTS.items():
            _make_folder((made / name).parent)
            (made / name).write_text(f"#!{SHELL}\n{text}\n", encoding="utf-8")
            os.chmod(made / name, 0o755)  # noqa: S103 - everybody in a replica may run it
        loader = next(name for name in files if re.fullmatch(r"lib/ld-?linux.*|lib/ld64.*", name))
        for name in files:
            if name.startswith("libexec/"):
                options = ("--set-interpreter", f"{RUNTIME}/{loader}", "--force-rpath", "--set-rpath", f"{RUNTIME}/lib")
                _run("patchelf", *options, str(made / name))
        _keep_licences(made / "share" / "licences", root, files.values())
        (made / RUNTIME_MANIFEST).write_text(manifest, encoding="utf-8")
        _move(made, target)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _move(made: Path, target: Path) -> None:
    """Put the files of *made* in the place of those of *target*, one by one, the manifest last.

    The folder itself stays: running replicas have it mounted. Who has a file open keeps the old one.
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
    """Make *path* and its missing parents, for everybody to read whatever the umask is."""
    if not path.is_dir():
        _make_folder(path.parent)
        path.mkdir()
        os.chmod(path, 0o755)  # noqa: S103 - as every folder below /usr/local


def _copy(source: str, target: Path) -> None:
    _make_folder(target.parent)
    shutil.copyfile(source, target)
    os.chmod(target, 0o755)  # noqa: S103 - everybody in a replica may run it


def _keep_licences(folder: Path, root: str, sources: Iterable[str]) -> None:
    """Keep beside the files what their packages say of copyright (Debian Policy 12.5)."""
    packages = set(PACKAGES) if root else set()
    for source in sources:
        if not root or not source.startswith(f"{root}/"):
            packages.add(_package_of(source))
    for package in sorted(packages):
        found = _first(f"{root}/usr/share/doc/{package}/copyright", f"/usr/share/doc/{package}/copyright")
        if found is None:
            raise BuildFailed(f"The licence of {package} is missing on this host: /usr/share/doc/{package}/copyright.")
        _make_folder(folder)
        shutil.copyfile(found, folder / package)
    for unpacked in Path(root).glob("usr/share/doc/*/copyright") if root else ():
        shutil.copyfile(unpacked, folder / unpacked.parent.name)


def _package_of(path: str) -> str:
    """Return the package that a file belongs to; it may be known by its name before /usr was merged."""
    for name in (path, path.removeprefix("/usr"), f"/usr{path}", os.path.realpath(path)):
        done = subprocess.run(["dpkg", "--search", name], capture_output=True, text=True, check=False, timeout=60)
        owners = [line.partition(":")[0] for line in done.stdout.splitlines() if not line.startswith("diversion by ")]
        if owners:
            return owners[0]
    raise BuildFailed(f"No package of this host owns {path}, so its licence is not known.")


def _run(*command: str, environment: dict[str, str] | None = None) -> str:
    return program.run(list(command), error=BuildFailed, environment=environment, seconds=2 * SECONDS)

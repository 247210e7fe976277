# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Install the program that runs at boot on this host: one file, a zip archive that Python runs (PEP 441).

Its sources are those of the running module itself, which are files or in the archive in which Ansible sends a module.
The same sources give the same file, byte by byte.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import io
import os
import sys
import zipfile
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

from ..adapters import state
from ..adapters.state import write_file
from ..core.values.errors import SessionError
from . import boot, membership, timer
from .steps import Change

PATH = "/usr/local/lib/cluster-compute/host.pyz"
MODE = 0o755

_ROOT = "ansible_collections.cluster_compute.session.plugins.module_utils._internal"
_PACKAGES = tuple(f"{_ROOT}.{package}." for package in ("core", "adapters", "host", "replica"))
_INTERPRETER = "/usr/bin/python3"
_TIME = (1980, 1, 1, 0, 0, 0)
"""The earliest that a zip archive can name."""


class ProgramError(SessionError):
    """The program cannot be created or removed. The message is a full sentence."""


def install(state_directory: str, path: str = PATH, check_mode: bool = False) -> Change:
    """Install the program for *state_directory* as *path*, to be run by root."""
    target = Path(path)
    content = build(state_directory)
    before, after = _describe(target), _listing(content, MODE, (0, 0))
    same = before == after and target.read_bytes() == content
    if not same and not check_mode:
        if not target.parent.is_dir():
            target.parent.mkdir(parents=True)
            os.chmod(target.parent, 0o755)  # noqa: S103 - as every folder below /usr/local
        write_file(target, content, MODE)
    return Change(not same, before, after)


def remove(path: str = PATH, check_mode: bool = False) -> Change:
    """Remove the program, and its directory if it is then empty."""
    target = Path(path)
    before = _describe(target)
    if before and not check_mode:
        target.unlink()
        if not any(target.parent.iterdir()):
            target.parent.rmdir()
    return Change(bool(before), before, "")


def build(state_directory: str) -> bytes:
    """Return the program: a first line with the interpreter, and the archive."""
    sources = {f"{name.replace('.', '/')}.py": text for name, text in closure(boot.__name__).items()}
    for path in list(sources):
        for folder in Path(path).parents:
            if folder.name:
                sources.setdefault(f"{folder}/__init__.py", "")
    sources["__main__.py"] = (
        "import sys\n\n"
        # The timer runs often, and all that a repair needs would be read each time.
        'if sys.argv[1:] == ["--disks"]:\n'
        f"    from {timer.__name__} import look\n"
        f"    from {membership.__name__} import is_due\n"
        f"    from {state.__name__} import StateDirectory\n\n"
        f"    code = look(StateDirectory({state_directory!r}))\n"
        f"    if not is_due(StateDirectory({state_directory!r})):\n"
        "        sys.exit(code)\n"
        "    sys.argv[1:] = []\n\n"
        f"from {boot.__name__} import main\n\n"
        f'sys.exit(main(["--state-directory", {state_directory!r}, *sys.argv[1:]]))\n'
    )
    stream = io.BytesIO()
    stream.write(f"#!{interpreter()}\n".encode())
    with zipfile.ZipFile(stream, "a", zipfile.ZIP_STORED) as archive:
        for path in sorted(sources):
            entry = zipfile.ZipInfo(path, _TIME)
            entry.create_system = 3
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, sources[path])
    return stream.getvalue()


def closure(name: str) -> dict[str, str]:
    """Return the source of the module *name* and of every module of this collection that it imports, by name.

    The packages that contain them are empty. Raises ProgramError if a source is not available.
    """
    found: dict[str, str] = {}
    wanted = [name]
    while wanted:
        module = wanted.pop()
        spec = _find(module)
        # A package has no source of its own. Modules that are imported from it are also requested by their own names.
        if module in found or spec is None or spec.submodule_search_locations is not None:
            continue
        found[module] = _source(module, spec)
        wanted += [name for name in imports(module, found[module]) if name.startswith(_PACKAGES)]
    return found


def imports(module: str, source: str) -> Iterator[str]:
    """Return the absolute names of all that the *source* of a module imports, modules or not."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = _package_of(module, node)
            yield package
            yield from (f"{package}.{alias.name}" for alias in node.names)


def _package_of(module: str, node: ast.ImportFrom) -> str:
    """Return the absolute name of the package or module from which a statement in *module* imports."""
    # A relative name begins at the package that is as many levels up as it has dots.
    parts = module.split(".")[: -node.level] if node.level else []
    return ".".join([*parts, *([node.module] if node.module else [])])


def _find(name: str) -> ModuleSpec | None:
    """Return where a module comes from, or None for what is none, such as a class of one."""
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None


def _source(name: str, spec: ModuleSpec) -> str:
    read = getattr(spec.loader, "get_source", None)
    text = read(name) if read is not None else None
    if text is None:
        raise ProgramError(
            f"The source of {name} is not available from {spec.loader!r}, so the program cannot contain it."
        )
    # Ansible's own loader of collections returns bytes.
    return importlib.util.decode_source(text) if isinstance(text, bytes) else str(text)


def interpreter() -> str:
    """Return the interpreter of this module. The distribution's Python has a name that does not change in updates."""
    own = sys.executable
    if sys.prefix == sys.base_prefix and os.path.realpath(own) == os.path.realpath(_INTERPRETER):
        return _INTERPRETER
    return own


def _describe(path: Path) -> str:
    """Return the state of *path* in the form of `_listing`. Empty if it does not exist."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise ProgramError(f"{path} is not a regular file and is not changed. Remove it first.")
    try:
        status = path.stat()
    except FileNotFoundError:
        return ""
    return _listing(path.read_bytes(), status.st_mode & 0o7777, (status.st_uid, status.st_gid))


def _listing(content: bytes, mode: int, owner: tuple[int, int]) -> str:
    lines = [f"mode {mode:04o}, owner {owner[0]}:{owner[1]}, sha256 {hashlib.sha256(content).hexdigest()}"]
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for name in archive.namelist():
                if text := archive.read(name):
                    lines.append(f"{hashlib.sha256(text).hexdigest()[:12]} {name}")
    except zipfile.BadZipFile:
        lines.append("no archive")
    return "".join(f"{line}\n" for line in lines)

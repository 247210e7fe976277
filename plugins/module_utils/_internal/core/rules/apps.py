# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Apps: programs in main1 with a page for the browser, how they are started, and how their owner reaches them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from ..model.call.session_app import Way
from ..values.deferred import dataclass
from ..values.errors import InvalidInput
from ..values.parse import Reader, did_you_mean, is_given, is_plain, parse_bool, parse_env
from .job import parse_directory

TABLE = "session_apps"
ADDRESS = "127.0.0.1"
"""The address at which an app listens in main1, and at which its page is on its owner's machine."""
PORTS = range(20000, 30000)
"""Ports of apps: below those that kernels use for outgoing connections. The same number is used at both ends, so that
the page has one address for the app and for the browser."""
HIDDEN = "********"

_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_PROGRAM = re.compile(r"[A-Za-z0-9_./+-]+")
_PATH = re.compile(r"/[!-~]*")
KEYS = ("command", "environment", "token_file", "url", "without_token")


_FIND_SHELL = 'exec "$(command -v bash || command -v sh)"'
_SHELL = f"--ServerApp.terminado_settings={{'shell_command': ['sh', '-c', '{_FIND_SHELL}']}}"
"""The shell of Jupyter's terminals: its default is a login shell, which resets the session's PATH."""


def _jupyter(program: str, page: str) -> Way:
    options = ("--no-browser", f"--ip={ADDRESS}", "--port={port}", "--port-retries=0", "--allow-root", _SHELL)
    return Way((program, *options), f"{page}?token={{token}}", {"JUPYTER_TOKEN_FILE": "{token_file}"})


BUILT_IN: Mapping[str, tuple[Way, ...]] = {
    "jupyter": (_jupyter("jupyter-lab", "/lab"), _jupyter("jupyter-notebook", "/tree")),
    "tensorboard": (
        Way(("tensorboard", f"--host={ADDRESS}", "--port={port}", "--logdir=."), token_file="", without_token=True),
    ),
    # Notebook 6 makes a terminal there and shows it; 7 shows the terminal of that name. JupyterLab has no such address.
    "terminal": (_jupyter("jupyter-notebook", "/terminals/new"), _jupyter("jupyter-lab", "/lab")),
    "vscode": (
        Way(
            ("code-server", f"--bind-addr={ADDRESS}:{{port}}", "--auth=password", "--config={token_file}", "."),
            # The program would take these before its file.
            environment={"PASSWORD": "", "HASHED_PASSWORD": ""},
            token_file="password: {token}\n",  # noqa: S106 - a placeholder
        ),
        Way(
            (
                "openvscode-server",
                f"--host={ADDRESS}",
                "--port={port}",
                "--connection-token-file={token_file}",
                "--default-folder=.",
            ),
            "/?tkn={token}",
        ),
    ),
}
"""The apps that are known without a site's table."""


@dataclass(frozen=True)
class AppRequest:
    """The app that is requested: its name, the ways to start it, and the folder in main1 that it begins in."""

    name: str
    ways: tuple[Way, ...]
    directory: str = ""


def parse_app_request(variables: Mapping[str, Any]) -> AppRequest:
    """Return what ``app``, ``app_directory`` and the site's table request. Raises InvalidInput."""
    table = parse_table(variables.get(TABLE))
    name = parse_name(variables.get("app"))
    directory = variables.get("app_directory")
    if name not in table:
        message = f"There is no such app.{did_you_mean(name, table)} Known are {', '.join(sorted(table))}."
        raise InvalidInput.single("app", name, message)
    return AppRequest(name, table[name], parse_directory("app_directory", directory) if is_given(directory) else "")


def parse_name(value: object) -> str:
    """Return the name of an app. Raises InvalidInput."""
    text = value.strip() if isinstance(value, str) else ""
    if _NAME.fullmatch(text) is None:
        raise InvalidInput.single("app", value, "Name the app to open, such as jupyter.")
    return text


def parse_table(value: object) -> dict[str, tuple[Way, ...]]:
    """Return all apps by name: the built-in ones, and a site's own before them. Raises InvalidInput."""
    if not is_given(value):
        return dict(BUILT_IN)
    if not isinstance(value, Mapping):
        raise InvalidInput.single(TABLE, type(value).__name__, "It must be a mapping of names of apps.")
    reader = Reader()
    found = dict(BUILT_IN)
    for name, entry in value.items():
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            why = "A name has at most 31 characters: lower-case letters, digits and '-', a letter first."
            reader.add(TABLE, name, why)
        else:
            found[name] = _ways(reader, f"{TABLE}.{name}", entry)
    return reader.finish(found)


def _ways(reader: Reader, place: str, entry: object) -> tuple[Way, ...]:
    """Return the ways to start an app: one, or a list of them."""
    entries = entry if isinstance(entry, (list, tuple)) else [entry]
    if not entries:
        reader.add(place, entry, "Give at least one way to start it.")
    places = [place] if len(entries) == 1 else [f"{place}[{number}]" for number in range(len(entries))]
    ways = [reader.attempt(partial(_way, *option), None) for option in zip(places, entries)]
    return tuple(way for way in ways if way is not None)


def _way(place: str, entry: object) -> Way:
    if not isinstance(entry, Mapping):
        raise InvalidInput.single(place, entry, f"It must be a mapping with {', '.join(KEYS)}.")
    reader = Reader()
    for key in entry:
        if key not in KEYS:
            why = f"There is no such key.{did_you_mean(key, KEYS)} Known are {', '.join(KEYS)}."
            reader.add(f"{place}.{key}", "given", why)
    without_token = reader.attempt(
        lambda: parse_bool(f"{place}.without_token", entry.get("without_token") or False), False
    )
    variables = entry.get("environment") or {}
    environment: dict[str, str] = reader.attempt(lambda: parse_env(f"{place}.environment", variables), {})
    command: tuple[str, ...] = reader.attempt(lambda: _command(f"{place}.command", entry.get("command")), ())
    url = reader.attempt(lambda: _url(f"{place}.url", entry.get("url") or "/"), "/")
    token_file = reader.attempt(lambda: _token_file(f"{place}.token_file", entry.get("token_file")), Way.token_file)
    way = Way(command, url, environment, token_file, without_token)
    _check_placeholders(reader, place, way)
    return reader.finish(way)


def _check_placeholders(reader: Reader, place: str, way: Way) -> None:
    """Record placeholders that are not replaced where they are, and those that the way needs and lacks."""
    environment = way.environment.values()
    allowed: dict[str, tuple[Iterable[str], tuple[str, ...]]] = {
        "command": (way.command, ("port", "token_file")),
        "environment": (environment, ("port", "token_file", "token")),
        "token_file": ([way.token_file], ("port", "token")),
        "url": ([way.url], ("token",)),
    }
    for key, (texts, names) in allowed.items():
        for other in sorted(_placeholders(texts) - {*names}):
            why = f"Here may be {' and '.join(f'{{{name}}}' for name in names)}."
            if (key, other) == ("command", "token"):
                why += " A command line can be read by others; give the token by {token_file}, or by the environment."
            reader.add(f"{place}.{key}", f"{{{other}}}", why)
    if way.command and "port" not in _placeholders([*way.command, *environment, way.token_file]):
        reader.add(f"{place}.command", list(way.command), f"It has to listen on {ADDRESS}, port {{port}}.")
    if not reader.problems and not way.without_token and not _gives_token(way):
        why = (
            "Nothing gives the program its token: name {token_file} in its command or environment, or {token} in its "
            "environment; or set without_token: true for a program that accepts everybody who reaches its port."
        )
        reader.add(place, "without a token", why)


def _gives_token(way: Way) -> bool:
    """Tell whether an app gets its token when it is started in this way, by its environment or by the file."""
    environment = way.environment.values()
    names_file = "token_file" in _placeholders([*way.command, *environment])
    by_file = names_file and "token" in _placeholders([way.token_file])
    return by_file or "token" in _placeholders(environment)


def _url(place: str, value: object) -> str:
    if not isinstance(value, str) or _PATH.fullmatch(value) is None:
        raise InvalidInput.single(place, value, "It must be what follows the port, from the first / on.")
    return value


def _token_file(place: str, value: object) -> str:
    if value is None:
        return Way.token_file
    if not isinstance(value, str) or not is_plain(value, "\n\t"):
        raise InvalidInput.single(place, "given", "It must be the text of the file, such as '{token}'.")
    return value


def _command(place: str, value: object) -> tuple[str, ...]:
    """Return the argv of a program. Raises InvalidInput."""
    try:
        argv = shlex.split(value) if isinstance(value, str) else value
    except ValueError:
        argv = None
    if (
        not isinstance(argv, (list, tuple))
        or not argv
        or not all(isinstance(word, str) and is_plain(word) for word in argv)
        or _PROGRAM.fullmatch(argv[0]) is None
    ):
        raise InvalidInput.single(
            place, value, "It must be a program and its arguments, as text or as a list of words."
        )
    return tuple(argv)


def _placeholders(texts: Iterable[str]) -> set[str]:
    return {name for text in texts for name in _PLACEHOLDER.findall(text)}


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text with its placeholders replaced; a placeholder without a value stays as it is."""
    return _PLACEHOLDER.sub(lambda match: values.get(match.group(1), match.group(0)), text)


def tunnel(configuration: str, port: int) -> str:
    """Return the command that forwards an app's port to its owner's machine.

    It fails if that port is taken there: the browser would give the token to the program that has the port.
    """
    forward = f"{ADDRESS}:{port}:{ADDRESS}:{port}"
    return f"ssh -F {shlex.quote(configuration)} -N -o ExitOnForwardFailure=yes -L {forward} main1"


def page(port: int, url: str, token: str = "") -> str:
    """Return the address of an app for the browser; without the token, in the form that other people may see."""
    if not token:
        url = url.partition("?")[0] if "{token}" in url.partition("?")[2] else url
    return f"http://{ADDRESS}:{port}{filled(url, {'token': token or HIDDEN})}"


def answer(configuration: str, port: int, way: Way, token: str) -> str:
    """Return the text of the file that the owner gets: the command to run, and the address to open then."""
    lines = [tunnel(configuration, port), page(port, way.url, token)]
    if "{token}" not in way.url and not way.without_token:
        lines.append(f"password: {token}")
    return "".join(f"{line}\n" for line in lines)

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Find the login to a registry that is stored on this host by ``docker login``."""

from __future__ import annotations

import base64
import json
import os
from typing import Any

from ..core.values.errors import SessionError
from ..core.values.image_names import DEFAULT_REGISTRY, registry_of
from .command import run_command

HUB = "https://index.docker.io/v1/"
"""Key of the login of Docker Hub."""
TOKEN = "<token>"  # noqa: S105 - the name that stands for one
"""User name by which a credential helper marks an identity token."""
NOT_FOUND = "credentials not found"
"""Message of credential helpers that have no entry."""


class LoginError(SessionError):
    """A credential helper that this host's configuration names does not work."""


def login_of_host(reference: str) -> dict[str, str] | None:
    """Return the login that a registry gets with a request for an image (Docker Engine API, authentication), or None.

    A file that is not in Docker's format is ignored, as by Docker's own programs.
    """
    folder = os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker")
    try:
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            configuration = json.load(file)
    except (OSError, ValueError):
        return None
    registry = registry_of(reference)
    place = HUB if registry == DEFAULT_REGISTRY else registry
    helper = _part(configuration, "credHelpers").get(place) or (
        configuration.get("credsStore") if isinstance(configuration, dict) else None
    )
    if helper:
        found = _ask_helper(str(helper), place)
        if found is not None:
            return found
    kept = _part(configuration, "auths")
    for name in (place, *kept):
        if name in kept and _host(name) == _host(place):
            return _login(name, kept[name])
    return None


def _part(configuration: Any, name: str) -> dict[str, Any]:
    found = configuration.get(name) if isinstance(configuration, dict) else None
    return found if isinstance(found, dict) else {}


def _host(name: str) -> str:
    """Return the host of a name that may be the whole address of a registry."""
    return name.partition("://")[2].partition("/")[0] if "://" in name else name.partition("/")[0]


def _login(name: str, entry: Any) -> dict[str, str] | None:
    if not isinstance(entry, dict):
        return None
    if entry.get("identitytoken"):
        return {"identitytoken": str(entry["identitytoken"]), "serveraddress": name}
    try:
        user, colon, password = base64.b64decode(str(entry.get("auth", ""))).decode().partition(":")
    except ValueError:
        return None
    return {"username": user, "password": password, "serveraddress": name} if colon else None


def _ask_helper(helper: str, place: str) -> dict[str, str] | None:
    """Return the entry of a credential helper; None if it has none."""
    try:
        found = json.loads(run_command([f"docker-credential-{helper}", "get"], place, error=LoginError))
        user, secret = str(found["Username"]), str(found["Secret"])
    except LoginError as error:
        if NOT_FOUND in str(error):
            return None
        raise
    except (ValueError, TypeError, KeyError):
        raise LoginError(f"docker-credential-{helper} does not answer as credential helpers do.") from None
    if not user and not secret:
        return None
    login = {"identitytoken": secret} if user == TOKEN else {"username": user, "password": secret}
    return {**login, "serveraddress": place}

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a path means where there are symbolic links, as Linux has it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import SessionError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.paths import (
    place_outside,
    places_on,
)

LINKS = {
    "/run": "data/run",
    "/homes": "/mid",
    "/mid": "./data/../data",
    "/loop": "/loop",
    "/out": "../../../etc",
    "/data/back": "../etc",
}


def link_at(path: str) -> str:
    return LINKS.get(path, "")


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/", "/"),
        ("//etc//./passwd/", "/etc/passwd"),
        ("/../../etc", "/etc"),
        ("/run/sshd", "/data/run/sshd"),
        ("/homes/me/../you", "/data/you"),
        ("/homes/..", "/"),
        ("/out/passwd", "/etc/passwd"),
    ],
)
def test_the_place_of_a_path(path: str, place: str) -> None:
    assert places_on(path, link_at)[-1] == place


def test_it_is_as_linux_has_it(tmp_path: Path) -> None:
    """Compared with realpath(3), in a folder instead of the root."""
    for name in ("data/run", "data/me", "etc"):
        (tmp_path / name).mkdir(parents=True)
    for name, to in (("one", "data"), ("two", "one/me"), ("data/me/three", "../../etc"), ("four", f"{tmp_path}/two")):
        (tmp_path / name).symlink_to(to)

    def real_link_at(path: str) -> str:
        return os.readlink(path) if os.path.islink(path) else ""

    for path in ("one/run", "two/..", "two/three/x", "four/three", "four/../run", "one//./me/../../two"):
        assert places_on(f"{tmp_path}/{path}", real_link_at)[-1] == os.path.realpath(f"{tmp_path}/{path}")


def test_as_many_links_are_followed_as_the_kernel_follows() -> None:
    def next_link(path: str) -> str:
        """Return where a link leads: /40 to /39, and so on; /0 is a folder."""
        number = int(path[1:])
        return f"/{number - 1}" if number else ""

    assert places_on("/40", next_link)[-1] == "/0"
    with pytest.raises(SessionError, match="More than 40 symbolic links"):
        places_on("/41", next_link)


def test_links_that_lead_to_each_other_are_no_path() -> None:
    with pytest.raises(SessionError, match="More than 40 symbolic links are on the way to '/loop/x'"):
        places_on("/loop/x", link_at)


@pytest.mark.parametrize(
    "path", ["/data", "//data/x", "/etc/../data/x", "/run/sshd", "/homes/me", "/data/../etc", "/data/back/passwd"]
)
def test_a_place_that_is_mounted_or_reached_through_a_mount_is_not_the_container_s(path: str) -> None:
    assert place_outside(path, ["/data"], link_at) is None


def test_a_place_that_only_begins_as_a_mount_does_is_the_container_s() -> None:
    assert place_outside("/database", ["/data"], link_at) == "/database"
    assert place_outside("/out/passwd", ["/data", "/etc/cluster-compute"], link_at) == "/etc/passwd"

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""How amounts, devices and images are told to people."""

from __future__ import annotations

import pytest
from ansible_collections.cluster_compute.session.plugins.plugin_utils.wording import cpus, devices, images, memory


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536 * 1024, "1.5 MiB"),
        (300 * 1024**3, "300 GiB"),
        (2**45, "32 TiB"),
    ],
)
def test_memory_is_told_with_three_digits(amount: int, text: str) -> None:
    assert memory(amount) == text


def test_cpus_are_counted() -> None:
    assert [cpus(amount) for amount in (1000, 500, 2000)] == ["1 CPU", "0.5 CPUs", "2 CPUs"]


def test_what_a_replica_has_by_name_is_one_entry_a_class() -> None:
    held = {"pinned CPU": ["0", "1", "2", "8", "10", "11"], "gpu": ["/dev/dri/card0", "/dev/dri/card1"], "nic": ["1"]}
    assert devices(held) == ["gpu=/dev/dri/card0,/dev/dri/card1", "nic=1", "pinned-CPU=0-2,8,10-11"]
    assert devices({}) == []


def test_an_image_is_told_by_what_it_is_on_each_host() -> None:
    def image(host: str, reference: str, digest: str | None, identity: str | None) -> dict[str, str | None]:
        return {"host": host, "image": reference, "image_digest": digest, "image_id": identity}

    assert images(
        [
            image("h1", "debian:12", None, "sha256:aa"),
            image("h2", "debian:12", None, "sha256:bb"),
            image("h1", "debian:12", None, "sha256:aa"),
            image("h3", "debian:12", None, None),
            image("h3", "r.example/train:1", "r.example/train@sha256:cc", "sha256:dd"),
        ]
    ) == [
        ("debian:12", "sha256:aa", ["h1"]),
        ("debian:12", "sha256:bb", ["h2"]),
        ("debian:12", "", ["h3"]),
        ("r.example/train:1", "sha256:cc", ["h3"]),
    ]

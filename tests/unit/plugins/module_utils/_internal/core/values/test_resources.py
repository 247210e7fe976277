# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Amounts: what Docker and Kubernetes users write, and nothing else."""

from __future__ import annotations

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.resources import (
    MAXIMUM_CPUS,
    MAXIMUM_MEMORY,
    MINIMUM_CPUS,
    MINIMUM_MEMORY,
    PINNED,
    Resources,
    count_devices,
    format_cpus,
    format_memory,
    is_device_path,
    parse_accelerators,
    parse_cpus,
    parse_devices,
    parse_memory,
    same_device,
)
from hypothesis import given, settings
from hypothesis import strategies as st

bounded = settings(max_examples=300, derandomize=True)


@pytest.mark.parametrize(
    ("value", "millicpus"),
    [
        (4, 4000),
        ("4", 4000),
        (0.5, 500),
        ("0.5", 500),
        (".5", 500),
        ("500m", 500),
        (" 2 ", 2000),
        ("1.250", 1250),
        (0.1, 100),
        (1.001, 1001),
        ("10m", 10),
        (65536, MAXIMUM_CPUS),
    ],
)
def test_cpus(value, millicpus):
    assert parse_cpus(value) == millicpus


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        "nan",
        "inf",
        -1,
        "-1",
        0,
        "0",
        "0m",
        "9m",
        True,
        False,
        None,
        [],
        {},
        b"4",
        "",
        " ",
        "4 cpus",
        "1e3",
        "1_000",
        "0x4",
        "4,5",
        "4m5",
        "m",
        "0.0005",
        "1.5m",
        1.0005,
        65537,
        10**400,
        "9" * 100,
        "٤",
        "4\n4",
    ],
)
def test_cpus_refused(value):
    with pytest.raises(ValueError, match=r"\.$"):
        parse_cpus(value)


def test_cpus_to_hold_back_may_be_none():
    assert parse_cpus(0, minimum=0) == 0
    assert parse_cpus("1m", minimum=0) == 1


@pytest.mark.parametrize(
    ("value", "amount"),
    [
        ("4g", 4 * 1024**3),
        ("4G", 4 * 1024**3),
        ("4gb", 4 * 1024**3),
        ("1Gi", 1024**3),
        ("2GiB", 2 * 1024**3),
        ("512MiB", 512 * 1024**2),
        ("512m", 512 * 1024**2),
        ("512 m", 512 * 1024**2),
        ("8192k", 8 * 1024**2),
        ("8192Ki", 8 * 1024**2),
        ("1t", 1024**4),
        ("1Ti", 1024**4),
        ("1.5g", 1536 * 1024**2),
        ("0.3g", 322122547),
        (6 * 1024**2, MINIMUM_MEMORY),
        ("6291456", MINIMUM_MEMORY),
        ("6291456b", MINIMUM_MEMORY),
        (1e9, 10**9),
        ("1p", MAXIMUM_MEMORY),
    ],
)
def test_memory(value, amount):
    assert parse_memory(value) == amount


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        1e9 + 0.5,
        -1,
        "-1g",
        0,
        "0",
        "5m",
        MINIMUM_MEMORY - 1,
        True,
        None,
        [],
        "",
        "1x",
        "g",
        "1gg",
        "1 g b",
        "1ib",
        "1.5",
        "9000000.5b",
        "1e9",
        "two gigs",
        "1.1p",
        10**500,
        "9" * 50 + "t",
        "1g\n",
        "1g; reboot",
    ],
)
def test_memory_refused(value):
    if value == "1g\n":
        assert parse_memory(value) == 1024**3, "white space around a survey's answer is no error"
        return
    with pytest.raises(ValueError, match=r"\.$"):
        parse_memory(value)


@bounded
@given(st.integers(MINIMUM_CPUS, MAXIMUM_CPUS))
def test_cpus_round_trip(millicpus):
    assert parse_cpus(format_cpus(millicpus)) == millicpus
    assert parse_cpus(f"{millicpus}m") == millicpus
    assert parse_cpus(millicpus / 1000) == millicpus


@bounded
@given(st.one_of(st.integers(MINIMUM_MEMORY, MAXIMUM_MEMORY), st.integers(6, 2**30).map(lambda n: n * 1024**2)))
def test_memory_round_trip(amount):
    assert parse_memory(format_memory(amount)) == min(amount, MAXIMUM_MEMORY) or amount > MAXIMUM_MEMORY
    assert parse_memory(str(min(amount, MAXIMUM_MEMORY))) == min(amount, MAXIMUM_MEMORY)


@settings(bounded, max_examples=500)
@given(st.one_of(st.text(), st.floats(), st.integers(), st.booleans(), st.none(), st.binary(), st.lists(st.integers())))
def test_anything_else_is_a_sentence_not_a_crash(value):
    for parse, least, most in (
        (parse_cpus, MINIMUM_CPUS, MAXIMUM_CPUS),
        (parse_memory, MINIMUM_MEMORY, MAXIMUM_MEMORY),
    ):
        try:
            outcome: int | str = parse(value)
        except ValueError as refusal:
            outcome = str(refusal)
        if isinstance(outcome, str):
            assert outcome.endswith(".")
        else:
            assert isinstance(outcome, int)
            assert not isinstance(outcome, bool)
            assert least <= outcome <= most


def test_formats():
    assert [format_cpus(n) for n in (4000, 500, 1250, 1, 0)] == ["4", "0.5", "1.25", "0.001", "0"]
    assert [format_memory(n) for n in (1024**3, 1536 * 1024**2, 1000, 0, 1024)] == [
        "1GiB",
        "1536MiB",
        "1000B",
        "0B",
        "1KiB",
    ]


def test_accelerators():
    assert parse_accelerators({"gpu": 2, "fpga": "1"}) == (("fpga", 1), ("gpu", 2))
    assert parse_accelerators("gpu=2, example.com/tpu=1") == (("example.com/tpu", 1), ("gpu", 2))
    assert parse_accelerators({}) == ()


@pytest.mark.parametrize(
    "value",
    [
        {"gpu": 0},
        {"gpu": -1},
        {"gpu": True},
        {"gpu": 1.5},
        {"gpu": "many"},
        {"g pu": 1},
        {"memory": 1},
        {"replicas": 1},
        {"": 1},
        {1: 1},
        {"gpu": 10**9},
        "gpu",
        "gpu=",
        "gpu=1,gpu=1",
        ["gpu"],
        3,
        None,
    ],
)
def test_accelerators_refused(value):
    with pytest.raises(ValueError, match=r"\.$"):
        parse_accelerators(value)


def test_devices_are_named_in_order_and_counted():
    devices = parse_devices({"tpu": ["/dev/t"], "gpu": ["GPU-8a56-1", "/dev/kfd+/dev/dri/renderD128"], "none": []})
    assert devices == (("gpu", ("GPU-8a56-1", "/dev/kfd+/dev/dri/renderD128")), ("tpu", ("/dev/t",)))
    assert count_devices(devices) == (("gpu", 2), ("tpu", 1))
    assert [is_device_path(name) for name in devices[0][1]] == [False, True]


@pytest.mark.parametrize(
    "value",
    [
        {"gpu": 2},
        {"gpu": "GPU-1"},
        {"gpu": ["GPU-1", "GPU-1"]},
        {"gpu": ["/dev/a+/dev/b", "/dev/b+/dev/a"]},
        {"gpu": ["/dev/a"], "big": ["/dev/b+/dev/a"]},
        {"cpus": ["/dev/a"]},
        {"gpu": [f"/dev/gpu{number}" for number in range(257)]},
        {"gpu": ["/dev/a"], "fpga": ["/dev/a"]},
        {"gpu": ["0"]},
        {"gpu": ["/dev/../etc/shadow"]},
        {"gpu": ["/dev"]},
        {"gpu": ["/dev/a+"]},
        {"gpu": ["/dev/a+/etc/b"]},
        {"gpu": ["/dev/a b"]},
        {"gpu": ["GPU-1\n"]},
        {"gpu": [1]},
        {"gpu": {"GPU-1": 1}},
        {"g pu": ["/dev/a"]},
        {PINNED: ["1"]},
        {1: ["/dev/a"]},
        ["/dev/a"],
        "gpu=2",
        None,
    ],
)
def test_devices_refused(value):
    with pytest.raises(ValueError, match=r"\.$"):
        parse_devices(value)


def test_devices_that_only_share_a_path_are_different():
    cards = ["/dev/kfd+/dev/dri/renderD128", "/dev/kfd+/dev/dri/renderD129"]
    assert parse_devices({"gpu": cards}) == (("gpu", tuple(cards)),)
    assert not same_device(*cards)
    assert same_device("/dev/dri/renderD128", cards[0])
    assert same_device("/dev/dri/renderD128+/dev/kfd", cards[0])
    assert same_device("GPU-1", "GPU-1")
    assert not same_device("GPU-1", "GPU-2")


def test_pinned_cpus_are_given_by_name_like_accelerators():
    assert Resources(2000, MINIMUM_MEMORY, 1, (("gpu", 1),)).devices() == (("gpu", 1),)
    assert Resources(2000, MINIMUM_MEMORY, 1, (("gpu", 1),), True).devices() == (("gpu", 1), (PINNED, 2))
    for cpus, threads, taken in ((1, 2, 2), (2, 2, 2), (3, 2, 4), (5, 4, 8)):
        assert Resources(cpus * 1000, MINIMUM_MEMORY, 1, pin_cpus=True).devices(threads) == ((PINNED, taken),)

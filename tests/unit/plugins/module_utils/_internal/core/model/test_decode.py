# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Dataclasses from plain data and back."""

from dataclasses import dataclass, field
from typing import Any, Optional

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import (
    PAIRS,
    Malformed,
    decode,
    encode,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.plan import read_plan
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidPlan


@dataclass(frozen=True)
class Wheel:
    size: int
    name: Optional[str]


@dataclass(frozen=True)
class Cart:
    name: str
    is_new: bool
    weight: float
    wheels: tuple[Wheel, ...]
    spare: Optional[Wheel]
    load: dict[str, tuple[str, ...]]
    papers: Any
    tolls: tuple[tuple[str, int], ...] = ()
    sides: tuple[tuple[str, tuple[str, ...]], ...] = field(default=(), metadata=PAIRS)


PLAIN = {
    "name": "c",
    "is_new": False,
    "weight": 1.5,
    "wheels": [{"size": 3, "name": None}, {"size": 4, "name": "x"}],
    "spare": None,
    "load": {"hay": ["a", "b"]},
    "papers": {"any": [1, None]},
    "tolls": [["bridge", 2]],
    "sides": {"right": [], "left": ["lamp"]},
}


def test_there_and_back() -> None:
    cart = decode(Cart, PLAIN, "The cart")
    wheels, sides = (Wheel(3, None), Wheel(4, "x")), (("left", ("lamp",)), ("right", ()))
    assert cart == Cart("c", False, 1.5, wheels, None, {"hay": ("a", "b")}, {"any": [1, None]}, (("bridge", 2),), sides)
    assert encode(cart) == PLAIN
    assert decode(Cart, {**PLAIN, "spare": {"size": 1, "name": ""}}, "The cart").spare == Wheel(1, "")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"name": None}, "name is not given, where text is expected"),
        ({"is_new": 1}, "is_new is 1, where true or false is expected"),
        ({"weight": True}, "weight is True, where a number is expected"),
        ({"wheels": [{"size": True, "name": "x"}]}, "wheels[0].size is True, where a whole number is expected"),
        ({"wheels": [{"size": 1}]}, "wheels[0] lacks name"),
        ({"wheels": {}}, "wheels is {}, where a list is expected"),
        ({"spare": {"size": 1, "name": 5}}, "spare.name is 5, where text is expected"),
        ({"spare": 7}, "spare is 7, where a mapping is expected"),
        ({"load": {"hay": "a"}}, "load.hay is 'a', where a list is expected"),
        ({"load": {"hay": ["a", 2]}}, "load.hay[1] is 2, where text is expected"),
        ({"tolls": [["bridge"]]}, "tolls[0] is ['bridge'], where a list of 2 is expected"),
        ({"tolls": [["bridge", "x"]]}, "tolls[0][1] is 'x', where a whole number is expected"),
        ({"sides": [["left", []]]}, "sides is [['left', []]], where a mapping is expected"),
        ({"sides": {"left": [1]}}, "sides.left[0] is 1, where text is expected"),
        ({"load": {1: ["a"]}}, "load is {1: ['a']}, where a mapping is expected"),
    ],
)
def test_what_is_malformed_is_named_with_its_place_and_value(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(Malformed) as error:
        decode(Cart, {**PLAIN, **change}, "The cart")
    assert error.value.problems == (f"The cart's {problem}",)


def test_every_place_is_named() -> None:
    with pytest.raises(Malformed) as error:
        decode(Cart, {**PLAIN, "name": 1, "weight": "x"}, "The cart")
    assert len(error.value.problems) == 2
    for data, problem in (
        ({**PLAIN, "brake": 1, "bell": 2}, "The cart has 'brake, bell', which is unknown"),
        ({}, "The cart lacks name, is_new, weight, wheels, spare, load, papers"),
        (5, "The cart is 5, where a mapping is expected"),
    ):
        with pytest.raises(Malformed, match=rf"^{problem}\.$"):
            decode(Cart, data, "The cart")


@dataclass(frozen=True)
class Weight:
    grams: int

    @classmethod
    def from_dict(cls, data: Any) -> "Weight":
        return cls(int(data["kilograms"]) * 1000)


@dataclass(frozen=True)
class Parcel:
    weight: Weight
    label: str = "none"
    stamps: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Parcels:
    all: tuple[Parcel, ...]


def test_what_has_a_default_may_be_missing_and_classes_may_have_a_form_of_their_own() -> None:
    assert decode(Parcel, {"weight": {"kilograms": 2}}, "The parcel") == Parcel(Weight(2000))
    assert decode(Parcel, {"weight": {"kilograms": 0}, "label": "x"}, "The parcel").label == "x"
    for data, problem in (
        ({}, "The parcel lacks weight"),
        ({"weight": {}}, "The parcel's weight is malformed: 'kilograms'"),
        ({"weight": None, "label": 5}, "The parcel's label is 5, where text is expected"),
    ):
        with pytest.raises(Malformed, match=problem):
            decode(Parcel, data, "The parcel")


def test_a_plan_says_that_it_is_the_plan() -> None:
    with pytest.raises(InvalidPlan, match=r"^The plan is 5, where a mapping is expected\.$"):
        read_plan(5)


def test_who_only_looks_may_pass_over_what_is_unknown_at_any_depth() -> None:
    data = {"weight": {"kilograms": 2}, "label": "x", "coming": 1}
    with pytest.raises(Malformed, match=r"The parcels's all\[0\] has 'coming', which is unknown") as error:
        decode(Parcels, {"all": [data]}, "The parcels")
    assert error.value.is_newer
    assert decode(Parcels, {"all": [data], "coming": 1}, "The parcels", forgiving=True).all[0].label == "x"
    with pytest.raises(Malformed, match="lacks weight"):
        decode(Parcels, {"all": [{"coming": 1}]}, "The parcels", forgiving=True)

# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Deferred dataclasses are compared with those of the standard library, which define what they have to do."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from threading import Barrier, Thread
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values import deferred
from ansible_collections.cluster_compute.session.tests.support.fresh_python import printed

CALLS = "ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.calls"
COUNT = f"""
import pkgutil, sys
from importlib import import_module

package = import_module("{CALLS}")
names = [module.name for module in pkgutil.iter_modules(package.__path__)]
for name in names:
    import_module("{CALLS}." + name)
waiting = import_module("{CALLS}".replace("host.calls", "core.values.deferred"))._WAITING
own = [module for name, module in sys.modules.items() if name.startswith("ansible_collections.")]
kinds = [kind for module in own for kind in vars(module).values() if isinstance(kind, type)]
made = {{str(kind) for kind in kinds if "__dataclass_params__" in vars(kind)}}
print(len(names), len(waiting), len(made))
"""


def classes(dataclass: Callable[..., Any]) -> tuple[Any, Any, Any]:
    """Return a class, one derived from it, and one that can be ordered, as *dataclass* makes them."""

    @dataclass(frozen=True)
    class Base:
        """A base."""

        name: str
        sizes: tuple[int, ...] = ()

    @dataclass(frozen=True)
    class Derived(Base):
        """A derived class."""

        notes: list[str] = dataclasses.field(default_factory=list, compare=False)

        def __post_init__(self) -> None:
            if not self.name:
                raise ValueError("no name")

    @dataclass(frozen=True, order=True)
    class Ordered:
        """A class with an order."""

        number: int

    return Base, Derived, Ordered


@pytest.fixture(params=["derived class first", "base class first"])
def both(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """Give the same classes as the standard library and as the module make them."""
    ours, theirs = classes(deferred.dataclass), classes(dataclasses.dataclass)
    if request.param == "base class first":
        ours[0]("first")
    return ours, theirs


def test_deferred_dataclasses_do_what_others_do(both: tuple[Any, Any]) -> None:
    """They are built, shown, compared, hashed and replaced alike, and raise alike."""

    def behaviour(base: Any, derived: Any, ordered: Any) -> list[object]:
        one, same, other = derived("a", notes=["n"]), derived(name="a", sizes=()), derived("b", (1,))
        raised: list[str] = []
        wrong: tuple[Callable[[], object], ...] = (
            lambda: derived(""),
            lambda: derived(),
            lambda: setattr(one, "name", "b"),
            lambda: setattr(base("x"), "new", "b"),
            lambda: base("x") < base("y"),
        )
        for call in wrong:
            with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is compared
                call()
            raised.append(f"{caught.type.__name__}: {caught.value}".replace("__init__()", ""))
        return [
            repr(one),
            (one == same, one == other, one == base("a"), hash(one) == hash(same), len({one, same, other})),
            (one.notes, same.notes, same.notes is other.notes),
            dataclasses.replace(one, name="z"),
            sorted([ordered(2), ordered(1)]),
            [(item.name, item.compare, item.default) for item in dataclasses.fields(derived)],
            dataclasses.asdict(one),
            (dataclasses.is_dataclass(ordered), dataclasses.is_dataclass(one), derived.__doc__),
            raised,
        ]

    ours, theirs = both
    assert repr(behaviour(*ours)) == repr(behaviour(*theirs))


def test_fields_can_be_read_before_there_is_an_instance() -> None:
    """Readers of answers look at the fields of classes first."""
    base, derived, ordered = classes(deferred.dataclass)

    assert [item.name for item in dataclasses.fields(derived)] == ["name", "sizes", "notes"]
    assert [item.name for item in dataclasses.fields(base)] == ["name", "sizes"]
    assert dataclasses.is_dataclass(ordered)


def test_a_class_without_a_decorator_of_its_own_can_be_the_first_one() -> None:
    """It is derived from one whose methods are generated for it."""
    base, _derived, _ordered = classes(deferred.dataclass)

    class Plain(base):  # type: ignore[misc, valid-type] # what it is derived from is only known at run time
        pass

    assert Plain("a").name == "a"
    assert Plain("a") == Plain("a")


def test_threads_create_the_first_instance_at_the_same_time() -> None:
    """None of them meets a class that is half done: hosts start replicas by threads."""
    failed: list[BaseException] = []
    rounds, threads = 200, 4
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(rounds):
            _base, derived, _ordered = classes(deferred.dataclass)
            begin = Barrier(threads)

            def create(derived: Any = derived, begin: Barrier = begin) -> None:
                begin.wait()
                try:
                    assert derived("a") == derived("a", ())
                except BaseException as error:  # whatever it is
                    failed.append(error)

            running = [Thread(target=create) for _ in range(threads)]
            for thread in running:
                thread.start()
            for thread in running:
                thread.join()
    finally:
        sys.setswitchinterval(before)

    assert failed == []


def test_importing_all_calls_generates_hardly_any_methods() -> None:
    """A class that takes the decorator of the standard library would cost each call to a host its time.

    A few classes have instances that are constants.
    """
    calls, waiting, made = map(int, printed(COUNT)[0].split())

    assert calls > 15
    assert waiting > 100
    assert made * 10 < waiting

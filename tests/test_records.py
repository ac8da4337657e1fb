"""`base.records.dataclass` makes the classes that the standard library's makes."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, replace
from pathlib import Path
from typing import Any

import pytest

from polydl.base import records

PACKAGE = Path(records.__file__).parents[1]
ELSEWHERE = ("torch_backend", "learn", "cluster")
"""Rooms that a run of the command line does not load."""


def classes(make: Callable[..., Any]) -> list[type]:
    """The kinds that there are."""

    @make(frozen=True, slots=True)
    class Usual:
        a: int
        b: tuple[int, ...] = (1, 2)
        c: list[int] = field(default_factory=list, compare=False, repr=False)
        d: int = field(init=False, default=7)

        def __post_init__(self) -> None:
            if self.a < 0:
                raise ValueError("negative")

    @make(frozen=True)
    class Open:
        a: int

    @make(frozen=True, slots=True, eq=False)
    class ByIdentity:
        a: int

    @make(frozen=True, slots=True, weakref_slot=True)
    class OwnMethods:
        a: int

        def __hash__(self) -> int:
            return 3

        def __repr__(self) -> str:
            return "own"

    @make(frozen=True, slots=True)
    class Empty:
        pass

    return [Usual, Open, ByIdentity, OwnMethods, Empty]


def told(make: Callable[..., Any]) -> list[object]:
    """What can be seen of instances."""
    found: list[object] = []
    for cls in classes(make):
        names = {f.name for f in dataclasses.fields(cls)}
        given = {"a": 4} if "a" in names else {}
        one, other = cls(**given), cls(**given)
        found += [one == other, one == 4, repr(one).rsplit(".", 1)[-1], cls.__match_args__, sorted(names)]
        found += [hash(one) == hash(other), dataclasses.asdict(one), getattr(cls, "__slots__", None)]
        found += [dataclasses.asdict(copy.deepcopy(one)), cls.__dataclass_params__.frozen]
        if "a" in names:
            found.append(dataclasses.asdict(replace(one, a=5)))
            for act in (lambda of: setattr(of, "a", 1), lambda of: delattr(of, "a"), lambda of: setattr(of, "new", 1)):
                with pytest.raises((FrozenInstanceError, TypeError)):
                    act(one)
    return found


def test_as_in_the_standard_library() -> None:
    assert told(records.dataclass) == told(dataclasses.dataclass)


def test_what_is_inherited_and_checked() -> None:
    usual, *_ = classes(records.dataclass)
    with pytest.raises(ValueError, match="negative"):
        usual(-1)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        usual()

    @records.dataclass(frozen=True, slots=True)
    class Further(usual):  # type: ignore[valid-type, misc]
        e: int = 0

    assert dataclasses.astuple(Further(1, e=2)) == (1, (1, 2), [], 7, 2)


@records.dataclass(frozen=True, slots=True)
class Sent:
    """One that pickle finds by its name."""

    a: int


def test_pickled() -> None:
    assert pickle.loads(pickle.dumps(Sent(5))) == Sent(5)


def test_who_makes_frozen_classes() -> None:
    """All that a run of the command line loads are made in short."""
    for path in PACKAGE.rglob("*.py"):
        if not set(path.relative_to(PACKAGE).parts) & set(ELSEWHERE) and path != Path(records.__file__):
            text = path.read_text(encoding="utf-8")
            made = re.search(r"^from dataclasses import .*\bdataclass\b", text, re.M)
            assert not (made and "@dataclass(frozen=True" in text), f"{path}: take polydl.base.records.dataclass"

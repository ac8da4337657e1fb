"""What runs at sizes that were not tuned, for people: the decision tree of the output, and its way at any one size."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np

from polydl.base.errors import InputError, one_of
from polydl.base.records import dataclass
from polydl.lower.cexpr import FromIsl, Helpers
from polydl.lower.cprint import expression
from polydl.lower.guarded_pieces import Among, Asked, Question
from polydl.model import isl
from polydl.model.isl.trees import condition
from polydl.model.scop import Scop
from polydl.schedule.recipe import Recipe


class Leaf(Protocol):
    """A variant for any size."""

    @property
    def recipe(self) -> Recipe | None:
        """How the nests are scheduled; None: the loops as they are written."""

    def seconds(self, sizes: Mapping[str, int]) -> tuple[float, float]:
        """Estimated seconds at some sizes, and those of the best of what it was chosen among; NaN where the estimate
        does not know the loops: some have no iteration."""


Branch = Asked[Leaf] | Leaf


@dataclass(frozen=True, slots=True)
class AtSizes:
    """What runs at some sizes."""

    sizes: Mapping[str, int]
    """By parameter."""
    recipe: Recipe | None
    """Of the variant; None: the loops as they are written."""
    conditions: tuple[str, ...]
    """Of the output, in C, that lead there."""
    seconds: float = math.nan
    """Estimated, of one run; NaN: unknown."""
    best: float = math.nan
    """The same for the best of the ways that were compared."""
    reason: str = ""
    """Why the original runs, or why there is no estimate, for people."""

    @property
    def id(self) -> str:
        """Of the variant; `original` for the loops as they are written."""
        return "original" if self.recipe is None else self.recipe.id

    @property
    def behind(self) -> float:
        """By how much the variant is slower than the best of the ways, by estimate: 0.02 is 2 %; NaN: unknown."""
        return self.seconds / self.best - 1 if self.best > 0 else math.nan

    def to_data(self) -> dict[str, Any]:
        """For JSON."""
        known = math.isfinite(self.seconds)
        return {
            "sizes": dict(self.sizes),
            "variant": self.id,
            "recipe": self.recipe.to_data() if self.recipe else [],
            "conditions": list(self.conditions),
            "predicted_seconds": self.seconds if known else None,
            "best_predicted_seconds": self.best if known else None,
            "behind": self.behind if math.isfinite(self.behind) else None,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class SizeTree:
    """Which variant for any size runs at which sizes."""

    top: Branch
    values: isl.Set
    """{ [parameters] }: those that it is for; for all others the loops run as they are written."""

    @property
    def condition(self) -> str:
        """Whether sizes are among `values`, in C; `1` where all are."""
        return expression(_in_c()(condition(self.values)))

    def leaves(self) -> tuple[Leaf, ...]:
        """The variants, for small sizes first."""
        return tuple({_id(leaf): leaf for leaf in _leaves(self.top)}.values())

    def at(self, sizes: Mapping[str, int]) -> AtSizes:
        """What runs at these sizes, which are one for each parameter."""
        if not self._takes(sizes):
            return AtSizes(sizes, None, (f"!({self.condition})",), reason=_NOTHING)
        at, asked = self.top, {} if self.condition == "1" else {("", True): self.condition}
        while isinstance(at, Question | Among):
            small = at.is_small(sizes)
            subject = (expression(at.asked(_in_c()) if isinstance(at, Among) else at.compared(_in_c())), small)
            # The last bound of a value is the narrowest one.
            asked.pop(subject, None)
            asked[subject] = said(at, small=small)
            at = at.small if small else at.large
        seconds, best = at.seconds(sizes)
        unknown = "" if math.isfinite(seconds) else "there is no estimate, since loops have no iteration there"
        return AtSizes(sizes, at.recipe, tuple(asked.values()), seconds, best, unknown)

    def _takes(self, sizes: Mapping[str, int]) -> bool:
        return not self.values.params().intersect(isl.parameter_values(sizes).params()).is_empty()

    def variant_at(self, sizes: Mapping[str, int]) -> str:
        """The id of the variant that runs at these sizes; `original` for the loops as they are written."""
        at = self.top
        while isinstance(at, Question | Among):
            at = at.small if at.is_small(sizes) else at.large
        return _id(at) if self._takes(sizes) else "original"

    def lines(self) -> Iterator[str]:
        """The tree in words, indented."""
        yield from (f"if {self.condition}:",) if self.condition != "1" else ("always:",)
        yield from _lines(self.top, "  ")
        if self.condition != "1":
            yield "else: the original loops"

    def to_data(self) -> dict[str, Any]:
        """For JSON: a leaf has a `variant`, a question `if`, `then` and `else`."""
        return {"if": self.condition, "then": _data(self.top), "else": {"variant": "original", "recipe": []}}


_NOTHING = "some statement has no instance there, or an array's rows would overlap"
_INT = range(-(2**31), 2**31)


def tuned_sizes(read: Scop) -> dict[str, int]:
    """The values of a function's integer parameters for which variants are made."""
    return {guard.name: guard.value for guard in read.guards if not guard.macro}


def check_sizes(sizes: Mapping[str, object], read: Scop) -> None:
    """Raise InputError unless these are values of integer parameters of a scop's function."""
    known = tuple(tuned_sizes(read))
    for name, value in sizes.items():
        if name not in known:
            hint = one_of(name, known) if known else "macros have one value each: give them with -D"
            raise InputError(f"'{name}' is no parameter of '{read.function}' that sizes depend on", hint=hint)
        if not isinstance(value, int | np.integer) or int(value) not in _INT:
            raise InputError(f"the size {name} is {value!r}", hint="give one integer, as an int has it")


def said(question: Asked[Any], *, small: bool) -> str:
    """The condition under which `small` is taken, or `large`, in C."""
    return expression(question.asked(_in_c()) if small else question.denied(_in_c()))


def _id(leaf: Leaf) -> str:
    return "original" if leaf.recipe is None else leaf.recipe.id


def _in_c() -> FromIsl:
    return FromIsl(Helpers("polydl_", set()), lambda name: name)


def _leaves(at: Branch) -> Iterator[Leaf]:
    if not isinstance(at, Question | Among):
        yield at
        return
    yield from _leaves(at.small)
    yield from _leaves(at.large)


def _lines(at: Branch, pad: str) -> Iterator[str]:
    if not isinstance(at, Question | Among):
        yield f"{pad}{at.recipe.id} = {at.recipe}" if at.recipe is not None else f"{pad}the original loops"
        return
    yield f"{pad}if {said(at, small=True)}:"
    yield from _lines(at.small, pad + "  ")
    yield f"{pad}else:"
    yield from _lines(at.large, pad + "  ")


def _data(at: Branch) -> dict[str, Any]:
    if not isinstance(at, Question | Among):
        return {"variant": _id(at), "recipe": at.recipe.to_data() if at.recipe is not None else []}
    return {"if": said(at, small=True), "then": _data(at.small), "else": _data(at.large)}

"""Several pieces of code for one region, and the conditions that choose among them when it runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Generic, TypeVar

from polydl.lower.cexpr import FromIsl, Helpers
from polydl.lower.cprint import expression
from polydl.lower.ctree import Binary, Cast, Expr, Text
from polydl.lower.emit import OTHER_SIZES, Generated, helper_texts, names_for
from polydl.lower.region import original_text
from polydl.model import isl
from polydl.model.isl.trees import condition, parametric_value
from polydl.model.scop import Scop, Statement
from polydl.model.types import F64


@dataclass(frozen=True, slots=True)
class Narrowed:
    """A program for some values of its parameters."""

    scop: Scop
    values: isl.Set
    """{ [parameters] }: the values."""


def where_all_runs(scop: Scop) -> Narrowed:
    """The program for those values of its parameters for which every statement has an instance."""
    values = reduce(lambda found, s: found.intersect(s.domain.params()), scop.statements, scop.context.params())
    statements = tuple(
        replace(
            s,
            domain=s.domain.intersect_params(values),
            accesses=tuple(replace(a, relation=a.relation.intersect_params(values)) for a in s.accesses),
        )
        for s in scop.statements
    )
    return Narrowed(replace(scop, statements=statements, context=scop.context.intersect_params(values)), values)


L = TypeVar("L")


@dataclass(frozen=True, slots=True)
class Question(Generic[L]):
    """What is taken for smaller and for larger sizes: code, or what is to be said of it."""

    extents: tuple[isl.PwAff, ...]
    """{ [parameters] -> [n] }: their product is compared."""
    limit: float
    """The value from which on `large` is taken."""
    small: Question[L] | L
    large: Question[L] | L

    def value(self, sizes: Mapping[str, int]) -> int:
        """What is compared, at some sizes for which all extents are defined."""
        point = isl.parameter_values(sizes)
        return math.prod(isl.to_int(extent.intersect_params(point).max_val()) for extent in self.extents)

    def compared(self, c: FromIsl) -> Expr:
        """What is compared, in C."""
        values: Sequence[Expr] = [c(parametric_value(extent)) for extent in self.extents]
        # Products may be too large for an int, which each of the extents is.
        first: Expr = Cast(F64.c, values[0])
        return (
            values[0] if len(values) == 1 else reduce(lambda left, right: Binary("*", left, right), values[1:], first)
        )

    @property
    def bound(self) -> str:
        """The limit, in C: of whole numbers, those below 1.4 are those below 2."""
        return str(math.ceil(self.limit)) if self.limit < 1e9 else f"{self.limit:.3g}"


Dispatch = Question[Generated] | Generated


def extents(statement: Statement) -> tuple[isl.PwAff, ...]:
    """{ [parameters] -> [n] } for each loop of a statement, outermost first: values from the first to the last, where
    there are instances. What has the same extent for all parameters involves none."""
    some = statement.domain.params()
    bounds = (isl.symbolic_bounds(statement.domain, dim) for dim in range(statement.depth))
    return tuple(high.sub(low).add_constant_val(isl.value(1)).coalesce().gist_params(some) for low, high in bounds)


def dispatched(scop: Scop, narrowed: Narrowed, choice: Dispatch) -> Generated:
    """The code that a choice leads to, and the original loops for values of the parameters that none is made for."""
    names = names_for(scop)
    helpers = Helpers(names.prefix + OTHER_SIZES, set())
    c = FromIsl(helpers, lambda name: name)
    text = _text(choice, c)
    some = expression(c(condition(narrowed.values)))
    prologue = [piece for code in _codes(choice) for piece in code.prologue] + helper_texts(helpers, names)
    body = f"if ({some}) {{\n{text}\n}} else {{\n{original_text(scop)}\n}}"
    return Generated(tuple(dict.fromkeys(prologue)), body)


def _codes(choice: Dispatch) -> Iterator[Generated]:
    if isinstance(choice, Generated):
        yield choice
        return
    yield from _codes(choice.small)
    yield from _codes(choice.large)


def _text(choice: Dispatch, c: FromIsl) -> str:
    if isinstance(choice, Generated):
        return choice.region
    asked = expression(Binary("<", choice.compared(c), Text(choice.bound)))
    return f"if ({asked}) {{\n{_text(choice.small, c)}\n}} else {{\n{_text(choice.large, c)}\n}}"

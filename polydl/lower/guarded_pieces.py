"""Several pieces of code for one region, and the conditions that choose among them when it runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Generic, TypeVar

from polydl.base.records import dataclass
from polydl.lower.cexpr import FromIsl, Helpers
from polydl.lower.cprint import expression
from polydl.lower.ctree import Binary, Cast, Expr, Text, Unary
from polydl.lower.emit import OTHER_SIZES, Generated, helper_texts, names_for
from polydl.lower.entry_checks import entry_checks, joined
from polydl.lower.region import original_text
from polydl.model import isl
from polydl.model.isl.trees import condition, parametric_value
from polydl.model.scop import Scop, Statement
from polydl.model.types import F64
from polydl.rewrite.canonical import long_enough


@dataclass(frozen=True, slots=True)
class Narrowed:
    """A program for some values of its parameters."""

    scop: Scop
    values: isl.Set
    """{ [parameters] }: the values."""


def where_all_runs(scop: Scop) -> Narrowed:
    """The program for those values of its parameters for which every statement has an instance, and loops are long
    enough to be cut at their ends, within its context. Raises QuotaExceeded."""
    values = reduce(lambda found, s: found.intersect(s.domain.params()), scop.statements, long_enough(scop))
    values = values.intersect(scop.context.params())
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
    small: Asked[L] | L
    large: Asked[L] | L

    def is_small(self, sizes: Mapping[str, int]) -> bool:
        """Whether `small` is taken at some sizes, for which all extents are defined."""
        point = isl.parameter_values(sizes)
        return math.prod(isl.to_int(e.intersect_params(point).max_val()) for e in self.extents) < self.limit

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

    def asked(self, c: FromIsl) -> Expr:
        """Whether `small` is taken, in C."""
        return Binary("<", self.compared(c), Text(self.bound))

    def denied(self, c: FromIsl) -> Expr:
        """Whether `large` is taken, in C."""
        return Binary(">=", self.compared(c), Text(self.bound))


@dataclass(frozen=True, slots=True)
class Among(Generic[L]):
    """What is taken for certain values of the parameters and for all others: code, or what is to be said of it."""

    values: isl.Set
    """{ [parameters] }: those that `small` is for."""
    small: Asked[L] | L
    large: Asked[L] | L

    def is_small(self, sizes: Mapping[str, int]) -> bool:
        """Whether `small` is taken at some sizes."""
        return not self.values.params().intersect(isl.parameter_values(sizes).params()).is_empty()

    def asked(self, c: FromIsl) -> Expr:
        """Whether `small` is taken, in C."""
        return c(condition(self.values))

    def denied(self, c: FromIsl) -> Expr:
        """Whether `large` is taken, in C."""
        return Unary("!", self.asked(c))


Asked = Question[L] | Among[L]
Dispatch = Asked[Generated] | Generated


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
    c = FromIsl(helpers, lambda name: name, scop.unsigned)
    text = _text(choice, c)
    asked, needed = entry_checks(narrowed.scop)
    some = expression(c(condition(_unknown(narrowed.values, scop.unsigned))))
    if asked:
        some = joined([f"({some})", *(check.condition for check in asked)])
    prologue = [piece for code in codes_of(choice) for piece in code.prologue] + helper_texts(helpers, names)
    prologue += needed
    body = f"if ({some}) {{\n{text}\n}} else {{\n{original_text(scop)}\n}}"
    return Generated(tuple(dict.fromkeys(prologue)), body)


def _unknown(values: isl.Set, unsigned: frozenset[str]) -> isl.Set:
    """What types leave open of whether the parameters are in a set: compilers warn of what always holds."""
    known = isl.Set.universe(values.get_space())
    for name in sorted(unsigned.intersection(isl.parameters(values))):
        known = known.intersect(isl.PwAff.from_aff(isl.parameter(name)).nonneg_set().params())
    return values.gist(known)


def codes_of(choice: Dispatch) -> Iterator[Generated]:
    """The code that is chosen among."""
    if isinstance(choice, Generated):
        yield choice
        return
    yield from codes_of(choice.small)
    yield from codes_of(choice.large)


def _text(choice: Dispatch, c: FromIsl) -> str:
    if isinstance(choice, Generated):
        return choice.region
    return f"if ({expression(choice.asked(c))}) {{\n{_text(choice.small, c)}\n}} else {{\n{_text(choice.large, c)}\n}}"

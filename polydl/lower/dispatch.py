"""Several pieces of code for one region, and the conditions that choose among them when it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from polydl.lower.cexpr import FromIsl, Helpers
from polydl.lower.cprint import expression
from polydl.lower.ctree import Binary, Cast, Expr, Int, plus
from polydl.lower.emit import OTHER_SIZES, Generated, helper_texts, names_for
from polydl.lower.region import original_text
from polydl.model import isl
from polydl.model.isl.trees import condition, parametric_value
from polydl.model.scop import Scop, Statement


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


def chosen_by_work(
    scop: Scop, narrowed: Narrowed, heavy: Sequence[Statement], least: float, small: Generated, large: Generated
) -> Generated:
    """`large` where the statements `heavy` have `least` instances, `small` where they have fewer, and the original
    loops for values of the parameters that the two are not made for."""
    names = names_for(scop)
    helpers = Helpers(names.prefix + OTHER_SIZES, set())
    c = FromIsl(helpers, lambda name: name)
    instances: Expr = reduce(plus, (_instances(c, statement) for statement in heavy))
    few = expression(Binary("<", instances, Int(round(least))))
    some = expression(c(condition(narrowed.values)))
    original = original_text(scop)
    text = f"if ({some}) {{\nif ({few})\n{small.region}\nelse\n{large.region}\n}} else {{\n{original}\n}}"
    prologue = (*small.prologue, *large.prologue, *helper_texts(helpers, names))
    return Generated(tuple(dict.fromkeys(prologue)), text)


def _instances(c: FromIsl, statement: Statement) -> Expr:
    """About how many instances a statement has: the product of the ranges of its loops, as a double."""
    product: Expr | None = None
    for dim in range(statement.depth):
        low, high = isl.symbolic_bounds(statement.domain, dim)
        extent = Cast("double", c(parametric_value(high.sub(low).add_constant_val(isl.value(1)))))
        product = extent if product is None else Binary("*", product, extent)
    return Int(1) if product is None else product

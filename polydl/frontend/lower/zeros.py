"""Conditions that only leave out products with zero.

    if (A[i][k] != 0)
        for (int j = 0; j < N; j++)
            C[i][j] += A[i][k] * B[k][j];

Adding such a product changes no integer. Of floats it changes what is not finite, and the sign of a zero: these
conditions are dropped with leave to take such values for others (`--fast-math`) alone.
"""

from __future__ import annotations

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.base.errors import InputError
from polydl.frontend.core.tree_parts import text_of
from polydl.frontend.lower.raw import RawAccess, RawAssignment, RawStatement
from polydl.frontend.lower.state import State
from polydl.model.combiners import adds
from polydl.model.expr import AffineValue, Binary, Const, Expr, Gather, Load, Unary, factors_of
from polydl.model.types import F32, F64, literal_value


def unskipped(node: c_ast.If, state: State) -> Node | None:
    """What an `if` runs, where it does the same with the condition as without; None for any other `if`. Notes what is
    taken for granted with that, and the stores that would not have happened."""
    if node.iffalse is not None or state.stays(node):
        return None
    body = node.iftrue
    with state.tried() as made:
        tested = _tested(node.cond, state)
        if tested is not None and not state.memory(node).changes_what_is_read(body, tested.node):
            state.branch(body)
    if tested is None or not made or not all(_adds_product(one, text_of(tested.node)) for one in made):
        return None
    symbols = [access.symbol for one in made for access in _elements(one)]
    if state.settings.fast_math and all(one.ctype in (F32, F64) for one in symbols):
        span = state.places.span(node)
        where = "the region" if span is None else f"line {span.line}"
        granted = f"what {where} leaves out where '{text_of(tested.node)}' is 0 would change nothing (--fast-math)"
        state.walked.granted.setdefault(granted, None)
        return body
    # An element that was left out might lie outside of its array; a third factor might overflow with the second.
    inside = all(level.extent is not None for one in symbols for level in one.levels)
    if not inside or not all(one.ctype.is_int for one in symbols) or any(len(_factors(one)) > 2 for one in made):
        return None
    state.walked.stores.update((id(one.node), (one.node, node)) for one in made)
    return body


def _tested(condition: Node, state: State) -> RawAccess | None:
    """What `x`, `x != 0` and `!(x == 0)` read; None for other conditions."""
    builder = state.values()
    try:
        value, _ = builder.expression(condition, state.domain)
    except InputError:
        return None
    element = _not_zero(value)
    return None if element is None else builder.accesses[element.access]


def _not_zero(value: Expr, *, negated: bool = False) -> Load | None:
    """The element that is not zero where a condition holds; None where it says something else. `negated`: where it
    does not hold."""
    match value:
        case Unary("!", operand):
            return _not_zero(operand, negated=not negated)
        case Binary("==" | "!=" as op, left, right) if negated == (op == "=="):
            for one, other in ((left, right), (right, left)):
                if isinstance(other, Const) and literal_value(other.text) == 0:
                    return _element(one)
            return None
    return None if negated else _element(value)


def _element(value: Expr) -> Load | None:
    return value.element if isinstance(value, Gather) else value if isinstance(value, Load) else None


def _factors(one: RawStatement) -> list[Expr]:
    """The factors of what an assignment adds, conversions left out."""
    assert isinstance(one.body, RawAssignment), "says `_adds_product`"
    return factors_of(one.body.value, lambda convert: True)


def _elements(one: RawStatement) -> list[RawAccess]:
    """The elements that an assignment multiplies, and the one that it adds the product to."""
    assert isinstance(one.body, RawAssignment), "says `_adds_product`"
    factors = (element.access for factor in _factors(one) if (element := _element(factor)) is not None)
    return [one.accesses[at] for at in (one.body.target, *factors)]


def _adds_product(one: RawStatement, tested: str) -> bool:
    """Whether a statement adds a product of elements and numbers, of which `tested` is a factor."""
    if not isinstance(one.body, RawAssignment) or not adds(one.body.op):
        return False
    plain = all(isinstance(factor, Load | Gather | Const | AffineValue) for factor in _factors(one))
    return plain and tested in (text_of(access.node) for access in _elements(one)[1:])

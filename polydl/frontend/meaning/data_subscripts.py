"""Subscripts that data choose, as in `x[col[k]]`: what they are made of, for the values that an index may have."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.base.records import dataclass
from polydl.frontend.meaning.affine import Evaluator, NotAffine, Value
from polydl.frontend.meaning.affine_terms import constant_aff
from polydl.model import isl


@dataclass(frozen=True, slots=True)
class Chosen:
    """A subscript that data choose: a sum of known values and of expressions as they are written."""

    terms: tuple[tuple[int, Node | Value], ...]
    """(1 or -1, a Value or a C expression)."""


Subscript = Value | Chosen


def added(left: Subscript, right: Subscript, factor: int) -> Chosen:
    """left + factor * right, factor 1 or -1, where data choose one of the two."""
    return Chosen((*_terms(left, 1), *_terms(right, factor)))


def _terms(of: Subscript, factor: int) -> tuple[tuple[int, Node | Value], ...]:
    if isinstance(of, Chosen):
        return tuple((factor * sign, term) for sign, term in of.terms)
    return () if of.constant == 0 else ((factor, of),)


@dataclass(frozen=True, slots=True)
class Form:
    """An integer as a linear function of values that are read from memory."""

    factors: Mapping[str, int]
    """By the array, scalar or loop variable that holds the value. Where it is no such function (`index[i] % n`), the
    factors of what it is made of are 1, as if it were the sum of them."""
    rest: isl.PwAff
    """What is added, a function of symbols."""

    def plus(self, other: Form, factor: int) -> Form:
        """self + factor * other."""
        factors = dict(self.factors)
        for name, own in other.factors.items():
            factors[name] = factors.get(name, 0) + factor * own
        rest = self.rest.add(other.rest.scale_val(isl.value(factor)))
        return Form({name: own for name, own in factors.items() if own}, rest)


def form_of(term: Node | Subscript, where: isl.Set, evaluator: Evaluator, named: Callable[[str], str]) -> Form:
    """The form of a Value, a Chosen or a C expression that is evaluated where `where` holds. `named` gives the array
    that a pointer of the region points into, and any other name as it is. Raises NeedsData."""

    def of(one: Node | Value) -> Form:
        return form_of(one, where, evaluator, named)

    nothing = constant_aff(0)
    if isinstance(term, Chosen):
        whole = Form({}, nothing)
        for sign, part in term.terms:
            whole = whole.plus(of(part), sign)
        return whole
    if isinstance(term, Value):
        return Form({}, nothing if term.pw is None else term.pw)
    try:
        return Form({}, evaluator.affine(term, where))
    except NotAffine:
        pass
    match term:
        case c_ast.Cast():
            return of(term.expr)
        case c_ast.UnaryOp(op="+" | "-"):
            return Form({}, nothing).plus(of(term.expr), 1 if term.op == "+" else -1)
        case c_ast.BinaryOp(op="+" | "-"):
            return of(term.left).plus(of(term.right), 1 if term.op == "+" else -1)
        case c_ast.BinaryOp(op="*"):
            left, right = of(term.left), of(term.right)
            for one, other in ((left, right), (right, left)):
                if not one.factors and one.rest.is_cst():
                    return Form({}, nothing).plus(other, isl.to_int(one.rest.max_val()))
    return Form(dict.fromkeys(map(named, _held_by(term)), 1), nothing)


def _held_by(node: Node) -> list[str]:
    """Where the values come from that an expression is made of; the subscripts of what it reads are others."""
    while isinstance(node, c_ast.ArrayRef):
        node = node.name
    if isinstance(node, c_ast.ID):
        return [str(node.name)]
    parts = node.args if isinstance(node, c_ast.FuncCall) else node
    return [name for part in parts or () for name in _held_by(part)]

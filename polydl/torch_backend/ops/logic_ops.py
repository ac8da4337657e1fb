"""Truths, element by element: comparisons, logic, bits, kinds of numbers, choices by a condition."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from polydl.model.types import BOOL
from polydl.torch_backend.formulas import binary, both, call, compare, either, is_nan, negated, select
from polydl.torch_backend.loop_index import Index
from polydl.torch_backend.loop_program import Const, Expr
from polydl.torch_backend.operator_call import At, Call, Lowered, cast, lowers
from polydl.torch_backend.ops.elementwise import common, each, operand, type_of


def _comparison(name: str, op: str) -> None:
    def lower(c: Call) -> Lowered:
        element = common(c, "self", "other")
        one, other = operand(c, "self", element), operand(c, "other", element)
        return c.pointwise(lambda index: compare(op, one(index), other(index)))

    lowers(f"{name}.Tensor", f"{name}.Scalar")(lower)


for _name, _op in (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">=")):
    _comparison(_name, _op)


def _logical(name: str, formula: Callable[[Expr, Expr], Expr]) -> None:
    def lower(c: Call) -> Lowered:
        one, other = operand(c, "self", BOOL), operand(c, "other", BOOL)
        return c.pointwise(lambda index: cast(formula(one(index), other(index)), type_of(c, c.out().dtype)))

    lowers(f"{name}.default")(lower)


_logical("logical_and", both)
_logical("logical_or", either)
_logical("logical_xor", lambda x, y: compare("!=", x, y))


@lowers("logical_not.default")
def _logical_not(c: Call) -> Lowered:
    source = operand(c, "self", BOOL)
    return c.pointwise(lambda index: cast(negated(source(index)), type_of(c, c.out().dtype)))


def _bitwise(name: str, op: str) -> None:
    names = [f"bitwise_{name}.{one}" for one in ("Tensor", "Scalar")]
    each(*names, take=("self", "other"))(lambda c, x, y: binary(op, x, y))


_bitwise("and", "&")
_bitwise("or", "|")
_bitwise("xor", "^")


@each("bitwise_not.default")
def _bitwise_not(c: Call, x: Expr) -> Expr:
    return negated(x) if x.type is BOOL else binary("^", x, -1 if not x.type.unsigned else x.type.maximum)


def _classified(name: str, formula: Callable[[Call, Expr], Expr]) -> None:
    def lower(c: Call) -> Lowered:
        source = operand(c, "self", type_of(c, c.meta("self").dtype))
        return c.pointwise(lambda index: formula(c, source(index)))

    lowers(f"{name}.default")(lower)


def _is_finite(c: Call, x: Expr) -> Expr:
    return compare("<", call("fabs", x), inf) if x.type.is_float else Const(True, BOOL)


_classified("isnan", lambda c, x: is_nan(c.w.let(x)) if x.type.is_float else Const(False, BOOL))
_classified("isinf", lambda c, x: compare("==", call("fabs", x), inf) if x.type.is_float else Const(False, BOOL))
_classified("isfinite", _is_finite)


@lowers("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def _where(c: Call) -> Lowered:
    element = type_of(c, c.out().dtype)
    names = [operand(c, "condition", BOOL), operand(c, "self", element), operand(c, "other", element)]
    return c.pointwise(lambda index: chosen(c, names[0], names[1], names[2], index))


def chosen(c: Call, condition: At, one: At, other: At, index: tuple[Index, ...]) -> Expr:
    """`one` where the condition holds, else `other`: both can be had, whatever it is."""
    return select(condition(index), one(index), other(index))


@lowers("masked_fill.Scalar", "masked_fill.Tensor")
def _masked_fill(c: Call) -> Lowered:
    element = type_of(c, c.out().dtype)
    mask, value, source = operand(c, "mask", BOOL), operand(c, "value", element), operand(c, "self", element)
    return c.pointwise(lambda index: chosen(c, mask, value, source, index))

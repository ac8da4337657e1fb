"""Right-hand sides over narrow types with all of C's conversions in the expression, and what type a row computes in."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from polydl.kernels.vector_text import NotVectorised
from polydl.model.conversions import converted, explicit, with_float_arguments
from polydl.model.expr import (
    AffineValue,
    Binary,
    Call,
    Conditional,
    Const,
    Convert,
    Expr,
    Unary,
    calls,
    constant_number,
    on_operands,
    operands,
)
from polydl.model.functions import function_of
from polydl.model.scop import Assignment
from polydl.model.types import (
    BF16,
    BF16_BITS,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    U8,
    U16,
    U32,
    ElementType,
    common,
    float_literal,
    literal_value,
)

HALVES = (F16, BF16, BF16_BITS)
SMALL = (I8, U8, I16, U16, I32)
"""Integers that are 32 bits wide in a vector."""
FLOATS = (F32, *HALVES)
TRUTHS = ("<", "<=", ">", ">=", "==", "!=", "&&", "||")


def row_element(types: Iterable[ElementType]) -> ElementType:
    """The type that a row computes in: float where all others are narrow, else the widest of all."""
    found = list(types)
    if all(t in (F32, *HALVES, *SMALL) for t in found) and any(t in FLOATS for t in found):
        return F32
    return max(found, key=lambda t: (t.is_float, t.bytes))


def converts(types: Iterable[ElementType]) -> bool:
    """Whether a row on arrays of these types is one of floats that converts."""
    found = set(types)
    return found != {F32} and row_element(found) is F32


def takes_bits(values: Iterable[Expr]) -> bool:
    """Whether expressions take the bits of floats, or make floats of them."""
    rows = (function_of(name) for value in values for name in calls(value))
    return any(row is not None and row.bits_of in (F32, U32) for row in rows)


def stored_value(body: Assignment, of: Callable[[int], ElementType]) -> Expr:
    """The value with all of C's conversions, up to the one that its store does. Raises NotVectorised for sums in other
    types than float."""
    value, made = explicit(body.value, of)
    value = with_float_arguments(value, of)
    target = of(body.target)
    if body.op == "=":
        return simplified(converted(value, made, target))
    if target is not F32 or common(made, target) is not F32:
        raise NotVectorised(f"a sum in {common(made, target)}")
    return simplified(converted(value, made, F32))


def simplified(value: Expr) -> Expr:
    """The same value with fewer conversions to double and back: of what is compared or chosen, not computed with."""
    value = on_operands(value, simplified)
    match value:
        case Convert(source, target, operand) if source is F64 and target is F32:
            match operand:
                case Convert(inner, _, narrow) if inner is F32:
                    return narrow
                case Conditional(condition, then, otherwise):
                    first, second = (simplified(Convert(F64, F32, one)) for one in (then, otherwise))
                    return Conditional(condition, first, second)
        case Binary(op, left, right) if op in TRUTHS and _as_float(left) and _as_float(right):
            sides = [one.operand if isinstance(one, Convert) else Convert(F64, F32, one) for one in (left, right)]
            return Binary(op, *sides)
    return value


def _as_float(value: Expr) -> bool:
    """Whether a value in double is a float, or a literal that is one."""
    match value:
        case Convert(source, target, _):
            return source is F32 and target is F64
        case Const(text) | Unary("-", Const(text)) if float_literal(text) is F64:
            try:
                return float(np.float32(float(text))) == float(text)
            except ValueError:
                return False
        case _:
            return False


def is_truth(value: Expr) -> bool:
    """Whether an expression is 1 or 0, what C makes of a condition."""
    return isinstance(value, Binary | Unary) and value.op in (*TRUTHS, "!")


def literal(value: Expr) -> str | None:
    match value:
        case Const(text):
            return text
        case Unary("-", Const(text)):
            return f"-{text}"
        case AffineValue():
            number = constant_number(value)
            return None if number is None else str(number)
        case _:
            return None


def is_number(value: Expr) -> bool:
    """Whether a float is never NaN: what fmaxf and fminf make of one and a number is the number."""
    row = function_of(value.function) if isinstance(value, Call) else None
    limits = isinstance(value, Call) and row is not None and row.chooses and value.function == row.of(F32)
    return limits and any(number_of(one) is not None for one in operands(value))


def number_of(value: Expr) -> float | None:
    """The number that a literal stands for, through conversions."""
    while isinstance(value, Convert):
        value = value.operand
    if isinstance(value, AffineValue):
        return constant_number(value)
    text = literal(value)
    return None if text is None else literal_value(text)

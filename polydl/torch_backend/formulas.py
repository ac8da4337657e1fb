"""Short names for values that operators compute (`loop_program.Expr`)."""

from __future__ import annotations

from math import inf, nan

from polydl.model.types import BOOL, I32, I64, ElementType
from polydl.torch_backend.loop_index import Index
from polydl.torch_backend.loop_program import At, Const, Expr, Inside, Op

Value = Expr | int | float


def _typed(value: Value, element: ElementType) -> Expr:
    return Const(value, element) if isinstance(value, int | float) else value


def _joint(*values: Value) -> ElementType:
    return next(one.type for one in values if not isinstance(one, int | float))


def binary(op: str, one: Value, other: Value) -> Expr:
    """`one op other`, of one type; a number has that of the other."""
    element = _joint(one, other)
    return Op(op, (_typed(one, element), _typed(other, element)), element)


def add(one: Value, other: Value) -> Expr:
    return binary("+", one, other)


def sub(one: Value, other: Value) -> Expr:
    return binary("-", one, other)


def mul(one: Value, other: Value) -> Expr:
    return binary("*", one, other)


def div(one: Value, other: Value) -> Expr:
    return binary("/", one, other)


def neg(one: Expr) -> Expr:
    return Op("-", (one,), one.type)


def compare(op: str, one: Value, other: Value) -> Expr:
    element = _joint(one, other)
    return Op(op, (_typed(one, element), _typed(other, element)), BOOL)


def both(one: Expr, other: Expr) -> Expr:
    return Op("&&", (one, other), BOOL)


def either(one: Expr, other: Expr) -> Expr:
    return Op("||", (one, other), BOOL)


def negated(one: Expr) -> Expr:
    return Op("!", (one,), BOOL)


def call(function: str, *args: Value) -> Expr:
    """A function of C's library by its name for doubles."""
    element = _joint(*args)
    return Op(function, tuple(_typed(one, element) for one in args), element)


def select(condition: Expr, one: Value, other: Value) -> Expr:
    element = _joint(one, other)
    return Op("?:", (condition, _typed(one, element), _typed(other, element)), element)


def greater(one: Value, other: Value) -> Expr:
    """The greater of two, and NaN if `one` is NaN (of `other` only in C's order: `one > NaN` does not hold)."""
    return select(compare("<", one, other), other, one)


def lesser(one: Value, other: Value) -> Expr:
    return select(compare(">", one, other), other, one)


def inside(*tests: Index) -> Expr | None:
    """Whether all of several indices are at least 0; None where they always are."""
    open_tests = tuple(one for one in tests if one.range[0] < 0)
    return Inside(open_tests) if open_tests else None


def position(index: Index, element: ElementType) -> Expr:
    """An index as a value."""
    low, high = index.range
    from_int = At(index, I32 if I32.minimum <= low and high <= I32.maximum else I64)
    return from_int if element is from_int.type else Op("cast", (from_int,), element)


def is_nan(one: Expr) -> Expr:
    return compare("!=", one, one)


def lowest(element: ElementType) -> float | int:
    """Below or equal to every number of a type."""
    return -inf if element.is_float else element.minimum


def highest(element: ElementType) -> float | int:
    return inf if element.is_float else element.maximum


NAN = nan

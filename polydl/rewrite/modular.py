"""Integer expressions as sums of products of what they load, modulo 2^32."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

from polydl.model.conversions import explicit
from polydl.model.expr import AffineValue, Binary, Const, Convert, Expr, Load, Unary, constant_number
from polydl.model.polynomials import poly_add, poly_mul
from polydl.model.types import I32, U32, ElementType, integer_literal

Products = Mapping[tuple[int, ...], int]
"""A sum of products: by the accesses whose values are multiplied, sorted, the factor before them, not 0. No access: a
number."""
Interval = tuple[int, int]
"""Least and greatest value."""

MOST = 16
"""Products in a sum at most. (A - a) * (B - b) has four."""


def products(value: Expr, of: Callable[[int], ElementType]) -> Products | None:
    """The sum that an expression of integers is modulo 2^32; None for others, and for long sums.

    C's arithmetic on integers of 32 bits or more gives this, whatever types are in between: for unsigned ones by
    definition, for signed ones wherever it has a meaning. A conversion to less bits must change no value.
    """
    value, made = explicit(value, of)
    found = _sum(value, of) if made.is_int else None
    return found if found is None or len(found) <= MOST else None


def _sum(value: Expr, of: Callable[[int], ElementType]) -> Products | None:
    match value:
        case Load(access):
            return {(access,): 1} if of(access).is_int else None
        case Const() | AffineValue():
            number = _number(value)
            return None if number is None else {(): number} if number else {}
        case Unary("+" | "-" as op, operand):
            inner = _sum(operand, of)
            return None if inner is None else {f: -n if op == "-" else n for f, n in inner.items()}
        case Binary("+" | "-" | "*" as op, left, right):
            one, two = _sum(left, of), _sum(right, of)
            if one is None or two is None:
                return None
            return poly_mul(one, two) if op == "*" else poly_add(one, two, -1 if op == "-" else 1)
        case Convert(source, target, operand) if source.is_int and target.is_int:
            if target.bits < I32.bits and not target.holds(source):
                ends = _interval(operand, of)
                if ends is None or not _holds(target, ends):
                    return None
            return _sum(operand, of)
        case _:
            return None


def _number(value: Const | AffineValue) -> int | None:
    if isinstance(value, AffineValue):
        return constant_number(value)
    found = integer_literal(value.text)
    return None if found is None else found[0]


def _interval(value: Expr, of: Callable[[int], ElementType]) -> Interval | None:
    """Between which values an expression is, by the types of what it loads; None where these do not say it, or where
    its arithmetic may wrap around."""
    match value:
        case Load(access):
            return _ends(of(access))
        case Const() | AffineValue():
            number = _number(value)
            return None if number is None else (number, number)
        case Unary("-", operand):
            inner = _interval(operand, of)
            return None if inner is None else (-inner[1], -inner[0])
        case Binary("+" | "-" | "*" as op, left, right):
            a, b = _interval(left, of), _interval(right, of)
            if a is None or b is None:
                return None
            if op == "-":
                b = (-b[1], -b[0])
            corners = [x * y if op == "*" else x + y for x in a for y in b]
            found = min(corners), max(corners)
            return found if _holds(I32, found) else None
        case Convert(_, target, operand):
            inner = _interval(operand, of)
            return inner if inner is not None and _holds(target, inner) else None
        case _:
            return None


def _ends(element: ElementType) -> Interval | None:
    if not element.is_int:
        return None
    return (0 if element.unsigned else -element.maximum - 1, element.maximum)


def _holds(element: ElementType, ends: Interval) -> bool:
    own = _ends(element)
    return own is not None and own[0] <= ends[0] and ends[1] <= own[1]


def unsigned_sum(terms: Mapping[tuple[Expr, ...], int], start: Expr | None = None) -> Expr:
    """`(int)(start + n * f * g + …)` in the arithmetic of unsigned int: by factors, which are of that type, the number
    before them; at least one."""

    def term(factors: tuple[Expr, ...], number: int) -> Expr:
        parts = [*([] if number == 1 and factors else [Const(f"{number % 2**32}u")]), *factors]
        return reduce(lambda left, right: Binary("*", left, right), parts)

    written = [*([] if start is None else [start]), *(term(factors, number) for factors, number in terms.items())]
    return Convert(U32, I32, reduce(lambda left, right: Binary("+", left, right), written))

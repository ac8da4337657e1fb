"""C's own conversions made explicit: what `a * b` means where the types of a and b differ (C11 6.3.1.8)."""

from __future__ import annotations

from collections.abc import Callable

from polydl.base.records import dataclass
from polydl.model.expr import (
    AffineValue,
    Binary,
    Call,
    Conditional,
    Const,
    Convert,
    Expr,
    Gather,
    Load,
    Unary,
    every_part,
    on_operands,
)
from polydl.model.functions import function_of
from polydl.model.types import (
    C64,
    F32,
    I32,
    TYPES,
    ElementType,
    Kind,
    common,
    evaluated,
    float_literal,
    integer_literal,
    promoted,
)

TRUTHS = frozenset({"<", "<=", ">", ">=", "==", "!=", "&&", "||"})
"""Operators whose result is 0 or 1."""


def explicit(
    value: Expr,
    of_load: Callable[[int], ElementType],
    arithmetic: Callable[[ElementType], ElementType] = evaluated,
) -> tuple[Expr, ElementType]:
    """An expression with a Convert wherever C converts an operand, and the type that it is evaluated in.

    before:    C[i][j] + 2 * A[i]             double C, signed char A
    after:     C[i][j] + (double)(2 * (int)A[i])
    `of_load` is the element type of what an access reads, `arithmetic` what a type is computed in. Arguments of calls
    and subscripts are left as they are.
    """

    def typed(one: Expr) -> tuple[Expr, ElementType]:
        return explicit(one, of_load, arithmetic)

    match value:
        case Load(access):
            return value, of_load(access)
        case Gather(Load(access)):
            return value, of_load(access)
        case Const(text):
            return value, _literal(text)
        case AffineValue():
            return value, I32
        case Unary(op, operand):
            inner, element = typed(operand)
            if op == "!":
                return Unary(op, inner), I32
            made = arithmetic(promoted(element))
            return Unary(op, converted(inner, element, made)), made
        case Binary("<<" | ">>" as op, left, right):
            (a, first), (b, second) = typed(left), typed(right)
            a, b = converted(a, first, promoted(first)), converted(b, second, promoted(second))
            return Binary(op, a, b), promoted(first)
        case Binary(op, left, right):
            (a, first), (b, second) = typed(left), typed(right)
            both = arithmetic(common(first, second))
            if op not in ("&&", "||"):
                a, b = converted(a, first, both), converted(b, second, both)
            return Binary(op, a, b), I32 if op in TRUTHS else both
        case Conditional(condition, then, otherwise):
            (a, first), (b, second) = typed(then), typed(otherwise)
            both = common(first, second)
            return Conditional(typed(condition)[0], converted(a, first, both), converted(b, second, both)), both
        case Call():
            return on_operands(value, lambda one: typed(one)[0]), value.element
        case Convert(_, target, operand):
            inner, source = typed(operand)
            return Convert(source, target, inner), target


def with_float_arguments(value: Expr, of_load: Callable[[int], ElementType]) -> Expr:
    """The value, whose functions of floats are given floats: C converts the arguments as it calls them.

    before:    fmaxf(m, X[i][j])              float m, _Float16 X
    after:     fmaxf(m, (float)X[i][j])
    """
    value = on_operands(value, lambda one: with_float_arguments(one, of_load))
    row = function_of(value.function) if isinstance(value, Call) else None
    if row is None or not isinstance(value, Call) or value.function != row.of(F32):
        return value
    return on_operands(value, lambda one: converted(one, explicit(one, of_load)[1], F32))


def converted(value: Expr, source: ElementType, target: ElementType) -> Expr:
    """The value in the target's type: itself where it is of that type."""
    return value if source is target else Convert(source, target, value)


def complex_products(value: Expr, of_load: Callable[[int], ElementType]) -> list[Binary]:
    """The products of two complex numbers in an expression."""

    def is_complex(one: Expr) -> bool:
        return explicit(one, of_load)[1].kind is Kind.COMPLEX

    products = (part for part in every_part(value) if isinstance(part, Binary) and part.op == "*")
    return [one for one in products if is_complex(one.left) and is_complex(one.right)]


@dataclass(frozen=True, slots=True)
class Step:
    """What C writes in front of an operand in parentheses, to convert it."""

    name: str
    """Of a type, for a cast, or of a function."""
    call: bool = False


def steps(source: ElementType, target: ElementType) -> tuple[Step, ...]:
    """How C converts a value, the first step first: by a cast, or by functions of polydl.h where a type has those."""
    found = []
    if source.through is not None and source is not target:
        found, source = [Step(source.through[1], call=True)], F32
    if target.through is not None and source is not target:
        return (*found, *steps(source, F32)[: source is not F32], Step(target.through[0], call=True))
    return (*found, Step(target.c)) if source is not target or not found else tuple(found)


def conversion_of(function: str) -> tuple[ElementType, ElementType] | None:
    """What a function of polydl.h converts, source and target; None for others."""
    for row in TYPES:
        if row.through is not None and function in row.through:
            return (F32, row) if function == row.through[0] else (row, F32)
    return None


def _literal(text: str) -> ElementType:
    """The type of a literal, or of a macro of <math.h>, <complex.h> or <float.h> or a character that stands for one."""
    if text in ("I", "_Complex_I"):
        return C64
    real = float_literal(text)
    if real is not None:
        return real
    whole = integer_literal(text.lstrip("+-"))
    return I32 if whole is None else whole[1]

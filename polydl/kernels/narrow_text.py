"""Right-hand sides that convert, as operations on vectors: rows of floats whose arrays hold halves, bfloat16, integers.

A vector of a narrow type has as many lanes as one of floats: a half or bfloat16 as the float that it is, an integer in
the 32 bits that C promotes it to. So loads and stores change the width, and conversions only what C changes: a float
becomes the nearest bfloat16, an integer wraps around. Conversions stand in the expression (`stored_value`), C's own
among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np

from polydl.kernels.microkernel import environment
from polydl.kernels.vector_text import NotVectorised, Vectors
from polydl.model.conversions import converted, explicit
from polydl.model.expr import (
    AffineValue,
    Binary,
    Call,
    Conditional,
    Const,
    Convert,
    Expr,
    Load,
    Unary,
    constant_number,
    on_operands,
)
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
    ElementType,
    common,
    float_literal,
    integer_literal,
)

HALVES = (F16, BF16, BF16_BITS)
SMALL = (I8, U8, I16, U16, I32)
"""Integers that are 32 bits wide in a vector."""
_FLOATS = (F32, *HALVES)
_OPERATORS = ("+", "-", "*", "&", "|", "^")
_TRUTHS = ("<", "<=", ">", ">=", "==", "!=", "&&", "||")
_ROUNDING = {"lrintf": "lrint"}
"""Functions of <math.h> from a float to a long, and the vector function that gives the same below 2^31."""
_WHOLE = {"rintf": "rint", "nearbyintf": "nearbyint"}
"""Functions of <math.h> that round to whole numbers."""


def row_element(types: Iterable[ElementType]) -> ElementType:
    """The type that a row computes in: float where all others are narrow, else the widest of all."""
    found = list(types)
    if all(t in (F32, *HALVES, *SMALL) for t in found) and any(t in _FLOATS for t in found):
        return F32
    return max(found, key=lambda t: (t.is_float, t.bytes))


def converts(types: Iterable[ElementType]) -> bool:
    """Whether a row on arrays of these types is one of floats that converts."""
    found = set(types)
    return found != {F32} and row_element(found) is F32


@cache
def narrow_prologue() -> str:
    """Loads, stores and conversions, with an include guard; after `vector_text.math_prologue` of float."""
    return environment().get_template("row_narrow.c.j2").render()


def register(element: ElementType) -> str:
    """The C type of a vector of a narrow type."""
    return f"polydl_{F32.name}_bits" if element.is_int else f"polydl_{F32.name}"


def fetched(element: ElementType, address: str) -> str:
    """C of a vector loaded from an address in the function of a row, whole or in `part`."""
    name = f"polydl_{F32.name}_load_{element.name}"
    return f"(cut ? {name}_part({address}, part) : {name}({address}))"


def everywhere(element: ElementType, scalar: str) -> str:
    """C of a vector with a variable in all lanes."""
    if element.is_int:
        return f"polydl_{F32.name}_{I32.name}_all({scalar})"
    return f"polydl_{F32.name}_all_{element.name}(&{scalar})"


def stored_value(body: Assignment, of: Callable[[int], ElementType]) -> Expr:
    """The value with all of C's conversions, up to the one that its store does. Raises NotVectorised for sums in other
    types than float."""
    value, made = explicit(body.value, of)
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
                    arms = (simplified(Convert(F64, F32, one)) for one in (then, otherwise))
                    return Conditional(condition, *arms)
        case Binary(op, left, right) if op in _TRUTHS and _as_float(left) and _as_float(right):
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


@dataclass(frozen=True, slots=True)
class Narrow(Vectors):
    """How a right-hand side is printed whose conversions are explicit."""

    of: Callable[[int], ElementType] = lambda access: F32
    """Element type of what an access reads."""

    def made(self, value: Expr) -> ElementType:
        """The type of a value."""
        match value:
            case Load(access):
                return self.of(access)
            case Const(text):
                whole = integer_literal(text.lstrip("+-"))
                return float_literal(text) or (I32 if whole is None else whole[1])
            case Unary("!", _):
                return I32
            case Binary(op, _, _) if op in _TRUTHS:
                return I32
            case Unary(_, operand) | Binary(_, operand, _) | Conditional(_, operand, _):
                return self.made(operand)
            case Convert(_, target, _):
                return target
            case Call():
                return value.element
            case AffineValue() if constant_number(value) is not None:
                return I32
            case _:
                raise NotVectorised("a value of another kind")

    def text(self, value: Expr) -> str:
        """C text of a vector. Raises NotVectorised."""
        made = self.made(value)
        match value:
            case Convert():
                return self._converted(value)
            case Load(access) if made is F32 or made in (BF16, BF16_BITS, *SMALL):
                return self.load(access)
            case Conditional() if made in (F32, BF16, BF16_BITS):
                return self._conditional(value.condition, value.then, value.otherwise)
            case Call(function, (x,)) if function in _WHOLE:
                return f"{self.prefix}_{_WHOLE[function]}({self.text(converted(x, self.made(x), F32))})"
        if made is F32:
            return Vectors.text(self, value)  # its operands are floats too
        if made is I32:
            return self._integer(value)
        raise NotVectorised(f"arithmetic in {made}")

    def _integer(self, value: Expr) -> str:
        match value:
            case Const(text):
                return f"{self.prefix}_{I32.name}_all({text})"
            case AffineValue() if (number := constant_number(value)) is not None:
                return f"{self.prefix}_{I32.name}_all({number})"
            case Unary("-" | "+" | "~" as op, operand):
                return f"({op}{self.text(operand)})"
            case Binary(op, left, right) if op in _OPERATORS:
                return f"({self.text(left)} {op} {self.text(right)})"
        raise NotVectorised("an operation on integers")

    def _converted(self, value: Convert) -> str:
        source, target, operand = value.source, value.target, value.operand
        if source is target:
            return self.text(operand)
        if target is F32 and (number := _literal(operand)) is not None:
            own = number if source.is_int else f"({F32}){number}"
            return f"{self.prefix}_all({own})"
        if isinstance(operand, Call) and operand.function in _ROUNDING and target in (*SMALL, F32):
            (x,) = operand.arguments
            if not _bounded(x):
                raise NotVectorised(f"{operand.function} of a value without bounds (clamp it before)")
            inner = f"{self.prefix}_{_ROUNDING[operand.function]}({self.text(converted(x, self.made(x), F32))})"
        elif not _direct(source, target):
            raise NotVectorised(f"a conversion of {source} to {target}")
        else:
            inner = self.load(operand.access) if isinstance(operand, Load) else self.text(operand)
        return f"{self.prefix}_convert_{source.name}_{target.name}({inner})"

    def _arm(self, value: Expr) -> str:
        return self.text(value)

    def _call(self, function: str, arguments: tuple[Expr, ...]) -> str:
        # `explicit` leaves arguments as they are; every parameter of these functions is a float.
        return Vectors._call(self, function, tuple(converted(one, self.made(one), F32) for one in arguments))

    def _test(self, condition: Expr) -> str:
        if isinstance(condition, Binary) and condition.op not in ("&&", "||"):
            if self.made(condition.left) not in _FLOATS or F16 in (self.made(condition.left),):
                raise NotVectorised("a comparison of integers")
        return Vectors._test(self, condition)


def _literal(value: Expr) -> str | None:
    match value:
        case Const(text):
            return text
        case Unary("-", Const(text)):
            return f"-{text}"
        case AffineValue() if (number := constant_number(value)) is not None:
            return str(number)
        case _:
            return None


def _direct(source: ElementType, target: ElementType) -> bool:
    """Whether one step leads from a type to another."""
    if F32 in (source, target):
        return source in (*_FLOATS, *SMALL) and target in (*_FLOATS, *SMALL)
    return source in SMALL and target in SMALL


def _bounded(value: Expr) -> bool:
    """Whether a float is between two literals, so that it is a number of 32 bits: the outer function decides about one
    side, the inner one about the other, and each makes a number of NaN."""
    sides = set()
    while isinstance(value, Call) and value.function in ("fmaxf", "fminf"):
        left, right = value.arguments
        literal = [_number(one) for one in (left, right)]
        if (literal[0] is None) == (literal[1] is None):
            return False
        bound, value_ = (literal[1], left) if literal[0] is None else (literal[0], right)
        if bound is None or abs(bound) >= 2.0**31:
            return False
        sides.add(value.function)
        value = value_
    return len(sides) == 2


def _number(value: Expr) -> float | None:
    """The number that a literal stands for, through conversions."""
    while isinstance(value, Convert):
        value = value.operand
    text = _literal(value)
    if text is None:
        return None
    try:
        return float(text.rstrip("fFlLuU"))
    except ValueError:
        return None

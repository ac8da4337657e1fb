"""Right-hand sides that convert, as operations on vectors: rows of floats whose arrays hold halves, bfloat16, integers.

A vector of a narrow type has as many lanes as one of floats: a half or bfloat16 as the float that it is, an integer in
the 32 bits that C promotes it to. So loads and stores change the width, and conversions only what C changes: a float
becomes the nearest bfloat16, an integer wraps around. Conversions stand in the expression (`stored_value`), C's own
among them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

from polydl.base.records import dataclass
from polydl.kernels.microkernel import environment
from polydl.kernels.narrow_values import FLOATS, HALVES, SMALL, TRUTHS, is_number, literal, number_of
from polydl.kernels.short_functions import shortened
from polydl.kernels.vector_text import NotVectorised, Vectors
from polydl.model.combiners import FMAX, of_function
from polydl.model.conversions import converted
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
)
from polydl.model.functions import Function, function_of
from polydl.model.types import (
    BF16,
    BF16_BITS,
    BOOL,
    F32,
    I8,
    I16,
    I32,
    I64,
    LONG_LONG,
    U8,
    U16,
    U32,
    ElementType,
    float_literal,
    integer_literal,
)

_OPERATORS = ("+", "-", "*", "&", "|", "^")
_UNSIGNED: Mapping[str, str] = {
    "+": "add", "-": "sub", "*": "mul", "<<": "shl", ">>": "shr", "<": "lt", "<=": "le", ">": "gt", ">=": "ge",
}  # fmt: skip
"""Operators that are others on unsigned numbers of 32 bits, or that C defines for these alone."""
_WORDS = (I32, U32)
_LONGS = (I64, LONG_LONG)
Ends = tuple[float, float]
"""Least and greatest value."""


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
            case AffineValue():
                return I32
            case Unary("!", _):
                return I32
            case Binary(op, _, _) if op in TRUTHS:
                return I32
            case Unary(_, operand) | Binary(_, operand, _) | Conditional(_, operand, _):
                return self.made(operand)
            case Convert(_, target, _):
                return target
            case Call():
                return value.element
            case _:
                raise NotVectorised("a value of another kind")

    def is_vector(self, value: Expr) -> bool:
        """Whether the value of an operation is in a vector of its own: not that of a comparison, or of a wider one."""
        truth = value.op if isinstance(value, Unary | Binary) else ""
        return truth not in (*TRUTHS, "!") and self.made(value) in (F32, *SMALL)

    def text(self, value: Expr) -> str:
        """C text of a vector. Raises NotVectorised."""
        if self.names and value in self.names:
            return self.names[value]
        made = self.made(value)
        match value:
            case Convert():
                return self._converted(value)
            case Load(access) if made is F32 or made in (BF16, BF16_BITS, *SMALL):
                return self.load(access)
            case Conditional() if made in (F32, BF16, BF16_BITS):
                return self._conditional(value.condition, value.then, value.otherwise)
            case Call(function, (x,)) if (bits := _of_bits(function)) is not None:
                name = "of_bits" if bits is U32 else "to_bits"
                return f"{self.prefix}_{name}({self.text(converted(x, self.made(x), bits))})"
            case Call(function, (x,)) if (row := _of_floats(function)) is not None and row.whole and row.vector:
                return f"{self.prefix}_{row.vector.name}({self.text(converted(x, self.made(x), F32))})"
        if made is F32:
            return Vectors.text(self, value)  # its operands are floats too
        if made in _WORDS:
            return self._integer(value, made)
        raise NotVectorised(f"arithmetic in {made}")

    def _integer(self, value: Expr, made: ElementType) -> str:
        match value:
            case Const(text):
                return f"{self.prefix}_{made.name}_all({text})"
            case AffineValue() if (number := constant_number(value)) is not None:
                return f"{self.prefix}_{I32.name}_all({number})"
            case Load(access) if made is U32:
                return self.load(access)
            case Unary("-" | "+" | "~" as op, operand) if made is I32:
                return f"({op}{self.text(operand)})"
            case Unary("~", operand):
                return f"(~{self.text(operand)})"
            case Unary("-", operand):
                return f"{self.prefix}_{U32.name}_neg({self.text(operand)})"
            case Binary(op, left, right) if op in _OPERATORS:
                return self._operation(op, self.text(left), self.text(right), made)
            case Binary("<<" | ">>" as op, left, right):
                return self._operation(op, self.text(left), self.text(right), made)
            case Conditional(condition, then, otherwise):
                return self._chosen(condition, then, otherwise)
            case Unary("!", _):
                return self._chosen(value, Const("1"), Const("0"))
            case Binary(op, _, _) if op in TRUTHS:
                return self._chosen(value, Const("1"), Const("0"))
        raise NotVectorised("an operation on integers")

    def _operation(self, op: str, left: str, right: str, made: ElementType) -> str:
        """Of 32 bits; modulo 2^32 where it is one of unsigned numbers."""
        named = _UNSIGNED.get(op) if made is U32 else None
        return f"({left} {op} {right})" if named is None else f"{self.prefix}_{U32.name}_{named}({left}, {right})"

    def _chosen(self, condition: Expr, then: Expr, otherwise: Expr) -> str:
        """`condition ? then : otherwise` of integers that are compared as such."""
        one, two = self.text(then), self.text(otherwise)
        ordered = isinstance(condition, Binary) and condition.op in ("<", "<=", ">", ">=")
        if ordered and isinstance(condition, Binary) and self.made(condition.left) not in (*_LONGS, U32, *FLOATS):
            sides = self._side(condition.left), self._side(condition.right)
            if {*sides} == {one, two}:
                greater = (condition.op in (">", ">=")) == (sides[0] == one)
                return f"{self.prefix}_{I32.name}_{'max' if greater else 'min'}({one}, {two})"
        return f"{self.prefix}_{I32.name}_select({self._holds(condition)}, {one}, {two})"

    def _holds(self, condition: Expr) -> str:
        """Lanes of ones where a condition on integers holds."""
        match condition:
            case Binary(op, left, right) if op in ("<", "<=", ">", ">=", "==", "!="):
                if self.made(left) in _LONGS:
                    return f"{self.prefix}_long_i32({self._long(left)} {op} {self._long(right)})"
                if self.made(left) is U32:
                    return self._operation(op, self.text(left), self.text(right), U32)
                if self.made(left) in FLOATS:
                    return f"{self.prefix}_held({self.test(condition)})"
                return f"({self._side(left)} {op} {self._side(right)})"
            case Convert(_, target, inner) if target is BOOL or (target is I32 and self.made(inner) is BOOL):
                return self._holds(inner)
            case Binary("&&" | "||" as op, left, right):
                return f"({self._holds(left)} {op[0]} {self._holds(right)})"
            case Unary("!", operand):
                return f"(~{self._holds(operand)})"
        raise NotVectorised("a condition on integers that is no comparison")

    def _side(self, value: Expr) -> str:
        """An operand of a comparison of integers."""
        made = self.made(value)
        if made is not I32 and not (made in SMALL and isinstance(value, Convert)):
            raise NotVectorised(f"a comparison of {made}")
        return self.text(value)

    def _low(self, value: Expr, *, narrow: bool = False) -> str:
        """The lower 32 bits of a long. `narrow`: only the lower 16 count, which are zeros in what C's functions, and
        those on vectors, make of NaN."""
        match value:
            case Call(function, (x,)) if (row := _of_floats(function)) is not None and row.word:
                form = "" if self._is_small(x) and (narrow or is_number(x)) else "_wide"
                return f"{self.prefix}_{row.word}{form}({self.text(converted(x, self.made(x), F32))})"
            case Convert(source, target, operand) if target is I64 and source in (*SMALL, U32):
                return self.text(operand)
            case Const(text) if integer_literal(text) is not None:
                return f"{self.prefix}_{I32.name}_all((int){text})"
            case Unary("-", operand):
                zero = f"{self.prefix}_{I32.name}_all(0)"
                return self._operation("-", zero, self._low(operand), U32)
            case Binary(op, left, right) if op in _OPERATORS:
                return self._operation(op, self._low(left), self._low(right), U32)
        raise NotVectorised("arithmetic in long")

    def _long(self, value: Expr) -> str:
        """A vector of longs, twice as wide as one of floats."""
        match value:
            case Convert(source, target, operand) if target is I64 and source in SMALL:
                return f"{self.prefix}_i32_long({self.text(operand)})"
            case Const(text) if integer_literal(text) is not None:
                return f"{self.prefix}_long_all({text})"
            case Convert(source, target, operand) if source.is_int and target is I64 and number_of(operand) is not None:
                return f"{self.prefix}_long_all({literal(operand)})"
            case Convert(source, target, operand) if {source, target} == {I64, LONG_LONG} or source is target:
                return self._long(operand)
            case Unary("-", operand):
                return f"(-{self._long(operand)})"
            case Binary(op, left, right) if op in _OPERATORS:
                return f"({self._long(left)} {op} {self._long(right)})"
            case Binary("/", left, right) if (bits := _power_of_two(right)) is not None:
                # C cuts off towards zero.
                x = self._long(left)
                return f"(({x} + (({x} >> 63) & {(1 << bits) - 1})) >> {bits})"
            case Binary("<<" | ">>" as op, left, right) if self.made(right) in (I32, I64):
                by = self._long(converted(right, self.made(right), I64))
                return f"({self._long(left)} {op} {by})"
            case Conditional(Binary(op, left, right), then, otherwise) if op in ("<", "<=", ">", ">=", "==", "!="):
                ones = f"({self._long(left)} {op} {self._long(right)})"
                return f"{self.prefix}_long_select({ones}, {self._long(then)}, {self._long(otherwise)})"
        raise NotVectorised("arithmetic in long")

    def _is_small(self, value: Expr) -> bool:
        """Whether a float is below 2^31, if it is a number: below half of that, for sums are rounded."""
        ends = self._between(value, {})
        return ends is not None and max(map(abs, ends)) < 2.0**30

    def _between(self, value: Expr, known: Mapping[str, Ends]) -> Ends | None:
        """Between which numbers a float is that is one; None: not known. `known`: the same of some texts."""
        found = self._ends(value, known)
        try:
            more = known.get(self.text(converted(value, self.made(value), F32)))
        except NotVectorised:
            return found
        if more is None or found is None:
            return more or found
        return max(found[0], more[0]), min(found[1], more[1])

    def _ends(self, value: Expr, known: Mapping[str, Ends]) -> Ends | None:
        number = number_of(value)
        if number is not None:
            return number, number
        match value:
            case Convert(source, _, _) if source in (I8, U8, I16, U16):
                return (0.0 if source.unsigned else -source.maximum - 1.0), float(source.maximum)
            case Convert(_, target, operand) if target.is_float:
                return self._between(operand, known)
            case Call(function, (x,)) if (row := _of_floats(function)) is not None and row.whole:
                ends = self._between(x, known)
                return ends and (ends[0] - 1, ends[1] + 1)
            case Call(function, (x, y)) if (row := _of_floats(function)) is not None and row.chooses:
                greatest = of_function(function) is FMAX
                one, two = self._between(x, known), self._between(y, known)
                if one is None or two is None:
                    some = one or two or (-math.inf, math.inf)
                    return (some[0], math.inf) if greatest else (-math.inf, some[1])
                take = max if greatest else min
                return take(one[0], two[0]), take(one[1], two[1])
            case Binary("+" | "-" as op, left, right):
                one, two = self._between(left, known), self._between(right, known)
                if one is None or two is None:
                    return None
                return (one[0] + two[0], one[1] + two[1]) if op == "+" else (one[0] - two[1], one[1] - two[0])
            case Conditional(condition, then, otherwise):
                arms = (
                    self._between(then, self._learnt(condition, known, holds=True)),
                    self._between(otherwise, self._learnt(condition, known, holds=False)),
                )
                if arms[0] is None or arms[1] is None:
                    return None
                return min(arms[0][0], arms[1][0]), max(arms[0][1], arms[1][1])
        return None

    def _learnt(self, condition: Expr, known: Mapping[str, Ends], *, holds: bool) -> Mapping[str, Ends]:
        """What is known behind a comparison with a number."""
        if not isinstance(condition, Binary) or condition.op not in ("<", "<=", ">", ">="):
            return known
        for value, other, less in (
            (condition.left, condition.right, condition.op in ("<", "<=")),
            (condition.right, condition.left, condition.op in (">", ">=")),
        ):
            number = number_of(other)
            if number is not None:
                try:
                    text = self.text(converted(value, self.made(value), F32))
                except NotVectorised:
                    continue
                low, high = known.get(text, (-math.inf, math.inf))
                ends = (low, min(high, number)) if less == holds else (max(low, number), high)
                return {**known, text: ends}
        return known

    def _converted(self, value: Convert) -> str:
        source, target, operand = value.source, value.target, value.operand
        if source is target:
            return self.text(operand)
        if target is F32 and (number := literal(operand)) is not None:
            own = number if source.is_int else f"({F32}){number}"
            return f"{self.prefix}_all({own})"
        if source is I64 and target is U32:
            return self._low(operand)
        if source in (I64, LONG_LONG) and target in SMALL:
            try:
                inner = self._low(operand, narrow=target.bits <= I16.bits)
            except NotVectorised:
                inner = f"{self.prefix}_long_i32({self._long(operand)})"
        elif isinstance(operand, Call) and (row := _of_floats(operand.function)) and row.word and target is F32:
            if not (self._is_small(operand.arguments[0]) and is_number(operand.arguments[0])):
                raise NotVectorised(f"{operand.function} of a value without bounds (clamp it before)")
            inner = self._low(operand)
        elif {source, target} == {*_WORDS} and (number := literal(operand)) is not None:
            return f"{self.prefix}_{target.name}_all({number})"
        elif (source is U32 and target in SMALL) or (target is U32 and source in SMALL):
            inner = self.text(operand)
        elif not _direct(source, target):
            raise NotVectorised(f"a conversion of {source} to {target}")
        elif isinstance(operand, Load):
            inner = self.load(operand.access)
        elif source is F32 and target in HALVES:
            inner = self.before_rounding(operand)
        else:
            inner = self.text(operand)
        return inner if source is target else f"{self.prefix}_convert_{source.name}_{target.name}({inner})"

    def before_rounding(self, value: Expr) -> str:
        """C of a float that is rounded to 16 bits next."""
        return replace(self, short=shortened(value)).text(value)

    def compared(self, value: Expr) -> str:
        """The same: conversions stand in the expression."""
        return self.text(value)

    def _call(self, function: str, arguments: tuple[Expr, ...], form: str = "{}", *, short: bool) -> str:
        # `explicit` leaves arguments as they are; every parameter of these functions is a float.
        floats = tuple(converted(one, self.made(one), F32) for one in arguments)
        return Vectors._call(self, function, floats, form, short=short)

    def test(self, condition: Expr) -> str:
        match condition:
            case Binary("&&" | "||", _, _) | Unary("!", _):
                return Vectors.test(self, condition)
            case Binary(op, left, _) if op in TRUTHS and self.made(left) in FLOATS:
                return Vectors.test(self, condition)
            case Binary(op, _, _) if op in TRUTHS:
                asked = condition
            case _ if self.made(condition) in SMALL:
                asked = Binary("!=", converted(condition, self.made(condition), I32), Const("0"))
            case _:
                raise NotVectorised("a condition that is no comparison")
        return f"{self.prefix}_truth({self._holds(asked)})"


def _of_floats(name: str) -> Function | None:
    """The row of a function by its name for floats."""
    row = function_of(name)
    return row if row is not None and name == row.of(F32) else None


def _of_bits(name: str) -> ElementType | None:
    """The type of the argument of a function that takes the bits of a float, or makes one of them; else None."""
    row = function_of(name)
    return row.bits_of if row is not None and row.bits_of in (F32, U32) else None


def _power_of_two(value: Expr) -> int | None:
    """The exponent of a power of two, written as one or as a shift."""
    match value:
        case Convert(_, target, operand) if target.is_int:
            return _power_of_two(operand)
        case Binary("<<", left, right):
            base, by = _power_of_two(left), number_of(right)
            return None if base is None or by is None else base + int(by)
    number = number_of(value)
    whole = int(number) if number is not None and number > 0 and number == int(number) else 0
    return whole.bit_length() - 1 if whole and whole & (whole - 1) == 0 else None


def _direct(source: ElementType, target: ElementType) -> bool:
    """Whether one step leads from a type to another."""
    if F32 in (source, target):
        return source in (*FLOATS, *SMALL) and target in (*FLOATS, *SMALL)
    return source in SMALL and target in SMALL

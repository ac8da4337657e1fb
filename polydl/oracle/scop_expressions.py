"""Values of a statement's expression, in C's types: an expression becomes a function of what the statement reads.

The conversions of C are found here a second time, operand by operand, and not taken from `model.conversions`: a Scop
has those casts that the source has, and means by the rest what C means (C11 6.3.1.8).
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping
from typing import Protocol

from polydl.base.records import dataclass
from polydl.model import isl
from polydl.model.expr import AffineValue, Binary, Call, Conditional, Const, Convert, Expr, Gather, Load, Unary
from polydl.model.functions import REAL, function_called
from polydl.model.functions import Function as LibraryFunction
from polydl.model.scop import Function
from polydl.model.types import (
    BF16,
    C64,
    F32,
    F64,
    I32,
    I64,
    LONG_DOUBLE,
    ElementType,
    common,
    evaluated,
    float_literal,
    integer_literal,
    promoted,
)
from polydl.oracle.scop_numbers import (
    COMPARISONS,
    Number,
    Undefined,
    Unsupported,
    converted,
    decoded,
    encoded,
    literal,
    negated,
    operated,
    rounded,
)

Point = tuple[int, ...]


class Reads(Protocol):
    """What a statement instance reads."""

    def element(self, access: int) -> Number:
        """What an access with one element reads there."""

    def chosen(self, access: int, subscripts: tuple[int, ...]) -> Number:
        """What an access reads whose element data choose."""

    def affine(self, value: isl.PwAff) -> int:
        """A function of the iterators."""


Value = Callable[[Reads], Number]


@dataclass(frozen=True, slots=True)
class Typed:
    """A function of what a statement reads, and the type of C that its value has."""

    value: Value
    element: ElementType

    def to(self, target: ElementType) -> Value:
        """The value, converted."""
        if target is self.element:
            return self.value
        value, source = self.value, self.element
        return lambda reads: converted(value(reads), source, target)


@dataclass(frozen=True, slots=True)
class Expressions:
    """Makes functions of the expressions of a program."""

    functions: Mapping[str, Function]
    """Of the file, that are an expression of their parameters: `Scop.functions`."""
    call: Callable[[str, list[tuple[Number, ElementType]], ElementType], Number] | None = None
    """Calls any other function of the file; None: there are none."""

    def typed(self, value: Expr, loaded: Callable[[int], ElementType]) -> Typed:
        """An expression as a function; `loaded`: the element type of what an access reads. Raises Unsupported."""

        def of(one: Expr) -> Typed:
            return self.typed(one, loaded)

        match value:
            case Load(access):
                return Typed(lambda reads: reads.element(access), loaded(access))
            case Gather(Load(access), subscripts):
                places = [of(one).value for one in subscripts]
                return Typed(
                    lambda reads: reads.chosen(access, tuple(int(place(reads)) for place in places)), loaded(access)
                )
            case Const(text):
                return _literal(text)
            case AffineValue(function):
                return Typed(lambda reads: reads.affine(function), I32)
            case Unary(op, operand):
                return _unary(op, of(operand))
            case Binary("&&" | "||" as op, left, right):
                a, b = of(left).value, of(right).value
                if op == "&&":
                    return Typed(lambda reads: int(bool(a(reads) != 0 and b(reads) != 0)), I32)
                return Typed(lambda reads: int(bool(a(reads) != 0 or b(reads) != 0)), I32)
            case Binary(op, left, right):
                return binary(op, of(left), of(right))
            case Conditional(condition, then, otherwise):
                asked, one, two = of(condition).value, of(then), of(otherwise)
                both = one.element if one.element is two.element else common(one.element, two.element)
                first, second = one.to(both), two.to(both)
                return Typed(lambda reads: first(reads) if asked(reads) != 0 else second(reads), both)
            case Convert(_, target, AffineValue(function)):
                # An integer of whatever width.
                return Typed(lambda reads: converted(reads.affine(function), I32, target), target)
            case Convert(_, target, operand):
                return Typed(of(operand).to(target), target)
            case Call(name, arguments):
                return self._called(name, [of(one) for one in arguments], value.element)

    def _called(self, name: str, arguments: list[Typed], element: ElementType) -> Typed:
        own = self.functions.get(name)
        if own is not None:
            given = [one.to(t) for one, t in zip(arguments, own.parameters, strict=True)]
            body = self.typed(own.value, lambda access: own.parameters[access])
            result = body.to(own.element)
            return Typed(lambda reads: result(_Arguments(reads, [one(reads) for one in given])), own.element)
        row = function_called(name)
        if row is not None:
            return _library(name, row, arguments, element)
        call = self.call
        if call is None:
            raise Unsupported(f"the function '{name}'")
        return Typed(lambda reads: call(name, [(one.value(reads), one.element) for one in arguments], element), element)


@dataclass(frozen=True, slots=True)
class _Arguments:
    """What the body of a function reads: its parameters."""

    around: Reads
    values: list[Number]

    def element(self, access: int) -> Number:
        return self.values[access]

    def chosen(self, access: int, subscripts: tuple[int, ...]) -> Number:
        raise Unsupported("a function of the file that reads an array")

    def affine(self, value: isl.PwAff) -> int:
        return self.around.affine(value)


def _literal(text: str) -> Typed:
    value = literal(text)
    if value is None:
        raise Unsupported(f"the constant '{text}'")
    digits = text.lstrip("+-")
    if digits in ("I", "_Complex_I"):
        element = C64
    elif digits.startswith("'"):
        element = I32
    elif digits in ("INFINITY", "NAN", "HUGE_VALF") or digits.startswith("FLT_"):
        element = F32
    else:
        whole = integer_literal(digits)
        element = (whole[1] if whole is not None else None) or float_literal(text) or F64
    made = value if element.is_int or element is C64 else rounded(value, element)
    return Typed(lambda reads: made, element)


def _arithmetic(element: ElementType) -> ElementType:
    """What an operation on such values is computed in."""
    if element.name == BF16.name:
        raise Unsupported("arithmetic in bfloat16")
    return evaluated(element)


def _unary(op: str, operand: Typed) -> Typed:
    inner = operand.value
    if op == "!":
        return Typed(lambda reads: int(bool(inner(reads) == 0)), I32)
    element = _arithmetic(promoted(operand.element))
    value = operand.to(element)
    match op:
        case "+":
            return Typed(value, element)
        case "-":
            return Typed(lambda reads: negated(value(reads), element), element)
        case "~" if element.is_int:
            return Typed(lambda reads: operated("^", value(reads), -1 & _mask(element), element), element)
        case _:
            raise Unsupported(f"the operator '{op}'")


def _mask(element: ElementType) -> int:
    return (1 << element.bits) - 1 if element.unsigned else -1


def binary(op: str, left: Typed, right: Typed) -> Typed:
    """`left op right`, any operator but `&&` and `||`. Raises Unsupported."""
    if op in ("<<", ">>"):
        element = promoted(left.element)
        a, b = left.to(element), right.to(promoted(right.element))
        return Typed(lambda reads: operated(op, a(reads), b(reads), element), element)
    both = _arithmetic(common(left.element, right.element))
    a, b = left.to(both), right.to(both)
    if op in COMPARISONS:
        compare = COMPARISONS[op]
        return Typed(lambda reads: int(bool(compare(a(reads), b(reads)))), I32)
    return Typed(lambda reads: operated(op, a(reads), b(reads), both), both)


# Functions of C's library

_LIBM = ctypes.CDLL("libm.so.6")
_LIBGCC = ctypes.CDLL("libgcc_s.so.1")
_CTYPES = {F32: ctypes.c_float, F64: ctypes.c_double}
_SCALED = ("ldexp",)
"""Functions whose second argument is an int."""
_ITSELF = ("expect",)
"""Functions that are their first argument."""


def _library(name: str, row: LibraryFunction, arguments: list[Typed], element: ElementType) -> Typed:
    plain = name.removeprefix("__builtin_")
    if row.bits_of is not None:
        source = row.bits_of
        bits = arguments[0].to(source)
        return Typed(lambda reads: decoded(encoded(bits(reads), source), element), element)
    if row.name.startswith("bswap"):
        value = arguments[0].to(element)
        return Typed(lambda reads: int.from_bytes(int(value(reads)).to_bytes(element.bytes, "little"), "big"), element)
    if row.name in _ITSELF:
        return Typed(arguments[0].to(element), element)
    if row.magnitude and element.is_int:
        value = arguments[0].to(element)
        return Typed(lambda reads: _magnitude(value(reads), element), element)
    if hasattr(_LIBGCC, f"__{row.name}di2"):
        # What gcc calls where there is no instruction.
        counted = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_ulonglong)((f"__{row.name}di2", _LIBGCC))
        mask, bits = (1 << (64 if plain.endswith("l") else 32)) - 1, arguments[0].value
        return Typed(lambda reads: counted(int(bits(reads)) & mask), element)
    if element is I32 and row.names is not REAL and hasattr(math, row.name) and arguments[0].element.is_float:
        asked, real = getattr(math, row.name), arguments[0].value  # isnan, isinf, isfinite
        return Typed(lambda reads: int(asked(float(real(reads)))), element)
    return _of_libm(plain, row, arguments, element)


def _magnitude(value: int, element: ElementType) -> Number:
    return negated(value, element) if value < 0 else value


def _of_libm(name: str, row: LibraryFunction, arguments: list[Typed], element: ElementType) -> Typed:
    own = next((t for t in (F32, LONG_DOUBLE) if name == f"{row.name}{t.suffix}"), F64 if name == row.name else None)
    known = own is not None and own is not LONG_DOUBLE and hasattr(_LIBM, name)
    if own is None or not known or (element is not own and element is not I64):
        raise Unsupported(f"the function '{name}'")
    types = [own] * len(arguments)
    if row.name in _SCALED:
        types = [own, I32]
    function = ctypes.CFUNCTYPE(
        _CTYPES[own] if not element.is_int else ctypes.c_long,
        *(ctypes.c_int if t is I32 else _CTYPES[t] for t in types),
    )((name, _LIBM))
    given = [one.to(t) for one, t in zip(arguments, types, strict=True)]
    if element.is_int:

        def whole(reads: Reads) -> Number:
            values = [one(reads) for one in given]
            if not all(math.isfinite(value) and abs(value) < 2.0**63 for value in values):
                raise Undefined(f"{name} of {values}")
            return function(*values)

        return Typed(whole, element)
    return Typed(lambda reads: function(*(one(reads) for one in given)), element)

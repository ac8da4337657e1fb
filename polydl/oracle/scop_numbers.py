"""Numbers of C as bytes and as values, for the interpreter of Scops: each operation rounds to its type, or wraps.

A value is a Python int for integers, a float for floating-point types up to double, numpy's longdouble above and a pair
of two floats for complex numbers. Floats are computed in double and rounded once: for +, -, *, / and sqrt of floats and
halves that is what IEEE 754 says they give (Figueroa, "When is double rounding innocuous?", 1995).
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from polydl.model.types import BF16, F16, F32, F64, LONG_DOUBLE, ElementType, Kind, integer_literal

Number = Any
"""int, float, numpy.longdouble, or (real, imaginary)."""


class Unsupported(Exception):
    """What an interpreter of the oracle does not know how to run: nothing is said of the program."""


class Undefined(Exception):
    """What C gives no meaning to, or the Scop none: a division by zero, a number that no integer holds."""


def wrapped(value: int, element: ElementType) -> int:
    """The integer of the type that is congruent modulo 2^bits: C's conversion to unsigned, and GCC's to signed."""
    if element.significand == 1:
        return int(value != 0)
    value &= (1 << 8 * element.bytes) - 1
    return value - (1 << 8 * element.bytes) if value > element.maximum else value


def rounded(value: Number, element: ElementType) -> Number:
    """A double, or a longdouble, rounded to nearest in a floating-point type."""
    if element is F32:
        return ctypes.c_float(float(value)).value if not isinstance(value, np.longdouble) else float(np.float32(value))
    if element is F64:
        return float(value)
    if element is LONG_DOUBLE:
        return np.longdouble(value)
    if element is F16:
        with np.errstate(all="ignore"):
            return float(np.float16(value))
    if element.name == BF16.name:
        return _bfloat16(value)
    raise Unsupported(f"numbers of type '{element.c}'")


def _bfloat16(value: float) -> float:
    """Through float, as its conversions go."""
    if math.isnan(value):
        return math.nan
    (bits,) = struct.unpack("<I", struct.pack("<f", ctypes.c_float(value).value))
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def converted(value: Number, source: ElementType, target: ElementType) -> Number:
    """A value in another type, as C converts it (C11 6.3). Raises Undefined for a number that no integer holds."""
    if source.kind is Kind.COMPLEX or target.kind is Kind.COMPLEX:
        real, imaginary = value if source.kind is Kind.COMPLEX else (value, 0.0)
        part = F32 if source.kind is Kind.COMPLEX and source.bytes == 8 else F64
        if target.kind is not Kind.COMPLEX:
            return converted(real, part if source.kind is Kind.COMPLEX else source, target)
        own = F32 if target.bytes == 8 else F64
        first = part if source.kind is Kind.COMPLEX else source
        return converted(real, first, own), converted(imaginary, part, own)
    if target.is_float:
        if source.is_int and target is not LONG_DOUBLE:
            return _of_integer(int(value), target)
        return rounded(value, target)
    if source.is_int:
        return wrapped(int(value), target)
    if target.significand == 1:
        return int(value != 0)
    if not math.isfinite(value):
        raise Undefined(f"{value} is converted to '{target.c}'")
    whole = int(value)
    if not target.minimum <= whole <= target.maximum:
        # The operation is undefined; narrow types go through int in what compilers make of it.
        raise Undefined(f"{value} is converted to '{target.c}'")
    return whole


def _of_integer(value: int, target: ElementType) -> float:
    """Rounded once: not through double first, which would round twice."""
    if target is F64:
        return float(value)
    nearest = rounded(float(value), target)
    if abs(value) < 1 << 53 or not math.isfinite(nearest):
        return float(nearest)
    # Round to odd in double, then to nearest (Boldo and Melquiond, 2008).
    double = float(value)
    error = Fraction(value) - Fraction(double)
    if error:
        toward = math.nextafter(double, math.inf if error > 0 else -math.inf)
        (bits,) = struct.unpack("<q", struct.pack("<d", double))
        double = double if bits & 1 else toward
    return float(rounded(double, target))


_FORMATS = {(Kind.FLOAT, 4): "<f", (Kind.FLOAT, 8): "<d", (Kind.COMPLEX, 8): "<ff", (Kind.COMPLEX, 16): "<dd"}


def decoded(data: bytes, element: ElementType) -> Number:
    """The value that bytes of memory stand for."""
    if element.is_int:
        number = int.from_bytes(data, "little", signed=not element.unsigned)
        return number if element.significand > 1 else int(number != 0)
    if element is LONG_DOUBLE:
        return np.frombuffer(data, np.longdouble)[0]
    if element is F16:
        return float(np.frombuffer(data, np.float16)[0])
    if element.name == BF16.name:
        return float(struct.unpack("<f", b"\0\0" + data)[0])
    found = struct.unpack(_FORMATS[element.kind, element.bytes], data)
    return found if element.kind is Kind.COMPLEX else found[0]


def encoded(value: Number, element: ElementType) -> bytes:
    """The bytes of a value of the type."""
    if element.is_int:
        return int(value).to_bytes(element.bytes, "little", signed=not element.unsigned)
    if element is LONG_DOUBLE:
        return np.longdouble(value).tobytes()[:10] + bytes(6)
    if element is F16:
        return np.float16(value).tobytes()
    if element.name == BF16.name:
        return struct.pack("<f", value)[2:]
    parts = value if element.kind is Kind.COMPLEX else (value,)
    return struct.pack(_FORMATS[element.kind, element.bytes], *parts)


def is_nan(value: Number) -> bool:
    """Whether a value is no number, or a part of it is none."""
    return any(map(is_nan, value)) if isinstance(value, tuple) else value != value


def literal(text: str) -> Number | None:
    """The value of a literal of C, before it is rounded to its type; None for other text."""
    sign = -1 if text.startswith("-") else 1
    digits = text.lstrip("+-")
    if digits in _CONSTANTS:
        return _CONSTANTS[digits] if sign > 0 else negated(_CONSTANTS[digits], F64)
    if digits.startswith("'"):
        return sign * _character(digits[1:-1])
    whole = integer_literal(digits)
    if whole is not None:
        return sign * whole[0]
    return _real(sign, digits.lower())


def _real(sign: int, digits: str) -> Number | None:
    hexadecimal = digits.startswith("0x")
    long = digits.endswith("l")
    plain = digits.removesuffix("l").removesuffix(F16.name) if not hexadecimal else digits.removesuffix("l")
    plain = plain if hexadecimal and "p" not in plain else plain.removesuffix("f")
    try:
        if hexadecimal:
            return sign * float.fromhex(plain)
        if long:
            return sign * np.longdouble(plain)
        exact = Fraction(plain)
    except ValueError:
        return None
    nearest = sign * float(plain)
    if digits.endswith("f") and math.isfinite(nearest):
        return sign * _of_fraction(exact)
    return nearest


def _of_fraction(exact: Fraction) -> float:
    """A decimal literal of a float, rounded once."""
    double = float(exact)
    error = exact - Fraction(double)
    if error:
        toward = math.nextafter(double, math.inf if error > 0 else -math.inf)
        (bits,) = struct.unpack("<q", struct.pack("<d", double))
        double = double if bits & 1 else toward
    return double


_CONSTANTS: dict[str, Number] = {
    "INFINITY": math.inf, "HUGE_VAL": math.inf, "HUGE_VALF": math.inf, "NAN": math.nan,
    "FLT_MAX": float(np.finfo(np.float32).max), "FLT_MIN": float(np.finfo(np.float32).tiny),
    "FLT_EPSILON": float(np.finfo(np.float32).eps), "DBL_MAX": float(np.finfo(np.float64).max),
    "DBL_MIN": float(np.finfo(np.float64).tiny), "DBL_EPSILON": float(np.finfo(np.float64).eps),
    "FLT_TRUE_MIN": 2.0**-149, "DBL_TRUE_MIN": 2.0**-1074, "I": (0.0, 1.0), "_Complex_I": (0.0, 1.0),
    "M_E": math.e, "M_LOG2E": 1 / math.log(2), "M_LOG10E": 1 / math.log(10), "M_LN2": math.log(2),
    "M_LN10": math.log(10), "M_PI": math.pi, "M_PI_2": math.pi / 2, "M_PI_4": math.pi / 4, "M_1_PI": 1 / math.pi,
    "M_2_PI": 2 / math.pi, "M_2_SQRTPI": 2 / math.sqrt(math.pi), "M_SQRT2": math.sqrt(2), "M_SQRT1_2": math.sqrt(0.5),
}  # fmt: skip
_ESCAPES = {"n": 10, "t": 9, "0": 0, "\\": 92, "'": 39, '"': 34, "r": 13, "a": 7, "b": 8, "f": 12, "v": 11}


def _character(text: str) -> int:
    if not text.startswith("\\"):
        return ord(text)
    if text[1:] in _ESCAPES:
        return _ESCAPES[text[1:]]
    value = int(text[2:], 16) if text[1] == "x" else int(text[1:], 8)
    return value - 256 if value > 127 else value


def _divided(a: float, b: float) -> float:
    if b == 0 or math.isinf(b):
        with np.errstate(all="ignore"):
            return float(np.float64(a) / np.float64(b))
    return a / b


def _extended(op: str, a: Any, b: Any) -> Number:
    with np.errstate(all="ignore"):
        return {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: a / b}[op]()


_FLOATS: dict[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": _divided,
}  # fmt: skip
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
}  # fmt: skip


def operated(op: str, a: Number, b: Number, element: ElementType) -> Number:
    """`a op b` of two values of a type, in it; of a shift, b is any integer.

    Raises Undefined for what has no value in C, Unsupported for what is not modelled.
    """
    if element.kind is Kind.COMPLEX:
        return _complex(op, a, b, F32 if element.bytes == 8 else F64)
    if element.is_float:
        if op not in _FLOATS:
            raise Undefined(f"'{op}' of floating-point numbers")
        if element is LONG_DOUBLE:
            return _extended(op, a, b)
        return rounded(_FLOATS[op](a, b), element)
    found = _whole(op, int(a), int(b), element)
    there = wrapped(found, element)
    if there != found and not element.unsigned and op != "<<":
        raise Undefined(f"{a} {op} {b} overflows '{element.c}'")
    return there


def _whole(op: str, a: int, b: int, element: ElementType) -> int:
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "&":
            return a & b
        case "|":
            return a | b
        case "^":
            return a ^ b
        case "/" | "%":
            if b == 0:
                raise Undefined(f"{a} {op} 0")
            quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            if quotient > element.maximum:
                raise Undefined(f"{a} {op} {b} overflows '{element.c}'")
            return quotient if op == "/" else a - quotient * b
        case "<<" | ">>":
            if not 0 <= b < element.bits:
                raise Undefined(f"'{element.c}' is shifted by {b}")
            return a << b if op == "<<" else a >> b
        case _:
            raise Unsupported(f"the operator '{op}'")


def _complex(op: str, a: Number, b: Number, part: ElementType) -> Number:
    def of(op: str, x: float, y: float) -> float:
        return float(operated(op, x, y, part))

    if op in ("+", "-"):
        return of(op, a[0], b[0]), of(op, a[1], b[1])
    if op == "*":
        real = of("-", of("*", a[0], b[0]), of("*", a[1], b[1]))
        imaginary = of("+", of("*", a[0], b[1]), of("*", a[1], b[0]))
        if is_nan(real) and is_nan(imaginary):
            raise Unsupported("a complex product whose parts are both no numbers (C11 annex G)")
        return real, imaginary
    raise Unsupported(f"'{op}' of complex numbers")


def negated(value: Number, element: ElementType) -> Number:
    """`-value`, whose zero has the other sign. Raises Undefined for the least integer."""
    if element.is_int:
        return operated("-", 0, value, element)
    return (-value[0], -value[1]) if isinstance(value, tuple) else -value

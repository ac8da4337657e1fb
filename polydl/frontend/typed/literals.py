"""Literals of C and the constants of its headers, as numbers with a type."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

from polydl.frontend.typed.core_values import Const
from polydl.frontend.typed.emitter import NotUnderstood
from polydl.model.types import F32, F64, LONG_DOUBLE, float_literal, integer_literal

_ESCAPES = {"n": 10, "t": 9, "r": 13, "a": 7, "b": 8, "f": 12, "v": 11, "0": 0, "e": 27}
CONSTANTS: dict[str, Const] = {
    **{f"M_{name}": Const(number, F64) for name, number in {
        "E": math.e, "LOG2E": 1.4426950408889634, "LOG10E": 0.4342944819032518, "LN2": 0.6931471805599453,
        "LN10": 2.302585092994046, "PI": math.pi, "PI_2": math.pi / 2, "PI_4": math.pi / 4, "1_PI": 1 / math.pi,
        "2_PI": 2 / math.pi, "2_SQRTPI": 1.1283791670955126, "SQRT2": math.sqrt(2), "SQRT1_2": math.sqrt(0.5),
    }.items()},
    **{f"{stem}_{name}": Const(number, kind) for stem, kind in (("FLT", F32), ("DBL", F64)) for name, number in {
        "MAX": (2 - 2.0 ** (1 - kind.significand)) * 2.0**kind.exponent, "MIN": 2.0 ** (1 - kind.exponent),
        "EPSILON": 2.0 ** (1 - kind.significand), "TRUE_MIN": 2.0 ** (2 - kind.exponent - kind.significand),
    }.items()},
    "INFINITY": Const(math.inf, F32), "NAN": Const(math.nan, F32), "HUGE_VAL": Const(math.inf, F64),
    "HUGE_VALF": Const(math.inf, F32),
}  # fmt: skip
"""Macros of <math.h> and <float.h> that the fake headers do not define, and their values."""


def literal(text: str) -> Const:
    """An integer or floating-point literal. Raises NotUnderstood."""
    real = float_literal(text)
    if real is None:
        found = integer_literal(text)
        if found is None:
            raise NotUnderstood(f"the literal '{text}'")
        return Const(*found)
    digits = text.rstrip("fFlL") if not text.lower().startswith("0x") or "p" in text.lower() else text
    try:
        exact = _hexadecimal(digits.lower()) if digits.lower().startswith("0x") else Fraction(digits)
    except ValueError:
        raise NotUnderstood(f"the literal '{text}'") from None
    try:
        number = float(exact)
    except OverflowError:
        number = math.inf
    if real is F32:
        return Const(nearest_float(number, exact), F32)
    if real is LONG_DOUBLE and (math.isinf(number) or Fraction(number) != exact):
        raise NotUnderstood("a literal that only a long double holds")
    return Const(number, real)


def _hexadecimal(digits: str) -> Fraction:
    """The number that `0x1.8p-3` is."""
    mantissa, _, exponent = digits.removeprefix("0x").partition("p")
    whole, _, rest = mantissa.partition(".")
    return Fraction(int(whole + rest, 16)) * Fraction(2) ** (int(exponent) - 4 * len(rest))


def nearest_float(number: float, exact: Fraction) -> float:
    """The float that is nearest to a number, which is rounded once: `number` is the nearest double."""
    rounded = as_float(number)
    if math.isinf(rounded) or math.isinf(number) or Fraction(number) == exact:
        return rounded
    # Rounding twice is wrong only where the double lies in the middle of two floats.
    (bits,) = struct.unpack("<i", struct.pack("<f", abs(rounded)))
    near = [struct.unpack("<f", struct.pack("<i", max(0, bits + step)))[0] for step in (-1, 0, 1)]
    finite = [one for one in near if math.isfinite(one)]
    return math.copysign(min(finite, key=lambda one: (abs(Fraction(one) - abs(exact)), one != abs(rounded))), number)


def as_float(number: float) -> float:
    """Rounded to float."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def characters(text: str) -> bytes:
    """What stands between quotation marks, as bytes. Raises NotUnderstood."""
    if not text.startswith(('"', "'")):
        raise NotUnderstood("wide characters")
    inside, found, at = text[1:-1], bytearray(), 0
    while at < len(inside):
        if inside[at] != "\\":
            found += inside[at].encode("utf-8", "surrogateescape")
            at += 1
            continue
        rest = inside[at + 1 :]
        digits = len(rest[:3]) - len(rest[:3].lstrip("01234567"))
        if digits:
            number, used = int(rest[:digits], 8), digits
        elif rest[0] == "x":
            used = 1 + len(rest[1:]) - len(rest[1:].lstrip("0123456789abcdefABCDEF"))
            number = int(rest[1:used], 16)
        else:
            number, used = _ESCAPES.get(rest[0], ord(rest[0])), 1
        found.append(number & 255)
        at += 1 + used
    return bytes(found)

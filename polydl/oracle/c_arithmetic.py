"""C's arithmetic where Python's differs: functions that translated programs call."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction

_CELL = memoryview(bytearray(4)).cast("f")
_WIDEST = 1 << 53


def to_float(value: float) -> float:
    """A double rounded to float."""
    _CELL[0] = value
    return _CELL[0]


def to_half(value: float) -> float:
    """A double rounded to _Float16."""
    if abs(value) >= 65520.0:
        return math.copysign(math.inf, value)
    return float(struct.unpack("<e", struct.pack("<e", value))[0])


def half_bytes(value: float) -> bytes:
    return struct.pack("<e", value)


def brain_bits(value: float) -> int:
    """The bits of a number that is a __bf16."""
    return int.from_bytes(struct.pack("<f", value), "little") >> 16


def from_brain_bits(bits: int) -> float:
    return float(struct.unpack("<f", (bits << 16).to_bytes(4, "little"))[0])


def to_brain(value: float) -> float:
    """A double rounded to __bf16, once."""
    if value != value or math.isinf(value) or value == 0:
        return value
    exponent = max(math.frexp(value)[1] - 8, -133)  # eight bits; the least denormal is 2**-133
    rounded = math.ldexp(round(math.ldexp(value, -exponent)), exponent)
    return math.copysign(math.inf if abs(rounded) >= 2.0**128 else abs(rounded), value)


ROUND: dict[str, Callable[[float], float]] = {"f4": to_float, "f2": to_half, "b2": to_brain, "f8": float}


def rounded(exact: Fraction | int, code: str) -> float:
    """An exact number rounded to a type, once: rounding to double first would round twice."""
    try:
        near = float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
    if code == "f8" or Fraction(near) == exact or math.isinf(near):
        return ROUND[code](near)
    # Round to odd: the double beside the exact number whose last bit is set decides ties as the number would.
    if (struct.unpack("<q", struct.pack("<d", near))[0] & 1) == 0:
        near = math.nextafter(near, math.inf if Fraction(near) < exact else -math.inf)
    return ROUND[code](near)


def to_real(value: int, code: str) -> float:
    """An integer as a floating-point number."""
    return rounded(value, code) if abs(value) > _WIDEST else ROUND[code](float(value))


def divided(one: float, other: float) -> float:
    """IEEE's quotient."""
    if other:
        return one / other
    if one == 0 or one != one:
        return math.nan
    return math.copysign(math.inf, one) * math.copysign(1.0, other)


def quotient(one: int, other: int) -> int:
    """Towards zero; `other` is not 0."""
    found = abs(one) // abs(other)
    return found if (one < 0) == (other < 0) else -found


def remainder(one: int, other: int) -> int:
    found = abs(one) % abs(other)
    return -found if one < 0 else found


def real_constant(text: str, code: str) -> float:
    """A constant's value, rounded once."""
    if text[:2] in ("0x", "0X"):
        mantissa, _, exponent = text[2:].lower().partition("p")
        whole, _, part = mantissa.partition(".")
        digits = int((whole + part) or "0", 16)
        scale = int(exponent or "0") - 4 * len(part)
        exact = Fraction(digits) * (Fraction(2) ** scale)
    else:
        exact = Fraction(text.rstrip(".") if text.endswith(".") else text)
    return rounded(exact, code)

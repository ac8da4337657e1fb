"""C expressions with what is known of their values while a program is generated: type, range, exactness.

As in YARPGen (Livinskii, Babokin and Regehr, 'Random testing for C and C++ compilers with YARPGen', 2020) what would
be undefined is not generated, instead of being guarded at run time: a signed result that could overflow, a shift that
could be too far, a float that may not fit the integer it becomes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class CType:
    """An arithmetic type."""

    name: str
    kind: str
    """`i` signed, `u` unsigned, `f` floating."""
    bits: int
    suffix: str = ""
    """Of its literals."""

    @property
    def low(self) -> float:
        return -math.inf if self.kind == "f" else -(1 << (self.bits - 1)) if self.kind == "i" else 0

    @property
    def high(self) -> float:
        return math.inf if self.kind == "f" else (1 << (self.bits - (self.kind == "i"))) - 1

    @property
    def exact(self) -> int:
        """Integers up to this are kept by sums in any order, with room for some more factors of two."""
        return {24: 1 << 22, 53: 1 << 50}[24 if self.bits == 32 else 53]


INT, LONG = CType("int", "i", 32), CType("long", "i", 64, "l")
UNSIGNED, SIZE = CType("unsigned", "u", 32, "u"), CType("size_t", "u", 64, "ul")
SHORT, BYTE = CType("short", "i", 16), CType("unsigned char", "u", 8)
CHAR, WORD = CType("signed char", "i", 8), CType("unsigned short", "u", 16)
FLOAT, DOUBLE = CType("float", "f", 32, "f"), CType("double", "f", 64)
INT64, UINT32 = CType("int64_t", "i", 64, "l"), CType("uint32_t", "u", 32, "u")
INTEGERS = (INT, UNSIGNED, LONG, SHORT, BYTE, CHAR, WORD, SIZE, INT64, UINT32)
FLOATS = (FLOAT, DOUBLE)


@dataclass(frozen=True, slots=True)
class Value:
    """A C expression without effects."""

    text: str
    """In parentheses where it is more than an operand."""
    type: CType
    low: float
    """No value is lower; -inf for a floating one that may be anything, NaN included."""
    high: float

    @property
    def known(self) -> bool:
        """Whether it is an integer between `low` and `high`, whatever its type."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    def within(self, low: float, high: float) -> bool:
        return low <= self.low and self.high <= high


def literal(number: int, ctype: CType = INT) -> Value:
    if ctype.kind == "f":
        text = f"{number}.0{ctype.suffix}"
    else:
        text = f"{number}{ctype.suffix}"
    return Value(f"({text})" if number < 0 else text, ctype, number, number)


def promoted(ctype: CType) -> CType:
    return INT if ctype.kind != "f" and ctype.bits < 32 else ctype


def common(a: CType, b: CType) -> CType:
    """The usual arithmetic conversions."""
    a, b = promoted(a), promoted(b)
    if "f" in (a.kind, b.kind):
        return max((t for t in (a, b) if t.kind == "f"), key=lambda t: t.bits)
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    return a if a.kind == "u" else b


def converted(value: Value, ctype: CType) -> Value | None:
    """The value after a conversion that is not written; None where that would be undefined."""
    if ctype.kind == "f":
        known = value.known and max(abs(value.low), abs(value.high)) <= 4 * ctype.exact
        return replace(value, type=ctype, low=value.low if known else -math.inf, high=value.high if known else math.inf)
    if value.within(ctype.low, ctype.high):
        return replace(value, type=ctype)
    if value.type.kind == "f":
        return None
    return replace(value, type=ctype, low=ctype.low, high=ctype.high)


def cast(value: Value, ctype: CType) -> Value | None:
    done = converted(value, ctype)
    return None if done is None else replace(done, text=f"(({ctype.name}){value.text})")


def binary(operator: str, a: Value, b: Value) -> Value | None:
    """Two operands and an operator; None where the result could be undefined."""
    text = f"({a.text} {operator} {b.text})"
    if operator in ("<", ">", "<=", ">=", "==", "!=", "&&", "||"):
        return Value(text, INT, 0, 1)
    if operator in ("<<", ">>"):
        return _shifted(text, operator, a, b)
    ctype = common(a.type, b.type)
    left, right = converted(a, ctype), converted(b, ctype)
    assert left is not None and right is not None
    if ctype.kind == "f":
        return _floating(text, operator, left, right, ctype)
    if operator in ("/", "%"):
        if left.low < 0 or right.low <= 0:
            if operator == "/" and right.low > 0:
                most = max(abs(left.low), abs(left.high)) // right.low
                return Value(text, ctype, -most, most)
            if operator == "%" and right.low > 0:
                return Value(text, ctype, -(right.high - 1), right.high - 1)
            return None
        if operator == "/":
            return Value(text, ctype, left.low // right.high, left.high // right.low)
        return Value(text, ctype, 0, min(left.high, right.high - 1))
    if operator in ("&", "|", "^"):
        if operator == "&" and (left.low < 0) != (right.low < 0):
            return Value(text, ctype, 0, left.high if right.low < 0 else right.high)
        if left.low < 0 or right.low < 0:
            return Value(text, ctype, ctype.low, ctype.high)
        high = (1 << max(int(left.high), int(right.high)).bit_length()) - 1
        return Value(text, ctype, 0, min(left.high, right.high) if operator == "&" else high)
    low, high = _range(operator, left, right)
    if ctype.low <= low and high <= ctype.high:
        return Value(text, ctype, low, high)
    return Value(text, ctype, ctype.low, ctype.high) if ctype.kind == "u" else None


def _range(operator: str, a: Value, b: Value) -> tuple[float, float]:
    if operator == "+":
        return a.low + b.low, a.high + b.high
    if operator == "-":
        return a.low - b.high, a.high - b.low
    assert operator == "*"
    ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return min(ends), max(ends)


def _floating(text: str, operator: str, a: Value, b: Value, ctype: CType) -> Value | None:
    if operator not in ("+", "-", "*", "/"):
        return None
    if operator != "/" and a.known and b.known:
        low, high = _range(operator, a, b)
        if max(abs(low), abs(high)) <= ctype.exact:
            return Value(text, ctype, low, high)
    return Value(text, ctype, -math.inf, math.inf)


def _shifted(text: str, operator: str, a: Value, b: Value) -> Value | None:
    ctype = promoted(a.type)
    if ctype.kind == "f" or b.type.kind == "f" or b.low < 0 or b.high >= ctype.bits:
        return None
    if operator == ">>":
        ends = [int(x) >> int(y) for x in (a.low, a.high) for y in (b.low, b.high)]
        return Value(text, ctype, min(ends), max(ends))
    if ctype.kind == "i" and (a.low < 0 or int(a.high) << int(b.high) > ctype.high):
        return None
    high = int(a.high) << int(b.high)
    return Value(text, ctype, 0, min(high, ctype.high))


def chosen(condition: str, a: Value, b: Value) -> Value:
    """`condition ? a : b`."""
    ctype = common(a.type, b.type)
    left, right = converted(a, ctype), converted(b, ctype)
    assert left is not None and right is not None
    text = f"({condition} ? {a.text} : {b.text})"
    return Value(text, ctype, min(left.low, right.low), max(left.high, right.high))

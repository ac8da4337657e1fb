"""C types as far as a static control part needs them: arithmetic types, their width and sign (LP64)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CType:
    """An unqualified C type that an element or a value has."""

    text: str
    """As C spells it, typedefs resolved: `unsigned int`, `double`, `struct point`."""
    kind: str
    """int, float, void or other (struct, union, complex, extension types)."""
    bits: int = 0
    """Width of an arithmetic type."""
    unsigned: bool = False

    @property
    def is_int(self) -> bool:
        return self.kind == "int"

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def maximum(self) -> int:
        """Largest value of an integer type."""
        return int((1 << (self.bits if self.unsigned else self.bits - 1)) - 1)


BOOL = CType("_Bool", "int", 1, True)
CHAR = CType("char", "int", 8)
INT = CType("int", "int", 32)
UINT = CType("unsigned int", "int", 32, True)
LONG = CType("long", "int", 64)
ULONG = CType("unsigned long", "int", 64, True)
FLOAT = CType("float", "float", 32)
DOUBLE = CType("double", "float", 64)
LONG_DOUBLE = CType("long double", "float", 128)
VOID = CType("void", "void")

_BASE = {
    ("_Bool",): BOOL,
    ("char",): CHAR,
    ("float",): FLOAT,
    ("double",): DOUBLE,
    ("double", "long"): LONG_DOUBLE,
    ("void",): VOID,
}

# pycparser's fake headers say `typedef int` for all of these: the widths of LP64 systems
STANDARD = {
    "size_t": ULONG,
    "ssize_t": LONG,
    "ptrdiff_t": LONG,
    "intptr_t": LONG,
    "uintptr_t": ULONG,
    "intmax_t": LONG,
    "uintmax_t": ULONG,
    "off_t": LONG,
    "bool": BOOL,
    **{f"int{n}_t": CType(t, "int", n) for n, t in ((8, "signed char"), (16, "short"), (32, "int"), (64, "long"))},
    **{
        f"uint{n}_t": CType(t, "int", n, True)
        for n, t in ((8, "unsigned char"), (16, "unsigned short"), (32, "unsigned int"), (64, "unsigned long"))
    },
    **{f"int_least{n}_t": CType(t, "int", n) for n, t in ((8, "signed char"), (16, "short"), (32, "int"))},
    "int_fast8_t": CType("signed char", "int", 8),
    "int_fast16_t": LONG,
    "int_fast32_t": LONG,
    "int_fast64_t": LONG,
    "uint_fast8_t": CType("unsigned char", "int", 8, True),
    "uint_fast16_t": ULONG,
    "uint_fast32_t": ULONG,
    "uint_fast64_t": ULONG,
    "float_t": FLOAT,
    "double_t": DOUBLE,
}


def from_words(words: Iterable[str]) -> CType:
    """The type that a list of type specifiers names: `unsigned`, `long`, `int` in any order."""
    given = list(words)
    rest = sorted(given)
    base = _BASE.get(tuple(rest))
    if base is not None:
        return base
    unsigned = "unsigned" in rest
    rest = [word for word in rest if word not in ("unsigned", "signed", "int")]
    prefix = "unsigned " if unsigned else ""
    match rest:
        case ["char"]:
            return CType(f"{'unsigned' if unsigned else 'signed'} char", "int", 8, unsigned)
        case ["short"]:
            return CType(f"{prefix}short", "int", 16, unsigned)
        case ["long"]:
            return CType(f"{prefix}long", "int", 64, unsigned)
        case ["long", "long"]:
            return CType(f"{prefix}long long", "int", 64, unsigned)
        case [] if given:
            return UINT if unsigned else INT
    return CType(" ".join(given), "other")


def promote(ctype: CType) -> CType:
    """Integer promotion (C11 6.3.1.1)."""
    return INT if ctype.is_int and ctype.bits < INT.bits else ctype


def common(left: CType, right: CType) -> CType:
    """Usual arithmetic conversions (C11 6.3.1.8)."""
    if left.is_float or right.is_float:
        return max((t for t in (left, right) if t.is_float), key=lambda t: t.bits)
    if not (left.is_int and right.is_int):
        return left if not left.is_int else right
    left, right = promote(left), promote(right)
    if left.bits != right.bits:
        return left if left.bits > right.bits else right
    return left if left.unsigned else right

"""The table of element types: everything that polydl knows of a type that an array or a value may have.

A new type is a row here and, where it has vector instructions, one in `target/isa.py`. Nothing else compares the
names of types or keeps a table of them (tests/test_types.py): code asks a row for what it needs. Sizes are those of
the LP64 data model (System V ABI, x86-64 and AArch64).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from functools import cache

import numpy as np

from polydl.base.errors import InputError
from polydl.base.records import dataclass


class Kind(Enum):
    """What the bits of an element mean."""

    SIGNED = "signed"
    UNSIGNED = "unsigned"
    FLOAT = "float"
    COMPLEX = "complex"
    """Two floats, real part first."""


@dataclass(frozen=True, slots=True, eq=False)
class ElementType:
    """A type of C that an element of an array, a scalar or a value has. There is one object for each: its row."""

    name: str
    """Short and the same for equal representations: `f32`, `i8`; part of the names of generated functions."""
    c: str
    """As polydl spells it in C: `float`, `unsigned char`."""
    bytes: int
    """sizeof."""
    kind: Kind
    significand: int
    """Bits of the significand, the implicit one included; of an integer, the bits of its magnitude."""
    exponent: int
    """Largest binary exponent of a finite value (of a float, emax of IEEE 754); of an integer `significand` - 1."""
    sums: str
    """Name of the type that sums of products of such elements are kept in: what vector instructions for it give."""
    numpy: str | None
    """NumPy's name of the type; None where NumPy has none."""
    torch: str | None
    """torch's name of the type; None where torch has none."""
    suffix: str | None = None
    """Behind literals of a float and the names of libm's functions on it: `1.0f`, `expf`; None where C has neither."""
    also: tuple[str, ...] = ()
    """Standard typedefs that name it on LP64: `uint8_t`, `size_t`."""
    through: tuple[str, str] | None = None
    """Of a type that C does not compute with: the functions of polydl.h that make one of a float, and a float of one.
    Nothing else converts it."""

    def __repr__(self) -> str:
        return repr(self.c)

    def __str__(self) -> str:
        return self.c

    def __reduce__(self) -> tuple[Callable[[str, str], ElementType], tuple[str, str]]:
        return _row, (self.name, self.c)  # that of the process that reads it

    @property
    def is_int(self) -> bool:
        return self.kind in (Kind.SIGNED, Kind.UNSIGNED)

    @property
    def is_float(self) -> bool:
        """Whether it is a real floating-point type."""
        return self.kind is Kind.FLOAT

    @property
    def rounds(self) -> bool:
        """Whether arithmetic in it rounds: in floats, and in complex numbers made of them."""
        return not self.is_int

    @property
    def unsigned(self) -> bool:
        return self.kind is Kind.UNSIGNED

    @property
    def bits(self) -> int:
        """Width as C's conversions compare it: that of _Bool is 1, of any other its size."""
        return self.significand if self.unsigned else 8 * self.bytes

    @property
    def maximum(self) -> int:
        """Largest value of an integer type."""
        return int((1 << self.significand) - 1)

    @property
    def minimum(self) -> int:
        """Smallest value of an integer type."""
        return 0 if self.unsigned else -self.maximum - 1

    @property
    def roundoff(self) -> float:
        """Unit roundoff u of IEEE 754: the largest relative error of one rounding to nearest; 0 for integers."""
        return 2.0**-self.significand if self.rounds else 0.0

    @property
    def accumulator(self) -> ElementType:
        """The type that sums of products of such elements are kept in."""
        return next(row for row in TYPES if row.name == self.sums)

    def holds(self, other: ElementType) -> bool:
        """Whether every value of `other` is one of this type too, so that the conversion changes none."""
        if self.is_int:
            signs = other.is_int and (other.unsigned or not self.unsigned)
            return signs and other.significand <= self.significand
        if other.kind is Kind.COMPLEX and self.kind is not Kind.COMPLEX:
            return False
        return other.significand <= self.significand and other.exponent <= self.exponent


def _integers(bits: int, *spellings: tuple[str, tuple[str, ...]]) -> tuple[ElementType, ...]:
    """Signed and unsigned integers of a width, in the order of their C spellings."""
    rows = []
    for c, also in spellings:
        unsigned = c.startswith("unsigned")
        sign, kind, magnitude = ("u", Kind.UNSIGNED, bits) if unsigned else ("i", Kind.SIGNED, bits - 1)
        # Narrow integers are promoted to int; int8 dot products give 32 bits too (VNNI, SDOT).
        sums = f"{sign}{bits}" if bits >= 32 else "i32"
        same = f"{'u' if unsigned else ''}int{bits}"
        rows.append(
            ElementType(f"{sign}{bits}", c, bits // 8, kind, magnitude, magnitude - 1, sums, same, same, also=also)
        )
    return tuple(rows)


BOOL = ElementType("bool", "_Bool", 1, Kind.UNSIGNED, 1, 0, "i32", "bool", "bool", also=("bool",))
CHAR, I8, U8 = _integers(
    8,
    ("char", ()),
    ("signed char", ("int8_t", "int_least8_t", "int_fast8_t")),
    ("unsigned char", ("uint8_t", "uint_least8_t", "uint_fast8_t")),
)
# Plain char is taken as signed: so it is on x86-64. Where it is not, only its bits are moved: see `described`.
I16, U16 = _integers(16, ("short", ("int16_t", "int_least16_t")), ("unsigned short", ("uint16_t", "uint_least16_t")))
I32, U32 = _integers(32, ("int", ("int32_t", "int_least32_t")), ("unsigned int", ("uint32_t", "uint_least32_t")))
I64, U64, LONG_LONG, UNSIGNED_LONG_LONG = _integers(
    64,
    (
        "long",
        ("int64_t", "int_least64_t", "ssize_t", "ptrdiff_t", "intptr_t", "intmax_t", "off_t",
         "int_fast16_t", "int_fast32_t", "int_fast64_t"),
    ),
    (
        "unsigned long",
        ("uint64_t", "uint_least64_t", "size_t", "uintptr_t", "uintmax_t",
         "uint_fast16_t", "uint_fast32_t", "uint_fast64_t"),
    ),
    ("long long", ()),
    ("unsigned long long", ()),
)  # fmt: skip
F16 = ElementType("f16", "_Float16", 2, Kind.FLOAT, 11, 15, "f32", "float16", "float16")
BF16 = ElementType("bf16", "__bf16", 2, Kind.FLOAT, 8, 127, "f32", None, "bfloat16")
BF16_BITS = ElementType(
    "bf16", "polydl_bf16", 2, Kind.FLOAT, 8, 127, "f32", None, "bfloat16", through=("polydl_to_bf16", "polydl_to_float")
)
# A structure of polydl.h, for compilers that have no __bf16.
BF16_WORDS = ElementType("bf16", "unsigned short", 2, Kind.FLOAT, 8, 127, "f32", None, "bfloat16")
"""How microkernels take elements of an array of `unsigned short` that a program makes floats of by their bits. No array
has it: C computes with integers there."""
F32 = ElementType("f32", "float", 4, Kind.FLOAT, 24, 127, "f32", "float32", "float32", "f", ("float_t",))
F64 = ElementType("f64", "double", 8, Kind.FLOAT, 53, 1023, "f64", "float64", "float64", "", ("double_t",))
# 64 bits on x86-64, 113 on AArch64: NumPy has the compiler's own. (Its nmant leaves the leading bit out.)
LONG_DOUBLE = ElementType(
    "long_double", "long double", 16, Kind.FLOAT, int(np.finfo(np.longdouble).nmant) + 1, 16383, "long_double",
    "longdouble", None, "l",
)  # fmt: skip
C64 = ElementType("c64", "float _Complex", 8, Kind.COMPLEX, 24, 127, "c64", "complex64", "complex64")
C128 = ElementType("c128", "double _Complex", 16, Kind.COMPLEX, 53, 1023, "c128", "complex128", "complex128")

TYPES: tuple[ElementType, ...] = (
    F64, F32, F16, BF16, I8, I16, I32, I64, U8, U16, U32, U64, BOOL,
    CHAR, LONG_LONG, UNSIGNED_LONG_LONG, LONG_DOUBLE, C64, C128, BF16_BITS,
)  # fmt: skip
"""Every row. Of several with one name, the first is the one that the name stands for."""


def _row(name: str, c: str) -> ElementType:
    return next(row for row in (*TYPES, BF16_WORDS) if (row.name, row.c) == (name, c))


HEADER_NAMES: frozenset[str] = frozenset(
    name for row in TYPES if row.through is not None for name in (row.c, *row.through)
)
"""What polydl.h declares: names of the user's program, though they begin as those of generated code do."""


def _key(words: Iterable[str]) -> tuple[str, ...]:
    """The type specifiers of a type without those that change nothing, in one order (C11 6.7.2)."""
    rest = sorted(words)
    if not {"char"} & set(rest):
        rest = [word for word in rest if word != "signed"] or rest[:1]
    if {"short", "long", "unsigned", "signed"} & set(rest):
        rest = [word for word in rest if word != "int"]
    return ("int",) if rest == ["signed"] else tuple(rest)


SPECIFIERS: frozenset[str] = frozenset({"signed", *(word for row in TYPES for word in row.c.split())})
"""The words that name types in C: `unsigned`, `long`, `float`."""
_SPELLED = {_key(spelling.split()): row for row in TYPES for spelling in (row.c, *row.also)}


@cache
def spelled(text: str) -> ElementType | None:
    """The type that C spells so, words in any order: `long unsigned int`, `size_t`; None for any other text."""
    return _SPELLED.get(_key(text.split()))


def element_type(text: str) -> ElementType:
    """The type that C spells so. Raises InputError for one that has no row."""
    found = spelled(text)
    if found is None:
        raise InputError(
            f"'{text}' is no element type that is known", hint="use one of C's arithmetic types, or a typedef of one"
        )
    return found


def float_literal(text: str) -> ElementType | None:
    """The type of a floating-point literal (C11 6.4.4.2) or of a macro of <math.h> that stands for one; None for an
    integer."""
    digits = text.lstrip("+-").lower()
    if digits.rstrip("ul").isdigit() or (digits.startswith("0x") and "p" not in digits):
        return None
    if not digits.startswith((".", *"0123456789")):
        return F32 if text.endswith("F") else F64
    return next((row for row in TYPES if row.suffix and digits.endswith(row.suffix)), F64)


def literal_value(text: str) -> float | None:
    """The number that a decimal literal stands for, whatever its type; None for other text."""
    try:
        return float(text.rstrip("fFlLuU"))
    except ValueError:
        return None


def integer_text(value: int) -> str:
    """An integer that compilers take without a warning: the widest ones have no plain spelling."""
    if value == -(2**63):
        return f"({value + 1} - 1)"
    return f"{value}U" if value >= 2**63 else str(value)


def integer_literal(text: str) -> tuple[int, ElementType] | None:
    """Value and type of an integer literal (C11 6.4.4.1); None where it is none or fits no type."""
    digits = text.lower().rstrip("ul")
    suffix = text[len(digits) :].lower().replace("ll", "l")
    octal = len(digits) > 1 and digits.startswith("0") and digits.isdigit()
    try:
        value = int(digits, 8 if octal else 0)
    except ValueError:
        return None
    decimal = not digits.startswith("0")
    choices: tuple[ElementType, ...]
    if "l" in suffix:
        choices = (U64,) if "u" in suffix else (I64, U64)
    elif "u" in suffix:
        choices = (U32, U64)
    else:
        choices = (I32, I64, U64) if decimal else (I32, U32, I64, U64)
    return next(((value, t) for t in choices if value <= t.maximum), None)


def promoted(element: ElementType) -> ElementType:
    """C's integer promotion (C11 6.3.1.1)."""
    return I32 if element.is_int and element.bits < I32.bits else element


def evaluated(element: ElementType) -> ElementType:
    """What arithmetic of a type is computed in: float for halves, which gcc and clang round where a value is stored or
    cast and not after each operation (FLT_EVAL_METHOD): within an expression, 300 * 300 is no infinity."""
    return F32 if element is F16 else element


def common(left: ElementType, right: ElementType) -> ElementType:
    """The type of C's usual arithmetic conversions (C11 6.3.1.8)."""
    if Kind.COMPLEX in (left.kind, right.kind):
        widest = max((t.significand for t in (left, right) if t.rounds), default=0)
        return C64 if widest <= C64.significand else C128
    if left.is_float or right.is_float:
        return max((t for t in (left, right) if t.is_float), key=lambda t: (t.bits, t.significand))
    left, right = promoted(left), promoted(right)
    if left.bits != right.bits:
        return left if left.bits > right.bits else right
    return left if left.unsigned else right

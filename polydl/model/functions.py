"""The table of C's functions: everything that polydl knows of a function of <math.h>, <complex.h> or the compiler.

A function more is a row here and, where rows of vectors shall compute it, a template that the row names
(docs/extending.md). Nothing else keeps a table of such functions (tests/test_functions.py): code asks a row for what it
needs. What errno says after a call is read by nothing in a region, so functions that may set it count as pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from polydl.base.records import dataclass
from polydl.model.types import C64, C128, F32, F64, I32, I64, LONG_DOUBLE, U16, U32, U64, ElementType

Names = tuple[tuple[str, ElementType], ...]
"""How a function is spelled for each type, `{}` for the name of its row, with what it returns then."""

REAL: Names = (
    ("{}", F64), ("{}f", F32), ("{}l", LONG_DOUBLE), ("__builtin_{}", F64), ("__builtin_{}f", F32),
)  # fmt: skip
"""Of real numbers, with a result of their type."""
_LONG: Names = (("{}", I64), ("{}f", I64))
_COMPLEX: Names = (("c{}", C128), ("c{}f", C64))
_CONJUGATE: Names = (("{}", C128), ("{}f", C64))
_PART: Names = (("{}", F64), ("{}f", F32))
_CLASS: Names = (("{}", I32), ("__builtin_{}", I32))
_BITS: Names = (("__builtin_{}", I32), ("__builtin_{}l", I32), ("__builtin_{}ll", I32))


@dataclass(frozen=True, slots=True, eq=False)
class Vector:
    """Functions of the generated code that do in each lane of a vector what a function of C does."""

    name: str
    """Behind `polydl_f32_` and `polydl_f64_`."""
    ulps: float
    """Largest error of the one of floats, in units in the last place of the exact result, over all floats; denormal
    results count units of the smallest denormal. Measured by the tests, which fail above it."""
    ulps_double: float | None = None
    """The same of doubles, for as many values as the tests try; None: there is none of doubles."""
    templates: tuple[str, ...] = ()
    """The templates of `templates/` that define them, each behind those that it uses; empty: `microkernel_math.c.j2`,
    which all others may use."""
    scalar: str = ""
    """Arguments for which libm computes the lane, in vectors that have fused multiply-adds (without, it computes all
    lanes); empty: none."""
    instructions: float = 20.0
    """Vector instructions that one takes."""
    plus_one: bool = False
    """Whether there are functions of floats with `_plus_one` behind its name and `one_plus_` before it, which give 1
    more, as exactly where the sum is next to 0."""
    short: bool = False
    """Whether there is one of floats with `_short` behind its name, a shorter polynomial for results that are stored in
    16 bits and for `--fast-math` (`kernels.vector_text.SHORT_ULPS`)."""


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function of C, for all types that it is spelled for. There is one object for each: its row."""

    name: str
    """As in C for doubles: `exp`."""
    names: Names = REAL
    """Every name that it is called by."""
    arity: int = 1
    """Arguments."""
    effect: str = ""
    """What it does beside returning a value; empty: nothing, and it reads nothing but its arguments."""
    cycles: float | None = None
    """Of the instruction that compilers make of it, beside the one for issuing it; None: it is called."""
    sets_errno: bool = False
    """Of an instruction: whether compilers call the function all the same, which may set errno, unless told not to."""
    cheap: bool = False
    """Whether it is an instruction or a few: it may be computed again for each use of it."""
    whole: bool = False
    """Whether it rounds to a whole number, at most one away."""
    itself: str = ""
    """The comparison of its argument with itself that it is, for numbers: `isnan(x)` is `x != x`."""
    magnitude: bool = False
    """Whether it leaves the sign of a number away."""
    chooses: bool = False
    """Whether it gives one of its arguments as it is."""
    powers: bool = False
    """Whether it makes products of sums: `f(a + b)` is `f(a) * f(b)`."""
    takes_apart: bool = False
    """Whether it moves parts of a complex number and computes with none."""
    libmvec: tuple[int, int] | None = None
    """The version of glibc since which libmvec has it for vectors of doubles and floats on x86."""
    vector: Vector | None = None
    """How rows of vectors compute it; None: they can't."""
    bits_of: ElementType | None = None
    """The type of its argument, of a function that gives the same bits as another type: no function of C's library, but
    what `frontend.core.reinterpreted` makes of memcpy, unions and pointers."""
    word: str = ""
    """Behind `polydl_f32_` the name of the function from vectors of floats to vectors of ints that gives the same below
    2^31; with `_wide` behind it, the one that gives the lower 32 bits of any (templates/row_narrow.c.j2)."""
    last: ElementType | None = None
    """Type of its last parameter, where it is not that of the others."""
    inline: str = ""
    """A C expression in a and b that gives the same, which compilers can vectorise; empty: the function itself is
    called."""

    @property
    def spellings(self) -> Mapping[str, ElementType]:
        """By each name in C what the function returns."""
        return {pattern.format(self.name): element for pattern, element in self.names}

    def of(self, element: ElementType) -> str | None:
        """The name of the function of floats or doubles: `expf`; None for other types."""
        return None if element.suffix is None else f"{self.name}{element.suffix}"


def _rounding(name: str, *, cycles: float | None = 0.0) -> Function:
    return Function(name, cycles=cycles, cheap=True, whole=True, vector=Vector(name, 0, 0))


def _logarithm(name: str) -> Vector:
    return Vector(name, 2, 2, templates=("math_log.c.j2",), instructions=28.0)


def _trigonometric(name: str) -> Vector:
    beyond = "x beyond 2^17 (doubles: 2^26), infinite or NaN"
    return Vector(name, 2, 2, templates=("math_trig.c.j2",), instructions=28.0, scalar=beyond)


FUNCTIONS: tuple[Function, ...] = (
    Function("acos", libmvec=(2, 35)),
    Function("acosh", libmvec=(2, 35)),
    Function("asin", libmvec=(2, 35)),
    Function("asinh", libmvec=(2, 35)),
    Function("atan", libmvec=(2, 35)),
    Function("atan2", arity=2, libmvec=(2, 35)),
    Function("atanh", libmvec=(2, 35)),
    Function("cbrt", libmvec=(2, 35)),
    _rounding("ceil"),
    Function("copysign", arity=2),
    Function("cos", libmvec=(2, 22), vector=_trigonometric("cos")),
    Function("cosh", libmvec=(2, 35)),
    Function("erf", libmvec=(2, 35),
             vector=Vector("erf", 2, 2, templates=("math_erf.c.j2",), instructions=40.0, short=True)),
    Function("erfc", libmvec=(2, 35), vector=Vector("erfc", 4, 4, templates=("math_erf.c.j2",), instructions=50.0)),
    Function("exp", powers=True, libmvec=(2, 22), vector=Vector("exp", 2, 2, short=True)),
    Function("exp2", powers=True, libmvec=(2, 35), vector=Vector("exp2", 2, 2, templates=("math_exp2.c.j2",))),
    Function("expm1", libmvec=(2, 35), vector=Vector("expm1", 2, 2, templates=("math_expm1.c.j2",), instructions=24.0)),
    Function("fabs", cycles=0.0, cheap=True, magnitude=True, vector=Vector("abs", 0, 0)),
    Function("fdim", arity=2),
    _rounding("floor"),
    Function("fma", arity=3),
    # The sign of a zero is open where the arguments are zeros of both signs, in C as here.
    Function("fmax", arity=2, cycles=0.0, cheap=True, chooses=True, vector=Vector("fmax", 0, 0),
             inline="(a > b) || (b != b) ? a : b"),
    Function("fmin", arity=2, cycles=0.0, cheap=True, chooses=True, vector=Vector("fmin", 0, 0),
             inline="(a < b) || (b != b) ? a : b"),
    Function("fmod", arity=2),
    Function("hypot", arity=2, libmvec=(2, 35)),
    Function("ldexp", arity=2, last=I32),
    Function("lgamma", effect="sets signgam"),
    Function("log", libmvec=(2, 22), vector=_logarithm("log")),
    Function("log10", libmvec=(2, 35), vector=_logarithm("log10")),
    Function("log1p", libmvec=(2, 35), vector=_logarithm("log1p")),
    Function("log2", libmvec=(2, 35), vector=_logarithm("log2")),
    _rounding("nearbyint"),
    Function("nextafter", arity=2),
    Function("pow", arity=2, libmvec=(2, 22),
             vector=Vector("pow", 2, templates=("math_exp2.c.j2", "math_log.c.j2", "math_pow.c.j2"), instructions=75.0,
                           scalar="x negative, -0, infinite or NaN; y infinite or NaN")),
    Function("remainder", arity=2),
    _rounding("rint"),
    _rounding("round", cycles=None),
    Function("sin", libmvec=(2, 22), vector=_trigonometric("sin")),
    Function("sinh", libmvec=(2, 35)),
    Function("sqrt", cycles=15.0, sets_errno=True, vector=Vector("sqrt", 0.5, 0.5)),
    Function("tan", libmvec=(2, 35)),
    Function("tanh", libmvec=(2, 35), vector=Vector("tanh", 2, 3, plus_one=True, short=True)),
    Function("tgamma"),
    _rounding("trunc"),
    Function("lrint", _LONG, cheap=True, word="lrint"),
    Function("lround", _LONG, cheap=True, word="lround"),
    # <complex.h>
    *(
        Function(name, _COMPLEX)
        for name in (
            "acos", "asin", "atan", "cos", "cosh", "exp", "log", "proj", "sin", "sinh", "sqrt", "tan", "tanh",
        )
    ),
    Function("pow", _COMPLEX, arity=2),
    Function("conj", _CONJUGATE, takes_apart=True),
    *(Function(name, _PART) for name in ("cabs", "carg")),
    *(Function(name, _PART, takes_apart=True) for name in ("cimag", "creal")),
    # Macros of <math.h> for any real type.
    *(Function(name, _CLASS) for name in ("isfinite", "isinf", "isnormal", "signbit")),
    Function("isnan", _CLASS, cycles=0.0, cheap=True, itself="!="),
    # Of gcc and clang, about integers. Others (`clz`) have no value for 0: they may not be called where C would not.
    *(Function(name, _BITS) for name in ("ffs", "parity")),
    Function("popcount", _BITS, cycles=0.0),
    *(Function(f"bswap{t.bits}", (("__builtin_{}", t),), cycles=0.0, cheap=True) for t in (U16, U32, U64)),
    *(
        row
        for element, word in ((F32, U32), (F64, U64))
        for row in (
            Function(f"polydl_{element}_of_bits", (("{}", element),), cycles=0.0, cheap=True, bits_of=word),
            Function(f"polydl_bits_of_{element}", (("{}", word),), cycles=0.0, cheap=True, bits_of=element),
        )
    ),
    Function("expect", (("__builtin_{}", I64),), arity=2),
    Function("abs", _CLASS, cycles=0.0, cheap=True, magnitude=True),
    *(Function(name, (("{}", I64),), cycles=0.0, cheap=True, magnitude=True) for name in ("labs", "llabs")),
)  # fmt: skip
"""Every row."""


BITS_NAMES: frozenset[str] = frozenset(row.name for row in FUNCTIONS if row.bits_of is not None)
"""The functions that give the same bits as another type: in no program, but in what the front end makes of one."""

FMA = next(row for row in FUNCTIONS if row.name == "fma")


@cache
def _results(table: tuple[Function, ...]) -> Mapping[str, ElementType]:
    return {name: element for row in table if not row.effect for name, element in row.spellings.items()}


@cache
def _real(table: tuple[Function, ...]) -> Mapping[str, Function]:
    return {name: row for row in table for name in row.spellings if name in (row.name, row.of(F32))}


@cache
def _spelled(table: tuple[Function, ...]) -> Mapping[str, Function]:
    return {name: row for row in table for name in row.spellings}


def result_of(name: str) -> ElementType | None:
    """What a function returns that has no effects and reads nothing but its arguments; None for any other name."""
    return _results(FUNCTIONS).get(name)


def function_of(name: str) -> Function | None:
    """The row of a function by its name for doubles or for floats: `exp`, `expf`; None for any other name."""
    return _real(FUNCTIONS).get(name)


def function_called(name: str) -> Function | None:
    """The row of a function by any name that it is called by; None for any other name."""
    return _spelled(FUNCTIONS).get(name)


def parameters_of(name: str) -> tuple[ElementType | None, ...]:
    """Types of the parameters of a function by any name that it is called by, to which C converts what it is given;
    None: a macro that takes numbers as they are."""
    row = _spelled(FUNCTIONS)[name]
    result = row.spellings[name]
    one: ElementType | None = result if row.bits_of is None else row.bits_of
    if row.names is _CLASS and not row.magnitude:
        one = None
    elif row.names is _BITS:
        one = U64 if name.endswith("l") else U32
    elif row.names is _LONG:
        one = F32 if name == row.of(F32) else F64
    elif row.names is _PART:
        one = C64 if result is F32 else C128
    return (one,) * (row.arity - 1) + (row.last or one,)

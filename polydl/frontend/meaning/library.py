"""What a region may use of C's library: functions without effects, and constants."""

from __future__ import annotations

from polydl.model.types import C64, C128, F32, F64, I32, I64, LONG_DOUBLE, U16, U32, U64

_MATH = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "fabs",
    "fdim",
    "floor",
    "fma",
    "fmax",
    "fmin",
    "fmod",
    "hypot",
    "ldexp",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "nearbyint",
    "nextafter",
    "pow",
    "remainder",
    "rint",
    "round",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "tgamma",
    "trunc",
]
_COMPLEX = [
    "acos",
    "asin",
    "atan",
    "conj",
    "cos",
    "cosh",
    "exp",
    "log",
    "pow",
    "proj",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
]
"""Functions of <complex.h> with complex results, behind a `c`."""
_PARTS = ["cabs", "carg", "cimag", "creal"]
_CLASSES = ["isfinite", "isinf", "isnan", "isnormal", "signbit"]
"""Macros of <math.h> for any real type."""
_BITS = ["ffs", "parity", "popcount"]
"""Of gcc and clang, about integers. Others (`clz`) have no value for 0: they may not be called where C would not."""
# libm may set errno; nothing in a region reads it. lgamma sets signgam, so it is left out.
PURE = {
    **{name: F64 for name in _MATH if name != "lgamma"},
    **{f"{name}f": F32 for name in _MATH if name != "lgamma"},
    **{f"{name}l": LONG_DOUBLE for name in _MATH if name != "lgamma"},
    **{name if name == "conj" else f"c{name}": C128 for name in _COMPLEX},
    **{f"{name}f" if name == "conj" else f"c{name}f": C64 for name in _COMPLEX},
    **dict.fromkeys(_PARTS, F64),
    **{f"{name}f": F32 for name in _PARTS},
    **dict.fromkeys(_CLASSES, I32),
    **dict.fromkeys((f"__builtin_{name}" for name in _CLASSES), I32),
    **{f"__builtin_{name}{kind}": I32 for name in _BITS for kind in ("", "l", "ll")},
    "__builtin_bswap16": U16,
    "__builtin_bswap32": U32,
    "__builtin_bswap64": U64,
    "__builtin_expect": I64,
    **dict.fromkeys(("abs", "__builtin_abs"), I32),
    **dict.fromkeys(("labs", "llabs"), I64),
    **dict.fromkeys(("lrint", "lrintf", "lround", "lroundf"), I64),
    **{f"__builtin_{name}": F64 for name in _MATH if name != "lgamma"},
    **{f"__builtin_{name}f": F32 for name in _MATH if name != "lgamma"},
}
"""Functions without side effects that read nothing but their arguments -> result type."""

LIBRARY_CONSTANTS = {
    **{
        f"M_{name}": F64
        for name in [
            "E",
            "LOG2E",
            "LOG10E",
            "LN2",
            "LN10",
            "PI",
            "PI_2",
            "PI_4",
            "1_PI",
            "2_PI",
            "2_SQRTPI",
            "SQRT2",
            "SQRT1_2",
        ]
    },
    **{f"FLT_{name}": F32 for name in ("MAX", "MIN", "EPSILON", "TRUE_MIN")},
    **{f"DBL_{name}": F64 for name in ("MAX", "MIN", "EPSILON", "TRUE_MIN")},
    **dict.fromkeys(("I", "_Complex_I"), C64),
    "INFINITY": F32,
    "NAN": F32,
    "HUGE_VAL": F64,
    "HUGE_VALF": F32,
}
"""Macros of <math.h> and <float.h> that the fake headers do not define: they stay as they are spelled."""

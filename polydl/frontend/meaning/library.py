"""What a region may use of C's library beside its functions: constants."""

from __future__ import annotations

from polydl.model.types import C64, F32, F64

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

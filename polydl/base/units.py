"""Amounts for people."""

from __future__ import annotations

import math


def seconds_text(value: float, digits: int = 3) -> str:
    """A time with so many significant digits and its unit; `-` for NaN."""
    if not math.isfinite(value):
        return "-"
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if abs(value) * scale >= 1 or unit == "µs":
            return f"{value * scale:.{digits}g} {unit}"
    return ""

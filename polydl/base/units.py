"""Amounts for people."""

from __future__ import annotations

import math


def difference_text(relative: float) -> str:
    """A relative difference for people, in percent up to 100, as a factor beyond; `-` for NaN."""
    if not math.isfinite(relative):
        return "-"
    return f"{100 * relative:.2g} %" if relative < 0.995 else f"a factor of {1 + relative:.2g}"


def seconds_text(value: float, digits: int = 3) -> str:
    """A time with so many significant digits and its unit; `-` for NaN."""
    if not math.isfinite(value):
        return "-"
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if abs(value) * scale >= 1 or unit == "µs":
            return f"{value * scale:.{digits}g} {unit}"
    return ""


def bytes_text(value: float) -> str:
    """`36 KiB`, with three digits."""
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value:.4g} B"

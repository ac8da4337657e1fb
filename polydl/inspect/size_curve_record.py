"""The curve over sizes as it is recorded and printed."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from polydl.base.errors import QuotaExceeded
from polydl.base.units import seconds_text
from polydl.inspect.operations import operations
from polydl.inspect.report.record import AtSize, Curve, Timed
from polydl.inspect.sizes_in_words import values_text
from polydl.measure import ORIGINAL, Status
from polydl.model.scop import Scop
from polydl.search.sizes.curve import CurvePoint, SizeCurve


def recorded_curve(curve: SizeCurve | None) -> Curve | None:
    """As the record of a run has it."""
    if curve is None:
        return None
    return Curve(curve.estimated, tuple(map(_point, curve.points)), curve.left_out)


def curve_json(curve: SizeCurve | None) -> dict[str, Any] | None:
    """As `polydl optimize --json` has it: the fields of the record (polydl.inspect.report.record.Curve)."""
    found = recorded_curve(curve)
    return None if found is None else msgspec.to_builtins(found)


def curve_rows(curve: Curve) -> list[tuple[str, ...]]:
    """Sizes, what they are, the three times and the speed-up, as text."""
    return [
        (
            values_text(one.sizes), one.kind, *(_text(t, curve.estimated) for t in one.each()), _speedup(one),
            one.why_missing,
        )
        for one in curve.points
    ]  # fmt: skip


def _text(timed: Timed, estimated: bool) -> str:
    seconds = timed.seconds(estimated)
    return "-" if seconds is None else ("about " if estimated else "") + seconds_text(seconds)


def _speedup(point: AtSize) -> str:
    first, ours = point.original.median, point.output.median
    return f"{first / ours:.2f}x" if first and ours else "-"


def _point(point: CurvePoint) -> AtSize:
    tuned = point.tuned.score if point.tuned is not None else math.nan
    return AtSize(
        dict(point.sizes),
        point.kind,
        point.runs.id,
        _operations(point.scop),
        _timed(point, ORIGINAL, math.nan),
        _timed(point, "output", point.runs.seconds),
        _timed(point, "tuned", tuned),
        point.missing,
        point.warnings,
    )


def _operations(scop: Scop) -> int | None:
    try:
        found = operations(scop)
    except QuotaExceeded:
        return None
    return found.upper if found is not None and found.exact and found.upper else None


def _timed(point: CurvePoint, of: str, predicted: float) -> Timed:
    found = point.measured.get(of)
    why = "" if found is None or found.status is Status.VERIFIED else f"{found.status.value}: {found.message}"
    median = found.median if found is not None else math.nan
    spread = found.spread if found is not None else math.nan
    return Timed(_known(median), _known(spread), _known(predicted), why)


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) and value >= 0 else None

"""A curve over sizes: the output of polydl beside the original, and beside variants that are tuned for each size."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from polydl.base.errors import InputError, PolyDLError, QuotaExceeded
from polydl.base.records import dataclass
from polydl.lower.emit import Generated
from polydl.lower.splice import for_parameters
from polydl.measure import ORIGINAL, Measurement, MeasureOptions, Status, Toolchain
from polydl.measure.time_at_sizes import Place, TimedPlace, time_at
from polydl.model.at_sizes import at_sizes, instances
from polydl.model.scop import Scop
from polydl.options import Options
from polydl.rank.ranker import FloatArray
from polydl.search.default_sizes import touched_bytes
from polydl.search.sizes.decision_tree import AtSizes
from polydl.search.sizes.size_points import nearest_possible
from polydl.search.variant import Variant
from polydl.target import Machine

_OUTPUT = "output"
_BISECTIONS = 16
_LARGER = 4
"""By how much the sizes of a curve are larger than those that were given, at most."""
_WRONG = (Status.WRONG, Status.CRASHED, Status.OUT_OF_BOUNDS, Status.EXITED)


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One of the sizes of a curve."""

    sizes: Mapping[str, int]
    kind: str
    """Why it was chosen: `smallest`, `past L2`, `prime`, …"""
    scop: Scop
    """The program at these sizes."""
    runs: AtSizes
    """What the output runs there, with its estimate."""
    tuned: Variant | None
    """The best ranked variant for these sizes; None: none was looked for."""
    measured: Mapping[str, Measurement]
    """`original`, `output` and `tuned`, as far as they were timed: in turns, in the same rounds. Empty: nothing was."""
    missing: str = ""
    """Why nothing was timed, for people; empty without a run as well."""
    warnings: tuple[str, ...] = ()
    """What makes the figures conditional."""

    def seconds(self, of: str) -> float:
        """Median seconds of the original, the output or the tuned variant; NaN: not timed."""
        return self.measured[of].median if of in self.measured else math.nan


@dataclass(frozen=True, slots=True)
class SizeCurve:
    """Times at several sizes, or estimates of them."""

    points: tuple[CurvePoint, ...]
    """From less work to more."""
    estimated: bool
    """Nothing was run: there are estimates of the output and the tuned variants only."""

    @property
    def left_out(self) -> str:
        """How many points have no times, and why, for people; empty: all have."""
        missing = [one for one in self.points if one.missing]
        if not missing:
            return ""
        return f"{len(missing)} of {len(self.points)} sizes were not timed: {missing[0].missing}"


def curve_sizes(symbolic: Scop, ranges: Mapping[str, range], machine: Machine, count: int) -> dict[str, dict[str, int]]:
    """Up to so many different sizes by what they are: the ends of the ranges, past each cache, then powers of two,
    primes and odd numbers in the widest gaps. All parameters grow together. The same ones each time."""
    ends = {name: (max(1, values.start), values.stop - 1) for name, values in ranges.items()}

    def at(part: float, shape: Callable[[int], int] = int) -> dict[str, int] | None:
        wanted = {n: shape(round(low ** (1 - part) * high**part)) for n, (low, high) in ends.items()}
        return nearest_possible(
            symbolic.context, ends, {n: min(max(v, ends[n][0]), ends[n][1]) for n, v in wanted.items()}
        )

    def bytes_at(part: float) -> float:
        sizes = at(part)
        return 0.0 if sizes is None else touched_bytes(at_sizes(symbolic, sizes))

    wanted: list[tuple[float, str, Callable[[int], int]]] = [(0.0, "smallest", int), (1.0, "largest", int)]
    for cache in machine.caches:
        low, high = 0.0, 1.0
        if not bytes_at(low) <= cache.bytes < bytes_at(high):
            continue
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if bytes_at(middle) <= cache.bytes else (low, middle)
        wanted.append((high, f"past L{cache.level}", int))
    shapes = (("power of two", _power), ("prime", _prime), ("odd", lambda value: value | 1))
    while len(wanted) < count:
        parts = sorted(part for part, _, _ in wanted)
        gap, start = max((b - a, -a) for a, b in pairwise(parts))
        wanted.append((-start + gap / 2, *shapes[len(wanted) % len(shapes)]))
    found: dict[str, dict[str, int]] = {}
    for part, kind, shape in wanted[:count]:
        sizes = at(part, shape)
        if sizes is not None and sizes not in found.values():
            found[f"{kind} {len(found)}"] = sizes
    return found


def _power(value: int) -> int:
    return int(2 ** round(math.log2(max(1, value))))


def _prime(value: int) -> int:
    """The greatest prime up to a number; 2 for those below."""
    return next((n for n in range(value, 2, -1) if all(n % d for d in range(2, math.isqrt(n) + 1))), 2)


@dataclass(frozen=True, slots=True)
class Curved:
    """A program of which a curve is made."""

    scop: Scop
    """At the sizes that it was tuned for."""
    code: Generated
    """The output's, for every size."""
    seconds: float
    """Of one run of the original there; NaN: unknown."""
    at: Callable[[Mapping[str, int]], AtSizes]
    """What the output runs at some sizes."""
    reload: Callable[[Mapping[str, int]], Scop]
    """The program at other sizes. Raises InputError."""
    tuned: Callable[[Scop], Variant | None]
    """The best ranked variant of it. Raises QuotaExceeded."""


def curve_over(
    ranges: Mapping[str, range],
    tuned: Mapping[str, int],
    of: Curved,
    machine: Machine,
    o: Options,
    options: MeasureOptions | None,
    tell: Callable[[int, int], None] | None = None,
) -> SizeCurve | None:
    """The curve (`size_curve`) at `Options.curve` sizes; None where the loops are a region only with sizes. `ranges` of
    those of the `tuned` sizes that vary; empty: all do."""
    ranges = ranges or {name: range(1, _LARGER * max(1, value) + 1) for name, value in tuned.items()}
    if of.scop.symbolic is None:
        return None
    symbolic = at_sizes(of.scop.symbolic, {name: value for name, value in tuned.items() if name not in ranges})
    return size_curve(of, curve_sizes(symbolic, ranges, machine, o.curve), o.toolchain(), options, tell)


def size_curve(
    of: Curved,
    chosen: Mapping[str, Mapping[str, int]],
    toolchain: Toolchain,
    options: MeasureOptions | None,
    tell: Callable[[int, int], None] | None = None,
) -> SizeCurve:
    """The output at these sizes (`curve_sizes`) beside the original and what is tuned for each; within
    `options.seconds`, of which ranking for the sizes is no part. Without options nothing is run.

    Raises PolyDLError where the output computes something else than the original, ToolchainError.
    """
    points = sorted((p for p in (_point(of, *one) for one in chosen.items()) if p), key=lambda p: instances(p.scop))
    if options is None:
        return SizeCurve(tuple(points), estimated=True)
    once = of.seconds / max(1.0, instances(of.scop))
    places, codes = (
        [],
        {_OUTPUT: for_parameters(of.scop, of.code)},
    )
    for number, point in enumerate(points):
        own = f"tuned {number}"
        if point.tuned is not None:
            codes[own] = point.tuned.generated
        ids = (_OUTPUT, own) if own in codes else (_OUTPUT,)
        places.append(Place(point.scop, ids, once * instances(point.scop) if math.isfinite(once) else 0.0))
    times = time_at(places, codes, toolchain, options, tell)
    return SizeCurve(tuple(_with_times(*one, of.scop) for one in zip(points, times, strict=True)), estimated=False)


def _point(of: Curved, kind: str, sizes: Mapping[str, int]) -> CurvePoint | None:
    try:
        there = of.reload(sizes)
    except InputError:
        return None  # such as an array that is too short
    try:
        tuned = of.tuned(there)
    except QuotaExceeded:
        tuned = None
    runs = of.at(sizes)
    return CurvePoint(runs.sizes, kind.rpartition(" ")[0], there, runs, tuned, {})


def way_times(
    of: Scop,
    seconds: float,
    reload: Callable[[Mapping[str, int]], Scop],
    codes: Mapping[int, Generated],
    sizes: Sequence[Mapping[str, int]],
    toolchain: Toolchain,
    options: MeasureOptions,
) -> FloatArray:
    """Seconds (1 + V, Q) of the original and of code for any size at some sizes, as far as `options.seconds` reach;
    NaN otherwise. `seconds`: of one run of the original, `of`. Raises PolyDLError where one computes something else,
    ToolchainError."""
    ids = tuple(f"way {number}" for number in codes)
    found = np.full((1 + len(ids), len(sizes)), math.nan)
    places: dict[int, Place] = {}
    for q, one in enumerate(sizes):
        try:
            there = reload(one)
        except InputError:
            continue  # such as an array that is too short
        places[q] = Place(there, ids, seconds / max(1.0, instances(of)) * instances(there))
    every = dict(zip(ids, codes.values(), strict=True))
    times = time_at(list(places.values()), every, toolchain, options)
    for q, timed in zip(places, times, strict=True):
        for v, name in enumerate((ORIGINAL, *ids)):
            if (measured := timed.measurements.get(name)) is not None:
                _right(measured, of, sizes[q])
                found[v, q] = measured.median
    return found


def _right(found: Measurement, scop: Scop, sizes: Mapping[str, int]) -> None:
    """Raise PolyDLError for code that computes something else than the original."""
    if found.status in _WRONG:
        text = ", ".join(f"{k} = {v}" for k, v in sizes.items())
        raise PolyDLError(
            f"the output for '{scop.function}' {found.message} with {text}",
            scop.span,
            "this is a mistake in polydl, please report it",
        )


def _with_times(point: CurvePoint, timed: TimedPlace, scop: Scop) -> CurvePoint:
    """Raises PolyDLError where the output computes something else."""
    if _OUTPUT in timed.measurements:
        _right(timed.measurements[_OUTPUT], scop, point.sizes)
    names = {ORIGINAL: ORIGINAL, _OUTPUT: _OUTPUT}
    measured = {names.get(id_, "tuned"): one for id_, one in timed.measurements.items()}
    return replace(point, measured=measured, missing=timed.missing, warnings=timed.warnings)

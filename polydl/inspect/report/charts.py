"""Charts as data: what `draw` draws, and the table that says the same in words.

A chart is one or several rows of marks over a common horizontal axis, or one pair of axes. All values are in data
units; only heights are in pixels (CSS), because text needs them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal

from polydl.base.records import dataclass

Shape = Literal["circle", "square", "triangle", "diamond"]


@dataclass(frozen=True, slots=True)
class Axis:
    """A scale with its ticks."""

    label: str
    """With the unit."""
    low: float
    high: float
    """> low."""
    log: bool
    ticks: tuple[tuple[float, str], ...]
    """(value, text), within the scale."""

    def fraction(self, value: float) -> float:
        """Where a value lies: 0 at `low`, 1 at `high`; values outside are moved to the ends."""
        if self.log:
            value = max(value, self.low)
            part = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return min(1.0, max(0.0, part))


@dataclass(frozen=True, slots=True)
class Point:
    """A mark."""

    x: float
    y: float
    """In a chart of rows: the row's number, plus an offset between -0.5 (above) and 0.5."""
    series: int
    """Colour: an index into the palette."""
    text: str
    """What it is, in words."""
    shape: Shape = "circle"
    hollow: bool = False
    variant: str = ""
    """The variant it belongs to; empty for none."""


@dataclass(frozen=True, slots=True)
class Line:
    """A straight stroke between two points."""

    x0: float
    y0: float
    x1: float
    y1: float
    series: int
    width: float = 1.5
    """Pixels."""
    dashed: bool = False
    text: str = ""
    variant: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the legend."""

    text: str
    series: int
    shape: Shape | Literal["line", "dashes"]
    hollow: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a chart without a vertical axis."""

    text: str
    height: float = 40.0
    """Pixels, the text's line included."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart and the table behind it."""

    name: str
    """For file names and identifiers: letters and hyphens."""
    title: str
    description: str
    """What it shows and how to read it: a sentence or three."""
    x: Axis
    y: Axis | tuple[Row, ...]
    marks: tuple[Point | Line, ...]
    legend: tuple[Entry, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """The same as text: a cell for each of `columns`."""
    numeric: frozenset[int] = frozenset()
    """Columns that are set to the right."""


_EXTREME = 1e30
"""No scale goes further: what a damaged record may hold is at its end."""
SERIES = 7
"""Colours of the palette: 0 is for what stands for itself, the others for series."""


def axis(label: str, values: Iterable[float], *, unit: str = "", log: bool | None = None, room: float = 0.05) -> Axis:
    """A scale that holds all the values, which are positive where it is logarithmic.

    log=None: logarithmic when they differ by more than a factor of four. `unit` is appended to the ticks' texts after
    an SI prefix (`1.5 m` + `s`).
    """
    found = [min(max(v, -_EXTREME), _EXTREME) for v in values if math.isfinite(v)] or [1.0]
    low, high = (0.0 if abs(v) * _EXTREME < 1 else v for v in (min(found), max(found)))
    if log is None:
        log = low > 0 and high / low > 4
    if log:
        low, high = max(low, 1 / _EXTREME), max(high, 1 / _EXTREME)
    if log:
        stretch = max((high / low) ** room, 1.15)
        low, high = low / stretch, high * stretch
        return Axis(label, low, high, True, _log_ticks(low, high, unit))
    width = (high - low) or abs(high) or 1.0
    low, high = low - room * width, high + room * width
    return Axis(label, low, high, False, _linear_ticks(low, high, unit))


def _log_ticks(low: float, high: float, unit: str) -> tuple[tuple[float, str], ...]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)):
        ticks = [f * 10.0**d for d in decades for f in factors if low <= f * 10.0**d <= high]
        if len(ticks) >= 3:
            break
    else:
        return _linear_ticks(low, high, unit)
    every = -(-len(ticks) // 6)
    return tuple((t, quantity(t, unit)) for t in ticks[::every])


def _linear_ticks(low: float, high: float, unit: str) -> tuple[tuple[float, str], ...]:
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(f * power for f in (1, 2, 5, 10) if f * power >= rough)
    first = math.ceil(low / step)
    # So many digits that two ticks differ.
    digits = max(3, math.ceil(math.log10(max(abs(low), abs(high)) / step)) + 1)
    return tuple((n * step, quantity(n * step, unit, digits)) for n in range(first, math.floor(high / step) + 1))


_PREFIXES = (
    (1e15, "P"),
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
    (1.0, ""),
    (1e-3, "m"),
    (1e-6, "µ"),
    (1e-9, "n"),
)


def quantity(value: float, unit: str = "", digits: int = 3) -> str:
    """A number with so many digits, an SI prefix and its unit: `1.25 ms`; without a unit as it is, `1.25`."""
    if not math.isfinite(value):
        return "–"
    if not unit:
        return f"{value:,.0f}" if 1e4 <= abs(value) < 1e12 else f"{value:.{digits}g}"
    size = abs(value)
    scale, prefix = next((p for p in _PREFIXES if size >= p[0] * 0.9995), _PREFIXES[-1] if size else (1.0, ""))
    scaled = value / scale
    whole = f"{scaled:.0f}" if abs(scaled) >= 10 ** (digits - 1) else f"{scaled:.{digits}g}"
    return f"{whole} {prefix}{unit}"


def bytes_text(value: float) -> str:
    """Bytes with a binary prefix: `1.25 MiB`."""
    for unit, scale in (("PiB", 2**50), ("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}" if value < 1000 * scale else f"{value / scale:.0f} {unit}"
    return f"{value:.0f} B"


def bytes_axis(label: str, values: Iterable[float]) -> Axis:
    """A logarithmic scale of bytes with ticks at powers of two."""
    found = [min(v, _EXTREME) for v in values if v > 0] or [1.0]
    low, high = min(found) / 2, max(found) * 2
    powers = list(range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1))
    every = -(-len(powers) // 6)
    return Axis(label, low, high, True, tuple((2.0**p, bytes_text(2.0**p)) for p in powers[::every]))


def swarm(values: Sequence[float], scale: Axis, *, bins: int = 40) -> list[float]:
    """Vertical offsets, -0.4 to 0.4, that keep points of nearly the same value apart."""
    stacks: dict[int, list[int]] = {}
    for i, value in enumerate(values):
        stacks.setdefault(int(scale.fraction(value) * bins), []).append(i)
    tallest = max((len(s) for s in stacks.values()), default=1)
    step = min(0.16, 0.8 / tallest)
    offsets = [0.0] * len(values)
    for stack in stacks.values():
        for place, i in enumerate(stack):
            side = (place + 1) // 2 * (1 if place % 2 else -1)
            offsets[i] = side * step
    return offsets

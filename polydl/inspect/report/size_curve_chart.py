"""The chart of a curve over sizes: polydl's output beside the original and beside what is tuned for each size."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from polydl.inspect.report.charts import Axis, Chart, Entry, Line, Point, Shape, axis, quantity
from polydl.inspect.report.record import AtSize, ScopRun, Timed

_LOOKS: tuple[tuple[str, int, Shape], ...] = (
    ("original", 2, "square"),
    ("output", 1, "diamond"),
    ("tuned for the size", 3, "triangle"),
)
"""Name, colour and shape of each series, in the order of `AtSize.each`."""


def curve(scop: ScopRun) -> Chart | None:
    """Operations per second over the size; times where the operations are not known. None with fewer than two sizes
    that have a figure."""
    found = scop.curve
    if found is None:
        return None
    shown = [one for one in found.points if any(t.seconds(found.estimated) for t in one.each())]
    if len(shown) < 2:
        return None
    rates = all(one.operations for one in shown)
    across, label = _across(shown, rates)
    marks: list[Point | Line] = []
    legend = []
    heights: list[float] = []
    for number, (name, series, shape) in enumerate(_LOOKS):
        line: list[tuple[float, float]] = []
        for one in shown:
            seconds = one.each()[number].seconds(found.estimated)
            if seconds is None:
                continue
            value = (one.operations or 0) / seconds if rates else seconds
            line.append((across(one), value))
            said = f"{name}, {_sizes(one)} ({one.kind}): {quantity(seconds, 's')}"
            marks.append(Point(*line[-1], series, said, shape))
        marks += [Line(*first, *second, series) for first, second in pairwise(line)]
        heights += [value for _, value in line]
        if line:
            legend.append(Entry(name, series, shape))
    up: Axis = axis("operations per second" if rates else "time of one run", heights, unit="FLOP/s" if rates else "s")
    what = "Estimates: nothing was run." if found.estimated else "Each mark is a median; the three took turns."
    left = f" {found.left_out[:1].upper()}{found.left_out[1:]}." if found.left_out else ""
    return Chart(
        "sizes",
        "Estimates over sizes" if found.estimated else "The output over sizes",
        "The output, which is one for all sizes, beside the original and beside the best ranked variant for each "
        f"size. {what}{left}",
        axis(label, [across(one) for one in shown]),
        up,
        tuple(marks),
        tuple(legend),
        ("sizes", "chosen as", "runs", "original", "output", "tuned for the size", "speed-up", "spread", "not timed"),
        tuple(_row(one, found.estimated) for one in found.points),
        frozenset({3, 4, 5, 6, 7}),
    )


def _across(shown: list[AtSize], rates: bool) -> tuple[Callable[[AtSize], float], str]:
    """Where a point lies, and what that is: the one size that varies, or the work where several do."""
    names = [n for n in shown[0].sizes if len({one.sizes.get(n) for one in shown}) > 1]
    if len(names) == 1 or not rates:
        name = names[0] if names else next(iter(shown[0].sizes))
        return lambda one: float(one.sizes.get(name, 0)), name
    return lambda one: float(one.operations or 0), "operations of one run"


def _sizes(one: AtSize) -> str:
    return ", ".join(f"{name} = {value}" for name, value in one.sizes.items())


def _row(one: AtSize, estimated: bool) -> tuple[str, ...]:
    first, ours = one.original.median, one.output.median
    speedup = f"{first / ours:.2f}" if first and ours else "–"
    spread = f"{100 * one.output.spread:.1f} %" if one.output.spread is not None else "–"
    return (
        _sizes(one), one.kind, one.variant, *(_text(t, estimated) for t in one.each()), speedup, spread, one.why_missing
    )  # fmt: skip


def _text(timed: Timed, estimated: bool) -> str:
    seconds = timed.seconds(estimated)
    return "–" if seconds is None else quantity(seconds, "s")

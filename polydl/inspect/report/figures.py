"""Makes the charts of a run from its record: distribution, samples, predictions, roofline, working sets."""

from __future__ import annotations

import math

from polydl.inspect.report.chart_style import legend_of, look, median, said_of
from polydl.inspect.report.charts import (
    Axis,
    Chart,
    Entry,
    Line,
    Point,
    Row,
    axis,
    quantity,
    swarm,
)
from polydl.inspect.report.levels import roofline, working_sets
from polydl.inspect.report.record import ORIGINAL, Measured, ScopRun
from polydl.inspect.report.size_curve_chart import curve
from polydl.target import Machine

MOST_BOXES = 20
"""Variants that the chart of samples shows."""


def charts(scop: ScopRun, machine: Machine) -> tuple[Chart, ...]:
    """The charts that the record has enough figures for."""
    found = [distribution(scop), samples(scop)] if len(scop.timed()) > 1 else []
    found += [chart for name in rankers(scop) if (chart := predicted(scop, name)) is not None]
    found += [
        chart for chart in (curve(scop), roofline(scop, machine), working_sets(scop, machine)) if chart is not None
    ]
    return tuple(found)


def rankers(scop: ScopRun) -> tuple[str, ...]:
    """The rankers that tell at least two timed variants (no original) apart, the run's own first."""
    names = dict.fromkeys((scop.ranker, *(name for m in scop.variants() for name in m.scores)))
    scores = {name: {m.scores[name].score for m in _scored(scop, name) if m.id != ORIGINAL} for name in names}
    return tuple(name for name, found in scores.items() if len(found) > 1)


def picks(scop: ScopRun) -> dict[str, Measured]:
    """By ranker the timed variant (no original) with its best score."""
    found = {name: [m for m in _scored(scop, name) if m.id != ORIGINAL] for name in rankers(scop)}
    return {name: min(some, key=lambda m: m.scores[name].score) for name, some in found.items() if some}


def agreement(scop: ScopRun, name: str) -> float:
    """Kendall's tau-b between a ranker's order of the timed variants (no original) and the measured one: 1 for the
    same order, -1 for the opposite; NaN when either has nothing to order."""
    some = [(m.scores[name].score, median(m)) for m in _scored(scop, name) if m.id != ORIGINAL]
    agree, first, second = 0, 0, 0
    for i, (a, b) in enumerate(some):
        for c, d in some[:i]:
            x, y = (a > c) - (a < c), (b > d) - (b < d)
            agree, first, second = agree + x * y, first + abs(x), second + abs(y)
    return agree / math.sqrt(first * second) if first and second else math.nan


def _scored(scop: ScopRun, name: str) -> list[Measured]:
    return [m for m in scop.timed() if name in m.scores]


def distribution(scop: ScopRun) -> Chart:
    """Where the measured variants lie, and which of them each ranker would have taken."""
    timed = scop.timed()
    scale = axis("time of one run", [median(m) for m in timed], unit="s")
    offsets = swarm([median(m) for m in timed], scale)
    rows = [Row(f"{len(timed) - 1} measured variants and the original", 96)]
    marks: list[Point | Line] = []
    for variant, offset in zip(timed, offsets, strict=True):
        series, shape = look(scop, variant)
        marks.append(Point(median(variant), offset, series, said_of(scop, variant), shape, variant=variant.id))
    table = []
    others = [m for m in timed if m.id != ORIGINAL]
    for name, pick in picks(scop).items():
        place, ratio = others.index(pick) + 1, median(others[0]) / median(pick)
        said = f"{name}: {pick.id}, {place} of {len(others)}, {ratio * 100:.3g} % of the best"
        rows.append(Row(said))
        marks.append(Point(median(pick), float(len(rows) - 1), 3, f"picked by {said}", "triangle", variant=pick.id))
        tau = agreement(scop, name)
        table.append(
            (
                name, pick.id, f"{place} of {len(others)}", quantity(median(pick), "s"), f"{ratio * 100:.1f} %",
                f"{tau:.2f}" if math.isfinite(tau) else "–",
            )
        )  # fmt: skip
    return Chart(
        "distribution",
        "Measured variants and the rankers' picks",
        "Each mark is a variant at its median time; further left is faster. Below, per ranker, the one that it would "
        "have taken among those that were measured.",
        scale,
        tuple(rows),
        tuple(marks),
        (*legend_of(scop), *([Entry("a ranker's pick", 3, "triangle")] if table else [])),
        ("ranker", "pick", "place among the measured", "time", "of the fastest one's speed", "agreement (Kendall's τ)"),
        tuple(table),
        frozenset({3, 4, 5}),
    )


def samples(scop: ScopRun) -> Chart:
    """Every sample of the fastest variants and the original."""
    timed = scop.timed()
    shown = list(timed[:MOST_BOXES])
    if scop.original not in shown:
        shown.append(scop.original)
    shown = [m for m in shown if m.samples]
    which = f"The {MOST_BOXES} fastest and the original" if len(timed) > len(shown) else "All that were timed"
    scale = axis("time of one run", [t for m in shown for t in m.samples], unit="s")
    marks: list[Point | Line] = []
    rows, table = [], []
    for number, variant in enumerate(shown):
        series, shape = look(scop, variant)
        ordered = sorted(variant.samples)
        quarter = [ordered[round(q * (len(ordered) - 1))] for q in (0.25, 0.75)]
        rows.append(Row(f"{variant.id} {variant.loops}"))
        said = said_of(scop, variant)
        marks.append(Line(ordered[0], number, ordered[-1], number, series, 1.5, text=said, variant=variant.id))
        marks.append(Line(quarter[0], number, quarter[1], number, series, 7, text=said, variant=variant.id))
        marks.append(Point(median(variant), number, series, said, shape, variant=variant.id))
        marks += [Line(t, number - 0.18, t, number + 0.18, series, 1, variant=variant.id) for t in variant.samples]
        table.append(
            (
                variant.id, quantity(median(variant), "s"), quantity(ordered[0], "s"), quantity(ordered[-1], "s"),
                f"{variant.spread * 100:.1f} %" if variant.spread is not None else "–", str(len(ordered)),
            )
        )  # fmt: skip
    return Chart(
        "samples",
        "Samples of each variant",
        f"{which}: each stroke is a sample, the bar their middle half, the mark the median. Two "
        f"timings of the same code differed by {scop.noise * 100:.2g} % in this run: less than that is no difference.",
        scale,
        tuple(rows),
        tuple(marks),
        legend_of(scop),
        ("variant", "median", "least", "greatest", "spread (IQR / median)", "samples"),
        tuple(table),
        frozenset({1, 2, 3, 4, 5}),
    )


def predicted(scop: ScopRun, name: str) -> Chart | None:
    """A ranker's scores against the measured times; None when it told the variants apart by nothing."""
    some = _scored(scop, name)
    seconds = all(m.scores[name].predicted_seconds is not None for m in some)
    values = [(m.scores[name].predicted_seconds if seconds else None) or m.scores[name].score for m in some]
    if len(set(values)) < 2:
        return None
    # The original, often far off, would press the variants together; it stays in the table.
    drawn = [m.id != ORIGINAL or scop.chosen == ORIGINAL or len(some) < 4 for m in some]
    near = [v for v, d in zip(values, drawn, strict=True) if d]
    medians = [median(m) for m, d in zip(some, drawn, strict=True) if d]
    across = axis(f"{name}: predicted time" if seconds else f"{name}: score", near, unit="s" if seconds else "")
    marks: list[Point | Line] = []
    legend = [entry for entry in legend_of(scop) if all(drawn) or entry.text != "original"]
    if seconds:
        # Both axes alike, so that the diagonal is the diagonal.
        across = axis(across.label, [*near, *medians], unit="s", log=True)
        marks.append(
            Line(across.low, across.low, across.high, across.high, 4, dashed=True, text="predicted = measured")
        )
        legend.append(Entry("predicted = measured", 4, "dashes"))
    up = (
        Axis("measured time", across.low, across.high, True, across.ticks)
        if seconds
        else axis("measured time", medians, unit="s", log=True)
    )
    table = []
    for variant, value, visible in zip(some, values, drawn, strict=True):
        series, shape = look(scop, variant)
        guess = quantity(value, "s" if seconds else "")
        text = f"{said_of(scop, variant)}, {'predicted' if seconds else 'score'} {guess}"
        if visible:
            marks.append(Point(value, median(variant), series, text, shape, variant=variant.id))
        row = (variant.id, guess, quantity(median(variant), "s"))
        table.append((*row, f"{median(variant) / value:.3g}") if seconds else row)
    tau = agreement(scop, name)
    order = (
        f"Kendall's τ of the two orders, without the original (in the table): {tau:.2f}." if math.isfinite(tau) else ""
    )
    what = "Points on the dashed line are predicted exactly." if seconds else "A score has no unit; lower is better."
    return Chart(
        f"predicted-{_slug(name)}",
        f"Predicted against measured: {name}",
        f"{what} {order}".strip(),
        across,
        up,
        tuple(marks),
        tuple(legend),
        ("variant", "predicted" if seconds else "score", "measured", *(("measured / predicted",) if seconds else ())),
        tuple(table),
        frozenset({1, 2, 3}),
    )


def _slug(name: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in name.lower())

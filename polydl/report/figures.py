"""The charts of a run."""

from __future__ import annotations

import math
from collections.abc import Iterator

from polydl.machine import Machine
from polydl.report.charts import (
    SERIES,
    Axis,
    Chart,
    Entry,
    Line,
    Point,
    Row,
    Shape,
    axis,
    bytes_axis,
    bytes_text,
    quantity,
    swarm,
)
from polydl.report.record import ORIGINAL, Measured, ScopRun

MOST_BOXES = 20
"""Variants that the chart of samples shows."""
MOST_SETS = 12
"""Working sets that are drawn of one variant."""
_ORIGINAL, _CHOSEN, _OTHER = 2, 1, 0


def charts(scop: ScopRun, machine: Machine) -> tuple[Chart, ...]:
    """Those that the record has the figures for."""
    found = [distribution(scop), samples(scop)] if len(scop.timed()) > 1 else []
    found += [chart for name in rankers(scop) if (chart := predicted(scop, name)) is not None]
    found += [chart for chart in (roofline(scop, machine), working_sets(scop, machine)) if chart is not None]
    return tuple(found)


def rankers(scop: ScopRun) -> tuple[str, ...]:
    """The rankers that tell at least two timed variants (no original) apart, the run's own first."""
    names = dict.fromkeys((scop.ranker, *(name for m in scop.variants() for name in m.scores)))
    scores = {name: {m.scores[name].score for m in _scored(scop, name) if m.id != ORIGINAL} for name in names}
    return tuple(name for name, found in scores.items() if len(found) > 1)


def picks(scop: ScopRun) -> dict[str, Measured]:
    """By ranker the timed variant (no original) that it likes best."""
    found = {name: [m for m in _scored(scop, name) if m.id != ORIGINAL] for name in rankers(scop)}
    return {name: min(some, key=lambda m: m.scores[name].score) for name, some in found.items() if some}


def agreement(scop: ScopRun, name: str) -> float:
    """Kendall's tau-b between a ranker's order of the timed variants (no original) and the measured one: 1 for the
    same order, -1 for the opposite; NaN when either has nothing to order."""
    some = [(m.scores[name].score, _median(m)) for m in _scored(scop, name) if m.id != ORIGINAL]
    agree, first, second = 0, 0, 0
    for i, (a, b) in enumerate(some):
        for c, d in some[:i]:
            x, y = (a > c) - (a < c), (b > d) - (b < d)
            agree, first, second = agree + x * y, first + abs(x), second + abs(y)
    return agree / math.sqrt(first * second) if first and second else math.nan


def _scored(scop: ScopRun, name: str) -> list[Measured]:
    return [m for m in scop.timed() if name in m.scores]


def _median(found: Measured) -> float:
    return found.median or math.nan


def _look(scop: ScopRun, variant: Measured) -> tuple[int, Shape]:
    """Colour and shape of a variant in all the charts."""
    if variant.id == scop.chosen:
        return _CHOSEN, "diamond"
    return (_ORIGINAL, "square") if variant.id == ORIGINAL else (_OTHER, "circle")


def _said(scop: ScopRun, variant: Measured) -> str:
    also = " (chosen)" if variant.id == scop.chosen else ""
    return f"{variant.id}{also}: {quantity(_median(variant), 's')}"


def _legend(scop: ScopRun) -> tuple[Entry, ...]:
    found = [Entry("measured variant", _OTHER, "circle")]
    if scop.chosen != ORIGINAL:
        found.append(Entry("chosen", _CHOSEN, "diamond"))
        found.append(Entry("original", _ORIGINAL, "square"))
    else:
        found.append(Entry("original (chosen)", _CHOSEN, "diamond"))
    return tuple(found)


def distribution(scop: ScopRun) -> Chart:
    """Where the measured variants lie, and which of them each ranker would have taken."""
    timed = scop.timed()
    scale = axis("time of one run", [_median(m) for m in timed], unit="s")
    offsets = swarm([_median(m) for m in timed], scale)
    rows = [Row(f"{len(timed) - 1} measured variants and the original", 96)]
    marks: list[Point | Line] = []
    for variant, offset in zip(timed, offsets, strict=True):
        series, shape = _look(scop, variant)
        marks.append(Point(_median(variant), offset, series, _said(scop, variant), shape, variant=variant.id))
    table = []
    others = [m for m in timed if m.id != ORIGINAL]
    for name, pick in picks(scop).items():
        place, ratio = others.index(pick) + 1, _median(others[0]) / _median(pick)
        said = f"{name}: {pick.id}, {place} of {len(others)}, {ratio * 100:.3g} % of the best"
        rows.append(Row(said))
        marks.append(Point(_median(pick), float(len(rows) - 1), 3, f"picked by {said}", "triangle", variant=pick.id))
        tau = agreement(scop, name)
        table.append(
            (
                name, pick.id, f"{place} of {len(others)}", quantity(_median(pick), "s"), f"{ratio * 100:.1f} %",
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
        (*_legend(scop), Entry("a ranker's pick", 3, "triangle")),
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
    scale = axis("time of one run", [t for m in shown for t in m.samples], unit="s")
    marks: list[Point | Line] = []
    rows, table = [], []
    for number, variant in enumerate(shown):
        series, shape = _look(scop, variant)
        ordered = sorted(variant.samples)
        quarter = [ordered[round(q * (len(ordered) - 1))] for q in (0.25, 0.75)]
        rows.append(Row(f"{variant.id} {variant.loops}"))
        said = _said(scop, variant)
        marks.append(Line(ordered[0], number, ordered[-1], number, series, 1.5, text=said, variant=variant.id))
        marks.append(Line(quarter[0], number, quarter[1], number, series, 7, text=said, variant=variant.id))
        marks.append(Point(_median(variant), number, series, said, shape, variant=variant.id))
        marks += [Line(t, number - 0.18, t, number + 0.18, series, 1, variant=variant.id) for t in variant.samples]
        table.append(
            (
                variant.id, quantity(_median(variant), "s"), quantity(ordered[0], "s"), quantity(ordered[-1], "s"),
                f"{variant.spread * 100:.1f} %" if variant.spread is not None else "–", str(len(ordered)),
            )
        )  # fmt: skip
    return Chart(
        "samples",
        "Samples of each variant",
        f"The {len(shown)} fastest: each stroke is a sample, the bar their middle half, the mark the median. Two "
        f"timings of the same code differed by {scop.noise * 100:.2g} % in this run: less than that is no difference.",
        scale,
        tuple(rows),
        tuple(marks),
        _legend(scop),
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
    medians = [_median(m) for m, d in zip(some, drawn, strict=True) if d]
    across = axis(f"{name}: predicted time" if seconds else f"{name}: score", near, unit="s" if seconds else "")
    marks: list[Point | Line] = []
    legend = [entry for entry in _legend(scop) if all(drawn) or entry.text != "original"]
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
        series, shape = _look(scop, variant)
        guess = quantity(value, "s" if seconds else "")
        text = f"{_said(scop, variant)}, {'predicted' if seconds else 'score'} {guess}"
        if visible:
            marks.append(Point(value, _median(variant), series, text, shape, variant=variant.id))
        row = (variant.id, guess, quantity(_median(variant), "s"))
        table.append((*row, f"{_median(variant) / value:.3g}") if seconds else row)
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


def roofline(scop: ScopRun, machine: Machine) -> Chart | None:
    """The kernel under the machine's roofs; None for scops without floating-point operations, and ones that nothing
    was timed of."""
    timed = [m for m in scop.timed() if m.id in (ORIGINAL, scop.chosen) or m.moved]
    peak = machine.fma_peak_gflops.get(scop.dtype, 0.0) * min(scop.threads, machine.cores) * 1e9
    if scop.operations is None or not scop.operations.at_most or not timed or not peak:
        return None
    work = (scop.operations.at_least + scop.operations.at_most) / 2
    cold = work / max(1, scop.compulsory_bytes.at_most)
    roofs = list(_roofs(scop, machine))
    levels = {name: n + 3 for n, (name, _, _) in enumerate(roofs)}
    speeds = {name: rate for name, _, rate in roofs}
    intensities = [work / size for m in timed for size in m.moved.values() if size > 0]
    scale = axis(
        "operations per byte moved",
        [cold, *intensities, *(peak / rate for _, _, rate in roofs)],
        log=True,
    )
    rates = [work / _median(m) for m in timed]
    up = axis("operations per second", [*rates, peak, *(rate * scale.low for _, _, rate in roofs[-1:])], unit="FLOP/s",
              log=True)  # fmt: skip
    marks: list[Point | Line] = [Line(scale.low, peak, scale.high, peak, 2, text=f"peak {quantity(peak, 'FLOP/s')}")]
    legend = [Entry(f"peak, {scop.dtype}: {quantity(peak, 'FLOP/s')}", 2, "line")]
    table: list[tuple[str, ...]] = []
    for name, text, rate in roofs:
        left = max(scale.low, up.low / rate)
        colour = levels[name] % SERIES
        marks.append(Line(left, left * rate, peak / rate, peak, colour, text=text))
        legend.append(Entry(text, colour, "line"))
    for variant in timed:
        rate = work / _median(variant)
        faint = variant.id not in (ORIGINAL, scop.chosen)
        shape = _look(scop, variant)[1]
        for level, size in variant.moved.items():
            if size <= 0 or level not in levels:
                continue
            bound = min(peak, speeds[level] * work / size)
            said = (
                f"{_said(scop, variant)}, {quantity(rate, 'FLOP/s')}; into {level} {bytes_text(size)} by the traffic "
                f"model, {work / size:.3g} operations a byte, {rate / bound * 100:.3g} % of that roof"
            )
            marks.append(
                Point(work / size, rate, levels[level] % SERIES, said, shape, hollow=faint, variant=variant.id)
            )
            table.append((variant.id, level, bytes_text(size), f"{work / size:.3g}", quantity(rate, "FLOP/s"),
                          quantity(bound, "FLOP/s"), f"{rate / bound * 100:.1f} %"))  # fmt: skip
        if variant.id in (ORIGINAL, scop.chosen):
            said = f"{_said(scop, variant)}, {quantity(rate, 'FLOP/s')}, each byte moved once"
            marks.append(Point(cold, rate, 0, said, shape, variant=variant.id))
            size = scop.compulsory_bytes.at_most
            table.append((variant.id, "each byte once", bytes_text(size), f"{cold:.3g}", quantity(rate, "FLOP/s"),
                          quantity(peak, "FLOP/s"), f"{rate / peak * 100:.1f} %"))  # fmt: skip
    legend += [
        Entry("chosen", 0, "diamond"),
        Entry("original", 0, "square"),
        Entry("another variant", 0, "circle", hollow=True),
        Entry("in grey: each byte moved once", 0, "diamond"),
    ]
    if scop.chosen == ORIGINAL:
        legend = [e for e in legend if e.text != "original"]
    count = "" if scop.operations.at_least == scop.operations.at_most else "about "
    amount = count + quantity(work, " operations", 4).replace("  ", " ")
    return Chart(
        "roofline",
        "Roofline",
        f"{amount} a run, on {scop.threads} threads. A mark has the colour of the roof "
        "that it is under: the bytes are those that the traffic model sees move into that level, warm caches and all "
        "threads together; levels into which it sees nothing move have no mark.",
        scale,
        up,
        tuple(marks),
        tuple(legend),
        ("variant", "into", "bytes moved", "operations a byte", "reached", "roof", "of the roof"),
        tuple(table),
        frozenset({2, 3, 4, 5, 6}),
    )  # fmt: skip


def _roofs(scop: ScopRun, machine: Machine) -> Iterator[tuple[str, str, float]]:
    """(level that is filled, text, bytes per second by all threads)."""
    threads = min(scop.threads, machine.cores)
    for cache, source in zip(machine.caches, [*machine.caches[1:], None], strict=True):
        if source is None:
            rate, what = machine.memory_bandwidth(threads) * threads, "memory"
        else:
            rate, what = machine.cache_bandwidth(source, threads) * threads, f"L{source.level}"
        yield f"L{cache.level}", f"{what} into L{cache.level}: {quantity(rate, 'B/s')}", rate


def _loop(name: str) -> str:
    """A loop's name; `@d` stands for the order of the statements inside of d loops."""
    return "statements" if name.startswith("@") else name


def working_sets(scop: ScopRun, machine: Machine) -> Chart | None:
    """The working sets of the original and the chosen variant against the caches; None without any."""
    both = [m for m in scop.variants() if m.id in (scop.chosen, ORIGINAL) and m.working_sets][::-1]
    if not both:
        return None
    marks: list[Point | Line] = []
    rows: list[Row] = []
    table: list[tuple[str, ...]] = []
    sizes: list[int] = []
    for variant in both:
        series, shape = _look(scop, variant)
        # Several dependences are one reuse when they have the same sizes (Algorithm 2).
        found: dict[tuple[str, str, str, int, int], list[str]] = {}
        for one in variant.working_sets:
            key = (one.nest, one.array, one.carried_by, one.min.at_most, one.max.at_most)
            found.setdefault(key, []).append(one.kind)
        by_place = {(w.nest, w.array, w.carried_by, w.min.at_most, w.max.at_most): w for w in variant.working_sets}
        largest = sorted(found, key=lambda key: key[4], reverse=True)
        name = "original" if variant.id == ORIGINAL else f"chosen {variant.id}"
        for key in largest:
            one, kinds = by_place[key], " ".join(dict.fromkeys(found[key]))
            low, high = max(1, one.min.at_most), max(1, one.max.at_most)
            table.append(
                (name, one.array, _loop(one.carried_by), kinds, bytes_text(low), one.level_min, bytes_text(high),
                 one.level_max)
            )  # fmt: skip
            if largest.index(key) >= MOST_SETS:
                continue
            row = len(rows)
            text = f"{name}: {one.array} over {_loop(one.carried_by)} ({kinds})"
            rows.append(Row(text))
            said = f"{text}: {bytes_text(low)} in {one.level_min} to {bytes_text(high)} in {one.level_max}"
            marks.append(Line(low, row, high, row, series, 5, text=said, variant=variant.id))
            marks.append(Point(low, row, series, said, shape, hollow=True, variant=variant.id))
            marks.append(Point(high, row, series, said, shape, variant=variant.id))
            sizes += [low, high]
    capacities = [(f"L{c.level}", c.bytes) for c in machine.caches]
    scale = bytes_axis("bytes", [*sizes, *(size for _, size in capacities)])
    walls = [
        Line(size, -0.5, size, len(rows) - 0.5, (n + 3) % SERIES, 1.5, dashed=True, text=f"{name}: {bytes_text(size)}")
        for n, (name, size) in enumerate(capacities)
    ]
    legend = [Entry(f"{name}: {bytes_text(size)}", (n + 3) % SERIES, "dashes") for n, (name, size) in
              enumerate(capacities)]  # fmt: skip
    return Chart(
        "working-sets",
        "Working sets against cache levels",
        "From the data touched until an element is used again (hollow) to that until its last use (filled). What is "
        "left of a dashed line fits that cache. " + (f"The largest {MOST_SETS} of each are drawn; the table has all."
        if len(table) > len(rows) else ""),
        scale,
        tuple(rows),
        (*walls, *marks),
        tuple(legend),
        ("variant", "array", "carried by", "kind", "until the next use", "in", "until the last use", "in "),
        tuple(table),
        frozenset({4, 6}),
    )  # fmt: skip

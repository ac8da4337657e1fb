"""The charts that set a scop against the machine: roofline, and working sets beside the caches."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from polydl.inspect.report.chart_style import look, median, said_of
from polydl.inspect.report.charts import SERIES, Chart, Entry, Line, Point, Row, axis, bytes_axis, bytes_text, quantity
from polydl.inspect.report.record import ORIGINAL, ScopRun, WorkingSet
from polydl.model.types import spelled
from polydl.target import Machine

MOST_SETS = 12
"""Working sets that are drawn of one variant."""


def roofline(scop: ScopRun, machine: Machine) -> Chart | None:
    """The kernel under the machine's roofs; None for scops without floating-point operations, and ones that nothing
    was timed of."""
    timed = [m for m in scop.timed() if m.id in (ORIGINAL, scop.chosen) or m.moved]
    element = spelled(scop.dtype)
    peak = 0.0 if element is None else machine.peak(element) * min(scop.threads, machine.cores)
    roofs = list(_roofs(scop, machine))
    if scop.operations is None or not scop.operations.at_most or not timed or not min(peak, *(r for _, _, r in roofs)):
        return None
    work = (scop.operations.at_least + scop.operations.at_most) / 2
    once = scop.compulsory_bytes.at_most if scop.compulsory_bytes is not None else 0
    levels = {name: n + 3 for n, (name, _, _) in enumerate(roofs)}
    speeds = {name: rate for name, _, rate in roofs}
    intensities = [work / size for m in timed for size in m.moved.values() if size > 0]
    scale = axis(
        "operations per byte moved",
        [*([work / once] if once else []), *intensities, *(peak / rate for _, _, rate in roofs)],
        log=True,
    )
    rates = [work / median(m) for m in timed]
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
        rate = work / median(variant)
        faint = variant.id not in (ORIGINAL, scop.chosen)
        shape = look(scop, variant)[1]
        for level, size in variant.moved.items():
            if size <= 0 or level not in levels:
                continue
            bound = max(min(peak, speeds[level] * work / size), sys.float_info.min)
            said = (
                f"{said_of(scop, variant)}, {quantity(rate, 'FLOP/s')}; into {level} {bytes_text(size)} by the traffic "
                f"model, {work / size:.3g} operations a byte, {rate / bound * 100:.3g} % of that roof"
            )
            marks.append(
                Point(work / size, rate, levels[level] % SERIES, said, shape, hollow=faint, variant=variant.id)
            )
            table.append((variant.id, level, bytes_text(size), f"{work / size:.3g}", quantity(rate, "FLOP/s"),
                          quantity(bound, "FLOP/s"), f"{rate / bound * 100:.1f} %"))  # fmt: skip
        if once and variant.id in (ORIGINAL, scop.chosen):
            said = f"{said_of(scop, variant)}, {quantity(rate, 'FLOP/s')}, each byte moved once"
            marks.append(Point(work / once, rate, 0, said, shape, variant=variant.id))
            reached, share = quantity(rate, "FLOP/s"), f"{rate / peak * 100:.1f} %"
            table.append(
                (variant.id, "each byte once", bytes_text(once), f"{work / once:.3g}", reached,
                 quantity(peak, "FLOP/s"), share)
            )  # fmt: skip
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
    hidden = 0
    for variant in both:
        series, shape = look(scop, variant)
        name = "original" if variant.id == ORIGINAL else f"chosen {variant.id}"
        reuses: dict[tuple[str, str, str], list[WorkingSet]] = {}
        for one in sorted(variant.working_sets, key=lambda w: w.max.at_most, reverse=True):
            reuses.setdefault((one.nest, one.array, one.carried_by), []).append(one)
            table.append(
                (name, one.array, _loop(one.carried_by), one.kind, bytes_text(one.min.at_most), one.level_min,
                 bytes_text(one.max.at_most), one.level_max)
            )  # fmt: skip
        hidden += max(0, len(reuses) - MOST_SETS)
        for (_, array, loop), some in list(reuses.items())[:MOST_SETS]:
            low, high = min(some, key=lambda w: w.min.at_most), max(some, key=lambda w: w.max.at_most)
            text = f"{name}: {array} over {_loop(loop)} ({' '.join(sorted({w.kind for w in some}))})"
            least, greatest = max(1, low.min.at_most), max(1, high.max.at_most)
            said = f"{text}: {bytes_text(least)} in {low.level_min} to {bytes_text(greatest)} in {high.level_max}"
            row = len(rows)
            rows.append(Row(text))
            marks.append(Line(least, row, greatest, row, series, 5, text=said, variant=variant.id))
            marks.append(Point(least, row, series, said, shape, hollow=True, variant=variant.id))
            marks.append(Point(greatest, row, series, said, shape, variant=variant.id))
            sizes += [least, greatest]
    capacities = [(f"L{c.level}", c.bytes) for c in machine.caches]
    scale = bytes_axis("bytes", [*sizes, *(size for _, size in capacities)])
    walls = [
        Line(size, -0.5, size, len(rows) - 0.5, (n + 3) % SERIES, 1.5, dashed=True, text=f"{name}: {bytes_text(size)}")
        for n, (name, size) in enumerate(capacities)
    ]
    legend = [Entry(f"{name}: {bytes_text(size)}", (n + 3) % SERIES, "dashes") for n, (name, size) in
              enumerate(capacities)]  # fmt: skip
    more = f"The largest {MOST_SETS} of each are drawn; the table has all." if hidden else ""
    return Chart(
        "working-sets",
        "Working sets against cache levels",
        "The bytes touched until an element is used again (hollow) and until its last use (filled), per array and "
        f"loop. What is left of a dashed line fits that cache. {more}".rstrip(),
        scale,
        tuple(rows),
        (*walls, *marks),
        tuple(legend),
        ("variant", "array", "carried by", "kind", "until the next use", "in", "until the last use", "in "),
        tuple(table),
        frozenset({4, 6}),
    )  # fmt: skip

"""The tables and sentences of a report, for all its formats: HTML, Markdown and CSV."""

from __future__ import annotations

import math
from collections.abc import Iterator

from polydl.base.records import dataclass
from polydl.inspect.report.charts import bytes_text, quantity
from polydl.inspect.report.figures import picks, rankers
from polydl.inspect.report.record import ORIGINAL, Measured, Run, ScopRun
from polydl.target import Machine
from polydl.target.model import OBSERVED

_DISAGREE = math.log(1.2)
"""Two ways to compute a speed-up that differ by more than this factor are worth a word."""


@dataclass(frozen=True, slots=True)
class Table:
    """Text in rows and columns."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[int] = frozenset()
    """Columns of numbers."""
    values: tuple[tuple[float | None, ...], ...] = ()
    """Per cell the number to sort by; None: by its text, or none. Empty: by the text."""
    ids: tuple[tuple[str, str], ...] = ()
    """Per row its variant and, where it has a time, that in words."""


def displayed(text: str, keep: str = "") -> str:
    """Text that may come from anybody, with what is not printed replaced, so that it is neither obeyed nor hidden:
    control characters, directions of writing, private use. `keep`: control characters that stay."""
    return "".join(c if c.isprintable() or c in keep else "\N{REPLACEMENT CHARACTER}" for c in text)


def verdict(scop: ScopRun) -> str:
    """The result in a sentence."""
    winner = scop.winner()
    if scop.undecided:
        stays = scop.chosen == ORIGINAL
        who = "The original stays" if stays else f"Variant {scop.chosen} was chosen by the estimate"
        return displayed(f"{who}: {scop.undecided}.")
    if scop.chosen == ORIGINAL:
        return "Nothing beat the original by more than the noise: it stays as it is."
    if winner.speedup is None or winner.median is None:
        return f"Variant {displayed(scop.chosen)} was chosen; it has no time."
    first = scop.original.median or math.nan
    times = f"{quantity(winner.median, 's')} instead of {quantity(first, 's')}"
    said = f"{winner.speedup:.3g} times as fast as the original: {times}."
    if abs(math.log(first) - math.log(winner.median) - math.log(winner.speedup)) > _DISAGREE:
        said += " The first figure is the median of the ratios within rounds; that the medians say something else shows"
        said += " that the timing was disturbed."
    return said


def summary(scop: ScopRun) -> Iterator[tuple[str, str]]:
    """Names and texts of the main figures."""
    winner = scop.winner()
    yield "variants ranked", f"{scop.space_size:,}"
    yield "measured", str(len(scop.measured))
    yield "verified", str(sum(m.verified for m in scop.measured))
    yield "threads", str(scop.threads)
    if scop.operations is not None and scop.operations.at_most and winner.median:
        exact = scop.operations.at_least == scop.operations.at_most
        work = (scop.operations.at_least + scop.operations.at_most) / 2
        yield "reached", f"{'' if exact else 'about '}{quantity(work / winner.median, 'FLOP/s')}"
    if scop.compulsory_bytes is not None:
        exact = scop.compulsory_bytes.at_least == scop.compulsory_bytes.at_most
        yield "data touched", f"{'' if exact else 'at most '}{bytes_text(scop.compulsory_bytes.at_most)}"
    yield "noise of the timing", f"{scop.noise * 100:.2g} %"


def sizes(scop: ScopRun) -> str:
    """What the parameters and macros were; empty without any."""
    return displayed(", ".join(f"{name} = {value}" for name, value in scop.sizes.items()))


def missing(scop: ScopRun) -> list[str]:
    """Why some charts are not there."""
    found = []
    if not rankers(scop):
        found.append("No chart of predictions: the rankers' models do not know the variants that were measured.")
    elif alike := sorted({name for m in scop.measured for name in m.scores} - set(rankers(scop))):
        found.append(
            f"No chart of what these rankers predict, which tell no measured variants apart: {', '.join(alike)}."
        )
    if scop.operations is None or not scop.operations.at_most:
        found.append("No roofline: the code does not say how many floating-point operations it does, or does none.")
    notes = [f"{m.id}: {m.working_sets_note}" for m in (scop.winner(), scop.original) if m.working_sets_note]
    return [displayed(text) for text in (*found, *(f"No working sets of {note}." for note in dict.fromkeys(notes)))]


def fusion_text(scop: ScopRun) -> list[str]:
    """A sentence about fusion that goes with the table of decisions."""
    if scop.fusion is None:
        return ["Fusion was not looked at."]
    if not scop.fusion.decisions:
        return ["There is nothing to fuse."]
    names = ", ".join(scop.fusion.contracted)
    return [displayed(f"Without storage after fusion: {names}.")] if names else []


def fusion(scop: ScopRun) -> Table:
    decisions = scop.fusion.decisions if scop.fusion else ()
    words = {"epilogue": "after it, in its last iterations", "prologue": "before it, in its first iterations"}
    rows = tuple(
        (d.nest, d.into, words.get(d.how, "loop by loop"), "yes" if d.fused else "no", d.reason) for d in decisions
    )
    return Table("Fusion decisions", ("nest", "into", "how", "can be fused", "loops, or why not"), rows)


def dependences_text(scop: ScopRun) -> str:
    carried = {d.carried_by for d in scop.dependences if d.carried_by and not d.reduction}
    sums = {d.carried_by for d in scop.dependences if d.carried_by and d.reduction} - carried
    if not scop.dependences:
        return "There are none: every iteration can run at any time."
    said = f"Loops that carry a dependence: {', '.join(sorted(carried)) or 'none'}."
    return displayed(said + (f" Only sums are carried by {', '.join(sorted(sums))}." if sums else ""))


def dependences(scop: ScopRun) -> Table:
    rows = tuple(
        (d.kind, d.array, f"{d.source} → {d.target}", d.carried_by or "no loop", "yes" if d.reduction else "no")
        for d in scop.dependences
    )
    return Table("Dependences", ("kind", "array", "from, to", "carried by", "a sum, may be reordered"), rows)


def variants_text(scop: ScopRun, most: int) -> str:
    hidden = max(0, _unmeasured(scop) - most)
    pruned = ", ".join(f"{count} {reason}" for reason, count in scop.pruned.items())
    said = f"{scop.space_size:,} were scored by {scop.ranker} in {quantity(scop.analysis_seconds, 's')}"
    said += f"; not tried: {pruned}." if pruned else "."
    more = f" The table has all that were measured and the best {most} others; {hidden:,} more are in the CSV."
    how = " The chosen one is the first, as ranked, that the noise of the timing does not tell from the fastest."
    return displayed(said + (more if hidden else "") + (how if scop.chosen != ORIGINAL else ""))


def _unmeasured(scop: ScopRun) -> int:
    measured = {m.id for m in scop.measured}
    return sum(v.id not in measured for v in scop.ranked)


def variants(scop: ScopRun, most: int) -> Table:
    """The measured variants and the best ranked of the others, at most so many."""
    names = rankers(scop)
    picked: dict[str, list[str]] = {}
    for name, variant in picks(scop).items():
        picked.setdefault(variant.id, []).append(name)
    rows, values, ids = [], [], []
    place = {v.id: n for n, v in enumerate(scop.ranked, 1)}
    scores = {v.id: v.score for v in scop.ranked}
    for m in (*scop.timed(), *(m for m in scop.variants() if not m.verified or m.median is None)):
        ratio = m.speedup if m.id != ORIGINAL else 1.0
        own = [m.scores[n].score if n in m.scores else None for n in names]
        rows.append(
            (
                m.id, quantity(m.median or math.nan, "s"), _factor(ratio), str(place.get(m.id, "–")),
                *(_number(score) for score in own), _state(scop, m), ", ".join(picked.get(m.id, [])), m.loops,
            )
        )  # fmt: skip
        values.append((None, m.median, ratio, place.get(m.id), *own, None, None, None))
        ids.append((m.id, f"{m.id}, {m.loops}: {quantity(m.median, 's')}" if m.median is not None else ""))
    seen = {m.id for m in scop.measured}
    others = [v for v in scop.ranked if v.id not in seen][:most]
    for v in others:
        score = scores[v.id]
        own = [score if name == scop.ranker else None for name in names]
        rows.append((v.id, "–", "–", str(place[v.id]), *(_number(s) for s in own), "not measured", "", v.loops))
        values.append((None, None, None, place[v.id], *own, None, None, None))
        ids.append((v.id, ""))
    columns = ("variant", "time", "speed-up", "rank", *(f"{n} score" for n in names), "state", "picked by", "loops")
    numeric = frozenset(range(1, 4 + len(names)))
    return Table(f"Variants of {scop.function}", columns, tuple(rows), numeric, tuple(values), tuple(ids))


def _state(scop: ScopRun, found: Measured) -> str:
    if found.id == scop.chosen:
        return "chosen"
    if not found.verified:
        return f"dropped, {found.status}: {found.message[:200]}"
    return "the reference" if found.id == ORIGINAL else "verified"


def _factor(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}×"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def remarks(scop: ScopRun) -> Iterator[str]:
    """Assumptions, and what was refused or given up."""
    yield from (f"Assumed: {text}" for text in scop.assumptions)
    yield from (f"Refused: {text}" for text in scop.illegal)
    yield from (f"Given up: {text}" for text in scop.given_up)


def machine(found: Machine) -> Table:
    """The figures of a machine, each with where it comes from."""

    def source(key: str) -> str:
        where = found.provenance.get(key)
        return where.value if where else "–"

    rows = [
        ("name", found.name, source("name")),
        ("cores", str(found.cores), source("cores")),
        ("clock under vector code", f"{found.frequency_ghz:.3g} GHz", source("frequency_ghz")),
        ("vectors", f"{found.simd.isa}, {found.simd.registers} registers of {found.simd.vector_bytes} bytes",
         source("simd.isa")),
    ]  # fmt: skip
    rows += [
        (f"peak of one core, {element}", quantity(rate * 1e9, "FLOP/s"), source(f"fma_peak_gflops.{element}"))
        for element, rate in found.fma_peak_gflops.items()
    ]
    rows += [
        (f"peak of one core, {name}", quantity(rate * 1e9, "OP/s"), source(f"product_gops.{name}"))
        for name, rate in found.product_gops.items()
    ]
    for cache in found.caches:
        key = f"cache.{cache.level}"
        shared = f"{cache.shared_by_cores} cores" if cache.shared_by_cores > 1 else "one core"
        size = f"{bytes_text(cache.bytes)}, {cache.ways} ways, lines of {cache.line_bytes} bytes, of {shared}"
        rows.append((f"L{cache.level}", size, source(f"{key}.bytes")))
        speed = f"{cache.latency_cycles:.3g} cycles, {quantity(found.cache_bandwidth(cache), 'B/s')} into one core"
        rows.append((f"L{cache.level}, speed", speed, source(f"{key}.bandwidth_bytes_per_cycle")))
    memory = found.memory
    rows.append(("memory, latency", f"{memory.latency_ns:.3g} ns", source("memory.latency_ns")))
    rates = f"{memory.bandwidth_gbs:.3g} GB/s into one core, {memory.shared_bandwidth_gbs:.3g} GB/s into all"
    rows.append(("memory, bandwidth", rates, source("memory.bandwidth_gbs")))
    pages = f"{found.tlb.l1_entries} and {found.tlb.l2_entries} entries of {bytes_text(found.tlb.page_bytes)}"
    rows.append(("address translation", pages, source("tlb.l1_entries")))
    rows += [(OBSERVED[key], f"{value:.3g}", source(f"observed.{key}")) for key, value in found.observed.items()]
    return Table(f"{found.name} ({found.fingerprint})", ("what", "figure", "where from"), tuple(rows))


def facts(run: Run) -> Table:
    """When, with what and from which files the run was made."""
    rows = [("command", run.command or "from Python"), ("output", run.output or "none")]
    rows += [(f"option {name}", value) for name, value in run.options.items()]
    rows += [(f"seconds, {name}", f"{value:.2f}") for name, value in run.seconds.items()]
    return Table("How the run was made", ("what", "value"), tuple(rows))

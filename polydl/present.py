"""Results as people read them (rich tables on standard error or output) and as JSON documents."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from polydl.analysis import Analysis
    from polydl.machine import Machine
    from polydl.measure import Progress as ProgressCallback
    from polydl.pipeline import Optimized, OptimizeResult, RankedVariant, Ranking

_STAGES = {"rank": "ranking", "compile": "compiling", "verify": "checking", "time": "timing"}


@contextmanager
def progress(*, quiet: bool) -> Iterator[ProgressCallback]:
    """A progress bar per stage on standard error, shown on terminals only."""
    console = Console(stderr=True)
    bars = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        console=console, transient=True, disable=quiet or not console.is_terminal, auto_refresh=False,
    )  # fmt: skip
    tasks: dict[str, Any] = {}

    def report(stage: str, done: int, total: int) -> None:
        if stage not in tasks:
            tasks[stage] = bars.add_task(_STAGES.get(stage, stage), total=total)
        bars.update(tasks[stage], completed=done, total=total)
        bars.refresh()

    with bars:
        yield report


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def flops(ranking: Ranking) -> float | None:
    """Floating-point operations of a scop's contractions (two an instance); None when it has none."""
    total = 0
    for nest in ranking.nests:
        if nest.contraction is not None:
            product = 2
            for count in nest.counts.values():
                if count.extent is None:
                    return None
                product *= count.extent
            total += product
    return float(total) if total else None


def loops_text(variant: RankedVariant) -> str:
    """The loops of a variant in one line: `j/32* pack(B) k.0/256 i/12 | i.mk j.mk k.1`; * is parallel, / a step."""
    parts = []
    for structure in variant.structures:
        words = []
        for loop in structure.loops:
            word = f"{loop.name}/{loop.step}" if loop.step > 1 else loop.name
            words.append(f"{word}*" if loop.name in structure.parallel else word)
        for pack in sorted(structure.packs, key=structure.pack_depth, reverse=True):
            words.insert(structure.pack_depth(pack), f"pack({pack.operand})")
        inside = " ".join(loop.name for loop in structure.inside)
        parts.append(" ".join(words) + (f" | {inside}" if inside else ""))
    return "; ".join(parts)


def variant_json(variant: RankedVariant) -> dict[str, Any]:
    """A ranked variant as data."""
    return {
        "id": variant.id,
        "recipe": variant.recipe.to_data(),
        "loops": loops_text(variant),
        "score": _finite(variant.score),
        "features": {k: _finite(float(v)) for k, v in variant.features.items()},
    }


def rank_json(rankings: Sequence[Ranking]) -> dict[str, Any]:
    """The document of `polydl rank --json`: of the only scop, or of the first with the others under `scops`."""
    documents = [
        {
            "function": r.scop.function,
            "sizes": dict(r.scop.sizes),
            "machine": r.machine.name,
            "ranker": r.ranker,
            "space_size": r.space_size,
            "pruned": dict(r.pruned),
            "variants": [variant_json(v) for v in r.variants],
            "seconds": r.seconds,
        }
        for r in rankings
    ]
    return documents[0] if len(documents) == 1 else {**documents[0], "scops": documents}


def _timing(seconds: float, work: float | None) -> dict[str, float | None]:
    return {
        "seconds": _finite(seconds),
        "gflops": None if work is None or not seconds > 0 else work / seconds / 1e9,
    }


def _optimized_json(done: Optimized) -> dict[str, Any]:
    work = flops(done.ranking)
    report = done.report
    recipes = {v.id: v for v in done.ranking.variants} if report else {}
    return {
        "function": done.ranking.scop.function,
        "chosen": done.chosen.id if done.chosen else "original",
        "recipe": done.chosen.recipe.to_data() if done.chosen else [],
        "speedup": _finite(done.speedup),
        "original": _timing(report.original.median, work) if report else {"seconds": None, "gflops": None},
        "variants": [
            {
                "id": m.id,
                "loops": loops_text(recipes[m.id]),
                **_timing(m.median, work),
                "spread": _finite(m.spread),
                "verified": m.verified,
                "status": m.status.value,
                "message": m.message,
            }
            for m in (report.measurements if report else ())
        ],
        "noise": report.noise if report else None,
        "warnings": list(report.warnings) if report else [],
        "illegal": list(done.illegal),
    }


def optimize_json(result: OptimizeResult) -> dict[str, Any]:
    """The document of `polydl optimize --json`."""
    scops = [_optimized_json(d) for d in result.scops]
    document = {"output": str(result.output) if result.output else None, **scops[0], "seconds": dict(result.seconds)}
    return document if len(scops) == 1 else {**document, "scops": scops}


def _seconds(value: float) -> str:
    if not math.isfinite(value):
        return "-"
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if value * scale >= 1 or unit == "µs":
            return f"{value * scale:.3g} {unit}"
    return ""


_WIDE = 150


def _console() -> Console:
    """Standard output; wide where it is no terminal, so that files and pipes get whole lines."""
    console = Console()
    return console if console.is_terminal else Console(width=_WIDE)


def show_optimized(result: OptimizeResult, *, ran: bool) -> None:
    """The result table on standard output."""
    console = _console()
    for done in result.scops:
        if done.report is None:
            show_rankings([done.ranking], 10)
            continue
        _measured_table(console, done)
        for text in (*done.report.warnings, *(f"refused: {i}" for i in done.illegal)):
            console.print(f"note: {text}", style="yellow", markup=False, highlight=False)
        for assumption in done.ranking.scop.assumptions:
            console.print(f"assumed: {assumption}", markup=False, highlight=False)
        verdict = (
            f"{done.speedup:.2f}x faster than the original" if done.chosen else "nothing beat the original: unchanged"
        )
        console.print(f"{done.ranking.scop.function}: {verdict}", style="bold", markup=False, highlight=False)
    times = ", ".join(f"{name} {value:.2f} s" for name, value in result.seconds.items())
    written = f"wrote {result.output}" if result.output else "nothing written"
    console.print(f"{written} ({times})", markup=False, highlight=False, soft_wrap=True)


def _measured_table(console: Console, done: Optimized) -> None:
    report = done.report
    assert report is not None
    work = flops(done.ranking)
    ranking = done.ranking
    measured_of = f"{len(report.measurements)} of {ranking.space_size} variants"
    title = f"{ranking.scop.function}: {measured_of}, {ranking.threads} threads"
    table = Table(title=title, title_justify="left")
    for name in ("variant", "loops (* parallel, | in the microkernel)", "time", "spread", "GFLOP/s", "speed-up", ""):
        table.add_column(name, justify="left" if name in ("variant", "") or name.startswith("loops") else "right")
    variants = {v.id: v for v in ranking.variants}
    rows = [(report.original, "as written"), *((m, loops_text(variants[m.id])) for m in report.measurements)]
    for measured, loops in rows:
        chosen = measured.id == (done.chosen.id if done.chosen else report.original.id)
        rate = work / measured.median / 1e9 if work and measured.median > 0 else math.nan
        remark = "chosen" if chosen else "" if measured.verified else f"{measured.status.value}: {measured.message}"
        table.add_row(
            measured.id, Text(loops), _seconds(measured.median),
            f"{measured.spread * 100:.1f} %" if math.isfinite(measured.spread) else "-",
            f"{rate:.1f}" if math.isfinite(rate) else "-",
            f"{measured.speedup:.2f}x" if math.isfinite(measured.speedup) else "-",
            Text(remark), style="bold green" if chosen else None,
        )  # fmt: skip
    console.print(table)


def show_rankings(rankings: Sequence[Ranking], top: int) -> None:
    """The best ranked variants."""
    console = _console()
    for ranking in rankings:
        title = (
            f"{ranking.scop.function}: {ranking.space_size} variants ranked by {ranking.ranker} "
            f"for {ranking.machine.name}, {ranking.threads} threads, in {ranking.seconds:.2f} s"
        )
        table = Table(title=title, title_justify="left")
        for name in ("rank", "variant", "score", "loops (* parallel, | in the microkernel)"):
            table.add_column(name)
        for place, variant in enumerate(ranking.variants[:top], 1):
            table.add_row(str(place), variant.id, f"{variant.score:.4g}", Text(loops_text(variant)))
        console.print(table)


def show_analyses(results: Sequence[Analysis]) -> None:
    """What was extracted."""
    console = _console()
    for result in results:
        data = result.to_data()
        console.print(f"{data['file']}:{data['line']}: {data['function']}", style="bold", markup=False)
        for statement in data["statements"]:
            console.print(f"  {statement['name']}: {statement['domain']}", markup=False, highlight=False)
            for verb in ("reads", "writes"):
                for access in statement[verb]:
                    console.print(f"    {verb} {access}", markup=False, highlight=False)
        console.print(f"  parallel loops: {', '.join(data['parallel_loops']) or 'none'}", markup=False)
        _table(console, "dependences", data["dependences"], ("kind", "array", "carried_by", "map"))
        _table(
            console, "working sets (elements)", data["working_sets"],
            ("kind", "array", "carried_by", "min", "max", "level_min", "level_max"),
        )  # fmt: skip


def _table(console: Console, title: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column.replace("_", " "))
    for row in rows:
        table.add_row(*(Text("" if row[c] is None else str(row[c])) for c in columns))
    console.print(table)


def machine_json(machine: Machine) -> dict[str, Any]:
    """A machine as data."""
    provenance = {key: value.value for key, value in machine.provenance.items()}
    return {"fingerprint": machine.fingerprint, **asdict(machine), "provenance": provenance}


def show_machine(machine: Machine) -> None:
    """A machine as its TOML text, each figure with where it comes from."""
    from polydl.machine import dumps

    Console().print(dumps(machine), markup=False, highlight=False, soft_wrap=True)

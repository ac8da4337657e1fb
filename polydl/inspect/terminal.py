"""What a run found, as the tables and lines that people read on a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from rich import box
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from polydl.base.units import seconds_text
from polydl.inspect.analyses import Analysis
from polydl.inspect.documents import flops, loop_letters
from polydl.inspect.loop_string_file import ScoredLines
from polydl.inspect.miss_counts import Misses
from polydl.inspect.size_curve_record import curve_rows, recorded_curve
from polydl.inspect.sizes_in_words import at_lines, stands_for
from polydl.measure import Status
from polydl.model.counting import Count
from polydl.model.touched import premises
from polydl.rank.shape_correction import Correction
from polydl.results import FuseResult, Optimized, OptimizeResult, Ranking
from polydl.search.sizes.code import EverySize
from polydl.search.sizes.curve import SizeCurve
from polydl.search.sizes.decision_tree import AtSizes
from polydl.target import Machine, dumps

WIDTH = 120
"""Columns of a table where no terminal says how many there are."""
_LOOPS = "loops (* parallel, | in the microkernel)"
"""Heading of the column with a variant's loops."""
_WIDE = 0.3
"""Spread that needs a word."""


def output_console() -> Console:
    """Standard output; where it is no terminal tables are as wide as a page of text, and lines are not wrapped."""
    console = Console()
    return console if console.is_terminal else page()


def page(file: IO[str] | None = None) -> Console:
    """What shows results as in a pipe: tables fit into `WIDTH` columns, in which nothing is left out."""
    return Console(file=file, width=WIDTH)


def say(console: Console, text: str, style: str | None = None) -> None:
    """A line of plain text: what it holds (file names, compiler messages) is no markup."""
    console.print(Text(_printable(text)), style=style, soft_wrap=True)


def _printable(text: str) -> str:
    """Names of files may hold anything; what a terminal would obey is shown as an escape."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def _rate(gflops: float) -> str:
    if not math.isfinite(gflops):
        return "-"
    return f"{gflops:.1f}" if gflops >= 1 else f"{gflops:.2g}"


def _result_table(*columns: tuple[str, JustifyMethod], folded: int = 1) -> Table:
    """A table whose last columns are folded where there is too little room; the others are always whole."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, justify in columns[:-folded]:
        table.add_column(name, justify=justify, no_wrap=True)
    for name, justify in columns[-folded:]:
        table.add_column(name, justify=justify, overflow="fold")
    return table


def _spread(value: float) -> str:
    if not math.isfinite(value):
        return "-"
    return f"{value * 100:.1f} %" if value < 1 else "> 100 %"


def show_scored(scored: Sequence[ScoredLines]) -> None:
    """The scored lines of a file of loop strings."""
    console = output_console()
    for one in scored:
        ranking = one.ranking
        say(
            console,
            f"{ranking.scop.function}: ranked by {ranking.ranker} for {ranking.machine.name}, "
            f"{ranking.threads} threads",
        )
        table = _result_table(
            ("rank", "right"), ("predicted", "right"), ("loop string", "left"), ("blocks", "left"), ("variant", "left"),
            (_LOOPS, "left"), folded=4,
        )  # fmt: skip
        for rank, variant, loops, blocks in one.rows():
            shown = (Text(loops.text), Text(blocks.text), variant.id, Text(variant.loops))
            table.add_row(str(rank), seconds_text(variant.score, 4), *shown)
        console.print(table)
        show_letters(console, ranking)


def show_letters(console: Console, ranking: Ranking) -> None:
    """Which loop each letter of a loop string stands for."""
    for nest, named in loop_letters(ranking).items():
        said = ", ".join(f"{letter} = {loop}" for letter, loop in named.items())
        say(console, f"letters of {nest}: {said}")


def show_optimized(result: OptimizeResult, *, ran: bool, console: Console | None = None) -> None:
    """The result table, on standard output where no console is given."""
    console = console or output_console()
    for done in result.scops:
        if not ran or done.report is None:
            show_rankings([done.ranking], 10, console=console)
        else:
            _measured_table(console, done)
        notes = [*(done.report.warnings if done.report else ()), *(f"refused: {i}" for i in done.illegal)]
        notes += done.chosen.notes if done.chosen else ()
        for text in notes:
            say(console, f"note: {text}", "yellow")
        if done.chosen is not None and done.chosen.generated.memory.of_one:
            say(console, done.chosen.generated.memory.text(done.ranking.threads))
        for name, proof in done.proofs.items():
            chosen = done.chosen is not None and done.chosen.id == name
            for text in proof.lines() if chosen else ():
                say(console, text)
            if proof.verdict == "open" and not chosen:
                say(console, f"note: {name} not proved: {proof.reason}", "yellow")
        if isinstance(done.other_sizes, EverySize) and done.other_sizes.shown:
            say(console, done.other_sizes.shown)
        for text in premises(done.ranking.scop):
            say(console, text)
        if done.report is not None:
            say(console, f"{done.ranking.scop.function}: {done.verdict}", "bold")
        if done.curve is not None:
            _curve_table(console, done.curve)
    undefined = (f"undefined behaviour of the source: {one}" for one in result.checked.undefined)
    uncalled = (f"'{name}' was not called beside the source: {why}" for name, why in result.checked.not_called.items())
    for text in (result.timed_at, result.left_out, result.less, *result.unread, *undefined, *uncalled):
        if text:
            say(console, f"note: {text}", "yellow")
    if result.seconds["analysis"] > result.budget:
        took = f"the analysis took {result.seconds['analysis']:.0f} s, which the budget does not count"
        say(console, f"note: {took}: --space small has fewer variants to rank", "yellow")
    times = ", ".join(f"{name} {value:.2f} s" for name, value in result.seconds.items())
    written = f"wrote {result.output}" if result.output else "nothing written"
    say(console, f"{written} ({times})")


def _curve_table(console: Console, curve: SizeCurve) -> None:
    found = recorded_curve(curve)
    assert found is not None
    what = "estimates, nothing was run" if curve.estimated else "medians, timed in turns"
    say(console, f"at other sizes ({what}):")
    table = _result_table(
        ("sizes", "left"), ("", "left"), ("original", "right"), ("output", "right"), ("tuned for it", "right"),
        ("speed-up", "right"), ("not timed", "left"),
    )  # fmt: skip
    for row in curve_rows(found):
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


def _measured_table(console: Console, done: Optimized) -> None:
    report = done.report
    assert report is not None
    work = flops(done.ranking)
    ranking = done.ranking
    measured_count = sum(m.status is not Status.LEFT_OUT for m in report.measurements)
    tried = f"{measured_count} of {ranking.space_size} variants measured"
    say(console, f"{ranking.scop.function}: {tried}, {ranking.threads} threads")
    table = _result_table(
        ("", "left"), ("variant", "left"), ("time", "right"), ("spread", "right"), ("GFLOP/s", "right"),
        ("speed-up", "right"), (_LOOPS, "left"),
    )  # fmt: skip
    variants = {v.id: v for v in ranking.variants}
    rows = [(report.original, "as written"), *((m, variants[m.id].loops) for m in report.measurements)]
    for measured, loops in rows:
        chosen = measured.id == (done.chosen.id if done.chosen else report.original.id)
        left_out = measured.status is Status.LEFT_OUT
        rate = work / measured.median / 1e9 if work and measured.median > 0 else math.nan
        table.add_row(
            ">" if chosen else "" if measured.verified else "-" if left_out else "x",
            measured.id, ("about " if measured.estimated else "") + seconds_text(measured.median),
            _spread(measured.spread),
            _rate(rate),
            f"{measured.speedup:.2f}x" if math.isfinite(measured.speedup) else "-",
            Text(loops), style="bold green" if chosen else None if measured.verified or left_out else "red",
        )  # fmt: skip
    console.print(table)
    if any(measured.spread >= _WIDE for measured, _ in rows):
        say(console, "spread: of a line's samples, how far apart the middle half lie, in parts of their median")
    for name, reason in done.why_timed.items():
        say(console, f"timed {name}: {reason}")
    why = report.why(done.chosen.id if done.chosen else report.original.id)
    if why:
        say(console, f"why not the shortest time: {why}")
    for measured in report.measurements:
        if not measured.verified and measured.status is not Status.LEFT_OUT:
            say(console, f"dropped: {measured.id} {measured.status.value}: {measured.message}", "red")


def show_rankings(
    rankings: Sequence[Ranking], top: int, there: Sequence[AtSizes] = (), console: Console | None = None
) -> None:
    """The best ranked variants; `there`: what the output of each runs at the sizes asked about, if they were. On
    standard output where no console is given."""
    console = console or output_console()
    for number, ranking in enumerate(rankings):
        say(
            console,
            f"{ranking.scop.function}: {ranking.space_size} variants ranked by {ranking.ranker} "
            f"for {ranking.machine.name}, {ranking.threads} threads, in {ranking.seconds:.2f} s",
        )
        if ranking.ranges:
            say(console, stands_for(ranking))
        if ranking.pruned:
            say(console, "not tried: " + ", ".join(f"{count} {reason}" for reason, count in ranking.pruned.items()))
        table = _result_table(("rank", "right"), ("variant", "left"), ("predicted", "right"), (_LOOPS, "left"))
        for place, variant in enumerate(ranking.variants[:top], 1):
            table.add_row(str(place), variant.id, seconds_text(variant.score, 4), Text(variant.loops))
        console.print(table)
        show_letters(console, ranking)
        if there:
            for line in at_lines(there[number]):
                say(console, line)


def show_analyses(results: Sequence[Analysis]) -> None:
    """What was extracted."""
    console = output_console()
    for result in results:
        data = result.to_data()
        say(console, f"{data['file']}:{data['line']}: {data['function']}", "bold")
        for statement in data["statements"]:
            say(console, f"  {statement['name']}: {statement['domain']}")
            for verb in ("reads", "writes"):
                for access in statement[verb]:
                    say(console, f"    {verb} {access}")
        say(console, f"  parallel loops: {', '.join(data['parallel_loops']) or 'none'}")
        for kind, said in (("asked where it runs", data["asked"]), ("assumed", data["assumptions"])):
            for text in said:
                say(console, f"  {kind}: {text}")
        _table(console, "dependences", data["dependences"], ("kind", "array", "carried_by", "map"))
        if len(data["nests"]) > 1:
            rows = [{**edge, "kind": _kind_of(edge), "loops": _bound(edge["bound"])} for edge in data["flow"]]
            _table(console, "flow between nests", rows, ("array", "producer", "consumer", "bytes", "kind", "loops"))
        _table(
            console, "working sets (elements)", data["working_sets"],
            ("kind", "array", "carried_by", "min", "max", "level_min", "level_max"),
        )  # fmt: skip


def show_misses(results: Sequence[Misses]) -> None:
    """Accesses and misses by statement and array, then those of all."""
    console = output_console()
    for found in results:
        scop, machine = found.scop, found.machine
        of = f" of variant {found.variant}" if found.variant else ""
        say(console, f"{scop.source.path}:{scop.span.line}: {scop.function}: misses{of} on {machine.name}", "bold")
        if scop.sizes:
            say(console, f"  sizes: {', '.join(f'{name}={value}' for name, value in scop.sizes.items())}")
        sizes = [
            f"{level} {cache.bytes // 1024} KiB" + (f", {cache.ways} ways" if found.simulated else "")
            for level, cache in zip(found.levels, machine.caches, strict=True)
        ]
        kind = "set-associative" if found.simulated else "fully associative"
        say(console, f"  {kind} LRU, lines of {machine.caches[0].line_bytes} bytes: {'; '.join(sizes)}")
        table = _result_table(
            ("statement", "left"), ("array", "left"), ("accesses", "right"), ("compulsory", "right"),
            *((level, "right") for level in found.levels),
        )  # fmt: skip
        for statement, array, misses in (*found.by_array(), ("total", "", found.total)):
            counts = (misses.accesses, misses.compulsory, *misses.capacity)
            table.add_row(Text(statement), Text(array), *(Text(_grouped(count)) for count in counts))
        console.print(table)
        for note in found.notes:
            say(console, f"  {note}")


def _grouped(size: Count) -> str:
    """`67,043,328`; `1..5` for bounds."""
    return f"{size.lower:,}" if size.exact else f"{size.lower:,}..{size.upper:,}"


def _kind_of(edge: Mapping[str, Any]) -> str:
    return "private" if edge["private"] else "constant" if edge["constant"] else ""


def _bound(pairs: Sequence[Mapping[str, Any]]) -> str:
    """The pairs of loops that go together: `i = j`, `i = j + 1`."""
    sides = ((b["producer"], b["consumer"], b["offset"]) for b in pairs)
    return ", ".join(f"{i} = {j}" + (f" {'+' if c > 0 else '-'} {abs(c)}" if c else "") for i, j, c in sides)


def _table(console: Console, title: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    say(console, f"\n{title}")
    table = _result_table(*((column.replace("_", " "), "left") for column in columns))
    for row in rows:
        table.add_row(*(Text("" if row[c] is None else str(row[c])) for c in columns))
    console.print(table)


def show_fused(result: FuseResult) -> None:
    """The decisions on standard output."""
    console = output_console()
    for fused in result.scops:
        lines = fused.lines() or ["nothing to fuse"]
        for line in lines:
            say(console, f"{fused.scop.function}: {line}")
    say(console, f"wrote {result.output}")


def show_correction(found: Correction | None, store: Path) -> None:
    """What earlier runs on a machine say of estimates, with how much it rests on."""
    console = output_console()
    if found is None:
        say(console, f"no times of earlier runs with these figures are kept ({store})")
        return
    say(
        console,
        f"times of {found.variants} variants in {found.problems} runs are kept ({store}): correction {found.id}, by "
        "which optimize chooses what to time (--no-learn: without; polydl machine --forget deletes them)",
    )
    table = _result_table(("shape or resource", "left"), ("times over estimates", "right"), ("variants", "right"))
    for one in found.factors:
        if one.variants:
            table.add_row(Text(one.name), f"{one.factor:.3f} ± {one.error:.3f}", str(one.variants))
    console.print(table)


def show_forgotten(count: int, store: Path) -> None:
    """That the times of earlier runs were deleted."""
    say(output_console(), f"{count} measurements were deleted ({store})")


def show_machine(machine: Machine) -> None:
    """A machine as its TOML text, each figure with where it comes from."""
    say(output_console(), dumps(machine))

"""The report as Markdown, and its variants as CSV."""

from __future__ import annotations

import csv
import io
import re

from polydl.inspect.report import tables
from polydl.inspect.report.figures import charts
from polydl.inspect.report.record import ORIGINAL, Measured, Run, ScopRun
from polydl.inspect.report.tables import Table, displayed

MOST_RANKED = 20
"""Variants of a Markdown table that were ranked and not measured."""


def markdown(run: Run) -> str:
    """The content of the page as GitHub-flavoured Markdown, without the charts."""
    parts = [
        f"# {_inline(run.source)}",
        f"{_inline(run.created)}, {_inline(run.machine.name)}, polydl {_inline(run.polydl)}",
    ]
    for scop in run.scops:
        parts += [f"## {_inline(scop.function)} (line {scop.line})", _inline(tables.verdict(scop))]
        parts.append("\n".join(f"- {name}: {_inline(text)}" for name, text in tables.summary(scop)))
        parts.append(f"Sizes: {_inline(tables.sizes(scop))}" if scop.sizes else "")
        parts += [f"**Note:** {_inline(text)}" for text in (*scop.warnings, *scop.notes)]
        parts += ["### Before", _code(scop.before)]
        parts += ["### After", _code(scop.after) if scop.after else "The original stays."]
        for chart in charts(scop, run.machine):
            parts += [f"### {_inline(chart.title)}", _inline(chart.description)]
            parts.append(_table(Table(chart.title, chart.columns, chart.rows, chart.numeric)))
        parts += [_inline(text) for text in tables.missing(scop)]
        parts += ["### Fusion", *(_inline(text) for text in tables.fusion_text(scop)), _table(tables.fusion(scop))]
        parts += ["### Dependences", _inline(tables.dependences_text(scop)), _table(tables.dependences(scop))]
        parts += ["### Variants", _inline(tables.variants_text(scop, MOST_RANKED))]
        parts.append(_table(tables.variants(scop, MOST_RANKED)))
        parts.append("\n".join(f"- {_inline(text)}" for text in tables.remarks(scop)))
    parts += ["## Machine", _table(tables.machine(run.machine)), "## Run", _table(tables.facts(run))]
    return "\n\n".join(part for part in parts if part) + "\n"


def _inline(text: str) -> str:
    """Text escaped so that Markdown sees no markup in it."""
    return re.sub(r"([\\`*_\[\]<>|~&])", r"\\\1", displayed(text))


def _code(text: str) -> str:
    shown = displayed(text, keep="\n\t")
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    return f"{fence}c\n{shown}\n{fence}"


def _table(table: Table) -> str:
    if not table.rows:
        return ""
    rule = ("---:" if n in table.numeric else "---" for n in range(len(table.columns)))
    lines = [table.columns, tuple(rule)]
    text = [" | ".join(map(_inline, table.columns)), " | ".join(lines[1])]
    text += [" | ".join(map(_inline, row)) for row in table.rows]
    return "\n".join(f"| {line} |" for line in text)


def variants_csv(run: Run) -> str:
    """All variants, one per line: ranked, measured or both. Times in seconds, empty where there is nothing to say."""
    rankers = sorted({name for scop in run.scops for m in scop.variants() for name in m.scores})
    features = list(dict.fromkeys(name for scop in run.scops for v in scop.ranked for name in v.features))
    out = io.StringIO()
    write = csv.writer(out, lineterminator="\n").writerow
    write(
        ["function", "variant", "rank", "score", "status", "chosen", "median_seconds", "spread", "speedup", "samples",
         *(_cell(f"score_{name}") for name in rankers), *(_cell(f"feature_{name}") for name in features), "recipe",
         "loops"]
    )  # fmt: skip
    for scop in run.scops:
        for line in _lines(scop, rankers, features):
            write([_cell(value) for value in line])
    return out.getvalue()


Cell = str | float | int | None


def _lines(scop: ScopRun, rankers: list[str], features: list[str]) -> list[list[Cell]]:
    measured = {m.id: m for m in scop.measured}
    original = _measured(scop, scop.original, rankers)
    found: list[list[Cell]] = [
        [scop.function, ORIGINAL, None, None, *original, *(None for _ in features), "", "as written"]
    ]
    for rank, v in enumerate(scop.ranked, 1):
        times = _measured(scop, measured.get(v.id), rankers)
        own = [v.features.get(name) for name in features]
        found.append([scop.function, v.id, rank, v.score, *times, *own, v.recipe, v.loops])
    return found


def _measured(scop: ScopRun, m: Measured | None, rankers: list[str]) -> list[Cell]:
    if m is None:
        return ["not measured", "no", None, None, None, None, *(None for _ in rankers)]
    scores = [m.scores[name].score if name in m.scores else None for name in rankers]
    chosen = "yes" if m.id == scop.chosen else "no"
    return [m.status, chosen, m.median, m.spread, m.speedup, len(m.samples), *scores]


def _cell(value: Cell) -> Cell:
    """Text escaped so that a spreadsheet sees no formula in it."""
    if isinstance(value, str):
        shown = displayed(value)
        return f"'{shown}" if shown[:1] in ("=", "+", "-", "@") else shown
    return value

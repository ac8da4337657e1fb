"""The report as one HTML file that needs nothing else: styles, script and charts are inside."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import CLexer

from polydl.base import resources
from polydl.inspect.report import tables
from polydl.inspect.report.charts import Chart
from polydl.inspect.report.draw import svg
from polydl.inspect.report.figures import charts
from polydl.inspect.report.record import Run, ScopRun
from polydl.inspect.report.tables import Table, displayed

_WIDE, _NARROW = 640, 344
"""Pixels: two charts side by side at 1440, and one on a phone of 390."""
_LONGEST = 1_000_000
"""Characters of a file that are shown."""
MOST_RANKED = 200
"""Variants of the table that were ranked and not measured."""


def html(run: Run, record: str) -> str:
    """The page; `record` is the name of the file it is made from. Raises PolyDLError when matplotlib is missing."""
    folder = resources.templates()
    environment = Environment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        autoescape=True,
        finalize=lambda value: displayed(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = (
        "".join((folder / name).read_text(encoding="utf-8") for name in names)
        for names in (("report.css", "report_chart.css"), ("report.js",))
    )
    scops = [_scop(n, scop, run) for n, scop in enumerate(run.scops)]
    sections = [{"id": s["id"], "title": s["heading"]} for s in scops]
    sections += [{"id": "machine", "title": "Machine"}, {"id": "run", "title": "Run"}]
    return environment.get_template("report.html.j2").render(
        run=run,
        title=displayed(run.source),
        sections=sections,
        scops=scops,
        machine=_table(tables.machine(run.machine)),
        facts=_table(tables.facts(run)),
        files=[
            {"title": f"The input, {displayed(run.source)}", "html": coloured(run.source_text)},
            {"title": f"The output, {displayed(run.output)}", "html": coloured(run.output_text)},
        ],
        record=displayed(record),
        style=Markup(style),
        script=Markup(script),
        style_digest=_digest(style),
        script_digest=_digest(script),
    )


def _digest(text: str) -> str:
    """As a Content-Security-Policy names what may run."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def coloured(text: str) -> Markup:
    """C text with syntax colours, as HTML."""
    shown = displayed(text[:_LONGEST], keep="\n\t")
    more = "\n/* … */\n" if len(text) > _LONGEST else ""
    formatter = HtmlFormatter(nowrap=True)
    return Markup(f"<pre>{highlight(shown + more, CLexer(stripnl=False), formatter)}</pre>")


def _scop(number: int, scop: ScopRun, run: Run) -> dict[str, Any]:
    identifier = f"scop{number}"
    variants = tables.variants(scop, MOST_RANKED)
    kept = "the original loops stay" if not scop.after else f"variant {displayed(scop.chosen)}"
    return {
        "id": identifier,
        "heading": displayed(f"{scop.function} (line {scop.line})"),
        "verdict": tables.verdict(scop),
        "facts": [{"name": name, "text": text} for name, text in tables.summary(scop)],
        "sizes": tables.sizes(scop),
        "cautions": [displayed(text) for text in (*scop.warnings, *scop.notes)],
        "code": [
            {"title": "Before", "html": coloured(scop.before)},
            {"title": f"After: {kept}", "html": coloured(scop.after or scop.before)},
        ],
        "charts": [_chart(chart, identifier) for chart in charts(scop, run.machine)],
        "chart_notes": tables.missing(scop),
        "fusion_text": tables.fusion_text(scop),
        "fusion": _table(tables.fusion(scop)),
        "dependences_text": tables.dependences_text(scop),
        "dependences": _table(tables.dependences(scop)),
        "variants_text": tables.variants_text(scop, MOST_RANKED),
        "variants": _table(variants, sortable=True),
        "remarks": [displayed(text) for text in tables.remarks(scop)],
    }


def _chart(chart: Chart, prefix: str) -> dict[str, Any]:
    table = Table(chart.title, chart.columns, chart.rows, chart.numeric)
    return {
        "name": chart.name,
        "title": displayed(chart.title),
        "description": displayed(chart.description),
        "wide": Markup(svg(chart, _WIDE, f"{prefix}-wide-")),
        "narrow": Markup(svg(chart, _NARROW, f"{prefix}-narrow-")),
        "table": _table(table),
    }


def _table(table: Table, *, sortable: bool = False) -> Markup:
    """A table that scrolls by itself where it is too wide; nothing for one without rows."""
    if not table.rows:
        return Markup("")
    return Markup("").join(_table_parts(table, sortable))


def _table_parts(table: Table, sortable: bool) -> Iterator[Markup]:
    title = displayed(table.title)
    kind = Markup(' class="sortable"') if sortable else ""
    yield Markup(
        '<div class="scroll" role="region" aria-label="{}" tabindex="0"><table{}><caption>{}</caption>'
    ).format(title, kind, title)
    yield Markup("<thead><tr>")
    for n, column in enumerate(table.columns):
        yield Markup('<th scope="col" class="{}">{}</th>').format(_class(table, n), displayed(column))
    yield Markup("</tr></thead><tbody>")
    for number, row in enumerate(table.rows):
        yield _row_start(table, number)
        for n, cell in enumerate(row):
            value = ""
            if table.values and table.values[number][n] is not None:
                value = Markup(' data-value="{}"').format(table.values[number][n])
            elif table.values and n in table.numeric:
                value = Markup(' data-value=""')
            text = escape(displayed(cell))
            if n == 0:
                yield Markup('<th scope="row" class="{}"{}>{}</th>').format(_class(table, n), value, text)
            else:
                yield Markup('<td class="{}"{}>{}</td>').format(_class(table, n), value, text)
        yield Markup("</tr>")
    yield Markup("</tbody></table></div>")


def _row_start(table: Table, number: int) -> Markup:
    if not table.ids:
        return Markup("<tr>")
    name, said = table.ids[number]
    timed = Markup(' data-timed="{}"').format(displayed(said)) if said else Markup("")
    return Markup('<tr data-variant="{}"{}>').format(displayed(name), timed)


def _class(table: Table, column: int) -> str:
    return "number" if column in table.numeric else "text"

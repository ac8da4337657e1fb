"""Charts as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import quoteattr

from polydl.base import resources
from polydl.inspect.report.charts import Axis, Chart, Entry, Line, Point, Row

_CHARACTER = 6.6
"""Average width of a character of the charts' text, pixels; its size is 12."""
_LINE = 18
_SIZE = 5
_TOP, _BOTTOM, _RIGHT = 24, 42, 14


def escaped(text: str) -> str:
    """Text for XML: markup escaped, characters that XML forbids replaced."""
    allowed = "".join(c if c in "\t\n" or c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return allowed.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _attribute(text: str) -> str:
    return quoteattr("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text))


def drawn(chart: Chart, width: int, prefix: str = "") -> str:
    """The chart as an `svg` element so many pixels wide, styled by the classes of templates/report_chart.css.

    `prefix` makes its identifiers unique in a page.
    """
    height, parts = _parts(chart, width)
    identifier = f"{prefix}{chart.name}"
    return (
        f'<svg class="chart" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="group" aria-labelledby="{identifier}-title" aria-describedby="{identifier}-desc">'
        f'<title id="{identifier}-title">{escaped(chart.title)}</title>'
        f'<desc id="{identifier}-desc">{escaped(chart.description)}</desc>{"".join(parts)}</svg>'
    )


def document(charts: Sequence[Chart], width: int = 680) -> str:
    """A file with the charts one below the other, each under its title, with colours of its own."""
    style = (resources.templates() / "report_chart.css").read_text(encoding="utf-8")
    parts, top = [], 0
    for n, chart in enumerate(charts):
        height, _ = _parts(chart, width)
        parts.append(f'<text class="heading" x="10" y="{top + 24}">{escaped(chart.title)}</text>')
        inner = drawn(chart, width, f"c{n}-").replace("<svg ", f'<svg x="0" y="{top + 34}" ', 1)
        parts.append(inner)
        top += height + 50
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg class="sheet" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" width="{width}" '
        f'height="{top}"><style>{style}</style><rect class="paper" width="{width}" height="{top}"/>'
        f"{''.join(parts)}</svg>\n"
    )


class _Frame:
    """From data to pixels."""

    def __init__(self, chart: Chart, width: int) -> None:
        self.x, self.y = chart.x, chart.y
        if isinstance(chart.y, tuple):
            self.left = 10.0
            self.top = 6.0
            self.tops = [self.top + sum(r.height for r in chart.y[:n]) for n in range(len(chart.y))]
            self.bottom = self.top + sum(r.height for r in chart.y)
        else:
            self.top = float(_TOP)
            self.left = 16 + _CHARACTER * max((len(text) for _, text in chart.y.ticks), default=1)
            self.bottom = self.top + min(340.0, 0.75 * width)
        self.right = float(width - _RIGHT)
        if isinstance(chart.y, tuple):
            self.left += 8

    def across(self, value: float) -> float:
        return self.left + self.x.fraction(value) * (self.right - self.left)

    def down(self, value: float) -> float:
        if isinstance(self.y, Axis):
            return self.bottom - self.y.fraction(value) * (self.bottom - self.top)
        number = min(len(self.y) - 1, max(0, round(value)))
        # A row's text is above its marks.
        room = self.y[number].height - _LINE
        return self.tops[number] + _LINE + (value - number + 0.5) * room


def _parts(chart: Chart, width: int) -> tuple[int, list[str]]:
    frame = _Frame(chart, width)
    parts = _grid(chart, frame, width)
    parts += [_line(m, frame) for m in chart.marks if isinstance(m, Line)]
    if isinstance(chart.y, tuple):
        parts += [_row(row, top, width) for row, top in zip(chart.y, frame.tops, strict=True)]
    parts += [_point(m, frame) for m in chart.marks if isinstance(m, Point)]
    legend, end = _legend(chart.legend, frame.bottom + _BOTTOM + 8, width)
    return round(end), [*parts, *legend]


def _grid(chart: Chart, frame: _Frame, width: int) -> list[str]:
    bottom = frame.bottom
    parts = [f'<g class="grid" aria-hidden="true"><path d="M{frame.left:.1f} {bottom:.1f}H{frame.right:.1f}"/>']
    used = -1e9
    for value, text in chart.x.ticks:
        x, half = frame.across(value), len(text) * _CHARACTER / 2
        parts.append(f'<path d="M{x:.1f} {frame.top:.1f}V{bottom:.1f}"/>')
        middle = min(max(x, half + 2), width - half - 2)
        if middle - half > used + 8:
            parts.append(f'<text x="{middle:.1f}" y="{bottom + 17:.1f}" text-anchor="middle">{escaped(text)}</text>')
            used = middle + half
    parts.append(
        f'<text class="label" x="{frame.right:.1f}" y="{bottom + 35:.1f}" text-anchor="end">{escaped(chart.x.label)}'
        "</text>"
    )
    if isinstance(chart.y, Axis):
        for value, text in chart.y.ticks:
            y = frame.down(value)
            parts.append(f'<path d="M{frame.left:.1f} {y:.1f}H{frame.right:.1f}"/>')
            parts.append(f'<text x="{frame.left - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{escaped(text)}</text>')
        parts.append(f'<text class="label" x="10" y="14">{escaped("↑ " + chart.y.label)}</text>')
    return [*parts, "</g>"]


def _row(row: Row, top: float, width: int) -> str:
    most = int((width - 30) / _CHARACTER)
    text = row.text if len(row.text) <= most else row.text[: most - 1] + "…"
    whole = f"<title>{escaped(row.text)}</title>" if text != row.text else ""
    return f'<text class="row" x="10" y="{top + 14:.1f}">{whole}{escaped(text)}</text>'


def _variant(name: str) -> str:
    return f" data-variant={_attribute(name)}" if name else ""


def _line(line: Line, frame: _Frame) -> str:
    x0, x1, y0, y1 = frame.across(line.x0), frame.across(line.x1), frame.down(line.y0), frame.down(line.y1)
    if isinstance(frame.y, tuple) and line.y0 <= -0.5:
        y0, y1 = frame.top, frame.bottom  # through all the rows
    classes = f"line s{line.series}{' dashed' if line.dashed else ''}"
    title = f"<title>{escaped(line.text)}</title>" if line.text else ""
    return (
        f'<g class="{classes}"{_variant(line.variant)}>{title}<path stroke-width="{line.width:g}" '
        f'd="M{x0:.1f} {y0:.1f}L{x1:.1f} {y1:.1f}"/></g>'
    )


def _shape(shape: str, x: float, y: float) -> str:
    r = float(_SIZE)
    match shape:
        case "square":
            return f'<rect x="{x - r + 0.5:.1f}" y="{y - r + 0.5:.1f}" width="{2 * r - 1:g}" height="{2 * r - 1:g}"/>'
        case "triangle":
            return f'<path d="M{x:.1f} {y - r - 1:.1f}l{r + 1:g} {2 * r:g}h{-2 * r - 2:g}z"/>'
        case "diamond":
            return (
                f'<path d="M{x:.1f} {y - r - 2:.1f}l{r + 2:g} {r + 2:g}l{-r - 2:g} {r + 2:g}l{-r - 2:g} {-r - 2:g}z"/>'
            )
        case _:
            return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r:g}"/>'


def _point(point: Point, frame: _Frame) -> str:
    x, y = frame.across(point.x), frame.down(point.y)
    classes = f"point s{point.series}{' hollow' if point.hollow else ''}"
    return (
        f'<g class="{classes}"{_variant(point.variant)}><title>{escaped(point.text)}</title>'
        f"{_shape(point.shape, x, y)}</g>"
    )


def _legend(entries: Sequence[Entry], top: float, width: int) -> tuple[list[str], float]:
    parts, x, y = ['<g class="legend">'], 10.0, top + 6
    for entry in entries:
        needed = 26 + len(entry.text) * _CHARACTER + 16
        if x > 10 and x + needed > width:
            x, y = 10.0, y + 20
        middle = x + 9
        if entry.shape in ("line", "dashes"):
            dashed = " dashed" if entry.shape == "dashes" else ""
            mark = f'<g class="line s{entry.series}{dashed}"><path stroke-width="2" d="M{x:.1f} {y:.1f}h18"/></g>'
        else:
            hollow = " hollow" if entry.hollow else ""
            mark = f'<g class="point s{entry.series}{hollow}">{_shape(entry.shape, middle, y)}</g>'
        parts.append(f'{mark}<text x="{x + 24:.1f}" y="{y + 4:.1f}">{escaped(entry.text)}</text>')
        x += needed
    return [*parts, "</g>"], y + 14

"""Charts drawn by matplotlib (the extra `polydl[report]`): as SVG for the page and for files, and as PNG.

matplotlib writes colours into every element. In SVG they become the variables of templates/report_chart.css, which
have other values in the dark; a mark gets its class, its variant and its words, for the page's script and for readers
of screens. Nothing is left that a page without inline styles would have to forbid.
"""

from __future__ import annotations

import io
import math
import re
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from polydl.base import resources
from polydl.base.errors import PolyDLError
from polydl.inspect.report.charts import Axis, Chart, Entry, Line, Point
from polydl.inspect.report.tables import displayed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_SVG = "http://www.w3.org/2000/svg"
_PATH, _TITLE, _DESCRIPTION, _STYLE, _RECTANGLE = (
    f"{{{_SVG}}}{name}" for name in ("path", "title", "desc", "style", "rect")
)
_LINK = "{http://www.w3.org/1999/xlink}href"
_UNUSED = {f"{{{_SVG}}}{name}" for name in ("defs", "metadata")}
_CHARACTER = 6.8
"""Pixels, the width of a character of the charts' text on average."""
_TEXT = 12
"""Pixels, the size of the charts' text."""
_MARKERS = {"circle": "o", "square": "s", "triangle": "^", "diamond": "D"}
_LEFT, _RIGHT, _BOTTOM, _LEGEND = 18, 14, 44, 20
"""Pixels: margins, and the height of a line of the legend."""
_STYLES = {"fill", "stroke", "stroke-width", "stroke-dasharray", "font-size", "text-anchor"}
"""What is taken over of an element's style; the rest is what SVG does anyway, or comes from the style sheet."""


def svg(chart: Chart, width: int, prefix: str = "") -> str:
    """The chart as an `svg` element so many pixels wide; `prefix` makes its identifiers unique in a page.

    Raises PolyDLError when matplotlib is not installed.
    """
    root = _element([chart], width, titled=False)
    name = f"{prefix}{chart.name}"
    root.attrib |= {
        "class": "chart", "role": "group", "aria-labelledby": f"{name}-title", "aria-describedby": f"{name}-desc",
    }  # fmt: skip
    for tag, kind, text in ((_DESCRIPTION, "desc", chart.description), (_TITLE, "title", chart.title)):
        part = ET.Element(tag, id=f"{name}-{kind}")
        part.text = displayed(text)
        root.insert(0, part)
    return _text(root)


def document(charts: Sequence[Chart], width: int = 680) -> str:
    """An SVG file with the charts one below the other, each under its title, for light and dark. Raises as `svg`."""
    root = _element(charts, width, titled=True)
    style = ET.Element(_STYLE)
    style.text = _sheet()
    root.insert(0, style)
    root.insert(1, ET.Element(_RECTANGLE, {"class": "paper", "width": "100%", "height": "100%"}))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{_text(root)}\n'


def png(charts: Sequence[Chart], width: int = 680) -> bytes:
    """The charts one below the other as a picture of twice so many pixels. Raises as `svg`."""
    out = io.BytesIO()
    with _drawn(charts, width, titled=True) as (figure, _):
        figure.savefig(out, format="png", dpi=144, facecolor="white", metadata={"Software": "polydl"})
    return out.getvalue()


@contextmanager
def _drawn(charts: Sequence[Chart], width: int, *, titled: bool) -> Iterator[tuple[Figure, _Drawing]]:
    """A matplotlib figure with the charts, one pixel per point of its size, and the meaning of its groups."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise PolyDLError(
            "charts are drawn by matplotlib, which is not installed",
            hint="pip install 'polydl[report]', or take --format md, which has the same figures as tables",
        ) from error
    settings: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": "polydl",
        "text.parse_math": False,
        "font.size": _TEXT,
    }
    heights = [_height(chart, width, titled) for chart in charts]
    with mpl.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)  # the browser's font has it
        figure = Figure(figsize=(width / 72, sum(heights) / 72), dpi=72, frameon=False)
        drawing = _Drawing(figure, width, sum(heights))
        for n, chart in enumerate(charts):
            drawing.chart(chart, sum(heights[:n]), titled=titled)
        yield figure, drawing


def _height(chart: Chart, width: int, titled: bool) -> float:
    """Pixels."""
    lines = math.ceil(len(chart.legend) / _columns(chart, width)) + 0.5
    return _top(chart, titled) + _plot_height(chart, width) + _BOTTOM + _LEGEND * lines


def _top(chart: Chart, titled: bool) -> float:
    return (34 if titled else 0) + (6 if isinstance(chart.y, tuple) else 24)


def _plot_height(chart: Chart, width: int) -> float:
    return sum(row.height for row in chart.y) if isinstance(chart.y, tuple) else min(340.0, 0.75 * width)


def _columns(chart: Chart, width: int) -> int:
    """Columns of the legend."""
    widest = max((len(entry.text) for entry in chart.legend), default=1) * _CHARACTER * 1.1 + 40
    return max(1, int(width / widest))


@cache
def _sheet() -> str:
    return (resources.templates() / "report_chart.css").read_text(encoding="utf-8")


@cache
def _colours() -> Mapping[str, str]:
    """The style sheet's variables and their colours on white."""
    return dict(re.findall(r"--(\w+): (#\w{6})", _sheet().partition("@media")[0]))


def _series(number: int) -> str:
    return _colours()[f"s{number}"]


class _Drawing:
    """Charts drawn into a figure, and what its groups of elements are called."""

    def __init__(self, figure: Figure, width: int, height: float) -> None:
        self.figure, self.width, self.height = figure, width, height
        self.groups: dict[str, tuple[str, str, str]] = {}
        """Identifier in matplotlib's SVG -> (class, variant, words), each empty for none."""

    def named(self, kind: str, variant: str = "", words: str = "") -> str:
        """An identifier for a group."""
        identifier = f"polydl-{len(self.groups)}"
        self.groups[identifier] = (kind, variant, words)
        return identifier

    def text(self, x: float, y: float, text: str, kind: str, words: str = "") -> None:
        """Text whose baseline begins so many pixels from the left and the top."""
        size = 16 if kind == "heading" else _TEXT
        colour = _colours()["soft" if kind == "label" else "ink"]
        made = self.figure.text(x / self.width, 1 - y / self.height, text, fontsize=size, color=colour)
        made.set_gid(self.named(kind, words=words))

    def chart(self, chart: Chart, top: float, *, titled: bool) -> None:
        """Draw a chart that begins so many pixels below the top."""
        if titled:
            self.text(10, top + 24, displayed(chart.title), "heading")
        top += _top(chart, titled)
        left, height = float(_LEFT), _plot_height(chart, self.width)
        if isinstance(chart.y, Axis):
            left = 16 + _CHARACTER * max((len(text) for _, text in chart.y.ticks), default=1)
            self.text(10, top - 10, displayed(f"↑ {chart.y.label}"), "label")
        place = (left / self.width, 1 - (top + height) / self.height, (self.width - left - _RIGHT) / self.width,
                 height / self.height)  # fmt: skip
        axes = self.figure.add_axes(place, facecolor="none")
        axes.set_gid(self.named("chart", words=chart.title) if titled else self.named(""))
        axes.set_axisbelow(True)
        axes.tick_params(length=0, pad=6, labelcolor=_colours()["soft"])
        _scale(axes, "x", chart.x)
        self._shift_labels(axes, chart.x, left)
        axes.set_xlabel(displayed(chart.x.label), loc="right", color=_colours()["soft"])
        axes.spines[["top", "left", "right"]].set_visible(False)
        axes.spines["bottom"].set(color=_colours()["rule"], linewidth=1)
        if isinstance(chart.y, Axis):
            _scale(axes, "y", chart.y)
        else:
            axes.set_ylim(height, 0)
            axes.set_yticks([])
        self._marks(axes, chart)
        if isinstance(chart.y, tuple):
            most = int((self.width - 30) / _CHARACTER)
            for n, row in enumerate(chart.y):
                text = displayed(row.text)
                shown = text if len(text) <= most else text[: most - 1] + "…"
                self.text(10, top + _row_top(chart, n) + 14, shown, "row", text if shown != text else "")
        axes.legend(
            handles=[_handle(entry) for entry in chart.legend], loc="upper left", ncols=_columns(chart, self.width),
            bbox_to_anchor=(10 / self.width, place[1] - _BOTTOM / self.height), frameon=False, borderaxespad=0,
            bbox_transform=self.figure.transFigure, borderpad=0, labelspacing=0.5, labelcolor=_colours()["ink"],
            handlelength=1.5,
        )  # fmt: skip

    def _shift_labels(self, axes: Axes, scale: Axis, left: float) -> None:
        """Ticks' texts moved inside of the chart, and left out where they would stand over the one before."""
        used = -1e9
        for label, (value, text) in zip(axes.get_xticklabels(), scale.ticks, strict=True):
            half = len(text) * _CHARACTER / 2
            x = left + scale.fraction(value) * (self.width - left - _RIGHT)
            if x - half < max(2, used + 8):
                label.set_visible(x - half > used + 8)
                label.set_horizontalalignment("left")
                half *= 2
            elif x + half > self.width - 2:
                label.set_horizontalalignment("right")
            if label.get_visible():
                used = x + half

    def _marks(self, axes: Axes, chart: Chart) -> None:
        from matplotlib.collections import LineCollection
        from matplotlib.lines import Line2D

        lines = [m for m in chart.marks if isinstance(m, Line)]
        for same, some in groupby(lines, key=lambda m: (m.series, m.width, m.dashed, m.text, m.variant)):
            series, width, dashed, words, variant = same
            ends = [((_within(chart.x, m.x0), _down(chart, m.y0)), (_within(chart.x, m.x1), _down(chart, m.y1)))
                    for m in some]  # fmt: skip
            axes.add_collection(
                LineCollection(
                    ends, colors=_series(series), linewidths=width, linestyles=(0, (5, 4)) if dashed else "solid",
                    gid=self.named("line", variant, words), clip_on=False, zorder=2, capstyle="butt",
                ),
                autolim=False,
            )  # fmt: skip
        for point in (m for m in chart.marks if isinstance(m, Point)):
            made = Line2D([_within(chart.x, point.x)], [_down(chart, point.y)], **_marker(point))
            made.set(gid=self.named("point", point.variant, point.text), clip_on=False, zorder=3)
            axes.add_artist(made)


def _scale(axes: Axes, which: str, scale: Axis) -> None:
    """Set a scale with exactly the ticks of `scale`, none of matplotlib's."""
    axes.set(**{f"{which}scale": "log" if scale.log else "linear", f"{which}lim": (scale.low, scale.high)})
    own = axes.xaxis if which == "x" else axes.yaxis
    own.set_ticks([value for value, _ in scale.ticks], [displayed(text) for _, text in scale.ticks])
    own.set_ticks([], minor=True)
    own.grid(color=_colours()["rule"], linewidth=1, clip_on=False)


def _within(scale: Axis, value: float) -> float:
    return min(max(value, scale.low), scale.high)


def _row_top(chart: Chart, number: int) -> float:
    assert isinstance(chart.y, tuple)
    return sum(row.height for row in chart.y[:number])


def _down(chart: Chart, value: float) -> float:
    """The vertical place of a mark: a value of the axis, or pixels below the first row's top; the text of a row is
    above its marks. -0.5 and half a row after the last are the ends of all the rows."""
    if isinstance(chart.y, Axis):
        return _within(chart.y, value)
    last = len(chart.y) - 1
    if value in (-0.5, last + 0.5):
        return 0 if value < 0 else _row_top(chart, last + 1)
    number = min(last, max(0, round(value)))
    room = chart.y[number].height - 18
    return _row_top(chart, number) + 18 + (value - number + 0.5) * room


def _marker(mark: Point | Entry) -> dict[str, Any]:
    """The look of a mark in matplotlib's words: filled with its colour and edged with the paper's, or the other way."""
    colours = [_series(mark.series), _colours()["paper"]]
    inside, edge = reversed(colours) if mark.hollow else colours
    return {
        "linestyle": "", "marker": _MARKERS[mark.shape], "markersize": 9.5, "markerfacecolor": inside,
        "markeredgecolor": edge, "markeredgewidth": 1.5 if mark.hollow else 1,
    }  # fmt: skip


def _handle(entry: Entry) -> Line2D:
    from matplotlib.lines import Line2D

    label = displayed(entry.text)
    if entry.shape in ("line", "dashes"):
        made = Line2D([], [], color=_series(entry.series), linewidth=2, label=label)
        if entry.shape == "dashes":
            made.set_linestyle((0, (2.5, 2)))
        return made
    return Line2D([], [], label=label, **_marker(entry))


def _element(charts: Sequence[Chart], width: int, *, titled: bool) -> ET.Element:
    """matplotlib's SVG of the charts with colours as variables, classes and words."""
    out = io.BytesIO()
    with _drawn(charts, width, titled=titled) as (figure, drawing):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    root = ET.fromstring(out.getvalue())
    root.attrib |= {"width": f"{width}", "height": f"{round(drawing.height)}"}
    _plain(root)
    names = {colour: f"var(--{name})" for name, colour in reversed([*_colours().items()])}
    for element in root.iter():
        for declaration in element.attrib.pop("style", "").split(";"):
            name, _, value = declaration.strip().partition(": ")
            if name in _STYLES:
                element.set(name, names.get(value, value))
        kind, variant, words = drawing.groups.get(element.attrib.pop("id", ""), ("", "", ""))
        if kind:
            element.set("class", kind)
        if variant:
            element.set("data-variant", displayed(variant))
        if words:
            title = ET.Element(_TITLE)
            title.text = displayed(words)
            element.insert(0, title)
    return root


def _plain(root: ET.Element) -> None:
    """Puts marks that are defined once and used by their identifier where they are used."""
    defined = {path.get("id"): path for path in root.iter(_PATH)}
    for parent in list(root.iter()):
        for place, element in enumerate(list(parent)):
            if element.tag == f"{{{_SVG}}}use":
                path = defined[element.attrib.pop(_LINK).removeprefix("#")]
                shift = f"translate({element.attrib.pop('x')} {element.attrib.pop('y')})"
                parent[place] = ET.Element(_PATH, element.attrib | {"d": path.get("d", ""), "transform": shift})
        for element in list(parent):
            if element.tag in _UNUSED:
                parent.remove(element)
        if parent.get("transform", "").startswith("rotate(-0"):
            del parent.attrib["transform"]


def _text(root: ET.Element) -> str:
    ET.register_namespace("", _SVG)
    return ET.tostring(root, encoding="unicode")

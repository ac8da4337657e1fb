"""Charts as a PNG picture, drawn by matplotlib (the extra `polydl[report]`)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from polydl.base.errors import PolyDLError
from polydl.inspect.report.charts import Axis, Chart, Entry, Line, Point
from polydl.inspect.report.tables import displayed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

_COLOURS = ("#57606a", "#0b62c4", "#b3261e", "#7a28c7", "#8a5a00", "#12733a", "#0e6f7c")
"""Those of templates/report_chart.css on white."""
_MARKERS = {"circle": "o", "square": "s", "triangle": "^", "diamond": "D"}
_DOTS = 144
"""A inch."""
_WIDTH = 7.0
"""Inches."""


def png(charts: Sequence[Chart]) -> bytes:
    """The charts one below the other. Raises PolyDLError when matplotlib is not installed."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise PolyDLError("PNG needs matplotlib", hint="pip install 'polydl[report]', or take --format svg") from error
    heights = [_height(chart) for chart in charts]
    figure = Figure(figsize=(_WIDTH, sum(heights)), dpi=_DOTS, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    parts = figure.subfigures(len(charts), 1, height_ratios=heights, squeeze=False)
    for part, chart in zip(parts[:, 0], charts, strict=True):
        axes = part.subplots()
        _draw(axes, chart)
        part.legend(
            handles=[_handle(entry) for entry in chart.legend],
            fontsize=7.5,
            frameon=False,
            loc="outside lower left",
            ncols=2,
        )
    out = io.BytesIO()
    figure.savefig(out, format="png", metadata={"Software": "polydl"})
    return out.getvalue()


def _height(chart: Chart) -> float:
    """Inches."""
    return 1.4 + 0.4 * len(chart.y) if isinstance(chart.y, tuple) else 4.0


def _plain(text: str) -> str:
    """Text that matplotlib does not take for mathematics."""
    return displayed(text).replace("$", r"\$")


def _draw(axes: Axes, chart: Chart) -> None:
    axes.set_title(_plain(chart.title), loc="left", fontsize=11, fontweight="bold")
    axes.set_axisbelow(True)
    axes.grid(color="#d8dde3", linewidth=0.7)
    axes.set_xlabel(_plain(chart.x.label), loc="right", fontsize=9)
    _scale(axes, "x", chart.x)
    if isinstance(chart.y, Axis):
        _scale(axes, "y", chart.y)
        axes.set_ylabel(_plain(chart.y.label), fontsize=9)
    else:
        axes.set_ylim(len(chart.y) - 0.5, -0.8)
        axes.set_yticks([])
        for number, row in enumerate(chart.y):
            axes.text(0.005, number - 0.3, _short(row.text), fontsize=7.5, transform=axes.get_yaxis_transform())
        axes.grid(visible=False, axis="y")
    axes.tick_params(labelsize=8, length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    for mark in chart.marks:
        colour = _COLOURS[mark.series]
        if isinstance(mark, Line):
            style = "--" if mark.dashed else "-"
            axes.plot(
                [mark.x0, mark.x1], [mark.y0, mark.y1], style, color=colour, linewidth=0.75 * mark.width, zorder=2
            )
        else:
            axes.plot([mark.x], [mark.y], _MARKERS[mark.shape], markersize=5.5, zorder=3,
                      markerfacecolor=_inside(colour, mark), markeredgecolor=_edge(colour, mark))  # fmt: skip


def _inside(colour: str, mark: Point | Entry) -> str:
    return "white" if mark.hollow else colour


def _edge(colour: str, mark: Point | Entry) -> str:
    return colour if mark.hollow else "white"


def _short(text: str) -> str:
    return _plain(text if len(text) <= 90 else text[:89] + "…")


def _scale(axes: Axes, which: str, scale: Axis) -> None:
    """The scale with its own ticks and nobody else's."""
    axes.set(**{f"{which}scale": "log" if scale.log else "linear", f"{which}lim": (scale.low, scale.high)})
    own = axes.xaxis if which == "x" else axes.yaxis
    own.set_ticks([value for value, _ in scale.ticks], [_plain(text) for _, text in scale.ticks])
    own.set_ticks([], minor=True)


def _handle(entry: Entry) -> Line2D:
    from matplotlib.lines import Line2D

    colour, label = _COLOURS[entry.series], _plain(entry.text)
    if entry.shape in ("line", "dashes"):
        return Line2D([], [], color=colour, linestyle="--" if entry.shape == "dashes" else "-", label=label)
    return Line2D([], [], linestyle="", marker=_MARKERS[entry.shape], label=label,
                  markerfacecolor=_inside(colour, entry), markeredgecolor=_edge(colour, entry))  # fmt: skip

"""Small pieces of HTML for notebooks, of which the `_repr_html_` methods of results are made.

Everything is escaped. Colours are inherited, so that a dark theme is as readable as a light one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

_CELL = "padding:0.15em 0.6em;text-align:{align};vertical-align:top"
_LINE = "border-bottom:1px solid rgba(128,128,128,0.5)"
ROWS = 20
"""Rows shown of a long table."""


def block(title: str, *parts: str) -> str:
    """A titled piece; `parts` are HTML."""
    return f'<div class="polydl"><div><strong>{escape(title)}</strong></div>{"".join(parts)}</div>'


def line(text: str) -> str:
    """A line of plain text."""
    return f"<div>{escape(text)}</div>"


def code(text: str, summary: str = "") -> str:
    """Preformatted text; with a summary it is folded."""
    pre = f'<pre style="background:none;color:inherit">{escape(text)}</pre>'
    return f"<details><summary>{escape(summary)}</summary>{pre}</details>" if summary else pre


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, total: int | None = None) -> str:
    """A table of the first `ROWS` rows: numbers to the right, rounded to four digits; text to the left.

    `total` is the number of rows there are, told where some are left out.
    """
    shown: list[Sequence[object]] = []
    for row in rows:
        if len(shown) == ROWS:
            break
        shown.append(row)
    head = "".join(f'<th style="{_CELL.format(align="left")};{_LINE}">{escape(c)}</th>' for c in columns)
    body = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in shown)
    more = f"<div>… {total - len(shown)} more</div>" if total is not None and total > len(shown) else ""
    return f'<table style="border-collapse:collapse"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}'


def facts(pairs: Mapping[str, object]) -> str:
    """Names and values, a row each."""
    rows = "".join(
        f'<tr><th style="{_CELL.format(align="left")}">{escape(name)}</th>{_cell(value, "left")}</tr>'
        for name, value in pairs.items()
    )
    return f'<table style="border-collapse:collapse"><tbody>{rows}</tbody></table>'


def _cell(value: object, align: str = "") -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    text = f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)
    return f'<td style="{_CELL.format(align=align or ("right" if number else "left"))}">{escape(text)}</td>'

"""Prints what `polydl explain` found as a table, with one column per variant."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from polydl.base.units import bytes_text, seconds_text
from polydl.inspect.edges import size_text
from polydl.inspect.explain import Explained, Explanation
from polydl.inspect.sizes_in_words import at_lines, size_lines
from polydl.inspect.terminal import output_console, say


def show_explained(found: Explained) -> None:
    """Variants taken apart, side by side."""
    console = output_console()
    if found.variants:
        _show_variants(console, found)
    for line in (*(f"rewritten: {step}" for step in found.rewrites), *found.fusion, *map(str, found.missed)):
        say(console, line)
    if found.sizes is not None:
        say(console, f"sizes of {found.scop.function}", "bold")
        for line in size_lines(found.sizes):
            say(console, line)
    if found.at is not None:
        for line in at_lines(found.at):
            say(console, line)


def _show_variants(console: Console, found: Explained) -> None:
    title = f"{found.scop.function} on {found.machine.name}, {found.threads} threads"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, show_lines=True)
    table.add_column("")
    for variant in found.variants:
        table.add_column(Text(variant.id), overflow="fold")
    rows: dict[str, Sequence[RenderableType]] = {
        "recipe": [Text(str(v.recipe)) for v in found.variants],
        "loop string": [_loop_lines(v) for v in found.variants],
        "rankers": [_places(v) for v in found.variants],
        "values\nbetween\nnests": [_edges(v) for v in found.variants],
        "measured": [_measured(v) for v in found.variants],
        "timed by\noptimize": [Text(v.why_timed) for v in found.variants],
        "bytes of the\nworking sets\nper level": [
            _grid([(name, bytes_text(size.upper)) for name, size in v.level_bytes.items()]) for v in found.variants
        ],
        "moved, as\ntraffic and\ntrace see it": [_moved(v) for v in found.variants],
        "dependences": [Group(_reuses(v), v.note) if v.note else _reuses(v) for v in found.variants],
        "code": [Text(v.code) for v in found.variants],
    }
    for name, cells in rows.items():
        table.add_row(name, *cells)
    console.print(table)


def _grid(rows: Sequence[Sequence[str]], header: Sequence[str] = ()) -> Table:
    table = Table(box=None, show_header=bool(header), padding=(0, 2, 0, 0))
    for column in header if header else [""] * max((len(r) for r in rows), default=1):
        table.add_column(column)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _loop_lines(variant: Explanation) -> Text:
    return Text("\n".join(f"{n}: {s['loops']} {s['blocks']}".rstrip() for n, s in variant.loop_strings().items()))


def _edges(variant: Explanation) -> Table:
    rows = [
        (
            one.edge.array, f"{one.edge.producer or 'caller'} → {one.edge.consumer}", size_text(one.edge), one.lies,
            one.level, one.said,
        )
        for one in variant.edges
    ]  # fmt: skip
    return _grid(rows, ("array", "from, to", "size", "lies", "in", "merged")) if rows else _grid([("one nest",)])


def _places(variant: Explanation) -> Table:
    rows = [(name, f"{p.rank} of {p.of}", seconds_text(p.score, 4)) for name, p in variant.places.items()]
    return _grid(rows, ("", "rank", "predicted"))


def _measured(variant: Explanation) -> Text:
    found = variant.measured
    if found is None:
        return Text("not measured (--measure)")
    spread = f", spread {found.spread * 100:.1f} %" if math.isfinite(found.spread) else ""
    return Text(f"{seconds_text(found.seconds)}{spread}" if found.verified else f"not timed: {found.message}")


def _moved(variant: Explanation) -> Table:
    """The bytes moved, beside the first ranker that says them: those of the model are features of all estimates."""
    found: dict[str, tuple[str, float]] = {}
    for ranker, place in variant.places.items():
        for name, value in place.features.items():
            if name.endswith("_bytes") and name.startswith(("into_", "from_")):
                found.setdefault(name, (ranker, value))
    return _grid(
        [
            (ranker, name.removesuffix("_bytes").replace("_", " "), bytes_text(value))
            for name, (ranker, value) in found.items()
        ]
    )


def _reuses(variant: Explanation) -> Table:
    """The dependences, those with equal sizes and places in one row."""
    kinds: dict[tuple[str, ...], list[str]] = {}
    for reuse in variant.reuses:
        found = reuse.working_set
        low, high = (bytes_text(one.bytes.upper) for one in (found.min_footprint, found.max_footprint))
        row = (found.array, found.carried_by, low, reuse.level_min, high, reuse.level_max)
        kinds.setdefault(row, []).append(found.kind.value)
    rows = [(" ".join(dict.fromkeys(kind)), *row) for row, kind in kinds.items()]
    return _grid(rows, ("kind", "array", "carried by", "min", "in", "max", "in"))

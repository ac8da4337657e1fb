"""What a nest in time touches, in cache lines."""

from __future__ import annotations

import math
from collections.abc import Mapping

from polydl.base.records import dataclass
from polydl.model import isl
from polydl.model.layout import Layout
from polydl.model.nest import TimedNest
from polydl.model.time import map_from_affs


@dataclass(frozen=True, slots=True)
class LineAccess:
    """An access in terms of time and cache lines."""

    statement: str
    array: str
    write: bool
    relation: isl.Map
    """{ [t0, …, tn] -> [a0, …, line] } at the times at which the access happens: the line's number within what the
    coordinates in front say, a row or several that make up whole lines."""


@dataclass(frozen=True, slots=True)
class LineTrace:
    """All accesses of a nest: at each time those that happen there follow each other in this order."""

    depth: int
    """Dimensions of time."""
    accesses: tuple[LineAccess, ...]
    flat: bool
    """Each array is one row: the only coordinate counts the lines of the array from its start."""


def line_trace(
    nest: TimedNest, line_bytes: int, layouts: Mapping[str, Layout] | None = None, *, flat: bool = False
) -> LineTrace:
    """The accesses of a nest in lines of `line_bytes`, each array beginning with a line.

    With `layouts` elements share lines as they do in memory, where a line may hold the end of a row and the beginning
    of the next. Without, or for an array whose sizes are not known, every row begins with a line of its own, as in
    HayStack (Gysi, Grosser, Brandner, Hoefler, PLDI 2019). `flat`, for `layouts` whose sizes are known, numbers the
    lines of each array.

    An element that crosses the end of a line counts as one access of the line in which it begins.
    """
    found = []
    for access in nest.accesses:
        relation = access.relation.intersect_domain(nest.domain)
        layout = None if layouts is None else layouts[access.array]
        lines = _lines(relation.get_space().range(), layout, nest.element_bytes[access.array], line_bytes, flat)
        found.append(LineAccess(access.statement, access.array, access.write, relation.apply_range(lines).coalesce()))
    return LineTrace(isl.arity(nest.domain), tuple(found), flat)


def _lines(elements: isl.Space, layout: Layout | None, element_bytes: int, line_bytes: int, flat: bool) -> isl.Map:
    """{ A[a…] -> [a0, …, line] }."""
    every = isl.Set.universe(elements)
    subscripts: list[isl.Aff] = isl.coordinates(elements)
    if not subscripts:
        return map_from_affs(every, [isl.constant(elements, 0)] if flat else [])

    def line(inside: isl.Aff) -> isl.Aff:
        return isl.floor_div(inside.scale_val(isl.value(element_bytes)), line_bytes)

    if layout is not None and layout.packed is None and not layout.is_row_major:
        return map_from_affs(every, [line(layout.address(elements))])
    if layout is None or None in layout.shape[1:]:
        return map_from_affs(every, [*subscripts[:-1], line(subscripts[-1])])
    shape = [extent or 0 for extent in layout.shape]
    # Rows that are whole lines: of the fewest inner dimensions, else of all of them.
    first = len(shape) - 1
    while first > 0 and (flat or math.prod(shape[first:]) * element_bytes % line_bytes):
        first -= 1
    # Rows in which a line fits: most inner dimensions are too short.
    cut = len(shape) - 1
    while cut > first and math.prod(shape[cut:]) * element_bytes < line_bytes:
        cut -= 1
    inside = isl.constant(elements, 0)
    for place in range(first, len(shape)):
        inside = inside.add(subscripts[place].scale_val(isl.value(math.prod(shape[place + 1 :]))))
    if cut == first or flat or line_bytes % element_bytes:
        return map_from_affs(every, [*subscripts[:first], line(inside)])
    # A line goes by the row in which it begins, its element's or the one before: so the rows stay apart in what isl
    # finds out about lines, and a number of lines is one of rows times one of lines in a row.
    begin = isl.constant(elements, 0)
    for place in range(cut, len(shape)):
        begin = begin.add(subscripts[place].scale_val(isl.value(math.prod(shape[place + 1 :]))))
    here = begin.ge_set(inside.mod_val(isl.value(line_bytes // element_bytes)))
    found = map_from_affs(here, [*subscripts[:cut], line(inside)])
    before = every.subtract(here)
    for place in reversed(range(first, cut)):
        own = subscripts[place].ge_set(isl.constant(elements, 1))
        row = [*subscripts[:place], subscripts[place].add_constant_val(isl.value(-1))]
        row += [isl.constant(elements, shape[inner] - 1) for inner in range(place + 1, cut)]
        found = found.union(map_from_affs(before.intersect(own), [*row, line(inside)]))
        before = before.subtract(own)
    return found

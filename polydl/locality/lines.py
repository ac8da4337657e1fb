"""What a nest in time touches, in cache lines."""

from __future__ import annotations

from dataclasses import dataclass

from polydl.model import isl
from polydl.model.nest import TimedNest
from polydl.model.time import map_from_affs


@dataclass(frozen=True, slots=True)
class LineAccess:
    """An access in terms of time and cache lines."""

    statement: str
    array: str
    write: bool
    relation: isl.Map
    """{ [t0, …, tn] -> [a0, …, line] } at the times at which the access happens: the subscripts of the row, and the
    number of the line in it."""


@dataclass(frozen=True, slots=True)
class LineTrace:
    """All accesses of a nest: at each time those that happen there follow each other in this order."""

    depth: int
    """Dimensions of time."""
    accesses: tuple[LineAccess, ...]


def line_trace(nest: TimedNest, line_bytes: int) -> LineTrace:
    """The accesses of a nest in lines of `line_bytes`, on which every row of an array begins with a line of its own.

    That is the model of HayStack (Gysi, Grosser, Brandner, Hoefler: A Fast Analytical Model of Fully Associative
    Caches, PLDI 2019). Where the rows are no multiple of a line in memory, a line may hold the end of one and the
    beginning of the next. An element that is larger than a line counts as one line.
    """
    found = []
    for access in nest.accesses:
        relation = access.relation.intersect_domain(nest.domain)
        elements = max(1, line_bytes // nest.element_bytes[access.array])
        found.append(LineAccess(access.statement, access.array, access.write, _in_lines(relation, elements)))
    return LineTrace(isl.arity(nest.domain), tuple(found))


def _in_lines(relation: isl.Map, elements: int) -> isl.Map:
    target = isl.Set.universe(relation.get_space().range())
    subscripts: list[isl.PwAff | isl.Aff] = list(isl.coordinates(target))
    if subscripts and elements > 1:
        last = subscripts.pop()
        subscripts.append(isl.floor_div(last, elements))
    return relation.apply_range(map_from_affs(target, subscripts)).coalesce()

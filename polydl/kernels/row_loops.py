"""Reads from the printed loops whether the innermost ones form a row: its loops, bounds and statements.

Iterations of a loop that is written out are statements beside one another.
"""

from __future__ import annotations

from collections.abc import Sequence

from polydl.base.records import dataclass
from polydl.kernels.vector_text import NotVectorised
from polydl.model import isl
from polydl.model.scop import Statement


@dataclass(frozen=True, slots=True)
class RowStatement:
    """A statement in the body of a loop."""

    statement: Statement
    schedule: isl.Map
    """{ S[i…] -> [c…] } its instances in terms of the loops in C."""


@dataclass(frozen=True, slots=True)
class RowLoops:
    """The loops that become one row: the outermost first, in terms of the printed loops."""

    dims: tuple[int, ...]
    """Positions among the printed loops, neighbours."""
    extents: tuple[int, ...]
    """Iterations of all but the first."""


def together(body: Sequence[RowStatement], inner: Sequence[bool] = ()) -> list[RowStatement]:
    """The statements of a body in terms of the loops that are not written out, where all of them run; those that are in
    one more loop (`inner`), which runs wherever the others do, in terms of that one, too. Raises NotVectorised."""
    found = [_in_loops(at) for at in body]
    outer = [at.schedule for at in in_columns(list(map(RowStatement, (at.statement for at in body), found)), inner)]
    if not outer or len({isl.range_arity(schedule) for schedule in outer}) > 1:
        raise NotVectorised("statements in different loops")
    depth = isl.range_arity(outer[0])
    if any(inner) and any(isl.range_arity(s) != depth + int(more) for s, more in zip(found, inner, strict=True)):
        raise NotVectorised("statements in different loops")
    common = outer[0].range()
    for other in outer[1:]:
        common = common.intersect(other.range())
    return [
        RowStatement(at.statement, schedule if inner and inner[k] else schedule.intersect_range(common).coalesce())
        for k, (at, schedule) in enumerate(zip(body, found, strict=True))
    ]


def in_columns(body: Sequence[RowStatement], inner: Sequence[bool]) -> list[RowStatement]:
    """The statements that a column of a row runs once; where all are in one more loop (`inner`), these without it."""
    once = [at for k, at in enumerate(body) if not (inner and inner[k])]
    if once:
        return once
    depths = [range(isl.range_arity(at.schedule) - 1) for at in body]
    return [RowStatement(at.statement, isl.range_onto(at.schedule, d)) for at, d in zip(body, depths, strict=True)]


def may_run(running: Sequence[RowStatement], others: Sequence[RowStatement]) -> bool:
    """Whether in some iteration of the loops that are not written out these statements run and the others don't."""
    found = [_in_loops(at).range() for at in (*running, *others)]
    if len({isl.arity(times) for times in found}) > 1:
        return True
    common = found[0] if running else isl.Set.universe(found[0].get_space())
    for times in found[1 : len(running)]:
        common = common.intersect(times)
    for times in found[len(running) :]:
        common = common.subtract(times)
    return not common.is_empty()


def _in_loops(at: RowStatement) -> isl.Map:
    """{ S[i…] -> [c…] } of the loops that are not written out."""
    return isl.range_onto(at.schedule, range(_loops(at.schedule.range())))


def _loops(times: isl.Set) -> int:
    """How many loops are left without the innermost ones that have one iteration each time."""
    depth = arity = isl.arity(times)
    while depth and isl.is_determined(times, depth - 1):
        depth -= 1
    return depth or arity


def row_loops(body: Sequence[RowStatement], inner: Sequence[tuple[int, int]]) -> RowLoops:
    """The innermost loops around a body as a row; `inner` holds the first and last value of all but the outermost.

    Raises NotVectorised where the printed loops are not the last dimensions of the schedule, all of them running.
    """
    depths = {isl.range_arity(at.schedule) for at in body}
    depth = depths.pop()
    first = depth - len(inner) - 1
    if depths or first < 0:
        raise NotVectorised("statements in different loops")
    for at in body:
        times = at.schedule.range()
        for d, (low, high) in enumerate(inner, first + 1):
            if (isl.least(times, d), isl.greatest(times, d)) != (low, high):
                raise NotVectorised("loops that are not the schedule's")
        if isl.is_determined(times, first):
            raise NotVectorised("a loop of one iteration")
    return RowLoops(tuple(range(first, depth)), tuple(high - low + 1 for low, high in inner))
